/* engine.h - the engine, which runs a program: its parts, and the walk over the instructions.
 *
 *   executor.h  runs one operator: operands, the call          (no program, no plan)
 *   statics.h   weights, constants and folded tensors          (no program, no plan)
 *   flow.h      regions of If, Loop and Scan
 *   places.h    where bodies lie, in a plan or a pool
 *   spans.h     bodies that begin and end at each step: poison, pools
 *   tell.h      events for the trace
 *   io.h        arrays of the caller, memory of the device
 *   streams.h   copies to the host's memory and back, parallel to the walk; the waits for them
 *   talk.c      calls of other ranks, in the walk or parallel to it
 *   store.h     files of fetched weights; memory/device/ranges.h reads them
 *   codecs/     how tensors are encoded
 *   forms.h     encoded forms in a run; tensors that do not fit their form
 *   zeros.c     share of zeros in each tensor
 *   check.c     check that the engine can run a program
 *   walk.c      the walk over instructions
 *   weights.c   static memory of a program: its readers, its blocks, its data between runs
 *   engine.c    set-up, a run, measurements
 */
#ifndef TN_ENGINE_ENGINE_H
#define TN_ENGINE_ENGINE_H

#include <tenure/engine.h>

#include "engine/flow.h"
#include "engine/forms.h"
#include "engine/io.h"
#include "engine/places.h"
#include "engine/spans.h"
#include "engine/statics.h"
#include "engine/streams.h"
#include "engine/tell.h"

struct tn_engine {
    tn_context context;
    tn__arena tables; /* memory of all tables of the parts below */
    tn_engine_options options;
    const tn_program *program;
    const tn_kernels *kernels;
    tn__executor executor; /* its `error` is that of the current run */
    tn__statics statics;
    tn__store store;
    tn__memory memory;
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

/* zeros.c: counts the zeros in the operator's outputs, which it has just written, into
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
