/* frame.h - what the files of the room share while a training graph is made.
 *
 *   names.c     losses and optimizers by name
 *   parameters.c  which tensors are parameters, and which only look like it
 *   choose.c    which parameters are trained, which operators the loss needs
 *   copy.c      the model's operators as they work in training
 *   loss.c      labels, loss, where the backward pass begins
 *   backward.c  the walk over operators, last first, that asks their gradient rules
 *   recompute.c what is cheap is computed again instead of being kept
 *   update.c    accumulation over micro-batches, optimizers
 *   train.c     the call: options, the steps in order, what is handed out
 */
#ifndef TN_TRAIN_FRAME_H
#define TN_TRAIN_FRAME_H

#include <tenure/train.h>

#include "graph/gradient.h"
#include "graph/store.h"

typedef struct tn__train {
    const tn_graph *model;
    tn_graph *graph;
    tn_train_options options; /* complete */
    const tn_context *context;
    tn_error *error;
    tn__arena arena; /* all lists below, until the call ends */
    tn_training made;
    bool evaluates; /* the copy is for inference beside training */

    uint32_t tensors;     /* of the model; the new graph has more */
    tn_tensor_id *begins; /* [tensors] of parameters that an operator of the model hands out: the
                           * tensor whose contents they begin with; TN_NONE */
    bool *constant;       /* [tensors] a parameter of the file, but a constant of the formula */
    bool *trained;        /* [tensors] a parameter that is trained */
    bool *read;           /* [tensors] the loss, or an output that is kept, depends on it */
    uint32_t *uses;       /* [tensors] operands of operators that it is */
    bool *runs;           /* [operators of the model] */
    tn_tensor_id scores;  /* what the loss is of */
    tn_tensor_id shaped;  /* the tensor whose shape the scores are brought into; often the same */
    uint32_t *number;     /* [tensors] index into made.parameters; TN_NONE */

    /* The backward pass; ids of the graph as it was before. */
    uint32_t forward;       /* tensors */
    uint32_t forward_ops;   /* of the main block */
    bool *needs;            /* [forward] depends on a parameter that is trained */
    tn_tensor_id *gradient; /* [forward] so far; TN_NONE */
    uint32_t *readers;      /* [forward] operators that read it and were not visited yet */
} tn__train;

/* parameters.c: `begins`, then `constant`, which reads `runs`. */
tn_status tn__train_parameters(tn__train *it);
tn_status tn__train_constants(tn__train *it);
bool tn__train_is_parameter(const tn__train *it, tn_tensor_id id);
/* choose.c. Errors: E_INVALID (a pattern without a parameter, nothing to train). */
tn_status tn__train_choose(tn__train *it);
/* Whether an operand is one that gradients may flow to: a float that the rule looks at as such. */
bool tn__train_flows(const tn_graph *graph, const tn_op *op, const tn_op_rule *rule,
                     uint32_t input);
/* copy.c: makes it->graph, without labels and loss. */
tn_status tn__train_copy(tn__train *it);
/* loss.c: adds labels, loss and correct; `seed` is the gradient of the loss. */
tn_status tn__train_loss(tn__train *it, tn_tensor_id *seed);
/* backward.c: calls tn__train_update where an update is due. */
tn_status tn__train_backward(tn__train *it, tn_tensor_id seed);
/* recompute.c: after the backward pass, with its block in that order. */
tn_status tn__train_recompute(tn__train *it);
/* update.c: learning rate and step; then the update of one parameter. */
tn_status tn__train_inputs(tn__train *it);
tn_status tn__train_update(tn__train *it, uint32_t parameter);

/* A scalar that the caller gives for every run. */
tn_status tn__train_scalar(tn__train *it, const char *name, tn_dtype dtype, tn_tensor_id *id);

#endif
