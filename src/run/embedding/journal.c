/* journal.c - two files of a table of embeddings: TABLE.checkpoint marks a valid state of the
 * table, and TABLE.journal undoes all changes since then.
 *
 * A changed row is written to the table's file when its slot is needed for another row, so the file
 * mixes states of different times. Before a row changes for the first time since it was read, its
 * version in the file is added to the journal. Before any row is written to the table's file, all
 * added records are made durable. So at every moment, the file and the journal together give the
 * state of the checkpoint: opening the table writes the old rows back, the last added first. A row
 * may be recorded several times; its first record, which is written back last, is the right one.
 * Undoing twice, or stopping half-way and starting again, gives the same result.
 *
 * The number of the checkpoint is in the head of the journal and in the hash of every record. When
 * the next checkpoint exists, the journal is obsolete, even if it could not be emptied.
 *
 *     | head | row, check, bytes | row, check, bytes | ...
 */
#include "run/embedding/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the format of the journal ---------------------------------------------------------------- */

typedef struct journal_head {
    char magic[8];
    uint64_t identity, generation, row_bytes, hash;
} journal_head;

typedef struct journal_record { /* A record of the journal. row_bytes bytes follow. */
    uint32_t row, check;
} journal_record;

static size_t journal_record_size(const tn_embedding *e) {
    return sizeof(journal_record) + e->row_bytes;
}

static journal_head journal_head_of(const tn_embedding *e) {
    journal_head head = {.magic = {'T', 'E', 'N', 'U', 'R', 'E', 'E', 'J'},
                         .identity = tn__table_identity(&e->table),
                         .generation = e->journal.generation,
                         .row_bytes = e->row_bytes};
    head.hash = tn__hash(1, &head, offsetof(journal_head, hash));
    return head;
}

static uint32_t journal_check(const tn_embedding *e, uint32_t row, const void *bytes) {
    uint64_t hash = tn__hash(e->journal.generation + 1, &row, sizeof row);
    hash = tn__hash(hash, bytes, e->row_bytes);
    return (uint32_t)(hash ^ hash >> 32);
}

/* --- adding --- */

static tn_status journal_flush(tn_embedding *e, tn_error *error) {
    tn__journal *journal = &e->journal;
    size_t size = journal->used * journal_record_size(e);
    tn_error why = {.where = ""};
    tn_status status = TN_OK;
    if (e->is_broken) {
        if (error != NULL) *error = e->broken;
        return e->broken.status;
    }
    if (journal->used == 0) return TN_OK;
    if (journal->written == 0) {
        journal_head head = journal_head_of(e);
        status = tn__file_put(journal->file, journal->path, &head, sizeof head, 0, &why);
        journal->written = sizeof head;
    }
    if (status == TN_OK)
        status = tn__file_put(journal->file, journal->path, journal->buffer, size, journal->written,
                              &why);
    if (status != TN_OK) {
        if (error != NULL) *error = why;
        return tn__cache_break(e, status, &why);
    }
    journal->written += size;
    journal->used = 0;
    return TN_OK;
}

tn_status tn__journal_add(tn_embedding *e, uint32_t slot, tn_error *error) {
    tn__journal *journal = &e->journal;
    if (journal->used == journal->room) TN_TRY(journal_flush(e, error));
    char *at = journal->buffer + journal->used * journal_record_size(e);
    char *bytes = at + sizeof(journal_record);
    journal_record record = {.row = e->r.slots[slot].row};
    memcpy(bytes, tn__cache_row(e, slot), e->row_bytes);
    tn__table_turn(&e->table, record.row, bytes);
    record.check = journal_check(e, record.row, bytes);
    memcpy(at, &record, sizeof record);
    journal->used++;
    return TN_OK;
}

/* Makes the journal durable, and also its name if the file may be new. */
static tn_status journal_sync(tn__journal *journal, tn_error *error) {
    if (fdatasync(journal->file) != 0)
        return tn__file_reason(journal->path, "write it to the disk", error);
    if (!journal->is_named) TN_TRY(tn__folder_sync(journal->path, error));
    journal->is_named = true;
    return TN_OK;
}

tn_status tn__journal_secure(tn_embedding *e, tn_error *error) {
    tn__journal *journal = &e->journal;
    tn_error why = {.where = ""};
    TN_TRY(journal_flush(e, error));
    if (journal->synced == journal->written || journal->unsynced) return TN_OK;
    tn_status status = journal_sync(journal, &why);
    if (status != TN_OK) {
        if (error != NULL) *error = why;
        return tn__cache_break(e, status, &why);
    }
    journal->synced = journal->written;
    return TN_OK;
}

