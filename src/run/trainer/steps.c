/* steps.c - runs one training step after another, with checkpoints in between; learning rates. */
#include <tenure/train.h>
#include "run/trainer/trainer.h"

#include <math.h>
#include <string.h>

/* --- learning rates --------------------------------------------------------------------------- */

/* The learning rate as a function of the number of the step and of the total number of steps, so a
 * resumed run continues with the same rates. */

static double rate_constant(double passed) {
    (void)passed;
    return 1;
}

static double rate_linear(double passed) { return 1 - passed; }

static double rate_cosine(double passed) { return 0.5 * (1 + cos(3.14159265358979324 * passed)); }

static const struct {
    const char *name, *summary;
} rate_texts[] = {
#define TN_X(name, text, sentence) {text, sentence},
    TN_SCHEDULE_TABLE(TN_X)
#undef TN_X
};

/* for each learning rate schedule: the factor for the rate, given the fraction of the steps after
 * the warm-up that are done */
static double (*const rate_shares[])(double passed) = {rate_constant, rate_linear, rate_cosine};
_Static_assert(sizeof rate_shares / sizeof *rate_shares == TN_SCHEDULE_COUNT, "one for each");

tn_schedule tn_schedule_find(const char *text) {
    uint32_t i = 0;
    while (i < TN_SCHEDULE_COUNT && strcmp(rate_texts[i].name, text) != 0) i++;
    return (tn_schedule)i;
}

const char *tn_schedule_name(tn_schedule schedule) {
    return (unsigned)schedule < TN_SCHEDULE_COUNT ? rate_texts[schedule].name : NULL;
}

const char *tn_schedule_summary(tn_schedule schedule) {
    return (unsigned)schedule < TN_SCHEDULE_COUNT ? rate_texts[schedule].summary : NULL;
}

double tn_rate_at(const tn_rate *rate, uint64_t done) {
    double warmup = (double)rate->warmup;
    if (done < rate->warmup) return rate->rate * ((double)done + 1) / (warmup + 1);
    double passed = ((double)done - warmup) / ((double)rate->total - warmup);
    return rate->rate * rate_shares[rate->schedule](passed);
}

/* --- one run of the engine --- */

double tn__trainer_loss(const tn_array *array) {
    double wide;
    float loss;
    if (array->dtype == TN_FLOAT64) {
        memcpy(&wide, array->data, sizeof wide);
        return wide;
    }
    if (array->dtype != TN_FLOAT32) return NAN;
    memcpy(&loss, array->data, sizeof loss);
    return (double)loss;
}

/* Returns what the micro-batch with index `round` contributes to the loss of the whole step. */
static double steps_loss(const tn_trainer *trainer, uint32_t round) {
    const tn_array *loss = &trainer->outputs[trainer->rounds[round].loss];
    return tn__trainer_loss(loss) / trainer->state.micro_batches;
}

static int64_t steps_correct(const tn_trainer *trainer, uint32_t round) {
    uint32_t at = trainer->rounds[round].correct;
    int64_t correct = 0;
    if (at != TN_NONE) memcpy(&correct, trainer->outputs[at].data, sizeof correct);
    return correct;
}

static void steps_add(const tn_trainer *trainer, double *loss, int64_t *correct) {
    for (uint32_t r = 0; r < trainer->round_count; r++) {
        *loss += steps_loss(trainer, r);
        *correct += steps_correct(trainer, r);
    }
}

static tn_status steps_run_online(tn_trainer *trainer, tn_error *error) {
    tn_online *online = trainer->options.online;
    tn_status status = tn_online_run(online, trainer->inputs, trainer->input_count,
                                     trainer->outputs, trainer->output_count, error);
    /* the engine may have been replaced during the run */
    trainer->engine = tn_online_engine(online);
    return status;
}

static tn_status steps_run(tn_trainer *trainer, tn_engine *engine, tn_error *error) {
    tn__trainer_reset(trainer->training->graph, trainer->outputs);
    if (trainer->options.online != NULL && engine == trainer->engine)
        return steps_run_online(trainer, error);
    return tn_engine_run(engine, trainer->inputs, trainer->input_count, trainer->outputs,
                         trainer->output_count, error);
}

