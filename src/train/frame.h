/* frame.h - what the files of the room share while a training graph is made.
 *
 *   names.c     losses and optimizers by name
 *   inline.c    branches whose condition is known, where the If was
 *   parameters.c  which tensors are parameters, and which only look like it
 *   needed.c    which parameters are trained, which operators the loss needs
 *   cut.c       the part of one of several ranks, where the model was
 *   rounds.c    the model as many times as there are micro-batches, where the model was
 *   stages.c    parts of a pipeline: which operators, which tensors
 *   mixed.c     mixed precision: operators that work in 16 bits, and casts
 *   copy.c      the model's operators as they work in training
 *   unroll.c    recurrences that no gradient rule takes, step by step
 *   loss.c      labels, loss
 *   loss_parts.c  the last product and the loss in parts
 *   scale.c     where the backward pass begins, and the scale of gradients
 *   backward.c  the walk over operators, last first, that asks their gradient rules
 *   cast_again.c casts that are made again instead of being kept
 *   bucket.c    gradients that have arrived, in buckets
 *   shard.c     what one rank of several keeps
 *   update.c    accumulation over micro-batches, optimizers
 *   train.c     the call: options, the steps in order, what is handed out
 */
#ifndef TN_TRAIN_FRAME_H
#define TN_TRAIN_FRAME_H

#include <math.h>

#include <tenure/train.h>

#include "graph/gradient.h"
#include "graph/store.h"
#include "cut/cut.h"

typedef struct tn__part_cut { /* scores along one axis, and what they are made of */
    uint32_t axis, base_axis, count;
    int64_t extent;
} tn__part_cut;

typedef struct tn__train {
    const tn_graph *model;
    tn_graph *inlined;      /* NULL; or the model then */
    tn_graph *divided;      /* NULL; or the model then: with its scores in parts */
    tn_graph *part;         /* NULL; or the model then: that of one of several ranks */
    const tn_graph *whole;  /* what it is a part of */
    const tn_op_id *origin; /* [operators of the part] what they were there */
    const tn__cut *cuts;    /* [tensors of the whole]; NULL: all are whole */
    const tn__cut *strips;  /* [tensors of the whole] between these */
    tn_part_sums cut_sums;
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
    bool *depends;        /* [tensors] on a parameter that is trained */
    bool *constant;       /* [tensors] a parameter of the file, but a constant of the formula */
    bool *trained;        /* [tensors] a parameter that is trained */
    bool *read;           /* [tensors] the loss, or an output that is kept, depends on it */
    uint32_t *uses;       /* [tensors] operands of operators that it is */
    bool *runs;           /* [operators of the model] */
    tn_tensor_id *latest; /* [tensors] of running statistics: what the last operator so far has made
                           * of them; TN_NONE: they are as they were */
    tn_tensor_id scores;  /* what the loss is of */
    tn_tensor_id shaped;  /* the tensor whose shape the scores are brought into; often the same */
    uint32_t *number;     /* [tensors] index into made.parameters; TN_NONE */

    /* Mixed precision: tensors of the model that are float32 there. */
    bool *works_low;     /* [operators of the model] in 16 bits */
    bool *likes_low;     /* [tensors] the result comes in 16 bits */
    bool *is_low;        /* [tensors] the tensor of this id is of 16 bits in the new graph */
    tn_tensor_id *other; /* [tensors] the same in the other type; TN_NONE: not yet */

    /* The backward pass; ids of the graph as it was before. */
    uint32_t forward;       /* tensors */
    uint32_t forward_ops;   /* of the main block */
    bool *needs;            /* [forward] depends on a parameter that is trained */
    tn_tensor_id *gradient; /* [forward] so far; TN_NONE */
    uint32_t *readers;      /* [forward] operators that read it and were not visited yet */
    tn_tensor_id factor;    /* of gradients, by a loss scale that adapts; TN_NONE */
    bool *arrived;          /* [made.parameters] nobody adds to its gradient any more */
    uint32_t *waiting;      /* [waiting_count] whose gradients make up the next bucket */
    uint32_t waiting_count, bucket_count;
    uint64_t waiting_bytes;

    /* The loss in parts; without that all of it is zero. */
    uint32_t part_count, part_cut_count;
    const tn__part_cut *part_cuts; /* [part_cut_count] of one or two axes */
    tn_tensor_id *part_bases;      /* [part_count] what the last product reads */
    tn_tensor_id *parts;           /* [part_count] scores */
    uint32_t *piece_of;            /* [part_tensors] of the forward pass; TN_NONE: of none */
    uint32_t *part_first;          /* [part_count + 3] places in the list of what is of none, of
                                    * each, and of several */
    uint32_t part_tensors;

    /* A whole step in one graph; without that all of it is zero but for `rounds`. */
    uint32_t rounds;        /* copies of the model; 1: it is as it was */
    uint32_t once;          /* tensors of the model with one of them */
    tn_graph *repeated;     /* NULL; or the model then */
    tn_tensor_id *copies;   /* [rounds x once] what became of each */
    tn_tensor_id *first_of; /* [tensors of all copies] what it is in the first of them */
    bool *shared;           /* [once] all rounds read it */
    uint32_t *part_of;      /* [operators of the model with one] */
    tn_home *op_homes;      /* [operators of the model] */
    tn_home home;           /* of what is made now */
    tn_home *homes;         /* [home_count] of tensors of the graph so far */
    size_t home_room;
    uint32_t home_count;
    tn_tensor_id *partial; /* [parts x once] gradients of what rounds share, summed up within a
                            * part; TN_NONE */
    tn_round *round_list;  /* [rounds] */
} tn__train;

