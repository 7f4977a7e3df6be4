/* dsa.c - reads problems of the format dsa-problem-v1, and writes their solutions.
 *
 *     {"schema_version": 1, "problem": {
 *         "pools": [{"id": 0, "name": "arena", "capacity": 64,
 *                    "reserved_ranges": [{"begin": 0, "end": 8}]}],
 *         "buffers": [{"id": 0, "name": "x", "size": 8, "alignment": 1, "allowed_pools": [0],
 *                      "live_intervals": [{"lower": 0, "upper": 3}]}],
 *         "constraints": {"separations": [{"first": 0, "second": 1}]},
 *         "cost_model": {"reuse_penalties": [{"first": 0, "second": 1, "cost": 1}]}}}
 *
 * Pools become banks of the problem, and buffers become its buffers, in the order of the file. Ids
 * are any integers; pairs refer to ids. A capacity of null means no limit. Penalties are optional.
 * Constraints that the problem cannot express are refused, never dropped: several allowed pools,
 * colocations, temporal exclusions, pinned allocations, and any other constraint that is not empty.
 * Reasons, metadata and the objective do not change the problem and are ignored.
 *
 * A solution is {"schema_version": 1, "placements": [{"buffer": id, "pool": id, "offset": bytes},
 * ...]}. dsa-solver adds a fingerprint of the problem to its own solutions; none is written here.
 *
 * Cost: O(bytes) expected time (ids are hashed), O(bytes) memory.
 * Source: tonibohnlein/dsa-solver, docs/structured_problem_schema_v1.md (facts, no code).
 */
#include "plan/io/dsa.h"

#include "base/table.h"
#include "plan/problem/problem.h"

#include <inttypes.h>

#define DSA_POOLS_MAX 64u
#define DSA_INTERVALS_MAX ((size_t)1 << 20) /* limit of live intervals of one buffer */

/* Finds the numbers of the items of a list by their ids. */
typedef struct dsa_ids {
    int64_t *ids; /* [count], id of each item; in the problem's arena */
    tn__table table;
} dsa_ids;

typedef struct dsa_reader {
    tn__reading *reading;
    dsa_ids pools, buffers;
} dsa_reader;

#define DSA_FAIL(reader, ...) TN_FAIL((reader)->reading->error, TN_E_INVALID, __VA_ARGS__)

static uint64_t dsa_hash(int64_t id) { return (uint64_t)id * 0x9e3779b97f4a7c15u; }

static tn_status dsa_ids_init(dsa_reader *reader, dsa_ids *ids, size_t count) {
    ids->ids = tn__arena_array(&reader->reading->problem->arena, count, sizeof *ids->ids);
    if (ids->ids == NULL || !tn__table_reserve(&ids->table, count))
        return tn__no_memory(reader->reading->error, "ids");
    return TN_OK;
}

/* Returns the number of the item with this id; UINT32_MAX if no item has it. */
static uint32_t dsa_ids_find(const dsa_ids *ids, int64_t id) {
    tn__probe probe = tn__table_probe(&ids->table, dsa_hash(id));
    uint32_t number;
    do number = tn__table_next(&ids->table, &probe);
    while (number != TN__TABLE_NONE && ids->ids[number] != id);
    return number;
}

/* Adds item `number`, for which memory is reserved; false if an earlier item has the same id. */
static bool dsa_ids_add(dsa_ids *ids, int64_t id, uint32_t number) {
    if (dsa_ids_find(ids, id) != UINT32_MAX) return false;
    ids->ids[number] = id;
    return tn__table_add(&ids->table, dsa_hash(id), number);
}

/* Reads an integer that must be at least `least`. */
static bool dsa_integer(const json_t *object, const char *member, int64_t least, int64_t *value) {
    const json_t *found = json_object_get(object, member);
    if (!json_is_integer(found) || json_integer_value(found) < least) return false;
    *value = json_integer_value(found);
    return true;
}

/* Reads an array; *array is NULL if the member is absent or null. False if it is something else. */
static bool dsa_array(const json_t *object, const char *member, const json_t **array) {
    const json_t *found = json_object_get(object, member);
    *array = json_is_null(found) ? NULL : found;
    return *array == NULL || json_is_array(*array);
}

