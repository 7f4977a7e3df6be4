/* json.c - reads problems and plans as JSON, format "mem-plan"; parses with jansson. dsa.c reads
 * objects with a member "schema_version".
 *
 *     {"format": "mem-plan", "version": 1, "pools": [{"id": 0, "name": "arena", "capacity": null}],
 *      "buffers": [{"id": 0, "name": "x", "size": 64, "first": 0, "last_excl": 3, "pool": 0,
 *                   "alignment": 64, "offset": 0, "pinned": false,
 *                   "pieces": [[first, last_excl, lo, hi], ...]}]}
 *
 * Optional members are written only if needed. At the top level, "streams" is the number N of
 * streams; without it no clocks are read. In a buffer, "begins" and "ends" are clocks: for each
 * piece, or for the whole buffer, an array of N clocks or null. "leader" is the index of an earlier
 * buffer, "delta" the distance from it. "any_pool" is true if any pool may hold the buffer, false
 * if it is bound to "pool". "traffic" is in bytes. In a pool, "bytes_per_s" is its speed.
 *
 * A problem with separations ("apart": [[i, j], ...]), reuse costs ("reuse_costs": [[i, j, cost],
 * ...]; both with indices of "buffers") or reserved ranges (in a pool, "reserved": [[first, last],
 * ...]) has "version": 2, so that readers that do not know these members refuse it. A problem with
 * exclusions ("exclusions": [[i, j], ...]) has "version": 3. The events of a program are "events":
 * [time, ...], "order" and "waits": [[before, after], ...], "spans": [{"buffer", "write", "uses",
 * "lo", "hi"}].
 *
 * "size", "first" and "last_excl" are required; null means absent; members with other names are
 * ignored. An offset pins only with "pinned": true. Numbers are integers. jansson refuses bad
 * UTF-8, duplicate members, deep nesting and trailing text.
 *
 * Cost: O(bytes) time and memory.
 */
#include "plan/io/dsa.h"
#include "plan/io/io.h"
#include "plan/problem/problem.h"

#include "base/json.h"

#define JSON_PIECES_MAX ((size_t)1 << 20)
#define JSON_POOLS_MAX 64u                /* limit of the banks of a problem */
#define JSON_CLOCKS_MAX ((size_t)1 << 22) /* limit of the clocks of one buffer */

static tn_status json_fail(tn__reading *reading, size_t index, const char *what) {
    tn_status status = tn__fail(reading->error, TN_E_INVALID, "%s", what);
    return tn__where(reading->error, status, "%s: buffers[%zu]", reading->name, index);
}

/* Reads a number >= 0; an absent or null member leaves *value unchanged. */
static bool json_amount(const json_t *object, const char *member, double *value) {
    const json_t *found = json_object_get(object, member);
    if (found == NULL || json_is_null(found)) return true;
    if (!json_is_number(found) || json_number_value(found) < 0) return false;
    *value = json_number_value(found);
    return true;
}

/* Reads an integer in [least, INT64_MAX]; an absent or null member leaves *value unchanged. False
 * if it is something else. */
static bool json_member(const json_t *object, const char *member, int64_t least, int64_t *value) {
    const json_t *found = json_object_get(object, member);
    if (found == NULL || json_is_null(found)) return true;
    if (!json_is_integer(found) || json_integer_value(found) < least) return false;
    *value = json_integer_value(found);
    return true;
}

static bool json_present(const json_t *object, const char *member) {
    const json_t *found = json_object_get(object, member);
    return found != NULL && !json_is_null(found);
}

static bool json_piece(const json_t *item, tn_piece *piece) {
    int64_t numbers[4];
    if (!json_is_array(item) || json_array_size(item) != 4) return false;
    for (size_t i = 0; i < 4; i++) {
        const json_t *number = json_array_get(item, i);
        if (!json_is_integer(number)) return false;
        numbers[i] = json_integer_value(number);
    }
    if (numbers[2] < 0 || numbers[3] < 0) return false;
    *piece = (tn_piece){.first = numbers[0],
                        .last = numbers[1],
                        .lo = (uint64_t)numbers[2],
                        .hi = (uint64_t)numbers[3]};
    return true;
}

