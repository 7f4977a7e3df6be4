/* engine.h - what the files of the engine share.
 *
 *   statics.c   weights, constants and folded tensors: where they are, and how they get there
 *   engine.c    set-up, inputs and outputs, what was measured
 *   walk.c      the walk over instructions, with the control flow of If, Loop and Scan
 *   control.c   what If, Loop and Scan do when they begin, turn and end
 *   reshape.c   extents that are known only now
 *   spans.c     what begins and ends from step to step: poison, pools
 *   tell.c      events for the trace
 */
#ifndef TN_ENGINE_ENGINE_H
#define TN_ENGINE_ENGINE_H

#include <tenure/engine.h>
#include <tenure/pool.h>

#include <tenure/trace.h>

#include "kernels/kernels.h"

#define ENGINE_NONE UINT32_MAX

/* --- statics.c --- */

/* Where a static tensor is. What is packed for an operator has its own places. */
typedef struct tn__static {
    tn_tensor_id base; /* another tensor whose bytes it views; itself: none */
    uint64_t delta;    /* from the base's start */
    uint64_t offset;   /* in static memory; TN_SIZE_UNKNOWN: only needed while setting up */
    uint32_t uses;     /* while setting up: how often it will yet be read */
    uint8_t *staged;   /* its bytes, while they are needed */
    bool needed;       /* read by the program, or by what packs for it */
    bool kept;         /* has a place in static memory */
    bool visited;
} tn__static;

typedef struct tn__statics {
    const tn_kernels *kernels;
    const tn_context *context;
    const tn_program *program;
    tn__static *tensors; /* [tensors] */
    tn_op_id *order;     /* folded operators, as they are to be computed */
    size_t order_count;
    /* [operators] -> NULL, or [inputs + 1] offsets in static memory, and whether it was done */
    uint64_t **packed;
    tn__arena arena;
    uint64_t bytes; /* of static memory */
} tn__statics;

tn_status tn__statics_plan(tn__statics *statics, const tn_program *program,
                           const tn_kernels *kernels, const tn_context *context, tn_error *error);
void tn__statics_release(tn__statics *statics);

/* --- spans.c --- */

/* Bytes of the arena that something holds during [first, last). */
typedef struct tn__span {
    uint32_t first, last;
    uint64_t lo, hi; /* of the arena, or of the body with a pool */
    tn_body_id body;
    bool live;
} tn__span;

typedef struct tn__spans {
    tn__span *spans;
    uint32_t count;
    uint32_t *begin_at, *begin; /* [steps + 2], [count]: which begin at a step */
    uint32_t *end_at, *end;     /* those whose `last` is the step */
} tn__spans;

/* --- the engine --- */

typedef struct tn__control { /* an operator with blocks */
    tn_op_id op;
    uint32_t own, entry; /* its APPLY; the first step of its regions, or `own` */
    uint32_t first_region, region_count;
    uint32_t ran; /* region, or ENGINE_NONE */
    uint64_t trips, most;
    bool going;
} tn__control;

typedef struct tn__frame {
    uint32_t control, region;
    uint32_t inner; /* index into entering of what may begin inside, at the region's first step */
} tn__frame;

struct tn_engine {
    tn_context context;
    const tn_occupancy *occupancy;
    const tn_program *program;
    const tn_graph *graph;
    const tn_kernels *kernels;
    tn_device *device, *own_device; /* own: destroyed with the engine; NULL: the caller's */
    tn_stream *stream;
    tn_engine_options options;
    tn_error *error; /* of the run in hand */

    tn_address arena_address, static_address;
    uint8_t *arena, *memory; /* where kernels see them */
    uint64_t arena_bytes, planned_peak;
    tn__statics statics;

    uint64_t *body_offset; /* [bodies] from the start of the arena; with a pool: now */
    uint64_t *body_block;  /* [bodies] id of the pool's block */
    uint32_t *body_tag;    /* [bodies] of the pool: who holds it */
    uint32_t *body_life;   /* [bodies] the first life there, which names it; ENGINE_NONE */
    uint32_t body_count;
    tn_pool *pool;
    uint8_t *owned; /* [arena] poison: who holds each byte, see spans.c */
    tn__span *held; /* static memory inside a pool, held through every run */
    uint32_t held_count, held_room;

