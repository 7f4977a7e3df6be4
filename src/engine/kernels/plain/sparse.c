/* sparse.c - convolutions and products from the sparse form of their weights (terms.h).
 *
 * SparseConv reads its input in planes (planes.h), SparseMatMul reads blocks of transposed rows of
 * x: so each weight costs a few vector operations for many positions. If x has few rows, they are
 * taken one by one. Results are rounded in the order of a row's places, on every machine.
 * Cost: 2 operations per value and position; a copy of the input.
 */
#include "engine/kernels/check.h"
#include "engine/kernels/planes.h"
#include "engine/kernels/post.h"
#include "engine/kernels/terms.h"

#define SPARSE_BAND 65536u /* floats of transposed rows: 256 KiB */
#define SPARSE_MOST 256u   /* positions that are computed at once */
#define SPARSE_FEW 8u      /* fewer rows are taken one by one */
#define SPARSE_ALIGN 64u

/* --- what both operators share --- */

typedef struct sparse_job {
    const tn_kernel_call *call;
    tn__terms_matrix matrix;
    tn__post post;
    const float *x, *bias, *summand; /* NULL: none */
    float *y;
    float alpha;
    bool one_bias;
    uint64_t *table; /* [columns] */
    float *sums;
} sparse_job;

static tn_status sparse_read(tn_kernel_call *call, sparse_job *job) {
    const tn_operand *bias = tn__call_input(call, 4), *summand = tn__call_input(call, 5);
    *job = (sparse_job){.call = call,
                        .x = call->inputs[0].data,
                        .y = call->outputs[0].data,
                        .alpha = (float)tn__attr_float(call->op, "alpha", 1)};
    TN_TRY(tn__terms_read(call, 1, &job->matrix));
    if (!tn__post_read(call->op, &job->post))
        return tn__call_fail(call, TN_E_INVALID, "an activation that is not known");
    TN_TRY(tn__check_count(call, 5, tn__operand_count(&call->outputs[0])));
    if (summand != NULL) job->summand = summand->data;
    if (bias == NULL) return TN_OK;
    job->bias = bias->data;
    job->one_bias = tn__operand_count(bias) == 1;
    return job->one_bias ? TN_OK : tn__check_count(call, 4, job->matrix.form.rows);
}

/* Row `row` of the matrix at `count` positions from `from` on, into the sums. */
static void sparse_row(const sparse_job *job, uint64_t row, const float *from, uint64_t count) {
    tn__terms_cursor cursor = tn__terms_begin(&job->matrix, row);
    tn__terms terms;
    memset(job->sums, 0, count * sizeof *job->sums);
    while (tn__terms_next(&job->matrix, &cursor, job->table, &terms))
        tn__terms_add(&terms, from, count, job->sums);
}

static float sparse_bias(const sparse_job *job, uint64_t row) {
    return job->bias == NULL ? 0 : job->bias[job->one_bias ? 0 : row];
}

/* Results that lie together, from element `at` on. */
static void sparse_put(const sparse_job *job, uint64_t row, const float *sums, uint64_t count,
                       uint64_t at) {
    float bias = sparse_bias(job, row), *to = job->y + at;
    const float *summand = job->summand;
    if (summand == NULL)
        for (uint64_t i = 0; i < count; i++) to[i] = sums[i] + bias;
    else
        for (uint64_t i = 0; i < count; i++) to[i] = sums[i] + bias + summand[at + i];
    tn__post_run(&job->post, to, count);
}

/* Scratch: table, sums, planes. */
static uint64_t sparse_scratch(uint64_t columns, uint64_t positions, uint64_t floats) {
    uint64_t table = tn__planes_up(tn__mul_sat(columns, sizeof(uint64_t)), SPARSE_ALIGN);
    uint64_t sums = tn__planes_up(tn__mul_sat(positions, sizeof(float)), SPARSE_ALIGN);
    return tn__add_sat(tn__add_sat(table, sums), tn__mul_sat(floats, sizeof(float)));
}

/* Returns where planes begin. */
static float *sparse_divide(sparse_job *job, uint64_t positions) {
    char *at = job->call->workspace;
    job->table = (uint64_t *)at;
    at += tn__planes_up(job->matrix.form.columns * sizeof(uint64_t), SPARSE_ALIGN);
    job->sums = (float *)at;
    return (float *)(at + tn__planes_up(positions * sizeof(float), SPARSE_ALIGN));
}

/* --- SparseConv --- */

