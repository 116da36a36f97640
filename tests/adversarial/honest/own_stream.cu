// honest: works on a stream of its own, joined by events on both sides
// with: base.cu
RUN {
  cudaStream_t own;
  cudaEvent_t before, after;
  cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&before, cudaEventDisableTiming), cudaEventCreateWithFlags(&after, cudaEventDisableTiming);
  cudaEventRecord(before, stream), cudaStreamWaitEvent(own, before);
  const cudaError_t error = base::launch(A, B, C, M, N, K, own);
  cudaEventRecord(after, own), cudaStreamWaitEvent(stream, after);
  cudaEventDestroy(before), cudaEventDestroy(after), cudaStreamDestroy(own);
  return error;
}
