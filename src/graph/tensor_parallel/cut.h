/* cut.h - tensor parallelism: chooses which tensors of a model are cut over ranks, and makes the
 * graph of one rank.
 *
 *   operand_parts.c  one operator: a cut of one operand, and the cuts of the others that follow
 *                    from it
 *   classes.c        cuts that must be applied together: from one tensor through all operators
 *                    around it; which classes are applied
 *   strip.c          sequence parallelism: cuts between the parts, along samples or sequences
 *   make.c           the graph of a rank; tensor data: a part out of a whole, and into it
 *
 * A tensor is whole on all ranks, cut along an axis, or a partial sum on each rank. The entry of an
 * operator says which cuts it accepts (graph/tiles/split.h): axes along which it is independent, an
 * axis that it sums over. So no operators are named here, except those that only reshape tensors or
 * join them side by side, where a cut axis becomes a part of another axis, or blocks of one.
 */
#ifndef TN_TENSOR_PARALLEL_CUT_H
#define TN_TENSOR_PARALLEL_CUT_H

#include <tenure/dist.h>

#include "graph/store.h"
#include "graph/tiles/split.h"

/* How a tensor is cut. If `blocks` is 0, it is whole. */
typedef struct tn__cut {
    uint32_t axis, blocks;
    const int64_t *sizes; /* [blocks] extents of the blocks along the axis; NULL: all are equal */
} tn__cut;

/* The cuts of all operands of one operator. */
typedef struct tn__op_cuts {
    tn__cut *inputs, *outputs; /* [inputs and outputs of the operator] the cut of each operand */
    bool *once;                /* [inputs] true: the input is added once, to the sum of all parts */
    bool sums;                 /* true: the results are partial sums */
} tn__op_cuts;

typedef struct tn__cut_use { /* one use of a tensor as an operand of an operator */
    tn_op_id op;
    uint32_t input;
} tn__cut_use;

/* A class of cuts: cuts of several tensors that must be applied together. */
typedef struct tn__class {
    tn_tensor_id *tensors; /* [count] the tensors that are cut */
    tn__cut *cuts;         /* [count] the cut of each of them */
    uint32_t count;
    tn_op_id *ops; /* [op_count] the operators that work on parts */
    uint32_t op_count;
    uint64_t parameters; /* bytes of the class's parameters before cutting */
    uint64_t saved; /* bytes that a rank saves: parameters with gradients and optimizer state */
    uint64_t sent;  /* bytes that ranks combine in each step */
    char why[200];  /* why the class is impossible; "": it is possible */
} tn__class;

/* The input of the cutting, and its results. */
typedef struct tn__cuts {
    const tn_graph *graph; /* inferred */
    uint32_t ranks, rank;
    const bool *runs;     /* [operators] true: the operator has to run */
    const bool *depends;  /* [tensors] true: the tensor depends on trained parameters */
    const bool *trained;  /* [tensors] true: the tensor is a trained parameter */
    const uint32_t *uses; /* [tensors] number of uses as an operand */
    tn_tensor_id scores;  /* the scores, which may be cut along axis `classes`, if there is one */
    tn_tensor_id shaped;  /* the model's output, if it is a reshaped `scores` */
    uint32_t classes;     /* axis of the classes; TN_NONE: the loss has no classes */
    bool keeps_outputs;   /* true: all outputs of the model must be whole */
    /* true: sequence parallelism, that is, tensors between the tensor-parallel parts are cut,
     * too */
    bool sequence;
    const tn_context *context;
    tn__arena *arena; /* arena of all lists */
    tn_error *error;
    /* made */
    tn_graph *made; /* the graph of the rank, in which tensors keep their ids */
    /* [operators of made] the operator of the model that it comes from; TN_NONE: it is new */
    tn_op_id *origin;
    tn__cut *cuts;    /* [tensors of graph] the chosen cuts */
    tn__cut *strips;  /* [tensors of graph] sequence-parallel cuts; blocks 0: the tensor is whole */
    bool *stripped;   /* [operators of graph] true: the operator works on sequence-parallel cuts */
    uint64_t between; /* bytes of the tensors that have sequence-parallel cuts, before cutting */
    /* before cutting: `parameters`: bytes of all trained parameters; `cut`: bytes of those of them
     * that are cut */
    uint64_t parameters;
    uint64_t cut;
    /* why the largest uncut part stays whole; NULL: it is too small for a message */
    const char *whole;
    /* scratch */
    tn__op_cuts link;
    uint32_t *reader_of; /* [tensors + 1] where the readers of each tensor begin in `readers` */
    tn__cut_use *readers;
    /* [tensors] 1: the tensor must stay whole, for example because an operator inside a block reads
     * it */
    uint8_t *pinned;
    uint32_t *first_axis; /* [tensors] where the axes of each tensor begin in `covered` */
    /* for each axis of each tensor: 1 if a class of cuts began with a cut along this axis, or
     * includes it */
    uint8_t *covered;
    /* [tensors] how the current class (cuts that must be applied together) cuts each tensor */
    tn__cut *at;
    uint32_t *way; /* [operators] how the current class cuts the operator; 0: not yet */
    /* [tensors] number of the last class of cuts in which an operator reads the tensor whole */
    uint32_t *copied;
    tn__class *found; /* [found_count] the classes of cuts */
    size_t found_count, found_room;
} tn__cuts;

/* Chooses cuts, and makes the graph of a rank from them. Errors: E_INVALID (no class of cuts can be
 * applied; the message has the reason for the class with the most bytes of parameters), those of
 * tn_graph_infer, E_NO_MEMORY. Cost: O(operators x axes x operands), and as much again for each
 * class of cuts. */
tn_status tn__cuts_graph(tn__cuts *it);

/* operand_parts.c: finds the cuts of an operator's operands that follow from `given`, the cut of
 * its input or output `index`. Returns false if the operator needs that tensor whole. */
bool tn__cuts_link(tn__cuts *it, tn_op_id op, bool output, uint32_t index, tn__cut given);
/* Whether the number of ranks divides all extents that the cut divides. */
bool tn__cuts_divides(const tn__cuts *it, const tn_tensor *tensor, const tn__cut *cut);
bool tn__cut_same(const tn__cut *a, const tn__cut *b);
/* Whether the tensor itself may be cut. Other tensors are whole on all ranks; if an operator needs
 * a part of one, the part is sliced from it. */
bool tn__cuts_takes_part(const tn__cuts *it, tn_tensor_id id);
/* Whether the operator reads only the extents of its input. */
bool tn__cuts_looks(const tn__cuts *it, tn_op_id op);
/* classes.c */
tn_status tn__cuts_classes(tn__cuts *it);
tn_status tn__cuts_choose(tn__cuts *it);
/* strip.c: chooses the sequence-parallel cuts, that is, sets `strips`, `stripped` and `between`.
 * Errors: E_INVALID (no tensor can be cut this way). */
tn_status tn__cuts_strip(tn__cuts *it);
/* make.c: describes how a static tensor is cut. */
tn_status tn__cuts_part(tn__arena *arena, const tn_tensor *whole, tn_tensor_id id,
                        const tn__cut *cut, tn_tensor_part *part, tn_error *error);

#endif
