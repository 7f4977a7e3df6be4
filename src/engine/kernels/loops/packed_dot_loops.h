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
DOT_TARGET static void DOT(split)(uint64_t count, const uint8_t *bytes, uint8_t flip, uint8_t shift,
                                  float *restrict low, float *restrict high) {
    for (uint64_t i = 0; i < count; i++) {
        low[i] = (float)(int8_t)(((bytes[i] & 15) ^ flip) - shift);
        high[i] = (float)(int8_t)(((bytes[i] >> 4) ^ flip) - shift);
    }
}

/* Reads bytes as floats. */
DOT_TARGET static void DOT(whole)(uint64_t count, const uint8_t *bytes, uint8_t flip, uint8_t shift,
                                  float *restrict to) {
    for (uint64_t i = 0; i < count; i++) to[i] = (float)((int32_t)(bytes[i] ^ flip) - shift);
}

/* Adds the products of one block to the lanes. `shifted`: the zero point is 0. */
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
    float numbers[2 * DOT_ROOM], sums[DOT_LANES];
    DOT(vector) lanes[DOT_PARTS] = {{0}};
    const uint64_t pairs = row->block / 2, most = DOT_ROOM / pairs;
    const bool shifted = row->zeros == NULL, halves = row->bits == 4;
    /* the first and second half of a block's numbers; from a block to the next one: `step` */
    const uint64_t step = halves ? pairs : row->block;
    const float *low = numbers, *high = numbers + (halves ? DOT_ROOM : pairs);
    for (uint64_t first = 0; first < row->blocks; first += most) {
        uint64_t count = row->blocks - first < most ? row->blocks - first : most;
        if (halves) DOT(split)
        (count * pairs, row->bytes + first * pairs, row->flip, row->shift, numbers,
         numbers + DOT_ROOM);
        else DOT(whole)(count * row->block, row->bytes + first * row->block, row->flip, row->shift,
                        numbers);
        for (uint64_t b = 0; b < count; b++, x += row->block) {
            const float scale = row->scales[first + b];
            if (shifted)
                DOT(block)(pairs, true, scale, 0, low + b * step, high + b * step, x, lanes);
            else
                DOT(block)
            (pairs, false, scale, row->zeros[first + b], low + b * step, high + b * step, x, lanes);
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
