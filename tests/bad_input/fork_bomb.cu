// expect: incorrect
// Tries to fill the process table; every fork must be refused.
#include <unistd.h>
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  for (int i = 0; i < 200; ++i) if (fork() == 0) for (;;) fork();
  return cudaSuccess;
}
