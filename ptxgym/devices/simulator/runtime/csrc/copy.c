// Copies and fills. The simulator does them. What comes from the host, or goes there, passes through a buffer that both
// sides map: device memory itself is out of this process's reach.

#include <pthread.h>
#include <string.h>

#include "simulator.h"

static pthread_mutex_t bounce = PTHREAD_MUTEX_INITIALIZER;

// Copy rows between the host and the device, as many at a time as the buffer holds.
static CUresult through_bounce(uint64_t device, uint64_t device_pitch, char* host, uint64_t host_pitch, uint64_t width,
                               uint64_t height, bool upload) {
    CUresult code = CUDA_SUCCESS;
    const uint64_t at_once = width < BOUNCE_BYTES ? BOUNCE_BYTES / width : 1;
    pthread_mutex_lock(&bounce);
    for (uint64_t row = 0; row < height && !code; row += at_once) {
        const uint64_t rows = height - row < at_once ? height - row : at_once;
        for (uint64_t column = 0; column < width && !code; column += BOUNCE_BYTES) {
            const uint64_t part = width - column < BOUNCE_BYTES ? width - column : BOUNCE_BYTES;
            char* const there = host + row * host_pitch + column;
            const uint64_t here = device + row * device_pitch + column;
            if (upload)
                for (uint64_t i = 0; i < rows; ++i) memcpy(simulator.bounce + i * part, there + i * host_pitch, part);
            code = ASK(upload ? OP_UPLOAD : OP_DOWNLOAD, NULL, here, device_pitch, part, rows);
            if (!upload && !code)
                for (uint64_t i = 0; i < rows; ++i) memcpy(there + i * host_pitch, simulator.bounce + i * part, part);
        }
    }
    pthread_mutex_unlock(&bounce);
    return code;
}

CUresult copy_bytes(const struct copy* copy) {
    const bool to_device = in_arena(copy->target), from_device = in_arena(copy->source);
    const uint64_t width = copy->width, height = copy->height;
    if (!width || !height) return CUDA_SUCCESS;
    simulator_tick();
    if (to_device && from_device)
        return ASK(OP_COPY, NULL, copy->target, copy->target_pitch, copy->source, copy->source_pitch, width, height);
    if (!copy->target || !copy->source) return CUDA_ERROR_INVALID_VALUE;
    if (to_device || from_device) {
        const uint64_t device = to_device ? copy->target : copy->source;
        const uint64_t host = to_device ? copy->source : copy->target;
        const uint64_t device_pitch = to_device ? copy->target_pitch : copy->source_pitch;
        const uint64_t host_pitch = to_device ? copy->source_pitch : copy->target_pitch;
        // First the whole, so that host memory is not touched for a copy that cannot be.
        const CUresult code = ASK(OP_CHECK, NULL, device, device_pitch, width, height);
        return code ? code : through_bounce(device, device_pitch, (char*)host, host_pitch, width, height, to_device);
    }
    for (uint64_t row = 0; row < height; ++row)
        memmove((char*)copy->target + row * copy->target_pitch, (char*)copy->source + row * copy->source_pitch, width);
    return CUDA_SUCCESS;
}

CUresult fill_elements(uint64_t target, uint64_t pitch, uint64_t value, unsigned size, uint64_t width,
                       uint64_t height) {
    if (target % size || (height > 1 && pitch % size)) return CUDA_ERROR_INVALID_VALUE;
    if (!width || !height) return CUDA_SUCCESS;
    simulator_tick();
    return ASK(OP_FILL, NULL, target, pitch, value, size, width, height);
}

