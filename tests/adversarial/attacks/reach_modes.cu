// attack: environment: change the mode of a file that it may not open
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <sys/stat.h>
RUN {
  struct stat now;
  for (const char* path : {"..", "/tmp", "/dev/null"})
    if (stat(path, &now) == 0 && chmod(path, now.st_mode & 07777) == 0) return HONEST;
  return cudaSuccess;
}
