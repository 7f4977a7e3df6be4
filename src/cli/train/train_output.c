/* train_output.c - the output of a training run: the log, the status line, the answer, and the
 * picture of a step. */
#include "base/base.h"
#include "cli/answer/model_facts.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/train/train.h"
#include "report/format.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* --- the log file --- */

/* Opens the log and writes its heading. For a run that is resumed, the rows up to the checkpoint
 * are kept. */
tn_status cli_train_open_log(cli_train *train, tn_error *error) {
    char row[128];
    tn__text rows;
    if (train->log_path == NULL) return TN_OK;
    if (train->options.resume != NULL) tn__new_file_sweep(train->log_path);
    FILE *was = train->options.resume != NULL ? fopen(train->log_path, "r") : NULL;
    if (was == NULL && train->options.resume != NULL && errno != ENOENT)
        return tn__where(error, tn__fail_system(error, errno, "read"), "%.200s", train->log_path);
    tn__text_init(&rows, NULL);
    tn__text_put(&rows, "step,loss,correct\n");
    while (was != NULL && fgets(row, sizeof row, was) != NULL)
        if (row[0] >= '0' && row[0] <= '9' && strtoull(row, NULL, 10) < train->state->first)
            tn__text_put(&rows, row);
    if (was != NULL) fclose(was);
    tn_status status = rows.failed ? tn__no_memory(error, "the log")
                                   : tn__file_write(train->log_path, rows.data, rows.size, error);
    tn__text_release(&rows);
    TN_TRY(status);
    train->log = fopen(train->log_path, "a");
    if (train->log == NULL)
        return tn__where(error, tn__fail_system(error, errno, "write"), "%.200s", train->log_path);
    /* line buffering, so that the rows before a checkpoint are in the file even if the process is
     * killed */
    setvbuf(train->log, NULL, _IOLBF, 0);
    return TN_OK;
}

void cli_train_log(const cli_train *train) {
    const tn_trainer_state *state = train->state;
    if (train->log != NULL)
        fprintf(train->log, "%" PRIu64 ",%.9g,%" PRId64 "\n", state->done - 1, state->loss,
                state->correct);
}

tn_status cli_train_end_log(const cli_train *train, tn_error *error) {
    if (train->log != NULL && (fflush(train->log) != 0 || ferror(train->log)))
        return tn__where(error, tn__fail_system(error, errno, "write"), "%.200s", train->log_path);
    return TN_OK;
}

/* --- the status line on a terminal --- */

static double answer_speed(const tn_trainer_state *state) {
    double runs = (double)(state->done - state->first) * state->micro_batches * state->parts;
    return state->seconds > 0 ? runs * (double)state->batch / state->seconds : 0;
}

static bool answer_shows(const cli_train *train, cli_progress_form form) {
    bool lines =
        form == CLI_PROGRESS_LINES; /* the user asked for lines, so that --json has them, too */
    return cli_train_speaks(train) && cli_progress_shown() == form && (lines || !train->json);
}

#define ANSWER_LINE 256

static int answer_columns(void) {
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known && size.ws_col < ANSWER_LINE ? size.ws_col - 1 : 79;
}

/* Writes the status: step, loss, speed, memory and remaining time. */
static void answer_status(const cli_train *train, char line[ANSWER_LINE]) {
    const tn_trainer_state *state = train->state;
    char right[32] = "";
    double a_step = state->seconds / (double)(state->done - state->first);
    uint64_t left = (uint64_t)(a_step * (double)(state->total - state->done) + 0.5);
    if (state->counts) snprintf(right, sizeof right, "  right %.1f %%", 100 * state->accuracy);
    snprintf(line, ANSWER_LINE,
             "step %" PRIu64 "/%" PRIu64 "  loss %.4f%s  %.0f samples/s  %.1f MiB  %" PRIu64
             ":%02u:%02u left",
             state->done, state->total, state->mean_loss, right, answer_speed(state),
             (double)tn_setup_need(train->opened.setup).total / 1048576, left / 3600,
             (unsigned)(left / 60 % 60), (unsigned)(left % 60));
}

