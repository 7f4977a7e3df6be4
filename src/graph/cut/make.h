/* make.h - shared state of the files that make a rank's graph. */
#ifndef TN_CUT_MAKE_H
#define TN_CUT_MAKE_H

#include "graph/cut/cut.h"

typedef struct tn__make {
    tn__cuts *it;
    tn_graph *graph;
    tn_tensor_id *copies;    /* [tensors] result of its RankCopy; TN_NONE */
    tn_tensor_id *wholes[2]; /* [tensors] result of its RankGather, for operators on parts; for
                              * operators that are the same on all ranks; TN_NONE */
    tn_tensor_id *slices;    /* [tensors] the last part sliced from it; TN_NONE */
    tn__cut *sliced;         /* cut of that part */
    bool *gone;              /* [tensors] its operator was removed */
    tn_op_id *origin;
    size_t origin_room;
    tn_error *error;
} tn__make;

static inline bool tn__make_is_cut(const tn__make *state, tn_tensor_id id) {
    return id != TN_NONE && state->it->cuts[id].blocks > 0;
}

static inline bool tn__make_is_strip(const tn__make *state, tn_tensor_id id) {
    return id != TN_NONE && state->it->strips[id].blocks > 0;
}
/* The cut of a tensor that a rank holds only in part; otherwise a cut without blocks. */
static inline const tn__cut *tn__make_cut_of(const tn__make *state, tn_tensor_id id) {
    return tn__make_is_cut(state, id) ? &state->it->cuts[id] : &state->it->strips[id];
}

/* make_part.c: adds an operator; origin: the operator of the model it comes from, or TN_NONE. */
tn_status tn__make_add(tn__make *state, const tn_op_spec *spec, tn_op_id origin);
/* The rank's extent along an axis of a tensor with this cut. */
int64_t tn__make_extent(const tn__make *state, const tn_tensor *tensor, const tn__cut *cut,
                        uint32_t axis);
/* Adds an operator that works on parts, with the operators around it. */
tn_status tn__make_part(tn__make *state, tn_op_id id);
/* Adds an operator that works on sequence-parallel parts; adds one that works on whole tensors. */
tn_status tn__make_strip(tn__make *state, tn_op_id id);
tn_status tn__make_whole(tn__make *state, tn_op_id id);

#endif
