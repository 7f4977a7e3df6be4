/* fuzz_embedding.c - any bytes as a file of a table of rows.
 *
 * The first byte tells which: t the table, j its journal, c its checkpoint, r recorded lookups.
 * What is behind it is read as it is, and with identity, hashes and sizes that are right, so that
 * what stands behind these is read, too. What must hold: a table that opens answers lookups, is as
 * long as before and has nothing to be undone when it is opened again; or an error with a message.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "run/embedding/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { FUZZ_ROWS = 9, FUZZ_DIM = 2, FUZZ_MOST = 1 << 16 };
enum { JOURNAL_HEAD = 40, CHECKPOINT_HEAD = 40, TABLE_HEAD = 56, RECORD = 8 + 4 * FUZZ_DIM };

static char rows_folder[] = "/tmp/tenure-fuzz-XXXXXX";
static char rows_table[64], rows_journal[64], rows_checkpoint[64], rows_lookups[64];
static uint64_t rows_identity;

static void rows_remove(void) {
    (void)unlink(rows_table);
    (void)unlink(rows_journal);
    (void)unlink(rows_checkpoint);
    (void)unlink(rows_lookups);
}

static void rows_leave(void) {
    rows_remove();
    (void)rmdir(rows_folder);
}

static void rows_begin(void) {
    if (rows_table[0] != 0) return;
    fuzz_must(mkdtemp(rows_folder) != NULL && atexit(rows_leave) == 0);
    snprintf(rows_table, sizeof rows_table, "%s/t", rows_folder);
    snprintf(rows_journal, sizeof rows_journal, "%s/t.journal", rows_folder);
    snprintf(rows_checkpoint, sizeof rows_checkpoint, "%s/t.checkpoint", rows_folder);
    snprintf(rows_lookups, sizeof rows_lookups, "%s/r", rows_folder);
}

static void rows_write(const char *path, const void *bytes, size_t size, uint64_t length) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    fuzz_must(file >= 0 && write(file, bytes, size) == (ssize_t)size &&
              (length <= size || ftruncate(file, (off_t)length) == 0) && close(file) == 0);
}

static void rows_make(void) {
    tn_embedding_table table = TN_EMBEDDING_TABLE_INIT;
    table.rows = FUZZ_ROWS;
    table.dim = FUZZ_DIM;
    table.type = TN_FLOAT32;
    table.scale = 1;
    fuzz_must(tn_embedding_create(rows_table, &table, NULL, NULL) == TN_OK);
    rows_identity = tn__table_identity(&table);
}

/* --- what was opened --- */

static tn_status rows_open(bool read_only, tn_embedding **e) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    tn_error error = {0};
    options.cache_bytes = UINT64_C(1) << 20;
    options.reader = "plain";
    options.read_only = read_only;
    options.unsynced = true;
    tn_status status = tn_embedding_open(rows_table, &options, e, &error);
    fuzz_must(status == TN_OK || (error.status == status && error.message[0] != 0));
    return status;
}

static void rows_look(tn_embedding *e) {
    static float sums[2 * TN_EMBEDDING_DIM_MAX];
    tn_embedding_facts facts;
    tn_error error = {0};
    size_t size;
    tn_embedding_tell(e, &facts);
    uint32_t rows[] = {0, (uint32_t)(facts.table.rows - 1)};
    tn_embedding_batch batch = {.rows = rows, .row_count = 2, .bag_count = 2};
    if (facts.batch_rows >= 2 && facts.slots >= 2)
        fuzz_must(tn_embedding_lookup(e, &batch, sums, &error) == TN_OK);
    fuzz_must(tn_embedding_note(e, NULL, 0, &size, &error) == TN_OK && size <= FUZZ_MOST);
}

static void rows_try(void) {
    struct stat before, after;
    tn_embedding_facts facts;
    tn_embedding *e;
    fuzz_must(stat(rows_table, &before) == 0);
    tn_status looked = rows_open(true, &e);
    if (looked == TN_OK) tn_embedding_close(e);
    if (rows_open(false, &e) != TN_OK) return;
    rows_look(e);
    fuzz_accept();
    tn_embedding_close(e);
    fuzz_must(looked == TN_OK || looked == TN_E_UNSUPPORTED);
    fuzz_must(rows_open(false, &e) == TN_OK);
    tn_embedding_tell(e, &facts);
    fuzz_must(facts.undone == 0);
    tn_embedding_close(e);
    fuzz_must(stat(rows_table, &after) == 0 && before.st_size == after.st_size);
}

