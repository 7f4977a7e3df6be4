/* claims.c - claims and hints of tn_fit_graph as JSON, and as options to give. */
#include "cli/claims.h"

#include <inttypes.h>
#include <stdio.h>

/* ["order","recompute"] */
static void claims_list(uint32_t techniques, tn__text *text) {
    char words[TN_TECHNIQUES_TEXT];
    tn__text_put(text, "[");
    const char *at = tn_techniques_text(techniques, words);
    if (*at != '\0') tn__text_put(text, "\"");
    for (; *at != '\0'; at++) tn__text_add(text, *at == ',' ? "\",\"" : at, *at == ',' ? 3 : 1);
    if (words[0] != '\0') tn__text_put(text, "\"");
    tn__text_put(text, "]");
}

static void claims_one(const tn_claim *claim, tn__text *text) {
    tn__text_put(text, "{\"techniques\":");
    claims_list(claim->techniques, text);
    tn__text_printf(text, ",\"verdict\":\"%s\"", tn_claim_kind_name(claim->kind));
    if (claim->bytes > 0) tn__text_printf(text, ",\"bytes\":%" PRIu64, claim->bytes);
    if (claim->time > 0) tn__text_printf(text, ",\"time\":%" PRIu64, claim->time);
    if (claim->bytes_bound > 0)
        tn__text_printf(text, ",\"bytes_bound\":%" PRIu64, claim->bytes_bound);
    if (claim->why[0] != '\0') {
        tn__text_put(text, ",\"why\":");
        tn__text_json(text, claim->why);
    }
    tn__text_put(text, "}");
}

void cli_claims_json(const tn_fit_answer *answer, tn__text *text) {
    if (answer->own == NULL) return;
    tn__text_put(text, ",\"scope\":");
    claims_list(answer->allowed, text);
    tn__text_put(text, ",\"claims\":[");
    for (uint32_t i = 0; i < answer->claim_count; i++) {
        if (i > 0) tn__text_put(text, ",");
        claims_one(&answer->claims[i], text);
    }
    tn__text_put(text, "],\"not_tried\":");
    claims_list(tn_fit_answer_not_tried(answer), text);
    tn__text_put(text, ",\"would_fit\":[");
    for (uint32_t i = 0; i < answer->hint_count; i++) {
        const tn_hint *hint = &answer->hints[i];
        tn__text_put(text, i > 0 ? ",{\"with\":" : "{\"with\":");
        claims_list(hint->techniques, text);
        tn__text_printf(text, ",\"within_budget\":%s,\"bytes\":%" PRIu64,
                        hint->fits ? "true" : "false", hint->bytes);
        if (hint->more_time >= 0) tn__text_printf(text, ",\"more_time\":%.6g", hint->more_time);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
}

/* The members that describe claims in the JSON object of a failed command. */
static void claims_refused_json(const tn_fit_answer *answer, const char *input, bool proved,
                                tn__text *text) {
    tn__text_put(text, ",\"input\":");
    tn__text_json(text, input);
    tn__text_printf(text, ",\"fits\":false,\"proved\":%s,\"budget\":%" PRIu64,
                    proved ? "true" : "false", answer->budget);
    if (answer->least != NULL)
        tn__text_printf(text, ",\"least_bytes\":%" PRIu64, tn_setup_need(answer->least).total);
    cli_claims_json(answer, text);
}

static void claims_put_hints(const tn_fit_answer *answer) {
    char words[TN_TECHNIQUES_TEXT];
    for (uint32_t i = 0; i < answer->hint_count; i++) {
        const tn_hint *hint = &answer->hints[i];
        cli_prefix(CLI_NOTE);
        fprintf(stderr, "%s: --budget %" PRIu64 " --allow %s\n",
                hint->fits ? "would fit" : "fits with a larger budget",
                hint->fits ? answer->budget : hint->bytes,
                tn_techniques_text(answer->allowed | hint->techniques, words));
    }
}

int cli_claims_fail(const tn_fit_answer *answer, const char *input, const tn_error *error) {
    tn__text text;
    bool refused = error->status == TN_E_INFEASIBLE || error->status == TN_E_EXHAUSTED;
    if (!refused || answer->own == NULL) return cli_fail(error);
    tn__text_init(&text, NULL);
    claims_refused_json(answer, input, error->status == TN_E_INFEASIBLE, &text);
    int code = cli_fail_with(error, text.failed ? NULL : text.data);
    tn__text_release(&text);
    if (!cli_tone_asked().json) claims_put_hints(answer);
    return code;
}
