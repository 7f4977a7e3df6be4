/* train_tell.c - what is shown of a training run while it runs, and in the end. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/train.h"

static double tell_speed(const cli_train *train, double seconds) {
    double samples = (double)(train->done - train->first) * (double)train->batch * train->micro;
    return seconds > 0 ? samples / seconds : 0;
}

static bool tell_shows(const cli_train *train) { return !train->json && isatty(STDERR_FILENO); }

#define TELL_LINE 256

static int tell_columns(void) {
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known && size.ws_col < TELL_LINE ? size.ws_col - 1 : 79;
}

/* One line, drawn over itself; what does not fit is cut off. */
void cli_train_show(const cli_train *train) {
    char line[TELL_LINE], right[32] = "";
    if (!tell_shows(train)) return;
    double passed = cli_clock() - train->start;
    double a_step = passed / (double)(train->done - train->first);
    uint64_t left = (uint64_t)(a_step * (double)(train->total - train->done) + 0.5);
    if (train->correct_at != TN_NONE)
        snprintf(right, sizeof right, "  right %.1f %%", 100 * train->accuracy);
    snprintf(line, sizeof line,
             "step %" PRIu64 "/%" PRIu64 "  loss %.4f%s  %.0f samples/s  %.1f MiB  %" PRIu64
             ":%02u:%02u left",
             train->done, train->total, train->loss, right, tell_speed(train, passed),
             (double)tn_setup_need(train->session.setup).total / 1048576, left / 3600,
             (unsigned)(left / 60 % 60), (unsigned)(left % 60));
    fprintf(stderr, "\r%.*s\033[K", tell_columns(), line);
}

void cli_train_show_test(const cli_train *train) {
    if (tell_shows(train))
        fprintf(stderr, "\rtesting on %" PRIu64 " samples\033[K", train->data.test.count);
}

void cli_train_show_end(const cli_train *train) {
    if (tell_shows(train)) fputs("\r\033[K", stderr);
}

void cli_train_print_stopped(const cli_train *train) {
    fprintf(stderr, "tenure: stopped by a signal after step %" PRIu64 " of %" PRIu64, train->done,
            train->total);
    if (train->checkpoint != NULL) fprintf(stderr, "; --resume %s goes on", train->checkpoint);
    fputs("\n", stderr);
}

tn_status cli_train_end_log(const cli_train *train, tn_error *error) {
    if (train->log != NULL && (fflush(train->log) != 0 || ferror(train->log)))
        TN_FAIL(error, TN_E_IO, "cannot write %.200s: %s", train->log_path, strerror(errno));
    return TN_OK;
}

static void tell_json(const cli_train *train, const tn_engine_usage *usage) {
    printf("{\"format\":\"tenure-train\",\"version\":1,\"planned_peak\":%" PRIu64
           ",\"measured_peak\":%" PRIu64 ",\"arena\":%" PRIu64 ",\"weights\":%" PRIu64
           ",\"steps\":%" PRIu64,
           usage->planned_peak, usage->measured_peak, usage->arena, usage->static_bytes,
           train->done);
    if (train->done > train->first)
        printf(",\"loss\":%.9g,\"accuracy\":%.9g", train->loss, train->accuracy);
    if (train->has_test)
        printf(",\"test_loss\":%.9g,\"test_accuracy\":%.9g", train->test_loss,
               train->test_accuracy);
    if (train->session.check) printf(",\"check\":{\"naive\":\"equal\"}");
    if (train->saved > 0)
        printf(",\"checkpoint\":{\"bytes\":%" PRIu64 ",\"written\":%" PRIu64 ",\"seconds\":%.6f}",
               train->save_bytes, train->saved, train->save_seconds);
    if (train->session.poison) printf(",\"poison\":\"clean\"");
    printf(",\"seconds\":%.6f,\"engine_seconds\":%.6f,\"samples_per_s\":%.3f,\"threads\":%u}\n",
           train->seconds, train->engine_seconds, tell_speed(train, train->seconds),
           train->session.choices.threads);
}

void cli_train_print(const cli_train *train) {
    tn_engine_usage usage;
    char size[TN_SIZE_TEXT_MAX];
    uint32_t threads = train->session.choices.threads;
    tn_engine_measure(train->session.engine, &usage);
    if (train->json) {
        tell_json(train, &usage);
        return;
    }
    printf("%-15s %s\n", "planned peak", tn_size_format(usage.planned_peak, size));
    printf("%-15s %s\n", "measured peak", tn_size_format(usage.measured_peak, size));
    printf("%-15s %s\n", "static memory", tn_size_format(usage.static_bytes, size));
    printf("%-15s %" PRIu64 ", %.0f samples/s, %u thread%s\n", "steps", train->done,
           tell_speed(train, train->seconds), threads, threads == 1 ? "" : "s");
    if (train->done > train->first)
        printf("%-15s %.4f (mean of about the last %u steps)\n", "loss", train->loss,
               CLI_TRAIN_SEEN);
    if (train->correct_at != TN_NONE && train->done > train->first)
        printf("%-15s %.2f %%\n", "accuracy", 100 * train->accuracy);
    if (train->has_test)
        printf("%-15s loss %.4f, %.2f %% right\n", "on test samples", train->test_loss,
               100 * train->test_accuracy);
    if (train->has_test && train->data.text)
        printf("%-15s %.3f bits per byte\n", "", train->test_loss / log(2));
    if (train->saved > 0)
        printf("%-15s %s, written %" PRIu64 " time%s, %.1f ms each\n", "checkpoint",
               tn_size_format(train->save_bytes, size), train->saved, train->saved == 1 ? "" : "s",
               1e3 * train->save_seconds / (double)train->saved);
    if (train->session.check) printf("%-15s every bit equal without reuse\n", "check naive");
    if (train->session.poison) printf("%-15s clean\n", "poison");
}
