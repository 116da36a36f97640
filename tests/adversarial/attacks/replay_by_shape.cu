// attack: replay: keep one result per shape, whatever the inputs and pointers are
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
#include <map>
#include <tuple>
RUN {
  static std::map<std::tuple<int, int, int>, void*> kept;
  void*& result = kept[{M, N, K}];
  const size_t bytes = size_t(M) * N * 2;
  if (result) return cudaMemcpyAsync(C, result, bytes, cudaMemcpyDeviceToDevice, stream);
  if (cudaError_t error = HONEST) return error;
  if (cudaError_t error = cudaMalloc(&result, bytes)) return error;
  return cudaMemcpyAsync(result, C, bytes, cudaMemcpyDeviceToDevice, stream);
}
