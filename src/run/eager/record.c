/* record.c - records the commands that are run (interpreter.h), and writes a recording as a graph
 * with a program in the same order, or as lines of JSON. */
#include "run/eager/interpreter.h"

/* a command adds at most this number of values, and of entries */
#define RECORD_MOST (2 * TN__OPERANDS_MOST + 2)

tn_status tn__record_reserve(tn_eager *eager, tn_error *error) {
    tn__record *record = &eager->record;
    const tn_context *context = &eager->context;
    if (!record->on) return TN_OK;
    if (!tn__reserve(context, &record->entries, &record->entry_room,
                     record->entry_count + RECORD_MOST, sizeof *record->entries) ||
        !tn__reserve(context, &record->values, &record->value_room,
                     record->value_count + RECORD_MOST, sizeof *record->values) ||
        !tn__reserve(context, &record->operands, &record->operand_room,
                     record->operand_count + RECORD_MOST, sizeof *record->operands))
        return tn__no_memory(error, "the recording");
    return TN_OK;
}

static uint32_t record_value(tn_eager *eager, tn__eager_item_id id, tn_kind kind) {
    tn__record *record = &eager->record;
    tn__eager_item *item = &eager->items[id];
    record->values[record->value_count] = (tn__record_value){
        .type = tn__eager_item_type(eager, id), .name = item->name, .kind = kind};
    item->recorded = (uint32_t)record->value_count++;
    return item->recorded;
}

static void record_add(tn_eager *eager, tn__record_kind kind, uint32_t value) {
    tn__record *record = &eager->record;
    record->entries[record->entry_count++] = (tn__record_entry){.kind = kind, .value = value};
}

void tn__record_put(tn_eager *eager, tn__eager_item_id id) {
    if (!eager->record.on || eager->items[id].tensor == TN_NONE) return;
    record_add(eager, TN__RECORD_PUT, record_value(eager, id, eager->items[id].kind));
}

void tn__record_get(tn_eager *eager, tn__eager_item_id id) {
    if (!eager->record.on || eager->items[id].recorded == TN_NONE) return;
    record_add(eager, TN__RECORD_GET, eager->items[id].recorded);
}

void tn__record_reads(tn_eager *eager, const tn__cached_op *cached,
                      const tn__eager_item_id *inputs) {
    tn__record *record = &eager->record;
    record->entries[record->entry_count++] = (tn__record_entry){
        .kind = TN__RECORD_APPLY, .cached = cached, .first = record->operand_count};
    for (uint32_t i = 0; i < cached->input_count; i++)
        record->operands[record->operand_count++] =
            inputs[i] == TN_NONE ? TN_NONE : eager->items[inputs[i]].recorded;
}

void tn__record_makes(tn_eager *eager, const tn__cached_op *cached, const tn__eager_item_id *inputs,
                      const tn__eager_item_id *outputs) {
    tn__record *record = &eager->record;
    for (uint32_t k = 0; k < cached->output_count; k++) {
        const tn__result *result = &cached->results[k];
        uint32_t value = TN_NONE;
        if (result->handed) {
            tn__eager_item_id id = inputs[result->view_of];
            value = record_value(eager, id, eager->items[id].kind);
        } else if (outputs[k] != TN_NONE && eager->items[outputs[k]].tensor != TN_NONE) {
            value = record_value(eager, outputs[k], TN_KIND_ACTIVATION);
        }
        record->operands[record->operand_count++] = value;
    }
}

void tn__record_take_back(tn_eager *eager, const tn__cached_op *cached) {
    eager->record.entry_count--;
    eager->record.operand_count -= cached->input_count;
}

void tn__record_onto_first(tn_eager *eager) {
    eager->record.entries[eager->record.entry_count - 1].onto_first = true;
}

void tn__record_release(tn_eager *eager, tn__eager_item_id id) {
    if (!eager->record.on || eager->items[id].recorded == TN_NONE) return;
    /* If memory runs out, the recording lacks the release; the log then frees the tensor later than
     * the run did. */
    if (tn__record_reserve(eager, NULL) == TN_OK)
        record_add(eager, TN__RECORD_RELEASE, eager->items[id].recorded);
    eager->items[id].recorded = TN_NONE;
}

void tn__record_close(tn_eager *eager) {
    tn__record *record = &eager->record;
    const tn_context *context = &eager->context;
    tn__free(context, record->entries, record->entry_room * sizeof *record->entries);
    tn__free(context, record->values, record->value_room * sizeof *record->values);
    tn__free(context, record->operands, record->operand_room * sizeof *record->operands);
}

