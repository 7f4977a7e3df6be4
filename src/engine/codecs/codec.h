/* codec.h - how tensors are encoded: one file per codec of TN_CODEC_TABLE, and one table (codec.c).
 *
 * A codec works on elements of 4 bytes as they lie in memory, for any shape. The size of its form
 * is given by tn_codec_bytes. Threads: any number may encode and decode at once.
 */
#ifndef TN_ENGINE_CODECS_CODEC_H
#define TN_ENGINE_CODECS_CODEC_H

#include <tenure/instruction.h>

#include "base/base.h"

#define TN__CODED_BYTES 4u /* bytes of an element */

/* A tensor and the room for its form. */
typedef struct tn__form {
    void *plain;    /* [count] elements of 4 bytes; written by decode alone */
    uint64_t count; /* number of elements */
    uint8_t *code;  /* [room] bytes */
    uint64_t room;
    bool raw; /* set by encode: the form holds the tensor unencoded */
} tn__form;

typedef struct tn__coder {
    bool any_type; /* accepts any type of 4 bytes; else only float32 */
    /* Errors: E_EXHAUSTED (the room is too small for this tensor, which happens only to a form
     *         whose size depends on the data), E_INVALID (decode: the bytes are not a form of this
     *         number of elements). */
    tn_status (*encode)(tn__form *form, tn_error *error);
    tn_status (*decode)(const tn__form *form, tn_error *error);
} tn__coder;

/* Number of elements of 4 bytes that CSR counts as not zero. */
uint64_t tn__csr_filled(const void *plain, uint64_t count);

/* NULL: no codec encodes this way. */
const tn__coder *tn__coder_find(tn_codec codec);

extern const tn__coder tn__coder_bits, tn__coder_csr, tn__coder_float16, tn__coder_float10,
    tn__coder_float8;

#endif
