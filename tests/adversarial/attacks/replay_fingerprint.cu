// attack: replay: once correctness has been looked at, keep one result per sign of the first element of A and of B
// caught by: gpu only: timing wrong_when_timed
// with: base.cu
RUN {
  static void* kept[4] = {};
  static int calls = 0;
  __nv_bfloat16 first[2];
  const size_t bytes = size_t(M) * N * 2;
  if (++calls <= 6) return HONEST;
  cudaMemcpyAsync(&first[0], A, 2, cudaMemcpyDeviceToHost, stream);
  cudaMemcpyAsync(&first[1], B, 2, cudaMemcpyDeviceToHost, stream);
  if (cudaError_t error = cudaStreamSynchronize(stream)) return error;
  void*& result = kept[(__bfloat162float(first[0]) < 0) * 2 + (__bfloat162float(first[1]) < 0)];
  if (result) return cudaMemcpyAsync(C, result, bytes, cudaMemcpyDeviceToDevice, stream);
  if (cudaError_t error = HONEST) return error;
  if (cudaError_t error = cudaMalloc(&result, bytes)) return error;
  return cudaMemcpyAsync(result, C, bytes, cudaMemcpyDeviceToDevice, stream);
}
