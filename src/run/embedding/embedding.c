/* embedding.c - opens a table: its file, its slab, and the restored state of the last
 * checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <unistd.h>

#include "run/embedding/cache.h"

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
    /* rows are read at random, so neighbours are not prefetched */
    (void)posix_fadvise(made, 0, 0, POSIX_FADV_RANDOM); /* benign */
    *file = made;
    return TN_OK;
}

/* --- the slab --- */

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
    e->io = (tn__feed){.reader = wish->reader,
                       .state = slab + division->reader,
                       .file = e->file,
                       .depth = division->depth,
                       .transfers = (tn__haul *)(void *)(slab + division->transfers),
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

/* Allocates and lays out the slab; the file is not opened yet. */
static tn_status embedding_make(const char *path, const tn_embedding_table *table,
                                const tn__cache_wish *wish, tn_embedding **embedding,
                                tn_error *error) {
    tn__division division = tn__divide(table, wish);
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
    memset(e->rows, 0, e->row_bytes); /* used by the undo */
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
    e->io.file = e->file;
    return tn__feed_open(&e->io, wish->options.threads, error);
}

static tn_status embedding_open(const char *path, int file, const tn__cache_wish *wish,
                                tn_embedding **embedding, tn_error *error) {
    tn_embedding_table table;
    tn_embedding *e = NULL;
    TN_TRY(tn__table_read(file, path, &table, error));
    (void)fcntl(file, F_SETFL, 0); /* not a pipe; with O_NONBLOCK io_uring returns early */
    tn_status status = embedding_make(path, &table, wish, &e, error);
    if (status == TN_OK) {
        e->file = file;
        status = embedding_start(e, wish, error);
        e->file = status == TN_OK ? file : -1; /* on failure the caller still owns it */
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
    TN_TRY(tn__cache_complete(options, &wish, error));
    TN_TRY(embedding_open_file(path, wish.options.read_only, &file, error));
    tn_status status = embedding_open(path, file, &wish, embedding, error);
    if (status != TN_OK) close(file);
    return status;
}

void tn_embedding_close(tn_embedding *e) {
    if (e == NULL) return;
    tn_context context = e->context;
    if (tn__feed_is_busy(&e->io)) tn__feed_start(&e->io);
    while (tn__feed_is_busy(&e->io)) tn__move_finish(e);
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
