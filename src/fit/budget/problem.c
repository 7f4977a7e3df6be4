/* problem.c - reads a computation without a model (JSON, or a recorded run), and turns it into a
 * graph of opaque operators and their costs, so that all later stages work as for a model.
 *
 * The left columns are properties of a value or operator in the file; the right columns are their
 * representation in the graph:
 *
 *     exists from the start    graph input          held from the start   parameter
 *     kept                     graph output         after                 a tensor without bytes
 *     held after it is made    attribute `held` of the operator: bit of the output
 *     written over an input    attribute `inplace` of the operator: 1 + number of the input
 *
 * The tensor of value i has id i. Cost: O(values + operators + operands).
 */
#include <tenure/search.h>

#include <stdio.h>

#include "base/base.h"

#ifndef TENURE_MINIMAL
#include "base/json.h"
#endif
#include "fit/budget/costs.h"
#include "memory/evict/log.h"

/* Largest number of values and of operators in one file. A larger graph would leave too few ids for
 * the tensors and operators that are derived from it. */
#define TN__NODES_MOST ((size_t)1 << 26)

typedef struct tn__node_value {
    const char *name; /* name of the value; NULL: no name */
    uint64_t bytes;
    bool kept, held;
    /* an operator makes the value, so it does not exist from the start */
    bool made;
} tn__node_value;

typedef struct tn__node {
    const char *name; /* name of the operator; NULL: no name */
    uint64_t cost, recompute_cost, scratch;
    bool once;                  /* the operator may not be repeated */
    uint32_t *inputs, *outputs; /* values */
    uint32_t *after;            /* operators */
    uint32_t input_count, output_count, after_count;
    uint32_t inplace; /* the input that the first output may overwrite; TN_NONE: no input */
} tn__node;

typedef struct tn__nodes {
    tn__arena *arena;
    const char *file; /* the name of the file, for messages */
    tn__node_value *values;
    tn__node *nodes;
    uint32_t value_count, node_count;
    tn_error *error;
} tn__nodes;

/* --- JSON ------------------------------------------------------------------------------------- */

/* Reads JSON of operators and values with jansson, in one of two forms.
 *
 *     {"cpu": [3, 1, 4], "ram": [10, 10, 1], "edges": [[0, 1], [1, 2]]}
 *
 * Operator i costs cpu[i] and makes one value of ram[i] bytes; an edge [u, v] means that operator v
 * reads the value of operator u. Instances of Checkmate's problem are written in this form.
 *
 *     {"values": [{"bytes": 64, "name": "x", "kept": true, "held": true}, ...],
 *      "operators": [{"cost": 3, "inputs": [0], "outputs": [1, 2], "recompute_cost": 3,
 *                     "scratch": 0, "repeats": true, "after": [0], "inplace": 0,
 *                     "name": "conv"}, ...]}
 *
 * `bytes` and `cost` are required. A value that no operator makes exists from the start; a kept
 * value is live at the end; a held value is never evicted. `recompute_cost`: cost of a repeat;
 * `after`: operators that must have run before; `inplace`: an input that the first output
 * overwrites if it is not read later. Other members are ignored; null means that the member is
 * absent. Cost: O(bytes) time and memory.
 */

