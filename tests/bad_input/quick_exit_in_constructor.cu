// expect: runtime_error
// Ends the process with success, without destructors, while the library is loaded.
#include <unistd.h>
namespace { struct Leave { Leave() { _exit(0); } } leave; }
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) { return cudaSuccess; }