/* Reads an array of `count` integers that are not negative. */
static bool json_numbers(const json_t *item, size_t count, int64_t *numbers) {
    if (!json_is_array(item) || json_array_size(item) != count) return false;
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(item, i);
        if (!json_is_integer(number) || json_integer_value(number) < 0) return false;
        numbers[i] = json_integer_value(number);
    }
    return true;
}

static tn_status json_reserved(tn__reading *reading, size_t pool, const json_t *ranges) {
    if (ranges == NULL || json_is_null(ranges)) return TN_OK;
    if (!json_is_array(ranges))
        TN_FAIL(reading->error, TN_E_INVALID, "pools[%zu]: 'reserved' is not an array", pool);
    for (size_t i = 0; i < json_array_size(ranges); i++) {
        int64_t range[2];
        if (!json_numbers(json_array_get(ranges, i), 2, range) || range[0] > range[1])
            TN_FAIL(reading->error, TN_E_INVALID,
                    "pools[%zu]: reserved[%zu] is not a [first, last] of bytes", pool, i);
        TN_TRY(tn_problem_reserve(reading->problem, (tn_bank_id)pool, (uint64_t)range[0],
                                  (uint64_t)range[1], reading->error));
    }
    return TN_OK;
}

/* Reads "apart" or "exclusions" (pairs), or "reuse_costs" (pairs with a cost). */
static tn_status json_pairs(tn__reading *reading, const json_t *root, const char *member) {
    tn_error *error = reading->error;
    const json_t *pairs = json_object_get(root, member);
    bool costs = strcmp(member, "reuse_costs") == 0, excludes = strcmp(member, "exclusions") == 0;
    if (pairs == NULL || json_is_null(pairs)) return TN_OK;
    if (!json_is_array(pairs)) TN_FAIL(error, TN_E_INVALID, "'%s' is not an array", member);
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        int64_t pair[3] = {0};
        int64_t count = (int64_t)reading->problem->count;
        if (!json_numbers(json_array_get(pairs, i), costs ? 3 : 2, pair) || pair[0] >= count ||
            pair[1] >= count)
            TN_FAIL(error, TN_E_INVALID, "%s[%zu] is not %s of indices below %lld", member, i,
                    costs ? "an [i, j, cost]" : "an [i, j]", (long long)count);
        tn_body_id a = (tn_body_id)pair[0], b = (tn_body_id)pair[1];
        tn_status status =
            costs      ? tn_problem_add_reuse_cost(reading->problem, a, b, (uint64_t)pair[2], error)
            : excludes ? tn_problem_add_exclusion(reading->problem, a, b, error)
                       : tn_problem_keep_apart(reading->problem, a, b, error);
        if (status != TN_OK)
            return tn__where(error, status, "%s: %s[%zu]", reading->name, member, i);
    }
    return TN_OK;
}

static tn_status json_pools(tn__reading *reading, const json_t *pools) {
    tn_error *error = reading->error;
    if (pools == NULL || json_is_null(pools)) return TN_OK;
    if (!json_is_array(pools) || json_array_size(pools) > JSON_POOLS_MAX)
        TN_FAIL(error, TN_E_INVALID, "'pools' is not an array of at most 64 pools");
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        int64_t capacity = 0, id = (int64_t)i, alignment = 1;
        if (!json_member(pool, "capacity", 0, &capacity) || !json_member(pool, "id", 0, &id) ||
            id != (int64_t)i || !json_member(pool, "alignment", 1, &alignment))
            TN_FAIL(error, TN_E_INVALID, "pools[%zu] has a bad id, capacity or alignment", i);
        tn_bank bank = {.name = json_string_value(json_object_get(pool, "name")),
                        .capacity = (uint64_t)capacity};
        if (!json_amount(pool, "bytes_per_s", &bank.bytes_per_s))
            TN_FAIL(error, TN_E_INVALID, "pools[%zu] has a bad bytes_per_s", i);
        TN_TRY(tn_problem_set_bank(reading->problem, (tn_bank_id)i, &bank, error));
        TN_TRY(json_reserved(reading, i, json_object_get(pool, "reserved")));
    }
    return TN_OK;
}

