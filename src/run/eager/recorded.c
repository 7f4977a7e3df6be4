/* recorded.c - turns a recording into a graph and a program in the same order.
 *
 * A value that was put becomes an input, or static memory if it lies at a fixed place; immediates
 * become constants; a value that was got becomes an output. Operators stand in the order in which
 * they first ran. Recomputations that kept the run within its budget are left out: the planner of
 * the program decides anew what to recompute. Values that were never read are left out.
 * Cost: O(operands) and inference.
 */
#include "run/eager/interpreter.h"

typedef struct recorded_work {
    const tn_eager *eager;
    const tn__record *record;
    tn_graph *graph;
    tn_tensor_id *tensor;    /* [values] */
    bool *is_read, *is_got;  /* [values] */
    bool *is_changed;        /* [values] put values that are written into later */
    tn_tensor_id *immediate; /* [types] */
    tn__arena arena;
    tn_error *error;
} recorded_work;

static tn_status recorded_room(recorded_work *it) {
    size_t values = it->record->value_count, types = it->eager->types.count;
    it->tensor = tn__arena_array(&it->arena, values, sizeof *it->tensor);
    it->is_read = tn__arena_array(&it->arena, values, sizeof *it->is_read);
    it->is_got = tn__arena_array(&it->arena, values, sizeof *it->is_got);
    it->is_changed = tn__arena_array(&it->arena, values, sizeof *it->is_changed);
    it->immediate = tn__arena_array(&it->arena, types, sizeof *it->immediate);
    if (it->tensor == NULL || it->is_read == NULL || it->is_got == NULL || it->is_changed == NULL ||
        it->immediate == NULL)
        return tn__no_memory(it->error, "a recorded run");
    memset(it->tensor, 0xff, values * sizeof *it->tensor);
    memset(it->immediate, 0xff, types * sizeof *it->immediate);
    return TN_OK;
}

static void recorded_marks(recorded_work *it) {
    for (size_t e = 0; e < it->record->entry_count; e++) {
        const tn__record_entry *entry = &it->record->entries[e];
        if (entry->kind == TN__RECORD_GET) it->is_got[entry->value] = true;
        if (entry->kind != TN__RECORD_APPLY) continue;
        const uint32_t *inputs = &it->record->operands[entry->first];
        for (uint32_t i = 0; i < entry->recipe->input_count; i++) {
            if (inputs[i] == TN_NONE) continue;
            it->is_read[inputs[i]] = true;
            it->is_changed[inputs[i]] |= (entry->recipe->changes >> i & 1) != 0;
        }
    }
}

