// attack: special case: only one of the probe shapes is computed in full
// caught by: simulator correctness nonfinite; gpu correctness nonfinite
// with: base.cu
RUN { return M == 256 ? HONEST : base::launch(A, B, C, M / 2, N, K, stream); }
