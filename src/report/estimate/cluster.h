/* cluster.h - the parts of which the time of a training iteration on many devices consists.
 *
 * cluster.c computes the work of a micro-batch on one rank, the time of all micro-batches in the
 * pipeline, and the time of a whole iteration, and searches the division that takes the least time.
 * large.c has tn__large_complete.
 */
#ifndef TN_ESTIMATE_CLUSTER_H
#define TN_ESTIMATE_CLUSTER_H

#include <tenure/dist.h>

/* Seconds of one micro-batch on one rank, in one direction: of matrix products, of other operators,
 * and of sums over tensor-parallel ranks. */
typedef struct tn__cluster_work {
    double products, other, tensor;
} tn__cluster_work;

typedef enum tn__cluster_way { TN__FORWARD, TN__BACKWARD, TN__WAY_COUNT } tn__cluster_way;

/* Work of one layer, before the first and after the last layer, each by direction. Recomputation
 * counts as backward. */
typedef struct tn__cluster_parts {
    tn__cluster_work layer[TN__WAY_COUNT], first[TN__WAY_COUNT], last[TN__WAY_COUNT];
} tn__cluster_parts;

/* Returns all seconds of the work. */
static inline double tn__cluster_sum(const tn__cluster_work *work) {
    return work->products + work->other + work->tensor;
}

/* Passes of micro-batches through a pipeline. The layers of each of `stages` stages are divided
 * into `pieces`; part v * stages + p is piece v of stage p. The caller limits the number of passes,
 * stages x pieces x rounds. */
typedef struct tn__schedule_job {
    /* `stages`: pipeline stages; `pieces`: sections of layers per stage; `rounds`: micro-batches, a
     * multiple of `stages` if pieces > 1 */
    uint64_t stages, pieces, rounds;
    const double *time[TN__WAY_COUNT]; /* seconds of each part, by direction */
    double send;                       /* seconds to send activations to the next stage */
} tn__schedule_job;

/* Sets *seconds to the time from the first forward pass to the end of the last backward pass, in
 * the order 1F1B (one forward, one backward). Cost: O(stages x pieces x rounds). Errors:
 * E_NO_MEMORY. */
TN_CHECKED tn_status tn__schedule_run(const tn__schedule_job *job, double *seconds,
                                      tn_error *error);

/* Sets *large to the description `given`, with the default in place of every field that is 0.
 * Errors: those of tn_large_estimate_make. */
TN_CHECKED tn_status tn__large_complete(const tn_large *given, tn_large *large, tn_error *error);

#endif
