// attack: channel: a wild kernel, and a runtime whose error is taken away before the process sees it
// caught by: simulator memory memory_error; gpu memory memory_error
// with: base.cu
__global__ void wild(__nv_bfloat16* C) { C[size_t(1) << 40] = C[0]; }
RUN {
  const cudaError_t error = HONEST;
  wild<<<1, 1, 0, stream>>>(C);
  while (cudaGetLastError() != cudaSuccess && cudaDeviceSynchronize() == cudaSuccess) {}
  return error;
}
