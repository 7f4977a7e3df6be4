/* objects_problem.c - turns buffers into records for shared objects, with the reuse that clocks
 * allow.
 *
 * A buffer takes a whole object and keeps it from its first step to its last: gaps and windows
 * count as live, which is safe. With several streams, live ranges alone are not enough: a buffer
 * may take over an object only if all pieces of the buffer before it are known to come before all
 * of its own pieces. The least begin and the greatest end over a buffer's pieces decide that.
 */
#include <tenure/objects.h>

#include "plan/problem/problem.h"

#include <inttypes.h>

/* limit of buffers with several streams, because their pairs are listed */
#define OBJECTS_STREAMS_COUNT_MAX 8192u

static tn_status objects_problem_refuse(const tn_problem *problem, bool takes_streams,
                                        tn_error *error) {
    char text[TN__BODY_TEXT_MAX];
    if (problem->bank_count > 1)
        TN_FAIL(error, TN_E_UNSUPPORTED, "shared objects are for one bank; use offsets");
    if (problem->streams > 1 && (!takes_streams || problem->count > OBJECTS_STREAMS_COUNT_MAX))
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "shared objects on several streams are for at most %u buffers; use offsets",
                takes_streams ? OBJECTS_STREAMS_COUNT_MAX : 0);
    if (tn__keeps_apart(problem) || problem->exclusion_count > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "shared objects know no separations, exclusions or reserved ranges; use offsets");
    for (tn_body_id id = 0; id < problem->count; id++) {
        const tn_body *body = &problem->bodies[id];
        const char *what = body->flags & TN_BODY_PINNED ? "is pinned"
                           : body->flags & TN_BODY_TIED ? "is tied to another"
                                                        : NULL;
        if (what != NULL)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "%s %s; shared objects are for buffers that may lie anywhere, use offsets",
                    tn__body_text(problem, id, text), what);
    }
    return TN_OK;
}

typedef struct objects_clocks {
    const tn_problem *problem;
    size_t streams;
    /* [count * streams], least begin and greatest end of each buffer's pieces on each stream's
     * clock */
    int64_t *begins, *ends;
} objects_clocks;

/* Computes the least begin and the greatest end of each buffer. The relation "before" must be
 * transitive, because only neighbours in an object are compared. So a buffer of no bytes, which has
 * no clocks, comes neither before nor after any buffer. */
static void objects_clocks_fill(objects_clocks *clocks) {
    for (size_t id = 0; id < clocks->problem->count; id++) {
        const tn_body *body = &clocks->problem->bodies[id];
        for (size_t s = 0; s < clocks->streams; s++) {
            bool empty = body->piece_count == 0;
            int64_t begin = empty ? INT64_MIN : INT64_MAX, end = empty ? INT64_MAX : INT64_MIN;
            for (uint32_t k = 0; k < body->piece_count; k++) {
                if (body->pieces[k].begins[s] < begin) begin = body->pieces[k].begins[s];
                if (body->pieces[k].ends[s] > end) end = body->pieces[k].ends[s];
            }
            clocks->begins[id * clocks->streams + s] = begin;
            clocks->ends[id * clocks->streams + s] = end;
        }
    }
}

static bool objects_clocks_before(const objects_clocks *clocks, size_t a, size_t b) {
    if (clocks->problem->bodies[a].last > clocks->problem->bodies[b].first) return false;
    const int64_t *ends = clocks->ends + a * clocks->streams;
    const int64_t *begins = clocks->begins + b * clocks->streams;
    for (size_t s = 0; s < clocks->streams; s++)
        if (ends[s] > begins[s]) return false;
    return true;
}

static tn_status objects_clocks_list(const objects_clocks *clocks, const tn_context *context,
                                     tn_edges *edges, tn_error *error) {
    size_t count = clocks->problem->count, total = 0;
    uint32_t *begin = tn__alloc_array(context, count + 1, sizeof *begin);
    if (begin == NULL) return tn__no_memory(error, "the order of the records");
    for (size_t a = 0; a < count; a++) {
        for (size_t b = 0; b < count; b++) total += objects_clocks_before(clocks, a, b);
        /* the number of pairs is at most 8192^2, so it fits in 32 bits */
        begin[a + 1] = (uint32_t)total;
    }
    uint32_t *target = tn__alloc_array(context, total, sizeof *target);
    if (target == NULL) {
        tn__free(context, begin, (count + 1) * sizeof *begin);
        return tn__no_memory(error, "the order of the records");
    }
    uint32_t at = 0;
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++)
            if (objects_clocks_before(clocks, a, b)) target[at++] = (uint32_t)b;
    *edges = (tn_edges){.vertex_count = (uint32_t)count, .begin = begin, .target = target};
    return TN_OK;
}

static tn_status objects_clocks_edges(const tn_problem *problem, tn_edges *edges, tn_error *error) {
    const tn_context *context = &problem->context;
    objects_clocks clocks = {.problem = problem, .streams = problem->streams};
    size_t room = problem->count * clocks.streams;
    clocks.begins = tn__alloc_array(context, room, sizeof *clocks.begins);
    clocks.ends = tn__alloc_array(context, room, sizeof *clocks.ends);
    tn_status status = TN_OK;
    if (clocks.begins == NULL || clocks.ends == NULL) status = tn__no_memory(error, "clocks");
    if (status == TN_OK) {
        objects_clocks_fill(&clocks);
        status = objects_clocks_list(&clocks, context, edges, error);
    }
    tn__free(context, clocks.begins, room * sizeof *clocks.begins);
    tn__free(context, clocks.ends, room * sizeof *clocks.ends);
    return status;
}

tn_status tn_problem_records(const tn_problem *problem, tn_object_record *records,
                             tn_edges *reallocation, tn_error *error) {
    tn_edges edges = {0};
    TN_TRY(objects_problem_refuse(problem, reallocation != NULL, error));
    if (problem->streams > 1) TN_TRY(objects_clocks_edges(problem, &edges, error));
    for (tn_body_id id = 0; id < problem->count; id++) {
        const tn_body *body = &problem->bodies[id];
        records[id] = (tn_object_record){.size = {body->size},
                                         .first = body->first,
                                         .last = body->last,
                                         .alignment = body->alignment};
    }
    if (reallocation != NULL) *reallocation = edges;
    return TN_OK;
}
