/* threads.c - streams that the processor executes, and a link of a given speed.
 *
 * Streams. A stream uses a lane: a queue of operations and the thread that executes them in order.
 * The counters `queued` and `done` of a lane only grow, so a point in a lane is a number. A fence
 * is a lane and a number; it has passed when done >= number. Lanes exist until the device closes
 * and are reused by later streams, and their counters continue, so a wait for a destroyed stream
 * finds that its point has passed. A wait refers to a point that was queued before it, so waits
 * cannot form a cycle.
 *
 * Link. Each direction has a clock that says until when the link is occupied. A copy occupies it
 * for about a millisecond's worth of bytes at a time and sleeps to the end of that slot, so copies
 * of several streams share the link. A slot follows the previous one without a gap even if the
 * thread woke up late, because otherwise a busy machine would look like a slower link. For the same
 * reason a copy that was queued while its lane was busy begins when the previous operation ended by
 * the clock of the link.
 *
 * Cost: O(1) per operation, two locks and a wake-up.
 * Source: streams and events as in CUDA (a wait is for the latest record at the time of the call).
 */
#include "memory/device/threads.h"

#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <time.h>

#define THREADS_TURN_S 1e-3 /* duration of a slot of the link in seconds */

typedef enum threads_kind {
    THREADS_PUT,
    THREADS_GET,
    THREADS_COPY,
    THREADS_LAUNCH,
    THREADS_WAIT
} threads_kind;

typedef struct threads_work {
    threads_kind kind;
    tn_address to, from; /* addresses on the device */
    void *into;     /* destination in host memory, for operations that copy from the device (GET) */
    const void *of; /* PUT */
    uint64_t size;
    tn_status (*work)(void *self, tn_error *error);
    void *self;
    /* only for WAIT: the operation waits until this lane (a queue and its thread) has done `point`
     * operations */
    struct threads_lane *lane;
    uint64_t point;
    /* time at which the operation was queued, in ns on the monotonic clock; 0: the operation does
     * not use the link */
    uint64_t queued_at;
} threads_work;

typedef struct threads_lane {
    tn__threads *device;
    struct threads_lane *next, *next_vacant;
    bool is_inline;
    pthread_t thread;
    pthread_mutex_t lock;        /* protects all fields below */
    pthread_cond_t more, passed; /* more: an operation was queued; passed: `done` grew */
    threads_work *ring;          /* [room], a ring: operation i is at index i % room */
    size_t room;                 /* size of the ring, a power of two */
    uint64_t queued, done;
    uint64_t ended;   /* end of the last completed operation in ns, by the clock of the link */
    bool stops;       /* true: the thread ends as soon as the queue is empty */
    tn_error failure; /* the first failure of an operation since the last wait for the stream */
} threads_lane;

typedef struct threads_fence {
    /* the lane (queue) in which the fence marks a point; NULL: the fence was not recorded yet */
    threads_lane *lane;
    uint64_t point;
    tn__threads *device;
} threads_fence;

/* --- the simulated link to the host --- */

static uint64_t threads_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void threads_sleep_until(uint64_t at) {
    struct timespec end = {.tv_sec = (time_t)(at / 1000000000u),
                           .tv_nsec = (long)(at % 1000000000u)};
    if (threads_now() >= at) return;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) continue;
}

/* Occupies the link for `size` bytes, from time `ready` on at the earliest; returns the time at
 * which the slot ends. */
static uint64_t threads_take_turn(tn__threads_link *link, uint64_t ready, uint64_t size,
                                  double rate) {
    uint64_t spent = (uint64_t)((double)size / rate * 1e9) + 1;
    pthread_mutex_lock(&link->lock);
    uint64_t begins = link->free_at > ready ? link->free_at : ready;
    uint64_t ends = link->free_at = begins + spent;
    pthread_mutex_unlock(&link->lock);
    return ends;
}

static tn_status threads_move(tn__threads *device, const threads_work *work, uint64_t at,
                              uint64_t part, tn_error *error) {
    if (work->kind == THREADS_PUT)
        return device->ways->put(device, work->to + at, (const char *)work->of + at, part, error);
    return device->ways->get(device, (char *)work->into + at, work->from + at, part, error);
}

/* Executes a copy that may begin at time *ready; stores the end of the copy, by the link's clock,
 * in *ready. */
