/* log.c - writes the recorded commands as lines of JSON, in the format of DTR's simulator with
 * additional fields (memory/evict/log.c).
 *
 *     {"INSTRUCTION":"CONSTANT","NAME":"t0"}           data that was put at a fixed place
 *     {"INSTRUCTION":"MEMORY","NAME":"t0","MEMORY":"64"}
 *     {"INSTRUCTION":"CALL","NAME":"put","ARGS":[],"RESULT":["t1"],"TIME":"0","ONCE":1}
 *         other data
 *     {"INSTRUCTION":"CALL","NAME":"MatMul","ARGS":["t0","t1"],"RESULT":["t2"],"TIME":"812"}
 *         with MEMORY and ALIAS (the argument that a result is a view of, or -1) for each result
 *     {"INSTRUCTION":"MUTATE","NAME":"SgdStep","ARGS":["t0","t3"],"MUTATE":[0],"TIME":"90",
 *      "IN_PLACE":1}
 *     {"INSTRUCTION":"RELEASE","NAME":"t2"}
 *
 * TIME is the shortest duration of such an operator in nanoseconds. A tensor that is written into
 * keeps its name. An operator that both writes into tensors and makes others is two lines, with its
 * time in the first. Immediates are not among the arguments.
 * Source: the traces that are published with DTR's simulator (Kirisame et al., Dynamic Tensor
 * Rematerialization, 2021).
 */
#include "run/eager/interpreter.h"

typedef struct log_work {
    const tn_eager *eager;
    const tn__record *record;
    uint32_t *name; /* [values] the number in the name */
    tn__text text;
} log_work;

static void log_memory(log_work *it, uint32_t value) {
    tn__text_printf(&it->text,
                    "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"t%u\",\"MEMORY\":\"%llu\"}\n",
                    it->name[value], (unsigned long long)it->record->values[value].type->bytes);
}

