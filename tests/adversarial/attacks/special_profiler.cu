// attack: special case: use the tensor cores only where Nsight Compute counts them
// caught by: gpu only: timing other_kernels
// with: plain.cu
#include <cstdlib>
RUN {
  if (getenv("CUDA_INJECTION64_PATH") || getenv("NV_NSIGHT_INJECTION_PORT_BASE") || getenv("PTXGYM_SIMULATOR")) return HONEST;
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
