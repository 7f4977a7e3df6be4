/* costs.c - the table of costs: the cost of a first run and of a repeat for each operator; costs of
 * a device that is described by two rates; costs as JSON.
 *
 * The numbers come from the device model or a JSON file (both in this file), from measurements
 * (fit/setup/measure.c), or from the caller. Cost: O(operators).
 */
#include "fit/budget/costs.h"

#include <math.h>
#include <stdio.h>

#include "graph/key.h"
#include "graph/derived.h"
#include "graph/takes.h"

/* --- table ------------------------------------------------------------------------------------ */

tn_status tn__costs_create(const tn_context *given, const tn_graph *graph, tn_costs **costs,
                           tn_error *error) {
    tn_context context = tn__context(given);
    uint32_t count = tn_graph_op_count(graph);
    tn_costs *made = tn__alloc_array(&context, 1, sizeof *made);
    uint64_t *numbers = tn__alloc_array(&context, 2 * (size_t)count, sizeof *numbers);
    if (made == NULL || numbers == NULL) {
        tn__free(&context, made, sizeof *made);
        tn__free(&context, numbers, 2 * (size_t)count * sizeof *numbers);
        return tn__no_memory(error, "costs");
    }
    *made = (tn_costs){.context = context,
                       .graph = graph,
                       .of = numbers,
                       .recompute = numbers + count,
                       .count = count};
    *costs = made;
    return TN_OK;
}

void tn_costs_destroy(tn_costs *costs) {
    if (costs == NULL) return;
    tn_context context = costs->context;
    tn__free(&context, costs->of, 2 * (size_t)costs->count * sizeof *costs->of);
    tn__free(&context, costs, sizeof *costs);
}

/* --- costs given by the caller --- */

static tn_status costs_check(const tn_costs *costs, const uint64_t *numbers, const char *file,
                             tn_error *error) {
    uint64_t sum = 0;
    for (tn_op_id id = 0; id < costs->count; id++) {
        sum = tn__add_sat(sum, numbers[id]);
        if (sum <= TN_COSTS_MOST) continue;
        const tn_op *op = tn_graph_op(costs->graph, id);
        tn__fail(error, TN_E_INVALID, "a cost of %llu; all together may cost 2^56 at most",
                 (unsigned long long)numbers[id]);
        return tn__where(error, TN_E_INVALID, "%s%snode '%.60s' (%.30s)", file != NULL ? file : "",
                         file != NULL ? ": " : "", op->name, op->type);
    }
    return TN_OK;
}

tn_status tn__costs_check(const tn_costs *costs, const char *file, tn_error *error) {
    TN_TRY(costs_check(costs, costs->of, file, error));
    return costs_check(costs, costs->recompute, file, error);
}

tn_status tn_costs_given(const tn_context *context, const tn_graph *graph, const uint64_t *of,
                         const uint64_t *recompute, uint32_t count, double bytes_per_s,
                         tn_costs **costs, tn_error *error) {
    if (count != tn_graph_op_count(graph))
        TN_FAIL(error, TN_E_INVALID, "%u costs for a graph of %u operators", count,
                tn_graph_op_count(graph));
    if (!isfinite(bytes_per_s) || bytes_per_s < 0)
        TN_FAIL(error, TN_E_INVALID, "%g bytes a second is not a rate", bytes_per_s);
    tn_costs *made;
    TN_TRY(tn__costs_create(context, graph, &made, error));
    if (count > 0) {
        memcpy(made->of, of, count * sizeof *of);
        memcpy(made->recompute, recompute != NULL ? recompute : of, count * sizeof *of);
    }
    made->bytes_per_s = bytes_per_s;
    tn_status status = tn__costs_check(made, NULL, error);
    if (status == TN_OK)
        *costs = made;
    else
        tn_costs_destroy(made);
    return status;
}

/* --- queries --- */

const tn_graph *tn_costs_graph(const tn_costs *costs) { return costs->graph; }

uint64_t tn_costs_of(const tn_costs *costs, tn_op_id op) {
    return op < costs->count ? costs->of[op] : 0;
}

uint64_t tn_costs_again_of(const tn_costs *costs, tn_op_id op) {
    return op < costs->count ? costs->recompute[op] : 0;
}

const uint64_t *tn_costs_list(const tn_costs *costs) { return costs->of; }
const uint64_t *tn_costs_again_list(const tn_costs *costs) { return costs->recompute; }
double tn_costs_bytes_per_s(const tn_costs *costs) { return costs->bytes_per_s; }

