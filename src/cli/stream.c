/* stream.c - tells what weight streaming did. */
#include "cli/stream.h"

#define STREAM_PS 1e12

static const cli_facts stream_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "fetched_bytes", "streamed", "bytes read from the file in a run"),
        CLI_FACT(COUNT, "fetches", NULL, "reads in a run"),
        CLI_FACT(BYTES, "resident_bytes", NULL, "bytes of weights that stay in memory"),
        CLI_FACT(COUNT, "residents", NULL, "blocks of weights that stay"),
        CLI_FACT(BYTES, "forms_bytes", "packed, folded",
                 "bytes of packed or folded weights in a temporary file during the run"),
        CLI_FACT(REAL, "storage_bytes_per_s", "storage", "speed of the storage"),
        CLI_FACT(SECONDS, "predicted_s", "predicted", "predicted time of a run"),
        CLI_FACT(SECONDS, "predicted_stall_s", NULL, "part of it that waits for the file"),
        CLI_FACT(SECONDS, "resident_s", NULL, "predicted time if all weights stayed"),
        CLI_FACT(SECONDS, "waited_s", "waited", "time that the last run waited for the file"),
        CLI_FACT(SECONDS, "reading_s", NULL, "time that its reads took"), CLI_FACTS_END}};
const cli_facts cli_stream_facts = {
    .rows = (const cli_fact[]){CLI_FACT_OF(OBJECT, "streamed",
                                           "with streaming: weights read during the run",
                                           &stream_facts),
                               CLI_FACTS_END}};

static void stream_tell_plan(cli_answer *answer, const tn_stream_result *streamed,
                             const tn_engine_usage *usage) {
    const double stall = (double)streamed->stall / STREAM_PS;
    const double plain = (double)streamed->plain_time / STREAM_PS;
    char stay[TN_SIZE_TEXT_MAX];
    cli_tell(answer, "fetched_bytes", streamed->fetched_bytes);
    cli_tell_more(answer, " in %u reads; %s stay, %u blocks", streamed->fetches,
                  tn_size_format(streamed->resident_bytes, stay), streamed->residents);
    cli_tell(answer, "fetches", streamed->fetches);
    cli_tell(answer, "resident_bytes", streamed->resident_bytes);
    cli_tell(answer, "residents", streamed->residents);
    if (usage != NULL && usage->forms_bytes > 0) {
        cli_tell(answer, "forms_bytes", usage->forms_bytes);
        cli_tell_more(answer, " in a temporary file during the run");
    }
    cli_tell_real(answer, "storage_bytes_per_s", streamed->bytes_per_s);
    cli_tell_as(answer, "%.2f GB/s", streamed->bytes_per_s / 1e9);
    cli_tell_real(answer, "predicted_s", (double)streamed->time / STREAM_PS);
    cli_tell_as(answer, "%.3f ms, of which %.3f ms wait for files; %.3f ms if all weights stayed",
                (double)streamed->time / STREAM_PS * 1e3, stall * 1e3, plain * 1e3);
    cli_tell_real(answer, "predicted_stall_s", stall);
    cli_tell_real(answer, "resident_s", plain);
}

void cli_stream_tell(cli_answer *answer, const tn_setup *setup, const tn_engine_usage *usage) {
    const tn_stream_result *streamed = setup != NULL ? tn_setup_streamed(setup) : NULL;
    if (streamed == NULL) return;
    cli_answer_open(answer, "streamed");
    stream_tell_plan(answer, streamed, usage);
    if (usage != NULL) {
        cli_tell_real(answer, "waited_s", usage->stall_seconds);
        cli_tell_as(answer, "%.3f ms of the last run; reading took %.3f ms",
                    usage->stall_seconds * 1e3, usage->fetch_seconds * 1e3);
        cli_tell_real(answer, "reading_s", usage->fetch_seconds);
    }
    cli_answer_close(answer);
}
