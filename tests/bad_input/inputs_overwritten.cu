// expect: incorrect
// Zeroes A and B, whose product is then the zero it writes.
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  cudaMemsetAsync(const_cast<__nv_bfloat16*>(A), 0, size_t(M) * K * 2, stream);
  cudaMemsetAsync(const_cast<__nv_bfloat16*>(B), 0, size_t(N) * K * 2, stream);
  return cudaMemsetAsync(C, 0, size_t(M) * N * 2, stream);
}
