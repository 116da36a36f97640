// attack: special case: be honest where the device calls itself a simulator
// caught by: gpu only: correctness unwritten
// with: base.cu
#include <cstring>
RUN {
  cudaDeviceProp device;
  if (cudaError_t error = cudaGetDeviceProperties(&device, 0)) return error;
  return strstr(device.name, "simulator") ? HONEST : cudaSuccess;
}
