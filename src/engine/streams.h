/* streams.h - what goes on beside the walk: copies to the host's memory and back, calls of other
 * ranks, and who waits.
 *
 * Stream 0 is the walk itself. What another stream does without a kernel (SWAP_OUT, SWAP_IN, SEND
 * to SCATTER, WAIT) is queued on a stream of the device and goes on by itself; the walk waits for
 * it where the program says so, by a signal, and nowhere else. Kernels run in the walk whatever
 * their stream, one after the other as the list has them, each behind all of its stream: the list
 * is one of the orders in which a program may run.
 */
#ifndef TN_ENGINE_STREAMS_H
#define TN_ENGINE_STREAMS_H

#include <pthread.h>

#include <tenure/engine.h>

#include "engine/io.h"
#include "engine/store.h"
#include "engine/tell.h"
#include "program/program.h"

/* Memory for what is swapped out: of the host, or of a device of its own. */
typedef struct tn__host {
    const tn_context *context;
    uint8_t *bytes; /* NULL: it is on `device` */
    tn_device *device;
    tn_address address;
    tn_stream
        *streams[TN_STREAM_MAX]; /* of that device: each works where the stream of ours does */
    double bytes_per_s;          /* of the link to it, each way; 0: as fast as it is */
    double free_s[2];            /* when each way of the link is free again, under `lock` */
    pthread_mutex_t lock;        /* exists where the device does */
    uint64_t size, reached;      /* bytes; the highest that a copy touched */
    uint64_t *offset;            /* [items] */
} tn__host;

typedef struct tn__item { /* a swap, a call of other ranks, or a wait on a stream of its own */
    uint32_t step;
    uint32_t stream; /* 0: the walk does it */
    uint32_t after;  /* an item of another stream that it starts behind; TN_NONE: none */
    bool copies, talks, fetches;
    tn_fence *fence; /* passed when it has ended; NULL on stream 0 */
    /* of the run in hand */
    struct tn__streams *streams;
    uint8_t *data, *other; /* on the device, as kernels see it */
    uint64_t bytes, other_bytes;
    double start_s, talk_s, fetch_s;
} tn__item;

typedef struct tn__streams {
    const tn_program *program;
    const tn__executor *executor;
    const tn__memory *memory;
    tn__tell *tell;
    const tn_exchange *exchange; /* NULL: nobody talks */
    const tn__store *store;
    tn__host host;
    tn__item *items; /* by step */
    uint32_t item_count;
    uint32_t *item_of;   /* [steps] or TN_NONE */
    uint32_t *signal_of; /* [steps] the item whose signal it waits for, or TN_NONE */
    uint32_t *tail_of; /* [steps] in the walk: the last item before it of its stream, or TN_NONE */
    tn_stream *streams[TN_STREAM_MAX];
    uint32_t *going; /* [going_count] items that are queued, as far as is known not over */
    uint32_t going_count;
    struct tn__known *known;      /* NULL: nobody asks */
    double stalled_s;             /* of the last run: that the walk waited for copies */
    uint64_t out_bytes, in_bytes; /* of the last run */
    uint64_t talk_count, talk_bytes, fetch_bytes;
} tn__streams;

/* Streams, fences and the host's memory of a program, all of it taken here.
 * options  host_capacity, swap_device, exchange; poison: it will be asked what is known to be over
 * Errors: E_EXHAUSTED (host_capacity), those of the swap device, E_NO_MEMORY. */
tn_status tn__streams_make(tn__streams *streams, const tn_program *program,
                           const tn__executor *executor, const tn__memory *memory, tn__tell *tell,
                           const tn__store *store, const tn_engine_options *options,
                           tn__arena *arena);
void tn__streams_release(tn__streams *streams); /* waits for what still goes on; zeros are fine */
void tn__streams_start(tn__streams *streams);   /* of a run */

/* Whether the step is one that goes on by itself: it is queued, and its end told. */
static inline bool tn__streams_apart(const tn__streams *streams, uint32_t step) {
    if (streams->item_count == 0 || streams->item_of[step] == TN_NONE) return false;
    return streams->items[streams->item_of[step]].stream != 0;
}
tn_status tn__streams_queue(tn__streams *streams, uint32_t step);
/* Before a step of the walk: waits for what it has to come after. */
tn_status tn__streams_before(tn__streams *streams, uint32_t step);
/* A swap in the walk; a call of other ranks, a reading there. */
tn_status tn__streams_swap(tn__streams *streams, uint32_t step);
tn_status tn__streams_fetch(tn__streams *streams, uint32_t step);
double tn__fetch_seconds(const tn__streams *streams); /* of the last run */
tn_status tn__streams_talk(tn__streams *streams, uint32_t step);
/* The run is over, well or not: waits for all streams. Errors: the first that they met. */
tn_status tn__streams_finish(tn__streams *streams, tn_error *error);

/* --- another device for what is swapped out: swaps.c -------------------------------------------
 */

/* Opens the device that is named, and takes host->size bytes there. */
tn_status tn__swaps_open(tn__host *host, const tn_engine_options *options,
                         const tn_context *context, tn_error *error);
void tn__swaps_close(tn__host *host);                  /* zeros are fine */
tn_status tn__swaps_copy(void *item, tn_error *error); /* there or back, in whatever thread */

/* --- other ranks: talk.c -----------------------------------------------------------------------
 */

/* Whether the exchange (NULL: there is none) can do it. Errors: E_UNSUPPORTED, E_INVALID. */
tn_status tn__talk_check(const tn_exchange *exchange, const tn_graph *graph,
                         const tn_instruction *it, tn_error *error);
void tn__talk_begin(tn__streams *streams, tn__item *item); /* operands as they are now */
tn_status tn__talk(void *item, tn_error *error);           /* in whatever thread */
double tn__talk_seconds(const tn__streams *streams);       /* of the last run */

/* --- what is being copied ----------------------------------------------------------------------
 */

/* An item that still reads or writes one of these bytes (as kernels see them); TN_NONE: none. */
uint32_t tn__streams_holder(tn__streams *streams, const uint8_t *data, uint64_t bytes);
/* Waits until none does. */
tn_status tn__streams_settle(tn__streams *streams, const uint8_t *data, uint64_t bytes);

/* known.c, poison: the walk comes to a step; whether the program says that an item is over there.
 */
tn_status tn__known_make(tn__streams *streams, const uint32_t *giver, tn__arena *arena);
void tn__known_start(tn__streams *streams);
void tn__known_arrive(tn__streams *streams, uint32_t step);
bool tn__known_over(const tn__streams *streams, uint32_t item);

#endif