/* parameters.c: `begins`, then `constant`, which reads `runs`. */
tn_status tn__train_parameters(tn__train *it);
tn_status tn__train_constants(tn__train *it);
bool tn__train_is_parameter(const tn__train *it, tn_tensor_id id);
/* needed.c. Errors: E_INVALID (a pattern without a parameter, nothing to train). */
tn_status tn__train_choose(tn__train *it);
/* Whether an operand is one that gradients may flow to: a float that the rule looks at as such. */
bool tn__train_flows(const tn_graph *graph, const tn_op *op, const tn_op_rule *rule,
                     uint32_t input);
/* mixed.c. Errors: E_UNSUPPORTED (a model with blocks). */
tn_status tn__train_lower(tn__train *it);
bool tn__train_lowers(const tn__train *it);
/* A tensor of the model in 16 bits (`low`) or in its own type: a cast is added where there is none
 * yet. Other types than float32: the tensor itself. */
tn_status tn__train_as(tn__train *it, tn_tensor_id tensor, bool low, tn_tensor_id *id);
/* Operands of operator `id` of the model as it works: lists in the arena. Once it was added: casts
 * to the tensors that it was to give. */
tn_status tn__train_lower_op(tn__train *it, tn_op_id id, tn_op *op);
tn_status tn__train_lower_after(tn__train *it, tn_op_id id, const tn_op *made);
/* Whether the gradient of a cast of a parameter is that of the parameter as it is: nothing is to be
 * added to it, and updates read 16 bits as well. */
bool tn__train_ends_low(const tn__train *it, const tn_op *op);
/* A cast that is made again in the backward pass: from what is there anyway, or smaller. */
bool tn__train_is_free_cast(const tn__train *it, const tn_op *op);
/* inline.c: exchanges the model where an If of it is decided. */
tn_status tn__train_inline(tn__train *it);
/* cut.c: exchanges the model for a rank's part of it. Errors: those of tn__cuts_graph,
 * E_UNSUPPORTED (what does not go with parts). Once all is made: what is told of the parts. */
tn_status tn__train_cut(tn__train *it);
tn_status tn__train_parts(tn__train *it);
void tn__parts_destroy(const tn_context *context, struct tn_parts *parts);
/* The part of this rank out of what `contents` has. */
tn_status tn__train_read_part(const tn_training *training, const tn_tensor_part *part,
                              const tn_contents_of *contents, void *bytes, tn_error *error);
/* How a tensor is cut, in whatever round; NULL: it is whole. */
const tn__cut *tn__train_cut_of(const tn__train *it, tn_tensor_id id);
/* A tensor as it is in the model of all ranks. */
const tn_tensor *tn__train_whole_of(const tn__train *it, tn_tensor_id id);
/* Where the elements of a part lie in the whole: runs of places[0] elements, places[1] apart, the
 * first at places[2]. False: it is whole. */
bool tn__train_places(const tn__train *it, tn_tensor_id id, int64_t *places);
/* The loss of scores of which each rank has some of the classes. */
tn_status tn__train_class_loss(tn__train *it, const int64_t *axis);
/* rounds.c: whether one run is a whole step; how many runs make one. */
bool tn__train_is_whole(const tn__train *it);
uint32_t tn__train_runs(const tn__train *it);
/* Exchanges the model for its copies. Errors: E_INVALID (more parts than operators),
 * E_UNSUPPORTED (what does not go with that). */
tn_status tn__train_rounds(tn__train *it);
/* A tensor of the first round, in another one. */
tn_tensor_id tn__train_in_round(const tn__train *it, tn_tensor_id id, uint32_t round);
/* And what one of any round is in the first; of what was made since, itself. */
tn_tensor_id tn__train_in_first(const tn__train *it, tn_tensor_id id);
/* A number that is the micro-batch's of what is made now; where runs have one each, it is asked
 * for; TN_NONE: there is but one. */
