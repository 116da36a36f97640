// expect: runtime_error
// 300 KB of dynamic shared memory, where a block may have 227 KB.
__global__ void touch(__nv_bfloat16* C) { C[threadIdx.x] = __float2bfloat16(1.f); }
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  touch<<<1, 32, 300 * 1024, stream>>>(C);
  return cudaGetLastError();
}
