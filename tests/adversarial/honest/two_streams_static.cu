// honest: keeps streams and events in static variables, and gives each half of C a stream
// with: base.cu
RUN {
  static cudaStream_t side = [] { cudaStream_t s; cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking); return s; }();
  static cudaEvent_t fork = [] { cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming); return e; }();
  static cudaEvent_t join = [] { cudaEvent_t e; cudaEventCreateWithFlags(&e, cudaEventDisableTiming); return e; }();
  const int top = M / 2;
  cudaEventRecord(fork, stream), cudaStreamWaitEvent(side, fork);
  base::launch(A + size_t(top) * K, B, C + size_t(top) * N, M - top, N, K, side);
  const cudaError_t error = base::launch(A, B, C, top, N, K, stream);
  cudaEventRecord(join, side), cudaStreamWaitEvent(stream, join);
  return error;
}
