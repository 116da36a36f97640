// What CUDA answers: one line `name = value` per observation, for right and for wrong calls.
//
// The same library runs on a real GPU, where `behaviour_h200.txt` was recorded (see record_behaviour.py), and on the
// simulator's runtime, which must give the same lines. Values are error codes unless the name says otherwise.

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

const int no_kernel = 0;  // an address that is no kernel's

void observe(const std::string& name, const char* format, ...) {
    char value[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    printf("%s = %s\n", name.c_str(), value);
    fflush(stdout);  // what was seen before a crash is kept
}

// The code that a call returns, and what cudaGetLastError says right after.
#define CODE(name, call)                             \
    do {                                             \
        cudaGetLastError();                          \
        const int code = int(call);                  \
        const int last = int(cudaGetLastError());    \
        if (code == last)                            \
            observe(name, "%d", code);               \
        else                                         \
            observe(name, "%d last %d", code, last); \
    } while (0)

// ------------------------------------------------------------------------------------------------------- kernels

__device__ int counter = 7;
__device__ float table[64];
__constant__ float factors[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__managed__ int shared_with_host = 5;

__global__ void plain(int* out) {
    if (threadIdx.x == 0 && blockIdx.x == 0 && out) out[0] = int(gridDim.x * 1000 + blockDim.x);
}
__global__ void with_shared(int* out) {
    __shared__ int space[4096];
    space[threadIdx.x] = int(threadIdx.x);
    __syncthreads();
    if (out) out[threadIdx.x] = space[blockDim.x - 1 - threadIdx.x];
}
__global__ void with_dynamic(int* out) {
    extern __shared__ int space[];
    space[threadIdx.x] = int(threadIdx.x);
    __syncthreads();
    if (out) out[threadIdx.x] = space[blockDim.x - 1 - threadIdx.x];
}
__global__ void __launch_bounds__(128) bounded(int* out) {
    if (out && threadIdx.x == 0) out[0] = 1;
}
__global__ void __cluster_dims__(2, 1, 1) clustered(int* out) {
    if (out && threadIdx.x == 0 && blockIdx.x == 0) out[0] = 2;
}
__global__ void __launch_bounds__(256, 1) heavy(const float* in, float* out) {
    float values[200];
#pragma unroll
    for (int i = 0; i < 200; ++i) values[i] = in ? in[i * 256 + threadIdx.x] : 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 200; ++i)
        if (out) out[i * 256 + threadIdx.x] = values[i] * values[199 - i];
}
__global__ void many_registers(const float* in, float* out) {  // no bound: 200 live values, so about 210 registers
    float values[120];
#pragma unroll
    for (int i = 0; i < 120; ++i) values[i] = in ? in[i * 256 + threadIdx.x] : 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 120; ++i)
        if (out) out[i * 256 + threadIdx.x] = values[i] * values[119 - i];
}
struct Mixed {
    char a;
    double b;
    short c;
};
__global__ void parameters(char a, Mixed m, const __grid_constant__ CUtensorMap map, int* out, short last) {
    if (out) out[0] = a + int(m.b) + m.c + last + int(sizeof map);
}
__global__ void read_symbols(int* out) {
    out[0] = counter;
    out[1] = int(factors[2]);
    out[2] = int(table[5]);
    out[3] = shared_with_host;
    counter += 1;
    shared_with_host += 1;
}
__global__ void out_of_bounds(int* out) { out[size_t(1) << 36] = 1; }
__global__ void misaligned(char* out) { *reinterpret_cast<int*>(out + 1) = 1; }
__global__ void traps() { asm volatile("trap;"); }

// ------------------------------------------------------------------------------------------------------- groups

