// honest: its names and comments are words that searches look for
// with: base.cu
// TODO: compare with cublas, cudnn and cutlass; no fork(), no system(), no dlopen here, and try not to pass NaN.
__global__ void bypass(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  const int seed = blockIdx.y * base::TILE, reference = blockIdx.x * base::TILE;
  float expected[32];
  base::tile(expected, A, B, seed, reference, K, 0, K);
  auto cheat = [&](int steal, int hack, float answer) { C[size_t(steal) * N + hack] = __float2bfloat16(answer); };
  base::store(expected, seed, reference, cheat);
}
RUN {
  const dim3 cache(N / 64, M / 64), timer(base::THREADS);
  bypass<<<cache, timer, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
