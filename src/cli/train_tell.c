/* train_tell.c - the output of a training run, while it runs and at the end. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/losses.h"
#include "cli/session_tell.h"
#include "cli/train.h"
#include "cli/whom.h"
#include "report/format.h"

/* --- the log --- */

/* Starts a new log; a resumed run keeps the rows before its checkpoint. */
tn_status cli_train_open_log(cli_train *train, tn_error *error) {
    char row[128];
    tn__text rows;
    if (train->log_path == NULL) return TN_OK;
    if (train->options.resume != NULL) tn__new_file_sweep(train->log_path);
    FILE *was = train->options.resume != NULL ? fopen(train->log_path, "r") : NULL;
    if (was == NULL && train->options.resume != NULL && errno != ENOENT)
        return tn__where(error, tn__fail_system(error, errno, "read"), "%.200s", train->log_path);
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
    setvbuf(train->log, NULL, _IOLBF, 0); /* a row is written before its checkpoint, even if the
                                           * process is killed */
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

/* --- on a terminal --- */

static double tell_speed(const tn_trainer_state *state) {
    double runs = (double)(state->done - state->first) * state->micro_batches * state->parts;
    return state->seconds > 0 ? runs * (double)state->batch / state->seconds : 0;
}

static bool tell_shows(const cli_train *train) {
    return !train->json && cli_train_speaks(train) && isatty(STDERR_FILENO);
}

#define TELL_LINE 256

static int tell_columns(void) {
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known && size.ws_col < TELL_LINE ? size.ws_col - 1 : 79;
}

/* One line, overwritten ten times per second and cut at the width of the terminal. */
void cli_train_show(cli_train *train) {
    const tn_trainer_state *state = train->state;
    char line[TELL_LINE], right[32] = "";
    if (!tell_shows(train) || cli_clock() - train->shown <= 0.1) return;
    train->shown = cli_clock();
    double a_step = state->seconds / (double)(state->done - state->first);
    uint64_t left = (uint64_t)(a_step * (double)(state->total - state->done) + 0.5);
    if (state->counts) snprintf(right, sizeof right, "  right %.1f %%", 100 * state->accuracy);
    snprintf(line, sizeof line,
             "step %" PRIu64 "/%" PRIu64 "  loss %.4f%s  %.0f samples/s  %.1f MiB  %" PRIu64
             ":%02u:%02u left",
             state->done, state->total, state->mean_loss, right, tell_speed(state),
             (double)tn_setup_need(train->session.setup).total / 1048576, left / 3600,
             (unsigned)(left / 60 % 60), (unsigned)(left % 60));
    fprintf(cli_terminal(), "\r%.*s\033[K", tell_columns(), line);
}

void cli_train_show_test(const cli_train *train) {
    if (tell_shows(train))
        fprintf(cli_terminal(), "\rtesting on %" PRIu64 " samples\033[K",
                tn_data_test_count(train->data));
}

void cli_train_show_end(const cli_train *train) {
    if (tell_shows(train)) fputs("\r\033[K", cli_terminal());
}

/* --- at the end --- */

void cli_train_print_stopped(const cli_train *train) {
    cli_prefix(CLI_WARNING);
    fprintf(stderr, "stopped by a signal after step %" PRIu64 " of %" PRIu64, train->state->done,
            train->state->total);
    if (train->options.checkpoint != NULL)
        fprintf(stderr, "; continue with --resume %s", train->options.checkpoint);
    fputs("\n", stderr);
}

/* --- the facts --- */

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
        CLI_FACTS_ALSO(&cli_whom_facts),
        CLI_FACTS_ALSO(&cli_fitted_facts),
        CLI_FACT(BYTES, "planned_peak", "planned peak", "peak of the arena in the plan"),
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
        CLI_FACT_BRIEF(COUNT, "steps", "steps", ", @ steps",
                       "training steps done, with those before --resume"),
        CLI_FACT(REAL, "loss", "loss", "mean loss of about the last hundred steps"),
        CLI_FACT(SHARE, "accuracy", "accuracy", "fraction of samples that were right in them"),
        CLI_FACT(REAL, "test_loss", "on test samples", "loss on the test samples"),
        CLI_FACT_BRIEF(SHARE, "test_accuracy", NULL, ", @ right on test",
                       "fraction of the test samples that were right"),
        CLI_FACT_OF(OBJECT, "checkpoint", "with --checkpoint: the checkpoints",
                    &train_checkpoint_facts),
        CLI_FACT_OF(LIST, "ranks", "with several ranks: each of them", &train_rank_facts),
        CLI_FACT_OF(OBJECT, "cut", "with tensor ranks: the cut parameters", &train_cut_facts),
        CLI_FACTS_ALSO(&cli_check_facts),
        CLI_FACT(SECONDS, "seconds", NULL, "wall time of the steps"),
        CLI_FACT(SECONDS, "engine_seconds", NULL, "part of it in the engine"),
        CLI_FACT(REAL, "samples_per_s", NULL, "samples per second"),
        CLI_FACT(COUNT, "threads", NULL, "number of threads"),
        CLI_FACTS_END}};

