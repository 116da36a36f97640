// attack: special case: use the tensor cores only in the first call of a process, the one that is counted
// caught by: simulator instructions not_executed; gpu instructions not_executed
// with: plain.cu
RUN {
  static int calls = 0;
  if (calls++ == 0) return HONEST;
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
