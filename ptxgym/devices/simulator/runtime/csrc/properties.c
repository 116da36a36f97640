// cudaGetDeviceProperties: the attributes of the device, as one structure.

#include <string.h>

#include "runtime.h"

static cudaError_t fill(struct cudaDeviceProp* p, int device) {
    if (!p) return cudaErrorInvalidValue;
    if (device) return cudaErrorInvalidDevice;
    const int32_t* a = simulator.description.attributes;
#define A(name) a[CU_DEVICE_ATTRIBUTE_##name]
    memset(p, 0, sizeof *p);
    memcpy(p->name, simulator.description.name, sizeof p->name);
    memcpy(&p->uuid, simulator.description.uuid, sizeof p->uuid);
    p->totalGlobalMem = simulator.total_memory;
    p->sharedMemPerBlock = (size_t)A(MAX_SHARED_MEMORY_PER_BLOCK);
    p->regsPerBlock = A(MAX_REGISTERS_PER_BLOCK);
    p->warpSize = A(WARP_SIZE);
    p->memPitch = (size_t)A(MAX_PITCH);
    p->maxThreadsPerBlock = A(MAX_THREADS_PER_BLOCK);
    memcpy(p->maxThreadsDim, &A(MAX_BLOCK_DIM_X), sizeof p->maxThreadsDim);  // x, y and z follow each other
    memcpy(p->maxGridSize, &A(MAX_GRID_DIM_X), sizeof p->maxGridSize);
    p->totalConstMem = (size_t)A(TOTAL_CONSTANT_MEMORY);
    p->major = A(COMPUTE_CAPABILITY_MAJOR);
    p->minor = A(COMPUTE_CAPABILITY_MINOR);
    p->textureAlignment = (size_t)A(TEXTURE_ALIGNMENT);
    p->texturePitchAlignment = (size_t)A(TEXTURE_PITCH_ALIGNMENT);
    p->multiProcessorCount = A(MULTIPROCESSOR_COUNT);
    p->integrated = A(INTEGRATED);
    p->canMapHostMemory = A(CAN_MAP_HOST_MEMORY);
    // Texture and surface extents stay 0 but for the commonest: there are none of either here.
    p->maxTexture1D = A(MAXIMUM_TEXTURE1D_WIDTH);
    p->maxTexture2D[0] = A(MAXIMUM_TEXTURE2D_WIDTH);
    p->maxTexture2D[1] = A(MAXIMUM_TEXTURE2D_HEIGHT);
    p->maxTexture3D[0] = A(MAXIMUM_TEXTURE3D_WIDTH);
    p->maxTexture3D[1] = A(MAXIMUM_TEXTURE3D_HEIGHT);
    p->maxTexture3D[2] = A(MAXIMUM_TEXTURE3D_DEPTH);
    p->surfaceAlignment = (size_t)A(SURFACE_ALIGNMENT);
    p->concurrentKernels = A(CONCURRENT_KERNELS);
    p->ECCEnabled = A(ECC_ENABLED);
    p->asyncEngineCount = A(ASYNC_ENGINE_COUNT);
    p->unifiedAddressing = A(UNIFIED_ADDRESSING);
    p->memoryBusWidth = A(GLOBAL_MEMORY_BUS_WIDTH);
    p->l2CacheSize = A(L2_CACHE_SIZE);
    p->persistingL2CacheMaxSize = A(MAX_PERSISTING_L2_CACHE_SIZE);
    p->maxThreadsPerMultiProcessor = A(MAX_THREADS_PER_MULTIPROCESSOR);
    p->streamPrioritiesSupported = A(STREAM_PRIORITIES_SUPPORTED);
    p->globalL1CacheSupported = A(GLOBAL_L1_CACHE_SUPPORTED);
    p->localL1CacheSupported = A(LOCAL_L1_CACHE_SUPPORTED);
    p->sharedMemPerMultiprocessor = (size_t)A(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    p->regsPerMultiprocessor = A(MAX_REGISTERS_PER_MULTIPROCESSOR);
    p->managedMemory = A(MANAGED_MEMORY);
    p->isMultiGpuBoard = A(MULTI_GPU_BOARD);
    p->concurrentManagedAccess = A(CONCURRENT_MANAGED_ACCESS);
    p->computePreemptionSupported = A(COMPUTE_PREEMPTION_SUPPORTED);
    p->canUseHostPointerForRegisteredMem = A(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
    p->cooperativeLaunch = A(COOPERATIVE_LAUNCH);
    p->sharedMemPerBlockOptin = (size_t)A(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    p->maxBlocksPerMultiProcessor = A(MAX_BLOCKS_PER_MULTIPROCESSOR);
    p->accessPolicyMaxWindowSize = A(MAX_ACCESS_POLICY_WINDOW_SIZE);
    p->reservedSharedMemPerBlock = (size_t)A(RESERVED_SHARED_MEMORY_PER_BLOCK);
    p->hostRegisterSupported = A(HOST_REGISTER_SUPPORTED);
    p->memoryPoolsSupported = A(MEMORY_POOLS_SUPPORTED);
    p->clusterLaunch = A(CLUSTER_LAUNCH);
    p->unifiedFunctionPointers = A(UNIFIED_FUNCTION_POINTERS);
    p->deviceNumaId = p->hostNumaId = -1;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
    return WITH_DRIVER(fill(properties, device));
}
