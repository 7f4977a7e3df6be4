/* copy.h - bytes from one memory to another, past the caches of who computes. */
#ifndef TN_DEVICE_COPY_H
#define TN_DEVICE_COPY_H

#include "base/base.h"

/* memcpy, where large faster: what is written is not brought into the caches first, nor does it
 * push out what others work on there. Cost: O(size). */
void tn__copy_past_caches(void *to, const void *from, uint64_t size);

#endif
