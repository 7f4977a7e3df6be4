/* host.c - the host as a device: memory behind guard pages, threads as streams, a link of a given
 * speed.
 *
 * Memory. Each block is a mapping of its own between two pages that cannot be touched; it ends at
 * the upper one, up to the alignment, so that a kernel that runs over the end of the arena faults
 * at once. Addresses are shifted by 2^54, which no processor maps for programs: a device address
 * that is used as a pointer faults as well.
 *
 * Streams. A stream is a lane: a queue of work and the thread that does it, one after the other.
 * `queued` and `done` only ever grow, so that a point in a lane is a number, and a fence is a lane
 * and a number: passed when done >= number. Lanes stay until the device closes and are used again
 * by later streams, whose numbers go on: a wait for a stream that is gone finds its point passed.
 * A wait names a point that was queued before it, hence waits cannot go in a circle.
 *
 * Link. Both directions have a clock that says until when the link is taken. A copy takes it for
 * about a millisecond's worth of bytes at a time and sleeps to the end of its turn, so that copies
 * of several streams share it. A turn follows the one before it without a gap even if the thread
 * woke up late, else a busy machine would look like a slower link; for the same reason a copy that
 * was queued while its lane was busy begins when the one before it ended by the clock of the link.
 *
 * Cost: O(1) per piece of work, two locks and a wake-up. Source: streams and events as CUDA has
 * them (waits for the record that was last when they were called).
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <time.h>
#include <unistd.h>

#include "device/copy.h"
#include "device/driver.h"

#define HOST_ALIGNMENT 64u
#define HOST_SHIFT ((tn_address)1 << 54)
#define HOST_HUGE ((size_t)4 << 20) /* blocks from here on are worth large pages */
#define HOST_TURN_S 1e-3            /* of a copy on the link */

typedef struct host_link { /* one direction */
    pthread_mutex_t lock;
    uint64_t free_at; /* ns on the monotonic clock */
} host_link;

typedef struct host_device {
    tn_context context;
    size_t page;
    double bytes_per_s;       /* of each link; 0: no limit */
    host_link to, from;       /* host to device, device to host */
    pthread_mutex_t lock;     /* of the lists of lanes, and of all fences */
    struct host_lane *lanes;  /* all there ever were */
    struct host_lane *vacant; /* those without a stream */
} host_device;

typedef enum host_kind { HOST_PUT, HOST_GET, HOST_COPY, HOST_LAUNCH, HOST_WAIT } host_kind;

typedef struct host_work {
    host_kind kind;
    void *to;
    const void *from;
    uint64_t size;
    tn_status (*work)(void *self, tn_error *error);
    void *self;
    struct host_lane *lane; /* WAIT: until this lane has done `point` */
    uint64_t point;
    uint64_t queued_at; /* ns on the monotonic clock; 0: there is no link to take */
} host_work;

typedef struct host_lane {
    host_device *device;
    struct host_lane *next, *next_vacant;
    bool is_inline;
    pthread_t thread;
    pthread_mutex_t lock;        /* of all below */
    pthread_cond_t more, passed; /* work was queued; `done` grew */
    host_work *ring;             /* [room], work i at i % room */
    size_t room;                 /* a power of two */
    uint64_t queued, done;
    uint64_t ended;   /* ns: when the last that is done ended, by the clock of the link */
    bool stops;       /* the thread ends when all is done */
    tn_error failure; /* the first since the last wait */
} host_lane;

typedef struct host_fence {
    host_lane *lane; /* NULL: not recorded */
    uint64_t point;
    host_device *device;
} host_fence;

/* --- the link --- */

static uint64_t host_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void host_sleep_until(uint64_t at) {
    struct timespec end = {.tv_sec = (time_t)(at / 1000000000u),
                           .tv_nsec = (long)(at % 1000000000u)};
    if (host_now() >= at) return;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0) continue;
}

