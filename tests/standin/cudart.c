/* cudart.c - a stand-in of the CUDA runtime, to test what calls it where there is no GPU.
 *
 * Its rules are stricter than CUDA's where CUDA would let a mistake pass on a quiet machine: the
 * host's memory is read and written when the stream comes to it, the default stream waits for
 * nobody, and cudaFree does not wait: memory that is still being used must not be freed. Source of
 * the functions: CUDA Runtime API and Driver API, as documented; nothing of NVIDIA's was looked at.
 */
#include "standin.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { OK, BAD_VALUE = 1, NO_MEMORY = 2, NO_DEVICE = 100, BAD_DEVICE = 101, NOT_READY = 600 };
enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3 };
enum { DEVICES = 8, FAILURES = 16, FUNCTIONS = 64 };
#define SHIFT ((uintptr_t)1 << 54) /* no program has memory there */

typedef struct block {
    char *base;
    size_t size;
    int device;
    unsigned busy; /* copies that are queued or under way */
} block;

typedef struct range { /* of addresses; pages of it have memory or have not */
    char *base;
    size_t size;
} range;

typedef struct memory { /* of cuMemCreate; its handle is its place, from 1 */
    size_t size;        /* 0: released */
    int device;
    bool is_mapped;
} memory;

typedef struct view { /* memory that is mapped into a range */
    char *base;
    size_t handle;
    bool is_open; /* may be read and written */
    unsigned busy;
} view;

typedef struct work {
    enum { COPY, FILL, WAIT, RECORD, CALL } kind;
    char *to;
    const char *from;
    size_t size;
    int byte;
    size_t point;
    void (*call)(void *);
    void *self;
    struct work *next;
} work;

typedef struct stream {
    int device;
    bool gone, stops;
    pthread_t thread;
    work *first, **last;
    uint64_t queued, done;
} stream;

typedef struct event {
    int device;
    bool gone;
    size_t point; /* where it was last recorded; 0: nowhere */
} event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static block *blocks;
static size_t block_count, block_room;
static range *ranges;
static size_t range_count, range_room;
static memory *memories;
static size_t memory_count, memory_room;
static view *views; /* by no order */
static size_t view_count, view_room;
static stream **streams;
static size_t stream_count, stream_room;
static event *events;
static size_t event_count, event_room;
/* Whether a point of a stream is passed; [0] is. One for each record, as who waits for an event
 * waits for where it was then, wherever it is recorded meanwhile, and whoever gets there first. */
static bool *points;
static size_t point_count, point_room;
static void *defaults[DEVICES];
static uint64_t used[DEVICES], live;
static int lost, last_status;
static _Thread_local int current;
static struct {
    char function[40];
    unsigned nth;
    int status;
} failures[FAILURES];
static struct {
    const char *function;
    uint64_t count;
} calls[FUNCTIONS];

__attribute__((noreturn, format(printf, 1, 2))) static void misuse(const char *format, ...) {
    va_list values;
    va_start(values, format);
    fputs("standin: misuse: ", stderr);
    vfprintf(stderr, format, values);
    fputs("\n", stderr);
    va_end(values);
    abort();
}

static void *grown(void *array, size_t count, size_t *room, size_t item) {
    if (count < *room) return array;
    *room = *room == 0 ? 64 : *room * 2;
    array = realloc(array, *room * item);
    if (array == NULL) abort();
    return array;
}

/* --- settings and failures --- */

