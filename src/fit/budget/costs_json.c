/* costs_json.c - writes and reads costs as JSON (with jansson).
 *
 *     {"format": "tenure-costs", "version": 1, "threads": 2, "bytes_per_s": 12000000000,
 *      "operators": [{"key": "0f3c...", "ps": 4711, "again_ps": 4711, "type": "Conv",
 *                     "name": "conv1"}, ...]}
 *
 * An operator is identified by the properties that make it equivalent to others (graph/key.h);
 * `key` is a hash of them, 32 hexadecimal digits. A file thus serves every graph that consists of
 * its operators, independently of their names. `again_ps` is the cost of the repeat form; absent:
 * as `ps`. `type` and `name` are for human readers. `format`, `version`, `operators`, `key` and
 * `ps` are required; costs are integers. jansson refuses bad UTF-8, duplicate members, NaN and
 * trailing text. Cost: O(bytes + operators).
 */
#include "fit/budget/costs.h"

#include <math.h>
#include <stdio.h>

#include "graph/key.h"
#include "graph/takes.h"

#define JSON_KEY 32u /* digits */

/* --- keys --- */

/* Two independent 64-bit hashes: FNV (Fowler, Noll, Vo), and one that folds products. */
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

typedef struct json_table { /* distinct operators */
    const tn_context *context;
    tn__arena arena;
    tn__names names; /* key -> index */
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

/* For equivalent operators the larger cost is kept: one may work in place and another not. */
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
        if (costs->again[id] > entry->again_ps || known == TN__NAMES_NONE)
            entry->again_ps = costs->again[id];
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
    const json_t *again = json_object_get(item, "again_ps");
    uint32_t known;
    if (!json_is_key(key))
        TN_FAIL(error, TN_E_INVALID,
                "operators[%zu]: 'key' is not a string of 32 hexadecimal digits", index);
    memcpy(entry->key, key, JSON_KEY + 1);
    if (!json_cost(json_object_get(item, "ps"), &entry->ps))
        TN_FAIL(error, TN_E_INVALID, "operators[%zu]: 'ps' is not an integer from 0 to 2^56",
                index);
    entry->again_ps = entry->ps;
    if (again != NULL && !json_cost(again, &entry->again_ps))
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
        costs->again[id] = table->entries[index].again_ps;
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