/* Empties the journal. Called when the next checkpoint exists. */
static tn_status journal_restart(tn_embedding *e, tn_error *error) {
    tn__journal *journal = &e->journal;
    tn_error why = {.where = ""};
    journal->generation++;
    journal->written = journal->synced = 0;
    journal->used = 0;
    if (ftruncate(journal->file, 0) == 0) return TN_OK;
    tn_status status = tn__file_reason(journal->path, "empty it", &why);
    if (error != NULL) *error = why;
    return tn__cache_break(e, status, &why);
}

/* --- undoing --- */

/* Reads the head of the journal. *leads_back becomes true if the journal belongs to the table's
 * last checkpoint. Errors: E_INVALID (the journal is damaged or belongs to another table or a later
 * checkpoint). */
static tn_status journal_read_head(const tn_embedding *e, uint64_t size, bool *leads_back,
                                   tn_error *error) {
    const tn__journal *journal = &e->journal;
    journal_head head, wanted = journal_head_of(e);
    *leads_back = false;
    /* no row was written to the table's file, because the head would have been written first */
    if (size < sizeof head) return TN_OK;
    TN_TRY(tn__file_get(journal->file, journal->path, &head, sizeof head, 0, error));
    bool whole = memcmp(head.magic, wanted.magic, sizeof head.magic) == 0 &&
                 head.hash == tn__hash(1, &head, offsetof(journal_head, hash));
    const char *what = NULL;
    if (!whole) {
        /* after a crash of the machine, the file may have space that was never written */
        bool never_written = true;
        for (size_t i = 0; i < sizeof head; i++) never_written &= ((const char *)&head)[i] == 0;
        what = never_written ? NULL : "is damaged, or no journal of a table: bytes 0 to 39";
    } else if (head.identity != wanted.identity || head.row_bytes != wanted.row_bytes) {
        what = "belongs to another table: byte 8";
    } else if (head.generation > wanted.generation) {
        what = "belongs to a later checkpoint than the one that is here: byte 16";
    }
    if (what != NULL)
        return tn__where(error,
                         tn__fail(error, TN_E_INVALID,
                                  "the journal %s; put the right files together, or remove it to "
                                  "take the table as it is",
                                  what),
                         "%s", journal->path);
    *leads_back = whole && head.generation == wanted.generation;
    return TN_OK;
}

/* Reads `count` records from record `first` on into the buffer. */
static tn_status journal_read(tn_embedding *e, uint64_t first, uint64_t count, tn_error *error) {
    size_t size = journal_record_size(e);
    return tn__file_get(e->journal.file, e->journal.path, e->journal.buffer, (size_t)count * size,
                        sizeof(journal_head) + first * size, error);
}

static const char *journal_at(const tn_embedding *e, uint64_t index, journal_record *record) {
    const char *at = e->journal.buffer + index * journal_record_size(e);
    memcpy(record, at, sizeof *record);
    return at + sizeof *record;
}

/* Counts the valid records at the start of the journal. Records after the first invalid one were
 * not durable, so their rows were not written to the table's file. */
static tn_status journal_count(tn_embedding *e, uint64_t size, uint64_t *count, tn_error *error) {
    uint64_t most = (size - sizeof(journal_head)) / journal_record_size(e), whole = 0;
    for (uint64_t first = 0; first < most && whole == first; first += e->journal.room) {
        uint64_t part = most - first < e->journal.room ? most - first : e->journal.room;
        TN_TRY(journal_read(e, first, part, error));
        for (uint64_t i = 0; i < part && whole == first + i; i++) {
            journal_record record;
            const char *bytes = journal_at(e, i, &record);
            whole +=
                record.row < e->table.rows && record.check == journal_check(e, record.row, bytes);
        }
    }
    *count = whole;
    return TN_OK;
}

/* Writes the old version of a row to the table's file. A row that is unchanged is not written, so
 * that holes of the file remain holes. */
static tn_status journal_undo_row(tn_embedding *e, uint32_t row, const char *bytes,
                                  tn_error *error) {
    char *now = tn__cache_row(e, 0);
    uint64_t at = tn__table_at(&e->table, row);
    TN_TRY(tn__file_get(e->file, e->path, now, e->row_bytes, at, error));
    if (memcmp(now, bytes, e->row_bytes) == 0) return TN_OK;
    return tn__file_put(e->file, e->path, bytes, e->row_bytes, at, error);
}

