// Modules, functions and variables. The simulator has the PTX; here are the handles.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "simulator.h"

struct module program_module;

static pthread_mutex_t lookups = PTHREAD_MUTEX_INITIALIZER;

// Every function ever handed out, so that a handle can be told from any other pointer. They are never freed: a handle
// of an unloaded module must still be recognised, and refused by the simulator.
static const void** functions;
static size_t function_count;

static bool note_function(const struct function* function) {
    if (function_count % 64 == 0) {
        void* grown = realloc(functions, (function_count + 64) * sizeof *functions);
        if (!grown) return false;
        functions = grown;
    }
    functions[function_count++] = function;
    return true;
}

bool is_function(const void* handle) {
    bool found = false;
    pthread_mutex_lock(&lookups);
    for (size_t i = 0; i < function_count && !found; ++i) found = functions[i] == handle;
    pthread_mutex_unlock(&lookups);
    return found;
}

static CUresult resolve(struct function* function) {
    enum { MOST_PARAMETERS = 4096 };
    struct parameter* parameters = malloc(MOST_PARAMETERS * sizeof *parameters);
    if (!parameters) return CUDA_ERROR_OUT_OF_MEMORY;
    struct reply reply = {.data = parameters, .capacity = MOST_PARAMETERS * sizeof *parameters};
    const CUresult code = ASK_WITH(OP_FUNCTION, function->name, strlen(function->name), &reply, function->module->id);
    if (code) {
        free(parameters);
        return code;
    }
    function->id = reply.words[0];
    function->count = (unsigned)reply.words[1];
    function->bytes = (unsigned)reply.words[2];
    function->parameters = parameters;
    function->resolved = true;
    return CUDA_SUCCESS;
}

static struct function* find_or_make(struct module* module, const char* name) {
    for (struct function* known = module->functions; known; known = known->next)
        if (!strcmp(known->name, name)) return known;
    struct function* made = calloc(1, sizeof *made);
    if (!made || !(made->name = strdup(name)) || !note_function(made)) return NULL;
    made->module = module;
    made->next = module->functions;
    return module->functions = made;
}

CUresult module_function(struct module* module, const char* name, struct function** function) {
    pthread_mutex_lock(&lookups);
    struct function* found = find_or_make(module, name);
    CUresult code = found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (found && !found->resolved) code = resolve(found);
    pthread_mutex_unlock(&lookups);
    if (!code) *function = found;
    return code;
}

CUresult module_variable(struct module* module, const char* name, uint64_t* address, uint64_t* bytes, bool* managed) {
    struct reply reply = {0};
    const CUresult code = ASK_WITH(OP_VARIABLE, name, strlen(name), &reply, module->id);
    if (code) return code;
    *address = reply.words[0];
    *bytes = reply.words[1];
    *managed = reply.words[2] != 0;
    return CUDA_SUCCESS;
}

// --- modules

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    ENTER();
    if (!module || !image) return CUDA_ERROR_INVALID_VALUE;
    // A fat binary or a cubin; strncmp stops where a short text ends.
    if (!strncmp(image, "\x50\xED\x55\xBA", 4) || !strncmp(image,
                                                           "\x7F"
                                                           "ELF",
                                                           4)) {
        simulator_refuse("cuModuleLoadData (of machine code; load PTX)");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    struct module* made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    struct reply reply = {0};
    const CUresult code = ASK_WITH(OP_LOAD_MODULE, image, strlen(image), &reply, 0);
    made->id = reply.words[0];
    if (code)
        free(made);
    else
        *module = (CUmodule)made;
    return code;
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options, void** values) {
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }

CUresult cuModuleLoad(CUmodule* module, const char* path) {
    (void)module;
    ENTER();
    return path ? CUDA_ERROR_FILE_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;  // a candidate can read no file
}

CUresult cuModuleUnload(CUmodule module) {
    ENTER();
    return module ? ASK(OP_UNLOAD_MODULE, NULL, ((struct module*)module)->id) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    ENTER();
    if (!function || !name) return CUDA_ERROR_INVALID_VALUE;
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    return module_function((struct module*)module, name, (struct function**)function);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
    ENTER();
    uint64_t where = 0, size = 0;
    bool managed = false;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult code = module_variable((struct module*)module, name, &where, &size, &managed);
    if (code) return code;
    if (address) *address = where;
    if (bytes) *bytes = size;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

// --- libraries: modules that need no context

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values, unsigned count,
                           CUlibraryOption* library_options, void** library_values, unsigned library_count) {
    (void)library_options, (void)library_values, (void)library_count;
    return cuModuleLoadDataEx((CUmodule*)library, code, count, options, values);
}
CUresult cuLibraryUnload(CUlibrary library) { return cuModuleUnload((CUmodule)library); }
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
    if (!module || !library) return CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)library;
    return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
    return cuModuleGetFunction((CUfunction*)kernel, (CUmodule)library, name);
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
    return cuModuleGetGlobal_v2(address, bytes, (CUmodule)library, name);
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    if (!is_function(kernel)) return CUDA_ERROR_INVALID_HANDLE;
    *function = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

// --- functions

#define NEED_FUNCTION(function)                                       \
    do {                                                              \
        ENTER();                                                      \
        if (!is_function(function)) return CUDA_ERROR_INVALID_HANDLE; \
    } while (0)

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    NEED_FUNCTION(function);
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    struct reply reply = {0};
    const CUresult code = ASK(OP_GET_ATTRIBUTE, &reply, ((struct function*)function)->id, attribute);
    if (!code) *value = (int)reply.words[0];
    return code;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    NEED_FUNCTION(function);
    return ASK(OP_SET_ATTRIBUTE, NULL, ((struct function*)function)->id, attribute, (uint64_t)(int64_t)value);
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    (void)config;
    NEED_FUNCTION(function);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
    NEED_FUNCTION(function);
    if (!module) return CUDA_ERROR_INVALID_VALUE;
    *module = (CUmodule)((struct function*)function)->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
    NEED_FUNCTION(function);
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = ((struct function*)function)->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
    NEED_FUNCTION(function);
    const struct function* known = (struct function*)function;
    if (!offset || index >= known->count) return CUDA_ERROR_INVALID_VALUE;
    *offset = known->parameters[index].offset;
    if (size) *size = known->parameters[index].size;
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
    NEED_FUNCTION(function);
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) {
    NEED_FUNCTION(function);
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
    return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncGetAttribute(value, attribute, (CUfunction)kernel);
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
    return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncSetAttribute((CUfunction)kernel, attribute, value);
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) { return cuFuncGetName(name, (CUfunction)kernel); }
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
    return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}
