/* trainer.h - what a training run is inside.
 *
 *   trainer.c   set-up over an engine: inputs, how many steps, what a checkpoint holds
 *   open.c      the engine from a model
 *   steps.c     step after step, with checkpoints between them
 *   ranks.c     others that train the same on other samples
 *   gathered.c  parameters of which each of them has a part, on one of them
 *   test.c      the model on what was held out
 *   rate.c      learning rates
 */
#ifndef TN_TRAINER_TRAINER_H
#define TN_TRAINER_TRAINER_H

#include <tenure/trainer.h>

#include "base/base.h"
#include "trainer/checkpoint.h"

typedef struct tn__round_at { /* of a micro-batch: among inputs, among outputs */
    uint32_t samples, labels, loss, correct;
} tn__round_at;

struct tn_trainer {
    tn_context context;
    tn__arena arena;
    const tn_training *training;
    tn_engine *engine;
    tn_trainer_options options; /* `train` and `session` are not read any more */
    tn_trainer_state state;
    tn_rate rate;
    tn_loss loss;
    uint32_t output;                    /* of the model, that the loss is of */
    bool scored;                        /* that output holds float32 scores of classes */
    tn_checkpoint_run is;               /* what a checkpoint tells of the run, but for its step */
    tn_batches *batches;                /* NULL: options.fill */
    uint32_t part;                      /* of state.parts */
    uint32_t tensor_ranks, tensor_rank; /* that have parts of the model, and which it is; 1: one */
    uint32_t stages, stage;             /* that have other operators of it; 1: one */
    bool asked, told;                   /* to stop: by `step` here; by that of any rank */
    /* arrays of the graph of a step, in its order; TN_NONE where there is none of that sort */
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
    uint32_t rate_at, step_at, micro_at; /* among inputs */
    tn__round_at *rounds; /* [round_count] micro-batches of one run of the engine: mostly one */
    uint32_t round_count;
    tn__keeping keeping; /* what a checkpoint holds */
    tn__names names;     /* of parameters and statistics, to places in `keeping` */
    uint8_t **gathered;  /* [keeping.count] parameters of which ranks have parts, as they are now;
                          * NULL: nobody has asked for them here since the last step */
    /* of tn_trainer_open */
    tn_contents_of contents; /* as they were given */
    tn_session_options test_options;
    tn_graph *model, *rewritten; /* as tn_train_model made it, and for training; NULL: as that */
    tn_training made;
    tn_session *session;
};

/* Set up over its training and engine; `trainer` begins with a context and nothing else. */
tn_status tn__trainer_begin(tn_trainer *trainer, const tn_graph *model,
                            const tn_trainer_options *options, tn_error *error);
tn_trainer *tn__trainer_make(const tn_context *context); /* NULL: out of memory */

/* Room for the arrays of a graph's outputs, said anew before each run: a run tells how many bytes
 * it wrote. */
void tn__trainer_reset(const tn_graph *graph, tn_array *outputs);
/* [outputs of the graph], zeroed, in the arena. */
tn_status tn__trainer_outputs(tn__arena *arena, const tn_graph *graph, tn_array **outputs,
                              tn_error *error);
/* ranks.c. Which part of each batch it takes. Errors: E_INVALID (it is in no such group, or in one
 * whose members do not keep the parts that the step has). */
tn_status tn__trainer_find_part(tn_trainer *trainer, tn_error *error);
/* Whether there are others to be told of losses and stops; whether it is the first of all. */
bool tn__trainer_talks(const tn_trainer *trainer);
bool tn__trainer_leads(const tn_trainer *trainer);
/* Whether it has a part of the model, and no way to who has the rest: no checkpoint is of it. */
bool tn__trainer_is_lone(const tn_trainer *trainer);
tn_status tn__trainer_lone(tn_error *error);
/* All begin with what the first of them has: of the checkpoint there, or NULL. why: of the first,
 * how it got there; when that is bad, all end here with its words. */
tn_status tn__trainer_spread(tn_trainer *trainer, const tn_checkpoint *from, const tn_error *why,
                             tn_error *error);
/* Loss and correct answers of all, from one's own; and whether anybody was asked to stop. */
tn_status tn__trainer_sum(tn_trainer *trainer, double *loss, int64_t *correct, tn_error *error);
/* gathered.c. Whether ranks have parts of parameters alone; what was gathered goes. */
bool tn__trainer_is_apart(const tn_trainer *trainer);
void tn__trainer_forget(tn_trainer *trainer);
/* ranks.c: the checkpoint that all write together. */
bool tn__trainer_shares(const tn_trainer *trainer);
tn_status tn__trainer_save_shards(tn_trainer *trainer, const char *path,
                                  const tn_checkpoint_run *run, tn_error *error);

#endif
