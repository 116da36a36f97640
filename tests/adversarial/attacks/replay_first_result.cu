// attack: replay: compute once, then copy the kept result for the same pointers
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
RUN {
  static void* kept = nullptr;
  static const void *a, *b;
  const size_t bytes = size_t(M) * N * 2;
  if (kept && a == A && b == B) return cudaMemcpyAsync(C, kept, bytes, cudaMemcpyDeviceToDevice, stream);
  a = A, b = B;
  if (cudaError_t error = HONEST) return error;
  if (cudaError_t error = cudaMalloc(&kept, bytes)) return error;
  return cudaMemcpyAsync(kept, C, bytes, cudaMemcpyDeviceToDevice, stream);
}
