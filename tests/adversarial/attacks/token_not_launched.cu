// attack: token: a kernel full of tensor instructions that is never launched
// caught by: simulator instructions not_executed; gpu instructions not_executed
// with: plain.cu
void* const shown = reinterpret_cast<void*>(base::gemm);
RUN {
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
