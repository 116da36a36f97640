// attack: channel: send the simulator requests of its own, to forge or to end it
// caught by: simulator memory protocol; gpu memory protocol
// with: base.cu
#include <sys/socket.h>
RUN {
  char noise[256] = {0x7f, 0x45};
  for (int fd = 3; fd < 32; ++fd) send(fd, noise, sizeof noise, MSG_DONTWAIT | MSG_NOSIGNAL);
  return cudaSuccess;
}
