/* row_io.c - manages the transfers of rows, and has their readers (row_io.h): one that runs each
 * transfer at once, one with threads, and one with io_uring. */
#include "engine/rows/row_io.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

/* --- executing one transfer --- */

/* Records the result of one read or write for a transfer: `count` bytes, or -1 with the errno
 * `reason`. A count of 0 means the end of the file, or a full disk. Returns true if bytes of the
 * transfer remain, false if it is complete or has failed. */
static bool transfer_goes_on(tn__row_transfer *it, ssize_t count, int reason) {
    if (count < 0 && (reason == EINTR || reason == EAGAIN)) return true;
    if (count < 0)
        it->failure = reason;
    else if (count == 0)
        it->failure = it->writes ? ENOSPC : -1;
    else
        it->done += (uint32_t)count;
    return it->failure == 0 && it->done < it->size;
}

/* Runs a whole transfer in the calling thread. */
static void transfer_run(tn__row_transfer *it) {
    ssize_t count;
    do {
        char *at = it->data + it->done;
        size_t left = it->size - it->done;
        off_t offset = (off_t)(it->offset + it->done);
        count = it->writes ? pwrite(it->file, at, left, offset) : pread(it->file, at, left, offset);
    } while (transfer_goes_on(it, count, errno));
}

/* --- queuing and finishing transfers --- */

tn_status tn__row_io_open(tn__row_io *io, uint32_t threads, tn_error *error) {
    io->vacant = TN__ROW_TRANSFER_NONE;
    for (uint32_t i = io->depth; i-- > 0;) tn__row_io_give(io, i);
    return io->reader->open(io, threads, error);
}

void tn__row_io_give(tn__row_io *io, uint32_t transfer) {
    io->transfers[transfer].next = io->vacant;
    io->vacant = transfer;
}

uint32_t tn__row_io_take(tn__row_io *io) {
    uint32_t transfer = io->vacant;
    if (transfer != TN__ROW_TRANSFER_NONE) io->vacant = io->transfers[transfer].next;
    return transfer;
}

void tn__row_io_begin(tn__row_io *io, uint32_t transfer) {
    tn__row_transfer *it = &io->transfers[transfer];
    it->done = 0;
    it->failure = 0;
    if (it->writes)
        io->writing++;
    else
        io->reading++;
    io->reader->begin(io, transfer);
}

void tn__row_io_start(tn__row_io *io) {
    if (io->reader->start != NULL) io->reader->start(io);
}

uint32_t tn__row_io_finish(tn__row_io *io) {
    uint32_t transfer = io->reader->finish(io);
    if (io->transfers[transfer].writes)
        io->writing--;
    else
        io->reading--;
    return transfer;
}

/* --- plain --- */

typedef struct plain_state {
    uint32_t done; /* list */
} plain_state;

static uint64_t plain_bytes(uint32_t depth) {
    (void)depth;
    return sizeof(plain_state);
}

static tn_status plain_open(tn__row_io *io, uint32_t threads, tn_error *error) {
    plain_state *state = io->state;
    (void)threads;
    (void)error;
    state->done = TN__ROW_TRANSFER_NONE;
    return TN_OK;
}

static void plain_begin(tn__row_io *io, uint32_t transfer) {
    plain_state *state = io->state;
    transfer_run(&io->transfers[transfer]);
    io->transfers[transfer].next = state->done;
    state->done = transfer;
}

static uint32_t plain_finish(tn__row_io *io) {
    plain_state *state = io->state;
    uint32_t transfer = state->done;
    state->done = io->transfers[transfer].next;
    return transfer;
}

static void plain_close(tn__row_io *io) { (void)io; }

static const tn__row_reader row_io_reader_plain = {
    .name = "plain",
    .summary = "one row after the other, in the same thread",
    .bytes = plain_bytes,
    .open = plain_open,
    .begin = plain_begin,
    .finish = plain_finish,
    .close = plain_close};

/* --- which --- */

static const tn__row_reader *const row_io_readers[] = {
    &tn__row_reader_uring, &tn__row_reader_threads, &row_io_reader_plain};

tn_status tn__row_reader_find(const char *name, const tn__row_reader **reader, tn_error *error) {
    bool may_be_uring = name == NULL || strcmp(name, tn__row_reader_uring.name) == 0;
    const char *lacks = may_be_uring ? tn__uring_lacks() : NULL;
    if (name == NULL) {
        *reader = lacks == NULL ? &tn__row_reader_uring : &tn__row_reader_threads;
        return TN_OK;
    }
    for (uint32_t i = 0; i < sizeof row_io_readers / sizeof *row_io_readers; i++) {
        if (strcmp(row_io_readers[i]->name, name) != 0) continue;
        if (row_io_readers[i] == &tn__row_reader_uring && lacks != NULL)
            TN_FAIL(error, TN_E_UNSUPPORTED, "io_uring cannot be used: %s", lacks);
        *reader = row_io_readers[i];
        return TN_OK;
    }
    TN_FAIL(error, TN_E_UNKNOWN, "there is no reader '%.60s'; it is uring, threads or plain", name);
}

