/* memory.c - allocation through a single function of the context, growing arrays, and the bump
 * arena.
 *
 * All memory of a call is allocated with the context's function `resize`, so that a caller can
 * count it, limit it, or make the n-th request fail. The size of a block is passed when it is
 * freed, so no header is stored with it.
 */
#include "base/base.h"

#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_ALIGNMENT 16u
#define MEMORY_LARGE ((size_t)8 << 20) /* blocks of at least this size get large pages */
#define ARENA_CHUNK_MIN ((size_t)4 << 10)
#define ARENA_CHUNK_MAX ((size_t)32 << 20)

/* Requests large pages for a block. In arrays of 10^7 items that are visited at random, page faults
 * and address translation take half of the time with pages of 4 KiB. It is only a request, and a
 * failure does no harm. It covers whole pages around the block, so that the block stays a single
 * mapping, which can grow without a copy. */
static void memory_advise(void *pointer, size_t size) {
#ifdef MADV_HUGEPAGE
    if (pointer == NULL || size < MEMORY_LARGE) return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)pointer;
    uintptr_t first = start / page * page, last = (start + size + page - 1) / page * page;
    (void)madvise((void *)first, last - first, MADV_HUGEPAGE);
#else
    (void)pointer;
    (void)size;
#endif
}

static void *memory_default_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                                   size_t alignment) {
    (void)self;
    (void)old_size;
    tn_assert(alignment <= MEMORY_ALIGNMENT);
    (void)alignment;
    if (new_size != 0) {
        void *moved = realloc(pointer, new_size);
        memory_advise(moved, new_size);
        return moved;
    }
    free(pointer);
    return NULL;
}

void tn__options(void *options, size_t size, const void *given) {
    size_t known;
    if (given == NULL) return;
    memcpy(&known, given, sizeof known);
    memcpy(options, given, known < size ? known : size);
}

tn_context tn__context(const tn_context *context) {
    tn_context complete = {0};
    tn__options(&complete, sizeof complete, context);
    complete.struct_size = sizeof complete;
    if (complete.allocator.resize == NULL) complete.allocator.resize = memory_default_resize;
    return complete;
}

void *tn__resize(const tn_context *context, void *pointer, size_t old_size, size_t new_size) {
    bool given = context != NULL && context->struct_size >= offsetof(tn_context, self) &&
                 context->allocator.resize != NULL;
    if (!given) return memory_default_resize(NULL, pointer, old_size, new_size, MEMORY_ALIGNMENT);
    const tn_allocator *allocator = &context->allocator;
    return allocator->resize(allocator->self, pointer, old_size, new_size, MEMORY_ALIGNMENT);
}

void *tn__alloc(const tn_context *context, size_t size) {
    return tn__resize(context, NULL, 0, size != 0 ? size : 1);
}

void *tn__alloc_array(const tn_context *context, size_t count, size_t item) {
    size_t size;
    if (__builtin_mul_overflow(count, item, &size) || size > PTRDIFF_MAX) return NULL;
    void *pointer = tn__alloc(context, size);
    if (pointer != NULL) memset(pointer, 0, size);
    return pointer;
}

void tn__free(const tn_context *context, void *pointer, size_t size) {
    if (pointer != NULL) tn__resize(context, pointer, size != 0 ? size : 1, 0);
}

bool tn__reserve(const tn_context *context, void *data, size_t *room, size_t need, size_t item) {
    if (need <= *room) return true;
    size_t wanted = *room < 8 ? 8 : *room, size;
    while (wanted < need) {
        if (wanted > SIZE_MAX / 2) return false;
        wanted *= 2;
    }
    if (__builtin_mul_overflow(wanted, item, &size) || size > PTRDIFF_MAX) return false;
    void *old;
    memcpy(&old, data, sizeof old);
    void *grown = tn__resize(context, old, *room * item, size);
    if (grown == NULL) return false;
    memcpy(data, &grown, sizeof grown);
    *room = wanted;
    return true;
}

/* --- the arena: chunks in a list, the newest first --- */

typedef struct arena_chunk {
    struct arena_chunk *older;
    size_t size;
} arena_chunk;

void tn__arena_init(tn__arena *arena, const tn_context *context) {
    *arena = (tn__arena){.context = context};
}

static size_t arena_round(size_t size) {
    return (size + (MEMORY_ALIGNMENT - 1)) & ~(size_t)(MEMORY_ALIGNMENT - 1);
}

void *tn__arena_alloc(tn__arena *arena, size_t size) {
    if (size > PTRDIFF_MAX / 2) return NULL;
    size = arena_round(size != 0 ? size : 1);
    if (size > arena->left) {
        size_t header = arena_round(sizeof(arena_chunk));
        size_t room = arena->chunks == NULL ? ARENA_CHUNK_MIN : 2 * arena->chunks->size;
        if (room > ARENA_CHUNK_MAX) room = ARENA_CHUNK_MAX;
        if (room < size + header) room = size + header;
        arena_chunk *chunk = tn__alloc(arena->context, room);
        if (chunk == NULL) return NULL;
        *chunk = (arena_chunk){.older = arena->chunks, .size = room};
        arena->chunks = chunk;
        arena->next = (char *)chunk + header;
        arena->left = room - header;
    }
    void *pointer = arena->next;
    arena->next += size;
    arena->left -= size;
    memset(pointer, 0, size);
    return pointer;
}

void *tn__arena_array(tn__arena *arena, size_t count, size_t item) {
    size_t size;
    if (__builtin_mul_overflow(count, item, &size)) return NULL;
    return tn__arena_alloc(arena, size);
}

void *tn__arena_copy(tn__arena *arena, const void *bytes, size_t size) {
    void *copy = tn__arena_alloc(arena, size);
    if (copy != NULL && size != 0) memcpy(copy, bytes, size);
    return copy;
}

char *tn__arena_string(tn__arena *arena, const char *text, size_t length) {
    if (length > PTRDIFF_MAX / 4) return NULL;
    char *copy = tn__arena_alloc(arena, length + 1);
    if (copy != NULL && length != 0) memcpy(copy, text, length);
    return copy;
}

void tn__arena_release(tn__arena *arena) {
    for (arena_chunk *chunk = arena->chunks; chunk != NULL;) {
        arena_chunk *older = chunk->older;
        tn__free(arena->context, chunk, chunk->size);
        chunk = older;
    }
    tn__arena_init(arena, arena->context);
}
