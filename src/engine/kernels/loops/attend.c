/* attend.c - scaled dot-product attention in plain loops (attend.h).
 *
 * The score of a query q and a key k is scale * (q . k), then softcap * tanh(score / softcap), then
 * biases are added. Softmax turns the scores of a query into probabilities; a query for which all
 * keys are masked gets zeros.
 * Source: the ONNX specification of Attention, opsets 23 to 25.
 */
#include "engine/kernels/loops/attend.h"

#include <math.h>

#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/product.h"

uint64_t tn__attend_scratch(uint64_t queries, uint64_t keys) {
    uint64_t rows = queries < TN__ATTEND_ROWS ? queries : TN__ATTEND_ROWS;
    return tn__mul_sat(tn__mul_sat(rows, keys), sizeof(float));
}

/* Computes the keys [first, last) that the causal rule and the window do not mask for query
 * `row`. */
static void attend_range(const tn__attend *it, uint64_t row, uint64_t *first, uint64_t *last) {
    int64_t at = (int64_t)row + it->offset, low = 0, high = (int64_t)it->seen;
    if (it->causal && isinf(it->unseen) && at + 1 < high) high = at + 1;
    if (it->left >= 0 && at - it->left > low) low = at - it->left;
    if (it->right >= 0 && it->right < INT64_MAX - at - 1 && at + it->right + 1 < high)
        high = at + it->right + 1;
    *last = high > 0 ? (uint64_t)high : 0;
    *first = (uint64_t)low < *last ? (uint64_t)low : *last;
}

static void attend_cap(float cap, uint64_t count, float *row) {
    for (uint64_t j = 0; j < count; j++) row[j] = cap * tn__tanhf(row[j] / cap);
}

static void attend_add(const tn__attend_bias *bias, uint64_t head, uint64_t query, uint64_t keys,
                       float *row) {
    uint64_t at = head * bias->head + query * bias->row;
    uint64_t count = bias->keys < keys ? bias->keys : keys;
    if (bias->data == NULL) return;
    if (bias->is_mask) {
        const uint8_t *mask = (const uint8_t *)bias->data + at;
        for (uint64_t j = 0; j < count; j++)
            if (mask[j * bias->key] == 0) row[j] = -INFINITY;
    } else {
        const float *numbers = (const float *)bias->data + at;
        for (uint64_t j = 0; j < count; j++) row[j] += numbers[j * bias->key];
    }
    for (uint64_t j = count; j < keys; j++) row[j] = -INFINITY;
}

static void attend_save(const tn__attend *it, uint32_t stage, uint64_t head, uint64_t query,
                        const float *row) {
    if (it->scores == NULL || it->stage != stage || it->keys == 0) return;
    memcpy(it->scores + (head * it->queries + query) * it->keys, row, it->keys * sizeof *row);
}

/* Softmax of one row of scores. With attention sinks the sum in the denominator has one more
 * term. */
static void attend_normalise(const tn__attend *it, uint64_t head, float *row) {
    bool sink = it->smooth || it->sinks != NULL;
    float most = -INFINITY;
    for (uint64_t j = 0; j < it->keys; j++) most = row[j] > most ? row[j] : most;
    if (most == -INFINITY) { /* all keys are masked for this query */
        for (uint64_t j = 0; j < it->keys; j++) row[j] = 0;
        return;
    }
    if (!sink) {
        tn__softmax_floats(it->keys, row, row);
        return;
    }
    float extra = it->sinks != NULL ? it->sinks[head] : 0;
    if (extra > most) most = extra;
    double sum = (double)tn__expf(extra - most);
    for (uint64_t j = 0; j < it->keys; j++) {
        row[j] = tn__expf(row[j] - most);
        sum += (double)row[j];
    }
    const float factor = (float)(1 / sum);
    for (uint64_t j = 0; j < it->keys; j++) row[j] *= factor;
}

/* Turns the scores of one query into probabilities: softcap, biases, masks, softmax. */
static void attend_row(const tn__attend *it, uint64_t head, uint64_t query, float *row) {
    uint64_t first, last;
    attend_range(it, query, &first, &last);
    attend_save(it, TN__ATTEND_RAW, head, query, row);
    if (it->softcap > 0) attend_cap(it->softcap, it->keys, row);
    attend_save(it, TN__ATTEND_CAPPED, head, query, row);
    for (uint32_t i = 0; i < 2; i++) attend_add(&it->bias[i], head, query, it->keys, row);
    if (it->causal && !isinf(it->unseen))
        for (uint64_t j = 0; j < it->keys; j++)
            if ((int64_t)j > (int64_t)query + it->offset) row[j] += it->unseen;
    for (uint64_t j = 0; j < first && j < it->keys; j++) row[j] = -INFINITY;
    for (uint64_t j = last; j < it->keys; j++) row[j] = -INFINITY;
    attend_save(it, TN__ATTEND_BIASED, head, query, row);
    attend_normalise(it, head, row);
    attend_save(it, TN__ATTEND_PROBABLE, head, query, row);
}

static void attend_rows(const tn__attend *it, uint64_t head, uint64_t query, uint64_t rows) {
    uint64_t group = head / (it->heads / it->groups), first, last, keys = it->keys;
    /* the last of these queries sees every key that an earlier one sees, so its last key limits all
     * of them */
    attend_range(it, query + rows - 1, &first, &last);
    if (it->scores == NULL && last < keys) keys = last;
    tn__product scores = {.rows = rows,
                          .columns = keys,
                          .inner = it->size,
                          .a = it->q.data + head * it->q.head + query * it->q.row,
                          .b = it->k.data + group * it->k.head,
                          .c = it->scratch,
                          .a_row = it->q.row,
                          .a_inner = 1,
                          .b_inner = 1,
                          .b_column = it->k.row,
                          .c_row = it->keys,
                          .scale = (double)it->scale};
    tn__product values = {.rows = rows,
                          .columns = it->value_size,
                          .inner = keys,
                          .a = it->scratch,
                          .b = it->v.data + group * it->v.head,
                          .c = it->y.data + head * it->y.head + query * it->y.row,
                          .a_row = it->keys,
                          .a_inner = 1,
                          .b_inner = it->v.row,
                          .b_column = 1,
                          .c_row = it->y.row,
                          .scale = 1};
    if (keys > 0) tn__product_run(&scores, TN_FLOAT32);
    for (uint64_t r = 0; r < rows; r++) {
        float *row = it->scratch + r * it->keys;
        for (uint64_t j = keys; j < it->keys; j++) row[j] = -INFINITY;
        attend_row(it, head, query + r, row);
    }
    tn__product_run(&values, TN_FLOAT32);
}

void tn__attend_run(const tn__attend *it) {
    for (uint64_t head = 0; head < it->heads; head++)
        for (uint64_t query = 0; query < it->queries; query += TN__ATTEND_ROWS) {
            uint64_t left = it->queries - query;
            attend_rows(it, head, query, left < TN__ATTEND_ROWS ? left : TN__ATTEND_ROWS);
        }
}