/* Reads the clocks of each piece from "begins" or "ends"; null, for one piece or for all, means
 * unknown. */
static bool json_clocks(const json_t *lists, uint32_t streams, size_t pieces, int64_t *clocks,
                        tn_piece *out, bool ends) {
    if (lists == NULL || json_is_null(lists)) return true;
    if (!json_is_array(lists) || json_array_size(lists) != pieces) return false;
    for (size_t k = 0; k < pieces; k++, clocks += streams) {
        const json_t *list = json_array_get(lists, k);
        if (json_is_null(list)) continue;
        if (!json_is_array(list) || json_array_size(list) != streams) return false;
        for (size_t s = 0; s < streams; s++) {
            const json_t *number = json_array_get(list, s);
            if (!json_is_integer(number)) return false;
            clocks[s] = json_integer_value(number);
        }
        *(ends ? &out[k].ends : &out[k].begins) = clocks;
    }
    return true;
}

static tn_status json_add_clocked(tn__reading *reading, size_t index, const json_t *item,
                                  tn_body *body, tn_piece *pieces, size_t count) {
    const tn_context *context = &reading->problem->context;
    uint32_t streams = tn_problem_streams(reading->problem);
    const json_t *begins = json_object_get(item, "begins"), *ends = json_object_get(item, "ends");
    size_t room = (begins != NULL || ends != NULL) && streams > 1 ? 2 * count * streams : 0;
    bool possible = count <= JSON_CLOCKS_MAX / streams;
    int64_t *clocks = possible ? tn__alloc_array(context, room, sizeof *clocks) : NULL;
    if (!possible) return json_fail(reading, index, "more than 2^22 clocks");
    if (clocks == NULL) return tn__no_memory(reading->error, "clocks");
    tn_status status = TN_OK;
    if (room > 0 && (!json_clocks(begins, streams, count, clocks, pieces, false) ||
                     !json_clocks(ends, streams, count, clocks + room / 2, pieces, true)))
        status = json_fail(reading, index,
                           "'begins' or 'ends' is not an array of clocks for each piece");
    if (status == TN_OK) {
        status = tn_problem_add(reading->problem, body, NULL, reading->error);
        if (status != TN_OK && reading->error != NULL) reading->error->where[0] = '\0';
        status = tn__where(reading->error, status, "%s: buffers[%zu]", reading->name, index);
    }
    tn__free(context, clocks, room * sizeof *clocks);
    return status;
}

static tn_status json_add(tn__reading *reading, size_t index, tn_body *body, const json_t *item,
                          const json_t *pieces) {
    tn_error *error = reading->error;
    const tn_context *context = &reading->problem->context;
    /* 0 if there are no pieces: json_array_size(NULL) is 0 */
    size_t count = json_array_size(pieces);
    tn_piece *copies = NULL;
    tn_status status = TN_OK;
    if (count > JSON_PIECES_MAX) return json_fail(reading, index, "more than 2^20 pieces");
    bool whole = count == 0 && body->size > 0;
    size_t room = whole ? 1 : count;
    copies = tn__alloc_array(context, room, sizeof *copies);
    if (copies == NULL) return tn__no_memory(error, "pieces");
    if (whole) copies[0] = (tn_piece){.first = body->first, .last = body->last, .hi = body->size};
    for (size_t i = 0; i < count && status == TN_OK; i++)
        if (!json_piece(json_array_get(pieces, i), &copies[i]))
            status = json_fail(reading, index, "a piece is not a [first, last_excl, lo, hi]");
    body->pieces = copies;
    body->piece_count = (uint32_t)room;
    if (status == TN_OK) status = json_add_clocked(reading, index, item, body, copies, room);
    tn__free(context, copies, room * sizeof *copies);
    return status;
}

