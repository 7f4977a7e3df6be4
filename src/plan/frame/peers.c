/* peers.c - helpers for planners that reimplement those of other tools, such as sorting by several
 * keys and laying objects end to end. */
#include "plan/frame/peers.h"

static int peers_compare(const void *a, const void *b) {
    const tn__peers_key *x = a, *y = b;
    for (int k = 0; k < 3; k++)
        if (x->key[k] != y->key[k]) return x->key[k] > y->key[k] ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

tn__peers_key *tn__peers_keys(tn_run *run, uint32_t *count) {
    uint32_t n = tn__run_count(run), found = 0;
    tn__peers_key *keys = tn__run_scratch(run, n, sizeof *keys);
    for (uint32_t i = 0; keys != NULL && i < n; i++)
        if (!tn__run_pinned(run, i)) keys[found++].id = i;
    *count = found;
    return keys;
}

uint32_t *tn__peers_order(tn_run *run, tn__peers_key *keys, uint32_t count) {
    uint32_t *order = tn__run_scratch(run, count, sizeof *order);
    if (order == NULL) return NULL;
    qsort(keys, count, sizeof *keys, peers_compare);
    for (uint32_t i = 0; i < count; i++) order[i] = keys[i].id;
    return order;
}

void tn__peers_clear(tn_run *run) {
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (tn__run_placed(run, i) && !tn__run_pinned(run, i)) tn__run_unplace(run, i);
}

tn_status tn__peers_try(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose) {
    tn__peers_clear(run);
    TN_TRY(tn__run_greedy_all(run, order, count, choose));
    return tn__run_keep(run);
}

tn_status tn__peers_try_lower(tn_run *run, const uint32_t *order, uint32_t count,
                              tn_run_choose choose) {
    tn__peers_clear(run);
    TN_TRY(tn__run_greedy(run, order, count, choose));
    /* if tn__run_greedy gives up, the last buffer of the order is left unplaced */
    bool all = count == 0 || tn__run_placed(run, order[count - 1]);
    return all ? tn__run_keep(run) : TN_OK;
}

bool tn__peers_degrees(tn_run *run, uint64_t *degree) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t n = tn__run_count(run), times = tn__run_time_count(run);
    uint32_t *begun = tn__run_scratch(run, (size_t)times + 1, sizeof *begun);
    uint32_t *ended = tn__run_scratch(run, (size_t)times + 1, sizeof *ended);
    if (begun == NULL || ended == NULL) return false;
    for (uint32_t i = 0; i < n; i++) {
        begun[bodies[i].first]++;
        ended[bodies[i].last]++;
    }
    /* after this loop, begun[t] and ended[t] count all buffers that begin (end) at t or earlier */
    for (uint32_t t = 1; t < times; t++) {
        begun[t] += begun[t - 1];
        ended[t] += ended[t - 1];
    }
    /* counts the buffers that begin before the end of buffer i, without those that end by its
     * begin, and without i itself */
    for (uint32_t i = 0; i < n; i++)
        degree[i] = begun[bodies[i].last - 1] - ended[bodies[i].first] - 1;
    return true;
}

tn_status tn__peers_stack(tn_run *run, const uint32_t *object, uint32_t object_count) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t n = tn__run_count(run);
    uint64_t *size = tn__run_scratch(run, object_count, sizeof *size);
    uint64_t *alignment = tn__run_scratch(run, object_count, sizeof *alignment);
    uint64_t *begin = tn__run_scratch(run, object_count, sizeof *begin);
    uint64_t top = 0;
    tn__peers_key *keys = tn__run_scratch(run, object_count, sizeof *keys);
    if (!size || !alignment || !begin || !keys) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = object[i];
        if (bodies[i].size > size[at]) size[at] = bodies[i].size;
        if (bodies[i].alignment > alignment[at]) alignment[at] = bodies[i].alignment;
    }
    for (uint32_t at = 0; at < object_count; at++)
        keys[at] = (tn__peers_key){.key = {alignment[at]}, .id = at};
    qsort(keys, object_count, sizeof *keys, peers_compare);
    for (uint32_t k = 0; k < object_count; k++) {
        uint32_t at = keys[k].id;
        uint64_t mask = alignment[at] > 0 ? alignment[at] - 1 : 0;
        begin[at] = (tn__add_sat(top, mask)) & ~mask;
        top = tn__add_sat(begin[at], size[at]);
    }
    tn__peers_clear(run);
    /* a buffer that would end too high makes tn__run_work below return E_STOPPED */
    for (uint32_t i = 0; i < n; i++) tn__run_place(run, i, begin[object[i]]);
    TN_TRY(tn__run_work(run, n));
    return tn__run_keep(run);
}

static uint64_t peers_top(const tn_hole *holes, uint32_t count) { return holes[count - 1].first; }

tn_status tn__peers_pile(tn_run *run, bool by_size) {
    uint32_t count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    uint64_t *degree = tn__run_scratch(run, tn__run_count(run), sizeof *degree);
    if (keys == NULL || degree == NULL || !tn__peers_degrees(run, degree)) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = keys[i].id;
        uint64_t size = tn__run_bodies(run)[id].size;
        keys[i] =
            (tn__peers_key){{by_size ? size : degree[id], by_size ? degree[id] : size, id}, id};
    }
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__run_greedy(run, order, count, peers_top);
}