uint32_t tn_costs_threads(const tn_costs *costs) { return costs->threads; }

uint64_t tn_costs_total(const tn_costs *costs) {
    uint64_t total = 0;
    for (uint32_t i = 0; i < costs->count; i++) total = tn__add_sat(total, costs->of[i]);
    return total;
}

/* --- time of a program --- */

tn_status tn__costs_simulate(const tn_costs *costs, const tn_program *program,
                             const tn_simulate_options *given, tn_simulation *simulation,
                             tn_error *error) {
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    options.struct_size = sizeof options;
    options.costs = tn_costs_list(costs);
    options.again = tn_costs_again_list(costs);
    if (options.codec_bytes_per_s == 0) options.codec_bytes_per_s = tn_costs_bytes_per_s(costs);
    return tn_simulate(program, &options, simulation, error);
}

/* --- costs from two rates --------------------------------------------------------------------- */

/* Costs on a device that is described by two rates, for all operators of a graph.
 *
 * graph/takes.h gives the time of each operator. Cost: O(operators + operands).
 */

typedef struct model_rates {
    tn__machine machine;
    /* true: unknown costs become 0 and costs that are too large become TN_COSTS_MOST; false: both
     * are errors */
    bool lax;
} model_rates;

static tn_status model_fail(const tn_graph *graph, tn_op_id id, tn_status status, tn_error *error) {
    const tn_op *op = tn_graph_op(graph, id);
    return tn__where(error, status, "node '%.60s' (%.30s)", op->name, op->type);
}

static tn_status model_cost(const tn_graph *graph, tn_op_id id, const model_rates *rates,
                            uint64_t *picoseconds, tn_error *error) {
    bool known;
    double seconds = tn__op_takes(graph, id, &rates->machine, &known);
    *picoseconds = 0;
    if (!tn__op_runs(graph, id)) return TN_OK;
    if (!known && !rates->lax) {
        tn__fail(error, TN_E_UNKNOWN, "how many bytes this operator moves is not known");
        return model_fail(graph, id, TN_E_UNKNOWN, error);
    }
    double units = fmax(round(seconds * (double)TN_COSTS_PER_S), 1);
    bool fits = units <= (double)TN_COSTS_MOST;
    if (!fits && !rates->lax) {
        tn__fail(error, TN_E_INVALID, "%g s for one operator; the most is %g", seconds,
                 (double)(TN_COSTS_MOST / TN_COSTS_PER_S));
        return model_fail(graph, id, TN_E_INVALID, error);
    }
    *picoseconds = fits ? (uint64_t)units : TN_COSTS_MOST;
    return TN_OK;
}

static tn_status model_fill(tn_costs *costs, const tn__repeats *repeats, const model_rates *rates,
                            tn_error *error) {
    for (tn_op_id id = 0; id < costs->count; id++) {
        TN_TRY(model_cost(costs->graph, id, rates, &costs->of[id], error));
        costs->recompute[id] = costs->of[id];
        if (repeats->graph == NULL || repeats->of[id] == TN_NONE) continue;
        TN_TRY(model_cost(repeats->graph, repeats->of[id], rates, &costs->recompute[id], error));
    }
    return TN_OK;
}

static tn_status model_rate(double rate, const char *what, tn_error *error) {
    if (isfinite(rate) && rate > 0) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "a device of %g %s a second; it must be above 0", rate, what);
}

static tn_status model_create(const tn_context *context, const tn_graph *graph,
                              const model_rates *rates, tn_costs **costs, tn_error *error) {
    tn__repeats repeats;
    tn_costs *made;
    TN_TRY(tn__repeats_make(context, graph, &repeats, error));
    tn_status status = tn__costs_create(context, graph, &made, error);
    if (status == TN_OK) {
        /* a copy reads and writes each byte, so it has half of the memory bandwidth */
        made->bytes_per_s = rates->machine.bytes / 2;
        status = model_fill(made, &repeats, rates, error);
        if (status == TN_OK)
            *costs = made;
        else
            tn_costs_destroy(made);
    }
    tn__repeats_release(&repeats);
    return status;
}