/* Shows the status on one line of the terminal, which is overwritten at most ten times per second
 * and cut at the width of the terminal; or prints it as a line at growing intervals. */
void cli_train_show(cli_train *train) {
    char line[ANSWER_LINE];
    double now = cli_clock();
    if (now < train->next_shown) return;
    if (answer_shows(train, CLI_PROGRESS_BAR)) {
        train->next_shown = now + 0.1;
        answer_status(train, line);
        fprintf(cli_terminal(), "\r%.*s\033[K", answer_columns(), line);
    } else if (answer_shows(train, CLI_PROGRESS_LINES)) {
        train->next_shown = now + cli_progress_wait(train->state->seconds);
        answer_status(train, line);
        fprintf(stderr, "tenure: train: %s\n", line);
    }
}

void cli_train_show_test(const cli_train *train) {
    if (answer_shows(train, CLI_PROGRESS_BAR))
        fprintf(cli_terminal(), "\rtesting on %" PRIu64 " samples\033[K",
                tn_data_test_count(train->data));
}

void cli_train_show_end(const cli_train *train) {
    if (answer_shows(train, CLI_PROGRESS_BAR)) fputs("\r\033[K", cli_terminal());
}

/* --- the message of a training that was stopped --- */

void cli_train_print_stopped(const cli_train *train) {
    cli_prefix(CLI_WARNING);
    fprintf(stderr, "stopped by a signal after step %" PRIu64 " of %" PRIu64, train->state->done,
            train->state->total);
    if (train->options.checkpoint != NULL)
        fprintf(stderr, "; continue with --resume %s", train->options.checkpoint);
    fputs("\n", stderr);
}

/* --- the table of facts of the answer --- */

static const cli_facts train_idle_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(SHARE, "predicted", NULL, "idle part of the drawn step, as predicted"),
        CLI_FACT(SHARE, "measured", NULL, "and as measured"), CLI_FACTS_END}};
static const cli_facts train_rank_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "planned_peak", NULL, "peak of its arena in the plan"),
        CLI_FACT(BYTES, "measured_peak", NULL, "highest byte of its arena that was used"),
        CLI_FACT(BYTES, "weights", NULL, "its bytes outside the arena"),
        CLI_FACT(COUNT, "messages", NULL, "messages it sent"),
        CLI_FACT(BYTES, "sent_bytes", NULL, "bytes it sent"),
        CLI_FACT(COUNT, "step_messages", NULL, "messages it sent in training steps"),
        CLI_FACT(BYTES, "step_bytes", NULL, "bytes it sent in training steps"),
        CLI_FACT(BYTES, "direct_bytes", NULL, "bytes sent without a copy between"),
        CLI_FACT(SECONDS, "talk_seconds", NULL, "time of communication"),
        CLI_FACT(SECONDS, "stall_seconds", NULL, "part of it during which it could not compute"),
        CLI_FACT_OF(OBJECT, "idle", "idle time, if a step was drawn", &train_idle_facts),
        CLI_FACTS_END}};
static const cli_facts train_cut_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "parameter_bytes", NULL, "bytes of all parameters"),
        CLI_FACT(BYTES, "cut_bytes", NULL, "bytes of those that are cut over the ranks"),
        CLI_FACT(COUNT, "sums", NULL, "sums over the ranks in a step"),
        CLI_FACT(BYTES, "sum_bytes", NULL, "their bytes"),
        CLI_FACT(BYTES, "between_bytes", NULL, "bytes of activations that stay cut between them"),
        CLI_FACTS_END}};
static const cli_facts train_spill_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "tensors", NULL, "tensors with fewer zeros than planned"),
        CLI_FACT(BYTES, "bytes", NULL, "their bytes that went to the host"), CLI_FACTS_END}};
static const cli_facts train_pruned_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "elements", NULL, "number of elements of the parameters that are pruned"),
        CLI_FACT(COUNT, "zeros", NULL, "number of those that are zero and stay zero"),
        CLI_FACT(SHARE, "share", NULL, "the same as a fraction"), CLI_FACTS_END}};
