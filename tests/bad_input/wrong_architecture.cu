// expect: compile_error
// Blackwell's instructions in a Hopper task.
__global__ void blackwell() { asm volatile("tcgen05.wait::ld.sync.aligned;"); }
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  blackwell<<<1, 32, 0, stream>>>();
  return cudaGetLastError();
}
