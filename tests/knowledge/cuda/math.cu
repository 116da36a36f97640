// Arithmetic, ldmatrix and stmatrix, swizzles.
#include <ptxgym/math.cuh>
#include <ptxgym/matrix.cuh>
#include <ptxgym/swizzle.cuh>
using namespace ptxgym;

extern "C" __global__ void functions(const float* in, float* exp2s, float* logs, uint32_t* pairs, float* max,
                                     float* sum) {
    const int t = threadIdx.x;
    exp2s[t] = ex2_approx(in[t]);
    logs[t] = lg2_approx(fabsf(in[t]));
    pairs[t] = cvt_bf16x2(in[t], in[t ^ 1]);
    max[t] = quad_max(in[t]);
    sum[t] = quad_sum(in[t]);
}

// One warp: 32 rows of eight 16-bit elements, four matrices.
extern "C" __global__ void load_matrices(const uint4* in, uint32_t* out) {
    __shared__ alignas(128) uint4 rows[32];
    const int lane = threadIdx.x;
    rows[lane] = in[lane];
    __syncwarp();
    uint32_t a[1], b[2], c[4], d[1], e[2], f[4];
    ldmatrix_x1(a, &rows[lane]);
    ldmatrix_x2(b, &rows[lane]);
    ldmatrix_x4(c, &rows[lane]);
    ldmatrix_x1_trans(d, &rows[lane]);
    ldmatrix_x2_trans(e, &rows[lane]);
    ldmatrix_x4_trans(f, &rows[lane]);
    const uint32_t all[14] = {a[0], b[0], b[1], c[0], c[1], c[2], c[3], d[0], e[0], e[1], f[0], f[1], f[2], f[3]};
    for (int i = 0; i < 14; ++i) out[i * 32 + lane] = all[i];
}

extern "C" __global__ void store_matrices(const uint32_t* in, uint4* out) {
    __shared__ alignas(128) uint4 rows[6][32];
    const int lane = threadIdx.x;
    for (int i = 0; i < 6; ++i) rows[i][lane] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    uint32_t r[4];
    for (int i = 0; i < 4; ++i) r[i] = in[i * 32 + lane];
    stmatrix_x1(&rows[0][lane], r[0]);
    stmatrix_x2(&rows[1][lane], r[0], r[1]);
    stmatrix_x4(&rows[2][lane], r[0], r[1], r[2], r[3]);
    stmatrix_x1_trans(&rows[3][lane], r[0]);
    stmatrix_x2_trans(&rows[4][lane], r[0], r[1]);
    stmatrix_x4_trans(&rows[5][lane], r[0], r[1], r[2], r[3]);
    __syncwarp();
    for (int i = 0; i < 6; ++i) out[i * 32 + lane] = rows[i][lane];
}

// Offsets of 64 rows and every byte of a slab, and the steps of eight products.
template <Swizzle SWIZZLE>
__device__ void tabulate(int*& out) {
    for (int row = 0; row < 64; ++row)
        for (int byte = 0; byte < SPAN<SWIZZLE>; ++byte) *out++ = swizzled_offset<SWIZZLE>(row, byte);
    for (int i = 0; i < 8; ++i) *out++ = step_mn_major<SWIZZLE>(i);
}
extern "C" __global__ void offsets(int* out, uint32_t* address) {
    __shared__ alignas(1024) int tile[4];
    *address = shared_address(tile + 1) - shared_address(tile);
    tabulate<Swizzle::NONE>(out);
    tabulate<Swizzle::B32>(out);
    tabulate<Swizzle::B64>(out);
    tabulate<Swizzle::B128>(out);
    for (int i = 0; i < 8; ++i) {
        *out++ = step_k_major<Swizzle::B32>(i, 4096);
        *out++ = step_k_major<Swizzle::B64>(i, 4096);
        *out++ = step_k_major<Swizzle::B128>(i, 4096);
    }
}