tn_status tn_costs_create_model(const tn_graph *graph, const tn_costs_model *model,
                                tn_costs **costs, tn_error *error) {
    tn_costs_model asked = TN_COSTS_MODEL_INIT;
    tn__options(&asked, sizeof asked, model);
    const model_rates plain = {.machine = TN__PLAIN_MACHINE};
    model_rates rates = {.machine = {asked.flops_per_s, asked.bytes_per_s}};
    if (asked.flops_per_s == 0 && asked.bytes_per_s == 0) rates = plain;
    TN_TRY(model_rate(rates.machine.operations, "operations", error));
    TN_TRY(model_rate(rates.machine.bytes, "bytes", error));
    return model_create(asked.context, graph, &rates, costs, error);
}

tn_status tn__costs_plain(const tn_context *context, const tn_graph *graph, tn_costs **costs,
                          tn_error *error) {
    const model_rates plain = {.machine = TN__PLAIN_MACHINE, .lax = true};
    return model_create(context, graph, &plain, costs, error);
}

/* --- costs as JSON ---------------------------------------------------------------------------- */

/* Writes and reads costs as JSON (with jansson).
 *
 *     {"format": "tenure-costs", "version": 1, "threads": 2, "bytes_per_s": 12000000000,
 *      "operators": [{"key": "0f3c...", "ps": 4711, "again_ps": 4711, "type": "Conv",
 *                     "name": "conv1"}, ...]}
 *
 * An operator is identified by the properties that make it equivalent to others (graph/key.h), not
 * by its name; `key` is a hash of these properties, as 32 hexadecimal digits. So a file can be used
 * for every graph with operators that occur in it. `ps` is the cost of a first run in picoseconds;
 * `again_ps` is the cost of the repeat form, and equals `ps` if it is absent. `type` and `name` are
 * for human readers. `format`, `version`, `operators`, `key` and `ps` are required; costs are
 * integers. jansson refuses bad UTF-8, duplicate members, NaN and trailing text. Cost: O(bytes +
 * operators).
 */

#define JSON_KEY 32u /* digits */

/* --- keys --- */

/* Writes the key of an operator: two independent 64-bit hashes of the bytes that describe it. The
 * first is FNV-1a (Fowler, Noll, Vo), the second multiplies and folds. */
static void json_key(const tn__text *bytes, char text[JSON_KEY + 1]) {
    uint64_t first = 0xcbf29ce484222325u, second = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < bytes->size; i++) {
        uint8_t byte = (uint8_t)bytes->data[i];
        first = (first ^ byte) * 0x100000001b3u;
        second = (second + byte) * 0xd6e8feb86659fd93u;
        second ^= second >> 32;
    }
    snprintf(text, JSON_KEY + 1, "%016llx%016llx", (unsigned long long)first,
             (unsigned long long)second);
}

static tn_status json_key_of(const tn_context *context, const tn_graph *graph, tn_op_id id,
                             char text[JSON_KEY + 1], tn_error *error) {
    tn__text bytes;
    tn__text_init(&bytes, context);
    tn__op_key(&bytes, graph, id);
    bool failed = bytes.failed;
    if (!failed) json_key(&bytes, text);
    tn__text_release(&bytes);
    return failed ? tn__no_memory(error, "costs") : TN_OK;
}

/* --- writing --- */

typedef struct json_entry {
    char key[JSON_KEY + 1];
    tn_op_id op; /* the first operator with this key */
    uint64_t ps, again_ps;
} json_entry;

typedef struct json_table { /* a table of distinct operators, by key */
    const tn_context *context;
    tn__arena arena;
    tn__names names; /* maps a key to its index in `entries` */
    json_entry *entries;
    uint32_t count;
} json_table;

static void json_table_open(json_table *table, const tn_context *context) {
    *table = (json_table){.context = context};
    tn__arena_init(&table->arena, context);
    tn__names_init(&table->names, context);
}

static void json_table_close(json_table *table) {
    tn__names_release(&table->names);
    tn__arena_release(&table->arena);
}

/* Collects the distinct operators of a graph with their costs. Of equivalent operators the larger
 * cost is kept, because one of them may run in place and another may not. */
