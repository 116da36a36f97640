// The device, its attributes, and contexts. There is one device and one context, the primary one.

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "simulator.h"

static struct CUctx_st {
    int unused;
} primary;
static int retained;
static _Thread_local CUcontext current;
static _Thread_local CUcontext pushed[32];  // the contexts below the current one
static _Thread_local unsigned depth;
static bool initialised;

#define NEED_INIT()                                          \
    do {                                                     \
        if (!initialised) return CUDA_ERROR_NOT_INITIALIZED; \
    } while (0)
#define NEED_DEVICE(device)                                \
    do {                                                   \
        NEED_INIT();                                       \
        if (device != 0) return CUDA_ERROR_INVALID_DEVICE; \
    } while (0)
#define NEED(pointer)                                    \
    do {                                                 \
        if (!(pointer)) return CUDA_ERROR_INVALID_VALUE; \
    } while (0)

CUresult simulator_enter(void) {
    NEED_INIT();
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    return simulator.fault;
}

CUresult simulator_use_primary(void) {
    const CUresult code = cuInit(0);
    if (code) return code;
    if (!current) {
        current = &primary;
        __atomic_store_n(&retained, 1, __ATOMIC_RELAXED);
    }
    return simulator.fault;
}

CUresult cuInit(unsigned flags) {
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    const CUresult code = simulator_connect();
    if (!code) initialised = true;
    return code;
}

CUresult cuDriverGetVersion(int* version) {
    NEED(version);
    *version = simulator_connect() ? 0 : simulator.driver_version;
    return CUDA_SUCCESS;
}

// --- the device

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    NEED_INIT();
    NEED(device);
    if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
    NEED_INIT();
    NEED(count);
    *count = 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
    NEED_DEVICE(device);
    NEED(name && length > 0);
    snprintf(name, (size_t)length, "%s", simulator.description.name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
    NEED_DEVICE(device);
    NEED(uuid);
    memcpy(uuid, simulator.description.uuid, sizeof *uuid);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
    NEED_DEVICE(device);
    NEED(bytes);
    *bytes = simulator.total_memory;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    NEED_INIT();
    NEED(value && (unsigned)attribute < ATTRIBUTES);
    if (simulator.description.attributes[attribute] == INT32_MIN) return CUDA_ERROR_INVALID_VALUE;
    if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
    *value = simulator.description.attributes[attribute];
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice device) {
    NEED_DEVICE(device);
    NEED(major && minor);
    *major = simulator.description.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
    *minor = simulator.description.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
    NEED_DEVICE(device);
    NEED(text && length >= 13);
    snprintf(text, (size_t)length, "0000:00:00.0");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* device, const char* text) {
    NEED_INIT();
    NEED(device && text);
    if (strcmp(text, "0000:00:00.0")) return CUDA_ERROR_INVALID_DEVICE;
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
    NEED_DEVICE(device);
    NEED_DEVICE(peer);
    NEED(can);
    *can = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice device, CUdevice peer) {
    (void)attribute;
    NEED_DEVICE(device);
    NEED_DEVICE(peer);
    NEED(value);
    return CUDA_ERROR_INVALID_DEVICE;  // a device is no peer of its own
}

// --- contexts

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    NEED_DEVICE(device);
    NEED(context);
    __atomic_add_fetch(&retained, 1, __ATOMIC_RELAXED);
    *context = &primary;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    NEED_DEVICE(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    NEED_DEVICE(device);
    NEED(flags && active);
    *flags = 0;
    *active = __atomic_load_n(&retained, __ATOMIC_RELAXED) > 0;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    (void)flags;
    NEED_DEVICE(device);
    return CUDA_SUCCESS;
}

// A context of one's own is the primary one here.
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* parameters, unsigned flags, CUdevice device) {
    (void)parameters, (void)flags;
    NEED_DEVICE(device);
    NEED(context);
    *context = &primary;
    return cuCtxPushCurrent_v2(&primary);
}
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
    return cuCtxCreate_v4(context, NULL, flags, device);
}
CUresult cuCtxDestroy_v2(CUcontext context) {
    NEED_INIT();
    if (context != &primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (current == context) cuCtxPopCurrent_v2(NULL);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    NEED_DEVICE(device);
    return simulator_refuse("cuDevicePrimaryCtxReset");
}

CUresult cuCtxSetCurrent(CUcontext context) {
    NEED_INIT();
    if (context && context != &primary) return CUDA_ERROR_INVALID_CONTEXT;
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
    NEED_INIT();
    NEED(context);
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
    NEED_INIT();
    if (context != &primary || depth == 32) return CUDA_ERROR_INVALID_CONTEXT;
    pushed[depth++] = current;
    current = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
    NEED_INIT();
    if (!current) return CUDA_ERROR_INVALID_CONTEXT;
    if (context) *context = current;
    current = depth ? pushed[--depth] : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
    ENTER();
    NEED(device);
    *device = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    ENTER();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned* version) {
    (void)context;
    ENTER();
    NEED(version);
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
    ENTER();
    NEED(flags);
    *flags = 0;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
    (void)context;
    ENTER();
    NEED(id);
    *id = 1;
    return CUDA_SUCCESS;
}

// What an H200 answers (behaviour_h200.txt); setting one is accepted and without effect, since nothing here depends
// on it.
static size_t limits[] = {1024, 8650752, 8 << 20, 0, 2048, 64, 11796480};
enum { NO_SYNC_DEPTH = CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH };  // gone since Hopper

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
    ENTER();
    NEED(value);
    if ((unsigned)limit >= sizeof limits / sizeof *limits) return CUDA_ERROR_INVALID_VALUE;
    if ((int)limit == NO_SYNC_DEPTH) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *value = limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    ENTER();
    if ((unsigned)limit >= sizeof limits / sizeof *limits) return CUDA_ERROR_INVALID_VALUE;
    if ((int)limit == NO_SYNC_DEPTH) return CUDA_ERROR_UNSUPPORTED_LIMIT;
    limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
    ENTER();
    NEED(config);
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
    (void)config;
    ENTER();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    ENTER();
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void) {
    ENTER();
    return CUDA_SUCCESS;
}

CUresult cuProfilerStart(void) { return CUDA_SUCCESS; }
CUresult cuProfilerStop(void) { return CUDA_SUCCESS; }

// --- errors

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
#define ERROR(code, runtime, driver, text) {code, #driver, text},
#include "errors.def"
#undef ERROR
};

static const char* find_error(CUresult code, bool name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i)
        if (errors[i].code == (int)code && *errors[i].name) return name ? errors[i].name : errors[i].text;
    return NULL;
}

CUresult cuGetErrorName(CUresult code, const char** name) {
    NEED(name);
    *name = find_error(code, true);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char** text) {
    NEED(text);
    *text = find_error(code, false);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