static uint64_t setting(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static int device_count(void) { return (int)setting("STANDIN_DEVICES", 1); }

void standin_fail(const char *function, unsigned nth, int status) {
    pthread_mutex_lock(&lock);
    size_t at = 0;
    while (at < FAILURES - 1 && failures[at].nth != 0) at++;
    snprintf(failures[at].function, sizeof failures[at].function, "%s", function);
    failures[at].nth = status == 0 ? 0 : nth;
    failures[at].status = status;
    pthread_mutex_unlock(&lock);
}

void standin_reset(void) {
    pthread_mutex_lock(&lock);
    memset(failures, 0, sizeof failures);
    lost = last_status = 0;
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void read_failures(void) {
    char function[40];
    unsigned nth;
    int status;
    const char *text = getenv("STANDIN_FAIL");
    if (text != NULL && sscanf(text, "%39[^:]:%u:%d", function, &nth, &status) == 3)
        standin_fail(function, nth, status);
}

static void count_call(const char *function) {
    size_t at = 0;
    while (calls[at].function != NULL && strcmp(calls[at].function, function) != 0) at++;
    calls[at].function = function;
    calls[at].count++;
}

/* What was asked to fail; under the lock. */
static int due(const char *function) {
    count_call(function);
    for (size_t i = 0; i < FAILURES; i++) {
        if (failures[i].nth == 0 || strcmp(failures[i].function, function) != 0) continue;
        if (--failures[i].nth > 0) continue;
        if (failures[i].status >= 700) lost = failures[i].status;
        return failures[i].status;
    }
    return lost;
}

uint64_t standin_calls(const char *function) {
    uint64_t count = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < FUNCTIONS && calls[i].function != NULL; i++)
        if (strcmp(calls[i].function, function) == 0) count = calls[i].count;
    pthread_mutex_unlock(&lock);
    return count;
}

uint64_t standin_used(int device) {
    pthread_mutex_lock(&lock);
    uint64_t bytes = used[device];
    pthread_mutex_unlock(&lock);
    return bytes;
}

uint64_t standin_ranges(void) {
    pthread_mutex_lock(&lock);
    uint64_t count = range_count;
    pthread_mutex_unlock(&lock);
    return count;
}

uint64_t standin_live(void) {
    pthread_mutex_lock(&lock);
    uint64_t count = live;
    pthread_mutex_unlock(&lock);
    return count;
}

static int leave(int status) {
    if (status != OK) last_status = status;
    pthread_mutex_unlock(&lock);
    return status;
}

/* Every function begins so: locked, counted, and perhaps over. */
#define ENTER()                                                                                    \
    pthread_mutex_lock(&lock);                                                                     \
    int status = due(__func__);                                                                    \
    if (status != OK) return leave(status)

/* --- memory --- */

static bool on_device(const void *pointer) { return (uintptr_t)pointer >= SHIFT; }

/* The block that holds the bytes; it is a misuse if none does. */
static block *holder(const void *pointer, size_t size, const char *what) {
    char *real = (char *)((uintptr_t)pointer - SHIFT);
    for (size_t i = 0; i < block_count; i++)
        if (real >= blocks[i].base && real + size <= blocks[i].base + blocks[i].size)
            return &blocks[i];
    misuse("%s of %zu bytes at %p, which are not all in one block", what, size, pointer);
}

/* Whether bytes are in a range; then all must be mapped and open, and are `by` more busy. */
static bool hold_views(const void *pointer, size_t size, int by, int device) {
    char *real = (char *)((uintptr_t)pointer - SHIFT), *end = real + size;
    size_t at = 0, found = 0;
    while (at < range_count &&
           (real < ranges[at].base || real >= ranges[at].base + ranges[at].size))
        at++;
    if (at == range_count) return false;
    for (size_t i = 0; i < view_count; i++) {
        char *from = views[i].base, *to = from + memories[views[i].handle].size;
        if (to <= real || from >= end) continue;
        if (!views[i].is_open) misuse("%p is mapped, and access to it was never set", pointer);
        if (memories[views[i].handle].device != device)
            misuse("device %d has no access to %p", device, pointer);
        found += (size_t)((to < end ? to : end) - (from > real ? from : real));
        views[i].busy += (unsigned)by;
    }
    if (found != size) misuse("%zu of %zu bytes at %p have no memory", size - found, size, pointer);
    return true;
}

int cudaMalloc(void **pointer, size_t size) {
    ENTER();
    if (size == 0) return *pointer = NULL, leave(OK);
    uint64_t most = setting("STANDIN_MEMORY", 256u << 20);
    if (size > most || used[current] > most - size) return leave(NO_MEMORY);
    size_t room = (size + 4095) / 4096 * 4096;
    char *base = aligned_alloc(4096, room);
    if (base == NULL) return leave(NO_MEMORY);
    memset(base, 0xa5, room); /* what nobody has written is not 0 */
    blocks = grown(blocks, block_count, &block_room, sizeof *blocks);
    blocks[block_count++] = (block){.base = base, .size = size, .device = current};
    used[current] += size;
    *pointer = (void *)((uintptr_t)base + SHIFT);
    return leave(OK);
}

int cudaFree(void *pointer) {
    ENTER();
    if (pointer == NULL) return leave(OK);
    block *at = holder(pointer, 1, "a free");
    if (at->base + SHIFT != (char *)pointer) misuse("a free of %p inside a block", pointer);
    if (at->busy > 0) misuse("a free of %p, which a stream still uses", pointer);
    used[at->device] -= at->size;
    free(at->base);
    *at = blocks[--block_count];
    return leave(OK);
}

int cudaMemGetInfo(size_t *available, size_t *total) {
    ENTER();
    *total = (size_t)setting("STANDIN_MEMORY", 256u << 20);
    *available = *total - (size_t)used[current];
    return leave(OK);
}

/* --- streams --- */

static stream *stream_of(void *handle) {
    size_t index = (uintptr_t)handle >> 4;
    if (((uintptr_t)handle & 15) != 5 || index >= stream_count) misuse("%p is no stream", handle);
    if (streams[index]->gone) misuse("stream %zu is used after it was destroyed", index);
    return streams[index];
}

static void hold(const void *pointer, size_t size, int by, int device) {
    if (size > 0 && !hold_views(pointer, size, by, device))
        holder(pointer, size, "a copy")->busy += (unsigned)by;
}

/* One thing of a stream; comes and goes with the lock held. */
static void do_work(const work *it) {
    bool copies = it->kind == COPY || it->kind == FILL;
    if (copies && due("copy") != OK) return;
    if (lost && it->kind != RECORD) return;
    if (it->kind == WAIT) {
        while (!points[it->point]) pthread_cond_wait(&changed, &lock);
    } else if (it->kind == RECORD) {
        points[it->point] = true;
    } else {
        char *to = on_device(it->to) ? (char *)((uintptr_t)it->to - SHIFT) : it->to;
        const char *from =
            on_device(it->from) ? (const char *)((uintptr_t)it->from - SHIFT) : it->from;
        pthread_mutex_unlock(
            &lock); /* so that streams work side by side, and TSan sees whether they may */
        if (it->kind == COPY) memcpy(to, from, it->size);
        if (it->kind == FILL) memset(to, it->byte, it->size);
        if (it->kind == CALL) it->call(it->self);
        pthread_mutex_lock(&lock);
    }
}

static void *serve(void *self) {
    stream *of = self;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (of->first == NULL && !of->stops) pthread_cond_wait(&changed, &lock);
        if (of->first == NULL) break;
        work *it = of->first;
        do_work(it);
        if (it->kind == COPY || it->kind == FILL) {
            if (on_device(it->to)) hold(it->to, it->size, -1, of->device);
            if (on_device(it->from)) hold(it->from, it->size, -1, of->device);
        }
        of->first = it->next;
        if (of->first == NULL) of->last = &of->first;
        of->done++;
        free(it);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *make_stream(void) {
    stream *made = calloc(1, sizeof *made);
    if (made == NULL) abort();
    made->device = current;
    made->last = &made->first;
    streams = grown(streams, stream_count, &stream_room, sizeof *streams);
    streams[stream_count] = made;
    if (pthread_create(&made->thread, NULL, serve, made) != 0) abort();
    return (void *)(stream_count++ << 4 | 5);
}

/* NULL is the default stream of the current device, 1 and 2 are names of it. */
static stream *given_stream(void *handle) {
    if ((uintptr_t)handle > 2) return stream_of(handle);
    if (defaults[current] == NULL) defaults[current] = make_stream();
    return stream_of(defaults[current]);
}

static int queue(stream *on, const work *given) {
    work *it = malloc(sizeof *it);
    if (it == NULL) abort();
    *it = *given;
    it->next = NULL;
    *on->last = it;
    on->last = &it->next;
    on->queued++;
    pthread_cond_broadcast(&changed);
    return leave(OK);
}

int cudaStreamCreateWithFlags(void **handle, unsigned flags) {
    ENTER();
    if (flags > 1) return leave(BAD_VALUE);
    *handle = make_stream();
    live++;
    return leave(OK);
}

int cudaStreamDestroy(void *handle) {
    ENTER();
    stream *of = stream_of(handle);
    of->gone = of->stops = true; /* what is queued is still done */
    pthread_cond_broadcast(&changed);
    live--;
    pthread_mutex_unlock(&lock);
    pthread_join(of->thread, NULL);
    return OK;
}

static void wait_for(const stream *of) {
    uint64_t until = of->queued;
    while (of->done < until) pthread_cond_wait(&changed, &lock);
}

int cudaStreamSynchronize(void *handle) {
    ENTER();
    wait_for(given_stream(handle));
    return leave(lost);
}

int cudaDeviceSynchronize(void) {
    ENTER();
    for (size_t i = 0; i < stream_count; i++)
        if (streams[i]->device == current) wait_for(streams[i]);
    return leave(lost);
}

int cudaLaunchHostFunc(void *handle, void (*call)(void *), void *self) {
    ENTER();
    return queue(given_stream(handle), &(work){.kind = CALL, .call = call, .self = self});
}

/* Threads that nobody ends are told as a mistake by sanitizers. */
__attribute__((destructor)) static void end_defaults(void) {
    for (int i = 0; i < DEVICES; i++)
        if (defaults[i] != NULL) (void)cudaStreamDestroy(defaults[i]);
}

/* --- copies --- */

int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, void *handle) {
    ENTER();
    if (kind < TO_DEVICE || kind > ON_DEVICE) return leave(BAD_VALUE);
    if (on_device(to) != (kind != TO_HOST) || on_device(from) != (kind != TO_DEVICE))
        misuse("a copy of kind %d from %p to %p", kind, from, to);
    stream *on = given_stream(handle);
    if (on_device(to)) hold(to, size, 1, on->device);
    if (on_device(from)) hold(from, size, 1, on->device);
    return queue(on, &(work){.kind = COPY, .to = to, .from = from, .size = size});
}

int cudaMemsetAsync(void *pointer, int byte, size_t size, void *handle) {
    ENTER();
    stream *on = given_stream(handle);
    if (on->device != current)
        misuse("a fill on a stream of device %d, not %d", on->device, current);
    hold(pointer, size, 1, on->device);
    return queue(on, &(work){.kind = FILL, .to = pointer, .size = size, .byte = byte});
}

/* --- events --- */

static uint32_t event_of(void *handle) {
    size_t index = (uintptr_t)handle >> 4;
    if (((uintptr_t)handle & 15) != 3 || index >= event_count) misuse("%p is no event", handle);
    if (events[index].gone) misuse("event %zu is used after it was destroyed", index);
    return (uint32_t)index;
}

int cudaEventCreateWithFlags(void **handle, unsigned flags) {
    ENTER();
    if (flags > 7) return leave(BAD_VALUE);
    events = grown(events, event_count, &event_room, sizeof *events);
    points = grown(points, point_count, &point_room, sizeof *points);
    if (point_count == 0) points[point_count++] = true;
    events[event_count] = (event){.device = current};
    *handle = (void *)(event_count++ << 4 | 3);
    live++;
    return leave(OK);
}

int cudaEventDestroy(void *handle) {
    ENTER();
    events[event_of(handle)].gone = true; /* who waits for it waits on */
    live--;
    return leave(OK);
}

int cudaEventRecord(void *handle, void *on) {
    ENTER();
    uint32_t at = event_of(handle);
    stream *of = given_stream(on);
    if (of->device != events[at].device)
        misuse("an event of device %d on a stream of device %d", events[at].device, of->device);
    points = grown(points, point_count, &point_room, sizeof *points);
    points[point_count] = false;
    events[at].point = point_count++;
    return queue(of, &(work){.kind = RECORD, .point = events[at].point});
}

int cudaStreamWaitEvent(void *on, void *handle, unsigned flags) {
    ENTER();
    uint32_t at = event_of(handle);
    if (flags > 1) return leave(BAD_VALUE);
    return queue(given_stream(on), &(work){.kind = WAIT, .point = events[at].point});
}

int cudaEventQuery(void *handle) {
    ENTER();
    return leave(points[events[event_of(handle)].point] ? lost : NOT_READY);
}

int cudaEventSynchronize(void *handle) {
    ENTER();
    size_t point = events[event_of(handle)].point;
    while (!points[point]) pthread_cond_wait(&changed, &lock);
    return leave(lost);
}

/* --- memory and addresses apart --- */

/* Of the driver: the runtime hears of no failure of it. */
static int done(int status) {
    pthread_mutex_unlock(&lock);
    return status;
}

#define ENTER_DRIVER()                                                                             \
    pthread_mutex_lock(&lock);                                                                     \
    int status = due(__func__);                                                                    \
    if (status != OK) return done(status)

typedef struct place {
    int type, handles, where, device;
} place;

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    ENTER_DRIVER();
    if (device < 0 || device >= device_count()) return done(BAD_DEVICE);
    *value = attribute == 102 ? (int)setting("STANDIN_PAGES", 1) : 0;
    return done(OK);
}