    tn_operand *operands; /* [tensors] as bound now */
    int64_t *extents;     /* of all of them */
    size_t extent_count;
    tn_operand *call_inputs, *call_outputs; /* of the call in hand */
    size_t call_input_room, call_output_room;
    uint8_t *dynamic; /* [operators] extents of its outputs follow from the run */
    uint8_t *scratch; /* for reshape.c */
    size_t scratch_used;

    tn_region *regions;
    uint32_t region_count;
    tn__control *controls;
    uint32_t control_count;
    uint32_t *entering_at, *entering; /* [steps + 2], controls that may begin at a step */
    uint32_t *control_of;             /* [operators] or ENGINE_NONE */
    tn__frame *frames;
    uint32_t frame_count;

    uint32_t *life_at; /* [steps + 2] lives by their first step */
    tn__spans spans;
    uint32_t *io; /* [tensors] index among inputs */
    const tn_array *inputs;
    tn_array *outputs;
    uint32_t input_count, output_count;
    uint64_t (*live)[TN_KIND_COUNT];  /* [steps] for the trace: the plan's curve */
    uint64_t live_now[TN_KIND_COUNT]; /* the same of blocks: what ALLOC and FREE leave */
    uint64_t random, measured, run_count;
    uint32_t trace_run; /* number of the run, for the trace */
    double seconds;
};

/* statics.c: fills engine->memory and binds the operands that are static. */
tn_status tn__statics_fill(tn_engine *engine);
/* engine.c: runs the kernel of an operator whose operands are bound. */
tn_status tn__engine_call(tn_engine *engine, tn_op_id op, void *workspace);
/* walk.c */
tn_status tn__engine_steps(tn_engine *engine);
void tn__engine_bind(tn_engine *engine, uint32_t step);
/* control.c. An operator with blocks begins: which region runs, ENGINE_NONE: it has none to run. A
 * region has run: whether again. And the operator's own step. */
tn_status tn__control_begin(tn_engine *engine, uint32_t control, uint32_t *region);
tn_status tn__control_turn(tn_engine *engine, uint32_t control, bool *again);
tn_status tn__control_make(tn_engine *engine);
void tn__control_release(tn_engine *engine);
tn_status tn__control_end(tn_engine *engine, uint32_t control);
/* reshape.c */
tn_status tn__engine_reshape(tn_engine *engine, tn_op_id op);
#define ENGINE_SCRATCH (UINT64_C(1) << 20)
/* spans.c */
tn_status tn__spans_make(tn_engine *engine);
void tn__spans_release(tn_engine *engine);
tn_status tn__spans_start(tn_engine *engine); /* of a run: before step 0 */
/* Step `from` has run (ENGINE_NONE: none yet), `to` comes next, behind it or anywhere. */
tn_status tn__spans_move(tn_engine *engine, uint32_t from, uint32_t to);
/* Poison: nothing was written close to these bytes of the arena where nothing lives. */
tn_status tn__spans_around(tn_engine *engine, const void *data, uint64_t bytes, const char *name);
void tn__spans_finish(tn_engine *engine);     /* a run ended, well or not: all is released */
tn_status tn__spans_check(tn_engine *engine); /* poison: nothing was written where nothing lives */

/* tell.c: what happens, for the trace; nothing without one. */
tn_status tn__tell_make(tn_engine *engine);
void tn__tell_release(tn_engine *engine);
void tn__tell_step(tn_engine *engine, uint32_t step, double start_s);
void tn__tell_block(tn_engine *engine, uint32_t step, tn_body_id body, bool frees);
void tn__tell_static(tn_engine *engine, tn_tensor_id tensor, uint64_t bytes);

tn_status tn__engine_where(const tn_engine *engine, tn_status status, uint32_t step);
/* From where kernels see a byte to its address on the device. */
tn_address tn__engine_address(const tn_engine *engine, const void *data);
tn_status tn__engine_put(tn_engine *engine, tn_tensor_id id);
tn_status tn__engine_get(tn_engine *engine, tn_tensor_id id);

#endif
