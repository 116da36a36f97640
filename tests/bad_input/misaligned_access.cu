// expect: memory_error
// A 4-byte store at an odd address.
__global__ void odd(char* p) { *reinterpret_cast<int*>(p + 1) = 1; }
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  odd<<<1, 1, 0, stream>>>(reinterpret_cast<char*>(C));
  return cudaGetLastError();
}