static size_t granule(void) { return (size_t)setting("STANDIN_GRANULE", 2 << 20); }

int cuMemGetAllocationGranularity(size_t *size, const place *of, int which);
int cuMemGetAllocationGranularity(size_t *size, const place *of, int which) {
    ENTER_DRIVER();
    if (of->type != 1 || of->where != 1 || which != 0) return done(BAD_VALUE);
    *size = granule();
    return done(OK);
}

int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wanted,
                        unsigned long long flags);
int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wanted,
                        unsigned long long flags) {
    ENTER_DRIVER();
    if (size == 0 || size % granule() != 0 || wanted != 0 || flags != 0) return done(BAD_VALUE);
    char *all =
        mmap(NULL, size + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return done(NO_MEMORY);
    size_t front = -(uintptr_t)all & (alignment - 1);
    if (front > 0) munmap(all, front);
    if (front < alignment) munmap(all + front + size, alignment - front);
    ranges = grown(ranges, range_count, &range_room, sizeof *ranges);
    ranges[range_count++] = (range){all + front, size};
    *address = (uintptr_t)all + front + SHIFT;
    return done(OK);
}

int cuMemAddressFree(uint64_t address, size_t size);
int cuMemAddressFree(uint64_t address, size_t size) {
    ENTER_DRIVER();
    char *base = (char *)(uintptr_t)(address - SHIFT);
    for (size_t i = 0; i < view_count; i++)
        if (views[i].base >= base && views[i].base < base + size)
            misuse("a range is freed that still has memory");
    for (size_t i = 0; i < range_count; i++) {
        if (ranges[i].base != base || ranges[i].size != size) continue;
        ranges[i] = ranges[--range_count];
        munmap(base, size);
        return done(OK);
    }
    misuse("a free of %zu addresses that are no range", size);
}

int cuMemCreate(uint64_t *handle, size_t size, const place *of, unsigned long long flags);
int cuMemCreate(uint64_t *handle, size_t size, const place *of, unsigned long long flags) {
    ENTER_DRIVER();
    if (size == 0 || size % granule() != 0 || of->type != 1 || flags != 0) return done(BAD_VALUE);
    uint64_t most = setting("STANDIN_MEMORY", 256u << 20);
    if (size > most || used[of->device] > most - size) return done(NO_MEMORY);
    if (memory_count == 0) memory_count = 1;
    memories = grown(memories, memory_count, &memory_room, sizeof *memories);
    memories[memory_count] = (memory){.size = size, .device = of->device};
    used[of->device] += size;
    *handle = memory_count++;
    return done(OK);
}

static memory *memory_of(uint64_t handle) {
    if (handle == 0 || handle >= memory_count || memories[handle].size == 0)
        misuse("%llu is no memory", (unsigned long long)handle);
    return &memories[handle];
}

int cuMemRelease(uint64_t handle);
int cuMemRelease(uint64_t handle) {
    ENTER_DRIVER();
    memory *of = memory_of(handle);
    if (of->is_mapped) misuse("memory is released while it is mapped");
    used[of->device] -= of->size;
    of->size = 0;
    return done(OK);
}

int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle,
             unsigned long long flags);
