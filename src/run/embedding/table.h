/* table.h - the file of a table of embeddings: its head, the position of rows, and their initial
 * values. */
#ifndef TN_EMBEDDING_TABLE_H
#define TN_EMBEDDING_TABLE_H

#include <tenure/embedding.h>

#include "base/base.h"

#define TN__TABLE_HEAD 4096u /* number of bytes of a table file before its first row */

/* Fills in the defaults of the caller's description of a table. Errors: E_INVALID. */
tn_status tn__table_complete(const tn_embedding_table *given, tn_embedding_table *table,
                             tn_error *error);
/* Bytes of the values of a row, a multiple of 4 (value_bytes); bytes of the values and the
 * optimizer state (row_bytes). */
uint32_t tn__table_value_bytes(const tn_embedding_table *table);
uint32_t tn__table_row_bytes(const tn_embedding_table *table);
static inline uint64_t tn__table_at(const tn_embedding_table *table, uint64_t row) {
    return TN__TABLE_HEAD + row * tn__table_row_bytes(table);
}

/* Returns a hash of the table's description. Files that belong to a table contain it, and are
 * refused for another table. Tables with equal descriptions have equal hashes. */
uint64_t tn__table_identity(const tn_embedding_table *table);

/* Reads and checks the head of a table's file. Errors: E_IO, E_INVALID (not a table, damaged or
 * truncated). The message names the byte. */
tn_status tn__table_read(int file, const char *path, tn_embedding_table *table, tn_error *error);

/* Converts a row between its stored form and its values. Both directions are one operation, an xor
 * with the initial values. */
void tn__table_turn(const tn_embedding_table *table, uint32_t row, void *bytes);

/* Reads or writes all bytes, or fails. The error names the path, the byte and the reason. */
tn_status tn__file_get(int file, const char *path, void *bytes, size_t size, uint64_t offset,
                       tn_error *error);
tn_status tn__file_put(int file, const char *path, const void *bytes, size_t size, uint64_t offset,
                       tn_error *error);
/* Reports "cannot WHAT: REASON" for a file, with the reason from errno. errno is unchanged. */
tn_status tn__file_reason(const char *path, const char *what, tn_error *error);
/* Makes new names in the folder of `path` durable against a crash of the machine. */
tn_status tn__folder_sync(const char *path, tn_error *error);
/* Returns `path` with a suffix, or NULL if out of memory. The caller frees it, with its length + 1
 * as the size. */
char *tn__path_beside(const tn_context *context, const char *path, const char *suffix);

#endif
