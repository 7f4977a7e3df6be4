/* cluster.h - predicts the time of a training iteration of a large transformer on many devices, and
 * finds the fastest division among them.
 *
 *     tn_large large = {.model = {.hidden = 12288, .layers = 96, .heads = 96,
 *                                 .vocabulary = 51200},
 *                       .sequence = 2048, .batch = 1536, .recompute = TN_RECOMPUTE_FULL};
 *     tn_cluster cluster = TN_CLUSTER_INIT;
 *     tn_cluster_found found;
 *     tn_error error;
 *     cluster.devices = 1536;
 *     cluster.memory = UINT64_C(80) << 30;
 *     cluster.flops = 312e12, cluster.bytes_per_s = 2039e9;
 *     if (tn_cluster_search(&cluster, &large, NULL, &found, &error) != TN_OK) return 1;
 *     printf("%.1f s an iteration\n", found.time.seconds); // found.large: how it is divided
 *
 * The model is not fitted to measurements. A product takes its operations at the data-sheet rate or
 * its bytes at the memory bandwidth, whichever is longer. Other operators take their bytes.
 * Messages take their bytes at the rate of their link (rings), and gradients are summed after the
 * last backward pass without overlap. Micro-batches go through the stages one by one in 1F1B order,
 * interleaved or not. Launches, message latency and clock throttling are not counted, so real
 * iterations take longer; docs/estimate.md compares published ones.
 * Units: bytes, seconds, FLOP/s.
 * Threads: everything is read only.
 * Source: Narayanan et al. 2021 (schedules, scatter/gather), Korthikanti et al. 2022.
 */
#ifndef TENURE_CLUSTER_H
#define TENURE_CLUSTER_H

#include <tenure/estimate.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_cluster {
    uint64_t devices;   /* identical devices */
    uint64_t per_node;  /* devices connected by the fast link; 0 = 8 */
    uint64_t memory;    /* of a device; 0: no limit */
    double flops;       /* of a device, for products in the type of the weights */
    double bytes_per_s; /* memory bandwidth of a device */
    double fast, slow;  /* bytes/s sent by a device: within its node, and to other nodes */
    bool whole_sends;   /* each tensor rank sends the whole output of a stage, not its share */
} tn_cluster;
/* The links of a node with eight A100: 300 GB/s inside, a network card of 25 GB/s per device. */
#define TN_CLUSTER_INIT                                                                            \
    TN_INIT(tn_cluster, TN_SET(per_node, 8) TN_SET(fast, 300e9) TN_SET(slow, 25e9))

typedef struct tn_cluster_time { /* seconds of an iteration */
    double seconds;
    /* Times of the stage that is busy longest; the rest of `pass` are bubbles and sends. */
    double products, other, tensor; /* products; other operators; messages of tensor ranks */
    double pass;                    /* forward and backward passes of all micro-batches */
    double data, update;            /* summing gradients, updating parameters */
    double bubble;                  /* share of `pass` that this stage is idle */
    /* Utilisation of the devices' rate, by the operations of the iteration (tn_large_estimate).
     * Recomputed operations count only with full recomputation, as in publications. */
    double share;
    uint64_t slow_bytes; /* bytes that a device sends to other nodes; the maximum over devices */
} tn_cluster_time;

/* Predicts one division (large->tensor, pipeline, data, micro, interleave, ...). Memory is not
 * checked.
 * Cost: stages x chunks x micro-batches.
 * Errors: E_INVALID (as tn_large_estimate_make; the ranks are not as many as the devices; rates
 * that are not positive; micro-batches that interleaved stages cannot share evenly, or four million
 * passes or more), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_cluster_time_make(const tn_cluster *cluster, const tn_large *large,
                                                 tn_cluster_time *time, tn_error *error);

typedef struct tn_cluster_free { /* choices of the search; false: as in `large` */
    uint32_t struct_size;
    bool recompute, shard, sequence_parallel;
} tn_cluster_free;
#define TN_CLUSTER_FREE_INIT                                                                       \
    TN_INIT(tn_cluster_free, TN_SET(struct_size, sizeof(tn_cluster_free)) TN_SET(recompute, true)  \
                                 TN_SET(shard, true) TN_SET(sequence_parallel, true))

typedef struct tn_cluster_found {
    tn_large large; /* including the division */
    tn_large_estimate memory;
    tn_cluster_time time;
    uint64_t tried, fitting; /* divisions in total, and those that fit */
} tn_cluster_found;

/* Finds the division with the shortest predicted time among all that fit: tensor ranks within a
 * node, stages with equal numbers of layers, micro-batches of powers of two, any number of chunks.
 * Ties go to the division with less memory. `choices` NULL: everything may be chosen.
 * Errors: as tn_cluster_time_make; E_INFEASIBLE (none fits; the message states the least memory).
 */
TN_API TN_CHECKED tn_status tn_cluster_search(const tn_cluster *cluster, const tn_large *large,
                                              const tn_cluster_free *choices,
                                              tn_cluster_found *found, tn_error *error);

#ifdef __cplusplus
}
#endif

#endif
