/* log.c - what was run as lines of JSON, in the format of DTR's simulator.
 *
 *     {"INSTRUCTION":"CONSTANT","NAME":"t0"}           what was put, and its bytes:
 *     {"INSTRUCTION":"MEMORY","NAME":"t0","MEMORY":"64"}
 *     {"INSTRUCTION":"CALL","NAME":"MatMul","ARGS":["t0","t1"],"RESULT":["t2"],"TIME":"812"}
 *         with MEMORY and ALIAS (the argument that a result is a view of, or -1) for each result
 *     {"INSTRUCTION":"MUTATE","NAME":"SgdStep","ARGS":["t0","t3"],"MUTATE":[0],"TIME":"90"}
 *     {"INSTRUCTION":"RELEASE","NAME":"t2"}
 *
 * Nanoseconds are the least that such an operator took. What an operator writes into keeps its
 * name. Immediates are not among the arguments. Source: the traces that are published with DTR's
 * simulator (Kirisame et al., Dynamic Tensor Rematerialization, 2021).
 */
#include "eager/interpreter.h"

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

static void log_put(log_work *it, uint32_t value) {
    it->name[value] = value;
    tn__text_printf(&it->text, "{\"INSTRUCTION\":\"CONSTANT\",\"NAME\":\"t%u\"}\n", value);
    log_memory(it, value);
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

static void log_results(log_work *it, const tn__recipe *recipe, const uint32_t *outputs,
                        const uint32_t *number) {
    for (uint32_t k = 0; k < recipe->output_count; k++) {
        const tn__result *result = &recipe->results[k];
        if (outputs[k] == TN_NONE || result->handed) continue;
        log_memory(it, outputs[k]);
        tn__text_printf(&it->text,
                        "{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"t%u\",\"ALIAS\":\"%d\"}\n",
                        outputs[k], result->view_of == TN_NONE ? -1 : (int)number[result->view_of]);
    }
}

/* What it makes; false: nothing. */
static bool log_call(log_work *it, const tn__recipe *recipe, const uint32_t *inputs,
                     const uint32_t *outputs) {
    uint32_t number[TN__OPERANDS_MOST], count = 0;
    for (uint32_t k = 0; k < recipe->output_count; k++)
        count += outputs[k] != TN_NONE && !recipe->results[k].handed;
    if (count == 0) return false;
    tn__text_put(&it->text, "{\"INSTRUCTION\":\"CALL\",\"NAME\":");
    tn__text_json(&it->text, recipe->op->type);
    tn__text_put(&it->text, ",");
    log_arguments(it, recipe, inputs, number);
    tn__text_put(&it->text, ",\"RESULT\":[");
    for (uint32_t k = 0, written = 0; k < recipe->output_count; k++) {
        if (outputs[k] == TN_NONE || recipe->results[k].handed) continue;
        it->name[outputs[k]] = outputs[k];
        tn__text_printf(&it->text, "%s\"t%u\"", written++ > 0 ? "," : "", outputs[k]);
    }
    tn__text_printf(&it->text, "],\"TIME\":\"%llu\"}\n", (unsigned long long)recipe->cost_ns);
    log_results(it, recipe, outputs, number);
    return true;
}

/* What it writes into; its time was told with what it makes, if it makes anything. */
static void log_mutate(log_work *it, const tn__recipe *recipe, const uint32_t *inputs,
                       const uint32_t *outputs, bool told) {
    uint32_t number[TN__OPERANDS_MOST], count = 0;
    if (recipe->changes == 0) return;
    tn__text_put(&it->text, "{\"INSTRUCTION\":\"MUTATE\",\"NAME\":");
    tn__text_json(&it->text, recipe->op->type);
    tn__text_put(&it->text, ",");
    log_arguments(it, recipe, inputs, number);
    tn__text_put(&it->text, ",\"MUTATE\":[");
    for (uint32_t i = 0; i < recipe->input_count; i++)
        if ((recipe->changes >> i & 1) != 0 && number[i] != TN_NONE)
            tn__text_printf(&it->text, "%s%u", count++ > 0 ? "," : "", number[i]);
    tn__text_printf(&it->text, "],\"TIME\":\"%llu\"}\n",
                    (unsigned long long)(told ? 0 : recipe->cost_ns));
    for (uint32_t k = 0; k < recipe->output_count; k++)
        if (recipe->results[k].handed && outputs[k] != TN_NONE)
            it->name[outputs[k]] = it->name[inputs[recipe->results[k].view_of]];
}

static void log_entry(log_work *it, const tn__record_entry *entry) {
    if (entry->kind == TN__RECORD_PUT) log_put(it, entry->value);
    if (entry->kind == TN__RECORD_RELEASE)
        tn__text_printf(&it->text, "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"t%u\"}\n",
                        it->name[entry->value]);
    if (entry->kind != TN__RECORD_APPLY) return;
    const uint32_t *inputs = &it->record->operands[entry->first];
    const uint32_t *outputs = inputs + entry->recipe->input_count;
    bool told = log_call(it, entry->recipe, inputs, outputs);
    log_mutate(it, entry->recipe, inputs, outputs, told);
}

tn_status tn_eager_log(const tn_eager *eager, const char *path, tn_error *error) {
    log_work it = {.eager = eager, .record = &eager->record};
    size_t values = eager->record.value_count;
    if (!eager->record.on) TN_FAIL(error, TN_E_INVALID, "nothing was recorded");
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
    return status;
}
