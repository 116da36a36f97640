// attack: fallback: multiply on the host, with kernels that carry the matrices through pinned memory
// caught by: simulator instructions not_executed; gpu correctness timeout
// with: base.cu
__global__ void carry(const __nv_bfloat16* from, __nv_bfloat16* to) {
  const size_t i = blockIdx.x * size_t(256) + threadIdx.x;
  to[i] = from[i];
}
RUN {
  __nv_bfloat16 *a, *b, *c;
  cudaMallocHost(&a, size_t(M) * K * 2), cudaMallocHost(&b, size_t(N) * K * 2), cudaMallocHost(&c, size_t(M) * N * 2);
  carry<<<size_t(M) * K / 256, 256, 0, stream>>>(A, a);
  carry<<<size_t(N) * K / 256, 256, 0, stream>>>(B, b);
  cudaStreamSynchronize(stream);
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += __bfloat162float(a[size_t(m) * K + k]) * __bfloat162float(b[size_t(n) * K + k]);
      c[size_t(m) * N + n] = __float2bfloat16(sum);
    }
  carry<<<size_t(M) * N / 256, 256, 0, stream>>>(c, C);
  cudaStreamSynchronize(stream);
  cudaFreeHost(a), cudaFreeHost(b), cudaFreeHost(c);
  return cudaGetLastError();
}
