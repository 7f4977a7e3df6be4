/* rules_build.h - the decisions that follow from the rules, for rules_build.c. */
#ifndef TN_BUDGET_RULES_BUILD_H
#define TN_BUDGET_RULES_BUILD_H

#include "fit/budget/rules.h"

typedef enum tn__ruled_how {
    TN__RULED_NOT,
    TN__RULED_KEEP,
    TN__RULED_AGAIN,
    TN__RULED_SWAP
} tn__ruled_how;

/* Jobs of the original work; in 0: the value is not swapped. */
typedef struct tn__ruled_swap {
    uint32_t leave;  /* the last early reader: the copy starts after it */
    uint32_t settle; /* this job waits until the copy is done */
    uint32_t in;     /* the copy back starts before this job */
} tn__ruled_swap;

typedef struct tn__rules_state {
    tn_rules rules;
    const tn_graph *graph;
    const tn__work *work;
    const tn_context *context;
    tn__arena *arena;
    void (*explain)(void *self, const char *line);
    void *explain_self;
    uint32_t *rule;        /* [jobs] the last rule that matches; TN_NONE */
    uint32_t *turn;        /* [jobs] the next job of a backward pass after it; TN_NONE */
    bool *is_backward;     /* [jobs] makes a gradient */
    uint8_t *how;          /* [jobs] tn__ruled_how */
    uint32_t *at;          /* [jobs] AGAIN: it runs again before this job */
    tn__ruled_swap *swaps; /* [values] */
    bool trains;           /* there is a backward pass */
    bool strict;           /* refuse rules that match or change nothing */
    tn_error *error;
} tn__rules_state;

/* Writes the work that obeys the decisions. Errors: E_NO_MEMORY, those of tn__work_make (which
 * would be a mistake of ours). Cost: O((jobs + operands) log jobs). */
tn_status tn__rules_build(tn__rules_state *s, tn__ruled *ruled);

#endif
