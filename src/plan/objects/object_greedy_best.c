/* object_greedy_best.c - takes the better result of greedy-by-size and greedy-by-breadth; of equal
 * ones the first.
 *
 * Cost: that of both strategies.
 * Source: TensorFlow Lite, GPU delegate, GREEDY_BEST.
 */
#include "plan/sharing/object.h"

static tn_status greedy_best_solve(tn_object_run *run) {
    TN_TRY(tn__object_try(run, tn__object_strategy_find("greedy-by-size"), 0, true));
    return tn__object_try(run, tn__object_strategy_find("greedy-by-breadth"), 0, true);
}

const tn_object_strategy tn__object_greedy_best = {
    .name = "greedy-best",
    .summary = "the better of greedy-by-size and greedy-by-breadth",
    .source = "TensorFlow Lite GPU delegate",
    .features = TN_OBJECTS_BYTES,
    .solve = greedy_best_solve,
};