int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle,
             unsigned long long flags) {
    ENTER_DRIVER();
    memory *of = memory_of(handle);
    char *base = (char *)(uintptr_t)(address - SHIFT);
    if (size != of->size || offset != 0 || flags != 0) return done(BAD_VALUE);
    if (of->is_mapped) misuse("memory is mapped in two places");
    size_t at = 0;
    while (at < range_count &&
           (base < ranges[at].base || base + size > ranges[at].base + ranges[at].size))
        at++;
    if (at == range_count) misuse("memory is mapped outside of every range");
    for (size_t i = 0; i < view_count; i++)
        if (views[i].base == base) misuse("memory is mapped where some is");
    views = grown(views, view_count, &view_room, sizeof *views);
    views[view_count++] = (view){.base = base, .handle = handle};
    of->is_mapped = true;
    return done(OK);
}

int cuMemSetAccess(uint64_t address, size_t size, const int *access, size_t count);
int cuMemSetAccess(uint64_t address, size_t size, const int *access, size_t count) {
    ENTER_DRIVER();
    char *base = (char *)(uintptr_t)(address - SHIFT);
    size_t found = 0;
    if (count != 1 || access[0] != 1 || access[2] != 3) return done(BAD_VALUE);
    for (size_t i = 0; i < view_count; i++) {
        if (views[i].base < base || views[i].base >= base + size) continue;
        const memory *of = &memories[views[i].handle];
        if (access[1] != of->device) misuse("access is set for another device");
        views[i].is_open = true;
        found += of->size;
    }
    if (found != size) misuse("access is set where there is no memory");
    if (mprotect(base, size, PROT_READ | PROT_WRITE) != 0) abort();
    if (setting("STANDIN_FILL", 1) != 0) memset(base, 0xa5, size);
    return done(OK);
}

