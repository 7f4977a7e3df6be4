/* sparse.c - convolutions and matrix products with sparse weights, that is, weights most of which
 * are zero, in a compressed form of three lists (graph/rules/sparse_weights.h); and the two
 * operators that make the lists when the engine is created.
 *
 * PruneWeights keeps the weights of largest magnitude. SparseWeights writes the elements that are
 * not zero to lists. SparseConv reads its input from planes (below); SparseMatMul reads blocks of
 * transposed rows of x. In both, one weight is multiplied with many adjacent numbers, which costs a
 * few vector operations. If x has few rows, they are computed one by one. Products and sums are
 * rounded separately and added in the order of a row's columns, so results are equal on all
 * machines, for every width of vectors and every division into tiles.
 * Cost: 2 operations per value and output position, and a copy of the input. Making the lists takes
 * three passes over the weights.
 */
#include "engine/kernels/convert.h"
#include "engine/kernels/kernel.h"
#include "engine/kernels/loops/post.h"
#include "engine/kernels/loops/slide.h"
#include "engine/kernels/operands.h"
#include "graph/rules/sparse_weights.h"

/* --- the operators PruneWeights and SparseWeights, which make a sparse matrix --- */

static uint64_t prune_workspace(const tn_kernel_setup *setup) {
    (void)setup;
    return sizeof(tn__magnitudes);
}

static tn_status prune_run(tn_kernel_call *call) {
    const float *from = call->inputs[0].data;
    float *to = call->outputs[0].data;
    uint64_t count = tn__operand_count(&call->inputs[0]);
    int64_t kept = tn__attr_int(call->op, "kept", 0);
    tn__magnitudes *found = call->workspace;
    if (kept < 0 || (uint64_t)kept > count)
        return tn__call_fail(call, TN_E_INVALID, "%lld of %llu elements are to be kept",
                             (long long)kept, (unsigned long long)count);
    TN_TRY(tn__check_scratch(call, sizeof *found));
    tn__magnitudes_find(found, from, count, (uint64_t)kept);
    for (uint64_t i = 0; i < count; i++) to[i] = tn__magnitudes_keeps(found, from[i]) ? from[i] : 0;
    return TN_OK;
}

typedef struct prune_lists {
    tn__sparse form;
    float *values;
    uint8_t *bytes;
    uint16_t *words;
    uint32_t *starts;
    uint64_t count, started; /* number of values and starts that are written so far */
} prune_lists;

/* Appends an element that is not zero to the lists. */
static void prune_push(prune_lists *lists, uint64_t row, uint64_t column, float value) {
    uint64_t width = (lists->form.columns + 7) / 8, span = tn__sparse_span(&lists->form);
    if (lists->form.bits == 1)
        lists->bytes[row * width + column / 8] |= (uint8_t)(1u << column % 8);
    else if (lists->form.bits == 8)
        lists->bytes[lists->count] = (uint8_t)(column % span);
    else
        lists->words[lists->count] = (uint16_t)(column % span);
    lists->values[lists->count++] = value;
}

static tn_status prune_begin(tn_kernel_call *call, prune_lists *lists) {
    *lists = (prune_lists){.form = {(uint64_t)tn__attr_int(call->op, "rows", 0),
                                    (uint64_t)tn__attr_int(call->op, "columns", 0),
                                    tn__operand_count(&call->outputs[0]),
                                    (uint32_t)tn__attr_int(call->op, "bits", 0)},
                           .values = call->outputs[0].data,
                           .bytes = call->outputs[1].data,
                           .words = call->outputs[1].data,
                           .starts = call->outputs[2].data};
    const tn__sparse *form = &lists->form;
    int64_t places = (int64_t)tn__sparse_places(form), starts = (int64_t)tn__sparse_starts(form);
    TN_TRY(tn__check_count(call, 0, tn__mul_sat(form->rows, form->columns)));
    TN_TRY(tn__check_result(call, 1, 1, &places));
    TN_TRY(tn__check_result(call, 2, 1, &starts));
    memset(lists->values, 0, tn__operand_bytes(&call->outputs[0]));
    memset(lists->bytes, 0, tn__operand_bytes(&call->outputs[1]));
    return TN_OK;
}