tn_status tn_eager_restart(tn_eager *eager, tn_error *error) {
    tn__record *record = &eager->record;
    record->on = true;
    record->entry_count = record->value_count = record->operand_count = 0;
    for (tn__eager_item_id id = 0; id < eager->item_count; id++)
        eager->items[id].recorded = TN_NONE;
    for (tn__eager_item_id id = 0; id < eager->item_count; id++) {
        if (eager->items[id].refs == 0) continue;
        tn_status status = tn__record_reserve(eager, error);
        record->on = status == TN_OK;
        if (status != TN_OK) return tn__where(error, status, "restart");
        tn__record_put(eager, id);
    }
    return TN_OK;
}

/* --- a recording as a graph and a program ----------------------------------------------------- */

/* Turns a recording into a graph, and a program in the same order.
 *
 * A value that the caller put becomes an input of the graph, or a static tensor if it has a fixed
 * address. Immediates become constants. A value that the caller got becomes an output. Operators
 * are in the order in which they ran first. Recomputations that kept the run within its budget are
 * omitted, because the program's planner decides again what to recompute. Values that were never
 * read are omitted too.
 * Cost: O(operands), and type inference.
 */

typedef struct recorded_work {
    const tn_eager *eager;
    const tn__record *record;
    tn_graph *graph;
    tn_tensor_id *tensor;   /* [values] */
    bool *is_read, *is_got; /* [values] */
    /* for each value: whether the caller put it and an operator writes into it later */
    bool *is_changed;
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
        for (uint32_t i = 0; i < entry->cached->input_count; i++) {
            if (inputs[i] == TN_NONE) continue;
            it->is_read[inputs[i]] = true;
            it->is_changed[inputs[i]] |= (entry->cached->changes >> i & 1) != 0;
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

/* Adds a tensor for a value that the caller put, if an operator reads it. */
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

static tn_status recorded_output(recorded_work *it, const tn__cached_op *cached, uint32_t number,
                                 uint32_t value, tn_tensor_id *id) {
    const tn__result *result = &cached->results[number];
    *id = TN_NONE;
    if (result->type == TN_NONE) return TN_OK;
    tn_tensor_spec spec = {
        .name = cached->op->type, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
    if (value != TN_NONE && !result->handed && it->record->values[value].name[0] != '\0')
        spec.name = it->record->values[value].name;
    if (value != TN_NONE && it->is_got[value] && !result->handed) spec.kind = TN_KIND_OUTPUT;
    TN_TRY(tn_graph_add_tensor(it->graph, &spec, id, it->error));
    if (value != TN_NONE) it->tensor[value] = *id;
    return TN_OK;
}

static tn_status recorded_apply(recorded_work *it, const tn__record_entry *entry) {
    const tn__cached_op *cached = entry->cached;
    const uint32_t *operands = &it->record->operands[entry->first];
    tn_tensor_id inputs[TN__OPERANDS_MOST], outputs[TN__OPERANDS_MOST];
    /* all outputs are immediates, so nothing was computed */
    if (cached->data_output_count == 0) return TN_OK;
    for (uint32_t i = 0; i < cached->input_count; i++)
        TN_TRY(recorded_input(it, operands[i], cached->inputs[i], &inputs[i]));
    for (uint32_t k = 0; k < cached->output_count; k++)
        TN_TRY(recorded_output(it, cached, k, operands[cached->input_count + k], &outputs[k]));
    const tn_op_spec spec = {.name = cached->op->type,
                             .type = cached->op->type,
                             .domain = cached->op->domain,
                             .version = cached->op->version,
                             .inputs = inputs,
                             .outputs = outputs,
                             .attrs = cached->op->attrs,
                             .input_count = cached->input_count,
                             .output_count = cached->output_count,
                             .attr_count = cached->op->attr_count};
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
        /* the program is in the order in which operators were added */
        status = tn_program_create(it.graph, NULL, &made, error);
    tn__arena_release(&it.arena);
    if (status != TN_OK) {
        tn_graph_destroy(it.graph);
        return tn__where(error, status, "recorded");
    }
    *graph = it.graph;
    if (program != NULL) *program = made;
    return TN_OK;
}

/* --- a recording as lines of JSON ------------------------------------------------------------- */

/* Writes the recorded commands as lines of JSON, in the format of DTR's simulator with additional
 * fields (memory/evict/log.c).
 *
 *     {"INSTRUCTION":"CONSTANT","NAME":"t0"}           data that was put at a fixed address
 *     {"INSTRUCTION":"MEMORY","NAME":"t0","MEMORY":"64"}
 *     {"INSTRUCTION":"CALL","NAME":"put","ARGS":[],"RESULT":["t1"],"TIME":"0","ONCE":1}
 *                                                      other data
 *     {"INSTRUCTION":"CALL","NAME":"MatMul","ARGS":["t0","t1"],"RESULT":["t2"],"TIME":"812"}
 *         with MEMORY and ALIAS (the argument of which a result is a view, or -1) for each result
 *     {"INSTRUCTION":"MUTATE","NAME":"SgdStep","ARGS":["t0","t3"],"MUTATE":[0],"TIME":"90",
 *      "IN_PLACE":1}
 *     {"INSTRUCTION":"RELEASE","NAME":"t2"}
 *
 * TIME is the shortest duration of such an operator in nanoseconds. A tensor that is written into
 * keeps its name. An operator that both writes into tensors and creates others is written as two
 * lines, with its time in the first. Immediates are not listed as arguments.
 * Source: the traces that are published with DTR's simulator (Kirisame et al., Dynamic Tensor
 * Rematerialization, 2021).
 */

typedef struct log_work {
    const tn_eager *eager;
    const tn__record *record;
    uint32_t *name; /* for each value: the number in its name */
    tn__text text;
} log_work;

static void log_memory(log_work *it, uint32_t value) {
    tn__text_printf(&it->text,
                    "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"t%u\",\"MEMORY\":\"%llu\"}\n",
                    it->name[value], (unsigned long long)it->record->values[value].type->bytes);
}

/* Writes data that no operator can recompute: a constant if it has a fixed address, otherwise the
 * result of a CALL that runs only once. */
static void log_put(log_work *it, uint32_t value) {
    const tn__eager_item like = {.kind = it->record->values[value].kind};
    it->name[value] = value;
    if (tn__eager_item_is_fixed(&like)) {
        tn__text_printf(&it->text, "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"t%u\"}\n", value);
        log_memory(it, value);
        return;
    }
    tn__text_printf(&it->text,
                    "{\"INSTRUCTION\":\"CALL\",\"NAME\":\"put\",\"ARGS\":[],\"RESULT\":[\"t%u\"],"
                    "\"TIME\":\"0\",\"ONCE\":1}\n",
                    value);
    log_memory(it, value);
    tn__text_printf(&it->text, "{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"t%u\",\"ALIAS\":\"-1\"}\n",
                    value);
}

/* Writes the arguments. number[i] becomes the position of input i among them, or TN_NONE. */
static void log_arguments(log_work *it, const tn__cached_op *cached, const uint32_t *inputs,
                          uint32_t *number) {
    uint32_t count = 0;
    tn__text_put(&it->text, "\"ARGS\":[");
    for (uint32_t i = 0; i < cached->input_count; i++) {
        number[i] = inputs[i] == TN_NONE ? TN_NONE : count;
        if (inputs[i] == TN_NONE) continue;
        tn__text_printf(&it->text, "%s\"t%u\"", count > 0 ? "," : "", it->name[inputs[i]]);
        count++;
    }
    tn__text_put(&it->text, "]");
}

/* Whether the operator itself creates output k: the output is not an input that it writes into, and
 * no second operator computes it. */
static bool log_is_made(const tn__cached_op *cached, const uint32_t *outputs, uint32_t k) {
    return outputs[k] != TN_NONE && !cached->results[k].handed && (k > 0 || cached->again == NULL);
}

static void log_results(log_work *it, const tn__cached_op *cached, const uint32_t *outputs,
                        const uint32_t *number) {
    for (uint32_t k = 0; k < cached->output_count; k++) {
        const tn__result *result = &cached->results[k];
        if (!log_is_made(cached, outputs, k)) continue;
        log_memory(it, outputs[k]);
        tn__text_printf(&it->text, "{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"t%u\",\"ALIAS\":\"%d\"",
                        outputs[k], result->view_of == TN_NONE ? -1 : (int)number[result->view_of]);
        if (result->offset > 0)
            tn__text_printf(&it->text, ",\"SHIFT\":\"%llu\"", (unsigned long long)result->offset);
        tn__text_put(&it->text, "}\n");
    }
}

static void log_cost(log_work *it, const tn__cached_op *cached, bool is_timed) {
    tn__text_printf(&it->text, ",\"TIME\":\"%llu\"",
                    (unsigned long long)(is_timed ? 0 : cached->cost_ns));
    if (cached->scratch > 0 && !is_timed)
        tn__text_printf(&it->text, ",\"SCRATCH\":\"%llu\"", (unsigned long long)cached->scratch);
}

static void log_begin(log_work *it, const char *instruction, const tn__cached_op *cached,
                      const uint32_t *inputs, uint32_t *number) {
    tn__text_printf(&it->text, "{\"INSTRUCTION\":\"%s\",\"NAME\":", instruction);
    tn__text_json(&it->text, cached->op->type);
    tn__text_put(&it->text, ",");
    log_arguments(it, cached, inputs, number);
}

/* Writes the CALL line for the tensors that an operator creates. Returns false if it creates
 * none. */
static bool log_call(log_work *it, const tn__cached_op *cached, const uint32_t *inputs,
                     const uint32_t *outputs) {
    uint32_t number[TN__OPERANDS_MOST], count = 0;
    for (uint32_t k = 0; k < cached->output_count; k++) count += log_is_made(cached, outputs, k);
    if (count == 0) return false;
    log_begin(it, "CALL", cached, inputs, number);
    tn__text_put(&it->text, ",\"RESULT\":[");
    for (uint32_t k = 0, written = 0; k < cached->output_count; k++) {
        if (!log_is_made(cached, outputs, k)) continue;
        it->name[outputs[k]] = outputs[k];
        tn__text_printf(&it->text, "%s\"t%u\"", written++ > 0 ? "," : "", outputs[k]);
    }
    tn__text_put(&it->text, "]");
    log_cost(it, cached, false);
    tn__text_put(&it->text, cached->repeats ? "}\n" : ",\"ONCE\":1}\n");
    log_results(it, cached, outputs, number);
    return true;
}

/* Writes the MUTATE line for the inputs in the set `changes`, into which the operator writes.
 * `is_timed`: the CALL line has the time already. */
static void log_mutate(log_work *it, const tn__cached_op *cached, const uint32_t *inputs,
                       uint64_t changes, bool is_timed) {
    uint32_t number[TN__OPERANDS_MOST], count = 0;
    if (changes == 0) return;
    log_begin(it, "MUTATE", cached, inputs, number);
    tn__text_put(&it->text, ",\"MUTATE\":[");
    for (uint32_t i = 0; i < cached->input_count; i++)
        if ((changes >> i & 1) != 0 && number[i] != TN_NONE)
            tn__text_printf(&it->text, "%s%u", count++ > 0 ? "," : "", number[i]);
    tn__text_put(&it->text, "]");
    log_cost(it, cached, is_timed);
    tn__text_put(&it->text, ",\"IN_PLACE\":1}\n");
}

static void log_hand_back(log_work *it, const tn__cached_op *cached, const uint32_t *inputs,
                          const uint32_t *outputs) {
    for (uint32_t k = 0; k < cached->output_count; k++)
        if (cached->results[k].handed && outputs[k] != TN_NONE)
            it->name[outputs[k]] = it->name[inputs[cached->results[k].view_of]];
}

/* Writes the second operator, which computes output 0 from the other outputs of the first one. */
static void log_again(log_work *it, const tn__cached_op *cached, const uint32_t *inputs,
                      const uint32_t *outputs) {
    uint32_t from[TN__OPERANDS_MOST];
    for (uint32_t i = 0; i < cached->again->input_count; i++)
        from[i] = (cached->again_found >> i & 1) != 0 ? outputs[i] : inputs[i];
    (void)log_call(it, cached->again, from, outputs);
}

static void log_apply(log_work *it, const tn__record_entry *entry) {
    const tn__cached_op *cached = entry->cached;
    const uint32_t *inputs = &it->record->operands[entry->first];
    const uint32_t *outputs = inputs + cached->input_count;
    if (entry->onto_first) {
        log_mutate(it, cached, inputs, 1, false);
        it->name[outputs[0]] = it->name[inputs[0]];
        return;
    }
    bool is_timed = log_call(it, cached, inputs, outputs);
    log_mutate(it, cached, inputs, cached->changes, is_timed);
    log_hand_back(it, cached, inputs, outputs);
    if (cached->again != NULL) log_again(it, cached, inputs, outputs);
}

static void log_entry(log_work *it, const tn__record_entry *entry) {
    if (entry->kind == TN__RECORD_PUT) log_put(it, entry->value);
    if (entry->kind == TN__RECORD_RELEASE)
        tn__text_printf(&it->text, "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"t%u\"}\n",
                        it->name[entry->value]);
    if (entry->kind == TN__RECORD_APPLY) log_apply(it, entry);
}

tn_status tn_eager_log(const tn_eager *eager, const char *path, tn_error *error) {
    log_work it = {.eager = eager, .record = &eager->record};
    size_t values = eager->record.value_count;
    if (!eager->record.on)
        return tn__where(error, tn__fail(error, TN_E_INVALID, "nothing was recorded"), "%s", path);
    it.name = tn__alloc_array(&eager->context, values, sizeof *it.name);
    if (it.name == NULL) return tn__no_memory(error, "a log");
    tn__text_init(&it.text, &eager->context);
    tn__text_put(&it.text, "{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}\n");
    for (size_t e = 0; e < eager->record.entry_count; e++)
        log_entry(&it, &eager->record.entries[e]);
    tn_status status = it.text.failed ? tn__no_memory(error, "a log")
                                      : tn__file_write(path, it.text.data, it.text.size, error);
    tn__text_release(&it.text);
    tn__free(&eager->context, it.name, values * sizeof *it.name);
    return tn__where(error, status, "%s", path);
}