static void rows_replay(void) {
    tn_embedding_trace *trace = NULL;
    tn_embedding_replay_options options = TN_EMBEDDING_REPLAY_OPTIONS_INIT;
    tn_embedding_replayed replayed;
    tn_error error = {0};
    uint64_t count;
    tn_status status = tn_embedding_trace_load(rows_lookups, NULL, &trace, &error);
    fuzz_must(status == TN_OK || (error.message[0] != 0 && error.where[0] != 0));
    if (status != TN_OK) return;
    options.slots = 4;
    fuzz_must(tn_embedding_trace_rows(trace, &count) != NULL && count > 0);
    fuzz_must(tn_embedding_replay(trace, &options, &replayed, &error) == TN_OK);
    fuzz_must(replayed.lookups == count && replayed.hits <= count);
    tn_embedding_trace_destroy(trace);
}

/* --- what is made right --- */

static void rows_set(uint8_t *at, uint64_t value) { memcpy(at, &value, sizeof value); }

static void rows_mend_journal(uint8_t *bytes, size_t size) {
    uint64_t generation;
    if (size < JOURNAL_HEAD) return;
    memcpy(&generation, bytes + 16, sizeof generation);
    rows_set(bytes + 8, rows_identity);
    rows_set(bytes + 32, tn__hash(1, bytes, 32));
    for (size_t at = JOURNAL_HEAD; size - at >= RECORD; at += RECORD) {
        uint64_t hash =
            tn__hash(tn__hash(generation + 1, bytes + at, 4), bytes + at + 8, 4 * (size_t)FUZZ_DIM);
        uint32_t check = (uint32_t)(hash ^ hash >> 32);
        memcpy(bytes + at + 4, &check, sizeof check);
    }
}

static void rows_mend_checkpoint(uint8_t *bytes, size_t size) {
    if (size < CHECKPOINT_HEAD) return;
    rows_set(bytes + 8, rows_identity);
    rows_set(bytes + 24, size - CHECKPOINT_HEAD);
    rows_set(bytes + 32, 0);
    rows_set(bytes + 32, tn__hash(tn__hash(2, bytes, CHECKPOINT_HEAD), bytes + CHECKPOINT_HEAD,
                                  size - CHECKPOINT_HEAD));
}

/* The length that the file should have, where that is not too much. */
static uint64_t rows_mend_table(uint8_t *bytes, size_t size) {
    uint32_t words[4];
    uint64_t rows;
    if (size < TABLE_HEAD) return size;
    memcpy(&words[0], bytes + 12, 4);
    memcpy(&rows, bytes + 16, 8);
    memcpy(&words[1], bytes + 24, 8);
    rows_set(bytes + 48, tn__hash(1, bytes, 48));
    tn_embedding_table table = TN_EMBEDDING_TABLE_INIT, whole;
    table.dim = words[0];
    table.rows = rows;
    table.type = (tn_dtype)words[1];
    table.rule = (tn_embedding_rule)words[2];
    if (tn__table_complete(&table, &whole, NULL) != TN_OK) return size;
    uint64_t length = tn__table_at(&whole, whole.rows);
    return length >= size && length < UINT64_C(1) << 32 ? length : size;
}

static void rows_run(uint8_t kind, uint8_t *bytes, size_t size, bool mended) {
    rows_remove();
    if (kind == 't') {
        uint64_t length = mended ? rows_mend_table(bytes, size) : size;
        rows_write(rows_table, bytes, size, length);
    } else if (kind == 'r') {
        rows_write(rows_lookups, bytes, size, size);
        rows_replay();
        return;
    } else {
        rows_make();
        if (mended && kind == 'j') rows_mend_journal(bytes, size);
        if (mended && kind == 'c') rows_mend_checkpoint(bytes, size);
        rows_write(kind == 'j' ? rows_journal : rows_checkpoint, bytes, size, size);
    }
    rows_try();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static uint8_t copy[FUZZ_MOST];
    if (size < 1 || size > FUZZ_MOST || strchr("tjcr", bytes[0]) == NULL || bytes[0] == 0) return 0;
    rows_begin();
    memcpy(copy, bytes + 1, size - 1);
    for (int mended = 0; mended < 2; mended++) rows_run(bytes[0], copy, size - 1, mended != 0);
    return 0;
}
