/* Products of matrices and quantisation in plain loops against their definitions. */
#include "count.h"
#include "nn.h"

#include "engine/kernels/loops/packed_dot.h"
#include "engine/kernels/loops/product.h"

/* --- shapes of factors: batches that broadcast, vectors --- */

typedef struct product_case {
    uint32_t a_rank, b_rank, rank; /* rank: of the batch */
    int64_t a[6], b[6], batch[4], rows, inner, columns;
} product_case;

static product_case product_draw(tn__random *random) {
    product_case c = {.rows = nn_in(random, 1, 9),
                      .inner = nn_in(random, 0, nn_often(random, 4) ? 9 : 300),
                      .columns = nn_in(random, 1, nn_often(random, 4) ? 9 : 150)};
    uint32_t a_batch = (uint32_t)tn__random_below(random, 4), b_batch;
    b_batch = (uint32_t)tn__random_below(random, 4);
    c.rank = a_batch > b_batch ? a_batch : b_batch;
    for (uint32_t d = 0; d < c.rank; d++) {
        int64_t extent = nn_in(random, 1, 3);
        uint32_t pick = (uint32_t)tn__random_below(random, 4);
        bool has_a = d + a_batch >= c.rank, has_b = d + b_batch >= c.rank;
        if (has_a) c.a[c.a_rank++] = pick == 0 ? 1 : extent;
        if (has_b) c.b[c.b_rank++] = pick == 1 ? 1 : extent;
        c.batch[d] = (has_a && pick != 0) || (has_b && pick != 1) ? extent : 1;
    }
    if (a_batch > 0 || nn_often(random, 3))
        c.a[c.a_rank++] = c.rows;
    else
        c.rows = 1;
    c.a[c.a_rank++] = c.inner;
    c.b[c.b_rank++] = c.inner;
    if (b_batch > 0 || nn_often(random, 3))
        c.b[c.b_rank++] = c.columns;
    else
        c.columns = 1;
    return c;
}

/* Which matrix of a factor belongs to matrix `at` of the result. */
static uint64_t product_matrix(const product_case *c, const int64_t *shape, uint32_t rank,
                               uint64_t at) {
    uint64_t result = 0, step = 1;
    uint32_t own = rank > 2 ? rank - 2 : 0;
    for (uint32_t d = 0; d < c->rank; d++) {
        uint64_t place = at % (uint64_t)c->batch[c->rank - 1 - d];
        at /= (uint64_t)c->batch[c->rank - 1 - d];
        if (d >= own) continue;
        result += (shape[own - 1 - d] == 1 ? 0 : place) * step;
        step *= (uint64_t)shape[own - 1 - d];
    }
    return result;
}

typedef struct product_want {
    double sum, size;
} product_want;

/* Element `at` of the product; zeros are subtracted first. */
static product_want product_expect(const nn_op *op, const product_case *c, uint32_t right,
                                   const double *zeros, uint64_t at) {
    uint64_t columns = (uint64_t)c->columns, rows = (uint64_t)c->rows, inner = (uint64_t)c->inner;
    uint64_t j = at % columns, i = at / columns % rows, matrix = at / columns / rows;
    uint64_t a = product_matrix(c, c->a, c->a_rank, matrix) * rows * inner + i * inner;
    uint64_t b = product_matrix(c, c->b, c->b_rank, matrix) * inner * columns + j;
    product_want want = {0};
    for (uint64_t k = 0; k < inner; k++) {
        double term = (number_get(op->inputs[0], a + k) - zeros[0]) *
                      (number_get(op->inputs[right], b + k * columns) - zeros[1]);
        want.sum += term;
        want.size += fabs(term);
    }
    return want;
}