static tn_status journal_undo(tn_embedding *e, uint64_t count, tn_error *error) {
    for (uint64_t last = count; last > 0;) {
        uint64_t part = last < e->journal.room ? last : e->journal.room;
        TN_TRY(journal_read(e, last - part, part, error));
        for (uint64_t i = part; i-- > 0;) {
            journal_record record;
            const char *bytes = journal_at(e, i, &record);
            TN_TRY(journal_undo_row(e, record.row, bytes, error));
        }
        last -= part;
    }
    if (count > 0 && !e->journal.unsynced && fdatasync(e->file) != 0)
        return tn__file_reason(e->path, "write it to the disk", error);
    e->journal.undone = count;
    return TN_OK;
}

/* --- opening --- */

static tn_status journal_find(tn_embedding *e, uint64_t *size, bool *leads_back, tn_error *error) {
    struct stat facts;
    if (fstat(e->journal.file, &facts) != 0)
        return tn__file_reason(e->journal.path, "look at it", error);
    *size = (uint64_t)facts.st_size;
    return journal_read_head(e, *size, leads_back, error);
}

static int journal_open_file(const tn_embedding *e, int flags) {
    return tn__open_beneath(e->path, tn__base_name(e->journal.path), e->context.follow_links,
                            flags | O_NONBLOCK | O_CLOEXEC, 0666);
}

static tn_status journal_refuse(const tn_embedding *e, tn_error *error) {
    return errno == EXDEV ? tn__outside(e->path, tn__base_name(e->journal.path), error)
                          : tn__file_reason(e->journal.path, "open it", error);
}

tn_status tn__journal_open(tn_embedding *e, tn_error *error) {
    tn__journal *journal = &e->journal;
    uint64_t size, count;
    bool leads_back;
    journal->file = journal_open_file(e, O_RDWR | O_CREAT);
    if (journal->file < 0) return journal_refuse(e, error);
    TN_TRY(journal_find(e, &size, &leads_back, error));
    if (leads_back) {
        TN_TRY(journal_count(e, size, &count, error));
        TN_TRY(journal_undo(e, count, error));
    }
    if (ftruncate(journal->file, 0) != 0) return tn__file_reason(journal->path, "empty it", error);
    /* Empties the file on the disk, too: otherwise, after a crash, new records could be followed by
     * old ones that are still valid. */
    if (leads_back && !journal->unsynced && fdatasync(journal->file) != 0)
        return tn__file_reason(journal->path, "write it to the disk", error);
    return TN_OK;
}

tn_status tn__journal_look(tn_embedding *e, tn_error *error) {
    tn__journal *journal = &e->journal;
    uint64_t size;
    bool leads_back;
    journal->file = journal_open_file(e, O_RDONLY);
    if (journal->file < 0 && errno == ENOENT) return TN_OK;
    if (journal->file < 0) return journal_refuse(e, error);
    TN_TRY(journal_find(e, &size, &leads_back, error));
    if (!leads_back) return TN_OK;
    return tn__where(error,
                     tn__fail(error, TN_E_UNSUPPORTED,
                              "the table was left in the middle of training, and what was done "
                              "since its last checkpoint must be undone first: open it for writing "
                              "(`tn_embedding_open`)"),
                     "%s", e->path);
}

/* Closes the journal, and removes its file if it is empty. */
void tn__journal_close(tn_embedding *e) {
    struct stat facts;
    int file = e->journal.file;
    if (file < 0) return;
    if (!e->read_only && fstat(file, &facts) == 0 && facts.st_size == 0)
        /* an empty journal does no harm, so a failure to delete it does not matter */
        (void)unlink(e->journal.path);
    close(file);
}

/* --- the file of the checkpoint --------------------------------------------------------------- */

/* TABLE.checkpoint has the number of the valid state of the table, and a note of the caller.
 *
 * The number grows by one with each checkpoint. The file is replaced by a rename, and from that
 * moment the new checkpoint exists. Before the rename, the journal with the old number undoes all
 * changes; afterwards that journal is obsolete.
 */

typedef struct checkpoint_head {
    char magic[8];
    /* `size` of the note; `hash` of head and note, computed with a hash of 0 */
    uint64_t identity, generation, size, hash;
} checkpoint_head;

static uint64_t checkpoint_hash(checkpoint_head head, const void *note) {
    head.hash = 0;
    return tn__hash(tn__hash(2, &head, sizeof head), note, (size_t)head.size);
}

static tn_status checkpoint_refuse(const tn_embedding *e, tn_error *error, const char *what) {
    return tn__where(error, tn__fail(error, TN_E_INVALID, "the checkpoint %s", what), "%s",
                     e->checkpoint_path);
}

/* Maps the checkpoint file into memory and checks it. The caller must unmap it. If the file does
 * not exist, file->bytes is NULL. */
