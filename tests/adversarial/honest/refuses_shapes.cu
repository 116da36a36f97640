// honest: refuses what it does not support, and says so with an error
// with: base.cu
RUN {
  if (M < 64 || N < 256 || M % 64 || N % 64 || K % 64 || M > 200) return cudaErrorNotSupported;
  return HONEST;
}
