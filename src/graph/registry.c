/* registry.c - finds the rule of an operator in the families listed in ops.def, each a sorted
 * table.
 *
 * Nothing is built at start-up: a look-up halves the table of each family of the domain. A graph
 * looks up each operator once and caches its last types, so the cost depends on the number of
 * different types. Cost of a look-up: families x log2(rules of a family) comparisons.
 */
#include "graph/store.h"

#define TN_FAMILY(folder, name) extern const tn_op_family tn__ops_##name;
#include "graph/ops.def"
#undef TN_FAMILY

static const tn_op_family *const registry_families[] = {
#define TN_FAMILY(folder, name) &tn__ops_##name,
#include "graph/ops.def"
#undef TN_FAMILY
};
#define REGISTRY_COUNT (sizeof registry_families / sizeof *registry_families)

static const tn_op_rule *registry_search(const tn_op_family *family, const char *type) {
    uint32_t low = 0, high = family->rule_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(family->rules[middle].type, type);
        if (order == 0) return &family->rules[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const tn_op_rule *tn__op_rule(const char *domain, const char *type) {
    if (!strcmp(domain, "ai.onnx")) domain = ""; /* the default domain has two spellings */
    for (size_t i = 0; i < REGISTRY_COUNT; i++) {
        const tn_op_family *family = registry_families[i];
        if (strcmp(family->domain, domain)) continue;
        const tn_op_rule *rule = registry_search(family, type);
        if (rule) return rule;
    }
    for (size_t i = 0; i < REGISTRY_COUNT; i++) {
        const tn_op_family *family = registry_families[i];
        if (!family->match || strcmp(family->domain, domain)) continue;
        const tn_op_rule *rule = family->match(type);
        if (rule) return rule;
    }
    return NULL;
}

const tn_op_rule *tn__rule_of(const tn_graph *graph, tn_op_id id) { return graph->rules[id]; }

bool tn__op_has(const tn_graph *graph, tn_op_id id, uint32_t flags) {
    const tn_op_rule *rule = graph->rules[id];
    return rule && (rule->flags & flags);
}

/* Whether a Dropout is in training mode, or may be, and has no seed of its own. */
static bool registry_drops(const tn_graph *graph, const tn_op *op) {
    bool biased = strcmp(op->domain, "com.microsoft") == 0 && strcmp(op->type, "BiasDropout") == 0;
    uint32_t mode = biased ? 4 : 2;
    if (!biased && !tn__op_is(op, "Dropout")) return false;
    if (op->input_count <= mode || op->inputs[mode] == TN_NONE) return false;
    if (tn__attr(op, "seed") != NULL) return false;
    const tn_value *value = graph->tensors[op->inputs[mode]].value;
    return value == NULL || value->ints == NULL || value->count != 1 || value->ints[0] != 0;
}

bool tn__draws(const tn_graph *graph, const tn_op *op, const tn_op_rule *rule) {
    /* operators of other domains have this flag only because they are never folded or repeated */
    bool onnx = op->domain[0] == '\0' || strcmp(op->domain, "ai.onnx") == 0;
    bool random = onnx && rule != NULL && (rule->flags & TN_RULE_RANDOM) != 0;
    return random || registry_drops(graph, op);
}

bool tn__op_draws(const tn_graph *graph, tn_op_id id) {
    return tn__draws(graph, tn_graph_op(graph, id), graph->rules[id]);
}

uint64_t tn__op_statistics(const tn_graph *graph, tn_op_id id) {
    const tn_op_rule *rule = graph->rules[id];
    return rule ? rule->weights & rule->no_gradient : 0;
}

bool tn__op_is(const tn_op *op, const char *type) {
    static const char own[] = "tenure.";
    if (!strncmp(type, own, sizeof own - 1))
        return !strcmp(op->domain, "tenure") && !strcmp(op->type, type + sizeof own - 1);
    return (!*op->domain || !strcmp(op->domain, "ai.onnx")) && !strcmp(op->type, type);
}

bool tn__op_is_contrib(const tn_op *op, const char *type) {
    return tn__op_is(op, type) || (!strcmp(op->domain, "com.microsoft") && !strcmp(op->type, type));
}

uint32_t tn_op_rule_count(void) {
    uint32_t count = 0;
    for (size_t i = 0; i < REGISTRY_COUNT; i++) count += registry_families[i]->rule_count;
    return count;
}

/* Returns the rule at position `index` if all rules are sorted by domain and type. It merges the
 * sorted tables again at each call, because only listings use it. */
static const tn_op_rule *registry_at(uint32_t index, const tn_op_family **owner) {
    uint32_t next[REGISTRY_COUNT] = {0};
    for (uint32_t step = 0;; step++) {
        size_t best = REGISTRY_COUNT;
        for (size_t i = 0; i < REGISTRY_COUNT; i++) {
            const tn_op_family *family = registry_families[i];
            if (next[i] == family->rule_count) continue;
            int order = best == REGISTRY_COUNT
                            ? -1
                            : strcmp(family->domain, registry_families[best]->domain);
            if (!order)
                order = strcmp(family->rules[next[i]].type,
                               registry_families[best]->rules[next[best]].type);
            if (order < 0) best = i;
        }
        if (best == REGISTRY_COUNT) return NULL;
        *owner = registry_families[best];
        if (step == index) return &registry_families[best]->rules[next[best]];
        next[best]++;
    }
}

const char *tn_op_rule_type(uint32_t index) {
    const tn_op_family *family;
    const tn_op_rule *rule = registry_at(index, &family);
    return rule ? rule->type : NULL;
}

bool tn_op_rule_has_gradient(uint32_t index) {
    const tn_op_family *family;
    const tn_op_rule *rule = registry_at(index, &family);
    return rule && (rule->gradient || rule->decompose);
}

bool tn_op_rule_has_split(uint32_t index) {
    const tn_op_family *family;
    const tn_op_rule *rule = registry_at(index, &family);
    return rule && rule->split;
}

const char *tn_op_rule_domain(uint32_t index) {
    const tn_op_family *family;
    return registry_at(index, &family) ? family->domain : NULL;
}
