/* rules.h - the rules of the user (tenure/rules.h) as a work: a value that a rule concerns becomes
 * two values, one for its early readers and one for its late ones. */
#ifndef TN_BUDGET_RULES_H
#define TN_BUDGET_RULES_H

#include <tenure/program.h>
#include <tenure/rules.h>

#include "fit/budget/work.h"

typedef struct tn__ruled_job {
    uint8_t kind;  /* tn__act_kind: RUN, OUT, SETTLE or IN */
    uint32_t what; /* RUN: job of the original work; else value */
} tn__ruled_job;

/* A work that obeys rules, and how its jobs and values correspond to those of the original work. */
typedef struct tn__ruled {
    tn__work work;
    tn__ruled_job *jobs;    /* [work.job_count] */
    uint32_t *values;       /* [work.value_count] value of the original work */
    uint32_t again, copied; /* operators that run again, values that are swapped */
} tn__ruled;

/* Whether there are any rules. */
bool tn__rules_any(const tn_rules *rules);
/* False for a stage of a pipeline: other stages have the operators that some rules name. */
bool tn__rules_are_strict(const tn_program *program);
/* Applies rules to a work; the result shares nothing with it.
 *
 * strict   refuse rules that change nothing here: for the first order of a whole program
 * explain  NULL, or called with a line for each tensor that a rule changes
 * Errors: E_INVALID (tn_fit has the reasons), E_NO_MEMORY.
 * Cost: O((jobs + operands) log jobs + jobs * rules). */
tn_status tn__rules_apply(const tn_rules *rules, const tn_graph *graph, const tn__work *work,
                          bool strict, void (*explain)(void *self, const char *line),
                          void *explain_self, tn__arena *arena, tn__ruled *ruled, tn_error *error);
/* Translates a schedule of the ruled work to one of the original work; `to` is initialised. */
tn_status tn__rules_schedule(const tn__ruled *ruled, const tn__schedule *from, tn__schedule *to,
                             tn_error *error);
/* Describes rule `index` for a message: "keep 'type:Relu'"; count: the segments. */
#define TN__RULE_TEXT 128
const char *tn__rule_text(const tn_rules *rules, uint32_t index, char text[TN__RULE_TEXT]);

#endif