static tn_status steps_run_both(tn_trainer *trainer, tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    tn_engine_usage usage;
    TN_TRY(steps_run(trainer, trainer->engine, error));
    tn_engine_measure(trainer->engine, &usage);
    trainer->state.engine_seconds += usage.seconds;
    if (options->ran != NULL) TN_TRY(options->ran(options->self, trainer->engine, error));
    if (options->twin == NULL) return TN_OK;
    double loss = 0, other = 0;
    int64_t unused = 0;
    steps_add(trainer, &loss, &unused);
    TN_TRY(steps_run(trainer, options->twin, error));
    steps_add(trainer, &other, &unused);
    if (memcmp(&loss, &other, sizeof loss) != 0)
        TN_FAIL(error, TN_E_CONFLICT,
                "step %llu: the loss is %.9g in the planned arena and %.9g without reuse; please "
                "report it",
                (unsigned long long)trainer->state.done, loss, other);
    return TN_OK;
}

static void steps_set(tn_trainer *trainer, uint32_t at, const void *value) {
    if (at == TN_NONE) return;
    tn_array *array = &trainer->inputs[at];
    memcpy(array->data, value, array->bytes);
}

static tn_status steps_fill(tn_trainer *trainer, uint64_t number, const tn__round_at *round,
                            tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    tn_array *samples = tn__trainer_samples(trainer, round);
    tn_array *labels = tn__trainer_labels(trainer, round);
    if (trainer->batches == NULL)
        return options->fill(options->self, false, number * trainer->state.parts + trainer->part,
                             samples, labels, error);
    tn_batches_fill(trainer->batches, number, samples, labels);
    return TN_OK;
}

/* --- a step --- */

static tn_status steps_no_number(const tn_trainer *trainer, tn_error *error) {
    const char *kept = trainer->options.checkpoint;
    TN_FAIL(
        error, TN_E_INVALID,
        "the loss of step %llu is not a number (learning rate %g): try a lower one, or look for "
        "samples that are none%s%.200s%s",
        (unsigned long long)trainer->state.done,
        (double)(float)tn_rate_at(&trainer->rate, trainer->state.done), kept ? "; " : "",
        kept ? kept : "", kept ? " stays as it was" : "");
}

/* Fills the inputs of one run of the engine, with the micro-batches from number `first` of the
 * step. */
static tn_status steps_fill_all(tn_trainer *trainer, int64_t first, tn_error *error) {
    const tn_trainer_state *state = &trainer->state;
    uint64_t number = state->done * state->micro_batches + (uint64_t)first;
    for (uint32_t r = 0; r < trainer->round_count; r++)
        TN_TRY(steps_fill(trainer, number + r, &trainer->rounds[r], error));
    return TN_OK;
}

/* Makes one update of the parameters: one run of the engine, or one run for each micro-batch. */
static tn_status steps_update(tn_trainer *trainer, tn_error *error) {
    tn_trainer_state *state = &trainer->state;
    float rate = (float)tn_rate_at(&trainer->rate, state->done);
    double loss = 0;
    int64_t correct = 0;
    for (int64_t m = 0; m < (int64_t)state->micro_batches; m += trainer->round_count) {
        TN_TRY(steps_fill_all(trainer, m, error));
        steps_set(trainer, trainer->rate_at, &rate);
        steps_set(trainer, trainer->step_at, &state->done);
        steps_set(trainer, trainer->micro_at, &m);
        TN_TRY(steps_run_both(trainer, error));
        steps_add(trainer, &loss, &correct);
    }
    TN_TRY(tn__trainer_sum(trainer, &loss, &correct, error));
    if (!isfinite(loss)) return steps_no_number(trainer, error);
    state->loss = loss;
    state->correct = correct;
    return TN_OK;
}

static void steps_note(tn_trainer_state *state) {
    double plain = 1 / (double)(state->done - state->first + 1);
    double late = 2.0 / (TN_TRAINER_SEEN + 1);
    /* The weight of the new loss: first that of a plain mean, later the constant one of a moving
     * average. */
    double share = plain > late ? plain : late;
    double runs = (double)state->micro_batches * state->parts;
    double labels = (double)state->labels * (double)state->batch * runs;
    state->mean_loss += share * (state->loss - state->mean_loss);
    if (state->counts)
        state->accuracy += share * ((double)state->correct / labels - state->accuracy);
}

