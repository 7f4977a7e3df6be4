/* frame.h - the state and functions that the files of this folder share while they make a training
 * graph.
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

/* how the scores are divided along one axis, and the tensors that they are computed from */
typedef struct tn__part_cut {
    uint32_t axis, base_axis, count;
    int64_t extent;
} tn__part_cut;

typedef struct tn__train {
    const tn_graph *model;
    tn_graph *inlined; /* the model after inline.c; NULL: unchanged */
    tn_graph *divided; /* the model after loss_parts.c, with its scores in parts; NULL: unchanged */
    tn_graph *part;    /* the model after tensor_parallel.c: that of one rank; NULL: unchanged */
    /* the model of all ranks from which `part`, the model of one rank, was cut */
    const tn_graph *whole;
    /* [operators of `part`] the corresponding operator of the whole model */
    const tn_op_id *origin;
    /* [tensors of the whole model] chosen cuts, that is, how ranks divide each tensor; NULL: no
     * tensor is cut */
    const tn__cut *cuts;
    /* [tensors of the whole model] sequence-parallel cuts of the tensors between tensor-parallel
     * operators */
    const tn__cut *strips;
    tn_part_sums cut_sums;
    tn_graph *graph;
    /* the caller's options, with the default in place of every option that was not given */
    tn_train_options options;
    const tn_context *context;
    tn_error *error;
    tn__arena arena; /* owns all lists below, until the call ends */
    tn_training made;
    bool evaluates; /* true: the copy is for inference during training, without backward pass */

    uint32_t tensors; /* number of tensors in the model; the new graph has more */
    /* [tensors] for a parameter that an operator of the model returns: the tensor with its initial
     * data; otherwise TN_NONE */
    tn_tensor_id *begins;
    bool *depends; /* [tensors] true: the tensor depends on a trained parameter */
    /* [tensors] true: the tensor is a parameter in the file that is a constant of the formula */
    bool *constant;
    bool *trained;  /* [tensors] true: the tensor is a trained parameter */
    bool *read;     /* [tensors] true: the loss or a kept output depends on the tensor */
    uint32_t *uses; /* [tensors] number of operands that are this tensor */
    bool *runs;     /* [operators of the model] true: the operator has to run */
    /* [tensors] for running statistics: the newest version so far; TN_NONE: the original is the
     * newest */
    tn_tensor_id *latest;
    tn_tensor_id scores; /* the tensor that the loss reads */
    /* the tensor that gives the scores their shape; often the scores themselves */
    tn_tensor_id shaped;
    uint32_t *number; /* [tensors] index in made.parameters; TN_NONE: not a trained parameter */

    /* Mixed precision: fields about tensors that are float32 in the model. */
    bool *works_low;     /* [operators of the model] true: the operator works in 16 bits */
    bool *likes_low;     /* [tensors] true: the operator's result has 16 bits */
    bool *is_low;        /* [tensors] true: the tensor with this id has 16 bits in the new graph */
    tn_tensor_id *other; /* [tensors] the tensor cast to the other type; TN_NONE: not made yet */

    /* The backward pass. Ids refer to the graph as it was before that pass. */
    uint32_t forward;       /* number of tensors before the backward pass */
    uint32_t forward_ops;   /* number of operators in the main block before the backward pass */
    bool *needs;            /* [forward] true: the tensor depends on a trained parameter */
    tn_tensor_id *gradient; /* [forward] sum of the tensor's gradients so far; TN_NONE: none yet */
    /* [forward] number of the tensor's readers that the backward pass has not visited yet */
    uint32_t *readers;
    tn_tensor_id factor; /* factor of gradients if the loss scale is adaptive; otherwise TN_NONE */
    bool *arrived;       /* [made.parameters] true: the parameter's gradient is complete */
    uint32_t *waiting; /* [waiting_count] parameters with gradients that wait for the next bucket */
    uint32_t waiting_count, bucket_count;
    uint64_t waiting_bytes;

    /* The loss in parts. If the loss is computed as a whole, all fields of this group are 0. */
    uint32_t part_count, part_cut_count;
    const tn__part_cut *part_cuts; /* [part_cut_count] how one or two axes are divided */
    tn_tensor_id *part_bases;      /* [part_count] inputs of the last product, one per part */
    tn_tensor_id *parts;           /* [part_count] scores of each part */
    /* [part_tensors] number of the part that a tensor of the forward pass belongs to; TN_NONE: to
     * no part */
    uint32_t *piece_of;
    /* [part_count + 3] where in the list of operators the following begin: operators of no part,
     * those of each part, those of several parts */
    uint32_t *part_first;
    uint32_t part_tensors;

    /* A whole training step in one graph. Otherwise all fields of this group except `rounds` are
     * 0. */
    /* number of copies of the model, one per micro-batch; 1: the model is not copied */
    uint32_t rounds;
    uint32_t once;        /* number of tensors in a model with one copy */
    tn_graph *repeated;   /* the model after rounds.c; NULL: unchanged */
    tn_tensor_id *copies; /* [rounds][once] the id of each tensor in each copy of the model */
    /* [tensors of all copies] the id of the corresponding tensor in the first copy */
    tn_tensor_id *first_of;
    /* [tensors of one copy of the model] true: the copies of all micro-batches read this tensor */
    bool *shared;
    /* [operators of the model with one copy] the part of the pipeline to which the operator
     * belongs */
    uint32_t *part_of;
    /* [operators of the model] home of the operator: its pipeline part, micro-batch and pass */
    tn_home *op_homes;
    tn_home home; /* the home (pipeline part, micro-batch and pass) that new tensors get */
    /* [home_count] the home (pipeline part, micro-batch and pass) of each tensor of the graph so
     * far */
    tn_home *homes;
    size_t home_room;
    uint32_t home_count;
    /* [parts][once] for each pipeline part: the gradients of tensors that all micro-batches share,
     * summed within the part; TN_NONE: none yet */
    tn_tensor_id *partial;
    tn_round *round_list; /* [rounds] labels, loss and correct predictions of each micro-batch */
} tn__train;

