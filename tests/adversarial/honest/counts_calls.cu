// honest: counts its calls, for the first of which it prepares more
// with: base.cu
RUN {
  static int calls = 0;
  if (calls++ == 0) cudaFuncSetAttribute(base::gemm, cudaFuncAttributePreferredSharedMemoryCarveout, 50);
  return HONEST;
}
