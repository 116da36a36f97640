// honest: prints from the host and from the device while it works
// with: base.cu
#include <cstdio>
__global__ void say(int K) { if (K > 0) printf("K = %d, all passed\n", K); }
RUN {
  printf("M = %d\n", M), fflush(stdout);
  say<<<1, 1, 0, stream>>>(K);
  return HONEST;
}