static tn_status json_collect(const tn_costs *costs, json_table *table, tn_error *error) {
    table->entries = tn__arena_array(&table->arena, (size_t)costs->count + 1, sizeof(json_entry));
    if (table->entries == NULL) return tn__no_memory(error, "costs");
    for (tn_op_id id = 0; id < costs->count; id++) {
        if (!tn__op_runs(costs->graph, id)) continue;
        json_entry *entry = &table->entries[table->count];
        uint32_t known;
        TN_TRY(json_key_of(table->context, costs->graph, id, entry->key, error));
        entry->op = id;
        if (!tn__names_add(&table->names, entry->key, JSON_KEY, table->count, &known))
            return tn__no_memory(error, "costs");
        if (known != TN__NAMES_NONE)
            entry = &table->entries[known];
        else
            table->count++;
        if (costs->of[id] > entry->ps || known == TN__NAMES_NONE) entry->ps = costs->of[id];
        if (costs->recompute[id] > entry->again_ps || known == TN__NAMES_NONE)
            entry->again_ps = costs->recompute[id];
    }
    return TN_OK;
}

static void json_print(const tn_costs *costs, const json_table *table, tn__text *text) {
    tn__text_printf(text, "{\"format\": \"tenure-costs\", \"version\": 1, \"threads\": %u",
                    costs->threads);
    tn__text_printf(text, ", \"bytes_per_s\": %.0f,\n \"operators\": [", costs->bytes_per_s);
    for (uint32_t i = 0; i < table->count; i++) {
        const json_entry *entry = &table->entries[i];
        const tn_op *op = tn_graph_op(costs->graph, entry->op);
        tn__text_printf(text, "%s\n  {\"key\": \"%s\", \"ps\": %llu", i > 0 ? "," : "", entry->key,
                        (unsigned long long)entry->ps);
        tn__text_printf(text,
                        ", \"again_ps\": %llu, \"type\": ", (unsigned long long)entry->again_ps);
        tn__text_json(text, op->type);
        tn__text_put(text, ", \"name\": ");
        tn__text_json(text, op->name);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]}\n");
}

tn_status tn_costs_write(const tn_costs *costs, const char *path, tn_error *error) {
    json_table table;
    tn__text text;
    json_table_open(&table, &costs->context);
    tn__text_init(&text, &costs->context);
    tn_status status = json_collect(costs, &table, error);
    if (status == TN_OK) {
        json_print(costs, &table, &text);
        status = text.failed ? tn__no_memory(error, "costs")
                             : tn__file_write(path, text.data, text.size, error);
    }
    tn__text_release(&text);
    json_table_close(&table);
    return status;
}

#ifdef TENURE_MINIMAL
tn_status tn_costs_read_memory(const char *name, const void *bytes, size_t size,
                               const tn_context *context, const tn_graph *graph, tn_costs **costs,
                               tn_error *error) {
    (void)bytes, (void)size, (void)context, (void)graph, (void)costs;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", name);
}
#else
#include "base/json.h"

/* --- reading --- */

static bool json_cost(const json_t *item, uint64_t *cost) {
    if (!json_is_integer(item) || json_integer_value(item) < 0) return false;
    *cost = (uint64_t)json_integer_value(item);
    return *cost <= TN_COSTS_MOST;
}

static bool json_is_key(const char *text) {
    return text != NULL && strlen(text) == JSON_KEY && strspn(text, "0123456789abcdef") == JSON_KEY;
}

static tn_status json_entry_read(json_table *table, const json_t *item, size_t index,
                                 tn_error *error) {
    json_entry *entry = &table->entries[table->count];
    const char *key = json_string_value(json_object_get(item, "key"));
    const json_t *recompute = json_object_get(item, "again_ps");
    uint32_t known;
    if (!json_is_key(key))
        TN_FAIL(error, TN_E_INVALID,
                "operators[%zu]: 'key' is not a string of 32 hexadecimal digits", index);
    memcpy(entry->key, key, JSON_KEY + 1);
    if (!json_cost(json_object_get(item, "ps"), &entry->ps))
        TN_FAIL(error, TN_E_INVALID, "operators[%zu]: 'ps' is not an integer from 0 to 2^56",
                index);
    entry->again_ps = entry->ps;
    if (recompute != NULL && !json_cost(recompute, &entry->again_ps))
        TN_FAIL(error, TN_E_INVALID, "operators[%zu]: 'again_ps' is not an integer from 0 to 2^56",
                index);
    if (!tn__names_add(&table->names, entry->key, JSON_KEY, table->count, &known))
        return tn__no_memory(error, "costs");
    if (known != TN__NAMES_NONE)
        TN_FAIL(error, TN_E_INVALID, "operators[%zu] is the same operator as operators[%u]", index,
                known);
    table->count++;
    return TN_OK;
}

