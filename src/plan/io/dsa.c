/* dsa.c - reads problems of the format dsa-problem-v1.
 *
 *     {"schema_version": 1, "profile": "pypto_research_v1", "instance": "x", "problem": {
 *         "pools": [{"id": 0, "name": "arena", "capacity": 64,
 *                    "reserved_ranges": [{"begin": 0, "end": 8}]}],
 *         "buffers": [{"id": 0, "name": "x", "size": 8, "alignment": 1, "allowed_pools": [0],
 *                      "live_intervals": [{"lower": 0, "upper": 3}]}],
 *         "constraints": {"colocations": [{"first": 0, "second": 1}], "separations": [...],
 *                         "temporal_exclusions": [...], "pinned_allocations": [
 *             {"buffer": 0, "pool": 0, "offset": 8, "exclusive_for_all_time": true}]},
 *         "cost_model": {"reuse_penalties": [{"first": 0, "second": 1, "cost": 1}]}}}
 *
 * Pools become banks of the problem, and buffers become its buffers, in the order of the file. Ids
 * are any integers; pairs refer to ids. A capacity of null means no limit. All lists of constraints
 * are optional. A constraint of another kind, and several allowed pools, are refused, never
 * dropped. Reasons, metadata, bank geometry, provenance and the objective do not change the
 * problem.
 *
 * Colocated buffers (transitively) form a class, which lies at one offset. For all other buffers
 * each of them is as large as the largest of the class, so it gets that size here, tied to the
 * first buffer of the class. A buffer pinned exclusively is live from the first step of the problem
 * to the last. An exclusion of two buffers permits their classes to share bytes only if no other
 * buffers of these classes are live at the same time; the classes have one offset, so any other
 * conflict keeps all of their bytes apart.
 *
 * Cost: O(bytes) expected time (ids are hashed), O(bytes) memory. An exclusion between classes
 * takes the product of their numbers of buffers, up to a limit for the file.
 * Source: tonibohnlein/dsa-solver, docs/structured_problem_schema_v1.md and
 * src/dsa/model/validator.cpp (facts, no code).
 */
#include "plan/io/dsa.h"

#include "plan/problem/problem.h"

#include <inttypes.h>
#include <stdio.h>

#define DSA_POOLS_MAX 64u
#define DSA_INTERVALS_MAX ((size_t)1 << 20) /* limit of live intervals of one buffer */
/* limit of the pairs of buffers that are compared for exclusions between classes */
#define DSA_COMPARED_MAX ((uint64_t)1 << 28)
#define DSA_NONE UINT32_MAX

/* A buffer of the file, before it is added to the problem. */
typedef struct dsa_buffer {
    uint64_t size; /* of the buffer; for the first buffer of a class, of the largest of the class */
    uint32_t leader; /* an earlier buffer of its class, at last the first one; itself: it leads */
    uint32_t next;   /* the next buffer of its class; DSA_NONE: it is the last */
    bool pinned, exclusive;
    tn_bank_id pool; /* of the pin */
    uint64_t offset;
} dsa_buffer;

typedef struct dsa_reader {
    tn__reading *reading;
    tn__dsa_ids pools, buffers;
    int64_t *pool_ids, *buffer_ids; /* in the problem's arena */
    dsa_buffer *rows;               /* [row_count] */
    uint32_t row_count;
    int64_t first, last; /* the first and the last step of all buffers */
    /* [pair_count] exclusions that hold for two buffers, lower number first, as sort keys */
    tn__sort_item *pairs;
    size_t pair_count, pair_room;
    uint64_t compared;
} dsa_reader;

#define DSA_FAIL(reader, ...) TN_FAIL((reader)->reading->error, TN_E_INVALID, __VA_ARGS__)

static tn_status dsa_ids_init(dsa_reader *reader, tn__dsa_ids *ids, size_t count, int64_t **array) {
    ids->ids = *array = tn__arena_array(&reader->reading->problem->arena, count, sizeof **array);
    if (*array == NULL || !tn__table_reserve(&ids->table, count))
        return tn__no_memory(reader->reading->error, "ids");
    return TN_OK;
}

