/* family.c - finds the next allocator, and provides memory until it is found.
 *
 * The early store is a static array and a counter. It takes no lock and calls nothing, so that it
 * works before any other code has run. */
#include "interop/preload/family.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

static _Alignas(64) char family_store[64 << 10];
static size_t family_used;
static tn__family family_below;
static bool family_is_ready;

static void family_find(void *function, const char *name) {
    void *symbol = dlsym(RTLD_NEXT, name);
    /* ISO C has no cast from object to function pointer */
    memcpy(function, &symbol, sizeof symbol);
}

const tn__family *tn__family_below(void) {
    if (__atomic_load_n(&family_is_ready, __ATOMIC_ACQUIRE)) return &family_below;
    tn__family found;
    family_find(&found.malloc, "malloc");
    family_find(&found.calloc, "calloc");
    family_find(&found.realloc, "realloc");
    family_find(&found.free, "free");
    family_find(&found.posix_memalign, "posix_memalign");
    family_find(&found.aligned_alloc, "aligned_alloc");
    family_find(&found.malloc_usable_size, "malloc_usable_size");
    family_below = found; /* two threads that search at once find the same */
    __atomic_store_n(&family_is_ready, true, __ATOMIC_RELEASE);
    return &family_below;
}

bool tn__family_ready(void) { return __atomic_load_n(&family_is_ready, __ATOMIC_ACQUIRE); }

void *tn__family_early(size_t size, size_t alignment) {
    if (alignment < 16) alignment = 16;
    if (size > sizeof family_store || alignment > sizeof family_store) return NULL;
    size_t taken = (size + 15) / 16 * 16 + alignment;
    size_t at = __atomic_fetch_add(&family_used, taken, __ATOMIC_RELAXED);
    if (at + taken > sizeof family_store) return NULL;
    uintptr_t start = (uintptr_t)family_store + at;
    return (void *)((start + alignment - 1) / alignment * alignment);
}

bool tn__family_is_early(const void *pointer) {
    uintptr_t at = (uintptr_t)pointer, begin = (uintptr_t)family_store;
    return at >= begin && at < begin + sizeof family_store;
}

size_t tn__family_early_rest(const void *pointer) {
    return (size_t)(family_store + sizeof family_store - (const char *)pointer);
}
