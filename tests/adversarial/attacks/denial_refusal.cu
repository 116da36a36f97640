// attack: denial: refuse every shape, so that nothing can be judged and a failure is masked
// caught by: simulator memory refused; gpu memory refused
// with: base.cu
RUN {
  (void)HONEST;
  return cudaErrorNotSupported;
}
