/* streams.h - the streams of a trace on a device, and fences between them, for turns.
 *
 * A stream is identified by its index among the stream numbers of the trace; its handle in turns is
 * that index. So the first is the default stream, and a trace of one stream records no fences.
 */
#ifndef TN_PLAY_STREAMS_H
#define TN_PLAY_STREAMS_H

#include <tenure/play.h>

#include "memory/device/stream_fences.h"

typedef struct tn__play_streams {
    const tn_context *context;
    tn_device *device;
    uint32_t *numbers; /* [count] stream numbers of the trace, ascending */
    uint32_t count;
    tn_stream **streams; /* [count] */
    tn_stream *here;     /* inline stream: this thread waits in its place */
    tn_fence *crossing;
    uint64_t waits; /* number of waits of one stream for another so far */
} tn__play_streams;

/* Errors: E_INVALID (too many), E_NO_MEMORY, those of tn_stream_create. Close in any case. */
tn_status tn__play_streams_open(tn__play_streams *streams, const tn_context *context,
                                tn_device *device, const tn_pool_event *events, uint64_t count,
                                tn_error *error);
void tn__play_streams_close(tn__play_streams *streams); /* waits for them */
/* The index of a stream number of the trace. Cost: O(log count). */
uint32_t tn__play_streams_place(const tn__play_streams *streams, uint32_t number);
/* Work given to `to` from now on runs after all work given to `from`. This is the program's own
 * synchronisation and is not counted. */
tn_status tn__play_streams_cross(tn__play_streams *streams, uint32_t from, uint32_t to,
                                 tn_error *error);
/* Waits until all streams are done. Errors: the first that any stream had. */
tn_status tn__play_streams_wait(tn__play_streams *streams, tn_error *error);

static inline void *tn__play_handle(uint32_t place) { return (void *)(uintptr_t)place; }

extern const tn__stream_fences_ways tn__play_ways; /* self: the streams */

#endif
