// attack: fallback: the tensor instruction of the architecture before
// caught by: simulator instructions not_executed; gpu instructions not_executed
// with: base.cu
#include <mma.h>
__global__ void old(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  using namespace nvcuda::wmma;
  __shared__ float out[256];
  fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> a;
  fragment<matrix_b, 16, 16, 16, __nv_bfloat16, col_major> b;
  fragment<accumulator, 16, 16, 16, float> d;
  fill_fragment(d, 0.f);
  for (int k = 0; k < K; k += 16) {
    load_matrix_sync(a, A + size_t(blockIdx.y) * 16 * K + k, K);
    load_matrix_sync(b, B + size_t(blockIdx.x) * 16 * K + k, K);
    mma_sync(d, a, b, d);
  }
  store_matrix_sync(out, d, 16, mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32)
    C[(size_t(blockIdx.y) * 16 + i / 16) * N + blockIdx.x * 16 + i % 16] = __float2bfloat16(out[i]);
}
RUN {
  old<<<dim3(N / 16, M / 16), 32, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
