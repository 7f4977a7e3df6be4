/* op_cache.h - operators and types, each prepared once.
 *
 * A cached operator is an operator on operands of given types, prepared to run: its outputs, its
 * kernel and scratch, the inputs it shares or changes, whether it can be repeated, and its
 * gradients.
 *
 * All facts that do not depend on tensor data are found once and kept under a byte string as key.
 * Applying the operator again costs only the key and one table lookup. A cached operator holds a
 * graph of that one operator, so the rules for shapes, views and gradients apply as in any graph.
 *
 *   op_cache.c       types; keys, making
 *   differential.c   the operators that compute gradients of one
 */
#ifndef TN_EAGER_OP_CACHE_H
#define TN_EAGER_OP_CACHE_H

#include <tenure/graph.h>

#include "base/base.h"
#include "engine/kernels/cache.h"
#include "graph/op.h"
#include "memory/evict/evict.h"

/* --- types ------------------------------------------------------------------------------------ */

/* The type of a tensor: element type, extents, and the data if shape rules need it (the
 * new shape of a Reshape, the axes of a sum). Equal types have the same number, so comparing types
 * means comparing numbers.
 *
 * A type with known data is an immediate: the type is all there is to such a tensor. The
 * interpreter stores it like an operator's attributes, outside the budget.
 */

/* An immediate has at most this number of elements; larger tensors are data. */
#define TN__IMMEDIATE_MOST 256u

typedef struct tn__type {
    tn_dtype dtype;
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    uint64_t bytes;
    const tn_value *value; /* NULL: not an immediate */
    void *data;            /* for an immediate: `bytes` of data, as kernels read them */
} tn__type;

typedef struct tn__types {
    tn__arena arena;
    tn__names names; /* keys -> numbers */
    const tn__type **of;
    size_t count, room;
    tn__text key; /* key of the current request */
} tn__types;

void tn__types_init(tn__types *types, const tn_context *context);
void tn__types_release(tn__types *types);
static inline const tn__type *tn__type_of(const tn__types *types, uint32_t type) {
    return types->of[type];
}

/* The number of a type. value: NULL, or the known data, [elements].
 * Errors: E_INVALID (a size that is not known or overflows), E_NO_MEMORY.
 */
tn_status tn__types_find(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                         const tn_value *value, uint32_t *type, tn_error *error);
/* The same from an array's bytes: an immediate. Errors: E_INVALID (too many elements, a type whose
 * elements shape rules cannot read). */
tn_status tn__types_immediate(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                              const void *data, uint32_t *type, tn_error *error);
/* The type of a graph's tensor, with its data if that is known and small. */
tn_status tn__types_of_tensor(tn__types *types, const tn_tensor *tensor, uint32_t *type,
                              tn_error *error);
/* Appends a number to a key, in 4 bytes. */
static inline void tn__key_number(tn__text *key, uint32_t number) {
    tn__text_add(key, (const char *)&number, sizeof number);
}
/* "float32[2,3]" into `text`. */
const char *tn__type_text(const tn__type *type, char *text, size_t size);

/* --- operators -------------------------------------------------------------------------------- */

#define TN__OPERANDS_MOST 64u /* inputs, and outputs: sets of them are 64-bit masks */

/* One output of the operator. */
typedef struct tn__result {
    uint32_t type;    /* TN_NONE: it is omitted */
    uint32_t view_of; /* the input whose memory it is a view of; TN_NONE: it has its own */
    uint64_t offset;  /* for a view: bytes from the input's start */
    bool handed; /* an input that the operator writes into, handed back: no tensor of its own */
    bool known;  /* an immediate: nothing is computed; then all outputs are immediates */
} tn__result;

typedef struct tn__differential tn__differential;

typedef struct tn__cached_op {
    /* graph of this operator alone; inputs are tensors 0, 1, ... without omitted ones */
    tn_graph *graph;
    const tn_op *op;
    const tn_op_rule *rule;
    uint32_t input_count, output_count;
    const uint32_t *inputs;               /* [input_count] types; TN_NONE: omitted */
    const tn__result *results;            /* [output_count] */
    const tn__prepared *prepared;         /* NULL: there is nothing to run */
    uint32_t *data_inputs, *data_outputs; /* operands that are not immediates, by number */
    /* [data_output_count] description of each output for the core */
    tn__evict_output *data_as;
    uint32_t data_input_count, data_output_count;
    tn_kernel_call call; /* complete except for the addresses of operands */
    uint64_t scratch;    /* bytes */
    uint64_t changes;    /* bit i: it writes into input i */
    uint64_t flows;      /* bit i: gradients flow to input i */
    bool random;         /* it draws random numbers from the counter */
    bool repeats;        /* another run gives the same result */
    /* Set if the operator writes into inputs, so that it may not run again, and another operator
     * can make output 0 from its remaining outputs and inputs. That operator then makes output 0
     * the first time too, and this operator's own output 0 is written to scratch. NULL: no such
     * operator */
    struct tn__cached_op *again;
    uint32_t again_found;            /* bit i: input i of `again` is output i of this one */
    uint64_t aside;                  /* position of output 0 in the scratch then */
    tn__differential *differentials; /* differentials found so far */
    uint64_t cost_ns;                /* the shortest run so far; 0: it has not run yet */
    uint32_t timed;                  /* runs that were measured */
} tn__cached_op;