static tn_status checkpoint_map(const tn_embedding *e, tn__file *file, checkpoint_head *head,
                                tn_error *error) {
    struct stat facts;
    *file = (tn__file){0};
    if (lstat(e->checkpoint_path, &facts) != 0 && errno == ENOENT) return TN_OK;
    TN_TRY(tn__file_map_beneath(e->path, tn__base_name(e->checkpoint_path), e->context.follow_links,
                                file, error));
    if (file->size >= sizeof *head) memcpy(head, file->bytes, sizeof *head);
    const char *what = NULL;
    if (file->size < sizeof *head || memcmp(head->magic, "TENUREEC", 8) != 0)
        what = "is none, or is cut short: byte 0";
    else if (head->size != file->size - sizeof *head)
        what = "is cut short, or something follows it: byte 24";
    else if (head->hash != checkpoint_hash(*head, file->bytes + sizeof *head))
        what = "is damaged";
    else if (head->identity != tn__table_identity(&e->table))
        what = "belongs to another table: byte 8";
    if (what == NULL) return TN_OK;
    tn__file_unmap(file);
    return checkpoint_refuse(e, error, what);
}

tn_status tn__checkpoint_generation(const tn_embedding *e, uint64_t *generation, tn_error *error) {
    tn__file file;
    checkpoint_head head;
    TN_TRY(checkpoint_map(e, &file, &head, error));
    *generation = file.bytes != NULL ? head.generation : 0;
    tn__file_unmap(&file);
    return TN_OK;
}

tn_status tn_embedding_note(const tn_embedding *e, void *bytes, size_t room, size_t *size,
                            tn_error *error) {
    tn__file file;
    checkpoint_head head;
    TN_TRY(checkpoint_map(e, &file, &head, error));
    size_t found = file.bytes != NULL ? (size_t)head.size : 0;
    tn_status status = TN_OK;
    if (bytes != NULL && found > room)
        status = tn__fail(error, TN_E_INVALID, "the note has %zu bytes, and there is room for %zu",
                          found, room);
    else if (bytes != NULL && found > 0)
        memcpy(bytes, file.bytes + sizeof head, found);
    tn__file_unmap(&file);
    if (status == TN_OK) *size = found;
    return status;
}

/* --- making a checkpoint --- */

static tn_status checkpoint_commit(tn_embedding *e, const void *note, size_t size,
                                   tn_error *error) {
    checkpoint_head head = {.magic = {'T', 'E', 'N', 'U', 'R', 'E', 'E', 'C'},
                            .identity = tn__table_identity(&e->table),
                            .generation = e->journal.generation + 1,
                            .size = size};
    size_t total;
    if (__builtin_add_overflow(sizeof head, size, &total))
        return tn__no_memory(error, "the note of a checkpoint");
    char *bytes = tn__alloc(&e->context, total);
    if (bytes == NULL) return tn__no_memory(error, "the note of a checkpoint");
    head.hash = checkpoint_hash(head, note);
    memcpy(bytes, &head, sizeof head);
    if (size > 0) memcpy(bytes + sizeof head, note, size);
    tn_status status = tn__file_write_new(e->checkpoint_path, tn__file_mode(e->checkpoint_path),
                                          bytes, total, error);
    tn__free(&e->context, bytes, total);
    return status;
}

static tn_status checkpoint_write_rows(tn_embedding *e, tn_error *error) {
    for (uint32_t slot = 0; slot < e->r.used; slot++)
        if (e->r.slots[slot].row != TN__ROW_NONE && e->r.slots[slot].flags & TN__SLOT_DIRTY)
            TN_TRY(tn__move_out(e, slot, error));
    TN_TRY(tn__move_settle(e, error));
    if (e->journal.unsynced || fdatasync(e->file) == 0) return TN_OK;
    tn_error why = {.where = ""};
    tn_status status = tn__file_reason(e->path, "write it to the disk", &why);
    if (error != NULL) *error = why;
    return tn__cache_break(e, status, &why);
}

tn_status tn_embedding_checkpoint(tn_embedding *e, const void *note, size_t size, tn_error *error) {
    if (e->read_only) TN_FAIL(error, TN_E_UNSUPPORTED, "the table is open for reading alone");
    TN_TRY(tn__move_settle(e, error));
    TN_TRY(checkpoint_write_rows(e, error));
    TN_TRY(checkpoint_commit(e, note, size, error));
    if (!e->journal.unsynced) {
        /* the journal is needed until the name of the new checkpoint is durable */
        tn_error why = {.where = ""};
        tn_status status = tn__folder_sync(e->path, &why);
        if (status != TN_OK) {
            if (error != NULL) *error = why;
            return tn__cache_break(e, status, &why);
        }
    }
    TN_TRY(journal_restart(e, error));
    e->facts.checkpoints = e->journal.generation;
    return TN_OK;
}
