/* op.h - the rules that describe an operator to the planner, and the functions to write them.
 *
 * An operator is ONE entry of a family's table in ops/<family>.c: shape, value folding, cost,
 * workspace, in-place and view rule together. The driver (infer.c) walks the graph in
 * topological order, calls `shape`, then `fold` if small values are wanted, merges the result
 * with the shapes that the file states, and reports contradictions. A rule only decides: it
 * allocates no memory of its own, never reads other operators, and never recurses.
 */
#ifndef TN_GRAPH_OP_H
#define TN_GRAPH_OP_H

#include <tenure/graph.h>
#include <tenure/program.h>

#include "base/base.h"
#include "graph/attr.h"

/* The current operator. Rules read it through the functions below. */
typedef struct tn_infer {
    tn_graph *graph;
    const tn_op *op;
    tn_op_id id;
    uint32_t version; /* of the operator's domain; UINT32_MAX when the file gives none */
    tn_error *error;
    struct infer_state *state; /* private to the driver */
} tn_infer;

struct tn_gradient;  /* gradient.h */
struct tn_decompose; /* decompose.h */

/* The values that a repeated block passes from turn to turn (Loop, Scan). */
typedef struct tn__loop_values {
    uint32_t carried; /* number of values passed from turn to turn; the first outputs are their
                       * final values */
    uint32_t given, formal, next; /* index of the first among the operator's inputs, the block's
                                   * inputs, the block's outputs */
    uint32_t sliced;              /* number of further inputs that are read one slice per turn */
    bool batch;                   /* everything is repeated for each entry of a batch (Scan of
                                   * opset 8) */
} tn__loop_values;

/* A tile of an operator: elements [first, last) along one axis of every output. */
typedef struct tn__tile {
    uint32_t axis;
    int64_t first, last;
} tn__tile;

/* The relation between a part and the range of an input that it needs, for all parts along an
 * axis. */
typedef enum tn__law {
    TN__LAW_NONE,   /* no law: ask the rule for each part */
    TN__LAW_ALL,    /* all of the input */
    TN__LAW_SAME,   /* the elements of the part */
    TN__LAW_WINDOW, /* first * stride - front to (last - 1) * stride - front + reach */
} tn__law;

/* The range of one input that a part needs; the other axes are needed whole. */
typedef struct tn__need {
    uint32_t axis;         /* TN_NONE: all of the input */
    int64_t first, last;   /* along the axis; equal: the input is omitted (Concat) */
    int64_t before, after; /* padding that a window needs at either end (TN__FORM_WINDOW) */
    int64_t extra;         /* output_padding of a transposed convolution */
    tn__law law;
    int64_t stride, front, reach; /* of TN__LAW_WINDOW */
} tn__need;

/* The difference between the operator that computes a part and the whole operator. */
typedef enum tn__part_form {
    TN__FORM_SAME,    /* only the operands differ */
    TN__FORM_WINDOW,  /* `pads` hold the padding of the need; none is computed from extents */
    TN__FORM_EXTENTS, /* input 1 becomes the extents of the part's output (Reshape, Expand) */
    TN__FORM_BAND,    /* a window of TensorFlow Lite (tn__band) */
    TN__FORM_PAD      /* its PAD: `paddings` hold the padding of the need */
} tn__part_form;

