/* attend.h - scaled dot-product attention of float32 in plain loops, for operators that differ only
 * in the places of queries, keys, values and masks.
 *
 * One call is one entry of the batch. A few rows of queries at a time are multiplied with all keys
 * that one of them may see; their scores lie in scratch, become probabilities there, and are
 * multiplied with the values. So scratch is TN__ATTEND_ROWS x keys numbers, not queries x keys.
 */
#ifndef TN_KERNELS_ATTEND_H
#define TN_KERNELS_ATTEND_H

#include "engine/kernels/operands.h"

enum { TN__ATTEND_ROWS = 16 };

/* Rows of one head: element e of row r of head h is data[h * head + r * row + e]. */
typedef struct tn__attend_side {
    float *data;
    uint64_t head, row;
} tn__attend_side;

/* A bias for scores [heads, queries, keys]: booleans (false: not seen), or numbers to be added. A
 * step of 0 repeats. Keys from `keys` on are not seen. */
typedef struct tn__attend_bias {
    const void *data; /* NULL: none */
    bool is_mask;
    uint64_t head, row, key, keys;
} tn__attend_bias;

enum { TN__ATTEND_RAW, TN__ATTEND_CAPPED, TN__ATTEND_BIASED, TN__ATTEND_PROBABLE };

typedef struct tn__attend {
    uint64_t heads, groups; /* heads of queries, a multiple of those of keys and values */
    uint64_t queries, keys, size, value_size;
    tn__attend_side q, k, v, y;
    tn__attend_bias bias[2];
    float scale, softcap;        /* softcap 0: none */
    uint64_t seen;               /* keys from here on are not seen */
    bool causal;                 /* query i sees keys up to i + offset */
    int64_t offset, left, right; /* a window around i + offset; below 0: open on that side */
    float unseen; /* added to the score of a key that a causal rule hides; -INFINITY: not seen at
                     all */
    const float *sinks; /* [heads]: one more term of each sum of powers; NULL: no such term */
    bool smooth;        /* the same with a score of 0 */
    float *scores; /* [heads, queries, keys] for the caller, of stage `stage`; NULL: not wanted */
    uint32_t stage;
    float *scratch; /* tn__attend_scratch */
} tn__attend;

/* Bytes of scratch for this number of queries and keys. */
uint64_t tn__attend_scratch(uint64_t queries, uint64_t keys);
void tn__attend_run(const tn__attend *it);

/* Head `size` elements wide of an operand [batch, length, heads * size], or [batch, heads, length,
 * size] where `flat` is false, at entry `batch`. */
static inline tn__attend_side tn__attend_side_of(const tn_operand *x, bool flat, uint64_t batch,
                                                 uint64_t heads, uint64_t length, uint64_t size) {
    float *data = (float *)x->data + batch * heads * length * size;
    return flat ? (tn__attend_side){data, size, heads * size}
                : (tn__attend_side){data, length * size, size};
}

/* `count` rows of each head from one place to another, or nothing where they are there already. */
static inline void tn__attend_copy(tn__attend_side to, uint64_t to_row, tn__attend_side from,
                                   uint64_t heads, uint64_t count, uint64_t size) {
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t r = 0; r < count; r++) {
            float *at = to.data + h * to.head + (to_row + r) * to.row;
            const float *source = from.data + h * from.head + r * from.row;
            if (at != source && size > 0) memcpy(at, source, size * sizeof *at);
        }
}

/* Rotates pairs of a head's first 2 * half elements by angles with the given cosines and sines:
 * element i with i + half, or 2i with 2i + 1 if interleaved. y may be x. */
static inline void tn__rotate(const float *x, float *y, const float *cosines, const float *sines,
                              uint64_t half, bool interleaved) {
    for (uint64_t i = 0; i < half; i++) {
        uint64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
        float first = x[a], second = x[b];
        y[a] = cosines[i] * first - sines[i] * second;
        y[b] = sines[i] * first + cosines[i] * second;
    }
}

/* As Softmax computes a row of float32 (families/reductions/softmax.c); y may be x. */
void tn__softmax_floats(uint64_t extent, const float *x, float *y);

#endif
