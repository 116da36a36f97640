// attack: outputs: leave the last rows as they are
// caught by: simulator correctness nonfinite; gpu correctness nonfinite
// with: base.cu
RUN { return base::launch(A, B, C, M - base::TILE, N, K, stream); }
