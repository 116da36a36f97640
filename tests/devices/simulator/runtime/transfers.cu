// Whether copies and fills of every kind move the right bytes. `check(group)` returns how many did not.

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

__device__ int numbers[16] = {5, 6, 7};
__constant__ int constants[8] = {1, 2, 3, 4};
__device__ int* pointer_to_numbers = numbers;
__managed__ int managed_counter = 3;

__global__ void sum(const int* in, int n, int* out) {
    int total = 0;
    for (int i = 0; i < n; ++i) total += in[i];
    *out = total;
}
__global__ void read_variables(int* out) {
    out[0] = numbers[0] + constants[3];
    out[1] = pointer_to_numbers[2];
    out[2] = managed_counter++;
}
__global__ void shape(unsigned* out) {
    if (threadIdx.x | threadIdx.y | threadIdx.z | blockIdx.x | blockIdx.y | blockIdx.z) return;
    unsigned cluster;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(cluster));
    const unsigned values[] = {gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z, cluster};
    for (int i = 0; i < 7; ++i) out[i] = values[i];
}
struct Mixed {
    char a;
    double b;
    short c[3];
};
__global__ void echo(char a, Mixed m, float f, uint64_t* out, short last) {
    out[0] = uint64_t(a);
    out[1] = uint64_t(m.a) + uint64_t(m.b) + uint64_t(m.c[2]);
    out[2] = uint64_t(f);
    out[3] = uint64_t(last);
}

int wrong;
void expect(bool good) { wrong += !good; }
#define OK(call) expect((call) == cudaSuccess)

std::vector<unsigned char> pattern(size_t n, int seed) {
    std::vector<unsigned char> bytes(n);
    for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + seed + i / 251);
    return bytes;
}

void lines() {  // more than one bounce buffer
    const size_t n = (9 << 20) + 123;
    const auto in = pattern(n, 1);
    std::vector<unsigned char> out(n);
    unsigned char *a, *b;
    OK(cudaMalloc(&a, n));
    OK(cudaMalloc(&b, n));
    OK(cudaMemcpy(a, in.data(), n, cudaMemcpyHostToDevice));
    OK(cudaMemcpyAsync(b, a, n, cudaMemcpyDeviceToDevice, nullptr));
    OK(cudaMemcpy(out.data(), b, n, cudaMemcpyDefault));
    expect(in == out);
    OK(cudaMemset(b + 7, 0xAB, 1000));
    OK(cudaMemcpy(out.data(), b, n, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < 2000; ++i) expect(out[i] == (i >= 7 && i < 1007 ? 0xAB : in[i]));
    OK(cudaFree(a));
    OK(cudaFree(b));
}

void rectangles() {
    const size_t width = 37, rows = 11, pitch = 50, total = pitch * rows;
    const auto in = pattern(total, 2);
    std::vector<unsigned char> out(total, 9);
    unsigned char* a;
    size_t device_pitch;
    OK(cudaMallocPitch(&a, &device_pitch, width, rows));
    OK(cudaMemset2D(a, device_pitch, 0x11, width, rows));
    OK(cudaMemcpy2D(a, device_pitch, in.data(), pitch, width - 5, rows - 1, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(out.data(), pitch, a, device_pitch, width, rows, cudaMemcpyDeviceToHost));
    for (size_t y = 0; y < rows; ++y)
        for (size_t x = 0; x < pitch; ++x) {
            const unsigned char copied = y < rows - 1 && x < width - 5 ? in[y * pitch + x] : 0x11;
            expect(out[y * pitch + x] == (x < width ? copied : 9));
        }
    OK(cudaFree(a));
    // 3-D: a box of 4 x 3 x 2 out of the middle
    unsigned char* box;
    OK(cudaMalloc(&box, 10 * 8 * 6));
    OK(cudaMemset(box, 0, 480));
    const auto source = pattern(480, 3);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<unsigned char*>(source.data()), 10, 10, 8);
    copy.dstPtr = make_cudaPitchedPtr(box, 10, 10, 8);
    copy.srcPos = copy.dstPos = make_cudaPos(2, 1, 3);
    copy.extent = make_cudaExtent(4, 3, 2);
    copy.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&copy));
    std::vector<unsigned char> back(480);
    OK(cudaMemcpy(back.data(), box, 480, cudaMemcpyDeviceToHost));
    for (int z = 0; z < 6; ++z)
        for (int y = 0; y < 8; ++y)
            for (int x = 0; x < 10; ++x) {
                const bool inside = x >= 2 && x < 6 && y >= 1 && y < 4 && z >= 3 && z < 5;
                const int i = (z * 8 + y) * 10 + x;
                expect(back[i] == (inside ? source[i] : 0));
            }
    OK(cudaFree(box));
}

