/* table.h - the file of a table: its head, the position of rows, and their initial values. */
#ifndef TN_EMBEDDING_TABLE_H
#define TN_EMBEDDING_TABLE_H

#include <tenure/embedding.h>

#include "base/base.h"

#define TN__TABLE_HEAD 4096u /* bytes before the first row */

/* Completes the caller's description. Errors: E_INVALID. */
tn_status tn__table_complete(const tn_embedding_table *given, tn_embedding_table *table,
                             tn_error *error);
/* Bytes of a row's numbers, a multiple of 4; of its optimizer state; of both. */
uint32_t tn__table_value_bytes(const tn_embedding_table *table);
uint32_t tn__table_row_bytes(const tn_embedding_table *table);
static inline uint64_t tn__table_at(const tn_embedding_table *table, uint64_t row) {
    return TN__TABLE_HEAD + row * tn__table_row_bytes(table);
}

/* A hash of the head. Files that belong to a table contain it, and are refused for another table.
 * Tables with the same description have the same hash. */
uint64_t tn__table_identity(const tn_embedding_table *table);

/* Reads the head. Errors: E_IO, E_INVALID (not a table, damaged, truncated), with the byte. */
tn_status tn__table_read(int file, const char *path, tn_embedding_table *table, tn_error *error);

/* Converts between the stored form of a row and its values; both directions are the same
 * operation. */
void tn__table_turn(const tn_embedding_table *table, uint32_t row, void *bytes);

/* Reads or writes all bytes, or fails with the reason; `path` and the byte are reported. */
tn_status tn__file_get(int file, const char *path, void *bytes, size_t size, uint64_t offset,
                       tn_error *error);
tn_status tn__file_put(int file, const char *path, const void *bytes, size_t size, uint64_t offset,
                       tn_error *error);
/* "cannot WHAT: REASON" for a file; errno is unchanged. */
tn_status tn__file_reason(const char *path, const char *what, tn_error *error);
/* Makes new names in the folder of `path` durable. */
tn_status tn__folder_sync(const char *path, tn_error *error);
/* `path` with a suffix; NULL: out of memory. Freed with its length + 1. */
char *tn__path_beside(const tn_context *context, const char *path, const char *suffix);

#endif
