/* preload.c - replaces the allocation functions of a process, for LD_PRELOAD.
 *
 *     LD_PRELOAD=libtenure_preload.so TENURE_TRACE=run.csv TENURE_BUDGET=2GiB python3 train.py
 *
 * Large blocks come from a pool (large.h), all others from the allocator below (family.h). The
 * address of a block says which of the two it came from, so it is freed there.
 * Source: the interface is that of ISO C and POSIX; glibc's manual, "Replacing malloc", lists what
 * a replacement must observe.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "interop/preload/family.h"
#include "interop/preload/large.h"

#define PRELOAD_EXPORT __attribute__((visibility("default")))

/* Declared here instead of by <stdlib.h>: its attributes are meant for callers. */
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

/* NULL while this thread is looking for it. */
static const tn__family *preload_below(void) {
    if (tn__family_ready()) return tn__family_below();
    if (preload_finding) return NULL;
    preload_finding = true;
    const tn__family *below = tn__family_below();
    preload_finding = false;
    return below;
}

static void *preload_refused(void) {
    errno = ENOMEM;
    return NULL;
}

/* Serves a request that belongs to the pool. False: the allocator below must serve it. */
static bool preload_large(size_t size, size_t alignment, void **block) {
    bool is_bound;
    if (!tn__large_wants(size) || alignment > 1u << 30) return false;
    *block = tn__large_alloc(size, alignment, &is_bound);
    return *block != NULL || is_bound;
}

void *malloc(size_t size) {
    void *block;
    if (preload_large(size, 0, &block)) return block != NULL ? block : preload_refused();
    const tn__family *below = preload_below();
    return below != NULL ? below->malloc(size) : tn__family_early(size, 0);
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    bool is_bound;
    if (__builtin_mul_overflow(count, size, &bytes)) return preload_refused();
    if (tn__large_wants(bytes)) {
        void *block = tn__large_zeroed(bytes, &is_bound);
        if (block != NULL || is_bound) return block != NULL ? block : preload_refused();
    }
    const tn__family *below = preload_below();
    return below != NULL ? below->calloc(count, size) : tn__family_early(bytes, 0);
}

void free(void *pointer) {
    if (pointer == NULL || tn__family_is_early(pointer)) return;
    if (tn__large_owns(pointer)) {
        tn__large_free(pointer);
        return;
    }
    const tn__family *below = preload_below();
    if (below != NULL) below->free(pointer);
}

/* Moves to a new block, and copies as many bytes as fit. */
static void *preload_move(void *pointer, size_t old_size, size_t size) {
    void *block = malloc(size);
    if (block == NULL) return NULL;
    memcpy(block, pointer, old_size < size ? old_size : size);
    free(pointer);
    return block;
}

void *realloc(void *pointer, size_t size) {
    if (pointer == NULL) return malloc(size);
    if (tn__family_is_early(pointer)) {
        size_t rest = tn__family_early_rest(pointer);
        return preload_move(pointer, rest, size);
    }
    if (tn__large_owns(pointer)) {
        size_t old_size = tn__large_size(pointer);
        if (size == 0) {
            free(pointer);
            return NULL;
        }
        if (size <= old_size && size > old_size / 2) return pointer;
        int kept = errno;
        void *moved = preload_move(pointer, old_size, size);
        if (moved != NULL || size > old_size) return moved;
        errno = kept; /* a smaller size fits the old block under any budget */
        return pointer;
    }
    const tn__family *below = preload_below();
    if (below == NULL) return NULL;
    if (!tn__large_wants(size)) return below->realloc(pointer, size);
    return preload_move(pointer, below->malloc_usable_size(pointer), size);
}

void *reallocarray(void *pointer, size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? preload_refused()
                                                       : realloc(pointer, bytes);
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
    bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (!is_power || alignment % sizeof(void *) != 0) return EINVAL;
    void *block;
    if (preload_large(size, alignment, &block)) {
        if (block == NULL) return ENOMEM;
        *pointer = block;
        return 0;
    }
    const tn__family *below = preload_below();
    if (below != NULL) return below->posix_memalign(pointer, alignment, size);
    block = tn__family_early(size, alignment);
    if (block == NULL) return ENOMEM;
    *pointer = block;
    return 0;
}

void *aligned_alloc(size_t alignment, size_t size) {
    void *block;
    bool is_power = alignment != 0 && (alignment & (alignment - 1)) == 0;
    if (is_power && preload_large(size, alignment, &block))
        return block != NULL ? block : preload_refused();
    const tn__family *below = preload_below();
    return below != NULL ? below->aligned_alloc(alignment, size)
                         : tn__family_early(size, is_power ? alignment : 0);
}

void *memalign(size_t alignment, size_t size) {
    size_t power = sizeof(void *); /* any alignment is accepted, and raised to a power of two */
    while (power < alignment && power <= SIZE_MAX / 4) power *= 2;
    return aligned_alloc(power, size);
}

void *valloc(size_t size) { return aligned_alloc((size_t)sysconf(_SC_PAGESIZE), size); }

void *pvalloc(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole;
    if (__builtin_add_overflow(size, page - 1, &whole)) return preload_refused();
    return aligned_alloc(page, whole / page * page);
}

size_t malloc_usable_size(void *pointer) {
    if (pointer == NULL) return 0;
    if (tn__family_is_early(pointer)) return 0;
    if (tn__large_owns(pointer)) return tn__large_size(pointer);
    const tn__family *below = preload_below();
    return below != NULL ? below->malloc_usable_size(pointer) : 0;
}

__attribute__((constructor)) static void preload_open(void) { tn__large_open(); }
__attribute__((destructor)) static void preload_close(void) { tn__large_close(); }
