/* exclusions.c - lists the exclusions of a problem for each buffer.
 *
 * A group of tied buffers is one buffer for planners, bounds and the verifier, so each buffer of a
 * pair is replaced by the root of its group. A pair within one group has no effect, because the
 * buffers of a group may share bytes in any case.
 *
 * Cost: O(buffers + exclusions log exclusions).
 */
#include "plan/problem/problem.h"

static tn_body_id exclusions_root(const tn_problem *problem, tn_body_id id) {
    const tn_body *body = &problem->bodies[id];
    return body->flags & TN_BODY_TIED ? body->leader : id;
}

static int exclusions_by_id(const void *a, const void *b) {
    tn_body_id x = *(const tn_body_id *)a, y = *(const tn_body_id *)b;
    return (x > y) - (x < y);
}

void tn__exclusions_release(const tn_problem *problem, tn__exclusions *made) {
    if (made->begin != NULL)
        tn__free(&problem->context, made->begin, (problem->count + 1) * sizeof *made->begin);
    tn__free(&problem->context, made->others, made->room * sizeof *made->others);
    *made = (tn__exclusions){0};
}

tn_status tn__exclusions_make(const tn_problem *problem, tn__exclusions *made, tn_error *error) {
    const tn_context *context = &problem->context;
    *made = (tn__exclusions){0};
    if (problem->exclusion_count == 0) return TN_OK;
    made->room = 2 * problem->exclusion_count;
    made->begin = tn__alloc_array(context, problem->count + 1, sizeof *made->begin);
    made->others = tn__alloc_array(context, made->room, sizeof *made->others);
    if (made->begin == NULL || made->others == NULL) {
        tn__exclusions_release(problem, made);
        return tn__no_memory(error, "the exclusions");
    }
    /* first counts, then fills from the back: begin[i] moves from the end of list i to its begin */
    size_t at = 0;
    for (int fills = 0; fills < 2; fills++) {
        for (size_t i = 0; i < problem->exclusion_count; i++) {
            tn_body_id a = exclusions_root(problem, problem->exclusions[i].a);
            tn_body_id b = exclusions_root(problem, problem->exclusions[i].b);
            if (a == b) continue;
            if (fills) {
                made->others[--made->begin[a]] = b;
                made->others[--made->begin[b]] = a;
            } else {
                made->begin[a]++;
                made->begin[b]++;
            }
        }
        for (size_t i = 0; i < problem->count && !fills; i++) made->begin[i] = at += made->begin[i];
        made->begin[problem->count] = at;
    }
    for (size_t i = 0; i < problem->count; i++)
        if (made->begin[i + 1] - made->begin[i] > 1)
            qsort(made->others + made->begin[i], made->begin[i + 1] - made->begin[i],
                  sizeof *made->others, exclusions_by_id);
    return TN_OK;
}

bool tn__excluded(const tn__exclusions *exclusions, tn_body_id a, tn_body_id b) {
    if (exclusions->begin == NULL) return false;
    size_t low = exclusions->begin[a], end = exclusions->begin[a + 1], high = end;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (exclusions->others[middle] < b)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && exclusions->others[low] == b;
}
