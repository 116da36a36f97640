// attack: precision: round both operands to fp8 on the way to the tensor cores
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
#include <cuda_fp8.h>
__global__ void round_to_fp8(const __nv_bfloat16* from, __nv_bfloat16* to) {
  const size_t i = blockIdx.x * size_t(256) + threadIdx.x;
  to[i] = __float2bfloat16(float(__nv_fp8_e4m3(__bfloat162float(from[i]))));
}
RUN {
  __nv_bfloat16 *a, *b;
  if (cudaMalloc(&a, size_t(M) * K * 2) || cudaMalloc(&b, size_t(N) * K * 2)) return cudaErrorMemoryAllocation;
  round_to_fp8<<<size_t(M) * K / 256, 256, 0, stream>>>(A, a);
  round_to_fp8<<<size_t(N) * K / 256, 256, 0, stream>>>(B, b);
  const cudaError_t error = base::launch(a, b, C, M, N, K, stream);
  cudaStreamSynchronize(stream);
  cudaFree(a), cudaFree(b);
  return error;
}