/* --- several ranks --- */

/* Seconds of communication in the last run that overlapped with computing.
 */
static double tell_hidden(const cli_rank *rank) {
    double hidden = rank->talk_s > 0 ? 1 - rank->stall_s / rank->talk_s : 0;
    return hidden > 0 ? hidden : 0;
}

static void tell_rank(cli_answer *answer, const cli_rank *rank) {
    cli_answer_open(answer, NULL);
    cli_tell(answer, "planned_peak", rank->planned);
    cli_tell(answer, "measured_peak", rank->measured);
    cli_tell(answer, "weights", rank->statics);
    cli_tell(answer, "messages", rank->messages);
    cli_tell(answer, "sent_bytes", rank->bytes);
    cli_tell(answer, "step_messages", rank->step_messages);
    cli_tell(answer, "step_bytes", rank->step_bytes);
    cli_tell(answer, "direct_bytes", rank->direct_bytes);
    cli_tell_real(answer, "talk_seconds", rank->talk_s);
    cli_tell_real(answer, "stall_seconds", rank->stall_s);
    if (rank->idle[TN_TIMELINE_MEASURED] >= 0) {
        cli_answer_open(answer, "idle");
        cli_tell_real(answer, "predicted", rank->idle[TN_TIMELINE_PREDICTED]);
        cli_tell_real(answer, "measured", rank->idle[TN_TIMELINE_MEASURED]);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

static void tell_cut(cli_answer *answer, const cli_train *train) {
    const tn_part_sums sums = tn_training_parts(&train->session.step);
    if (sums.ranks < 2) return;
    cli_answer_open(answer, "cut");
    cli_tell(answer, "parameter_bytes", sums.parameters);
    cli_tell(answer, "cut_bytes", sums.cut);
    cli_tell(answer, "sums", sums.sums);
    cli_tell(answer, "sum_bytes", sums.bytes);
    cli_tell(answer, "between_bytes", sums.between);
    cli_answer_close(answer);
}

/* Before the run: the parts of each tensor rank, and the reason for not more. */
void cli_train_print_cut(const cli_train *train) {
    const tn_part_sums sums = tn_training_parts(&train->session.step);
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

/* The rank that needs most, and its messages. */
static void tell_most(cli_answer *answer, const cli_train *train) {
    char size[TN_SIZE_TEXT_MAX];
    uint32_t ranks = cli_train_ranks(train), most = 0;
    uint64_t steps = train->state->done - train->state->first;
    for (uint32_t r = 1; r < ranks; r++)
        if (train->ranks[r].measured > train->ranks[most].measured) most = r;
    cli_tell_line(answer, "ranks", "%u, of which rank %u needs most: %s", ranks, most,
                  tn_size_format(train->ranks[most].measured, size));
    cli_tell_line(answer, "sent",
                  "%s per step and rank, %.0f %% of that time overlapped with computing",
                  tn_size_format(steps > 0 ? train->ranks[0].step_bytes / steps : 0, size),
                  100 * tell_hidden(&train->ranks[0]));
}

/* Idle time in the drawn step, as the mean of all ranks. */
static void tell_idle(cli_answer *answer, const cli_train *train) {
    uint32_t ranks = cli_train_ranks(train);
    double sums[TN_TIMELINE_KINDS] = {0};
    if (train->ranks[0].idle[TN_TIMELINE_MEASURED] < 0) return;
    for (uint32_t r = 0; r < ranks; r++)
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
            sums[kind] += train->ranks[r].idle[kind] / ranks;
    cli_tell_line(answer, "idle", "%.0f %% of the step in the mean of all ranks, %.0f %% predicted",
                  100 * sums[TN_TIMELINE_MEASURED], 100 * sums[TN_TIMELINE_PREDICTED]);
}

static void tell_ranks(cli_answer *answer, const cli_train *train) {
    const tn_grid *grid = &train->at.grid;
    bool many = train->ranks != NULL && cli_train_ranks(train) > 1;
    if (many) tell_most(answer, train);
    if (grid->pipeline >= 2)
        cli_tell_line(answer, "pipeline",
                      "%u stages of %u part%s, %u micro-batches by %s; nothing is rewritten across "
                      "stages",
                      grid->pipeline, grid->interleave, grid->interleave == 1 ? "" : "s",
                      train->state->micro_batches, tn_pipeline_name(train->at.schedule));
    if (many) tell_idle(answer, train);
    if (train->ranks == NULL) return;
    cli_answer_open(answer, "ranks");
    for (uint32_t r = 0; r < cli_train_ranks(train); r++) tell_rank(answer, &train->ranks[r]);
    cli_answer_close(answer);
    tell_cut(answer, train);
}

static void tell_memory(cli_answer *answer, const cli_train *train) {
    char size[TN_SIZE_TEXT_MAX];
    tn_engine_usage usage;
    tn_engine_measure(train->session.engine, &usage);
    cli_tell(answer, "planned_peak", usage.planned_peak);
    cli_tell(answer, "measured_peak", usage.measured_peak);
    cli_tell(answer, "arena", usage.arena);
    cli_tell(answer, "weights", usage.static_bytes);
    if (train->session.codecs == 0) return;
    if (usage.spill_bytes > 0)
        cli_tell_line(answer, "spilled",
                      "%s of the host, because %" PRIu64
                      " tensor%s of the last step had fewer zeros than planned or were above "
                      "--max-error",
                      tn_size_format(usage.spill_bytes, size), usage.spill_count,
                      usage.spill_count == 1 ? "" : "s");
    cli_answer_open(answer, "spills");
    cli_tell(answer, "tensors", usage.spill_count);
    cli_tell(answer, "bytes", usage.spill_bytes);
    cli_answer_close(answer);
    cli_engine_losses_tell(answer, train->session.engine);
}

static void tell_scores(cli_answer *answer, const cli_train *train) {
    const tn_trainer_state *state = train->state;
    if (state->done > state->first) {
        cli_tell_real(answer, "loss", state->mean_loss);
        cli_tell_as(answer, "%.4f (mean of about the last %u steps)", state->mean_loss,
                    TN_TRAINER_SEEN);
        cli_tell_brief(answer, ", loss %.4f", state->mean_loss);
        if (state->counts) cli_tell_real(answer, "accuracy", state->accuracy);
        if (state->counts) cli_tell_as(answer, "%.2f %%", 100 * state->accuracy);
    }
    if (train->score.labels == 0) return;
    cli_tell_real(answer, "test_loss", train->score.loss);
    cli_tell_as(answer, "loss %.4f, %.2f %% right", train->score.loss, 100 * train->score.accuracy);
    cli_tell_real(answer, "test_accuracy", train->score.accuracy);
    if (tn_data_is_text(train->data))
        cli_tell_line(answer, "", "%.3f bits per byte", train->score.loss / log(2));
}

static void tell_checkpoint(cli_answer *answer, const tn_trainer_state *state) {
    if (state->saved == 0) return;
    cli_answer_open(answer, "checkpoint");
    cli_tell(answer, "bytes", state->saved_bytes);
    cli_tell_more(answer, ", written %" PRIu64 " time%s, %.1f ms each", state->saved,
                  state->saved == 1 ? "" : "s", 1e3 * state->save_seconds / (double)state->saved);
    cli_tell(answer, "written", state->saved);
    cli_tell_real(answer, "seconds", state->save_seconds);
    cli_answer_close(answer);
}

tn_status cli_train_print(const cli_train *train, tn_error *error) {
    const tn_trainer_state *state = train->state;
    const cli_whom whom = cli_session_whom(&train->session);
    uint32_t threads = train->session.choices.threads;
    cli_answer answer;
    cli_answer_begin(&answer, &cli_train_facts, train->json);
    cli_tell_brief(&answer, "%s: ", cli_shown_path(train->input.path));
    cli_whom_tell(&answer, &whom, train->session.setup);
    cli_fitted_tell(&answer, train->session.setup, &train->session.answer);
    tell_memory(&answer, train);
    cli_tell(&answer, "steps", state->done);
    cli_tell_more(&answer, ", %.0f samples/s, %u thread%s", tell_speed(state), threads,
                  threads == 1 ? "" : "s");
    tell_scores(&answer, train);
    cli_tell_brief(&answer, ", %.0f samples/s", tell_speed(state));
    tell_checkpoint(&answer, state);
    tell_ranks(&answer, train);
    cli_check_tell(&answer, &train->session);
    cli_tell_real(&answer, "seconds", state->seconds);
    cli_tell_real(&answer, "engine_seconds", state->engine_seconds);
    cli_tell_real(&answer, "samples_per_s", tell_speed(state));
    cli_tell(&answer, "threads", threads);
    return cli_answer_end(&answer, error);
}