/* Appends the elements of columns [first, first + count) of a row. They are adjacent in memory. */
static tn_status prune_columns(prune_lists *lists, const tn_kernel_call *call, const float *from,
                               uint64_t row, uint64_t first, uint64_t count) {
    uint64_t span = tn__sparse_span(&lists->form);
    for (uint64_t i = 0; i < count; i++) {
        if ((first + i) % span == 0) lists->starts[lists->started++] = (uint32_t)lists->count;
        if (from[i] == 0) continue;
        if (lists->count == lists->form.kept)
            return tn__call_fail(
                call, TN_E_INVALID,
                "more than %llu elements are not zero: what they were scaled by is "
                "no number",
                (unsigned long long)lists->form.kept);
        prune_push(lists, row, first + i, from[i]);
    }
    return TN_OK;
}

static tn_status prune_run_sparse(tn_kernel_call *call) {
    const tn_operand *w = &call->inputs[0];
    const float *from = w->data;
    prune_lists lists;
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), w->rank, &axis));
    TN_TRY(prune_begin(call, &lists));
    uint64_t inner = tn__operand_span(w, axis + 1, w->rank), rows = (uint64_t)w->shape[axis];
    if (rows != lists.form.rows) return tn__call_fail(call, TN_E_INVALID, "not so many rows");
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < lists.form.columns; c += inner)
            TN_TRY(prune_columns(&lists, call, from + (c / inner * rows + r) * inner, r, c, inner));
    lists.starts[lists.started] = (uint32_t)lists.count;
    return TN_OK;
}

static bool prune_accepts(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPE(FLOAT32)) && tn__output_is(setup, 0, TN__TYPE(FLOAT32));
}

static bool prune_accepts_sparse(const tn_kernel_setup *setup) {
    uint64_t type = tn__attr_int(setup->op, "bits", 0) == 16 ? TN__TYPE(UINT16) : TN__TYPE(UINT8);
    return prune_accepts(setup) && tn__output_is(setup, 1, type) &&
           tn__output_is(setup, 2, TN__TYPE(UINT32));
}

/* --- planes: the input of a convolution in a layout in which one weight is multiplied with
 * adjacent numbers ---
 *
 * There is a plane for each channel and each phase of the strides, including padding. In one
 * dimension, element q of phase p is input q * stride + p - begin, where `begin` is the padding.
 * For every output o, the weight at tap t is multiplied with element o + t / stride of phase t %
 * stride, so the distance between o and this element depends only on the tap. Positions between two
 * lines of the output are computed as well, and ignored. Windows of one element need no planes.
 * Planes are made for a few lines of the output at a time (a band), so that they stay in the
 * second-level cache and the scratch memory is bounded.
 */

#define PLANES_LANES 16u /* positions are computed in multiples of this number */

typedef struct sparse_planes {
    bool flat; /* whether the window has one element, so that the input is used without planes */
    uint64_t channels; /* number of channels in all groups together */
    uint64_t band;     /* lines of the output in a band (with `flat`, positions) */
    /* extents of a plane, which has the input for one band of output lines */
    uint64_t extent[TN__SLIDE_MAX];
    uint64_t phases[TN__SLIDE_MAX], phase_count;
    uint64_t area;  /* number of elements of a plane that belong to one line of the output */
    uint64_t plane; /* number of elements of a whole plane */
    uint64_t tail;  /* number of elements from the beginning of a line to the line's last output */
    uint64_t positions; /* positions of a band, rounded up to a multiple of PLANES_LANES */
    uint64_t floats;    /* floats of all planes, and those that may be read beyond the last one */
} sparse_planes;

static inline uint64_t planes_up(uint64_t count, uint64_t step) {
    return tn__mul_sat(count / step + (count % step != 0), step);
}

/* number of floats that all planes of a band have together, if possible: 256 KiB */
#define PLANES_BAND 65536u
/* least number of positions in a band, because each band reads all weights */
#define PLANES_LEAST 256u

/* Returns the number of positions from the first output of `lines` lines to their last output,
 * rounded up to a multiple of PLANES_LANES. None of these positions reads beyond the planes. */
