/* trainer.h - trains a model: batches, learning rates, checkpoints, and a test.
 *
 *     // ... model: a tn_graph; session.read: the initial values of its parameters
 *     tn_trainer_options options = TN_TRAINER_OPTIONS_INIT;
 *     options.train = &train;            // loss, optimizer (train.h)
 *     options.session = &session;        // threads, planner, budget (session.h)
 *     options.data = data;               // of tn_data_load
 *     options.epochs = 2;
 *     options.checkpoint = "run.ck";     // every 100 steps, and when `step` stops the run
 *     options.go_on = true;              // resume from that file if it exists
 *     if (tn_trainer_open(model, &options, &trainer, &error) ||
 *         tn_trainer_run(trainer, &error) || tn_trainer_test(trainer, &score, &error))
 *         return 2;
 *     printf("%.2f %% right\n", 100 * score.accuracy);
 *
 * examples/training/resume.c is the complete program. A program that is killed at any moment and
 * started again ends with the same bits as an uninterrupted run: a checkpoint holds all state that
 * persists between two steps, and everything else (the order of samples, the learning rate)
 * follows from the number of the step. The library handles no signals; `step` stops a run.
 *
 * Units: samples, steps (updates), seconds, bytes, nats.
 * Threads: one thread at a time uses a trainer; different trainers are independent.
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

/* Schedules of the learning rate: X(name, text, sentence). */
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

/* Find returns TN_SCHEDULE_COUNT for an unknown text. Names and summaries are static; NULL for a
 * value out of range. */
TN_API tn_schedule tn_schedule_find(const char *text);
TN_API const char *tn_schedule_name(tn_schedule schedule);
TN_API const char *tn_schedule_summary(tn_schedule schedule);

typedef struct tn_rate {
    double rate;          /* the highest rate */
    tn_schedule schedule; /* how it falls after the warm-up */
    uint64_t warmup;      /* first steps, in which the rate rises */
    uint64_t total;       /* steps in all */
} tn_rate;
/* The learning rate of a step after `done` steps; it depends on the two arguments only.
 * Source of the cosine schedule: Loshchilov and Hutter, "SGDR" (2017), without restarts. */
TN_API double tn_rate_at(const tn_rate *rate, uint64_t done);

/* --- a run -------------------------------------------------------------------------------------
 */

typedef struct tn_trainer tn_trainer;

/* The state of a run. Means are over about the last TN_TRAINER_SEEN steps of this process. */
#define TN_TRAINER_SEEN 50u
typedef struct tn_trainer_state {
    uint64_t first, done, total; /* steps: when this process began, now, at the end */
    uint64_t batch;              /* samples of a micro-batch, on this rank */
    uint32_t parts;              /* data-parallel ranks, each with such a batch; 1: only this one */
    uint32_t micro_batches;      /* of a step */
    uint64_t labels;             /* of a sample; 0 if no labels are read */
    bool stopped;                /* `step` stopped the run, here or on another rank */
    bool counts;                 /* `correct` and `accuracy` are valid */
    double loss;                 /* of the last step */
    int64_t correct;             /* labels of the last step that have the highest score */
    double mean_loss;
    double accuracy;       /* mean share of correct labels */
    double seconds;        /* in steps, including checkpoints */
    double engine_seconds; /* the part of `seconds` in the engine, without the twin */
    uint64_t saved;        /* checkpoints written */
    uint64_t saved_bytes;  /* size of the last one */
    double save_seconds;   /* for all of them */
} tn_trainer_state;

