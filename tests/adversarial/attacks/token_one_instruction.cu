// attack: token: one tensor instruction on nothing, and plain CUDA for the work
// caught by: simulator instructions token_use; gpu instructions token_use
// with: plain.cu
__global__ void token(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int N, int K) {
  float d[32];
  base::tile(d, A, B, 0, 0, K, 0, base::STEP);
  if (d[0] == 1234567.f) C[0] = A[0];
}
RUN {
  token<<<1, 128, 0, stream>>>(A, B, C, N, K);
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