tn_status tn__train_micro(tn__train *it, tn_tensor_id *micro);
/* The order in which gradients are asked for: [count] places in the main block. */
tn_status tn__train_walk(tn__train *it, const tn_op_id *ops, uint32_t count, uint32_t *places);
/* Another gradient of an operand of the operator in hand. */
tn_status tn__train_add_gradient(tn__train *it, tn_gradient *ask, tn_tensor_id to,
                                 tn_tensor_id found);
/* What rounds share: the sum of those of all parts. */
tn_status tn__train_sum_parts(tn__train *it, tn_tensor_id id);
/* stages.c: whether all rounds share what an operator of the model gives; part_of. */
bool tn__train_is_shared(const tn__train *it, const tn_op *op);
tn_status tn__train_divide(tn__train *it);
/* Tensors that were made since the last call belong where it->home says. */
tn_status tn__train_settle(tn__train *it);
/* Where an operator of the graph belongs; what is made next does, too. */
tn_home tn__train_home_of(const tn__train *it, tn_op_id id);
tn_status tn__train_move(tn__train *it, tn_home home);
/* Where its gradient, when it is complete, and its update do. `at_once`: as soon as that is so. */
tn_home tn__train_home_of_parameter(const tn__train *it, uint32_t number, bool at_once);
/* What is told of them, into it->made. */
tn_status tn__train_stages(tn__train *it);
void tn__stages_destroy(const tn_context *context, const tn_stages *stages);
/* copy.c: one operator of the model, as it is. */
tn_status tn__train_copy_op(tn__train *it, const tn_op *op, tn_block_id block);
/* copy.c: makes it->graph, without labels and loss. */
tn_status tn__train_copy(tn__train *it);
/* scale.c. Errors: E_INVALID (what a scale that adapts does not go with). */
tn_status tn__train_scale_check(const tn__train *it);
tn_status tn__train_seed(tn__train *it, tn_tensor_id *seed);
/* Once all gradients are there: `factor`. */
tn_status tn__train_scale_step(tn__train *it);
/* unroll.c: whether a cell is to be taken apart into its steps; does so. */
bool tn__train_unrolls(tn__train *it, const tn_op *op);
tn_status tn__train_unroll(tn__train *it, const tn_op *op, const tn_op *made); /* as copied */
/* loss.c: adds labels, loss and correct; `seed` is the gradient of the loss. */
tn_status tn__train_loss(tn__train *it, tn_tensor_id *seed);
/* loss_parts.c: exchanges the model where the loss is wanted in parts. Errors: E_UNSUPPORTED (a
 * loss or scores that cannot be cut), E_INVALID (too many). */
tn_status tn__train_loss_parts(tn__train *it);
/* Labels in parts; the loss of each, and of all. `axis`: of classes; NULL: there are none. */
tn_status tn__train_loss_of_parts(tn__train *it, const char *type, const tn_attr *axis);
/* The list of the forward pass part by part; and once the backward pass is behind it, each part
 * right before its own. */
tn_status tn__train_parts_together(tn__train *it);
tn_status tn__train_parts_apart(tn__train *it);
/* backward.c: with the updates where they are due. */
tn_status tn__train_backward(tn__train *it, tn_tensor_id seed);
/* cast_again.c: after the backward pass, with its block in that order. */
tn_status tn__train_recompute(tn__train *it);
/* update.c: learning rate and step; the gradient of one parameter is complete; its update. */
tn_status tn__train_inputs(tn__train *it);
/* bucket.c: nobody adds to the parameter's gradient any more (or: to any). It is updated at once
 * where that was asked for, when its bucket is complete. */
tn_status tn__train_arrived(tn__train *it, uint32_t parameter);
tn_status tn__train_arrived_all(tn__train *it);
tn_status tn__train_complete(tn__train *it, uint32_t parameter);
tn_status tn__train_update(tn__train *it, uint32_t parameter);
/* The same of a shard. */
tn_status tn__train_complete_shard(tn__train *it, uint32_t shard);
tn_status tn__train_update_shard(tn__train *it, uint32_t shard);
/* shard.c. Whether a rank keeps parts alone. Errors of the check: E_INVALID, E_UNSUPPORTED. */
bool tn__train_shards(const tn__train *it);
tn_status tn__train_shard_check(const tn__train *it);
/* A bucket of the gradients of these parameters becomes the next shard. */
tn_status tn__train_shard(tn__train *it, tn_tensor_id bucket, const uint32_t *list, uint32_t count);
/* In the end: parameters become views of their shards, before all else in the list. */
tn_status tn__train_shard_end(tn__train *it);

/* update.c: an operator of domain "tenure", at the end of what there is. */
tn_status tn__train_op(tn__train *it, const char *name, const char *type,
                       const tn_tensor_id *inputs, uint32_t input_count,
                       const tn_tensor_id *outputs, uint32_t output_count, const tn_attr *attrs,
                       uint32_t attr_count);

/* A scalar that the caller gives for every run. */
tn_status tn__train_scalar(tn__train *it, const char *name, tn_dtype dtype, tn_tensor_id *id);

#endif
