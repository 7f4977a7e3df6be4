/* estimate_large.h - the part of `tenure estimate` that answers by formulas. */
#ifndef TN_CLI_ESTIMATE_LARGE_H
#define TN_CLI_ESTIMATE_LARGE_H

#include "cli/estimate.h"

#define CLI_LARGE_CHANGES_MAX 6u

typedef struct cli_large {
    bool asked, split; /* given: an option of formulas was set; has_ranks: ranks were given */
    tn_large how;      /* options; the sizes come from the file */
    tn_large_estimate found;
    cli_change changes[CLI_LARGE_CHANGES_MAX]; /* changes that make it fit */
    uint32_t change_count;
} cli_large;

/* --parallel tensor=8,pipeline=4,data=2 */
void cli_large_split(struct argp_state *state, cli_large *large, tn_grid *grid, const char *value);
struct cli_cluster;
/* Call after cli_cluster_find. Finds the changes that make it fit into `limit` bytes, with their
 * times. */
void cli_large_change(cli_large *large, const struct cli_cluster *cluster, uint64_t limit);
/* The whole path, from `how` to the answer. Returns the exit status. */
extern const cli_facts cli_large_facts;
int cli_estimate_large(cli_large *large, struct cli_cluster *cluster, const cli_way *way, bool json,
                       tn_error *error);

#endif
