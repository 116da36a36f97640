// attack: precision: keep four bits of the mantissa, as if the output were fp8
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
__global__ void coarse(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  const int row = blockIdx.y * base::TILE, col = blockIdx.x * base::TILE;
  float d[32];
  base::tile(d, A, B, row, col, K, 0, K);
  base::store(d, row, col, [&](int r, int c, float v) {
    C[size_t(r) * N + c] = __float2bfloat16(__uint_as_float((__float_as_uint(v) + 0x40000) & 0xfff80000));
  });
}
RUN {
  coarse<<<dim3(N / 64, M / 64), base::THREADS, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
