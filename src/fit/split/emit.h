/* emit.h - shared state of emit.c, emit_tflite.c and trace.c, which make the parts of a region. */
#ifndef TN_SPLIT_EMIT_H
#define TN_SPLIT_EMIT_H

#include "fit/split/region.h"
#include "fit/split/trace.h"

/* A part of a tensor that exists as a whole, shared by all readers in the part. */
typedef struct emit_taken {
    tn_tensor_id from, made;
    split_span spans[TN_SPLIT_AXES];
    uint32_t axes[TN_SPLIT_AXES]; /* axes of the tensor along which the spans lie */
} emit_taken;

/* The origin of each new operator and tensor, by ids of the draft after those of the graph. */
typedef struct emit_trace {
    const tn_context *context;
    const tn_graph *graph;
    tn_op_id *ops, *before;
    tn_tensor_id *tensors;
    size_t op_room, before_room, tensor_room;
} emit_trace;

typedef struct emit_state {
    split_region *region;
    tn__draft *draft;
    emit_trace *trace; /* NULL: the caller does not need it */
    tn_op_id source;   /* the operator with parts under construction; TN_NONE: there is no such
                        * operator */
    tn_op_id before;   /* the operator at the place of the region */
    uint32_t part[TN_SPLIT_AXES];
    uint32_t number;      /* of the part, starting at 1 */
    tn_tensor_id *now;    /* [tensors of the region] this part's tensor */
    tn_tensor_id *kept;   /* [tensors] elements kept for the next part */
    tn_tensor_id *pieces; /* [tensors][parts of the first cut] of results */
    emit_taken *taken;
    uint32_t taken_count, taken_room;
} emit_state;

/* --- emit.c --- */
/* Adds a tensor like `id` with other extents. */
tn_status tn__emit_like(emit_state *emit, tn_tensor_id id, const int64_t *shape,
                        tn_tensor_id *made);
tn_status tn__emit_add(emit_state *emit, const tn_op *op);
/* Elements [starts, ends) along `axes` of a tensor. */
tn_status tn__emit_part(emit_state *emit, tn_tensor_id from, const int64_t *axes,
                        const int64_t *starts, const int64_t *ends, uint32_t count, bool copy,
                        tn_tensor_id *made);

/* --- emit_tflite.c --- */
/* The number of elements that a window computes along height and width, and the first of them
 * that belongs to the part. */
typedef struct emit_raw {
    int64_t count[2], first[2];
} emit_raw;
/* Operator `at` in the form that the part needs; needs: of input 0, by cut. May pad inputs[0]. */
tn_status tn__emit_band(emit_state *emit, uint32_t at, const tn__need *needs, tn_op *op,
                        tn_tensor_id *inputs, emit_raw *raw);
tn_status tn__emit_pad(emit_state *emit, uint32_t at, const tn__need *needs, tn_op *op);

/* --- trace.c --- */
/* False: out of memory. trace: may be NULL. */
bool tn__trace_op(emit_trace *trace, tn_op_id made, tn_op_id from, tn_op_id before);
bool tn__trace_tensor(emit_trace *trace, tn_tensor_id made, tn_tensor_id like);
tn_status tn__trace_take(const emit_trace *from, const tn__draft *draft, const tn_graph *split,
                         tn__split_trace *trace);
void tn__trace_end(emit_trace *trace);

#endif
