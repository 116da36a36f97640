// attack: fallback: copy to the host, multiply there, copy back; a kernel is launched for show
// caught by: simulator memory protocol; gpu correctness timeout
// with: base.cu
#include <vector>
RUN {
  std::vector<__nv_bfloat16> a(size_t(M) * K), b(size_t(N) * K), c(size_t(M) * N);
  cudaMemcpy(a.data(), A, a.size() * 2, cudaMemcpyDeviceToHost);
  cudaMemcpy(b.data(), B, b.size() * 2, cudaMemcpyDeviceToHost);
  if (cudaError_t error = HONEST) return error;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      float sum = 0;
      for (int k = 0; k < K; ++k) sum += __bfloat162float(a[size_t(m) * K + k]) * __bfloat162float(b[size_t(n) * K + k]);
      c[size_t(m) * N + n] = __float2bfloat16(sum);
    }
  return cudaMemcpy(C, c.data(), c.size() * 2, cudaMemcpyHostToDevice);
}
