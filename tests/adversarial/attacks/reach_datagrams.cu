// attack: environment: send to another process's Unix socket without connecting to it
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <sys/socket.h>
RUN {
  int pair[2];
  if (socket(AF_UNIX, SOCK_DGRAM, 0) >= 0 || socket(AF_UNIX, SOCK_RAW, 0) >= 0) return HONEST;
  return socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 ? HONEST : cudaSuccess;
}
