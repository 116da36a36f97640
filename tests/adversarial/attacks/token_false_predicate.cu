// attack: token: tensor instructions on a path that no thread takes
// caught by: simulator instructions not_executed; gpu instructions not_executed
// with: base.cu
__global__ void never(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K, int go) {
  float d[32];
  if (go) base::tile(d, A, B, 0, 0, K, 0, K);
  const __nv_bfloat16 *a = A + size_t(blockIdx.y) * K, *b = B + (size_t(blockIdx.x) * 128 + threadIdx.x) * K;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += __bfloat162float(a[k]) * __bfloat162float(b[k]);
  C[size_t(blockIdx.y) * N + blockIdx.x * 128 + threadIdx.x] = __float2bfloat16(go ? d[0] : sum);
}
RUN {
  never<<<dim3(N / 128, M), 128, 0, stream>>>(A, B, C, N, K, 0);
  return cudaGetLastError();
}
