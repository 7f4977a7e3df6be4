/* estimate_cluster.h - the part of `tenure estimate` that predicts training time on many
 * devices. */
#ifndef TN_CLI_ESTIMATE_CLUSTER_H
#define TN_CLI_ESTIMATE_CLUSTER_H

#include <argp.h>
#include <tenure/cluster.h>

#include "cli/estimate_large.h"

typedef struct cli_cluster {
    tn_cluster cluster;
    bool asked, search, sweep;
    tn_cluster_found found;
    tn_cluster_time time;
    bool timed; /* the time is known, because the device's rates are */
} cli_cluster;
#define CLI_CLUSTER_INIT                                                                           \
    { .cluster = TN_CLUSTER_INIT }

/* --devices, --per-node, --link-fast, --link-slow, --sweep; its input is a cli_cluster. */
extern const struct argp cli_cluster_argp;

/* --parallel auto. */
void cli_cluster_search(cli_cluster *cluster);
/* Computes the time; with `search` it first finds the fastest division
 * and stores it in `large`. */
tn_status cli_cluster_find(cli_cluster *cluster, cli_large *large, const tn_hardware *device,
                           tn_error *error);
/* Finds the fastest division among the cluster's devices that fits. */
tn_status cli_cluster_divide(const cli_cluster *cluster, const tn_large *how,
                             tn_cluster_found *found, tn_error *error);
/* Adds the division and the seconds to the answer. */
extern const cli_facts cli_cluster_facts; /* with CLI_FACTS_ALSO */
void cli_cluster_tell(cli_answer *answer, const cli_cluster *cluster, const cli_large *large,
                      bool json);
/* Prints the fastest division for 1, 2, 4, ... devices. Returns the exit status. */
extern const cli_facts cli_scaling_facts;
int cli_cluster_scale(cli_cluster *cluster, const cli_large *large, const cli_way *way, bool json);

#endif