static void matmul_multiplies_as_numpy_does(void **state) {
    (void)state;
    static const tn_dtype whole[] = {TN_INT32, TN_UINT32, TN_INT64, TN_UINT64};
    static const double none[2] = {0, 0};
    for (uint64_t seed = 1; seed <= case_count(400, 40); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "MatMul", .version = 13};
        product_case c = product_draw(&random);
        tn_dtype dtype =
            nn_often(&random, 3) ? nn_real(&random) : whole[tn__random_below(&random, 4)];
        double most = number_is_real(dtype) ? 1 : 99;
        nn_input(&op, &random, 0, dtype, c.a_rank, c.a, -most, most);
        nn_input(&op, &random, 1, dtype, c.b_rank, c.b, -most, most);
        nn_run_well(&op, -1);
        for (uint64_t i = 0; i < kit_count(&op.outputs[0]); i++) {
            product_want want = product_expect(&op, &c, 1, none, i);
            nn_near(&op, 0, i, want.sum, number_is_real(dtype) ? want.size : 0, seed);
        }
        nn_clear(&op);
    }
}

static void integers_wrap_around(void **state) {
    (void)state;
    tn__random random = {1};
    nn_op op = {.type = "MatMul", .version = 13};
    nn_input(&op, &random, 0, TN_INT32, 1, (int64_t[]){2}, 0, 1);
    nn_input(&op, &random, 1, TN_INT32, 1, (int64_t[]){2}, 0, 1);
    int32_t *a = op.arrays[0].data, *b = op.arrays[1].data;
    a[0] = a[1] = b[0] = b[1] = INT32_MAX;
    nn_run_well(&op, -1);
    assert_int_equal(*(int32_t *)op.outputs[0].data, 2); /* 2 (2^31 - 1)^2 modulo 2^32 */
    nn_clear(&op);
}

static void gemm_scales_transposes_and_adds(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(400, 40); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "Gemm", .version = 13};
        int64_t m = nn_in(&random, 1, 9), n = nn_in(&random, 1, nn_often(&random, 4) ? 9 : 150);
        int64_t k = nn_in(&random, 0, nn_often(&random, 4) ? 9 : 200);
        bool flip_a = !nn_often(&random, 2), flip_b = !nn_often(&random, 2);
        double alpha = nn_often(&random, 2) ? 1 : 0.25, beta = nn_often(&random, 2) ? 1 : -2.5;
        int64_t a[2] = {flip_a ? k : m, flip_a ? m : k}, b[2] = {flip_b ? n : k, flip_b ? k : n};
        int64_t full[2] = {m, n}, own[2];
        uint32_t c_rank = number_broadcast(&random, 2, full, own);
        tn_dtype dtype = nn_real(&random);
        bool adds = nn_often(&random, 4), over;
        nn_input(&op, &random, 0, dtype, 2, a, -1, 1);
        nn_input(&op, &random, 1, dtype, 2, b, -1, 1);
        if (adds) nn_input(&op, &random, 2, dtype, c_rank, own, -1, 1);
        over = adds && kit_count(op.inputs[2]) == (uint64_t)(m * n);
        nn_int(&op, "transA", flip_a);
        nn_int(&op, "transB", flip_b);
        nn_float(&op, "alpha", alpha);
        nn_float(&op, "beta", beta);
        nn_run_well(&op, over && nn_often(&random, 2) ? 2 : -1);
        for (uint64_t i = 0; i < (uint64_t)(m * n); i++) {
            int64_t row = (int64_t)i / n, column = (int64_t)i % n;
            double sum = 0, size = 0, more = 0;
            for (int64_t l = 0; l < k; l++) {
                double term =
                    alpha *
                    number_get(op.inputs[0], (uint64_t)(flip_a ? l * m + row : row * k + l)) *
                    number_get(op.inputs[1], (uint64_t)(flip_b ? column * k + l : l * n + column));
                sum += term;
                size += fabs(term);
            }
            if (adds)
                more =
                    beta * number_get(op.inputs[2], number_place(op.inputs[2], &op.outputs[0], i));
            nn_near(&op, 0, i, sum + more, size + fabs(more), seed);
        }
        nn_clear(&op);
    }
}

