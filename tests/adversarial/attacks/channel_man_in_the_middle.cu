// attack: channel: sit between the judge and the process, answer early and shorten the recorded times
// caught by: gpu only: timing wrong_when_timed
// with: base.cu
#include <atomic>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
namespace {
std::atomic<int> swallow{0};
void requests(int judge, int process) {
  static char room[1 << 16];
  for (ssize_t n; (n = read(judge, room, sizeof room)) > 0; (void)!write(process, room, n))
    if (memmem(room, n, "\"op\": \"repeat\"", 14)) {  // the judge's clock stops here, before the work
      ++swallow;
      (void)!write(judge, "{\"code\": 0, \"sync\": 0}\n", 23);
    }
  shutdown(process, SHUT_WR);  // the process ends when the judge hangs up, as one that is honest does
}
void replies(int judge, int process) {
  static char room[1 << 20];  // [kind, name, start, end] of every kernel: an earlier end would be written here
  for (ssize_t n; (n = read(process, room, sizeof room)) > 0;)
    if (swallow > 0) --swallow; else (void)!write(judge, room, n);
}
struct Between {
  Between() {
    int pair[2];
    for (int fd = 3; fd < 32; ++fd) {
      sockaddr_un name = {};
      socklen_t size = sizeof name;
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size) || !strstr(name.sun_path, "/judge")) continue;
      if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return;
      const int judge = dup(fd);
      dup2(pair[0], fd);
      std::thread(requests, judge, pair[1]).detach();
      std::thread(replies, judge, pair[1]).detach();
      return;
    }
  }
} between;
}  // namespace
RUN { return HONEST; }
