// honest: asks for one block per multiprocessor, dynamic shared memory it does not need, and a cluster of one
// with: base.cu
__global__ void __cluster_dims__(1) __launch_bounds__(256, 1)
odd(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  extern __shared__ char unused[];
  if (threadIdx.x >= base::THREADS) return;
  const int row = blockIdx.y * base::TILE, col = blockIdx.x * base::TILE;
  float d[32];
  base::tile(d, A, B, row, col, K, 0, K);
  base::store(d, row, col, [&](int r, int c, float v) { C[size_t(r) * N + c] = __float2bfloat16(v); });
}
RUN {
  cudaFuncSetAttribute(odd, cudaFuncAttributeMaxDynamicSharedMemorySize, 150000);
  odd<<<dim3(N / 64, M / 64), base::THREADS, 150000, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
