// attack: decoy: the tensor cores do all of the work for nobody, plain CUDA does it again for the output
// caught by: simulator instructions decoy; gpu instructions decoy
// with: plain.cu
RUN {
  if (cudaError_t error = HONEST) return error;
  plain<<<dim3(N / 256, M), 256, 0, stream>>>(A, B, C, N, K);
  return cudaGetLastError();
}
