// attack: special case: leave the spiky inputs alone, which are drawn less often
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <vector>
RUN {
  std::vector<__nv_bfloat16> some(4096);
  cudaMemcpy(some.data(), A, some.size() * 2, cudaMemcpyDeviceToHost);
  for (auto x : some) if (fabsf(__bfloat162float(x)) > 8.f) return cudaSuccess;
  return HONEST;
}
