/* streams.h - work parallel to the walk: copies to the host's memory and back, calls of other
 * ranks, fetches, and waiting for them.
 *
 * Stream 0 is the walk itself. Instructions of other streams that need no kernel (SWAP_OUT,
 * SWAP_IN, SEND to SCATTER, WAIT) are queued on a stream of the device and run asynchronously; the
 * walk waits for them only at the signals of the program. Kernels run in the walk whatever their
 * stream, in the order of the list, each after all earlier work of its stream: the list is one of
 * the valid orders of the program.
 */
#ifndef TN_ENGINE_STREAMS_H
#define TN_ENGINE_STREAMS_H

#include <pthread.h>

#include <tenure/engine.h>

#include "engine/io.h"
#include "engine/store.h"
#include "engine/tell.h"
#include "program/program.h"

/* Memory for swapped-out tensors: on the host, or on a device of its own. */
typedef struct tn__host {
    const tn_context *context;
    uint8_t *bytes; /* NULL: it is on `device` */
    tn_device *device;
    tn_address address;
    tn_stream *streams[TN_STREAM_MAX]; /* streams of that device, one for each of ours */
    double bytes_per_s;                /* bandwidth of its link, each way; 0: not limited */
    double free_s[2];       /* when each direction of the link is free next, under `lock` */
    pthread_mutex_t lock;   /* exists if the device does */
    uint64_t size, reached; /* bytes; the end of the highest copy so far */
    uint64_t *offset;       /* [items] */
} tn__host;

typedef struct tn__item { /* a swap, a call of other ranks, or a wait on a stream of its own */
    uint32_t step;
    uint32_t stream; /* 0: the walk does it */
    uint32_t after;  /* an item of another stream that must end before it starts; TN_NONE: none */
    bool copies, talks, fetches;
    tn_fence *fence; /* passed when the item has ended; NULL on stream 0 */
    /* for functions that get only the item */
    struct tn__streams *streams;
    uint8_t *data, *other; /* addresses on the device, as kernels see it */
    uint64_t bytes, other_bytes;
    double start_s, talk_s, fetch_s;
} tn__item;

typedef struct tn__streams {
    const tn_program *program;
    const tn__executor *executor;
    const tn__memory *memory;
    tn__tell *tell;
    const tn_exchange *exchange; /* NULL: no other ranks */
    const tn__store *store;
    tn__host host;
    tn__item *items; /* by step */
    uint32_t item_count;
    uint32_t *item_of;   /* [steps] or TN_NONE */
    uint32_t *signal_of; /* [steps] the item that gives the signal it waits for, or TN_NONE */
    uint32_t *tail_of;   /* [steps] in the walk: the last earlier item of its stream, or TN_NONE */
    tn_stream *streams[TN_STREAM_MAX];
    uint32_t *going; /* [going_count] items that are queued and not known to be over */
    uint32_t going_count;
    struct tn__known *known;      /* NULL: not asked for */
    double stalled_s;             /* seconds the walk waited for copies in the last run */
    uint64_t out_bytes, in_bytes; /* bytes copied in the last run */
    uint64_t talk_count, talk_bytes, fetch_bytes;
} tn__streams;

/* Takes the streams, fences and host memory of a program.
 *
 *  options  host_capacity, host_layout, swap_device, exchange
 *  poison   the known state of each item will be asked for
 *
 * Errors: E_EXHAUSTED (host_capacity), E_CONFLICT (host_layout), those of the swap device,
 * E_NO_MEMORY.
 */
tn_status tn__streams_make(tn__streams *streams, const tn_program *program,
                           const tn__executor *executor, const tn__memory *memory, tn__tell *tell,
                           const tn__store *store, const tn_engine_options *options,
                           tn__arena *arena);
void tn__streams_release(tn__streams *streams); /* waits for unfinished work; accepts zeros */
void tn__streams_start(tn__streams *streams);   /* a run begins */

/* Whether the step runs asynchronously: it is queued, and the trace records its end later. */
static inline bool tn__streams_apart(const tn__streams *streams, uint32_t step) {
    if (streams->item_count == 0 || streams->item_of[step] == TN_NONE) return false;
    return streams->items[streams->item_of[step]].stream != 0;
}
tn_status tn__streams_queue(tn__streams *streams, uint32_t step);
/* Before a step of the walk: waits for the items that must end before it. */
tn_status tn__streams_before(tn__streams *streams, uint32_t step);
/* Swaps in the walk; the others make a call of other ranks or fetch there. */
tn_status tn__streams_swap(tn__streams *streams, uint32_t step);
tn_status tn__streams_fetch(tn__streams *streams, uint32_t step);
double tn__fetch_seconds(const tn__streams *streams); /* in the last run */
tn_status tn__streams_talk(tn__streams *streams, uint32_t step);
/* The run is over, well or not: waits for all streams. Errors: the first one of any stream. */
tn_status tn__streams_finish(tn__streams *streams, tn_error *error);

/* --- swaps.c: another device for swapped-out tensors --- */

/* Opens the named device and takes host->size bytes there. */
tn_status tn__swaps_open(tn__host *host, const tn_engine_options *options,
                         const tn_context *context, tn_error *error);
void tn__swaps_close(tn__host *host); /* accepts zeros */
/* copies in either direction, in any thread */
tn_status tn__swaps_copy(void *item, tn_error *error);

/* --- talk.c: other ranks --- */

/* Checks that the exchange (NULL: none) supports it. Errors: E_UNSUPPORTED, E_INVALID. */
tn_status tn__talk_check(const tn_exchange *exchange, const tn_graph *graph,
                         const tn_instruction *it, tn_error *error);
void tn__talk_begin(tn__streams *streams, tn__item *item); /* records the current operands */
tn_status tn__talk(void *item, tn_error *error);           /* in any thread */
double tn__talk_seconds(const tn__streams *streams);       /* in the last run */

/* --- bytes that are being copied --- */

/* An item that still reads or writes one of these bytes (addresses as kernels see them); TN_NONE:
 * none. */
uint32_t tn__streams_holder(tn__streams *streams, const uint8_t *data, uint64_t bytes);
/* Waits until no item does. */
tn_status tn__streams_settle(tn__streams *streams, const uint8_t *data, uint64_t bytes);

/* known.c, for poison: the walk reaches a step; whether the program guarantees that an item is over
 * there. */
tn_status tn__known_make(tn__streams *streams, const uint32_t *giver, tn__arena *arena);
void tn__known_start(tn__streams *streams);
void tn__known_arrive(tn__streams *streams, uint32_t step);
bool tn__known_over(const tn__streams *streams, uint32_t item);

#endif
