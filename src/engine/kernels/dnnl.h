/* dnnl.h - the interface to oneDNN: loading the library at run time, and the functions from which
 * its kernels (families/<folder>/<family>_dnnl.c) are written.
 *
 * A kernel that uses oneDNN is a tn__dnnl_work: a few primitives that run one after the other. The
 * memory objects of the primitives are bound to operands of the operator or to offsets in its
 * scratch memory. The kernel's row names a function that builds the work with the functions below.
 * The common functions tn__dnnl_prepare, tn__dnnl_run, tn__dnnl_pack and tn__dnnl_release do the
 * rest for every kernel.
 *
 *   tn__dnnl_begin       creates an empty work
 *   tn__dnnl_choose      finds the best implementation for a descriptor
 *   tn__dnnl_step        adds a primitive with this implementation; its memories are then bound
 *                        with
 *   tn__dnnl_bind        (to an operand or to scratch memory) or with
 *   tn__dnnl_weights     (to an operand that is packed once when it is static)
 *   tn__dnnl_end         states scratch bytes and name, and stores the work in setup->state; on
 *                        failure it releases the work
 */
#ifndef TN_KERNELS_DNNL_H
#define TN_KERNELS_DNNL_H

#include "engine/kernels/kernel.h"

typedef struct tn__dnnl tn__dnnl;

/* Loads oneDNN and prepares it for `threads` threads (0 means 1). Errors: E_UNSUPPORTED (not
 * installed, or a version that this code does not support; the message names the package to
 * install), E_NO_MEMORY. Cost: that of loading a shared library, at the first call in a process. */
tn_status tn__dnnl_open(const tn_context *context, uint32_t threads, tn__dnnl **library,
                        tn_error *error);
void tn__dnnl_close(tn__dnnl *library); /* call it after all states are released; accepts NULL */
/* Returns the instruction set that oneDNN uses: "sse41", "avx", "avx2" or "avx512". */
const char *tn__dnnl_isa(const tn__dnnl *library);
/* Writes oneDNN's version and instruction set to `text`. */
void tn__dnnl_tell(const tn__dnnl *library, char *text, size_t size);

#ifdef TENURE_DNNL
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

struct tn__dnnl {
#define TN_SYMBOL(name) __typeof__(&name) name;
#include "engine/kernels/dnnl_symbols.def"
#undef TN_SYMBOL
    /* omp_set_num_threads of the OpenMP library to which oneDNN is linked */
    void (*set_threads)(int count);
    tn_context context;
    void *handle;
    uint32_t threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    /* held while a work runs, because its memory objects can serve only one run at a time */
    pthread_mutex_t lock;
};

typedef struct tn__dnnl_work tn__dnnl_work;

/* The memory to which a memory object of a primitive is bound. */
typedef enum tn__dnnl_place {
    TN__DNNL_INPUT,  /* input `index` of the operator, from byte `offset` on */
    TN__DNNL_OUTPUT, /* output `index` of the operator, from byte `offset` on */
    TN__DNNL_SCRATCH /* the operand is in scratch memory, from byte `offset` on */
} tn__dnnl_place;
typedef struct tn__dnnl_at {
    tn__dnnl_place place;
    uint32_t index;
    uint64_t offset;
} tn__dnnl_at;
#define TN__DNNL_IN(i) ((tn__dnnl_at){TN__DNNL_INPUT, (i), 0})
#define TN__DNNL_OUT(i) ((tn__dnnl_at){TN__DNNL_OUTPUT, (i), 0})

/* Whether oneDNN kernels can use a tensor: it is float32 or bfloat16, has rank at most 12, is no
 * sequence, has no blocked format, and all its extents are known, exact and not 0. False for NULL.
 * This does not guarantee that oneDNN has an implementation for bfloat16 on this machine; if not,
 * another family of kernels is asked. */
bool tn__dnnl_is_fit(const tn_tensor *tensor);
/* Whether tn__dnnl_is_fit is true for all inputs and outputs that exist. */
bool tn__dnnl_all_fit(const tn_kernel_setup *setup);

/* Describes a tensor in its format to oneDNN. A scalar gets one dimension of 1. */
tn_status tn__dnnl_desc(const tn__dnnl *library, const tn_tensor *tensor, dnnl_memory_desc_t *desc);
/* Describes memory to oneDNN as `rank` dimensions with the given extents and strides (in
 * elements). */
tn_status tn__dnnl_strided(const tn__dnnl *library, tn_dtype dtype, uint32_t rank,
                           const int64_t *shape, const int64_t *strides, dnnl_memory_desc_t *desc);