/* Reads an array; *array is NULL if the member is absent or null. False if it is something else. */
static bool dsa_array(const json_t *object, const char *member, const json_t **array) {
    const json_t *found = json_object_get(object, member);
    *array = json_is_null(found) ? NULL : found;
    return *array == NULL || json_is_array(*array);
}

/* Refuses a member that is not one of `known`: it could be a constraint. A member that is null or
 * empty has no effect. */
static tn_status dsa_known(dsa_reader *reader, const json_t *object, const char *known,
                           const char *list, size_t index) {
    const char *name = tn__dsa_unknown(object, known, true);
    if (name == NULL) return TN_OK;
    DSA_FAIL(reader, "%s[%zu]: the member '%.60s' is unknown; remove it to plan without it", list,
             index, name);
}

/* --- pools --- */

static tn_status dsa_reserved(dsa_reader *reader, const json_t *pool, tn_bank_id bank) {
    const json_t *ranges;
    if (!dsa_array(pool, "reserved_ranges", &ranges))
        DSA_FAIL(reader, "pools[%u]: 'reserved_ranges' is not an array", bank);
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        int64_t begin, end;
        const json_t *range = json_array_get(ranges, i);
        if (!tn__dsa_integer(range, "begin", 0, &begin) ||
            !tn__dsa_integer(range, "end", begin, &end))
            DSA_FAIL(reader, "pools[%u]: reserved_ranges[%zu] has no 'begin' and 'end' in order",
                     bank, i);
        TN_TRY(tn_problem_reserve(reader->reading->problem, bank, (uint64_t)begin, (uint64_t)end,
                                  reader->reading->error));
    }
    return TN_OK;
}

static tn_status dsa_pool(dsa_reader *reader, const json_t *pool, tn_bank_id bank) {
    const json_t *limit = json_object_get(pool, "capacity");
    int64_t id, capacity = 0;
    TN_TRY(dsa_known(reader, pool, "id name capacity reserved_ranges bank_geometry metadata ",
                     "pools", bank));
    if (!tn__dsa_integer(pool, "id", INT64_MIN, &id))
        DSA_FAIL(reader, "pools[%u]: 'id' is not an integer", bank);
    reader->pool_ids[bank] = id;
    if (!tn__dsa_add(&reader->pools, bank))
        DSA_FAIL(reader, "pools[%u]: an earlier pool has the id %" PRId64, bank, id);
    if (limit != NULL && !json_is_null(limit) && !tn__dsa_integer(pool, "capacity", 1, &capacity))
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
    TN_TRY(dsa_ids_init(reader, &reader->pools, count, &reader->pool_ids));
    for (size_t i = 0; i < count; i++)
        TN_TRY(dsa_pool(reader, json_array_get(pools, i), (tn_bank_id)i));
    return TN_OK;
}

/* --- colocations and pins --- */

static tn_status dsa_find_buffer(dsa_reader *reader, int64_t id, tn_body_id *number) {
    *number = tn__dsa_find(&reader->buffers, id);
    if (*number == UINT32_MAX) DSA_FAIL(reader, "no buffer has the id %" PRId64, id);
    return TN_OK;
}

/* Reads the members `first` and `second` of a pair as numbers of buffers. */
static tn_status dsa_ends(dsa_reader *reader, const json_t *pair, tn_body_id numbers[2]) {
    int64_t ids[2];
    if (!tn__dsa_integer(pair, "first", INT64_MIN, &ids[0]) ||
        !tn__dsa_integer(pair, "second", INT64_MIN, &ids[1]))
        DSA_FAIL(reader, "'first' or 'second' is not the id of a buffer");
    for (int i = 0; i < 2; i++) TN_TRY(dsa_find_buffer(reader, ids[i], &numbers[i]));
    return TN_OK;
}

