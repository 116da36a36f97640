// attack: replay: count calls in device memory, where no host state shows
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
__device__ int calls;
__global__ void count_and_compute(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  if (calls > 0) return;
  const int row = blockIdx.y * base::TILE, col = blockIdx.x * base::TILE;
  float d[32];
  base::tile(d, A, B, row, col, K, 0, K);
  base::store(d, row, col, [&](int r, int c, float v) { C[size_t(r) * N + c] = __float2bfloat16(v); });
}
__global__ void count() { ++calls; }
RUN {
  count_and_compute<<<dim3(N / 64, M / 64), base::THREADS, 0, stream>>>(A, B, C, N, K);
  count<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}
