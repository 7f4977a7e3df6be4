/* stream_fences.h - determines which stream must wait for which other stream before freed bytes of
 * a device are used again.
 *
 * Operations are queued on streams, and a block is freed when its last use is queued, not when that
 * use is complete. On the stream of that use, the bytes may be reused at once, because later
 * operations run later. Another stream must wait for an event that was recorded when the bytes were
 * freed. So freed bytes are stored as disjoint ranges in order of address, each with the events
 * that end its use. Neighbouring ranges that one stream freed are merged, with the later event.
 *
 * As long as only the default stream was used, nothing is recorded at all.
 *
 * Threads: the caller holds a lock, and has made the device the current one.
 *
 * Cost: O(log n), plus the ranges that are affected, which are moved in an array. If an event
 * cannot be created, the stream or the whole device is waited for instead.
 */
#ifndef TN_DEVICE_TURNS_H
#define TN_DEVICE_TURNS_H

#include "base/base.h"

/* limit of streams that are remembered for a block, including its own */
enum { TN__STREAM_FENCES_STREAMS = 4 };

/* Functions for the streams and events of a library; handles are only passed on, and NULL is the
 * default stream. False: the call failed, and its error was cleared. */
typedef struct tn__stream_fences_ways {
    bool (*create)(void *self, void **event);
    void (*destroy)(void *self, void *event);
    bool (*record)(void *self, void *event, void *stream);
    /* makes later operations of `stream` wait until the event has passed */
    bool (*wait)(void *self, void *event, void *stream);
    bool (*finish)(void *self, void *stream); /* makes this thread wait until a stream is idle */
    /* makes this thread wait until an event has passed */
    tn_status (*reach)(void *self, void *event, tn_error *error);
    /* makes this thread wait until the device is idle */
    tn_status (*settle)(void *self, tn_error *error);
} tn__stream_fences_ways;

typedef struct tn__stream_fences {
    const tn_context *context;
    const tn__stream_fences_ways *ways;
    void *self;
    struct fences_range *ranges;
    struct fences_end *ends;
    size_t range_count, range_room, end_count, end_room;
    /* index of the first unused record of an end; unused records are linked, and their events are
     * reused */
    uint32_t vacant;
    bool has_others; /* a stream other than the default one was used */
    bool has_freed;  /* the default stream freed memory before another stream was used */
    /* memory was used on unknown streams, so the next tn__stream_fences_take waits for the
     * device */
    bool owes;
} tn__stream_fences;

/* Initialises the record. `context`, `ways` and `self`, the argument of `ways`, must outlive it. */
void tn__stream_fences_init(tn__stream_fences *fences, const tn_context *context,
                            const tn__stream_fences_ways *ways, void *self);
/* Destroys the events and frees the record. */
void tn__stream_fences_release(tn__stream_fences *fences);

/* Called before bytes [low, high) are handed to `stream`: makes it wait for the streams that used
 * them. Errors: E_IO (the device failed); then the bytes must not be handed out. */
tn_status tn__stream_fences_take(tn__stream_fences *fences, uint64_t low, uint64_t high,
                                 void *stream, tn_error *error);
/* Called when bytes [low, high) become free. They were used on streams[0..count), with 1 <= count
 * <= TN__STREAM_FENCES_STREAMS. */
void tn__stream_fences_give(tn__stream_fences *fences, uint64_t low, uint64_t high,
                            void *const *streams, uint32_t count);
/* Waits for everything queued on the device; afterwards no stream needs to wait for another one
 * before freed bytes are used again. */
tn_status tn__stream_fences_settle(tn__stream_fences *fences, tn_error *error);
/* Makes the next tn__stream_fences_take wait for everything queued on the device, because memory
 * was used on unknown streams. */
void tn__stream_fences_owe(tn__stream_fences *fences);

#endif
