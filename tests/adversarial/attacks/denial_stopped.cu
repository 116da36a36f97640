// attack: denial: stop the process, which then neither works nor ends
// caught by: simulator memory timeout; gpu memory timeout
// with: base.cu
#include <signal.h>
#include <unistd.h>
RUN { return kill(getpid(), SIGSTOP) ? cudaErrorUnknown : HONEST; }
