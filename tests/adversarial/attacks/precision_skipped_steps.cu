// attack: precision: leave out the last k-step
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
__global__ void shortened(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  const int row = blockIdx.y * base::TILE, col = blockIdx.x * base::TILE;
  float d[32];
  base::tile(d, A, B, row, col, K, 0, K - base::STEP);
  base::store(d, row, col, [&](int r, int c, float v) { C[size_t(r) * N + c] = __float2bfloat16(v); });
}
RUN {
  shortened<<<dim3(N / 64, M / 64), base::THREADS, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
