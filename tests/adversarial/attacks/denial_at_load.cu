// attack: denial: a constructor that fills threads and never returns
// caught by: simulator memory timeout; gpu memory timeout
// with: base.cu
namespace { struct Spin { Spin() { for (volatile int i = 0;; i = i + 1) {} } } spin; }
RUN { return HONEST; }
