/* engine.h - the engine, which runs a program: its files, and the types and functions that they
 * share.
 *
 *   executor.c       runs one operator: binds its operands and calls its kernel; knows no program
 *                    and no plan (executor.h)
 *   statics.c        places and fills weights, constants and folded tensors; knows no program and
 *                    no plan (statics.h)
 *   flow.c           control flow: regions of If, Loop and Scan
 *   places.c         addresses of buffers, from a layout or from a pool
 *   on_demand.c      passive mode: a pool that is too small, with copies to the host
 *   spans.c          begins and ends the live ranges of buffers at each step, for pools and for the
 *                    detection of stray writes
 *   trace_events.c   records events in a trace
 *   io.c             copies to and from the caller's arrays; allocates memory on the device
 *   streams.c        copies to the host and back that run at the same time as kernels, and the
 *                    waits for them
 *   rank_messages.c  messages between ranks
 *   store.c          reads weights from files during a run, with memory/device/ranges.h
 *   row_cache.c      reads rows of weights into a cache when a kernel asks for them
 *   codecs/          encodings of tensors
 *   encode.c         runs ENCODE and DECODE, keeps tensors that do not fit their encoded form,
 *                    counts zeros
 *   check.c          checks that the engine can run a program
 *   walk.c           the loop that runs the instructions of a program in order
 *   weights.c        static memory of a program: the operators that read it, its blocks, its data
 *                    between runs
 *   engine.c         creates an engine, runs it, reports measurements
 */
#ifndef TN_ENGINE_ENGINE_H
#define TN_ENGINE_ENGINE_H

#include <tenure/graph.h>
#include <tenure/engine.h>
#include <tenure/pool.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include <pthread.h>

#include "base/base.h"
#include "base/lists.h"
#include "engine/executor.h"
#include "engine/row_cache.h"
#include "engine/statics.h"
#include "memory/device/ranges.h"
#include "program/program.h"

/* --- flow.c: nesting of the regions (instructions of a block) of If, Loop and Scan, and the work
 * at the beginning of such an operator, after each of its iterations and at its end --- */

/* An operator with blocks (If, Loop or Scan) and the state of its execution. */
typedef struct tn__control {
    tn_op_id op;
    /* `own`: the step of the instruction (opcode APPLY) that runs the operator itself. `entry`:
     * first step of its regions, the instructions of its blocks; equal to `own` if it has no
     * regions. */
    uint32_t own, entry;
    uint32_t first_region, region_count;
    /* for an If: the region (instructions of a block) of the branch that was taken; TN_NONE: no
     * branch ran */
    uint32_t ran;
    uint64_t trips, most;
    bool going;
} tn__control;

typedef struct tn__region_frame {
    uint32_t control, region;
    /* index into tn__flow.entering: the first operator with blocks that lies inside the region and
     * may begin at the region's first step */
    uint32_t inner;
} tn__region_frame;

typedef struct tn__flow {
    const tn_graph *graph;
    /* runs the operators; the operands of `executor` include the values that a loop carries between
     * iterations */
    tn__executor *executor;
    tn_region *regions;
    uint32_t region_count, control_count, frame_count;
    tn__control *controls;
    /* `entering`: the operators with blocks (indices into `controls`), grouped by the step at which
     * they may begin. `entering_at` has steps + 2 entries: where the group of each step begins. */
    uint32_t *entering_at, *entering;
    /* for each operator: its index in `controls`, or TN_NONE if it has no blocks */
    uint32_t *control_of;
    tn__region_frame *frames;
} tn__flow;

/* Builds the tables of control flow of a program. Errors: E_UNSUPPORTED (an operator with blocks
 * that the engine cannot run), E_NO_MEMORY. */
tn_status tn__flow_make(tn__flow *flow, const tn_program *program, tn__executor *executor,
                        tn__arena *arena);

/* The engine calls these functions while it runs an operator with blocks. `begin` starts the
 * operator and sets *region to the region that runs first, or TN_NONE if none does. `turn` is
 * called at the end of a region and sets *again to whether the region runs once more. `end` is
 * called at the step of the operator's APPLY and copies its results. */
tn_status tn__control_begin(tn__flow *flow, uint32_t control, uint32_t *region);
tn_status tn__control_turn(tn__flow *flow, uint32_t control, bool *again);
tn_status tn__control_end(tn__flow *flow, uint32_t control);

