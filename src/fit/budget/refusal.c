/* refusal.c - writes the sentence about a budget that is not kept. It names the programs that were
 * considered (its scope, such as "no program that reorders and recomputes whole operators"),
 * whether the refusal is proved, and the smallest program that was found. A proof holds only for
 * the allowed techniques, so every proof is reported with its scope. */
#include "fit/budget/refusal.h"

#include <tenure/fit.h>

#include <stdio.h>

static const struct {
    uint32_t technique;
    const char *verb;
} refusal_verbs[] = {{TN_FIT_ORDER, "reorders"},
                     {TN_FIT_RECOMPUTE, "recomputes"},
                     {TN_FIT_SWAP, "swaps"},
                     {TN_FIT_COMPRESS, "encodes"},
                     {TN_FIT_SPLIT, "splits operators"},
                     {TN_FIT_STREAM, "streams weights"}};
#define REFUSAL_SCOPE 128
#define REFUSAL_VERBS (sizeof refusal_verbs / sizeof *refusal_verbs)

/* Writes the scope of a statement: the words `of` ("no program" or "none"), followed by "that
 * reorders and recomputes ..." for the techniques. */
static const char *refusal_scope(const char *of, uint32_t techniques, char text[REFUSAL_SCOPE]) {
    const uint32_t whole = TN_FIT_ORDER | TN_FIT_RECOMPUTE;
    size_t used = (size_t)snprintf(text, REFUSAL_SCOPE, "%s", of);
    uint32_t count = 0, done = 0;
    for (size_t i = 0; i < REFUSAL_VERBS; i++)
        count += (techniques & refusal_verbs[i].technique) != 0;
    for (size_t i = 0; i < REFUSAL_VERBS; i++) {
        if ((techniques & refusal_verbs[i].technique) == 0) continue;
        const char *before = done == 0 ? " that " : done + 1 == count ? " and " : ", ";
        used += (size_t)snprintf(text + used, REFUSAL_SCOPE - used, "%s%s", before,
                                 refusal_verbs[i].verb);
        done++;
    }
    if ((techniques & whole) != 0 && (techniques & ~whole) == 0)
        snprintf(text + used, REFUSAL_SCOPE - used, " whole operators");
    return text;
}

/* Formats bytes as "4.0 MiB (4,194,304 bytes)", followed by it->of (" of arena", or nothing). */
static const char *refusal_size(const tn__refusal *it, uint64_t bytes,
                                char text[TN_SIZE_TEXT_MAX + 16]) {
    char size[TN_SIZE_TEXT_MAX];
    snprintf(text, TN_SIZE_TEXT_MAX + 16, "%s%s", tn_size_format(bytes, size),
             it->of != NULL ? it->of : "");
    return text;
}

/* Writes the numbers of a refusal: the smallest size found, the lower bound with its scope, and the
 * step that needs the most memory. */
static void refusal_numbers(const tn__refusal *it, bool proved, char *text, size_t room) {
    char least[TN_SIZE_TEXT_MAX + 16], bound[TN_SIZE_TEXT_MAX + 16], scope[REFUSAL_SCOPE];
    const bool plain = it->techniques == 0, found = it->least > 0;
    const bool bounded = it->bound > 0 && !proved;
    if (found) refusal_size(it, it->least, least);
    if (bounded) refusal_size(it, it->bound, bound);
    size_t used = 0;
    text[0] = '\0';
    if (found)
        used += (size_t)snprintf(text, room, "; %s %s",
                                 plain ? "it takes" : "the least found takes", least);
    if (bounded)
        used += (size_t)snprintf(text + used, room - used, "%s %s takes less than %s",
                                 found ? ", and" : ";", refusal_scope("none", it->bound_of, scope),
                                 bound);
    if (it->step[0] != '\0') snprintf(text + used, room - used, "; %s", it->step);
}

static const char *refusal_ended(tn__ended ended) {
    return ended == TN__ENDED_CALLER ? "interrupted: "
           : ended == TN__ENDED_TIME ? "time was up: "
                                     : "a limit ended the search: ";
}

const char *tn__refusal_text(const tn__refusal *it, tn_status status, char text[TN__REFUSAL_TEXT]) {
    char scope[REFUSAL_SCOPE], budget[TN_SIZE_TEXT_MAX + 16], host[TN_SIZE_TEXT_MAX];
    char numbers[4 * TN_SIZE_TEXT_MAX + REFUSAL_SCOPE + sizeof it->step];
    const bool proved = status == TN_E_INFEASIBLE, limited = it->host_budget > 0;
    const char *fits = proved ? "fits in" : "was found that fits in";
    refusal_scope("no program", it->techniques, scope);
    if (it->techniques == 0) {
        snprintf(scope, sizeof scope, "%s",
                 proved && it->ruled ? "no plan of this order, changed only by the rules,"
                 : proved            ? "no plan of this order, without changes,"
                 : it->ruled         ? "the plan that was found for this order and the rules"
                                     : "the plan that was found for this order");
        if (!proved) fits = "does not fit in";
    }
    refusal_numbers(it, proved, numbers, sizeof numbers);
    snprintf(text, TN__REFUSAL_TEXT, "%s%s%s %s %s%s%s%s%s%s",
             status == TN_E_STOPPED ? refusal_ended(it->ended) : "", scope,
             it->ruled && it->techniques != 0 ? " and obeys the rules" : "", fits,
             refusal_size(it, it->budget, budget), limited ? " with no more than " : "",
             limited ? tn_size_format(it->host_budget, host) : "", limited ? " on the host" : "",
             proved ? ": that is proved" : "", numbers);
    return text;
}

tn_status tn__refusal_fail(const tn__refusal *refusal, tn_status status, tn_error *error) {
    char text[TN__REFUSAL_TEXT];
    if (status == TN_OK || refusal->budget == 0) return status;
    return tn__fail(error, status, "%s", tn__refusal_text(refusal, status, text));
}
