// attack: denial: threads that wait for each other for ever
// caught by: simulator memory timeout; gpu memory timeout
// with: base.cu
__global__ void wait() {
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t at = uint32_t(__cvta_generic_to_shared(&barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(at) : "memory");
  asm volatile("{ .reg .pred p;\nL: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n@!p bra L; }" ::"r"(at) : "memory");
}
RUN {
  wait<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}
