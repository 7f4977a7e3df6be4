/* problem_read.c - reads JSON of operators and values with jansson, in one of two forms.
 *
 *     {"cpu": [3, 1, 4], "ram": [10, 10, 1], "edges": [[0, 1], [1, 2]]}
 *
 * Operator i costs cpu[i] and makes one value of ram[i] bytes; an edge [u, v] means that v reads
 * the value of u. Instances of Checkmate's problem are written in this form.
 *
 *     {"values": [{"bytes": 64, "name": "x", "kept": true, "held": true}, ...],
 *      "operators": [{"cost": 3, "inputs": [0], "outputs": [1, 2], "recompute_cost": 3,
 *                     "scratch": 0, "repeats": true, "after": [0], "inplace": 0,
 *                     "name": "conv"}, ...]}
 *
 * `bytes` and `cost` are required. A value without a maker exists from the start; a kept one is
 * live at the end; a held one is never evicted. `recompute_cost`: cost of a repeat; `after`:
 * operators that must have run before; `inplace`: an input that the first output overwrites if it
 * is not read later. Other members are ignored; null is the same as absent. Cost: O(bytes) time
 * and memory.
 */
#include "fit/budget/problem.h"

#ifdef TENURE_MINIMAL
tn_status tn__nodes_read(tn__nodes *it, const void *bytes, size_t size) {
    (void)bytes, (void)size;
    TN_FAIL(it->error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", it->file);
}
#else
#include "base/json.h"

#include <tenure/costs.h>

typedef struct problem_reading {
    tn__nodes *nodes;
    const char *list; /* the current element, for messages: list[index] */
    size_t index;
    uint32_t *seen; /* [values or operators] 1 + the last list that contains it */
    uint32_t lists;
} problem_reading;

static tn_status problem_fail(const problem_reading *s, const char *what) {
    tn_error *error = s->nodes->error;
    tn_status status = tn__fail(error, TN_E_INVALID, "%s", what);
    return tn__where(error, status, "%s: %s[%zu]", s->nodes->file, s->list, s->index);
}

static tn_status problem_read_no_memory(const problem_reading *s) {
    return tn__no_memory(s->nodes->error, "a problem");
}

/* --- members --- */

static const json_t *problem_member(const json_t *object, const char *member) {
    const json_t *found = json_object_get(object, member);
    return found != NULL && json_is_null(found) ? NULL : found;
}

/* An integer from 0 to `most`; if the member is absent, *value is unchanged. */
static bool problem_amount(const json_t *item, uint64_t most, uint64_t *value) {
    if (item == NULL) return true;
    if (!json_is_integer(item) || json_integer_value(item) < 0) return false;
    *value = (uint64_t)json_integer_value(item);
    return *value <= most;
}

static bool problem_flag(const json_t *object, const char *member, bool *flag) {
    const json_t *found = problem_member(object, member);
    if (found != NULL && !json_is_boolean(found)) return false;
    if (found != NULL) *flag = json_is_true(found);
    return true;
}

static tn_status problem_name(const problem_reading *s, const json_t *object, const char **name) {
    const json_t *found = problem_member(object, "name");
    if (found == NULL) return TN_OK;
    if (!json_is_string(found)) return problem_fail(s, "'name' is not a string");
    *name = tn__arena_string(s->nodes->arena, json_string_value(found), json_string_length(found));
    return *name != NULL ? TN_OK : problem_read_no_memory(s);
}

/* A list of distinct indices below `bound`; absent: an empty list. */
static tn_status problem_list(problem_reading *s, const json_t *object, const char *member,
                              uint32_t bound, uint32_t **list, uint32_t *count) {
    const json_t *found = problem_member(object, member);
    char what[100];
    if (found == NULL) return TN_OK;
    size_t length = json_array_size(found);
    *list = tn__arena_array(s->nodes->arena, length + 1, sizeof **list);
    if (*list == NULL) return problem_read_no_memory(s);
    s->lists++;
    snprintf(what, sizeof what, "'%s' is not a list of different indices below %u", member, bound);
    if (!json_is_array(found)) return problem_fail(s, what);
    for (size_t i = 0; i < length; i++) {
        uint64_t index = bound;
        const json_t *item = json_array_get(found, i);
        if (!problem_amount(item, UINT32_MAX, &index) || index >= bound ||
            s->seen[index] == s->lists)
            return problem_fail(s, what);
        s->seen[index] = s->lists;
        (*list)[(*count)++] = (uint32_t)index;
    }
    return TN_OK;
}

/* --- the general form --- */

static tn_status problem_value(problem_reading *s, const json_t *item, tn__node_value *value) {
    value->bytes = UINT64_MAX;
    if (!json_is_object(item)) return problem_fail(s, "it is not an object");
    if (!problem_amount(problem_member(item, "bytes"), INT64_MAX / 4, &value->bytes) ||
        value->bytes == UINT64_MAX)
        return problem_fail(s, "'bytes' is not an integer from 0 to 2^61");
    if (!problem_flag(item, "kept", &value->kept) || !problem_flag(item, "held", &value->held))
        return problem_fail(s, "'kept' or 'held' is neither true nor false");
    return problem_name(s, item, &value->name);
}

static tn_status problem_check_inplace(const problem_reading *s, const tn__node *node) {
    if (node->inplace == TN_NONE) return TN_OK;
    for (uint32_t i = 0; node->output_count > 0 && i < node->input_count; i++)
        if (node->inputs[i] == node->inplace &&
            s->nodes->values[node->inplace].bytes == s->nodes->values[node->outputs[0]].bytes)
            return TN_OK;
    return problem_fail(s, "'inplace' is no input of as many bytes as the first output");
}

static tn_status problem_operator(problem_reading *s, const json_t *item, tn__node *node) {
    bool repeats = true;
    if (!json_is_object(item)) return problem_fail(s, "it is not an object");
    if (problem_member(item, "cost") == NULL ||
        !problem_amount(problem_member(item, "cost"), TN_COSTS_MOST, &node->cost))
        return problem_fail(s, "'cost' is not an integer from 0 to 2^56");
    node->again_cost = node->cost;
    const json_t *again = problem_member(item, "recompute_cost");
    if (again == NULL) again = problem_member(item, "again"); /* its name in version 0.1 */
    if (!problem_amount(again, TN_COSTS_MOST, &node->again_cost))
        return problem_fail(s, "'recompute_cost' is not an integer from 0 to 2^56");
    if (!problem_amount(problem_member(item, "scratch"), INT64_MAX / 4, &node->scratch))
        return problem_fail(s, "'scratch' is not an integer from 0 to 2^61");
    if (!problem_flag(item, "repeats", &repeats))
        return problem_fail(s, "'repeats' is neither true nor false");
    node->once = !repeats;
    tn__nodes *it = s->nodes;
    uint64_t inplace = TN_NONE;
    if (!problem_amount(problem_member(item, "inplace"), TN_NONE - 1, &inplace))
        return problem_fail(s, "'inplace' is no input");
    node->inplace = (uint32_t)inplace;
    TN_TRY(problem_list(s, item, "inputs", it->value_count, &node->inputs, &node->input_count));
    TN_TRY(problem_list(s, item, "outputs", it->value_count, &node->outputs, &node->output_count));
    TN_TRY(problem_list(s, item, "after", it->node_count, &node->after, &node->after_count));
    TN_TRY(problem_check_inplace(s, node));
    return problem_name(s, item, &node->name);
}

static tn_status problem_general(problem_reading *s, const json_t *values,
                                 const json_t *operators) {
    tn__nodes *it = s->nodes;
    for (s->list = "values", s->index = 0; s->index < it->value_count; s->index++)
        TN_TRY(problem_value(s, json_array_get(values, s->index), &it->values[s->index]));
    for (s->list = "operators", s->index = 0; s->index < it->node_count; s->index++) {
        tn__node *node = &it->nodes[s->index];
        TN_TRY(problem_operator(s, json_array_get(operators, s->index), node));
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (it->values[node->outputs[i]].made)
                return problem_fail(s, "it makes a value that another operator makes");
            it->values[node->outputs[i]].made = true;
        }
    }
    return TN_OK;
}