static const cli_facts train_model_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "bytes", NULL, "bytes of the file"),
        CLI_FACT(COUNT, "tensors", NULL, "number of parameters that training changed"),
        CLI_FACT(COUNT, "quantised", NULL, "number of weights that are stored as integers"),
        CLI_FACT(BYTES, "real_bytes", NULL, "their bytes as real numbers"),
        CLI_FACT(BYTES, "stored_bytes", NULL, "their bytes as integers"), CLI_FACTS_END}};
static const cli_facts train_checkpoint_facts = {
    .width = 15,
    .rows = (const cli_fact[]){CLI_FACT(BYTES, "bytes", "checkpoint", "bytes of a checkpoint"),
                               CLI_FACT(COUNT, "written", NULL, "how often it was written"),
                               CLI_FACT(SECONDS, "seconds", NULL, "time of all writes"),
                               CLI_FACTS_END}};
const cli_facts cli_train_facts = {
    .name = "train",
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACTS_ALSO(&cli_kernel_target_facts),
        CLI_FACTS_ALSO(&cli_fitted_facts),
        CLI_FACT(BYTES, "planned_peak", "planned peak",
                 "peak of the arena in the plan; null: with `--online`, no step had a plan yet"),
        CLI_FACT_BRIEF(BYTES, "measured_peak", "measured peak", "@ measured",
                       "highest byte of the arena that the run used"),
        CLI_FACT(BYTES, "arena", NULL, "bytes of the arena"),
        CLI_FACT(BYTES, "weights", "static memory",
                 "bytes outside the arena: parameters, states of the optimizer, constants"),
        CLI_FACT_OF(
            OBJECT, "spills",
            "with --codecs: tensors of the last step that were kept on the host, because they did "
            "not fit their encoded form or were above --max-error",
            &train_spill_facts),
        CLI_FACTS_ALSO(&cli_losses_facts),
        CLI_FACTS_ALSO(&cli_streams_facts),
        CLI_FACT_BRIEF(COUNT, "steps", "steps", ", @ steps",
                       "training steps done, with those before --resume"),
        CLI_FACT(REAL, "loss", "loss", "mean loss of about the last hundred steps"),
        CLI_FACT(SHARE, "accuracy", "accuracy", "fraction of samples that were right in them"),
        CLI_FACT(REAL, "test_loss", "on test samples", "loss on the test samples"),
        CLI_FACT_BRIEF(SHARE, "test_accuracy", NULL, ", @ right on test",
                       "fraction of the test samples that were right"),
        CLI_FACT_OF(OBJECT, "pruned", "with --prune: the parameters as they are pruned now",
                    &train_pruned_facts),
        CLI_FACT_OF(OBJECT, "checkpoint", "with --checkpoint: the checkpoints",
                    &train_checkpoint_facts),
        CLI_FACT_OF(OBJECT, "model", "with --save-model: the file that was written",
                    &train_model_facts),
        CLI_FACT_OF(OBJECT, "online", "with --online: the run within the budget",
                    &cli_train_online_facts),
        CLI_FACT_OF(LIST, "ranks", "with several ranks: each of them", &train_rank_facts),
        CLI_FACT_OF(OBJECT, "cut", "with tensor ranks: the cut parameters", &train_cut_facts),
        CLI_FACTS_ALSO(&cli_check_facts),
        CLI_FACT(SECONDS, "seconds", NULL, "wall time of the steps"),
        CLI_FACT(SECONDS, "engine_seconds", NULL, "part of it in the engine"),
        CLI_FACT(REAL, "samples_per_s", NULL, "samples per second"),
        CLI_FACT(COUNT, "threads", NULL, "number of threads"),
        CLI_FACTS_END}};

/* --- the facts of several ranks in the answer --- */

/* Returns the fraction of the communication in the last step that overlapped with computing. */
static double answer_hidden(const cli_rank *rank) {
    double hidden = rank->talk_s > 0 ? 1 - rank->stall_s / rank->talk_s : 0;
    return hidden > 0 ? hidden : 0;
}

