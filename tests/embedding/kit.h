/* kit.h - a plain table for tests: every row in memory, updated by loops that share nothing with
 * the library. */
#ifndef TN_TESTS_EMBEDDING_KIT_H
#define TN_TESTS_EMBEDDING_KIT_H

#include "../support.h"

#include <math.h>
#include <unistd.h>

#include <tenure/embedding.h>

#include "base/base.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* A path of this process and its children alone. */
static inline const char *kit_path(void) {
    static char path[128];
    const char *folder = getenv("TMPDIR");
    if (path[0] != '\0') return path;
    snprintf(path, sizeof path, "%.80s/tenure-rows-%ld", folder != NULL ? folder : "/tmp",
             (long)getpid());
    return path;
}

static inline void kit_remove(const char *path) {
    static const char *const suffixes[] = {"", ".journal", ".checkpoint"};
    char name[160];
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name);
    }
}

/* --- the plain table --- */

typedef struct plain {
    tn_embedding_table table;
    float *values, *state; /* [rows x dim]; row-wise state in the first of each row */
} plain;

/* As a number of the table's type is when it was stored and read again. */
static inline float plain_round(tn_dtype type, float value) {
    uint32_t bits;
    if (type == TN_FLOAT32) return value;
    if (type == TN_BFLOAT16) {
        memcpy(&bits, &value, sizeof bits);
        bits += 0x7fff + (bits >> 16 & 1);
        bits &= 0xffff0000u;
        memcpy(&value, &bits, sizeof bits);
        return value;
    }
    _Static_assert(sizeof(float) == 4, "");
    double most = 65520, magnitude = fabs((double)value); /* float16 */
    if (magnitude >= most) return copysignf(INFINITY, value);
    int exponent;
    (void)frexp(magnitude, &exponent);
    double unit = ldexp(1, exponent - 11 < -24 ? -24 : exponent - 11);
    return (float)(rint((double)value / unit) * unit);
}

static inline void plain_open(plain *p, const tn_embedding_table *table) {
    p->table = *table;
    p->values = calloc(table->rows * table->dim, sizeof *p->values);
    p->state = calloc(table->rows * table->dim, sizeof *p->state);
    assert_true(p->values != NULL && p->state != NULL);
}

static inline void plain_close(plain *p) {
    free(p->values);
    free(p->state);
}

static inline void plain_copy(plain *to, const plain *from) {
    size_t size = (size_t)from->table.rows * from->table.dim * sizeof *from->values;
    memcpy(to->values, from->values, size);
    memcpy(to->state, from->state, size);
}

static inline void plain_bag(const tn_embedding_batch *batch, uint32_t bag, uint32_t *first,
                             uint32_t *end) {
    *first = batch->bags != NULL ? batch->bags[bag] : bag;
    *end = batch->bags == NULL           ? bag + 1
           : bag + 1 == batch->bag_count ? batch->row_count
                                         : batch->bags[bag + 1];
}

static inline void plain_sums(const plain *p, const tn_embedding_batch *batch, float *sums) {
    uint32_t dim = p->table.dim, first, end;
    for (uint32_t bag = 0; bag < batch->bag_count; bag++) {
        plain_bag(batch, bag, &first, &end);
        for (uint32_t d = 0; d < dim; d++) {
            float sum = 0;
            for (uint32_t i = first; i < end; i++) {
                float value = p->values[(size_t)batch->rows[i] * dim + d];
                sum += batch->weights != NULL ? batch->weights[i] * value : value;
            }
            sums[(size_t)bag * dim + d] =
                batch->mean && end > first + 1 ? sum / (float)(end - first) : sum;
        }
    }
}

static inline void plain_row(plain *p, uint32_t row, const float *g,
                             const tn_embedding_step *step) {
    uint32_t dim = p->table.dim;
    float *values = p->values + (size_t)row * dim, *state = p->state + (size_t)row * dim;
    float squares = 0;
    for (uint32_t d = 0; d < dim; d++) squares += g[d] * g[d];
    if (p->table.rule == TN_EMBEDDING_ROWWISE_ADAGRAD) state[0] += squares / (float)dim;
    for (uint32_t d = 0; d < dim; d++) {
        float change = step->rate * g[d];
        if (p->table.rule == TN_EMBEDDING_ADAGRAD) {
            state[d] += g[d] * g[d];
            change = step->rate * g[d] / (sqrtf(state[d]) + step->epsilon);
        } else if (p->table.rule == TN_EMBEDDING_ROWWISE_ADAGRAD) {
            change = step->rate / (sqrtf(state[0]) + step->epsilon) * g[d];
        }
        values[d] = plain_round(p->table.type, values[d] - change);
    }
}