/* Takes the link for `size` bytes from `ready` on at the earliest; returns when the turn ends. */
static uint64_t host_take_turn(host_link *link, uint64_t ready, uint64_t size, double rate) {
    uint64_t spent = (uint64_t)((double)size / rate * 1e9) + 1;
    pthread_mutex_lock(&link->lock);
    uint64_t begins = link->free_at > ready ? link->free_at : ready;
    uint64_t ends = link->free_at = begins + spent;
    pthread_mutex_unlock(&link->lock);
    return ends;
}

/* A copy that may begin at `ready`; returns when it ended by the link's clock. */
static uint64_t host_cross(host_device *device, host_link *link, const host_work *work,
                           uint64_t ready) {
    double rate = device->bytes_per_s;
    if (rate <= 0) {
        tn__copy_past_caches(work->to, work->from, work->size);
        return 0;
    }
    uint64_t turn = rate * HOST_TURN_S < 1 ? 1 : (uint64_t)(rate * HOST_TURN_S);
    for (uint64_t at = 0; at < work->size; at += turn) {
        uint64_t part = work->size - at < turn ? work->size - at : turn;
        ready = host_take_turn(link, ready, part, rate);
        tn__copy_past_caches((char *)work->to + at, (const char *)work->from + at, part);
        host_sleep_until(ready);
    }
    return ready;
}

/* --- memory --- */

static void *host_pointer(const void *device, tn_address address) {
    (void)device;
    return (void *)(uintptr_t)(address - HOST_SHIFT);
}

/* The pages of a block, without its guards. */
static bool host_pages(const host_device *device, uint64_t size, uint64_t *pages) {
    uint64_t all;
    return tn__align_up(size, device->page, pages) && tn__add(*pages, 2 * device->page, &all) &&
           all <= SIZE_MAX;
}

