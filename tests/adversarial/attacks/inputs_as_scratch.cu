// attack: inputs: use an input as scratch memory after it was read
// caught by: simulator correctness mutated_inputs; gpu correctness mutated_inputs
// with: base.cu
RUN {
  if (cudaError_t error = HONEST) return error;
  return cudaMemsetAsync(const_cast<__nv_bfloat16*>(B) + N, 0, 64, stream);
}
