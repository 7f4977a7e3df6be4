/* cluster.h - the parts of the time of an iteration on many devices.
 *
 * cluster.c: a layer, and the operators before and after the layers, on one rank; micro-batches
 * through stages, in the order of the schedule; both together, and the work after the last backward
 * pass; the division that takes the least time. large.c: tn__large_complete.
 */
#ifndef TN_ESTIMATE_CLUSTER_H
#define TN_ESTIMATE_CLUSTER_H

#include <tenure/dist.h>

/* Seconds of a micro-batch on one rank, in one direction. */
typedef struct tn__cluster_work {
    double products, other, tensor;
} tn__cluster_work;

typedef enum tn__cluster_way { TN__FORWARD, TN__BACKWARD, TN__WAY_COUNT } tn__cluster_way;

typedef struct tn__cluster_parts { /* by direction; recomputation counts as backward */
    tn__cluster_work layer[TN__WAY_COUNT], first[TN__WAY_COUNT], last[TN__WAY_COUNT];
} tn__cluster_parts;

/* `large` with its defaults in place (tn__large_complete). */
static inline double tn__cluster_sum(const tn__cluster_work *work) {
    return work->products + work->other + work->tensor;
}

/* Stages times pieces, stage p of piece v at [v * stages + p]. */
typedef struct tn__schedule_job {
    uint64_t stages, pieces, rounds; /* micro-batches; a multiple of stages if pieces > 1 */
    const double *time[TN__WAY_COUNT];
    /* stages x pieces x rounds: bounded by the caller */
    double send; /* seconds to pass activations to the next stage */
} tn__schedule_job;

/* Seconds from the first forward to the last backward pass, 1F1B. Cost: stages x pieces x rounds.
 * Errors: E_NO_MEMORY. */
TN_CHECKED tn_status tn__schedule_run(const tn__schedule_job *job, double *seconds,
                                      tn_error *error);

/* The caller's description with defaults filled in. Errors: as tn_large_estimate_make. */
TN_CHECKED tn_status tn__large_complete(const tn_large *given, tn_large *large, tn_error *error);

#endif