/* --- encode.c: tensors stored in an encoded form, and those that turn out too large for the
 * planned size of their form --- */

/* Host memory for one tensor that was too large for its encoded form. */
typedef struct tn__spill {
    uint8_t *bytes;
    uint64_t room;
    bool here; /* whether the host memory `bytes` has the tensor's current data */
} tn__spill;

/* The error of one lossy form: the largest over all encodings that were measured. */
typedef struct tn__loss {
    tn_tensor_id tensor; /* the tensor that was encoded */
    tn_codec codec;
    uint64_t bytes, form_bytes;
    uint64_t measured; /* number of measured encodings; 0 also for a form that is not lossy */
    /* number of measured encodings with an error above the limit; the tensor was kept on the host
     * instead */
    uint64_t kept;
    double largest, relative;
} tn__loss;

typedef struct tn__forms {
    tn__executor *executor;
    const tn_context *context;
    /* array indexed by the tensor of an encoded form: host memory that is used instead of the
     * form */
    tn__spill *spills;
    /* array indexed by the tensor of an encoded form: the measured errors of this form */
    tn__loss *losses;
    double error_limit; /* largest relative error that a lossy form may have; 0: no limit */
    uint64_t run;       /* number of runs that have begun, including the current one */
    uint32_t count; /* number of tensors in `spills` and `losses`; 0: the program encodes nothing */
    uint64_t host_left;  /* bytes of host memory that may still be allocated */
    uint64_t host_bytes; /* bytes of host memory that are allocated */
    /* counts of the current run: forms that store their tensor unencoded, tensors copied to the
     * host */
    uint64_t raw_count, spill_count;
} tn__forms;

/* Prepares for the ENCODE and DECODE instructions of a program. `host_left`: bytes of host memory
 * that may be allocated; UINT64_MAX means no limit. `context` and `executor` must outlive
 * `forms`. */
tn_status tn__forms_make(tn__forms *forms, const tn_program *program, tn__executor *executor,
                         const tn_context *context, uint64_t host_left, double error_limit,
                         tn__arena *arena);
void tn__forms_release(tn__forms *forms); /* releases memory; accepts a struct of zeros */
void tn__forms_start(tn__forms *forms);   /* resets the state at the beginning of a run */
/* Runs an ENCODE or DECODE instruction. Errors: E_EXHAUSTED (the tensor fits neither its form nor
 * the host memory), and the errors of the codecs. */
tn_status tn__forms_code(tn__forms *forms, const tn_instruction *it);

/* --- places.c: where the buffers are: at the offsets of a layout, or at addresses that a pool
 * chooses --- */

typedef struct tn__held { /* a range of bytes of the arena */
    uint64_t lo, hi;
} tn__held;

typedef struct tn__places {
    const tn_occupancy *occupancy;
    uint8_t *arena; /* address of the arena, as kernels use it */
    uint64_t bytes; /* size of the arena */
    uint32_t body_count;
    uint32_t static_count; /* the last `static_count` buffers are static memory inside the arena */
    /* for each buffer: its offset from the start of the arena; with a pool, the offset of its
     * current block */
    uint64_t *offset;
    uint64_t *block; /* for each buffer: id of its block in the pool */
    uint32_t *tag;   /* for each buffer: tag that identifies it in reports of the pool */
    /* for each buffer: its first live range, which gives it its name; TN_NONE: it has no live
     * range */
    uint32_t *named;
    /* where the live ranges that begin at each step start in the list of live ranges; steps + 2
     * entries */
    uint32_t *life_at;
    /* manages the arena; NULL: offsets are those of a layout, which was computed before the run */
    tn_pool *pool;
    struct tn__on_demand *on_demand; /* passive mode; NULL: a full pool is an error */
    tn__held *held;                  /* blocks of the pool that stay allocated after a run */
    uint32_t held_count;
} tn__places;

/* Builds the tables of buffers, with the offsets of `layout`. `layout` may be NULL if a pool will
 * choose the offsets. Errors: E_NO_MEMORY, E_UNSUPPORTED (the offset of a view is not known before
 * the run). */
tn_status tn__places_make(tn__places *places, const tn_occupancy *occupancy,
                          const tn_layout *layout, tn__arena *arena, tn_error *error);
