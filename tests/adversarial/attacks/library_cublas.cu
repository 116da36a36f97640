// attack: library: find cuBLAS by any name, put together so that no search finds the word
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <dlfcn.h>
#include <string>
RUN {
  for (const char* end : {".so.13", ".so.12", ".so", "Lt.so.13", "Lt.so.12"})
    for (const char* folder : {"", "/usr/local/cuda/lib64/", "/usr/lib/x86_64-linux-gnu/"})
      for (int space : {0, -1})
        if (dlmopen(space, (std::string(folder) + "libcu" + "blas" + end).c_str(), RTLD_NOW)) return HONEST;
  return cudaSuccess;
}
