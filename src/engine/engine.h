/* engine.h - the engine, which runs a program: its parts, and the walk over the instructions.
 *
 *   executor.c       runs one operator: operands, the call (no program, no plan; executor.h)
 *   statics.c        weights, constants and folded tensors (no program, no plan; statics.h)
 *   flow.c           control flow: regions of If, Loop and Scan
 *   places.c         where buffers lie, in a plan or a pool
 *   on_demand.c      passive mode: a pool that is too small, with copies to the host
 *   spans.c          buffers that begin and end at each step: poison, pools
 *   trace_events.c   events for the trace
 *   io.c             arrays of the caller, memory of the device
 *   streams.c        copies to the host's memory and back, parallel to the walk; the waits for them
 *   rank_messages.c  calls of other ranks, in the walk or parallel to it
 *   store.c          files of fetched weights; memory/device/ranges.h reads them
 *   codecs/          how tensors are encoded
 *   encode.c         encoded forms in a run; tensors that do not fit their form; shares of zeros
 *   check.c          check that the engine can run a program
 *   walk.c           the walk over instructions
 *   weights.c        static memory of a program: its readers, its blocks, its data between runs
 *   engine.c         set-up, a run, measurements
 */
#ifndef TN_ENGINE_ENGINE_H
#define TN_ENGINE_ENGINE_H

#include <tenure/graph.h>
#include <tenure/engine.h>
#include <tenure/pool.h>
#include <tenure/program.h>

#include <pthread.h>

#include "base/base.h"
#include "base/lists.h"
#include "engine/executor.h"
#include "engine/statics.h"
#include "memory/device/ranges.h"
#include "program/program.h"

/* --- flow.c: regions of If, Loop and Scan, their nesting, and the work at their beginning, after
 * each turn and at their end --- */

typedef struct tn__control { /* an operator with blocks */
    tn_op_id op;
    /* step of its APPLY; first step of its regions, or `own` if there are no regions */
    uint32_t own, entry;
    uint32_t first_region, region_count;
    uint32_t ran; /* region, or TN_NONE */
    uint64_t trips, most;
    bool going;
} tn__control;

typedef struct tn__region_frame {
    uint32_t control, region;
    uint32_t
        inner; /* index into entering of the controls inside that may begin at its first step */
} tn__region_frame;

typedef struct tn__flow {
    const tn_graph *graph;
    tn__executor *executor; /* holds the operands that are carried from turn to turn */
    tn_region *regions;
    uint32_t region_count, control_count, frame_count;
    tn__control *controls;
    uint32_t *entering_at, *entering; /* [steps + 2], controls that may begin at a step */
    uint32_t *control_of;             /* [operators] or TN_NONE */
    tn__region_frame *frames;
} tn__flow;

/* Errors: E_UNSUPPORTED (nothing runs such an operator), E_NO_MEMORY. */
tn_status tn__flow_make(tn__flow *flow, const tn_program *program, tn__executor *executor,
                        tn__arena *arena);

/* `begin`: an operator with blocks begins; *region is the region that runs, or TN_NONE. `turn`: a
 * region has run; *again is whether it runs again. `end`: the operator's own step. */
tn_status tn__control_begin(tn__flow *flow, uint32_t control, uint32_t *region);
tn_status tn__control_turn(tn__flow *flow, uint32_t control, bool *again);
tn_status tn__control_end(tn__flow *flow, uint32_t control);

/* --- encode.c: encoded forms, and tensors that turn out too large for their form --- */

/* Host memory of a tensor that did not fit its form. */
typedef struct tn__spill {
    uint8_t *bytes;
    uint64_t room;
    bool here; /* the tensor's data lies here now */
} tn__spill;

/* The error of a lossy form, over the encodings that were measured. */
typedef struct tn__loss {
    tn_tensor_id tensor; /* that was encoded */
    tn_codec codec;
    uint64_t bytes, form_bytes;
    uint64_t measured; /* encodings; 0: none, or not a lossy form */
    uint64_t kept;     /* of these: above the limit, so kept on the host unencoded */
    double largest, relative;
} tn__loss;

