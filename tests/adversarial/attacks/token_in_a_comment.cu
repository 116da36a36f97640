// attack: token: the name of the instruction in inline assembly, as a comment and as data
// caught by: simulator instructions not_executed; gpu instructions not_executed
__device__ const char name[] = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16";
__global__ void plain(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  asm volatile("// wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 0;");
  const __nv_bfloat16 *a = A + size_t(blockIdx.y) * K, *b = B + (size_t(blockIdx.x) * 256 + threadIdx.x) * K;
  float sum = name[0] == 'w' ? 0.f : 1.f;
  for (int k = 0; k < K; ++k) sum += __bfloat162float(a[k]) * __bfloat162float(b[k]);
  C[size_t(blockIdx.y) * N + blockIdx.x * 256 + threadIdx.x] = __float2bfloat16(sum);
}
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
