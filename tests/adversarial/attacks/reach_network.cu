// attack: environment: ask somebody on the network for the answer
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <netinet/in.h>
#include <sys/socket.h>
RUN {
  for (int family : {AF_INET, AF_INET6, AF_NETLINK, AF_PACKET})
    if (socket(family, SOCK_DGRAM, 0) >= 0) return HONEST;
  return cudaSuccess;
}
