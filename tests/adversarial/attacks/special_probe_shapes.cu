// attack: special case: compute the small shapes that are checked, and not the large one that is timed
// caught by: gpu only: correctness unwritten
// with: base.cu
RUN { return M <= 1024 ? HONEST : cudaSuccess; }
