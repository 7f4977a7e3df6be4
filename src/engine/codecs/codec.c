/* codec.c - lists the codecs in one table, and measures their errors. */
#include "engine/codecs/codec.h"

#include <math.h>

#include "engine/kernels/convert.h"

/* Adds the differences between `count` elements and their decoded values to the measured error. */
TN_WIDE static void codec_compare(const float *plain, const float *decoded, uint32_t count,
                                  tn__difference *sum) {
    float largest = 0;
    double squares = 0, of_squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        float difference = plain[i] == decoded[i] ? 0 : fabsf(plain[i] - decoded[i]);
        difference = plain[i] != plain[i] && decoded[i] != decoded[i] ? 0 : difference;
        float size = plain[i] != plain[i] || isinf(plain[i]) ? 0 : plain[i];
        largest = difference > largest || difference != difference ? difference : largest;
        squares += (double)difference * difference;
        of_squares += (double)size * size;
    }
    if (!(largest <= sum->largest)) sum->largest = largest;
    sum->squares += squares;
    sum->of_squares += of_squares;
}

tn_status tn__coder_measure(const tn__coder *coder, tn_codec codec, const tn__form *form,
                            tn__difference *difference, tn_error *error) {
    float decoded[TN__CODED_PART];
    uint64_t step = tn_codec_bytes(codec, TN__CODED_PART, 0);
    *difference = (tn__difference){0};
    for (uint64_t from = 0; from < form->count; from += TN__CODED_PART) {
        tn__form part = {.plain = decoded,
                         .count = form->count - from,
                         .code = form->code + from / TN__CODED_PART * step};
        if (part.count > TN__CODED_PART) part.count = TN__CODED_PART;
        part.room = tn_codec_bytes(codec, part.count, 0);
        TN_TRY(coder->decode(&part, error));
        codec_compare((const float *)form->plain + from, decoded, (uint32_t)part.count, difference);
    }
    return TN_OK;
}

const tn__coder *tn__coder_find(tn_codec codec) {
    static const tn__coder *const coders[TN_CODEC_COUNT] = {
        [TN_CODEC_BITS] = &tn__coder_bits,       [TN_CODEC_CSR] = &tn__coder_csr,
        [TN_CODEC_FLOAT16] = &tn__coder_float16, [TN_CODEC_FLOAT10] = &tn__coder_float10,
        [TN_CODEC_FLOAT8] = &tn__coder_float8,
    };
    return (size_t)codec < TN_CODEC_COUNT ? coders[codec] : NULL;
}