typedef struct tn_op_rule {
    const char *type;
    uint32_t inputs_min, inputs_max; /* max UINT32_MAX: variadic */
    uint32_t outputs_max;            /* UINT32_MAX: variadic */

    /* Sets dtype and shape of every output that is present (tn__set_*). A property that is not
     * known yet stays unset; the driver then uses the one that the file states. An error is for
     * a node that is wrong (rank, axis, contradiction), never for an unknown property. */
    tn_status (*shape)(tn_infer *infer);

    /* Computes outputs' contents from inputs' contents when those are known and small
     * (tn__set_value_*); NULL: contents are not computed. Runs after `shape`. */
    tn_status (*fold)(tn_infer *infer);

    /* Floating-point or integer operations, multiply-add = 2; NULL: output elements x flops_per. */
    uint64_t (*flops)(tn_infer *infer);
    uint32_t flops_per; /* operations per output element, if `flops` is NULL */

    /* Bit i: output 0 may overwrite input i if bytes and element size are equal (the caller
     * checks this). Other outputs never overwrite. */
    uint64_t inplace;
    /* As `inplace`, if it depends on attributes or shapes (broadcasting); otherwise NULL. The
     * caller also checks that the bytes are equal. */
    uint64_t (*inplace_of)(tn_infer *infer, uint32_t output);

    /* The input with which output k may or must share memory; source TN_NONE: no view. NULL: no
     * output is a view. */
    tn_view (*view)(tn_infer *infer, uint32_t output);

    /* Scratch bytes of the reference algorithm; NULL: no scratch. */
    uint64_t (*workspace)(tn_infer *infer);

    uint32_t flags; /* TN_RULE_* */

    /* Bit i: if contents of input i grow, no extent and no element of the outputs shrinks
     * (monotone) or grows (antitone). Then bounds may replace unknown contents (the Shape of
     * NonZero's output), and the results are bounds again. If both bits are 0, tn__value hides
     * bounds. */
    uint64_t monotone, antitone;

    /* TN_RULE_CONTROL only. Called before round 0, 1, ... of the operator's blocks. It types
     * their formal inputs (tn__set_formal), marks branches (tn__set_dead, tn__set_tried), and
     * sets *again if the blocks must be inferred (once more) with these types. `shape` runs at
     * the end. */
    tn_status (*enter)(tn_infer *infer, uint32_t round, bool *again);

    /* Bit i: writes into input i and returns it as an output that is a view of it by definition
     * (an optimizer's step). TN_RULE_CHANGES also sets bit 0. */
    uint64_t changes;

    /* Bit i: input i has no gradient (running statistics, Resize's scales). */
    uint64_t no_gradient;

    /* Bit i: input i is a parameter in models, not data: weights, bias, scale, running
     * statistics. */
    uint64_t weights;

    /* Bit i: the operator only uses which elements of input i are above 0 (the gradient of
     * Relu), so one bit per element is enough. */
    uint64_t signs;

    /* For an operator that must not run twice because it writes into operands: the type, in the
     * same domain, that recomputes output 0 alone. For each changed input i it gets output i,
     * which holds the old contents. Its output may overwrite the same inputs as output 0, and is
     * not a view. NULL: the operator itself. */
    const char *recompute_as;

    uint32_t gates; /* number of gates of a recurrent cell and of its gradient; 0: not a
                     * recurrent cell */

    /* TN_RULE_CONTROL with a repeated block. NULL: the carried values are unknown. */
    tn__loop_values (*turns)(const tn_op *op, const tn_block *body);

    /* The elements of input `input`, which is present, that a part of the outputs needs. The
     * rule may enlarge the part if only larger parts can be computed (whole blocks of an
     * upscaled image). False: the operator is not independent along that axis. NULL: along no
     * axis. Called with known, exact shapes, through tn__op_split (split.h). */
    bool (*split)(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
    tn__part_form part_form;

    /* The axis of input `input` over which the operator sums (or in which it looks up), so that
     * the results of parts along this axis add up to the whole result; or TN__SUM_*. False: it
     * has no such sum. NULL: never. Called as `split` is, through tn__op_sums. */
    bool (*sums)(tn_infer *infer, uint32_t input, uint32_t *axis);
    /* The type, in domain "tenure", that computes such a part: as the operator, with attribute
     * `first`, the begin of the part along the axis. NULL: the operator itself. */
    const char *sums_as;

    /* Adds the operators that compute the gradients of inputs (gradient.h); NULL: no gradient
     * exists. */
    tn_status (*gradient)(struct tn_gradient *gradient);

    /* Adds operators that compute the outputs and have gradients, in place of this operator in a
     * training graph (decompose.h); NULL: there are none, or none are needed. */
    tn_status (*decompose)(struct tn_decompose *decompose);
} tn_op_rule;

#define TN__SUM_WHOLE TN_NONE      /* each part needs all of this input */
#define TN__SUM_ONCE (TN_NONE - 1) /* is added to the sum only once: a bias */

enum {
    TN_RULE_RANDOM = 1u << 0,   /* never folded, though its inputs are constant */
    TN_RULE_CONTROL = 1u << 1,  /* owns blocks: the driver infers them first (Loop: after inputs) */
    TN_RULE_CONSTANT = 1u << 2, /* no inputs, always folded (Constant) */
    TN_RULE_SHAPE_ONLY = 1u << 3, /* contents depend only on extents (Shape): bounded extents
                                   * give bounded contents */
    TN_RULE_CHANGES = 1u << 4,    /* writes into input 0 (relu_): other accesses to those bytes
                                   * must stay on their side of this operator, in every order */
    TN_RULE_ORDERED = 1u << 6,    /* does more than compute its outputs (ASSIGN_VARIABLE): such
                                   * operators keep the order of the file among each other */
    TN_RULE_UNFOLDED = 1u << 7,   /* never folded: its result is larger than its inputs */
    TN_RULE_JOINS = 1u << 5,      /* output 0 is the inputs, concatenated along one axis (Concat) */

    /* Kinds of operators, for code that treats all operators of a kind alike. */

    TN_RULE_CONV = 1u << 8,         /* a convolution, or ... */
    TN_RULE_MATMUL = 1u << 9,       /* a matrix product: one that is or has an operator of domain
                                     * "tenure" that also takes a row, a summand and activations */
    TN_RULE_ARITHMETIC = 1u << 10,  /* numeric, element by element; operands broadcast (Add) */
    TN_RULE_RESHAPES = 1u << 11,    /* the same elements in the same order (Reshape) */
    TN_RULE_IMAGES = 1u << 12,      /* channels may be last, in outputs and operands (Relu) */
    TN_RULE_ONCE = 1u << 13,        /* each of its blocks runs at most once (If) */
    TN_RULE_FORMAT_VIEW = 1u << 15, /* its view is valid for every memory format (Part) */
    TN_RULE_SPACED = 1u << 16,      /* output 0 is a bucket of the inputs (rules/bucket.h) */
    TN_RULE_RANKS_SUM = 1u << 17,   /* output 0 must be summed over ranks afterwards (dist) */
    TN_RULE_RANKS_MAX = 1u << 18,   /* or the maximum over ranks taken */
    TN_RULE_RANKS_PART = 1u << 19,  /* output 0 is a rank's part of the sum of input 0 (dist) */
    TN_RULE_RANKS_WHOLE = 1u << 20, /* output 0 is the ranks' inputs 0, concatenated */
    TN_RULE_HOLDS = 1u << 14,       /* its inputs are read until all of its blocks are done */
    /* Other forms, or operators that contain one: for passes that ask which operators are
     * costly. */
    TN_RULE_CONV_LIKE = 1u << 21,
    TN_RULE_MATMUL_LIKE = 1u << 22
};

/* A family: one file in ops/ that defines `const tn_op_family tn__ops_<name>`, plus one line in
 * ops.def. Several families may serve one domain; a (domain, type) pair appears once. `match`,
 * if not NULL, accepts types that no table lists (aten's overload suffixes). */
typedef struct tn_op_family {
    const char *name;
    const char *domain;      /* "" for ONNX's default */
    const tn_op_rule *rules; /* sorted by type (strcmp) for binary search; a test checks the
                              * order */
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

/* --- queries, from every folder --- */

/* The entry for an operator of a graph, or NULL; O(1), without a search. */
const tn_op_rule *tn__rule_of(const tn_graph *graph, tn_op_id id);
/* Whether an operator has an entry with one of these flags. */
bool tn__op_has(const tn_graph *graph, tn_op_id id, uint32_t flags);
/* Bit i: input i is a running statistic: a parameter without a gradient. */
uint64_t tn__op_statistics(const tn_graph *graph, tn_op_id id);
/* For code that recognises an operator by its name: "Conv" of ONNX's domain, in all spellings,
 * or "tenure.Conv". A question that concerns several operators, or is asked in several places,
 * is a flag instead. */
bool tn__op_is(const tn_op *op, const char *type);
/* Whether an input may lie inside output 0 before the operator runs (tn_op_joins, a bucket), and
 * the number of bytes from there to the next input. */
bool tn__op_holds_input(const tn_graph *graph, tn_op_id op, uint32_t index);
uint64_t tn__op_input_room(const tn_graph *graph, tn_op_id op, uint32_t index);

/* --- reading --- */
static inline uint32_t tn__input_count(const tn_infer *infer) { return infer->op->input_count; }
static inline uint32_t tn__output_count(const tn_infer *infer) { return infer->op->output_count; }
const tn_tensor *tn__input(const tn_infer *infer, uint32_t index);  /* NULL: omitted or absent */
const tn_tensor *tn__output(const tn_infer *infer, uint32_t index); /* NULL: omitted or absent */
bool tn__rank_known(const tn_tensor *tensor);                       /* false for NULL */
bool tn__shape_known(const tn_tensor *tensor); /* every extent known; false for NULL */
/* The axis of the shape that is `place`-th in memory, outermost first: if channels are last in
 * memory, axis 1 comes after all others. */
uint32_t tn__memory_axis(const tn_tensor *tensor, uint32_t place);
/* Elements, or TN_SIZE_UNKNOWN (unknown extents, overflow). */
uint64_t tn__elements(const tn_tensor *tensor);

/* The contents of a tensor attribute; NULL: absent or unknown. */
const tn_value *tn__attr_tensor_value(const tn_infer *infer, const char *name);

/* Contents of an input when known; NULL otherwise (also when omitted). */
const tn_value *tn__value(const tn_infer *infer, uint32_t index);
/* The same as integers, without converting floats. NULL unless `ints` is set. */
const int64_t *tn__value_ints(const tn_infer *infer, uint32_t index, uint32_t *count);
/* One element as double, for every type. */
double tn__value_at(const tn_value *value, uint32_t index);
/* Whether the contents from tn__value for this input are an upper bound (only with `monotone`). */
bool tn__value_is_bound(const tn_infer *infer, uint32_t index);
/* Whether one element of bounded contents is exact nevertheless. */
bool tn__value_is_exact_at(const tn_infer *infer, uint32_t index, uint32_t element);
/* Lower and upper contents of an input; both are the same if it is exact. False: unknown. For
 * rules that can decide from bounds alone, such as a comparison of disjoint ranges. */
bool tn__value_range(const tn_infer *infer, uint32_t index, const tn_value **least,
                     const tn_value **most);
/* The axes of a tensor (an input, a formal, a block's output) with extents that are bounds, as a
 * bit set. */
uint64_t tn__bound_axes(const tn_infer *infer, tn_tensor_id id);
/* The lower bound of a tensor's extent along an axis; the extent itself if it is exact. */
int64_t tn__least_extent(const tn_infer *infer, tn_tensor_id id, uint32_t axis);

/* An axis in [-rank, rank) as [0, rank). Errors: E_INVALID that names the node. */
tn_status tn__axis(const tn_infer *infer, int64_t axis, uint32_t rank, uint32_t *result);

/* --- setters --- */

/* Zeroed scratch that lives until the end of this operator's rules; NULL: out of memory (then
 * return tn__infer_no_memory). */
void *tn__scratch(tn_infer *infer, size_t count, size_t item);
tn_status tn__infer_no_memory(tn_infer *infer);

/* Setters ignore an output that is omitted. dtype UNDEFINED leaves the type open. */
tn_status tn__set_output(tn_infer *infer, uint32_t index, tn_dtype dtype, uint32_t rank,
                         const int64_t *shape);
tn_status tn__set_dtype(tn_infer *infer, uint32_t index, tn_dtype dtype); /* the shape stays
                                                                           * unknown */
/* Copies type, shape and repeat of an input. */
tn_status tn__set_like(tn_infer *infer, uint32_t index, const tn_tensor *tensor);
/* Marks one extent of the output, or all, as an upper bound that depends on data (NonZero, ...);
 * the lower bound is then 0. For bounded inputs the driver derives the bounds itself: it runs
 * the rule a second time with the lower extents and contents. Equal results are exact. */
void tn__set_bound_axis(tn_infer *infer, uint32_t index, uint32_t axis);
void tn__set_bound(tn_infer *infer, uint32_t index);
/* A list of `repeat` tensors of this type and shape; TN_SIZE_UNKNOWN: unknown length. */
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

/* The output is static, like the tensor that it takes over (If with a known condition). */
void tn__set_folded(tn_infer *infer, uint32_t index);

/* Control flow: a formal input of the operator's block gets type, shape and repeat of `like`
 * (which may be temporary; its shape is copied), with bounds at `axes`. The other function marks
 * a block that never runs. */
tn_status tn__set_formal(tn_infer *infer, tn_tensor_id formal, const tn_tensor *like,
                         uint64_t axes);
void tn__set_dead(tn_infer *infer, tn_block_id block);
/* A block that is one of several: if typing it fails, it counts as dead. */
void tn__set_tried(tn_infer *infer, tn_block_id block);

/* E_INVALID with the node's name and type in `where` and a sentence; use as
 * `return tn__infer_fail(infer, "axis %lld is outside rank %u", ...)`. */
tn_status tn__infer_fail(tn_infer *infer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
