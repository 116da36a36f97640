// Streams and events. Everything is done when it is asked for, so streams only have to exist, and events only to order.

#include <stdlib.h>
#include <pthread.h>

#include "simulator.h"

struct CUstream_st {
    struct CUstream_st* next;
    unsigned flags;
    int priority;
    uint64_t id;
};

struct CUevent_st {
    struct CUevent_st* next;
    unsigned flags;
    uint64_t time;  // 0: never recorded
};

static pthread_mutex_t lists = PTHREAD_MUTEX_INITIALIZER;
static CUstream streams;
static CUevent events;
static uint64_t next_id = 3;

#define PUT(list, item)               \
    do {                              \
        pthread_mutex_lock(&lists);   \
        item->next = list;            \
        list = item;                  \
        pthread_mutex_unlock(&lists); \
    } while (0)

#define TAKE(list, item, found)                                    \
    do {                                                           \
        pthread_mutex_lock(&lists);                                \
        for (__typeof__(&list) at = &list; *at; at = &(*at)->next) \
            if (*at == item) {                                     \
                *at = item->next;                                  \
                found = true;                                      \
                break;                                             \
            }                                                      \
        pthread_mutex_unlock(&lists);                              \
    } while (0)

#define HOLDS(list, item, found)                                                          \
    do {                                                                                  \
        pthread_mutex_lock(&lists);                                                       \
        for (__typeof__(list) at = list; at && !found; at = at->next) found = at == item; \
        pthread_mutex_unlock(&lists);                                                     \
    } while (0)

static bool is_default(CUstream stream) {
    return !stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

bool is_stream(CUstream stream) {
    bool found = is_default(stream);
    HOLDS(streams, stream, found);
    return found;
}

static bool is_event(CUevent event) {
    bool found = false;
    HOLDS(events, event, found);
    return found;
}

#define NEED_STREAM(stream)                                       \
    do {                                                          \
        ENTER();                                                  \
        if (!is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE; \
    } while (0)
#define NEED_EVENT(event)                                       \
    do {                                                        \
        ENTER();                                                \
        if (!is_event(event)) return CUDA_ERROR_INVALID_HANDLE; \
    } while (0)

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
    ENTER();
    if (!stream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    CUstream made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made->flags = flags;
    made->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    made->id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
    PUT(streams, made);
    *stream = made;
    return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

CUresult cuStreamDestroy_v2(CUstream stream) {
    ENTER();
    bool found = false;
    TAKE(streams, stream, found);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    free(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
    NEED_STREAM(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream stream) {
    NEED_STREAM(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    NEED_STREAM(stream);
    NEED_EVENT(event);
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
    NEED_STREAM(stream);
    if (!flags) return CUDA_ERROR_INVALID_VALUE;
    *flags = is_default(stream) ? 0 : stream->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
    NEED_STREAM(stream);
    if (!priority) return CUDA_ERROR_INVALID_VALUE;
    *priority = is_default(stream) ? 0 : stream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
    NEED_STREAM(stream);
    if (!id) return CUDA_ERROR_INVALID_VALUE;
    *id = is_default(stream) ? 1 + (stream == CU_STREAM_PER_THREAD) : stream->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
    NEED_STREAM(stream);
    return cuCtxGetCurrent(context);
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
    NEED_STREAM(stream);
    if (!status) return CUDA_ERROR_INVALID_VALUE;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;  // a capture cannot begin here
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
    static _Thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    const CUstreamCaptureMode before = current;
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

// L2 windows, priorities and the like: hints, which change nothing here.
CUresult cuStreamSetAttribute(CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue* value) {
    (void)attribute;
    NEED_STREAM(stream);
    return value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Managed memory is always where both can use it.
CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags) {
    (void)address, (void)bytes, (void)flags;
    NEED_STREAM(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void* data, unsigned flags) {
    NEED_STREAM(stream);
    if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
    callback(stream, CUDA_SUCCESS, data);
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
    NEED_STREAM(stream);
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    function(data);
    return CUDA_SUCCESS;
}

// --- events

CUresult cuEventCreate(CUevent* event, unsigned flags) {
    ENTER();
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (!event || flags & ~known) return CUDA_ERROR_INVALID_VALUE;
    if (flags & CU_EVENT_INTERPROCESS) return simulator_refuse("cuEventCreate (interprocess)");
    CUevent made = calloc(1, sizeof *made);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    made->flags = flags;
    PUT(events, made);
    *event = made;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
    ENTER();
    bool found = false;
    TAKE(events, event, found);
    if (!found) return CUDA_ERROR_INVALID_HANDLE;
    free(event);
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
    NEED_STREAM(stream);
    NEED_EVENT(event);
    if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
    event->time = simulator_tick();
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) { return cuEventRecordWithFlags(event, stream, 0); }

CUresult cuEventQuery(CUevent event) {
    NEED_EVENT(event);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
    NEED_EVENT(event);
    return CUDA_SUCCESS;
}

// One unit of a GPU's event clock per thing done, so that quotients exist. It says nothing about speed.
CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
    ENTER();
    if (!milliseconds) return CUDA_ERROR_INVALID_VALUE;
    if (!is_event(start) || !is_event(end)) return CUDA_ERROR_INVALID_HANDLE;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->time || !end->time)
        return CUDA_ERROR_INVALID_HANDLE;
    *milliseconds = 0.001024f * (float)((int64_t)end->time - (int64_t)start->time);
    return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
    return cuEventElapsedTime(milliseconds, start, end);
}
