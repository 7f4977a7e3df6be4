/* stream.c - prints the report of weight streaming. */
#include "cli/stream.h"

#include <inttypes.h>
#include <stdio.h>

#define STREAM_PS 1e12

void cli_stream_print(const tn_setup *setup, const tn_engine_usage *usage) {
    const tn_stream_result *streamed = tn_setup_streamed(setup);
    char fetched[TN_SIZE_TEXT_MAX], stay[TN_SIZE_TEXT_MAX], forms[TN_SIZE_TEXT_MAX];
    if (streamed == NULL) return;
    printf("%-15s %s in %u reads; %s stay, %u blocks\n", "streamed",
           tn_size_format(streamed->fetched_bytes, fetched), streamed->fetches,
           tn_size_format(streamed->resident_bytes, stay), streamed->residents);
    if (usage != NULL && usage->forms_bytes > 0)
        printf("%-15s %s in a temporary file during the run\n", "packed, folded",
               tn_size_format(usage->forms_bytes, forms));
    printf("%-15s %.2f GB/s\n", "storage", streamed->bytes_per_s / 1e9);
    printf("%-15s %.3f ms, of which %.3f ms wait for files; %.3f ms if all weights stayed\n",
           "predicted", (double)streamed->time / STREAM_PS * 1e3,
           (double)streamed->stall / STREAM_PS * 1e3,
           (double)streamed->plain_time / STREAM_PS * 1e3);
    if (usage != NULL)
        printf("%-15s %.3f ms of the last run; reading took %.3f ms\n", "waited",
               usage->stall_seconds * 1e3, usage->fetch_seconds * 1e3);
}

void cli_stream_json(const tn_setup *setup, const tn_engine_usage *usage, tn__text *text) {
    const tn_stream_result *streamed = tn_setup_streamed(setup);
    if (streamed == NULL) return;
    tn__text_printf(text,
                    ",\"streamed\":{\"fetches\":%u,\"fetched_bytes\":%" PRIu64
                    ",\"residents\":%u,\"resident_bytes\":%" PRIu64
                    ",\"predicted_s\":%.9f,\"predicted_stall_s\":%.9f,\"resident_s\":%.9f"
                    ",\"storage_bytes_per_s\":%.0f",
                    streamed->fetches, streamed->fetched_bytes, streamed->residents,
                    streamed->resident_bytes, (double)streamed->time / STREAM_PS,
                    (double)streamed->stall / STREAM_PS, (double)streamed->plain_time / STREAM_PS,
                    streamed->bytes_per_s);
    if (usage != NULL)
        tn__text_printf(text, ",\"forms_bytes\":%" PRIu64 ",\"waited_s\":%.9f,\"reading_s\":%.9f",
                        usage->forms_bytes, usage->stall_seconds, usage->fetch_seconds);
    tn__text_put(text, "}");
}
