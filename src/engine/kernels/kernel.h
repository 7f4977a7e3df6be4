/* kernel.h - the interface of kernels, and the functions that kernels use. A kernel runs one kind
 * of operator.
 *
 * A kernel is ONE row of the table of a family, in families/<folder>/<family>.c. A family contains
 * the operators that share code, forward and backward, and has one line in families.def. Families
 * are asked in the order of that file, and the first kernel that accepts an operator runs it.
 * Kernels of oneDNN (<family>_dnnl.c) come before our own loops, which are the reference.
 *
 * When an engine is created, `prepare` is called once per operator with everything that is known
 * before the run. During the run, `run` is called with operands in device memory. A kernel may not
 * allocate during the run: it states the bytes of its scratch memory before planning, and gets them
 * at their planned address.
 *
 * Shapes. The operator's shape rule sets outputs[k].shape before `run`, from the current extents
 * and values of the inputs. If extents depend on data that no rule can read (NonZero),
 * outputs[k].shape has upper bounds, and the kernel writes the true extents.
 *
 * Memory. An output may have the address of an input that the operator's rule allows to be
 * overwritten (tn_op_inplace). A view (Reshape, Slice along the outermost axis, ...) may be at the
 * address of its bytes in its source; then nothing must be copied (`if (to != from)`). No other
 * operands overlap. A kernel writes only to its outputs and its workspace.
 *
 * Order of elements. C order, outermost dimension first, for every rank; `format` is PLAIN unless a
 * rewrite has chosen another one. Two 4-bit elements share a byte, the first in the low bits.
 * Results must not depend on the number of threads, except within oneDNN.
 */
#ifndef TN_KERNELS_KERNEL_H
#define TN_KERNELS_KERNEL_H

#include <tenure/engine.h>

#include "base/base.h"
#include "graph/attr.h"
#include "graph/expert_rows.h"
#include "graph/key.h"

/* An operand during the run of a program. */
typedef struct tn_operand {
    void *data;    /* address of the data; NULL: the operand is omitted */
    uint64_t room; /* bytes that are planned for the operand */
    tn_dtype dtype;
    tn_format format;
    uint32_t rank;
    int64_t *shape; /* the current extents of the operand */
    bool omitted;
} tn_operand;

/* Everything that is known about an operator before the run; for accepts, prepare and workspace. */
typedef struct tn_kernel_setup {
    const struct tn_kernel *kernel; /* the kernel that is being prepared */
    /* `graph` and `id` are read only by the functions below (tn__setup_...) */
    const tn_graph *graph;
    const tn_op *op;
    tn_op_id id;
    /* version of the operator set; UINT32_MAX: the model states none */
    uint32_t version;
    const tn_context *context; /* context with which `prepare` allocates memory */
    uint32_t threads;
    /* Arrays that describe the operands as the kernel will get them, if copies of operands are made
     * for it (inner.h); NULL: it gets the graph's tensors. */
    const tn_tensor *inputs_as, *outputs_as;
    struct tn__dnnl *library; /* the oneDNN library (dnnl.h); NULL: oneDNN is not used */
    uint32_t way;             /* number of the kernel's variant to prepare; 0: the fastest */
    tn_error *error;
    /* The fields from here on are results of `prepare`. */
    void *state;
    const char *detail; /* name of oneDNN's implementation; exists as long as `state` */
    uint64_t workspace; /* bytes of scratch memory; aligned to 64 during the run */
    /* For each input, 0 at first: bytes of a packed form (such as blocked weights) that the kernel
     * needs of a static input. `pack` makes the form when the engine is created, and inputs[k].data
     * of a call then points to it. */
    uint64_t *packed;
    /* For each input with a packed form, 0 at first: a number that identifies the form. Operators
     * that need the same form of the same data state the same number, so that they can share one
     * copy. 0: not known. */
    uint64_t *forms;
} tn_kernel_setup;

struct tn__dnnl_work;

/* Function that a kernel gives to `visit`, for the row at position `index` of the list. parts[i]:
 * address of the row's entry of input i; NULL: input i has no entries. */
typedef tn_status tn_kernel_row_use(void *context, uint32_t index,
                                    const void *const parts[TN__EXPERTS_CACHE]);
/* Access to operands that stay in files (graph/expert_rows.h, engine/row_cache.c). */
typedef struct tn_kernel_rows {
    void *self;
    /* Calls `use` for each row of `rows`, in this order, when the row is in memory; the addresses
     * are valid during the call. Starts to read the rows of `next` as far as the cache has room,
     * those that matter most first. No row is listed twice. */
    tn_status (*visit)(void *self, const uint32_t *rows, uint32_t count, const uint32_t *next,
                       uint32_t next_count, tn_kernel_row_use *use, void *context, tn_error *error);
} tn_kernel_rows;

