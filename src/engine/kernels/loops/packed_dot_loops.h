/* packed_dot_loops.h - the loops of packed_dot.c for one width of vectors. packed_dot.c includes
 * this file once per width, after it has defined DOT(name), DOT_VECTOR (bytes of a vector) and
 * DOT_TARGET.
 */
#define DOT_EACH (DOT_VECTOR / (uint32_t)sizeof(float))
#define DOT_PARTS (DOT_LANES / DOT_EACH)

/* A vector type, because compilers do not keep a short array in vector registers. */
typedef float DOT(vector) __attribute__((vector_size(DOT_VECTOR), aligned(4), may_alias));

/* Reads the low and high halves of bytes as floats, and subtracts `shift`. Compilers vectorise this
 * loop of unknown length, but not one of DOT_LANES bytes. */
DOT_TARGET static void DOT(split)(uint64_t count, const uint8_t *bytes, uint8_t shift,
                                  float *restrict low, float *restrict high) {
    for (uint64_t i = 0; i < count; i++) {
        low[i] = (float)(int8_t)((bytes[i] & 15) - shift);
        high[i] = (float)(int8_t)((bytes[i] >> 4) - shift);
    }
}

/* Adds the products of one block to the lanes. `shifted`: the numbers are already without zero
 * point. */
static inline __attribute__((always_inline)) void DOT(block)(uint64_t pairs, bool shifted,
                                                             float scale, float zero,
                                                             const float *low, const float *high,
                                                             const float *x, DOT(vector) * lanes) {
    for (uint64_t p = 0; p < pairs; p += DOT_LANES)
        for (uint32_t k = 0; k < DOT_PARTS; k++) {
            const uint64_t at = p + k * DOT_EACH;
            DOT(vector)
            even = *(const DOT(vector) *)(low + at), odd = *(const DOT(vector) *)(high + at);
            if (!shifted) even -= zero, odd -= zero;
            lanes[k] += scale * (even * *(const DOT(vector) *)(x + at) +
                                 odd * *(const DOT(vector) *)(x + pairs + at));
        }
}

DOT_TARGET static float DOT(row)(const tn__packed_row *row, const float *x) {
    float low[DOT_ROOM], high[DOT_ROOM], sums[DOT_LANES];
    DOT(vector) lanes[DOT_PARTS] = {{0}};
    const uint64_t pairs = row->block / 2, most = DOT_ROOM / pairs;
    const bool shifted = row->zeros == NULL;
    for (uint64_t first = 0; first < row->blocks; first += most) {
        uint64_t count = row->blocks - first < most ? row->blocks - first : most;
        DOT(split)(count * pairs, row->bytes + first * pairs, shifted ? 8 : 0, low, high);
        for (uint64_t b = 0; b < count; b++, x += row->block) {
            const float scale = row->scales[first + b];
            if (shifted)
                DOT(block)(pairs, true, scale, 0, low + b * pairs, high + b * pairs, x, lanes);
            else
                DOT(block)
            (pairs, false, scale, row->zeros[first + b], low + b * pairs, high + b * pairs, x,
             lanes);
        }
    }
    memcpy(sums, lanes, sizeof sums);
    for (uint32_t half = DOT_LANES / 2; half > 0; half /= 2)
        for (uint32_t l = 0; l < half; l++) sums[l] += sums[l + half];
    return sums[0];
}

#undef DOT
#undef DOT_VECTOR
#undef DOT_TARGET
#undef DOT_EACH
#undef DOT_PARTS