static tn_status host_alloc(void *state, uint64_t size, tn_address *address, tn_error *error) {
    const host_device *device = state;
    uint64_t pages, rounded;
    char text[TN_SIZE_TEXT_MAX];
    char *mapping = MAP_FAILED;
    if (host_pages(device, size, &pages))
        mapping =
            mmap(NULL, pages + 2 * device->page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        TN_FAIL(error, TN_E_NO_MEMORY, "the host has no room for a block of %s",
                tn_size_format(size, text));
    char *inside = mapping + device->page;
    if (mprotect(inside, pages, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, pages + 2 * device->page);
        TN_FAIL(error, TN_E_NO_MEMORY, "the host has no memory for a block of %s",
                tn_size_format(size, text));
    }
#ifdef MADV_HUGEPAGE
    if (pages >= HOST_HUGE) (void)madvise(inside, pages, MADV_HUGEPAGE); /* benign if refused */
#endif
    rounded = (size + HOST_ALIGNMENT - 1) & ~(uint64_t)(HOST_ALIGNMENT - 1);
    *address = (tn_address)(uintptr_t)(inside + (pages - rounded)) + HOST_SHIFT;
    return TN_OK;
}

static void host_free(void *state, tn_address address, uint64_t size) {
    const host_device *device = state;
    uint64_t pages;
    if (!host_pages(device, size, &pages)) return; /* never given */
    uintptr_t start = (uintptr_t)(address - HOST_SHIFT) & ~(uintptr_t)(device->page - 1);
    munmap((char *)start - device->page, pages + 2 * device->page);
}

/* --- lanes --- */

static bool host_condition(pthread_cond_t *condition) {
    return pthread_cond_init(condition, NULL) == 0;
}

/* Until the lane has come to its point; returns when that was by the clock of the link. */
static uint64_t host_wait_point(host_lane *lane, uint64_t point) {
    pthread_mutex_lock(&lane->lock);
    while (lane->done < point) pthread_cond_wait(&lane->passed, &lane->lock);
    uint64_t ended = lane->ended;
    pthread_mutex_unlock(&lane->lock);
    return ended;
}

/* What takes as long as it takes; by the link's clock it began at `ready`, not late. */
static tn_status host_do_here(const host_work *work, uint64_t *ready, tn_error *error) {
    uint64_t start = host_now();
    tn_status status = TN_OK;
    if (work->kind == HOST_COPY)
        memcpy(work->to, work->from, work->size);
    else
        status = work->work(work->self, error);
    *ready += host_now() - start;
    return status;
}

/* ready  when it may begin by the link's clock; becomes when it ended */
static tn_status host_do(host_device *device, const host_work *work, uint64_t *ready,
                         tn_error *error) {
    switch (work->kind) {
    case HOST_PUT:
        *ready = host_cross(device, &device->to, work, *ready);
        return TN_OK;
    case HOST_GET:
        *ready = host_cross(device, &device->from, work, *ready);
        return TN_OK;
    case HOST_COPY:
    case HOST_LAUNCH:
        return host_do_here(work, ready, error);
    case HOST_WAIT: {
        uint64_t ended = host_wait_point(work->lane, work->point);
        if (ended > *ready) *ready = ended;
        return TN_OK;
    }
    }
    return TN_E_INTERNAL;
}

/* The thread of a lane. */
static void *host_serve(void *self) {
    host_lane *lane = self;
    uint64_t ready = 0; /* when its last work ended */
#ifdef __linux__
    (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul); /* ns; benign if it stays at 50 us */
#endif
    pthread_mutex_lock(&lane->lock);
    for (;;) {
        while (lane->done == lane->queued && !lane->stops)
            pthread_cond_wait(&lane->more, &lane->lock);
        if (lane->done == lane->queued) break;
        host_work work = lane->ring[lane->done & (lane->room - 1)];
        bool skips = lane->failure.status != TN_OK && work.kind != HOST_WAIT;
        pthread_mutex_unlock(&lane->lock);
        tn_error error = {0};
        if (work.queued_at > ready) ready = work.queued_at;
        tn_status status = skips ? TN_OK : host_do(lane->device, &work, &ready, &error);
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

/* Room for so much more work; under the lane's lock. */
static bool host_lane_room(host_lane *lane, uint64_t more) {
    uint64_t need = tn__add_sat(lane->queued - lane->done, more);
    size_t room = lane->room == 0 ? 16 : lane->room;
    if (need <= lane->room) return true;
    while (room < need && room <= SIZE_MAX / 2) room *= 2;
    if (room < need) return false;
    host_work *ring = tn__alloc_array(&lane->device->context, room, sizeof *ring);
    if (ring == NULL) return false;
    for (uint64_t i = lane->done; i < lane->queued; i++)
        ring[i & (room - 1)] = lane->ring[i & (lane->room - 1)];
    tn__free(&lane->device->context, lane->ring, lane->room * sizeof *ring);
    lane->ring = ring;
    lane->room = room;
    return true;
}

static tn_status host_queue(host_lane *lane, const host_work *work, tn_error *error) {
    uint64_t now = lane->device->bytes_per_s > 0 ? host_now() : 0;
    if (lane->is_inline) return host_do(lane->device, work, &now, error);
    pthread_mutex_lock(&lane->lock);
    bool fits = host_lane_room(lane, 1);
    if (fits) {
        host_work *queued = &lane->ring[lane->queued++ & (lane->room - 1)];
        *queued = *work;
        queued->queued_at = now;
        pthread_cond_signal(&lane->more);
    }
    pthread_mutex_unlock(&lane->lock);
    return fits ? TN_OK : tn__no_memory(error, "the queue of a stream");
}

static host_lane *host_lane_new(host_device *device) {
    host_lane *lane = tn__alloc_array(&device->context, 1, sizeof *lane);
    if (lane == NULL) return NULL;
    lane->device = device;
    if (pthread_mutex_init(&lane->lock, NULL) == 0) {
        if (host_condition(&lane->more)) {
            if (host_condition(&lane->passed)) return lane;
            pthread_cond_destroy(&lane->more);
        }
        pthread_mutex_destroy(&lane->lock);
    }
    tn__free(&device->context, lane, sizeof *lane);
    return NULL;
}

/* A lane without a stream, a new one when there is none. */
static host_lane *host_lane_take(host_device *device) {
    pthread_mutex_lock(&device->lock);
    host_lane *lane = device->vacant;
    if (lane != NULL) {
        device->vacant = lane->next_vacant;
    } else if ((lane = host_lane_new(device)) != NULL) {
        lane->next = device->lanes;
        device->lanes = lane;
    }
    pthread_mutex_unlock(&device->lock);
    return lane;
}

static void host_lane_give(host_lane *lane) {
    pthread_mutex_lock(&lane->device->lock);
    lane->next_vacant = lane->device->vacant;
    lane->device->vacant = lane;
    pthread_mutex_unlock(&lane->device->lock);
}

/* Signals are for the threads of the caller. */
static bool host_lane_start(host_lane *lane) {
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    bool started = pthread_create(&lane->thread, NULL, host_serve, lane) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static tn_status host_stream_create(void *state, uint32_t flags, void **stream, tn_error *error) {
    host_lane *lane = host_lane_take(state);
    if (lane == NULL) return tn__no_memory(error, "a stream");
    lane->is_inline = (flags & TN_STREAM_INLINE) != 0;
    lane->stops = false;
    lane->failure = (tn_error){0};
    if (!lane->is_inline && !host_lane_start(lane)) {
        host_lane_give(lane);
        return tn__no_memory(error, "the thread of a stream");
    }
    *stream = lane;
    return TN_OK;
}

static void host_stream_destroy(void *stream) {
    host_lane *lane = stream;
    if (!lane->is_inline) {
        pthread_mutex_lock(&lane->lock);
        lane->stops = true;
        pthread_cond_signal(&lane->more);
        pthread_mutex_unlock(&lane->lock);
        pthread_join(lane->thread, NULL);
    }
    host_lane_give(lane);
}

static tn_status host_stream_wait(void *stream, tn_error *error) {
    host_lane *lane = stream;
    pthread_mutex_lock(&lane->lock);
    while (lane->done < lane->queued) pthread_cond_wait(&lane->passed, &lane->lock);
    tn_error failure = lane->failure;
    lane->failure.status = TN_OK;
    pthread_mutex_unlock(&lane->lock);
    if (failure.status != TN_OK && error != NULL) *error = failure;
    return failure.status;
}

static tn_status host_stream_reserve(void *stream, uint32_t count, tn_error *error) {
    host_lane *lane = stream;
    if (lane->is_inline) return TN_OK;
    pthread_mutex_lock(&lane->lock);
    bool fits = host_lane_room(lane, count);
    pthread_mutex_unlock(&lane->lock);
    return fits ? TN_OK : tn__no_memory(error, "the queue of a stream");
}

static tn_status host_put(void *stream, tn_address to, const void *from, uint64_t size,
                          tn_error *error) {
    host_work work = {.kind = HOST_PUT, .to = host_pointer(NULL, to), .from = from, .size = size};
    return host_queue(stream, &work, error);
}

static tn_status host_get(void *stream, void *to, tn_address from, uint64_t size, tn_error *error) {
    host_work work = {.kind = HOST_GET, .to = to, .from = host_pointer(NULL, from), .size = size};
    return host_queue(stream, &work, error);
}

static tn_status host_copy(void *stream, tn_address to, tn_address from, uint64_t size,
                           tn_error *error) {
    host_work work = {.kind = HOST_COPY,
                      .to = host_pointer(NULL, to),
                      .from = host_pointer(NULL, from),
                      .size = size};
    return host_queue(stream, &work, error);
}

static tn_status host_launch(void *stream, tn_status (*function)(void *self, tn_error *error),
                             void *self, tn_error *error) {
    host_work work = {.kind = HOST_LAUNCH, .work = function, .self = self};
    return host_queue(stream, &work, error);
}

/* --- fences --- */

static tn_status host_fence_create(void *state, void **fence, tn_error *error) {
    host_device *device = state;
    host_fence *made = tn__alloc_array(&device->context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a fence");
    made->device = device;
    *fence = made;
    return TN_OK;
}

static void host_fence_destroy(void *state) {
    host_fence *fence = state;
    tn__free(&fence->device->context, fence, sizeof *fence);
}

static tn_status host_fence_record(void *state, void *stream, tn_error *error) {
    host_fence *fence = state;
    host_lane *lane = stream;
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

static tn_status host_fence_wait(void *state, void *stream, tn_error *error) {
    host_fence *fence = state;
    host_work work = {.kind = HOST_WAIT};
    pthread_mutex_lock(&fence->device->lock);
    work.lane = fence->lane;
    work.point = fence->point;
    pthread_mutex_unlock(&fence->device->lock);
    if (work.lane == NULL || work.lane == stream) return TN_OK;
    return host_queue(stream, &work, error);
}

static bool host_fence_passed(const void *state) {
    const host_fence *fence = state;
    pthread_mutex_lock(&fence->device->lock);
    host_lane *lane = fence->lane;
    uint64_t point = fence->point;
    pthread_mutex_unlock(&fence->device->lock);
    if (lane == NULL) return true;
    pthread_mutex_lock(&lane->lock);
    bool passed = lane->done >= point;
    pthread_mutex_unlock(&lane->lock);
    return passed;
}

/* --- opening --- */

static void host_lane_release(host_lane *lane) {
    tn_context context = lane->device->context;
    pthread_cond_destroy(&lane->passed);
    pthread_cond_destroy(&lane->more);
    pthread_mutex_destroy(&lane->lock);
    tn__free(&context, lane->ring, lane->room * sizeof *lane->ring);
    tn__free(&context, lane, sizeof *lane);
}

static void host_close(void *state) {
    host_device *device = state;
    tn_context context = device->context;
    for (host_lane *lane = device->lanes, *next; lane != NULL; lane = next) {
        next = lane->next;
        host_lane_release(lane);
    }
    pthread_mutex_destroy(&device->from.lock);
    pthread_mutex_destroy(&device->to.lock);
    pthread_mutex_destroy(&device->lock);
    tn__free(&context, device, sizeof *device);
}

static bool host_open_locks(host_device *device) {
    if (pthread_mutex_init(&device->lock, NULL) != 0) return false;
    if (pthread_mutex_init(&device->to.lock, NULL) == 0) {
        if (pthread_mutex_init(&device->from.lock, NULL) == 0) return true;
        pthread_mutex_destroy(&device->to.lock);
    }
    pthread_mutex_destroy(&device->lock);
    return false;
}

static tn_status host_open(const tn_context *context, const tn_device_options *options,
                           uint32_t index, void **state, tn_device_limits *limits,
                           tn_error *error) {
    if (index != 0) TN_FAIL(error, TN_E_UNSUPPORTED, "there is one host, host:0, not %u", index);
    host_device *device = tn__alloc_array(context, 1, sizeof *device);
    long page = sysconf(_SC_PAGESIZE);
    if (device == NULL) return tn__no_memory(error, "a device");
    if (!host_open_locks(device)) {
        tn__free(context, device, sizeof *device);
        return tn__no_memory(error, "the locks of a device");
    }
    device->context = *context;
    device->page = page > 0 ? (size_t)page : 4096;
    device->bytes_per_s = options->link_bytes_per_s;
    limits->alignment = HOST_ALIGNMENT;
    limits->link_bytes_per_s = options->link_bytes_per_s;
    *state = device;
    return TN_OK;
}

const tn__driver tn__device_host = {
    .name = "host",
    .summary = "memory of the host behind guard pages, threads as streams",
    .open = host_open,
    .close = host_close,
    .alloc = host_alloc,
    .free = host_free,
    .pointer = host_pointer,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .stream_wait = host_stream_wait,
    .stream_reserve = host_stream_reserve,
    .put = host_put,
    .get = host_get,
    .copy = host_copy,
    .launch = host_launch,
    .fence_create = host_fence_create,
    .fence_destroy = host_fence_destroy,
    .fence_record = host_fence_record,
    .fence_wait = host_fence_wait,
    .fence_passed = host_fence_passed,
};