typedef struct tn_kernel_call {
    /* the graph is read only by the functions below (tn__call_...); if it is NULL, they report that
     * nothing is known */
    const tn_graph *graph;
    const tn_op *op;
    uint32_t version;
    uint32_t input_count, output_count;
    const tn_operand *inputs; /* [input_count] the operands that the kernel reads */
    tn_operand *outputs;      /* [output_count] the operands that the kernel writes */
    /* scratch memory of `workspace_bytes` bytes, aligned to 64; its contents are undefined */
    void *workspace;
    uint64_t workspace_bytes;
    void *state;      /* the state of the kernel, which `prepare` made */
    uint64_t *random; /* counter from which operators without a seed derive random numbers */
    const tn_kernel_rows *rows; /* NULL: no operand stays in a file */
    tn_error *error;
} tn_kernel_call;

typedef struct tn_kernel {
    const char *domain; /* domain of the operator; NULL: the domain of the family */
    const char *type;   /* type of the operator; "*": any type that `accepts` allows */
    /* Whether the kernel can run this operator, with its element types, attributes and formats.
     * NULL: it can run every operator of its type. The kernel must handle every property that this
     * function does not check. */
    bool (*accepts)(const tn_kernel_setup *setup);
    /* Prepares the kernel for an operator. NULL: nothing to prepare. If it returns E_UNSUPPORTED,
     * the next kernel is asked. */
    tn_status (*prepare)(tn_kernel_setup *setup);
    /* Called by tn__dnnl_prepare (dnnl.h): builds oneDNN's primitives. `kind` is the number of an
     * algorithm of oneDNN, for rows that share one function. */
    tn_status (*build)(tn_kernel_setup *setup, struct tn__dnnl_work *work);
    int kind;
    /* Bytes of scratch memory, for a kernel without `prepare`. NULL: no scratch. They follow from
     * the shapes of the graph, which may be upper bounds. */
    uint64_t (*workspace)(const tn_kernel_setup *setup);
    tn_status (*run)(tn_kernel_call *call);
    /* Converts the data of a static input to the packed form that `prepare` has requested. */
    tn_status (*pack)(const tn_kernel_setup *setup, uint32_t input, const void *plain,
                      void *packed);
    void (*release)(const tn_context *context, void *state);
    /* Bit i: the kernel also reads input i in 16-bit floats while its other operands are float32. A
     * run on float32 copies (inner.h) leaves such inputs as they are. */
    uint32_t short_inputs;
    /* whether the kernel supports operands whose elements are in another order than PLAIN: NHWC, or
     * blocks of channels (tn_format) */
    bool formats;
    /* Number of variants that `prepare` offers in addition to the fastest one. Variant 1, 2, ...
     * needs less and less scratch memory, and is hardly slower. `prepare` returns E_UNSUPPORTED if
     * a variant does not exist for the operator. */
    uint32_t ways;
} tn_kernel;

typedef struct tn_kernel_family {
    const char *name;
    /* Domain of rows that state none: "" is ONNX, "tenure" is for operators that rewrites and
     * training make, "*" is any domain. */
    const char *domain;
    const tn_kernel *kernels;
    uint32_t kernel_count;
    /* whether the kernels of this family need oneDNN; without oneDNN they are skipped */
    bool library;
} tn_kernel_family;

#define TN_KERNEL_FAMILY(family, in_domain)                                                        \
    const tn_kernel_family tn__kernels_##family = {.name = #family,                                \
                                                   .domain = in_domain,                            \
                                                   .kernels = family##_kernels,                    \
                                                   .kernel_count = sizeof family##_kernels /       \
                                                                   sizeof *family##_kernels}
/* Defines the family of oneDNN kernels of a file <family>_dnnl.c. */
#define TN_KERNEL_LIBRARY(family, in_domain)                                                       \
    const tn_kernel_family tn__kernels_##family##_dnnl = {                                         \
        .name = "dnnl_" #family,                                                                   \
        .domain = in_domain,                                                                       \
        .kernels = family##_dnnl_kernels,                                                          \
        .kernel_count = sizeof family##_dnnl_kernels / sizeof *family##_dnnl_kernels,              \
        .library = true}

/* --- functions that kernels may call --- */

