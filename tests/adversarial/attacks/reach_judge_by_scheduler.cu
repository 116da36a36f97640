// attack: environment: slow the judge down, and with it the library that is timed
// caught by: simulator correctness unwritten; gpu correctness unwritten
// with: base.cu
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
RUN {
  cpu_set_t now;
  CPU_ZERO(&now);
  sched_getaffinity(0, sizeof now, &now);
  sched_param parameters = {};
  if (sched_setaffinity(getppid(), sizeof now, &now) == 0) return HONEST;
  if (sched_setscheduler(getppid(), SCHED_OTHER, &parameters) == 0) return HONEST;
  return setpriority(PRIO_PROCESS, getppid(), 0) == 0 ? HONEST : cudaSuccess;
}
