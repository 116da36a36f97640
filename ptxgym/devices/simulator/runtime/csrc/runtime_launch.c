// Launches, function attributes and occupancy of the runtime.

#include <stddef.h>
#include <string.h>

#include "runtime.h"

_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute) &&
                   offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value),
               "the runtime's launch attributes are the driver's");

static cudaError_t launch(const void* stub, const struct launch* launch, void* const* arguments) {
    struct function* function = NULL;
    const cudaError_t code = find_kernel(stub, &function);
    return code ? code : (cudaError_t)launch_function(function, launch, arguments);
}

cudaError_t cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
    const struct launch how = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, {0}, shared, false, stream};
    return WITH_CONTEXT(launch(stub, &how, arguments));
}
PER_THREAD(cudaLaunchKernel, _ptsz);

cudaError_t cudaLaunchCooperativeKernel(const void* stub, dim3 grid, dim3 block, void** arguments, size_t shared,
                                        cudaStream_t stream) {
    const struct launch how = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, {0}, shared, true, stream};
    return WITH_CONTEXT(launch(stub, &how, arguments));
}
PER_THREAD(cudaLaunchCooperativeKernel, _ptsz);

static CUlaunchConfig to_driver(const cudaLaunchConfig_t* config) {
    return (CUlaunchConfig){
        .gridDimX = config->gridDim.x,
        .gridDimY = config->gridDim.y,
        .gridDimZ = config->gridDim.z,
        .blockDimX = config->blockDim.x,
        .blockDimY = config->blockDim.y,
        .blockDimZ = config->blockDim.z,
        .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
        .hStream = config->stream,
        .attrs = (CUlaunchAttribute*)config->attrs,
        .numAttrs = config->numAttrs,
    };
}

static cudaError_t launch_configured(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
    if (!config) return cudaErrorInvalidValue;
    const dim3 grid = config->gridDim, block = config->blockDim;
    struct launch how = {
        {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, {0}, config->dynamicSmemBytes, false, config->stream};
    const CUresult code = read_attributes((const CUlaunchAttribute*)config->attrs, config->numAttrs, &how);
    return code ? (cudaError_t)code : launch(stub, &how, arguments);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* stub, void** arguments) {
    return WITH_CONTEXT(launch_configured(config, stub, arguments));
}
PER_THREAD(cudaLaunchKernelExC, _ptsz);

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
    return WITH_CONTEXT(cuLaunchHostFunc(stream, function, data));
}
PER_THREAD(cudaLaunchHostFunc, _ptsz);

// --- functions. ON(stub, call) finds the function first.

#define ON(stub, call)                                         \
    WITH_CONTEXT(({                                            \
        struct function* found = NULL;                         \
        const cudaError_t missing = find_kernel(stub, &found); \
        const CUfunction function = (CUfunction)found;         \
        (void)function;                                        \
        missing ? (int)missing : (int)(call);                  \
    }))

static CUresult get_attributes(struct cudaFuncAttributes* a, CUfunction function) {
    const struct {
        CUfunction_attribute attribute;
        int* value;
    } ints[] = {
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &a->maxThreadsPerBlock},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &a->numRegs},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, &a->ptxVersion},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &a->binaryVersion},
        {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &a->cacheModeCA},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &a->maxDynamicSharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &a->preferredShmemCarveout},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &a->clusterDimMustBeSet},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &a->requiredClusterWidth},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &a->requiredClusterHeight},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &a->requiredClusterDepth},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, &a->clusterSchedulingPolicyPreference},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, &a->nonPortableClusterSizeAllowed},
    };
    if (!a) return CUDA_ERROR_INVALID_VALUE;
    memset(a, 0, sizeof *a);
    int shared = 0, constant = 0, local = 0;
    CUresult code = cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    if (!code) code = cuFuncGetAttribute(&constant, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, function);
    if (!code) code = cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function);
    for (size_t i = 0; i < sizeof ints / sizeof *ints && !code; ++i)
        code = cuFuncGetAttribute(ints[i].value, ints[i].attribute, function);
    a->sharedSizeBytes = (size_t)shared;
    a->constSizeBytes = (size_t)constant;
    a->localSizeBytes = (size_t)local;
    return code;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* stub) {
    return ON(stub, get_attributes(attributes, function));
}
cudaError_t cudaFuncSetAttribute(const void* stub, enum cudaFuncAttribute attribute, int value) {
    return ON(stub, cuFuncSetAttribute(function, (CUfunction_attribute)attribute, value));
}
cudaError_t cudaFuncSetCacheConfig(const void* stub, enum cudaFuncCache config) {
    return ON(stub, cuFuncSetCacheConfig(function, (CUfunc_cache)config));
}
cudaError_t cudaFuncSetSharedMemConfig(const void* stub, enum cudaSharedMemConfig config) {
    (void)config;
    return ON(stub, CUDA_SUCCESS);
}
cudaError_t cudaFuncGetName(const char** name, const void* stub) { return ON(stub, cuFuncGetName(name, function)); }
cudaError_t cudaFuncGetParamInfo(const void* stub, size_t index, size_t* offset, size_t* bytes) {
    return ON(stub, cuFuncGetParamInfo(function, index, offset, bytes));
}
cudaError_t cudaFuncGetParamCount(const void* stub, size_t* count) {
    return ON(stub, count ? (*count = found->count, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE);
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* handle, const void* stub) {
    return ON(stub, handle ? (*handle = function, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE);
}
cudaError_t cudaGetKernel(cudaKernel_t* handle, const void* stub) {
    return ON(stub, handle ? (*handle = (cudaKernel_t)function, CUDA_SUCCESS) : CUDA_ERROR_INVALID_VALUE);
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value,
                                            int device) {
    return device ? remember(cudaErrorInvalidDevice) : cudaFuncSetAttribute(kernel, attribute, value);
}

// --- occupancy

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* stub, int threads,
                                                                   size_t shared, unsigned flags) {
    return ON(stub, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, flags));
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* stub, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, stub, threads, shared, 0);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* stub, int blocks, int threads) {
    return ON(stub, cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads));
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* stub, const cudaLaunchConfig_t* config) {
    if (!config) return remember(cudaErrorInvalidValue);
    const CUlaunchConfig driver = to_driver(config);
    return ON(stub, cuOccupancyMaxActiveClusters(clusters, function, &driver));
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* stub, const cudaLaunchConfig_t* config) {
    if (!config) return remember(cudaErrorInvalidValue);
    const CUlaunchConfig driver = to_driver(config);
    return ON(stub, cuOccupancyMaxPotentialClusterSize(size, function, &driver));
}