/* --- the form of Checkmate's instances --- */

static tn_status problem_edge(problem_reading *s, const json_t *edge, uint64_t *from,
                              uint64_t *to) {
    uint32_t count = s->nodes->node_count;
    *from = *to = count;
    if (!json_is_array(edge) || json_array_size(edge) != 2 ||
        !problem_amount(json_array_get(edge, 0), UINT32_MAX, from) ||
        !problem_amount(json_array_get(edge, 1), UINT32_MAX, to) || *from >= count || *to >= count)
        return problem_fail(s, "it is not a [from, to] of two operators");
    return *from != *to ? TN_OK : problem_fail(s, "it goes from an operator to itself");
}

/* Inputs of every operator: first counted, then stored. */
static tn_status problem_edges(problem_reading *s, const json_t *edges) {
    tn__nodes *it = s->nodes;
    uint64_t from, to;
    size_t count = json_array_size(edges);
    s->list = "edges";
    for (s->index = 0; s->index < count; s->index++) {
        TN_TRY(problem_edge(s, json_array_get(edges, s->index), &from, &to));
        it->nodes[to].input_count++;
    }
    for (uint32_t i = 0; i < it->node_count; i++) {
        tn__node *node = &it->nodes[i];
        node->inputs =
            tn__arena_array(it->arena, (size_t)node->input_count + 1, sizeof *node->inputs);
        if (node->inputs == NULL) return problem_read_no_memory(s);
        node->input_count = 0;
    }
    for (s->index = 0; s->index < count; s->index++) {
        TN_TRY(problem_edge(s, json_array_get(edges, s->index), &from, &to));
        tn__node *node = &it->nodes[to];
        node->inputs[node->input_count++] = (uint32_t)from;
    }
    for (uint32_t i = 0; i < it->node_count; i++) {
        s->lists++, s->list = "inputs of operator", s->index = i;
        for (uint32_t k = 0; k < it->nodes[i].input_count; k++) {
            if (s->seen[it->nodes[i].inputs[k]] == s->lists)
                return problem_fail(s, "an edge is given twice");
            s->seen[it->nodes[i].inputs[k]] = s->lists;
        }
    }
    return TN_OK;
}