int cuMemUnmap(uint64_t address, size_t size);
int cuMemUnmap(uint64_t address, size_t size) {
    ENTER_DRIVER();
    char *base = (char *)(uintptr_t)(address - SHIFT);
    for (size_t i = 0; i < view_count; i++) {
        memory *of = &memories[views[i].handle];
        if (views[i].base != base || of->size != size) continue;
        if (views[i].busy > 0) misuse("memory is unmapped that a stream still uses");
        of->is_mapped = false;
        views[i] = views[--view_count];
        (void)madvise(base, size, MADV_DONTNEED);
        if (mprotect(base, size, PROT_NONE) != 0) abort();
        return done(OK);
    }
    misuse("%zu bytes are unmapped where there is no memory", size);
}

/* --- the rest --- */

int cudaRuntimeGetVersion(int *version);
int cudaRuntimeGetVersion(int *version) {
    ENTER();
    *version = (int)setting("STANDIN_VERSION", 12040);
    return leave(OK);
}

int cudaGetDeviceCount(int *count);
int cudaGetDeviceCount(int *count) {
    ENTER();
    *count = device_count();
    return leave(*count == 0 ? NO_DEVICE : OK);
}

int cudaGetDevice(int *device) {
    ENTER();
    *device = current;
    return leave(OK);
}

int cudaSetDevice(int device) {
    ENTER();
    if (device < 0 || device >= device_count()) return leave(BAD_DEVICE);
    current = device;
    return leave(OK);
}

#ifndef STANDIN_LACKS /* a runtime that is too old for this one */
int cudaGetLastError(void) {
    pthread_mutex_lock(&lock);
    int status = lost ? lost : last_status;
    last_status = OK;
    pthread_mutex_unlock(&lock);
    return status;
}
#endif

const char *cudaGetErrorName(int status);
const char *cudaGetErrorName(int status) {
    return status == NO_MEMORY      ? "cudaErrorMemoryAllocation"
           : status == STANDIN_LOST ? "cudaErrorLaunchFailure"
                                    : "cudaErrorUnknown";
}

const char *cudaGetErrorString(int status);
const char *cudaGetErrorString(int status) {
    return status == NO_MEMORY   ? "out of memory"
           : status == NO_DEVICE ? "no CUDA-capable device is detected"
           : status >= 700       ? "unspecified launch failure"
                                 : "unknown error";
}
