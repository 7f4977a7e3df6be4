/* objects.c - plans shared objects and lays them end to end.
 *
 * The result is that of `tenure plan --form objects`, expressed as offsets. It is never better than
 * packing, but any two buffers that share bytes share the whole object, which some runtimes need.
 * Buffers of several pieces count with their whole size and live range. With several streams, a
 * buffer may follow another in an object only if the clocks order them; above OBJECTS_PAIRS_MAX
 * buffers there are too many pairs to list.
 *
 * Cost: that of all strategies for objects (`tenure list objects`), each with an equal share of the
 * work.
 * Source: Pisarchyk and Lee 2020 (arXiv:2001.03288); TensorFlow Lite.
 */
#include <tenure/objects.h>

#include "plan/frame/peers.h"
#include "plan/frame/planner_run.h"

#define OBJECTS_PAIRS_MAX 8192u /* limit of buffers, because all pairs are compared */

/* Whether all of buffer `a` is known to come before all of buffer `b`. A buffer of no bytes has no
 * clocks: it comes neither before nor after any buffer, so that the relation is transitive. */
static bool objects_before(const tn_run *run, const tn_run_body *a, const tn_run_body *b) {
    if (a->last > b->first || a->piece_count == 0 || b->piece_count == 0) return false;
    for (uint32_t i = 0; i < a->piece_count; i++)
        for (uint32_t k = 0; k < b->piece_count; k++)
            if (tn__run_pieces_meet(run, a->piece_first + i, b->piece_first + k)) return false;
    return true;
}

/* Lists the pairs of buffers that may follow each other in an object, as the clocks of the streams
 * allow; *edges stays empty if live ranges decide it alone. */
static tn_status objects_edges(tn_run *run, tn_edges *edges) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t n = tn__run_count(run);
    size_t total = 0;
    if (!tn__run_has_streams(run)) return TN_OK;
    if (n > OBJECTS_PAIRS_MAX)
        TN_FAIL(run->error, TN_E_STOPPED, "planner objects: more than %u bodies on several streams",
                OBJECTS_PAIRS_MAX);
    uint8_t *before = tn__run_scratch(run, (size_t)n * n, 1);
    uint32_t *begin = tn__run_scratch(run, (size_t)n + 1, sizeof *begin);
    if (before == NULL || begin == NULL) return TN_E_NO_MEMORY;
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++)
            total += before[(size_t)a * n + b] = objects_before(run, &bodies[a], &bodies[b]);
        begin[a + 1] = (uint32_t)total;
        TN_TRY(tn__run_work(run, 1 + n / 256));
    }
    uint32_t *target = tn__run_scratch(run, total, sizeof *target);
    if (target == NULL) return TN_E_NO_MEMORY;
    for (size_t i = 0, at = 0; i < (size_t)n * n; i++)
        if (before[i]) target[at++] = (uint32_t)(i % n);
    *edges = (tn_edges){.vertex_count = n, .begin = begin, .target = target};
    return TN_OK;
}

/* A progress function for the strategies: stops them when a limit of this run is reached. */
static bool objects_goes_on(void *self, const char *stage, uint64_t done, uint64_t total) {
    (void)stage;
    (void)done;
    (void)total;
    return tn__run_work(self, 1) == TN_OK;
}

static tn_status objects_solve(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    const int64_t *times = run->prepared->times;
    uint32_t n = tn__run_count(run);
    tn_object_record *records = tn__run_scratch(run, n, sizeof *records);
    if (records == NULL) return TN_E_NO_MEMORY;
    if (n == 0) return TN_OK;
    for (uint32_t i = 0; i < n; i++)
        records[i] = (tn_object_record){.size = {bodies[i].size},
                                        .first = times[bodies[i].first],
                                        .last = times[bodies[i].last],
                                        .alignment = bodies[i].alignment};
    tn_edges edges = {0};
    TN_TRY(objects_edges(run, &edges));
    tn_context context = *tn__run_context(run);
    context.self = run;
    context.progress = objects_goes_on;
    tn_objects_options options = TN_OBJECTS_OPTIONS_INIT;
    tn_objects objects;
    options.context = &context;
    options.reallocation = edges.vertex_count > 0 ? &edges : NULL;
    uint64_t left = tn__run_work_left(run);
    options.work_limit = left == UINT64_MAX ? 0 : left > 0 ? left : 1;
    tn_status status = tn_objects_plan(records, n, &options, &objects, run->error);
    if (status == TN_E_INVALID)
        TN_FAIL(run->error, TN_E_STOPPED, "planner objects: the sizes exceed 2^63 - 1 in sum");
    if (status != TN_OK) return status;
    status = tn__run_work(run, objects.work);
    if (status == TN_OK) status = tn__peers_stack(run, objects.object, objects.object_count);
    tn_objects_release(&objects);
    return status;
}

const tn_planner tn__planner_objects = {
    .name = "objects",
    .summary = "shared objects, one after another: the best strategy of `list objects`",
    .source = "Pisarchyk and Lee 2020; TensorFlow Lite",
    .features = TN_PLANS_ALIGNMENT | TN_PLANS_PIECES | TN_PLANS_STREAMS,
    .solve = objects_solve,
};
