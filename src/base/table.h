/* table.h - a hash table of numbers, with which the caller finds its rows (of any type) by their
 * contents.
 *
 * The caller stores the rows, and computes the hash of a row. The table stores the row's number and
 * 32 bits of its hash. Different rows may have equal hashes, so the caller compares each row that a
 * probe finds. Open addressing with linear probing, at most 3/4 full; 8 bytes per slot.
 *
 *     tn__probe probe = tn__table_probe(&table, hash);
 *     for (uint32_t row; (row = tn__table_next(&table, &probe)) != TN__TABLE_NONE;)
 *         if (equal(rows[row], wanted)) return row;
 *
 * Expected cost: O(1) for each call, if the hash is good. If the rows come from a file, the hash
 * should have a secret key, so that the file cannot cause collisions.
 */
#ifndef TN_BASE_TABLE_H
#define TN_BASE_TABLE_H

#include "base/base.h"

#define TN__TABLE_NONE UINT32_MAX

typedef struct tn__table_slot {
    uint32_t hash;
    uint32_t row; /* the number of a row, plus one; 0: the slot is empty */
} tn__table_slot;

typedef struct tn__table {
    const tn_context *context; /* borrowed */
    tn__table_slot *slots;     /* [room] the slots; their number is a power of two */
    size_t room, count;
} tn__table;

void tn__table_init(tn__table *table, const tn_context *context);
void tn__table_release(tn__table *table);
/* Makes the table large enough for `count` numbers in total. Returns false if memory is exhausted,
 * or if count is above 3 * 2^30. */
bool tn__table_reserve(tn__table *table, size_t count);
/* Adds a number below TN__TABLE_NONE, even if the table already contains it. Returns false if
 * memory is exhausted, or there are too many numbers. */
bool tn__table_add(tn__table *table, uint64_t hash, uint32_t number);
/* Removes a number. Returns false if the table does not contain it. */
bool tn__table_remove(tn__table *table, uint64_t hash, uint32_t number);

/* The position of a search in a table. It is valid until the table changes. */
typedef struct tn__probe {
    size_t at;
    uint32_t hash;
} tn__probe;

static inline tn__probe tn__table_probe(const tn__table *table, uint64_t hash) {
    uint32_t folded = (uint32_t)(hash ^ hash >> 32);
    return (tn__probe){folded & (table->room - 1), folded};
}

/* Returns the next number that was added with this hash; TN__TABLE_NONE after the last one. */
static inline uint32_t tn__table_next(const tn__table *table, tn__probe *probe) {
    if (table->room == 0) return TN__TABLE_NONE;
    for (;;) {
        tn__table_slot slot = table->slots[probe->at];
        if (slot.row == 0) return TN__TABLE_NONE;
        probe->at = (probe->at + 1) & (table->room - 1);
        if (slot.hash == probe->hash) return slot.row - 1;
    }
}

#endif
