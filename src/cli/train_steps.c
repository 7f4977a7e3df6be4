/* train_steps.c - step after step, with checkpoints between them. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/train.h"

static double steps_loss(const cli_train *train) {
    float loss;
    memcpy(&loss, train->arrays.outputs[train->loss_at].data, sizeof loss);
    return (double)loss;
}

static int64_t steps_correct(const cli_train *train) {
    int64_t correct = 0;
    if (train->correct_at != TN_NONE)
        memcpy(&correct, train->arrays.outputs[train->correct_at].data, sizeof correct);
    return correct;
}

static tn_status steps_run(cli_train *train, tn_engine *engine, tn_error *error) {
    cli_arrays *arrays = &train->arrays;
    cli_arrays_reset(train->session.graph, arrays);
    return tn_engine_run(engine, arrays->inputs, arrays->input_count, arrays->outputs,
                         arrays->output_count, error);
}

static tn_status steps_run_both(cli_train *train, tn_error *error) {
    tn_engine_usage usage;
    TN_TRY(steps_run(train, train->session.engine, error));
    tn_engine_measure(train->session.engine, &usage);
    train->engine_seconds += usage.seconds;
    if (usage.run_count == 1) TN_TRY(cli_session_write_trace(&train->session, error));
    if (!train->session.check) return TN_OK;
    double loss = steps_loss(train);
    TN_TRY(steps_run(train, train->naive.engine, error));
    double naive = steps_loss(train);
    if (memcmp(&loss, &naive, sizeof loss) != 0)
        TN_FAIL(error, TN_E_CONFLICT,
                "step %llu: the loss is %.9g in the planned arena and %.9g without reuse; please "
                "report it",
                (unsigned long long)train->done, loss, naive);
    return TN_OK;
}

static void steps_set(cli_train *train, uint32_t at, const void *value) {
    if (at == TN_NONE) return;
    tn_array *array = &train->arrays.inputs[at];
    memcpy(array->data, value, array->bytes);
}

static void steps_fill(cli_train *train, uint64_t run) {
    cli_batch_choose(&train->data, train->session.seed, (uint32_t)(run / train->per_epoch),
                     run % train->per_epoch, (uint32_t)train->batch, train->window, train->order,
                     &train->order_epoch, train->numbers);
    cli_batch_fill(&train->data, &train->data.train, train->numbers, (uint32_t)train->batch,
                   &train->arrays.inputs[train->sample_at],
                   &train->arrays.inputs[train->labels_at]);
}

/* --- the learning rate --- */

static double steps_constant(double passed) {
    (void)passed;
    return 1;
}

static double steps_linear(double passed) { return 1 - passed; }

/* Source: Loshchilov and Hutter, "SGDR" (2017), without restarts. */
static double steps_cosine(double passed) { return 0.5 * (1 + cos(3.14159265358979324 * passed)); }

static const struct {
    const char *name;
    double (*share)(double passed); /* of the rate, when this share of the steps has passed */
} steps_schedules[] = {
    {"constant", steps_constant}, {"linear", steps_linear}, {"cosine", steps_cosine}};

bool cli_train_set_schedule(cli_train *train, const char *name) {
    for (uint32_t i = 0; i < sizeof steps_schedules / sizeof *steps_schedules; i++) {
        if (strcmp(steps_schedules[i].name, name) != 0) continue;
        train->fall = i;
        return true;
    }
    return false;
}

/* A function of the number of the step alone, so that a resumed run goes on with the same. */
static float steps_rate(const cli_train *train) {
    double done = (double)train->done, warmup = (double)train->warmup;
    if (train->done < train->warmup) return (float)(train->rate * (done + 1) / (warmup + 1));
    double passed = (done - warmup) / ((double)train->total - warmup);
    return (float)(train->rate * steps_schedules[train->fall].share(passed));
}

/* --- steps --- */

static tn_status steps_no_number(const cli_train *train, tn_error *error) {
    char kept[300] = "";
    if (train->checkpoint != NULL)
        snprintf(kept, sizeof kept, "; %.200s stays as it was", train->checkpoint);
    TN_FAIL(error, TN_E_INVALID,
            "the loss of step %llu is no number (learning rate %g): try a lower --lr, or look for "
            "samples that are none%s",
            (unsigned long long)train->done, (double)steps_rate(train), kept);
}

/* One update: one run, or as many as there are micro-batches. */
static tn_status steps_update(cli_train *train, double *loss, int64_t *correct, tn_error *error) {
    *loss = 0;
    *correct = 0;
    for (int64_t m = 0; m < (int64_t)train->micro; m++) {
        steps_fill(train, train->done * train->micro + (uint64_t)m);
        steps_set(train, train->rate_at, &(float){steps_rate(train)});
        steps_set(train, train->step_at, &train->done);
        steps_set(train, train->micro_at, &m);
        TN_TRY(steps_run_both(train, error));
        *loss += steps_loss(train) / train->micro;
        *correct += steps_correct(train);
    }
    return isfinite(*loss) ? TN_OK : steps_no_number(train, error);
}

static void steps_note(cli_train *train, double loss, int64_t correct) {
    double plain = 1 / (double)(train->done - train->first + 1), late = 2.0 / (CLI_TRAIN_SEEN + 1);
    double share = plain > late ? plain : late; /* the mean of all, until there are many */
    double labels = (double)train->window * (double)train->batch * train->micro;
    train->loss += share * (loss - train->loss);
    train->accuracy += share * ((double)correct / labels - train->accuracy);
    if (train->log != NULL)
        fprintf(train->log, "%" PRIu64 ",%.9g,%" PRId64 "\n", train->done, loss, correct);
}

static volatile sig_atomic_t steps_signal; /* of the one run in this process */

static void steps_stop(int signal) { steps_signal = signal; }

/* The first one waits for the step; a second one of its kind ends the process at once. */
static void steps_listen(void) {
    struct sigaction action = {.sa_handler = steps_stop, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

tn_status cli_train_all(cli_train *train, tn_error *error) {
    double shown = 0;
    train->start = cli_clock();
    steps_listen();
    while (train->done < train->total) {
        double loss;
        int64_t correct;
        TN_TRY(steps_update(train, &loss, &correct, error));
        steps_note(train, loss, correct);
        train->done++;
        train->signal = train->done < train->total ? steps_signal : 0;
        if (train->checkpoint != NULL &&
            (train->done % train->every == 0 || train->done == train->total || train->signal != 0))
            TN_TRY(cli_train_save(train, error));
        if (train->signal != 0) break;
        if (cli_clock() - shown <= 0.1) continue;
        shown = cli_clock();
        cli_train_show(train);
    }
    train->seconds = cli_clock() - train->start;
    cli_train_show_end(train);
    return TN_OK;
}