/* A request for a cached operator. */
typedef struct tn__ask {
    const char *type, *domain; /* never NULL */
    uint32_t version;
    uint32_t attr_count, input_count, output_count;
    const tn_attr *attrs;
    const uint32_t *inputs; /* [input_count] types; TN_NONE: omitted */
    uint64_t omitted;       /* bit k: output k is not wanted */
} tn__ask;

typedef struct tn__op_cache {
    const tn_context *context;
    tn__types *types;
    tn__kernel_cache *kernels;
    uint64_t *random; /* counter for random numbers */
    tn__arena arena;
    tn__names names; /* keys -> numbers */
    tn__cached_op **of;
    size_t count, room;
    tn__text key; /* key of the current request */
} tn__op_cache;

/* `types`, `kernels` and `random` must outlive the cached operators. */
void tn__op_cache_init(tn__op_cache *cache, const tn_context *context, tn__types *types,
                       tn__kernel_cache *kernels, uint64_t *random);
void tn__op_cache_release(tn__op_cache *cache);

/* Finds the cached operator, or makes it at the first request; it lives as long as the set of
 * cached operators.
 * Errors: E_INVALID (shapes, types, attributes that contradict each other), E_UNSUPPORTED (no
 *         kernel; blocks, sequences, extents that depend on data), E_NO_MEMORY.
 * Cost: O(attributes + operands); the first time also inference and the kernel's preparation.
 */
tn_status tn__op_cache_find(tn__op_cache *cache, const tn__ask *ask, tn__cached_op **cached,
                            tn_error *error);

/* --- gradients of one operator --- */

/* One operator among those that compute gradients; operands are numbers of local tensors. */
typedef struct tn__differential_step {
    tn__cached_op *cached;
    const uint32_t *inputs, *outputs; /* TN_NONE: omitted, or not wanted */
} tn__differential_step;

/* Locals in this order: the operator's inputs, its outputs, the gradients of its outputs, and the
 * results of steps. */
struct tn__differential {
    tn__differential *next;
    uint64_t given, wanted; /* sets of outputs and inputs */
    uint64_t reads_inputs, reads_outputs;
    uint32_t local_count, step_count;
    const uint32_t *known; /* [local_count] type of an immediate; TN_NONE: it is data */
    uint32_t *last;        /* [local_count] the last step that reads it; TN_NONE: none */
    const tn__differential_step *steps;
    const uint32_t *found; /* [input_count] locals; TN_NONE: no gradient */
};

/* Whether an output can have a gradient: it is a tensor of floating type with memory of its own. */
bool tn__cached_op_differs(const tn__op_cache *cache, const tn__cached_op *cached, uint32_t output);
/* Errors: E_UNSUPPORTED (the operator has no gradient, or not for this case), E_NO_MEMORY. */
tn_status tn__op_cache_differential(tn__op_cache *cache, tn__cached_op *cached, uint64_t given,
                                    uint64_t wanted, const tn__differential **differential,
                                    tn_error *error);

/* The inputs and outputs, as sets, that any of the operator's differentials by these inputs may
 * read, whichever outputs have gradients. Empty for an operator without gradient. Errors:
 * E_NO_MEMORY. */
tn_status tn__op_cache_reads(tn__op_cache *cache, tn__cached_op *cached, uint64_t wanted,
                             uint64_t *inputs, uint64_t *outputs, tn_error *error);

/* --- shared by the two files --- */

/* Adds to `graph` the operator that `ask` describes, with tensors for its inputs and outputs.
 * ids  out, [input_count + output_count]: these tensors, inputs first; TN_NONE: omitted */
tn_status tn__cached_op_graph(const tn__types *types, tn_graph *graph, const tn__ask *ask,
                              tn_tensor_id *ids, tn_error *error);

#endif
