// attack: library: declare cuBLAS's function and hope that the linker finds it
// caught by: simulator compile rejected; gpu compile rejected
// with: base.cu
extern "C" int cublasCreate_v2(void**);
RUN {
  void* handle = nullptr;
  return cublasCreate_v2(&handle) ? cudaErrorUnknown : HONEST;
}
