/* table.c - the file of a table of embeddings.
 *
 * The file has a page with the head, then the rows, each followed by its optimizer state. The file
 * stores a row as its difference, in bits (xor), from its initial values, which are computed from
 * the seed, the row and the column. So a row that was never updated is a hole in the file, which
 * takes no disk space. No list of such rows is needed, and reading has no special case. With a
 * scale of 0 the initial values are zeros, and the file has the rows themselves.
 *
 * Numbers are little-endian, as on all machines that Tenure supports.
 */
#include "run/embedding/table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/kernels/convert.h"
#include "graph/element.h"

#define TABLE_VERSION 1u

typedef struct table_head {
    char magic[8];
    uint32_t version, dim;
    uint64_t rows;
    uint32_t type, rule;
    uint64_t seed;
    double scale;
    uint64_t hash; /* hash of the bytes of the head before this field */
} table_head;

static const char *const table_rules[] = {
#define TN_X(name, text) text,
    TN_EMBEDDING_RULE_TABLE(TN_X)
#undef TN_X
};
const char *tn_embedding_rule_name(tn_embedding_rule rule) { return table_rules[rule]; }

/* --- shapes --- */

tn_status tn__table_complete(const tn_embedding_table *given, tn_embedding_table *table,
                             tn_error *error) {
    tn_embedding_table made = TN_EMBEDDING_TABLE_INIT;
    tn__options(&made, sizeof made, given);
    made.struct_size = sizeof made;
    if (made.type == TN_UNDEFINED) made.type = TN_FLOAT32;
    if (made.rows == 0 || made.rows > TN_EMBEDDING_ROWS_MAX)
        TN_FAIL(error, TN_E_INVALID, "a table has from 1 to 2^32 - 2 rows, not %" PRIu64,
                made.rows);
    if (made.dim == 0 || made.dim > TN_EMBEDDING_DIM_MAX)
        TN_FAIL(error, TN_E_INVALID, "a row has from 1 to %u numbers, not %u", TN_EMBEDDING_DIM_MAX,
                made.dim);
    if (!tn__is_short_float(made.type))
        TN_FAIL(error, TN_E_INVALID, "rows are of float32, float16 or bfloat16");
    if ((unsigned)made.rule >= TN_EMBEDDING_RULE_COUNT)
        TN_FAIL(error, TN_E_INVALID, "there is no rule number %d", (int)made.rule);
    if (!isfinite(made.scale) || made.scale < 0 || made.scale > 1e30)
        TN_FAIL(error, TN_E_INVALID, "the scale of first values is from 0 to 1e30, not %g",
                made.scale);
    *table = made;
    return TN_OK;
}

uint32_t tn__table_value_bytes(const tn_embedding_table *table) {
    uint32_t bytes = table->dim * (tn_dtype_bits(table->type) / 8);
    return (bytes + 3) & ~3u;
}

uint32_t tn__table_row_bytes(const tn_embedding_table *table) {
    uint32_t kept = table->rule == TN_EMBEDDING_ADAGRAD           ? table->dim
                    : table->rule == TN_EMBEDDING_ROWWISE_ADAGRAD ? 1
                                                                  : 0;
    return tn__table_value_bytes(table) + kept * (uint32_t)sizeof(float);
}

static table_head table_head_of(const tn_embedding_table *table) {
    table_head head;
    memset(&head, 0, sizeof head);
    memcpy(head.magic, "TENUREEB", sizeof head.magic);
    head.version = TABLE_VERSION;
    head.dim = table->dim;
    head.rows = table->rows;
    head.type = (uint32_t)table->type;
    head.rule = (uint32_t)table->rule;
    head.seed = table->seed;
    head.scale = table->scale;
    head.hash = tn__hash(TABLE_VERSION, &head, offsetof(table_head, hash));
    return head;
}

uint64_t tn__table_identity(const tn_embedding_table *table) { return table_head_of(table).hash; }

/* --- initial values --- */

/* Returns two random 32-bit numbers, for two adjacent elements of a row: the output function of
 * splitmix64, applied to a key and a counter. */