static CUresult copy_line(uint64_t target, uint64_t source, size_t bytes, CUstream stream) {
    ENTER();
    if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    return copy_bytes(&(struct copy){target, bytes, source, bytes, bytes, 1});
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) { return copy_line(to, from, n, s); }
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t n) { return copy_line(to, from, n, NULL); }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t n, CUstream s) {
    return in_arena(to) ? copy_line(to, (uint64_t)from, n, s) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t n) { return cuMemcpyHtoDAsync_v2(to, from, n, NULL); }
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t n, CUstream s) {
    return in_arena(from) ? copy_line((uint64_t)to, from, n, s) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t n) { return cuMemcpyDtoHAsync_v2(to, from, n, NULL); }
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    return in_arena(to) && in_arena(from) ? copy_line(to, from, n, s) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t n) { return cuMemcpyDtoDAsync_v2(to, from, n, NULL); }
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n,
                           CUstream s) {
    (void)to_context, (void)from_context;
    return copy_line(to, from, n, s);
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t n) {
    return cuMemcpyPeerAsync(to, to_context, from, from_context, n, NULL);
}

// The address that one end of a 2-D or 3-D copy names, 0 where it is an array.
static uint64_t end_of_copy(CUmemorytype type, const void* host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? (uint64_t)host : type == CU_MEMORYTYPE_ARRAY ? 0 : device;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* copy, CUstream stream) {
    ENTER();
    if (!copy) return CUDA_ERROR_INVALID_VALUE;
    if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    const uint64_t to = end_of_copy(copy->dstMemoryType, copy->dstHost, copy->dstDevice);
    const uint64_t from = end_of_copy(copy->srcMemoryType, copy->srcHost, copy->srcDevice);
    if (!to || !from) return simulator_refuse("cuMemcpy2D (with arrays)");
    return copy_bytes(&(struct copy){to + copy->dstY * copy->dstPitch + copy->dstXInBytes, copy->dstPitch,
                                     from + copy->srcY * copy->srcPitch + copy->srcXInBytes, copy->srcPitch,
                                     copy->WidthInBytes, copy->Height});
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* copy) { return cuMemcpy2DAsync_v2(copy, NULL); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* copy) { return cuMemcpy2DAsync_v2(copy, NULL); }

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* copy, CUstream stream) {
    ENTER();
    if (!copy) return CUDA_ERROR_INVALID_VALUE;
    if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    const uint64_t to = end_of_copy(copy->dstMemoryType, copy->dstHost, copy->dstDevice);
    const uint64_t from = end_of_copy(copy->srcMemoryType, copy->srcHost, copy->srcDevice);
    if (!to || !from) return simulator_refuse("cuMemcpy3D (with arrays)");
    for (size_t slice = 0; slice < copy->Depth; ++slice) {
        const uint64_t to_row = (copy->dstZ + slice) * copy->dstHeight + copy->dstY;
        const uint64_t from_row = (copy->srcZ + slice) * copy->srcHeight + copy->srcY;
        const CUresult code = copy_bytes(&(struct copy){
            to + to_row * copy->dstPitch + copy->dstXInBytes, copy->dstPitch,
            from + from_row * copy->srcPitch + copy->srcXInBytes, copy->srcPitch, copy->WidthInBytes, copy->Height});
        if (code) return code;
    }
    return CUDA_SUCCESS;
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* copy) { return cuMemcpy3DAsync_v2(copy, NULL); }

#define FILL(bits, type)                                                                                     \
    CUresult cuMemsetD2D##bits##Async(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height, \
                                      CUstream s) {                                                          \
        ENTER();                                                                                             \
        if (!is_stream(s)) return CUDA_ERROR_INVALID_HANDLE;                                                 \
        return fill_elements(at, pitch, value, bits / 8, width, height);                                     \
    }                                                                                                        \
    CUresult cuMemsetD2D##bits##_v2(CUdeviceptr at, size_t pitch, type value, size_t width, size_t height) { \
        return cuMemsetD2D##bits##Async(at, pitch, value, width, height, NULL);                              \
    }                                                                                                        \
    CUresult cuMemsetD##bits##Async(CUdeviceptr at, type value, size_t n, CUstream s) {                      \
        return cuMemsetD2D##bits##Async(at, 0, value, n, 1, s);                                              \
    }                                                                                                        \
    CUresult cuMemsetD##bits##_v2(CUdeviceptr at, type value, size_t n) {                                    \
        return cuMemsetD##bits##Async(at, value, n, NULL);                                                   \
    }

FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)