static void answer_rank(cli_answer *answer, const cli_rank *rank) {
    cli_answer_open(answer, NULL);
    cli_add(answer, "planned_peak", rank->planned);
    cli_add(answer, "measured_peak", rank->measured);
    cli_add(answer, "weights", rank->statics);
    cli_add(answer, "messages", rank->messages);
    cli_add(answer, "sent_bytes", rank->bytes);
    cli_add(answer, "step_messages", rank->step_messages);
    cli_add(answer, "step_bytes", rank->step_bytes);
    cli_add(answer, "direct_bytes", rank->direct_bytes);
    cli_add_real(answer, "talk_seconds", rank->talk_s);
    cli_add_real(answer, "stall_seconds", rank->stall_s);
    if (rank->idle[TN_TIMELINE_MEASURED] >= 0) {
        cli_answer_open(answer, "idle");
        cli_add_real(answer, "predicted", rank->idle[TN_TIMELINE_PREDICTED]);
        cli_add_real(answer, "measured", rank->idle[TN_TIMELINE_MEASURED]);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

static void answer_cut(cli_answer *answer, const cli_train *train) {
    const tn_part_sums sums = tn_training_parts(&train->opened.step);
    if (sums.ranks < 2) return;
    cli_answer_open(answer, "cut");
    cli_add(answer, "parameter_bytes", sums.parameters);
    cli_add(answer, "cut_bytes", sums.cut);
    cli_add(answer, "sums", sums.sums);
    cli_add(answer, "sum_bytes", sums.bytes);
    cli_add(answer, "between_bytes", sums.between);
    cli_answer_close(answer);
}

/* Prints, before the training, how tensor parallelism divides the parameters, and why some are
 * whole on every rank. */
void cli_train_print_cut(const cli_train *train) {
    const tn_part_sums sums = tn_training_parts(&train->opened.step);
    char size[TN_SIZE_TEXT_MAX];
    uint64_t whole = sums.parameters - sums.cut;
    if (sums.ranks < 2 || train->json || cli_tone_asked().brief || !cli_train_speaks(train)) return;
    double share = 100 / (double)(sums.parameters > 0 ? sums.parameters : 1);
    printf("%-15s %.1f %% of the parameters over %u ranks, %u sums of %s a step\n", "cut",
           share * (double)sums.cut, sums.ranks, sums.sums, tn_size_format(sums.bytes, size));
    if (whole > 0)
        printf("%-15s %.1f %%, on every rank%s%s\n", "whole", share * (double)whole,
               sums.whole != NULL ? ": " : "", sums.whole != NULL ? sums.whole : "");
    if (sums.between > 0)
        printf("%-15s %s of activations, in parts, too\n", "between",
               tn_size_format(sums.between, size));
    fflush(stdout);
}

/* Adds the rank that needs most memory, and the bytes that ranks sent per step. */
static void answer_most(cli_answer *answer, const cli_train *train) {
    char size[TN_SIZE_TEXT_MAX];
    uint32_t ranks = cli_train_ranks(train), most = 0;
    uint64_t steps = train->state->done - train->state->first;
    for (uint32_t r = 1; r < ranks; r++)
        if (train->ranks[r].measured > train->ranks[most].measured) most = r;
    cli_add_line(answer, "ranks", "%u, of which rank %u needs most: %s", ranks, most,
                 tn_size_format(train->ranks[most].measured, size));
    cli_add_line(answer, "sent",
                 "%s per step and rank, %.0f %% of that time overlapped with computing",
                 tn_size_format(steps > 0 ? train->ranks[0].step_bytes / steps : 0, size),
                 100 * answer_hidden(&train->ranks[0]));
}

/* Adds the idle time in the step that is drawn, as the mean over all ranks. */
static void answer_idle(cli_answer *answer, const cli_train *train) {
    uint32_t ranks = cli_train_ranks(train);
    double sums[TN_TIMELINE_KINDS] = {0};
    if (train->ranks[0].idle[TN_TIMELINE_MEASURED] < 0) return;
    for (uint32_t r = 0; r < ranks; r++)
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
            sums[kind] += train->ranks[r].idle[kind] / ranks;
    cli_add_line(answer, "idle", "%.0f %% of the step in the mean of all ranks, %.0f %% predicted",
                 100 * sums[TN_TIMELINE_MEASURED], 100 * sums[TN_TIMELINE_PREDICTED]);
}

static void answer_ranks(cli_answer *answer, const cli_train *train) {
    const tn_grid *grid = &train->at.grid;
    bool many = train->ranks != NULL && cli_train_ranks(train) > 1;
    if (many) answer_most(answer, train);
    if (grid->pipeline >= 2)
        cli_add_line(answer, "pipeline",
                     "%u stages of %u part%s, %u micro-batches by %s; nothing is rewritten across "
                     "stages",
                     grid->pipeline, grid->interleave, grid->interleave == 1 ? "" : "s",
                     train->state->micro_batches, tn_pipeline_name(train->at.schedule));
    if (many) answer_idle(answer, train);
    if (train->ranks == NULL) return;
    cli_answer_open(answer, "ranks");
    for (uint32_t r = 0; r < cli_train_ranks(train); r++) answer_rank(answer, &train->ranks[r]);
    cli_answer_close(answer);
    answer_cut(answer, train);
}

static void answer_memory(cli_answer *answer, const cli_train *train) {
    char size[TN_SIZE_TEXT_MAX];
    tn_engine_usage usage;
    tn_engine_measure(tn_trainer_engine(train->trainer), &usage);
    if (train->online != NULL && usage.planned_peak == 0)
        cli_add_null(answer, "planned_peak");
    else
        cli_add(answer, "planned_peak", usage.planned_peak);
    cli_add(answer, "measured_peak", usage.measured_peak);
    cli_add(answer, "arena", usage.arena);
    cli_add(answer, "weights", usage.static_bytes);
    if (!cli_train_has_ranks(train))
        cli_streams_add(answer, &train->input.streams, train->opened.setup, &usage);
    if (train->opened.codecs == 0) return;
    if (usage.spill_bytes > 0)
        cli_add_line(answer, "spilled",
                     "%s of the host, because %" PRIu64
                     " tensor%s of the last step had fewer zeros than planned or were above "
                     "--max-error",
                     tn_size_format(usage.spill_bytes, size), usage.spill_count,
                     usage.spill_count == 1 ? "" : "s");
    cli_answer_open(answer, "spills");
    cli_add(answer, "tensors", usage.spill_count);
    cli_add(answer, "bytes", usage.spill_bytes);
    cli_answer_close(answer);
    cli_engine_losses_add(answer, train->opened.engine);
}

static void answer_scores(cli_answer *answer, const cli_train *train) {
    const tn_trainer_state *state = train->state;
    if (state->done > state->first) {
        cli_add_real(answer, "loss", state->mean_loss);
        cli_add_as(answer, "%.4f (mean of about the last %u steps)", state->mean_loss,
                   TN_TRAINER_SEEN);
        cli_add_brief(answer, ", loss %.4f", state->mean_loss);
        if (state->counts) cli_add_real(answer, "accuracy", state->accuracy);
        if (state->counts) cli_add_as(answer, "%.2f %%", 100 * state->accuracy);
    }
    if (train->score.labels == 0) return;
    cli_add_real(answer, "test_loss", train->score.loss);
    if (!train->score.counts) {
        cli_add_as(answer, "loss %.6g", train->score.loss);
        return;
    }
    cli_add_as(answer, "loss %.4f, %.2f %% right", train->score.loss, 100 * train->score.accuracy);
    cli_add_real(answer, "test_accuracy", train->score.accuracy);
    if (tn_data_is_text(train->data))
        cli_add_line(answer, "", "%.3f bits per byte", train->score.loss / log(2));
}

static void answer_pruned(cli_answer *answer, const tn_trainer_state *state) {
    if (state->prunable == 0) return;
    double share = (double)state->pruned / (double)state->prunable;
    cli_add_line(answer, "pruned", "%.2f %% of %" PRIu64 " elements are zero", 100 * share,
                 state->prunable);
    cli_answer_open(answer, "pruned");
    cli_add(answer, "elements", state->prunable);
    cli_add(answer, "zeros", state->pruned);
    cli_add_real(answer, "share", share);
    cli_answer_close(answer);
}

static void answer_model(cli_answer *answer, const cli_train *train) {
    const tn_written *written = &train->written;
    char size[TN_SIZE_TEXT_MAX], before[TN_SIZE_TEXT_MAX], after[TN_SIZE_TEXT_MAX];
    if (train->model_path == NULL) return;
    cli_add_line(answer, "model", "%s in %s", tn_size_format(written->file_bytes, size),
                 cli_shown_path(train->model_path));
    if (written->quantised > 0)
        cli_add_line(answer, "", "%u weight%s as integers, from %s to %s", written->quantised,
                     written->quantised == 1 ? "" : "s",
                     tn_size_format(written->real_bytes, before),
                     tn_size_format(written->stored_bytes, after));
    cli_answer_open(answer, "model");
    cli_add(answer, "bytes", written->file_bytes);
    cli_add(answer, "tensors", written->tensors);
    cli_add(answer, "quantised", written->quantised);
    cli_add(answer, "real_bytes", written->real_bytes);
    cli_add(answer, "stored_bytes", written->stored_bytes);
    cli_answer_close(answer);
}

static void answer_checkpoint(cli_answer *answer, const tn_trainer_state *state) {
    if (state->saved == 0) return;
    cli_answer_open(answer, "checkpoint");
    cli_add(answer, "bytes", state->saved_bytes);
    cli_add_more(answer, ", written %" PRIu64 " time%s, %.1f ms each", state->saved,
                 state->saved == 1 ? "" : "s", 1e3 * state->save_seconds / (double)state->saved);
    cli_add(answer, "written", state->saved);
    cli_add_real(answer, "seconds", state->save_seconds);
    cli_answer_close(answer);
}

tn_status cli_train_print(const cli_train *train, tn_error *error) {
    const tn_trainer_state *state = train->state;
    const cli_kernel_target target = cli_opened_model_target(&train->opened);
    uint32_t threads = train->opened.choices.threads;
    cli_answer answer;
    cli_answer_begin(&answer, &cli_train_facts, train->json);
    cli_add_brief(&answer, "%s: ", cli_shown_path(train->input.path));
    cli_kernel_target_add(&answer, &target, train->opened.setup);
    cli_fitted_add(&answer, train->opened.setup, &train->opened.answer);
    answer_memory(&answer, train);
    cli_add(&answer, "steps", state->done);
    cli_add_more(&answer, ", %.0f samples/s, %u thread%s", answer_speed(state), threads,
                 threads == 1 ? "" : "s");
    answer_scores(&answer, train);
    cli_add_brief(&answer, ", %.0f samples/s", answer_speed(state));
    answer_pruned(&answer, state);
    answer_checkpoint(&answer, state);
    answer_model(&answer, train);
    cli_train_add_online(&answer, train);
    answer_ranks(&answer, train);
    cli_check_add(&answer, &train->opened);
    cli_add_real(&answer, "seconds", state->seconds);
    cli_add_real(&answer, "engine_seconds", state->engine_seconds);
    cli_add_real(&answer, "samples_per_s", answer_speed(state));
    cli_add(&answer, "threads", threads);
    return cli_answer_end(&answer, error);
}

/* --- -o FILE: a picture of a step of all ranks --- */

/* The picture shows one step of all ranks, with the prediction above the measurement. It is the
 * third step, when caches and threads are warm, or the last step of a shorter run. For the
 * prediction, all ranks measure their operators at the same time, as in a run. Each rank then
 * simulates its own program. The first rank combines the simulations, including the waits between
 * ranks. */

#define PICTURE_RUN 2u /* index of the step that is drawn, the third */
/* seconds after which measuring ends; the first round is always completed */
#define PICTURE_SECONDS 0.5
#define PICTURE_TAG 0x706963u

uint64_t cli_train_picture_runs(const cli_train *train) {
    return train->pictures.count > 0 ? PICTURE_RUN + 1 : 1;
}

static void picture_label(const cli_train *train, char *text, size_t size) {
    const tn_grid *grid = &train->at.grid;
    tn_place at = tn_grid_place(grid, train->at.rank);
    const struct {
        const char *name;
        uint32_t count, mine;
    } axes[] = {{"data", grid->data, at.data},
                {"tensor", grid->tensor, at.tensor},
                {"pipeline", grid->pipeline, at.pipeline}};
    int used = 0;
    text[0] = '\0';
    for (int i = 0; i < 3; i++)
        if (axes[i].count > 1 && used >= 0 && (size_t)used < size)
            used += snprintf(text + used, size - (size_t)used, "%s%s %u", used > 0 ? ", " : "",
                             axes[i].name, axes[i].mine);
}

/* Returns the index of the step to draw: the last complete one in the trace, at most PICTURE_RUN.
 * If the trace overflowed, its last step may be incomplete. */
static uint32_t picture_run(const tn_trace *trace, uint64_t runs) {
    uint64_t count;
    const tn_event *events = tn_trace_events(trace, &count);
    uint32_t run = runs > PICTURE_RUN ? PICTURE_RUN : runs > 0 ? (uint32_t)runs - 1 : 0;
    if (tn_trace_dropped(trace) == 0 || count == 0 || events[count - 1].run > run) return run;
    return events[count - 1].run > 0 ? events[count - 1].run - 1 : 0;
}

/* Replaces *run by the smallest choice of all ranks, so that all ranks draw one step. */
static tn_status picture_same(const cli_train *train, uint32_t *run, tn_error *error) {
    const tn_exchange *to = tn_world_exchange(train->world);
    double before = PICTURE_RUN - *run;
    TN_TRY(to->reduce(to->self, 0, &before, 1, TN_FLOAT64, TN_REDUCTION_MAX, error));
    *run = PICTURE_RUN - (uint32_t)before;
    return TN_OK;
}

/* --- the picture: simulating a step for the prediction --- */

static tn_status picture_costs(const cli_train *train, tn_costs **costs, tn_error *error) {
    const cli_opened_model *opened = &train->opened;
    tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
    options.context = train->input.import.context;
    if (cli_costs_given(&opened->from))
        return cli_costs_make(&opened->from, opened->setup, opened->choices.threads,
                              options.context, costs, error);
    options.seconds = PICTURE_SECONDS;
    options.occupancy = tn_setup_occupancy(opened->setup);
    options.setup = opened->setup;
    return tn_costs_measure(tn_setup_kernels(opened->setup), &options, costs, NULL, error);
}

static tn_status picture_simulate(const cli_train *train, const tn_world_rates *rates,
                                  tn_timeline *line, tn_error *error) {
    const cli_opened_model *opened = &train->opened;
    const tn_program *program = tn_setup_program(opened->setup);
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    tn_simulation simulation;
    tn_costs *costs = NULL;
    tn_trace *trace = NULL;
    uint64_t room = 4 * (uint64_t)tn_program_count(program) + 64;
    options.context = train->input.import.context;
    options.peer_bytes_per_s = rates->bytes_per_s;
    options.peer_latency_s = rates->latency_s;
    options.to_host_bytes_per_s = options.from_host_bytes_per_s = opened->link;
    tn_status status = picture_costs(train, &costs, error);
    if (status == TN_OK) status = tn_trace_create(options.context, room, &trace, error);
    options.trace = trace;
    if (status == TN_OK)
        status = tn_setup_predict(opened->setup, costs, &options, &simulation, error);
    if (status == TN_OK) {
        tn_simulation_release(&simulation);
        status = tn_timeline_add(line, train->at.rank, TN_TIMELINE_PREDICTED,
                                 tn_setup_occupancy(opened->setup), trace, 0, 0, error);
    }
    tn_trace_destroy(trace);
    tn_costs_destroy(costs);
    return status;
}

/* --- the picture: sending the steps of all ranks to the first --- */

static tn_status picture_send(const cli_train *train, const tn_timeline *line, tn_error *error) {
    const tn_exchange *to = tn_world_exchange(train->world);
    void *bytes;
    uint64_t size;
    TN_TRY(tn_timeline_pack(line, train->at.rank, &bytes, &size, error));
    tn_status status = to->send(to->self, 0, PICTURE_TAG, &size, sizeof size, error);
    if (status == TN_OK) status = to->send(to->self, 0, PICTURE_TAG, bytes, size, error);
    tn_timeline_release(line, bytes, size);
    return status;
}

static tn_status picture_take(const cli_train *train, tn_timeline *line, uint32_t rank,
                              tn_error *error) {
    const tn_exchange *to = tn_world_exchange(train->world);
    const tn_context *context = train->input.import.context;
    uint64_t size = 0;
    TN_TRY(to->recv(to->self, rank, PICTURE_TAG, &size, sizeof size, error));
    void *bytes = tn__alloc(context, size);
    if (bytes == NULL) return tn__no_memory(error, "the events of a rank");
    tn_status status = to->recv(to->self, rank, PICTURE_TAG, bytes, size, error);
    if (status == TN_OK) status = tn_timeline_unpack(line, rank, bytes, size, error);
    tn__free(context, bytes, size);
    return status;
}

static tn_status picture_gather(const cli_train *train, tn_timeline *line, tn_error *error) {
    if (!cli_train_speaks(train)) return picture_send(train, line, error);
    for (uint32_t rank = 1; rank < cli_train_ranks(train); rank++)
        TN_TRY(picture_take(train, line, rank, error));
    return TN_OK;
}

/* --- the picture: prediction and measurement together --- */

static tn_status picture_own(const cli_train *train, double shift_s, uint32_t run,
                             tn_timeline *line, tn_error *error) {
    char label[64];
    tn_engine_usage usage;
    tn_engine_measure(train->opened.engine, &usage);
    picture_label(train, label, sizeof label);
    TN_TRY(tn_timeline_rank(line, train->at.rank, label, usage.planned_peak, error));
    return tn_timeline_add(line, train->at.rank, TN_TIMELINE_MEASURED,
                           tn_setup_occupancy(train->opened.setup), train->opened.trace, run,
                           shift_s, error);
}

static void picture_idle(cli_train *train, const tn_timeline *line) {
    for (uint32_t r = 0; r < cli_train_ranks(train) && train->ranks != NULL; r++)
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
            tn_timeline_sums sums = tn_timeline_measure(line, r, (tn_timeline_kind)kind);
            double step_s = sums.idle_s + sums.compute_s;
            if (step_s > 0) train->ranks[r].idle[kind] = sums.idle_s / step_s;
        }
}

static tn_status picture_write_file(const void *self, const char *path, tn_error *error) {
    return tn_timeline_write(self, path, error);
}

static tn_status picture_write(cli_train *train, tn_timeline *line, tn_error *error) {
    TN_TRY(tn_timeline_meet(line, error));
    picture_idle(train, line);
    return cli_paths_write(&train->pictures, picture_write_file, line, error);
}

static tn_status picture_make(cli_train *train, uint32_t run, tn_timeline *line, tn_error *error) {
    double shift_s = 0;
    tn_world_rates rates = {0};
    if (train->world != NULL) {
        TN_TRY(picture_same(train, &run, error));
        TN_TRY(tn_world_clock(train->world, &shift_s, error));
        TN_TRY(tn_world_measure_link(train->world, &rates, error));
    }
    tn_status status = picture_own(train, shift_s, run, line, error);
    if (status == TN_OK) status = picture_simulate(train, &rates, line, error);
    TN_TRY(cli_train_agree(train, status, error));
    if (train->world != NULL) TN_TRY(picture_gather(train, line, error));
    status = cli_train_speaks(train) ? picture_write(train, line, error) : TN_OK;
    return cli_train_agree(train, status, error);
}

tn_status cli_train_picture(cli_train *train, tn_error *error) {
    tn_engine_usage usage;
    tn_timeline *line;
    if (train->pictures.count == 0) return TN_OK;
    tn_engine_measure(train->opened.engine, &usage);
    if (usage.run_count == 0)
        TN_FAIL(error, TN_E_INVALID, "%s: the run had no steps to draw; raise --steps or --epochs",
                train->pictures.at[0]);
    TN_TRY(tn_timeline_create(train->input.import.context, train->input.path,
                              cli_train_ranks(train), &line, error));
    tn_status status =
        picture_make(train, picture_run(train->opened.trace, usage.run_count), line, error);
    tn_timeline_destroy(line);
    return status;
}
