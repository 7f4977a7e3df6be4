/* bins.c - doubles the regions of bins when the range in use outgrows them. */
#include "memory/pool/bins.h"

void tn__bins_widen(tn_pool *pool, bins *all, uint64_t offset) {
    uint32_t list = TN__CHUNK_NONE; /* a list of all small chunks, linked by their first child */
    for (uint32_t bin = 0; bin < BINS_SMALL; bin++) {
        for (uint32_t region = 0; region < BINS_REGIONS; region++) {
            uint32_t *root = &all->small[bin][region], chunk;
            while ((chunk = *root) != TN__CHUNK_NONE) {
                set_unlink(pool->chunks, root);
                pool->chunks[chunk].child[0] = list;
                list = chunk;
            }
        }
        all->regions[bin] = 0;
    }
    while (offset >> all->region_log >= BINS_REGIONS) all->region_log++;
    while (list != TN__CHUNK_NONE) {
        uint32_t chunk = list;
        list = pool->chunks[chunk].child[0];
        bins_insert(pool, all, chunk);
    }
}
