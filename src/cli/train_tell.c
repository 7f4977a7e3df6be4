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
        TN_FAIL(error, TN_E_IO, "cannot write %.200s: %s", train->log_path, strerror(errno));
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
        TN_FAIL(error, TN_E_IO, "cannot write %.200s: %s", train->log_path, strerror(errno));
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

static void tell_json_whom(const cli_train *train) {
    const cli_whom whom = cli_session_whom(&train->session);
    tn_report_kernels told;
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "{\"format\":\"tenure-train\",\"version\":1,\"kernels\":");
    tn__words_kernels(&text, cli_whom_told(&whom, train->session.setup, &told));
    if (!text.failed) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
}

static void tell_json_fitted(const cli_train *train) {
    tn__text text;
    tn__text_init(&text, NULL);
    cli_fitted_json(train->session.setup, &text);
    if (!text.failed) printf("%.*s", (int)text.size, text.size > 0 ? text.data : "");
    tn__text_release(&text);
}

/* --- several ranks --- */

/* Seconds of communication in the last run that overlapped with computing.
 */
static double tell_hidden(const cli_rank *rank) {
    double hidden = rank->talk_s > 0 ? 1 - rank->stall_s / rank->talk_s : 0;
    return hidden > 0 ? hidden : 0;
}

static void tell_json_ranks(const cli_train *train) {
    if (train->ranks == NULL) return;
    printf(",\"ranks\":[");
    for (uint32_t r = 0; r < cli_train_ranks(train); r++) {
        const cli_rank *rank = &train->ranks[r];
        printf("%s{\"planned_peak\":%" PRIu64 ",\"measured_peak\":%" PRIu64 ",\"weights\":%" PRIu64
               ",\"messages\":%" PRIu64 ",\"sent_bytes\":%" PRIu64 ",\"step_messages\":%" PRIu64
               ",\"step_bytes\":%" PRIu64 ",\"direct_bytes\":%" PRIu64
               ",\"talk_seconds\":%.6f,\"stall_seconds\":%.6f",
               r > 0 ? "," : "", rank->planned, rank->measured, rank->statics, rank->messages,
               rank->bytes, rank->step_messages, rank->step_bytes, rank->direct_bytes, rank->talk_s,
               rank->stall_s);
        if (rank->idle[TN_TIMELINE_MEASURED] >= 0)
            printf(",\"idle\":{\"predicted\":%.6f,\"measured\":%.6f}",
                   rank->idle[TN_TIMELINE_PREDICTED], rank->idle[TN_TIMELINE_MEASURED]);
        printf("}");
    }
    printf("]");
    const tn_part_sums sums = tn_training_parts(&train->session.step);
    if (sums.ranks > 1)
        printf(",\"cut\":{\"parameter_bytes\":%" PRIu64 ",\"cut_bytes\":%" PRIu64
               ",\"sums\":%u,\"sum_bytes\":%" PRIu64 ",\"between_bytes\":%" PRIu64 "}",
               sums.parameters, sums.cut, sums.sums, sums.bytes, sums.between);
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

/* The stages and the schedule of the micro-batches. */
static void tell_text_stages(const cli_train *train) {
    const tn_grid *grid = &train->at.grid;
    if (grid->pipeline < 2) return;
    printf("%-15s %u stages of %u part%s, %u micro-batches by %s; nothing is rewritten across "
           "stages\n",
           "pipeline", grid->pipeline, grid->interleave, grid->interleave == 1 ? "" : "s",
           train->state->micro_batches, tn_pipeline_name(train->at.schedule));
}

static void tell_text_ranks(const cli_train *train) {
    char size[TN_SIZE_TEXT_MAX];
    uint32_t ranks = cli_train_ranks(train), most = 0;
    uint64_t steps = train->state->done - train->state->first;
    if (train->ranks == NULL || ranks == 1) return;
    for (uint32_t r = 1; r < ranks; r++)
        if (train->ranks[r].measured > train->ranks[most].measured) most = r;
    printf("%-15s %u, of which rank %u needs most: %s\n", "ranks", ranks, most,
           tn_size_format(train->ranks[most].measured, size));
    printf("%-15s %s per step and rank, %.0f %% of that time overlapped with computing\n", "sent",
           tn_size_format(steps > 0 ? train->ranks[0].step_bytes / steps : 0, size),
           100 * tell_hidden(&train->ranks[0]));
}

/* Idle time in the drawn step, as the mean of all ranks. */
static void tell_text_idle(const cli_train *train) {
    uint32_t ranks = cli_train_ranks(train);
    double sums[TN_TIMELINE_KINDS] = {0};
    if (train->ranks == NULL || ranks == 1 || train->ranks[0].idle[TN_TIMELINE_MEASURED] < 0)
        return;
    for (uint32_t r = 0; r < ranks; r++)
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
            sums[kind] += train->ranks[r].idle[kind] / ranks;
    printf("%-15s %.0f %% of the step in the mean of all ranks, %.0f %% predicted\n", "idle",
           100 * sums[TN_TIMELINE_MEASURED], 100 * sums[TN_TIMELINE_PREDICTED]);
}

static void tell_json(const cli_train *train, const tn_engine_usage *usage) {
    const tn_trainer_state *state = train->state;
    tell_json_whom(train);
    printf(",\"planned_peak\":%" PRIu64 ",\"measured_peak\":%" PRIu64 ",\"arena\":%" PRIu64
           ",\"weights\":%" PRIu64 ",\"steps\":%" PRIu64,
           usage->planned_peak, usage->measured_peak, usage->arena, usage->static_bytes,
           state->done);
    if (state->done > state->first)
        printf(",\"loss\":%.9g,\"accuracy\":%.9g", state->mean_loss, state->accuracy);
    if (train->score.labels > 0)
        printf(",\"test_loss\":%.9g,\"test_accuracy\":%.9g", train->score.loss,
               train->score.accuracy);
    tell_json_fitted(train);
    if (train->session.codecs != 0)
        printf(",\"spills\":{\"tensors\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", usage->spill_count,
               usage->spill_bytes);
    if (train->session.check) printf(",\"check\":{\"naive\":\"equal\"}");
    if (state->saved > 0)
        printf(",\"checkpoint\":{\"bytes\":%" PRIu64 ",\"written\":%" PRIu64 ",\"seconds\":%.6f}",
               state->saved_bytes, state->saved, state->save_seconds);
    if (train->session.poison) printf(",\"poison\":\"clean\"");
    tell_json_ranks(train);
    printf(",\"seconds\":%.6f,\"engine_seconds\":%.6f,\"samples_per_s\":%.3f,\"threads\":%u}\n",
           state->seconds, state->engine_seconds, tell_speed(state),
           train->session.choices.threads);
}

static void tell_text(const cli_train *train, const tn_engine_usage *usage) {
    const tn_trainer_state *state = train->state;
    char size[TN_SIZE_TEXT_MAX];
    uint32_t threads = train->session.choices.threads;
    const cli_whom whom = cli_session_whom(&train->session);
    cli_whom_print(&whom, train->session.setup);
    cli_fitted_print(train->session.setup);
    printf("%-15s %s\n", "planned peak", tn_size_format(usage->planned_peak, size));
    printf("%-15s %s\n", "measured peak", tn_size_format(usage->measured_peak, size));
    printf("%-15s %s\n", "static memory", tn_size_format(usage->static_bytes, size));
    if (usage->spill_bytes > 0)
        printf("%-15s %s of the host, because %" PRIu64
               " tensor%s of the last step had fewer zeros than planned\n",
               "spilled", tn_size_format(usage->spill_bytes, size), usage->spill_count,
               usage->spill_count == 1 ? "" : "s");
    printf("%-15s %" PRIu64 ", %.0f samples/s, %u thread%s\n", "steps", state->done,
           tell_speed(state), threads, threads == 1 ? "" : "s");
    if (state->done > state->first)
        printf("%-15s %.4f (mean of about the last %u steps)\n", "loss", state->mean_loss,
               TN_TRAINER_SEEN);
    if (state->counts && state->done > state->first)
        printf("%-15s %.2f %%\n", "accuracy", 100 * state->accuracy);
    if (train->score.labels > 0)
        printf("%-15s loss %.4f, %.2f %% right\n", "on test samples", train->score.loss,
               100 * train->score.accuracy);
    if (train->score.labels > 0 && tn_data_is_text(train->data))
        printf("%-15s %.3f bits per byte\n", "", train->score.loss / log(2));
    if (state->saved > 0)
        printf("%-15s %s, written %" PRIu64 " time%s, %.1f ms each\n", "checkpoint",
               tn_size_format(state->saved_bytes, size), state->saved, state->saved == 1 ? "" : "s",
               1e3 * state->save_seconds / (double)state->saved);
    tell_text_ranks(train);
    tell_text_stages(train);
    tell_text_idle(train);
    if (train->session.check) printf("%-15s every bit equal without reuse\n", "check naive");
    if (train->session.poison) printf("%-15s clean\n", "poison");
}

/* One line. */
static void tell_brief(const cli_train *train, const tn_engine_usage *usage) {
    const tn_trainer_state *state = train->state;
    char size[TN_SIZE_TEXT_MAX];
    printf("%s: %s measured, %" PRIu64 " steps", train->input.path,
           tn_size_format(usage->measured_peak, size), state->done);
    if (state->done > state->first) printf(", loss %.4f", state->mean_loss);
    if (train->score.labels > 0) printf(", %.2f %% right on test", 100 * train->score.accuracy);
    printf(", %.0f samples/s\n", tell_speed(state));
}

void cli_train_print(const cli_train *train) {
    tn_engine_usage usage;
    tn_engine_measure(train->session.engine, &usage);
    if (train->json)
        tell_json(train, &usage);
    else if (cli_tone_asked().brief)
        tell_brief(train, &usage);
    else
        tell_text(train, &usage);
}
