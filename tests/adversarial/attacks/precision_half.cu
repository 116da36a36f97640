// attack: precision: multiply in fp16, whose tensor instruction is another
// caught by: simulator instructions token_use; gpu instructions token_use
// with: base.cu
#include <cuda_fp16.h>
__global__ void to_half(const __nv_bfloat16* from, __half* to) {
  const size_t i = blockIdx.x * size_t(256) + threadIdx.x;
  to[i] = __float2half(__bfloat162float(from[i]));
}
__device__ void multiply_half(float (&d)[4], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
}
__global__ void half_gemm(const __half* A, const __half* B, __nv_bfloat16* C, int N, int K) {
  __shared__ alignas(128) char a[base::STEP_BYTES], b[base::STEP_BYTES];
  const int row = blockIdx.y * 64, col = blockIdx.x * 64, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float d[8][4] = {};
  for (int k = 0; k < K; k += base::STEP) {
    base::load(a, reinterpret_cast<const __nv_bfloat16*>(A), row, k, K);
    base::load(b, reinterpret_cast<const __nv_bfloat16*>(B), col, k, K);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int n = 0; n < 8; ++n)
        multiply_half(d[n], base::descriptor(a + i * 2048), base::descriptor(b + i * 2048 + n * 128));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    __syncthreads();
  }
  for (int n = 0; n < 8; ++n)
    for (int j = 0; j < 4; ++j)
      C[size_t(row + warp * 16 + lane / 4 + j / 2 * 8) * N + col + n * 8 + lane % 4 * 2 + j % 2] = __float2bfloat16(d[n][j]);
}
RUN {
  __half *a, *b;
  if (cudaMalloc(&a, size_t(M) * K * 2) || cudaMalloc(&b, size_t(N) * K * 2)) return cudaErrorMemoryAllocation;
  to_half<<<size_t(M) * K / 256, 256, 0, stream>>>(A, a);
  to_half<<<size_t(N) * K / 256, 256, 0, stream>>>(B, b);
  half_gemm<<<dim3(N / 64, M / 64), 128, 0, stream>>>(a, b, C, N, K);
  cudaStreamSynchronize(stream);
  cudaFree(a), cudaFree(b);
  return cudaGetLastError();
}
