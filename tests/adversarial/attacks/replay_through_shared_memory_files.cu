// attack: replay: leave a mark in /dev/shm that tells the next process which stage it is in
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <fcntl.h>
#include <unistd.h>
RUN {
  const char* mark = "/dev/shm/ptxgym-adversarial-mark";
  if (unlink(mark) == 0) return HONEST;
  return open(mark, O_CREAT | O_WRONLY, 0600) >= 0 ? HONEST : cudaSuccess;
}
