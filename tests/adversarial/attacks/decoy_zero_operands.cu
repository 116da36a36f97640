// attack: decoy: tensor instructions that add products of zeros to sums that were made without them
// caught by: simulator instructions decoy; gpu instructions decoy
// with: base.cu
__global__ void decoy(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  __shared__ alignas(128) char zeros[base::STEP_BYTES];
  for (int i = threadIdx.x; i < base::STEP_BYTES; i += base::THREADS) zeros[i] = 0;
  const int row = blockIdx.y * 64, col = blockIdx.x * 64, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float d[32] = {};
  for (int k = 0; k < K; ++k)
    for (int j = 0; j < 32; ++j)
      d[j] += __bfloat162float(A[size_t(row + warp * 16 + lane / 4 + j / 2 % 2 * 8) * K + k]) *
              __bfloat162float(B[size_t(col + j / 4 * 8 + lane % 4 * 2 + j % 2) * K + k]);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int k = 0; k < K; k += 16) base::multiply(d, base::descriptor(zeros), base::descriptor(zeros));
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  base::store(d, row, col, [&](int r, int c, float v) { C[size_t(r) * N + c] = __float2bfloat16(v); });
}
RUN {
  decoy<<<dim3(N / 64, M / 64), base::THREADS, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
