/* float8.c - encodes as float8: 4 bits of exponent, 3 of mantissa. The largest number is 448; there
 * are no infinities.
 *
 * Rounding: small_float.h.
 * Source: Jain et al., "Gist" (2018), delayed precision reduction.
 */
#include "engine/codecs/codec.h"
#include "engine/codecs/small_float.h"
#include "engine/kernels/convert.h"

#define FLOAT8_FORMAT                                                                              \
    (tn__small_float) { .exponent = 4, .mantissa = 3, .inf = false }

TN_WIDE static void float8_pack(const float *from, uint64_t count, uint8_t *to) {
    for (uint64_t i = 0; i < count; i++) to[i] = (uint8_t)tn__small_encode(FLOAT8_FORMAT, from[i]);
}

TN_WIDE static void float8_unpack(const uint8_t *from, uint64_t count, float *to) {
    for (uint64_t i = 0; i < count; i++) to[i] = tn__small_decode(FLOAT8_FORMAT, from[i]);
}

static tn_status float8_encode(tn__form *form, tn_error *error) {
    (void)error;
    float8_pack(form->plain, form->count, (uint8_t *)form->code);
    return TN_OK;
}

static tn_status float8_decode(const tn__form *form, tn_error *error) {
    (void)error;
    float8_unpack((const uint8_t *)form->code, form->count, form->plain);
    return TN_OK;
}

const tn__coder tn__coder_float8 = {
    .lossy = true, .encode = float8_encode, .decode = float8_decode};