static uint64_t planes_positions(const sparse_planes *planes, uint64_t lines) {
    if (lines == 0 || planes->flat) return planes_up(lines, PLANES_LANES);
    uint64_t before = tn__mul_sat(lines - 1, planes->area);
    return planes_up(tn__add_sat(before, planes->tail), PLANES_LANES);
}

static void planes_plan_flat(const tn__slide *slide, sparse_planes *planes) {
    uint64_t band = PLANES_BAND / (planes->channels > 0 ? planes->channels : 1);
    if (band < PLANES_LEAST) band = PLANES_LEAST;
    band = planes_up(band, 4 * PLANES_LANES);
    planes->plane = slide->input_area;
    planes->band = band < slide->output_area ? band : slide->output_area;
    planes->positions = planes_up(planes->band, PLANES_LANES);
}

/* Chooses the bands and the extents of planes. The window may be any that is not transposed. */
static void planes_plan(const tn__slide *slide, uint64_t channels, sparse_planes *planes) {
    *planes = (sparse_planes){.flat = tn__slide_is_flat(slide),
                              .channels = channels,
                              .phase_count = 1,
                              .area = 1,
                              .tail = 1};
    if (planes->flat) {
        planes_plan_flat(slide, planes);
        return;
    }
    for (uint32_t d = 0; d < slide->spatial; d++) {
        uint64_t reach = (uint64_t)((slide->kernel[d] - 1) * slide->dilation[d]);
        uint64_t stride = (uint64_t)slide->stride[d];
        planes->phases[d] = stride < reach + 1 ? stride : reach + 1;
        planes->phase_count = tn__mul_sat(planes->phase_count, planes->phases[d]);
        planes->extent[d] = tn__add_sat((uint64_t)slide->output[d], reach / stride);
    }
    for (uint32_t d = slide->spatial; d-- > 1;) {
        /* this sum cannot overflow, because the distance lies within the plane */
        planes->tail += ((uint64_t)slide->output[d] - 1) * planes->area;
        planes->area = tn__mul_sat(planes->area, planes->extent[d]);
    }
    uint64_t lines = (uint64_t)slide->output[0], halo = planes->extent[0] - lines;
    uint64_t all = tn__mul_sat(tn__mul_sat(channels, planes->phase_count), planes->area);
    uint64_t fit = all > 0 ? PLANES_BAND / all : lines;
    uint64_t least = planes_up(PLANES_LEAST, planes->area > 0 ? planes->area : 1) /
                     (planes->area > 0 ? planes->area : 1);
    planes->band = fit > halo ? fit - halo : 0;
    if (planes->band < least) planes->band = least;
    if (planes->band > lines) planes->band = lines;
    planes->extent[0] = tn__add_sat(planes->band, halo);
    planes->plane = tn__mul_sat(planes->extent[0], planes->area);
    planes->positions = planes_positions(planes, planes->band);
    planes->floats = tn__mul_sat(tn__mul_sat(channels, planes->phase_count), planes->plane);
    planes->floats = tn__add_sat(planes->floats, PLANES_LANES);
}

/* Fills a table with the offset at which the inputs of each column of the weights begin, which
 * follows from the column's channel and tap. */
static void planes_table(const tn__slide *slide, const sparse_planes *planes, uint64_t columns,
                         uint64_t *table) {
    for (uint64_t c = 0; c < columns; c++) {
        uint64_t left = c % slide->taps, phase = 0, times = 1, shift = 0, step = 1;
        for (uint32_t d = slide->spatial; d-- > 0 && !planes->flat;) {
            uint64_t kernel = (uint64_t)slide->kernel[d], stride = (uint64_t)slide->stride[d];
            uint64_t reach = left % kernel * (uint64_t)slide->dilation[d];
            left /= kernel;
            phase += reach % stride * times;
            times *= planes->phases[d];
            shift += reach / stride * step;
            step *= planes->extent[d];
        }
        table[c] = (c / slide->taps * planes->phase_count + phase) * planes->plane + shift;
    }
}

/* Copies `count` elements of a line of the input, at `first`, first + stride, and so on, to `to`.
 * Elements outside of [0, extent) are 0. */
