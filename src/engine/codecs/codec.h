/* codec.h - how tensors are encoded: one file per codec of TN_CODEC_TABLE, and one table (codec.c).
 *
 * A codec works on elements as they lie in memory, whatever the shape, all of 4 bytes. Its form is
 * as large as tn_codec_bytes says.
 * Threads: any number may encode and decode at once.
 */
#ifndef TN_ENGINE_CODECS_CODEC_H
#define TN_ENGINE_CODECS_CODEC_H

#include <tenure/instruction.h>

#include "base/base.h"

#define TN__CODED_BYTES 4u /* of an element */

/* A tensor and the room that there is for its form. */
typedef struct tn__form {
    void *plain;    /* [count] elements of 4 bytes; written by decode alone */
    uint64_t count; /* of elements */
    uint8_t *code;  /* [room] bytes */
    uint64_t room;
    bool raw; /* encode says so: it is kept as it is */
} tn__form;

typedef struct tn__coder {
    bool any_type; /* of 4 bytes; else of float32 alone */
    /* Errors: E_EXHAUSTED (this tensor's form has not the room; that of all others has), E_INVALID
     * (what is decoded is no form of so many elements). */
    tn_status (*encode)(tn__form *form, tn_error *error);
    tn_status (*decode)(const tn__form *form, tn_error *error);
} tn__coder;

/* Elements of 4 bytes that are not zero, as CSR has it. */
uint64_t tn__csr_filled(const void *plain, uint64_t count);

/* NULL: nothing encodes so. */
const tn__coder *tn__coder_find(tn_codec codec);

extern const tn__coder tn__coder_bits, tn__coder_csr, tn__coder_float16, tn__coder_float10,
    tn__coder_float8;

#endif