static void products_of_bytes_are_exact(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        tn__random random = {seed};
        bool requantises = nn_often(&random, 2);
        nn_op op = {.type = requantises ? "QLinearMatMul" : "MatMulInteger", .version = 10};
        product_case c = product_draw(&random);
        tn_dtype of_a = nn_often(&random, 2) ? TN_UINT8 : TN_INT8;
        tn_dtype of_b = nn_often(&random, 2) ? TN_UINT8 : TN_INT8;
        tn_dtype of_y = nn_often(&random, 2) ? TN_UINT8 : TN_INT8;
        bool by_row = c.a_rank == 2 && !nn_often(&random, 3);
        bool by_column = c.b_rank == 2 && !nn_often(&random, 3);
        uint32_t right = requantises ? 3 : 1, zero_a = 2, zero_b = requantises ? 5 : 3;
        nn_input(&op, &random, 0, of_a, c.a_rank, c.a, -128, 128);
        nn_input(&op, &random, right, of_b, c.b_rank, c.b, -128, 128);
        nn_input(&op, &random, zero_a, of_a, by_row, &c.rows, -9, 9);
        nn_input(&op, &random, zero_b, of_b, by_column, &c.columns, -9, 9);
        if (requantises) {
            nn_input(&op, &random, 1, TN_FLOAT32, by_row, &c.rows, 0.01, 0.1);
            nn_input(&op, &random, 4, TN_FLOAT32, by_column, &c.columns, 0.01, 0.1);
            nn_input(&op, &random, 6, TN_FLOAT32, 0, NULL, 0.5, 9);
            nn_input(&op, &random, 7, of_y, 0, NULL, -9, 9);
        }
        nn_run_well(&op, -1);
        for (uint64_t i = 0; i < kit_count(&op.outputs[0]); i++) {
            uint64_t j = by_column ? i % (uint64_t)c.columns : 0;
            uint64_t row = by_row ? i / (uint64_t)c.columns % (uint64_t)c.rows : 0;
            double zeros[] = {number_get(op.inputs[zero_a], row), number_get(op.inputs[zero_b], j)};
            double got = number_get(&op.outputs[0], i);
            double want = product_expect(&op, &c, right, zeros, i).sum;
            if (requantises) {
                want *= number_get(op.inputs[1], row) * number_get(op.inputs[4], j) /
                        number_get(op.inputs[6], 0);
                want += number_get(op.inputs[7], 0);
                want = fmin(fmax(want, of_y == TN_INT8 ? -128 : 0), of_y == TN_INT8 ? 127 : 255);
            }
            if (fabs(got - want) > (requantises ? 0.501 : 0))
                fail_msg("%s, seed %llu: %g instead of %g", op.type, (unsigned long long)seed, got,
                         want);
        }
        nn_clear(&op);
    }
}

/* Equal terms are the worst: each addition to one long sum errs the same way. */
static void long_sums_stay_accurate(void **state) {
    (void)state;
    enum { TERMS = 50000 };
    static const char *const types[] = {"MatMul", "Gemm", "Conv", "ConvTranspose"};
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t flip = 0; flip < (k == 1 ? 2 : 1); flip++) {
            tn__random random = {1};
            nn_op op = {.type = types[k], .version = 13};
            int64_t a[4] = {1, TERMS, 1, 1}, b[4] = {TERMS, 1, 1, 1}, rank = k < 2 ? 2 : 4;
            if (k == 2 || flip) b[0] = 1, b[1] = TERMS;
            nn_input(&op, &random, 0, TN_FLOAT32, (uint32_t)rank, a, 0.1, 0.1);
            nn_input(&op, &random, 1, TN_FLOAT32, (uint32_t)rank, b, 0.7, 0.7);
            if (flip) nn_int(&op, "transB", 1);
            nn_run_well(&op, -1);
            double want = TERMS * (double)0.1f * (double)0.7f;
            double error = fabs(number_get(&op.outputs[0], 0) - want) / want;
            if (error > 1e-5) fail_msg("%s: a relative error of %g", op.type, error);
            nn_clear(&op);
        }
}

/* --- quantisation --- */

