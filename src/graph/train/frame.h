/* frame.h - state and functions that the files of the room share while they make a training graph.
 *
 *   names.c     losses, optimizers, divisions among ranks and orders of a pipeline by name
 *   inline.c    replaces an If with known condition by its branch, and pairs of QuantizeLinear and
 *               DequantizeLinear by FakeQuantize
 *   parameters.c  separates parameters from constants; trained parameters, operators that the loss
 *               needs
 *   tensor_parallel.c  replaces the model by the part of one of several ranks
 *   rounds.c    replaces the model by one copy per micro-batch
 *   stages.c    parts of a pipeline: their operators and tensors
 *   mixed.c     mixed precision: operators that work in 16 bits, casts, and their repetition in
 *               the backward pass; seed of the backward pass, and the scale of gradients
 *   copy.c      the model's operators as they work in training
 *   unroll.c    unrolls recurrences without a gradient rule
 *   loss.c      labels, loss
 *   loss_parts.c  the last product and the loss in parts
 *   backward.c  visits operators, last first, and applies their gradient rules
 *   buckets.c   complete gradients, in buckets; shards, the part that one rank of several keeps
 *   update.c    accumulation over micro-batches, optimizers
 *   step.c      the call: options, the steps in order, results
 */
#ifndef TN_TRAIN_FRAME_H
#define TN_TRAIN_FRAME_H

#include <math.h>

#include <tenure/train.h>

#include "graph/gradients/decompose.h"
#include "graph/store.h"
#include "graph/tensor_parallel/cut.h"

/* scores along one axis, and the tensors that they are computed from */
typedef struct tn__part_cut {
    uint32_t axis, base_axis, count;
    int64_t extent;
} tn__part_cut;

typedef struct tn__train {
    const tn_graph *model;
    tn_graph *inlined; /* NULL; or the model after inline.c */
    tn_graph *divided; /* NULL; or the model after loss_parts.c: with its scores in parts */
    tn_graph *part; /* NULL; or the model after tensor_parallel.c: that of one of several ranks */
    const tn_graph *whole;  /* the model that `part` was cut from */
    const tn_op_id *origin; /* [operators of the part] the same operator in the whole model */
    const tn__cut *cuts;    /* [tensors of the whole]; NULL: no tensor is cut */
    const tn__cut *strips;  /* [tensors of the whole] the strips between these cuts */
    tn_part_sums cut_sums;
    tn_graph *graph;
    tn_train_options options; /* with all defaults filled in */
    const tn_context *context;
    tn_error *error;
    tn__arena arena; /* owns all lists below, until the call ends */
    tn_training made;
    bool evaluates; /* the copy is for inference during training */

    uint32_t tensors; /* number of tensors in the model; the new graph has more */
    /* [tensors] for parameters that an operator of the model hands out: the tensor with their
     * initial data; TN_NONE */
    tn_tensor_id *begins;
    bool *depends;  /* [tensors] it depends on a trained parameter */
    bool *constant; /* [tensors] a parameter in the file, but a constant of the formula */
    bool *trained;  /* [tensors] a trained parameter */
    bool *read;     /* [tensors] the loss or a kept output depends on it */
    uint32_t *uses; /* [tensors] number of operands that read it */
    bool *runs;     /* [operators of the model] */
    /* [tensors] for running statistics: the newest version so far; TN_NONE: the original */
    tn_tensor_id *latest;
    tn_tensor_id scores; /* input of the loss */
    /* the scores take the shape of this tensor; often the scores themselves */
    tn_tensor_id shaped;
    uint32_t *number; /* [tensors] index into made.parameters; TN_NONE */

    /* Mixed precision: tensors that are float32 in the model. */
    bool *works_low;     /* [operators of the model] it works in 16 bits */
    bool *likes_low;     /* [tensors] the result comes in 16 bits */
    bool *is_low;        /* [tensors] the tensor of this id has 16 bits in the new graph */
    tn_tensor_id *other; /* [tensors] the same in the other type; TN_NONE: not made yet */

    /* The backward pass; ids refer to the graph before it. */
    uint32_t forward;       /* number of tensors */
    uint32_t forward_ops;   /* operators in the main block */
    bool *needs;            /* [forward] it depends on a trained parameter */
    tn_tensor_id *gradient; /* [forward] sum so far; TN_NONE */
    uint32_t *readers;      /* [forward] number of readers that were not visited yet */
    tn_tensor_id factor;    /* factor of gradients with an adaptive loss scale; TN_NONE */
    bool *arrived;          /* [made.parameters] its gradient is complete */
    uint32_t *waiting;      /* [waiting_count] parameters for the next bucket */
    uint32_t waiting_count, bucket_count;
    uint64_t waiting_bytes;

    /* The loss in parts; if it is whole, all of this is zero. */
    uint32_t part_count, part_cut_count;
    const tn__part_cut *part_cuts; /* [part_cut_count] one or two axes */
    tn_tensor_id *part_bases;      /* [part_count] inputs of the last product */
    tn_tensor_id *parts;           /* [part_count] scores */
    /* [part_tensors] part of each tensor of the forward pass; TN_NONE: it belongs to no part */
    uint32_t *piece_of;
    /* [part_count + 3] positions in the list of operators that belong to no part, to each part, and
     * to several parts */
    uint32_t *part_first;
    uint32_t part_tensors;

    /* A whole step in one graph; otherwise all of this is zero except `rounds`. */
    uint32_t rounds;        /* copies of the model; 1: the model itself */
    uint32_t once;          /* tensors in a model with one copy */
    tn_graph *repeated;     /* NULL; or the model after rounds.c */
    tn_tensor_id *copies;   /* [rounds x once] the tensor's id in each copy */
    tn_tensor_id *first_of; /* [tensors of all copies] the tensor's id in the first copy */
    bool *shared;           /* [once] all rounds read it */
    uint32_t *part_of;      /* [operators of the model with one copy] */
    tn_home *op_homes;      /* [operators of the model] */
    tn_home home;           /* the home of new tensors */
    tn_home *homes;         /* [home_count] homes of the graph's tensors so far */
    size_t home_room;
    uint32_t home_count;
    /* [parts x once] gradients of shared tensors, summed within a part; TN_NONE */
    tn_tensor_id *partial;
    tn_round *round_list; /* [rounds] */
} tn__train;

