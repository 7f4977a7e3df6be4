/* trainer.h - training from the first step to the last: batches, rates, checkpoints, a test.
 *
 *     // ... model: a tn_graph; session.read: what its parameters begin with
 *     tn_trainer_options options = TN_TRAINER_OPTIONS_INIT;
 *     options.train = &train;            // loss, optimizer (train.h)
 *     options.session = &session;        // threads, planner, budget (session.h)
 *     options.data = data;               // of tn_data_load
 *     options.epochs = 2;
 *     options.checkpoint = "run.ck";     // every 100 steps, and when it is told to stop
 *     options.go_on = true;              // from there, where there is one
 *     if (tn_trainer_open(model, &options, &trainer, &error) ||
 *         tn_trainer_run(trainer, &error) || tn_trainer_test(trainer, &score, &error))
 *         return 2;
 *     printf("%.2f %% right\n", 100 * score.accuracy);
 *
 * examples/training/resume.c is the whole of it. Killed at any moment and started again, such a
 * program ends with the bits of one that nobody killed: a checkpoint holds all that stays between
 * two steps, and the number of the step gives the rest, the order of samples and the rate with it.
 * The library listens to no signals: `step` says when to stop.
 *
 * Units: samples, steps (updates), seconds, bytes, nats.
 * Threads: a trainer is used by one at a time; different trainers do not meet.
 */
#ifndef TENURE_TRAINER_H
#define TENURE_TRAINER_H

#include <tenure/checkpoint.h>
#include <tenure/data.h>
#include <tenure/session.h>
#include <tenure/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- learning rates ----------------------------------------------------------------------------
 */

/* X(name, text, sentence). */
/* clang-format off */
#define TN_SCHEDULE_TABLE(X)                                                                   \
    X(CONSTANT, "constant", "the rate stays")                                                  \
    X(LINEAR, "linear", "it falls to 0 by the last step, by the same each time")               \
    X(COSINE, "cosine", "it falls to 0 by the last step, slowly at both ends")
/* clang-format on */
typedef enum tn_schedule {
#define TN_X(name, text, sentence) TN_SCHEDULE_##name,
    TN_SCHEDULE_TABLE(TN_X)
#undef TN_X
        TN_SCHEDULE_COUNT
} tn_schedule;

/* TN_SCHEDULE_COUNT: no such name. Text and sentence are static; NULL outside. */
TN_API tn_schedule tn_schedule_find(const char *text);
TN_API const char *tn_schedule_name(tn_schedule schedule);
TN_API const char *tn_schedule_summary(tn_schedule schedule);

typedef struct tn_rate {
    double rate;          /* the highest */
    tn_schedule schedule; /* how it falls from there */
    uint64_t warmup;      /* steps before, in which it rises */
    uint64_t total;       /* steps in all */
} tn_rate;
/* The rate of the step behind `done` others: a function of the two alone.
 * Source of the cosine: Loshchilov and Hutter, "SGDR" (2017), without restarts. */
TN_API double tn_rate_at(const tn_rate *rate, uint64_t done);

/* --- a run -------------------------------------------------------------------------------------
 */

typedef struct tn_trainer tn_trainer;

/* Where a run is. Means are over about the last TN_TRAINER_SEEN steps of this process. */
#define TN_TRAINER_SEEN 50u
typedef struct tn_trainer_state {
    uint64_t first, done, total; /* steps: when this process began, now, in the end */
    uint64_t batch;              /* samples of a micro-batch, on this rank */
    uint32_t parts;              /* ranks that run beside each other, each with so many; 1: none */
    uint32_t micro_batches;      /* of a step */
    uint64_t labels;             /* of a sample; 0 where no labels are read */
    bool stopped;                /* by `step`, here or on another rank, before the end */
    bool counts;                 /* whether `correct` and `accuracy` mean something */
    double loss;                 /* of the last step */
    int64_t correct;             /* labels of it that have the highest score */
    double mean_loss;
    double accuracy;       /* mean share of them */
    double seconds;        /* in steps, checkpoints with them */
    double engine_seconds; /* of them in the engine, without the twin */
    uint64_t saved;        /* checkpoints written */
    uint64_t saved_bytes;  /* of the last one */
    double save_seconds;   /* for all of them */
} tn_trainer_state;

