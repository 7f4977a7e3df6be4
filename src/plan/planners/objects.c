/* objects.c - the best assignment of shared objects, laid end to end.
 *
 * What `tenure plan --form objects` finds, as offsets: never better than packing, but every two
 * bodies that share bytes share all of them, which some run times need. Bodies of several pieces
 * count with their whole size and life.
 * Cost:   that of all strategies for objects (`tenure list objects`), each with a share of work.
 * Source: Pisarchyk and Lee 2020 (arXiv:2001.03288); TensorFlow Lite.
 */
#include <tenure/objects.h>

#include "plan/peers.h"
#include "plan/run.h"

/* Lets the limits of this run end the strategies. */
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
    uint64_t left = tn__run_work_left(run);
    tn_object_record *records = tn__run_scratch(run, n, sizeof *records);
    if (records == NULL) return TN_E_NO_MEMORY;
    if (n == 0) return TN_OK;
    for (uint32_t i = 0; i < n; i++)
        records[i] = (tn_object_record){.size = {bodies[i].size},
                                        .first = times[bodies[i].first],
                                        .last = times[bodies[i].last],
                                        .alignment = bodies[i].alignment};
    tn_context context = *tn__run_context(run);
    context.self = run;
    context.progress = objects_goes_on;
    tn_objects_options options = TN_OBJECTS_OPTIONS_INIT;
    tn_objects objects;
    options.context = &context;
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
    .summary = "the best of `list objects`, objects end to end",
    .source = "Pisarchyk and Lee 2020; TensorFlow Lite",
    .features = TN_PLANS_ALIGNMENT | TN_PLANS_PIECES,
    .solve = objects_solve,
};
