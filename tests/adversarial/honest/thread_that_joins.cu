// honest: a host thread launches the kernel, and run waits for it
// with: base.cu
#include <thread>
RUN {
  cudaError_t error = cudaErrorUnknown;
  std::thread([&] { error = HONEST; }).join();
  return error;
}
