// Tensor maps, made on the host: what TMA must know of a tensor in global memory, and the box that one copy moves.
//
// Sizes and boxes count elements, innermost first; strides count bytes and leave the innermost out. Rules that the
// driver checks: the tensor is 16-byte aligned; strides are multiples of 16; a box has at most 256 elements per
// dimension, a multiple of 16 bytes innermost, and innermost at most the swizzle's span (128, 64 or 32 bytes).
// Pass the map to the kernel as `const __grid_constant__ CUtensorMap`.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <cudaTypedefs.h>

#include "swizzle.cuh"

namespace ptxgym {

// cuTensorMapEncodeTiled without linking to libcuda. The host.
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    const bool usable = error == cudaSuccess && found == cudaDriverEntryPointSuccess;
    return usable ? reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(entry) : nullptr;
}

// Any strides, any type. Check the result: a kernel with a bad map faults. The host.
template <int RANK>
cudaError_t make_tensor_map_strided(CUtensorMap* map, CUtensorMapDataType type, const void* tensor,
                                    const int64_t (&sizes)[RANK], const int64_t* stride_bytes, const int (&box)[RANK],
                                    Swizzle swizzle) {
    static_assert(RANK >= 1 && RANK <= 5, "a tensor map has one to five dimensions");
    cuuint64_t size[RANK], stride[RANK] = {};
    cuuint32_t extent[RANK], step[RANK];
    for (int i = 0; i < RANK; ++i) {
        size[i] = sizes[i];
        extent[i] = box[i];
        step[i] = 1;
        if (i + 1 < RANK) stride[i] = stride_bytes[i];
    }
    const CUtensorMapSwizzle mode = swizzle == Swizzle::B128  ? CU_TENSOR_MAP_SWIZZLE_128B
                                    : swizzle == Swizzle::B64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                    : swizzle == Swizzle::B32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                              : CU_TENSOR_MAP_SWIZZLE_NONE;
    const auto encode = tensor_map_encoder();
    if (encode == nullptr) return cudaErrorNotSupported;
    const CUresult result = encode(map, type, RANK, const_cast<void*>(tensor), size, stride, extent, step,
                                   CU_TENSOR_MAP_INTERLEAVE_NONE, mode, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// A contiguous tensor: make_tensor_map(&map, A, {K, M}, {64, 128}, Swizzle::B128) for a row-major A[M][K] that moves
// in boxes of 128 rows and 64 columns. The host.
template <int RANK>
cudaError_t make_tensor_map(CUtensorMap* map, const __nv_bfloat16* tensor, const int64_t (&sizes)[RANK],
                            const int (&box)[RANK], Swizzle swizzle) {
    int64_t stride[RANK];
    stride[0] = sizes[0] * int64_t(sizeof(__nv_bfloat16));
    for (int i = 1; i < RANK; ++i) stride[i] = stride[i - 1] * sizes[i];
    return make_tensor_map_strided(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, tensor, sizes, stride, box, swizzle);
}

// The same for fp32, unswizzled or not: the accumulators of a reduction. The host.
template <int RANK>
cudaError_t make_tensor_map(CUtensorMap* map, const float* tensor, const int64_t (&sizes)[RANK],
                            const int (&box)[RANK], Swizzle swizzle) {
    int64_t stride[RANK];
    stride[0] = sizes[0] * int64_t(sizeof(float));
    for (int i = 1; i < RANK; ++i) stride[i] = stride[i - 1] * sizes[i];
    return make_tensor_map_strided(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, tensor, sizes, stride, box, swizzle);
}

}  // namespace ptxgym
