/* feed_uring.c - a reader that uses the kernel's queue io_uring, with one system call for many
 * rows.
 *
 * liburing is loaded if it is installed; building needs its header. Containers often forbid
 * io_uring; then threads are used (feed_threads.c). The kernel owns the memory of the queue.
 */
#include "run/embedding/feed.h"

#ifdef TENURE_URING
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>

typedef struct uring_state {
    void *library;
    int (*queue_init)(unsigned entries, struct io_uring *ring, unsigned flags);
    void (*queue_exit)(struct io_uring *ring);
    struct io_uring_sqe *(*get_sqe)(struct io_uring *ring);
    int (*submit_and_wait)(struct io_uring *ring, unsigned wait);
    int (*register_probe)(struct io_uring *ring, struct io_uring_probe *probe, unsigned count);
    struct io_uring ring;
    bool is_open;
} uring_state;

static const struct {
    const char *name;
    size_t offset;
} uring_symbols[] = {{"io_uring_queue_init", offsetof(uring_state, queue_init)},
                     {"io_uring_queue_exit", offsetof(uring_state, queue_exit)},
                     {"io_uring_get_sqe", offsetof(uring_state, get_sqe)},
                     {"io_uring_submit_and_wait", offsetof(uring_state, submit_and_wait)},
                     {"io_uring_register_probe", offsetof(uring_state, register_probe)}};

/* Reading and writing came later than the queue, together with a way to ask for them (Linux
 * 5.6). */
static bool uring_reads(uring_state *state) {
    enum { OPS = IORING_OP_WRITE + 1 };
    union {
        struct io_uring_probe probe;
        char room[sizeof(struct io_uring_probe) + OPS * sizeof(struct io_uring_probe_op)];
    } asked = {.room = {0}};
    return state->register_probe(&state->ring, &asked.probe, OPS) == 0 &&
           io_uring_opcode_supported(&asked.probe, IORING_OP_READ) &&
           io_uring_opcode_supported(&asked.probe, IORING_OP_WRITE);
}

static const char *uring_load(uring_state *state, unsigned entries) {
    state->library = dlopen("liburing.so.2", RTLD_NOW | RTLD_LOCAL);
    if (state->library == NULL)
        return "liburing.so.2 is not there; install Debian's package liburing2";
    for (size_t i = 0; i < sizeof uring_symbols / sizeof *uring_symbols; i++) {
        void *found = dlsym(state->library, uring_symbols[i].name);
        if (found == NULL) return "liburing.so.2 is too old; 2.3 or later is needed";
        memcpy((char *)state + uring_symbols[i].offset, &found, sizeof found);
    }
    int failed = state->queue_init(entries, &state->ring, 0);
    state->is_open = failed == 0;
    if (failed == 0) return uring_reads(state) ? NULL : "the kernel is older than 5.6";
    return failed == -EPERM || failed == -ENOSYS    ? "the kernel does not let this process"
           : failed == -ENOMEM || failed == -EMFILE ? "the kernel has no memory for it"
                                                    : "the kernel refuses";
}

static void uring_unload(uring_state *state) {
    if (state->is_open) state->queue_exit(&state->ring);
    if (state->library != NULL) dlclose(state->library);
    state->is_open = false;
    state->library = NULL;
}

const char *tn__uring_lacks(void) {
    uring_state state = {0};
    const char *lacks = uring_load(&state, TN__HAULS_MAX);
    uring_unload(&state);
    return lacks;
}

static uint64_t uring_bytes(uint32_t depth) {
    (void)depth;
    return sizeof(uring_state);
}

static tn_status uring_open(tn__feed *io, uint32_t threads, tn_error *error) {
    (void)threads;
    const char *lacks = uring_load(io->state, io->depth);
    if (lacks != NULL) TN_FAIL(error, TN_E_UNSUPPORTED, "io_uring cannot be used: %s", lacks);
    return TN_OK;
}

/* The queue has room, because each transfer is in it at most once. */
static void uring_begin(tn__feed *io, uint32_t transfer) {
    uring_state *state = io->state;
    tn__haul *it = &io->transfers[transfer];
    struct io_uring_sqe *sqe;
    while ((sqe = state->get_sqe(&state->ring)) == NULL)
        (void)state->submit_and_wait(&state->ring, 0);
    char *at = it->data + it->done;
    if (it->writes)
        io_uring_prep_write(sqe, io->file, at, it->size - it->done, it->offset + it->done);
    else
        io_uring_prep_read(sqe, io->file, at, it->size - it->done, it->offset + it->done);
    sqe->user_data = transfer;
}

static void uring_start(tn__feed *io) {
    uring_state *state = io->state;
    (void)state->submit_and_wait(&state->ring, 0); /* benign: `finish` tries again */
}

/* A transfer that has finished already, without a system call. A transfer that moved only part of
 * its bytes is continued. */
static bool uring_peek(tn__feed *io, uint32_t *transfer) {
    uring_state *state = io->state;
    struct io_uring_cqe *cqe;
    unsigned head;
    io_uring_for_each_cqe(&state->ring, head, cqe) {
        tn__haul *it = &io->transfers[cqe->user_data];
        int result = cqe->res;
        *transfer = (uint32_t)cqe->user_data;
        io_uring_cq_advance(&state->ring, 1);
        if (!tn__haul_goes_on(it, result, -result)) return true;
        uring_begin(io, *transfer);
        return false;
    }
    return false;
}

static uint32_t uring_finish(tn__feed *io) {
    uring_state *state = io->state;
    uint32_t transfer;
    while (!uring_peek(io, &transfer)) (void)state->submit_and_wait(&state->ring, 1);
    return transfer;
}

static void uring_close(tn__feed *io) { uring_unload(io->state); }

#else

const char *tn__uring_lacks(void) { return "this build is without it (package liburing-dev)"; }

static uint64_t uring_bytes(uint32_t depth) {
    (void)depth;
    return 0;
}

static tn_status uring_open(tn__feed *io, uint32_t threads, tn_error *error) {
    (void)io;
    (void)threads;
    TN_FAIL(error, TN_E_UNSUPPORTED, "io_uring cannot be used: %s", tn__uring_lacks());
}

static void uring_begin(tn__feed *io, uint32_t transfer) {
    (void)io;
    (void)transfer;
}
static void uring_start(tn__feed *io) { (void)io; }
static uint32_t uring_finish(tn__feed *io) {
    (void)io;
    return 0;
}
static void uring_close(tn__feed *io) { (void)io; }
#endif

const tn__feeder tn__feeder_uring = {.name = "uring",
                                     .summary = "the kernel's queue (io_uring)",
                                     .bytes = uring_bytes,
                                     .open = uring_open,
                                     .begin = uring_begin,
                                     .start = uring_start,
                                     .finish = uring_finish,
                                     .close = uring_close};
