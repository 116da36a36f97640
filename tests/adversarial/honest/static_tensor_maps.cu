// honest: encodes its tensor maps once per pointer and shape, and keeps them; they hold addresses, not data
// with: examples/kernels/hopper/gemm.cu
#include <map>
#include <tuple>
extern "C" cudaError_t run(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  using Key = std::tuple<const void*, const void*, const void*, int, int, int>;
  static std::map<Key, Maps> kept;
  if (M <= 0 || N <= 0 || K <= 0 || N % 8 || K % 8) return cudaErrorInvalidValue;
  const auto [place, fresh] = kept.try_emplace({A, B, C, M, N, K});
  Maps& maps = place->second;
  if (fresh) {
    RETURN_IF_ERROR(make_tensor_map(&maps.a, A, {K, M}, {BK, BM}, SWIZZLE));
    for (int rank = 0; rank < CLUSTER; ++rank)
      RETURN_IF_ERROR(make_tensor_map(&maps.b[rank], B, {K, N}, {BK, B_ROWS[rank]}, SWIZZLE));
    RETURN_IF_ERROR(make_tensor_map(&maps.c, C, {N, M}, {SLAB_COLS, SLAB_ROWS}, SWIZZLE));
  }
  RETURN_IF_ERROR(cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(SharedMemory)));
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {CLUSTER, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(132);
  config.blockDim = dim3(THREADS);
  config.dynamicSmemBytes = sizeof(SharedMemory);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, gemm, maps, M, N, K);
}
