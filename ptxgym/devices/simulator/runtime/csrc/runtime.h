// What the files of libcudart.so.13 share.

#pragma once

#include "simulator.h"

#define __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>

// Remember a code for cudaGetLastError, and return it.
cudaError_t remember(int code);

// A call that needs the context: make sure that there is one, then do it.
#define WITH_CONTEXT(call)                              \
    ({                                                  \
        const CUresult ready = simulator_use_primary(); \
        remember(ready ? (int)ready : (int)(call));     \
    })
// A call that only needs the driver.
#define WITH_DRIVER(call)                           \
    ({                                              \
        const CUresult ready = cuInit(0);           \
        remember(ready ? (int)ready : (int)(call)); \
    })

// The same function for a stream of its own per thread: everything is in order here anyway.
#define PER_THREAD(name, suffix) extern __typeof__(name) name##suffix __attribute__((alias(#name)))

// The kernel that a host stub, or a handle, stands for.
cudaError_t find_kernel(const void* stub, struct function** function);
// The variable that a host variable stands for.
cudaError_t find_variable(const void* host, uint64_t* address, uint64_t* bytes);
