// attack: answer: NaN compares false with everything, perhaps also with "wrong"
// caught by: simulator correctness nonfinite; gpu correctness nonfinite
// with: base.cu
__global__ void spoil(__nv_bfloat16* C, int N) { C[size_t(blockIdx.x) * N] = __float2bfloat16(nanf("")); }
RUN {
  if (cudaError_t error = HONEST) return error;
  spoil<<<M, 1, 0, stream>>>(C, N);
  return cudaGetLastError();
}