/* --- pools --- */

static tn_status dsa_reserved(dsa_reader *reader, const json_t *pool, tn_bank_id bank) {
    const json_t *ranges;
    if (!dsa_array(pool, "reserved_ranges", &ranges))
        DSA_FAIL(reader, "pools[%u]: 'reserved_ranges' is not an array", bank);
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        int64_t begin, end;
        const json_t *range = json_array_get(ranges, i);
        if (!dsa_integer(range, "begin", 0, &begin) || !dsa_integer(range, "end", begin, &end))
            DSA_FAIL(reader, "pools[%u]: reserved_ranges[%zu] has no 'begin' and 'end' in order",
                     bank, i);
        TN_TRY(tn_problem_reserve(reader->reading->problem, bank, (uint64_t)begin, (uint64_t)end,
                                  reader->reading->error));
    }
    return TN_OK;
}

static bool dsa_is_empty(const json_t *value) {
    if (json_is_array(value)) return json_array_size(value) == 0;
    if (json_is_object(value)) return json_object_size(value) == 0;
    return json_is_null(value);
}

/* Refuses a member that is not one of `known`, names that end with a blank each: it could be a
 * constraint. A member that is null or empty has no effect. */
static tn_status dsa_known(dsa_reader *reader, const json_t *object, const char *known,
                           const char *list, size_t index) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        size_t length = strlen(name);
        const char *at = known;
        while (*at != '\0' && (strncmp(at, name, length) != 0 || at[length] != ' '))
            at += strcspn(at, " ") + 1;
        if (*at == '\0' && !dsa_is_empty(value))
            DSA_FAIL(reader, "%s[%zu]: the member '%.60s' is unknown; remove it to plan without it",
                     list, index, name);
    }
    return TN_OK;
}

static tn_status dsa_pool(dsa_reader *reader, const json_t *pool, tn_bank_id bank) {
    const json_t *limit = json_object_get(pool, "capacity");
    int64_t id, capacity = 0;
    TN_TRY(dsa_known(reader, pool, "id name capacity reserved_ranges bank_geometry metadata ",
                     "pools", bank));
    if (!dsa_integer(pool, "id", INT64_MIN, &id))
        DSA_FAIL(reader, "pools[%u]: 'id' is not an integer", bank);
    if (!dsa_ids_add(&reader->pools, id, bank))
        DSA_FAIL(reader, "pools[%u]: an earlier pool has the id %" PRId64, bank, id);
    if (limit != NULL && !json_is_null(limit) && !dsa_integer(pool, "capacity", 1, &capacity))
        DSA_FAIL(reader, "pools[%u]: 'capacity' is not an integer above 0, or null", bank);
    tn_bank made = {.name = json_string_value(json_object_get(pool, "name")),
                    .capacity = (uint64_t)capacity};
    TN_TRY(tn_problem_set_bank(reader->reading->problem, bank, &made, reader->reading->error));
    return dsa_reserved(reader, pool, bank);
}

static tn_status dsa_pools(dsa_reader *reader, const json_t *problem) {
    const json_t *pools = json_object_get(problem, "pools");
    size_t count = json_array_size(pools);
    if (!json_is_array(pools) || count == 0 || count > DSA_POOLS_MAX)
        DSA_FAIL(reader, "'pools' is not an array of 1 to %u pools", DSA_POOLS_MAX);
    TN_TRY(dsa_ids_init(reader, &reader->pools, count));
    for (size_t i = 0; i < count; i++)
        TN_TRY(dsa_pool(reader, json_array_get(pools, i), (tn_bank_id)i));
    reader->reading->problem->file_bank_ids = reader->pools.ids;
    return TN_OK;
}

/* --- buffers --- */

static tn_status dsa_bank(dsa_reader *reader, const json_t *buffer, size_t index, tn_body *body) {
    const json_t *allowed = json_object_get(buffer, "allowed_pools");
    const json_t *pool = json_array_get(allowed, 0);
    if (json_array_size(allowed) > 1)
        TN_FAIL(reader->reading->error, TN_E_UNSUPPORTED,
                "buffers[%zu]: several allowed pools are not supported; name one pool", index);
    if (!json_is_integer(pool))
        DSA_FAIL(reader, "buffers[%zu]: 'allowed_pools' does not hold the id of a pool", index);
    body->bank = dsa_ids_find(&reader->pools, json_integer_value(pool));
    if (body->bank == UINT32_MAX)
        DSA_FAIL(reader, "buffers[%zu]: no pool has the id %lld", index,
                 (long long)json_integer_value(pool));
    return TN_OK;
}

