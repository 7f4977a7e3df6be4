/* op.h - the rules that describe an operator to the planner, and the functions to write them.
 *
 * An operator is ONE entry of a family's table in ops/<folder>/<family>.c: shape, value folding,
 * cost, workspace, in-place, views, parts and gradient together. The driver (infer.c) walks the
 * graph in topological order, calls `shape`, then `fold` if small values are wanted, merges the
 * result with the shapes that the file states, and reports contradictions. A rule only decides: it
 * allocates no memory of its own, never reads other operators, and never recurses.
 */
#ifndef TN_GRAPH_OP_H
#define TN_GRAPH_OP_H

#include <tenure/graph.h>
#include <tenure/program.h>

#include "base/base.h"
#include "graph/attr.h"

/* The operator that is being inferred. Rules read it through the functions below. */
typedef struct tn_infer {
    tn_graph *graph;
    const tn_op *op;
    tn_op_id id;
    uint32_t version; /* version of the operator's domain; UINT32_MAX if the file gives none */
    tn_error *error;
    struct infer_state *state; /* private state of the driver */
} tn_infer;

struct tn_gradient;  /* gradient.h */
struct tn_decompose; /* decompose.h */

/* The values that a repeated block passes from iteration to iteration (Loop, Scan). */
typedef struct tn__loop_values {
    /* number of values passed from iteration to iteration; the first outputs are their final
     * values */
    uint32_t carried;
    /* `given`, `formal`, `next`: index of the first carried value among the operator's inputs, the
     * block's inputs, and the block's outputs */
    uint32_t given, formal, next;
    uint32_t sliced; /* number of further inputs that are read one slice per iteration */
    bool batch; /* true: the whole loop is repeated for each entry of a batch (Scan of opset 8) */
} tn__loop_values;

/* A tile of an operator: elements [first, last) along one axis of every output. */
typedef struct tn__tile {
    uint32_t axis;
    int64_t first, last;
} tn__tile;

/* The relation between a part of the output and the range of an input that it needs. It holds for
 * all parts along an axis. */
typedef enum tn__law {
    TN__LAW_NONE, /* no simple relation, so the rule must be called for each part of the output */
    TN__LAW_ALL,  /* every part needs all of the input */
    TN__LAW_SAME, /* a part of the output needs the input's elements at the same indices */
    /* the part [first, last) needs the elements from first * stride - front to (last - 1) * stride
     * - front + reach */
    TN__LAW_WINDOW,
} tn__law;

/* The range of one input that a part of the output needs, along one axis. All other axes are needed
 * as a whole. */
typedef struct tn__need {
    uint32_t axis; /* the axis of the range; TN_NONE: all of the input is needed */
    /* the range along the axis; if both are equal, the input is omitted (Concat) */
    int64_t first, last;
    /* padding that a window needs before and after the range (TN__FORM_WINDOW) */
    int64_t before, after;
    int64_t extra; /* attribute output_padding of a transposed convolution */
    tn__law law;
    /* for TN__LAW_WINDOW: its stride, front padding and window length */
    int64_t stride, front, reach;
} tn__need;

/* How the operator that computes a part differs from the whole operator. */
typedef enum tn__part_form {
    /* the operator for a part has the whole operator's attributes; only its operands differ */
    TN__FORM_SAME,
    /* the attribute `pads` holds the padding of the part (tn__need.before, tn__need.after), so no
     * padding is computed from extents */
    TN__FORM_WINDOW,
    TN__FORM_EXTENTS, /* input 1 becomes the extents of the part's output (Reshape, Expand) */
    TN__FORM_BAND,    /* a window of TensorFlow Lite, where tn__band computes the padding */
    /* TensorFlow Lite's PAD before a window: `paddings` holds the padding that the part needs */
    TN__FORM_PAD
} tn__part_form;

