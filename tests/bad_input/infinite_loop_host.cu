// expect: timeout
// run never returns.
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) { for (volatile int i = 0;; i = i + 1) {} }