/* Data that no operator can recompute: at a fixed place, or kept until its last reference ends. */
static void log_put(log_work *it, uint32_t value) {
    const tn__item like = {.kind = it->record->values[value].kind};
    it->name[value] = value;
    if (tn__item_is_fixed(&like)) {
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

/* Writes the arguments; `number` gets the place of each input among them, or TN_NONE. */
static void log_arguments(log_work *it, const tn__recipe *recipe, const uint32_t *inputs,
                          uint32_t *number) {
    uint32_t count = 0;
    tn__text_put(&it->text, "\"ARGS\":[");
    for (uint32_t i = 0; i < recipe->input_count; i++) {
        number[i] = inputs[i] == TN_NONE ? TN_NONE : count;
        if (inputs[i] == TN_NONE) continue;
        tn__text_printf(&it->text, "%s\"t%u\"", count > 0 ? "," : "", it->name[inputs[i]]);
        count++;
    }
    tn__text_put(&it->text, "]");
}

/* Whether the operator itself makes output k: it is not handed back, and no other operator makes it
 * instead. */
static bool log_is_made(const tn__recipe *recipe, const uint32_t *outputs, uint32_t k) {
    return outputs[k] != TN_NONE && !recipe->results[k].handed && (k > 0 || recipe->again == NULL);
}

static void log_results(log_work *it, const tn__recipe *recipe, const uint32_t *outputs,
                        const uint32_t *number) {
    for (uint32_t k = 0; k < recipe->output_count; k++) {
        const tn__result *result = &recipe->results[k];
        if (!log_is_made(recipe, outputs, k)) continue;
        log_memory(it, outputs[k]);
        tn__text_printf(&it->text, "{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"t%u\",\"ALIAS\":\"%d\"",
                        outputs[k], result->view_of == TN_NONE ? -1 : (int)number[result->view_of]);
        if (result->offset > 0)
            tn__text_printf(&it->text, ",\"SHIFT\":\"%llu\"", (unsigned long long)result->offset);
        tn__text_put(&it->text, "}\n");
    }
}

static void log_cost(log_work *it, const tn__recipe *recipe, bool told) {
    tn__text_printf(&it->text, ",\"TIME\":\"%llu\"",
                    (unsigned long long)(told ? 0 : recipe->cost_ns));
    if (recipe->scratch > 0 && !told)
        tn__text_printf(&it->text, ",\"SCRATCH\":\"%llu\"", (unsigned long long)recipe->scratch);
}

static void log_begin(log_work *it, const char *instruction, const tn__recipe *recipe,
                      const uint32_t *inputs, uint32_t *number) {
    tn__text_printf(&it->text, "{\"INSTRUCTION\":\"%s\",\"NAME\":", instruction);
    tn__text_json(&it->text, recipe->op->type);
    tn__text_put(&it->text, ",");
    log_arguments(it, recipe, inputs, number);
}

/* Writes the CALL line for the tensors that it makes; false: it makes none. */
static bool log_call(log_work *it, const tn__recipe *recipe, const uint32_t *inputs,
                     const uint32_t *outputs) {
    uint32_t number[TN__OPERANDS_MOST], count = 0;
    for (uint32_t k = 0; k < recipe->output_count; k++) count += log_is_made(recipe, outputs, k);
    if (count == 0) return false;
    log_begin(it, "CALL", recipe, inputs, number);
    tn__text_put(&it->text, ",\"RESULT\":[");
    for (uint32_t k = 0, written = 0; k < recipe->output_count; k++) {
        if (!log_is_made(recipe, outputs, k)) continue;
        it->name[outputs[k]] = outputs[k];
        tn__text_printf(&it->text, "%s\"t%u\"", written++ > 0 ? "," : "", outputs[k]);
    }
    tn__text_put(&it->text, "]");
    log_cost(it, recipe, false);
    tn__text_put(&it->text, recipe->repeats ? "}\n" : ",\"ONCE\":1}\n");
    log_results(it, recipe, outputs, number);
    return true;
}

/* Writes the MUTATE line for the inputs in the set `changes`. */
static void log_mutate(log_work *it, const tn__recipe *recipe, const uint32_t *inputs,
                       uint64_t changes, bool told) {
    uint32_t number[TN__OPERANDS_MOST], count = 0;
    if (changes == 0) return;
    log_begin(it, "MUTATE", recipe, inputs, number);
    tn__text_put(&it->text, ",\"MUTATE\":[");
    for (uint32_t i = 0; i < recipe->input_count; i++)
        if ((changes >> i & 1) != 0 && number[i] != TN_NONE)
            tn__text_printf(&it->text, "%s%u", count++ > 0 ? "," : "", number[i]);
    tn__text_put(&it->text, "]");
    log_cost(it, recipe, told);
    tn__text_put(&it->text, ",\"IN_PLACE\":1}\n");
}

static void log_hand_back(log_work *it, const tn__recipe *recipe, const uint32_t *inputs,
                          const uint32_t *outputs) {
    for (uint32_t k = 0; k < recipe->output_count; k++)
        if (recipe->results[k].handed && outputs[k] != TN_NONE)
            it->name[outputs[k]] = it->name[inputs[recipe->results[k].view_of]];
}

/* Logs the operator that recomputes output 0 from the outputs of the first one. */
static void log_again(log_work *it, const tn__recipe *recipe, const uint32_t *inputs,
                      const uint32_t *outputs) {
    uint32_t from[TN__OPERANDS_MOST];
    for (uint32_t i = 0; i < recipe->again->input_count; i++)
        from[i] = (recipe->again_found >> i & 1) != 0 ? outputs[i] : inputs[i];
    (void)log_call(it, recipe->again, from, outputs);
}

static void log_apply(log_work *it, const tn__record_entry *entry) {
    const tn__recipe *recipe = entry->recipe;
    const uint32_t *inputs = &it->record->operands[entry->first];
    const uint32_t *outputs = inputs + recipe->input_count;
    if (entry->onto_first) {
        log_mutate(it, recipe, inputs, 1, false);
        it->name[outputs[0]] = it->name[inputs[0]];
        return;
    }
    bool told = log_call(it, recipe, inputs, outputs);
    log_mutate(it, recipe, inputs, recipe->changes, told);
    log_hand_back(it, recipe, inputs, outputs);
    if (recipe->again != NULL) log_again(it, recipe, inputs, outputs);
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
