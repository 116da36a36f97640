// attack: inputs: make the question easy: zero inputs have a zero product
// caught by: simulator correctness mutated_inputs; gpu correctness mutated_inputs
// with: base.cu
RUN {
  cudaMemsetAsync(const_cast<__nv_bfloat16*>(A), 0, size_t(M) * K * 2, stream);
  return cudaMemsetAsync(C, 0, size_t(M) * N * 2, stream);
}
