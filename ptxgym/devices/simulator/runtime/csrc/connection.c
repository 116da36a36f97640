// The connection to the simulator, and the device addresses in this process.
//
// cuInit opens it, before the process is confined. A watcher ends the process when the simulator goes away, so that
// nothing is left behind by a judge that was killed.

#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "simulator.h"

struct simulator simulator = {.shown = -1};

static int connection = -1;
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static bool send_all(const void* data, size_t bytes, int flags) {
    const char* next = data;
    while (bytes) {
        const ssize_t sent = send(connection, next, bytes, MSG_NOSIGNAL | flags);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        next += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static bool receive_all(void* data, size_t bytes) {
    char* next = data;
    while (bytes) {
        const ssize_t got = recv(connection, next, bytes, MSG_WAITALL);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        next += got;
        bytes -= (size_t)got;
    }
    return true;
}

// The header of the first reply, and the file descriptor that comes with it.
static bool receive_header_and_memory(struct reply_header* header) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {header, sizeof *header};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    const ssize_t got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    if (got < 1 || !receive_all((char*)header + got, sizeof *header - (size_t)got)) return false;
    const struct cmsghdr* first = CMSG_FIRSTHDR(&message);
    if (first && first->cmsg_type == SCM_RIGHTS) memcpy(&simulator.shown, CMSG_DATA(first), sizeof(int));
    return true;
}

static bool receive_reply(enum operation operation, struct reply* reply, CUresult* code) {
    struct reply_header header;
    const bool first = operation == OP_HELLO;
    if (!(first ? receive_header_and_memory(&header) : receive_all(&header, sizeof header))) return false;
    if (header.words > MOST_WORDS || !receive_all(reply->words, header.words * 8)) return false;
    const size_t kept = header.bytes < reply->capacity ? header.bytes : reply->capacity;
    if (!receive_all(reply->data, kept)) return false;
    char dropped[4096];
    for (uint64_t left = header.bytes - kept; left;) {
        const size_t part = left < sizeof dropped ? left : sizeof dropped;
        if (!receive_all(dropped, part)) return false;
        left -= part;
    }
    reply->bytes = kept;
    *code = (CUresult)header.code;
    return true;
}

CUresult simulator_ask(enum operation operation, const uint64_t* words, unsigned count, const void* data, size_t bytes,
                       struct reply* reply) {
    struct reply unused = {0};
    if (!reply) reply = &unused;
    if (bytes > MOST_BYTES) return CUDA_ERROR_INVALID_VALUE;
    const struct request_header header = {operation, count, bytes};
    CUresult code = CUDA_ERROR_DEVICE_UNAVAILABLE;
    pthread_mutex_lock(&one_at_a_time);
    if (connection < 0 || !send_all(&header, sizeof header, MSG_MORE) ||
        !send_all(words, count * 8, bytes ? MSG_MORE : 0) || !send_all(data, bytes, 0) ||
        !receive_reply(operation, reply, &code))
        code = CUDA_ERROR_DEVICE_UNAVAILABLE;
    pthread_mutex_unlock(&one_at_a_time);
    return code;
}

static void* watch(void* unused) {
    (void)unused;
    struct pollfd hung_up = {.fd = connection, .events = POLLRDHUP};
    while (poll(&hung_up, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(70);
}

static bool open_connection(const char* name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const size_t length = strlen(name);
    if (length + 1 >= sizeof address.sun_path) return false;
    memcpy(address.sun_path + 1, name, length);  // the leading NUL: an abstract name, no file to leave behind
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return connection >= 0 && connect(connection, (struct sockaddr*)&address, size) == 0;
}

// Device addresses are reserved and nothing more: the simulator has the bytes. As on a GPU, a host that follows a
// device pointer ends with SIGSEGV.
static bool reserve_addresses(void) {
    void* wanted = (void*)simulator.address;
    void* device = mmap(wanted, simulator.bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    void* bounce = mmap(NULL, BOUNCE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, simulator.shown, 0);
    simulator.bounce = bounce;
    return device == wanted && bounce != MAP_FAILED;
}

static CUresult first_answer = CUDA_ERROR_NO_DEVICE;

static void connect_once(void) {
    const char* name = getenv("PTXGYM_SIMULATOR");
    if (!name || !open_connection(name)) return;
    struct reply reply = {.data = &simulator.description, .capacity = sizeof simulator.description};
    const CUresult code = ASK(OP_HELLO, &reply, PROTOCOL_VERSION);
    if (code || reply.bytes != sizeof simulator.description || simulator.shown < 0) {
        first_answer = code ? code : CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
        return;
    }
    simulator.address = reply.words[0];
    simulator.bytes = reply.words[1];
    simulator.shown_address = reply.words[2];
    simulator.shown_bytes = reply.words[3];
    simulator.driver_version = (int)reply.words[4];
    simulator.total_memory = reply.words[5];
    pthread_t watcher;
    if (!reserve_addresses() || pthread_create(&watcher, NULL, watch, NULL)) {
        first_answer = CUDA_ERROR_OPERATING_SYSTEM;
        return;
    }
    pthread_detach(watcher);
    first_answer = CUDA_SUCCESS;
}

CUresult simulator_connect(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, connect_once);
    return first_answer;
}

CUresult simulator_refuse(const char* name) {
    if (!simulator_connect()) ASK_WITH(OP_REFUSED, name, strlen(name), NULL, 0);
    return CUDA_ERROR_NOT_SUPPORTED;
}

uint64_t simulator_tick(void) { return __atomic_add_fetch(&simulator.clock, 1, __ATOMIC_RELAXED); }

CUresult show_to_host(uint64_t address, uint64_t bytes) {
    const uint64_t page = 4096, start = address / page * page, end = (address + bytes + page - 1) / page * page;
    if (start - simulator.shown_address >= simulator.shown_bytes) return CUDA_ERROR_INVALID_VALUE;
    void* shown = mmap((void*)start, end - start, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, simulator.shown,
                       (off_t)(start - simulator.shown_address));
    return shown == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
