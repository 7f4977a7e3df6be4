/* dnnl.h - the interface to oneDNN: the library, found at run time, and the functions that its
 * kernels (families/<folder>/<family>_dnnl.c) are written with.
 *
 * A kernel of the library is a work: a few primitives that run one after the other. Their memories
 * are bound to operands of the operator, or to places in its scratch. The row of a kernel names the
 * function that builds the work with the functions below; tn__dnnl_prepare, tn__dnnl_run,
 * tn__dnnl_pack and tn__dnnl_release do the rest for all of them.
 *
 *     tn__dnnl_begin       an empty work becomes setup->state
 *     tn__dnnl_choose      the best implementation of a descriptor
 *     tn__dnnl_step        a primitive of it; then its memories:
 *     tn__dnnl_bind        an operand, or scratch
 *     tn__dnnl_weights     an operand that is packed at set-up when it is static
 *     tn__dnnl_end         states scratch and name; on any failure the work is released
 */
#ifndef TN_KERNELS_DNNL_H
#define TN_KERNELS_DNNL_H

#include "engine/kernels/kernel.h"

typedef struct tn__dnnl tn__dnnl;

/* Finds the library and makes it ready for `threads` threads (0: 1).
 * Errors: E_UNSUPPORTED (not installed, or of a version that this was not written for: which
 * package to install), E_NO_MEMORY. Cost: the first time in a process some 10 ms. */
tn_status tn__dnnl_open(const tn_context *context, uint32_t threads, tn__dnnl **library,
                        tn_error *error);
void tn__dnnl_close(tn__dnnl *library); /* after every state; NULL is fine */
/* The instruction set that it uses: "sse41", "avx", "avx2" or "avx512". */
const char *tn__dnnl_isa(const tn__dnnl *library);
/* Version and instruction set. */
void tn__dnnl_tell(const tn__dnnl *library, char *text, size_t size);

#ifdef TENURE_DNNL
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

struct tn__dnnl {
#define TN_SYMBOL(name) __typeof__(&name) name;
#include "engine/kernels/dnnl_symbols.def"
#undef TN_SYMBOL
    void (*set_threads)(int count); /* OpenMP's, of the run time that oneDNN is linked to */
    tn_context context;
    void *handle;
    uint32_t threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    pthread_mutex_t lock; /* a work's memories belong to one run at a time */
};

typedef struct tn__dnnl_work tn__dnnl_work;

/* Where a memory of a primitive lies. */
typedef enum tn__dnnl_place {
    TN__DNNL_INPUT,  /* operand `index`, plus `offset` bytes */
    TN__DNNL_OUTPUT, /* the same */
    TN__DNNL_SCRATCH /* `offset` bytes into the scratch */
} tn__dnnl_place;
typedef struct tn__dnnl_at {
    tn__dnnl_place place;
    uint32_t index;
    uint64_t offset;
} tn__dnnl_at;
#define TN__DNNL_IN(i) ((tn__dnnl_at){TN__DNNL_INPUT, (i), 0})
#define TN__DNNL_OUT(i) ((tn__dnnl_at){TN__DNNL_OUTPUT, (i), 0})

/* Whether the tensor is float32 or bfloat16 with all extents known, exact and not 0, and rank at
 * most 12; NULL is not. If the library lacks a bfloat16 implementation, in general or on this
 * machine, the next family is asked. */
bool tn__dnnl_is_fit(const tn_tensor *tensor);
/* Whether all existing inputs and outputs fit. */
bool tn__dnnl_all_fit(const tn_kernel_setup *setup);

/* The descriptor of a tensor in its format; a scalar has one dimension of 1. */
tn_status tn__dnnl_desc(const tn__dnnl *library, const tn_tensor *tensor, dnnl_memory_desc_t *desc);
/* The same seen as `rank` dimensions of these extents, strides in elements. */
tn_status tn__dnnl_strided(const tn__dnnl *library, tn_dtype dtype, uint32_t rank,
                           const int64_t *shape, const int64_t *strides, dnnl_memory_desc_t *desc);
/* A tensor in C order as [outer, along, inner] around dimensions [first, last). */
tn_status tn__dnnl_rows(const tn__dnnl *library, const tn_tensor *tensor, uint32_t first,
                        uint32_t last, dnnl_memory_desc_t *desc);
/* Describes all elements as one row, in their order in memory. */
tn_status tn__dnnl_flat(const tn__dnnl *library, const tn_tensor *tensor, dnnl_memory_desc_t *desc);
/* Leaves the form of a descriptor to the library. */
tn_status tn__dnnl_any(const tn__dnnl *library, dnnl_memory_desc_t *desc);
/* Strides in elements of a tensor of known shape in its format. strides [rank] */
void tn__dnnl_strides(const tn_tensor *tensor, int64_t *strides);
/* OK, E_NO_MEMORY, E_UNSUPPORTED for an outcome of the library. */
tn_status tn__dnnl_status(dnnl_status_t outcome);

tn_status tn__dnnl_begin(tn_kernel_setup *setup, tn__dnnl_work **work);
/* Returns `status` after closing the work: E_UNSUPPORTED asks the next family. */
tn_status tn__dnnl_end(tn_kernel_setup *setup, tn__dnnl_work *work, tn_status status);

/* How good an implementation is: 0 a plain reference, 1 it packs on the heap while it runs
 * ("gemm"), 2 neither. */
uint32_t tn__dnnl_rank_of(const char *implementation);