typedef struct tn_trainer_options {
    size_t struct_size;
    const tn_context *context;         /* NULL or outlives the trainer */
    const tn_train_options *train;     /* NULL: defaults. Read only during the call */
    const tn_session_options *session; /* for tn_trainer_open; NULL: defaults. `read` is called
                                        * until the trainer is destroyed */

    /* The training data: either `data`, which must outlive the trainer, or a function that provides
     * batch `number` of the training samples or of the held-out samples. The batch must depend only
     * on the arguments of the function; otherwise a resumed run differs. */
    const tn_data *data;
    tn_status (*fill)(void *self, bool held_out, uint64_t number, tn_array *samples,
                      tn_array *labels, tn_error *error);
    uint64_t test_batches; /* held-out batches that `fill` provides */

    uint64_t steps;       /* in all, including those before a resumed run; 0: from `epochs` */
    uint64_t epochs;      /* passes over all samples of `data`; 0 = 1 */
    double rate;          /* the highest learning rate; 0 = 1e-3; below 0: rate 0 */
    tn_schedule schedule; /* of the rate */
    uint64_t warmup;      /* steps in which the rate rises */
    uint64_t seed;        /* of the order of samples; for tn_trainer_open also the default seed of
                           * `train` and `session` */

    const char *checkpoint;    /* NULL, or a file to write regularly and at the end */
    uint64_t checkpoint_every; /* steps; 0 = 100 */
    const char *resume;        /* NULL, or a checkpoint to continue from */
    bool go_on;                /* continue from `checkpoint` instead, if the file exists */

    /* Called after each step, before its checkpoint. Return false to stop with a checkpoint. */
    bool (*step)(void *self, const tn_trainer_state *state);
    /* NULL, or called after each run of the engine: after each micro-batch, or after each step if
     * the graph has all micro-batches (tn_training.stages). */
    tn_status (*ran)(void *self, tn_engine *engine, tn_error *error);
    void *self; /* of `fill`, `step` and `ran` */
    /* NULL, or an engine of the same graph with another plan, which must outlive the trainer. Both
     * are trained, and their results must be equal bit by bit. */
    tn_engine *twin;
    /* NULL, or the transport to the ranks that train the same model on other samples, and their
     * group (dist.h). All ranks start from the state of the first member, which alone reads and
     * writes checkpoints. If seed, samples, steps or rates differ from the first member's, all
     * ranks end with E_CONFLICT. Losses and accuracy are those of all ranks. All ranks stop
     * together, one step after `step` stops one of them. The engine's program must average
     * gradients (tn_program_average). Ranks that keep shards (tn_train_options.shard) write
     * checkpoints together, each its part next to `checkpoint`, which is the same path on all
     * ranks. The first rank can read a checkpoint of any kind and number of ranks */
    const tn_exchange *exchange;
    uint32_t group;
    /* With `exchange`, for a model divided by tensor parallelism (tn_train_options.tensor_ranks):
     * the group of the ranks that hold the parts of one copy of the model, in the order of the
     * parts. These ranks also start and stop together. Checkpoints and tests cover the whole model;
     * rank 0 of `exchange` writes and reads the checkpoints. */
    uint32_t tensor_group;
    /* With `exchange`, for a pipeline (tn_train_options.pipeline_parts): the group of the ranks
     * with the other stages, in their order; the same rules apply. One run of the engine is then a
     * step. Only for tn_trainer_create, since tn_program_pipeline needs the result of tn_train. */
    uint32_t pipeline_group;
    /* For tn_trainer_create: the provider of the engine's parameters, so that ranks with parts of
     * them also start from the first rank's; tn_trainer_open uses that of `session`. NULL: each
     * rank starts from its own */
    tn_contents_of contents;
} tn_trainer_options;
#define TN_TRAINER_OPTIONS_INIT                                                                    \
    TN_INIT(tn_trainer_options, TN_SET(struct_size, sizeof(tn_trainer_options)))

/* Creates a trainer on an engine of the graph of a step, made by the caller.
 *
 * model             the model given to tn_train; not used after the call
 * training, engine  must outlive the trainer
 * options           `train` as in the call that made `training`. Strings are copied
 *
 * Errors: E_INVALID (no steps, no samples, data that do not fit the model, no gradient for any
 * parameter, two parameters of one name, a checkpoint that is damaged or of another run),
 * E_UNSUPPORTED (an input that data cannot fill), E_CONFLICT (samples, steps or rates differ
 * between ranks; on all ranks alike), E_IO, E_NO_MEMORY. Logs a note to the context if some
 * parameters are never updated. */
TN_API TN_CHECKED tn_status tn_trainer_create(const tn_graph *model, const tn_training *training,
                                              tn_engine *engine, const tn_trainer_options *options,
                                              tn_trainer **trainer, tn_error *error);
