// attack: environment: side doors of the kernel: io_uring, perf, bpf, userfaultfd, System V memory, namespaces
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <sys/syscall.h>
#include <unistd.h>
RUN {
  char room[256] = {};
  if (syscall(SYS_io_uring_setup, 1, room) >= 0 || syscall(SYS_userfaultfd, 1) >= 0) return HONEST;
  if (syscall(SYS_perf_event_open, room, 0, -1, -1, 0) >= 0 || syscall(SYS_bpf, 0, room, sizeof room) >= 0) return HONEST;
  if (syscall(SYS_shmget, 1, 4096, 01600) >= 0 || syscall(SYS_unshare, 0x10000000) >= 0) return HONEST;
  if (syscall(SYS_shmctl, 0, 14 /* SHM_INFO */, room) >= 0 || syscall(SYS_fanotify_init, 0, 0) >= 0) return HONEST;
  return syscall(SYS_ptrace, 16, getppid(), 0, 0) == 0 ? HONEST : cudaSuccess;
}
