/* attend.h - scaled dot-product attention of float32 in plain loops. All operators with attention
 * use it; they differ only in where queries, keys, values and masks are stored.
 *
 * One call computes one entry of the batch. TN__ATTEND_ROWS queries at a time are multiplied with
 * all keys that at least one of them sees. Their scores are in scratch memory, where they become
 * probabilities, which are then multiplied with the values. So the scratch has TN__ATTEND_ROWS x
 * keys numbers instead of queries x keys.
 */
#ifndef TN_KERNELS_ATTEND_H
#define TN_KERNELS_ATTEND_H

#include "engine/kernels/operands.h"

enum { TN__ATTEND_ROWS = 16 };

/* Where the rows of an operand are: element e of row r of head h is data[h * head + r * row +
 * e]. */
typedef struct tn__attend_side {
    float *data;
    uint64_t head, row;
} tn__attend_side;

/* A mask or bias for scores of shape [heads, queries, keys]. A mask has booleans (false: the key is
 * masked); a bias has floats that are added to the scores. A stride of 0 broadcasts the dimension.
 * Keys with an index of `keys` or more are masked. */
typedef struct tn__attend_bias {
    const void *data; /* the data of the mask or bias; NULL: there is no mask and no bias */
    bool is_mask;
    uint64_t head, row, key, keys;
} tn__attend_bias;

enum { TN__ATTEND_RAW, TN__ATTEND_CAPPED, TN__ATTEND_BIASED, TN__ATTEND_PROBABLE };

typedef struct tn__attend {
    /* number of query heads; number of key-value heads, which divides that of query heads */
    uint64_t heads, groups;
    uint64_t queries, keys, size, value_size;
    tn__attend_side q, k, v, y;
    tn__attend_bias bias[2];
    float scale, softcap; /* a `softcap` of 0 means that scores are not limited */
    uint64_t seen;        /* keys from this index on are masked */
    bool causal; /* whether the causal rule applies: query i sees only the keys up to i + offset */
    /* query i sees keys from i + offset - left to i + offset + right; negative: no limit */
    int64_t offset, left, right;
    /* added to the score of a key that the causal rule masks; -INFINITY: the key is ignored */
    float unseen;
    /* for each head: the score of an attention sink, a further term of the softmax's sum; NULL:
     * none */
    const float *sinks;
    bool smooth; /* whether every head has an attention sink with the score 0 */
    /* an array [heads, queries, keys] that receives the scores after `stage`; NULL: not wanted */
    float *scores;
    uint32_t stage;
    float *scratch; /* memory of tn__attend_scratch(queries, keys) bytes */
} tn__attend;

/* Returns the bytes of scratch for this number of queries and keys. */
uint64_t tn__attend_scratch(uint64_t queries, uint64_t keys);
void tn__attend_run(const tn__attend *it);

/* Describes the rows of batch entry `batch` of an operand. Each head has `size` elements per row.
 * The shape of the operand is [batch, length, heads * size] if `flat` is true, else [batch, heads,
 * length, size]. */
static inline tn__attend_side tn__attend_side_of(const tn_operand *x, bool flat, uint64_t batch,
                                                 uint64_t heads, uint64_t length, uint64_t size) {
    float *data = (float *)x->data + batch * heads * length * size;
    return flat ? (tn__attend_side){data, size, heads * size}
                : (tn__attend_side){data, length * size, size};
}

/* Copies `count` rows of each head, except rows that have the same address in both operands. */
static inline void tn__attend_copy(tn__attend_side to, uint64_t to_row, tn__attend_side from,
                                   uint64_t heads, uint64_t count, uint64_t size) {
    for (uint64_t h = 0; h < heads; h++)
        for (uint64_t r = 0; r < count; r++) {
            float *at = to.data + h * to.head + (to_row + r) * to.row;
            const float *source = from.data + h * from.head + r * from.row;
            if (at != source && size > 0) memcpy(at, source, size * sizeof *at);
        }
}

/* Applies a rotary embedding to the first 2 * half elements of one row of a head: rotates pairs of
 * elements by angles with the given cosines and sines. The pairs are elements i and i + half, or 2i
 * and 2i + 1 if `interleaved`. y may be x. */
static inline void tn__rotate(const float *x, float *y, const float *cosines, const float *sines,
                              uint64_t half, bool interleaved) {
    for (uint64_t i = 0; i < half; i++) {
        uint64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
        float first = x[a], second = x[b];
        y[a] = cosines[i] * first - sines[i] * second;
        y[b] = sines[i] * first + cosines[i] * second;
    }
}

/* Softmax of one row of float32, with the code of the operator Softmax
 * (families/reductions/softmax.c). y may be x. */
void tn__softmax_floats(uint64_t extent, const float *x, float *y);

#endif