/* Creates a pool of `capacity` bytes that manages the arena; tn__places_release destroys it. At
 * most `held_room` blocks can be allocated with tn__places_hold. Errors: those of the pool. */
tn_status tn__places_pool(tn__places *places, const char *name, uint64_t capacity,
                          uint32_t held_room, const tn_context *context, tn__arena *arena,
                          tn_error *error);
void tn__places_release(tn__places *places);
/* Allocates a block of the pool that stays allocated after a run. */
tn_status tn__places_hold(tn__places *places, const tn_static_block *block, uint64_t *offset,
                          tn_error *error);

/* Marks a buffer as static memory inside the arena: it stays allocated after a run. */
void tn__places_keep(tn__places *places, tn_body_id body);

/* The live range from which a buffer has its name, or NULL if the buffer has no live range. */
const tn_life *tn__places_life(const tn__places *places, tn_body_id body);
static inline bool tn__places_is_static(const tn__places *places, tn_body_id body) {
    return body >= places->body_count - places->static_count;
}
static inline uint64_t tn__places_of(const tn__places *places, const tn_life *life) {
    return places->offset[life->body] + life->delta;
}

/* --- trace_events.c: records events in a trace; without a trace the functions do nothing --- */

typedef struct tn__tell {
    tn_trace *trace; /* records events; NULL: no events are recorded */
    const tn_occupancy *occupancy;
    /* for each step: the planned live bytes of each kind of tensor */
    uint64_t (*live)[TN_KIND_COUNT];
    uint64_t now[TN_KIND_COUNT]; /* bytes of each kind in blocks that are allocated now */
    uint32_t run;                /* index of the current run, which events contain */
} tn__tell;

tn_status tn__tell_make(tn__tell *tell, tn_trace *trace, const tn_occupancy *occupancy,
                        tn__arena *arena, tn_error *error);
/* Records that an instruction ran. `bytes`: bytes that the instruction moved over a link to the
 * host or a device; 0: none. */
void tn__tell_step(tn__tell *tell, uint32_t step, double start_s, uint64_t bytes);
/* Records that a buffer was allocated, or freed if `frees` is true. `life`: the live range that
 * gives the buffer its name; NULL: it has no live range. */
void tn__tell_block(tn__tell *tell, uint32_t step, tn_body_id body, const tn_life *life,
                    bool frees);
/* Records a block of static memory in the trace. `tell` must point to a tn__tell, the recorder of
 * events. */
void tn__tell_static(void *tell, tn_tensor_id tensor, uint64_t bytes);

/* --- io.c: copies the caller's arrays to and from operands, over the device's stream --- */

/* Memory of the device: its addresses on the device, and its addresses as kernels use them. */
typedef struct tn__device_memory {
    /* `own`: a device that is destroyed together with this memory; NULL: the caller owns
     * `device`. */
    tn_device *device, *own;
    tn_stream *stream;
    tn_address arena_address, static_address;
    uint8_t *arena, *statics;
    uint64_t arena_bytes;
} tn__device_memory;

typedef struct tn__io {
    const tn__executor *executor;
    const tn__device_memory *memory;
    /* for each tensor: its position among the graph's inputs; TN_NONE: it is not an input */
    uint32_t *index;
    const tn_array *inputs;
    tn_array *outputs; /* the caller's arrays for the outputs of the current run */
    uint32_t output_count;
} tn__io;

/* Allocates the arena and static memory on the device. `inside`: static memory is part of the
 * arena. Errors: E_EXHAUSTED. */
tn_status tn__memory_take(tn__device_memory *memory, tn_device *device, uint64_t arena_bytes,
                          uint64_t static_bytes, bool inside, tn_error *error);
void tn__memory_release(tn__device_memory *memory);
/* Converts an address that kernels use to an address on the device. */
tn_address tn__memory_address(const tn__device_memory *memory, const void *data);

tn_status tn__io_make(tn__io *io, const tn__executor *executor, const tn__device_memory *memory,
                      tn__arena *arena);
/* Stores pointers to the caller's arrays for a run, after a check of their number, types and sizes.
 * Errors: E_INVALID. */
tn_status tn__io_begin(tn__io *io, const tn_array *inputs, uint32_t input_count, tn_array *outputs,
                       uint32_t output_count);
