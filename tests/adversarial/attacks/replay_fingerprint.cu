// attack: replay: keep the result for as long as 16 elements of A and of B look the same
// caught by: gpu only: timing wrong_when_timed
// with: base.cu
#include <cstring>
RUN {
  static void* kept = nullptr;
  static char known[64];
  char seen[64];
  const size_t bytes = size_t(M) * N * 2;
  cudaMemcpy(seen, B, 32, cudaMemcpyDeviceToHost);
  cudaMemcpy(seen + 32, B + size_t(N) * K - 16, 32, cudaMemcpyDeviceToHost);
  if (kept && !memcmp(seen, known, 64)) return cudaMemcpyAsync(C, kept, bytes, cudaMemcpyDeviceToDevice, stream);
  memcpy(known, seen, 64);
  if (cudaError_t error = HONEST) return error;
  if (!kept) cudaMalloc(&kept, bytes);
  return cudaMemcpyAsync(kept, C, bytes, cudaMemcpyDeviceToDevice, stream);
}
