/* float16.c - encodes as float16: 5 bits of exponent, 10 of mantissa, as in IEEE 754. The largest
 * number is 65504.
 *
 * Rounding: small_float.h.
 * Source: Jain et al., "Gist" (2018), delayed precision reduction.
 */
#include "engine/codecs/codec.h"
#include "engine/codecs/small_float.h"
#include "engine/kernels/convert.h"

#define FLOAT16_FORMAT                                                                             \
    (tn__small_float) { .exponent = 5, .mantissa = 10, .inf = true }

TN_WIDE static void float16_pack(const float *from, uint64_t count, uint16_t *to) {
    for (uint64_t i = 0; i < count; i++)
        to[i] = (uint16_t)tn__small_encode(FLOAT16_FORMAT, from[i]);
}

TN_WIDE static void float16_unpack(const uint16_t *from, uint64_t count, float *to) {
    for (uint64_t i = 0; i < count; i++) to[i] = tn__small_decode(FLOAT16_FORMAT, from[i]);
}

static tn_status float16_encode(tn__form *form, tn_error *error) {
    (void)error;
    float16_pack(form->plain, form->count, (uint16_t *)form->code);
    return TN_OK;
}

static tn_status float16_decode(const tn__form *form, tn_error *error) {
    (void)error;
    float16_unpack((const uint16_t *)form->code, form->count, form->plain);
    return TN_OK;
}

const tn__coder tn__coder_float16 = {
    .lossy = true, .encode = float16_encode, .decode = float16_decode};
