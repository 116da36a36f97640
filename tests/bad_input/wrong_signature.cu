// expect: compile_error
// run takes other parameters than the contract.
extern "C" cudaError_t run(const float* A, const float* B, float* C, int n, cudaStream_t stream) { return cudaSuccess; }
