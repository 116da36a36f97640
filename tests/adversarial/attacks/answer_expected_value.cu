// attack: answer: the mean of every element is zero, so answer zero
// caught by: simulator correctness mismatch; gpu correctness mismatch
// with: base.cu
RUN { return cudaMemsetAsync(C, 0, size_t(M) * N * 2, stream); }
