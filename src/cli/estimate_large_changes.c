/* estimate_large_changes.c - changes that make the training of a large transformer fit: first those
 * that cost nothing, then those that cost time, then shorter sequences, and last more devices. */
#include "cli/estimate_large.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/base.h"
#include "cli/estimate_cluster.h"

#define CHANGES_DEVICES_MOST 65536u

typedef struct large_state {
    cli_large *large;
    const cli_cluster *cluster;
    uint64_t limit;
} large_state;

static bool large_keep(const large_state *it, const char *text, uint64_t total,
                       const tn_cluster_time *time) {
    cli_large *large = it->large;
    if (large->change_count == CLI_LARGE_CHANGES_MAX) return true;
    cli_change *change = &large->changes[large->change_count++];
    *change = (cli_change){.total = total};
    snprintf(change->text, sizeof change->text, "%s", text);
    change->priced = time != NULL && it->cluster->timed && it->cluster->time.seconds > 0;
    if (change->priced) change->more_time = time->seconds / it->cluster->time.seconds - 1;
    return true;
}

/* Adds a suggestion if it fits with `how`; returns whether it does. */
static bool large_try(const large_state *it, const tn_large *how, const char *text) {
    tn_large_estimate made;
    tn_cluster_time time;
    if (tn_large_estimate_make(how, &made, NULL) != TN_OK || made.largest.total > it->limit)
        return false;
    bool timed = it->cluster->timed &&
                 tn_cluster_time_make(&it->cluster->cluster, how, &time, NULL) == TN_OK;
    return large_keep(it, text, made.largest.total, timed ? &time : NULL);
}

/* The longest sequence that fits; memory per rank grows with the sequence. */
static bool large_try_sequence(const large_state *it, const tn_large *how, const char *before) {
    tn_large less = *how;
    tn_large_estimate made;
    char text[96];
    uint64_t low = 0, high = how->sequence;
    while (high - low > 1) {
        less.sequence = low + (high - low) / 2;
        bool fits =
            tn_large_estimate_make(&less, &made, NULL) == TN_OK && made.largest.total <= it->limit;
        *(fits ? &low : &high) = less.sequence;
    }
    if (low == 0) return false;
    less.sequence = low;
    snprintf(text, sizeof text, "%s--sequence %" PRIu64, before, low);
    return large_try(it, &less, text);
}

/* Tries single options; `before` names an option that is already set. */
static bool large_try_options(const large_state *it, const tn_large *how, const char *before) {
    static const char *const recomputes[] = {"", "selective", "full"};
    bool any = false;
    char text[96];
    if (how->tensor > 1 && !how->sequence_parallel) {
        tn_large divided = *how;
        divided.sequence_parallel = true;
        snprintf(text, sizeof text, "%s--sequence-parallel", before);
        any |= large_try(it, &divided, text);
    }
    for (tn_shard shard = how->shard + 1; how->data > 1 && shard <= TN_SHARD_PARAMETERS; shard++) {
        tn_large divided = *how;
        divided.shard = shard;
        snprintf(text, sizeof text, "%s--shard %s", before, tn_shard_name(shard));
        if (large_try(it, &divided, text)) {
            any = true;
            break; /* later levels send more data */
        }
    }
    for (tn_recompute again = how->recompute + 1; again <= TN_RECOMPUTE_FULL; again++) {
        tn_large less = *how;
        less.recompute = again;
        snprintf(text, sizeof text, "%s--recompute %s", before, recomputes[again]);
        any |= large_try(it, &less, text);
    }
    return large_try_sequence(it, how, before) || any;
}

/* The smallest power of two of devices for which some division fits. */
static void large_try_devices(const large_state *it) {
    cli_cluster many = *it->cluster;
    tn_cluster_found found;
    char text[96];
    uint64_t devices = 2;
    while (devices <= it->large->found.ranks) devices *= 2;
    for (; it->cluster->timed && devices <= CHANGES_DEVICES_MOST; devices *= 2) {
        tn_large free = it->large->how;
        many.cluster.devices = devices;
        free.tensor = free.pipeline = free.data = free.micro = free.interleave = 0;
        if (cli_cluster_divide(&many, &free, &found, NULL) != TN_OK) continue;
        snprintf(text, sizeof text, "--parallel auto --devices %" PRIu64, devices);
        large_keep(it, text, found.memory.largest.total, NULL);
        return;
    }
}

void cli_large_change(cli_large *large, const cli_cluster *cluster, uint64_t limit) {
    large_state it = {.large = large, .cluster = cluster, .limit = limit};
    bool found = limit == 0 || large->found.largest.total <= limit;
    if (found) return;
    if (!large_try_options(&it, &large->how, "") && large->how.recompute != TN_RECOMPUTE_FULL) {
        tn_large again = large->how;
        again.recompute = TN_RECOMPUTE_FULL;
        large_try_options(&it, &again, "--recompute full ");
    }
    large_try_devices(&it);
}
