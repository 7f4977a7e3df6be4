/* float10.c - encodes as float10: 5 bits of exponent, 4 of mantissa, three numbers in a word of 32
 * bits, the first in the lowest bits. The largest number is 63488; infinities as in float16.
 *
 * Rounding: small_float.h.
 * Source: Jain et al., "Gist" (2018), delayed precision reduction.
 */
#include "engine/codecs/codec.h"
#include "engine/codecs/small_float.h"
#include "engine/kernels/convert.h"

#define FLOAT10_FORMAT                                                                             \
    (tn__small_float) { .exponent = 5, .mantissa = 4, .inf = true }

TN_WIDE static void float10_pack(const float *from, uint64_t words, uint32_t *to) {
    for (uint64_t w = 0; w < words; w++)
        to[w] = tn__small_encode(FLOAT10_FORMAT, from[3 * w]) |
                tn__small_encode(FLOAT10_FORMAT, from[3 * w + 1]) << 10 |
                tn__small_encode(FLOAT10_FORMAT, from[3 * w + 2]) << 20;
}

TN_WIDE static void float10_unpack(const uint32_t *from, uint64_t words, float *to) {
    for (uint64_t w = 0; w < words; w++) {
        to[3 * w] = tn__small_decode(FLOAT10_FORMAT, from[w] & 0x3ff);
        to[3 * w + 1] = tn__small_decode(FLOAT10_FORMAT, from[w] >> 10 & 0x3ff);
        to[3 * w + 2] = tn__small_decode(FLOAT10_FORMAT, from[w] >> 20 & 0x3ff);
    }
}

static tn_status float10_encode(tn__form *form, tn_error *error) {
    (void)error;
    const float *from = form->plain;
    uint32_t *to = (uint32_t *)(void *)form->code;
    uint64_t words = form->count / 3;
    float rest[3] = {0};
    float10_pack(from, words, to);
    for (uint64_t i = 3 * words; i < form->count; i++) rest[i - 3 * words] = from[i];
    if (form->count % 3 != 0) float10_pack(rest, 1, to + words);
    return TN_OK;
}

static tn_status float10_decode(const tn__form *form, tn_error *error) {
    (void)error;
    const uint32_t *from = (const uint32_t *)(const void *)form->code;
    float *to = form->plain;
    uint64_t words = form->count / 3;
    float rest[3];
    float10_unpack(from, words, to);
    if (form->count % 3 == 0) return TN_OK;
    float10_unpack(from + words, 1, rest);
    for (uint64_t i = 3 * words; i < form->count; i++) to[i] = rest[i - 3 * words];
    return TN_OK;
}

const tn__coder tn__coder_float10 = {
    .lossy = true, .encode = float10_encode, .decode = float10_decode};
