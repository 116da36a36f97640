// attack: denial: fill the disk with one file
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <fcntl.h>
#include <unistd.h>
RUN { return ftruncate(open("large", O_CREAT | O_RDWR, 0600), off_t(1) << 40) == 0 ? HONEST : cudaSuccess; }