static void planes_line(const float *line, int64_t extent, int64_t first, int64_t stride,
                        uint64_t count, float *to) {
    uint64_t i = 0;
    for (; i < count && first < 0; i++, first += stride) to[i] = 0;
    if (stride == 1 && first < extent) {
        uint64_t run =
            (uint64_t)(extent - first) < count - i ? (uint64_t)(extent - first) : count - i;
        memcpy(to + i, line + first, run * sizeof *to);
        i += run, first += (int64_t)run;
    }
    for (; i < count && first < extent; i++, first += stride) to[i] = line[first];
    for (; i < count; i++) to[i] = 0;
}

/* Fills the plane (a rearranged part of the input) of one channel and phase, for the output lines
 * of a band, which begins at line `begin`. */
static void planes_one(const tn__slide *slide, const sparse_planes *planes, const float *channel,
                       uint64_t phase, uint64_t begin, float *to) {
    uint32_t last = slide->spatial - 1;
    int64_t first[TN__SLIDE_MAX];
    for (uint32_t d = slide->spatial; d-- > 0; phase /= planes->phases[d])
        first[d] = (int64_t)(phase % planes->phases[d]) - slide->begin[d] +
                   (d == 0 ? (int64_t)begin * slide->stride[0] : 0);
    uint64_t lines = planes->plane / planes->extent[last];
    for (uint64_t l = 0; l < lines; l++, to += planes->extent[last]) {
        uint64_t left = l, source = 0, step = (uint64_t)slide->input[last];
        bool inside = true;
        for (uint32_t d = last; d-- > 0; left /= planes->extent[d]) {
            int64_t at = first[d] + (int64_t)(left % planes->extent[d]) * slide->stride[d];
            inside = inside && at >= 0 && at < slide->input[d];
            source += inside ? (uint64_t)at * step : 0;
            step *= (uint64_t)slide->input[d];
        }
        planes_line(channel + source, inside ? slide->input[last] : 0, first[last],
                    slide->stride[last], planes->extent[last], to);
    }
}

/* Fills all planes (rearranged parts of the input) for the output lines of a band, which begins at
 * line `begin`. */
static void planes_fill(const tn__slide *slide, const sparse_planes *planes, const float *image,
                        uint64_t begin, float *to) {
    for (uint64_t c = 0; c < planes->channels; c++)
        for (uint64_t p = 0; p < planes->phase_count; p++, to += planes->plane)
            planes_one(slide, planes, image + c * slide->input_area, p, begin, to);
}

/* --- terms: the products of one row of a sparse matrix and adjacent inputs ---
 *
 * The inputs of one weight for positions p, p + 1, ... are adjacent in memory; a table has their
 * offset for each column of the matrix. Each weight then costs one access to the table and, for
 * every 64 positions, a few vector operations.
 */

/* number of products of a row that are summed before their sum is added to a total */
#define TERMS_MOST 64u
#define TERMS_TILE 64u /* number of output positions that are computed together */

/* A sparse matrix as three lists (graph/rules/sparse_weights.h). */
typedef struct terms_matrix {
    tn__sparse form;
    const float *values;
    const void *places;
    const uint32_t *starts;
} terms_matrix;

/* Some products of a row of a sparse matrix: their weights, and for each weight the offset of its
 * inputs. */
typedef struct sparse_terms {
    uint32_t count;
    const float *values;
    uint64_t at[TERMS_MOST];
} sparse_terms;

/* The position in a row of a sparse matrix from which the function terms_next continues. */
typedef struct terms_cursor {
    /* `block`: the current block of columns; if form.bits is 1, the byte after the bits in
     * `left` */
    uint64_t row, block;
    uint64_t next; /* value */
    uint64_t left; /* bits before byte `block` that are not read yet */
} terms_cursor;

static inline terms_cursor terms_begin(const terms_matrix *matrix, uint64_t row) {
    uint64_t blocks = tn__sparse_blocks(&matrix->form);
    return (terms_cursor){.row = row, .next = matrix->starts[row * blocks]};
}

/* --- reading the lists of a sparse matrix --- */