/* Returns the first buffer of the class of a buffer, and shortens the way to it. */
static uint32_t dsa_leader(dsa_buffer *rows, uint32_t number) {
    while (rows[number].leader != number) {
        rows[number].leader = rows[rows[number].leader].leader;
        number = rows[number].leader;
    }
    return number;
}

static tn_status dsa_colocation(dsa_reader *reader, const json_t *pair) {
    tn_body_id ends[2];
    TN_TRY(dsa_ends(reader, pair, ends));
    uint32_t a = dsa_leader(reader->rows, ends[0]), b = dsa_leader(reader->rows, ends[1]);
    reader->rows[a > b ? a : b].leader = a < b ? a : b;
    return TN_OK;
}

static tn_status dsa_pin(dsa_reader *reader, const json_t *pin) {
    int64_t id, pool, offset;
    tn_body_id number;
    const json_t *exclusive = json_object_get(pin, "exclusive_for_all_time");
    const char *unknown = tn__dsa_unknown(pin, "buffer pool offset exclusive_for_all_time ", false);
    if (unknown != NULL) DSA_FAIL(reader, "the member '%.60s' is unknown", unknown);
    if (!tn__dsa_integer(pin, "buffer", INT64_MIN, &id) ||
        !tn__dsa_integer(pin, "pool", INT64_MIN, &pool) ||
        !tn__dsa_integer(pin, "offset", 0, &offset) ||
        (exclusive != NULL && !json_is_boolean(exclusive)))
        DSA_FAIL(reader, "it is not an object with 'buffer', 'pool', 'offset' and "
                         "'exclusive_for_all_time' (true or false)");
    TN_TRY(dsa_find_buffer(reader, id, &number));
    dsa_buffer *row = &reader->rows[number];
    if (row->pinned) DSA_FAIL(reader, "buffer %" PRId64 " is pinned twice", id);
    if (tn__dsa_find(&reader->pools, pool) == UINT32_MAX)
        DSA_FAIL(reader, "no pool has the id %" PRId64, pool);
    row->pinned = true;
    row->exclusive = json_is_true(exclusive);
    row->offset = (uint64_t)offset;
    row->pool = tn__dsa_find(&reader->pools, pool);
    return TN_OK;
}

/* Calls `take` for each item of a list. */
static tn_status dsa_each(dsa_reader *reader, const json_t *object, const char *member,
                          tn_status (*take)(dsa_reader *reader, const json_t *item)) {
    const json_t *items;
    if (!dsa_array(object, member, &items)) DSA_FAIL(reader, "'%s' is not an array", member);
    for (size_t i = 0; i < json_array_size(items); i++) {
        tn_status status = take(reader, json_array_get(items, i));
        if (status != TN_OK)
            return tn__where(reader->reading->error, status, "%s: %s[%zu]", reader->reading->name,
                             member, i);
    }
    return TN_OK;
}

/* Makes every buffer lead directly to the first of its class, links the buffers of a class, and
 * gives the first one the size of the largest. */
static void dsa_classes(dsa_reader *reader) {
    dsa_buffer *rows = reader->rows;
    for (uint32_t i = reader->row_count; i-- > 0;) {
        uint32_t leader = rows[i].leader = dsa_leader(rows, i);
        if (leader == i) continue;
        rows[i].next = rows[leader].next;
        rows[leader].next = i;
        if (rows[i].size > rows[leader].size) rows[leader].size = rows[i].size;
    }
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
    body->bank = tn__dsa_find(&reader->pools, json_integer_value(pool));
    if (body->bank == UINT32_MAX)
        DSA_FAIL(reader, "buffers[%zu]: no pool has the id %lld", index,
                 (long long)json_integer_value(pool));
    return TN_OK;
}

/* Reads a live interval. */
static tn_status dsa_interval(dsa_reader *reader, const json_t *buffer, size_t index, size_t which,
                              int64_t *lower, int64_t *upper) {
    const json_t *interval = json_array_get(json_object_get(buffer, "live_intervals"), which);
    if (!tn__dsa_integer(interval, "lower", INT64_MIN, lower) ||
        !tn__dsa_integer(interval, "upper", INT64_MIN, upper) || *lower >= *upper)
        DSA_FAIL(reader, "buffers[%zu]: live_intervals[%zu] has no 'lower' below its 'upper'",
                 index, which);
    return TN_OK;
}

