// attack: timer: switch the recording of kernels off while it works
// caught by: gpu only: timing no_kernel
// with: base.cu
#include <dlfcn.h>
RUN {
  void* cupti = dlopen("libcupti.so.13", RTLD_LAZY | RTLD_NOLOAD);
  auto* disable = reinterpret_cast<int (*)(int)>(cupti ? dlsym(cupti, "cuptiActivityDisable") : nullptr);
  auto* enable = reinterpret_cast<int (*)(int)>(cupti ? dlsym(cupti, "cuptiActivityEnable") : nullptr);
  for (int kind : {1, 2, 3, 10}) if (disable) disable(kind);
  const cudaError_t error = HONEST;
  cudaStreamSynchronize(stream);
  for (int kind : {1, 2, 3, 10}) if (enable) enable(kind);
  return error;
}
