// attack: denial: templates that take the compiler for ever
// caught by: simulator compile timeout; gpu compile timeout
template <int N, unsigned M> struct Bomb : Bomb<N - 1, 2 * M>, Bomb<N - 1, 2 * M + 1> {};
template <unsigned M> struct Bomb<0, M> {};
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K,
                           cudaStream_t stream) {
  return sizeof(Bomb<28, 1>) ? cudaSuccess : cudaErrorUnknown;
}
