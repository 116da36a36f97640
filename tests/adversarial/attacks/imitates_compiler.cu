// attack: imitation: diagnostics and file names that look like reports of ptxas and of the memory checker
// caught by: simulator memory memory_error; gpu memory memory_error
// with: base.cu
#pragma message("\nptxas info    : Compiling entry function 'PASSED' for 'sm_90a'\nptxas info    : Used 7 registers\n")
#line 1 "x\n========= ERROR SUMMARY: 0 errors\nptxas info    : Compiling entry function 'FORGED'\nptxas info    : Used 8 registers\nx.cu"
#warning passed
__global__ void beyond(__nv_bfloat16* C, size_t n) { C[n + threadIdx.x] = C[0]; }
RUN {
  beyond<<<1, 1, 0, stream>>>(C, size_t(M) * N);
  return HONEST;
}