/* Reads id, size and live intervals of a buffer, and notes the first and the last step. */
static tn_status dsa_note(dsa_reader *reader, const json_t *buffer, uint32_t index) {
    int64_t id, size, lower, upper;
    size_t count = json_array_size(json_object_get(buffer, "live_intervals"));
    TN_TRY(dsa_known(reader, buffer,
                     "id name size alignment live_intervals allowed_pools metadata ", "buffers",
                     index));
    if (!tn__dsa_integer(buffer, "id", INT64_MIN, &id))
        DSA_FAIL(reader, "buffers[%u]: 'id' is not an integer", index);
    reader->buffer_ids[index] = id;
    if (!tn__dsa_add(&reader->buffers, index))
        DSA_FAIL(reader, "buffers[%u]: an earlier buffer has the id %" PRId64, index, id);
    if (!tn__dsa_integer(buffer, "size", 1, &size))
        DSA_FAIL(reader, "buffers[%u]: 'size' is not an integer above 0", index);
    if (count == 0 || count > DSA_INTERVALS_MAX)
        DSA_FAIL(reader, "buffers[%u]: 'live_intervals' is not an array of 1 to 2^20 intervals",
                 index);
    for (size_t i = 0; i < count; i++) {
        TN_TRY(dsa_interval(reader, buffer, index, i, &lower, &upper));
        if (lower < reader->first) reader->first = lower;
        if (upper > reader->last) reader->last = upper;
    }
    reader->rows[index] = (dsa_buffer){.size = (uint64_t)size, .leader = index, .next = DSA_NONE};
    return TN_OK;
}

static tn_status dsa_pieces(dsa_reader *reader, const json_t *buffer, size_t index,
                            const tn_body *body, tn_piece *pieces) {
    for (size_t i = 0; i < body->piece_count; i++) {
        int64_t lower, upper;
        TN_TRY(dsa_interval(reader, buffer, index, i, &lower, &upper));
        pieces[i] = (tn_piece){.first = lower, .last = upper, .hi = body->size};
    }
    return TN_OK;
}

static tn_status dsa_add(dsa_reader *reader, const json_t *buffer, size_t index, tn_body *body) {
    const tn_context *context = &reader->reading->problem->context;
    size_t count = json_array_size(json_object_get(buffer, "live_intervals"));
    tn_piece *pieces = tn__alloc_array(context, count, sizeof *pieces);
    if (pieces == NULL) return tn__no_memory(reader->reading->error, "live intervals");
    body->piece_count = (uint32_t)count;
    tn_status status = TN_OK;
    if (reader->rows[index].exclusive) {
        pieces[0] = (tn_piece){.first = reader->first, .last = reader->last, .hi = body->size};
        body->piece_count = 1;
    } else {
        status = dsa_pieces(reader, buffer, index, body, pieces);
    }
    body->pieces = pieces;
    if (status == TN_OK) {
        status = tn_problem_add(reader->reading->problem, body, NULL, reader->reading->error);
        status = tn__where(reader->reading->error, status, "buffers[%zu]", index);
    }
    tn__free(context, pieces, count * sizeof *pieces);
    return status;
}

/* Ties a buffer to the first one of its class, and pins it. */
static tn_status dsa_place(dsa_reader *reader, size_t index, tn_body *body) {
    const dsa_buffer *row = &reader->rows[index];
    body->size = reader->rows[row->leader].size;
    if (row->pinned && row->pool != body->bank)
        DSA_FAIL(reader, "buffers[%zu]: it is pinned in a pool that is not allowed for it", index);
    if (row->pinned) body->flags |= TN_BODY_PINNED;
    body->offset = row->offset;
    if (row->leader == index) return TN_OK;
    if (tn_problem_body(reader->reading->problem, row->leader)->bank != body->bank)
        DSA_FAIL(reader,
                 "buffers[%zu]: it is colocated with buffer %" PRId64
                 ", but no pool is allowed for both",
                 index, reader->buffer_ids[row->leader]);
    body->flags |= TN_BODY_TIED;
    body->leader = row->leader;
    return TN_OK;
}

