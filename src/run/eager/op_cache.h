/* op_cache.h - a cache of types and of operators that are prepared once.
 *
 * A cached operator is an operator for operands of given types, prepared to run: its outputs, its
 * kernel and scratch, the inputs of which it makes views or into which it writes, whether it can be
 * recomputed, and its gradients.
 *
 * Everything that does not depend on tensor data is computed once, and stored under a string of
 * bytes as key. Applying the operator again costs only the key and one lookup. A cached operator
 * contains a graph of this one operator, so the rules for shapes, views and gradients apply as in
 * any graph.
 *
 *   op_cache.c       types; the keys and the making of cached operators
 *   differential.c   the operators that compute the gradients of a cached operator
 */
#ifndef TN_EAGER_OP_CACHE_H
#define TN_EAGER_OP_CACHE_H

#include <tenure/graph.h>

#include "base/base.h"
#include "engine/kernels/cache.h"
#include "graph/op.h"
#include "memory/evict/evict.h"

/* --- types ------------------------------------------------------------------------------------ */

/* The type of a tensor: element type, extents, and the data if shape rules need it (the new shape
 * of a Reshape, the axes of a sum). Equal types have equal numbers, so types are compared by their
 * numbers.
 *
 * A type with known data is an immediate. A tensor of such a type has no memory in the arena: the
 * interpreter stores its data in the type, as it stores the attributes of an operator, and does not
 * count it in the budget.
 */

/* largest number of elements of an immediate; larger tensors are in the arena */
#define TN__IMMEDIATE_MOST 256u

typedef struct tn__type {
    tn_dtype dtype;
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    uint64_t bytes;
    const tn_value *value; /* the data of an immediate; NULL: the type is not an immediate */
    void *data;            /* the data of an immediate as kernels read it, in `bytes` bytes */
} tn__type;

typedef struct tn__types {
    tn__arena arena;
    tn__names names; /* maps a key to the number of its type */
    const tn__type **of;
    size_t count, room;
    tn__text key; /* buffer for the key of the current request */
} tn__types;

void tn__types_init(tn__types *types, const tn_context *context);
void tn__types_release(tn__types *types);
static inline const tn__type *tn__type_of(const tn__types *types, uint32_t type) {
    return types->of[type];
}

/* Finds or makes a type and returns its number. `value`: the data of an immediate, or NULL. Errors:
 * E_INVALID (the size is not known or overflows), E_NO_MEMORY. */
tn_status tn__types_find(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                         const tn_value *value, uint32_t *type, tn_error *error);
/* Finds or makes the type of an immediate from the bytes of an array. Errors: E_INVALID (too many
 * elements, or an element type that shape rules cannot read), E_NO_MEMORY. */
tn_status tn__types_immediate(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                              const void *data, uint32_t *type, tn_error *error);
/* Finds or makes the type of a graph's tensor; it is an immediate if the tensor's data is known and
 * small. */
tn_status tn__types_of_tensor(tn__types *types, const tn_tensor *tensor, uint32_t *type,
                              tn_error *error);
/* Appends a number to a key, as 4 bytes. */
static inline void tn__key_number(tn__text *key, uint32_t number) {
    tn__text_add(key, (const char *)&number, sizeof number);
}
/* Writes a type to `text`, for example "float32[2,3]", and returns `text`. */
const char *tn__type_text(const tn__type *type, char *text, size_t size);

/* --- operators -------------------------------------------------------------------------------- */

/* largest number of inputs, and of outputs, because a set of them has 64 bits */
#define TN__OPERANDS_MOST 64u

/* One output of a cached operator. */
typedef struct tn__result {
    uint32_t type; /* number of the output's type; TN_NONE: the output is omitted */
    /* the input of which the output is a view; TN_NONE: the output has memory of its own */
    uint32_t view_of;
    uint64_t offset; /* distance of a view from the start of the input, in bytes */
    /* whether the output is an input that the operator writes into, and not a new tensor */
    bool handed;
    /* whether the output is an immediate (a small known tensor); if one output is, all are, and
     * nothing is computed */
    bool known;
} tn__result;

typedef struct tn__differential tn__differential;

typedef struct tn__cached_op {
    /* a graph of this operator alone; the inputs that are not omitted are tensors 0, 1, ... */
    tn_graph *graph;
    const tn_op *op;
    const tn_op_rule *rule;
    uint32_t input_count, output_count;
    const uint32_t *inputs;       /* for each input: number of its type; TN_NONE: omitted */
    const tn__result *results;    /* [output_count] the outputs */
    const tn__prepared *prepared; /* the kernel; NULL: there is nothing to compute */
    /* indices of the operands that have data in the arena: neither omitted nor immediates (small
     * known tensors) */
    uint32_t *data_inputs, *data_outputs;
    /* describes each of the data_output_count outputs to the eviction core */
    tn__evict_output *data_as;
    uint32_t data_input_count, data_output_count;
    tn_kernel_call call; /* the call of the kernel, complete except for addresses of operands */
    uint64_t scratch;    /* bytes */
    uint64_t changes;    /* bit i: the operator writes into input i */
    uint64_t flows;      /* bit i: input i can have a gradient */
    bool random;         /* whether the operator draws random numbers from the counter */
    bool repeats;        /* whether running the operator again gives the same result */
    /* An operator that writes into inputs cannot be recomputed. If another operator can compute
     * output 0 from the remaining outputs and inputs, `again` is that operator. It then computes
     * output 0 the first time too, and this operator's own output 0 is written to scratch memory.
     * NULL: there is no such operator. */
    struct tn__cached_op *again;
    uint32_t again_found; /* bit i: input i of the operator `again` is output i of this operator */
    /* if `again` is not NULL: offset in the scratch memory to which this operator's own output 0 is
     * written */
    uint64_t aside;
    tn__differential *differentials; /* list of the differentials made so far */
    /* the shortest measured time of a run, or the modelled time (tn_eager_options.model_costs); 0:
     * not known yet */
    uint64_t cost_ns;
    uint32_t timed; /* number of runs that were measured */
} tn__cached_op;