/* Reads a sparse matrix from the three inputs from `first` on and the attributes rows, columns,
 * bits. Checks it so that every term is within the lists and the matrix for all possible data.
 * Errors: E_INVALID. */
static tn_status terms_read(const tn_kernel_call *call, uint32_t first, terms_matrix *matrix) {
    int64_t rows = tn__attr_int(call->op, "rows", 0);
    int64_t columns = tn__attr_int(call->op, "columns", 0);
    int64_t bits = tn__attr_int(call->op, "bits", 0);
    if (rows < 1 || columns < 1 || (bits != 1 && bits != 8 && bits != 16))
        return tn__call_fail(call, TN_E_INVALID, "no sparse matrix of %lld by %lld, places of %lld",
                             (long long)rows, (long long)columns, (long long)bits);
    const tn_operand *values = &call->inputs[first];
    *matrix = (terms_matrix){
        .form = {(uint64_t)rows, (uint64_t)columns, tn__operand_count(values), (uint32_t)bits},
        .values = values->data,
        .places = call->inputs[first + 1].data,
        .starts = call->inputs[first + 2].data};
    uint64_t starts = tn__sparse_starts(&matrix->form);
    TN_TRY(tn__check_count(call, first + 1, tn__sparse_places(&matrix->form)));
    TN_TRY(tn__check_count(call, first + 2, starts));
    for (uint64_t i = 0; i < starts; i++)
        if (matrix->starts[i] > (i + 1 < starts ? matrix->starts[i + 1] : matrix->form.kept))
            return tn__call_fail(call, TN_E_INVALID, "start %llu of a sparse matrix is %u",
                                 (unsigned long long)i, matrix->starts[i]);
    return TN_OK;
}

/* Returns the next 64 bits of a row, or the remaining ones. */
static uint64_t terms_word(const uint8_t *bytes, uint64_t at, uint64_t width) {
    uint64_t word = 0;
    if (width - at >= sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        return word;
    }
    for (uint64_t i = at; i < width; i++) word |= (uint64_t)bytes[i] << (8 * (i - at));
    return word;
}

/* Lists products of a row that has one bit per column. There are never more of them than the row
 * has values. */
static void terms_bits(const terms_matrix *matrix, terms_cursor *cursor, const uint64_t *table,
                       sparse_terms *terms) {
    uint64_t columns = matrix->form.columns, width = columns / 8 + (columns % 8 != 0);
    const uint8_t *bytes = (const uint8_t *)matrix->places + cursor->row * width;
    uint32_t most = matrix->starts[cursor->row + 1] - (uint32_t)cursor->next;
    if (most > TERMS_MOST) most = TERMS_MOST;
    while (terms->count < most) {
        for (; cursor->left == 0 && cursor->block < width; cursor->block += 8)
            cursor->left = terms_word(bytes, cursor->block, width);
        if (cursor->left == 0) return;
        uint64_t column = (cursor->block - 8) * 8 + (uint64_t)__builtin_ctzll(cursor->left);
        cursor->left &= cursor->left - 1;
        terms->at[terms->count++] = table[column < columns ? column : columns - 1];
    }
}

/* Lists products of a row that has a list of columns for each block of columns: first the rest of
 * the current block, then the following blocks. */
static void terms_blocks(const terms_matrix *matrix, terms_cursor *cursor, const uint64_t *table,
                         sparse_terms *terms) {
    const uint8_t *bytes = matrix->places;
    const uint16_t *words = matrix->places;
    bool wide = matrix->form.bits == 16;
    uint64_t blocks = tn__sparse_blocks(&matrix->form), span = tn__sparse_span(&matrix->form);
    uint64_t last = matrix->form.columns - 1, at = cursor->next;
    while (cursor->block < blocks && terms->count < TERMS_MOST) {
        uint64_t end = matrix->starts[cursor->row * blocks + cursor->block + 1];
        uint64_t first = cursor->block * span, stop = at + (TERMS_MOST - terms->count);
        for (uint64_t to = end < stop ? end : stop; at < to; at++) {
            uint64_t column = first + (wide ? words[at] : bytes[at]);
            terms->at[terms->count++] = table[column < last ? column : last];
        }
        if (at == end) cursor->block++;
    }
}