/* parameters.c: whether a tensor is a parameter of the model. */
bool tn__train_is_parameter(const tn__train *it, tn_tensor_id id);
/* Errors: E_INVALID (a pattern without a parameter, nothing to train). */
tn_status tn__train_choose(tn__train *it);
/* Whether gradients may flow to an operand: it is a float that the rule treats as such. */
bool tn__train_flows(const tn_graph *graph, const tn_op *op, const tn_op_rule *rule,
                     uint32_t input);
/* mixed.c. Errors: E_UNSUPPORTED (a model with blocks). */
tn_status tn__train_lower(tn__train *it);
bool tn__train_lowers(const tn__train *it);
/* A tensor of the model in 16 bits (`low`) or in its own type: adds a cast if it is missing. For
 * types other than float32: the tensor itself. */
tn_status tn__train_as(tn__train *it, tn_tensor_id tensor, bool low, tn_tensor_id *id);
/* The operands of operator `id` of the model as it works: lists in the arena. After it was added:
 * adds casts to the tensors that it was to give. */
tn_status tn__train_lower_op(tn__train *it, tn_op_id id, tn_op *op);
tn_status tn__train_lower_after(tn__train *it, tn_op_id id, const tn_op *made);
/* Whether the gradient of a cast of a parameter can serve as the gradient of the parameter: no
 * other gradient is added to it, and updates also read 16 bits. */
bool tn__train_ends_low(const tn__train *it, const tn_op *op);
/* inline.c: replaces the model if the branch of an If in it is known, or if numbers are quantised
 * and turned back. */
tn_status tn__train_inline(tn__train *it);
/* tensor_parallel.c: replaces the model by a rank's part of it. Errors: those of tn__cuts_graph,
 * E_UNSUPPORTED (an option that does not work with parts). The second function reports the parts at
 * the end. */
tn_status tn__train_cut(tn__train *it);
tn_status tn__train_parts(tn__train *it);
void tn__parts_destroy(const tn_context *context, struct tn_parts *parts);
/* Reads this rank's part of the data that `contents` has. */
tn_status tn__train_read_part(const tn_training *training, const tn_tensor_part *part,
                              const tn_contents_of *contents, void *bytes, tn_error *error);
/* How a tensor is cut, in any round; NULL: it is whole. */
const tn__cut *tn__train_cut_of(const tn__train *it, tn_tensor_id id);
/* The tensor in the model of all ranks. */
const tn_tensor *tn__train_whole_of(const tn__train *it, tn_tensor_id id);
/* The places of a part's elements in the whole: runs of places[0] elements, places[1] apart, the
 * first at places[2]. False: the tensor is not cut. */
bool tn__train_places(const tn__train *it, tn_tensor_id id, int64_t *places);
/* The loss if each rank has the scores of some of the classes. */
tn_status tn__train_class_loss(tn__train *it, const int64_t *axis);
/* rounds.c: whether one run is a whole step, and the number of runs in a step. */
bool tn__train_is_whole(const tn__train *it);
uint32_t tn__train_runs(const tn__train *it);
/* Replaces the model by its copies. Errors: E_INVALID (more parts than operators), E_UNSUPPORTED
 * (an option that does not work with copies). */
tn_status tn__train_rounds(tn__train *it);
/* The tensor of round `round` that corresponds to the tensor `id` of the first round. */
tn_tensor_id tn__train_in_round(const tn__train *it, tn_tensor_id id, uint32_t round);
/* The tensor of the first round that corresponds to one of any round; a tensor made later is
 * returned itself. */
tn_tensor_id tn__train_in_first(const tn__train *it, tn_tensor_id id);
/* The number of the current micro-batch as a tensor: asks for an input if each run has one;
 * TN_NONE: there is only one micro-batch. */
