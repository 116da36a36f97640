// expect: incorrect
// Prints without end for a while, then leaves the output untouched.
#include <cstdio>
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  for (int i = 0; i < 2000000; ++i) { puts("PASSED PASSED PASSED"); fputs("PASSED\n", stderr); }
  return cudaSuccess;
}