void devices() {
    int value = -1;
    CODE("cudaGetDeviceCount", cudaGetDeviceCount(&value));
    CODE("cudaSetDevice(0)", cudaSetDevice(0));
    CODE("cudaSetDevice(99)", cudaSetDevice(99));
    CODE("cudaSetDevice(-1)", cudaSetDevice(-1));
    CODE("cudaGetDevice", cudaGetDevice(&value));
    observe("device", "%d", value);
    CODE("cudaGetDevice(null)", cudaGetDevice(nullptr));
    CODE("cudaDeviceGetAttribute(0, 0)", cudaDeviceGetAttribute(&value, cudaDeviceAttr(0), 0));
    CODE("cudaDeviceGetAttribute(9999)", cudaDeviceGetAttribute(&value, cudaDeviceAttr(9999), 0));
    CODE("cudaDeviceGetAttribute(device 9)", cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 9));
    cudaDeviceProp properties;
    CODE("cudaGetDeviceProperties(9)", cudaGetDeviceProperties(&properties, 9));
    size_t limit = 0;
    for (int i = 0; i < 7; ++i) {
        CODE("cudaDeviceGetLimit(" + std::to_string(i) + ")", cudaDeviceGetLimit(&limit, cudaLimit(i)));
        observe("limit " + std::to_string(i), "%zu", limit);
    }
    CODE("cudaDeviceSetLimit(printf)", cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 1 << 20));
    CODE("cudaDeviceSetLimit(99)", cudaDeviceSetLimit(cudaLimit(99), 1 << 20));
    int low, high;
    CODE("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&low, &high));
    observe("priorities", "%d %d", low, high);
    CODE("cudaDeviceSetCacheConfig", cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    unsigned flags = 99;
    CODE("cudaGetDeviceFlags", cudaGetDeviceFlags(&flags));
    observe("device flags", "%u", flags);
    CODE("cudaSetDeviceFlags", cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
    char bus[32];
    CODE("cudaDeviceGetPCIBusId(small)", cudaDeviceGetPCIBusId(bus, 2, 0));
    CODE("cudaDeviceCanAccessPeer(0,0)", cudaDeviceCanAccessPeer(&value, 0, 0));
    observe("peer", "%d", value);
    CODE("cudaDeviceEnablePeerAccess(0)", cudaDeviceEnablePeerAccess(0, 0));
    CODE("cudaInitDevice", cudaInitDevice(0, 0, 0));
}

void properties() {
    cudaDeviceProp p;
    memset(&p, 0xAB, sizeof p);
    CODE("cudaGetDeviceProperties", cudaGetDeviceProperties(&p, 0));
    const auto* bytes = reinterpret_cast<const unsigned char*>(&p);
    std::string text;
    for (size_t i = 0; i < sizeof p; ++i) {
        char two[3];
        snprintf(two, sizeof two, "%02x", bytes[i]);
        text += two;
    }
    printf("properties = %s\n", text.c_str());
    for (int i = 0; i <= 160; ++i) {
        int value = -1;
        if (cudaDeviceGetAttribute(&value, cudaDeviceAttr(i), 0) == cudaSuccess)
            observe("attribute " + std::to_string(i), "%d", value);
        cudaGetLastError();
    }
}

void memory() {
    void *p = reinterpret_cast<void*>(1), *q, *host;
    char buffer[4096] = {};
    CODE("cudaMalloc(0)", cudaMalloc(&p, 0));
    observe("null", "%d", p == nullptr);
    CODE("cudaMalloc(null)", cudaMalloc(static_cast<void**>(nullptr), 16));
    CODE("cudaMalloc(1 << 50)", cudaMalloc(&p, size_t(1) << 50));
    CODE("cudaMalloc(1)", cudaMalloc(&p, 1));
    observe("alignment", "%d", int(reinterpret_cast<uintptr_t>(p) % 512));
    CODE("cudaFree(interior)", cudaFree(static_cast<char*>(p) + 256));
    CODE("cudaFree", cudaFree(p));
    CODE("cudaFree(twice)", cudaFree(p));
    CODE("cudaFree(null)", cudaFree(nullptr));
    CODE("cudaFree(host)", cudaFree(buffer));
    CODE("cudaMalloc(4096)", cudaMalloc(&p, 4096));
    CODE("cudaMalloc(4096)", cudaMalloc(&q, 4096));
    CODE("cudaMemcpy(h2d)", cudaMemcpy(p, buffer, 4096, cudaMemcpyHostToDevice));
    CODE("cudaMemcpy(d2d)", cudaMemcpy(q, p, 4096, cudaMemcpyDeviceToDevice));
    CODE("cudaMemcpy(d2h)", cudaMemcpy(buffer, q, 4096, cudaMemcpyDeviceToHost));
    CODE("cudaMemcpy(default)", cudaMemcpy(buffer, q, 4096, cudaMemcpyDefault));
    CODE("cudaMemcpy(h2h)", cudaMemcpy(buffer, buffer + 2048, 1024, cudaMemcpyHostToHost));
    CODE("cudaMemcpy(kind 9)", cudaMemcpy(p, buffer, 16, cudaMemcpyKind(9)));
    CODE("cudaMemcpy(0)", cudaMemcpy(p, buffer, 0, cudaMemcpyHostToDevice));
    CODE("cudaMemcpy(d2h, but host to device)", cudaMemcpy(p, buffer, 16, cudaMemcpyDeviceToHost));
    CODE("cudaMemcpy(h2d, but device to host)", cudaMemcpy(buffer, p, 16, cudaMemcpyHostToDevice));
    CODE("cudaMemset", cudaMemset(p, 1, 4096));
    CODE("cudaMemset(0)", cudaMemset(p, 1, 0));
    CODE("cudaMemcpy2D", cudaMemcpy2D(p, 64, buffer, 128, 32, 8, cudaMemcpyHostToDevice));
    CODE("cudaMemcpy2D(pitch)", cudaMemcpy2D(p, 16, buffer, 128, 32, 8, cudaMemcpyHostToDevice));
    CODE("cudaMemcpy2D(source pitch)", cudaMemcpy2D(p, 64, buffer, 16, 32, 8, cudaMemcpyHostToDevice));
    CODE("cudaMemcpy2D(0 rows)", cudaMemcpy2D(p, 64, buffer, 64, 32, 0, cudaMemcpyHostToDevice));
    CODE("cudaMemset2D", cudaMemset2D(p, 64, 3, 32, 8));
    CODE("cudaMemset2D(pitch)", cudaMemset2D(p, 16, 3, 32, 8));
    size_t pitch = 0, size = 0, available = 0;
    void* pitched;
    CODE("cudaMallocPitch", cudaMallocPitch(&pitched, &pitch, 100, 10));
    observe("pitch", "%zu", pitch);
    CODE("cudaFree(pitched)", cudaFree(pitched));
    CODE("cudaMallocPitch(1000)", cudaMallocPitch(&pitched, &pitch, 1000, 10));
    observe("pitch 1000", "%zu", pitch);
    cudaFree(pitched);
    CODE("cudaMemGetInfo", cudaMemGetInfo(&available, &size));
    observe("available", "%d", available > 0 && available <= size);
    CODE("cudaMallocHost", cudaMallocHost(&host, 4096));
    memset(host, 5, 4096);
    void* mapped = nullptr;
    CODE("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&mapped, host, 0));
    observe("same address", "%d", mapped == host);
    CODE("cudaHostGetDevicePointer(pageable)", cudaHostGetDevicePointer(&mapped, buffer, 0));
    unsigned flags = 0;
    CODE("cudaHostGetFlags", cudaHostGetFlags(&flags, host));
    observe("host flags", "%u", flags);
    CODE("cudaFree(pinned)", cudaFree(host));
    CODE("cudaFreeHost(device)", cudaFreeHost(p));
    CODE("cudaFreeHost", cudaFreeHost(host));
    CODE("cudaFreeHost(twice)", cudaFreeHost(host));
    CODE("cudaFreeHost(null)", cudaFreeHost(nullptr));
    CODE("cudaHostAlloc", cudaHostAlloc(&host, 100, cudaHostAllocMapped));
    CODE("cudaHostAlloc(flags)", cudaHostAlloc(&mapped, 100, 0xFF00));
    CODE("cudaHostAlloc(0)", cudaHostAlloc(&mapped, 0, 0));
    int* managed;
    CODE("cudaMallocManaged", cudaMallocManaged(&managed, 4096));
    managed[3] = 4;
    CODE("cudaMallocManaged(0)", cudaMallocManaged(&mapped, 0));
    CODE("cudaMallocManaged(flags)", cudaMallocManaged(&mapped, 64, 77));
    auto pointer = [&](const char* name, const void* address) {
        cudaPointerAttributes a = {};
        CODE(std::string("cudaPointerGetAttributes ") + name, cudaPointerGetAttributes(&a, address));
        observe(std::string("pointer ") + name, "type %d device %d, device pointer %d, host pointer %d", int(a.type),
                a.device, a.devicePointer == address, a.hostPointer == address);
    };
    pointer("device", p);
    pointer("device interior", static_cast<char*>(p) + 100);
    pointer("pageable", buffer);
    pointer("pinned", host);
    pointer("managed", managed);
    pointer("null", nullptr);
    CODE("cudaFree(managed)", cudaFree(managed));
    cudaFreeHost(host);
    CODE("cudaMallocAsync", cudaMallocAsync(&mapped, 1000, cudaStream_t(nullptr)));
    pointer("pool", mapped);
    CODE("cudaFreeAsync", cudaFreeAsync(mapped, nullptr));
    CODE("cudaFreeAsync(null)", cudaFreeAsync(nullptr, nullptr));
    CODE("cudaMallocAsync(0)", cudaMallocAsync(&mapped, 0, cudaStream_t(nullptr)));
    cudaMemPool_t pool;
    CODE("cudaDeviceGetDefaultMemPool", cudaDeviceGetDefaultMemPool(&pool, 0));
    cudaMemLocation here = {};
    here.type = cudaMemLocationTypeDevice;
    CODE("cudaMemPrefetchAsync(device memory)", cudaMemPrefetchAsync(p, 64, here, 0, nullptr));
    static char registered[8192];
    CODE("cudaHostRegister", cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
    CODE("cudaHostRegister(twice)", cudaHostRegister(registered, sizeof registered, cudaHostRegisterDefault));
    pointer("registered", registered);
    CODE("cudaHostUnregister", cudaHostUnregister(registered));
    CODE("cudaHostUnregister(twice)", cudaHostUnregister(registered));
    cudaFree(p);
    cudaFree(q);
    CODE("cudaMemcpy(freed)", cudaMemcpy(p, buffer, 16, cudaMemcpyHostToDevice));
}

void bad_addresses() {
    void *p, *q;
    char buffer[64] = {};
    cudaMalloc(&p, 4096);
    cudaMalloc(&q, 4096);
    CODE("cudaMemset(null)", cudaMemset(nullptr, 1, 16));
    CODE("cudaMemcpy(h2d, null target)", cudaMemcpy(nullptr, buffer, 16, cudaMemcpyHostToDevice));
    CODE("cudaMemcpy(d2h, null source)", cudaMemcpy(buffer, nullptr, 16, cudaMemcpyDeviceToHost));
    CODE("cudaMemset(host)", cudaMemset(buffer, 1, 16));
    CODE("cudaMemcpy(d2d, source host)", cudaMemcpy(p, buffer, 16, cudaMemcpyDeviceToDevice));
    CODE("cudaMemset(1 << 40 bytes)", cudaMemset(p, 1, size_t(1) << 40));
    CODE("cudaMemcpy(h2d, 1 << 40 bytes)", cudaMemcpy(p, buffer, size_t(1) << 40, cudaMemcpyHostToDevice));
    CODE("cudaMemcpy(d2h, 1 << 40 bytes)", cudaMemcpy(buffer, p, size_t(1) << 40, cudaMemcpyDeviceToHost));
    cudaFree(p);
    CODE("cudaMemset(freed)", cudaMemset(p, 1, 16));
    CODE("cudaMemcpy(h2d, null source)", cudaMemcpy(q, nullptr, 16, cudaMemcpyHostToDevice));
}

void symbols() {
    int value = 0, *out;
    float values[64];
    for (int i = 0; i < 64; ++i) values[i] = float(i);
    size_t size = 0;
    void* address = nullptr;
    cudaMalloc(&out, 64);
    CODE("cudaMemcpyToSymbol", cudaMemcpyToSymbol(table, values, sizeof values));
    CODE("cudaMemcpyToSymbol(too long)", cudaMemcpyToSymbol(table, values, sizeof values + 4));
    CODE("cudaMemcpyToSymbol(offset)", cudaMemcpyToSymbol(table, values, 8, sizeof values - 4));
    CODE("cudaMemcpyToSymbol(d2h)", cudaMemcpyToSymbol(table, values, 8, 0, cudaMemcpyDeviceToHost));
    CODE("cudaMemcpyToSymbol(unknown)", cudaMemcpyToSymbol(static_cast<const void*>(values), values, 4));
    CODE("cudaMemcpyToSymbol(null)", cudaMemcpyToSymbol(static_cast<const void*>(nullptr), values, 4));
    CODE("cudaMemcpyFromSymbol", cudaMemcpyFromSymbol(&value, counter, 4));
    observe("counter", "%d", value);
    CODE("cudaGetSymbolSize", cudaGetSymbolSize(&size, factors));
    observe("size of factors", "%zu", size);
    CODE("cudaGetSymbolAddress", cudaGetSymbolAddress(&address, counter));
    CODE("cudaGetSymbolAddress(unknown)", cudaGetSymbolAddress(&address, values));
    value = 41;
    CODE("cudaMemcpy(symbol address)", cudaMemcpy(address, &value, 4, cudaMemcpyDefault));
    shared_with_host = 11;
    read_symbols<<<1, 1>>>(out);
    CODE("read_symbols", cudaDeviceSynchronize());
    int results[4] = {};
    cudaMemcpy(results, out, 16, cudaMemcpyDeviceToHost);
    observe("symbols", "%d %d %d %d", results[0], results[1], results[2], results[3]);
    cudaMemcpyFromSymbol(&value, counter, 4);
    observe("after", "%d %d", value, shared_with_host);
    cudaFree(out);
}

void streams_and_events() {
    cudaStream_t stream, other;
    cudaEvent_t a, b, untimed;
    float milliseconds = -1;
    CODE("cudaStreamCreate", cudaStreamCreate(&stream));
    CODE("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CODE("cudaStreamCreateWithFlags(9)", cudaStreamCreateWithFlags(&other, 9));
    CODE("cudaStreamDestroy(null)", cudaStreamDestroy(nullptr));
    CODE("cudaStreamSynchronize(legacy)", cudaStreamSynchronize(cudaStreamLegacy));
    CODE("cudaStreamSynchronize(per thread)", cudaStreamSynchronize(cudaStreamPerThread));
    CODE("cudaStreamQuery", cudaStreamQuery(stream));
    unsigned flags = 9;
    int priority = 9;
    CODE("cudaStreamGetFlags", cudaStreamGetFlags(other, &flags));
    observe("stream flags", "%u", flags);
    CODE("cudaStreamGetPriority", cudaStreamGetPriority(stream, &priority));
    observe("priority", "%d", priority);
    cudaStreamCaptureStatus status;
    CODE("cudaStreamIsCapturing", cudaStreamIsCapturing(stream, &status));
    observe("capture", "%d", int(status));
    CODE("cudaEventCreate", cudaEventCreate(&a));
    CODE("cudaEventCreate", cudaEventCreate(&b));
    CODE("cudaEventCreateWithFlags", cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    CODE("cudaEventCreateWithFlags(0xF0)", cudaEventCreateWithFlags(&untimed, 0xF0));
    CODE("cudaEventElapsedTime(unrecorded)", cudaEventElapsedTime(&milliseconds, a, b));
    CODE("cudaEventQuery(unrecorded)", cudaEventQuery(a));
    CODE("cudaEventSynchronize(unrecorded)", cudaEventSynchronize(a));
    CODE("cudaEventRecord", cudaEventRecord(a, stream));
    plain<<<1, 32, 0, stream>>>(nullptr);
    CODE("cudaEventRecord", cudaEventRecord(b, stream));
    CODE("cudaStreamWaitEvent", cudaStreamWaitEvent(other, b, 0));
    CODE("cudaEventSynchronize", cudaEventSynchronize(b));
    CODE("cudaEventElapsedTime", cudaEventElapsedTime(&milliseconds, a, b));
    observe("elapsed", "%d", milliseconds > 0);
    CODE("cudaEventElapsedTime(same)", cudaEventElapsedTime(&milliseconds, a, a));
    observe("elapsed, same", "%d", milliseconds == 0);
    CODE("cudaEventElapsedTime(reversed)", cudaEventElapsedTime(&milliseconds, b, a));
    observe("elapsed, reversed", "%d", milliseconds < 0);
    cudaEventRecord(untimed, stream);
    cudaEventSynchronize(untimed);
    CODE("cudaEventElapsedTime(untimed)", cudaEventElapsedTime(&milliseconds, a, untimed));
    CODE("cudaEventRecord(null)", cudaEventRecord(nullptr, stream));
    CODE("cudaEventElapsedTime(null)", cudaEventElapsedTime(&milliseconds, nullptr, b));
    CODE("cudaEventDestroy", cudaEventDestroy(a));
    CODE("cudaEventDestroy(null)", cudaEventDestroy(nullptr));
    int called = 0;
    CODE("cudaLaunchHostFunc", cudaLaunchHostFunc(stream, [](void* data) { *static_cast<int*>(data) = 3; }, &called));
    CODE("cudaStreamSynchronize", cudaStreamSynchronize(stream));
    observe("host function called", "%d", called);
    CODE("cudaStreamDestroy", cudaStreamDestroy(stream));
    CODE("cudaStreamDestroy", cudaStreamDestroy(other));
}

template <class... Parameters, class... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, dim3 cluster, bool cooperative,
                   Arguments... arguments) {
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.attrs = attributes;
    if (cluster.x) {
        attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attributes[config.numAttrs++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
    }
    if (cooperative) {
        attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
        attributes[config.numAttrs++].val.cooperative = 1;
    }
    const cudaError_t code = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
    const cudaError_t later = cudaDeviceSynchronize();
    return code ? code : later;
}

cudaError_t chevrons(dim3 grid, dim3 block, size_t shared) {
    plain<<<grid, block, shared>>>(nullptr);
    const cudaError_t code = cudaGetLastError();
    const cudaError_t later = cudaDeviceSynchronize();
    return code ? code : later;
}

void launches() {
    const dim3 none(0);
    int* out;
    cudaMalloc(&out, 1 << 20);
    CODE("<<<1, 1>>>", chevrons(1, 1, 0));
    CODE("<<<0, 1>>>", chevrons(0, 1, 0));
    CODE("<<<1, 0>>>", chevrons(1, 0, 0));
    CODE("<<<1, 1024>>>", chevrons(1, 1024, 0));
    CODE("<<<1, 1025>>>", chevrons(1, 1025, 0));
    CODE("<<<1, (1, 1, 64)>>>", chevrons(1, dim3(1, 1, 64), 0));
    CODE("<<<1, (1, 1, 65)>>>", chevrons(1, dim3(1, 1, 65), 0));
    CODE("<<<1, (32, 33)>>>", chevrons(1, dim3(32, 33), 0));
    CODE("<<<(1, 65535), 1>>>", chevrons(dim3(1, 65535), 1, 0));
    CODE("<<<(1, 65536), 1>>>", chevrons(dim3(1, 65536), 1, 0));
    CODE("<<<(1, 1, 65536), 1>>>", chevrons(dim3(1, 1, 65536), 1, 0));
    CODE("<<<1 << 31, 1>>>", chevrons(dim3(1u << 31), 1, 0));
    CODE("<<<1, 1, 48K>>>", chevrons(1, 1, 48 << 10));
    CODE("<<<1, 1, 48K + 1>>>", chevrons(1, 1, (48 << 10) + 1));
    CODE("<<<1, 1, 1G>>>", chevrons(1, 1, 1 << 30));
    CODE("shared 16K static + 32K", launch(with_shared, 1, 32, 32 << 10, none, false, out));
    CODE("shared 16K static + 32K + 16", launch(with_shared, 1, 32, (32 << 10) + 16, none, false, out));
    CODE("bounds 128", launch(bounded, 1, 128, 0, none, false, out));
    CODE("bounds 129", launch(bounded, 1, 129, 0, none, false, out));
    CODE("heavy 256", launch(heavy, 1, 256, 0, none, false, nullptr, nullptr));
    CODE("heavy 288", launch(heavy, 1, 288, 0, none, false, nullptr, nullptr));
    CODE("many registers 1024", launch(many_registers, 1, 1024, 0, none, false, nullptr, nullptr));
    CODE("many registers 256", launch(many_registers, 1, 256, 0, none, false, nullptr, nullptr));

    const auto dynamic = cudaFuncAttributeMaxDynamicSharedMemorySize;
    CODE("set 227K", cudaFuncSetAttribute(with_dynamic, dynamic, 227 << 10));
    CODE("shared 227K", launch(with_dynamic, 1, 32, 227 << 10, none, false, out));
    CODE("shared 227K + 1", launch(with_dynamic, 1, 32, (227 << 10) + 1, none, false, out));
    CODE("set 227K + 1", cudaFuncSetAttribute(with_dynamic, dynamic, (227 << 10) + 1));
    CODE("set 100K", cudaFuncSetAttribute(with_dynamic, dynamic, 100 << 10));
    CODE("shared 101K", launch(with_dynamic, 1, 32, 101 << 10, none, false, out));
    CODE("set -1", cudaFuncSetAttribute(with_dynamic, dynamic, -1));
    CODE("set 212K with 16K static", cudaFuncSetAttribute(with_shared, dynamic, 212 << 10));
    CODE("set 211K with 16K static", cudaFuncSetAttribute(with_shared, dynamic, 211 << 10));
    CODE("set carveout 50", cudaFuncSetAttribute(plain, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
    CODE("set carveout 101", cudaFuncSetAttribute(plain, cudaFuncAttributePreferredSharedMemoryCarveout, 101));
    CODE("set carveout -2", cudaFuncSetAttribute(plain, cudaFuncAttributePreferredSharedMemoryCarveout, -2));
    CODE("set attribute 77", cudaFuncSetAttribute(plain, cudaFuncAttribute(77), 1));
    CODE("set on no kernel", cudaFuncSetAttribute(reinterpret_cast<const void*>(&no_kernel), dynamic, 1));

    CODE("cluster 1", launch(plain, 8, 32, 0, 1, false, out));
    CODE("cluster 2", launch(plain, 8, 32, 0, 2, false, out));
    CODE("cluster 8", launch(plain, 8, 32, 0, 8, false, out));
    CODE("cluster 16", launch(plain, 16, 32, 0, 16, false, out));
    CODE("cluster 3 of 9", launch(plain, 9, 32, 0, 3, false, out));
    CODE("cluster 7 of 14", launch(plain, 14, 32, 0, 7, false, out));
    CODE("cluster 2 of 7", launch(plain, 7, 32, 0, 2, false, out));
    CODE("cluster 32", launch(plain, 32, 32, 0, 32, false, out));
    CODE("cluster (2, 0, 0)", launch(plain, 8, 32, 0, dim3(2, 0, 0), false, out));
    CODE("set non-portable", cudaFuncSetAttribute(plain, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    CODE("cluster 16, non-portable", launch(plain, 16, 32, 0, 16, false, out));
    CODE("cluster 17, non-portable", launch(plain, 17, 32, 0, 17, false, out));
    CODE("cluster 32, non-portable", launch(plain, 32, 32, 0, 32, false, out));
    CODE("cluster_dims 2, grid 4", launch(clustered, 4, 32, 0, none, false, out));
    CODE("cluster_dims 2, grid 3", launch(clustered, 3, 32, 0, none, false, out));
    CODE("cluster_dims 2, attribute 2", launch(clustered, 4, 32, 0, 2, false, out));
    CODE("cluster_dims 2, attribute 4", launch(clustered, 4, 32, 0, 4, false, out));
    CODE("cluster_dims 2, attribute 1", launch(clustered, 4, 32, 0, 1, false, out));
    CODE("set required cluster width", cudaFuncSetAttribute(bounded, cudaFuncAttributeRequiredClusterWidth, 2));

    CODE("cooperative 1", launch(plain, 1, 32, 0, none, true, out));
    CODE("cooperative 132 x 1024", launch(plain, 132, 1024, 0, none, true, out));
    CODE("cooperative 265 x 1024", launch(plain, 265, 1024, 0, none, true, out));
    CODE("cooperative 4225 x 32", launch(plain, 4225, 32, 0, none, true, out));
    CODE("cooperative cluster 2", launch(plain, 8, 32, 0, 2, true, out));
    void* arguments[] = {&out};
    auto* kernel = reinterpret_cast<const void*>(plain);
    CODE("cudaLaunchCooperativeKernel", cudaLaunchCooperativeKernel(kernel, 4, 32, arguments, 0, nullptr));
    CODE("cudaLaunchKernel", cudaLaunchKernel(kernel, 4, 32, arguments, 0, nullptr));
    CODE("cudaLaunchKernel(null)", cudaLaunchKernel(static_cast<const void*>(nullptr), 4, 32, arguments, 0, nullptr));
    CODE("cudaLaunchKernel(no kernel)",
         cudaLaunchKernel(static_cast<const void*>(&no_kernel), 4, 32, arguments, 0, nullptr));
    cudaDeviceSynchronize();

    cudaLaunchAttribute attributes[6] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    attributes[1].id = cudaLaunchAttributePriority;
    attributes[1].val.priority = 0;
    attributes[2].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
    attributes[2].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicySpread;
    attributes[3].id = cudaLaunchAttributeIgnore;
    attributes[4].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[4].val.sharedMemCarveout = 50;
    attributes[5].id = cudaLaunchAttributeID(99);
    cudaLaunchConfig_t config = {};
    config.gridDim = 4;
    config.blockDim = 32;
    for (unsigned i = 0; i < 6; ++i) {
        config.attrs = attributes + i;
        config.numAttrs = 1;
        CODE("launch attribute " + std::to_string(int(attributes[i].id)), cudaLaunchKernelEx(&config, plain, out));
    }
    CODE("synchronise", cudaDeviceSynchronize());
    cudaFree(out);
}

void functions() {
    auto attributes = [](const char* name, auto* kernel) {
        cudaFuncAttributes a = {};
        CODE(std::string("cudaFuncGetAttributes ") + name, cudaFuncGetAttributes(&a, kernel));
        observe(std::string("attributes ") + name,
                "shared %zu const %zu local %zu max threads %d dynamic %d carveout %d cluster %d %d,%d,%d policy %d "
                "nonportable %d ptx %d binary %d",
                a.sharedSizeBytes, a.constSizeBytes, a.localSizeBytes, a.maxThreadsPerBlock,
                a.maxDynamicSharedSizeBytes, a.preferredShmemCarveout, a.clusterDimMustBeSet, a.requiredClusterWidth,
                a.requiredClusterHeight, a.requiredClusterDepth, a.clusterSchedulingPolicyPreference,
                a.nonPortableClusterSizeAllowed, a.ptxVersion, a.binaryVersion);
    };
    attributes("plain", plain);
    attributes("with_shared", with_shared);
    attributes("with_dynamic", with_dynamic);
    attributes("bounded", bounded);
    attributes("clustered", clustered);
    attributes("heavy", heavy);
    cudaFuncAttributes a;
    CODE("cudaFuncGetAttributes(no kernel)", cudaFuncGetAttributes(&a, static_cast<const void*>(&no_kernel)));
    const char* name = nullptr;
    CODE("cudaFuncGetName", cudaFuncGetName(&name, reinterpret_cast<const void*>(plain)));
    observe("name", "%s", name ? name : "");
    for (size_t i = 0; i < 6; ++i) {
        size_t offset = 0, size = 0;
        CODE("cudaFuncGetParamInfo " + std::to_string(i),
             cudaFuncGetParamInfo(reinterpret_cast<const void*>(parameters), i, &offset, &size));
        observe("parameter " + std::to_string(i), "%zu %zu", offset, size);
    }
    auto occupancy = [](const char* what, auto* kernel, int block, size_t shared) {
        int blocks = -1;
        char text[100];
        snprintf(text, sizeof text, "occupancy %s %d %zu", what, block, shared);
        CODE(text, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, block, shared));
        observe(std::string(text) + " blocks", "%d", blocks);
    };
    for (int block : {1, 32, 33, 64, 96, 128, 256, 384, 512, 1024, 2048}) occupancy("plain", plain, block, 0);
    for (size_t shared : {1000, 10000, 40000, 60000, 100000, 113000, 116000, 200000, 232448, 232449})
        occupancy("with_dynamic", with_dynamic, 128, shared);
    for (int block : {32, 128, 256, 512}) occupancy("heavy", heavy, block, 0);
    for (int block : {32, 128, 256, 384, 512, 1024}) occupancy("many_registers", many_registers, block, 0);
    for (int block : {32, 128, 512}) occupancy("with_shared", with_shared, block, 1024);
    for (int block : {128, 256}) occupancy("bounded", bounded, block, 0);
    int grid = 0, block = 0;
    CODE("cudaOccupancyMaxPotentialBlockSize", cudaOccupancyMaxPotentialBlockSize(&grid, &block, plain));
    observe("potential", "%d %d", grid, block);
    size_t available = 0;
    CODE("cudaOccupancyAvailableDynamicSMemPerBlock",
         cudaOccupancyAvailableDynamicSMemPerBlock(&available, with_dynamic, 2, 128));
    observe("available dynamic", "%zu", available);
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    cudaLaunchConfig_t config = {};
    config.gridDim = 1024;
    config.blockDim = 128;
    int clusters = 0, size = 0;
    for (unsigned width : {1, 2, 4, 8, 16}) {
        attribute.val.clusterDim = {width, 1, 1};
        config.attrs = &attribute;
        config.numAttrs = 1;
        CODE("cudaOccupancyMaxActiveClusters " + std::to_string(width),
             cudaOccupancyMaxActiveClusters(&clusters, bounded, &config));
        observe("clusters of " + std::to_string(width), "%d", clusters);
    }
    config.numAttrs = 0;
    CODE("cudaOccupancyMaxPotentialClusterSize", cudaOccupancyMaxPotentialClusterSize(&size, bounded, &config));
    observe("cluster size", "%d", size);
}

const char ptx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".global .align 8 .b8 space[24];\n"
    ".visible .entry add(.param .u64 p, .param .u32 n)\n{\n"
    ".reg .b64 %a;\n.reg .b32 %v, %n;\n"
    "ld.param.u64 %a, [p];\nld.param.u32 %n, [n];\nld.global.u32 %v, [%a];\nadd.u32 %v, %v, %n;\n"
    "st.global.u32 [%a], %v;\nret;\n}\n";

void errors() {
    CODE("cudaPeekAtLastError", cudaPeekAtLastError());
    cudaSetDevice(99);
    observe("peek", "%d", int(cudaPeekAtLastError()));
    observe("peek again", "%d", int(cudaPeekAtLastError()));
    void* p;
    cudaMalloc(&p, 16);
    observe("a success keeps it", "%d", int(cudaPeekAtLastError()));
    cudaFree(p);
    observe("get", "%d", int(cudaGetLastError()));
    observe("get again", "%d", int(cudaGetLastError()));
    int runtime = 0;
    CODE("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&runtime));
    observe("runtime major", "%d", runtime / 1000);
    CODE("cudaRuntimeGetVersion(null)", cudaRuntimeGetVersion(nullptr));
    CODE("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

void entry_points() {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    auto ask = [&](const char* name, unsigned version, unsigned long long flags) {
        entry = nullptr;
        found = cudaDriverEntryPointQueryResult(9);
        const std::string text = std::string(name ? name : "null") + " " + std::to_string(version);
        CODE("entry point " + text, cudaGetDriverEntryPointByVersion(name, &entry, version, flags, &found));
        observe("found " + text, "%d %d", int(found), entry != nullptr);
    };
    ask("cuTensorMapEncodeTiled", 12000, cudaEnableDefault);
    ask("cuTensorMapEncodeTiled", 11000, cudaEnableDefault);
    ask("cuTensorMapEncodeIm2col", 12000, cudaEnableDefault);
    ask("cuMemAlloc", 13000, cudaEnableDefault);
    ask("cuMemAlloc", 2000, cudaEnableDefault);
    ask("cuMemAlloc_v2", 13000, cudaEnableDefault);
    ask("cuNoSuchFunction", 13000, cudaEnableDefault);
    ask("cuLaunchKernelEx", 12000, cudaEnableLegacyStream);
    ask("cuStreamSynchronize", 13000, cudaEnablePerThreadDefaultStream);
    ask("", 13000, cudaEnableDefault);
    ask("cuGetProcAddress", 12000, cudaEnableDefault);
}

// A fault ends the context, so each has a process of its own.
void fault(int which) {
    int* out;
    cudaMalloc(&out, 4096);
    if (which == 0) out_of_bounds<<<1, 1>>>(out);
    if (which == 1) misaligned<<<1, 1>>>(reinterpret_cast<char*>(out));
    if (which == 2) traps<<<1, 1>>>();
    const std::string name = "fault " + std::to_string(which) + " ";
    observe(name + "synchronise", "%d", int(cudaDeviceSynchronize()));
    observe(name + "get", "%d", int(cudaGetLastError()));
    observe(name + "get again", "%d", int(cudaGetLastError()));
    observe(name + "malloc", "%d", int(cudaMalloc(&out, 16)));
    plain<<<1, 1>>>(nullptr);
    observe(name + "launch", "%d", int(cudaPeekAtLastError()));
    int count = 0;
    observe(name + "count", "%d", int(cudaGetDeviceCount(&count)));
    observe(name + "attribute", "%d", int(cudaDeviceGetAttribute(&count, cudaDevAttrWarpSize, 0)));
}

// --------------------------------------------------------------------------------------------------- driver API

void driver_device() {
    CUdevice device;
    CUcontext context = nullptr;
    int value = 0, major = 0, minor = 0;
    CODE("cuCtxSynchronize without cuInit", cuCtxSynchronize());
    CODE("cuInit(1)", cuInit(1));
    CODE("cuInit", cuInit(0));
    CODE("cuCtxSynchronize without a context", cuCtxSynchronize());
    CODE("cuDeviceGet(7)", cuDeviceGet(&device, 7));
    CODE("cuDeviceGet", cuDeviceGet(&device, 0));
    CODE("cuDeviceGetCount", cuDeviceGetCount(&value));
    CODE("cuDeviceGetAttribute(9999)", cuDeviceGetAttribute(&value, CUdevice_attribute(9999), device));
    CODE("cuDeviceGetAttribute(device 5)", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 5));
    CODE("cuDeviceComputeCapability", cuDeviceComputeCapability(&major, &minor, device));
    observe("capability", "%d %d", major, minor);
    CODE("cuCtxGetCurrent", cuCtxGetCurrent(&context));
    observe("current", "%d", context != nullptr);
    CODE("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, device));
    CODE("cuCtxSetCurrent", cuCtxSetCurrent(context));
    CODE("cuCtxSynchronize", cuCtxSynchronize());
    CODE("cuCtxPushCurrent", cuCtxPushCurrent(context));
    CODE("cuCtxPopCurrent", cuCtxPopCurrent(&context));
    CODE("cuCtxGetDevice", cuCtxGetDevice(&device));
    for (int code = 0; code < 1000; ++code) {
        const char *name = nullptr, *text = nullptr;
        if (cuGetErrorName(CUresult(code), &name) == CUDA_SUCCESS) {
            cuGetErrorString(CUresult(code), &text);
            observe("error " + std::to_string(code), "%s: %s", name, text);
        }
    }
    const char* name = nullptr;
    CODE("cuGetErrorName(4444)", cuGetErrorName(CUresult(4444), &name));
}

void driver_memory() {
    CUdeviceptr p = 0, base = 0;
    size_t size = 0;
    char buffer[1024] = {};
    cudaFree(nullptr);
    CODE("cuMemAlloc(0)", cuMemAlloc(&p, 0));
    CODE("cuMemAlloc", cuMemAlloc(&p, 1000));
    CODE("cuMemGetAddressRange", cuMemGetAddressRange(&base, &size, p + 10));
    observe("range", "%d %zu", base == p, size);
    CODE("cuMemGetAddressRange(unknown)", cuMemGetAddressRange(&base, &size, 0x1234));
    CODE("cuMemcpyHtoD", cuMemcpyHtoD(p, buffer, 1000));
    CODE("cuMemcpyDtoH", cuMemcpyDtoH(buffer, p, 1000));
    CODE("cuMemcpy", cuMemcpy(CUdeviceptr(buffer), p, 100));
    CODE("cuMemsetD8", cuMemsetD8(p, 3, 1000));
    CODE("cuMemsetD32", cuMemsetD32(p, 3, 100));
    CODE("cuMemsetD32(misaligned)", cuMemsetD32(p + 2, 3, 10));
    CODE("cuMemsetD16(misaligned)", cuMemsetD16(p + 1, 3, 10));
    CUmemorytype type = CUmemorytype(0);
    CODE("cuPointerGetAttribute", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    observe("type", "%d", int(type));
    CODE("cuPointerGetAttribute(unknown)", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x1234));
    CUipcMemHandle handle = {};
    CODE("cuIpcOpenMemHandle(garbage)", cuIpcOpenMemHandle(&base, handle, 1));
    CODE("cuIpcCloseMemHandle(unknown)", cuIpcCloseMemHandle(0x1234));
    CODE("cuMemFree", cuMemFree(p));
    CODE("cuMemFree(twice)", cuMemFree(p));
    CODE("cuMemFree(0)", cuMemFree(0));
    void* host = nullptr;
    CODE("cuMemAllocHost", cuMemAllocHost(&host, 100));
    CODE("cuMemFreeHost", cuMemFreeHost(host));
    CODE("cuMemAllocPitch(element 3)", cuMemAllocPitch(&p, &size, 100, 10, 3));
    CODE("cuMemAllocManaged(flags 0)", cuMemAllocManaged(&p, 64, 0));
}

void driver_modules() {
    CUmodule module;
    CUfunction function;
    CUdeviceptr address = 0, data = 0;
    size_t size = 0;
    int value = 5;
    cudaFree(nullptr);
    CODE("cuModuleLoadData", cuModuleLoadData(&module, ptx));
    CODE("cuModuleGetFunction(none)", cuModuleGetFunction(&function, module, "nothing"));
    CODE("cuModuleGetFunction", cuModuleGetFunction(&function, module, "add"));
    CODE("cuModuleGetGlobal(none)", cuModuleGetGlobal(&address, &size, module, "nothing"));
    CODE("cuModuleGetGlobal", cuModuleGetGlobal(&address, &size, module, "space"));
    observe("size", "%zu", size);
    for (int attribute = 0; attribute <= 15; ++attribute) {
        value = -99;
        const std::string name = "cuFuncGetAttribute " + std::to_string(attribute);
        CODE(name, cuFuncGetAttribute(&value, CUfunction_attribute(attribute), function));
        if (attribute != 4) observe(name + " value", "%d", value);  // 4: registers, which depends on the compiler
    }
    CODE("cuFuncGetAttribute 77", cuFuncGetAttribute(&value, CUfunction_attribute(77), function));
    CODE("cuFuncSetAttribute(read only)", cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 7));
    const auto dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CODE("cuFuncSetAttribute", cuFuncSetAttribute(function, dynamic, 100000));
    CODE("cuFuncSetAttribute(too much)", cuFuncSetAttribute(function, dynamic, 300000));
    cuMemAlloc(&data, 64);
    value = 5;
    cuMemcpyHtoD(data, &value, 4);
    unsigned n = 3;
    void* arguments[] = {&data, &n};
    CODE("cuLaunchKernel", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    cuMemcpyDtoH(&value, data, 4);
    observe("sum", "%d", value);
    struct {
        CUdeviceptr p;
        unsigned n;
    } packed = {data, 4};
    size_t bytes = sizeof packed;
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CODE("cuLaunchKernel(extra)", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
    cuMemcpyDtoH(&value, data, 4);
    observe("sum", "%d", value);
    CODE("cuLaunchKernel(both)", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, extra));
    CODE("cuLaunchKernel(grid 0)", cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    CODE("cuLaunchKernel(block 1025)", cuLaunchKernel(function, 1, 1, 1, 1025, 1, 1, 0, nullptr, arguments, nullptr));
    CODE("cuLaunchKernel(block z 65)", cuLaunchKernel(function, 1, 1, 1, 1, 1, 65, 0, nullptr, arguments, nullptr));
    CODE("cuLaunchKernel(grid y 65536)",
         cuLaunchKernel(function, 1, 65536, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    CODE("cuLaunchKernel(shared 100001)",
         cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 100001, nullptr, arguments, nullptr));
    CODE("cuLaunchKernel(null)", cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    CODE("cuLaunchKernel(no arguments)", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    CUlaunchConfig config = {};
    CUlaunchAttribute attribute = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 32;
    config.blockDimY = config.blockDimZ = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim.x = attribute.value.clusterDim.y = attribute.value.clusterDim.z = 1;
    CODE("cuLaunchKernelEx", cuLaunchKernelEx(&config, function, arguments, nullptr));
    attribute.value.clusterDim.x = 2;
    CODE("cuLaunchKernelEx(grid 1, cluster 2)", cuLaunchKernelEx(&config, function, arguments, nullptr));
    config.gridDimX = 16;
    attribute.value.clusterDim.x = 16;
    CODE("cuLaunchKernelEx(cluster 16)", cuLaunchKernelEx(&config, function, arguments, nullptr));
    CODE("cuCtxSynchronize", cuCtxSynchronize());
    size_t offset = 0;
    CODE("cuFuncGetParamInfo 1", cuFuncGetParamInfo(function, 1, &offset, &size));
    observe("parameter 1", "%zu %zu", offset, size);
    CODE("cuFuncGetParamInfo 2", cuFuncGetParamInfo(function, 2, &offset, &size));
    CODE("cuModuleUnload", cuModuleUnload(module));
    CODE("cuModuleLoadData(bad PTX)",
         cuModuleLoadData(&module, ".version 8.0\n.target sm_90\n.address_size 64\nnonsense"));
    CODE("cuModuleLoadData(text)", cuModuleLoadData(&module, "hello"));
    CODE("cuModuleLoad(no file)", cuModuleLoad(&module, "/nonexistent.ptx"));
    CODE("cuModuleLoadData(null)", cuModuleLoadData(&module, nullptr));
    CUlibrary library;
    CUkernel kernel;
    CODE("cuLibraryLoadData", cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CODE("cuLibraryGetKernel", cuLibraryGetKernel(&kernel, library, "add"));
    CODE("cuKernelGetFunction", cuKernelGetFunction(&function, kernel));
    CODE("cuLaunchKernel(kernel)",
         cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
    CODE("cuLibraryUnload", cuLibraryUnload(library));
}

// --------------------------------------------------------------------------------------------------- tensor maps

struct Tiled {
    int type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    uint32_t rank = 2;
    uint64_t address = 0;  // added to an aligned one
    uint64_t dims[5] = {256, 256, 4, 4, 4};
    uint64_t strides[4] = {512, 131072, 524288, 2097152};
    uint32_t box[5] = {64, 64, 1, 1, 1};
    uint32_t steps[5] = {1, 1, 1, 1, 1};
    int interleave = 0, swizzle = 0, promotion = 0, fill = 0;

    std::string text() const {
        char s[600];
        snprintf(s, sizeof s,
                 "tiled %d %u %llu dims %llu,%llu,%llu,%llu,%llu strides %llu,%llu,%llu,%llu box %u,%u,%u,%u,%u "
                 "steps %u,%u,%u,%u,%u %d %d %d %d",
                 type, rank, (unsigned long long)address, (unsigned long long)dims[0], (unsigned long long)dims[1],
                 (unsigned long long)dims[2], (unsigned long long)dims[3], (unsigned long long)dims[4],
                 (unsigned long long)strides[0], (unsigned long long)strides[1], (unsigned long long)strides[2],
                 (unsigned long long)strides[3], box[0], box[1], box[2], box[3], box[4], steps[0], steps[1], steps[2],
                 steps[3], steps[4], interleave, swizzle, promotion, fill);
        return s;
    }
    int encode(uint64_t base) const {
        alignas(64) CUtensorMap map;
        return int(cuTensorMapEncodeTiled(
            &map, CUtensorMapDataType(type), rank, reinterpret_cast<void*>(base + address), (const cuuint64_t*)dims,
            (const cuuint64_t*)strides, box, steps, CUtensorMapInterleave(interleave), CUtensorMapSwizzle(swizzle),
            CUtensorMapL2promotion(promotion), CUtensorMapFloatOOBfill(fill)));
    }
};

uint64_t random_state = 1;
uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return uint32_t(random_state >> 33) % n;
}
template <size_t n>
uint64_t choose(const uint64_t (&values)[n]) {
    return values[random_below(n)];
}

void tensor_maps_tiled() {
    void* base;
    cudaMalloc(&base, 1 << 20);
    const auto address = uint64_t(base);
    auto show = [&](const Tiled& t) { observe(t.text(), "%d", t.encode(address)); };
    const Tiled good;
    show(good);
    auto vary = [&](auto member, std::initializer_list<uint64_t> values) {
        for (uint64_t value : values) {
            Tiled t = good;
            member(t) = static_cast<std::remove_reference_t<decltype(member(t))>>(value);
            show(t);
        }
    };
    vary([](Tiled& t) -> int& { return t.type; }, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 99});
    vary([](Tiled& t) -> uint32_t& { return t.rank; }, {0, 1, 2, 3, 4, 5, 6, 7});
    vary([](Tiled& t) -> uint64_t& { return t.address; }, {1, 2, 4, 8, 16, 32, 48, uint64_t(1) << 47});
    vary([](Tiled& t) -> uint64_t& { return t.dims[0]; },
         {0, 1, 7, 63, 64, 65, 1ull << 31, 1ull << 32, (1ull << 32) + 1});
    vary([](Tiled& t) -> uint64_t& { return t.dims[1]; }, {0, 1, 7, 63, 1ull << 32, (1ull << 32) + 1});
    vary([](Tiled& t) -> uint64_t& { return t.strides[0]; },
         {0, 2, 8, 16, 24, 32, 256, 510, 511, 512, 520, 528, 1ull << 39, (1ull << 40) - 16, 1ull << 40, 1ull << 41});
    vary([](Tiled& t) -> uint32_t& { return t.box[0]; }, {0, 1, 4, 7, 8, 9, 16, 24, 128, 256, 257, 264});
    vary([](Tiled& t) -> uint32_t& { return t.box[1]; }, {0, 1, 3, 255, 256, 257});
    vary([](Tiled& t) -> uint32_t& { return t.steps[0]; }, {0, 1, 2, 3, 7, 8, 9});
    vary([](Tiled& t) -> uint32_t& { return t.steps[1]; }, {0, 1, 2, 3, 7, 8, 9});
    vary([](Tiled& t) -> int& { return t.interleave; }, {0, 1, 2, 3});
    vary([](Tiled& t) -> int& { return t.swizzle; }, {0, 1, 2, 3, 4, 5, 6, 7, 8});
    vary([](Tiled& t) -> int& { return t.promotion; }, {0, 1, 2, 3, 4});
    vary([](Tiled& t) -> int& { return t.fill; }, {0, 1, 2});
    const uint64_t dims[] = {1, 8, 32, 64, 100, 128, 256, 1000};
    const uint64_t boxes[] = {1, 2, 4, 8, 16, 32, 64, 100, 128, 256};
    const uint64_t widths[] = {16, 32, 64, 128, 256, 48, 512, 96, 24};  // bytes of the inner box
    const uint64_t eighths_of_bits[] = {1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};
    for (int i = 0; i < 3000; ++i) {
        Tiled t;
        t.type = int(random_below(16));
        t.rank = 1 + random_below(5);
        t.address = random_below(8) ? 0 : 16 * random_below(4);
        for (auto& d : t.dims) d = choose(dims);
        uint64_t stride = t.dims[0] * eighths_of_bits[t.type];
        for (int k = 0; k < 4; ++k) {
            stride = (stride + 15) / 16 * 16 + 16 * random_below(2);
            if (random_below(30) == 0) stride += 8;
            t.strides[k] = stride;
            stride *= t.dims[k + 1];
        }
        for (auto& b : t.box) b = uint32_t(random_below(4) ? 1 + random_below(4) : choose(boxes));
        t.box[0] = uint32_t((choose(widths) + eighths_of_bits[t.type] - 1) / eighths_of_bits[t.type]);
        if (random_below(4) == 0) t.steps[random_below(5)] = random_below(10);
        t.interleave = random_below(4) ? 0 : int(random_below(3));
        t.swizzle = int(random_below(5));
        t.promotion = int(random_below(4));
        t.fill = random_below(4) == 0;
        show(t);
    }
    CUtensorMap map;
    CODE("tiled, null map", cuTensorMapEncodeTiled(nullptr, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 1, base,
                                                   (const cuuint64_t*)good.dims, nullptr, good.box, good.steps,
                                                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                                   CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CODE("tiled, rank 1, null strides",
         cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 1, base, (const cuuint64_t*)good.dims, nullptr,
                                good.box, good.steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CODE("tiled, null address",
         cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, nullptr, (const cuuint64_t*)good.dims,
                                (const cuuint64_t*)good.strides, good.box, good.steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CODE("tiled, null steps",
         cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, base, (const cuuint64_t*)good.dims,
                                (const cuuint64_t*)good.strides, good.box, nullptr, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CODE("replace address", cuTensorMapReplaceAddress(&map, static_cast<char*>(base) + 64));
    CODE("replace address, misaligned", cuTensorMapReplaceAddress(&map, static_cast<char*>(base) + 8));
    char host[128];
    observe("tiled, host address", "%d", good.encode((uint64_t(host) + 15) / 16 * 16));
    alignas(64) unsigned char bytes[192] = {};
    CODE("tiled, map on 32",
         cuTensorMapEncodeTiled((CUtensorMap*)(bytes + 32), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, base,
                                (const cuuint64_t*)good.dims, (const cuuint64_t*)good.strides, good.box, good.steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    CODE("tiled, map on 8",
         cuTensorMapEncodeTiled((CUtensorMap*)(bytes + 8), CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, base,
                                (const cuuint64_t*)good.dims, (const cuuint64_t*)good.strides, good.box, good.steps,
                                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

struct Im2col {
    int type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    uint32_t rank = 4;
    uint64_t address = 0;
    uint64_t dims[5] = {64, 32, 32, 8, 4};
    uint64_t strides[4] = {128, 4096, 131072, 1048576};
    int lower[3] = {0, 0, 0}, upper[3] = {0, 0, 0};
    uint32_t channels = 64, pixels = 64;
    uint32_t steps[5] = {1, 1, 1, 1, 1};
    int interleave = 0, swizzle = 0, promotion = 0, fill = 0;

    std::string text() const {
        char s[600];
        snprintf(s, sizeof s,
                 "im2col %d %u %llu dims %llu,%llu,%llu,%llu,%llu strides %llu,%llu,%llu,%llu lower %d,%d,%d upper "
                 "%d,%d,%d %u %u steps %u,%u,%u,%u,%u %d %d %d %d",
                 type, rank, (unsigned long long)address, (unsigned long long)dims[0], (unsigned long long)dims[1],
                 (unsigned long long)dims[2], (unsigned long long)dims[3], (unsigned long long)dims[4],
                 (unsigned long long)strides[0], (unsigned long long)strides[1], (unsigned long long)strides[2],
                 (unsigned long long)strides[3], lower[0], lower[1], lower[2], upper[0], upper[1], upper[2], channels,
                 pixels, steps[0], steps[1], steps[2], steps[3], steps[4], interleave, swizzle, promotion, fill);
        return s;
    }
    int encode(uint64_t base) const {
        alignas(64) CUtensorMap map;
        return int(cuTensorMapEncodeIm2col(
            &map, CUtensorMapDataType(type), rank, reinterpret_cast<void*>(base + address), (const cuuint64_t*)dims,
            (const cuuint64_t*)strides, lower, upper, channels, pixels, steps, CUtensorMapInterleave(interleave),
            CUtensorMapSwizzle(swizzle), CUtensorMapL2promotion(promotion), CUtensorMapFloatOOBfill(fill)));
    }
};

void tensor_maps_im2col() {
    void* base;
    cudaMalloc(&base, 1 << 20);
    const auto address = uint64_t(base);
    auto show = [&](const Im2col& t) { observe(t.text(), "%d", t.encode(address)); };
    const Im2col good;
    show(good);
    auto vary = [&](auto member, std::initializer_list<int64_t> values) {
        for (int64_t value : values) {
            Im2col t = good;
            member(t) = static_cast<std::remove_reference_t<decltype(member(t))>>(value);
            show(t);
        }
    };
    vary([](Im2col& t) -> uint32_t& { return t.rank; }, {0, 1, 2, 3, 4, 5, 6});
    vary([](Im2col& t) -> uint32_t& { return t.channels; }, {0, 1, 4, 7, 8, 9, 16, 32, 128, 255, 256, 257});
    vary([](Im2col& t) -> uint32_t& { return t.pixels; }, {0, 1, 255, 256, 512, 1023, 1024, 1025});
    vary([](Im2col& t) -> int& { return t.lower[0]; }, {-129, -128, -127, -1, 1, 126, 127, 128});
    vary([](Im2col& t) -> int& { return t.upper[0]; }, {-129, -128, -127, -33, -32, -31, -1, 1, 126, 127, 128});
    vary([](Im2col& t) -> int& { return t.lower[1]; }, {-129, -128, -1, 127, 128});
    vary([](Im2col& t) -> int& { return t.upper[2]; }, {-129, -128, 127, 128});
    vary([](Im2col& t) -> uint32_t& { return t.steps[1]; }, {0, 1, 2, 8, 9});
    vary([](Im2col& t) -> uint32_t& { return t.steps[0]; }, {0, 2, 8, 9});
    vary([](Im2col& t) -> int& { return t.swizzle; }, {0, 1, 2, 3, 4, 5});
    vary([](Im2col& t) -> int& { return t.interleave; }, {0, 1, 2, 3});
    const uint64_t dims[] = {1, 8, 32, 64, 100, 128};
    const uint64_t widths[] = {16, 32, 64, 128, 256, 48, 24};
    const uint64_t sizes[] = {1, 2, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};
    random_state = 2;
    for (int i = 0; i < 1000; ++i) {
        Im2col t;
        t.type = int(random_below(16));
        t.rank = 3 + random_below(3);
        t.address = random_below(8) ? 0 : 16 * random_below(4);
        for (auto& d : t.dims) d = choose(dims);
        uint64_t stride = t.dims[0] * sizes[t.type];
        for (int k = 0; k < 4; ++k) {
            stride = (stride + 15) / 16 * 16 + 16 * random_below(2);
            t.strides[k] = stride;
            stride *= t.dims[k + 1];
        }
        const int bound = t.rank == 3 ? 40000 : t.rank == 4 ? 150 : 20;
        for (int k = 0; k < 3; ++k) {
            t.lower[k] = int(random_below(bound)) - bound / 2;
            t.upper[k] = int(random_below(bound)) - bound / 2;
            if (random_below(2)) t.lower[k] = t.upper[k] = -int(random_below(3));
        }
        t.channels = uint32_t((choose(widths) + sizes[t.type] - 1) / sizes[t.type]);
        t.pixels = random_below(8) ? 1 + random_below(128) : random_below(1200);
        if (random_below(4) == 0) t.steps[random_below(5)] = random_below(10);
        t.interleave = random_below(4) ? 0 : int(random_below(3));
        t.swizzle = int(random_below(4));
        t.promotion = int(random_below(4));
        t.fill = random_below(4) == 0;
        show(t);
    }
}

}  // namespace

extern "C" int observe_behaviour(const char* group) {
    const struct {
        const char* name;
        void (*observe)();
    } groups[] = {
        {"devices", devices},
        {"properties", properties},
        {"memory", memory},
        {"bad_addresses", bad_addresses},
        {"symbols", symbols},
        {"streams", streams_and_events},
        {"launches", launches},
        {"functions", functions},
        {"errors", errors},
        {"entry_points", entry_points},
        {"driver_device", driver_device},
        {"driver_memory", driver_memory},
        {"driver_modules", driver_modules},
        {"tensor_maps_tiled", tensor_maps_tiled},
        {"tensor_maps_im2col", tensor_maps_im2col},
        {"fault0", [] { fault(0); }},
        {"fault1", [] { fault(1); }},
        {"fault2", [] { fault(2); }},
    };
    for (const auto& candidate : groups)
        if (!strcmp(candidate.name, group)) {
            candidate.observe();
            return 0;
        }
    return 1;
}
