/* preload.c - replaces the allocation functions of a process, for LD_PRELOAD.
 *
 *     LD_PRELOAD=libtenure_preload.so TENURE_TRACE=run.csv TENURE_BUDGET=2GiB python3 train.py
 *
 * Large blocks come from a pool (large.c), all others from the next allocator. The address of a
 * block shows from which of the two it came, so it is freed there.
 *
 * Source: the interface is that of ISO C and POSIX; glibc's manual, "Replacing malloc", lists what
 * a replacement must observe.
 */
#include "interop/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* --- the next allocator ----------------------------------------------------------------------- */

/* dlsym may itself allocate memory while it searches. Until it has returned, memory comes from the
 * early store, a static array and a counter, which takes no lock and calls nothing, so that it
 * works before any other code has run. */

static _Alignas(64) char early_store[64 << 10];
static size_t early_used;
static tn__next_allocator next_allocator;
static bool next_is_ready;

static void next_find(void *function, const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    /* ISO C has no cast from an object pointer to a function pointer */
    memcpy(function, &symbol, sizeof symbol);
}

const tn__next_allocator *tn__next_allocator_find(void) {
    if (__atomic_load_n(&next_is_ready, __ATOMIC_ACQUIRE)) return &next_allocator;
    tn__next_allocator found;
    next_find(&found.malloc, "malloc");
    next_find(&found.calloc, "calloc");
    next_find(&found.realloc, "realloc");
    next_find(&found.free, "free");
    next_find(&found.posix_memalign, "posix_memalign");
    next_find(&found.aligned_alloc, "aligned_alloc");
    next_find(&found.malloc_usable_size, "malloc_usable_size");
    next_allocator = found; /* two threads that search at once find the same functions */
    __atomic_store_n(&next_is_ready, true, __ATOMIC_RELEASE);
    return &next_allocator;
}

static bool next_allocator_ready(void) { return __atomic_load_n(&next_is_ready, __ATOMIC_ACQUIRE); }

/* Returns zeroed bytes of the early store, which is never freed; NULL: the store is used up. */
static void *early_alloc(size_t size, size_t alignment) {
    if (alignment < 16) alignment = 16;
    if (size > sizeof early_store || alignment > sizeof early_store) return NULL;
    size_t taken = (size + 15) / 16 * 16 + alignment;
    size_t at = __atomic_fetch_add(&early_used, taken, __ATOMIC_RELAXED);
    if (at + taken > sizeof early_store) return NULL;
    uintptr_t start = (uintptr_t)early_store + at;
    return (void *)((start + alignment - 1) / alignment * alignment);
}

static bool early_owns(const void *pointer) {
    uintptr_t at = (uintptr_t)pointer, begin = (uintptr_t)early_store;
    return at >= begin && at < begin + sizeof early_store;
}

/* Returns the bytes from a block of the early store to the end of the store; the block itself may
 * be smaller. */
static size_t early_rest(const void *pointer) {
    return (size_t)(early_store + sizeof early_store - (const char *)pointer);
}

/* --- the allocation functions that are replaced ----------------------------------------------- */

#define PRELOAD_EXPORT __attribute__((visibility("default")))

/* The functions are declared here instead of by <stdlib.h>, because its attributes are meant for
 * callers. */
PRELOAD_EXPORT void *malloc(size_t size);
PRELOAD_EXPORT void *calloc(size_t count, size_t size);
PRELOAD_EXPORT void *realloc(void *pointer, size_t size);
PRELOAD_EXPORT void *reallocarray(void *pointer, size_t count, size_t size);
PRELOAD_EXPORT void free(void *pointer);
PRELOAD_EXPORT int posix_memalign(void **pointer, size_t alignment, size_t size);
PRELOAD_EXPORT void *aligned_alloc(size_t alignment, size_t size);
PRELOAD_EXPORT void *memalign(size_t alignment, size_t size);
PRELOAD_EXPORT void *valloc(size_t size);
PRELOAD_EXPORT void *pvalloc(size_t size);
PRELOAD_EXPORT size_t malloc_usable_size(void *pointer);

static __thread bool preload_finding __attribute__((tls_model("initial-exec")));

/* Returns the next allocator; NULL while this thread is searching it. */
static const tn__next_allocator *preload_below(void) {
    if (next_allocator_ready()) return tn__next_allocator_find();
    if (preload_finding) return NULL;
    preload_finding = true;
    const tn__next_allocator *below = tn__next_allocator_find();
    preload_finding = false;
    return below;
}

static void *preload_refused(void) {
    errno = ENOMEM;
    return NULL;
}

/* The address to which the allocation function returns: the code that holds the block. */
#define PRELOAD_CALLER __builtin_return_address(0)

/* Serves a request that belongs to the pool. False: the next allocator must serve it. */
static bool preload_large(size_t size, size_t alignment, const void *caller, void **block) {
    bool is_bound;
    if (!tn__large_wants(size) || alignment > 1u << 30) return false;
    *block = tn__large_alloc(size, alignment, caller, &is_bound);
    return *block != NULL || is_bound;
}