/* Writes the sums of `lines` lines as results from `at` on, without the positions between lines. */
static void sparse_put_lines(const sparse_job *job, const tn__slide *slide,
                             const tn__planes *planes, uint64_t row, uint64_t lines, uint64_t at) {
    uint32_t last = slide->spatial - 1;
    uint64_t width = (uint64_t)slide->output[last], wide = last > 0 ? planes->extent[last] : lines;
    uint64_t count = last > 0 ? lines * (planes->area / wide) : 1;
    for (uint64_t l = 0; l < count; l++) {
        uint64_t left = l, to = 0, step = width;
        bool inside = true;
        for (uint32_t d = last; d-- > 0; left /= planes->extent[d]) {
            uint64_t here = left % planes->extent[d];
            inside = inside && here < (d > 0 ? (uint64_t)slide->output[d] : lines);
            to += here * step;
            step *= (uint64_t)slide->output[d];
        }
        if (inside) sparse_put(job, row, job->sums + l * wide, last > 0 ? width : lines, at + to);
    }
}

static void sparse_conv_band(const sparse_job *job, const tn__slide *slide,
                             const tn__planes *planes, const float *from, uint64_t groups,
                             uint64_t image, uint64_t begin) {
    uint64_t rows = job->matrix.form.rows,
             all = planes->flat ? slide->output_area : (uint64_t)slide->output[0];
    uint64_t count = all - begin < planes->band ? all - begin : planes->band;
    uint64_t line = planes->flat ? 1 : slide->output_area / (uint64_t)slide->output[0];
    uint64_t positions = planes->flat ? count : tn__planes_positions(planes, count);
    uint64_t group_step = planes->channels / groups * planes->phase_count * planes->plane;
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t at = (image * rows + r) * slide->output_area + begin * line;
        sparse_row(job, r, from + r / (rows / groups) * group_step, positions);
        if (planes->flat)
            sparse_put(job, r, job->sums, count, at);
        else
            sparse_put_lines(job, slide, planes, r, count, at);
    }
}

static tn_status sparse_run_conv(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    int64_t groups = tn__attr_int(call->op, "group", 1);
    tn__planes planes;
    sparse_job job;
    tn__slide slide;
    TN_TRY(sparse_read(call, &job));
    TN_TRY(tn__slide_read(call, x, NULL, y, false, &slide));
    const tn__sparse *form = &job.matrix.form;
    if (groups < 1 || x->shape[1] % groups != 0 || form->rows % (uint64_t)groups != 0 ||
        form->columns != tn__mul_sat((uint64_t)(x->shape[1] / groups), slide.taps) ||
        y->shape[1] != (int64_t)form->rows || y->shape[0] != x->shape[0])
        return tn__call_fail(call, TN_E_INVALID, "weights of another convolution");
    tn__planes_plan(&slide, (uint64_t)x->shape[1], &planes);
    TN_TRY(tn__check_scratch(call, sparse_scratch(form->columns, planes.positions, planes.floats)));
    float *room = sparse_divide(&job, planes.positions);
    tn__planes_table(&slide, &planes, form->columns, job.table);
    uint64_t images = (uint64_t)x->shape[0], image = planes.channels * slide.input_area;
    uint64_t all = planes.flat ? slide.output_area : (uint64_t)slide.output[0];
    if (slide.output_area == 0) return TN_OK;
    for (uint64_t n = 0; n < images; n++)
        for (uint64_t at = 0; at < all; at += planes.band) {
            const float *from = job.x + n * image + (planes.flat ? at : 0);
            if (!planes.flat) tn__planes_fill(&slide, &planes, from, at, room);
            sparse_conv_band(&job, &slide, &planes, planes.flat ? from : room, (uint64_t)groups, n,
                             at);
        }
    return TN_OK;
}

static tn_operand sparse_as_operand(const tn_tensor *tensor) {
    return (tn_operand){.dtype = tensor->dtype,
                        .rank = tensor->rank,
                        .shape = (int64_t *)(uintptr_t)tensor->shape}; /* only read */
}

static uint64_t sparse_workspace_conv(const tn_kernel_setup *setup) {
    const tn_operand x = sparse_as_operand(tn__setup_input(setup, 0));
    const tn_operand y = sparse_as_operand(tn__setup_output(setup, 0));
    const tn_kernel_call call = {.op = setup->op};
    tn__planes planes;
    tn__slide slide;
    if (tn__slide_read(&call, &x, NULL, &y, false, &slide) != TN_OK) return 0; /* so says run */
    tn__planes_plan(&slide, (uint64_t)x.shape[1], &planes);
    uint64_t columns = (uint64_t)tn__attr_int(setup->op, "columns", 0);
    return sparse_scratch(columns, planes.positions, planes.floats);
}

/* --- SparseMatMul --- */

/* Rows of x that are taken together; fewer than SPARSE_FEW are not transposed. */
static uint64_t sparse_rows_at_once(uint64_t rows, uint64_t columns) {
    uint64_t most = SPARSE_BAND / columns, all = tn__planes_up(rows, TN__PLANES_LANES);
    if (rows < SPARSE_FEW) return rows;
    most = most < TN__TERMS_TILE ? TN__TERMS_TILE : most - most % TN__PLANES_LANES;
    if (most > SPARSE_MOST) most = SPARSE_MOST;
    return most < all ? most : all;
}

