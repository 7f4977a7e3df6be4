/* problem_log.c - turns a recorded run (evict.h: logs of DTR's authors and ours) into operators and
 * values.
 *
 *     storage        a value, and a new one each time it is overwritten
 *     CALL, MUTATE   an operator with the values that it makes; IN_PLACE: written over the
 *                    existing value if that is not read later (`inplace`). For several such
 *                    values, the first one is handled in this way, and an operator without
 *                    cost follows for each of the others
 *     a view         no bytes. Recomputing a value includes its views, so their time is added
 *                    to the maker's; views of a value that is never recomputed are made once
 *     CONSTANT       held: from the start, or made at its line by an operator without cost
 *     ONCE           may not be repeated
 *     KEEP           live at the end: still referenced when the log ends
 *
 * In our own logs, a result that shares an argument's bytes and also has other arguments is not a
 * view: the bytes were written before any reader saw them. It is therefore overwritten as with
 * IN_PLACE. The times at which names were released do not matter: a value is live until its last
 * read. Cost: O(lines and operands).
 */
#include "fit/budget/problem.h"
#include "memory/evict/log.h"

typedef struct log_nodes {
    tn__nodes *nodes;
    const tn_evict_log *log;
    uint32_t *root;  /* [tensors of the log] first tensor of its storage */
    uint32_t *value; /* [tensors of the log] for a root: current value of its storage */
    uint32_t *maker; /* [values] operator that can recompute it; TN_NONE */
    uint32_t *seen;  /* [values] 1 + the last list that contains it */
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

/* Upper bounds of the numbers of values and operators. */
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

/* Adds an operator with room for `outputs`; it reads the current values of the tensors, each
 * once. */
static tn__node *log_add_node(log_nodes *it, const tn__log_op *op, uint32_t outputs) {
    tn__arena *arena = it->nodes->arena;
    const uint32_t *inputs = it->log->inputs + op->first_input;
    tn__node node = {.name = op->name,
                     .cost = op->cost,
                     .again_cost = op->cost,
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

/* Whether the operator writes into the bytes that it shares. */
static bool log_writes(const log_nodes *it, const tn__log_op *op, const tn__log_tensor *tensor) {
    if (log_is_fresh(tensor)) return false;
    if (tensor->overwrites || !it->log->is_ours) return tensor->overwrites;
    const uint32_t *inputs = it->log->inputs + op->first_input;
    for (uint32_t i = 0; i < op->input_count; i++)
        if (it->root[inputs[i]] != it->root[inputs[tensor->alias]]) return true;
    return false;
}

/* Gives the storage a new value that overwrites the current one. */
static tn_status log_write(log_nodes *it, const tn__log_op *op, uint32_t tensor, bool is_first) {
    tn__node *node = log_add_node(it, op, 1);
    if (node == NULL) return log_no_room(it);
    if (!is_first) node->cost = node->again_cost = node->scratch = 0;
    uint32_t maker = node->once ? TN_NONE : log_last(it), root = it->root[tensor];
    node->inplace = it->value[root];
    it->value[root] = log_add_value(it, &it->log->tensors[tensor], maker);
    node->outputs[node->output_count++] = it->value[root];
    return TN_OK;
}

/* An operator that makes only views. */
static tn_status log_view(log_nodes *it, const tn__log_op *op) {
    uint32_t of = it->value[it->root[op->first_output]], maker = it->maker[of];
    bool is_one = true;
    for (uint32_t o = 1; o < op->output_count; o++)
        is_one = is_one && it->root[op->first_output + o] == it->root[op->first_output];
    if (is_one && maker != TN_NONE) {
        tn__node *node = &it->nodes->nodes[maker];
        node->cost = node->again_cost = tn__add_sat(node->cost, op->cost);
        if (op->scratch > node->scratch) node->scratch = op->scratch;
        return TN_OK;
    }
    tn__node *node = log_add_node(it, op, 0);
    if (node == NULL) return log_no_room(it);
    node->once = true;
    return TN_OK;
}

/* Adds the operator with its new values. Overwritten storages get operators of their own
 * (log_write); views need no value. */
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

/* Copies the names, because the log is released. */
static tn_status log_keep_names(tn__nodes *nodes) {
    for (uint32_t i = 0; i < nodes->node_count; i++) {
        const char *name = nodes->nodes[i].name;
        nodes->nodes[i].name = tn__arena_string(nodes->arena, name, strlen(name));
        if (nodes->nodes[i].name == NULL) return tn__no_memory(nodes->error, "a problem");
    }
    return TN_OK;
}

/* Whether the first line has a member INSTRUCTION. */
bool tn__nodes_is_log(const void *bytes, size_t size) {
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

tn_status tn__nodes_read_log(tn__nodes *it, const tn_context *context, const void *bytes,
                             size_t size) {
    tn_evict_log *log;
    TN_TRY(tn_evict_log_parse(context, bytes, size, it->file, &log, it->error));
    tn_status status = log_convert(it, log);
    if (status == TN_OK) status = log_keep_names(it);
    tn_evict_log_destroy(log);
    return status;
}
