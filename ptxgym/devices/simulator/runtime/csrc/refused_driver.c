// What libcuda.so.1 exports and this one lacks: each call fails, and its name is recorded. Without these a library that
// mentions one could not even be loaded. No CUDA header here, since the parameters do not matter.

int simulator_refuse(const char* name);

#define REFUSED(name) \
    int name(void) { return simulator_refuse(#name); }
#include "refused_driver.def"
