/* bits.c - a codec that stores one bit per element: whether the element is above 0. Decoding gives
 * 1.0 or 0.0.
 *
 * The gradient of Relu reads only whether Relu's output is above 0, so it computes the same bits
 * from the decoded tensor as from the original. A NaN counts as not above 0 in both cases.
 * Source: Jain et al., "Gist" (2018), binarise.
 */
#include "engine/codecs/codec.h"
#include "engine/kernels/convert.h"

/* Packs the bits: element i is bit i % 8 of byte i / 8. */
TN_WIDE static void bits_pack(const float *from, uint64_t count, uint8_t *to) {
    uint64_t whole = count / 8;
    for (uint64_t b = 0; b < whole; b++) {
        uint32_t byte = 0;
        for (uint32_t k = 0; k < 8; k++) byte |= (uint32_t)(from[8 * b + k] > 0) << k;
        to[b] = (uint8_t)byte;
    }
    if (count % 8 == 0) return;
    to[whole] = 0;
    for (uint64_t i = 8 * whole; i < count; i++)
        to[whole] = (uint8_t)(to[whole] | (from[i] > 0) << (i % 8));
}

TN_WIDE static void bits_unpack(const uint8_t *from, uint64_t count, float *to) {
    for (uint64_t b = 0; b < count / 8; b++) {
        uint32_t byte = from[b];
        for (uint32_t k = 0; k < 8; k++) to[8 * b + k] = (float)(byte >> k & 1);
    }
    for (uint64_t i = count - count % 8; i < count; i++) to[i] = (float)(from[i / 8] >> i % 8 & 1);
}

static tn_status bits_encode(tn__form *form, tn_error *error) {
    (void)error;
    bits_pack(form->plain, form->count, form->code);
    return TN_OK;
}

static tn_status bits_decode(const tn__form *form, tn_error *error) {
    (void)error;
    bits_unpack(form->code, form->count, form->plain);
    return TN_OK;
}

const tn__coder tn__coder_bits = {.encode = bits_encode, .decode = bits_decode};
