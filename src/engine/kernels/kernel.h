/* kernel.h - the interface of kernels, which run one operator each, and the functions they are
 * written with.
 *
 * A kernel is ONE row of a family's table in families/<folder>/<family>.c. A family holds the
 * operators that share code, forward and backward, and has one line in families.def. Families are
 * asked in that order, and the first kernel that accepts an operator runs it: oneDNN's kernels
 * (<family>_dnnl.c) come before our own loops, which are the reference.
 *
 * When the engine is set up, `prepare` is called once per operator with its static facts. While the
 * program runs, `run` is called with operands in device memory. Between the two nothing may be
 * allocated: scratch is a number of bytes that the kernel states before planning and gets at its
 * planned place.
 *
 * Shapes. The operator's shape rule fills in outputs[k].shape before `run`, from the current
 * extents and values of the inputs. Only if the extents depend on data that no rule can follow
 * (NonZero), they are upper bounds, and the kernel writes the true extents.
 *
 * Memory. An output may lie exactly where an input lies that the operator's rule allows to be
 * overwritten (tn_op_inplace), and a view (Reshape, Slice along the outermost axis, ...) exactly
 * where its source has those bytes: then there is nothing to copy (`if (to != from)`). No other
 * operands overlap. Nothing outside the operands and the workspace may be written.
 *
 * Order of elements: C order, outermost first, for any rank; `format` is PLAIN unless a rewrite has
 * chosen another one. Types narrower than a byte: two int4 per byte, low first. Results must not
 * depend on the number of threads, except within oneDNN.
 */
#ifndef TN_KERNELS_KERNEL_H
#define TN_KERNELS_KERNEL_H

#include <tenure/engine.h>

#include "base/base.h"
#include "graph/attr.h"
#include "graph/key.h"

/* An operand while the program runs. */
typedef struct tn_operand {
    void *data;    /* NULL: omitted */
    uint64_t room; /* bytes there are */
    tn_dtype dtype;
    tn_format format;
    uint32_t rank;
    int64_t *shape; /* [rank] extents now */
    bool omitted;
} tn_operand;

/* Static facts about an operator, for accepts, prepare, workspace. */
typedef struct tn_kernel_setup {
    const struct tn_kernel *kernel; /* the one that is prepared */
    const tn_graph *graph;          /* with `id` for the functions below alone */
    const tn_op *op;
    tn_op_id id;
    /* version of the operator's domain; UINT32_MAX: the file gives none */
    uint32_t version;
    const tn_context *context; /* for allocations of `prepare` */
    uint32_t threads;
    /* NULL, or [input_count], [output_count]: the operands as they will be when it runs
     * (inner.h) */
    const tn_tensor *inputs_as, *outputs_as;
    struct tn__dnnl *library; /* NULL: only our own loops run (dnnl.h) */
    uint32_t way;             /* which of the kernel's; 0: the fastest */
    tn_error *error;
    /* prepare may set: */
    void *state;
    const char *detail; /* name of the implementation in the library; lives with the state */
    uint64_t workspace; /* bytes, aligned to 64 when it runs */
    /* [input_count], zeroed: bytes of a form of its own that the kernel wants of a static input
     * (blocked weights). `pack` then makes it, at set-up, and inputs[k].data is that form. */
    uint64_t *packed;
    /* [input_count], zeroed, with `packed`: a number that identifies the packed form. Operators
     * that want the same form of the same data have the same number, so that they can share one
     * copy; 0: not known. */
    uint64_t *forms;
} tn_kernel_setup;

struct tn__dnnl_work;

typedef struct tn_kernel_call {
    const tn_graph *graph; /* for the functions below alone; NULL: they know nothing */
    const tn_op *op;
    uint32_t version;
    uint32_t input_count, output_count;
    const tn_operand *inputs; /* [input_count] */
    tn_operand *outputs;      /* [output_count] */
    void *workspace;          /* [workspace_bytes], aligned to 64; holds anything */
    uint64_t workspace_bytes;
    void *state;      /* of prepare */
    uint64_t *random; /* counter of the run's random numbers, for operators without a seed */
    tn_error *error;
} tn_kernel_call;

typedef struct tn_kernel {
    const char *domain; /* NULL: that of its family */
    const char *type;   /* "*": any, as far as it accepts it */
    /* Whether it can run this operator: element types, attributes, formats. NULL: always. It must
     * handle any property that it does not check. */
    bool (*accepts)(const tn_kernel_setup *setup);
    /* NULL: nothing to prepare. E_UNSUPPORTED: ask the next family instead. */
    tn_status (*prepare)(tn_kernel_setup *setup);
    /* For tn__dnnl_prepare (dnnl.h): builds oneDNN's primitives; `kind` is the library's number of
     * an algorithm, where several rows share `build`. */
    tn_status (*build)(tn_kernel_setup *setup, struct tn__dnnl_work *work);
    int kind;
    /* Scratch bytes, if `prepare` is not needed otherwise; NULL: no scratch. From static shapes,
     * which are upper bounds. */
    uint64_t (*workspace)(const tn_kernel_setup *setup);
    tn_status (*run)(tn_kernel_call *call);
    /* From the plain contents of static input `input` to the form asked for. */
    tn_status (*pack)(const tn_kernel_setup *setup, uint32_t input, const void *plain,
                      void *packed);
    void (*release)(const tn_context *context, void *state);
    bool formats; /* it supports formats of operands; other kernels get only PLAIN ones */
    /* Number of ways that `prepare` offers in addition to the first, fastest one: 1, 2, ... take
     * less and less scratch for hardly more time. E_UNSUPPORTED: not this one, for this
     * operator. */
    uint32_t ways;
} tn_kernel;

