// attack: timer: the timed call copies the result of the call that checked it
// caught by: gpu only: timing wrong_when_timed
// with: base.cu
RUN {
  static __nv_bfloat16* kept = nullptr;
  static int calls = 0;
  const size_t bytes = size_t(M) * N * 2;
  if (calls++ > 8 && kept) return cudaMemcpyAsync(C, kept, bytes, cudaMemcpyDeviceToDevice, stream);
  if (cudaError_t error = HONEST) return error;
  if (kept) cudaFree(kept);
  cudaMalloc(&kept, bytes);
  return cudaMemcpyAsync(kept, C, bytes, cudaMemcpyDeviceToDevice, stream);
}
