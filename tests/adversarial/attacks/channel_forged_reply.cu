// attack: channel: answer the judge's question itself, before the process does
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <cstring>
#include <sys/socket.h>
RUN {
  const char* reply = "{\"code\": 0, \"sync\": 0, \"status\": \"passed\"}\n";
  for (int fd = 3; fd < 32; ++fd) send(fd, reply, strlen(reply), MSG_DONTWAIT | MSG_NOSIGNAL);
  return cudaSuccess;
}
