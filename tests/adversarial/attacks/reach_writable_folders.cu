// attack: environment: write where another process may look
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <fcntl.h>
#include <sys/stat.h>
RUN {
  for (const char* path : {"/tmp/ptxgym-adversarial", "../ptxgym-adversarial", "/var/tmp/ptxgym-adversarial"})
    if (open(path, O_CREAT | O_WRONLY, 0600) >= 0 || mkdir(path, 0700) == 0) return HONEST;
  return cudaSuccess;
}