static tn_status threads_cross(tn__threads *device, const threads_work *work, uint64_t *ready,
                               tn_error *error) {
    double rate = device->bytes_per_s;
    tn__threads_link *link = &device->links[work->kind == THREADS_GET];
    if (rate <= 0) {
        *ready = 0;
        return threads_move(device, work, 0, work->size, error);
    }
    uint64_t turn = rate * THREADS_TURN_S < 1 ? 1 : (uint64_t)(rate * THREADS_TURN_S);
    for (uint64_t at = 0; at < work->size; at += turn) {
        uint64_t part = work->size - at < turn ? work->size - at : turn;
        *ready = threads_take_turn(link, *ready, part, rate);
        TN_TRY(threads_move(device, work, at, part, error));
        threads_sleep_until(*ready);
    }
    return TN_OK;
}

/* --- lanes --- */

static bool threads_condition(pthread_cond_t *condition) {
    return pthread_cond_init(condition, NULL) == 0;
}

/* Waits until the lane has done its first `point` operations; returns the end of the last operation
 * that it has done by then, by the clock of the link. */
static uint64_t threads_wait_point(threads_lane *lane, uint64_t point) {
    pthread_mutex_lock(&lane->lock);
    while (lane->done < point) pthread_cond_wait(&lane->passed, &lane->lock);
    uint64_t ended = lane->ended;
    pthread_mutex_unlock(&lane->lock);
    return ended;
}

/* Executes an operation that does not use the link. By the link's clock it began at *ready, even if
 * the thread was late; *ready receives its end. */
static tn_status threads_do_here(tn__threads *device, const threads_work *work, uint64_t *ready,
                                 tn_error *error) {
    uint64_t start = threads_now();
    tn_status status = work->kind == THREADS_COPY
                           ? device->ways->copy(device, work->to, work->from, work->size, error)
                           : work->work(work->self, error);
    *ready += threads_now() - start;
    return status;
}

/* Executes an operation. *ready is the time at which it may begin, by the link's clock, and
 * receives the time of its end. */
static tn_status threads_do(tn__threads *device, const threads_work *work, uint64_t *ready,
                            tn_error *error) {
    switch (work->kind) {
    case THREADS_PUT:
    case THREADS_GET:
        return threads_cross(device, work, ready, error);
    case THREADS_COPY:
    case THREADS_LAUNCH:
        return threads_do_here(device, work, ready, error);
    case THREADS_WAIT: {
        uint64_t ended = threads_wait_point(work->lane, work->point);
        if (ended > *ready) *ready = ended;
        return TN_OK;
    }
    }
    return TN_E_INTERNAL;
}

