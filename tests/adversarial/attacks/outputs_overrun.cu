// attack: outputs: write whole tiles, also behind the end
// caught by: simulator memory memory_error; gpu memory memory_error
// with: base.cu
__global__ void tail(__nv_bfloat16* C, size_t end) { C[end + threadIdx.x] = C[0]; }
RUN {
  if (cudaError_t error = HONEST) return error;
  tail<<<1, 64, 0, stream>>>(C, size_t(M) * N);
  return cudaGetLastError();
}
