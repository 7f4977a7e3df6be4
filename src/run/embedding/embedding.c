/* embedding.c - opens a table of embeddings: its file, its slab, the division of the slab into
 * parts, and the restoration of the last checkpoint. */
#include "run/embedding/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <unistd.h>

/* --- dividing the slab into parts ------------------------------------------------------------- */

/* Divides the slab into the parts that an open table needs.
 *
 *   | table | slots | index | policy | transfers | reader | batches | chain | scratch |
 *   | journal | copies | rows |
 *
 * All parts except rows, slots, index and policy are small: the transfers get at most a
 * thirty-second of the slab, the batches as much as the options state. The number of slots is the
 * largest that fits.
 */

/* the transfers get at most 1 / DIVIDE_SHARE of the slab, and so does the journal's buffer */
#define DIVIDE_SHARE 32u
#define DIVIDE_JOURNAL ((uint64_t)1 << 20) /* largest size of the journal's buffer in bytes */
#define DIVIDE_BATCH 65536u
#define DIVIDE_BATCH_SHARE 8u

static tn_status cache_complete(const tn_embedding_options *given, tn__cache_wish *wish,
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
                "policy %s needs the lookups that are to come, and so a recorded run "
                "(tn_embedding_replay); choose another",
                wish->policy->name);
    return tn__row_reader_find(options.reader, &wish->reader, error);
}

static uint64_t divide_limit(uint64_t bytes, uint64_t item, uint64_t most) {
    uint64_t count = bytes / item;
    return count < 1 ? 1 : count > most ? most : count;
}

/* Reserves a part of the slab for `count` items and returns its offset. *at becomes the offset of
 * the next part. */
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
    division.transfers = divide_part(&at, division.depth, sizeof(tn__row_transfer));
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

/* Divides a slab of options->cache_bytes, with as many slots as fit. slot_count is 0 if not even
 * one fits. */
static tn__division embedding_divide(const tn_embedding_table *table, const tn__cache_wish *wish) {
    const tn_embedding_options *options = &wish->options;
    uint64_t bytes = options->cache_bytes, row = tn__table_row_bytes(table);
    uint64_t share = bytes / DIVIDE_SHARE,
             journal = share < DIVIDE_JOURNAL ? share : DIVIDE_JOURNAL;
    tn__division division = {0};
    division.depth =
        (uint32_t)divide_limit(share, row + sizeof(tn__row_transfer), TN__ROW_TRANSFER_MAX);
    division.journal_rows = (uint32_t)divide_limit(journal, row + 8, UINT32_MAX);
    division.batch_rows = options->batch_rows != 0
                              ? options->batch_rows
                              : (uint32_t)divide_limit(bytes / DIVIDE_BATCH_SHARE,
                                                       8 * options->batch_count + 4, DIVIDE_BATCH);
    /* bounds for a binary search: `few` slots fit into memory, and more than `many` do not */
    uint32_t few = 0, many = divide_slots(table->rows);
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
    TN_TRY(cache_complete(options, &wish, error));
    if (rows == 0 || rows > table.rows)
        TN_FAIL(error, TN_E_INVALID, "the table has %" PRIu64 " rows; room for %u was asked for",
                table.rows, rows);
    uint64_t low = 0, high = 4096; /* `low` bytes are too few; `high` bytes may be sufficient */
    for (;; low = high, high *= 2) {
        wish.options.cache_bytes = high;
        if (embedding_divide(&table, &wish).slot_count >= divide_slots(rows)) break;
    }
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        wish.options.cache_bytes = middle;
        if (embedding_divide(&table, &wish).slot_count >= divide_slots(rows))
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
    TN_TRY(cache_complete(options, &wish, error));
    *rows = embedding_divide(&table, &wish).slot_count;
    return TN_OK;
}

/* --- files --- */

static tn_status embedding_open_file(const char *path, bool read_only, int *file, tn_error *error) {
    int made = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK);
    if (made < 0) return tn__file_reason(path, "open it", error);
    if (flock(made, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
        tn_status status =
            errno == EWOULDBLOCK
                ? tn__where(error,
                            tn__fail(error, TN_E_IO, "the table is open already, %s",
                                     read_only ? "for writing" : "here or in another process"),
                            "%s", path)
                : tn__file_reason(path, "lock it", error);
        close(made);
        return status;
    }
    /* rows are read at random, so the system need not read ahead */
    /* posix_fadvise is only advice, so its failure does not matter */
    (void)posix_fadvise(made, 0, 0, POSIX_FADV_RANDOM);
    *file = made;
    return TN_OK;
}

/* --- allocating the slab --- */

static void embedding_lay_out(tn_embedding *e, const tn__division *division,
                              const tn__cache_wish *wish) {
    char *slab = (char *)e;
    e->batch_rows = division->batch_rows;
    e->batch_count = wish->options.batch_count;
    e->r = (tn__residents){.policy = wish->policy,
                           .state = slab + division->state,
                           .slots = (tn__slot *)(void *)(slab + division->slots),
                           .index = (tn__entry *)(void *)(slab + division->index),
                           .slot_count = division->slot_count,
                           .index_count = tn__index_count(division->slot_count),
                           .sample = wish->options.sample,
                           .random = {wish->options.seed}};
    e->io = (tn__row_io){.reader = wish->reader,
                         .state = slab + division->reader,
                         .depth = division->depth,
                         .transfers = (tn__row_transfer *)(void *)(slab + division->transfers),
                         .copies = slab + division->copies};
    uint32_t *places = (uint32_t *)(void *)(slab + division->holds);
    for (uint32_t i = 0; i < e->batch_count; i++) {
        e->tickets[i].hold.slot_of = places + 2 * (size_t)i * e->batch_rows;
        e->tickets[i].hold.distinct = e->tickets[i].hold.slot_of + e->batch_rows;
    }
    e->chain = (uint32_t *)(void *)(slab + division->chain);
    e->scratch = (float *)(void *)(slab + division->scratch);
    e->second = e->scratch + e->table.dim;
    e->journal.buffer = slab + division->journal;
    e->journal.room = division->journal_rows;
    e->rows = slab + division->rows;
}