static tn_status dsa_pieces(dsa_reader *reader, const json_t *intervals, size_t index,
                            const tn_body *body, tn_piece *pieces) {
    for (size_t i = 0; i < json_array_size(intervals); i++) {
        const json_t *interval = json_array_get(intervals, i);
        int64_t lower, upper;
        if (!dsa_integer(interval, "lower", INT64_MIN, &lower) ||
            !dsa_integer(interval, "upper", INT64_MIN, &upper) || lower >= upper)
            DSA_FAIL(reader, "buffers[%zu]: live_intervals[%zu] has no 'lower' below its 'upper'",
                     index, i);
        pieces[i] = (tn_piece){.first = lower, .last = upper, .hi = body->size};
    }
    return TN_OK;
}

static tn_status dsa_add(dsa_reader *reader, const json_t *buffer, size_t index, tn_body *body) {
    const tn_context *context = &reader->reading->problem->context;
    const json_t *intervals = json_object_get(buffer, "live_intervals");
    size_t count = json_array_size(intervals);
    if (count == 0 || count > DSA_INTERVALS_MAX)
        DSA_FAIL(reader, "buffers[%zu]: 'live_intervals' is not an array of 1 to 2^20 intervals",
                 index);
    tn_piece *pieces = tn__alloc_array(context, count, sizeof *pieces);
    if (pieces == NULL) return tn__no_memory(reader->reading->error, "live intervals");
    tn_status status = dsa_pieces(reader, intervals, index, body, pieces);
    body->pieces = pieces;
    body->piece_count = (uint32_t)count;
    if (status == TN_OK) {
        status = tn_problem_add(reader->reading->problem, body, NULL, reader->reading->error);
        status = tn__where(reader->reading->error, status, "buffers[%zu]", index);
    }
    tn__free(context, pieces, count * sizeof *pieces);
    return status;
}

static tn_status dsa_buffer(dsa_reader *reader, const json_t *buffer, size_t index) {
    int64_t id, size, alignment = 1;
    tn_body body = {.name = json_string_value(json_object_get(buffer, "name"))};
    TN_TRY(dsa_known(reader, buffer,
                     "id name size alignment live_intervals allowed_pools metadata ", "buffers",
                     index));
    if (!dsa_integer(buffer, "id", INT64_MIN, &id))
        DSA_FAIL(reader, "buffers[%zu]: 'id' is not an integer", index);
    if (!dsa_ids_add(&reader->buffers, id, (uint32_t)index))
        DSA_FAIL(reader, "buffers[%zu]: an earlier buffer has the id %" PRId64, index, id);
    if (!dsa_integer(buffer, "size", 1, &size))
        DSA_FAIL(reader, "buffers[%zu]: 'size' is not an integer above 0", index);
    if (json_object_get(buffer, "alignment") != NULL &&
        !dsa_integer(buffer, "alignment", 1, &alignment))
        DSA_FAIL(reader, "buffers[%zu]: 'alignment' is not an integer above 0", index);
    body.size = (uint64_t)size;
    body.alignment = (uint64_t)alignment;
    TN_TRY(dsa_bank(reader, buffer, index, &body));
    return dsa_add(reader, buffer, index, &body);
}

static tn_status dsa_buffers(dsa_reader *reader, const json_t *problem) {
    const json_t *buffers = json_object_get(problem, "buffers");
    size_t count = json_array_size(buffers);
    if (!json_is_array(buffers)) DSA_FAIL(reader, "'buffers' is not an array");
    TN_TRY(dsa_ids_init(reader, &reader->buffers, count));
    for (size_t i = 0; i < count; i++) TN_TRY(dsa_buffer(reader, json_array_get(buffers, i), i));
    reader->reading->problem->file_body_ids = reader->buffers.ids;
    return TN_OK;
}