static void numbers_are_quantised_and_come_back(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(200, 20); seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "QuantizeLinear", .version = 13};
        nn_op back = {.type = "DequantizeLinear", .version = 13};
        int64_t shape[3] = {nn_in(&random, 1, 4), nn_in(&random, 2, 5), nn_in(&random, 1, 40)};
        int64_t axis = nn_in(&random, -3, 2), at = axis < 0 ? axis + 3 : axis;
        bool each = !nn_often(&random, 2);
        tn_dtype dtype = nn_often(&random, 2) ? TN_UINT8 : TN_INT8;
        nn_input(&op, &random, 0, TN_FLOAT32, 3, shape, -60, 60);
        nn_input(&op, &random, 1, TN_FLOAT32, each, &shape[at], 0.1, 1);
        nn_input(&op, &random, 2, dtype, each, &shape[at], -9, 90);
        nn_int(&op, "axis", axis);
        nn_int(&back, "axis", axis);
        nn_run_well(&op, -1);
        back.inputs[0] = &op.outputs[0];
        back.inputs[1] = op.inputs[1];
        back.inputs[2] = op.inputs[2];
        back.input_count = 3;
        nn_run_well(&back, -1);
        for (uint64_t i = 0; i < kit_count(op.inputs[0]); i++) {
            int64_t position[3];
            nn_position(op.inputs[0], i, position);
            uint64_t which = each ? (uint64_t)position[at] : 0;
            double scale = number_get(op.inputs[1], which), zero = number_get(op.inputs[2], which);
            double want = number_get(op.inputs[0], i) / scale + zero;
            double got = number_get(&op.outputs[0], i);
            want = fmin(fmax(want, dtype == TN_INT8 ? -128 : 0), dtype == TN_INT8 ? 127 : 255);
            if (fabs(got - want) > 0.50001)
                fail_msg("seed %llu: %g instead of %g", (unsigned long long)seed, got, want);
            assert_true(
                number_near(number_get(&back.outputs[0], i), (got - zero) * scale, 1e-6, 0));
        }
        nn_clear(&back);
        nn_clear(&op);
    }
}

static void quantisation_rounds_half_to_even_and_saturates(void **state) {
    (void)state;
    const float in[] = {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 1e9f, -1e9f, INFINITY, -INFINITY, 126.5f};
    const int8_t want[] = {0, 2, 2, 0, -2, 127, -128, 127, -128, 126};
    tn__random random = {1};
    nn_op op = {.type = "QuantizeLinear", .version = 13};
    nn_input(&op, &random, 0, TN_FLOAT32, 1, (int64_t[]){10}, 0, 1);
    nn_input(&op, &random, 1, TN_FLOAT32, 0, NULL, 1, 1);
    nn_input(&op, &random, 2, TN_INT8, 0, NULL, 0, 0);
    memcpy(op.arrays[0].data, in, sizeof in);
    nn_run_well(&op, -1);
    assert_memory_equal(op.outputs[0].data, want, sizeof want);
    nn_clear(&op);
}

static void dynamic_quantisation_covers_the_range(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        tn__random random = {seed};
        nn_op op = {.type = "DynamicQuantizeLinear", .version = 11, .output_count = 3};
        int64_t count = nn_in(&random, 1, 200);
        double least = number_between(&random, -9, 5), most = least + 8;
        nn_input(&op, &random, 0, TN_FLOAT32, 1, &count, least, most);
        nn_run_well(&op, -1);
        double scale = number_get(&op.outputs[1], 0), zero = number_get(&op.outputs[2], 0);
        for (uint64_t i = 0; i < (uint64_t)count; i++) {
            double value = number_get(op.inputs[0], i);
            double back = (number_get(&op.outputs[0], i) - zero) * scale;
            if (fabs(back - value) > scale * 1.01)
                fail_msg("seed %llu: %g became %g", (unsigned long long)seed, value, back);
        }
        nn_clear(&op);
    }
}

