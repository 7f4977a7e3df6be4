/* json.h - parses JSON text into jansson's values. The minimal build does not contain it. */
#ifndef TN_BASE_JSON_H
#define TN_BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* Parses a text. Returns its value, or NULL with the reason in `why` (a message and the position)
 * and its kind in `status`: E_INVALID (the text is wrong, or needs more memory than TN__JSON_RATIO
 * bytes for each of its bytes), E_NO_MEMORY. An object with two equal keys is refused. */
#define TN__JSON_RATIO 32u
/* bytes of memory that any text may use, however short it is */
#define TN__JSON_FREE ((size_t)16 << 20)
json_t *tn__json_parse(const void *bytes, size_t size, json_error_t *why, tn_status *status);

#endif
