/* replay_play.c - prints the execution of a trace on a device, as a table and in JSON. */
#include "cli/replay.h"

#include <inttypes.h>
#include <stdio.h>

#include "report/format.h"

static void play_print_row(const char *name, const tn_play_answer *played) {
    char taken[TN__WORDS_MAX], waits[TN__WORDS_MAX];
    if (!played->fits) {
        printf("  %-12s  does not fit: %s%s%s\n", name, played->failure.where,
               played->failure.where[0] != '\0' ? ": " : "", played->failure.message);
        return;
    }
    printf("  %-12s %18s  %12.0f  %15s\n", name, tn__grouped(played->taken, taken),
           1e9 * played->request_s, tn__grouped(played->waits, waits));
}

/* The result of a pool that fits, or NULL. */
static const tn_play_answer *play_one(const cli_replay *arguments) {
    if (arguments->plays_own && arguments->own.fits) return &arguments->own;
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (arguments->results[i].was_played && arguments->results[i].played.fits)
            return &arguments->results[i].played;
    return NULL;
}

void cli_replay_print_played(const cli_replay *arguments) {
    const tn_play_answer *one = play_one(arguments);
    if (arguments->play_on == NULL) return;
    printf("\n  played on %s", arguments->play_on);
    if (one != NULL)
        printf(": %" PRIu64 " blocks on %u stream%s, each written and read back", one->marked,
               one->streams, one->streams == 1 ? "" : "s");
    printf("\n\n  pool            bytes of device  ns a request  waits of stream\n");
    if (arguments->plays_own) play_print_row("none", &arguments->own);
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (arguments->results[i].was_played)
            play_print_row(arguments->results[i].name, &arguments->results[i].played);
}

void cli_replay_json_played(const tn_play_answer *played, tn__text *text) {
    tn__text_printf(text, "{\"fits\": %s", played->fits ? "true" : "false");
    if (played->fits) {
        tn__text_printf(text,
                        ", \"taken\": %" PRIu64 ", \"request_s\": %.6g, \"waits\": %" PRIu64
                        ", \"blocks\": %" PRIu64 ", \"streams\": %u, \"rounds\": %u",
                        played->taken, played->request_s, played->waits, played->marked,
                        played->streams, played->rounds);
        cli_replay_json_lesson(&played->lesson, text);
    } else {
        tn__text_put(text, ", \"where\": ");
        tn__text_json(text, played->failure.where);
        tn__text_put(text, ", \"message\": ");
        tn__text_json(text, played->failure.message);
    }
    tn__text_put(text, "}");
}