static tn_status json_offset(tn__reading *reading, size_t index, const json_t *item,
                             tn_body *body) {
    int64_t offset = 0;
    if (!json_member(item, "offset", 0, &offset))
        return json_fail(reading, index, "'offset' is not an integer from 0 up");
    bool given = json_present(item, "offset");
    if (json_is_true(json_object_get(item, "pinned"))) {
        if (!given) return json_fail(reading, index, "it is pinned but has no 'offset'");
        body->flags |= TN_BODY_PINNED;
        body->offset = (uint64_t)offset;
    }
    if (!reading->wants_offsets || (!given && !reading->has_offsets)) return TN_OK;
    if (!given || (index > 0 && !reading->has_offsets))
        return json_fail(reading, index, "some buffers have an 'offset' and some have none");
    reading->has_offsets = true;
    if (!tn__reading_offset(reading, (uint64_t)offset))
        return tn__no_memory(reading->error, "offsets");
    return TN_OK;
}

/* Reads the tie of a buffer to a leader, its traffic, and whether any bank may hold it. */
static tn_status json_freedom(tn__reading *reading, size_t index, const json_t *item,
                              tn_body *body) {
    int64_t leader = 0, delta = 0, traffic = 0;
    if (!json_member(item, "traffic", 0, &traffic))
        return json_fail(reading, index, "'traffic' is not an integer from 0 up");
    body->traffic = (uint64_t)traffic;
    if (json_is_true(json_object_get(item, "any_pool"))) body->flags |= TN_BODY_ANY_BANK;
    if (json_is_false(json_object_get(item, "any_pool"))) body->flags |= TN__BODY_IN_BANK;
    if (!json_present(item, "leader")) return TN_OK;
    if (!json_member(item, "leader", 0, &leader) || leader >= (int64_t)index ||
        !json_member(item, "delta", 0, &delta))
        return json_fail(
            reading, index,
            "'leader' is not an index of an earlier buffer, or 'delta' is not a distance");
    body->flags |= TN_BODY_TIED;
    body->leader = (tn_body_id)leader;
    body->delta = (uint64_t)delta;
    return TN_OK;
}

static tn_status json_buffer(tn__reading *reading, size_t index, const json_t *item) {
    int64_t size = -1, alignment = 0, pool = 0;
    tn_body body = {0};
    const json_t *pieces = json_object_get(item, "pieces");
    if (!json_is_object(item)) return json_fail(reading, index, "it is not an object");
    if (!json_member(item, "size", 0, &size) || size < 0)
        return json_fail(reading, index, "'size' is not an integer from 0 up");
    if (!json_present(item, "first") || !json_present(item, "last_excl") ||
        !json_member(item, "first", INT64_MIN, &body.first) ||
        !json_member(item, "last_excl", INT64_MIN, &body.last))
        return json_fail(reading, index, "'first' and 'last_excl' must be integers");
    if (!json_member(item, "alignment", 1, &alignment) || !json_member(item, "pool", 0, &pool) ||
        pool >= (int64_t)reading->problem->bank_count)
        return json_fail(reading, index, "'alignment' or 'pool' is out of range");
    if (pieces != NULL && !json_is_null(pieces) && !json_is_array(pieces))
        return json_fail(reading, index, "'pieces' is not an array");
    body.name = json_string_value(json_object_get(item, "name"));
    body.size = (uint64_t)size;
    body.alignment = (uint64_t)alignment;
    body.bank = (tn_bank_id)pool;
    TN_TRY(json_offset(reading, index, item, &body));
    TN_TRY(json_freedom(reading, index, item, &body));
    return json_add(reading, index, &body, item, json_is_array(pieces) ? pieces : NULL);
}

/* Notes the id of a buffer, and fails if an earlier buffer has the same. */
static tn_status json_note_id(tn__reading *reading, tn__names *ids, size_t index,
                              const json_t *item) {
    const json_t *id = json_object_get(item, "id");
    char text[24];
    uint32_t existing;
    if (!json_is_integer(id) && !json_is_string(id)) return TN_OK;
    const char *key = json_string_value(id);
    if (key == NULL) {
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(id));
        key = text;
    }
    key = tn__arena_string(&reading->problem->arena, key, strlen(key));
    if (key == NULL || !tn__names_add(ids, key, strlen(key), (uint32_t)index, &existing))
        return tn__no_memory(reading->error, "ids");
    if (existing == TN__NAMES_NONE) return TN_OK;
    tn_status status = tn__fail(
        reading->error, TN_E_INVALID,
        "its id '%.60s' is that of buffers[%u], too; a buffer is listed once", key, existing);
    return tn__where(reading->error, status, "%s: buffers[%zu]", reading->name, index);
}

