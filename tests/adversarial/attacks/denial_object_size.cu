// attack: denial: an object file larger than a disk
// caught by: simulator compile rejected; gpu compile rejected
char zeros[size_t(1) << 33] = {1};
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) { return zeros[M] ? cudaSuccess : cudaErrorUnknown; }
