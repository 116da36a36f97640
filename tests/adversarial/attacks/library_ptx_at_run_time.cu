// attack: library: bring the kernel as text and load it at run time, past the compiler's records
// caught by: simulator instructions foreign_kernel; gpu correctness refused
// with: base.cu
#include <cuda.h>
RUN {
  static const char ptx[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry smuggled()\n{\nret;\n}\n";
  void *load = nullptr, *get = nullptr, *start = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuModuleLoadData", &load, 12000, cudaEnableDefault, &found);
  cudaGetDriverEntryPointByVersion("cuModuleGetFunction", &get, 12000, cudaEnableDefault, &found);
  cudaGetDriverEntryPointByVersion("cuLaunchKernel", &start, 12000, cudaEnableDefault, &found);
  CUmodule module;
  CUfunction function;
  if (reinterpret_cast<decltype(&cuModuleLoadData)>(load)(&module, ptx)) return cudaErrorUnknown;
  if (reinterpret_cast<decltype(&cuModuleGetFunction)>(get)(&function, module, "smuggled")) return cudaErrorUnknown;
  if (reinterpret_cast<decltype(&cuLaunchKernel)>(start)(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr))
    return cudaErrorUnknown;
  return HONEST;
}
