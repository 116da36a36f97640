// cuGetProcAddress: the driver's functions by name and version.

#include <string.h>

#include "simulator.h"

static const struct {
    const char* name;
    int since;  // the CUDA version whose callers may have it
    const void* entry;
} entries[] = {
#define ENTRY(name, since, function) {#name, since, function},
#include "entry_points.def"
#undef ENTRY
};

static const char* const refused[] = {
#define REFUSED(name) #name,
#include "refused_driver.def"
#undef REFUSED
};

CUresult cuGetProcAddress_v2(const char* name, void** entry, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* result) {
    (void)flags;  // default, legacy or per-thread stream: all are in order here
    CUdriverProcAddressQueryResult unused;
    if (!result) result = &unused;
    if (!name || !entry) return CUDA_ERROR_INVALID_VALUE;
    *entry = NULL;
    *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; ++i) {
        if (strcmp(entries[i].name, name)) continue;
        if (version < entries[i].since) {
            *result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
        } else {
            *entry = (void*)entries[i].entry;
            *result = CU_GET_PROC_ADDRESS_SUCCESS;
            return CUDA_SUCCESS;
        }
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i)
        if (!strcmp(refused[i], name)) simulator_refuse(name);
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress(const char* name, void** entry, int version, cuuint64_t flags) {
    return cuGetProcAddress_v2(name, entry, version, flags, NULL);
}