/* step.c: returns the options with the defaults of numbers that are 0; NULL: all defaults. */
tn_train_options tn__train_options(const tn_train_options *given);
/* Checks the numbers of the optimizer, the loss scale and the statistics. Errors: E_INVALID. */
tn_status tn__train_check_numbers(const tn_train_options *options, tn_error *error);

/* copy.c: whether a second run of an operator in the step would give the same result. */
bool tn__train_may_repeat(const tn__train *it, tn_op_id id);

/* parameters.c: whether a tensor is a parameter of the model. */
bool tn__train_is_parameter(const tn__train *it, tn_tensor_id id);
/* Chooses the parameters to train. Errors: E_INVALID (no such output, a pattern that matches no
 * parameter, nothing to train). */
tn_status tn__train_choose(tn__train *it);
/* Whether gradients may flow to an operand: it has a floating type, and the rule gives it a
 * gradient. */
bool tn__train_flows(const tn_graph *graph, const tn_op *op, const tn_op_rule *rule,
                     uint32_t input);
/* mixed.c: chooses the operators that work in 16 bits. Errors: E_UNSUPPORTED (a model with
 * blocks). */
tn_status tn__train_lower(tn__train *it);
bool tn__train_lowers(const tn__train *it);
/* Returns a tensor of the model in 16 bits (`low`) or in its own type, and adds a cast if there is
 * none yet. A tensor that is not float32 is returned unchanged. */
tn_status tn__train_as(tn__train *it, tn_tensor_id tensor, bool low, tn_tensor_id *id);
/* tn__train_lower_op sets the operands of operator `id` of the model to tensors of the type in
 * which the operator works; the lists are in the arena. tn__train_lower_after is called after the
 * operator was added, and adds casts to the tensors that the operator was to compute. */
tn_status tn__train_lower_op(tn__train *it, tn_op_id id, tn_op *op);
tn_status tn__train_lower_after(tn__train *it, tn_op_id id, const tn_op *made);
/* Whether the gradient of a cast of a parameter can serve as the gradient of the parameter: no
 * other gradient is added to it, and updates can read 16 bits. */
bool tn__train_ends_low(const tn__train *it, const tn_op *op);
/* inline.c: replaces the model if it has an If with a known branch, or, for training, a
 * DequantizeLinear of a QuantizeLinear. */
