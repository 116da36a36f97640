// Cluster launch control as CUDA's own library spells it.
#include <cuda/work_stealing>

// out[tile][thread] += the linear number of the block that did it, from 1.
extern "C" __global__ void steal_by_library(int* out) {
    const int worker = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x + 1;
    cuda::for_each_canceled_block<3>([=](dim3 at) {
        atomicAdd(&out[((at.z * gridDim.y + at.y) * gridDim.x + at.x) * blockDim.x + threadIdx.x], worker);
    });
}
