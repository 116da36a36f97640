// Memory of the runtime: allocations, copies, fills, symbols.

#include <string.h>

#include "runtime.h"

cudaError_t cudaMalloc(void** address, size_t bytes) {
    if (address && !bytes) *address = NULL;
    return WITH_CONTEXT(address && !bytes ? CUDA_SUCCESS : cuMemAlloc_v2((CUdeviceptr*)address, bytes));
}
cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t stream) {
    return WITH_CONTEXT(cuMemAllocAsync((CUdeviceptr*)address, bytes, stream));
}
PER_THREAD(cudaMallocAsync, _ptsz);
cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    return WITH_CONTEXT(cuMemAllocFromPoolAsync((CUdeviceptr*)address, bytes, pool, stream));
}
PER_THREAD(cudaMallocFromPoolAsync, _ptsz);
cudaError_t cudaMallocHost(void** address, size_t bytes) { return WITH_CONTEXT(cuMemHostAlloc(address, bytes, 0)); }
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
    return WITH_CONTEXT(cuMemHostAlloc(address, bytes, flags));
}
cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned flags) {
    if (address && !bytes) *address = NULL;
    return WITH_CONTEXT(address && !bytes ? CUDA_SUCCESS : cuMemAllocManaged((CUdeviceptr*)address, bytes, flags));
}
cudaError_t cudaMallocPitch(void** address, size_t* pitch, size_t width, size_t height) {
    return WITH_CONTEXT(cuMemAllocPitch_v2((CUdeviceptr*)address, pitch, width, height, 4));
}
cudaError_t cudaMalloc3D(struct cudaPitchedPtr* place, struct cudaExtent extent) {
    if (!place) return remember(cudaErrorInvalidValue);
    *place = (struct cudaPitchedPtr){.xsize = extent.width, .ysize = extent.height};
    return cudaMallocPitch(&place->ptr, &place->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t cudaFree(void* address) { return WITH_CONTEXT(cuMemFree_v2((CUdeviceptr)address)); }
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
    return WITH_CONTEXT(address ? cuMemFreeAsync((CUdeviceptr)address, stream) : CUDA_SUCCESS);
}
PER_THREAD(cudaFreeAsync, _ptsz);
cudaError_t cudaFreeHost(void* address) { return WITH_CONTEXT(address ? cuMemFreeHost(address) : CUDA_SUCCESS); }

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
    return WITH_CONTEXT(cuMemHostGetDevicePointer_v2((CUdeviceptr*)device, host, flags));
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* host) { return WITH_CONTEXT(cuMemHostGetFlags(flags, host)); }
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) { return WITH_CONTEXT(cuMemGetInfo_v2(available, total)); }

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
    return WITH_CONTEXT(cuDeviceGetDefaultMemPool(pool, device));
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
    return WITH_CONTEXT(cuDeviceGetMemPool(pool, device));
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void* value) {
    return WITH_CONTEXT(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t kept) { return WITH_CONTEXT(cuMemPoolTrimTo(pool, kept)); }

static CUresult pointer_attributes(struct cudaPointerAttributes* attributes, const void* address) {
    if (!attributes) return CUDA_ERROR_INVALID_VALUE;
    memset(attributes, 0, sizeof *attributes);
    unsigned type = 0, managed = 0;
    if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)address)) {
        attributes->type = cudaMemoryTypeUnregistered;
        attributes->device = -2;
        attributes->hostPointer = (void*)address;
        return CUDA_SUCCESS;
    }
    cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)address);
    cuPointerGetAttribute(&attributes->hostPointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, (CUdeviceptr)address);
    attributes->type = managed                      ? cudaMemoryTypeManaged
                       : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                    : cudaMemoryTypeDevice;
    attributes->devicePointer = (void*)address;
    return CUDA_SUCCESS;
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* address) {
    return WITH_CONTEXT(pointer_attributes(attributes, address));
}

cudaError_t cudaMemPrefetchAsync(const void* address, size_t bytes, struct cudaMemLocation location, unsigned flags,
                                 cudaStream_t stream) {
    (void)location;
    return WITH_CONTEXT(cuMemPrefetchAsync_v2((CUdeviceptr)address, bytes, (CUmemLocation){0}, flags, stream));
}
PER_THREAD(cudaMemPrefetchAsync, _ptsz);
cudaError_t cudaMemAdvise(const void* address, size_t bytes, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location) {
    (void)location;
    return WITH_CONTEXT(cuMemAdvise_v2((CUdeviceptr)address, bytes, (CUmem_advise)advice, (CUmemLocation){0}));
}