typedef struct tn_trainer_options {
    size_t struct_size;
    const tn_context *context;         /* NULL or outlives the trainer */
    const tn_train_options *train;     /* NULL: defaults. Only read by the call */
    const tn_session_options *session; /* of tn_trainer_open; NULL: defaults. `read` is called until
                                        * the trainer is destroyed */

    /* What it learns from: data, which outlive the trainer, or a function that gives batch `number`
     * of a run, or of what is held out; of the numbers alone, or a resumed run is another one. */
    const tn_data *data;
    tn_status (*fill)(void *self, bool held_out, uint64_t number, tn_array *samples,
                      tn_array *labels, tn_error *error);
    uint64_t test_batches; /* that `fill` has held out */

    uint64_t steps;       /* in all, those before a resumed run counted; 0: `epochs` */
    uint64_t epochs;      /* how often all samples of `data` are seen; 0 = 1 */
    double rate;          /* the highest learning rate; 0 = 1e-3; below 0: none */
    tn_schedule schedule; /* of the rate */
    uint64_t warmup;      /* steps in which it rises */
    uint64_t seed;        /* of the order of samples; of tn_trainer_open also where `train` and
                           * `session` state none */

    const char *checkpoint;    /* NULL, or a file that is written now and then, and at the end */
    uint64_t checkpoint_every; /* steps; 0 = 100 */
    const char *resume;        /* NULL, or a checkpoint that it goes on from */
    bool go_on;                /* from `checkpoint` instead, where there is such a file */

    /* Called behind each step, before its checkpoint. False: stop here, with a checkpoint. */
    bool (*step)(void *self, const tn_trainer_state *state);
    /* NULL, or called behind each run of the engine: of a micro-batch, or of a whole step where the
     * graph has all of them (tn_training.stages). */
    tn_status (*ran)(void *self, tn_engine *engine, tn_error *error);
    void *self; /* of `fill`, `step` and `ran` */
    /* NULL, or an engine of the same graph with another plan, which outlives the trainer: it is
     * trained beside the first, and all must be equal bit by bit. */
    tn_engine *twin;
    /* NULL, or how to reach the ranks that train the same on other samples, and their group
     * (dist.h): they begin with what its first member has, which alone reads and writes
     * checkpoints, and where seed, samples, steps or rates are others than its, all end with
     * E_CONFLICT; losses and answers are those of all; they stop together, one step behind who was
     * told to. The engine's program has to make gradients one (tn_program_average). Ranks that keep
     * parts (tn_train_options.shard) write checkpoints together, each its part beside `checkpoint`,
     * which all of them name alike; the first reads one of any sort and number of ranks */
    const tn_exchange *exchange;
    uint32_t group;
    /* And, of a model that is cut (tn_train_options.tensor_ranks), the group of those that have the
     * other parts of it, in their order: with `exchange` they begin and stop together as well, and
     * checkpoints and tests are of the whole, which the first of all writes and reads. Without
     * `exchange` there are none */
    uint32_t tensor_group;
    /* And, of a model in stages (tn_train_options.pipeline_parts; of tn_trainer_create, as
     * tn_program_pipeline asks for what tn_train has made), the group of those that have the other
     * stages of it, in their order: the same goes for them. One run of the engine is a step then */
    uint32_t pipeline_group;
    /* Of tn_trainer_create: who gave the engine its parameters, so that ranks that have parts of
     * them begin with the first one's, too; tn_trainer_open takes `session`'s. NULL: each with what
     * it has */
    tn_contents_of contents;
} tn_trainer_options;
#define TN_TRAINER_OPTIONS_INIT                                                                    \
    TN_INIT(tn_trainer_options, TN_SET(struct_size, sizeof(tn_trainer_options)))

/* A run over an engine of the graph of a step, for whoever set that up.
 *
 * model             that was given to tn_train; not needed after the call
 * training, engine  outlive the trainer
 * options           `train` as in the call that made `training`. Strings are copied
 * Errors: E_INVALID (no steps, no samples, data that the model does not take, no gradient reaches a
 * parameter, two parameters of one name; a checkpoint that is damaged or of another run),
 * E_UNSUPPORTED (an input that data cannot fill), E_CONFLICT (another rank has other samples, steps
 * or rates; on all alike), E_IO, E_NO_MEMORY. A note on the context's log when some parameters stay
 * as they are. */