static void products_refuse_what_does_not_fit(void **state) {
    (void)state;
    tn__random random = {1};
    nn_op op = {.type = "Gemm", .version = 13};
    nn_input(&op, &random, 0, TN_FLOAT32, 2, (int64_t[]){2, 3}, -1, 1);
    nn_input(&op, &random, 1, TN_FLOAT32, 2, (int64_t[]){3, 4}, -1, 1);
    nn_input(&op, &random, 2, TN_FLOAT32, 2, (int64_t[]){3, 4}, -1, 1);
    nn_refuses(&op, "an addend of other rows");
    op = (nn_op){.type = "MatMulInteger", .version = 10};
    nn_input(&op, &random, 0, TN_UINT8, 2, (int64_t[]){2, 3}, 0, 9);
    nn_input(&op, &random, 1, TN_UINT8, 2, (int64_t[]){3, 4}, 0, 9);
    nn_input(&op, &random, 2, TN_UINT8, 1, (int64_t[]){3}, 0, 9);
    nn_refuses(&op, "three zero points for two rows");
    op = (nn_op){.type = "QuantizeLinear", .version = 13};
    nn_input(&op, &random, 0, TN_FLOAT32, 2, (int64_t[]){2, 3}, 0, 9);
    nn_input(&op, &random, 1, TN_FLOAT32, 1, (int64_t[]){2}, 0, 9);
    nn_refuses(&op, "two scales along an axis of three");
}

/* --- sums in the order that product_loops.h states, whatever vectors there are --- */

static float product_by_order(const tn__product *p, uint64_t row, uint64_t column) {
    const bool dots = p->a_inner == 1 && p->b_inner == 1 && (p->b_column != 1 || p->columns == 1);
    const float *a = (const float *)p->a + row * p->a_row;
    const float *b = (const float *)p->b + column * p->b_column;
    const uint64_t lanes = dots ? 16 : 1, block = 64 * lanes;
    const uint64_t whole = p->inner - p->inner % lanes;
    float totals[16] = {0}, sum = 0;
    for (uint64_t k = 0; k < whole; k += block) {
        float part[16] = {0};
        for (uint64_t l = k; l < whole && l < k + block; l++)
            part[l % lanes] += a[l * p->a_inner] * b[l * p->b_inner];
        for (uint64_t i = 0; i < lanes; i++) totals[i] += part[i];
    }
    for (uint64_t k = whole; k < p->inner; k++) sum += a[k * p->a_inner] * b[k * p->b_inner];
    for (uint64_t i = 0; i < lanes; i++) sum += totals[i];
    return sum;
}

static void sums_have_one_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        tn__random random = {seed};
        const uint64_t m = (uint64_t)nn_in(&random, 1, 9), n = (uint64_t)nn_in(&random, 1, 200);
        const uint64_t k = (uint64_t)nn_in(&random, 1, seed % 5 == 0 ? 2300 : 300);
        const bool a_flips = nn_often(&random, 3), b_flips = nn_often(&random, 2);
        float *a = malloc(m * k * sizeof *a), *b = malloc(k * n * sizeof *b);
        float *c = malloc(m * n * sizeof *c);
        for (uint64_t i = 0; i < m * k; i++) a[i] = (float)nn_in(&random, -999, 999) / 7;
        for (uint64_t i = 0; i < k * n; i++) b[i] = (float)nn_in(&random, -999, 999) / 7;
        tn__product p = {.rows = m,
                         .columns = n,
                         .inner = k,
                         .a = a,
                         .b = b,
                         .c = c,
                         .a_row = a_flips ? 1 : k,
                         .a_inner = a_flips ? m : 1,
                         .b_inner = b_flips ? 1 : n,
                         .b_column = b_flips ? k : 1,
                         .c_row = n,
                         .scale = 1,
                         .addend_scale = 1};
        tn__product_run(&p, TN_FLOAT32);
        for (uint64_t i = 0; i < m * n; i++) {
            float want = product_by_order(&p, i / n, i % n);
            if (memcmp(&want, &c[i], sizeof want) != 0)
                fail_msg("seed %llu, element %llu: %.9g instead of %.9g", (unsigned long long)seed,
                         (unsigned long long)i, (double)c[i], (double)want);
        }
        free(a);
        free(b);
        free(c);
    }
}

/* --- packed numbers of 4 and 8 bits --- */

