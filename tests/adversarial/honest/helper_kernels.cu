// honest: more kernels than products: it fills C before, and checks nothing after
// with: base.cu
__global__ void clear(uint4* C) { C[blockIdx.x * 64 + threadIdx.x] = make_uint4(0, 0, 0, 0); }
__global__ void nothing() {}
RUN {
  clear<<<size_t(M) * N * 2 / 1024, 64, 0, stream>>>(reinterpret_cast<uint4*>(C));
  nothing<<<1, 32, 0, stream>>>();
  const cudaError_t error = HONEST;
  nothing<<<1, 32, 0, stream>>>();
  return error;
}
