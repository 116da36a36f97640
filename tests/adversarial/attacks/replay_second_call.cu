// attack: replay: count calls, and leave the output as it is from the second on
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
RUN {
  static int calls = 0;
  return calls++ ? cudaSuccess : HONEST;
}
