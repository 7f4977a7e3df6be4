/* codec.h - the codecs of TN_CODEC_TABLE that encode tensors (bits.c, csr.c, small_float.c), and a
 * table of them (codec.c).
 *
 * A codec works on 4-byte elements in the order of memory, for a tensor of any shape.
 * tn_codec_bytes gives the size of an encoded form. Threads: any number may encode and decode at
 * once.
 */
#ifndef TN_ENGINE_CODECS_CODEC_H
#define TN_ENGINE_CODECS_CODEC_H

#include <tenure/program.h>

#include "base/base.h"

#define TN__CODED_BYTES 4u /* size of an element in bytes */

/* A tensor, and the memory for its encoded form. */
typedef struct tn__form {
    void *plain;    /* array of `count` elements of 4 bytes; only decode writes it */
    uint64_t count; /* number of elements of the tensor */
    uint8_t *code;  /* memory for the encoded form, of `room` bytes */
    uint64_t room;
    bool raw; /* set by encode: whether the form contains the tensor unencoded */
} tn__form;

typedef struct tn__coder {
    bool any_type; /* true: accepts any 4-byte element type; false: only float32 */
    /* Whether decoded numbers may differ from the originals. In a lossy form, TN__CODED_PART
     * elements from a multiple of TN__CODED_PART on are encoded together, independently of all
     * other elements. */
    bool lossy;
    /* Errors: E_EXHAUSTED (encode: the form is too small for this tensor; possible only if the size
     * of the form depends on the data), E_INVALID (decode: the bytes are not a form of this number
     * of elements). */
    tn_status (*encode)(tn__form *form, tn_error *error);
    tn_status (*decode)(const tn__form *form, tn_error *error);
} tn__coder;

/* Returns the number of 4-byte elements in which at least one bit is set, which the CSR codec
 * counts as not zero. */
uint64_t tn__csr_filled(const void *plain, uint64_t count);

#define TN__CODED_PART 768u /* a number of elements that fills whole words in every lossy codec */

/* The difference between a tensor and its decoded form. */
typedef struct tn__difference {
    double largest; /* largest difference between an element and its decoded value */
    double squares; /* sum of the squared differences between elements and their decoded values */
    double of_squares; /* sum of the squares of the tensor's elements */
} tn__difference;
/* Measures the error of a lossy codec after encode. A NaN that is decoded as a NaN, and an infinity
 * that is decoded as itself, count as equal. Cost: one pass over the tensor. */
tn_status tn__coder_measure(const tn__coder *coder, tn_codec codec, const tn__form *form,
                            tn__difference *difference, tn_error *error);

/* Returns the codec, or NULL if no codec has this number. */
const tn__coder *tn__coder_find(tn_codec codec);

extern const tn__coder tn__coder_bits, tn__coder_csr, tn__coder_float16, tn__coder_float10,
    tn__coder_float8;

#endif