/* --- threads ---------------------------------------------------------------------------------- */

/* A reader with several threads, each of which reads or writes one row at a time.
 *
 * It is for kernels and containers without io_uring. One lock protects two queues, of pending and
 * of finished transfers. A thread owns the memory of a transfer from `begin` to `finish`.
 */

#define THREADS_MOST 64u
#define THREADS_STACK ((size_t)64 << 10)

typedef struct threads_queue { /* a first-in-first-out list of transfers */
    uint32_t first, last;
} threads_queue;

typedef struct threads_state {
    pthread_mutex_t lock;
    pthread_cond_t asked, answered;
    threads_queue wanted, done;
    uint32_t count; /* threads */
    bool has_lock, over;
    pthread_t threads[THREADS_MOST];
} threads_state;

static uint64_t threads_bytes(uint32_t depth) {
    (void)depth;
    return sizeof(threads_state);
}

static void threads_push(tn__row_io *io, threads_queue *queue, uint32_t transfer) {
    io->transfers[transfer].next = TN__ROW_TRANSFER_NONE;
    if (queue->first == TN__ROW_TRANSFER_NONE)
        queue->first = transfer;
    else
        io->transfers[queue->last].next = transfer;
    queue->last = transfer;
}

static uint32_t threads_pop(tn__row_io *io, threads_queue *queue) {
    uint32_t transfer = queue->first;
    if (transfer != TN__ROW_TRANSFER_NONE) queue->first = io->transfers[transfer].next;
    return transfer;
}

static void *threads_work(void *argument) {
    tn__row_io *io = argument;
    threads_state *state = io->state;
    pthread_mutex_lock(&state->lock);
    for (;;) {
        uint32_t transfer = threads_pop(io, &state->wanted);
        if (transfer == TN__ROW_TRANSFER_NONE && state->over) break;
        if (transfer == TN__ROW_TRANSFER_NONE) {
            pthread_cond_wait(&state->asked, &state->lock);
            continue;
        }
        pthread_mutex_unlock(&state->lock);
        transfer_run(&io->transfers[transfer]);
        pthread_mutex_lock(&state->lock);
        threads_push(io, &state->done, transfer);
        pthread_cond_signal(&state->answered);
    }
    pthread_mutex_unlock(&state->lock);
    return NULL;
}

static tn_status threads_start(tn__row_io *io, uint32_t count, tn_error *error) {
    threads_state *state = io->state;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return tn__no_memory(error, "a thread that reads");
    /* if the size of the stack cannot be set, the stack is larger, which does not matter */
    (void)pthread_attr_setstacksize(&attributes, THREADS_STACK);
    int failure = 0;
    while (failure == 0 && state->count < count) {
        failure = pthread_create(&state->threads[state->count], &attributes, threads_work, io);
        if (failure == 0) state->count++;
    }
    pthread_attr_destroy(&attributes);
    return state->count > 0 ? TN_OK : tn__no_memory(error, "a thread that reads");
}

static tn_status threads_open(tn__row_io *io, uint32_t threads, tn_error *error) {
    threads_state *state = io->state;
    state->wanted.first = state->done.first = TN__ROW_TRANSFER_NONE;
    if (pthread_mutex_init(&state->lock, NULL) != 0) return tn__no_memory(error, "a lock");
    /* pthread_cond_init cannot fail in glibc */
    if (pthread_cond_init(&state->asked, NULL) != 0 ||
        pthread_cond_init(&state->answered, NULL) != 0) {
        pthread_mutex_destroy(&state->lock);
        return tn__no_memory(error, "a lock");
    }
    state->has_lock = true;
    if (threads == 0) threads = 4;
    return threads_start(io, threads < THREADS_MOST ? threads : THREADS_MOST, error);
}

static void threads_begin(tn__row_io *io, uint32_t transfer) {
    threads_state *state = io->state;
    pthread_mutex_lock(&state->lock);
    threads_push(io, &state->wanted, transfer);
    pthread_cond_signal(&state->asked);
    pthread_mutex_unlock(&state->lock);
}

static uint32_t threads_finish(tn__row_io *io) {
    threads_state *state = io->state;
    pthread_mutex_lock(&state->lock);
    while (state->done.first == TN__ROW_TRANSFER_NONE)
        pthread_cond_wait(&state->answered, &state->lock);
    uint32_t transfer = threads_pop(io, &state->done);
    pthread_mutex_unlock(&state->lock);
    return transfer;
}

