/* replay_tell.c - prints a replay in one line, as tables, and as JSON. */
#include "cli/replay.h"

#include <inttypes.h>
#include <stdio.h>

#include "report/format.h"

enum { TELL_HOLDERS = 5 };

uint64_t cli_replay_live_peak(const cli_replay *arguments, uint64_t *live) {
    uint64_t now = 0, peak = 0;
    for (uint64_t i = 0; i < arguments->event_count; i++) {
        uint64_t size = arguments->sizes[arguments->events[i].block];
        now = arguments->events[i].frees ? now - size : now + size;
        if (now > peak) peak = now;
        if (live != NULL) live[i] = now;
    }
    return peak;
}

/* The fraction of the reserved peak above the requested peak. */
static double tell_lost(const cli_replay_result *result) {
    uint64_t reserved = result->usage.reserved_peak;
    return reserved == 0 ? 0 : 1 - (double)result->usage.requested_peak / (double)reserved;
}

/* One line: the offline plan, then each pool. */
void cli_replay_print_brief(const cli_replay *arguments) {
    char size[TN_SIZE_TEXT_MAX];
    printf("planned %s", tn_size_format(arguments->layout.peak, size));
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        const cli_replay_result *result = &arguments->results[i];
        printf(", %s %s", result->name,
               result->fits ? tn_size_format(result->usage.reserved_peak, size) : "does not fit");
    }
    printf("\n");
}

void cli_replay_print_text(const cli_replay *arguments) {
    char live[TN_SIZE_TEXT_MAX], height[TN_SIZE_TEXT_MAX];
    const tn_layout *layout = &arguments->layout;
    const cli_replay_result *told = NULL;
    printf("  %" PRIu64 " events, %u blocks; at most %s in use at once\n", arguments->event_count,
           tn_pool_trace_block_count(arguments->trace),
           tn_size_format(cli_replay_live_peak(arguments, NULL), live));
    if (tn_pool_trace_skipped(arguments->trace) != 0)
        printf("  %" PRIu64
               " rows skipped: failed requests, requests of 0 bytes, or frees of unknown blocks\n",
               tn_pool_trace_skipped(arguments->trace));
    printf("  planned ahead: %s, planner %s, %s\n\n", tn_size_format(layout->peak, height),
           layout->planner, tn_verdict_name(layout->verdict));
    printf("  pool             reserved bytes  of planned     allocated at most  not asked for\n");
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        const cli_replay_result *result = &arguments->results[i];
        if (!result->fits) {
            printf("  %-12s  does not fit: %s%s%s\n", result->name, result->failure.where,
                   result->failure.where[0] != '\0' ? ": " : "", result->failure.message);
            if (told == NULL || told->fits) told = result;
            continue;
        }
        double ratio =
            layout->peak == 0 ? 0 : (double)result->usage.reserved_peak / (double)layout->peak;
        char reserved[TN__WORDS_MAX], allocated[TN__WORDS_MAX];
        printf("  %-12s %18s  %8.3f x  %20s  %11.2f %%\n", result->name,
               tn__grouped(result->usage.reserved_peak, reserved), ratio,
               tn__grouped(result->usage.allocated_peak, allocated), 100 * tell_lost(result));
        cli_replay_print_lesson(&result->lesson, tn_pool_trace_block_count(arguments->trace));
        if (told == NULL) told = result;
    }
    cli_replay_print_played(arguments);
    if (told == NULL || told->holders.count == 0) return;
    printf("\n");
    cli_holders_print(&told->holders, TELL_HOLDERS, stdout);
}

static void tell_json_pool(tn__text *text, const cli_replay_result *result) {
    tn__text_put(text, "{\"name\": ");
    tn__text_json(text, result->name);
    tn__text_printf(text, ", \"fits\": %s", result->fits ? "true" : "false");
    if (result->fits) {
        tn__text_printf(text,
                        ", \"reserved_peak\": %" PRIu64 ", \"allocated_peak\": %" PRIu64
                        ", \"requested_peak\": %" PRIu64 ", \"fragmentation\": %.9g",
                        result->usage.reserved_peak, result->usage.allocated_peak,
                        result->usage.requested_peak, tell_lost(result));
        cli_replay_json_lesson(&result->lesson, text);
    } else {
        tn__text_put(text, ", \"where\": ");
        tn__text_json(text, result->failure.where);
        tn__text_put(text, ", \"message\": ");
        tn__text_json(text, result->failure.message);
    }
    if (result->was_played) {
        tn__text_put(text, ", \"played\": ");
        cli_replay_json_played(&result->played, text);
    }
    tn__text_put(text, ", ");
    cli_holders_json(&result->holders, TELL_HOLDERS, text);
    tn__text_put(text, "}");
}

tn_status cli_replay_print_json(const cli_replay *arguments) {
    const tn_layout *layout = &arguments->layout;
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "{\"format\": \"tenure-replay\", \"version\": 1, \"input\": ");
    tn__text_json(&text, arguments->path);
    tn__text_printf(&text,
                    ", \"events\": %" PRIu64 ", \"blocks\": %u, \"skipped\": %" PRIu64
                    ", \"live_peak\": %" PRIu64 ", \"planned\": {\"planner\": \"%s\", "
                    "\"status\": \"%s\", \"peak\": %" PRIu64 ", \"lower_bound\": %" PRIu64 "}",
                    arguments->event_count, tn_pool_trace_block_count(arguments->trace),
                    tn_pool_trace_skipped(arguments->trace), cli_replay_live_peak(arguments, NULL),
                    layout->planner, tn_verdict_name(layout->verdict), layout->peak,
                    layout->lower_bound);
    if (arguments->play_on != NULL) {
        tn__text_put(&text, ", \"device\": ");
        tn__text_json(&text, arguments->play_on);
    }
    if (arguments->plays_own) {
        tn__text_put(&text, ", \"played\": ");
        cli_replay_json_played(&arguments->own, &text);
    }
    tn__text_put(&text, ", \"pools\": [");
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        tn__text_put(&text, i == 0 ? "\n " : ",\n ");
        tell_json_pool(&text, &arguments->results[i]);
    }
    tn__text_put(&text, "]}\n");
    bool failed = text.failed;
    if (!failed) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
    return failed ? tn__no_memory(arguments->error, "the answer") : TN_OK;
}