/* Row by row of the whole table: slow, and nothing to get wrong. */
static inline void plain_update(plain *p, const tn_embedding_batch *batch, const float *gradients,
                                const tn_embedding_step *step) {
    uint32_t dim = p->table.dim, first, end;
    float *g = calloc(dim, sizeof *g);
    bool *done = calloc(batch->row_count + 1, sizeof *done);
    assert_true(g != NULL && done != NULL);
    for (uint32_t i = 0; i < batch->row_count; i++) {
        if (done[i]) continue;
        memset(g, 0, dim * sizeof *g);
        for (uint32_t bag = 0; bag < batch->bag_count; bag++) {
            plain_bag(batch, bag, &first, &end);
            for (uint32_t k = first; k < end; k++) {
                if (batch->rows[k] != batch->rows[i]) continue;
                float factor = batch->weights != NULL ? batch->weights[k] : 1;
                if (batch->mean) factor /= (float)(end - first);
                for (uint32_t d = 0; d < dim; d++)
                    g[d] += factor * gradients[(size_t)bag * dim + d];
                done[k] = true;
            }
        }
        plain_row(p, batch->rows[i], g, step);
    }
    free(g);
    free(done);
}

/* What the library says that a table is, row by row, in a cache of its own. */
static inline void plain_read(plain *p, tn_embedding *e) {
    for (uint32_t row = 0; row < p->table.rows; row++) {
        tn_embedding_batch batch = {.rows = &row, .row_count = 1, .bag_count = 1};
        assert_ok(tn_embedding_lookup(e, &batch, p->values + (size_t)row * p->table.dim, &failure));
    }
}

static inline void plain_compare(const plain *p, tn_embedding *e) {
    plain now;
    size_t size = (size_t)p->table.rows * p->table.dim * sizeof *p->values;
    plain_open(&now, &p->table);
    plain_read(&now, e);
    for (size_t i = 0; i < p->table.rows * p->table.dim; i++)
        if (memcmp(&now.values[i], &p->values[i], sizeof *p->values) != 0)
            fail_msg("row %zu, number %zu: %a, not %a\n", i / p->table.dim, i % p->table.dim,
                     (double)now.values[i], (double)p->values[i]);
    assert_memory_equal(now.values, p->values, size);
    plain_close(&now);
}

/* --- random batches --- */

enum { KIT_ROWS = 24, KIT_BAGS = 8 };

typedef struct kit_batch {
    tn_embedding_batch batch;
    uint32_t rows[KIT_ROWS], bags[KIT_BAGS];
    float weights[KIT_ROWS];
} kit_batch;

static inline float kit_number(tn__random *random) {
    return (float)tn__random_below(random, 2001) / 1000 - 1;
}

/* Few different rows, popular ones first, in bags that may be empty. */
static inline void kit_draw(kit_batch *it, uint64_t row_count, uint32_t most, tn__random *random) {
    tn_embedding_batch *batch = &it->batch;
    *batch = (tn_embedding_batch){.rows = it->rows};
    batch->row_count = 1 + (uint32_t)tn__random_below(random, most);
    for (uint32_t i = 0; i < batch->row_count; i++) {
        uint64_t a = tn__random_below(random, row_count), b = tn__random_below(random, row_count);
        it->rows[i] = (uint32_t)(a < b ? a : b);
        it->weights[i] = kit_number(random);
    }
    if (tn__random_below(random, 2)) batch->weights = it->weights;
    batch->bag_count = batch->row_count < KIT_BAGS ? batch->row_count : KIT_BAGS;
    batch->mean = tn__random_below(random, 3) == 0;
    if (batch->row_count <= KIT_BAGS && tn__random_below(random, 3) == 0) return;
    batch->bags = it->bags;
    it->bags[0] = 0;
    for (uint32_t i = 1; i < batch->bag_count; i++) {
        uint32_t left = batch->row_count - it->bags[i - 1];
        it->bags[i] = it->bags[i - 1] + (uint32_t)tn__random_below(random, left + 1) / 2;
    }
}

#endif
