// expect: runtime_error
// Ends the process with success while the library is loaded.
#include <cstdlib>
namespace { struct Leave { Leave() { exit(0); } } leave; }
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) { return cudaSuccess; }
