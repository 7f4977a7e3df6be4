/* table.c - the hash table of table.h. When a number is removed, later ones are moved into the gap
 * (Knuth, The Art of Computer Programming, volume 3, 6.4, algorithm R), so that removed numbers
 * leave no marks. */
#include "base/table.h"

#define TABLE_FIRST 16u
/* limit for the number of slots: only 32 bits of a hash are stored, from which the first slot of a
 * row is computed */
#define TABLE_MOST ((uint64_t)1 << 32)

void tn__table_init(tn__table *table, const tn_context *context) {
    *table = (tn__table){.context = context};
}

void tn__table_release(tn__table *table) {
    tn__free(table->context, table->slots, table->room * sizeof *table->slots);
    tn__table_init(table, table->context);
}

static void table_place(tn__table *table, tn__table_slot slot) {
    size_t at = slot.hash & (table->room - 1);
    while (table->slots[at].row != 0) at = (at + 1) & (table->room - 1);
    table->slots[at] = slot;
}

bool tn__table_reserve(tn__table *table, size_t count) {
    tn__table wider = *table;
    if (wider.room == 0) wider.room = TABLE_FIRST;
    while (wider.room < TABLE_MOST && wider.room / 4 * 3 < count) {
        if (wider.room > SIZE_MAX / 2) return false;
        wider.room *= 2;
    }
    if (wider.room / 4 * 3 < count) return false;
    if (wider.room == table->room) return true;
    wider.slots = tn__alloc_array(table->context, wider.room, sizeof *wider.slots);
    if (wider.slots == NULL) return false;
    for (size_t i = 0; i < table->room; i++)
        if (table->slots[i].row != 0) table_place(&wider, table->slots[i]);
    tn__free(table->context, table->slots, table->room * sizeof *table->slots);
    *table = wider;
    return true;
}

bool tn__table_add(tn__table *table, uint64_t hash, uint32_t number) {
    tn_assert(number < TN__TABLE_NONE);
    if (!tn__table_reserve(table, table->count + 1)) return false;
    table_place(table, (tn__table_slot){(uint32_t)(hash ^ hash >> 32), number + 1});
    table->count++;
    return true;
}

bool tn__table_remove(tn__table *table, uint64_t hash, uint32_t number) {
    tn__probe probe = tn__table_probe(table, hash);
    uint32_t found;
    do found = tn__table_next(table, &probe);
    while (found != number && found != TN__TABLE_NONE);
    if (found == TN__TABLE_NONE) return false;
    size_t mask = table->room - 1, hole = (probe.at - 1) & mask;
    for (size_t at = probe.at; table->slots[at].row != 0; at = (at + 1) & mask) {
        size_t home = table->slots[at].hash & mask;
        /* the first slot of this row lies after the gap, so the row must stay */
        if (((at - home) & mask) < ((at - hole) & mask)) continue;
        table->slots[hole] = table->slots[at];
        hole = at;
    }
    table->slots[hole] = (tn__table_slot){0, 0};
    table->count--;
    return true;
}
