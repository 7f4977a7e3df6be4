/* codec.c - lists the codecs in one table. */
#include "engine/codecs/codec.h"

const tn__coder *tn__coder_find(tn_codec codec) {
    static const tn__coder *const coders[TN_CODEC_COUNT] = {
        [TN_CODEC_BITS] = &tn__coder_bits,       [TN_CODEC_CSR] = &tn__coder_csr,
        [TN_CODEC_FLOAT16] = &tn__coder_float16, [TN_CODEC_FLOAT10] = &tn__coder_float10,
        [TN_CODEC_FLOAT8] = &tn__coder_float8,
    };
    return (size_t)codec < TN_CODEC_COUNT ? coders[codec] : NULL;
}
