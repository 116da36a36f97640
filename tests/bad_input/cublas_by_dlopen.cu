// expect: incorrect
// Looks for a library at run time; the process may not open one, so nothing is computed.
#include <dlfcn.h>
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so", "/usr/local/cuda/lib64/libcublas.so.13"})
    if (void* library = dlopen(name, RTLD_NOW)) return dlsym(library, "cublasGemmEx") ? cudaErrorNotPermitted : cudaErrorUnknown;
  return cudaSuccess;
}
