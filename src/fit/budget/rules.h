/* rules.h - the rules of the user (tenure/fit.h) as a schedule graph: a value that a rule
 * concerns becomes two values, one for its early readers and one for its late ones. */
#ifndef TN_BUDGET_RULES_H
#define TN_BUDGET_RULES_H

#include <tenure/fit.h>
#include <tenure/program.h>

#include "fit/budget/schedule/schedule_graph.h"

typedef struct tn__ruled_job {
    uint8_t kind;  /* kind of the action (tn__action_kind): RUN, OUT, SETTLE or IN */
    uint32_t what; /* for RUN the job of the original schedule graph, otherwise a value of it */
} tn__ruled_job;

/* A schedule graph that obeys the rules of the user, and the job and value of the original schedule
 * graph for each of its jobs and values. */
typedef struct tn__ruled {
    tn__dag dag;
    /* [dag.job_count] the action of the original schedule graph that each job stands for */
    tn__ruled_job *jobs;
    uint32_t *values; /* [dag.value_count] the value of the original schedule graph */
    /* number of operators that run again because of a rule, and of values that are swapped */
    uint32_t recompute, copied;
} tn__ruled;

/* Whether the user gave any rules. */
bool tn__rules_any(const tn_rules *rules);
/* Returns the kind of the rule that matches an operator; TN_RULE_COUNT: no rule of the list does.
 * For operators about which the division of a program decides (TN_RULE_GATHERED). */
tn_rule_kind tn__rules_of(const tn_rules *rules, const tn_graph *graph, tn_op_id op);
/* Whether an operator belongs to a backward pass: it makes a gradient. */
bool tn__rules_is_backward(const tn_graph *graph, tn_op_id op);
/* Whether a rule that matches or changes nothing is an error. Returns false for a stage of a
 * pipeline, because the operators that a rule names may belong to other stages. */
bool tn__rules_are_strict(const tn_program *program);
/* Applies rules to a schedule graph, and writes a new one that obeys them. The new schedule graph
 * shares no memory with the old one.
 *
 * strict   refuse rules that change nothing here; set for the first order of a whole program
 * explain  NULL, or a function that is called with a line for each tensor that a rule changes
 * Errors: E_INVALID (tn_fit has the reasons), E_NO_MEMORY.
 * Cost: O((jobs + operands) log jobs + jobs * rules).
 */
tn_status tn__rules_apply(const tn_rules *rules, const tn_graph *graph, const tn__dag *dag,
                          bool strict, void (*explain)(void *self, const char *line),
                          void *explain_self, tn__arena *arena, tn__ruled *ruled, tn_error *error);
/* Translates a schedule of the schedule graph that obeys the rules into one of the original
 * schedule graph. `to` must be initialised; its actions are replaced. */
tn_status tn__rules_schedule(const tn__ruled *ruled, const tn__schedule *from, tn__schedule *to,
                             tn_error *error);
/* Describes rule `index` for a message, for example "keep 'type:Relu'"; if `index` is rules->count,
 * the number of segments. */
#define TN__RULE_TEXT 128
const char *tn__rule_text(const tn_rules *rules, uint32_t index, char text[TN__RULE_TEXT]);

#endif
