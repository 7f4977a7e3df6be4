/* cut.h - which tensors of a model are cut over ranks, and the graph of one rank.
 *
 *   link.c     one operator: a cut of one operand, and those of the others that go with it
 *   classes.c  cuts that only go together: from one tensor through all operators around it
 *   choose.c   which classes are taken
 *   strip.c    what lies between, in parts along samples or sequences
 *   make.c     the graph of a rank; make_part.c: one operator on parts
 *   parts.c    contents: a part out of a whole, and into it
 *
 * A tensor is whole on all ranks, cut along an axis, or a summand of what it is to be. Which cuts
 * an operator takes is what its entry says of its parts (graph/split.h): axes that it is
 * independent along, an axis that it sums over. So no operator and no exporter is named here but
 * for those that only give elements another shape or lay tensors side by side, where a cut axis
 * becomes a part of an axis, or blocks of one.
 */
#ifndef TN_CUT_CUT_H
#define TN_CUT_CUT_H

#include <tenure/parts.h>

#include "graph/split.h"
#include "graph/store.h"

/* How a tensor is cut; blocks 0: it is whole. */
typedef struct tn__cut {
    uint32_t axis, blocks;
    const int64_t *sizes; /* [blocks] along the axis; NULL: all the same */
} tn__cut;

/* What an operator does with cut operands. */
typedef struct tn__link {
    tn__cut *inputs, *outputs; /* [of the operator] */
    bool *once;                /* [inputs] it is added to the sum of all parts */
    bool sums;                 /* results are summands */
} tn__link;

typedef struct tn__reader { /* an operand that a tensor is */
    tn_op_id op;
    uint32_t input;
} tn__reader;

/* Cuts that go together. */
typedef struct tn__class {
    tn_tensor_id *tensors; /* [count] */
    tn__cut *cuts;         /* [count] */
    uint32_t count;
    tn_op_id *ops; /* [op_count] that work on parts */
    uint32_t op_count;
    uint64_t parameters; /* bytes of those in it, whole */
    uint64_t saved;      /* bytes that a rank does not hold: parameters with gradient and state */
    uint64_t sent;       /* bytes that ranks make one, each step */
    char why[200];       /* why it cannot be; "": it can */
} tn__class;

/* What is to be cut; and, once it was, what was made. */
typedef struct tn__cuts {
    const tn_graph *graph; /* inferred */
    uint32_t ranks, rank;
    const bool *runs;     /* [operators] */
    const bool *depends;  /* [tensors] on what is trained */
    const bool *trained;  /* [tensors] parameters */
    const uint32_t *uses; /* [tensors] operands that it is */
    tn_tensor_id scores;  /* may be cut along `classes`, if that is an axis; */
    tn_tensor_id shaped;  /* the output of the model that stands for them */
    uint32_t classes;     /* TN_NONE: the loss is of something else */
    bool keeps_outputs;   /* all outputs of the model are needed whole */
    bool sequence;        /* what lies between the parts is cut, too */
    const tn_context *context;
    tn__arena *arena; /* all lists */
    tn_error *error;
    /* made */
    tn_graph *made;      /* the graph of the rank: tensors keep their ids */
    tn_op_id *origin;    /* [operators of made] what it was; TN_NONE: there was none */
    tn__cut *cuts;       /* [tensors of graph] */
    tn__cut *strips;     /* [tensors of graph] of what lies between; blocks 0: whole there */
    bool *stripped;      /* [operators of graph] that work on those */
    uint64_t between;    /* bytes of them, whole */
    uint64_t parameters; /* bytes of trained parameters, whole; and of those that are cut */
    uint64_t cut;
    const char *whole; /* why the most that stays whole does; NULL: nothing that is worth it does */
    /* scratch */
    tn__link link;
    uint32_t *reader_of; /* [tensors + 1] into readers */
    tn__reader *readers;
    uint8_t *pinned;      /* [tensors] read by blocks of control flow */
    uint32_t *first_axis; /* [tensors] of its axes in `covered` */
    uint8_t *covered;     /* a class was begun from there, or reached it */
    tn__cut *at;          /* [tensors] of the class in hand */
    uint32_t *way;        /* [operators] of the class in hand: how it takes cuts; 0: not yet */
    uint32_t *copied;     /* [tensors] the last class that reads it whole */
    tn__class *found;     /* [found_count] */
    size_t found_count, found_room;
} tn__cuts;

/* Chooses cuts, and makes the graph of a rank of them.
 * Errors: E_INVALID (nothing can be cut, with the reason for the largest), those of
 * tn_graph_infer, E_NO_MEMORY. Cost: O(operators x axes x operands), and as much for each class. */
tn_status tn__cuts_graph(tn__cuts *it);

/* link.c. `given` is the cut of input or output `index`. False: the operator needs it whole. */
bool tn__cuts_link(tn__cuts *it, tn_op_id op, bool output, uint32_t index, tn__cut given);
/* Extents of a cut tensor's part; whether the ranks divide it. */
bool tn__cuts_divides(const tn__cuts *it, const tn_tensor *tensor, const tn__cut *cut);
bool tn__cut_same(const tn__cut *a, const tn__cut *b);
/* Whether a tensor may be cut itself; others are whole on all ranks, and a part is taken of them
 * where one is needed. */
bool tn__cuts_takes_part(const tn__cuts *it, tn_tensor_id id);
/* Whether an operator only looks at extents. */
bool tn__cuts_looks(const tn__cuts *it, tn_op_id op);
/* classes.c */
tn_status tn__cuts_classes(tn__cuts *it);
/* choose.c: cuts. */
tn_status tn__cuts_choose(tn__cuts *it);
/* strip.c: strips, stripped, between. Errors: E_INVALID (there are none). */
tn_status tn__cuts_strip(tn__cuts *it);
/* make.c */
tn_status tn__cuts_make(tn__cuts *it);
/* parts.c: what is told of a static tensor of this cut. */
tn_status tn__cuts_part(tn__arena *arena, const tn_tensor *whole, tn_tensor_id id,
                        const tn__cut *cut, tn_tensor_part *part, tn_error *error);

#endif