tn_status tn__io_put(const tn__io *io, tn_tensor_id id);
/* Copies the current data of a tensor to the caller's arrays. A tensor can be several outputs of
 * the graph; each of their arrays gets a copy. */
tn_status tn__io_get(const tn__io *io, tn_tensor_id id);
/* Copies outputs that are static tensors to the caller's arrays, after the last step. No
 * instruction does this, because no instruction writes a static tensor. */
tn_status tn__io_get_statics(const tn__io *io);

/* --- store.c: weights and other static tensors that are not in memory during the whole run ---
 *
 * Such a tensor is stored in a file, and FETCH instructions read it into the arena. If the model's
 * file has the tensor's data exactly as the kernels read it, FETCH reads the model's file. The data
 * of all other tensors (packed, folded, widened, generated) is computed once, when the engine is
 * created, and written to a temporary file without a name. In both cases a FETCH reads one range of
 * a file into the arena, on a separate stream.
 */

/* A tensor that a program fetches, in the form that the kernels read. */
typedef struct tn__stored {
    tn_tensor_id tensor;
    /* the tensor is packed for the kernel of this operator; TN_NONE: it is not packed */
    tn_op_id op;
    uint64_t bytes, offset;
    uint32_t file;
    /* Range of tn__store.slots: the pointers through which kernels find the packed form. */
    uint32_t first, count;
} tn__stored;

typedef struct tn__store {
    const tn_context *context;
    const tn_graph *graph;
    const tn_engine_options *options;
    /* array of `count` entries; a count of 0 means that the program fetches nothing */
    tn__stored *list;
    uint32_t count;
    uint32_t tensors; /* number of tensors of the graph (a program may have additional tensors) */
    /* for each tensor: its index in `list`; TN_NONE: it is in memory during the whole run */
    uint32_t *of;
    /* the pointers through which kernels find packed forms, for all tensors of `list` */
    void ***slots;
    /* array of `file_count` open files; the first is the temporary file of computed forms */
    tn__ranges *files;
    size_t file_count, file_room;
    uint64_t formed; /* bytes of the temporary file of computed forms */
    uint8_t *map;    /* memory mapping of the temporary file while it is being written; else NULL */
} tn__store;

/* Lists the tensors that the program fetches and their ranges in files. If the form of a tensor is
 * in no file of the model, it gets a range of a temporary file; its offset in `statics` is then an
 * offset in this file. `options` must outlive the store.
 * Errors: E_UNSUPPORTED (kernels need a tensor in several forms, or a pool manages the arena),
 * E_IO, E_NO_MEMORY.
 */
tn_status tn__store_make(tn__store *store, const tn_program *program, tn__statics *statics,
                         const tn_engine_options *options, tn__arena *arena, tn_error *error);
void tn__store_release(tn__store *store); /* releases memory; accepts a struct of zeros */
/* Checks that each live range of a fetched tensor has the size of the fetched data. Errors:
 * E_INVALID. */
tn_status tn__store_check(const tn__store *store, const tn__places *places, tn_error *error);
/* A function for tn__contents_source.read, used while static memory is filled. Reads a tensor
 * directly from a file if a file has its bytes, else with tn_engine_options.read. `store` points to
 * a tn__store. */
tn_status tn__store_read(void *store, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                         uint64_t size, tn_error *error);
/* Called when all computed forms are in the temporary file: ends the mapping of the file. */
tn_status tn__store_filled(tn__store *store, tn__statics *statics, tn_error *error);

static inline const tn__stored *tn__store_find(const tn__store *store, tn_tensor_id tensor) {
    bool known = store->count > 0 && tensor < store->tensors;
    uint32_t at = known ? store->of[tensor] : TN_NONE;
    return at == TN_NONE ? NULL : &store->list[at];
}
/* Sets the pointers of all kernels that read the packed form of a tensor to `place`. */
void tn__store_bind(const tn__store *store, const tn__stored *stored, uint8_t *place);
/* Reads all bytes of a fetched tensor into `place`, at most at the rate
 * tn_engine_options.storage_bytes_per_s. Can be called in any thread. */
tn_status tn__store_fetch(const tn__store *store, const tn__stored *stored, uint8_t *place,
                          tn_error *error);

