/* json.c - problems and plans as JSON, format "mem-plan", read with jansson.
 *
 *     {"format": "mem-plan", "version": 1, "pools": [{"id": 0, "name": "arena", "capacity": null}],
 *      "buffers": [{"id": 0, "name": "x", "size": 64, "first": 0, "last_excl": 3, "pool": 0,
 *                   "alignment": 64, "offset": 0, "pinned": false,
 *                   "pieces": [[first, last_excl, lo, hi], ...]}]}
 *
 * `size` and the life are required, the rest is not; null is the same as absent; members that are
 * not named here are for other readers. An offset pins only with "pinned": true. Numbers are
 * integers. jansson refuses bad UTF-8, duplicate members, deep nesting and trailing text by itself.
 * Cost: O(bytes) time and memory.
 */
#include "plan/io/io.h"
#include "plan/problem.h"

#include <jansson.h>

#define JSON_PIECES_MAX ((size_t)1 << 20)
#define JSON_POOLS_MAX 64u

static tn_status json_fail(tn__reading *reading, size_t index, const char *what) {
    tn_status status = tn__fail(reading->error, TN_E_INVALID, "%s", what);
    return tn__where(reading->error, status, "%s: buffers[%zu]", reading->name, index);
}

/* A member that is an integer in [least, INT64_MAX]; absent or null leaves *value alone. */
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

static tn_status json_pools(tn__reading *reading, const json_t *pools) {
    tn_error *error = reading->error;
    if (pools == NULL || json_is_null(pools)) return TN_OK;
    if (!json_is_array(pools) || json_array_size(pools) > JSON_POOLS_MAX)
        TN_FAIL(error, TN_E_INVALID, "'pools' is no array of at most 64 pools");
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        int64_t capacity = 0, id = (int64_t)i, alignment = 1;
        if (!json_member(pool, "capacity", 0, &capacity) || !json_member(pool, "id", 0, &id) ||
            id != (int64_t)i || !json_member(pool, "alignment", 1, &alignment))
            TN_FAIL(error, TN_E_INVALID, "pools[%zu] has a bad id, capacity or alignment", i);
        tn_bank bank = {.name = json_string_value(json_object_get(pool, "name")),
                        .capacity = (uint64_t)capacity};
        TN_TRY(tn_problem_set_bank(reading->problem, (tn_bank_id)i, &bank, error));
    }
    return TN_OK;
}

static tn_status json_add(tn__reading *reading, size_t index, tn_body *body, const json_t *pieces) {
    tn_error *error = reading->error;
    const tn_context *context = &reading->problem->context;
    size_t count = json_array_size(pieces); /* 0 for NULL */
    tn_piece *copies = NULL;
    tn_status status = TN_OK;
    if (count > JSON_PIECES_MAX) return json_fail(reading, index, "more than 2^20 pieces");
    if (count > 0) {
        copies = tn__alloc_array(context, count, sizeof *copies);
        if (copies == NULL) return tn__no_memory(error, "pieces");
    }
    for (size_t i = 0; i < count && status == TN_OK; i++)
        if (!json_piece(json_array_get(pieces, i), &copies[i]))
            status = json_fail(reading, index, "a piece is no [first, last_excl, lo, hi]");
    body->pieces = copies;
    body->piece_count = (uint32_t)count;
    if (status == TN_OK) {
        status = tn_problem_add(reading->problem, body, NULL, error);
        if (status != TN_OK && error != NULL) error->where[0] = '\0';
        status = tn__where(error, status, "%s: buffers[%zu]", reading->name, index);
    }
    tn__free(context, copies, count * sizeof *copies);
    return status;
}

static tn_status json_offset(tn__reading *reading, size_t index, const json_t *item,
                             tn_body *body) {
    int64_t offset = 0;
    if (!json_member(item, "offset", 0, &offset))
        return json_fail(reading, index, "'offset' is no integer from 0 up");
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

static tn_status json_buffer(tn__reading *reading, size_t index, const json_t *item) {
    int64_t size = -1, alignment = 0, pool = 0;
    tn_body body = {0};
    const json_t *pieces = json_object_get(item, "pieces");
    if (!json_is_object(item)) return json_fail(reading, index, "it is no object");
    if (!json_member(item, "size", 0, &size) || size < 0)
        return json_fail(reading, index, "'size' is no integer from 0 up");
    if (!json_present(item, "first") || !json_present(item, "last_excl") ||
        !json_member(item, "first", INT64_MIN, &body.first) ||
        !json_member(item, "last_excl", INT64_MIN, &body.last))
        return json_fail(reading, index, "'first' and 'last_excl' must be integers");
    if (!json_member(item, "alignment", 1, &alignment) || !json_member(item, "pool", 0, &pool) ||
        pool >= (int64_t)reading->problem->bank_count)
        return json_fail(reading, index, "'alignment' or 'pool' is out of range");
    if (pieces != NULL && !json_is_null(pieces) && !json_is_array(pieces))
        return json_fail(reading, index, "'pieces' is no array");
    body.name = json_string_value(json_object_get(item, "name"));
    body.size = (uint64_t)size;
    body.alignment = (uint64_t)alignment;
    body.bank = (tn_bank_id)pool;
    TN_TRY(json_offset(reading, index, item, &body));
    return json_add(reading, index, &body, json_is_array(pieces) ? pieces : NULL);
}

static tn_status json_document(tn__reading *reading, const json_t *root) {
    const char *format = json_string_value(json_object_get(root, "format"));
    int64_t version = 1;
    if (format == NULL || strcmp(format, "mem-plan") != 0)
        TN_FAIL(reading->error, TN_E_INVALID, "it is no object with \"format\": \"mem-plan\"");
    if (!json_member(root, "version", 1, &version) || version != 1)
        TN_FAIL(reading->error, TN_E_INVALID, "its version is not 1");
    const json_t *buffers = json_object_get(root, "buffers");
    if (!json_is_array(buffers)) TN_FAIL(reading->error, TN_E_INVALID, "'buffers' is no array");
    TN_TRY(json_pools(reading, json_object_get(root, "pools")));
    for (size_t i = 0; i < json_array_size(buffers); i++)
        TN_TRY(json_buffer(reading, i, json_array_get(buffers, i)));
    return TN_OK;
}

tn_status tn__json_read(tn__reading *reading) {
    json_error_t why;
    json_t *root = json_loadb(reading->bytes, reading->size, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL) {
        tn_status status = tn__fail(reading->error, TN_E_INVALID, "%s", why.text);
        return tn__where(reading->error, status, "%s: byte %d", reading->name, why.position);
    }
    tn_status status = json_document(reading, root);
    json_decref(root);
    return status;
}
