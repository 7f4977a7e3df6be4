/* divide.c - divides the slab: the bytes of each part of an open table.
 *
 *     | table | slots | index | policy | transfers | reader | batches | chain | scratch |
 *     | journal | copies | rows |
 *
 * All parts other than rows, slots, index and policy are small: queues get at most a thirty-second
 * of the slab, open batches as much as the options say. The number of slots is the largest that
 * fits.
 */
#include <inttypes.h>

#include "run/embedding/cache.h"

/* transfers, and the journal's buffer, get at most 1 / SHARE of the slab */
#define DIVIDE_SHARE 32u
#define DIVIDE_JOURNAL ((uint64_t)1 << 20) /* bytes of its buffer at most */
#define DIVIDE_BATCH 65536u
#define DIVIDE_BATCH_SHARE 8u

tn_status tn__cache_complete(const tn_embedding_options *given, tn__cache_wish *wish,
                             tn_error *error) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    if (options.batch_count == 0) options.batch_count = 2;
    if (options.sample == 0) options.sample = 16;
    if (options.batch_count > TN_EMBEDDING_OPEN_MAX)
        TN_FAIL(error, TN_E_INVALID, "at most %u batches are open at once, not %u",
                TN_EMBEDDING_OPEN_MAX, options.batch_count);
    if (options.sample > TN_EMBEDDING_SAMPLE_MAX)
        TN_FAIL(error, TN_E_INVALID, "at most %u residents are drawn, not %u",
                TN_EMBEDDING_SAMPLE_MAX, options.sample);
    wish->options = options;
    wish->policy = tn__row_policy_find(options.policy, error);
    if (wish->policy == NULL) return TN_E_UNKNOWN;
    if (wish->policy->sees_future)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "policy %s knows what comes, which only a recorded run can tell (tenure embed "
                "replay); choose another",
                wish->policy->name);
    return tn__feeder_find(options.reader, &wish->reader, error);
}

static uint64_t divide_limit(uint64_t bytes, uint64_t item, uint64_t most) {
    uint64_t count = bytes / item;
    return count < 1 ? 1 : count > most ? most : count;
}

/* The beginning of the next part. */
static uint64_t divide_part(uint64_t *at, uint64_t count, uint64_t item) {
    uint64_t start = *at, end = tn__add_sat(start, tn__mul_sat(count, item));
    if (!tn__align_up(end, 16, at)) *at = UINT64_MAX - 15;
    return start;
}

static tn__division divide_for(const tn_embedding_table *table, const tn__cache_wish *wish,
                               tn__division division, uint32_t slots) {
    uint64_t at = 0, row = tn__table_row_bytes(table);
    division.slot_count = slots;
    divide_part(&at, 1, sizeof(tn_embedding));
    division.slots = divide_part(&at, slots, sizeof(tn__slot));
    division.index = divide_part(&at, tn__index_count(slots), sizeof(tn__entry));
    division.state = divide_part(&at, 1, tn__policy_bytes(wish->policy, slots));
    division.transfers = divide_part(&at, division.depth, sizeof(tn__haul));
    division.reader = divide_part(&at, 1, wish->reader->bytes(division.depth));
    division.holds =
        divide_part(&at, wish->options.batch_count, 2 * sizeof(uint32_t) * division.batch_rows);
    division.chain = divide_part(&at, division.batch_rows, sizeof(uint32_t));
    division.scratch = divide_part(&at, table->dim, 2 * sizeof(float));
    division.journal = divide_part(&at, division.journal_rows, 2 * sizeof(uint32_t) + row);
    division.copies = divide_part(&at, division.depth, row);
    division.rows = divide_part(&at, slots, row);
    division.total = at;
    return division;
}

static uint32_t divide_slots(uint64_t rows) {
    return rows < TN__SLOTS_MAX ? (uint32_t)rows : TN__SLOTS_MAX;
}

tn__division tn__divide(const tn_embedding_table *table, const tn__cache_wish *wish) {
    const tn_embedding_options *options = &wish->options;
    uint64_t bytes = options->cache_bytes, row = tn__table_row_bytes(table);
    uint64_t share = bytes / DIVIDE_SHARE,
             journal = share < DIVIDE_JOURNAL ? share : DIVIDE_JOURNAL;
    tn__division division = {0};
    division.depth = (uint32_t)divide_limit(share, row + sizeof(tn__haul), TN__HAULS_MAX);
    division.journal_rows = (uint32_t)divide_limit(journal, row + 8, UINT32_MAX);
    division.batch_rows = options->batch_rows != 0
                              ? options->batch_rows
                              : (uint32_t)divide_limit(bytes / DIVIDE_BATCH_SHARE,
                                                       8 * options->batch_count + 4, DIVIDE_BATCH);
    uint32_t few = 0, many = divide_slots(table->rows); /* few slots fit; many may not fit */
    while (few < many) {
        uint32_t slots = few + (many - few) / 2 + 1;
        if (divide_for(table, wish, division, slots).total <= bytes)
            few = slots;
        else
            many = slots - 1;
    }
    return divide_for(table, wish, division, few);
}

tn_status tn_embedding_bytes(const tn_embedding_table *given, const tn_embedding_options *options,
                             uint32_t rows, uint64_t *bytes, tn_error *error) {
    tn_embedding_table table;
    tn__cache_wish wish;
    TN_TRY(tn__table_complete(given, &table, error));
    TN_TRY(tn__cache_complete(options, &wish, error));
    if (rows == 0 || rows > table.rows)
        TN_FAIL(error, TN_E_INVALID, "the table has %" PRIu64 " rows; room for %u was asked for",
                table.rows, rows);
    uint64_t low = 0, high = 4096; /* low bytes do not suffice; high may */
    for (;; low = high, high *= 2) {
        wish.options.cache_bytes = high;
        if (tn__divide(&table, &wish).slot_count >= divide_slots(rows)) break;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        wish.options.cache_bytes = middle;
        if (tn__divide(&table, &wish).slot_count >= divide_slots(rows))
            high = middle;
        else
            low = middle;
    }
    *bytes = high;
    return TN_OK;
}

tn_status tn_embedding_room(const tn_embedding_table *given, const tn_embedding_options *options,
                            uint32_t *rows, tn_error *error) {
    tn_embedding_table table;
    tn__cache_wish wish;
    TN_TRY(tn__table_complete(given, &table, error));
    TN_TRY(tn__cache_complete(options, &wish, error));
    *rows = tn__divide(&table, &wish).slot_count;
    return TN_OK;
}