/* Lists the next products of a row. `table`: offset of the inputs of each column. Returns false at
 * the end of the row. */
static bool terms_next(const terms_matrix *matrix, terms_cursor *cursor, const uint64_t *table,
                       sparse_terms *terms) {
    terms->count = 0;
    terms->values = matrix->values + cursor->next;
    if (matrix->form.bits == 1)
        terms_bits(matrix, cursor, table, terms);
    else
        terms_blocks(matrix, cursor, table, terms);
    cursor->next += terms->count;
    return terms->count > 0;
}

/* --- sums of the products of one row --- */

/* An explicit vector type, because gcc keeps an array of sums in memory, or computes two products
 * at a time without vectors. */
typedef float terms_vector __attribute__((vector_size(64), aligned(4), may_alias));
#define TERMS_LANES 16u
#define TERMS_VECTORS (TERMS_TILE / TERMS_LANES)

TN_WIDE static void terms_tile(const sparse_terms *terms, const float *from, float *sums) {
    terms_vector part[TERMS_VECTORS] = {0}, *to = (terms_vector *)sums;
    for (uint32_t k = 0; k < terms->count; k++) {
        const terms_vector *source = (const terms_vector *)(from + terms->at[k]);
        for (uint32_t i = 0; i < TERMS_VECTORS; i++) part[i] += terms->values[k] * source[i];
    }
    for (uint32_t i = 0; i < TERMS_VECTORS; i++) to[i] += part[i];
}

TN_WIDE static void terms_lanes(const sparse_terms *terms, const float *from, float *sums) {
    terms_vector part = {0}, *to = (terms_vector *)sums;
    for (uint32_t k = 0; k < terms->count; k++)
        part += terms->values[k] * *(const terms_vector *)(from + terms->at[k]);
    *to += part;
}

/* Returns the sum of the products at one output position. */
static float terms_sum(const sparse_terms *terms, const float *from) {
    float sum = 0;
    for (uint32_t k = 0; k < terms->count; k++) sum += terms->values[k] * from[terms->at[k]];
    return sum;
}

/* Adds the products at position `from` + i to sums[i], for i in [0, count). Reads no inputs of
 * other positions. */
static void terms_add(const sparse_terms *terms, const float *from, uint64_t count, float *sums) {
    uint64_t p = 0;
    for (; count - p >= TERMS_TILE; p += TERMS_TILE) terms_tile(terms, from + p, sums + p);
    for (; count - p >= TERMS_LANES; p += TERMS_LANES) terms_lanes(terms, from + p, sums + p);
    for (; p < count; p++) sums[p] += terms_sum(terms, from + p);
}

#define SPARSE_BAND 65536u /* number of floats in a block of transposed rows: 256 KiB */
#define SPARSE_MOST 256u   /* largest number of positions that are computed together */
#define SPARSE_FEW 8u      /* if x has fewer rows than this, each row is computed separately */
#define SPARSE_ALIGN 64u

/* --- code that SparseConv and SparseMatMul share --- */

typedef struct sparse_job {
    const tn_kernel_call *call;
    terms_matrix matrix;
    tn__post post;
    const float *x, *bias, *summand; /* bias, summand: NULL if the operator has no such input */
    float *y;
    float alpha;
    bool one_bias;
    uint64_t *table; /* [columns] where the inputs of each column begin (planes_table) */
    float *sums;
} sparse_job;

static tn_status sparse_read(tn_kernel_call *call, sparse_job *job) {
    const tn_operand *bias = tn__call_input(call, 4), *summand = tn__call_input(call, 5);
    *job = (sparse_job){.call = call,
                        .x = call->inputs[0].data,
                        .y = call->outputs[0].data,
                        .alpha = (float)tn__attr_float(call->op, "alpha", 1)};
    TN_TRY(terms_read(call, 1, &job->matrix));
    if (!tn__post_read(call->op, &job->post))
        return tn__call_fail(call, TN_E_INVALID, "an activation that is not known");
    TN_TRY(tn__check_count(call, 5, tn__operand_count(&call->outputs[0])));
    if (summand != NULL) job->summand = summand->data;
    if (bias == NULL) return TN_OK;
    job->bias = bias->data;
    job->one_bias = tn__operand_count(bias) == 1;
    return job->one_bias ? TN_OK : tn__check_count(call, 4, job->matrix.form.rows);
}