static tn_status problem_checkmate(problem_reading *s, const json_t *cpu, const json_t *ram,
                                   const json_t *edges) {
    tn__nodes *it = s->nodes;
    for (s->index = 0; s->index < it->node_count; s->index++) {
        tn__node *node = &it->nodes[s->index];
        tn__node_value *value = &it->values[s->index];
        s->list = "cpu";
        if (!problem_amount(json_array_get(cpu, s->index), TN_COSTS_MOST, &node->cost))
            return problem_fail(s, "it is not an integer from 0 to 2^56");
        s->list = "ram";
        if (!problem_amount(json_array_get(ram, s->index), INT64_MAX / 4, &value->bytes))
            return problem_fail(s, "it is not an integer from 0 to 2^61");
        node->again_cost = node->cost;
        node->inplace = TN_NONE;
        node->outputs = tn__arena_array(it->arena, 1, sizeof *node->outputs);
        if (node->outputs == NULL) return problem_read_no_memory(s);
        node->outputs[0] = (uint32_t)s->index;
        node->output_count = 1;
        value->made = true;
    }
    return problem_edges(s, edges);
}

/* --- the document --- */

static tn_status problem_room(problem_reading *s, size_t values, size_t nodes) {
    tn__nodes *it = s->nodes;
    size_t most = values > nodes ? values : nodes;
    if (most > TN__NODES_MOST)
        TN_FAIL(it->error, TN_E_UNSUPPORTED, "more than 2^26 values or operators");
    it->value_count = (uint32_t)values;
    it->node_count = (uint32_t)nodes;
    it->values = tn__arena_array(it->arena, values + 1, sizeof *it->values);
    it->nodes = tn__arena_array(it->arena, nodes + 1, sizeof *it->nodes);
    s->seen = tn__arena_array(it->arena, most + 1, sizeof *s->seen);
    if (it->values == NULL || it->nodes == NULL || s->seen == NULL)
        return problem_read_no_memory(s);
    return TN_OK;
}

static tn_status problem_document(problem_reading *s, const json_t *root) {
    const json_t *values = problem_member(root, "values"),
                 *operators = problem_member(root, "operators");
    const json_t *cpu = problem_member(root, "cpu"), *ram = problem_member(root, "ram");
    const json_t *edges = problem_member(root, "edges");
    if (json_is_array(values) && json_is_array(operators)) {
        TN_TRY(problem_room(s, json_array_size(values), json_array_size(operators)));
        return problem_general(s, values, operators);
    }
    if (!json_is_array(cpu) || !json_is_array(ram) || !json_is_array(edges))
        TN_FAIL(s->nodes->error, TN_E_INVALID,
                "it is not an object with 'values' and 'operators', nor one with 'cpu', 'ram' and "
                "'edges'");
    if (json_array_size(cpu) != json_array_size(ram))
        TN_FAIL(s->nodes->error, TN_E_INVALID, "'cpu' has %zu entries and 'ram' %zu",
                json_array_size(cpu), json_array_size(ram));
    TN_TRY(problem_room(s, json_array_size(cpu), json_array_size(cpu)));
    return problem_checkmate(s, cpu, ram, edges);
}

tn_status tn__nodes_read(tn__nodes *it, const void *bytes, size_t size) {
    json_error_t why;
    problem_reading state = {.nodes = it};
    tn_status status;
    json_t *root = tn__json_parse(bytes, size, &why, &status);
    if (root == NULL) {
        tn__fail(it->error, status, "%s", why.text);
        return tn__where(it->error, status, "%s: byte %d", it->file, why.position);
    }
    status = problem_document(&state, root);
    json_decref(root);
    return tn__where(it->error, status, "%s", it->file);
}
#endif