/* Describes an operand as it is known before the run. NULL: it is omitted or does not exist. */
const tn_tensor *tn__setup_input(const tn_kernel_setup *setup, uint32_t index);
const tn_tensor *tn__setup_output(const tn_kernel_setup *setup, uint32_t index);
/* Whether the data of an input is known when the engine is created and no run changes it, as for a
 * constant, a folded tensor, or a parameter that is not trained (tn_tensor_is_constant). */
bool tn__setup_is_static(const tn_kernel_setup *setup, uint32_t index);

/* Other facts about the graph that kernels need: the input of which an output is a view
 * (tn_op_view), which inputs the operator changes in place (tn_op_changes), and the data of an
 * attribute that is a tensor. */
tn_view tn__setup_view(const tn_kernel_setup *setup, uint32_t output);
uint64_t tn__setup_changes(const tn_kernel_setup *setup);
/* whether output 0 is the concatenation of the inputs along one axis (tn_op_joins) */
bool tn__setup_joins(const tn_kernel_setup *setup);
const tn_value *tn__setup_attr_value(const tn_kernel_setup *setup, const tn_attr *attr);
const tn_value *tn__call_attr_value(const tn_kernel_call *call, const tn_attr *attr);
/* Whether the graph has only upper bounds for the extents of this output; true if the call has no
 * graph. */
bool tn__call_is_bound(const tn_kernel_call *call, uint32_t output);

/* The data of an input if it is known before the run and small enough to be read by kernels; else
 * NULL. */
const tn_value *tn__setup_value(const tn_kernel_setup *setup, uint32_t index);

/* An operand of a call; NULL if it is omitted or does not exist. */
const tn_operand *tn__call_input(const tn_kernel_call *call, uint32_t index);
tn_operand *tn__call_output(const tn_kernel_call *call, uint32_t index);
/* returns the number of elements of an operand; 1 for a scalar */
uint64_t tn__operand_count(const tn_operand *operand);
/* returns the size of an operand in bytes, with its current extents */
uint64_t tn__operand_bytes(const tn_operand *operand);
/* Product of the extents of dimensions [first, last). */
uint64_t tn__operand_span(const tn_operand *operand, uint32_t first, uint32_t last);
/* Returns one element, of any numeric type or bool, as int64 or double. A float outside the range
 * of int64 becomes the nearest int64. */
int64_t tn__operand_int(const tn_operand *operand, uint64_t index);
double tn__operand_float(const tn_operand *operand, uint64_t index);
/* Copies the data of `from` to `to`, unless both have the same address. */
void tn__operand_copy(tn_operand *to, const tn_operand *from);
/* Converts an axis in [-rank, rank) to one in [0, rank). Errors: E_INVALID (outside that range). */
tn_status tn__call_axis(const tn_kernel_call *call, int64_t axis, uint32_t rank, uint32_t *result);

/* Computes the strides of `operand`, in elements, along `rank` dimensions of an output with numpy's
 * broadcasting. The stride is 0 in dimensions where the operand is repeated. */
void tn__operand_strides(const tn_operand *operand, uint32_t rank, int64_t *strides);

/* Conversions between float32 and the 16-bit types float16 and bfloat16. */
float tn__half_to_float(uint16_t half);
/* converts a float32 to float16; rounds to nearest, ties to even */
uint16_t tn__float_to_half(float value);
static inline float tn__bfloat_to_float(uint16_t value) {
    uint32_t bits = (uint32_t)value << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}
/* converts a float32 to bfloat16; rounds to nearest, ties to even */
uint16_t tn__float_to_bfloat(float value);

/* Reports an error; its member `where` gets the node's name and type. Returns `status`. */
tn_status tn__call_fail(const tn_kernel_call *call, tn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the next kernel after `previous` that accepts the operator, in the order of families, or
 * NULL if there is no other. `previous` NULL: returns the first. `library` false: skips kernels of
 * oneDNN. */
const tn_kernel *tn__kernel_find(const tn_kernel_setup *setup, bool library,
                                 const tn_kernel *previous);
const tn_kernel_family *tn__kernel_family(const tn_kernel *kernel);
/* The domain of the operators that a kernel runs; "*" is any domain. */
const char *tn__kernel_domain(const tn_kernel_family *family, const tn_kernel *kernel);
/* Prepares a kernel: calls its `prepare`, or its `workspace` if `prepare` is NULL. */
tn_status tn__kernel_prepare(const tn_kernel *kernel, tn_kernel_setup *setup);
/* The families in the order in which they are asked, for `tenure list kernels`. */
uint32_t tn__kernel_family_count(void);
const tn_kernel_family *tn__kernel_family_at(uint32_t index);

#endif