/* Computes the sums of row `row` of the matrix at `count` output positions; the inputs of the first
 * position begin at `from`. */
static void sparse_row(const sparse_job *job, uint64_t row, const float *from, uint64_t count) {
    terms_cursor cursor = terms_begin(&job->matrix, row);
    sparse_terms terms;
    memset(job->sums, 0, count * sizeof *job->sums);
    while (terms_next(&job->matrix, &cursor, job->table, &terms))
        terms_add(&terms, from, count, job->sums);
}

static float sparse_bias(const sparse_job *job, uint64_t row) {
    return job->bias == NULL ? 0 : job->bias[job->one_bias ? 0 : row];
}

/* Writes `count` adjacent results from element `at` of the output on: sum, bias, summand,
 * activations. */
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

/* Returns the bytes of scratch memory: the table, the sums and the planes. */
static uint64_t sparse_scratch(uint64_t columns, uint64_t positions, uint64_t floats) {
    uint64_t table = planes_up(tn__mul_sat(columns, sizeof(uint64_t)), SPARSE_ALIGN);
    uint64_t sums = planes_up(tn__mul_sat(positions, sizeof(float)), SPARSE_ALIGN);
    return tn__add_sat(tn__add_sat(table, sums), tn__mul_sat(floats, sizeof(float)));
}

/* Divides the scratch memory into the table, the sums and the planes. Returns the address of the
 * planes. */
static float *sparse_divide(sparse_job *job, uint64_t positions) {
    char *at = job->call->workspace;
    job->table = (uint64_t *)at;
    at += planes_up(job->matrix.form.columns * sizeof(uint64_t), SPARSE_ALIGN);
    job->sums = (float *)at;
    return (float *)(at + planes_up(positions * sizeof(float), SPARSE_ALIGN));
}

/* --- SparseConv --- */

/* Writes the sums of `lines` lines to the output, from element `at` on, without the positions
 * between lines. */
static void sparse_put_lines(const sparse_job *job, const tn__slide *slide,
                             const sparse_planes *planes, uint64_t row, uint64_t lines,
                             uint64_t at) {
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
                             const sparse_planes *planes, const float *from, uint64_t groups,
                             uint64_t image, uint64_t begin) {
    uint64_t rows = job->matrix.form.rows,
             all = planes->flat ? slide->output_area : (uint64_t)slide->output[0];
    uint64_t count = all - begin < planes->band ? all - begin : planes->band;
    uint64_t line = planes->flat ? 1 : slide->output_area / (uint64_t)slide->output[0];
    uint64_t positions = planes->flat ? count : planes_positions(planes, count);
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
    sparse_planes planes;
    sparse_job job;
    tn__slide slide;
    TN_TRY(sparse_read(call, &job));
    TN_TRY(tn__slide_read(call, x, NULL, y, false, &slide));
    const tn__sparse *form = &job.matrix.form;
    if (groups < 1 || x->shape[1] % groups != 0 || form->rows % (uint64_t)groups != 0 ||
        form->columns != tn__mul_sat((uint64_t)(x->shape[1] / groups), slide.taps) ||
        y->shape[1] != (int64_t)form->rows || y->shape[0] != x->shape[0])
        return tn__call_fail(call, TN_E_INVALID, "weights of another convolution");
    planes_plan(&slide, (uint64_t)x->shape[1], &planes);
    TN_TRY(tn__check_scratch(call, sparse_scratch(form->columns, planes.positions, planes.floats)));
    float *room = sparse_divide(&job, planes.positions);
    planes_table(&slide, &planes, form->columns, job.table);
    uint64_t images = (uint64_t)x->shape[0], image = planes.channels * slide.input_area;
    uint64_t all = planes.flat ? slide.output_area : (uint64_t)slide.output[0];
    if (slide.output_area == 0) return TN_OK;
    for (uint64_t n = 0; n < images; n++)
        for (uint64_t at = 0; at < all; at += planes.band) {
            const float *from = job.x + n * image + (planes.flat ? at : 0);
            if (!planes.flat) planes_fill(&slide, &planes, from, at, room);
            sparse_conv_band(&job, &slide, &planes, planes.flat ? from : room, (uint64_t)groups, n,
                             at);
        }
    return TN_OK;
}

