// honest: keeps a workspace between calls, keyed by nothing but its size; its content is made anew
// with: base.cu
__global__ void copy(const uint4* from, uint4* to) { to[blockIdx.x * 64 + threadIdx.x] = from[blockIdx.x * 64 + threadIdx.x]; }
RUN {
  static __nv_bfloat16* workspace = nullptr;
  static size_t held = 0;
  const size_t bytes = size_t(N) * K * 2;
  if (held < bytes) {
    cudaFree(workspace);
    if (cudaError_t error = cudaMalloc(&workspace, bytes)) return error;
    held = bytes;
  }
  copy<<<bytes / 1024, 64, 0, stream>>>(reinterpret_cast<const uint4*>(B), reinterpret_cast<uint4*>(workspace));
  return base::launch(A, workspace, C, M, N, K, stream);
}
