/* large.c - large blocks: a range of addresses, a pool that divides it, and a table of its blocks.
 *
 * The range is reserved without memory: the system provides pages when they are touched, and gets
 * them back when the pool does not need them. Blocks are whole pages, as the next allocator would
 * map them too, so a table with one entry per page finds the block at an address. The pool and its
 * planner allocate memory themselves. The flag `large_busy` marks a thread inside them, and its
 * requests go to the next allocator.
 */
#include "interop/preload/preload.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tenure/pool.h>
#include <tenure/watch.h>

#include "interop/preload/shared.h"

#define LARGE_PAGE 4096u
#define LARGE_LEAST (64u << 10)
/* alignment of the range, and so the largest alignment of a request */
#define LARGE_ALIGNMENT (1ull << 30)
/* bytes of the range without a budget; halved until the system accepts it */
#define LARGE_RANGE (256ull << 30)
#define LARGE_RANGE_LEAST (1ull << 30)

typedef struct large_block {
    uint64_t id;   /* number of the block in the pool; 0: no block begins at this page */
    uint64_t name; /* number of the block in the trace */
    size_t size;
    tn_watch_block watched;
} large_block;

static struct large {
    pthread_mutex_t lock;
    tn_pool *pool;
    char *base;
    large_block *blocks;      /* [capacity / LARGE_PAGE] the block that begins at each page */
    uint64_t capacity, fresh; /* bytes from `fresh` on were never used and are 0 */
    uint64_t count;
    size_t least;
    bool is_bound, prints_stats, has_reported;
    bool wants_watch; /* true: the table of holders is to be published at the next block */
    tn__watched watched;
} large = {.lock = PTHREAD_MUTEX_INITIALIZER};
static tn__trace large_trace = {.file = -1};

static __thread bool large_busy __attribute__((tls_model("initial-exec")));

/* Allocates memory for the pool itself, from the next allocator. */
static void *large_own(void *self, void *pointer, size_t old_size, size_t new_size,
                       size_t alignment) {
    (void)self, (void)old_size, (void)alignment;
    if (new_size != 0) return tn__next_allocator_find()->realloc(pointer, new_size);
    tn__next_allocator_find()->free(pointer);
    return NULL;
}

/* --- opening --- */