/* Refuses two buffers with one id. Ids that are the indices of their buffers need no search. */
static tn_status json_ids(tn__reading *reading, const json_t *buffers) {
    size_t count = json_array_size(buffers), at = 0;
    tn__names ids;
    tn_status status = TN_OK;
    for (; at < count; at++) {
        const json_t *id = json_object_get(json_array_get(buffers, at), "id");
        if (!json_is_integer(id) || json_integer_value(id) != (json_int_t)at) break;
    }
    tn__names_init(&ids, &reading->problem->context);
    for (size_t i = 0; at < count && i < count && status == TN_OK; i++)
        status = json_note_id(reading, &ids, i, json_array_get(buffers, i));
    tn__names_release(&ids);
    return status;
}

/* Reads "order" or "waits": [[before, after], ...]. */
static tn_status json_orders(tn__reading *reading, const json_t *pairs, const char *member,
                             bool waits) {
    tn_error *error = reading->error;
    if (pairs == NULL || json_is_null(pairs)) return TN_OK;
    if (!json_is_array(pairs)) TN_FAIL(error, TN_E_INVALID, "'%s' is not an array", member);
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        int64_t pair[2];
        if (!json_numbers(json_array_get(pairs, i), 2, pair) || pair[0] > UINT32_MAX ||
            pair[1] > UINT32_MAX)
            TN_FAIL(error, TN_E_INVALID, "%s[%zu] is not a [before, after] of events", member, i);
        uint32_t before = (uint32_t)pair[0], after = (uint32_t)pair[1];
        tn_status status = waits ? tn_problem_add_wait(reading->problem, before, after, error)
                                 : tn_problem_add_order(reading->problem, before, after, error);
        if (status != TN_OK)
            return tn__where(error, status, "%s: %s[%zu]", reading->name, member, i);
    }
    return TN_OK;
}

static tn_status json_span(tn__reading *reading, size_t index, const json_t *item) {
    tn_error *error = reading->error;
    const json_t *uses = json_object_get(item, "uses");
    int64_t buffer = -1, first = TN_EVENT_NONE, lo = 0, hi = 0;
    size_t count = json_array_size(uses);
    bool valid = json_is_object(item) && json_member(item, "buffer", 0, &buffer) && buffer >= 0 &&
                 buffer < (int64_t)reading->problem->count &&
                 json_member(item, "write", 0, &first) && first <= UINT32_MAX &&
                 json_member(item, "lo", 0, &lo) && json_member(item, "hi", 0, &hi) &&
                 (uses == NULL || json_is_array(uses)) && count < UINT32_MAX;
    if (!valid)
        TN_FAIL(error, TN_E_INVALID,
                "spans[%zu] is not an object with \"buffer\" (an index below %zu), \"write\" (an "
                "event or null) and \"uses\" (an array of events)",
                index, reading->problem->count);
    const tn_context *context = &reading->problem->context;
    uint32_t *events = tn__alloc_array(context, count + 1, sizeof *events);
    if (events == NULL) return tn__no_memory(error, "a span");
    tn_status status = TN_OK;
    for (size_t i = 0; i < count && status == TN_OK; i++) {
        const json_t *use = json_array_get(uses, i);
        if (!json_is_integer(use) || json_integer_value(use) < 0 ||
            json_integer_value(use) > UINT32_MAX)
            status = tn__fail(error, TN_E_INVALID,
                              "spans[%zu]: a use is not the number of an event", index);
        else
            events[i] = (uint32_t)json_integer_value(use);
    }
    const tn_span span = {.body = (tn_body_id)buffer,
                          .lo = (uint64_t)lo,
                          .hi = (uint64_t)hi,
                          .first = (uint32_t)first,
                          .uses = events,
                          .use_count = (uint32_t)count};
    if (status == TN_OK) {
        status = tn_problem_add_span(reading->problem, &span, error);
        if (status != TN_OK)
            status = tn__where(error, status, "%s: spans[%zu]", reading->name, index);
    }
    tn__free(context, events, (count + 1) * sizeof *events);
    return status;
}

