// The host's builder of tensor maps, with a driver that writes down what it is asked for.
#include <string_view>

#include <ptxgym/tensor_map.cuh>

struct Asked {
    int type, rank, interleave, swizzle, promotion, fill;
    const void* address;
    cuuint64_t sizes[5], strides[4];
    cuuint32_t box[5], steps[5];
};
static Asked asked;
static int driver_result, driver_missing;

static CUresult record(CUtensorMap*, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* sizes,
                       const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps,
                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                       CUtensorMapFloatOOBfill fill) {
    asked = {type, int(rank), interleave, swizzle, promotion, fill, address, {}, {}, {}, {}};
    for (cuuint32_t i = 0; i < rank; ++i) {
        asked.sizes[i] = sizes[i];
        asked.box[i] = box[i];
        asked.steps[i] = steps[i];
        if (i + 1 < rank) asked.strides[i] = strides[i];
    }
    return CUresult(driver_result);
}

extern "C" cudaError_t CUDARTAPI cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned version,
                                                                  unsigned long long,
                                                                  cudaDriverEntryPointQueryResult* found) {
    const bool known = std::string_view(name) == "cuTensorMapEncodeTiled" && version == 12000 && !driver_missing;
    *entry = known ? reinterpret_cast<void*>(record) : nullptr;
    *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

template <int RANK, class T>
static int build(const T* tensor, const int64_t* sizes, const int* box, ptxgym::Swizzle swizzle) {
    int64_t s[RANK];
    int b[RANK];
    for (int i = 0; i < RANK; ++i) {
        s[i] = sizes[i];
        b[i] = box[i];
    }
    CUtensorMap map;
    return ptxgym::make_tensor_map(&map, tensor, s, b, swizzle);
}

template <class T>
static int build(int rank, const void* tensor, const int64_t* sizes, const int* box, int span) {
    const auto typed = static_cast<const T*>(tensor);
    const auto swizzle = ptxgym::Swizzle(span);
    switch (rank) {
        case 1: return build<1>(typed, sizes, box, swizzle);
        case 2: return build<2>(typed, sizes, box, swizzle);
        case 3: return build<3>(typed, sizes, box, swizzle);
        case 4: return build<4>(typed, sizes, box, swizzle);
        default: return build<5>(typed, sizes, box, swizzle);
    }
}

extern "C" int contiguous(int is_float, int rank, const void* tensor, const int64_t* sizes, const int* box, int span,
                          int result, int missing, Asked* out) {
    driver_result = result;
    driver_missing = missing;
    const int error = is_float ? build<float>(rank, tensor, sizes, box, span)
                               : build<__nv_bfloat16>(rank, tensor, sizes, box, span);
    *out = asked;
    return error;
}

extern "C" int with_literals(const void* tensor, int K, int M, Asked* out) {
    driver_result = driver_missing = 0;
    CUtensorMap map;
    const int error = ptxgym::make_tensor_map(&map, static_cast<const __nv_bfloat16*>(tensor), {K, M}, {64, 128},
                                              ptxgym::Swizzle::B128);
    *out = asked;
    return error;
}
