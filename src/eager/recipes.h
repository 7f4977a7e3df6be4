/* recipes.h - an operator on operands of given types, made ready: what its outputs are, which
 * kernel runs it with how much scratch, what it shares, changes and may do again, and how to
 * differentiate it.
 *
 * All that can be known of an operator before its contents are is found once and kept under a key
 * of bytes; whoever applies it again pays for the key and one look into a table. A recipe is a
 * graph of that one operator, so rules of shapes, views and gradients are asked as for any graph.
 *
 *   recipes.c        keys, making
 *   differential.c   the operators that compute gradients of one
 */
#ifndef TN_EAGER_RECIPES_H
#define TN_EAGER_RECIPES_H

#include "eager/types.h"
#include "evict/evict.h"
#include "graph/op.h"
#include "kernels/cache.h"

#define TN__OPERANDS_MOST 64u /* inputs, and outputs: sets of them are bits */

/* What an output is. */
typedef struct tn__result {
    uint32_t type;    /* TN_NONE: it is omitted */
    uint32_t view_of; /* input whose memory it is; TN_NONE: its own */
    uint64_t offset;  /* of a view, bytes from the input's start */
    bool handed; /* an input that the operator writes into, handed back: no tensor of its own */
    bool known;  /* an immediate: nothing is computed; then all outputs are */
} tn__result;

typedef struct tn__differential tn__differential;

typedef struct tn__recipe {
    tn_graph *graph; /* of this operator alone; inputs are tensors 0, 1, ... but for omitted ones */
    const tn_op *op;
    const tn_op_rule *rule;
    uint32_t input_count, output_count;
    const uint32_t *inputs;               /* [input_count] types; TN_NONE: omitted */
    const tn__result *results;            /* [output_count] */
    const tn__prepared *prepared;         /* NULL: nothing has to run */
    uint32_t *data_inputs, *data_outputs; /* which are no immediates: numbers of operands */
    tn__evict_output *data_as;            /* [data_output_count] what the core is told of them */
    uint32_t data_input_count, data_output_count;
    tn_kernel_call call; /* complete but for where operands lie */
    uint64_t scratch;    /* bytes */
    uint64_t changes;    /* bit i: it writes into input i */
    uint64_t flows;      /* bit i: gradients flow to input i */
    bool random;         /* it draws from the run's counter */
    bool repeats;        /* run again it gives the same */
    /* It writes into inputs, so it may not run again, but another operator makes output 0 of what
     * is left: that one makes it the first time, too, and this one's goes to scratch. NULL: none */
    struct tn__recipe *again;
    uint32_t again_found;            /* bit i: input i of `again` is output i of this one */
    uint64_t aside;                  /* where in the scratch output 0 lies then */
    tn__differential *differentials; /* that were asked for so far */
    uint64_t cost_ns;                /* the least that a run took so far; 0: not run yet */
    uint32_t timed;                  /* runs that were measured */
} tn__recipe;

/* What is asked for. */
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
    uint64_t *random; /* the run's counter */
    tn__arena arena;
    tn__names names; /* keys -> numbers */
    tn__recipe **of;
    size_t count, room;
    tn__text key; /* of the question in hand */
} tn__recipes;

/* `types`, `kernels` and `random` outlive it. */
void tn__recipes_init(tn__recipes *recipes, const tn_context *context, tn__types *types,
                      tn__kernel_cache *kernels, uint64_t *random);
void tn__recipes_release(tn__recipes *recipes);

/* The recipe, made when it is asked for the first time; lives as long as all of them.
 * Errors: E_INVALID (shapes, types, attributes that contradict each other), E_UNSUPPORTED (no
 * kernel; blocks, sequences, extents that depend on data), E_NO_MEMORY.
 * Cost: O(attributes + operands); the first time inference and what the kernel prepares. */
tn_status tn__recipes_find(tn__recipes *recipes, const tn__ask *ask, tn__recipe **recipe,
                           tn_error *error);

/* --- gradients of one operator --- */

/* One operator among those that compute gradients; operands are numbers of local tensors. */
typedef struct tn__differential_step {
    tn__recipe *recipe;
    const uint32_t *inputs, *outputs; /* TN_NONE: omitted, or not wanted */
} tn__differential_step;

/* Locals: the operator's inputs, its outputs, the gradients of its outputs, and what steps make, in
 * this order. */
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

/* Whether gradients by an output make sense: it is a tensor of a floating type of its own. */
bool tn__recipe_differs(const tn__recipes *recipes, const tn__recipe *recipe, uint32_t output);
/* Errors: E_UNSUPPORTED (the operator has no gradient, or not for this case), E_NO_MEMORY. */
tn_status tn__recipes_differential(tn__recipes *recipes, tn__recipe *recipe, uint64_t given,
                                   uint64_t wanted, const tn__differential **differential,
                                   tn_error *error);

/* What any of the operator's differentials by these inputs may read, whatever outputs are given:
 * sets of inputs and outputs. Nothing for an operator without gradient. Errors: E_NO_MEMORY. */
tn_status tn__recipes_reads(tn__recipes *recipes, tn__recipe *recipe, uint64_t wanted,
                            uint64_t *inputs, uint64_t *outputs, tn_error *error);

/* --- shared by the two files --- */

/* Adds tensors for the inputs of a recipe, and the operator; ids[input_count + output_count]. */
tn_status tn__recipe_graph(const tn__types *types, tn_graph *graph, const tn__ask *ask,
                           tn_tensor_id *ids, tn_error *error);

#endif