static tn_status embedding_refuse_size(const tn_embedding_table *table, const tn__cache_wish *wish,
                                       tn_error *error) {
    uint64_t least;
    char given[TN_SIZE_TEXT_MAX], text[TN_SIZE_TEXT_MAX];
    TN_TRY(tn_embedding_bytes(table, &wish->options, 1, &least, error));
    TN_FAIL(error, TN_E_INVALID, "a cache of %s has no room for a row; it takes %s at least",
            tn_size_format(wish->options.cache_bytes, given), tn_size_format(least, text));
}

/* Allocates the slab of a table and sets the addresses of its parts. The file is not opened yet. */
static tn_status embedding_make(const char *path, const tn_embedding_table *table,
                                const tn__cache_wish *wish, tn_embedding **embedding,
                                tn_error *error) {
    tn__division division = embedding_divide(table, wish);
    tn_context context = tn__context(wish->options.context);
    if (division.slot_count == 0) return embedding_refuse_size(table, wish, error);
    if (wish->options.cache_bytes > PTRDIFF_MAX)
        return tn__no_memory(error, "the cache of a table");
    tn_embedding *e = tn__alloc_array(&context, 1, (size_t)wish->options.cache_bytes);
    if (e == NULL) return tn__no_memory(error, "the cache of a table");
    e->context = context;
    e->table = *table;
    e->cache_bytes = wish->options.cache_bytes;
    e->value_bytes = tn__table_value_bytes(table);
    e->row_bytes = tn__table_row_bytes(table);
    e->read_only = wish->options.read_only;
    e->file = e->journal.file = -1;
    e->journal.unsynced = wish->options.unsynced;
    e->path = tn__path_beside(&e->context, path, "");
    e->checkpoint_path = tn__path_beside(&e->context, path, ".checkpoint");
    e->journal.path = tn__path_beside(&e->context, path, ".journal");
    embedding_lay_out(e, &division, wish);
    *embedding = e;
    if (e->path != NULL && e->checkpoint_path != NULL && e->journal.path != NULL) return TN_OK;
    return tn__no_memory(error, "the paths of a table");
}

static void embedding_free_path(const tn_embedding *e, char *path) {
    if (path != NULL) tn__free(&e->context, path, strlen(path) + 1);
}

/* --- opening --- */

static tn_status embedding_start(tn_embedding *e, const tn__cache_wish *wish, tn_error *error) {
    TN_TRY(tn__checkpoint_generation(e, &e->journal.generation, error));
    TN_TRY(e->read_only ? tn__journal_look(e, error) : tn__journal_open(e, error));
    memset(e->rows, 0, e->row_bytes); /* undoing changes uses the first row as a buffer */
    tn__residents_open(&e->r);
    e->facts.table = e->table;
    e->facts.policy = wish->policy->name;
    e->facts.reader = wish->reader->name;
    e->facts.cache_bytes = e->cache_bytes;
    e->facts.row_bytes = e->row_bytes;
    e->facts.slots = e->r.slot_count;
    e->facts.batch_rows = e->batch_rows;
    e->facts.checkpoints = e->journal.generation;
    e->facts.undone = e->journal.undone;
    return tn__row_io_open(&e->io, wish->options.threads, error);
}

static tn_status embedding_open(const char *path, int file, const tn__cache_wish *wish,
                                tn_embedding **embedding, tn_error *error) {
    tn_embedding_table table;
    tn_embedding *e = NULL;
    TN_TRY(tn__table_read(file, path, &table, error));
    /* Clears O_NONBLOCK, which was needed only in case of a pipe: with it io_uring would return too
     * early. */
    (void)fcntl(file, F_SETFL, 0);
    tn_status status = embedding_make(path, &table, wish, &e, error);
    if (status == TN_OK) {
        e->file = file;
        status = embedding_start(e, wish, error);
        /* if opening fails, the caller closes the file */
        e->file = status == TN_OK ? file : -1;
    }
    if (status == TN_OK)
        *embedding = e;
    else
        tn_embedding_close(e);
    return status;
}

tn_status tn_embedding_open(const char *path, const tn_embedding_options *options,
                            tn_embedding **embedding, tn_error *error) {
    tn__cache_wish wish;
    int file = -1;
    TN_TRY(cache_complete(options, &wish, error));
    TN_TRY(embedding_open_file(path, wish.options.read_only, &file, error));
    tn_status status = embedding_open(path, file, &wish, embedding, error);
    if (status != TN_OK) close(file);
    return status;
}

void tn_embedding_close(tn_embedding *e) {
    if (e == NULL) return;
    tn_context context = e->context;
    if (tn__row_io_is_busy(&e->io)) tn__row_io_start(&e->io);
    while (tn__row_io_is_busy(&e->io)) tn__move_finish(e);
    e->io.reader->close(&e->io);
    tn__journal_close(e);
    if (e->file >= 0) close(e->file);
    embedding_free_path(e, e->path);
    embedding_free_path(e, e->checkpoint_path);
    embedding_free_path(e, e->journal.path);
    tn__free(&context, e, (size_t)e->cache_bytes);
}

void tn_embedding_tell(const tn_embedding *e, tn_embedding_facts *facts) {
    *facts = e->facts;
    facts->resident = e->r.resident;
}
