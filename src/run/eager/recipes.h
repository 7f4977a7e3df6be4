/* recipes.h - a recipe is an operator on operands of given types, prepared to run: its outputs, its
 * kernel and scratch, the inputs it shares or changes, whether it can be repeated, and its
 * gradients.
 *
 * All facts that do not depend on tensor data are found once and kept under a byte string as key.
 * Applying the operator again costs only the key and one table lookup. A recipe holds a graph of
 * that one operator, so the rules for shapes, views and gradients apply as in any graph.
 *
 *   recipes.c        keys, making
 *   differential.c   the operators that compute gradients of one
 */
#ifndef TN_EAGER_RECIPES_H
#define TN_EAGER_RECIPES_H

#include "engine/kernels/cache.h"
#include "graph/op.h"
#include "memory/evict/evict.h"
#include "run/eager/types.h"

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

typedef struct tn__recipe {
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
    struct tn__recipe *again;
    uint32_t again_found;            /* bit i: input i of `again` is output i of this one */
    uint64_t aside;                  /* position of output 0 in the scratch then */
    tn__differential *differentials; /* differentials found so far */
    uint64_t cost_ns;                /* the shortest run so far; 0: it has not run yet */
    uint32_t timed;                  /* runs that were measured */
} tn__recipe;

/* A request for a recipe. */
typedef struct tn__ask {
    const char *type, *domain; /* never NULL */
    uint32_t version;
    uint32_t attr_count, input_count, output_count;
    const tn_attr *attrs;
    const uint32_t *inputs; /* [input_count] types; TN_NONE: omitted */
    uint64_t omitted;       /* bit k: output k is not wanted */
} tn__ask;

typedef struct tn__recipes {
    const tn_context *context;
    tn__types *types;
    tn__kernel_cache *kernels;
    uint64_t *random; /* counter for random numbers */
    tn__arena arena;
    tn__names names; /* keys -> numbers */
    tn__recipe **of;
    size_t count, room;
    tn__text key; /* key of the current request */
} tn__recipes;

/* `types`, `kernels` and `random` must outlive the recipes. */
void tn__recipes_init(tn__recipes *recipes, const tn_context *context, tn__types *types,
                      tn__kernel_cache *kernels, uint64_t *random);
void tn__recipes_release(tn__recipes *recipes);

/* Finds the recipe, or makes it at the first request; it lives as long as the set of recipes.
 * Errors: E_INVALID (shapes, types, attributes that contradict each other), E_UNSUPPORTED (no
 *         kernel; blocks, sequences, extents that depend on data), E_NO_MEMORY.
 * Cost: O(attributes + operands); the first time also inference and the kernel's preparation.
 */
tn_status tn__recipes_find(tn__recipes *recipes, const tn__ask *ask, tn__recipe **recipe,
                           tn_error *error);

/* --- gradients of one operator --- */

/* One operator among those that compute gradients; operands are numbers of local tensors. */
typedef struct tn__differential_step {
    tn__recipe *recipe;
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
bool tn__recipe_differs(const tn__recipes *recipes, const tn__recipe *recipe, uint32_t output);
/* Errors: E_UNSUPPORTED (the operator has no gradient, or not for this case), E_NO_MEMORY. */
tn_status tn__recipes_differential(tn__recipes *recipes, tn__recipe *recipe, uint64_t given,
                                   uint64_t wanted, const tn__differential **differential,
                                   tn_error *error);

/* The inputs and outputs, as sets, that any of the operator's differentials by these inputs may
 * read, whichever outputs have gradients. Empty for an operator without gradient. Errors:
 * E_NO_MEMORY. */
tn_status tn__recipes_reads(tn__recipes *recipes, tn__recipe *recipe, uint64_t wanted,
                            uint64_t *inputs, uint64_t *outputs, tn_error *error);

/* --- shared by the two files --- */

/* Adds tensors for the inputs of a recipe, and the operator; ids[input_count + output_count]. */
tn_status tn__recipe_graph(const tn__types *types, tn_graph *graph, const tn__ask *ask,
                           tn_tensor_id *ids, tn_error *error);

#endif
