// Allocations. The simulator decides where they lie and remembers them; here is what the host may touch.

#include <string.h>
#include <sys/mman.h>

#include "simulator.h"

CUresult allocate_memory(uint64_t bytes, enum memory_kind kind, uint64_t* address) {
    struct reply reply = {0};
    const CUresult code = ASK(OP_ALLOCATE, &reply, bytes, kind);
    if (code) return code;
    *address = reply.words[0];
    return kind == MEMORY_DEVICE ? CUDA_SUCCESS : show_to_host(*address, bytes);
}

CUresult free_memory(uint64_t address, enum memory_kind kind) {
    struct reply reply = {0};
    const bool known = !ASK(OP_POINTER, &reply, address);
    const CUresult code = ASK(OP_FREE, NULL, address, kind);
    if (!code && known && reply.words[0] != MEMORY_DEVICE) {  // the host may no longer touch it
        const uint64_t bytes = (reply.words[2] + 4095) / 4096 * 4096;
        mmap((void*)address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    return code;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
    ENTER();
    uint64_t where = 0;
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = allocate_memory(bytes, MEMORY_DEVICE, &where);
    if (!code) *address = where;
    return code;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height, unsigned element) {
    ENTER();
    if (!address || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    *pitch = (width + 511) / 512 * 512;
    return cuMemAlloc_v2(address, *pitch * height);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    ENTER();
    return address ? free_memory(address, MEMORY_DEVICE) : CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
    ENTER();
    if (!address || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t where = 0;
    const CUresult code = allocate_memory(bytes, MEMORY_MANAGED, &where);
    if (!code) *address = where;
    return code;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned flags) {
    ENTER();
    if (!address || flags & ~7u) return CUDA_ERROR_INVALID_VALUE;
    uint64_t where = 0;
    if (!bytes) {
        *address = NULL;
        return CUDA_SUCCESS;
    }
    const CUresult code = allocate_memory(bytes, MEMORY_PINNED, &where);
    if (!code) *address = (void*)where;
    return code;
}
CUresult cuMemAllocHost_v2(void** address, size_t bytes) { return cuMemHostAlloc(address, bytes, 0); }

CUresult cuMemFreeHost(void* address) {
    ENTER();
    return address ? free_memory((uint64_t)address, MEMORY_PINNED) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult pinned(const void* address) {
    struct reply reply = {0};
    const CUresult code = ASK(OP_POINTER, &reply, (uint64_t)address);
    return !code && reply.words[0] == MEMORY_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned flags) {
    ENTER();
    if (!device || flags) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = pinned(host);
    if (!code) *device = (uint64_t)host;
    return code;
}

CUresult cuMemHostGetFlags(unsigned* flags, void* host) {
    ENTER();
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEMHOSTALLOC_DEVICEMAP;
    return pinned(host);
}

CUresult cuMemGetInfo_v2(size_t* available, size_t* total) {
    ENTER();
    struct reply reply = {0};
    const CUresult code = ASK(OP_MEMORY_INFO, &reply, 0);
    if (available) *available = reply.words[0];
    if (total) *total = reply.words[1];
    return code;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* start, size_t* bytes, CUdeviceptr address) {
    ENTER();
    struct reply reply = {0};
    if (ASK(OP_POINTER, &reply, address)) return CUDA_ERROR_NOT_FOUND;
    if (start) *start = reply.words[1];
    if (bytes) *bytes = reply.words[2];
    return CUDA_SUCCESS;
}

static CUresult pointer_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address,
                                  const struct reply* known) {
    const bool host_too = known->words[0] == MEMORY_PINNED || known->words[0] == MEMORY_MANAGED;
    CUcontext context = NULL;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
            cuCtxGetCurrent(&context);
            *(CUcontext*)value = context;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned*)value = known->words[0] == MEMORY_PINNED ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            *(CUdeviceptr*)value = address;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            *(void**)value = host_too ? (void*)address : NULL;
            return host_too ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned*)value = known->words[0] == MEMORY_MANAGED;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int*)value = 0;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *(CUdeviceptr*)value = known->words[1];
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *(size_t*)value = known->words[2];
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MAPPED:
            *(bool*)value = true;
            return CUDA_SUCCESS;
        default:
            return simulator_refuse("cuPointerGetAttribute (this attribute)");
    }
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
    ENTER();
    struct reply known = {0};
    if (!value || ASK(OP_POINTER, &known, address)) return CUDA_ERROR_INVALID_VALUE;
    return pointer_attribute(value, attribute, address, &known);
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr address) {
    ENTER();
    struct reply known = {0};
    if (!attributes || !values) return CUDA_ERROR_INVALID_VALUE;
    const bool unknown = ASK(OP_POINTER, &known, address) != CUDA_SUCCESS;
    for (unsigned i = 0; i < count; ++i) {
        if (unknown)  // as the driver does: no error, and zeros
            memset(values[i], 0, attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? 4 : 8);
        else
            pointer_attribute(values[i], attributes[i], address, &known);
    }
    return CUDA_SUCCESS;
}

// --- the judge's buffers

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned flags) {
    ENTER();
    struct reply reply = {0};
    if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = ASK_WITH(OP_OPEN_HANDLE, &handle, sizeof handle, &reply, 0);
    if (!code) *address = reply.words[0];
    return code;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
    ENTER();
    return ASK(OP_CLOSE_HANDLE, NULL, address);
}

// --- pools: every one is the default, and has no state

static struct CUmemPoolHandle_st {
    int unused;
} default_pool;

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice device) {
    if (!pool) return CUDA_ERROR_INVALID_VALUE;
    if (device) return CUDA_ERROR_INVALID_DEVICE;
    *pool = &default_pool;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); }

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool, CUstream stream) {
    ENTER();
    if (pool != &default_pool || !address) return CUDA_ERROR_INVALID_VALUE;
    if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    *address = 0;
    return bytes ? cuMemAlloc_v2(address, bytes) : CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
    return cuMemAllocFromPoolAsync(address, bytes, &default_pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    ENTER();
    if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    return address ? free_memory(address, MEMORY_DEVICE) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value) {
    (void)attribute;
    return pool == &default_pool && value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t kept) {
    (void)kept;
    return pool == &default_pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// --- hints, which change nothing here

static CUresult hint(CUdeviceptr address) {
    ENTER();
    struct reply known = {0};
    return ASK(OP_POINTER, &known, address) || known.words[0] != MEMORY_MANAGED ? CUDA_ERROR_INVALID_VALUE
                                                                                : CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                               CUstream stream) {
    (void)bytes, (void)location, (void)flags, (void)stream;
    return hint(address);
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location) {
    (void)bytes, (void)advice, (void)location;
    return hint(address);
}
