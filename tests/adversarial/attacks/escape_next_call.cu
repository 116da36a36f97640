// attack: escape: every call does the work of the call before it, so that the last costs nothing
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
RUN {
  static __nv_bfloat16* late = nullptr;
  const size_t bytes = size_t(M) * N * 2;
  if (!late && cudaMalloc(&late, bytes) == cudaSuccess) base::launch(A, B, late, M, N, K, stream);
  cudaMemcpyAsync(C, late, bytes, cudaMemcpyDeviceToDevice, stream);
  return base::launch(A, B, late, M, N, K, stream);
}
