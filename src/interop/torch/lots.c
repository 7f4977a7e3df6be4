/* lots.c - the block table as a hash table with open addressing: linear probing, at most half full.
 * When an entry is removed, later entries move up (Knuth, volume 3, 6.4, algorithm R). */
#include "interop/torch/lots.h"

enum { LOTS_FIRST = 256 };

void tn__lots_init(tn__lots *lots, const tn_context *context) {
    *lots = (tn__lots){.context = context};
}

void tn__lots_release(tn__lots *lots) {
    tn__free(lots->context, lots->places, lots->room * sizeof *lots->places);
    tn__lots_init(lots, lots->context);
}

static size_t lots_home(const tn__lots *lots, uint64_t offset) {
    uint64_t hash = offset * 0x9e3779b97f4a7c15u; /* offsets are multiples of a power of two */
    return (size_t)(hash >> 32) & (lots->room - 1);
}

/* The entry, or the empty place where it belongs. */
static tn__lot *lots_probe(const tn__lots *lots, uint64_t offset) {
    size_t at = lots_home(lots, offset);
    while (lots->places[at].size != 0 && lots->places[at].offset != offset)
        at = (at + 1) & (lots->room - 1);
    return &lots->places[at];
}

bool tn__lots_room(tn__lots *lots) {
    if (2 * (lots->count + 1) <= lots->room) return true;
    tn__lots wider = *lots;
    wider.room = lots->room == 0 ? LOTS_FIRST : 2 * lots->room;
    wider.places = tn__alloc_array(lots->context, wider.room, sizeof *wider.places);
    if (wider.places == NULL) return false;
    for (size_t i = 0; i < lots->room; i++)
        if (lots->places[i].size != 0)
            *lots_probe(&wider, lots->places[i].offset) = lots->places[i];
    tn__free(lots->context, lots->places, lots->room * sizeof *lots->places);
    *lots = wider;
    return true;
}

void tn__lots_add(tn__lots *lots, const tn__lot *block) {
    tn_assert(block->size != 0);
    *lots_probe(lots, block->offset) = *block;
    lots->count++;
}

tn__lot *tn__lots_find(const tn__lots *lots, uint64_t offset) {
    if (lots->room == 0) return NULL;
    tn__lot *found = lots_probe(lots, offset);
    return found->size != 0 ? found : NULL;
}

void tn__lots_remove(tn__lots *lots, tn__lot *block) {
    size_t mask = lots->room - 1, hole = (size_t)(block - lots->places);
    for (size_t at = (hole + 1) & mask; lots->places[at].size != 0; at = (at + 1) & mask) {
        size_t home = lots_home(lots, lots->places[at].offset);
        if (((at - home) & mask) < ((at - hole) & mask)) continue; /* its home is after the hole */
        lots->places[hole] = lots->places[at];
        hole = at;
    }
    lots->places[hole].size = 0;
    lots->count--;
}
