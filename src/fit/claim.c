/* claim.c - writes claims and hints as sentences.
 *
 * A sentence about a graph that does not fit names the techniques considered and those not
 * tried, says whether this is proved, and gives hints that would fit. So it is correct even if
 * it is read alone.
 */
#include "fit/frame.h"

#include <stdio.h>
#include <string.h>

static const struct {
    uint32_t technique;
    const char *word;
} claim_words[] = {{TN_FIT_ORDER, "order"},  {TN_FIT_RECOMPUTE, "recompute"},
                   {TN_FIT_SWAP, "swap"},    {TN_FIT_COMPRESS, "compress"},
                   {TN_FIT_LOSSY, "lossy"},  {TN_FIT_SPLIT, "split"},
                   {TN_FIT_STREAM, "stream"}};
#define CLAIM_WORDS (sizeof claim_words / sizeof *claim_words)

const char *tn_claim_kind_name(tn_claim_kind kind) {
    static const char *const names[TN_CLAIM_COUNT] = {"fits", "infeasible", "not_found", "stopped",
                                                      "not_tried"};
    return kind < TN_CLAIM_COUNT ? names[kind] : "";
}

const char *tn_techniques_text(uint32_t techniques, char text[TN_TECHNIQUES_TEXT]) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < CLAIM_WORDS; i++) {
        if ((techniques & claim_words[i].technique) == 0) continue;
        int more = snprintf(text + used, TN_TECHNIQUES_TEXT - used, "%s%s", used > 0 ? "," : "",
                            claim_words[i].word);
        used += (size_t)more;
    }
    return text;
}

/* Lossy compression is lossless compression with fewer limits, not another technique. */
uint32_t tn_fit_answer_not_tried(const tn_fit_answer *answer) {
    uint32_t tried = TN_FIT_LOSSY, all = 0;
    for (size_t i = 0; i < CLAIM_WORDS; i++) all |= claim_words[i].technique;
    for (uint32_t i = 0; i < answer->claim_count; i++)
        if (answer->claims[i].kind != TN_CLAIM_NOT_TRIED) tried |= answer->claims[i].techniques;
    return all & ~tried;
}

/* --- the sentence of a refusal --- */

static void claim_put_hints(const tn_fit_answer *answer, tn__text *text) {
    char size[TN_SIZE_TEXT_MAX], words[TN_TECHNIQUES_TEXT];
    for (uint32_t i = 0; i < answer->hint_count; i++) {
        const tn_hint *hint = &answer->hints[i];
        tn__text_printf(text, ". With %s%s%s", tn_techniques_text(hint->techniques, words),
                        hint->fits ? ": " : " the least found takes ",
                        tn_size_format(hint->bytes, size));
        if (hint->more_time >= 0) tn__text_printf(text, ", %+.1f %% time", 100 * hint->more_time);
    }
}

/* "4.0 MiB (4,194,304 bytes)", and whether the arena alone is meant. */
static void claim_put_size(const tn_fit_answer *answer, uint64_t bytes, bool whole,
                           tn__text *text) {
    char size[TN_SIZE_TEXT_MAX];
    if (whole && answer->apart > 0) bytes -= answer->apart < bytes ? answer->apart : bytes;
    tn__text_printf(text, "%s%s", tn_size_format(bytes, size),
                    answer->apart > 0 ? " of arena" : "");
}

static void claim_put_rest(const tn_fit_answer *answer, tn__text *text) {
    char words[TN_TECHNIQUES_TEXT];
    uint32_t not_tried = tn_fit_answer_not_tried(answer);
    if (not_tried != 0)
        tn__text_printf(text, ". Not tried: %s", tn_techniques_text(not_tried, words));
    claim_put_hints(answer, text);
}

static void claim_put(const tn_fit_answer *answer, bool proved, const char *ended, tn__text *text) {
    char scope[TN__SCOPE_TEXT], size[TN_SIZE_TEXT_MAX];
    uint32_t tried = 0;
    for (uint32_t i = 0; i < answer->claim_count; i++)
        if (answer->claims[i].kind != TN_CLAIM_NOT_TRIED) tried |= answer->claims[i].techniques;
    if (tried == 0) {
        tn__text_put(text, proved ? "no plan of this order, without changes, fits in "
                                  : "the plan that was found for this order does not fit in ");
        claim_put_size(answer, answer->budget, false, text);
        tn__text_put(text, proved ? ": that is proved; it takes " : "; it takes ");
        claim_put_size(answer, tn_setup_need(answer->whole).total, true, text);
        claim_put_rest(answer, text);
        return;
    }
    tn__fit_scope(tried, scope);
    if (ended != NULL) tn__text_printf(text, "%s: ", ended);
    tn__text_printf(text, "%s %s in ", scope, proved ? "fits" : "was found that fits");
    claim_put_size(answer, answer->budget, false, text);
    if (answer->host_budget > 0)
        tn__text_printf(text, " with no more than %s on the host",
                        tn_size_format(answer->host_budget, size));
    if (proved) tn__text_put(text, ": that is proved");
    if (answer->detail[0] != '\0')
        tn__text_printf(text, "; %s", answer->detail);
    else if (answer->least != NULL) {
        tn__text_put(text, "; the least found takes ");
        claim_put_size(answer, tn_setup_need(answer->least).total, true, text);
    }
    claim_put_rest(answer, text);
}

tn_status tn__claim_fail(const tn_fit_answer *answer, tn_status status, const char *ended,
                         const tn_context *context, tn_error *error) {
    tn__text text;
    tn__text_init(&text, context);
    claim_put(answer, status == TN_E_INFEASIBLE, status == TN_E_STOPPED ? ended : NULL, &text);
    if (text.failed) {
        tn__text_release(&text);
        return tn__no_memory(error, "a claim");
    }
    tn_status told = tn__fail(error, status, "%s", text.data);
    tn__text_release(&text);
    return told;
}
