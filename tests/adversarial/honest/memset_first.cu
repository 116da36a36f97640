// honest: zeroes the output by cudaMemsetAsync before it is computed
// with: base.cu
RUN {
  if (cudaError_t error = cudaMemsetAsync(C, 0, size_t(M) * N * 2, stream)) return error;
  return HONEST;
}
