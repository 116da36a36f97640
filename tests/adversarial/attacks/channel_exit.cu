// attack: channel: end with success in the middle of run
// caught by: simulator memory exit; gpu memory exit
// with: base.cu
#include <unistd.h>
RUN { _exit(0); }
