// expect: compile_error
// Reads a file outside its folder through a macro.
#define SECRET </etc/hostname>
#include SECRET
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) { return cudaSuccess; }