/* Reads "events" (their times), "order", "waits" and "spans". */
static tn_status json_events(tn__reading *reading, const json_t *root) {
    tn_error *error = reading->error;
    const json_t *events = json_object_get(root, "events"), *spans = json_object_get(root, "spans");
    if (events != NULL && !json_is_null(events) && !json_is_array(events))
        TN_FAIL(error, TN_E_INVALID, "'events' is not an array");
    if (spans != NULL && !json_is_null(spans) && !json_is_array(spans))
        TN_FAIL(error, TN_E_INVALID, "'spans' is not an array");
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *time = json_array_get(events, i);
        if (!json_is_integer(time) || json_integer_value(time) < 0)
            TN_FAIL(error, TN_E_INVALID, "events[%zu] is not a time: an integer from 0 up", i);
        TN_TRY(tn_problem_add_event(reading->problem, (uint64_t)json_integer_value(time), NULL,
                                    error));
    }
    TN_TRY(json_orders(reading, json_object_get(root, "order"), "order", false));
    TN_TRY(json_orders(reading, json_object_get(root, "waits"), "waits", true));
    for (size_t i = 0; i < json_array_size(spans); i++)
        TN_TRY(json_span(reading, i, json_array_get(spans, i)));
    return TN_OK;
}

static tn_status json_document(tn__reading *reading, const json_t *root) {
    const char *format = json_string_value(json_object_get(root, "format"));
    int64_t version = 1, streams = 1;
    if (format == NULL || strcmp(format, "mem-plan") != 0)
        TN_FAIL(reading->error, TN_E_INVALID, "it is not an object with \"format\": \"mem-plan\"");
    if (!json_member(root, "version", 1, &version) || version > 3)
        TN_FAIL(reading->error, TN_E_INVALID, "its version is not 1, 2 or 3");
    const json_t *buffers = json_object_get(root, "buffers");
    if (!json_is_array(buffers)) TN_FAIL(reading->error, TN_E_INVALID, "'buffers' is not an array");
    if (!json_member(root, "streams", 1, &streams) || streams > TN_STREAMS_MAX)
        TN_FAIL(reading->error, TN_E_INVALID, "'streams' is not a number from 1 to %u",
                TN_STREAMS_MAX);
    TN_TRY(tn_problem_set_streams(reading->problem, (uint32_t)streams, reading->error));
    TN_TRY(json_pools(reading, json_object_get(root, "pools")));
    for (size_t i = 0; i < json_array_size(buffers); i++)
        TN_TRY(json_buffer(reading, i, json_array_get(buffers, i)));
    TN_TRY(json_ids(reading, buffers));
    TN_TRY(json_pairs(reading, root, "apart"));
    TN_TRY(json_pairs(reading, root, "exclusions"));
    TN_TRY(json_pairs(reading, root, "reuse_costs"));
    return json_events(reading, root);
}

static json_t *json_parse(const char *name, const void *bytes, size_t size, tn_status *status,
                          tn_error *error) {
    json_error_t why;
    json_t *root = tn__json_parse(bytes, size, &why, status);
    if (root != NULL) return root;
    tn__fail(error, *status, "%s", why.text);
    tn__where(error, *status, "%s: byte %d", name, why.position);
    return NULL;
}

tn_status tn__json_read_solution(const tn_problem *problem, const char *name, const void *bytes,
                                 size_t size, uint64_t *offsets, tn_bank_id *banks,
                                 tn_error *error) {
    tn_status status;
    json_t *root = json_parse(name, bytes, size, &status, error);
    if (root == NULL) return status;
    status = tn__dsa_solution_read(problem, name, root, offsets, banks, error);
    json_decref(root);
    return status;
}

tn_status tn__json_read(tn__reading *reading) {
    tn_status status;
    json_t *root =
        json_parse(reading->name, reading->bytes, reading->size, &status, reading->error);
    if (root == NULL) return status;
    bool dsa = json_object_get(root, "schema_version") != NULL;
    status = dsa ? tn__dsa_read(reading, root) : json_document(reading, root);
    json_decref(root);
    return status;
}
