/* turns.h - who has to wait for whom before freed bytes of a device are used again.
 *
 * Work is queued on streams, and a block is freed when what uses it is queued, not when it is done.
 * On its own stream the bytes may be used again at once, since what is queued later is done later.
 * On another one that work has to wait for an event, recorded when they were freed. So freed bytes
 * are known as ranges, disjoint and in order of address, each with the events that end its use;
 * neighbours that one stream freed are one range with the later event.
 *
 * While nobody has used another stream than the default one nothing is recorded at all.
 *
 * Threads: the caller holds a lock, and has made the device the current one.
 * Cost: O(log n) and the ranges that are met, which are moved in an array. Where an event cannot be
 * had, the stream or the whole device is waited for instead.
 */
#ifndef TN_DEVICE_TURNS_H
#define TN_DEVICE_TURNS_H

#include "base/base.h"

enum { TN__TURNS_STREAMS = 4 }; /* that may have used a block, its own among them */

/* Streams and events as somebody has them: handles that are only handed through; NULL is the
 * default stream. False: it did not work, and whoever is called has forgotten it again. */
typedef struct tn__turns_ways {
    bool (*create)(void *self, void **event);
    void (*destroy)(void *self, void *event);
    bool (*record)(void *self, void *event, void *stream);
    bool (*wait)(void *self, void *event, void *stream); /* what `stream` is given from now on */
    bool (*finish)(void *self, void *stream);            /* this thread waits for a stream */
    tn_status (*reach)(void *self, void *event, tn_error *error); /* this thread, for an event */
    tn_status (*settle)(void *self, tn_error *error);             /* this thread, for them all */
} tn__turns_ways;

typedef struct tn__turns {
    const tn_context *context;
    const tn__turns_ways *ways;
    void *self;
    struct turns_range *ranges;
    struct turns_end *ends;
    size_t range_count, range_room, end_count, end_room;
    uint32_t vacant; /* list of ends that no range has; their events are used again */
    bool has_others; /* a stream other than the default one was seen */
    bool has_freed;  /* the default one freed something before that */
    bool owes;       /* something is not known: the device is waited for before the next take */
} tn__turns;

/* `context`, `ways` and `self`, which they are called with, outlive it. */
void tn__turns_init(tn__turns *turns, const tn_context *context, const tn__turns_ways *ways,
                    void *self);
/* Destroys its events. */
void tn__turns_release(tn__turns *turns);

/* Before bytes [low, high) are handed to `stream`: makes it wait for whoever had them. Errors: E_IO
 * (the device failed); they must not be handed out then. */
tn_status tn__turns_take(tn__turns *turns, uint64_t low, uint64_t high, void *stream,
                         tn_error *error);
/* [low, high) are free, and were used on streams[0..count), 1 <= count <= TN__TURNS_STREAMS. */
void tn__turns_give(tn__turns *turns, uint64_t low, uint64_t high, void *const *streams,
                    uint32_t count);
/* Waits for all that was queued on the device; then nobody has to wait for anything. */
tn_status tn__turns_settle(tn__turns *turns, tn_error *error);
/* The same later, before anything is handed out: something was used nobody knows where. */
void tn__turns_owe(tn__turns *turns);

#endif