void fills() {
    CUdeviceptr p;
    uint16_t halves[64];
    uint32_t words[64];
    OK(cudaFree(nullptr));  // the driver alone makes no context
    expect(cuMemAlloc(&p, 256) == CUDA_SUCCESS);
    expect(cuMemsetD32(p, 0xDEADBEEF, 64) == CUDA_SUCCESS);
    expect(cuMemsetD16(p + 8, 0x1234, 3) == CUDA_SUCCESS);
    expect(cuMemcpyDtoH(words, p, 256) == CUDA_SUCCESS);
    memcpy(halves, words, sizeof halves);
    expect(words[0] == 0xDEADBEEF && words[63] == 0xDEADBEEF);
    expect(halves[3] == 0xDEAD && halves[4] == 0x1234 && halves[6] == 0x1234 && halves[7] == 0xDEAD);
    expect(cuMemsetD2D32(p, 64, 7, 2, 4) == CUDA_SUCCESS);
    expect(cuMemcpyDtoH(words, p, 256) == CUDA_SUCCESS);
    for (int i = 0; i < 64; ++i) expect(i % 16 < 2 ? words[i] == 7 : words[i] != 7);
    expect(cuMemFree(p) == CUDA_SUCCESS);
}

void variables() {
    int *out, results[3], fresh[2] = {40, 50};
    OK(cudaMalloc(&out, sizeof results));
    read_variables<<<1, 1>>>(out);
    OK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
    expect(results[0] == 5 + 4 && results[1] == 7 && results[2] == 3 && managed_counter == 4);
    OK(cudaMemcpyToSymbol(numbers, fresh, 4));
    OK(cudaMemcpyToSymbol(constants, fresh + 1, 4, 12));
    managed_counter = 90;
    read_variables<<<1, 1>>>(out);
    OK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
    expect(results[0] == 40 + 50 && results[1] == 7 && results[2] == 90 && managed_counter == 91);
    OK(cudaFree(out));
}

void host_memory() {  // a kernel reads pinned and managed memory where the host wrote it
    int *pinned, *managed, *out, total = 0;
    OK(cudaMallocHost(&pinned, 400));
    OK(cudaMallocManaged(&managed, 400));
    OK(cudaMalloc(&out, 4));
    for (int i = 0; i < 100; ++i) pinned[i] = i, managed[i] = 2 * i;
    sum<<<1, 1>>>(pinned, 100, out);
    OK(cudaMemcpy(&total, out, 4, cudaMemcpyDeviceToHost));
    expect(total == 4950);
    sum<<<1, 1>>>(managed, 100, managed + 1);
    OK(cudaDeviceSynchronize());
    expect(managed[1] == 9900);
    OK(cudaMemcpy(pinned, managed, 400, cudaMemcpyDefault));
    expect(pinned[1] == 9900);
    OK(cudaFreeHost(pinned));
    OK(cudaFree(managed));
    OK(cudaFree(out));
}

void launches() {
    unsigned *out, seen[7];
    OK(cudaMalloc(&out, sizeof seen));
    cudaStream_t stream;
    OK(cudaStreamCreate(&stream));
    shape<<<dim3(2, 3, 4), dim3(5, 6, 7), 0, stream>>>(out);
    OK(cudaMemcpy(seen, out, sizeof seen, cudaMemcpyDeviceToHost));
    const unsigned wanted[] = {2, 3, 4, 5, 6, 7, 1};
    expect(!memcmp(seen, wanted, sizeof seen));
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 2};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4, 1, 2);
    config.blockDim = 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    OK(cudaLaunchKernelEx(&config, shape, out));
    OK(cudaMemcpy(seen, out, sizeof seen, cudaMemcpyDeviceToHost));
    const unsigned clustered[] = {4, 1, 2, 32, 1, 1, 4};
    expect(!memcmp(seen, clustered, sizeof seen));
    uint64_t *echoed, values[4];
    OK(cudaMalloc(&echoed, sizeof values));
    Mixed mixed = {3, 10.0, {0, 0, 20}};
    echo<<<1, 1>>>(7, mixed, 99.0f, echoed, short(-1));
    OK(cudaMemcpy(values, echoed, sizeof values, cudaMemcpyDeviceToHost));
    expect(values[0] == 7 && values[1] == 33 && values[2] == 99 && values[3] == ~0ull);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(out));
    OK(cudaFree(echoed));
}

}  // namespace

extern "C" int check(const char* group) {
    const struct {
        const char* name;
        void (*check)();
    } groups[] = {{"lines", lines},         {"rectangles", rectangles},   {"fills", fills},
                  {"variables", variables}, {"host_memory", host_memory}, {"launches", launches}};
    for (const auto& each : groups)
        if (!strcmp(each.name, group)) {
            each.check();
            return wrong;
        }
    return -1;
}
