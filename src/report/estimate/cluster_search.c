/* cluster_search.c - finds the division of a transformer among devices that takes the least time.
 *
 * All divisions are examined. A division that does not fit costs one sum. One that fits is timed,
 * unless a lower bound shows that it is no faster: the operations of a rank at the device's rate.
 */
#include "base/base.h"
#include "report/estimate/cluster.h"

typedef struct search_state {
    const tn_cluster *cluster;
    const tn_cluster_free *choices;
    tn_cluster_found best;
    bool any;
    uint64_t least; /* least memory of all tried divisions */
    tn_error *error;
} search_state;

/* No iteration is faster than its operations, and their number is least without recomputation. */
static double search_bound(const search_state *state, const tn_large_estimate *estimate) {
    return 0.75 * estimate->flops / ((double)state->cluster->devices * state->cluster->flops);
}

static bool search_better(const search_state *state, const tn_cluster_time *time,
                          const tn_large_estimate *memory) {
    if (!state->any || time->seconds < state->best.time.seconds) return true;
    return time->seconds == state->best.time.seconds &&
           memory->largest.total < state->best.memory.largest.total;
}

static tn_status search_try(search_state *state, const tn_large *large) {
    tn_large_estimate memory;
    tn_cluster_time time;
    tn_status status = tn_large_estimate_make(large, &memory, NULL);
    if (status == TN_E_INVALID) return TN_OK; /* not divisible, so no valid division */
    TN_TRY(status);
    state->best.tried++;
    if (memory.largest.total < state->least) state->least = memory.largest.total;
    if (state->cluster->memory > 0 && memory.largest.total > state->cluster->memory) return TN_OK;
    state->best.fitting++;
    if (state->any && search_bound(state, &memory) >= state->best.time.seconds) return TN_OK;
    status = tn_cluster_time_make(state->cluster, large, &time, NULL);
    if (status == TN_E_INVALID) return TN_OK;
    TN_TRY(status);
    if (!search_better(state, &time, &memory)) return TN_OK;
    state->best.large = *large;
    state->best.memory = memory;
    state->best.time = time;
    state->any = true;
    return TN_OK;
}

static tn_status search_sharding(search_state *state, const tn_large *large) {
    static const tn_shard shards[] = {TN_SHARD_NONE, TN_SHARD_OPTIMIZER, TN_SHARD_GRADIENTS,
                                      TN_SHARD_PARAMETERS};
    tn_large it = *large;
    if (!state->choices->shard || it.data <= 1) return search_try(state, &it);
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
        it.shard = shards[i];
        TN_TRY(search_try(state, &it));
    }
    return TN_OK;
}

static tn_status search_recompute(search_state *state, const tn_large *large) {
    static const tn_recompute ways[] = {TN_RECOMPUTE_NONE, TN_RECOMPUTE_SELECTIVE,
                                        TN_RECOMPUTE_FULL};
    tn_large it = *large;
    if (!state->choices->recompute) return search_sharding(state, &it);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        it.recompute = ways[i];
        TN_TRY(search_sharding(state, &it));
    }
    return TN_OK;
}

static tn_status search_micro(search_state *state, const tn_large *large) {
    tn_large it = *large;
    for (it.micro = 1; it.micro <= large->batch / large->data; it.micro *= 2)
        TN_TRY(search_recompute(state, &it));
    return TN_OK;
}

static tn_status search_interleave(search_state *state, const tn_large *large) {
    uint64_t layers = large->model.layers / large->pipeline;
    tn_large it = *large;
    for (it.interleave = 1; it.interleave <= layers; it.interleave++) {
        if (layers % it.interleave != 0) continue;
        TN_TRY(search_micro(state, &it));
        if (it.pipeline == 1) break;
    }
    return TN_OK;
}

static tn_status search_tensor(search_state *state, const tn_large *large, uint64_t tensor) {
    tn_large it = *large;
    it.tensor = tensor;
    if (state->choices->sequence_parallel) it.sequence_parallel = tensor > 1;
    for (it.pipeline = 1; it.pipeline <= it.model.layers && it.pipeline <= state->cluster->devices;
         it.pipeline++) {
        uint64_t ranks = tn__mul_sat(tensor, it.pipeline);
        if (it.model.layers % it.pipeline != 0 || state->cluster->devices % ranks != 0) continue;
        it.data = state->cluster->devices / ranks;
        if (it.batch % it.data == 0) TN_TRY(search_interleave(state, &it));
    }
    return TN_OK;
}

static tn_status search_all(search_state *state, const tn_large *large, tn_error *error) {
    for (uint64_t t = 1; t <= state->cluster->per_node && t <= state->cluster->devices; t *= 2)
        TN_TRY(search_tensor(state, large, t));
    if (state->any) return TN_OK;
    if (state->best.tried == 0)
        TN_FAIL(error, TN_E_INFEASIBLE,
                "no division of %llu layers and a batch of %llu among %llu devices",
                (unsigned long long)large->model.layers, (unsigned long long)large->batch,
                (unsigned long long)state->cluster->devices);
    char memory[TN_SIZE_TEXT_MAX], least[TN_SIZE_TEXT_MAX];
    TN_FAIL(error, TN_E_INFEASIBLE,
            "no division among %llu devices fits in %s: the least takes %s on one of them",
            (unsigned long long)state->cluster->devices,
            tn_size_format(state->cluster->memory, memory), tn_size_format(state->least, least));
}

/* All values that are not divided must be valid before anything is divided. */
static tn_status search_begin(const tn_large *large, tn_large *whole, tn_error *error) {
    tn_large it = *large;
    it.tensor = it.pipeline = it.data = it.micro = it.interleave = 1;
    it.shard = TN_SHARD_NONE;
    return tn__large_complete(&it, whole, error);
}

tn_status tn_cluster_search(const tn_cluster *cluster, const tn_large *large,
                            const tn_cluster_free *choices, tn_cluster_found *found,
                            tn_error *error) {
    tn_cluster it = *cluster;
    tn_cluster_free asked = TN_CLUSTER_FREE_INIT;
    tn_large whole;
    tn__options(&asked, sizeof asked, choices);
    if (it.per_node == 0) it.per_node = 8;
    TN_TRY(tn__cluster_check(&it, error));
    TN_TRY(search_begin(large, &whole, error));
    if (!asked.shard) whole.shard = large->shard;
    search_state state = {.cluster = &it, .choices = &asked, .least = UINT64_MAX};
    TN_TRY(search_all(&state, &whole, error));
    *found = state.best;
    return TN_OK;
}
