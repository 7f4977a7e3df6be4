/* codec.h - how tensors are encoded: one file per codec of TN_CODEC_TABLE, and one table (codec.c).
 *
 * A codec works on elements of 4 bytes as they lie in memory, for any shape. The size of its form
 * is given by tn_codec_bytes. Threads: any number may encode and decode at once.
 */
#ifndef TN_ENGINE_CODECS_CODEC_H
#define TN_ENGINE_CODECS_CODEC_H

#include <tenure/program.h>

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
    /* Decoded numbers differ. The codes of any TN__CODED_PART elements from a multiple of it on lie
     * together and do not depend on other elements. */
    bool lossy;
    /* Errors: E_EXHAUSTED (the room is too small for this tensor, which happens only to a form
     *         whose size depends on the data), E_INVALID (decode: the bytes are not a form of this
     *         number of elements). */
    tn_status (*encode)(tn__form *form, tn_error *error);
    tn_status (*decode)(const tn__form *form, tn_error *error);
} tn__coder;

/* Number of elements of 4 bytes that CSR counts as not zero. */
uint64_t tn__csr_filled(const void *plain, uint64_t count);

#define TN__CODED_PART 768u /* elements: a multiple of those in a word of every lossy codec */

/* The difference between a tensor and its decoded form. */
typedef struct tn__difference {
    double largest;    /* of an element */
    double squares;    /* sum of the squared differences */
    double of_squares; /* sum of the squares of the tensor */
} tn__difference;
/* For a lossy codec, after encode. NaNs that stay NaNs and infinities that stay the same do not
 * differ. Cost: one pass over the tensor. */
tn_status tn__coder_measure(const tn__coder *coder, tn_codec codec, const tn__form *form,
                            tn__difference *difference, tn_error *error);

/* NULL: no codec encodes this way. */
const tn__coder *tn__coder_find(tn_codec codec);

extern const tn__coder tn__coder_bits, tn__coder_csr, tn__coder_float16, tn__coder_float10,
    tn__coder_float8;

#endif
