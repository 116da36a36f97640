// attack: environment: become another program, or have a child that outlives the run
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <sys/syscall.h>
#include <unistd.h>
RUN {
  const long child = fork();
  if (child == 0) _exit(0);
  if (child > 0 || syscall(SYS_vfork) >= 0) return HONEST;
  execl("/bin/true", "true", nullptr);
  return cudaSuccess;
}
