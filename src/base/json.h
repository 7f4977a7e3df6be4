/* json.h - parses JSON text into jansson's values. Not in the minimal build. */
#ifndef TN_BASE_JSON_H
#define TN_BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* The values of a text, or NULL with the reason in `why` (text, position) and its kind in `status`:
 * E_INVALID (the text is wrong, or takes more than TN__JSON_RATIO bytes of memory for each of its
 * own), E_NO_MEMORY. Objects with two equal keys are refused. */
#define TN__JSON_RATIO 32u
#define TN__JSON_FREE ((size_t)16 << 20) /* memory that is allowed for any text */
json_t *tn__json_parse(const void *bytes, size_t size, json_error_t *why, tn_status *status);

#endif