static void threads_close(tn__row_io *io) {
    threads_state *state = io->state;
    if (!state->has_lock) return;
    pthread_mutex_lock(&state->lock);
    state->over = true;
    pthread_cond_broadcast(&state->asked);
    pthread_mutex_unlock(&state->lock);
    for (uint32_t i = 0; i < state->count; i++) pthread_join(state->threads[i], NULL);
    pthread_cond_destroy(&state->asked);
    pthread_cond_destroy(&state->answered);
    pthread_mutex_destroy(&state->lock);
}

const tn__row_reader tn__row_reader_threads = {.name = "threads",
                                               .summary = "threads, each one row at a time",
                                               .bytes = threads_bytes,
                                               .open = threads_open,
                                               .begin = threads_begin,
                                               .finish = threads_finish,
                                               .close = threads_close};

/* --- io_uring --------------------------------------------------------------------------------- */

/* A reader that uses io_uring, the kernel's queue for input and output, with one system call for
 * many rows.
 *
 * liburing is loaded at run time if it is installed; building needs its header. Containers often
 * forbid io_uring; then the reader with threads is used. The kernel owns the memory of the queue.
 */

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

/* Whether io_uring can read and write. The first kernels with io_uring could not; Linux 5.6 added
 * both, and a way to find out. */
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
    const char *lacks = uring_load(&state, TN__ROW_TRANSFER_MAX);
    uring_unload(&state);
    return lacks;
}

static uint64_t uring_bytes(uint32_t depth) {
    (void)depth;
    return sizeof(uring_state);
}

static tn_status uring_open(tn__row_io *io, uint32_t threads, tn_error *error) {
    (void)threads;
    const char *lacks = uring_load(io->state, io->depth);
    if (lacks != NULL) TN_FAIL(error, TN_E_UNSUPPORTED, "io_uring cannot be used: %s", lacks);
    return TN_OK;
}

/* Adds a transfer to the queue. There is space, because each transfer is in the queue at most
 * once. */
static void uring_begin(tn__row_io *io, uint32_t transfer) {
    uring_state *state = io->state;
    tn__row_transfer *it = &io->transfers[transfer];
    struct io_uring_sqe *sqe;
    while ((sqe = state->get_sqe(&state->ring)) == NULL)
        (void)state->submit_and_wait(&state->ring, 0);
    char *at = it->data + it->done;
    if (it->writes)
        io_uring_prep_write(sqe, it->file, at, it->size - it->done, it->offset + it->done);
    else
        io_uring_prep_read(sqe, it->file, at, it->size - it->done, it->offset + it->done);
    sqe->user_data = transfer;
}

static void uring_start(tn__row_io *io) {
    uring_state *state = io->state;
    /* a failure does not matter, because `finish` tries again */
    (void)state->submit_and_wait(&state->ring, 0);
}

/* Looks for a finished transfer, without a system call. Returns whether *transfer is finished. If
 * only part of its bytes were moved, queues the rest. */
static bool uring_peek(tn__row_io *io, uint32_t *transfer) {
    uring_state *state = io->state;
    struct io_uring_cqe *cqe;
    unsigned head;
    io_uring_for_each_cqe(&state->ring, head, cqe) {
        tn__row_transfer *it = &io->transfers[cqe->user_data];
        int result = cqe->res;
        *transfer = (uint32_t)cqe->user_data;
        io_uring_cq_advance(&state->ring, 1);
        if (!transfer_goes_on(it, result, -result)) return true;
        uring_begin(io, *transfer);
        return false;
    }
    return false;
}

static uint32_t uring_finish(tn__row_io *io) {
    uring_state *state = io->state;
    uint32_t transfer;
    while (!uring_peek(io, &transfer)) (void)state->submit_and_wait(&state->ring, 1);
    return transfer;
}

static void uring_close(tn__row_io *io) { uring_unload(io->state); }

#else

const char *tn__uring_lacks(void) { return "this build is without it (package liburing-dev)"; }

static uint64_t uring_bytes(uint32_t depth) {
    (void)depth;
    return 0;
}

static tn_status uring_open(tn__row_io *io, uint32_t threads, tn_error *error) {
    (void)io;
    (void)threads;
    TN_FAIL(error, TN_E_UNSUPPORTED, "io_uring cannot be used: %s", tn__uring_lacks());
}

static void uring_begin(tn__row_io *io, uint32_t transfer) {
    (void)io;
    (void)transfer;
}
static void uring_start(tn__row_io *io) { (void)io; }
static uint32_t uring_finish(tn__row_io *io) {
    (void)io;
    return 0;
}
static void uring_close(tn__row_io *io) { (void)io; }
#endif

const tn__row_reader tn__row_reader_uring = {.name = "uring",
                                             .summary = "the kernel's queue (io_uring)",
                                             .bytes = uring_bytes,
                                             .open = uring_open,
                                             .begin = uring_begin,
                                             .start = uring_start,
                                             .finish = uring_finish,
                                             .close = uring_close};
