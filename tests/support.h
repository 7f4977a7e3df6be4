/* support.h - what tests of all rooms share: cmocka, an allocator that counts and fails. */
#ifndef TN_TESTS_SUPPORT_H
#define TN_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tenure/status.h>

/* Hands out malloc'ed memory, counts what is held, and fails the request number `fail_at`. Calls
 * with several threads may use it. */
typedef struct faulty {
    size_t held;
    uint64_t requests, fail_at; /* fail_at 0: never */
} faulty;

static inline void *faulty_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                                  size_t alignment) {
    faulty *memory = self;
    (void)alignment;
    if (new_size == 0) {
        __atomic_sub_fetch(&memory->held, old_size, __ATOMIC_RELAXED);
        free(pointer);
        return NULL;
    }
    if (__atomic_add_fetch(&memory->requests, 1, __ATOMIC_RELAXED) == memory->fail_at) return NULL;
    void *grown = realloc(pointer, new_size);
    if (grown != NULL) __atomic_add_fetch(&memory->held, new_size - old_size, __ATOMIC_RELAXED);
    return grown;
}

static inline tn_context faulty_context(faulty *memory) {
    tn_context context = TN_CONTEXT_INIT;
    context.allocator.resize = faulty_resize;
    context.allocator.self = memory;
    return context;
}

#endif
