// honest: the first columns of every row are a plain dot product, the rest is done by tensor cores
// with: base.cu
__global__ void fringe(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  float sum = 0;
  for (int k = 0; k < K; ++k)
    sum += __bfloat162float(A[size_t(blockIdx.x) * K + k]) * __bfloat162float(B[size_t(threadIdx.x) * K + k]);
  C[size_t(blockIdx.x) * N + threadIdx.x] = __float2bfloat16(sum);
}
RUN {
  const cudaError_t error = HONEST;
  fringe<<<M, 16, 0, stream>>>(A, B, C, N, K);
  return error;
}