typedef struct tn_kernel_family {
    const char *name;
    const char *domain; /* of rows without one: "" ONNX's, "tenure": made by rewrites and by
                         * training, "*": any */
    const tn_kernel *kernels;
    uint32_t kernel_count;
    bool library; /* needs oneDNN: not asked when it is absent or not wanted */
} tn_kernel_family;

#define TN_KERNEL_FAMILY(family, in_domain)                                                        \
    const tn_kernel_family tn__kernels_##family = {.name = #family,                                \
                                                   .domain = in_domain,                            \
                                                   .kernels = family##_kernels,                    \
                                                   .kernel_count = sizeof family##_kernels /       \
                                                                   sizeof *family##_kernels}
/* That of file <family>_dnnl.c. */
#define TN_KERNEL_LIBRARY(family, in_domain)                                                       \
    const tn_kernel_family tn__kernels_##family##_dnnl = {                                         \
        .name = "dnnl_" #family,                                                                   \
        .domain = in_domain,                                                                       \
        .kernels = family##_dnnl_kernels,                                                          \
        .kernel_count = sizeof family##_dnnl_kernels / sizeof *family##_dnnl_kernels,              \
        .library = true}

/* --- functions for kernels --- */

/* Static facts of an operand; NULL when omitted or absent. */
const tn_tensor *tn__setup_input(const tn_kernel_setup *setup, uint32_t index);
const tn_tensor *tn__setup_output(const tn_kernel_setup *setup, uint32_t index);
/* Whether the contents of an input are there at set-up (parameter, constant, folded). */
bool tn__setup_is_static(const tn_kernel_setup *setup, uint32_t index);

/* Other facts about the graph that kernels need: the relation of an output to the inputs
 * (tn_op_view), the inputs that are written to (tn_op_changes), and the data of an attribute that
 * is a tensor. */
tn_view tn__setup_view(const tn_kernel_setup *setup, uint32_t output);
uint64_t tn__setup_changes(const tn_kernel_setup *setup);
bool tn__setup_joins(const tn_kernel_setup *setup); /* tn_op_joins */
const tn_value *tn__setup_attr_value(const tn_kernel_setup *setup, const tn_attr *attr);
const tn_value *tn__call_attr_value(const tn_kernel_call *call, const tn_attr *attr);
/* Whether the plan has upper bounds for the extents of this output. */
bool tn__call_is_bound(const tn_kernel_call *call, uint32_t output);

/* The contents of an input, when they are known and may be looked at; else NULL. */
const tn_value *tn__setup_value(const tn_kernel_setup *setup, uint32_t index);

/* NULL: omitted or absent. */
const tn_operand *tn__call_input(const tn_kernel_call *call, uint32_t index);
tn_operand *tn__call_output(const tn_kernel_call *call, uint32_t index);
uint64_t tn__operand_count(const tn_operand *operand); /* elements; 1 for a scalar */
uint64_t tn__operand_bytes(const tn_operand *operand); /* with the current extents */
/* Elements of dimensions [first, last). */
uint64_t tn__operand_span(const tn_operand *operand, uint32_t first, uint32_t last);
/* One element of any type as int64 or double (numbers and bool; saturating from floats). */
int64_t tn__operand_int(const tn_operand *operand, uint64_t index);
double tn__operand_float(const tn_operand *operand, uint64_t index);
/* Copies the bytes of `from` to `to` unless they are there already. */
void tn__operand_copy(tn_operand *to, const tn_operand *from);
/* An axis in [-rank, rank) as [0, rank). */
tn_status tn__call_axis(const tn_kernel_call *call, int64_t axis, uint32_t rank, uint32_t *result);

/* Strides in elements of `operand` against `rank` dimensions of an output under numpy's
 * broadcasting: 0 where it is repeated. strides [rank]. */
void tn__operand_strides(const tn_operand *operand, uint32_t rank, int64_t *strides);

/* float16 and bfloat16. */
float tn__half_to_float(uint16_t half);
uint16_t tn__float_to_half(float value); /* round to nearest even */
static inline float tn__bfloat_to_float(uint16_t value) {
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}
uint16_t tn__float_to_bfloat(float value); /* round to nearest even */

/* An error with the node's name and type in `where`. */
tn_status tn__call_fail(const tn_kernel_call *call, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The next kernel after `previous` (NULL: from the start) that accepts the operator, in the order
 * of families; NULL: no more. `library` false: only our own loops. */
const tn_kernel *tn__kernel_find(const tn_kernel_setup *setup, bool library,
                                 const tn_kernel *previous);
const tn_kernel_family *tn__kernel_family(const tn_kernel *kernel);
/* The domain of its operator: "*" is any. */
const char *tn__kernel_domain(const tn_kernel_family *family, const tn_kernel *kernel);
/* Calls `prepare`, or else fills in the workspace. */
tn_status tn__kernel_prepare(const tn_kernel *kernel, tn_kernel_setup *setup);
/* The registry, in the order in which families are asked, for `tenure list kernels`. */
uint32_t tn__kernel_family_count(void);
const tn_kernel_family *tn__kernel_family_at(uint32_t index);

#endif
