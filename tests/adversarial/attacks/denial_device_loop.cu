// attack: denial: a kernel that never ends
// caught by: simulator memory timeout; gpu memory timeout
// with: base.cu
__global__ void spin(volatile __nv_bfloat16* C) { while (true) *reinterpret_cast<volatile int*>(C) += 1; }
RUN {
  spin<<<1, 1, 0, stream>>>(C);
  return cudaGetLastError();
}
