// attack: denial: take all memory of the machine
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <sys/mman.h>
RUN {
  const size_t bytes = size_t(64) << 30;
  void* room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return room == MAP_FAILED ? cudaSuccess : HONEST;
}
