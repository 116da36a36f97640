// attack: replay: count calls, and stop working once correctness has been checked
// caught by: gpu only: timing no_kernel
// with: base.cu
RUN {
  static int calls = 0;
  return calls++ < 8 ? HONEST : cudaSuccess;
}