TN_API TN_CHECKED tn_status tn_trainer_create(const tn_graph *model, const tn_training *training,
                                              tn_engine *engine, const tn_trainer_options *options,
                                              tn_trainer **trainer, tn_error *error);
/* From a model: its parameters found (tn_train_model), the graph of a step made, planned and set up
 * (tn_session_open). With session->fuse the model is rewritten before (TN_REWRITE_TO_TRAIN).
 *
 * model  outlives the trainer
 * Errors: those of these calls and of tn_trainer_create. */
TN_API TN_CHECKED tn_status tn_trainer_open(const tn_graph *model,
                                            const tn_trainer_options *options, tn_trainer **trainer,
                                            tn_error *error);
TN_API void tn_trainer_destroy(tn_trainer *trainer); /* NULL is fine */

/* All steps that are left, with checkpoints between them; a stop is no error. It may be called
 * again after one. Errors: E_INVALID (a loss or a parameter is no number: the checkpoint stays as
 * it was), E_CONFLICT (the twin differs), E_IO, those of tn_engine_run, `fill` and `ran`. */
TN_API TN_CHECKED tn_status tn_trainer_run(tn_trainer *trainer, tn_error *error);
/* One step, without a checkpoint, for loops of the caller's own. Errors: as above; E_INVALID when
 * none is left. */
TN_API TN_CHECKED tn_status tn_trainer_step(tn_trainer *trainer, tn_error *error);
/* A checkpoint as the run is now: the file is the old one or the whole new one, whatever happens.
 * Of several ranks that keep parts (tn_train_options.shard, tensor_ranks) all call it, with one
 * path in one folder. Of others the first one writes, and the rest do nothing here.
 * Errors: E_INVALID (a parameter is no number), E_UNSUPPORTED (a part of a model that is cut, and
 * no exchange), E_IO, E_NO_MEMORY, those of the exchange. */
TN_API TN_CHECKED tn_status tn_trainer_save(tn_trainer *trainer, const char *path, tn_error *error);
TN_API const tn_trainer_state *tn_trainer_at(const tn_trainer *trainer);

/* What it is made of; lives as long. */
TN_API tn_engine *tn_trainer_engine(tn_trainer *trainer);
TN_API const tn_training *tn_trainer_training(const tn_trainer *trainer);
/* A parameter or statistic as it is now, by its name. False: nothing of this name and size is
 * trained, or a rank has a part of it alone (tn_trainer_gather). For tn_engine_options.read of the
 * model in use. */
TN_API bool tn_trainer_read(tn_trainer *trainer, const char *name, void *bytes, uint64_t size);

/* Ranks that have parts of the parameters alone (TN_SHARD_PARAMETERS, or a model that is cut): all
 * of them call it, and the first has all parameters, in memory of the host's, for tn_trainer_read
 * and tn_trainer_test, until the next step begins. Otherwise it does nothing.
 * Errors: E_UNSUPPORTED (a model that is cut, and no exchange), E_NO_MEMORY, those of the
 * exchange. */
TN_API TN_CHECKED tn_status tn_trainer_gather(tn_trainer *trainer, tn_error *error);

/* --- how good it is ----------------------------------------------------------------------------
 */

typedef struct tn_trainer_score {
    uint64_t labels; /* that were looked at; 0: nothing is held out, or the loss is of no classes */
    double loss;     /* mean cross-entropy, nats */
    double accuracy; /* share of labels with the highest score */
} tn_trainer_score;

/* Whether there is anything to test: held-out samples, a cross-entropy, float32 scores. */
TN_API bool tn_trainer_tests(const tn_trainer *trainer);
/* The model as it is now, in inference, on all that is held out. Of tn_trainer_open: the model is
 * planned for it and given back. Errors: those of tn_session_open and tn_engine_run. */
TN_API TN_CHECKED tn_status tn_trainer_test(tn_trainer *trainer, tn_trainer_score *score,
                                            tn_error *error);
/* The same by an engine whose parameters were read by tn_trainer_read; graph: that it runs. */
TN_API TN_CHECKED tn_status tn_trainer_test_on(tn_trainer *trainer, const tn_graph *graph,
                                               tn_engine *engine, tn_trainer_score *score,
                                               tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
