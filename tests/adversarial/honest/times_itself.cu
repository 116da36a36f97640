// honest: times its kernel by events, as tuning code that was left in does
// with: base.cu
RUN {
  cudaEvent_t begin, end;
  float milliseconds = 0;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  cudaEventRecord(begin, stream);
  cudaError_t error = HONEST;
  cudaEventRecord(end, stream), cudaEventSynchronize(end);
  cudaEventElapsedTime(&milliseconds, begin, end);
  cudaEventDestroy(begin), cudaEventDestroy(end);
  return milliseconds >= 0 ? error : cudaErrorUnknown;
}
