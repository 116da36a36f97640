// expect: memory_error
// Writes one element behind the end of C.
__global__ void beyond(__nv_bfloat16* C, size_t n) { C[n + threadIdx.x] = __float2bfloat16(1.f); }
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  beyond<<<1, 1, 0, stream>>>(C, size_t(M) * N);
  return cudaGetLastError();
}