typedef struct tn__forms {
    tn__executor *executor;
    const tn_context *context;
    tn__spill *spills;   /* [count] indexed by the tensor that is the form */
    tn__loss *losses;    /* [count] likewise */
    double error_limit;  /* relative error of a form; 0: none */
    uint64_t run;        /* runs that began before this one */
    uint32_t count;      /* of tensors; 0: nothing is encoded */
    uint64_t host_left;  /* bytes of host memory that may still be taken */
    uint64_t host_bytes; /* bytes of host memory that were taken */
    /* counts of one run */
    uint64_t raw_count, spill_count;
} tn__forms;

/* host_left: UINT64_MAX means no limit. `context` and `executor` must outlive the forms. */
tn_status tn__forms_make(tn__forms *forms, const tn_program *program, tn__executor *executor,
                         const tn_context *context, uint64_t host_left, double error_limit,
                         tn__arena *arena);
void tn__forms_release(tn__forms *forms); /* accepts zeros */
void tn__forms_start(tn__forms *forms);   /* a run begins */
/* ENCODE or DECODE. Errors: E_EXHAUSTED (neither the form nor the host has room), those of codecs.
 */
tn_status tn__forms_code(tn__forms *forms, const tn_instruction *it);

/* --- places.c: at the offsets of a layout, or at addresses that a pool chooses --- */

typedef struct tn__held { /* bytes of the arena */
    uint64_t lo, hi;
} tn__held;

typedef struct tn__places {
    const tn_occupancy *occupancy;
    uint8_t *arena; /* address as kernels see it */
    uint64_t bytes; /* bytes of the arena */
    uint32_t body_count;
    uint32_t static_count; /* the last bodies are static memory inside the arena */
    /* [bodies] from the start of the arena; with a pool: the current offset */
    uint64_t *offset;
    uint64_t *block; /* [bodies] id of the pool's block */
    uint32_t *tag;   /* [bodies] the pool's tag that names the holder */
    /* [bodies] the first live range in the body, which names it; TN_NONE: no live range */
    uint32_t *named;
    uint32_t *life_at;               /* [steps + 2] live ranges by their first step */
    tn_pool *pool;                   /* NULL: a layout */
    struct tn__on_demand *on_demand; /* NULL: a full pool is an error */
    tn__held *held;                  /* blocks of the pool that outlast a run */
    uint32_t held_count;
} tn__places;

/* Builds the tables, with the offsets of `layout` (NULL: none yet). Errors: E_NO_MEMORY,
 * E_UNSUPPORTED (the place of a view is not known). */
tn_status tn__places_make(tn__places *places, const tn_occupancy *occupancy,
                          const tn_layout *layout, tn__arena *arena, tn_error *error);
/* Makes the arena a pool of `capacity` bytes; destroy it with `release`. `held_room` blocks may be
 * held. Errors: those of the pool. */
tn_status tn__places_pool(tn__places *places, const char *name, uint64_t capacity,
                          uint32_t held_room, const tn_context *context, tn__arena *arena,
                          tn_error *error);
void tn__places_release(tn__places *places);
/* Takes a block of the pool that outlasts a run. */
tn_status tn__places_hold(tn__places *places, const tn_static_block *block, uint64_t *offset,
                          tn_error *error);

/* Marks a body as static memory inside the arena, which outlasts a run. */
void tn__places_keep(tn__places *places, tn_body_id body);

/* The live range that names a body; NULL: none. */
const tn_life *tn__places_life(const tn__places *places, tn_body_id body);
static inline bool tn__places_is_static(const tn__places *places, tn_body_id body) {
    return body >= places->body_count - places->static_count;
}
static inline uint64_t tn__places_of(const tn__places *places, const tn_life *life) {
    return places->offset[life->body] + life->delta;
}

/* --- trace_events.c: events for the trace; without a trace every function here does nothing --- */