/* --- pairs --- */

static tn_status dsa_pair(dsa_reader *reader, const json_t *pair, bool penalty) {
    int64_t ids[2], cost = 0;
    tn_body_id numbers[2];
    tn__reading *reading = reader->reading;
    if (!dsa_integer(pair, "first", INT64_MIN, &ids[0]) ||
        !dsa_integer(pair, "second", INT64_MIN, &ids[1]))
        DSA_FAIL(reader, "'first' or 'second' is not the id of a buffer");
    for (int i = 0; i < 2; i++) {
        numbers[i] = dsa_ids_find(&reader->buffers, ids[i]);
        if (numbers[i] == UINT32_MAX) DSA_FAIL(reader, "no buffer has the id %" PRId64, ids[i]);
    }
    if (numbers[0] == numbers[1])
        DSA_FAIL(reader, "buffer %" PRId64 " forms a pair with itself", ids[0]);
    if (!penalty)
        return tn_problem_keep_apart(reading->problem, numbers[0], numbers[1], reading->error);
    if (!dsa_integer(pair, "cost", 0, &cost))
        DSA_FAIL(reader, "'cost' is not an integer from 0 to 2^63 - 1");
    return tn_problem_add_reuse_cost(reading->problem, numbers[0], numbers[1], (uint64_t)cost,
                                     reading->error);
}

static tn_status dsa_pairs(dsa_reader *reader, const json_t *object, const char *member,
                           bool penalties) {
    const json_t *pairs;
    if (!dsa_array(object, member, &pairs)) DSA_FAIL(reader, "'%s' is not an array", member);
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        tn_status status = dsa_pair(reader, json_array_get(pairs, i), penalties);
        if (status != TN_OK)
            return tn__where(reader->reading->error, status, "%s: %s[%zu]", reader->reading->name,
                             member, i);
    }
    return TN_OK;
}

static tn_status dsa_constraints(dsa_reader *reader, const json_t *problem) {
    json_t *constraints = json_object_get(problem, "constraints"), *value;
    const char *key;
    if (constraints == NULL || json_is_null(constraints)) return TN_OK;
    if (!json_is_object(constraints)) DSA_FAIL(reader, "'constraints' is not an object");
    json_object_foreach(constraints, key, value) {
        if (strcmp(key, "separations") == 0 || dsa_is_empty(value)) continue;
        TN_FAIL(reader->reading->error, TN_E_UNSUPPORTED,
                "constraints of the kind '%.60s' are not supported; remove them to plan without",
                key);
    }
    return dsa_pairs(reader, constraints, "separations", false);
}

static tn_status dsa_problem(dsa_reader *reader, const json_t *root) {
    const json_t *problem = json_object_get(root, "problem");
    int64_t version;
    if (!dsa_integer(root, "schema_version", INT64_MIN, &version) || version != 1)
        TN_FAIL(reader->reading->error, TN_E_UNSUPPORTED,
                "its \"schema_version\" is not 1; this version reads dsa-problem-v1");
    if (problem == NULL && json_object_get(root, "placements") != NULL)
        DSA_FAIL(reader, "it is a solution, without its problem; plan the problem again, or pass "
                         "the plan as .csv or .json");
    if (!json_is_object(problem)) DSA_FAIL(reader, "'problem' is not an object");
    TN_TRY(dsa_pools(reader, problem));
    TN_TRY(dsa_buffers(reader, problem));
    TN_TRY(dsa_constraints(reader, problem));
    const json_t *model = json_object_get(problem, "cost_model");
    if (model == NULL || json_is_null(model)) return TN_OK;
    if (!json_is_object(model)) DSA_FAIL(reader, "'cost_model' is not an object");
    return dsa_pairs(reader, model, "reuse_penalties", true);
}

tn_status tn__dsa_read(tn__reading *reading, const json_t *root) {
    const tn_context *context = &reading->problem->context;
    dsa_reader reader = {.reading = reading};
    tn__table_init(&reader.pools.table, context);
    tn__table_init(&reader.buffers.table, context);
    tn_status status = dsa_problem(&reader, root);
    tn__table_release(&reader.pools.table);
    tn__table_release(&reader.buffers.table);
    return status;
}