/* Describes a tensor in C order as three dimensions [outer, along, inner]: `along` combines the
 * dimensions [first, last), the other two combine those before and after. An `inner` of 1 is left
 * out. */
tn_status tn__dnnl_rows(const tn__dnnl *library, const tn_tensor *tensor, uint32_t first,
                        uint32_t last, dnnl_memory_desc_t *desc);
/* Describes a tensor as one dimension with all its elements in the order of memory. */
tn_status tn__dnnl_flat(const tn__dnnl *library, const tn_tensor *tensor, dnnl_memory_desc_t *desc);
/* Changes a descriptor so that oneDNN chooses the memory layout. */
tn_status tn__dnnl_any(const tn__dnnl *library, dnnl_memory_desc_t *desc);
/* Computes the strides, in elements, of a tensor of known shape in its format. */
void tn__dnnl_strides(const tn_tensor *tensor, int64_t *strides);
/* Converts a status of oneDNN to TN_OK, E_NO_MEMORY or E_UNSUPPORTED. */
tn_status tn__dnnl_status(dnnl_status_t outcome);

tn_status tn__dnnl_begin(tn_kernel_setup *setup, tn__dnnl_work **work);
/* Ends the building of a work. `status` is returned; if it is not TN_OK, the work is released.
 * E_UNSUPPORTED makes the caller ask the next family of kernels. */
tn_status tn__dnnl_end(tn_kernel_setup *setup, tn__dnnl_work *work, tn_status status);

/* Rates an implementation by its name: 0 for reference loops, 1 for one that packs on the heap
 * while it runs ("gemm"), 2 for all others. */
uint32_t tn__dnnl_rank_of(const char *implementation);

/* Operations that a primitive applies to its result before it writes the result. */
typedef struct tn__dnnl_post {
    const char *activation; /* the activation to apply, an operator type of ONNX; "": none */
    double alpha, beta;
} tn__dnnl_post;
/* most activations after an operator; rewrites of the graph make at most two (for HardSigmoid) */
#define TN__DNNL_POST_MAX 4u
typedef struct tn__dnnl_after {
    double scale;                  /* first: multiplies the result by this; 0: does not */
    const dnnl_memory_desc_t *add; /* second: adds this tensor, with broadcasting; NULL: does not */
    bool sum;                      /* third: adds the values that the destination had before */
    uint32_t post_count;
    tn__dnnl_post post[TN__DNNL_POST_MAX];
} tn__dnnl_after;
/* The argument of a step for the tensor tn__dnnl_after.add. */
#define TN__DNNL_ARG_ADD (DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1)
/* Reads the activations that a rewrite has fused into an operator of domain "tenure": the attribute
 * `post` and its parameters. Errors: E_UNSUPPORTED (more than TN__DNNL_POST_MAX, or lists of
 * different lengths). */
tn_status tn__dnnl_after_of(const tn_op *op, tn__dnnl_after *after);
tn_status tn__dnnl_attr(const tn__dnnl *library, const tn__dnnl_after *after,
                        dnnl_primitive_attr_t *attr);
/* Finds oneDNN's algorithm and parameters for an activation. Returns false if oneDNN has no equal
 * activation. */
bool tn__dnnl_activation(const tn__dnnl_post *post, dnnl_alg_kind_t *kind, float *alpha,
                         float *beta);

/* The window of a convolution or pool in oneDNN's terms, computed from the operator's attributes
 * and the extents of its input and output. tn__dnnl_window_of returns false if oneDNN cannot
 * express the window. */
typedef struct tn__dnnl_window {
    uint32_t spatial;
    dnnl_dims_t kernel, stride, dilation; /* a dilation of 0 means adjacent elements */
    dnnl_dims_t begin, end;
    bool exact; /* whether the padding at the end is exactly that of the attributes */
} tn__dnnl_window;
bool tn__dnnl_window_of(const tn_op *op, const tn_tensor *input, const tn_tensor *output,
                        const int64_t *kernel, bool transposed, tn__dnnl_window *window);

/* Finds the best implementation for `descriptor`, a filled dnnl_*_desc_t. *rank gets its rating
 * (tn__dnnl_rank_of); it may be NULL. Errors: E_UNSUPPORTED (no implementation but reference
 * loops), E_NO_MEMORY. */
tn_status tn__dnnl_choose(const tn__dnnl *library, const void *descriptor,
                          const tn__dnnl_after *after, dnnl_primitive_desc_t *chosen,
                          uint32_t *rank);
/* Finds the best implementation for a gradient, as tn__dnnl_choose does. `forward`: the primitive
 * of the forward pass, for which the gradient is computed. */
