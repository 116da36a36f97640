// honest: reads the device's clock and keeps what it saw, without a use for it
// with: base.cu
__device__ long long seen[2];
__global__ void look(int slot) { seen[slot] = clock64(); }
RUN {
  look<<<1, 1, 0, stream>>>(0);
  const cudaError_t error = HONEST;
  look<<<1, 1, 0, stream>>>(1);
  return error;
}
