/* train_tell.c - what is shown of a training run while it runs, and in the end. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/train.h"

static double tell_speed(const cli_train *train, double seconds) {
    double samples = (double)(train->done - train->first) * (double)train->batch * train->micro;
    return seconds > 0 ? samples / seconds : 0;
}

static bool tell_shows(const cli_train *train) { return !train->json && isatty(STDERR_FILENO); }

void cli_train_show(const cli_train *train) {
    char memory[TN_SIZE_TEXT_MAX];
    if (!tell_shows(train)) return;
    fprintf(stderr,
            "\rstep %" PRIu64 "/%" PRIu64 "  loss %.4f  accuracy %.1f %%  %.0f samples/s  %s ",
            train->done, train->total, train->loss, 100 * train->accuracy,
            tell_speed(train, cli_clock() - train->start),
            tn_size_format(cli_session_need(&train->session), memory));
}

void cli_train_show_end(const cli_train *train) {
    if (tell_shows(train)) fputs("\r\033[K", stderr);
}

tn_status cli_train_write(cli_train *train, tn_error *error) {
    if (train->log_path != NULL) {
        if (train->log.failed) return tn__no_memory(error, "the log");
        TN_TRY(tn__file_write(train->log_path, train->log.data, train->log.size, error));
    }
    return cli_session_write_trace(&train->session, error);
}

static void tell_json(const cli_train *train, const tn_engine_usage *usage) {
    printf("{\"format\":\"tenure-train\",\"version\":1,\"planned_peak\":%" PRIu64
           ",\"measured_peak\":%" PRIu64 ",\"arena\":%" PRIu64 ",\"weights\":%" PRIu64
           ",\"steps\":%" PRIu64 ",\"loss\":%.9g,\"accuracy\":%.9g",
           usage->planned_peak, usage->measured_peak, usage->arena, usage->static_bytes,
           train->done, train->loss, train->accuracy);
    if (train->has_test)
        printf(",\"test_loss\":%.9g,\"test_accuracy\":%.9g", train->test_loss,
               train->test_accuracy);
    if (train->session.check) printf(",\"check\":{\"naive\":\"equal\"}");
    if (train->session.poison) printf(",\"poison\":\"clean\"");
    printf(",\"seconds\":%.6f,\"samples_per_s\":%.3f,\"threads\":%u}\n", train->seconds,
           tell_speed(train, train->seconds), train->session.choices.threads);
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
    printf("%-15s %.4f (mean of the last %u steps)\n", "loss", train->loss, CLI_TRAIN_SEEN);
    if (train->correct_at != TN_NONE) printf("%-15s %.2f %%\n", "accuracy", 100 * train->accuracy);
    if (train->has_test)
        printf("%-15s loss %.4f, %.2f %% right\n", "on test samples", train->test_loss,
               100 * train->test_accuracy);
    if (train->has_test && train->data.text)
        printf("%-15s %.3f bits per byte\n", "", train->test_loss / log(2));
    if (train->session.check) printf("%-15s every bit equal without reuse\n", "check naive");
    if (train->session.poison) printf("%-15s clean\n", "poison");
}
