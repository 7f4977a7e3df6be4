/* family.h - the next allocator below this library: libc's, or another preloaded one. */
#ifndef TN_PRELOAD_FAMILY_H
#define TN_PRELOAD_FAMILY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tn__family {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    size_t (*malloc_usable_size)(void *);
} tn__family;

/* Found at the first call. dlsym may itself allocate memory meanwhile: tn__family_ready returns
 * false until the search is done, and until then memory comes from tn__family_early. */
const tn__family *tn__family_below(void);
bool tn__family_ready(void);
/* Zeroed bytes of a small store that is never freed; NULL: the store is used up. */
void *tn__family_early(size_t size, size_t alignment);
bool tn__family_is_early(const void *pointer);
/* The bytes from a block of that store to the end of the store; the block itself may be smaller. */
size_t tn__family_early_rest(const void *pointer);

#endif