/* The function of a lane's thread: executes the operations of the queue in order. */
static void *threads_serve(void *self) {
    threads_lane *lane = self;
    uint64_t ready = 0; /* end of the last operation, by the clock of the link */
#ifdef __linux__
    /* timer slack in ns; a failure is harmless, it only leaves the default of 50 us */
    (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
#endif
    pthread_mutex_lock(&lane->lock);
    for (;;) {
        while (lane->done == lane->queued && !lane->stops)
            pthread_cond_wait(&lane->more, &lane->lock);
        if (lane->done == lane->queued) break;
        threads_work work = lane->ring[lane->done & (lane->room - 1)];
        bool skips = lane->failure.status != TN_OK && work.kind != THREADS_WAIT;
        pthread_mutex_unlock(&lane->lock);
        tn_error error = {0};
        if (work.queued_at > ready) ready = work.queued_at;
        tn_status status = skips ? TN_OK : threads_do(lane->device, &work, &ready, &error);
        pthread_mutex_lock(&lane->lock);
        if (status != TN_OK) {
            lane->failure = error;
            lane->failure.status = status;
        }
        lane->done++;
        lane->ended = ready;
        pthread_cond_broadcast(&lane->passed);
    }
    pthread_mutex_unlock(&lane->lock);
    return NULL;
}

/* Makes the ring of a lane large enough for `more` further operations. Call it under the lane's
 * lock. */
static bool lane_room(threads_lane *lane, uint64_t more) {
    uint64_t need = tn__add_sat(lane->queued - lane->done, more);
    size_t room = lane->room == 0 ? 16 : lane->room;
    if (need <= lane->room) return true;
    while (room < need && room <= SIZE_MAX / 2) room *= 2;
    if (room < need) return false;
    threads_work *ring = tn__alloc_array(&lane->device->context, room, sizeof *ring);
    if (ring == NULL) return false;
    for (uint64_t i = lane->done; i < lane->queued; i++)
        ring[i & (room - 1)] = lane->ring[i & (lane->room - 1)];
    tn__free(&lane->device->context, lane->ring, lane->room * sizeof *ring);
    lane->ring = ring;
    lane->room = room;
    return true;
}

static tn_status threads_queue(threads_lane *lane, const threads_work *work, tn_error *error) {
    uint64_t now = lane->device->bytes_per_s > 0 ? threads_now() : 0;
    if (lane->is_inline) return threads_do(lane->device, work, &now, error);
    pthread_mutex_lock(&lane->lock);
    bool fits = lane_room(lane, 1);
    if (fits) {
        threads_work *queued = &lane->ring[lane->queued++ & (lane->room - 1)];
        *queued = *work;
        queued->queued_at = now;
        pthread_cond_signal(&lane->more);
    }
    pthread_mutex_unlock(&lane->lock);
    return fits ? TN_OK : tn__no_memory(error, "the queue of a stream");
}

static threads_lane *lane_new(tn__threads *device) {
    threads_lane *lane = tn__alloc_array(&device->context, 1, sizeof *lane);
    if (lane == NULL) return NULL;
    lane->device = device;
    if (pthread_mutex_init(&lane->lock, NULL) == 0) {
        if (threads_condition(&lane->more)) {
            if (threads_condition(&lane->passed)) return lane;
            pthread_cond_destroy(&lane->more);
        }
        pthread_mutex_destroy(&lane->lock);
    }
    tn__free(&device->context, lane, sizeof *lane);
    return NULL;
}

/* Returns a lane (a queue with its thread) that no stream uses; makes a new one if all are in
 * use. */
static threads_lane *lane_take(tn__threads *device) {
    pthread_mutex_lock(&device->lock);
    threads_lane *lane = device->vacant;
    if (lane != NULL) {
        device->vacant = lane->next_vacant;
    } else if ((lane = lane_new(device)) != NULL) {
        lane->next = device->lanes;
        device->lanes = lane;
    }
    pthread_mutex_unlock(&device->lock);
    return lane;
}

static void lane_give(threads_lane *lane) {
    pthread_mutex_lock(&lane->device->lock);
    lane->next_vacant = lane->device->vacant;
    lane->device->vacant = lane;
    pthread_mutex_unlock(&lane->device->lock);
}

/* Starts the lane's thread with all signals blocked, because signals are for the threads of the
 * caller. */
static bool lane_start(threads_lane *lane) {
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    bool started = pthread_create(&lane->thread, NULL, threads_serve, lane) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

tn_status tn__threads_stream_create(void *state, uint32_t flags, void **stream, tn_error *error) {
    threads_lane *lane = lane_take(state);
    if (lane == NULL) return tn__no_memory(error, "a stream");
    lane->is_inline = (flags & TN_STREAM_INLINE) != 0;
    lane->stops = false;
    lane->failure = (tn_error){0};
    if (!lane->is_inline && !lane_start(lane)) {
        lane_give(lane);
        return tn__no_memory(error, "the thread of a stream");
    }
    *stream = lane;
    return TN_OK;
}

void tn__threads_stream_destroy(void *stream) {
    threads_lane *lane = stream;
    if (!lane->is_inline) {
        pthread_mutex_lock(&lane->lock);
        lane->stops = true;
        pthread_cond_signal(&lane->more);
        pthread_mutex_unlock(&lane->lock);
        pthread_join(lane->thread, NULL);
    }
    lane_give(lane);
}

tn_status tn__threads_stream_wait(void *stream, tn_error *error) {
    threads_lane *lane = stream;
    pthread_mutex_lock(&lane->lock);
    while (lane->done < lane->queued) pthread_cond_wait(&lane->passed, &lane->lock);
    tn_error failure = lane->failure;
    lane->failure.status = TN_OK;
    pthread_mutex_unlock(&lane->lock);
    if (failure.status != TN_OK && error != NULL) *error = failure;
    return failure.status;
}

tn_status tn__threads_stream_reserve(void *stream, uint32_t count, tn_error *error) {
    threads_lane *lane = stream;
    if (lane->is_inline) return TN_OK;
    pthread_mutex_lock(&lane->lock);
    bool fits = lane_room(lane, count);
    pthread_mutex_unlock(&lane->lock);
    return fits ? TN_OK : tn__no_memory(error, "the queue of a stream");
}

tn_status tn__threads_put(void *stream, tn_address to, const void *from, uint64_t size,
                          tn_error *error) {
    threads_work work = {.kind = THREADS_PUT, .to = to, .of = from, .size = size};
    return threads_queue(stream, &work, error);
}

tn_status tn__threads_get(void *stream, void *to, tn_address from, uint64_t size, tn_error *error) {
    threads_work work = {.kind = THREADS_GET, .into = to, .from = from, .size = size};
    return threads_queue(stream, &work, error);
}

tn_status tn__threads_copy(void *stream, tn_address to, tn_address from, uint64_t size,
                           tn_error *error) {
    threads_work work = {.kind = THREADS_COPY, .to = to, .from = from, .size = size};
    return threads_queue(stream, &work, error);
}

tn_status tn__threads_launch(void *stream, tn_status (*function)(void *self, tn_error *error),
                             void *self, tn_error *error) {
    threads_work work = {.kind = THREADS_LAUNCH, .work = function, .self = self};
    return threads_queue(stream, &work, error);
}

/* --- fences --- */

tn_status tn__threads_fence_create(void *state, void **fence, tn_error *error) {
    tn__threads *device = state;
    threads_fence *made = tn__alloc_array(&device->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a fence");
    made->device = device;
    *fence = made;
    return TN_OK;
}

void tn__threads_fence_destroy(void *state) {
    threads_fence *fence = state;
    tn__free(&fence->device->context, fence, sizeof *fence);
}

tn_status tn__threads_fence_record(void *state, void *stream, tn_error *error) {
    threads_fence *fence = state;
    threads_lane *lane = stream;
    (void)error;
    pthread_mutex_lock(&lane->lock);
    uint64_t point = lane->queued;
    pthread_mutex_unlock(&lane->lock);
    pthread_mutex_lock(&fence->device->lock);
    fence->lane = lane;
    fence->point = point;
    pthread_mutex_unlock(&fence->device->lock);
    return TN_OK;
}

tn_status tn__threads_fence_wait(void *state, void *stream, tn_error *error) {
    threads_fence *fence = state;
    threads_work work = {.kind = THREADS_WAIT};
    pthread_mutex_lock(&fence->device->lock);
    work.lane = fence->lane;
    work.point = fence->point;
    pthread_mutex_unlock(&fence->device->lock);
    if (work.lane == NULL || work.lane == stream) return TN_OK;
    return threads_queue(stream, &work, error);
}

bool tn__threads_fence_passed(const void *state) {
    const threads_fence *fence = state;
    pthread_mutex_lock(&fence->device->lock);
    threads_lane *lane = fence->lane;
    uint64_t point = fence->point;
    pthread_mutex_unlock(&fence->device->lock);
    if (lane == NULL) return true;
    pthread_mutex_lock(&lane->lock);
    bool passed = lane->done >= point;
    pthread_mutex_unlock(&lane->lock);
    return passed;
}

/* --- opening and closing --- */

static void lane_release(threads_lane *lane) {
    tn_context context = lane->device->context;
    pthread_cond_destroy(&lane->passed);
    pthread_cond_destroy(&lane->more);
    pthread_mutex_destroy(&lane->lock);
    tn__free(&context, lane->ring, lane->room * sizeof *lane->ring);
    tn__free(&context, lane, sizeof *lane);
}

tn_status tn__threads_open(tn__threads *device, const tn_context *context,
                           const tn__threads_ways *ways, double bytes_per_s, tn_error *error) {
    pthread_mutex_t *locks[] = {&device->lock, &device->links[0].lock, &device->links[1].lock};
    for (uint32_t made = 0; made < 3; made++) {
        if (pthread_mutex_init(locks[made], NULL) == 0) continue;
        while (made > 0) pthread_mutex_destroy(locks[--made]);
        return tn__no_memory(error, "the locks of a device");
    }
    device->context = *context;
    device->ways = ways;
    device->bytes_per_s = bytes_per_s;
    return TN_OK;
}

void tn__threads_close(tn__threads *device) {
    for (threads_lane *lane = device->lanes, *next; lane != NULL; lane = next) {
        next = lane->next;
        lane_release(lane);
    }
    pthread_mutex_destroy(&device->links[1].lock);
    pthread_mutex_destroy(&device->links[0].lock);
    pthread_mutex_destroy(&device->lock);
}
