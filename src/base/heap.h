/* heap.h - binary heaps in arrays of the caller.
 *
 * A heap of `count` items has the first item, in an order that the caller defines, at index 0. Of
 * several items that are equal in this order, any one may come first. The functions are generated
 * by a macro for one type and one order, so they are as fast as functions written by hand. They
 * allocate nothing: the caller provides an array that is large enough, and counts the items. Cost:
 * O(log count) for each call.
 *
 *     static bool job_before(const job *a, const job *b) { return a->start < b->start; }
 *     TN__HEAP(job_heap, job, job_before)
 *
 *     job_heap_push(items, count++, added);
 *     job next = job_heap_pop(items, count--);
 */
#ifndef TN_BASE_HEAP_H
#define TN_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TN__HEAP_FUNCTION static inline __attribute__((unused))

/* Defines, with `before(const item *, const item *)`:
 *   void NAME_push(items, count, added)      a heap of `count` items gets one more
 *   item NAME_pop(items, count)              takes the first item; count - 1 items are left
 *   void NAME_rise(items, at, moved)         puts an item at `at` or further up, and overwrites
 *                                            the item at `at`
 *   void NAME_sink(items, count, at, moved)  puts an item at `at` or further down; the same
 * To replace the first item, let the new one sink from 0. To make a heap of an array, let the items
 * from count / 2 - 1 down to 0 sink from where they are. */
#define TN__HEAP(name, item, before)                                                               \
    TN__HEAP_FUNCTION bool name##_of_before(const void *of, const item *a, const item *b) {        \
        (void)of;                                                                                  \
        return before(a, b);                                                                       \
    }                                                                                              \
    TN__HEAP_OF(name##_of, const void, item, name##_of_before, TN__HEAP_UNPLACED)                  \
    TN__HEAP_FUNCTION void name##_rise(item *items, size_t at, item moved) {                       \
        name##_of_rise(NULL, items, at, moved);                                                    \
    }                                                                                              \
    TN__HEAP_FUNCTION void name##_sink(item *items, size_t count, size_t at, item moved) {         \
        name##_of_sink(NULL, items, count, at, moved);                                             \
    }                                                                                              \
    TN__HEAP_FUNCTION void name##_push(item *items, size_t count, item added) {                    \
        name##_of_rise(NULL, items, count, added);                                                 \
    }                                                                                              \
    TN__HEAP_FUNCTION item name##_pop(item *items, size_t count) {                                 \
        return name##_of_pop(NULL, items, count);                                                  \
    }

/* The same functions with an owner `of` in front of their parameters, which the order needs:
 * `before(of, a, b)`. `placed(of, item *, at)` is called for every item that gets a new index, so
 * that the owner can find items in the heap; TN__HEAP_UNPLACED: it does not. In addition:
 *   void NAME_remove(of, items, count, at)   takes out the item at index `at` */
#define TN__HEAP_OF(name, owner, item, before, placed)                                             \
    TN__HEAP_FUNCTION void name##_rise(owner *of, item *items, size_t at, item moved) {            \
        for (; at > 0 && before(of, &moved, &items[(at - 1) / 2]); at = (at - 1) / 2) {            \
            items[at] = items[(at - 1) / 2];                                                       \
            placed(of, &items[at], at);                                                            \
        }                                                                                          \
        items[at] = moved;                                                                         \
        placed(of, &items[at], at);                                                                \
    }                                                                                              \
    TN__HEAP_FUNCTION void name##_sink(owner *of, item *items, size_t count, size_t at,            \
                                       item moved) {                                               \
        for (size_t child; (child = 2 * at + 1) < count; at = child) {                             \
            if (child + 1 < count && before(of, &items[child + 1], &items[child])) child++;        \
            if (!before(of, &items[child], &moved)) break;                                         \
            items[at] = items[child];                                                              \
            placed(of, &items[at], at);                                                            \
        }                                                                                          \
        items[at] = moved;                                                                         \
        placed(of, &items[at], at);                                                                \
    }                                                                                              \
    TN__HEAP_FUNCTION void name##_push(owner *of, item *items, size_t count, item added) {         \
        name##_rise(of, items, count, added);                                                      \
    }                                                                                              \
    TN__HEAP_FUNCTION item name##_pop(owner *of, item *items, size_t count) {                      \
        item first = items[0];                                                                     \
        if (count > 1) name##_sink(of, items, count - 1, 0, items[count - 1]);                     \
        return first;                                                                              \
    }                                                                                              \
    TN__HEAP_FUNCTION void name##_remove(owner *of, item *items, size_t count, size_t at) {        \
        item moved = items[count - 1];                                                             \
        if (at == count - 1) return;                                                               \
        if (at > 0 && before(of, &moved, &items[(at - 1) / 2]))                                    \
            name##_rise(of, items, at, moved);                                                     \
        else                                                                                       \
            name##_sink(of, items, count - 1, at, moved);                                          \
    }

#define TN__HEAP_UNPLACED(of, item, at) ((void)(of))

#endif
