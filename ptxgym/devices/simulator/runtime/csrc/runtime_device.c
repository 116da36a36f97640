// The device, errors, streams, events and entry points of the runtime.

#include <string.h>

#include "runtime.h"

// --- errors

static _Thread_local cudaError_t last_error;

cudaError_t remember(int code) {
    if (code) last_error = (cudaError_t)code;
    return (cudaError_t)code;
}

cudaError_t cudaGetLastError(void) {
    cuInit(0);  // the first call of any kind brings up the driver
    const cudaError_t code = last_error;
    last_error = cudaSuccess;
    return code;
}
cudaError_t cudaPeekAtLastError(void) { return last_error; }

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
#define ERROR(code, runtime, driver, text) {code, #runtime, text},
#include "errors.def"
#undef ERROR
};

static const char* describe(cudaError_t code, bool name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; ++i)
        if (errors[i].code == (int)code && *errors[i].name) return name ? errors[i].name : errors[i].text;
    return "unrecognized error code";
}
const char* cudaGetErrorName(cudaError_t code) { return describe(code, true); }
const char* cudaGetErrorString(cudaError_t code) { return describe(code, false); }

// --- the device

cudaError_t cudaGetDeviceCount(int* count) { return WITH_DRIVER(cuDeviceGetCount(count)); }
cudaError_t cudaGetDevice(int* device) {
    return WITH_DRIVER(device ? (*device = 0, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE);
}
cudaError_t cudaSetDevice(int device) { return WITH_CONTEXT(device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS); }
cudaError_t cudaInitDevice(int device, unsigned device_flags, unsigned flags) {
    (void)device_flags, (void)flags;
    return cudaSetDevice(device);
}
cudaError_t cudaSetValidDevices(int* devices, int count) {
    return WITH_DRIVER(devices && count > 0 && devices[0] == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}
cudaError_t cudaChooseDevice(int* device, const struct cudaDeviceProp* wanted) {
    (void)wanted;
    return cudaGetDevice(device);
}
cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
    return WITH_DRIVER(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}
cudaError_t cudaDeviceSynchronize(void) { return WITH_CONTEXT(cuCtxSynchronize()); }
cudaError_t cudaDeviceReset(void) { return remember((int)simulator_refuse("cudaDeviceReset")); }
cudaError_t cudaDeviceGetLimit(size_t* value, enum cudaLimit limit) {
    return WITH_CONTEXT(cuCtxGetLimit(value, (CUlimit)limit));
}
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value) {
    return WITH_CONTEXT(cuCtxSetLimit((CUlimit)limit, value));
}
cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache* config) {
    return WITH_CONTEXT(cuCtxGetCacheConfig((CUfunc_cache*)config));
}
cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache config) {
    return WITH_CONTEXT(cuCtxSetCacheConfig((CUfunc_cache)config));
}
cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig* config) {
    return WITH_CONTEXT(config ? (*config = cudaSharedMemBankSizeFourByte, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE);
}
cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config) {
    (void)config;  // banks have had four bytes since Maxwell
    return WITH_CONTEXT(CUDA_SUCCESS);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return WITH_CONTEXT(cuCtxGetStreamPriorityRange(least, greatest));
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
    return WITH_CONTEXT(flags ? (*flags = cudaDeviceMapHost, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE);
}
cudaError_t cudaSetDeviceFlags(unsigned flags) {
    (void)flags;
    return WITH_DRIVER(CUDA_SUCCESS);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
    return WITH_DRIVER(cuDeviceGetPCIBusId(text, length, device));
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
    return WITH_DRIVER(cuDeviceGetByPCIBusId(device, text));
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    return WITH_DRIVER(cuDeviceCanAccessPeer(can, device, peer));
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
    (void)flags;
    return WITH_CONTEXT(peer ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}
cudaError_t cudaCtxResetPersistingL2Cache(void) { return WITH_CONTEXT(cuCtxResetPersistingL2Cache()); }
cudaError_t cudaProfilerStart(void) { return WITH_CONTEXT(cuProfilerStart()); }
cudaError_t cudaProfilerStop(void) { return WITH_CONTEXT(cuProfilerStop()); }

cudaError_t cudaDriverGetVersion(int* version) { return WITH_DRIVER(cuDriverGetVersion(version)); }
cudaError_t cudaRuntimeGetVersion(int* version) {
    return WITH_DRIVER(version ? (*version = 13000, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE);
}

// --- streams and events

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return WITH_CONTEXT(cuStreamCreate(stream, 0)); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return WITH_CONTEXT(cuStreamCreate(stream, flags));
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
    return WITH_CONTEXT(cuStreamCreateWithPriority(stream, flags, priority));
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return WITH_CONTEXT(cuStreamDestroy_v2(stream)); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return WITH_CONTEXT(cuStreamSynchronize(stream)); }
PER_THREAD(cudaStreamSynchronize, _ptsz);
cudaError_t cudaStreamQuery(cudaStream_t stream) { return WITH_CONTEXT(cuStreamQuery(stream)); }
PER_THREAD(cudaStreamQuery, _ptsz);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    return WITH_CONTEXT(cuStreamWaitEvent(stream, event, flags));
}
PER_THREAD(cudaStreamWaitEvent, _ptsz);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
    return WITH_CONTEXT(cuStreamGetFlags(stream, flags));
}
PER_THREAD(cudaStreamGetFlags, _ptsz);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
    return WITH_CONTEXT(cuStreamGetPriority(stream, priority));
}
PER_THREAD(cudaStreamGetPriority, _ptsz);
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
    return WITH_CONTEXT(cuStreamGetId(stream, id));
}
PER_THREAD(cudaStreamGetId, _ptsz);
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
    return WITH_CONTEXT(is_stream(stream) && device ? (*device = 0, CUDA_SUCCESS) : CUDA_ERROR_INVALID_HANDLE);
}
PER_THREAD(cudaStreamGetDevice, _ptsz);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
    return WITH_CONTEXT(cuStreamIsCapturing(stream, (CUstreamCaptureStatus*)status));
}
PER_THREAD(cudaStreamIsCapturing, _ptsz);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
    (void)id, (void)graph, (void)dependencies, (void)edges, (void)count;  // set only for a stream that captures
    return cudaStreamIsCapturing(stream, status);
}
PER_THREAD(cudaStreamGetCaptureInfo, _ptsz);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
    return WITH_DRIVER(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode*)mode));
}
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute, const cudaStreamAttrValue* value) {
    return WITH_CONTEXT(
        cuStreamSetAttribute(stream, (CUstreamAttrID)attribute, (const CUstreamAttrValue*)(const void*)value));
}
PER_THREAD(cudaStreamSetAttribute, _ptsz);
cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* address, size_t bytes, unsigned flags) {
    return WITH_CONTEXT(cuStreamAttachMemAsync(stream, (CUdeviceptr)address, bytes, flags));
}
PER_THREAD(cudaStreamAttachMemAsync, _ptsz);
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags) {
    return WITH_CONTEXT(cuStreamAddCallback(stream, (CUstreamCallback)callback, data, flags));
}
PER_THREAD(cudaStreamAddCallback, _ptsz);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    return WITH_CONTEXT(cuEventCreate(event, flags));
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return WITH_CONTEXT(cuEventRecord(event, stream));
}
PER_THREAD(cudaEventRecord, _ptsz);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    return WITH_CONTEXT(cuEventRecordWithFlags(event, stream, flags));
}
PER_THREAD(cudaEventRecordWithFlags, _ptsz);
cudaError_t cudaEventQuery(cudaEvent_t event) { return WITH_CONTEXT(cuEventQuery(event)); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return WITH_CONTEXT(cuEventSynchronize(event)); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return WITH_CONTEXT(cuEventDestroy_v2(event)); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
    return WITH_CONTEXT(cuEventElapsedTime(milliseconds, start, end));
}

// --- entry points of the driver

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult* result) {
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    CUresult code = CUDA_ERROR_INVALID_VALUE;
    if (name && entry) code = cuGetProcAddress_v2(name, entry, (int)version, flags, &found);
    if (code == CUDA_ERROR_NOT_FOUND && result) code = CUDA_SUCCESS;  // `result` says it
    if (result) *result = (enum cudaDriverEntryPointQueryResult)found;
    return remember((int)code);
}
PER_THREAD(cudaGetDriverEntryPointByVersion, _ptsz);
cudaError_t cudaGetDriverEntryPoint(const char* name, void** entry, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult* result) {
    return cudaGetDriverEntryPointByVersion(name, entry, CUDART_VERSION, flags, result);
}
PER_THREAD(cudaGetDriverEntryPoint, _ptsz);
