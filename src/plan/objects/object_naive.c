/* object_naive.c - gives every record its own object, which is the memory needed without sharing.
 * Cost: O(n).*/
#include "plan/sharing/object.h"

static tn_status naive_objects_solve(tn_object_run *run) {
    for (uint32_t i = 0; i < run->count; i++) tn__object_new(run, i);
    return TN_OK;
}

const tn_object_strategy tn__object_naive = {
    .name = "naive",
    .summary = "no sharing: one object per buffer",
    .source = "the baseline",
    .features = TN_OBJECTS_ALL_KINDS | TN_OBJECTS_REALLOCATION,
    .solve = naive_objects_solve,
};