typedef struct tn__tell {
    tn_trace *trace; /* NULL: nothing is recorded */
    const tn_occupancy *occupancy;
    uint64_t (*live)[TN_KIND_COUNT]; /* [steps] the plan's curve */
    uint64_t now[TN_KIND_COUNT];     /* bytes in use by kind, after ALLOC and FREE of blocks */
    uint32_t run;                    /* number of the run */
} tn__tell;

tn_status tn__tell_make(tn__tell *tell, tn_trace *trace, const tn_occupancy *occupancy,
                        tn__arena *arena, tn_error *error);
/* Records an instruction that ran; `bytes`: bytes that it moved across a link, if any. */
void tn__tell_step(tn__tell *tell, uint32_t step, double start_s, uint64_t bytes);
/* Records the beginning or end of a body; `life` names it (NULL: it has no live range). */
void tn__tell_block(tn__tell *tell, uint32_t step, tn_body_id body, const tn_life *life,
                    bool frees);
/* Records a block of static memory; `tell` is a tn__tell. */
void tn__tell_static(void *tell, tn_tensor_id tensor, uint64_t bytes);

/* --- io.c: copies the caller's arrays to and from operands, over the device's stream --- */

typedef struct tn__device_memory { /* memory of the device, and its address as kernels see it */
    tn_device *device, *own; /* own: destroyed with the memory; NULL: the device is the caller's */
    tn_stream *stream;
    tn_address arena_address, static_address;
    uint8_t *arena, *statics;
    uint64_t arena_bytes;
} tn__device_memory;

typedef struct tn__io {
    const tn__executor *executor;
    const tn__device_memory *memory;
    uint32_t *index; /* [tensors] position among the inputs; TN_NONE */
    const tn_array *inputs;
    tn_array *outputs; /* outputs of the current run */
    uint32_t output_count;
} tn__io;

/* `inside`: static memory lies in the arena. Errors: E_EXHAUSTED. */
tn_status tn__memory_take(tn__device_memory *memory, tn_device *device, uint64_t arena_bytes,
                          uint64_t static_bytes, bool inside, tn_error *error);
void tn__memory_release(tn__device_memory *memory);
/* Converts an address as kernels see it to an address on the device. */
tn_address tn__memory_address(const tn__device_memory *memory, const void *data);

tn_status tn__io_make(tn__io *io, const tn__executor *executor, const tn__device_memory *memory,
                      tn__arena *arena);
/* Takes the arrays of a run and checks their number, types and sizes. Errors: E_INVALID. */
tn_status tn__io_begin(tn__io *io, const tn_array *inputs, uint32_t input_count, tn_array *outputs,
                       uint32_t output_count);
tn_status tn__io_put(const tn__io *io, tn_tensor_id id);
/* Copies the tensor's current data to every output that it is. */
tn_status tn__io_get(const tn__io *io, tn_tensor_id id);
/* Copies static outputs after the last step, because no instruction writes them. */
tn_status tn__io_get_statics(const tn__io *io);

/* --- store.c: static tensors that are not resident ---
 *
 * They lie in a file, from which a run fetches them (FETCH). If the model's file holds a tensor
 * exactly as the kernels read it, it is read from there. All other tensors (packed, folded,
 * widened, generated) are made once, when the engine is set up, and kept in a file without a name.
 * So a run works the same way in both cases: it reads one range to its place in the arena, on a
 * separate stream. */

typedef struct tn__stored { /* a tensor, in the form that its readers want */
    tn_tensor_id tensor;
    tn_op_id op; /* the operator that it is packed for; TN_NONE: not packed */
    uint64_t bytes, offset;
    uint32_t file;
    /* range in `slots`: the addresses at which kernels look for a packed form */
    uint32_t first, count;
} tn__stored;

