// attack: answer: read the reference out of the judge's memory
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cstdio>
RUN {
  char path[64], byte;
  snprintf(path, sizeof path, "/proc/%d/maps", getppid());
  iovec own = {&byte, 1}, other = {reinterpret_cast<void*>(0x400000), 1};
  const bool reached = open(path, O_RDONLY) >= 0 || process_vm_readv(getppid(), &own, 1, &other, 1, 0) > 0;
  return reached ? HONEST : cudaSuccess;
}