static void *large_map(uint64_t bytes) {
    void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Maps the range. The pool aligns offsets, so addresses can be aligned only as far as the start of
 * the range is. */
static char *large_map_aligned(uint64_t bytes) {
    char *all = large_map(bytes + LARGE_ALIGNMENT);
    if (all == NULL) return NULL;
    uint64_t front = -(uintptr_t)all & (LARGE_ALIGNMENT - 1);
    if (front > 0) munmap(all, front);
    munmap(all + front + bytes, LARGE_ALIGNMENT - front);
    return all + front;
}

static bool large_reserve(uint64_t bytes) {
    uint64_t table = bytes / LARGE_PAGE * sizeof *large.blocks;
    large.base = large_map_aligned(bytes);
    large.blocks = large.base != NULL ? large_map(table) : NULL;
    if (large.blocks != NULL) {
        large.capacity = bytes;
        return true;
    }
    if (large.base != NULL) munmap(large.base, bytes);
    return false;
}

/* Returns pages to the system; they are zero when they are touched again. */
static void large_release(void *self, uint64_t offset, uint64_t size) {
    (void)self;
    (void)madvise(large.base + offset, size, MADV_DONTNEED);
}

static bool large_create(void) {
    tn_context context = TN_CONTEXT_INIT;
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_error error = {0};
    const char *name = getenv("TENURE_POOL");
    context.allocator.resize = large_own;
    options.context = &context;
    options.pool = name != NULL && name[0] != '\0' ? name : "iteration";
    options.capacity = large.capacity;
    options.alignment = LARGE_PAGE;
    options.release = large_release;
    if (tn_pool_create(&options, &large.pool, &error) == TN_OK) return true;
    tn__message_print("TENURE_POOL", error.message);
    return false;
}

static void large_lock(void) {
    large_busy = true;
    pthread_mutex_lock(&large.lock);
}

static void large_unlock(void) {
    pthread_mutex_unlock(&large.lock);
    large_busy = false;
}

static void large_before_fork(void) { large_lock(); }
static void large_after_fork(void) { large_unlock(); }

/* Called in the child of a fork: the child writes no trace, because the parent continues to write
 * it. */
static void large_in_child(void) {
    tn__trace_leave(&large_trace);
    large.prints_stats = large.wants_watch = false;
    pthread_mutex_init(&large.lock, NULL);
    large_busy = false;
}

/* Whether this is the process that was started with these settings. It puts its process number into
 * the environment of the processes it starts, so it stays the first even if its first block comes
 * late. A program started by exec keeps the number. */
static bool large_is_first(void) {
    const char *first = getenv("TENURE_TRACE_FIRST");
    char number[32];
    snprintf(number, sizeof number, "%ld", (long)getpid());
    if (first == NULL) return setenv("TENURE_TRACE_FIRST", number, 1) == 0;
    return strcmp(first, number) == 0;
}

static void large_open_trace(void) {
    const char *path = getenv("TENURE_TRACE");
    tn__trace_open(&large_trace, path, false);
    if (large_trace.path != NULL && !large_is_first()) tn__trace_yield(&large_trace);
}

void tn__large_open(void) {
    uint64_t least = LARGE_LEAST, budget = 0;
    const char *prints_stats = getenv("TENURE_STATS");
    if (!tn__size_setting("TENURE_LEAST", &least) || !tn__size_setting("TENURE_BUDGET", &budget))
        return;
    large_busy = true;
    large.is_bound = budget != 0;
    large.prints_stats = prints_stats != NULL && prints_stats[0] != '\0';
    uint64_t range = large.is_bound ? budget / LARGE_PAGE * LARGE_PAGE : LARGE_RANGE;
    bool done = range != 0 && large_reserve(range);
    while (!done && !large.is_bound && range > LARGE_RANGE_LEAST) done = large_reserve(range /= 2);
    if (!done)
        tn__message_print("no range of addresses for large blocks", "they stay where they were");
    done = done && large_create() &&
           pthread_atfork(large_before_fork, large_after_fork, large_in_child) == 0;
    if (done) large_open_trace();
    large.wants_watch = tn__watch_wanted();
    large_busy = false;
    if (done) __atomic_store_n(&large.least, least > 1 ? least : 1, __ATOMIC_RELEASE);
}

/* --- blocks --- */

bool tn__large_wants(size_t size) {
    size_t least = __atomic_load_n(&large.least, __ATOMIC_ACQUIRE);
    return least != 0 && size >= least && !large_busy;
}

bool tn__large_owns(const void *pointer) {
    return large.base != NULL && (uintptr_t)pointer - (uintptr_t)large.base < large.capacity;
}

static large_block *large_at(const void *pointer) {
    return &large.blocks[((uintptr_t)pointer - (uintptr_t)large.base) / LARGE_PAGE];
}

/* Prints why the budget is not sufficient. Prints only once, because a program at its budget may
 * try repeatedly. */
static void large_print_failure(const tn_error *error) {
    if (large.is_bound && !large.has_reported) tn__message_print("TENURE_BUDGET", error->message);
    large.has_reported = true;
}

/* Counts a block in the table of holders. The table is created at the first block, so that a
 * process without large blocks has none. */
static void large_watch(large_block *block, size_t size, const void *caller) {
    if (large.wants_watch) {
        tn_context context = TN_CONTEXT_INIT;
        context.allocator.resize = large_own;
        tn__watched_open(&large.watched, "preload", &context);
        large.wants_watch = false;
    }
    tn_watch_label label = {.address = (uintptr_t)caller, .block_size = size};
    tn__watched_alloc(&large.watched, &label, size, 0, &block->watched);
}

/* Takes a block from the pool. *used receives the number of bytes at its start that were in use
 * before and may not be 0. */
static void *large_take(size_t size, size_t alignment, const void *caller, size_t *used) {
    tn_allocation got;
    tn_error error = {0};
    int kept = errno;
    large_lock();
    tn_pool_request request = {.size = size, .alignment = alignment};
    tn_status status = tn_pool_alloc(large.pool, &request, &got, &error);
    if (status == TN_OK) {
        large_block *block = large_at(large.base + got.offset);
        *block = (large_block){.id = got.id, .name = large.count++, .size = (size_t)got.size};
        uint64_t end = got.offset + got.size;
        *used = large.fresh <= got.offset ? 0 : (size_t)(large.fresh - got.offset);
        if (*used > size) *used = size;
        if (end > large.fresh) large.fresh = end;
        tn__trace_alloc(&large_trace, block->name, size, alignment, 0, NULL);
        large_watch(block, size, caller);
    } else {
        large_print_failure(&error);
    }
    large_unlock();
    errno = kept;
    return status == TN_OK ? large.base + got.offset : NULL;
}

void *tn__large_alloc(size_t size, size_t alignment, const void *caller, bool *is_bound) {
    size_t used;
    *is_bound = large.is_bound;
    return large_take(size, alignment, caller, &used);
}

void *tn__large_zeroed(size_t size, const void *caller, bool *is_bound) {
    size_t used = 0;
    *is_bound = large.is_bound;
    void *block = large_take(size, 0, caller, &used);
    return block != NULL ? memset(block, 0, used) : NULL;
}

size_t tn__large_size(const void *pointer) { return large_at(pointer)->size; }

void tn__large_free(void *pointer) {
    int kept = errno;
    large_block *block = large_at(pointer);
    tn_error error = {0};
    large_lock();
    if (tn_pool_free(large.pool, block->id, &error) != TN_OK) {
        tn__message_print("free of an address that is no block, or was freed before", "stopped");
        abort();
    }
    tn__trace_free(&large_trace, block->name);
    tn_watch_free(large.watched.watch, &block->watched);
    *block = (large_block){0};
    large_unlock();
    errno = kept;
}

/* --- the end of the process --- */

void tn__large_close(void) {
    if (large.pool == NULL) return;
    large_lock();
    tn__trace_close(&large_trace);
    tn__watched_close(&large.watched);
    large.wants_watch = false;
    if (large.prints_stats) tn__pool_print(large.pool, "large blocks");
    if (large.prints_stats) tn__trace_print(&large_trace);
    large_unlock();
}
