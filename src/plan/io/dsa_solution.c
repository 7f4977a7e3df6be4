/* dsa_solution.c - reads solutions of the format dsa-solution-v1: a pool and an offset for every
 * buffer of a dsa-problem-v1.
 *
 *     {"schema_version": 1, "profile": "pypto_research_v1", "instance": "x",
 *      "problem_fingerprint": "0123456789abcdef", "metadata": {},
 *      "placements": [{"buffer": 0, "pool": 0, "offset": 8}]}
 *
 * Profile, instance and fingerprint must be those of the problem; what the problem file does not
 * state is not compared. A solution that can be read but does not place exactly the buffers of the
 * problem, or names a pool that does not exist, is not valid (E_CONFLICT). The verifier checks
 * everything else.
 *
 * Cost: O(bytes) expected time (ids are hashed).
 * Source: tonibohnlein/dsa-solver, schemas/dsa-solution-v1.schema.json (facts, no code).
 */
#include "plan/io/dsa.h"

#include "plan/problem/problem.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct solution_reader {
    const tn_problem *problem;
    const char *name; /* of the file, for messages */
    const json_t *root;
    tn__dsa_ids pools, buffers;
    bool *placed; /* [problem->count] */
    uint64_t *offsets;
    tn_bank_id *banks;
    tn_error *error;
} solution_reader;

#define SOLUTION_FAIL(reader, ...) TN_FAIL((reader)->error, TN_E_INVALID, __VA_ARGS__)

/* Refuses a solution if its member is not that of the problem. `expected` is NULL if the problem
 * file does not state the member. */
static tn_status solution_same(const solution_reader *reader, const char *member,
                               const char *expected) {
    const char *given = json_string_value(json_object_get(reader->root, member));
    if (expected == NULL) return TN_OK;
    if (given == NULL) SOLUTION_FAIL(reader, "'%s' is not a string", member);
    if (strcmp(given, expected) == 0) return TN_OK;
    SOLUTION_FAIL(reader, "it is a solution for another problem: its '%s' is '%.80s', not '%.80s'",
                  member, given, expected);
}

static tn_status solution_head(const solution_reader *reader) {
    const json_t *root = reader->root, *metadata = json_object_get(root, "metadata");
    const tn__dsa_file *file = reader->problem->dsa;
    char fingerprint[20];
    int64_t version;
    if (!tn__dsa_integer(root, "schema_version", INT64_MIN, &version))
        SOLUTION_FAIL(reader, "its \"schema_version\" is not an integer");
    if (version != 1)
        TN_FAIL(reader->error, TN_E_UNSUPPORTED,
                "its \"schema_version\" is %" PRId64 "; this version reads dsa-solution-v1",
                version);
    const char *unknown = tn__dsa_unknown(
        root, "schema_version profile instance problem_fingerprint metadata placements ", false);
    if (unknown != NULL) SOLUTION_FAIL(reader, "the member '%.60s' is unknown", unknown);
    if (!json_is_object(metadata)) SOLUTION_FAIL(reader, "'metadata' is not an object");
    if (!json_is_array(json_object_get(root, "placements")))
        SOLUTION_FAIL(reader, "'placements' is not an array");
    if (file == NULL)
        TN_FAIL(
            reader->error, TN_E_UNSUPPORTED,
            "it is a solution of dsa-solver, which needs its own problem (dsa-problem-v1); pass "
            "the plan as .csv or .json");
    TN_TRY(solution_same(reader, "profile", file->profile));
    TN_TRY(solution_same(reader, "instance", file->instance));
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, file->fingerprint);
    return solution_same(reader, "problem_fingerprint", fingerprint);
}

static tn_status solution_placement(solution_reader *reader, const json_t *placement) {
    int64_t buffer, pool, offset;
    const char *unknown = tn__dsa_unknown(placement, "buffer pool offset ", false);
    if (unknown != NULL) SOLUTION_FAIL(reader, "the member '%.60s' is unknown", unknown);
    if (!tn__dsa_integer(placement, "buffer", INT64_MIN, &buffer) ||
        !tn__dsa_integer(placement, "pool", INT64_MIN, &pool) ||
        !tn__dsa_integer(placement, "offset", 0, &offset))
        SOLUTION_FAIL(reader, "it is not an object with 'buffer', 'pool' and 'offset'");
    uint32_t id = tn__dsa_find(&reader->buffers, buffer);
    uint32_t bank = tn__dsa_find(&reader->pools, pool);
    if (id == UINT32_MAX)
        TN_FAIL(reader->error, TN_E_CONFLICT,
                "it places buffer %" PRId64 ", which the problem does not have", buffer);
    if (reader->placed[id]) SOLUTION_FAIL(reader, "buffer %" PRId64 " is placed twice", buffer);
    if (bank == UINT32_MAX)
        TN_FAIL(reader->error, TN_E_CONFLICT,
                "buffer %" PRId64 " is in pool %" PRId64 ", which the problem does not have",
                buffer, pool);
    reader->placed[id] = true;
    reader->offsets[id] = (uint64_t)offset;
    reader->banks[id] = bank;
    return TN_OK;
}

static tn_status solution_read(solution_reader *reader) {
    const tn_problem *problem = reader->problem;
    TN_TRY(solution_head(reader));
    const json_t *placements = json_object_get(reader->root, "placements");
    reader->placed = tn__alloc_array(&problem->context, problem->count, sizeof *reader->placed);
    reader->buffers.ids = problem->dsa->body_ids;
    reader->pools.ids = problem->dsa->bank_ids;
    if (reader->placed == NULL || !tn__table_reserve(&reader->buffers.table, problem->count) ||
        !tn__table_reserve(&reader->pools.table, problem->bank_count))
        return tn__no_memory(reader->error, "a solution");
    for (uint32_t i = 0; i < problem->count; i++) (void)tn__dsa_add(&reader->buffers, i);
    for (uint32_t i = 0; i < problem->bank_count; i++) (void)tn__dsa_add(&reader->pools, i);
    for (size_t i = 0; i < json_array_size(placements); i++) {
        tn_status status = solution_placement(reader, json_array_get(placements, i));
        if (status != TN_OK)
            return tn__where(reader->error, status, "%s: placements[%zu]", reader->name, i);
    }
    for (tn_body_id id = 0; id < problem->count; id++) {
        char text[TN__BODY_TEXT_MAX];
        if (!reader->placed[id])
            TN_FAIL(reader->error, TN_E_CONFLICT, "the solution has no placement for %s",
                    tn__body_text(problem, id, text));
    }
    return TN_OK;
}

tn_status tn__dsa_solution_read(const tn_problem *problem, const char *name, const json_t *root,
                                uint64_t *offsets, tn_bank_id *banks, tn_error *error) {
    solution_reader reader = {.problem = problem,
                              .name = name,
                              .root = root,
                              .offsets = offsets,
                              .banks = banks,
                              .error = error};
    tn__table_init(&reader.pools.table, &problem->context);
    tn__table_init(&reader.buffers.table, &problem->context);
    tn_status status = solution_read(&reader);
    tn__table_release(&reader.pools.table);
    tn__table_release(&reader.buffers.table);
    tn__free(&problem->context, reader.placed, problem->count * sizeof *reader.placed);
    return status;
}