#ifdef TENURE_MINIMAL
static tn_status nodes_read(tn__nodes *it, const void *bytes, size_t size) {
    (void)bytes, (void)size;
    TN_FAIL(it->error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", it->file);
}
#else

typedef struct problem_reading {
    tn__nodes *nodes;
    /* the list that is being read; messages name its current element, list[index] */
    const char *list;
    size_t index;
    /* [values or operators] 1 + the number of the last list that contains the index, to find
     * duplicates */
    uint32_t *seen;
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

/* Reads an integer from 0 to `most`; if the member is absent, *value does not change. Returns false
 * for anything else. */
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

/* Reads a list of distinct indices below `bound`; if the member is absent, the list is empty. */
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
    node->recompute_cost = node->cost;
    const json_t *recompute = problem_member(item, "recompute_cost");
    /* in version 0.1, the name of this member was `again` */
    if (recompute == NULL) recompute = problem_member(item, "again");
    if (!problem_amount(recompute, TN_COSTS_MOST, &node->recompute_cost))
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

/* Fills the inputs of every operator from the list of edges: first counts them, then stores them.
 * Refuses an edge that is given twice. */
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
        node->recompute_cost = node->cost;
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

static tn_status nodes_read(tn__nodes *it, const void *bytes, size_t size) {
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

/* --- recorded runs ---------------------------------------------------------------------------- */

/* Turns a recorded run (evict.h: logs of DTR's authors, and Tenure's) into operators and values.
 * Each row says how something in the log is represented:
 *
 *     storage        a value, and a new value each time the storage is overwritten
 *     CALL, MUTATE   an operator with the values that it makes. IN_PLACE: a new value written over
 *                    the existing one if that is not read later (`inplace`). If there are several
 *                    such values, the first is written by this operator, and each of the others by
 *                    an additional operator without cost
 *     a view         no bytes. Recomputing a value includes its views, so their time is added
 *                    to the maker's; views of a value that is never recomputed are made once
 *     CONSTANT       held: from the start, or made at its line by an operator without cost
 *     ONCE           may not be repeated
 *     KEEP           live at the end: still referenced when the log ends
 *
 * In Tenure's logs, a result that shares the bytes of one argument and also has other arguments is
 * not a view: the operator wrote the bytes before anything read the result. Such a result is
 * handled as IN_PLACE. The times at which names were released do not matter: a value is live until
 * its last read. Cost: O(lines and operands).
 */

typedef struct log_nodes {
    tn__nodes *nodes;
    const tn_evict_log *log;
    /* [tensors of the log] the first tensor with the storage of this tensor, its root */
    uint32_t *root;
    /* [tensors of the log] at the index of a root: the current value of its storage */
    uint32_t *value;
    /* [values] the operator that can recompute the value; TN_NONE: it cannot be recomputed */
    uint32_t *maker;
    /* [values] 1 + the number of the last list that contains the value, to find duplicates */
    uint32_t *seen;
    uint32_t lists;
    uint32_t value_room, node_room;
} log_nodes;

static uint32_t log_value_of(const log_nodes *it, uint32_t tensor) {
    return it->value[it->root[tensor]];
}

static tn_status log_no_room(const log_nodes *it) {
    return tn__no_memory(it->nodes->error, "a recorded run as a problem");
}

/* --- room --- */

/* Computes upper bounds for the numbers of values and operators of the log, to allocate their
 * arrays. */
static void log_count(log_nodes *it) {
    const tn_evict_log *log = it->log;
    size_t values = log->tensor_count, nodes = log->op_count + log->tensor_count;
    it->value_room = (uint32_t)values;
    it->node_room = (uint32_t)nodes;
}

static tn_status log_room(log_nodes *it) {
    tn__arena *arena = it->nodes->arena;
    size_t tensors = it->log->tensor_count + 1;
    log_count(it);
    if (it->log->tensor_count + it->log->op_count > TN__NODES_MOST)
        TN_FAIL(it->nodes->error, TN_E_UNSUPPORTED, "more than 2^26 values or operators");
    it->root = tn__arena_array(arena, tensors, sizeof *it->root);
    it->value = tn__arena_array(arena, tensors, sizeof *it->value);
    it->maker = tn__arena_array(arena, (size_t)it->value_room + 1, sizeof *it->maker);
    it->seen = tn__arena_array(arena, (size_t)it->value_room + 1, sizeof *it->seen);
    it->nodes->values =
        tn__arena_array(arena, (size_t)it->value_room + 1, sizeof *it->nodes->values);
    it->nodes->nodes = tn__arena_array(arena, (size_t)it->node_room + 1, sizeof *it->nodes->nodes);
    bool done = it->root != NULL && it->value != NULL && it->maker != NULL && it->seen != NULL &&
                it->nodes->values != NULL && it->nodes->nodes != NULL;
    return done ? TN_OK : log_no_room(it);
}

/* --- values and operators --- */

static uint32_t log_add_value(log_nodes *it, const tn__log_tensor *tensor, uint32_t maker) {
    uint32_t id = it->nodes->value_count++;
    it->nodes->values[id] = (tn__node_value){.bytes = tensor->storage_bytes, .made = true};
    it->maker[id] = maker;
    return id;
}

/* Adds an operator that will get at most `outputs` outputs. It reads the current values of the
 * logged operator's inputs, each value once. */
static tn__node *log_add_node(log_nodes *it, const tn__log_op *op, uint32_t outputs) {
    tn__arena *arena = it->nodes->arena;
    const uint32_t *inputs = it->log->inputs + op->first_input;
    tn__node node = {.name = op->name,
                     .cost = op->cost,
                     .recompute_cost = op->cost,
                     .scratch = op->scratch,
                     .once = op->once,
                     .inplace = TN_NONE};
    node.inputs = tn__arena_array(arena, (size_t)op->input_count + 1, sizeof *node.inputs);
    node.outputs = tn__arena_array(arena, (size_t)outputs + 1, sizeof *node.outputs);
    if (node.inputs == NULL || node.outputs == NULL) return NULL;
    it->lists++;
    for (uint32_t i = 0; i < op->input_count; i++) {
        uint32_t value = log_value_of(it, inputs[i]);
        if (it->seen[value] == it->lists) continue;
        it->seen[value] = it->lists;
        node.inputs[node.input_count++] = value;
    }
    it->nodes->nodes[it->nodes->node_count] = node;
    return &it->nodes->nodes[it->nodes->node_count++];
}

static uint32_t log_last(const log_nodes *it) { return it->nodes->node_count - 1; }

/* --- kinds of operators of the log --- */

static bool log_is_fresh(const tn__log_tensor *tensor) { return tensor->alias == TN__EVICT_NONE; }

/* Whether an operator writes into the bytes of an argument that its result shares. */
static bool log_writes(const log_nodes *it, const tn__log_op *op, const tn__log_tensor *tensor) {
    if (log_is_fresh(tensor)) return false;
    if (tensor->overwrites || !it->log->is_ours) return tensor->overwrites;
    const uint32_t *inputs = it->log->inputs + op->first_input;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (it->root[inputs[i]] != it->root[inputs[tensor->alias]]) return true;
    return false;
}

/* Adds an operator that overwrites a storage, which thereby gets a new value. Only the first
 * operator for a line of the log (is_first) has the line's cost. */
static tn_status log_write(log_nodes *it, const tn__log_op *op, uint32_t tensor, bool is_first) {
    tn__node *node = log_add_node(it, op, 1);
    if (node == NULL) return log_no_room(it);
    if (!is_first) node->cost = node->recompute_cost = node->scratch = 0;
    uint32_t maker = node->once ? TN_NONE : log_last(it), root = it->root[tensor];
    node->inplace = it->value[root];
    it->value[root] = log_add_value(it, &it->log->tensors[tensor], maker);
    node->outputs[node->output_count++] = it->value[root];
    return TN_OK;
}

/* Handles an operator with only views as results. Its time is added to the maker of the value. An
 * operator that runs once is added instead if the value is never recomputed or the views are of
 * several storages. */
static tn_status log_view(log_nodes *it, const tn__log_op *op) {
    uint32_t of = it->value[it->root[op->first_output]], maker = it->maker[of];
    bool is_one = true;
    for (uint32_t o = 1; o < op->output_count; o++)
        is_one = is_one && it->root[op->first_output + o] == it->root[op->first_output];
    if (is_one && maker != TN_NONE) {
        tn__node *node = &it->nodes->nodes[maker];
        node->cost = node->recompute_cost = tn__add_sat(node->cost, op->cost);
        if (op->scratch > node->scratch) node->scratch = op->scratch;
        return TN_OK;
    }
    tn__node *node = log_add_node(it, op, 0);
    if (node == NULL) return log_no_room(it);
    node->once = true;
    return TN_OK;
}

/* Adds an operator with the values that it makes. Storages that it overwrites get operators of
 * their own (log_write), and views need no value. */
static tn_status log_make(log_nodes *it, const tn__log_op *op) {
    tn__node *node = log_add_node(it, op, op->output_count);
    if (node == NULL) return log_no_room(it);
    for (uint32_t o = 0; o < op->output_count; o++) {
        uint32_t tensor = op->first_output + o;
        if (!log_is_fresh(&it->log->tensors[tensor])) continue;
        it->value[tensor] =
            log_add_value(it, &it->log->tensors[tensor], node->once ? TN_NONE : log_last(it));
        node->outputs[node->output_count++] = it->value[tensor];
    }
    return TN_OK;
}

static tn_status log_apply(log_nodes *it, const tn__log_op *op) {
    uint32_t fresh = 0, written = 0;
    for (uint32_t o = 0; o < op->output_count; o++) {
        uint32_t tensor = op->first_output + o;
        const tn__log_tensor *record = &it->log->tensors[tensor];
        bool is_fresh = log_is_fresh(record);
        it->root[tensor] =
            is_fresh ? tensor : it->root[it->log->inputs[op->first_input + record->alias]];
        fresh += is_fresh;
    }
    if (fresh > 0) TN_TRY(log_make(it, op));
    for (uint32_t o = 0; o < op->output_count; o++)
        if (log_writes(it, op, &it->log->tensors[op->first_output + o]))
            TN_TRY(log_write(it, op, op->first_output + o, fresh + written++ == 0));
    return fresh + written == 0 ? log_view(it, op) : TN_OK;
}

static tn_status log_constant(log_nodes *it, const tn__log_op *op) {
    uint32_t tensor = op->first_output;
    it->root[tensor] = tensor;
    it->value[tensor] = log_add_value(it, &it->log->tensors[tensor], TN_NONE);
    tn__node_value *value = &it->nodes->values[it->value[tensor]];
    value->held = true;
    value->made = it->nodes->node_count > 0;
    if (!value->made) return TN_OK;
    tn__node *node = log_add_node(it, op, 1);
    if (node == NULL) return log_no_room(it);
    node->name = "constant";
    node->outputs[node->output_count++] = it->value[tensor];
    return TN_OK;
}

static tn_status log_command(log_nodes *it, const tn__log_command *command) {
    switch ((tn__log_what)command->what) {
    case TN__LOG_CONSTANT:
        return log_constant(it, &it->log->ops[command->id]);
    case TN__LOG_APPLY:
        return log_apply(it, &it->log->ops[command->id]);
    case TN__LOG_KEEP:
        it->nodes->values[log_value_of(it, command->id)].kept = true;
        return TN_OK;
    case TN__LOG_RETAIN:
    case TN__LOG_RELEASE:
        return TN_OK;
    }
    return TN_OK;
}

static tn_status log_convert(tn__nodes *nodes, const tn_evict_log *log) {
    log_nodes it = {.nodes = nodes, .log = log};
    TN_TRY(log_room(&it));
    for (size_t i = 0; i < log->command_count; i++) {
        tn_status status = log_command(&it, &log->commands[i]);
        if (status != TN_OK) return status;
    }
    for (uint32_t i = 0; i < nodes->node_count; i++)
        if (nodes->nodes[i].cost > TN_COSTS_MOST)
            TN_FAIL(nodes->error, TN_E_INVALID, "operator %u, '%.60s', takes more than 2^56 ns", i,
                    nodes->nodes[i].name);
    return TN_OK;
}

/* Copies the names into the arena, because the log is released. */
static tn_status log_keep_names(tn__nodes *nodes) {
    for (uint32_t i = 0; i < nodes->node_count; i++) {
        const char *name = nodes->nodes[i].name;
        nodes->nodes[i].name = tn__arena_string(nodes->arena, name, strlen(name));
        if (nodes->nodes[i].name == NULL) return tn__no_memory(nodes->error, "a problem");
    }
    return TN_OK;
}

/* Whether the file is a recorded run: its first line that is not empty has a member INSTRUCTION. */
static bool nodes_is_log(const void *bytes, size_t size) {
    static const char member[] = "\"INSTRUCTION\"";
    const size_t length = sizeof member - 1;
    const char *at = bytes, *end = at + size;
    while (at < end && memchr(" \t\r\n", *at, 4) != NULL) at++;
    const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (stop == NULL) stop = end;
    for (; (size_t)(stop - at) > length; at++) {
        if (memcmp(at, member, length) != 0) continue;
        const char *next = at + length;
        while (next < stop && (*next == ' ' || *next == '\t')) next++;
        if (next < stop && *next == ':') return true;
    }
    return false;
}

/* Reads the lines of a recorded run. Errors: E_INVALID with the line, E_UNSUPPORTED (more than 2^26
 * tensors or operators), E_NO_MEMORY. */
static tn_status nodes_read_log(tn__nodes *it, const tn_context *context, const void *bytes,
                                size_t size) {
    tn_evict_log *log;
    TN_TRY(tn_evict_log_parse(context, bytes, size, it->file, &log, it->error));
    tn_status status = log_convert(it, log);
    if (status == TN_OK) status = log_keep_names(it);
    tn_evict_log_destroy(log);
    return status;
}

/* --- graph of a problem ----------------------------------------------------------------------- */

typedef struct problem_state {
    const tn__nodes *nodes;
    tn_graph *graph;
    /* [nodes] a tensor without bytes that marks that the operator has run; TN_NONE: no operator
     * must follow it */
    tn_tensor_id *done;
    tn_error *error;
} problem_state;

static tn_status problem_no_memory(const problem_state *s) {
    return tn__no_memory(s->error, "a problem");
}

static tn_status problem_add_tensor(problem_state *s, const char *name, char letter, uint32_t index,
                                    uint64_t bytes, tn_kind kind, uint32_t flags,
                                    tn_tensor_id *id) {
    char text[16];
    int64_t shape[1] = {(int64_t)bytes};
    snprintf(text, sizeof text, "%c%u", letter, index);
    tn_tensor_spec spec = {.name = name != NULL ? name : text,
                           .dtype = TN_UINT8,
                           .kind = kind,
                           .flags = flags,
                           .rank = 1,
                           .shape = shape};
    return tn_graph_add_tensor(s->graph, &spec, id, s->error);
}

static tn_status problem_add_value(problem_state *s, uint32_t index) {
    const tn__node_value *value = &s->nodes->values[index];
    bool ends = value->kept || (value->held && value->made);
    tn_tensor_id id;
    tn_kind kind = value->made   ? ends ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION
                   : value->held ? TN_KIND_PARAMETER
                                 : TN_KIND_INPUT;
    uint32_t flags = kind == TN_KIND_INPUT && value->kept ? TN_TENSOR_IS_OUTPUT : 0;
    return problem_add_tensor(s, value->name, 'v', index, value->bytes, kind, flags, &id);
}

/* Adds a tensor without bytes to each operator that others must follow, so that they have an input
 * from it. */
static tn_status problem_add_done(problem_state *s) {
    for (uint32_t i = 0; i < s->nodes->node_count; i++) s->done[i] = TN_NONE;
    for (uint32_t i = 0; i < s->nodes->node_count; i++)
        for (uint32_t k = 0; k < s->nodes->nodes[i].after_count; k++) {
            uint32_t other = s->nodes->nodes[i].after[k];
            if (s->done[other] != TN_NONE) continue;
            TN_TRY(
                problem_add_tensor(s, NULL, 'd', other, 0, TN_KIND_ACTIVATION, 0, &s->done[other]));
        }
    return TN_OK;
}

static bool problem_is_held(const problem_state *s, const tn__node *node) {
    for (uint32_t k = 0; k < node->output_count; k++)
        if (s->nodes->values[node->outputs[k]].held) return true;
    return false;
}

/* Returns for each output of an operator 1 if it is held, and else 0; NULL if memory is
 * exhausted. */
static int64_t *problem_held(const problem_state *s, const tn__node *node) {
    int64_t *held = tn__arena_array(s->nodes->arena, (size_t)node->output_count + 1, sizeof *held);
    for (uint32_t k = 0; held != NULL && k < node->output_count; k++)
        held[k] = s->nodes->values[node->outputs[k]].held;
    return held;
}

static int64_t problem_inplace(const tn__node *node) {
    for (uint32_t i = 0; i < node->input_count; i++)
        if (node->inputs[i] == node->inplace) return i + 1;
    return 0;
}

static tn_status problem_attributes(const problem_state *s, const tn__node *node,
                                    tn_attr attributes[3], int64_t numbers[2], uint32_t *count) {
    *count = 0;
    numbers[0] = (int64_t)node->scratch;
    numbers[1] = problem_inplace(node);
    if (numbers[0] > 0)
        attributes[(*count)++] =
            (tn_attr){.name = "scratch", .type = TN_ATTR_INT, .count = 1, .ints = &numbers[0]};
    if (numbers[1] > 0)
        attributes[(*count)++] =
            (tn_attr){.name = "inplace", .type = TN_ATTR_INT, .count = 1, .ints = &numbers[1]};
    if (!problem_is_held(s, node)) return TN_OK;
    int64_t *held = problem_held(s, node);
    if (held == NULL) return problem_no_memory(s);
    attributes[(*count)++] =
        (tn_attr){.name = "held", .type = TN_ATTR_INTS, .count = node->output_count, .ints = held};
    return TN_OK;
}

/* Fills the operands of an operator: its values, followed by the tensors without bytes that only
 * express order. */
static tn_status problem_operands(const problem_state *s, uint32_t index, tn_op_spec *spec) {
    const tn__node *node = &s->nodes->nodes[index];
    tn_tensor_id *operands = tn__arena_array(
        s->nodes->arena, (size_t)node->input_count + node->after_count + node->output_count + 1,
        sizeof *operands);
    if (operands == NULL) return problem_no_memory(s);
    spec->inputs = operands;
    for (uint32_t k = 0; k < node->input_count; k++) *operands++ = node->inputs[k];
    for (uint32_t k = 0; k < node->after_count; k++) *operands++ = s->done[node->after[k]];
    spec->outputs = operands;
    for (uint32_t k = 0; k < node->output_count; k++) *operands++ = node->outputs[k];
    if (s->done[index] != TN_NONE) *operands++ = s->done[index];
    spec->input_count = node->input_count + node->after_count;
    spec->output_count = node->output_count + (s->done[index] != TN_NONE);
    return TN_OK;
}

static tn_status problem_add_operator(problem_state *s, uint32_t index) {
    const tn__node *node = &s->nodes->nodes[index];
    char name[16];
    tn_attr attributes[3];
    int64_t numbers[2];
    snprintf(name, sizeof name, "o%u", index);
    tn_op_spec spec = {.name = node->name != NULL ? node->name : name,
                       .type = node->once ? "OpaqueOnce" : "Opaque",
                       .domain = "tenure",
                       .attrs = attributes};
    TN_TRY(problem_operands(s, index, &spec));
    TN_TRY(problem_attributes(s, node, attributes, numbers, &spec.attr_count));
    tn_status status = tn_graph_add_op(s->graph, &spec, NULL, s->error);
    return tn__where(s->error, status, "%s: operators[%u]", s->nodes->file, index);
}

/* Infers shapes. An error of the graph names the operator but not the file, so the file's name is
 * added. */
static tn_status problem_infer(problem_state *s) {
    char node[sizeof s->error->where];
    tn_status status = tn_graph_infer(s->graph, s->error);
    if (status == TN_OK || s->error == NULL || s->error->where[0] == '\0') return status;
    memcpy(node, s->error->where, sizeof node);
    s->error->where[0] = '\0';
    return tn__where(s->error, status, "%s: %s", s->nodes->file, node);
}

static tn_status problem_graph(problem_state *s) {
    s->done = tn__arena_array(s->nodes->arena, (size_t)s->nodes->node_count + 1, sizeof *s->done);
    if (s->done == NULL) return problem_no_memory(s);
    for (uint32_t i = 0; i < s->nodes->value_count; i++) TN_TRY(problem_add_value(s, i));
    TN_TRY(problem_add_done(s));
    for (uint32_t i = 0; i < s->nodes->node_count; i++) TN_TRY(problem_add_operator(s, i));
    return problem_infer(s);
}

static tn_status problem_costs(problem_state *s, const tn_context *context, tn_costs **costs) {
    tn_costs *made;
    TN_TRY(tn__costs_create(context, s->graph, &made, s->error));
    for (uint32_t i = 0; i < s->nodes->node_count; i++) {
        made->of[i] = s->nodes->nodes[i].cost;
        made->recompute[i] = s->nodes->nodes[i].recompute_cost;
    }
    tn_status status = tn__costs_check(made, s->nodes->file, s->error);
    if (status == TN_OK)
        *costs = made;
    else
        tn_costs_destroy(made);
    return status;
}

tn_status tn_fit_problem_load_memory(const char *name, const void *bytes, size_t size,
                                     const tn_context *context, tn_graph **graph, tn_costs **costs,
                                     tn_error *error) {
    tn_context complete = tn__context(context);
    tn__arena arena;
    tn__arena_init(&arena, &complete);
    tn__nodes nodes = {.arena = &arena, .file = name, .error = error};
    problem_state state = {.nodes = &nodes, .error = error};
    tn_status status = nodes_is_log(bytes, size) ? nodes_read_log(&nodes, context, bytes, size)
                                                 : nodes_read(&nodes, bytes, size);
    if (status == TN_OK) status = tn_graph_create(context, &state.graph, error);
    if (status == TN_OK) status = problem_graph(&state);
    if (status == TN_OK) status = problem_costs(&state, context, costs);
    tn__arena_release(&arena);
    if (status != TN_OK) {
        tn_graph_destroy(state.graph);
        return tn__where(error, status, "%s", name);
    }
    *graph = state.graph;
    return TN_OK;
}

tn_status tn_fit_problem_load(const char *path, const tn_context *context, tn_graph **graph,
                              tn_costs **costs, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_text(path, tn__context(context).read_limit, &file, error));
    tn_status status =
        tn_fit_problem_load_memory(path, file.bytes, file.size, context, graph, costs, error);
    tn__file_unmap(&file);
    return status;
}
