/* dte.c - DTR's heuristic, but divided by the storage's bytes plus the free bytes on both sides of
 * it, because evicting it makes these one contiguous range.
 *
 * Without addresses it equals dtr.
 *
 * Cost: as dtr.c.
 * Source: Hu et al.: MegTaiChi, ICS 2022 (dynamic tensor evicting); Kirisame et al. 2021.
 */
#include <math.h>

#include "memory/evict/neighbourhoods.h"

static uint64_t dte_free(const tn__evict *e, uint32_t block) {
    return block != TN__NONE && e->blocks[block].owner == TN__BLOCK_FREE ? e->blocks[block].size
                                                                         : 0;
}

static double dte_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    uint64_t cost = tn__neighbourhoods_around(e, storage);
    uint64_t size = record->size;
    e->counts.access_count++;
    if (record->block != TN__NONE) {
        const tn__evict_block *block = &e->blocks[record->block];
        size = block->size + dte_free(e, block->before) + dte_free(e, block->after);
    }
    tn__wide den = (tn__wide)size * (e->clock - record->last_access);
    return den > 0 ? tn__ratio(cost, den) : (double)INFINITY;
}

const tn__policy tn__policy_dte = {
    .name = "dte",
    .summary = "DTE: as dtr, counting free bytes beside the tensor; for an arena with addresses",
    .source = "Hu et al. 2022 (MegTaiChi)",
    .features = TN__POLICY_LINKS,
    TN__REGIONS_KEPT,
    .score = dte_score};
