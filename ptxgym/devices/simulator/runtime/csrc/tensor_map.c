// Tensor maps. The simulator checks them and decides what their 128 bytes are, since it alone reads them.

#include <string.h>

#include "simulator.h"

static CUresult receive_map(CUtensorMap* map, CUresult code, const struct reply* reply, const unsigned char* bytes) {
    if (!code && reply->bytes != sizeof *map) return CUDA_ERROR_UNKNOWN;
    if (!code) memcpy(map, bytes, sizeof *map);
    return code;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    unsigned char bytes[sizeof *map];
    struct reply reply = {.data = bytes, .capacity = sizeof bytes};
    uint64_t words[26] = {type, rank, (uint64_t)address};
    const CUresult connected = simulator_connect();
    if (connected) return connected;
    if (!map || !dims || !box || !steps || !strides || rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < rank; ++i) {
        words[3 + i] = dims[i];
        if (i + 1 < rank) words[8 + i] = strides[i];
        words[12 + i] = box[i];
        words[17 + i] = steps[i];
    }
    words[22] = interleave, words[23] = swizzle, words[24] = promotion, words[25] = fill;
    return receive_map(map, simulator_ask(OP_ENCODE_TILED, words, 26, NULL, 0, &reply), &reply, bytes);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dims, const cuuint64_t* strides, const int* lower, const int* upper,
                                 cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    unsigned char bytes[sizeof *map];
    struct reply reply = {.data = bytes, .capacity = sizeof bytes};
    uint64_t words[29] = {type, rank, (uint64_t)address};
    const CUresult connected = simulator_connect();
    if (connected) return connected;
    if (!map || !dims || !strides || !lower || !upper || !steps || rank < 3 || rank > 5)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < rank; ++i) {
        words[3 + i] = dims[i];
        if (i + 1 < rank) words[8 + i] = strides[i];
        if (i + 2 < rank) words[12 + i] = (uint64_t)(int64_t)lower[i], words[15 + i] = (uint64_t)(int64_t)upper[i];
        words[20 + i] = steps[i];
    }
    words[18] = channels, words[19] = pixels;
    words[25] = interleave, words[26] = swizzle, words[27] = promotion, words[28] = fill;
    return receive_map(map, simulator_ask(OP_ENCODE_IM2COL, words, 29, NULL, 0, &reply), &reply, bytes);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
    unsigned char bytes[sizeof *map];
    struct reply reply = {.data = bytes, .capacity = sizeof bytes};
    const CUresult connected = simulator_connect();
    if (connected) return connected;
    if (!map) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = ASK_WITH(OP_REPLACE_ADDRESS, map, sizeof *map, &reply, (uint64_t)address);
    return receive_map(map, code, &reply, bytes);
}
