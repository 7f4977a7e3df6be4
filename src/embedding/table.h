/* table.h - the file of a table: its head, where rows lie, and what they are before any update. */
#ifndef TN_EMBEDDING_TABLE_H
#define TN_EMBEDDING_TABLE_H

#include <tenure/embedding.h>

#include "base/base.h"

#define TN__TABLE_HEAD 4096u /* bytes before the first row */

/* A complete description from the caller's. Errors: E_INVALID. */
tn_status tn__table_complete(const tn_embedding_table *given, tn_embedding_table *table,
                             tn_error *error);
/* Bytes of a row's numbers, a multiple of 4; of what the rule keeps; of both. */
uint32_t tn__table_value_bytes(const tn_embedding_table *table);
uint32_t tn__table_row_bytes(const tn_embedding_table *table);
static inline uint64_t tn__table_at(const tn_embedding_table *table, uint64_t row) {
    return TN__TABLE_HEAD + row * tn__table_row_bytes(table);
}

/* A hash of the head: what stands beside a table has it, too, and is refused beside another. Tables
 * of one description have one. */
uint64_t tn__table_identity(const tn_embedding_table *table);

/* Reads the head. Errors: E_IO, E_INVALID (no table, damaged, cut short), with the byte. */
tn_status tn__table_read(int file, const char *path, tn_embedding_table *table, tn_error *error);

/* From what the file has to what the row is, and back: the same. */
void tn__table_turn(const tn_embedding_table *table, uint32_t row, void *bytes);

/* All bytes, or the reason; `path` and the byte are told. */
tn_status tn__file_get(int file, const char *path, void *bytes, size_t size, uint64_t offset,
                       tn_error *error);
tn_status tn__file_put(int file, const char *path, const void *bytes, size_t size, uint64_t offset,
                       tn_error *error);
/* "cannot WHAT: REASON" of a file; errno as it is. */
tn_status tn__file_reason(const char *path, const char *what, tn_error *error);
/* The folder of `path` has its new names on the disk. */
tn_status tn__folder_sync(const char *path, tn_error *error);
/* `path` with something behind it; NULL: no memory. Freed with its length + 1. */
char *tn__path_beside(const tn_context *context, const char *path, const char *suffix);

#endif