/* --- streams.c: work that runs on streams of the device ---
 *
 * Such work is: copies to the host and back, messages between ranks, reads from files, and the
 * waits for them. Stream 0 is the thread that calls the engine. Instructions of other streams that
 * need no kernel (SWAP_OUT, SWAP_IN, FETCH, SEND to SCATTER, WAIT) are queued on a stream of the
 * device and run asynchronously. The calling thread waits for them only where the program has a
 * signal.
 *
 * If the program runs operators on several streams, their kernels are queued as well, those of
 * stream 0 included, and kernels of different streams run at the same time. Some programs and
 * options do not allow this (streams_kernels_of). Then the kernels of all streams run in the
 * calling thread, in the order of the program's list, each after all earlier instructions of its
 * stream. This is correct because the list is one of the valid orders of the program.
 */

/* Memory for swapped-out tensors: host memory, or memory of a separate device. */
typedef struct tn__host {
    const tn_context *context;
    uint8_t *bytes; /* address of the memory; NULL: it is memory of `device` */
    tn_device *device;
    tn_address address;
    tn_stream *streams[TN_STREAM_MAX]; /* streams of `device`, one for each stream of the program */
    double bytes_per_s; /* bandwidth of the link to `device` in each direction; 0: not limited */
    /* times at which each direction of the link becomes free; protected by `lock` */
    double free_s[2];
    pthread_mutex_t lock;   /* protects `free_s`; initialised only if `device` is not NULL */
    uint64_t size, reached; /* bytes; `reached`: the largest offset at which a copy has ended */
    uint64_t *offset;       /* [items] */
} tn__host;

/* An instruction that can run on a stream of the device: a swap, a fetch, a message between ranks,
 * a wait, and, if kernels run on streams, an operator. */
typedef struct tn__stream_item {
    uint32_t step;
    /* the stream that runs the instruction; 0: the calling thread runs it, unless kernels run on
     * streams */
    uint32_t stream;
    /* index of an item on another stream that must end before this one starts; TN_NONE: no such
     * item */
    uint32_t after;
    bool copies, talks, fetches, applies;
    /* fence that is passed when the instruction has ended; NULL: the calling thread runs it */
    tn_fence *fence;
    /* the tn__streams that contains this item, because functions that a stream calls get only the
     * item */
    struct tn__streams *streams;
    uint8_t *data, *other; /* addresses on the device, as kernels on the device use them */
    uint64_t bytes, other_bytes;
    double start_s, talk_s, fetch_s;
    tn__bound_call call; /* of an operator: the call of its kernel */
} tn__stream_item;

typedef struct tn__streams {
    const tn_program *program;
    const tn__executor *executor;
    const tn__device_memory *memory;
    tn__tell *tell;
    const tn_exchange *exchange; /* communication with other ranks; NULL: there are no others */
    const tn__store *store;
    tn__host host;
    /* number of streams on which kernels run at the same time; 0: all kernels run in the calling
     * thread */
    uint32_t kernel_streams;
    /* the instructions that can run on streams of the device (items), of all streams, in the order
     * of their steps */
    tn__stream_item *items;
    uint32_t item_count;
    /* for each step: its index in `items`; TN_NONE: the instruction is not in `items` */
    uint32_t *item_of;
    /* for each step: the item with the signal that the step waits for, or TN_NONE */
    uint32_t *signal_of;
    /* for each step that the calling thread runs: the last earlier item of the step's stream, or
     * TN_NONE */
    uint32_t *tail_of;
    tn_stream *streams[TN_STREAM_MAX];
    /* array of `going_count` indices of items that are queued and may not have ended */
    uint32_t *going;
    uint32_t going_count;
    /* which steps each stream knows to have ended, from the signals of the program; only the
     * option `poison`, which finds writes outside live ranges, reads it. NULL: without `poison` */
    struct tn__known *known;
    /* seconds for which the calling thread waited for copies in the last run; 0 if kernels run on
     * streams */
    double stalled_s;
    uint64_t out_bytes, in_bytes; /* bytes copied to and from the host in the last run */
    uint64_t talk_count, talk_bytes, fetch_bytes;
} tn__streams;

