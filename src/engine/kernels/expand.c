/* expand.c - packed whole numbers of one scale as float32. See expand.h.
 *
 * A number with a sign is stored in two's complement: with f = 2^(bits - 1), it is (code ^ f) - f.
 * Numbers of 8 bits, and of 4 bits from a whole byte on, are expanded in loops for vectors.
 */
#include "engine/kernels/expand.h"

#include "engine/kernels/convert.h"

int32_t tn__packed_number(const uint8_t *bytes, uint64_t at, uint32_t bits, bool is_signed) {
    int32_t sign = is_signed ? 1 << (bits - 1) : 0;
    if (bits == 8) return (bytes[at] ^ sign) - sign;
    uint32_t each = 8 / bits, shift = (uint32_t)(at % each) * bits;
    int32_t code = bytes[at / each] >> shift & ((1 << bits) - 1);
    return (code ^ sign) - sign;
}

TN_WIDE static void expand_halves(const uint8_t *bytes, uint64_t count, int32_t sign, float scale,
                                  float zero, float *to) {
    TN_APART
    for (uint64_t b = 0; b < count; b++) {
        to[2 * b] = ((float)(((bytes[b] & 15) ^ sign) - sign) - zero) * scale;
        to[2 * b + 1] = ((float)(((bytes[b] >> 4) ^ sign) - sign) - zero) * scale;
    }
}

TN_WIDE static void expand_bytes(const uint8_t *bytes, uint64_t count, int32_t sign, float scale,
                                 float zero, float *to) {
    TN_APART
    for (uint64_t b = 0; b < count; b++) to[b] = ((float)((bytes[b] ^ sign) - sign) - zero) * scale;
}

void tn__packed_expand(const uint8_t *bytes, uint64_t at, uint64_t count, uint32_t bits,
                       bool is_signed, float scale, float zero, float *to) {
    uint64_t done = 0;
    if (bits == 8) {
        expand_bytes(bytes + at, count, is_signed ? 128 : 0, scale, zero, to);
        done = count;
    } else if (bits == 4 && at % 2 == 0) {
        expand_halves(bytes + at / 2, count / 2, is_signed ? 8 : 0, scale, zero, to);
        done = count - count % 2;
    }
    for (; done < count; done++)
        to[done] = ((float)tn__packed_number(bytes, at + done, bits, is_signed) - zero) * scale;
}

enum { DOT_LANES = TN__DOT_BYTES };

TN_WIDE static float dot_row(const tn__packed_row *row, const float *x) {
    float lanes[DOT_LANES] = {0};
    uint64_t pairs = row->block / 2;
    for (uint64_t b = 0; b < row->blocks; b++) {
        const uint8_t *bytes = row->bytes + b * pairs;
        const float *even = x + b * row->block, *odd = even + pairs;
        const float scale = row->scales[b], zero = row->zeros[b];
        for (uint64_t p = 0; p < pairs; p += DOT_LANES) {
            TN_APART
            for (uint64_t l = 0; l < DOT_LANES; l++)
                lanes[l] += scale * (((float)(bytes[p + l] & 15) - zero) * even[p + l] +
                                     ((float)(bytes[p + l] >> 4) - zero) * odd[p + l]);
        }
    }
    for (uint64_t half = DOT_LANES / 2; half > 0; half /= 2)
        for (uint64_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0];
}

float tn__packed_dot(const tn__packed_row *row, const float *x) { return dot_row(row, x); }

void tn__packed_pair(const float *x, uint64_t count, uint64_t block, float *to) {
    for (uint64_t first = 0; first < count; first += block, to += block)
        for (uint64_t i = 0; i < block; i++)
            to[i % 2 * (block / 2) + i / 2] = first + i < count ? x[first + i] : 0;
}
