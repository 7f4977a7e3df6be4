/* op.h - what an operator is to the planner, and the words its rules are written in.
 *
 * An operator is ONE entry of a family's table in ops/<family>.c: shape, value folding, cost,
 * workspace, in-place and view rule together. The driver (infer.c) walks the graph in
 * topological order, calls `shape`, then `fold` when small values are wanted, merges the result
 * with what the file states, and reports contradictions. A rule only decides; it never
 * allocates for itself, never looks at other operators, never recurses.
 */
#ifndef TN_GRAPH_OP_H
#define TN_GRAPH_OP_H

#include <tenure/graph.h>

#include "base/base.h"
#include "graph/attr.h"

/* The operator in hand. Rules read it through the functions below. */
typedef struct tn_infer {
    tn_graph *graph;
    const tn_op *op;
    tn_op_id id;
    uint32_t version; /* of the operator's domain; UINT32_MAX when the file gives none */
    tn_error *error;
    struct infer_state *state; /* the driver's own */
} tn_infer;

typedef struct tn_gradient tn_gradient; /* gradient.h */

/* What goes from turn to turn where a block runs again and again (Loop, Scan). */
typedef struct tn__turns {
    uint32_t carried; /* values handed from turn to turn; the first outputs are the last of them */
    uint32_t given, formal, next; /* where they begin among the operator's inputs, the block's
                                   * inputs, the block's outputs */
    uint32_t sliced;              /* inputs behind them that are taken a slice a turn */
    bool batch;                   /* all of it for each entry of a batch (Scan of opset 8) */
} tn__turns;

/* A part of an operator: elements [first, last) along one axis of every output. */
typedef struct tn__part {
    uint32_t axis;
    int64_t first, last;
} tn__part;

/* How the range that a part needs follows from the part, for every part along the same axis. */
typedef enum tn__law {
    TN__LAW_NONE,   /* the rule has to be asked for each part */
    TN__LAW_ALL,    /* all of the input */
    TN__LAW_SAME,   /* the elements of the part */
    TN__LAW_WINDOW, /* first * stride - front to (last - 1) * stride - front + reach */
} tn__law;

/* What a part needs of one input, whose other axes it needs whole. */
typedef struct tn__need {
    uint32_t axis;         /* TN_NONE: all of the input */
    int64_t first, last;   /* along it; equal: nothing, the input is left out (Concat) */
    int64_t before, after; /* padding that a window owes at either end (TN__FORM_WINDOW) */
    int64_t extra;         /* output_padding, of a transposed one */
    tn__law law;
    int64_t stride, front, reach; /* TN__LAW_WINDOW */
} tn__need;

/* How the operator that computes a part differs from the whole one. */
typedef enum tn__part_form {
    TN__FORM_SAME,    /* in nothing but its operands */
    TN__FORM_WINDOW,  /* `pads` are those that are owed; none are computed from extents */
    TN__FORM_EXTENTS, /* input 1 becomes the extents of the part's output (Reshape, Expand) */
    TN__FORM_BAND,    /* a window of TensorFlow Lite (tn__band) */
    TN__FORM_PAD      /* its PAD: `paddings` are those that are owed */
} tn__part_form;

