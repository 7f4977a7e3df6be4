/* checkpoint.c - TABLE.checkpoint: the number of the valid state of the table, and a note of the
 * caller.
 *
 * The file holds a number that grows by one, and bytes of the caller. A rename puts it into place,
 * and at that moment the checkpoint exists. Before, the journal with the old number undoes all
 * changes; afterwards that journal is obsolete.
 */
#include "run/embedding/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct checkpoint_head {
    char magic[8];
    /* size of the note; hash of everything, computed with hash 0 */
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

/* Maps the file, which the caller must unmap; without bytes if it does not exist. */
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
        /* the journal must survive until the name is durable */
        tn_error why = {.where = ""};
        tn_status status = tn__folder_sync(e->path, &why);
        if (status != TN_OK) {
            if (error != NULL) *error = why;
            return tn__cache_break(e, status, &why);
        }
    }
    TN_TRY(tn__journal_restart(e, error));
    e->facts.checkpoints = e->journal.generation;
    return TN_OK;
}