/* Operations of a primitive on its result before it is written. */
typedef struct tn__dnnl_post {
    const char *activation; /* an operator type, or "" */
    double alpha, beta;
} tn__dnnl_post;
#define TN__DNNL_POST_MAX 4u /* rewrites write two at most (HardSigmoid) */
typedef struct tn__dnnl_after {
    double scale;                  /* scale of the result, before anything else; 0: no scale */
    const dnnl_memory_desc_t *add; /* NULL, or the tensor that is then added, broadcasting */
    bool sum;                      /* then adds the old values of the destination */
    uint32_t post_count;
    tn__dnnl_post post[TN__DNNL_POST_MAX];
} tn__dnnl_after;
/* Where a step with `add` expects it. */
#define TN__DNNL_ARG_ADD (DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1)
/* The activations that an operator of domain "tenure" carries: `post` and its parameters.
 * Errors: E_UNSUPPORTED (more than there is room for). */
tn_status tn__dnnl_after_of(const tn_op *op, tn__dnnl_after *after);
tn_status tn__dnnl_attr(const tn__dnnl *library, const tn__dnnl_after *after,
                        dnnl_primitive_attr_t *attr);
/* The library's kind and parameters of an activation; false: it has no equal one. */
bool tn__dnnl_activation(const tn__dnnl_post *post, dnnl_alg_kind_t *kind, float *alpha,
                         float *beta);

/* A window over spatial dimensions as the library wants it, from the attributes of a convolution or
 * pool and the extents of input and output. False: it cannot be said. */
typedef struct tn__dnnl_window {
    uint32_t spatial;
    dnnl_dims_t kernel, stride, dilation; /* dilation 0: dense */
    dnnl_dims_t begin, end;
    bool exact; /* the padding at the end is exactly that of the attributes */
} tn__dnnl_window;
bool tn__dnnl_window_of(const tn_op *op, const tn_tensor *input, const tn_tensor *output,
                        const int64_t *kernel, bool transposed, tn__dnnl_window *window);

/* The best implementation, `rank` its rank (may be NULL). `descriptor`: a filled dnnl_*_desc_t.
 * Errors: E_UNSUPPORTED (no implementation), E_NO_MEMORY.
 */
tn_status tn__dnnl_choose(const tn__dnnl *library, const void *descriptor,
                          const tn__dnnl_after *after, dnnl_primitive_desc_t *chosen,
                          uint32_t *rank);
/* The same of a gradient; `forward` is the primitive that it belongs to. */
tn_status tn__dnnl_choose_back(const tn__dnnl *library, const void *descriptor,
                               const tn__dnnl_after *after, const_dnnl_primitive_desc_t forward,
                               dnnl_primitive_desc_t *chosen, uint32_t *rank);
/* The memory layouts that the chosen implementation wants: dnnl_query_src_md and similar. */
const dnnl_memory_desc_t *tn__dnnl_wants(const tn__dnnl *library, dnnl_primitive_desc_t desc,
                                         dnnl_query_t what, int index);

/* Adds a primitive; takes `desc` over, on failure too. It will have at most `room` memories. */
tn_status tn__dnnl_step(tn__dnnl_work *work, dnnl_primitive_desc_t desc, uint32_t room);
/* Binds one memory of the last step. */
tn_status tn__dnnl_bind(tn__dnnl_work *work, int role, const dnnl_memory_desc_t *desc,
                        tn__dnnl_at at);
/* A step of its own that copies between descriptors. */
tn_status tn__dnnl_reorder(tn__dnnl_work *work, const dnnl_memory_desc_t *from, tn__dnnl_at from_at,
                           const dnnl_memory_desc_t *to, tn__dnnl_at to_at);
/* Bytes of scratch, aligned to 64. */
tn_status tn__dnnl_scratch(tn__dnnl_work *work, uint64_t bytes, tn__dnnl_at *at);
/* Where input `input`, which lies as `plain` says, will be in the form `wanted`: itself, packed at
 * set-up, or reordered into scratch when it runs (then a step is added: call it before the step
 * that reads it). */
tn_status tn__dnnl_weights(tn_kernel_setup *setup, tn__dnnl_work *work, uint32_t input,
                           const dnnl_memory_desc_t *plain, const dnnl_memory_desc_t *wanted,
                           tn__dnnl_at *at);
/* Before the steps: copies input `from`, which has the same bytes as output 0, to that output
 * unless it lies there already. A sum then adds to it. */
void tn__dnnl_accumulate(tn__dnnl_work *work, uint32_t from);

/* tn__dnnl_begin, the row's `build`, tn__dnnl_end. */
tn_status tn__dnnl_prepare(tn_kernel_setup *setup);
tn_status tn__dnnl_run(tn_kernel_call *call);
tn_status tn__dnnl_pack(const tn_kernel_setup *setup, uint32_t input, const void *plain,
                        void *packed);
void tn__dnnl_release(const tn_context *context, void *state);

/* A step: output 0 = input `first`, which may lie at `at` instead and has the output's shape,
 * combined with the other input, which broadcasts to it, and then `post` (NULL: none).
 * E_UNSUPPORTED: the library has no such form. (elementwise_dnnl.c) */
tn_status tn__dnnl_pair(tn_kernel_setup *setup, tn__dnnl_work *work, dnnl_alg_kind_t kind,
                        uint32_t first, tn__dnnl_at at, const tn__dnnl_after *after);
/* A step: as many elements as `like` has, times a factor. */
tn_status tn__dnnl_times(tn__dnnl_work *work, const tn__dnnl *library, const tn_tensor *like,
                         double factor, tn__dnnl_at from, tn__dnnl_at to);

/* A row of a family of the library; more fields of it may follow `build`. TN__DNNL_OWN: of domain
 * "tenure". */
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