static float dot_number(const tn__packed_row *row, uint64_t at) {
    uint8_t byte = row->bytes[row->bits == 4 ? at / 2 : at];
    int32_t number = row->bits == 8 ? byte : at % 2 ? byte >> 4 : byte & 15;
    return (float)((number ^ row->flip) - row->shift);
}

/* The order that packed_dot_loops.h states: pair p of a block goes to lane p % 16, halves last. A
 * pair is a byte's two numbers, or numbers p and p + half of the block. */
static float dot_by_order(const tn__packed_row *row, const float *x) {
    float lanes[16] = {0};
    for (uint64_t b = 0; b < row->blocks; b++)
        for (uint64_t p = 0; p < row->block / 2; p++) {
            const bool bytes = row->bits == 8;
            const uint64_t first = b * row->block + (bytes ? p : 2 * p);
            const uint64_t second = first + (bytes ? row->block / 2 : 1);
            const float zero = row->zeros != NULL ? row->zeros[b] : 0;
            const float low = (dot_number(row, first) - zero) * x[first];
            const float high = (dot_number(row, second) - zero) * x[second];
            lanes[p % 16] += row->scales[b] * (low + high);
        }
    for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0];
}

/* Blocks of all allowed sizes, and rows of more numbers than are converted at a time; zero points
 * that are given, also no whole numbers, or the usual ones. */
static void packed_rows_have_one_order(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        tn__random random = {seed};
        const uint64_t block = 32u * (uint64_t)nn_in(&random, 1, seed % 3 == 0 ? 32 : 4);
        const uint64_t blocks = (uint64_t)nn_in(&random, 1, 40), count = block * blocks;
        const uint64_t given = count - (uint64_t)nn_in(&random, 0, (int64_t)block - 1);
        uint8_t *bytes = malloc(count);
        float *scales = malloc(blocks * sizeof *scales), *zeros = malloc(blocks * sizeof *zeros);
        float *x = calloc(count, sizeof *x), *pairs = malloc(count * sizeof *pairs);
        for (uint64_t i = 0; i < count; i++) bytes[i] = (uint8_t)nn_in(&random, 0, 255);
        for (uint64_t b = 0; b < blocks; b++) {
            scales[b] = (float)nn_in(&random, -99, 99) / 70;
            zeros[b] = (float)nn_in(&random, 0, 30) / 2;
        }
        for (uint64_t i = 0; i < given; i++) x[i] = (float)nn_in(&random, -999, 999) / 7;
        tn__packed_pair(x, given, block, pairs);
        for (uint32_t k = 0; k < 8; k++) {
            const uint8_t sign = k & 2 ? 0 : k & 4 ? 128 : 8;
            const tn__packed_row row = {.bytes = bytes,
                                        .scales = scales,
                                        .zeros = k % 2 == 0 ? NULL : zeros,
                                        .blocks = blocks,
                                        .block = block,
                                        .bits = k & 4 ? 8 : 4,
                                        .flip = sign,
                                        .shift = k == 2 ? 8 : sign};
            float found = tn__packed_dot(&row, k & 4 ? x : pairs), want = dot_by_order(&row, x);
            if (memcmp(&want, &found, sizeof want) != 0)
                fail_msg("seed %llu, %llu blocks of %llu: %.9g instead of %.9g",
                         (unsigned long long)seed, (unsigned long long)blocks,
                         (unsigned long long)block, (double)found, (double)want);
        }
        free(bytes), free(scales), free(zeros), free(x), free(pairs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_multiplies_as_numpy_does),
        cmocka_unit_test(integers_wrap_around),
        cmocka_unit_test(gemm_scales_transposes_and_adds),
        cmocka_unit_test(products_of_bytes_are_exact),
        cmocka_unit_test(long_sums_stay_accurate),
        cmocka_unit_test(numbers_are_quantised_and_come_back),
        cmocka_unit_test(quantisation_rounds_half_to_even_and_saturates),
        cmocka_unit_test(dynamic_quantisation_covers_the_range),
        cmocka_unit_test(products_refuse_what_does_not_fit),
        cmocka_unit_test(sums_have_one_order),
        cmocka_unit_test(packed_rows_have_one_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
