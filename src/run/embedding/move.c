/* move.c - moves rows between the file of a table and their slots in memory.
 *
 * A changed row that is evicted is copied, so that its slot is free at once. The copy is written
 * while the next row is read into the slot. The evicted row cannot be requested in the meantime,
 * because a batch first waits for the writes of earlier batches, which have usually finished by
 * then.
 *
 * If a row cannot be read, only the batches that need it fail. If a row cannot be written, every
 * later call fails, because the table could no longer be restored to a consistent state.
 */
#include "run/embedding/cache.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

tn_status tn__cache_break(tn_embedding *e, tn_status status, const tn_error *error) {
    if (!e->is_broken) e->broken = *error;
    e->is_broken = true;
    return status;
}

/* --- finished transfers --- */

static void move_arrived(tn_embedding *e, const tn__row_transfer *it) {
    tn__slot *slot = &e->r.slots[it->slot];
    slot->flags &= (uint8_t)~TN__SLOT_READING;
    if (it->failure == 0) {
        tn__table_turn(&e->table, slot->row, it->data);
        return;
    }
    slot->flags |= TN__SLOT_FAILED;
    slot->mark = (uint32_t)it->failure;
}

static void move_written(tn_embedding *e, const tn__row_transfer *it) {
    tn_error error = {.where = ""};
    char what[64];
    if (it->failure == 0) return;
    errno = it->failure;
    snprintf(what, sizeof what, "write byte %" PRIu64, it->offset + it->done);
    (void)tn__cache_break(e, tn__file_reason(e->path, what, &error), &error);
}

void tn__move_finish(tn_embedding *e) {
    uint32_t transfer = tn__row_io_finish(&e->io);
    const tn__row_transfer *it = &e->io.transfers[transfer];
    if (it->writes)
        move_written(e, it);
    else
        move_arrived(e, it);
    tn__row_io_give(&e->io, transfer);
}

static tn_status move_whole(const tn_embedding *e, tn_error *error) {
    if (!e->is_broken) return TN_OK;
    if (error != NULL) *error = e->broken;
    return e->broken.status;
}

tn_status tn__move_settle(tn_embedding *e, tn_error *error) {
    if (e->io.writing == 0) return move_whole(e, error);
    double before = tn__clock_s();
    tn__row_io_start(&e->io);
    while (e->io.writing > 0) tn__move_finish(e);
    e->facts.waited_s += tn__clock_s() - before;
    return move_whole(e, error);
}

/* --- begun --- */

static tn__row_transfer *move_take(tn_embedding *e, uint32_t *transfer) {
    *transfer = tn__row_io_take(&e->io);
    if (*transfer == TN__ROW_TRANSFER_NONE) {
        double before = tn__clock_s();
        tn__row_io_start(&e->io);
        tn__move_finish(e);
        *transfer = tn__row_io_take(&e->io);
        e->facts.waited_s += tn__clock_s() - before;
    }
    return &e->io.transfers[*transfer];
}

void tn__move_in(tn_embedding *e, uint32_t slot) {
    uint32_t transfer;
    tn__row_transfer *it = move_take(e, &transfer);
    it->file = e->file;
    it->data = tn__cache_row(e, slot);
    it->offset = tn__table_at(&e->table, e->r.slots[slot].row);
    it->size = e->row_bytes;
    it->slot = slot;
    it->writes = false;
    tn__row_io_begin(&e->io, transfer);
}

tn_status tn__move_out(tn_embedding *e, uint32_t slot, tn_error *error) {
    uint32_t transfer, row = e->r.slots[slot].row;
    TN_TRY(tn__journal_secure(e, error));
    tn__row_transfer *it = move_take(e, &transfer);
    tn_status status = move_whole(e, error);
    if (status != TN_OK) {
        tn__row_io_give(&e->io, transfer);
        return status;
    }
    it->file = e->file;
    it->data = e->io.copies + (size_t)transfer * e->row_bytes;
    memcpy(it->data, tn__cache_row(e, slot), e->row_bytes);
    tn__table_turn(&e->table, row, it->data);
    it->offset = tn__table_at(&e->table, row);
    it->size = e->row_bytes;
    it->writes = true;
    e->r.slots[slot].flags &= (uint8_t)~TN__SLOT_DIRTY;
    e->facts.written++;
    tn__row_io_begin(&e->io, transfer);
    return TN_OK;
}

/* --- awaited --- */

static tn_status move_failed(const tn_embedding *e, const tn__slot *slot, tn_error *error) {
    uint64_t byte = tn__table_at(&e->table, slot->row);
    if (slot->mark == (uint32_t)-1)
        return tn__where(error,
                         tn__fail(error, TN_E_IO,
                                  "row %u is not there: the file has become shorter, and ends "
                                  "before byte %" PRIu64,
                                  slot->row, byte + e->row_bytes),
                         "%s", e->path);
    return tn__where(error,
                     tn__fail(error, TN_E_IO, "cannot read row %u at byte %" PRIu64 ": %s",
                              slot->row, byte, strerror((int)slot->mark)),
                     "%s", e->path);
}

tn_status tn__move_await(tn_embedding *e, const tn__ticket *ticket, tn_error *error) {
    const tn__hold *hold = &ticket->hold;
    const tn__slot *failed = NULL;
    bool waits = e->io.reading > 0;
    double before = waits ? tn__clock_s() : 0;
    for (uint32_t i = 0; i < hold->distinct_count; i++) {
        const tn__slot *slot = &e->r.slots[hold->distinct[i]];
        while (slot->flags & TN__SLOT_READING) tn__move_finish(e);
        if (slot->flags & TN__SLOT_FAILED && failed == NULL) failed = slot;
    }
    if (waits) e->facts.waited_s += tn__clock_s() - before;
    return failed == NULL ? TN_OK : move_failed(e, failed, error);
}