tn_status tn__dnnl_choose_back(const tn__dnnl *library, const void *descriptor,
                               const tn__dnnl_after *after, const_dnnl_primitive_desc_t forward,
                               dnnl_primitive_desc_t *chosen, uint32_t *rank);
/* Returns the memory layout that an implementation needs for an operand. `what` is
 * dnnl_query_src_md or a similar query. */
const dnnl_memory_desc_t *tn__dnnl_wants(const tn__dnnl *library, dnnl_primitive_desc_t desc,
                                         dnnl_query_t what, int index);

/* Adds a step with a primitive, which will have at most `room` memory objects. Takes ownership of
 * `desc`, also if it fails. */
tn_status tn__dnnl_step(tn__dnnl_work *work, dnnl_primitive_desc_t desc, uint32_t room);
/* Adds a memory object to the step that was added last, and binds it to an operand or to scratch
 * memory. */
tn_status tn__dnnl_bind(tn__dnnl_work *work, int role, const dnnl_memory_desc_t *desc,
                        tn__dnnl_at at);
/* Adds a step that copies a tensor from one memory layout to another. */
tn_status tn__dnnl_reorder(tn__dnnl_work *work, const dnnl_memory_desc_t *from, tn__dnnl_at from_at,
                           const dnnl_memory_desc_t *to, tn__dnnl_at to_at);
/* Reserves bytes of scratch memory, aligned to 64. */
tn_status tn__dnnl_scratch(tn__dnnl_work *work, uint64_t bytes, tn__dnnl_at *at);
/* Makes an input available in the memory layout `wanted`; `plain` describes its own layout. *at
 * gets the input itself if both are equal, or if it is static: then it is packed when the engine is
 * created. Otherwise *at gets scratch memory, and a step is added that reorders the input.
 * Therefore call this before adding the step that reads the input. */
tn_status tn__dnnl_weights(tn_kernel_setup *setup, tn__dnnl_work *work, uint32_t input,
                           const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *wanted,
                           tn__dnnl_at *at);
/* Makes input `from`, which has the size of output 0, be copied to output 0 before the first step,
 * unless both have the same address. A step can then add to the output. */
void tn__dnnl_accumulate(tn__dnnl_work *work, uint32_t from);

/* Calls tn__dnnl_begin, the function `build` of the kernel's row, and tn__dnnl_end. */
tn_status tn__dnnl_prepare(tn_kernel_setup *setup);
tn_status tn__dnnl_run(tn_kernel_call *call);
tn_status tn__dnnl_pack(const tn_kernel_setup *setup, uint32_t input, const void *plain,
                        void *packed);
void tn__dnnl_release(const tn_context *context, void *state);

/* Adds a step that combines input `first` (or the memory `at`) and the other input elementwise into
 * output 0, and then applies `post` (NULL: nothing). The first operand has the output's shape; the
 * other one is broadcast. Errors: E_UNSUPPORTED (oneDNN cannot do it). Defined in
 * elementwise_dnnl.c. */
tn_status tn__dnnl_pair(tn_kernel_setup *setup, tn__dnnl_work *work, dnnl_alg_kind_t kind,
                        uint32_t first, tn__dnnl_at at, const tn__dnnl_after *after);
/* Adds a step that multiplies elements by `factor`, as many as the tensor `like` has. */
tn_status tn__dnnl_times(tn__dnnl_work *work, const tn__dnnl *library, const tn_tensor *like,
                         double factor, tn__dnnl_at from, tn__dnnl_at to);

/* Rows of a kernel table that use oneDNN; more fields may follow `build`. TN__DNNL_OWN is for
 * operators of domain "tenure". */
#define TN__DNNL_KERNEL(in_type, in_accepts, in_build)                                             \
    TN__DNNL_KERNEL_AS(in_type, in_accepts, in_build, .kind = 0)
#define TN__DNNL_OWN(in_type, in_accepts, in_build)                                                \
    TN__DNNL_OWN_AS(in_type, in_accepts, in_build, .kind = 0)
#define TN__DNNL_OWN_AS(in_type, in_accepts, in_build, ...)                                        \
    TN__DNNL_KERNEL_AS(in_type, in_accepts, in_build, .domain = "tenure", __VA_ARGS__)
#define TN__DNNL_KERNEL_AS(in_type, in_accepts, in_build, ...)                                     \
    {                                                                                              \
        .type = in_type, .accepts = in_accepts, .prepare = tn__dnnl_prepare, .build = in_build,    \
        .run = tn__dnnl_run, .pack = tn__dnnl_pack, .release = tn__dnnl_release, .formats = true,  \
        __VA_ARGS__                                                                                \
    }
#endif
#endif