static tn_status recorded_tensor(recorded_work *it, const tn__type *type, const char *name,
                                 tn_kind kind, uint32_t flags, tn_tensor_id *id) {
    tn_tensor_spec spec = {.name = name,
                           .dtype = type->dtype,
                           .kind = kind,
                           .flags = flags,
                           .rank = type->rank,
                           .shape = type->shape};
    if (type->value != NULL) spec.value = *type->value;
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

/* Adds a value that was put and is read. */
static tn_status recorded_put(recorded_work *it, uint32_t value) {
    const tn__record_value *record = &it->record->values[value];
    bool fixed = record->kind == TN_KIND_PARAMETER || record->kind == TN_KIND_OPTIMIZER_STATE ||
                 record->kind == TN_KIND_GRADIENT;
    if (!it->is_read[value]) return TN_OK;
    uint32_t flags = fixed && it->is_changed[value] ? TN_TENSOR_UPDATED : 0;
    return recorded_tensor(it, record->type, record->name, fixed ? record->kind : TN_KIND_INPUT,
                           flags, &it->tensor[value]);
}

static tn_status recorded_input(recorded_work *it, uint32_t value, uint32_t type,
                                tn_tensor_id *id) {
    *id = TN_NONE;
    if (type == TN_NONE) return TN_OK;
    const tn__type *of = tn__type_of(&it->eager->types, type);
    if (of->value != NULL) {
        if (it->immediate[type] == TN_NONE)
            TN_TRY(recorded_tensor(it, of, "", TN_KIND_CONSTANT, 0, &it->immediate[type]));
        *id = it->immediate[type];
        return TN_OK;
    }
    if (value == TN_NONE || it->tensor[value] == TN_NONE)
        TN_FAIL(it->error, TN_E_INVALID, "an operator reads what was there before the recording");
    *id = it->tensor[value];
    return TN_OK;
}

static tn_status recorded_output(recorded_work *it, const tn__recipe *recipe, uint32_t number,
                                 uint32_t value, tn_tensor_id *id) {
    const tn__result *result = &recipe->results[number];
    *id = TN_NONE;
    if (result->type == TN_NONE) return TN_OK;
    tn_tensor_spec spec = {
        .name = recipe->op->type, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    if (value != TN_NONE && it->is_got[value] && !result->handed) spec.kind = TN_KIND_OUTPUT;
    TN_TRY(tn_graph_add_tensor(it->graph, &spec, id, it->error));
    if (value != TN_NONE) it->tensor[value] = *id;
    return TN_OK;
}

static tn_status recorded_apply(recorded_work *it, const tn__record_entry *entry) {
    const tn__recipe *recipe = entry->recipe;
    const uint32_t *operands = &it->record->operands[entry->first];
    tn_tensor_id inputs[TN__OPERANDS_MOST], outputs[TN__OPERANDS_MOST];
    if (recipe->data_output_count == 0) return TN_OK; /* all outputs are immediates */
    for (uint32_t i = 0; i < recipe->input_count; i++)
        TN_TRY(recorded_input(it, operands[i], recipe->inputs[i], &inputs[i]));
    for (uint32_t k = 0; k < recipe->output_count; k++)
        TN_TRY(recorded_output(it, recipe, k, operands[recipe->input_count + k], &outputs[k]));
    const tn_op_spec spec = {.name = recipe->op->type,
                             .type = recipe->op->type,
                             .domain = recipe->op->domain,
                             .version = recipe->op->version,
                             .inputs = inputs,
                             .outputs = outputs,
                             .attrs = recipe->op->attrs,
                             .input_count = recipe->input_count,
                             .output_count = recipe->output_count,
                             .attr_count = recipe->op->attr_count};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

static tn_status recorded_graph(recorded_work *it) {
    TN_TRY(recorded_room(it));
    recorded_marks(it);
    TN_TRY(tn_graph_create(&it->eager->context, &it->graph, it->error));
    for (size_t e = 0; e < it->record->entry_count; e++) {
        const tn__record_entry *entry = &it->record->entries[e];
        if (entry->kind == TN__RECORD_PUT) TN_TRY(recorded_put(it, entry->value));
        if (entry->kind == TN__RECORD_APPLY) TN_TRY(recorded_apply(it, entry));
    }
    return tn_graph_infer(it->graph, it->error);
}

tn_status tn_eager_recorded(const tn_eager *eager, tn_graph **graph, tn_program **program,
                            tn_error *error) {
    recorded_work it = {.eager = eager, .record = &eager->record, .error = error};
    tn_program *made = NULL;
    if (!eager->record.on)
        return tn__where(error, tn__fail(error, TN_E_INVALID, "nothing was recorded"), "recorded");
    tn__arena_init(&it.arena, &eager->context);
    tn_status status = recorded_graph(&it);
    if (status == TN_OK && program != NULL)
        status =
            tn_program_create(it.graph, NULL, &made, error); /* in the order of its operators */
    tn__arena_release(&it.arena);
    if (status != TN_OK) {
        tn_graph_destroy(it.graph);
        return tn__where(error, status, "recorded");
    }
    *graph = it.graph;
    if (program != NULL) *program = made;
    return TN_OK;
}
