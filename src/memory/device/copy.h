/* copy.h - copies memory without passing through the caches of the computing cores. */
#ifndef TN_DEVICE_COPY_H
#define TN_DEVICE_COPY_H

#include "base/base.h"

/* Copies memory as memcpy does, but faster for large sizes: written data is not brought into the
 * caches first, and does not evict the data that other threads work on. Cost: O(size). */
void tn__copy_past_caches(void *to, const void *from, uint64_t size);

#endif