tn_status tn__train_inline(tn__train *it);
/* tensor_parallel.c. tn__train_cut replaces the model by a rank's part of it. Errors: those of
 * tn__cuts_graph, E_INVALID (sequence_parallel without tensor_ranks), E_UNSUPPORTED (an option that
 * does not work with parts). tn__train_parts reports the parts at the end. */
tn_status tn__train_cut(tn__train *it);
tn_status tn__train_parts(tn__train *it);
void tn__parts_destroy(const tn_context *context, struct tn_parts *parts);
/* Reads this rank's part of a tensor's data from `contents`. */
tn_status tn__train_read_part(const tn_training *training, const tn_tensor_part *part,
                              const tn_contents_of *contents, void *bytes, tn_error *error);
/* Returns how a tensor of any micro-batch is cut; NULL: it is whole. */
const tn__cut *tn__train_cut_of(const tn__train *it, tn_tensor_id id);
/* The tensor of the model of all ranks that a tensor is a part of. */
const tn_tensor *tn__train_whole_of(const tn__train *it, tn_tensor_id id);
/* Where a part's elements lie in the whole tensor: runs of places[0] elements, the runs places[1]
 * elements apart, the first one at places[2]. Returns false if the tensor is not cut, or is cut
 * into blocks of several sizes. */
bool tn__train_places(const tn__train *it, tn_tensor_id id, int64_t *places);
/* Adds the loss for the case that each rank has the scores of some of the classes. */
tn_status tn__train_class_loss(tn__train *it, const int64_t *axis);
/* rounds.c: tn__train_is_whole returns whether one run of the graph is a whole training step;
 * tn__train_runs returns the number of runs in a step. */
bool tn__train_is_whole(const tn__train *it);
uint32_t tn__train_runs(const tn__train *it);
/* Replaces the model by one copy per micro-batch. Errors: E_INVALID (more parts than operators),
 * E_UNSUPPORTED (an option that does not work with copies). */
tn_status tn__train_rounds(tn__train *it);
/* The tensor of copy `round` that corresponds to the tensor `id` of the first copy. */
tn_tensor_id tn__train_in_round(const tn__train *it, tn_tensor_id id, uint32_t round);
/* The tensor of the first copy that corresponds to a tensor of any copy. A tensor that was added
 * later is returned itself. */
tn_tensor_id tn__train_in_first(const tn__train *it, tn_tensor_id id);
/* Sets *micro to the number of the current micro-batch as a tensor. If each run has one
 * micro-batch, it is an input of the graph; TN_NONE: there is only one micro-batch. */
tn_status tn__train_micro(tn__train *it, tn_tensor_id *micro);
/* Writes the order in which the backward pass visits operators: [count] positions in `ops`. */
tn_status tn__train_walk(tn__train *it, const tn_op_id *ops, uint32_t count, uint32_t *places);
/* Adds another gradient for an operand of the current operator. */
tn_status tn__train_add_gradient(tn__train *it, tn_gradient *ask, tn_tensor_id to,
                                 tn_tensor_id found);
/* Sums the gradients that the parts of a pipeline have for a tensor that all micro-batches
 * share. */
tn_status tn__train_sum_parts(tn__train *it, tn_tensor_id id);
/* stages.c: tn__train_is_shared returns whether all micro-batches share the outputs of an operator;
 * tn__train_divide divides the model into the parts of a pipeline (part_of). */
bool tn__train_is_shared(const tn__train *it, const tn_op *op);
tn_status tn__train_divide(tn__train *it);
/* Assigns it->home (pipeline part, micro-batch and pass) to all tensors that were added since the
 * last call. */
tn_status tn__train_settle(tn__train *it);
/* The home (pipeline part, micro-batch and pass) of an operator of the graph, which is that of its
 * first output. */
tn_home tn__train_home_of(const tn__train *it, tn_op_id id);
tn_status tn__train_move(tn__train *it, tn_home home);
/* The home (pipeline part, micro-batch and pass) of a parameter's complete gradient and its update.
 * `at_once`: the update runs as soon as the gradient is complete. */
