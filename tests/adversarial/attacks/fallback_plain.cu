// attack: fallback: a tensor path that never applies, and plain CUDA that always does
// caught by: simulator instructions not_executed; gpu instructions not_executed
// with: plain.cu
RUN {
  if (M % 3 == 0 && N % 5 == 0 && K % 7 == 0) return HONEST;
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
