// attack: denial: open files until the machine has none left
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <unistd.h>
RUN {
  for (int i = 0; i < 100000; ++i) if (dup(0) < 0) return cudaSuccess;
  return HONEST;
}