static void *preload_alloc(size_t size, const void *caller) {
    void *block;
    if (preload_large(size, 0, caller, &block)) return block != NULL ? block : preload_refused();
    const tn__next_allocator *below = preload_below();
    return below != NULL ? below->malloc(size) : early_alloc(size, 0);
}

void *malloc(size_t size) { return preload_alloc(size, PRELOAD_CALLER); }

void *calloc(size_t count, size_t size) {
    size_t bytes;
    bool is_bound;
    if (__builtin_mul_overflow(count, size, &bytes)) return preload_refused();
    if (tn__large_wants(bytes)) {
        void *block = tn__large_zeroed(bytes, PRELOAD_CALLER, &is_bound);
        if (block != NULL || is_bound) return block != NULL ? block : preload_refused();
    }
    const tn__next_allocator *below = preload_below();
    return below != NULL ? below->calloc(count, size) : early_alloc(bytes, 0);
}

void free(void *pointer) {
    if (pointer == NULL || early_owns(pointer)) return;
    if (tn__large_owns(pointer)) {
        tn__large_free(pointer);
        return;
    }
    const tn__next_allocator *below = preload_below();
    if (below != NULL) below->free(pointer);
}

/* Moves a block to a new one of `size` bytes, and copies as many bytes as fit. */
static void *preload_move(void *pointer, size_t old_size, size_t size, const void *caller) {
    void *block = preload_alloc(size, caller);
    if (block == NULL) return NULL;
    memcpy(block, pointer, old_size < size ? old_size : size);
    free(pointer);
    return block;
}

static void *preload_resize(void *pointer, size_t size, const void *caller) {
    if (pointer == NULL) return preload_alloc(size, caller);
    if (early_owns(pointer)) {
        size_t rest = early_rest(pointer);
        return preload_move(pointer, rest, size, caller);
    }
    if (tn__large_owns(pointer)) {
        size_t old_size = tn__large_size(pointer);
        if (size == 0) {
            free(pointer);
            return NULL;
        }
        if (size <= old_size && size > old_size / 2) return pointer;
        int kept = errno;
        void *moved = preload_move(pointer, old_size, size, caller);
        if (moved != NULL || size > old_size) return moved;
        /* the old block is kept, because a smaller size fits into it under any budget */
        errno = kept;
        return pointer;
    }
    const tn__next_allocator *below = preload_below();
    if (below == NULL) return NULL;
    if (!tn__large_wants(size)) return below->realloc(pointer, size);
    return preload_move(pointer, below->malloc_usable_size(pointer), size, caller);
}

void *realloc(void *pointer, size_t size) { return preload_resize(pointer, size, PRELOAD_CALLER); }

void *reallocarray(void *pointer, size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes)
               ? preload_refused()
               : preload_resize(pointer, bytes, PRELOAD_CALLER);
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
    bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (!is_power || alignment % sizeof(void *) != 0) return EINVAL;
    void *block;
    if (preload_large(size, alignment, PRELOAD_CALLER, &block)) {
        if (block == NULL) return ENOMEM;
        *pointer = block;
        return 0;
    }
    const tn__next_allocator *below = preload_below();
    if (below != NULL) return below->posix_memalign(pointer, alignment, size);
    block = early_alloc(size, alignment);
    if (block == NULL) return ENOMEM;
    *pointer = block;
    return 0;
}

static void *preload_aligned(size_t alignment, size_t size, const void *caller) {
    void *block;
    bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (is_power && preload_large(size, alignment, caller, &block))
        return block != NULL ? block : preload_refused();
    const tn__next_allocator *below = preload_below();
    return below != NULL ? below->aligned_alloc(alignment, size)
                         : early_alloc(size, is_power ? alignment : 0);
}

void *aligned_alloc(size_t alignment, size_t size) {
    return preload_aligned(alignment, size, PRELOAD_CALLER);
}

void *memalign(size_t alignment, size_t size) {
    size_t power = sizeof(void *); /* any alignment is accepted, and rounded up to a power of two */
    while (power < alignment && power <= SIZE_MAX / 4) power *= 2;
    return preload_aligned(power, size, PRELOAD_CALLER);
}

void *valloc(size_t size) {
    return preload_aligned((size_t)sysconf(_SC_PAGESIZE), size, PRELOAD_CALLER);
}

void *pvalloc(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole;
    if (__builtin_add_overflow(size, page - 1, &whole)) return preload_refused();
    return preload_aligned(page, whole / page * page, PRELOAD_CALLER);
}

size_t malloc_usable_size(void *pointer) {
    if (pointer == NULL) return 0;
    if (early_owns(pointer)) return 0;
    if (tn__large_owns(pointer)) return tn__large_size(pointer);
    const tn__next_allocator *below = preload_below();
    return below != NULL ? below->malloc_usable_size(pointer) : 0;
}

__attribute__((constructor)) static void preload_open(void) { tn__large_open(); }
__attribute__((destructor)) static void preload_close(void) { tn__large_close(); }
