/* make.h - what the files that make a rank's graph share. */
#ifndef TN_CUT_MAKE_H
#define TN_CUT_MAKE_H

#include "cut/cut.h"

typedef struct tn__make {
    tn__cuts *it;
    tn_graph *graph;
    tn_tensor_id *copies;    /* [tensors] what a RankCopy hands out; TN_NONE */
    tn_tensor_id *wholes[2]; /* [tensors] what a RankGather puts together, for who has a part; for
                              * who does the same on all ranks; TN_NONE */
    tn_tensor_id *slices;    /* [tensors] the part of a whole one; TN_NONE; */
    tn__cut *sliced;         /* and which */
    bool *gone;              /* [tensors] nobody defines it any more */
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
/* How a tensor is, of which a rank has less than the whole; else of no blocks. */
static inline const tn__cut *tn__make_cut_of(const tn__make *state, tn_tensor_id id) {
    return tn__make_is_cut(state, id) ? &state->it->cuts[id] : &state->it->strips[id];
}

/* make_part.c: an operator as it is; origin: which one of the model, or TN_NONE. */
tn_status tn__make_add(tn__make *state, const tn_op_spec *spec, tn_op_id origin);
/* What a rank has of an axis of a tensor that is cut so. */
int64_t tn__make_extent(const tn__make *state, const tn_tensor *tensor, const tn__cut *cut,
                        uint32_t axis);
/* One that works on parts, with what stands around it. */
tn_status tn__make_part(tn__make *state, tn_op_id id);
/* One that works on parts of what lies between; and one that works on the whole of them. */
tn_status tn__make_strip(tn__make *state, tn_op_id id);
tn_status tn__make_whole(tn__make *state, tn_op_id id);

#endif