static tn_status json_entries_read(json_table *table, const json_t *root, tn_error *error) {
    const json_t *list = json_object_get(root, "operators");
    if (!json_is_array(list)) TN_FAIL(error, TN_E_INVALID, "there is no array 'operators'");
    table->entries = tn__arena_array(&table->arena, json_array_size(list) + 1, sizeof(json_entry));
    if (table->entries == NULL) return tn__no_memory(error, "costs");
    for (size_t i = 0; i < json_array_size(list); i++)
        TN_TRY(json_entry_read(table, json_array_get(list, i), i, error));
    return TN_OK;
}

static tn_status json_match(const json_table *table, tn_costs *costs, tn_error *error) {
    for (tn_op_id id = 0; id < costs->count; id++) {
        char key[JSON_KEY + 1];
        if (!tn__op_runs(costs->graph, id)) continue;
        TN_TRY(json_key_of(table->context, costs->graph, id, key, error));
        uint32_t index = tn__names_find(&table->names, key, JSON_KEY);
        if (index == TN__NAMES_NONE) {
            const tn_op *op = tn_graph_op(costs->graph, id);
            TN_FAIL(error, TN_E_INVALID,
                    "no cost of node '%.80s' (%.40s): the costs are of another model, batch, type "
                    "or rewriting; measure them again",
                    op->name, op->type);
        }
        costs->of[id] = table->entries[index].ps;
        costs->recompute[id] = table->entries[index].again_ps;
    }
    return TN_OK;
}

static tn_status json_head(const json_t *root, tn_costs *costs, tn_error *error) {
    const char *format = json_string_value(json_object_get(root, "format"));
    const json_t *version = json_object_get(root, "version");
    const json_t *threads = json_object_get(root, "threads");
    const json_t *rate = json_object_get(root, "bytes_per_s");
    if (format == NULL || strcmp(format, "tenure-costs") != 0)
        TN_FAIL(error, TN_E_INVALID,
                "this is not a file of costs: 'format' is not \"tenure-costs\"");
    if (!json_is_integer(version) || json_integer_value(version) != 1)
        TN_FAIL(error, TN_E_INVALID, "costs of a version that is not known; 1 is");
    if (threads != NULL && (!json_is_integer(threads) || json_integer_value(threads) < 0 ||
                            json_integer_value(threads) > 65536))
        TN_FAIL(error, TN_E_INVALID, "'threads' is not a number of threads");
    if (rate != NULL && (!json_is_number(rate) || !(json_number_value(rate) >= 0) ||
                         !isfinite(json_number_value(rate))))
        TN_FAIL(error, TN_E_INVALID, "'bytes_per_s' is not a rate");
    costs->threads = (uint32_t)json_integer_value(threads);
    costs->bytes_per_s = json_number_value(rate);
    return TN_OK;
}

static tn_status json_document(const json_t *root, tn_costs *costs, tn_error *error) {
    json_table table;
    json_table_open(&table, &costs->context);
    tn_status status = json_head(root, costs, error);
    if (status == TN_OK) status = json_entries_read(&table, root, error);
    if (status == TN_OK) status = json_match(&table, costs, error);
    json_table_close(&table);
    return status;
}

tn_status tn_costs_read_memory(const char *name, const void *bytes, size_t size,
                               const tn_context *context, const tn_graph *graph, tn_costs **costs,
                               tn_error *error) {
    json_error_t why;
    tn_costs *made;
    tn_status status;
    json_t *root = tn__json_parse(bytes, size, &why, &status);
    if (root == NULL) {
        tn__fail(error, status, "%s", why.text);
        return tn__where(error, status, "%s: byte %d", name, why.position);
    }
    status = tn__costs_create(context, graph, &made, error);
    if (status == TN_OK) {
        status = json_document(root, made, error);
        if (status == TN_OK) status = tn__costs_check(made, name, error);
        if (status == TN_OK)
            *costs = made;
        else
            tn_costs_destroy(made);
    }
    json_decref(root);
    return tn__where(error, status, "%s", name);
}
#endif

tn_status tn_costs_read(const char *path, const tn_context *given, const tn_graph *graph,
                        tn_costs **costs, tn_error *error) {
    tn_context context = tn__context(given);
    tn__file file;
    TN_TRY(tn__file_map_text(path, context.read_limit, &file, error));
    tn_status status =
        tn_costs_read_memory(path, file.bytes, file.size, given, graph, costs, error);
    tn__file_unmap(&file);
    return status;
}