typedef struct tn_op_rule {
    const char *type;
    uint32_t inputs_min, inputs_max; /* max UINT32_MAX: variadic */
    uint32_t outputs_max;            /* UINT32_MAX: variadic */

    /* Sets dtype and shape of every output that is present (tn__set_*). What cannot be known yet
     * is left unset: the driver then uses what the file states. An error is for a node that is
     * wrong (rank, axis, contradiction), never for one that is merely not known. */
    tn_status (*shape)(tn_infer *infer);

    /* Computes outputs' contents from inputs' contents when those are known and small
     * (tn__set_value_*); NULL: contents are not followed. Runs after `shape`. */
    tn_status (*fold)(tn_infer *infer);

    /* Floating-point or integer operations, multiply-add = 2; NULL: output elements x flops_per. */
    uint64_t (*flops)(tn_infer *infer);
    uint32_t flops_per; /* per output element, with flops NULL */

    /* Bit i: output 0 may overwrite input i, when bytes and element size agree (checked outside).
     * Other outputs never overwrite. */
    uint64_t inplace;
    /* As `inplace`, when it depends on attributes or shapes (broadcasting): NULL otherwise. The
     * common check that the bytes are equal is made outside. */
    uint64_t (*inplace_of)(tn_infer *infer, uint32_t output);

    /* Output k may share (or is) the memory of an input; source TN_NONE: no view. NULL: never. */
    tn_view (*view)(tn_infer *infer, uint32_t output);

    /* Scratch bytes of the reference algorithm; NULL: none. */
    uint64_t (*workspace)(tn_infer *infer);

    uint32_t flags; /* TN_RULE_* */

    /* Bit i: no extent and no element of the outputs shrinks (monotone) or grows (antitone) when
     * contents of input i grow. Then bounds may stand for contents that are not known (the Shape of
     * NonZero's output), and bounds follow again. Where both bits are 0, tn__value hides bounds. */
    uint64_t monotone, antitone;

    /* TN_RULE_CONTROL only. Called before round 0, 1, ... of the operator's blocks: types their
     * formal inputs (tn__set_formal), marks branches (tn__set_dead, tn__set_tried), and sets *again
     * when the blocks are to be inferred (once more) with that. `shape` runs at the end. */
    tn_status (*enter)(tn_infer *infer, uint32_t round, bool *again);

    /* Bit i: writes into input i and hands it back, as an output that is a view of it by definition
     * (an optimizer's step); bit 0 is set by TN_RULE_CHANGES, too. */
    uint64_t changes;

    /* Bit i: input i is no variable to differentiate by (running statistics, Resize's scales). */
    uint64_t no_gradient;

    /* Bit i: input i is a parameter where a model has one, no data: weights, bias, scale, running
     * statistics. */
    uint64_t weights;

    /* Bit i: of the elements of input i it only matters which of them are above 0 (the gradient of
     * Relu): who has nothing else of it has enough. */
    uint64_t signs;

    /* The type, of the same domain, that computes output 0 once more, and nothing else, where the
     * operator itself may not run twice as it writes into operands: it is given output i, which
     * holds what was found, for each input i that is changed. Its output may lie over whatever
     * input output 0 may, and is no view. NULL: the operator itself. */
    const char *again;

    uint32_t gates; /* of a recurrent cell and of its gradient; 0: it is none */

    /* TN_RULE_CONTROL with a block that runs again and again. NULL: nobody says how. */
    tn__turns (*turns)(const tn_op *op, const tn_block *body);

    /* What a part of the outputs needs of input `input`, which is there. It may make the part
     * larger where only such parts can be computed (whole blocks of an upscaled image). False: the
     * operator is not independent along that axis. NULL: along none. Asked with known, exact
     * shapes, through tn__op_split (split.h). */
    bool (*split)(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
    tn__part_form part_form;

    /* The axis of input `input` that the operator sums over (or looks up in), so that the results
     * of parts along it add up to the result; or TN__SUM_*. False: it sums over nothing, or not so.
     * NULL: never. Asked as `split` is, through tn__op_sums. */
    bool (*sums)(tn_infer *infer, uint32_t input, uint32_t *axis);
    /* The type, of domain "tenure", that computes such a part: as the operator, with attribute
     * `first`, where along the axis it begins. NULL: the operator itself. */
    const char *sums_as;

    /* Adds what computes the gradients of inputs (gradient.h); NULL: there is none. */
    tn_status (*gradient)(tn_gradient *gradient);
} tn_op_rule;

#define TN__SUM_WHOLE TN_NONE      /* each part needs all of this input */
#define TN__SUM_ONCE (TN_NONE - 1) /* it is added to the sum, to be added once: a bias */

enum {
    TN_RULE_RANDOM = 1u << 0,   /* never folded, though its inputs are constant */
    TN_RULE_CONTROL = 1u << 1,  /* owns blocks: the driver infers them first (Loop: after inputs) */
    TN_RULE_CONSTANT = 1u << 2, /* no inputs, always folded (Constant) */
    TN_RULE_SHAPE_ONLY = 1u << 3, /* contents follow from extents (Shape): from bounded extents
                                   * bounded contents */
    TN_RULE_CHANGES = 1u << 4,  /* writes into input 0 (relu_): who else reads those bytes must keep
                                 * its side of this operator, whatever order is chosen */
    TN_RULE_ORDERED = 1u << 6,  /* does more than compute its outputs (ASSIGN_VARIABLE): such
                                 * operators keep the order of the file among each other */
    TN_RULE_UNFOLDED = 1u << 7, /* never folded: its result is larger than what it comes from */
    TN_RULE_JOINS = 1u << 5,    /* output 0 is the inputs side by side along one axis (Concat) */

    /* Kinds of operators, for whoever treats all of a kind alike. */

    TN_RULE_CONV = 1u << 8,   /* a convolution, or ... */
    TN_RULE_MATMUL = 1u << 9, /* a product of matrices: one that is, or has, an operator of domain
                               * "tenure" that also takes a row, a summand and activations */
    TN_RULE_ARITHMETIC = 1u << 10,  /* of numbers, element by element; operands broadcast (Add) */
    TN_RULE_RESHAPES = 1u << 11,    /* the same elements in the same order (Reshape) */
    TN_RULE_IMAGES = 1u << 12,      /* channels may lie last, in outputs as in operands (Relu) */
    TN_RULE_ONCE = 1u << 13,        /* of its blocks, each runs once at most (If) */
    TN_RULE_FORMAT_VIEW = 1u << 15, /* its view holds for formats as they are (Part) */
    TN_RULE_SPACED = 1u << 16,      /* output 0 is a bucket of the inputs (bucket.h) */
    TN_RULE_RANKS_SUM = 1u << 17,   /* output 0 is to be summed up over ranks behind it (dist) */
    TN_RULE_RANKS_MAX = 1u << 18,   /* or the largest of them taken */
    TN_RULE_RANKS_PART = 1u << 19,  /* output 0 is a rank's part of the sum of input 0 (dist) */
    TN_RULE_RANKS_WHOLE = 1u << 20, /* output 0 is the ranks' input 0, one behind the other */
    TN_RULE_HOLDS = 1u << 14        /* its inputs are read until all of its blocks are done */
};

/* A family: one file in ops/ that defines `const tn_op_family tn__ops_<name>`, plus one line in
 * ops.def. Several families may serve one domain; a (domain, type) pair appears once. `match`,
 * when not NULL, claims types that no table lists (aten's overload suffixes). */
typedef struct tn_op_family {
    const char *name;
    const char *domain;      /* "" for ONNX's default */
    const tn_op_rule *rules; /* sorted by type (strcmp): found by halving; a test checks */
    uint32_t rule_count;
    const tn_op_rule *(*match)(const char *type);
} tn_op_family;
#define TN_OP_FAMILY(family, in_domain)                                                            \
    const tn_op_family tn__ops_##family = {.name = #family,                                        \
                                           .domain = in_domain,                                    \
                                           .rules = family##_rules,                                \
                                           .rule_count =                                           \
                                               sizeof family##_rules / sizeof *family##_rules}

/* The entry for an operator, or NULL. */
const tn_op_rule *tn__op_rule(const char *domain, const char *type);

/* --- asking, from any room --- */

/* The entry for an operator of a graph, or NULL; nothing is searched. */
const tn_op_rule *tn__rule_of(const tn_graph *graph, tn_op_id id);
/* Whether an operator has an entry with one of these flags. */
bool tn__op_has(const tn_graph *graph, tn_op_id id, uint32_t flags);
/* Bit i: input i is statistics: a parameter, but no variable. */
uint64_t tn__op_statistics(const tn_graph *graph, tn_op_id id);
/* For who treats an operator by name: "Conv" of ONNX's domain, however that is spelled, or
 * "tenure.Conv". What is asked of several operators, or in several places, is a flag instead. */
bool tn__op_is(const tn_op *op, const char *type);
/* Whether inputs may lie inside output 0 before the operator runs, one behind the other
 * (tn_op_joins, a bucket); whether this one may; and how many bytes there are for it, up to the
 * next one. */
bool tn__op_holds_inputs(const tn_graph *graph, tn_op_id op);
bool tn__op_holds_input(const tn_graph *graph, tn_op_id op, uint32_t index);
uint64_t tn__op_input_room(const tn_graph *graph, tn_op_id op, uint32_t index);

/* --- reading --- */
static inline uint32_t tn__input_count(const tn_infer *infer) { return infer->op->input_count; }
static inline uint32_t tn__output_count(const tn_infer *infer) { return infer->op->output_count; }
const tn_tensor *tn__input(const tn_infer *infer, uint32_t index);  /* NULL: omitted or absent */
const tn_tensor *tn__output(const tn_infer *infer, uint32_t index); /* NULL: omitted or absent */
bool tn__rank_known(const tn_tensor *tensor);                       /* false for NULL */
bool tn__shape_known(const tn_tensor *tensor); /* every extent known; false for NULL */
/* The axis of the shape that is `place`-th in memory, outermost first: where channels lie last,
 * axis 1 is behind all others. */
uint32_t tn__memory_axis(const tn_tensor *tensor, uint32_t place);
/* Elements, or TN_SIZE_UNKNOWN (unknown extents, overflow). */
uint64_t tn__elements(const tn_tensor *tensor);

/* The contents of an attribute that is a tensor; NULL: absent, or not known. */
const tn_value *tn__attr_tensor_value(const tn_infer *infer, const char *name);

/* Contents of an input when known; NULL otherwise (also when omitted). */
const tn_value *tn__value(const tn_infer *infer, uint32_t index);
/* The same as integers: floats are not converted. NULL unless `ints` is there. */
const int64_t *tn__value_ints(const tn_infer *infer, uint32_t index, uint32_t *count);
/* One element as double, whatever the type. */
double tn__value_at(const tn_value *value, uint32_t index);
/* Whether what tn__value hands out for this input is an upper bound (only with `monotone`). */
bool tn__value_is_bound(const tn_infer *infer, uint32_t index);
/* Whether one element of contents that are bounds is exact all the same. */
bool tn__value_is_exact_at(const tn_infer *infer, uint32_t index, uint32_t element);
/* Contents of an input between two ends, which are the same when exact. False: not known. For rules
 * that can decide something from ends alone, as a comparison of ranges that do not meet. */
bool tn__value_range(const tn_infer *infer, uint32_t index, const tn_value **least,
                     const tn_value **most);
/* The axes of a tensor (an input, a formal, a block's output) whose extents are bounds, as a bit
 * set. */
uint64_t tn__bound_axes(const tn_infer *infer, tn_tensor_id id);
/* The least extent of a tensor along an axis; its extent where that is no bound. */
int64_t tn__least_extent(const tn_infer *infer, tn_tensor_id id, uint32_t axis);

/* An axis in [-rank, rank) as [0, rank). Errors: E_INVALID that names the node. */
tn_status tn__axis(const tn_infer *infer, int64_t axis, uint32_t rank, uint32_t *result);

/* --- deciding --- */

/* Zeroed scratch that lives until the end of this operator's rules; NULL when memory is out (then
 * return tn__infer_no_memory). */
void *tn__scratch(tn_infer *infer, size_t count, size_t item);
tn_status tn__infer_no_memory(tn_infer *infer);

/* Setters ignore an output that is omitted. dtype UNDEFINED leaves the type open. */
tn_status tn__set_output(tn_infer *infer, uint32_t index, tn_dtype dtype, uint32_t rank,
                         const int64_t *shape);
tn_status tn__set_dtype(tn_infer *infer, uint32_t index, tn_dtype dtype); /* shape not known */
/* Type, shape and repeat of an input. */
tn_status tn__set_like(tn_infer *infer, uint32_t index, const tn_tensor *tensor);
/* Marks one extent of the output, or all, as an upper bound that depends on data (NonZero, ...);
 * the least is then 0. What follows from bounded inputs the driver finds by itself: it runs the
 * rule a second time with the least extents and contents, and what comes out equal is exact. */
void tn__set_bound_axis(tn_infer *infer, uint32_t index, uint32_t axis);
void tn__set_bound(tn_infer *infer, uint32_t index);
/* A list of `repeat` tensors of this type and shape; TN_SIZE_UNKNOWN when not known. */
tn_status tn__set_sequence(tn_infer *infer, uint32_t index, tn_dtype dtype, uint32_t rank,
                           const int64_t *shape, uint64_t repeat);
/* Contents; count must be the number of elements. Copied. More than TN_VALUE_MAX: ignored. */
tn_status tn__set_value_ints(tn_infer *infer, uint32_t index, const int64_t *ints, uint32_t count);
tn_status tn__set_value_floats(tn_infer *infer, uint32_t index, const double *floats,
                               uint32_t count);

/* The extents of numpy broadcasting of `count` tensors into `shape` (room for TN_RANK_MAX).
 * Unknown against 1 or unknown stays unknown; unknown against n > 1 is n.
 * Errors: E_INVALID that names both tensors and extents. */
tn_status tn__broadcast(tn_infer *infer, const tn_tensor *const *tensors, uint32_t count,
                        int64_t *shape, uint32_t *rank, bool *known);

/* The output is static, as what it takes over is (If with a known condition). */
void tn__set_folded(tn_infer *infer, uint32_t index);

/* Control flow: a formal input of an own block gets type, shape and repeat of `like` (which may be
 * made up; its shape is copied), with bounds at `axes`. And a block that never runs. */
tn_status tn__set_formal(tn_infer *infer, tn_tensor_id formal, const tn_tensor *like,
                         uint64_t axes);
void tn__set_dead(tn_infer *infer, tn_block_id block);
/* A block that is one of several: it is dead, too, if it turns out not to type. */
void tn__set_tried(tn_infer *infer, tn_block_id block);

/* E_INVALID with the node's name and type in `where` and a sentence; use as
 * `return tn__infer_fail(infer, "axis %lld is outside rank %u", ...)`. */
tn_status tn__infer_fail(tn_infer *infer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
