/* rules.h - rules of the user about tensors: keep, recompute or swap the results of operators that
 * match a pattern, or recompute whole segments of a training step.
 *
 *     // ... graph: of tn_graph_load
 *     tn_rule list[] = {{"type:Relu", TN_RULE_RECOMPUTE, 0}, {"encoder*", TN_RULE_SWAP, 4}};
 *     tn_rules rules = TN_RULES_INIT;
 *     tn_setup_options options = TN_SETUP_OPTIONS_INIT;
 *     tn_setup *setup;
 *     rules.list = list;
 *     rules.count = 2;
 *     options.rules = &rules; // also obeyed by options.fit, and by tn_fit_graph
 *     tn_status status = tn_setup_create(graph, &options, &setup, &error);
 *     if (status == TN_OK) tn_setup_destroy(setup);
 *
 * One structure describes the rules once: tn_setup_options, tn_fit_options and
 * tn_recompute_options refer to it. A search within a budget decides about all other tensors.
 *
 * The early readers of a tensor are separated from the late ones. In a training step, late readers
 * belong to the backward pass. Otherwise the longest time without a reader separates them; time is
 * counted in operators. A tensor without late readers is left alone.
 */
#ifndef TENURE_RULES_H
#define TENURE_RULES_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tn_rule_kind {
    TN_RULE_KEEP,      /* never recomputed, swapped or encoded */
    TN_RULE_RECOMPUTE, /* released after the last early reader, recomputed before the first late
                        * one. Sources that were released are recomputed first */
    TN_RULE_SWAP,      /* copied to the host after the last early reader, and back */
    TN_RULE_COUNT
} tn_rule_kind;
TN_API const char *tn_rule_kind_name(tn_rule_kind kind); /* "keep", "recompute", "swap" */

typedef struct tn_rule {
    const char *pattern; /* of operator names, or of operator types after "type:"; * and ? match
                          * any characters, and any one character */
    tn_rule_kind kind;
    uint32_t prefetch; /* SWAP: the copy back starts this many operators before the first late
                        * reader; 0: one operator */
} tn_rule;

typedef struct tn_rules {
    size_t struct_size;
    const tn_rule *list; /* [count] */
    uint32_t count;
    /* The operators of the forward pass form this many segments of equal length. In all but the
     * last segment, results that only their own segment and the backward pass read are recomputed,
     * unless a rule of the list matches the operator. 0: no segments */
    uint32_t segments;
} tn_rules;
#define TN_RULES_INIT TN_INIT(tn_rules, TN_SET(struct_size, sizeof(tn_rules)))

#ifdef __cplusplus
}
#endif
#endif
