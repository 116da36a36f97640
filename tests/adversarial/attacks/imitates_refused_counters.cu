// attack: imitation: a kernel without tensor instructions whose name is the driver's refusal of counters
// caught by: simulator instructions not_executed; gpu instructions not_executed
// with: plain.cu
extern "C" __global__ void ERR_NVGPUCTRPERM() {}
RUN {
  ERR_NVGPUCTRPERM<<<1, 1, 0, stream>>>();
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