/* Creates a trainer from a model: finds its parameters (tn_train_model), makes the graph of a step,
 * and plans and opens it (tn_session_open). With session->fuse the model is rewritten first
 * (TN_REWRITE_TO_TRAIN).
 *
 * model  must outlive the trainer
 *
 * Errors: those of these calls and of tn_trainer_create. */
TN_API TN_CHECKED tn_status tn_trainer_open(const tn_graph *model,
                                            const tn_trainer_options *options, tn_trainer **trainer,
                                            tn_error *error);
TN_API void tn_trainer_destroy(tn_trainer *trainer); /* NULL is fine */

/* Runs all remaining steps and writes checkpoints. A stop is not an error, and the call may be
 * repeated after one. Errors: E_INVALID (a loss or a parameter is not finite; the checkpoint file
 * is unchanged), E_CONFLICT (the twin differs), E_IO, those of tn_engine_run, `fill` and `ran`. */
TN_API TN_CHECKED tn_status tn_trainer_run(tn_trainer *trainer, tn_error *error);
/* Runs one step, without a checkpoint. Errors: as tn_trainer_run; E_INVALID if no step is left. */
TN_API TN_CHECKED tn_status tn_trainer_step(tn_trainer *trainer, tn_error *error);
/* Writes a checkpoint of the current state; the file is replaced atomically. Ranks that keep parts
 * (tn_train_options.shard, tensor_ranks) must all call it, with the same path in one folder. Of
 * other ranks only the first one writes.
 * Errors: E_INVALID (a parameter is not finite), E_UNSUPPORTED (a cut model without an exchange),
 * E_IO, E_NO_MEMORY, those of the exchange. */
TN_API TN_CHECKED tn_status tn_trainer_save(tn_trainer *trainer, const char *path, tn_error *error);
TN_API const tn_trainer_state *tn_trainer_at(const tn_trainer *trainer);

/* The parts of a trainer; valid as long as it. */
TN_API tn_engine *tn_trainer_engine(tn_trainer *trainer);
TN_API const tn_training *tn_trainer_training(const tn_trainer *trainer);
/* Reads a parameter or statistic as it is now, by its name. Returns false if no trained tensor has
 * this name and size, or if this rank has only a part of it (tn_trainer_gather). For
 * tn_engine_options.read of an inference engine. */
TN_API bool tn_trainer_read(tn_trainer *trainer, const char *name, void *bytes, uint64_t size);

/* Gathers all parameters on the first rank, in host memory, for tn_trainer_read and
 * tn_trainer_test; they stay until the next step begins. All ranks that have only parts of the
 * parameters (TN_SHARD_PARAMETERS, or a cut model) must call it; on others it does nothing.
 * Errors: E_UNSUPPORTED (a cut model without an exchange), E_NO_MEMORY, those of the exchange. */
TN_API TN_CHECKED tn_status tn_trainer_gather(tn_trainer *trainer, tn_error *error);

/* --- the test ----------------------------------------------------------------------------------
 */

typedef struct tn_trainer_score {
    uint64_t labels; /* tested; 0: no held-out samples, or the loss is not a classification loss */
    double loss;     /* mean cross-entropy, nats */
    double accuracy; /* share of labels with the highest score */
} tn_trainer_score;

/* Whether a test is possible: held-out samples, a cross-entropy, float32 scores. */
TN_API bool tn_trainer_tests(const tn_trainer *trainer);
/* Tests the current model, in inference mode, on all held-out samples. After tn_trainer_open: plans
 * the model for inference and releases that plan. Errors: those of tn_session_open and
 * tn_engine_run. */
TN_API TN_CHECKED tn_status tn_trainer_test(tn_trainer *trainer, tn_trainer_score *score,
                                            tn_error *error);
/* The same on an engine that read its parameters with tn_trainer_read; graph: the engine's. */
TN_API TN_CHECKED tn_status tn_trainer_test_on(tn_trainer *trainer, const tn_graph *graph,
                                               tn_engine *engine, tn_trainer_score *score,
                                               tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