typedef struct tn_op_rule {
    const char *type;
    uint32_t inputs_min, inputs_max; /* inputs_max UINT32_MAX: the number of inputs has no limit */
    uint32_t outputs_max;            /* UINT32_MAX: the number of outputs has no limit */

    /* Sets the element type and shape of every output that is present (tn__set_*). A property that
     * is not known yet stays unset; the driver then uses the one that the file states. The rule
     * returns an error if the node is wrong (rank, axis, contradiction), never because a property
     * is unknown. */
    tn_status (*shape)(tn_infer *infer);

    /* Computes the values of outputs from the values of inputs if those are known and small
     * (tn__set_value_*). It runs after `shape`. NULL: values are not computed. */
    tn_status (*fold)(tn_infer *infer);

    /* Returns the number of floating-point or integer operations; a multiply-add counts as 2. NULL:
     * output elements x flops_per. */
    uint64_t (*flops)(tn_infer *infer);
    uint32_t flops_per; /* operations per output element, if `flops` is NULL */

    /* Bit i: output 0 may overwrite input i, if both have equal bytes and element sizes (the caller
     * checks this). Not read if `inplace_of` is set. */
    uint64_t inplace;
    /* Returns a bit set as in `inplace`, for output `output`, if it depends on
     * attributes or shapes (broadcasting); otherwise NULL. The caller also checks that the bytes
     * are equal. */
    uint64_t (*inplace_of)(tn_infer *infer, uint32_t output);

    /* Returns the input with which output `output` may or must share memory; source TN_NONE: the
     * output is not a view. NULL: no output is a view. */
    tn_view (*view)(tn_infer *infer, uint32_t output);

    /* Returns the scratch bytes of the reference algorithm. NULL: it needs none. */
    uint64_t (*workspace)(tn_infer *infer);

    uint32_t flags; /* TN_RULE_* */

    /* Bit i: if values of input i grow, then no extent and no element of the outputs shrinks
     * (monotone) or grows (antitone). So bounds may replace unknown values (such as the Shape of
     * NonZero's output), and the results are bounds again. If input i has neither bit, tn__value
     * hides bounds. */
    uint64_t monotone, antitone;

    /* For TN_RULE_CONTROL only. It is called before round 0, 1, ... of the operator's blocks. It
     * types their formal inputs (tn__set_formal), marks branches (tn__set_dead, tn__set_tried), and
     * sets *again if the blocks must be inferred (once more) with these types. `shape` runs at the
     * end. */
    tn_status (*enter)(tn_infer *infer, uint32_t round, bool *again);

    /* Bit i: the operator writes into input i and returns it as an output that is by definition a
     * view of it (an optimizer's step). TN_RULE_CHANGES also sets bit 0. */
    uint64_t changes;

    /* Bit i: input i never gets a gradient (running statistics, Resize's scales). */
    uint64_t no_gradient;

    /* Bit i: in models, input i is a parameter and not data: weights, bias, scale, running
     * statistics. */
    uint64_t weights;

    /* Bit i: the operator only uses which elements of input i are above 0 (the gradient of
     * Relu), so one bit per element is enough. */
    uint64_t signs;

    /* For an operator that must not run twice because it writes into operands: the operator type,
     * in the same domain, that recomputes output 0 alone. For each changed input i it gets the
     * operator's output i, which holds the old values, as its input. Its output may overwrite the
     * same inputs as output 0, and is not a view. NULL: the operator recomputes itself. */
    const char *recompute_as;

    uint32_t gates; /* number of gates of a recurrent cell and of its gradient; 0: not a
                     * recurrent cell */

    /* For TN_RULE_CONTROL with a repeated block: returns the carried values. NULL: they are
     * unknown. */
    tn__loop_values (*turns)(const tn_op *op, const tn_block *body);

    /* Finds the elements of input `input`, which is present, that a part of the outputs needs. The
     * rule may enlarge the part if only larger parts can be computed (whole blocks of an upscaled
     * image). Returns false if the parts along that axis are not independent. NULL: there are no
     * independent parts along any axis. It is called with known, exact shapes, through tn__op_split
     * (split.h). */
    bool (*split)(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
    tn__part_form part_form;

    /* Finds the axis of input `input` over which the operator sums (or in which it looks up), so
     * that the results of parts along this axis add up to the whole result; or one of TN__SUM_*.
     * Returns false if the operator has no such sum. NULL: it never has one. It is called with
     * known, exact shapes, through tn__op_sums. */
    bool (*sums)(tn_infer *infer, uint32_t input, uint32_t *axis);
    /* The operator type, in domain "tenure", that computes a part of such a sum. It has the
     * operator's attributes and an attribute `first`, the begin of the part along the axis. NULL:
     * the operator's own type computes it. */
    const char *sums_as;

    /* Adds operators that compute the gradients of inputs (gradient.h). NULL: the operator has no
     * gradient. */
    tn_status (*gradient)(struct tn_gradient *gradient);

    /* Adds operators that compute the outputs and have gradients, in place of this operator in a
     * training graph (decompose.h); NULL: there are none, or none are needed. */
    tn_status (*decompose)(struct tn_decompose *decompose);
} tn_op_rule;

#define TN__SUM_WHOLE TN_NONE      /* each partial sum needs all of this input */
#define TN__SUM_ONCE (TN_NONE - 1) /* only one of the partial sums adds this input, as for a bias */

enum {
    /* a random operator: it is never folded, even if its inputs are constant */
    TN_RULE_RANDOM = 1u << 0,
    /* the operator owns blocks, which the driver infers first (of a Loop: after the inputs) */
    TN_RULE_CONTROL = 1u << 1,
    TN_RULE_CONSTANT = 1u << 2, /* the operator has no inputs and is always folded (Constant) */
    /* the operator's values depend only on extents (Shape): bounded extents give bounded values */
    TN_RULE_SHAPE_ONLY = 1u << 3,
    /* the operator writes into input 0 (relu_). In every order, other accesses to those bytes must
     * stay before or after this operator, as they are in the file */
    TN_RULE_CHANGES = 1u << 4,
    /* the operator has effects other than its outputs (ASSIGN_VARIABLE). Such operators keep their
     * order in the file */
    TN_RULE_ORDERED = 1u << 6,
    /* the operator is never folded, because its result is larger than its inputs */
    TN_RULE_UNFOLDED = 1u << 7,
    /* output 0 is the concatenation of the inputs along one axis (Concat) */
    TN_RULE_JOINS = 1u << 5,

    /* Flags that name a kind of operator, for code that treats all operators of a kind alike. */

    TN_RULE_CONV = 1u << 8, /* a convolution, or an operator that contains one */
    /* a matrix product that is an operator of domain "tenure", or has one that computes it. That
     * operator also takes a row, a summand and activations */
    TN_RULE_MATMUL = 1u << 9,
    TN_RULE_ARITHMETIC = 1u << 10, /* numeric, element by element; operands broadcast (Add) */
    TN_RULE_RESHAPES = 1u << 11, /* the output has the input's elements in their order (Reshape) */
    /* the operator's outputs and operands may have the channels last (Relu) */
    TN_RULE_IMAGES = 1u << 12,
    TN_RULE_ONCE = 1u << 13, /* each block of the operator runs at most once (If) */
    /* the output is a view whether the channels are first or last in memory (Part) */
    TN_RULE_FORMAT_VIEW = 1u << 15,
    TN_RULE_SPACED = 1u << 16,    /* output 0 is a bucket of the inputs (rules/bucket.h) */
    TN_RULE_RANKS_SUM = 1u << 17, /* output 0 must be summed over ranks afterwards (folder dist) */
    TN_RULE_RANKS_MAX = 1u << 18, /* the maximum of output 0 over ranks must be taken afterwards */
    /* output 0 is a rank's part of the sum of input 0 over ranks (folder dist) */
    TN_RULE_RANKS_PART = 1u << 19,
    TN_RULE_RANKS_WHOLE = 1u << 20, /* output 0 is the concatenation of the ranks' inputs 0 */
    TN_RULE_HOLDS = 1u << 14, /* the operator's inputs are live until all of its blocks are done */
    /* Flags of convolutions and matrix products in any form, and of operators that contain one, for
     * passes that ask which operators are costly. */
    TN_RULE_CONV_LIKE = 1u << 21,
    TN_RULE_MATMUL_LIKE = 1u << 22,

    /* `fold` and the kernels may differ in the last bits of a floating-point result (Exp): the
     * value serves the shapes of later operators, and the data is computed by the kernel */
    TN_RULE_ROUGH = 1u << 23,
    /* output 0 has all parameters of which each rank keeps a part (folder dist) */
    TN_RULE_SHARD_WHOLE = 1u << 24,

    /* Groups of the flags above: operators of which the ranks combine the results, and operators
     * whose results are gathered from the ranks */
    TN_RULE_RANKS_COMBINE = TN_RULE_RANKS_SUM | TN_RULE_RANKS_MAX | TN_RULE_RANKS_PART,
    TN_RULE_GATHERED = TN_RULE_RANKS_WHOLE | TN_RULE_SHARD_WHOLE
};

/* A family of operators: one file ops/<folder>/<name>.c that defines
 * `const tn_op_family tn__ops_<name>`, plus one line in ops.def. Several families may serve one
 * domain; a (domain, type) pair appears once. `match`, if not NULL, accepts types that no table
 * lists (the overload suffixes of aten). */
typedef struct tn_op_family {
    const char *name;
    const char *domain; /* "" for ONNX's default domain */
    /* sorted by type (strcmp) for binary search; a test checks the order */
    const tn_op_rule *rules;
    uint32_t rule_count;
    const tn_op_rule *(*match)(const char *type);
} tn_op_family;
#define TN_OP_FAMILY(family, in_domain)                                                            \
    const tn_op_family tn__ops_##family = {.name = #family,                                        \
                                           .domain = in_domain,                                    \
                                           .rules = family##_rules,                                \
                                           .rule_count =                                           \
                                               sizeof family##_rules / sizeof *family##_rules}

/* Finds the entry for an operator type; NULL for an unknown type. */
const tn_op_rule *tn__op_rule(const char *domain, const char *type);

/* --- questions about operators and tensors that all folders may ask --- */

/* The entry for an operator of a graph, or NULL; O(1), without a search. */
const tn_op_rule *tn__rule_of(const tn_graph *graph, tn_op_id id);
/* Whether the entry of an operator has at least one of these flags. */
bool tn__op_has(const tn_graph *graph, tn_op_id id, uint32_t flags);
/* Whether a run of the operator draws random numbers from the counter of the run: a random
 * operator, or a Dropout that may be in training mode and has no seed. tn__draws is for an operator
 * that has no id yet. */
bool tn__op_draws(const tn_graph *graph, tn_op_id id);
bool tn__draws(const tn_graph *graph, const tn_op *op, const tn_op_rule *rule);
/* Bit i: input i of the operator is a running statistic, which is a parameter without a
 * gradient. */
uint64_t tn__op_statistics(const tn_graph *graph, tn_op_id id);
/* Whether an operator has a certain name: "Conv" means ONNX's operator in all spellings of its
 * domain, "tenure.Conv" the one of domain "tenure". A question that concerns several operators, or
 * is asked in several places, is a flag instead. */
bool tn__op_is(const tn_op *op, const char *type);
/* Whether an operator is ONNX's of this name, or the one of ONNX Runtime (com.microsoft). */
bool tn__op_is_contrib(const tn_op *op, const char *type);
/* tn__op_holds_input: whether an input may lie inside output 0 before the operator runs
 * (tn_op_joins, a bucket). tn__op_input_room: the number of bytes from there to the next input;
 * TN_SIZE_UNKNOWN: not known. */
bool tn__op_holds_input(const tn_graph *graph, tn_op_id op, uint32_t index);
uint64_t tn__op_input_room(const tn_graph *graph, tn_op_id op, uint32_t index);

/* --- reading --- */
static inline uint32_t tn__input_count(const tn_infer *infer) { return infer->op->input_count; }
static inline uint32_t tn__output_count(const tn_infer *infer) { return infer->op->output_count; }
/* returns NULL if the input is omitted or absent */
const tn_tensor *tn__input(const tn_infer *infer, uint32_t index);
/* returns NULL if the output is omitted or absent */
const tn_tensor *tn__output(const tn_infer *infer, uint32_t index);
bool tn__rank_known(const tn_tensor *tensor); /* returns false for NULL */
/* whether every extent is known; returns false for NULL */
bool tn__shape_known(const tn_tensor *tensor);
/* The axis of the shape that is at position `place` in memory, counted from the outermost. If the
 * channels are last in memory, axis 1 comes after all others. */
uint32_t tn__memory_axis(const tn_tensor *tensor, uint32_t place);
/* The number of elements; TN_SIZE_UNKNOWN if an extent is unknown, or on overflow. */
uint64_t tn__elements(const tn_tensor *tensor);

/* The value of a tensor attribute; NULL if it is absent or unknown. */
const tn_value *tn__attr_tensor_value(const tn_infer *infer, const char *name);

/* The values of an input, or upper bounds of them (tn__value_is_bound); NULL if they are unknown,
 * if training updates the input, or if it is omitted. */
const tn_value *tn__value(const tn_infer *infer, uint32_t index);
/* The values of an input as integers, without converting floats; NULL if they are unknown or
 * floats. */
const int64_t *tn__value_ints(const tn_infer *infer, uint32_t index, uint32_t *count);
/* One element of a value as double, for every element type. */
double tn__value_at(const tn_value *value, uint32_t index);
/* Whether the values that tn__value returns for this input are an upper bound, not exact. Only
 * inputs in `monotone` can have bounds. */
bool tn__value_is_bound(const tn_infer *infer, uint32_t index);
/* Whether the value of a tensor serves shapes only (TN_RULE_ROUGH). */
bool tn__value_is_rough(const tn_infer *infer, tn_tensor_id id);
/* Whether one element of bounded values is exact nevertheless. */
bool tn__value_is_exact_at(const tn_infer *infer, uint32_t index, uint32_t element);
/* Returns lower and upper bounds of an input's values; both are equal if the input is exact.
 * Returns false if they are unknown. For rules that can decide from bounds alone, such as a
 * comparison of disjoint ranges. */
bool tn__value_range(const tn_infer *infer, uint32_t index, const tn_value **least,
                     const tn_value **most);
/* The set of axes with extents that are bounds, as bits, for a tensor (an input, a formal input, a
 * block's output). */
uint64_t tn__bound_axes(const tn_infer *infer, tn_tensor_id id);
/* The lower bound of a tensor's extent along an axis; the extent itself if it is exact. */
int64_t tn__least_extent(const tn_infer *infer, tn_tensor_id id, uint32_t axis);

/* Converts an axis in [-rank, rank) to one in [0, rank). Errors: E_INVALID, which names the
 * node. */
tn_status tn__axis(const tn_infer *infer, int64_t axis, uint32_t rank, uint32_t *result);

/* --- setters --- */

/* Returns zeroed memory that is valid until the end of this operator's rules; NULL if memory runs
 * out (then return tn__infer_no_memory). */
void *tn__scratch(tn_infer *infer, size_t count, size_t item);
tn_status tn__infer_no_memory(tn_infer *infer);

/* The setters ignore an output that is omitted. dtype UNDEFINED leaves the element type open. */
tn_status tn__set_output(tn_infer *infer, uint32_t index, tn_dtype dtype, uint32_t rank,
                         const int64_t *shape);
/* sets the element type alone; the shape stays unknown */
tn_status tn__set_dtype(tn_infer *infer, uint32_t index, tn_dtype dtype);
/* Copies element type, shape and repeat of `tensor` to an output, which becomes a sequence if
 * `tensor` is one. Does nothing if `tensor` is NULL. */
tn_status tn__set_like(tn_infer *infer, uint32_t index, const tn_tensor *tensor);
/* Marks one extent of the output, or all of them, as an upper bound that depends on data (NonZero,
 * ...); the lower bound is then 0. For bounded inputs the driver derives the bounds itself: it runs
 * the rule a second time with the lower extents and values. Results that are equal in both runs are
 * exact. */
void tn__set_bound_axis(tn_infer *infer, uint32_t index, uint32_t axis);
void tn__set_bound(tn_infer *infer, uint32_t index);
/* Makes an output a sequence of `repeat` tensors of this type and shape; TN_SIZE_UNKNOWN: the
 * length is unknown. */
tn_status tn__set_sequence(tn_infer *infer, uint32_t index, tn_dtype dtype, uint32_t rank,
                           const int64_t *shape, uint64_t repeat);
/* Sets the values of an output, which are copied; `count` must be the number of elements. More than
 * TN_VALUE_MAX values are ignored. */
tn_status tn__set_value_ints(tn_infer *infer, uint32_t index, const int64_t *ints, uint32_t count);
tn_status tn__set_value_floats(tn_infer *infer, uint32_t index, const double *floats,
                               uint32_t count);

/* Broadcasts `count` tensors as numpy does and writes the extents to `shape` (space for
 * TN_RANK_MAX). An unknown extent against 1 or unknown stays unknown; against n > 1 it becomes n.
 * *known becomes false if a rank is unknown; `shape` is then not written. Errors: E_INVALID that
 * names both tensors and extents. */
tn_status tn__broadcast(tn_infer *infer, const tn_tensor *const *tensors, uint32_t count,
                        int64_t *shape, uint32_t *rank, bool *known);

/* Makes an output static, like the tensor that it takes over (If with a known condition). */
void tn__set_folded(tn_infer *infer, uint32_t index);

/* For control flow. tn__set_formal gives a formal input of the operator's block the type, shape and
 * repeat of `like`, with bounds at `axes`. `like` may be temporary; its shape is copied.
 * tn__set_dead marks a block that never runs. */
tn_status tn__set_formal(tn_infer *infer, tn_tensor_id formal, const tn_tensor *like,
                         uint64_t axes);
void tn__set_dead(tn_infer *infer, tn_block_id block);
/* Marks a block that is one of several alternatives: if its inference fails, the block counts as
 * dead. */
void tn__set_tried(tn_infer *infer, tn_block_id block);

/* Returns E_INVALID with a sentence and, in `where`, the node's name and type; use as `return
 * tn__infer_fail(infer, "axis %lld is outside rank %u", ...)`. */
tn_status tn__infer_fail(tn_infer *infer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