static uint64_t table_draw(uint64_t key, uint64_t counter) {
    uint64_t z = key + counter * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static float table_number(uint32_t bits, float unit) { return (float)(int32_t)bits * unit; }

static void table_turn_words(uint32_t *words, uint32_t dim, uint64_t key, uint64_t counter,
                             float unit) {
    for (uint32_t d = 0; d < dim; d++) {
        uint64_t draw = table_draw(key, counter + d / 2);
        float value = table_number((uint32_t)(d % 2 ? draw >> 32 : draw), unit);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        words[d] ^= bits;
    }
}

static void table_turn_halves(const tn_embedding_table *table, uint16_t *halves, uint64_t key,
                              uint64_t counter, float unit) {
    for (uint32_t d = 0; d < table->dim; d++) {
        uint64_t draw = table_draw(key, counter + d / 2);
        float value = table_number((uint32_t)(d % 2 ? draw >> 32 : draw), unit);
        uint16_t half;
        tn__convert(TN_FLOAT32, &value, table->type, &half, 1);
        halves[d] ^= half;
    }
}

void tn__table_turn(const tn_embedding_table *table, uint32_t row, void *bytes) {
    if (table->scale == 0) return;
    uint64_t key = table_draw(table->seed, 0x726f7773);
    uint64_t counter = (uint64_t)row * ((table->dim + 1) / 2);
    float unit = (float)(table->scale * 0x1p-31);
    if (table->type == TN_FLOAT32)
        table_turn_words(bytes, table->dim, key, counter, unit);
    else
        table_turn_halves(table, bytes, key, counter, unit);
}

/* --- files --- */

tn_status tn__file_reason(const char *path, const char *what, tn_error *error) {
    tn_status status = tn__fail_system(error, errno, what);
    return tn__where(error, status, "%s", path);
}

char *tn__path_beside(const tn_context *context, const char *path, const char *suffix) {
    size_t length = strlen(path), more = strlen(suffix) + 1;
    char *made = tn__alloc(context, length + more);
    if (made == NULL) return NULL;
    memcpy(made, path, length);
    memcpy(made + length, suffix, more);
    return made;
}

tn_status tn__file_get(int file, const char *path, void *bytes, size_t size, uint64_t offset,
                       tn_error *error) {
    char what[64];
    for (size_t done = 0; done < size;) {
        ssize_t count = pread(file, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR) continue;
        snprintf(what, sizeof what, "read byte %" PRIu64, offset + done);
        if (count < 0) return tn__file_reason(path, what, error);
        if (count == 0)
            return tn__where(error,
                             tn__fail(error, TN_E_INVALID, "it ends at byte %" PRIu64 ", too early",
                                      offset + done),
                             "%s", path);
        done += (size_t)count;
    }
    return TN_OK;
}

tn_status tn__file_put(int file, const char *path, const void *bytes, size_t size, uint64_t offset,
                       tn_error *error) {
    char what[64];
    for (size_t done = 0; done < size;) {
        ssize_t count =
            pwrite(file, (const char *)bytes + done, size - done, (off_t)(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = ENOSPC;
        snprintf(what, sizeof what, "write byte %" PRIu64, offset + done);
        if (count <= 0) return tn__file_reason(path, what, error);
        done += (size_t)count;
    }
    return TN_OK;
}

tn_status tn__folder_sync(const char *path, tn_error *error) {
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    size_t length = slash != NULL ? (size_t)(slash - path) : 0;
    if (slash != NULL && length + 1 < sizeof folder) {
        memcpy(folder, length > 0 ? path : "/", length > 0 ? length : 1);
        folder[length > 0 ? length : 1] = '\0';
    }
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return tn__file_reason(folder, "open it", error);
    tn_status status = TN_OK;
    /* EINVAL: the file system does not support fsync for folders */
    if (fsync(file) != 0 && errno != EINVAL)
        status = tn__file_reason(folder, "write it to the disk", error);
    close(file);
    return status;
}

/* --- reading the head of a table's file --- */

static tn_status table_refuse(const char *path, tn_error *error, const char *what) {
    return tn__where(error, tn__fail(error, TN_E_INVALID, "%s", what), "%s", path);
}

tn_status tn__table_read(int file, const char *path, tn_embedding_table *table, tn_error *error) {
    table_head head;
    struct stat facts;
    if (fstat(file, &facts) != 0) return tn__file_reason(path, "look at it", error);
    if (!S_ISREG(facts.st_mode) || facts.st_size < (off_t)sizeof head)
        return table_refuse(path, error,
                            "is no table of rows (`tn_embedding_create` makes one): too short, or "
                            "no regular file");
    TN_TRY(tn__file_get(file, path, &head, sizeof head, 0, error));
    if (memcmp(head.magic, "TENUREEB", sizeof head.magic) != 0)
        return table_refuse(path, error,
                            "is no table of rows (`tn_embedding_create` makes one): byte 0");
    if (head.version != TABLE_VERSION)
        return table_refuse(path, error, "is a table of another version: byte 8");
    tn_embedding_table made = TN_EMBEDDING_TABLE_INIT;
    made.dim = head.dim;
    made.rows = head.rows;
    made.type = (tn_dtype)head.type;
    made.rule = (tn_embedding_rule)head.rule;
    made.seed = head.seed;
    made.scale = head.scale;
    if (head.hash != tn__hash(TABLE_VERSION, &head, offsetof(table_head, hash)))
        return table_refuse(path, error, "the head of the table is damaged: bytes 0 to 55");
    tn_status status = tn__table_complete(&made, table, error);
    if (status != TN_OK) return tn__where(error, status, "%s", path);
    uint64_t wanted = tn__table_at(table, table->rows);
    if ((uint64_t)facts.st_size == wanted) return TN_OK;
    status = tn__fail(error, TN_E_INVALID,
                      "the table is %s: it ends at byte %lld, and %" PRIu64
                      " rows of %u bytes end at byte %" PRIu64,
                      (uint64_t)facts.st_size < wanted ? "cut short" : "followed by something else",
                      (long long)facts.st_size, table->rows, tn__table_row_bytes(table), wanted);
    return tn__where(error, status, "%s", path);
}

/* --- creating the file of a table --- */

static tn_status table_is_free(const char *path, const tn_context *context, tn_error *error) {
    static const char *const suffixes[] = {"", ".checkpoint", ".journal"};
    for (uint32_t i = 0; i < 3; i++) {
        struct stat facts;
        char *beside = tn__path_beside(context, path, suffixes[i]);
        if (beside == NULL) return tn__no_memory(error, "a path");
        bool there = lstat(beside, &facts) == 0;
        tn_status status = TN_OK;
        if (there)
            status = tn__where(error,
                               tn__fail(error, TN_E_IO,
                                        "there is such a file; remove it, or "
                                        "choose another name"),
                               "%s", beside);
        tn__free(context, beside, strlen(beside) + 1);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

/* Creates the file of a table under a temporary name, and then gives it its name, unless a file
 * with that name exists by then. */
static tn_status table_write(const char *path, const tn_embedding_table *table, tn_error *error) {
    table_head head = table_head_of(table);
    tn__new_file part;
    if (!tn__new_file_open(&part, path)) return tn__file_reason(path, "create it", error);
    tn_status status = tn__file_put(part.descriptor, path, &head, sizeof head, 0, error);
    if (status == TN_OK && ftruncate(part.descriptor, (off_t)tn__table_at(table, table->rows)) != 0)
        status = tn__file_reason(path, "make it as long as the table", error);
    if (status == TN_OK && fsync(part.descriptor) != 0)
        status = tn__file_reason(path, "write", error);
    if (status != TN_OK)
        tn__new_file_drop(&part);
    else if (!tn__new_file_keep(&part, false))
        status = tn__file_reason(path, "name it", error);
    return status == TN_OK ? tn__folder_sync(path, error) : status;
}

tn_status tn_embedding_create(const char *path, const tn_embedding_table *given,
                              const tn_context *context, tn_error *error) {
    tn_embedding_table table;
    tn_context full = tn__context(context);
    TN_TRY(tn__table_complete(given, &table, error));
    TN_TRY(table_is_free(path, &full, error));
    return table_write(path, &table, error);
}
