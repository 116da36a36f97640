// attack: denial: a host stack that grows until it breaks
// caught by: simulator memory crash; gpu memory crash
// with: base.cu
__attribute__((noinline)) int deeper(volatile char* before) {
  volatile char room[4096];
  room[0] = before ? before[0] + 1 : 0;
  return deeper(room) + room[0];
}
RUN { return deeper(nullptr) ? HONEST : cudaSuccess; }
