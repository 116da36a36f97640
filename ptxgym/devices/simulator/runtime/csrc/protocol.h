// The messages between the candidate's process and the simulator, over one stream socket. Both sides are on one
// machine, so fields are in its byte order. ../protocol.py says the same for the other side; a test compares them.
//
//   request   header, `words` 64-bit arguments, `bytes` bytes of data
//   reply     header, `words` 64-bit results, `bytes` bytes of data
//
// Every request has one reply, in order. Nothing in here is trusted by the other side.

#pragma once

#include <stdint.h>

enum { PROTOCOL_VERSION = 1, MOST_WORDS = 40, MOST_BYTES = 16 << 20, BOUNCE_BYTES = 4 << 20 };

struct request_header {
    uint32_t operation, words;
    uint64_t bytes;
};

struct reply_header {
    int32_t code;  // a CUresult
    uint32_t words;
    uint64_t bytes;
};

enum operation {
    // version -> address and bytes of all device memory, address and bytes of its part that this process may map,
    // driver
    // version, total memory; data: struct description. The reply carries the file descriptor of the part that may be
    // mapped. Its first BOUNCE_BYTES are for OP_UPLOAD and OP_DOWNLOAD.
    OP_HELLO = 1,
    // bytes, enum memory_kind -> address
    OP_ALLOCATE = 2,
    // address, enum memory_kind ->
    OP_FREE = 3,
    // data: the 64 bytes of a CUipcMemHandle -> address
    OP_OPEN_HANDLE = 4,
    // address ->
    OP_CLOSE_HANDLE = 5,
    // address -> enum memory_kind, start, bytes
    OP_POINTER = 6,
    // -> free bytes, total bytes
    OP_MEMORY_INFO = 7,
    // address, pitch, width, height -> ; says whether all rows lie in one allocation
    OP_CHECK = 8,
    // target, its pitch, source, its pitch, width, height ->
    OP_COPY = 9,
    // target, pitch, value, bytes of the value (1, 2, 4), elements per row, rows ->
    OP_FILL = 10,
    // data: PTX -> module. Module 0 is the program that was compiled with the process's library.
    OP_LOAD_MODULE = 11,
    OP_UNLOAD_MODULE = 12,
    // module; data: name -> function, parameters, bytes of all; data: a struct parameter each
    OP_FUNCTION = 13,
    // module; data: name -> address, bytes, 1 if managed
    OP_VARIABLE = 14,
    // function, CUfunction_attribute -> value
    OP_GET_ATTRIBUTE = 15,
    // function, CUfunction_attribute, value ->
    OP_SET_ATTRIBUTE = 16,
    // function, grid 3, block 3, cluster 3 (0: none given), dynamic shared bytes, cooperative; data: the parameters
    // -> the fault that the kernel raised, a CUresult
    OP_LAUNCH = 17,
    // function, threads, dynamic shared bytes -> blocks per multiprocessor
    OP_OCCUPANCY = 18,
    // function, threads, cluster 3, dynamic shared bytes -> clusters on the whole device
    OP_CLUSTER_OCCUPANCY = 19,
    // function, blocks per multiprocessor, threads -> dynamic shared bytes
    OP_AVAILABLE_SHARED = 20,
    // type, rank, address, dims 5, strides 4, box 5, element strides 5, interleave, swizzle, promotion, fill
    // -> ; data: the 128 bytes
    OP_ENCODE_TILED = 21,
    // type, rank, address, dims 5, strides 4, lower 3, upper 3, channels, pixels, element strides 5, interleave,
    // swizzle, promotion, fill -> ; data: the 128 bytes
    OP_ENCODE_IM2COL = 22,
    // address; data: the 128 bytes -> ; data: the 128 bytes
    OP_REPLACE_ADDRESS = 23,
    // data: the name of what this runtime lacks and the candidate called ->
    OP_REFUSED = 24,
    // address, pitch, width, height -> ; copies rows, which lie in the bounce buffer without gaps, to the device
    OP_UPLOAD = 25,
    // the same, the other way
    OP_DOWNLOAD = 26,
};

enum memory_kind {
    MEMORY_UNKNOWN = 0,
    MEMORY_DEVICE = 1,
    MEMORY_PINNED = 2,    // cudaMallocHost
    MEMORY_MANAGED = 3,   // cudaMallocManaged, __managed__
    MEMORY_JUDGE = 4,     // handed over by the judge
    MEMORY_VARIABLE = 5,  // __device__, __constant__
};

enum { ATTRIBUTES = 256 };

struct description {
    char name[256];
    unsigned char uuid[16];
    int32_t attributes[ATTRIBUTES];  // by CUdevice_attribute; INT32_MIN where there is none
};

struct parameter {
    uint32_t offset, size;
};