tn_status tn_trainer_step(tn_trainer *trainer, tn_error *error) {
    tn_trainer_state *state = &trainer->state;
    if (state->done >= state->total)
        TN_FAIL(error, TN_E_INVALID, "no step is left: %llu are done",
                (unsigned long long)state->done);
    /* gathered copies are freed, because parameters change even if the step fails */
    tn__trainer_forget(trainer);
    TN_TRY(steps_update(trainer, error));
    steps_note(state);
    state->done++;
    return tn__masks_apply(trainer, error);
}

/* --- checkpoints --- */

tn_status tn_trainer_save(tn_trainer *trainer, const char *path, tn_error *error) {
    tn_trainer_state *state = &trainer->state;
    tn_checkpoint_run run = trainer->is;
    double start = tn__clock_s();
    if (tn__trainer_is_lone(trainer)) return tn__trainer_lone(error);
    bool shares = tn__trainer_shares(trainer);
    bool cut = trainer->tensor_ranks > 1 || trainer->stages > 1;
    /* without shards, the first of the ranks that train on different samples holds all that is
     * written */
    if (trainer->part > 0 && !shares) return TN_OK;
    /* one rank writes the whole checkpoint, and the others send it their parts */
    if (cut && !tn__trainer_leads(trainer))
        return tn__keeping_lend(&trainer->keeping, trainer->engine, error);
    run.step = state->done;
    TN_TRY(shares && !cut ? tn__trainer_save_shards(trainer, path, &run, error)
                          : tn__checkpoint_save(path, trainer->engine, &trainer->keeping, &run,
                                                &state->saved_bytes, error));
    state->save_seconds += tn__clock_s() - start;
    state->saved++;
    return TN_OK;
}

static bool steps_saves(const tn_trainer *trainer) {
    const tn_trainer_state *state = &trainer->state;
    if (trainer->options.checkpoint == NULL) return false;
    return state->done % trainer->options.checkpoint_every == 0 || state->done == state->total ||
           state->stopped;
}

/* --- comparison with the twin engine --- */

static tn_status steps_compare(tn_trainer *trainer, const tn__keep *keep, tn_error *error) {
    uint64_t size = keep->bytes, from = keep->cut != NULL ? 0 : keep->from;
    uint8_t *both = tn__alloc_array(&trainer->context, 2, size);
    if (both == NULL) return tn__no_memory(error, "a comparison");
    /* the bytes of other ranks' parts are 0 in both copies */
    if (keep->cut != NULL) memset(both, 0, 2 * size);
    tn_status status = tn__keep_get(keep, trainer->engine, both, error);
    if (status == TN_OK) status = tn__keep_get(keep, trainer->options.twin, both + size, error);
    uint64_t length = keep->cut != NULL ? size : keep->size;
    if (status == TN_OK && memcmp(both + from, both + size + from, (size_t)length) != 0)
        status = tn__fail(
            error, TN_E_CONFLICT,
            "'%.80s' differs from what training without reuse gives; please report it", keep->name);
    tn__free(&trainer->context, both, 2 * size);
    return status;
}

static tn_status steps_compare_all(tn_trainer *trainer, tn_error *error) {
    if (trainer->options.twin == NULL) return TN_OK;
    for (uint32_t i = 0; i < trainer->keeping.count; i++)
        TN_TRY(steps_compare(trainer, &trainer->keeping.list[i], error));
    return TN_OK;
}

/* --- all remaining steps --- */

tn_status tn_trainer_run(tn_trainer *trainer, tn_error *error) {
    const tn_trainer_options *options = &trainer->options;
    tn_trainer_state *state = &trainer->state;
    double start = tn__clock_s() - state->seconds;
    state->stopped = trainer->asked = trainer->stopping = false;
    while (state->done < state->total && !state->stopped) {
        TN_TRY(tn_trainer_step(trainer, error));
        state->seconds = tn__clock_s() - start;
        bool on = options->step == NULL || options->step(options->self, state);
        trainer->asked = !on;
        bool ends = tn__trainer_communicates(trainer) ? trainer->stopping : trainer->asked;
        state->stopped = ends && state->done < state->total;
        if (steps_saves(trainer)) TN_TRY(tn_trainer_save(trainer, options->checkpoint, error));
        state->seconds = tn__clock_s() - start;
    }
    return state->stopped ? TN_OK : steps_compare_all(trainer, error);
}
