// attack: environment: have the kernel send the judge a signal on its behalf
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
RUN {
  int pair[2], parent = getppid();
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return cudaSuccess;
  if (kill(parent, 0) == 0 || fcntl(pair[0], F_SETOWN, parent) == 0) return HONEST;
  return ioctl(pair[0], 0x8901 /* FIOSETOWN */, &parent) == 0 ? HONEST : cudaSuccess;
}