/* A request for a cached operator. */
typedef struct tn__ask {
    const char *type, *domain; /* type and domain of the operator; not NULL */
    uint32_t version;
    uint32_t attr_count, input_count, output_count;
    const tn_attr *attrs;
    const uint32_t *inputs; /* for each input: number of its type; TN_NONE: omitted */
    uint64_t omitted;       /* bit k: output k is not wanted */
} tn__ask;

typedef struct tn__op_cache {
    const tn_context *context;
    tn__types *types;
    tn__kernel_cache *kernels;
    uint64_t *random; /* counter from which random numbers are derived */
    tn__arena arena;
    tn__names names; /* maps a key to the index of its cached operator */
    tn__cached_op **of;
    size_t count, room;
    tn__text key; /* buffer for the key of the current request */
} tn__op_cache;

/* Initialises a cache of operators. `types`, `kernels` and `random` must outlive it. */
void tn__op_cache_init(tn__op_cache *cache, const tn_context *context, tn__types *types,
                       tn__kernel_cache *kernels, uint64_t *random);
void tn__op_cache_release(tn__op_cache *cache);

/* Finds a cached operator, or makes it at the first request. It exists as long as the cache.
 * Errors: E_INVALID (shapes, types or attributes that contradict each other), E_UNSUPPORTED (no
 * kernel; blocks, sequences, extents that depend on data), E_NO_MEMORY.
 * Cost: O(attributes + operands); the first time also type inference and the kernel's preparation.
 */
tn_status tn__op_cache_find(tn__op_cache *cache, const tn__ask *ask, tn__cached_op **cached,
                            tn_error *error);

/* --- gradients of one operator --- */

/* One of the operators that compute gradients. Its operands are numbers of local tensors. */
typedef struct tn__differential_step {
    tn__cached_op *cached;
    const uint32_t *inputs, *outputs; /* TN_NONE: an input is omitted, or an output is not wanted */
} tn__differential_step;

/* The operators that compute the gradients of one operator. The local tensors are, in this order:
 * the operator's inputs, its outputs, the gradients of its outputs, and the results of steps. */
struct tn__differential {
    tn__differential *next;
    /* the set of outputs that have gradients, and the set of inputs for which gradients are
     * wanted */
    uint64_t given, wanted;
    uint64_t reads_inputs, reads_outputs;
    uint32_t local_count, step_count;
    /* for each local tensor: number of its type if it is an immediate; else TN_NONE */
    const uint32_t *known;
    uint32_t *last; /* for each local tensor: the last step that reads it; TN_NONE: none */
    const tn__differential_step *steps;
    /* for each input: the local tensor that is its gradient; TN_NONE: it has no gradient */
    const uint32_t *found;
};

/* Whether an output can have a gradient: it is a tensor of a floating-point type, and neither an
 * immediate nor an input that the operator writes into. */
bool tn__cached_op_differs(const tn__op_cache *cache, const tn__cached_op *cached, uint32_t output);
/* Finds or makes the differential of a cached operator for these sets of outputs and inputs.
 * Errors: E_UNSUPPORTED (the operator has no gradient, or none for this case), E_NO_MEMORY. */
tn_status tn__op_cache_differential(tn__op_cache *cache, tn__cached_op *cached, uint64_t given,
                                    uint64_t wanted, const tn__differential **differential,
                                    tn_error *error);

/* Computes the sets of inputs and outputs that differentials by the inputs `wanted` may read,
 * whichever outputs have gradients. Both sets are empty for an operator without gradient. Errors:
 * E_NO_MEMORY. */
tn_status tn__op_cache_reads(tn__op_cache *cache, tn__cached_op *cached, uint64_t wanted,
                             uint64_t *inputs, uint64_t *outputs, tn_error *error);

/* --- shared by op_cache.c and differential.c --- */

/* Adds the operator that `ask` describes to `graph`, with tensors for its inputs and outputs. `ids`
 * receives input_count + output_count tensors, inputs first; TN_NONE: omitted. */
tn_status tn__cached_op_graph(const tn__types *types, tn_graph *graph, const tn__ask *ask,
                              tn_tensor_id *ids, tn_error *error);

#endif