typedef struct tn__store {
    const tn_context *context;
    const tn_graph *graph;
    const tn_engine_options *options;
    tn__stored *list; /* [count]; 0: the program fetches nothing */
    uint32_t count;
    uint32_t tensors;  /* number of tensors of the graph; a program may have more of its own */
    uint32_t *of;      /* [tensors] index into `list`; TN_NONE: it is resident */
    void ***slots;     /* slots of all tensors */
    tn__ranges *files; /* [file_count] open files; the first holds the forms that were made here */
    size_t file_count, file_room;
    uint64_t formed; /* bytes of the first file */
    uint8_t *map;    /* mapping of the first file while it is filled */
} tn__store;

/* Finds the tensors that the program fetches and their places, and makes room for those that are in
 * no file: their places in `statics` are then places in the file of forms. The options must outlive
 * the store.
 * Errors: E_UNSUPPORTED (kernels want a tensor in several forms, a pool), E_IO, E_NO_MEMORY.
 */
tn_status tn__store_make(tn__store *store, const tn_program *program, tn__statics *statics,
                         const tn_engine_options *options, tn__arena *arena, tn_error *error);
void tn__store_release(tn__store *store); /* accepts zeros */
/* Checks that live ranges have the sizes of the data that is fetched into them. Errors: E_INVALID.
 */
tn_status tn__store_check(const tn__store *store, const tn__places *places, tn_error *error);
/* tn_engine_options.read for the filling: by direct reads if a file has the bytes. */
tn_status tn__store_read(void *store, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                         uint64_t size, tn_error *error);
/* All forms have been made. */
tn_status tn__store_filled(tn__store *store, tn__statics *statics, tn_error *error);

static inline const tn__stored *tn__store_find(const tn__store *store, tn_tensor_id tensor) {
    bool known = store->count > 0 && tensor < store->tensors;
    uint32_t at = known ? store->of[tensor] : TN_NONE;
    return at == TN_NONE ? NULL : &store->list[at];
}
/* Announces the place of its packed form to all kernels that read it. */
void tn__store_bind(const tn__store *store, const tn__stored *stored, uint8_t *place);
/* Reads all of the tensor, in any thread, no faster than the options allow. */
tn_status tn__store_fetch(const tn__store *store, const tn__stored *stored, uint8_t *place,
                          tn_error *error);

/* --- streams.c: work parallel to the walk ---
 *
 * This is: copies to the host's memory and back, calls of other ranks, fetches, and waiting for
 * them. Stream 0 is the walk itself. Instructions of other streams that need no kernel (SWAP_OUT,
 * SWAP_IN, SEND to SCATTER, WAIT) are queued on a stream of the device and run asynchronously; the
 * walk waits for them only at the signals of the program. Kernels run in the walk whatever their
 * stream, in the order of the list, each after all earlier work of its stream: the list is one of
 * the valid orders of the program. */

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

typedef struct
    tn__stream_item { /* a swap, a call of other ranks, or a wait on a stream of its own */
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
} tn__stream_item;

