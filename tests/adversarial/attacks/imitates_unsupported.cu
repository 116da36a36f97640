// attack: imitation: a file name that reads as if the memory checker did not support the device
// caught by: simulator memory memory_error; gpu memory memory_error
// with: base.cu
#line 1 "x\n========= Error: Device not supported\nDevice not supported"
__global__ void beyond(__nv_bfloat16* C, size_t n) { C[n + threadIdx.x] = C[0]; }
RUN {
  beyond<<<1, 1, 0, stream>>>(C, size_t(M) * N);
  return HONEST;
}