tn_home tn__train_home_of_parameter(const tn__train *it, uint32_t number, bool at_once);
/* Reports the parts of the pipeline in it->made. */
tn_status tn__train_stages(tn__train *it);
void tn__stages_destroy(const tn_context *context, const tn_stages *stages);
/* copy.c: copies one operator of the model unchanged. */
tn_status tn__train_copy_op(tn__train *it, const tn_op *op, tn_block_id block);
/* copy.c: makes it->graph, a copy of the model without labels and loss. */
tn_status tn__train_copy(tn__train *it);
/* mixed.c: checks the options of the loss scale. Errors: E_INVALID (an option that does not work
 * with an adaptive scale). */
tn_status tn__train_scale_check(const tn__train *it);
tn_status tn__train_seed(tn__train *it, tn_tensor_id *seed);
/* mixed.c: adds the operator that computes it->factor, by which updates multiply gradients, after
 * all gradients are complete. */
tn_status tn__train_scale_step(tn__train *it);
/* unroll.c: tn__train_unrolls returns whether a recurrent operator has to be unrolled;
 * tn__train_unroll unrolls it. */
bool tn__train_unrolls(tn__train *it, const tn_op *op);
tn_status tn__train_unroll(tn_decompose *to, tn__train *it);
/* loss.c: adds labels, the loss and the number of correct predictions; `seed` receives the gradient
 * of the loss. */
tn_status tn__train_loss(tn__train *it, tn_tensor_id *seed);
/* loss_parts.c: replaces the model if the options ask for a loss in parts. Errors: E_UNSUPPORTED (a
 * loss or scores that cannot be divided), E_INVALID (too many parts). */
tn_status tn__train_loss_parts(tn__train *it);
/* Adds the labels in parts, the loss of each part, and the loss of all parts. `axis` is the axis of
 * the classes; NULL: there are no classes. */
tn_status tn__train_loss_of_parts(tn__train *it, const char *type, const tn_attr *axis);
/* Orders the forward pass part by part. After the backward pass, moves each part of the forward
 * pass to right before its own backward pass. */
tn_status tn__train_parts_together(tn__train *it);
tn_status tn__train_parts_apart(tn__train *it);
/* backward.c: adds the backward pass and the updates: with the option fuse_update each as soon as
 * it can run, otherwise all at the end. */
tn_status tn__train_backward(tn__train *it, tn_tensor_id seed);
/* mixed.c: repeats casts in the backward pass. It is called after that pass was added, with the
 * main block in the order of the step. */
tn_status tn__train_recompute(tn__train *it);
/* update.c: tn__train_inputs adds the inputs for learning rate and step number, tn__train_complete
 * completes the gradient of one parameter, tn__train_update adds the parameter's update. */
tn_status tn__train_inputs(tn__train *it);
/* buckets.c: tn__train_arrived is called when the gradient of one parameter is complete,
 * tn__train_arrived_all when all gradients are. If updates run at once, a parameter is updated when
 * its bucket is complete. */
tn_status tn__train_arrived(tn__train *it, uint32_t parameter);
tn_status tn__train_arrived_all(tn__train *it);
tn_status tn__train_complete(tn__train *it, uint32_t parameter);
tn_status tn__train_update(tn__train *it, uint32_t parameter);
/* Called when the gradient of a shard is complete. */
tn_status tn__train_complete_shard(tn__train *it, uint32_t shard);
tn_status tn__train_update_shard(tn__train *it, uint32_t shard);
/* buckets.c: tn__train_shards returns whether a rank keeps only parts of the training state;
 * tn__train_shard_check checks the options. Errors: E_INVALID, E_UNSUPPORTED, E_UNKNOWN (a `shard`
 * that is no tn_shard). */
bool tn__train_shards(const tn__train *it);
tn_status tn__train_shard_check(const tn__train *it);
/* Makes parameters views of their shards, at the end, before all other operators in the list. */
tn_status tn__train_shard_end(tn__train *it);

/* update.c: appends an operator of domain "tenure". */
tn_status tn__train_op(tn__train *it, const char *name, const char *type,
                       const tn_tensor_id *inputs, uint32_t input_count,
                       const tn_tensor_id *outputs, uint32_t output_count, const tn_attr *attrs,
                       uint32_t attr_count);

/* Adds a scalar input that the caller gives in every run. */
tn_status tn__train_scalar(tn__train *it, const char *name, tn_dtype dtype, tn_tensor_id *id);

#endif
