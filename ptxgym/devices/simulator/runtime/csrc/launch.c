// Launches and occupancy. The simulator decides whether a launch is allowed; here the arguments are packed.

#include <string.h>

#include "simulator.h"

enum { MOST_PARAMETER_BYTES = 32764 };  // CUDA's own limit

static CUresult send_launch(const struct function* function, const struct launch* launch, const void* parameters,
                            size_t bytes) {
    if (!is_stream(launch->stream)) return CUDA_ERROR_INVALID_HANDLE;
    const uint64_t *grid = launch->grid, *block = launch->block, *cluster = launch->cluster;
    struct reply reply = {0};
    const CUresult code =
        ASK_WITH(OP_LAUNCH, parameters, bytes, &reply, function->id, grid[0], grid[1], grid[2], block[0], block[1],
                 block[2], cluster[0], cluster[1], cluster[2], launch->shared, launch->cooperative);
    simulator_tick();
    // A launch is asynchronous: what went wrong on the device is for the next call to say.
    if (!code && reply.words[0]) simulator.fault = (CUresult)reply.words[0];
    return code;
}

CUresult launch_function(struct function* function, const struct launch* launch, void* const* arguments) {
    unsigned char packed[MOST_PARAMETER_BYTES] = {0};
    if (function->bytes > sizeof packed || (function->count && !arguments)) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < function->count; ++i) {
        const struct parameter* parameter = &function->parameters[i];
        if (!arguments[i] || (uint64_t)parameter->offset + parameter->size > sizeof packed)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(packed + parameter->offset, arguments[i], parameter->size);
    }
    return send_launch(function, launch, packed, function->bytes);
}

// Arguments that come as one buffer: pairs of a key and a pointer.
static CUresult launch_packed(struct function* function, const struct launch* launch, void** extra) {
    const void* buffer = NULL;
    size_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(size_t*)extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (bytes != function->bytes) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;  // the driver's answer, odd as it is
    if (bytes && !buffer) return CUDA_ERROR_INVALID_VALUE;
    return send_launch(function, launch, buffer, function->bytes);
}

static CUresult launch_any(CUfunction handle, const struct launch* launch, void** arguments, void** extra) {
    ENTER();
    if (!is_function(handle)) return CUDA_ERROR_INVALID_HANDLE;
    if (arguments && extra) return CUDA_ERROR_INVALID_VALUE;
    struct function* function = (struct function*)handle;
    return extra ? launch_packed(function, launch, extra) : launch_function(function, launch, arguments);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** arguments,
                        void** extra) {
    const struct launch launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {0}, shared, false, stream};
    return launch_any(function, &launch, arguments, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** arguments) {
    const struct launch launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, {0}, shared, true, stream};
    return launch_any(function, &launch, arguments, NULL);
}

CUresult read_attributes(const CUlaunchAttribute* attributes, unsigned count, struct launch* launch) {
    if (count && !attributes) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; ++i) {
        const CUlaunchAttributeValue* value = &attributes[i].value;
        switch (attributes[i].id) {
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
                launch->cluster[0] = value->clusterDim.x;
                launch->cluster[1] = value->clusterDim.y;
                launch->cluster[2] = value->clusterDim.z;
                if (!launch->cluster[0] || !launch->cluster[1] || !launch->cluster[2])
                    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
                break;
            case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
                launch->cooperative = value->cooperative != 0;
                break;
            // Hints and orderings. Launches run one after the other here, which every ordering allows.
            case CU_LAUNCH_ATTRIBUTE_IGNORE:
            case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
            case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
            case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
            case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
            case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
                break;
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
                cuEventRecord(value->programmaticEvent.event, launch->stream);
                break;
            case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
                cuEventRecord(value->launchCompletionEvent.event, launch->stream);
                break;
            default:
                simulator_refuse("a launch attribute that is not known here");
                return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

static CUresult read_config(const CUlaunchConfig* config, struct launch* launch) {
    if (!config) return CUDA_ERROR_INVALID_VALUE;
    *launch = (struct launch){{config->gridDimX, config->gridDimY, config->gridDimZ},
                              {config->blockDimX, config->blockDimY, config->blockDimZ},
                              {0},
                              config->sharedMemBytes,
                              false,
                              config->hStream};
    return read_attributes(config->attrs, config->numAttrs, launch);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
    struct launch launch;
    ENTER();
    const CUresult code = read_config(config, &launch);
    return code ? code : launch_any(function, &launch, arguments, extra);
}

// --- occupancy

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned flags) {
    (void)flags;
    ENTER();
    if (!blocks) return CUDA_ERROR_INVALID_VALUE;
    if (!is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
    struct reply reply = {0};
    const CUresult code =
        ASK(OP_OCCUPANCY, &reply, ((struct function*)function)->id, (uint64_t)(int64_t)threads, shared);
    if (!code) *blocks = (int)reply.words[0];
    return code;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction function, int blocks, int threads) {
    ENTER();
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
    struct reply reply = {0};
    const CUresult code = ASK(OP_AVAILABLE_SHARED, &reply, ((struct function*)function)->id, (uint64_t)(int64_t)blocks,
                              (uint64_t)(int64_t)threads);
    if (!code) *bytes = reply.words[0];
    return code;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize shared, size_t shared_bytes, int limit,
                                                   unsigned flags) {
    (void)flags;
    int most = 0, processors = 0, best = 0;
    CUresult code = cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    if (code) return code;
    if (!grid || !block) return CUDA_ERROR_INVALID_VALUE;
    cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
    if (limit > 0 && limit < most) most = limit;
    for (int threads = most; threads > 0; threads = (threads - 1) / 32 * 32) {
        int blocks = 0;
        const size_t bytes = shared ? shared(threads) : shared_bytes;
        code = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, bytes);
        if (code) return code;
        if (blocks * threads > best) {
            best = blocks * threads;
            *block = threads;
            *grid = blocks * processors;
        }
    }
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared,
                                          size_t shared_bytes, int limit) {
    return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared, shared_bytes, limit, 0);
}

static CUresult active_clusters(CUfunction function, const struct launch* launch, int* clusters) {
    struct reply reply = {0};
    const uint64_t threads = launch->block[0] * launch->block[1] * launch->block[2];
    const CUresult code = ASK(OP_CLUSTER_OCCUPANCY, &reply, ((struct function*)function)->id, threads,
                              launch->cluster[0], launch->cluster[1], launch->cluster[2], launch->shared);
    if (!code) *clusters = (int)reply.words[0];
    return code;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
    struct launch launch;
    ENTER();
    const CUresult code = read_config(config, &launch);
    if (code || !clusters) return code ? code : CUDA_ERROR_INVALID_VALUE;
    return is_function(function) ? active_clusters(function, &launch, clusters) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction function, const CUlaunchConfig* config) {
    struct launch launch;
    ENTER();
    CUresult code = read_config(config, &launch);
    if (code || !size) return code ? code : CUDA_ERROR_INVALID_VALUE;
    if (!is_function(function)) return CUDA_ERROR_INVALID_HANDLE;
    int portable = 0, clusters = 0;
    code = cuFuncGetAttribute(&portable, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, function);
    if (code) return code;
    launch.cluster[1] = launch.cluster[2] = 1;
    for (launch.cluster[0] = portable ? 16 : 8; launch.cluster[0] > 1; launch.cluster[0] /= 2)
        if (!active_clusters(function, &launch, &clusters) && clusters > 0) break;
    *size = (int)launch.cluster[0];
    return CUDA_SUCCESS;
}
