// What libcudart.so.13 exports and this one lacks: each call fails, and its name is recorded. Without these a library
// that mentions one could not even be loaded. No CUDA header here, since the parameters do not matter.

int simulator_refuse(const char* name);
int remember(int code);

#define REFUSED(name) \
    int name(void) { return remember(simulator_refuse(#name)); }
#include "refused_runtime.def"
