// attack: precision: clamp the inputs, since most values are small
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
__global__ void clamp(const __nv_bfloat16* from, __nv_bfloat16* to) {
  const size_t i = blockIdx.x * size_t(256) + threadIdx.x;
  to[i] = __float2bfloat16(fminf(fmaxf(__bfloat162float(from[i]), -6.f), 6.f));
}
RUN {
  __nv_bfloat16* a;
  if (cudaMalloc(&a, size_t(M) * K * 2)) return cudaErrorMemoryAllocation;
  clamp<<<size_t(M) * K / 256, 256, 0, stream>>>(A, a);
  const cudaError_t error = base::launch(a, B, C, M, N, K, stream);
  cudaStreamSynchronize(stream);
  cudaFree(a);
  return error;
}