static tn_status dsa_buffer_add(dsa_reader *reader, const json_t *buffer, size_t index) {
    int64_t alignment = 1;
    char number[24];
    tn_body body = {.name = json_string_value(json_object_get(buffer, "name"))};
    /* messages name a buffer; without a name, its id does */
    if (body.name == NULL || *body.name == '\0') {
        snprintf(number, sizeof number, "%" PRId64, reader->buffer_ids[index]);
        body.name = number;
    }
    if (json_object_get(buffer, "alignment") != NULL &&
        !tn__dsa_integer(buffer, "alignment", 1, &alignment))
        DSA_FAIL(reader, "buffers[%zu]: 'alignment' is not an integer above 0", index);
    body.alignment = (uint64_t)alignment;
    TN_TRY(dsa_bank(reader, buffer, index, &body));
    TN_TRY(dsa_place(reader, index, &body));
    return dsa_add(reader, buffer, index, &body);
}

static tn_status dsa_buffers(dsa_reader *reader, const json_t *problem) {
    const json_t *buffers = json_object_get(problem, "buffers");
    const json_t *constraints = json_object_get(problem, "constraints");
    size_t count = json_array_size(buffers);
    if (!json_is_array(buffers)) DSA_FAIL(reader, "'buffers' is not an array");
    if (count >= DSA_NONE) DSA_FAIL(reader, "'buffers' has more than 2^32 - 2 buffers");
    TN_TRY(dsa_ids_init(reader, &reader->buffers, count, &reader->buffer_ids));
    reader->rows = tn__alloc_array(&reader->reading->problem->context, count, sizeof *reader->rows);
    if (reader->rows == NULL) return tn__no_memory(reader->reading->error, "buffers");
    reader->row_count = (uint32_t)count;
    reader->first = INT64_MAX;
    reader->last = INT64_MIN;
    for (uint32_t i = 0; i < count; i++) TN_TRY(dsa_note(reader, json_array_get(buffers, i), i));
    TN_TRY(dsa_each(reader, constraints, "colocations", dsa_colocation));
    TN_TRY(dsa_each(reader, constraints, "pinned_allocations", dsa_pin));
    dsa_classes(reader);
    for (size_t i = 0; i < count; i++)
        TN_TRY(dsa_buffer_add(reader, json_array_get(buffers, i), i));
    return TN_OK;
}

/* --- exclusions --- */

static tn_status dsa_exclusion(dsa_reader *reader, const json_t *pair) {
    tn_body_id ends[2];
    TN_TRY(dsa_ends(reader, pair, ends));
    const dsa_buffer *rows = reader->rows;
    const tn_problem *problem = reader->reading->problem;
    uint32_t a = ends[0] < ends[1] ? ends[0] : ends[1], b = ends[0] < ends[1] ? ends[1] : ends[0];
    if (a == b)
        DSA_FAIL(reader, "buffer %" PRId64 " is excluded with itself", reader->buffer_ids[a]);
    /* without effect: buffers of one class, of two pools, or pinned exclusively */
    if (rows[a].leader == rows[b].leader || rows[a].exclusive || rows[b].exclusive ||
        tn_problem_body(problem, a)->bank != tn_problem_body(problem, b)->bank)
        return TN_OK;
    if (!tn__reserve(&problem->context, &reader->pairs, &reader->pair_room, reader->pair_count + 1,
                     sizeof *reader->pairs))
        return tn__no_memory(reader->reading->error, "exclusions");
    reader->pairs[reader->pair_count++] = (tn__sort_item){.key = (uint64_t)a << 32 | b};
    return TN_OK;
}

