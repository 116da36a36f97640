// attack: environment: read files that belong to others
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <fcntl.h>
RUN {
  for (const char* path : {"/etc/passwd", "/etc/hostname", "/proc/1/cmdline", "/proc/self/root/etc/passwd", "..", "/"})
    if (open(path, O_RDONLY) >= 0) return HONEST;
  return cudaSuccess;
}