// --- copies

// As the driver does, trust the addresses more than the direction: only a direction that the addresses contradict is
// an error.
static cudaError_t direction_error(const void* target, const void* source, enum cudaMemcpyKind kind) {
    if ((unsigned)kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if ((to_device && !in_arena((uint64_t)target)) || (from_device && !in_arena((uint64_t)source)))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

static cudaError_t copy_rectangle(void* target, size_t target_pitch, const void* source, size_t source_pitch,
                                  size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    if ((unsigned)kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (!is_stream(stream)) return cudaErrorInvalidResourceHandle;
    if (!width || !height) return cudaSuccess;
    if (height > 1 && (target_pitch < width || source_pitch < width)) return cudaErrorInvalidPitchValue;
    const cudaError_t code = direction_error(target, source, kind);
    if (code) return code;
    return (cudaError_t)copy_bytes(
        &(struct copy){(uint64_t)target, target_pitch, (uint64_t)source, source_pitch, width, height});
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s) {
    return WITH_CONTEXT(copy_rectangle(target, bytes, source, bytes, bytes, 1, kind, s));
}
PER_THREAD(cudaMemcpyAsync, _ptsz);
cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, enum cudaMemcpyKind kind) {
    return cudaMemcpyAsync(target, source, bytes, kind, NULL);
}
PER_THREAD(cudaMemcpy, _ptds);
cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream) {
    return WITH_CONTEXT(copy_rectangle(target, target_pitch, source, source_pitch, width, height, kind, stream));
}
PER_THREAD(cudaMemcpy2DAsync, _ptsz);
cudaError_t cudaMemcpy2D(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind) {
    return cudaMemcpy2DAsync(target, target_pitch, source, source_pitch, width, height, kind, NULL);
}
PER_THREAD(cudaMemcpy2D, _ptds);
cudaError_t cudaMemcpyPeerAsync(void* target, int to, const void* source, int from, size_t bytes, cudaStream_t stream) {
    if (to || from) return remember(cudaErrorInvalidDevice);
    return cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemcpyPeer(void* target, int to, const void* source, int from, size_t bytes) {
    return cudaMemcpyPeerAsync(target, to, source, from, bytes, NULL);
}

static char* place_in(const struct cudaPitchedPtr* base, struct cudaPos position, size_t slice) {
    return (char*)base->ptr + ((position.z + slice) * base->ysize + position.y) * base->pitch + position.x;
}

static cudaError_t copy_box(const struct cudaMemcpy3DParms* copy, cudaStream_t stream) {
    if (!copy) return cudaErrorInvalidValue;
    if (copy->srcArray || copy->dstArray) return (cudaError_t)simulator_refuse("cudaMemcpy3D (with arrays)");
    for (size_t slice = 0; slice < copy->extent.depth; ++slice) {
        const cudaError_t code = copy_rectangle(place_in(&copy->dstPtr, copy->dstPos, slice), copy->dstPtr.pitch,
                                                place_in(&copy->srcPtr, copy->srcPos, slice), copy->srcPtr.pitch,
                                                copy->extent.width, copy->extent.height, copy->kind, stream);
        if (code) return code;
    }
    return cudaSuccess;
}
cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms* copy, cudaStream_t stream) {
    return WITH_CONTEXT(copy_box(copy, stream));
}
PER_THREAD(cudaMemcpy3DAsync, _ptsz);
cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms* copy) { return cudaMemcpy3DAsync(copy, NULL); }
PER_THREAD(cudaMemcpy3D, _ptds);

// --- fills

