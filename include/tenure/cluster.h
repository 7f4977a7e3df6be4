/* cluster.h - how long an iteration of training a large transformer takes on many devices, and
 * which division among them takes the least.
 *
 *     tn_large large = {.hidden = 12288, .layers = 96, .heads = 96, .vocabulary = 51200,
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
 * Nothing is fitted to measurements: a product takes as long as its operations at the rate of the
 * data sheet or its bytes at the memory's, whichever is longer; all else its bytes; messages what
 * they send at the rate of their link (rings), and gradients are summed after the last backward
 * pass with nothing beside them. Micro-batches then go through the stages one by one, in the order
 * of 1F1B, interleaved or not. What is left out (launches, latency of messages, clocks that fall)
 * makes real iterations longer: published ones are laid beside it in docs/estimate.md.
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
    uint64_t devices;   /* alike */
    uint64_t per_node;  /* that reach each other by the fast link; 0 = 8 */
    uint64_t memory;    /* of a device; 0: no bound */
    double flops;       /* of a device, products of the type of the weights */
    double bytes_per_s; /* of its memory */
    double fast, slow;  /* bytes/s that a device sends within its node, and beyond */
    bool whole_sends;   /* each tensor rank sends a stage's whole output, not its share of it */
} tn_cluster;
/* The links of a node of eight A100: 300 GB/s within, a network card of 25 GB/s for each. */
#define TN_CLUSTER_INIT                                                                            \
    TN_INIT(tn_cluster, TN_SET(per_node, 8) TN_SET(fast, 300e9) TN_SET(slow, 25e9))

typedef struct tn_cluster_time { /* seconds of an iteration */
    double seconds;
    /* of the stage that works the longest; what is left of `pass` are bubbles and sends */
    double products, other, tensor; /* operations; all else; messages of tensor ranks */
    double pass;                    /* forward and backward of all micro-batches */
    double data, update;            /* gradients summed, parameters updated */
    double bubble;                  /* share of `pass` that this stage waits */
    double share; /* of the devices' rate, by the operations of the iteration (tn_large_estimate)
                     without what is computed again unless all of it is, as published */
    uint64_t slow_bytes; /* that a device sends beyond its node, the one that sends most */
} tn_cluster_time;

/* Of one division (large->tensor, pipeline, data, micro, interleave, ...); memory is not asked.
 * Cost: the product of stages, pieces and micro-batches.
 * Errors: E_INVALID (as tn_large_estimate_make; ranks that are not the cluster's devices; rates
 * that are no positive numbers; micro-batches that interleaved stages cannot share evenly, or
 * four million passes and more), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_cluster_time_make(const tn_cluster *cluster, const tn_large *large,
                                                 tn_cluster_time *time, tn_error *error);

typedef struct tn_cluster_free { /* what a search may choose; the rest is as `large` says */
    uint32_t struct_size;
    bool recompute, shard, sequence_parallel;
} tn_cluster_free;
#define TN_CLUSTER_FREE_INIT                                                                       \
    TN_INIT(tn_cluster_free, TN_SET(struct_size, sizeof(tn_cluster_free)) TN_SET(recompute, true)  \
                                 TN_SET(shard, true) TN_SET(sequence_parallel, true))

typedef struct tn_cluster_found {
    tn_large large; /* with its division */
    tn_large_estimate memory;
    tn_cluster_time time;
    uint64_t tried, fitting; /* divisions that exist, and that fit */
} tn_cluster_found;

/* The division with the least predicted time among all that fit: tensor ranks within a node,
 * stages of as many layers each, micro-batches of powers of two, any number of pieces. Ties go to
 * less memory. `choices` NULL: all may be chosen.
 * Errors: as tn_cluster_time_make; E_INFEASIBLE (none fits; the message names the least memory). */
TN_API TN_CHECKED tn_status tn_cluster_search(const tn_cluster *cluster, const tn_large *large,
                                              const tn_cluster_free *choices,
                                              tn_cluster_found *found, tn_error *error);

#ifdef __cplusplus
}
#endif

#endif
