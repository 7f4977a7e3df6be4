/* fit_scope.c - describes the scope of a statement: "no program that reorders and recomputes whole
 * operators". A proof holds only for the allowed techniques, so every proof is reported with this
 * scope. */
#include "budget/fit.h"

#include <stdio.h>

static const struct {
    uint32_t technique;
    const char *verb;
} scope_verbs[] = {{TN_FIT_ORDER, "reorders"},
                   {TN_FIT_RECOMPUTE, "recomputes"},
                   {TN_FIT_SWAP, "swaps"},
                   {TN_FIT_COMPRESS, "encodes"},
                   {TN_FIT_SPLIT, "splits operators"},
                   {TN_FIT_STREAM, "streams weights"}};
#define SCOPE_VERBS (sizeof scope_verbs / sizeof *scope_verbs)

const char *tn__fit_scope(uint32_t techniques, char text[TN__SCOPE_TEXT]) {
    const uint32_t whole = TN_FIT_ORDER | TN_FIT_RECOMPUTE;
    size_t used = (size_t)snprintf(text, TN__SCOPE_TEXT, "no program");
    uint32_t count = 0, done = 0;
    for (size_t i = 0; i < SCOPE_VERBS; i++) count += (techniques & scope_verbs[i].technique) != 0;
    for (size_t i = 0; i < SCOPE_VERBS; i++) {
        if ((techniques & scope_verbs[i].technique) == 0) continue;
        const char *before = done == 0 ? " that " : done + 1 == count ? " and " : ", ";
        used += (size_t)snprintf(text + used, TN__SCOPE_TEXT - used, "%s%s", before,
                                 scope_verbs[i].verb);
        done++;
    }
    if ((techniques & whole) != 0 && (techniques & ~whole) == 0)
        snprintf(text + used, TN__SCOPE_TEXT - used, " whole operators");
    return text;
}
