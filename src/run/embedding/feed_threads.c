/* feed_threads.c - a reader with several threads, each of which reads or writes one row at a time.
 *
 * For kernels and containers without io_uring. One lock protects two queues: pending and finished
 * transfers. A thread owns the bytes of a transfer from `begin` until `finish`.
 */
#include <pthread.h>

#include "run/embedding/feed.h"

#define THREADS_MOST 64u
#define THREADS_STACK ((size_t)64 << 10)

typedef struct threads_queue { /* first-in-first-out lists through the transfers */
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

static void threads_push(tn__feed *io, threads_queue *queue, uint32_t transfer) {
    io->transfers[transfer].next = TN__HAUL_NONE;
    if (queue->first == TN__HAUL_NONE)
        queue->first = transfer;
    else
        io->transfers[queue->last].next = transfer;
    queue->last = transfer;
}

static uint32_t threads_pop(tn__feed *io, threads_queue *queue) {
    uint32_t transfer = queue->first;
    if (transfer != TN__HAUL_NONE) queue->first = io->transfers[transfer].next;
    return transfer;
}

static void *threads_work(void *argument) {
    tn__feed *io = argument;
    threads_state *state = io->state;
    pthread_mutex_lock(&state->lock);
    for (;;) {
        uint32_t transfer = threads_pop(io, &state->wanted);
        if (transfer == TN__HAUL_NONE && state->over) break;
        if (transfer == TN__HAUL_NONE) {
            pthread_cond_wait(&state->asked, &state->lock);
            continue;
        }
        pthread_mutex_unlock(&state->lock);
        tn__haul_run(io->file, &io->transfers[transfer]);
        pthread_mutex_lock(&state->lock);
        threads_push(io, &state->done, transfer);
        pthread_cond_signal(&state->answered);
    }
    pthread_mutex_unlock(&state->lock);
    return NULL;
}

static tn_status threads_start(tn__feed *io, uint32_t count, tn_error *error) {
    threads_state *state = io->state;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return tn__no_memory(error, "a thread that reads");
    (void)pthread_attr_setstacksize(&attributes, THREADS_STACK); /* benign: the stack is larger */
    int failure = 0;
    while (failure == 0 && state->count < count) {
        failure = pthread_create(&state->threads[state->count], &attributes, threads_work, io);
        if (failure == 0) state->count++;
    }
    pthread_attr_destroy(&attributes);
    return state->count > 0 ? TN_OK : tn__no_memory(error, "a thread that reads");
}

static tn_status threads_open(tn__feed *io, uint32_t threads, tn_error *error) {
    threads_state *state = io->state;
    state->wanted.first = state->done.first = TN__HAUL_NONE;
    if (pthread_mutex_init(&state->lock, NULL) != 0) return tn__no_memory(error, "a lock");
    if (pthread_cond_init(&state->asked, NULL) != 0 ||
        pthread_cond_init(&state->answered, NULL) != 0) { /* cannot fail in glibc */
        pthread_mutex_destroy(&state->lock);
        return tn__no_memory(error, "a lock");
    }
    state->has_lock = true;
    if (threads == 0) threads = 4;
    return threads_start(io, threads < THREADS_MOST ? threads : THREADS_MOST, error);
}

static void threads_begin(tn__feed *io, uint32_t transfer) {
    threads_state *state = io->state;
    pthread_mutex_lock(&state->lock);
    threads_push(io, &state->wanted, transfer);
    pthread_cond_signal(&state->asked);
    pthread_mutex_unlock(&state->lock);
}

static uint32_t threads_finish(tn__feed *io) {
    threads_state *state = io->state;
    pthread_mutex_lock(&state->lock);
    while (state->done.first == TN__HAUL_NONE) pthread_cond_wait(&state->answered, &state->lock);
    uint32_t transfer = threads_pop(io, &state->done);
    pthread_mutex_unlock(&state->lock);
    return transfer;
}

static void threads_close(tn__feed *io) {
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

const tn__feeder tn__feeder_threads = {.name = "threads",
                                       .summary = "threads, each one row at a time",
                                       .bytes = threads_bytes,
                                       .open = threads_open,
                                       .begin = threads_begin,
                                       .finish = threads_finish,
                                       .close = threads_close};
