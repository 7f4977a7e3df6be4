/* streams.c - parses the options about streams on which operators run, --streams and --stream, and
 * about tensors that lie one after another, --adjacent. */
#include "cli/model/input.h"

#include <string.h>

enum { STREAMS_COUNT = 2300, STREAMS_RULE, STREAMS_ADJACENT };

#define STREAMS_OPTIONS(X)                                                                         \
    X(STREAMS_COUNT, "streams", "N",                                                               \
      "put the operators on N streams that work at the same time: each goes to the stream on "     \
      "which it can start first; buffers share bytes only if the streams' waits allow it")         \
    X(STREAMS_RULE, "stream", "PATTERN=K",                                                         \
      "with --streams: operators whose names match " CLI_PATTERN                                   \
      " run on stream K, from 0 on; type:PATTERN matches types; may be repeated, "                 \
      "and the last pattern that matches counts")                                                  \
    X(STREAMS_ADJACENT, "adjacent", "PATTERN",                                                     \
      "tensors whose names match " CLI_PATTERN                                                     \
      " lie one after another in memory, in the order of their "                                   \
      "definitions, as a collective call needs them; may be repeated")

/* Adds a rule of --stream; the stream follows the last '='. */
static void streams_add_rule(struct argp_state *state, cli_streams *streams, char *value) {
    char *at = strrchr(value, '=');
    if (at == NULL || at == value || at[1] == '\0')
        cli_misuse(state, "--stream: '%.60s' is invalid; write PATTERN=K", value);
    if (streams->rule_count == CLI_STREAM_RULES_MAX)
        cli_misuse(state, "--stream: given more than %u times", CLI_STREAM_RULES_MAX);
    *at = '\0';
    uint64_t stream = cli_number(state, "stream", at + 1);
    if (stream >= TN_STREAM_MAX)
        cli_misuse(state, "--stream: %.20s is above %u", at + 1, TN_STREAM_MAX - 1);
    streams->rules[streams->rule_count++] = (tn_stream_rule){value, (uint32_t)stream};
}

static void streams_check(struct argp_state *state, const cli_streams *streams) {
    for (uint32_t i = 0; i < streams->rule_count; i++)
        if (streams->count > 0 && streams->rules[i].stream >= streams->count)
            cli_misuse(state, "--stream: there is no stream %u; --streams %u makes 0 to %u",
                       streams->rules[i].stream, streams->count, streams->count - 1);
}

static error_t streams_parse(int key, char *value, struct argp_state *state) {
    cli_streams *streams = state->input;
    switch (key) {
    case STREAMS_COUNT:
        streams->count = (uint32_t)cli_count(state, "streams", value, TN_STREAM_MAX);
        return 0;
    case STREAMS_RULE:
        streams_add_rule(state, streams, value);
        return 0;
    case STREAMS_ADJACENT:
        if (streams->adjacent_count == CLI_STREAM_RULES_MAX)
            cli_misuse(state, "--adjacent: given more than %u times", CLI_STREAM_RULES_MAX);
        streams->adjacent[streams->adjacent_count++] = value;
        return 0;
    case ARGP_KEY_END:
        streams_check(state, streams);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option streams_options[] = {STREAMS_OPTIONS(CLI_OPTION){0}};
const struct argp cli_streams_argp = {.options = streams_options, .parser = streams_parse};
