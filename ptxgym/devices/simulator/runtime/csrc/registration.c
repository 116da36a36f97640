// What nvcc's host code calls by itself: the registration of kernels and variables, and <<<...>>>.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

struct kernel {
    struct kernel* next;
    const void* stub;
    const char* name;
};

struct variable {
    struct variable* next;
    const void* host;  // the variable's shadow in host memory
    void** pointer;    // managed variables: where host code looks for the address
    const char* name;
};

static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;
static struct kernel* kernels;
static struct variable* variables;

// The device code in here is not looked at: the simulator has the PTX of the same compilation.
void** __cudaRegisterFatBinary(void* binary) {
    void** handle = malloc(sizeof *handle);
    if (handle) *handle = binary;
    return handle;
}
void __cudaRegisterFatBinaryEnd(void** handle) { (void)handle; }
void __cudaUnregisterFatBinary(void** handle) { free(handle); }

void __cudaRegisterFunction(void** handle, const char* stub, char* device, const char* name, int thread_limit,
                            void* thread, void* block, void* block_dim, void* grid_dim, int* warp) {
    (void)handle, (void)device, (void)thread_limit, (void)thread, (void)block, (void)block_dim, (void)grid_dim;
    (void)warp;
    struct kernel* made = malloc(sizeof *made);
    if (!made) return;
    pthread_mutex_lock(&tables);
    *made = (struct kernel){kernels, stub, name};
    kernels = made;
    pthread_mutex_unlock(&tables);
}

static void register_variable(const void* host, void** pointer, const char* name) {
    struct variable* made = malloc(sizeof *made);
    if (!made) return;
    pthread_mutex_lock(&tables);
    *made = (struct variable){variables, host, pointer, name};
    variables = made;
    pthread_mutex_unlock(&tables);
}

void __cudaRegisterVar(void** handle, char* host, char* device, const char* name, int external, size_t bytes,
                       int constant, int global) {
    (void)handle, (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    register_variable(host, NULL, name);
}

void __cudaRegisterManagedVar(void** handle, void** host, char* device, const char* name, int external, size_t bytes,
                              int constant, int global) {
    (void)handle, (void)device, (void)external, (void)bytes, (void)constant, (void)global;
    register_variable(host, host, name);
}

void __cudaRegisterHostVar(void** handle, const char* name, char* host, size_t bytes) {
    (void)handle, (void)name, (void)host, (void)bytes;
}

void __cudaRegisterUnifiedTable(void** handle, void* table) { (void)handle, (void)table; }

// Called before the first use of a managed variable.
char __cudaInitModule(void** handle) {
    (void)handle;
    pthread_mutex_lock(&tables);
    struct variable* first = variables;
    pthread_mutex_unlock(&tables);
    for (struct variable* each = first; each; each = each->next) {
        uint64_t address = 0, bytes = 0;
        bool managed = false;
        if (!each->pointer || simulator_use_primary()) continue;
        if (module_variable(&program_module, each->name, &address, &bytes, &managed)) continue;
        if (!show_to_host(address, bytes)) *each->pointer = (void*)address;
    }
    return 1;
}

cudaError_t find_kernel(const void* stub, struct function** function) {
    if (!stub) return cudaErrorInvalidDeviceFunction;
    if (is_function(stub)) {
        *function = (struct function*)stub;
        return cudaSuccess;
    }
    pthread_mutex_lock(&tables);
    const struct kernel* found = kernels;
    while (found && found->stub != stub) found = found->next;
    pthread_mutex_unlock(&tables);
    if (!found) return cudaErrorInvalidResourceHandle;
    const CUresult code = module_function(&program_module, found->name, function);
    return code == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidDeviceFunction : (cudaError_t)code;
}

cudaError_t find_variable(const void* host, uint64_t* address, uint64_t* bytes) {
    pthread_mutex_lock(&tables);
    const struct variable* found = variables;
    while (found && (!host || (found->host != host && !(found->pointer && *found->pointer == host))))
        found = found->next;
    pthread_mutex_unlock(&tables);
    bool managed = false;
    if (!found || module_variable(&program_module, found->name, address, bytes, &managed))
        return cudaErrorInvalidSymbol;
    return cudaSuccess;
}

// --- <<<...>>>

static _Thread_local struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} configurations[16];
static _Thread_local unsigned configured;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st* stream) {
    if (configured == 16) return cudaErrorMissingConfiguration;
    configurations[configured].grid = grid;
    configurations[configured].block = block;
    configurations[configured].shared = shared;
    configurations[configured++].stream = stream;
    return cudaSuccess;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    if (!configured) return remember(cudaErrorMissingConfiguration);
    --configured;
    *grid = configurations[configured].grid;
    *block = configurations[configured].block;
    *shared = configurations[configured].shared;
    *(cudaStream_t*)stream = configurations[configured].stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
    return WITH_CONTEXT(find_kernel(stub, (struct function**)kernel));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
PER_THREAD(__cudaLaunchKernel, _ptsz);
