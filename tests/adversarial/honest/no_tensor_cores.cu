// honest: a plain CUDA kernel, which is right and has no target instruction
// expect: target_instructions_missing
__global__ void plain(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  const __nv_bfloat16 *a = A + size_t(blockIdx.y) * K, *b = B + (size_t(blockIdx.x) * 256 + threadIdx.x) * K;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += __bfloat162float(a[k]) * __bfloat162float(b[k]);
  C[size_t(blockIdx.y) * N + blockIdx.x * 256 + threadIdx.x] = __float2bfloat16(sum);
}
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
