/* exact_bound.c - a lower bound on the remaining cost of a state.
 *
 * 1. A value that is needed and not live must be recomputed, with all missing values that this
 *    needs. Each of these jobs runs at least once more.
 * 2. At the first run of a job, the values made before and read after it may not fit next to it.
 *    The cheapest bytes among them are evicted, and come back at the cost of their jobs. A part
 *    of the last value costs a part (relaxed knapsack). Jobs counted in 1 do not count again, and
 *    their bytes are free.
 *
 * Part 1 and the maximum of part 2 count different jobs, so their sum is a lower bound. All outputs
 * of a job are evicted together at its cost, which never overestimates the cost. Cost: O(jobs^2)
 * for each state, at most.
 */
#include "fit/budget/exact.h"

/* The values that jobs without a first run read, or that must be live at the end. */
static void bound_needed(const exact_model *model, const uint64_t *ran, uint64_t *needed) {
    memcpy(needed, model->stay, sizeof model->stay);
    for (uint32_t j = 0; j < model->work->job_count; j++)
        for (uint32_t w = 0; !exact_has(ran, j) && w < model->value_words; w++)
            needed[w] |= model->jobs[j].in[w];
}

/* Finds the jobs that must be repeated, in `again`; returns their cost. */
static uint64_t bound_missing(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                              uint64_t *again) {
    const tn__work *work = model->work;
    uint64_t needed[EXACT_WORDS], cost = 0;
    bound_needed(model, ran, needed);
    for (uint32_t w = 0; w < model->job_words; w++) again[w] = 0;
    /* makers come before readers, so a descending loop visits each job after all jobs that need
     * it */
    for (uint32_t j = work->job_count; j-- > 0;) {
        const exact_job *it = &model->jobs[j];
        uint64_t missing = 0, unmade = 0;
        if (!exact_has(ran, j)) continue;
        for (uint32_t w = 0; w < model->value_words; w++) {
            missing |= it->out[w] & needed[w] & ~there[w];
            unmade |= it->out[w] & needed[w] & ~there[w] & ~it->again_out[w];
        }
        if (missing == 0) continue;
        if (unmade != 0 || !exact_may_repeat(model, ran, j)) return EXACT_NEVER;
        exact_add(again, j);
        cost += work->jobs[j].again_cost;
        for (uint32_t w = 0; w < model->value_words; w++) {
            if (it->again_in[w] & it->out[w] & ~there[w]) return EXACT_NEVER; /* needs itself */
            needed[w] |= it->again_in[w];
        }
    }
    for (uint32_t w = 0; w < model->value_words; w++)
        if (needed[w] & model->given[w] & ~there[w]) return EXACT_NEVER;
    return cost;
}

/* The minimum cost of evicting `excess` bytes; items are sorted by cost per byte. */
static uint64_t bound_evict(const exact_model *model, const exact_neck *neck, const uint64_t *gone,
                            const uint64_t *here, uint64_t excess) {
    uint64_t cost = 0;
    for (uint32_t i = 0; i < neck->count; i++) {
        const exact_item *item = &model->items[neck->first + i];
        if (exact_has(gone, item->job) || !exact_has(here, item->job)) continue;
        if (item->cost == EXACT_NEVER) break;
        if (item->bytes >= excess) {
            __extension__ typedef unsigned __int128 wide;
            wide part = ((wide)item->cost * excess + item->bytes - 1) / item->bytes;
            return cost + (uint64_t)part;
        }
        cost += item->cost;
        excess -= item->bytes;
    }
    return EXACT_NEVER;
}

static uint64_t bound_neck(const exact_model *model, uint32_t job, const uint64_t *ran,
                           const uint64_t *again, uint64_t budget) {
    const exact_neck *neck = &model->necks[job];
    uint64_t here[EXACT_WORDS], bytes = neck->bytes;
    for (uint32_t w = 0; w < model->job_words; w++) here[w] = ran[w] | model->jobs[job].before[w];
    for (uint32_t i = 0; i < neck->count; i++) {
        const exact_item *item = &model->items[neck->first + i];
        if (!exact_has(again, item->job) && exact_has(here, item->job)) bytes += item->bytes;
    }
    return bytes <= budget ? 0 : bound_evict(model, neck, again, here, bytes - budget);
}

uint64_t tn__exact_bound(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                         uint64_t budget) {
    uint64_t again[EXACT_WORDS], most = 0;
    uint64_t missing = bound_missing(model, ran, there, again);
    if (missing >= EXACT_NEVER) return EXACT_NEVER;
    for (uint32_t j = 0; j < model->work->job_count; j++) {
        uint64_t neck = exact_has(ran, j) ? 0 : bound_neck(model, j, ran, again, budget);
        if (neck >= EXACT_NEVER) return EXACT_NEVER;
        if (neck > most) most = neck;
    }
    return missing + most;
}

/* A value that no first run needs is only useful for a chain of repeats that ends at a needed
 * value. Adds each such value if its cheapest chain, in addition to the unavoidable repeats, stays
 * below the ceiling. */
void tn__exact_wanted(const exact_model *model, const uint64_t *ran, const uint64_t *there,
                      uint64_t cost, uint64_t ceiling, uint64_t *wanted, uint64_t *above) {
    const tn__work *work = model->work;
    uint64_t again[EXACT_WORDS], chains[EXACT_MOST];
    uint64_t missing = bound_missing(model, ran, there, again);
    bound_needed(model, ran, wanted);
    for (uint32_t v = 0; v < work->value_count; v++)
        chains[v] = exact_has(wanted, v) ? 0 : EXACT_NEVER;
    if (missing >= EXACT_NEVER) return;
    for (uint32_t j = work->job_count; j-- > 0;) {
        uint64_t chain = EXACT_NEVER;
        if (!exact_may_repeat(model, ran, j)) continue;
        EXACT_EACH(v, model->jobs[j].again_out, model->value_words)
        if (chains[v] < chain) chain = chains[v];
        if (!exact_has(again, j)) chain = tn__add_sat(chain, work->jobs[j].again_cost);
        EXACT_EACH(v, model->jobs[j].again_in, model->value_words)
        if (chain < chains[v]) chains[v] = chain;
    }
    for (uint32_t v = 0; v < work->value_count; v++) {
        uint64_t total = tn__add_sat(cost + missing, chains[v]);
        if (chains[v] >= EXACT_NEVER) continue;
        if (total < ceiling)
            exact_add(wanted, v);
        else if (total < *above)
            *above = total;
    }
}
