// attack: replay: leave a mark in a POSIX message queue, which outlives the process
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>
RUN {
  if (syscall(SYS_mq_unlink, "ptxgym-adversarial-mark") == 0) return HONEST;
  return syscall(SYS_mq_open, "ptxgym-adversarial-mark", O_CREAT | O_RDWR, 0600, nullptr) >= 0 ? HONEST : cudaSuccess;
}
