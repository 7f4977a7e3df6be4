/* gzip.h - unpacks files compressed by gzip, in memory. */
#ifndef TN_SNAPSHOT_GZIP_H
#define TN_SNAPSHOT_GZIP_H

#include "base/base.h"

bool tn__gzip_is(const void *bytes, size_t size);

/* Unpacks all members. `*made` [*made_room] belongs to the caller: tn__free(context, *made,
 * *made_room). Errors: E_INVALID with the byte (truncated, damaged, wrong checksum), E_NO_MEMORY.
 * On failure nothing is allocated. Cost: O(size + made); made is at most 1032 times size.
 */
tn_status tn__gzip_read(const tn_context *context, const void *bytes, size_t size, uint8_t **made,
                        size_t *made_size, size_t *made_room, tn_error *error);

#endif