/* Whether an exclusion of two buffers was given; the pairs are sorted. */
static bool dsa_is_excluded(const dsa_reader *reader, uint32_t a, uint32_t b) {
    uint64_t key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
    size_t low = 0, high = reader->pair_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (reader->pairs[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reader->pair_count && reader->pairs[low].key == key;
}

/* Whether two buffers are live at the same time. Their pieces are sorted and disjoint. */
static bool dsa_meet(const tn_body *a, const tn_body *b) {
    for (uint32_t i = 0, k = 0; i < a->piece_count && k < b->piece_count;) {
        const tn_piece *x = &a->pieces[i], *y = &b->pieces[k];
        if (x->first < y->last && y->first < x->last) return true;
        if (x->last <= y->last)
            i++;
        else
            k++;
    }
    return false;
}

/* Adds an exclusion of two classes, unless two buffers of them that are not excluded are live at
 * the same time. */
static tn_status dsa_exclude(dsa_reader *reader, uint32_t a, uint32_t b) {
    tn_problem *problem = reader->reading->problem;
    for (uint32_t i = a; i != DSA_NONE; i = reader->rows[i].next) {
        for (uint32_t k = b; k != DSA_NONE; k = reader->rows[k].next) {
            if (reader->compared++ >= DSA_COMPARED_MAX)
                TN_FAIL(reader->reading->error, TN_E_UNSUPPORTED,
                        "the exclusions between colocated buffers need more than 2^28 comparisons");
            if (!dsa_is_excluded(reader, i, k) &&
                dsa_meet(tn_problem_body(problem, i), tn_problem_body(problem, k)))
                return TN_OK;
        }
    }
    return tn_problem_add_exclusion(problem, a, b, reader->reading->error);
}

static tn_status dsa_exclusions(dsa_reader *reader, const json_t *constraints) {
    const tn_context *context = &reader->reading->problem->context;
    const dsa_buffer *rows = reader->rows;
    TN_TRY(dsa_each(reader, constraints, "temporal_exclusions", dsa_exclusion));
    size_t count = reader->pair_count;
    if (count == 0) return TN_OK;
    tn__sort_item *classes = tn__alloc_array(context, count, sizeof *classes);
    bool made = classes != NULL && tn__sort_items(context, reader->pairs, count);
    for (size_t i = 0; i < count && made; i++) {
        uint32_t a = rows[reader->pairs[i].key >> 32].leader;
        uint32_t b = rows[reader->pairs[i].key & UINT32_MAX].leader;
        classes[i].key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
    }
    made = made && tn__sort_items(context, classes, count);
    tn_status status = made ? TN_OK : tn__no_memory(reader->reading->error, "exclusions");
    for (size_t i = 0; i < count && status == TN_OK; i++)
        if (i == 0 || classes[i].key != classes[i - 1].key)
            status = dsa_exclude(reader, (uint32_t)(classes[i].key >> 32),
                                 (uint32_t)(classes[i].key & UINT32_MAX));
    tn__free(context, classes, count * sizeof *classes);
    return status;
}

/* --- separations and penalties --- */

static tn_status dsa_separation(dsa_reader *reader, const json_t *pair) {
    tn_body_id ends[2];
    TN_TRY(dsa_ends(reader, pair, ends));
    if (ends[0] == ends[1])
        DSA_FAIL(reader, "buffer %" PRId64 " is separated from itself",
                 reader->buffer_ids[ends[0]]);
    return tn_problem_keep_apart(reader->reading->problem, ends[0], ends[1],
                                 reader->reading->error);
}

static tn_status dsa_penalty(dsa_reader *reader, const json_t *pair) {
    int64_t cost;
    tn_body_id ends[2];
    TN_TRY(dsa_ends(reader, pair, ends));
    if (!tn__dsa_integer(pair, "cost", 0, &cost))
        DSA_FAIL(reader, "'cost' is not an integer from 0 to 2^63 - 1");
    if (ends[0] == ends[1]) /* a pair of one class never pays */
        DSA_FAIL(reader, "buffer %" PRId64 " forms a pair with itself",
                 reader->buffer_ids[ends[0]]);
    return tn_problem_add_reuse_cost(reader->reading->problem, ends[0], ends[1], (uint64_t)cost,
                                     reader->reading->error);
}

static tn_status dsa_constraints(dsa_reader *reader, const json_t *problem) {
    json_t *constraints = json_object_get(problem, "constraints");
    if (constraints == NULL || json_is_null(constraints)) return TN_OK;
    if (!json_is_object(constraints)) DSA_FAIL(reader, "'constraints' is not an object");
    const char *kind = tn__dsa_unknown(
        constraints, "colocations separations temporal_exclusions pinned_allocations ", true);
    if (kind != NULL)
        TN_FAIL(reader->reading->error, TN_E_UNSUPPORTED,
                "constraints of the kind '%.60s' are not supported; remove them to plan without",
                kind);
    TN_TRY(dsa_exclusions(reader, constraints));
    return dsa_each(reader, constraints, "separations", dsa_separation);
}

/* Notes the ids of the file and its fingerprint, so that solutions can be written and read. */
static tn_status dsa_keep(dsa_reader *reader, json_t *root) {
    tn_problem *problem = reader->reading->problem;
    const char *names[2] = {json_string_value(json_object_get(root, "profile")),
                            json_string_value(json_object_get(root, "instance"))};
    tn__dsa_file *file = tn__arena_array(&problem->arena, 1, sizeof *file);
    bool made = file != NULL;
    for (int i = 0; i < 2 && made; i++) {
        if (names[i] == NULL) continue;
        names[i] = tn__arena_string(&problem->arena, names[i], strlen(names[i]));
        made = names[i] != NULL;
    }
    if (made) {
        *file = (tn__dsa_file){.body_ids = reader->buffer_ids,
                               .bank_ids = reader->pool_ids,
                               .profile = names[0],
                               .instance = names[1]};
        made = tn__dsa_fingerprint(root, &file->fingerprint);
    }
    if (!made) return tn__no_memory(reader->reading->error, "a fingerprint");
    problem->dsa = file;
    return TN_OK;
}

static tn_status dsa_problem(dsa_reader *reader, json_t *root) {
    const json_t *problem = json_object_get(root, "problem");
    int64_t version;
    if (!tn__dsa_integer(root, "schema_version", INT64_MIN, &version))
        DSA_FAIL(reader, "its \"schema_version\" is not an integer");
    if (version != 1)
        TN_FAIL(reader->reading->error, TN_E_UNSUPPORTED,
                "its \"schema_version\" is %" PRId64 "; this version reads dsa-problem-v1",
                version);
    if (problem == NULL && json_object_get(root, "placements") != NULL)
        DSA_FAIL(reader, "it is a solution of dsa-solver, without its problem; pass the problem, "
                         "and the solution as its plan");
    if (!json_is_object(problem)) DSA_FAIL(reader, "'problem' is not an object");
    TN_TRY(dsa_pools(reader, problem));
    TN_TRY(dsa_buffers(reader, problem));
    TN_TRY(dsa_constraints(reader, problem));
    const json_t *model = json_object_get(problem, "cost_model");
    if (model != NULL && !json_is_null(model)) {
        if (!json_is_object(model)) DSA_FAIL(reader, "'cost_model' is not an object");
        TN_TRY(dsa_each(reader, model, "reuse_penalties", dsa_penalty));
    }
    return dsa_keep(reader, root);
}

tn_status tn__dsa_read(tn__reading *reading, json_t *root) {
    const tn_context *context = &reading->problem->context;
    dsa_reader reader = {.reading = reading};
    tn__table_init(&reader.pools.table, context);
    tn__table_init(&reader.buffers.table, context);
    tn_status status = dsa_problem(&reader, root);
    tn__table_release(&reader.pools.table);
    tn__table_release(&reader.buffers.table);
    tn__free(context, reader.rows, reader.row_count * sizeof *reader.rows);
    tn__free(context, reader.pairs, reader.pair_room * sizeof *reader.pairs);
    return status;
}
