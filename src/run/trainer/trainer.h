/* trainer.h - the internals of a training run.
 *
 *   trainer.c   set-up over an engine: inputs, number of steps, contents of a checkpoint; the
 *               engine from a model; the model on test samples
 *   steps.c     step after step, with checkpoints in between; learning rates
 *   ranks.c     several ranks that train one model
 *   assemble.c  divided tensors and parameters, assembled from the parts of ranks
 */
#ifndef TN_TRAINER_TRAINER_H
#define TN_TRAINER_TRAINER_H

#include <tenure/train.h>

#include "base/base.h"
#include "run/trainer/checkpoint.h"

typedef struct tn__round_at { /* indices of a micro-batch's arrays */
    uint32_t samples, labels, loss, correct;
} tn__round_at;

struct tn_trainer {
    tn_context context;
    tn__arena arena;
    const tn_training *training;
    tn_engine *engine;
    tn_trainer_options options; /* `train` and `session` are not used after opening */
    tn_trainer_state state;
    tn_rate rate;
    tn_loss loss;
    uint32_t output;      /* the model output that the loss reads */
    bool scored;          /* that output holds float32 scores of classes */
    tn_checkpoint_run is; /* the run as described in a checkpoint, except the step */
    tn_batches *batches;  /* NULL: options.fill is used */
    uint32_t part;        /* of state.parts */
    /* ranks with parts of the model, and which this is; 1: not cut */
    uint32_t tensor_ranks, tensor_rank;
    uint32_t stages, stage; /* pipeline stages, and which this is; 1: no pipeline */
    bool asked, stopping;   /* `step` was asked to stop here; any rank was */
    /* Arrays in the order of the step's graph, and indices of special ones; TN_NONE: not
     * present. */
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
    uint32_t rate_at, step_at, micro_at; /* indices in `inputs` */
    tn__round_at *rounds; /* [round_count] micro-batches of one engine run: mostly one */
    uint32_t round_count;
    tn__keeping keeping; /* the tensors of a checkpoint */
    tn__names names;     /* of parameters and statistics: name to index in `keeping` */
    uint8_t **gathered;  /* [keeping.count] divided parameters, as gathered; NULL: not gathered on
                          * this rank since the last step */
    /* set by tn_trainer_open */
    tn_contents_of contents; /* as the options gave them */
    tn_session_options test_options;
    /* from tn_train_model, and rewritten for training; NULL: not rewritten */
    tn_graph *model, *rewritten;
    tn_training made;
    tn_session *session;
};

/* Resets the sizes of the output arrays before each run, because a run stores the bytes it
 * wrote. */
void tn__trainer_reset(const tn_graph *graph, tn_array *outputs);
/* ranks.c. Finds this rank's part of each batch. Errors: E_INVALID (it is not in the group, or the
 * group does not match the parts that the step stores). */
tn_status tn__trainer_find_part(tn_trainer *trainer, tn_error *error);
/* Are there other ranks to combine losses and stops with? Is this the first of all ranks? */
bool tn__trainer_communicates(const tn_trainer *trainer);
bool tn__trainer_leads(const tn_trainer *trainer);
/* Does it hold a part of the model, without a connection to the other parts? Then no checkpoint can
 * be written. */
bool tn__trainer_is_lone(const tn_trainer *trainer);
tn_status tn__trainer_lone(tn_error *error);
/* All ranks start with the first rank's contents: from its checkpoint `from`, or NULL. why: on the
 * first rank the result of loading; if it failed, all ranks fail with the same message. */
tn_status tn__trainer_spread(tn_trainer *trainer, const tn_checkpoint *from, const tn_error *why,
                             tn_error *error);
/* Replaces loss and number of correct answers by those of all ranks; also learns whether any rank
 * was asked to stop. */
tn_status tn__trainer_sum(tn_trainer *trainer, double *loss, int64_t *correct, tn_error *error);
/* assemble.c. Do ranks hold only parts of parameters? The second function frees what was
 * gathered. */
bool tn__trainer_is_divided(const tn_trainer *trainer);
void tn__trainer_forget(tn_trainer *trainer);
/* ranks.c: the checkpoint that all ranks write together. */
bool tn__trainer_shares(const tn_trainer *trainer);
tn_status tn__trainer_save_shards(tn_trainer *trainer, const char *path,
                                  const tn_checkpoint_run *run, tn_error *error);

#endif
