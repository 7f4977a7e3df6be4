/* claim.c - writes claims and hints as sentences.
 *
 * A claim states whether one set of techniques fits a graph into its budget. If none does, this
 * file writes the error message: the techniques that were considered and those that were not tried,
 * whether the refusal is proved, and hints that would fit. The searches return facts and no message
 * (fit/budget/refusal.h), so this message is the only one that tn_fit_graph gives for a refusal. An
 * exception is one rank of several: its message comes from the compile stage FIT.
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

/* Returns the techniques that no search of the answer tried. TN_FIT_LOSSY counts as tried, because
 * lossy compression is no technique of its own: it is compression with fewer limits. */
uint32_t tn_fit_answer_not_tried(const tn_fit_answer *answer) {
    uint32_t tried = TN_FIT_LOSSY, all = 0;
    for (size_t i = 0; i < CLAIM_WORDS; i++) all |= claim_words[i].technique;
    for (uint32_t i = 0; i < answer->claim_count; i++)
        if (answer->claims[i].kind != TN_CLAIM_NOT_TRIED) tried |= answer->claims[i].techniques;
    return all & ~tried;
}

/* --- the sentence of a refusal --- */

/* Collects the facts of all claims in *refusal. Its bound is that of the last claim that has a
 * bound, which is the claim with the most techniques; the claim of the unchanged plan gives no
 * bound. */
static void claim_read(const tn_fit_answer *answer, tn__ended ended, tn__refusal *refusal) {
    *refusal = (tn__refusal){.ruled = answer->ruled,
                             .budget = answer->budget,
                             .host_budget = answer->host_budget,
                             .of = answer->apart > 0 ? " of arena" : NULL,
                             .ended = ended};
    for (uint32_t i = 0; i < answer->claim_count; i++) {
        const tn_claim *claim = &answer->claims[i];
        if (claim->kind == TN_CLAIM_NOT_TRIED) continue;
        refusal->techniques |= claim->techniques;
        if (claim->bytes > 0 && (refusal->least == 0 || claim->bytes < refusal->least))
            refusal->least = claim->bytes;
        if (claim->techniques == 0 || claim->bytes_bound == 0) continue;
        refusal->bound = claim->bytes_bound;
        refusal->bound_of = claim->techniques;
    }
    if (refusal->bound_of == refusal->techniques) refusal->bound_of = 0;
    if (answer->detail[0] != '\0')
        snprintf(refusal->step, sizeof refusal->step, "%.255s", answer->detail);
}

/* Appends the text of a hint if the message stays below `room` bytes; returns false if it does
 * not. */
static bool claim_put_hint(const tn_fit_answer *answer, const tn_hint *hint, size_t room,
                           tn__text *text) {
    char size[TN_SIZE_TEXT_MAX], words[TN_TECHNIQUES_TEXT];
    const size_t before = text->size;
    const uint32_t allow = (answer->allowed | hint->techniques) & ~(uint32_t)TN_FIT_LOSSY;
    const tn__graph_own *own = answer->own;
    const bool frees = own->keeps && (hint->techniques & TN__FIT_PROGRAM) != 0;
    tn__text_printf(text, ". %s `allow` %s%s%s", frees ? "Without `pass` none, with" : "With",
                    tn_techniques_text(allow, words), hint->fits ? ": " : " the least found takes ",
                    tn_size_format(hint->bytes, size));
    if (hint->more_time >= 0) tn__text_printf(text, ", %+.1f %% time", 100 * hint->more_time);
    if (text->failed || text->size < room) return true;
    text->size = before;
    text->data[before] = '\0';
    return false;
}

/* Writes the message with all hints; returns false if a hint did not fit into `room` bytes. */
static bool claim_write(const tn_fit_answer *answer, const tn__refusal *refusal, tn_status status,
                        size_t room, tn__text *text) {
    char sentence[TN__REFUSAL_TEXT], words[TN_TECHNIQUES_TEXT];
    const uint32_t not_tried = tn_fit_answer_not_tried(answer);
    bool all = true;
    tn__text_put(text, tn__refusal_text(refusal, status, sentence));
    if (not_tried != 0)
        tn__text_printf(text, ". Not tried: %s", tn_techniques_text(not_tried, words));
    for (uint32_t i = 0; i < answer->hint_count; i++)
        all = claim_put_hint(answer, &answer->hints[i], room, text) && all;
    return all && text->size < room;
}

/* If the message is too long, it is written again without the lower bound: hints and the name of
 * the operator that needs too much memory are more useful, and the bound is also in the claims. */
tn_status tn__claim_fail(const tn_fit_answer *answer, tn_status status, tn__ended ended,
                         const tn_context *context, tn_error *error) {
    const size_t room = sizeof error->message;
    tn__refusal refusal;
    tn__text text;
    tn__text_init(&text, context);
    claim_read(answer, ended, &refusal);
    if (!claim_write(answer, &refusal, status, room, &text) && refusal.bound > 0) {
        tn__text_release(&text);
        tn__text_init(&text, context);
        refusal.bound = 0;
        claim_write(answer, &refusal, status, room, &text);
    }
    if (text.failed) {
        tn__text_release(&text);
        return tn__no_memory(error, "a claim");
    }
    tn_status failed = tn__fail(error, status, "%s", text.data);
    tn__text_release(&text);
    return failed;
}