tn_status tn__train_micro(tn__train *it, tn_tensor_id *micro);
/* The order in which operators are visited: [count] positions in the main block. */
tn_status tn__train_walk(tn__train *it, const tn_op_id *ops, uint32_t count, uint32_t *places);
/* Adds another gradient for an operand of the current operator. */
tn_status tn__train_add_gradient(tn__train *it, tn_gradient *ask, tn_tensor_id to,
                                 tn_tensor_id found);
/* For a tensor that rounds share: the sum over all parts. */
tn_status tn__train_sum_parts(tn__train *it, tn_tensor_id id);
/* stages.c: whether all rounds share the outputs of an operator of the model; part_of. */
bool tn__train_is_shared(const tn__train *it, const tn_op *op);
tn_status tn__train_divide(tn__train *it);
/* Gives tensors made since the last call the home it->home. */
tn_status tn__train_settle(tn__train *it);
/* The home of an operator of the graph, which is also the home of new tensors. */
tn_home tn__train_home_of(const tn__train *it, tn_op_id id);
tn_status tn__train_move(tn__train *it, tn_home home);
/* The home of a parameter's complete gradient and its update. `at_once`: the update runs as soon as
 * the gradient is complete. */
tn_home tn__train_home_of_parameter(const tn__train *it, uint32_t number, bool at_once);
/* Reports the parts in it->made. */
tn_status tn__train_stages(tn__train *it);
void tn__stages_destroy(const tn_context *context, const tn_stages *stages);
/* copy.c: copies one operator of the model unchanged. */
tn_status tn__train_copy_op(tn__train *it, const tn_op *op, tn_block_id block);
/* copy.c: makes it->graph, without labels and loss. */
tn_status tn__train_copy(tn__train *it);
/* mixed.c. Errors: E_INVALID (an option that does not work with an adaptive scale). */
tn_status tn__train_scale_check(const tn__train *it);
tn_status tn__train_seed(tn__train *it, tn_tensor_id *seed);
/* After all gradients are complete: makes `factor`. */
tn_status tn__train_scale_step(tn__train *it);
/* unroll.c: whether a recurrent cell has to be unrolled; unrolls it. */
bool tn__train_unrolls(tn__train *it, const tn_op *op);
tn_status tn__train_unroll(tn_decompose *to, tn__train *it);
/* loss.c: adds labels, loss and correct; `seed` is the gradient of the loss. */
tn_status tn__train_loss(tn__train *it, tn_tensor_id *seed);
/* loss_parts.c: replaces the model if the loss is wanted in parts. Errors: E_UNSUPPORTED (a loss or
 * scores that cannot be cut), E_INVALID (too many parts). */
tn_status tn__train_loss_parts(tn__train *it);
/* Labels in parts; the loss of each part, and of all. `axis`: axis of classes; NULL: no classes. */
tn_status tn__train_loss_of_parts(tn__train *it, const char *type, const tn_attr *axis);
/* Orders the forward pass part by part. After the backward pass: puts each part of the forward pass
 * right before its own backward pass. */
tn_status tn__train_parts_together(tn__train *it);
tn_status tn__train_parts_apart(tn__train *it);
/* backward.c: the backward pass, with updates as soon as they can run. */
tn_status tn__train_backward(tn__train *it, tn_tensor_id seed);
/* mixed.c: called after the backward pass, with the block in that order. */
tn_status tn__train_recompute(tn__train *it);
/* update.c: inputs for learning rate and step; completes the gradient of one parameter; adds its
 * update. */
tn_status tn__train_inputs(tn__train *it);
/* buckets.c: the parameter's gradient (or: every gradient) is complete. If updates are to run at
 * once, the parameter is updated when its bucket is complete. */
tn_status tn__train_arrived(tn__train *it, uint32_t parameter);
tn_status tn__train_arrived_all(tn__train *it);
tn_status tn__train_complete(tn__train *it, uint32_t parameter);
tn_status tn__train_update(tn__train *it, uint32_t parameter);
/* The same for a shard. */
tn_status tn__train_complete_shard(tn__train *it, uint32_t shard);
tn_status tn__train_update_shard(tn__train *it, uint32_t shard);
/* buckets.c. Whether a rank keeps only parts. Errors of the check: E_INVALID, E_UNSUPPORTED. */
bool tn__train_shards(const tn__train *it);
tn_status tn__train_shard_check(const tn__train *it);
/* At the end: makes parameters views of their shards, before all other operators in the list. */
tn_status tn__train_shard_end(tn__train *it);

/* update.c: appends an operator of domain "tenure". */
tn_status tn__train_op(tn__train *it, const char *name, const char *type,
                       const tn_tensor_id *inputs, uint32_t input_count,
                       const tn_tensor_id *outputs, uint32_t output_count, const tn_attr *attrs,
                       uint32_t attr_count);

/* A scalar input that the caller gives in every run. */
tn_status tn__train_scalar(tn__train *it, const char *name, tn_dtype dtype, tn_tensor_id *id);

#endif