static tn_operand sparse_as_operand(const tn_tensor *tensor) {
    return (tn_operand){.dtype = tensor->dtype,
                        .rank = tensor->rank,
                        /* the cast only removes const */
                        .shape = (int64_t *)(uintptr_t)tensor->shape};
}

static uint64_t sparse_workspace_conv(const tn_kernel_setup *setup) {
    const tn_operand x = sparse_as_operand(tn__setup_input(setup, 0));
    const tn_operand y = sparse_as_operand(tn__setup_output(setup, 0));
    const tn_kernel_call call = {.op = setup->op};
    sparse_planes planes;
    tn__slide slide;
    /* an error is ignored here, because the kernel finds it again and reports it when it runs */
    if (tn__slide_read(&call, &x, NULL, &y, false, &slide) != TN_OK) return 0;
    planes_plan(&slide, (uint64_t)x.shape[1], &planes);
    uint64_t columns = (uint64_t)tn__attr_int(setup->op, "columns", 0);
    return sparse_scratch(columns, planes.positions, planes.floats);
}

/* --- SparseMatMul --- */

/* Returns the number of rows of x that are computed together. Fewer than SPARSE_FEW rows are not
 * transposed. */
static uint64_t sparse_rows_at_once(uint64_t rows, uint64_t columns) {
    uint64_t most = SPARSE_BAND / columns, all = planes_up(rows, PLANES_LANES);
    if (rows < SPARSE_FEW) return rows;
    most = most < TERMS_TILE ? TERMS_TILE : most - most % PLANES_LANES;
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
    for (uint64_t c = 0; c < columns; c += PLANES_LANES) {
        uint64_t end = columns - c < PLANES_LANES ? columns : c + PLANES_LANES;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t k = c; k < end; k++) to[k * step + r] = from[r * columns + k];
    }
}

/* Writes the sums of rows [first, first + count) of x as a part of column `row` of the result. */
static void sparse_put_column(const sparse_job *job, uint64_t row, uint64_t first, uint64_t count) {
    uint64_t columns = job->matrix.form.rows;
    float bias = sparse_bias(job, row);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = (first + i) * columns + row;
        float value = job->alpha * job->sums[i] + bias;
        job->y[at] = job->summand != NULL ? value + job->summand[at] : value;
    }
}

/* Computes one column of the result for a few rows of x, one row at a time, without a transposed
 * copy. */
static void sparse_few(const sparse_job *job, uint64_t row, uint64_t count) {
    terms_cursor cursor = terms_begin(&job->matrix, row);
    uint64_t columns = job->matrix.form.columns;
    sparse_terms terms;
    memset(job->sums, 0, count * sizeof *job->sums);
    while (terms_next(&job->matrix, &cursor, job->table, &terms))
        for (uint64_t i = 0; i < count; i++)
            job->sums[i] += terms_sum(&terms, job->x + i * columns);
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
                sparse_row(&job, r, room, planes_up(count, PLANES_LANES));
            sparse_put_column(&job, r, first, count);
        }
        tn__post_run(&job.post, job.y + first * results, count * results);
    }
    return TN_OK;
}

/* --- the table of kernels --- */

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
    {.domain = "tenure",
     .type = "PruneWeights",
     .accepts = prune_accepts,
     .workspace = prune_workspace,
     .run = prune_run},
    {.domain = "tenure",
     .type = "SparseWeights",
     .accepts = prune_accepts_sparse,
     .run = prune_run_sparse},
    {.domain = "tenure",
     .type = "SparseConv",
     .accepts = sparse_accepts,
     .workspace = sparse_workspace_conv,
     .run = sparse_run_conv},
    {.domain = "tenure",
     .type = "SparseMatMul",
     .accepts = sparse_accepts,
     .workspace = sparse_workspace_matmul,
     .run = sparse_run_matmul},
};

TN_KERNEL_FAMILY(sparse, "");
