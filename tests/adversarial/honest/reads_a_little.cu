// honest: copies a few values to the host to choose among kernels, as code for sparse inputs does
// with: base.cu
RUN {
  __nv_bfloat16 first[8];
  if (cudaError_t error = cudaMemcpyAsync(first, A, sizeof first, cudaMemcpyDeviceToHost, stream)) return error;
  cudaStreamSynchronize(stream);
  return first[0] == first[1] && first[1] == first[2] ? HONEST : HONEST;
}