typedef struct tn__streams {
    const tn_program *program;
    const tn__executor *executor;
    const tn__device_memory *memory;
    tn__tell *tell;
    const tn_exchange *exchange; /* NULL: no other ranks */
    const tn__store *store;
    tn__host host;
    tn__stream_item *items; /* by step */
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
                           const tn__executor *executor, const tn__device_memory *memory,
                           tn__tell *tell, const tn__store *store, const tn_engine_options *options,
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

/* --- rank_messages.c: other ranks --- */

/* Checks that the exchange (NULL: none) supports it. Errors: E_UNSUPPORTED, E_INVALID. */
tn_status tn__talk_check(const tn_exchange *exchange, const tn_graph *graph,
                         const tn_instruction *it, tn_error *error);
void tn__talk_begin(tn__streams *streams, tn__stream_item *item); /* records the current operands */
tn_status tn__talk(void *item, tn_error *error);                  /* in any thread */
double tn__talk_seconds(const tn__streams *streams);              /* in the last run */

/* --- bytes that are being copied --- */

/* An item that still reads or writes one of these bytes (addresses as kernels see them); TN_NONE:
 * none. */
uint32_t tn__streams_holder(tn__streams *streams, const uint8_t *data, uint64_t bytes);
/* Waits until no item does. */
tn_status tn__streams_settle(tn__streams *streams, const uint8_t *data, uint64_t bytes);

/* For poison: the walk reaches a step; whether the program guarantees that an item is over
 * there. */
void tn__known_arrive(tn__streams *streams, uint32_t step);
bool tn__known_over(const tn__streams *streams, uint32_t item);

/* --- spans.c: begins and ends the bytes that buffers hold, from step to step --- */

/* Bytes of the arena that a body holds during [first, last). */
typedef struct tn__step_span {
    uint32_t first, last;
    uint64_t lo, hi; /* bytes of the body */
    tn_body_id body;
    bool live;
} tn__step_span;

typedef struct tn__spans {
    tn__places *places;
    tn__tell *tell;
    tn__streams *streams;
    uint32_t steps;
    tn__step_span *spans;
    uint32_t count;         /* 0: spans are not tracked */
    tn__lists begins, ends; /* [steps + 1] the spans with this step as `first`, as `last` */
    uint8_t *owned;         /* [arena] poison: state of each byte; NULL: no poison */
    /* [late_count] ended spans with bytes that a copy still holds */
    uint32_t *late;
    uint32_t late_count;
} tn__spans;

tn_status tn__spans_make(tn__spans *spans, tn__places *places, tn__tell *tell, tn__streams *streams,
                         bool poison, tn__arena *arena, tn_error *error);
void tn__spans_start(tn__spans *spans); /* a run begins: before step 0 */
/* Step `from` has run (TN_NONE: none yet); `to` comes next: the following step or any other. */
tn_status tn__spans_move(tn__spans *spans, uint32_t from, uint32_t to, tn_error *error);
/* Poison: checks that free bytes close to these bytes of the arena were not written. */
tn_status tn__spans_around(const tn__spans *spans, uint64_t lo, uint64_t bytes, const char *name,
                           tn_error *error);
void tn__spans_finish(tn__spans *spans); /* a run has ended, well or not: releases all spans */
/* All copies are over. Poison: checks that free bytes were not written. */
tn_status tn__spans_check(tn__spans *spans, tn_error *error);

/* --- the engine --- */

struct tn_engine {
    tn_context context;
    tn__arena tables; /* memory of all tables of the parts below */
    tn_engine_options options;
    const tn_program *program;
    const tn_kernels *kernels;
    tn__executor executor; /* its `error` is that of the current run */
    tn__statics statics;
    tn__store store;
    tn__device_memory memory;
    tn__places places;
    tn__flow flow;
    tn__spans spans;
    tn__tell tell;
    tn__io io;
    tn__streams streams;
    tn__forms forms;
    struct tn__bound *views; /* [view_count] operands that are views of static tensors */
    uint32_t view_count;
    uint64_t planned_peak, highest; /* bytes of the arena */
    uint64_t run_count;
    double seconds; /* duration of the last run */
};

typedef struct tn__bound { /* an operand, and its address when a run begins */
    tn_tensor_id tensor;
    void *data;
} tn__bound;

/* check.c. Errors: E_UNSUPPORTED (with the instruction). */
tn_status tn__engine_check(const tn_engine *engine);

/* walk.c */
tn_status tn__engine_steps(tn_engine *engine);
tn_status tn__engine_where(const tn_engine *engine, tn_status status, uint32_t step);

/* encode.c: counts the zeros in the operator's outputs, which it has just written, into
 * options.zeros. */
void tn__engine_count_zeros(const tn_engine *engine, tn_op_id id);

/* weights.c. The lists are in `arena`. */
tn_status tn__program_readers(const tn_program *program, tn__arena *arena, tn__readers *readers,
                              tn_error *error);
/* The arena becomes a pool, with static memory in it. */
tn_status tn__engine_make_pool(tn_engine *engine);
/* Static memory lies where the layout has its bodies. Errors: E_INVALID (it has others). */
tn_status tn__engine_place_statics(tn_engine *engine);

#endif