/* Allocates the streams, fences and host memory that a program needs. Of `options` it reads
 * host_capacity, host_layout, swap_device, exchange, and poison, with which the engine also records
 * which items are known to have ended, and those options that make all kernels run in the calling
 * thread.
 *
 * Errors: E_EXHAUSTED (more host memory than host_capacity is needed), E_CONFLICT (host_layout is
 * not a layout for this program), errors of the swap device, E_NO_MEMORY.
 */
tn_status tn__streams_make(tn__streams *streams, const tn_program *program,
                           const tn__executor *executor, const tn__device_memory *memory,
                           tn__tell *tell, const tn__store *store, const tn_engine_options *options,
                           tn__arena *arena);
/* waits for unfinished copies and messages, then releases memory; accepts a struct of zeros */
void tn__streams_release(tn__streams *streams);
void tn__streams_start(tn__streams *streams); /* resets all counters at the beginning of a run */

/* Whether a step runs asynchronously. If it does, it is only queued at its position in the list,
 * and the trace records its end later. */
static inline bool tn__streams_apart(const tn__streams *streams, uint32_t step) {
    if (streams->item_count == 0 || streams->item_of[step] == TN_NONE) return false;
    return streams->kernel_streams != 0 || streams->items[streams->item_of[step]].stream != 0;
}
/* Returns the call of the operator of a step that runs asynchronously, whose operands must be bound
 * before the step is queued; NULL: the step is no operator. */
static inline tn__bound_call *tn__streams_call(tn__streams *streams, uint32_t step) {
    tn__stream_item *item = &streams->items[streams->item_of[step]];
    return item->applies ? &item->call : NULL;
}
tn_status tn__streams_queue(tn__streams *streams, uint32_t step);
/* Called by the calling thread before a step: waits for the copies and messages that must end
 * before the step. */
tn_status tn__streams_before(tn__streams *streams, uint32_t step);
/* These functions run a swap, a FETCH or a message between ranks in the calling thread. */
tn_status tn__streams_swap(tn__streams *streams, uint32_t step);
tn_status tn__streams_fetch(tn__streams *streams, uint32_t step);
/* returns the time of all fetches in the last run, in seconds */
double tn__fetch_seconds(const tn__streams *streams);
tn_status tn__streams_talk(tn__streams *streams, uint32_t step);
/* Waits for all streams after a run, whether the run succeeded or not. Returns the error of the
 * first stream that failed. */
tn_status tn__streams_finish(tn__streams *streams, tn_error *error);

/* --- rank_messages.c: instructions that exchange data with other ranks --- */

/* Checks that `exchange` supports an instruction for other ranks. NULL supports none. Errors:
 * E_UNSUPPORTED, E_INVALID. */
tn_status tn__talk_check(const tn_exchange *exchange, const tn_graph *graph,
                         const tn_instruction *it, tn_error *error);
/* Records the current addresses and sizes of the operands of a message. */
void tn__talk_begin(tn__streams *streams, tn__stream_item *item);
/* Sends or receives the message of an item (an instruction that runs without a kernel); can be
 * called in any thread. */
tn_status tn__talk(void *item, tn_error *error);
/* returns the time of all messages in the last run, in seconds */
double tn__talk_seconds(const tn__streams *streams);

/* --- copies and messages that have not ended yet --- */

/* Returns an item (a copy or message in progress) that still reads or writes one of the given
 * bytes; TN_NONE: there is none. `data` is an address as kernels use it. */
uint32_t tn__streams_holder(tn__streams *streams, const uint8_t *data, uint64_t bytes);
/* Waits until no copy or message in progress reads or writes the given bytes. */
tn_status tn__streams_settle(tn__streams *streams, const uint8_t *data, uint64_t bytes);

/* Used to check for stray writes, that is, kernels that write outside of their outputs.
 * tn__known_arrive records that the program has come to a step. tn__known_over returns whether the
 * program's signals guarantee that a copy or message (`item`) has ended at this step. */
void tn__known_arrive(tn__streams *streams, uint32_t step);
bool tn__known_over(const tn__streams *streams, uint32_t item);

/* --- spans.c: begins and ends the bytes that buffers hold, from step to step --- */

/* A range of bytes of the arena that a buffer occupies during the steps [first, last). */
typedef struct tn__step_span {
    uint32_t first, last;
    uint64_t lo, hi; /* range of bytes, relative to the start of the buffer */
    tn_body_id body;
    bool live;
} tn__step_span;