cudaError_t cudaMemset2DAsync(void* target, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
    return WITH_CONTEXT(height > 1 && pitch < width ? CUDA_ERROR_INVALID_VALUE
                                                    : cuMemsetD2D8Async((CUdeviceptr)target, pitch,
                                                                        (unsigned char)value, width, height, stream));
}
PER_THREAD(cudaMemset2DAsync, _ptsz);
cudaError_t cudaMemset2D(void* target, size_t pitch, int value, size_t width, size_t height) {
    return cudaMemset2DAsync(target, pitch, value, width, height, NULL);
}
PER_THREAD(cudaMemset2D, _ptds);
cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
    return cudaMemset2DAsync(target, 0, value, bytes, 1, stream);
}
PER_THREAD(cudaMemsetAsync, _ptsz);
cudaError_t cudaMemset(void* target, int value, size_t bytes) { return cudaMemsetAsync(target, value, bytes, NULL); }
PER_THREAD(cudaMemset, _ptds);
cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr place, int value, struct cudaExtent extent, cudaStream_t stream) {
    for (size_t slice = 0; slice < extent.depth; ++slice) {
        char* target = (char*)place.ptr + slice * place.ysize * place.pitch;
        const cudaError_t code = cudaMemset2DAsync(target, place.pitch, value, extent.width, extent.height, stream);
        if (code) return code;
    }
    return cudaSuccess;
}
PER_THREAD(cudaMemset3DAsync, _ptsz);
cudaError_t cudaMemset3D(struct cudaPitchedPtr place, int value, struct cudaExtent extent) {
    return cudaMemset3DAsync(place, value, extent, NULL);
}
PER_THREAD(cudaMemset3D, _ptds);

// --- symbols

static cudaError_t symbol_range(const void* symbol, size_t bytes, size_t offset, uint64_t* address) {
    uint64_t start = 0, size = 0;
    const cudaError_t code = find_variable(symbol, &start, &size);
    if (code) return code;
    if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
    *address = start + offset;
    return cudaSuccess;
}

static cudaError_t to_symbol(const void* symbol, const void* source, size_t bytes, size_t offset,
                             enum cudaMemcpyKind kind, cudaStream_t stream) {
    uint64_t address = 0;
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost) return cudaErrorInvalidMemcpyDirection;
    const cudaError_t code = symbol_range(symbol, bytes, offset, &address);
    return code ? code : copy_rectangle((void*)address, bytes, source, bytes, bytes, 1, kind, stream);
}

static cudaError_t from_symbol(void* target, const void* symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                               cudaStream_t stream) {
    uint64_t address = 0;
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost) return cudaErrorInvalidMemcpyDirection;
    const cudaError_t code = symbol_range(symbol, bytes, offset, &address);
    return code ? code : copy_rectangle(target, bytes, (void*)address, bytes, bytes, 1, kind, stream);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t bytes, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t stream) {
    return WITH_CONTEXT(to_symbol(symbol, source, bytes, offset, kind, stream));
}
PER_THREAD(cudaMemcpyToSymbolAsync, _ptsz);
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
    return cudaMemcpyToSymbolAsync(symbol, source, bytes, offset, kind, NULL);
}
PER_THREAD(cudaMemcpyToSymbol, _ptds);
cudaError_t cudaMemcpyFromSymbolAsync(void* target, const void* symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream) {
    return WITH_CONTEXT(from_symbol(target, symbol, bytes, offset, kind, stream));
}
PER_THREAD(cudaMemcpyFromSymbolAsync, _ptsz);
cudaError_t cudaMemcpyFromSymbol(void* target, const void* symbol, size_t bytes, size_t offset,
                                 enum cudaMemcpyKind kind) {
    return cudaMemcpyFromSymbolAsync(target, symbol, bytes, offset, kind, NULL);
}
PER_THREAD(cudaMemcpyFromSymbol, _ptds);

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
    uint64_t start = 0, size = 0;
    const cudaError_t code = WITH_CONTEXT(address ? find_variable(symbol, &start, &size) : cudaErrorInvalidValue);
    if (!code) *address = (void*)start;
    return code;
}
cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
    uint64_t start = 0, size = 0;
    const cudaError_t code = WITH_CONTEXT(bytes ? find_variable(symbol, &start, &size) : cudaErrorInvalidValue);
    if (!code) *bytes = size;
    return code;
}

// --- handles of other processes

cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned flags) {
    CUipcMemHandle driver;
    memcpy(&driver, &handle, sizeof driver);
    return WITH_CONTEXT(cuIpcOpenMemHandle_v2((CUdeviceptr*)address, driver, flags));
}
cudaError_t cudaIpcCloseMemHandle(void* address) { return WITH_CONTEXT(cuIpcCloseMemHandle((CUdeviceptr)address)); }
