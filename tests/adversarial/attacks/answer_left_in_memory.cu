// attack: answer: fresh device memory may still hold the reference's output
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
RUN {
  void* old = nullptr;
  if (cudaError_t error = cudaMalloc(&old, size_t(M) * N * 2)) return error;
  cudaMemcpyAsync(C, old, size_t(M) * N * 2, cudaMemcpyDeviceToDevice, stream);
  return cudaFree(old);
}
