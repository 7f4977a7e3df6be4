/* trainer.h - the internals of a training run.
 *
 *   trainer.c   sets up a run: inputs, number of steps, contents of a checkpoint; opens the engine
 *               if only a model is given; tests the model on test samples
 *   steps.c     runs step after step, with checkpoints in between; learning rates
 *   ranks.c     starts several ranks that train one model, and combines their results
 *   masks.c     prunes parameters while they are trained
 *   assemble.c  assembles divided tensors from the parts that ranks hold
 */
#ifndef TN_TRAINER_TRAINER_H
#define TN_TRAINER_TRAINER_H

#include <tenure/train.h>

#include "base/base.h"
#include "run/trainer/checkpoint.h"

/* indices of the arrays of one micro-batch, in `inputs` and `outputs` of a trainer */
typedef struct tn__round_at {
    uint32_t *samples; /* [sample_count] the inputs of the model that data fills */
    uint32_t labels, loss, correct;
} tn__round_at;

typedef struct tn__mask tn__mask;
typedef struct tn__masks tn__masks;

struct tn_trainer {
    tn_context context;
    tn__arena arena;
    const tn_training *training;
    tn_engine *engine;
    /* the fields `train` and `session` of the options are not used after opening */
    tn_trainer_options options;
    tn_trainer_state state;
    tn_rate rate;
    tn_loss loss;
    uint32_t output; /* index of the model output that the loss reads */
    bool scored;     /* true: the output that the loss reads has float32 scores of classes */
    /* the settings of the run as a checkpoint stores them; the field `step` is not set */
    tn_checkpoint_run is;
    tn_batches *batches; /* fills the inputs; NULL: options.fill does this */
    /* number of this rank's part of each batch, which is divided into state.parts parts */
    uint32_t part;
    /* number of tensor-parallel parts of the model, and number of this rank's part; tensor_ranks 1:
     * the model is not tensor-parallel */
    uint32_t tensor_ranks, tensor_rank;
    /* number of pipeline stages, and number of this rank's stage; stages 1: there is no pipeline */
    uint32_t stages, stage;
    /* `asked`: the callback options.step on this rank has asked to stop; `stopping`: that of any
     * rank has */
    bool asked, stopping;
    /* Arrays for those inputs of the step's graph that are not static, and for its outputs, in the
     * order of the graph. The fields *_at below, and the elements of `rounds`, are indices into
     * these arrays; TN_NONE: there is no such array. */
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
    /* indices in `inputs` of learning rate, step number and micro-batch number */
    uint32_t rate_at, step_at, micro_at;
    /* array of `round_count` elements: the micro-batches of one run of the engine, usually only
     * one */
    tn__round_at *rounds;
    uint32_t round_count;
    uint32_t sample_count; /* number of inputs of the model that data fills */
    /* [sample_count] copies of the arrays of the micro-batch that is filled, in one piece */
    tn_array *samples;
    tn__keeping keeping; /* the tensors that a checkpoint contains */
    tn__masks *masks;    /* the masks of pruned parameters; NULL: nothing is pruned */
    tn__names names;     /* maps the name of a parameter or statistic to its index in `keeping` */
    /* array of keeping.count pointers to gathered contents of divided parameters; NULL: this rank
     * has gathered none since the last step */
    uint8_t **gathered;
    /* tn_trainer_open sets the fields from here on. */
    /* reads the initial contents of tensors; tn_trainer_create sets this field as well */
    tn_contents_of contents;
    tn_session_options test_options;
    /* the graph that tn_train_model made, and the same graph rewritten for training; `rewritten` is
     * NULL if it was not rewritten */
    tn_graph *model, *rewritten;
    tn_training made;
    tn_session *session;
};

/* Sets the sizes of the output arrays to those of the graph's outputs. This is needed before each
 * run of an engine, because a run stores in an array the number of bytes that it wrote. */
void tn__trainer_reset(const tn_graph *graph, tn_array *outputs);
/* Returns the arrays of one micro-batch for the inputs of the model; the next call overwrites the
 * list. tn__trainer_labels: its labels; NULL: the loss takes none. */
tn_array *tn__trainer_samples(tn_trainer *trainer, const tn__round_at *round);
tn_array *tn__trainer_labels(tn_trainer *trainer, const tn__round_at *round);
/* Returns the number in an array of one element that has the loss, float32 or float64; NaN for
 * another type. */
double tn__trainer_loss(const tn_array *array);
/* Finds out which part of each batch this rank has (ranks.c). Errors: E_INVALID (this rank is not
 * in the group, or the group does not match the parts that the step stores). */
tn_status tn__trainer_find_part(tn_trainer *trainer, tn_error *error);
/* Pruning (masks.c). The first function chooses the parameters to prune, and adds their masks to
 * `keeping`; the second returns the schedule, with a share of 0 if nothing is pruned. The third is
 * called once the state of the run is known, the last after each step. */
tn_status tn__masks_make(tn_trainer *trainer, tn_error *error);
const tn_prune_schedule *tn__masks_schedule(const tn_trainer *trainer);
tn_status tn__masks_start(tn_trainer *trainer, tn_error *error);
tn_status tn__masks_apply(tn_trainer *trainer, tn_error *error);
/* The first function returns whether there are other ranks with which losses and requests to stop
 * are combined, the second whether this is the first of all ranks. */
bool tn__trainer_communicates(const tn_trainer *trainer);
bool tn__trainer_leads(const tn_trainer *trainer);
/* The first function returns whether this rank holds a part of the model without a connection to
 * the ranks with the other parts. Then no checkpoint can be written, and the second function
 * reports this error. */
bool tn__trainer_is_lone(const tn_trainer *trainer);
tn_status tn__trainer_lone(tn_error *error);
/* Makes all ranks start with the contents of the first rank: those of the checkpoint `from`, or, if
 * it is NULL, the initial contents. why: on the first rank, the result of loading the
 * checkpoint. If loading failed, all ranks fail with this error. */
tn_status tn__trainer_spread(tn_trainer *trainer, const tn_checkpoint *from, const tn_error *why,
                             tn_error *error);
/* Replaces the loss and the number of correct answers by those of all ranks. Also finds out whether
 * any rank was asked to stop. */
tn_status tn__trainer_sum(tn_trainer *trainer, double *loss, int64_t *correct, tn_error *error);
/* The first function returns whether ranks hold only parts of parameters. The second frees the
 * parameters that this rank has gathered (assemble.c). */
bool tn__trainer_is_divided(const tn_trainer *trainer);
void tn__trainer_forget(tn_trainer *trainer);
/* The first function returns whether all ranks write a checkpoint together; the second writes such
 * a checkpoint (ranks.c). */
bool tn__trainer_shares(const tn_trainer *trainer);
tn_status tn__trainer_save_shards(tn_trainer *trainer, const char *path,
                                  const tn_checkpoint_run *run, tn_error *error);

#endif
