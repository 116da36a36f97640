// What the files of libcuda.so.1 share, and libcudart.so.13 uses of it.

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The headers rename functions to their newest version; this file set defines them under their real names.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "protocol.h"

struct reply {
    uint64_t words[MOST_WORDS];  // zero where the other side sent less
    void* data;                  // where to put the data, or NULL
    size_t capacity;             // what fits there; the rest is dropped
    size_t bytes;                // what came
};

extern struct simulator {
    uint64_t address, bytes;              // of device memory
    uint64_t shown_address, shown_bytes;  // of the part that this process may map: pinned and managed memory
    int shown;                            // the file descriptor of that part
    char* bounce;                         // its first bytes, through which copies go
    int driver_version;
    uint64_t total_memory;
    struct description description;
    CUresult fault;  // set for good once a kernel has faulted
    uint64_t clock;  // counts what the device was asked to do
} simulator;

// Connect, once per process; later calls return the first answer.
CUresult simulator_connect(void);

// Ask and wait for the answer, one thread at a time.
CUresult simulator_ask(enum operation operation, const uint64_t* words, unsigned count, const void* data, size_t bytes,
                       struct reply* reply);
#define ASK_WITH(operation, data, bytes, reply, ...)                                                             \
    simulator_ask(operation, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8, data, \
                  bytes, reply)
#define ASK(operation, reply, ...) ASK_WITH(operation, NULL, 0, reply, __VA_ARGS__)

// The start of every call that needs a context: an error if there is none, or if a kernel has faulted.
CUresult simulator_enter(void);
#define ENTER()                                     \
    do {                                            \
        const CUresult entered = simulator_enter(); \
        if (entered) return entered;                \
    } while (0)

// Have the calling thread use the primary context, as the runtime does.
CUresult simulator_use_primary(void);

// Record that the candidate called what is not there; returns the error to give.
CUresult simulator_refuse(const char* name);

// One more thing done by the device; the time that events record. It orders, it does not measure.
uint64_t simulator_tick(void);

static inline bool in_arena(uint64_t address) { return address - simulator.address < simulator.bytes; }

// --- handles that the runtime shares with the driver

struct module {
    uint64_t id;
    struct function* functions;
};

struct function {  // a CUfunction, CUkernel, cudaFunction_t and cudaKernel_t
    struct function* next;
    struct module* module;
    char* name;
    bool resolved;
    uint64_t id;
    unsigned count, bytes;  // of parameters
    struct parameter* parameters;
};

extern struct module program_module;  // what was compiled with the process's library

// The function of this name, looked up once.
CUresult module_function(struct module* module, const char* name, struct function** function);
// The variable of this name: its address and bytes, and whether the host may use it.
CUresult module_variable(struct module* module, const char* name, uint64_t* address, uint64_t* bytes, bool* managed);
// Whether this is a function that was handed out.
bool is_function(const void* handle);

struct launch {
    uint64_t grid[3], block[3], cluster[3], shared;
    bool cooperative;
    CUstream stream;
};

// Pack the arguments and launch.
CUresult launch_function(struct function* function, const struct launch* launch, void* const* arguments);
// Read launch attributes into `launch`.
CUresult read_attributes(const CUlaunchAttribute* attributes, unsigned count, struct launch* launch);

bool is_stream(CUstream stream);

CUresult cuProfilerStart(void);  // of cudaProfiler.h, which the wheels lack
CUresult cuProfilerStop(void);

struct copy {
    uint64_t target, target_pitch, source, source_pitch, width, height;
};

// Copy between any two places; addresses in the arena are device addresses, others the host's.
CUresult copy_bytes(const struct copy* copy);
// Fill rows of elements.
CUresult fill_elements(uint64_t target, uint64_t pitch, uint64_t value, unsigned size, uint64_t width, uint64_t height);

CUresult allocate_memory(uint64_t bytes, enum memory_kind kind, uint64_t* address);
CUresult free_memory(uint64_t address, enum memory_kind kind);
// Let this process use a range of pinned or managed memory at its device address.
CUresult show_to_host(uint64_t address, uint64_t bytes);
