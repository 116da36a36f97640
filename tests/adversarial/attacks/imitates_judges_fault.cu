// attack: imitation: end by a signal that has no name, so that the judge stumbles and blames itself
// caught by: simulator memory crash; gpu memory crash
// with: base.cu
#include <csignal>
RUN {
  raise(37);
  return HONEST;
}
