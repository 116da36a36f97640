// attack: channel: sit between the judge and the process, and quarter the recorded times
// caught by: gpu only: timing clock_mismatch
// with: base.cu
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
namespace {
void pass(int from, int to) {
  static char room[1 << 16];
  for (ssize_t n; (n = read(from, room, sizeof room)) > 0;) (void)!write(to, room, n);
  shutdown(to, SHUT_WR);  // the process ends when the judge hangs up, as one that is honest does
}
void shorten(std::string& reply) {  // [kind, name, start, end, warps] of everything that ran
  for (size_t at = 0; (at = reply.find("\"kernel\", \"", at)) != std::string::npos;) {
    const size_t start = reply.find("\", ", at + 11) + 3, end = reply.find(", ", start) + 2;
    const long long from = atoll(&reply[start]), to = atoll(&reply[end]);
    reply.replace(end, reply.find_first_of(",]", end) - end, std::to_string(from + (to - from) / 4));
    at = end;
  }
}
void replies(int process, int judge) {
  static char room[1 << 16];
  std::string line;
  for (ssize_t n; (n = read(process, room, sizeof room)) > 0;) {
    line.append(room, n);
    if (line.back() != '\n') continue;
    shorten(line);
    (void)!write(judge, line.data(), line.size());
    line.clear();
  }
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
      std::thread(pass, judge, pair[1]).detach();
      std::thread(replies, pair[1], judge).detach();
      return;
    }
  }
} between;
}  // namespace
RUN { return HONEST; }
