/* stream_fences.h - determines which stream must wait for which before freed bytes of a device are
 * used again.
 *
 * Operations are queued on streams, and a block is freed when its last use is queued, not when it
 * is done. On the same stream the bytes may be reused at once, because later operations run later.
 * Another stream must wait for an event that was recorded when the bytes were freed. So freed bytes
 * are stored as disjoint ranges in order of address, each with the events that end its use.
 * Neighbouring ranges that one stream freed are merged, with the later event.
 *
 * As long as only the default stream was used, nothing is recorded at all.
 *
 * Threads: the caller holds a lock, and has made the device the current one.
 * Cost: O(log n), plus the ranges that are affected, which are moved in an array. If an event
 * cannot be created, the stream or the whole device is waited for instead.
 */
#ifndef TN_DEVICE_TURNS_H
#define TN_DEVICE_TURNS_H

#include "base/base.h"

enum { TN__STREAM_FENCES_STREAMS = 4 }; /* streams that a block remembers, including its own */

/* Functions for the streams and events of a library; handles are only passed through, and NULL is
 * the default stream. False: the call failed, and the error was cleared. */
typedef struct tn__stream_fences_ways {
    bool (*create)(void *self, void **event);
    void (*destroy)(void *self, void *event);
    bool (*record)(void *self, void *event, void *stream);
    bool (*wait)(void *self, void *event, void *stream); /* delays later operations of `stream` */
    bool (*finish)(void *self, void *stream);            /* this thread waits for a stream */
    /* this thread waits for an event */
    tn_status (*reach)(void *self, void *event, tn_error *error);
    /* this thread waits for the device */
    tn_status (*settle)(void *self, tn_error *error);
} tn__stream_fences_ways;

typedef struct tn__stream_fences {
    const tn_context *context;
    const tn__stream_fences_ways *ways;
    void *self;
    struct fences_range *ranges;
    struct fences_end *ends;
    size_t range_count, range_room, end_count, end_room;
    uint32_t vacant; /* list of unused ends; their events are reused */
    bool has_others; /* a stream other than the default one was seen */
    bool has_freed;  /* the default stream freed something before that */
    bool owes;       /* unknown uses exist: the next take waits for the device */
} tn__stream_fences;

/* `context`, `ways` and `self`, their argument, outlive it. */
void tn__stream_fences_init(tn__stream_fences *fences, const tn_context *context,
                            const tn__stream_fences_ways *ways, void *self);
/* Destroys its events. */
void tn__stream_fences_release(tn__stream_fences *fences);

/* Before bytes [low, high) are handed to `stream`: makes it wait for the streams that used them.
 * Errors: E_IO (the device failed); then they must not be handed out. */
tn_status tn__stream_fences_take(tn__stream_fences *fences, uint64_t low, uint64_t high,
                                 void *stream, tn_error *error);
/* [low, high) are free, and were used on streams[0..count), 1 <= count <=
 * TN__STREAM_FENCES_STREAMS. */
void tn__stream_fences_give(tn__stream_fences *fences, uint64_t low, uint64_t high,
                            void *const *streams, uint32_t count);
/* Waits for everything queued on the device; afterwards no stream needs to wait. */
tn_status tn__stream_fences_settle(tn__stream_fences *fences, tn_error *error);
/* Does the same later, before any memory is handed out: memory was used on unknown streams. */
void tn__stream_fences_owe(tn__stream_fences *fences);

#endif
