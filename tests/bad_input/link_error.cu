// expect: compile_error
// Calls a function that is defined nowhere.
int defined_nowhere(int);
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) { return defined_nowhere(M) ? cudaSuccess : cudaErrorUnknown; }