typedef struct tn__spans {
    tn__places *places;
    tn__tell *tell;
    tn__streams *streams;
    uint32_t steps;
    tn__step_span *spans;
    /* number of `spans`, ranges of bytes that buffers occupy for some steps; 0: they are not
     * tracked */
    uint32_t count;
    /* for each step: the indices of the spans that begin at it, and of those that end at it */
    tn__lists begins, ends;
    /* for each byte of the arena: whether a buffer occupies it now; NULL: stray writes are not
     * checked */
    uint8_t *owned;
    /* array of `late_count` indices of spans that have ended while a copy still used their bytes */
    uint32_t *late;
    uint32_t late_count;
} tn__spans;

tn_status tn__spans_make(tn__spans *spans, tn__places *places, tn__tell *tell, tn__streams *streams,
                         bool poison, tn__arena *arena, tn_error *error);
/* Marks all bytes of the arena as free, except static memory, at the beginning of a run, before
 * step 0. Does nothing without the option tn_engine_options.poison. */
void tn__spans_start(tn__spans *spans);
/* Marks bytes of the arena as free or occupied when the run goes from step `from` to step `to`,
 * which need not follow it. `from` is TN_NONE before the first step. */
tn_status tn__spans_move(tn__spans *spans, uint32_t from, uint32_t to, tn_error *error);
/* Checks that no kernel wrote to free bytes next to the given bytes of the arena (a stray write).
 * Does nothing without the option tn_engine_options.poison. */
tn_status tn__spans_around(const tn__spans *spans, uint64_t lo, uint64_t bytes, const char *name,
                           tn_error *error);
/* ends the live ranges that have not ended; called after a run, whether it succeeded or not */
void tn__spans_finish(tn__spans *spans);
/* Checks that no free byte of the arena was written (a stray write); called when all copies have
 * ended. Does nothing without the option tn_engine_options.poison. */
tn_status tn__spans_check(tn__spans *spans, tn_error *error);

/* --- the engine: its state, and the functions that need all of it --- */

struct tn_engine {
    tn_context context;
    tn__arena tables; /* memory of the tables of all members below */
    tn_engine_options options;
    const tn_program *program;
    const tn_kernels *kernels;
    /* calls the kernels; executor.error points to the error of the current run */
    tn__executor executor;
    tn__statics statics;
    tn__store store;
    tn__row_cache row_cache;
    tn__device_memory memory;
    tn__places places;
    tn__flow flow;
    tn__spans spans;
    tn__tell tell;
    tn__io io;
    tn__streams streams;
    tn__forms forms;
    struct tn__bound *views; /* array of `view_count` operands that are views of static tensors */
    uint32_t view_count;
    /* planned peak of the arena, and the highest offset used so far, in bytes */
    uint64_t planned_peak, highest;
    uint64_t run_count;
    double seconds; /* duration of the last run, in seconds */
};

typedef struct tn__bound { /* An operand and the address to which it is set when a run begins. */
    tn_tensor_id tensor;
    void *data;
} tn__bound;

/* check.c: checks that the engine can run the program. Errors: E_UNSUPPORTED; the message names the
 * instruction. */
tn_status tn__engine_check(const tn_engine *engine);

/* walk.c */
tn_status tn__engine_steps(tn_engine *engine);
tn_status tn__engine_where(const tn_engine *engine, tn_status status, uint32_t step);

/* encode.c: counts the zeros in the outputs that the operator has just written. options.zeros keeps
 * the smallest share of zeros of each tensor. */
void tn__engine_count_zeros(const tn_engine *engine, tn_op_id id);

/* weights.c: lists the operators and blocks that read static tensors. The lists are allocated from
 * `arena`. */
tn_status tn__program_readers(const tn_program *program, tn__arena *arena, tn__readers *readers,
                              tn_error *error);
/* weights.c: makes a pool manage the arena and allocates static memory in it. */
tn_status tn__engine_make_pool(tn_engine *engine);
/* weights.c: takes the offsets of static memory from the layout, for static memory inside the
 * arena. Errors: E_INVALID (the layout has other static buffers than the program needs). */
tn_status tn__engine_place_statics(tn_engine *engine);

#endif