static uint64_t sparse_workspace_matmul(const tn_kernel_setup *setup) {
    const tn_operand x = sparse_as_operand(tn__setup_input(setup, 0));
    uint64_t columns = (uint64_t)tn__attr_int(setup->op, "columns", 1);
    uint64_t rows = tn__operand_span(&x, 0, x.rank - 1);
    uint64_t at_once = sparse_rows_at_once(rows, columns);
    return sparse_scratch(columns, at_once, rows < SPARSE_FEW ? 0 : tn__mul_sat(at_once, columns));
}

static void sparse_transpose(const float *from, uint64_t rows, uint64_t columns, uint64_t step,
                             float *to) {
    for (uint64_t c = 0; c < columns; c += TN__PLANES_LANES) {
        uint64_t end = columns - c < TN__PLANES_LANES ? columns : c + TN__PLANES_LANES;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t k = c; k < end; k++) to[k * step + r] = from[r * columns + k];
    }
}

/* The sums of `count` rows of x, from row `first` on, are a column of the result. */
static void sparse_put_column(const sparse_job *job, uint64_t row, uint64_t first, uint64_t count) {
    uint64_t columns = job->matrix.form.rows;
    float bias = sparse_bias(job, row);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = (first + i) * columns + row;
        float value = job->alpha * job->sums[i] + bias;
        job->y[at] = job->summand != NULL ? value + job->summand[at] : value;
    }
}

/* Computes each row of x separately, in place. */
static void sparse_few(const sparse_job *job, uint64_t row, uint64_t count) {
    tn__terms_cursor cursor = tn__terms_begin(&job->matrix, row);
    uint64_t columns = job->matrix.form.columns;
    tn__terms terms;
    memset(job->sums, 0, count * sizeof *job->sums);
    while (tn__terms_next(&job->matrix, &cursor, job->table, &terms))
        for (uint64_t i = 0; i < count; i++)
            job->sums[i] += tn__terms_sum(&terms, job->x + i * columns);
}

static tn_status sparse_run_matmul(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    sparse_job job;
    TN_TRY(sparse_read(call, &job));
    uint64_t columns = job.matrix.form.columns, results = job.matrix.form.rows;
    if (x->rank < 2 || (uint64_t)x->shape[x->rank - 1] != columns)
        return tn__call_fail(call, TN_E_INVALID, "weights of another product");
    uint64_t rows = tn__operand_span(x, 0, x->rank - 1);
    uint64_t at_once = sparse_rows_at_once(rows, columns);
    bool few = rows < SPARSE_FEW;
    if (tn__operand_count(&call->outputs[0]) != tn__mul_sat(rows, results))
        return tn__call_fail(call, TN_E_INVALID, "a result of another product");
    TN_TRY(tn__check_scratch(call, sparse_scratch(columns, at_once, few ? 0 : at_once * columns)));
    float *room = sparse_divide(&job, at_once);
    for (uint64_t c = 0; c < columns; c++) job.table[c] = few ? c : c * at_once;
    for (uint64_t first = 0; first < rows; first += at_once) {
        uint64_t count = rows - first < at_once ? rows - first : at_once;
        if (!few) sparse_transpose(job.x + first * columns, count, columns, at_once, room);
        for (uint64_t r = 0; r < results; r++) {
            if (few)
                sparse_few(&job, r, count);
            else
                sparse_row(&job, r, room, tn__planes_up(count, TN__PLANES_LANES));
            sparse_put_column(&job, r, first, count);
        }
        tn__post_run(&job.post, job.y + first * results, count * results);
    }
    return TN_OK;
}

/* --- the table --- */

static bool sparse_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    uint64_t places = tn__attr_int(setup->op, "bits", 0) == 16 ? TN__TYPE(UINT16) : TN__TYPE(UINT8);
    tn__post post;
    return x != NULL && x->rank >= 2 && tn__attr_int(setup->op, "columns", 0) >= 1 &&
           tn__input_is(setup, 1, TN__TYPE(FLOAT32)) && tn__input_is(setup, 2, places) &&
           tn__input_is(setup, 3, TN__TYPE(UINT32)) &&
           tn__types_agree(setup, TN__TYPE(FLOAT32), 0x31, 0) && tn__post_read(setup->op, &post);
}

static const tn_kernel sparse_kernels[] = {
    {.type = "SparseConv",
     .accepts = sparse_accepts,
     .workspace = sparse_workspace_conv,
     .run = sparse_run_conv},
    {.type = "SparseMatMul",
     .accepts = sparse_accepts,
     .workspace = sparse_workspace_matmul,
     .run = sparse_run_matmul},
};

TN_KERNEL_FAMILY(sparse, "tenure");
