/* pool.c - pooling over windows and over whole images: MaxPool, AveragePool, LpPool, their global
 * forms, MaxUnpool, and their gradients.
 *
 * Elements of any type are loaded as doubles, a line at a time, so maxima are exact and sums lose
 * no digits. If a window contains a NaN, its maximum is NaN. Padding is never the maximum. An
 * average counts padding with count_include_pad, but never the padding that ceil_mode adds.
 * Source: the ONNX specifications of these operators, opsets 1 to 17 (dilations of AveragePool:
 * opset 19).
 */
#include <math.h>

#include "engine/kernels/loops/slide.h"
#include "engine/kernels/operands.h"
#include "graph/rules/window.h"

#define POOL_NOWHERE UINT64_MAX

typedef enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_POWER } pool_kind;

typedef struct pool_job {
    /* `places`: receives the indices of the maxima; NULL: not wanted */
    const tn_operand *input, *output, *places;
    tn__slide slide;
    pool_kind kind;
    double power;
    bool count_padding, column_major;
    uint8_t *map;  /* MaxPoolTrain: receives which window element has the maximum; else NULL */
    uint32_t bits; /* number of bits of an entry of the map of maxima */
} pool_job;

typedef struct pool_tile {
    double values[TN__SLIDE_TILE];
    /* index of the maximum in the plane (in the window if there is a map); POOL_NOWHERE: none
     * yet */
    uint64_t places[TN__SLIDE_TILE];
} pool_tile;

/* --- windows --- */

static double pool_power(double value, double power) {
    double size = fabs(value);
    return power == 1 ? size : power == 2 ? size * size : pow(size, power);
}

/* Updates maxima and their indices. If indices are not wanted, a separate loop is used, which
 * compilers vectorise. */
static void pool_add_most(const pool_job *job, pool_tile *tile, const tn__slide_run *run,
                          const double *values, uint64_t place) {
    double *to = tile->values + run->target;
    uint64_t *at = tile->places + run->target;
    const uint64_t step = job->map != NULL ? 0 : run->source_step;
    if (job->places == NULL && job->map == NULL) {
        for (uint64_t i = 0; i < run->count; i++)
            to[i] = values[i] > to[i] || isnan(values[i]) ? values[i] : to[i];
        return;
    }
    for (uint64_t i = 0; i < run->count; i++)
        if (values[i] > to[i] || isnan(values[i]) > isnan(to[i]) || at[i] == POOL_NOWHERE) {
            to[i] = values[i];
            at[i] = place + i * step;
        }
}

static void pool_add(const pool_job *job, pool_tile *tile, const tn__slide_run *run,
                     const double *values, uint64_t place) {
    double *to = tile->values + run->target;
    if (job->kind == POOL_MAX)
        pool_add_most(job, tile, run, values, place);
    else if (job->kind == POOL_AVERAGE)
        for (uint64_t i = 0; i < run->count; i++) to[i] += values[i];
    else
        for (uint64_t i = 0; i < run->count; i++) to[i] += pool_power(values[i], job->power);
}

/* Returns how many window elements of dimension d are inside the input (with `padding`, inside the
 * padded input) at output coordinate `at`. */
static uint64_t pool_taps(const tn__slide *slide, bool padding, uint32_t d, int64_t at) {
    int64_t base = at * slide->stride[d] - slide->begin[d], dilation = slide->dilation[d];
    int64_t least = padding ? -slide->begin[d] : 0;
    int64_t most = slide->input[d] + (padding ? slide->end[d] : 0);
    int64_t from = base >= least ? 0 : (least - base + dilation - 1) / dilation;
    int64_t to = base >= most ? 0 : (most - base + dilation - 1) / dilation;
    if (to > slide->kernel[d]) to = slide->kernel[d];
    return to > from ? (uint64_t)(to - from) : 0;
}

static void pool_finish(const pool_job *job, uint64_t line, uint64_t first, uint64_t count,
                        pool_tile *tile) {
    const tn__slide *slide = &job->slide;
    uint32_t last = slide->spatial - 1;
    int64_t position[TN__SLIDE_MAX];
    uint64_t taps = 1;
    if (job->kind == POOL_POWER)
        for (uint64_t i = 0; i < count; i++) tile->values[i] = pow(tile->values[i], 1 / job->power);
    if (job->kind != POOL_AVERAGE) return;
    tn__slide_position(slide, line * (uint64_t)slide->output[last], position);
    for (uint32_t d = 0; d < last; d++)
        taps *= pool_taps(slide, job->count_padding, d, position[d]);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t all = taps * pool_taps(slide, job->count_padding, last, (int64_t)(first + i));
        tile->values[i] = all > 0 ? tile->values[i] / (double)all : 0;
    }
}

/* Converts an index into the input's plane in C order to one in which the first dimension is
 * innermost. */
static uint64_t pool_column_major(const tn__slide *slide, uint64_t place) {
    uint64_t result = 0, step = slide->input_area;
    for (uint32_t d = slide->spatial; d-- > 0; place /= (uint64_t)slide->input[d]) {
        step /= (uint64_t)slide->input[d];
        result += place % (uint64_t)slide->input[d] * step;
    }
    return result;
}

/* Writes entry `at` of a map, which stores for each window the element with the maximum (layout:
 * graph/rules/window.h). Entries must be written in order, because the second entry of a byte keeps
 * the first one. */
static void pool_map_set(uint8_t *map, uint32_t bits, uint64_t at, uint64_t tap) {
    if (bits == 8)
        map[at] = (uint8_t)tap;
    else
        map[at / 2] = (uint8_t)(at % 2 == 0 ? tap : (map[at / 2] & 0xf) | tap << 4);
}

static void pool_store(const pool_job *job, uint64_t plane, uint64_t at, uint64_t count,
                       const pool_tile *tile) {
    tn__real_store(job->output, at, count, tile->values);
    for (uint64_t i = 0; i < count && job->map != NULL; i++)
        pool_map_set(job->map, job->bits, at + i,
                     tile->places[i] == POOL_NOWHERE ? 0 : tile->places[i]);
    if (job->places == NULL) return;
    int64_t *places = (int64_t *)job->places->data + at;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t place = tile->places[i];
        if (place != POOL_NOWHERE && job->column_major)
            place = pool_column_major(&job->slide, place);
        places[i] = place == POOL_NOWHERE ? -1 : (int64_t)(plane * job->slide.input_area + place);
    }
}

static void pool_tile_run(const pool_job *job, uint64_t plane, uint64_t line, uint64_t first,
                          uint64_t count) {
    const tn__slide *slide = &job->slide;
    uint64_t next = 0, width = (uint64_t)slide->output[slide->spatial - 1];
    pool_tile tile;
    tn__slide_rows rows;
    for (uint64_t i = 0; i < count; i++) {
        tile.values[i] = job->kind == POOL_MAX ? (double)-INFINITY : 0;
        tile.places[i] = POOL_NOWHERE;
    }
    while (tn__slide_find(slide, line, &next, &rows))
        for (uint32_t r = 0; r < rows.count; r++)
            for (uint64_t tap = 0; tap < (uint64_t)slide->kernel[slide->spatial - 1]; tap++) {
                tn__slide_run run = tn__slide_meet(slide, tap, first, count);
                uint64_t place = rows.source[r] + run.source;
                double values[TN__SLIDE_TILE];
                tn__real_load(job->input, plane * slide->input_area + place, run.source_step,
                              run.count, values);
                pool_add(job, &tile, &run, values, job->map != NULL ? rows.tap[r] + tap : place);
            }
    pool_finish(job, line, first, count, &tile);
    pool_store(job, plane, plane * slide->output_area + line * width + first, count, &tile);
}

static void pool_planes(const pool_job *job) {
    uint64_t planes = tn__operand_span(job->input, 0, 2);
    uint64_t width = (uint64_t)job->slide.output[job->slide.spatial - 1];
    for (uint64_t plane = 0; plane < planes; plane++)
        for (uint64_t line = 0; line < job->slide.lines; line++)
            for (uint64_t i = 0; i < width; i += TN__SLIDE_TILE)
                pool_tile_run(job, plane, line, i,
                              width - i < TN__SLIDE_TILE ? width - i : TN__SLIDE_TILE);
}

static tn_status pool_run(tn_kernel_call *call, pool_kind kind) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    pool_job job = {.input = x,
                    .output = y,
                    .places = tn__call_output(call, 1),
                    .kind = kind,
                    .power = tn__attr_float(call->op, "p", (double)tn__attr_int(call->op, "p", 2)),
                    .count_padding = tn__attr_int(call->op, "count_include_pad", 0) != 0,
                    .column_major = tn__attr_int(call->op, "storage_order", 0) != 0};
    TN_TRY(tn__slide_read(call, x, NULL, y, false, &job.slide));
    if (kind == POOL_POWER && !(job.power > 0))
        return tn__call_fail(call, TN_E_INVALID, "attribute p must be positive");
    if (y->shape[0] != x->shape[0] || y->shape[1] != x->shape[1])
        return tn__call_fail(call, TN_E_INVALID, "batch and channels of input and output differ");
    if (job.places != NULL) TN_TRY(tn__check_result(call, 1, y->rank, y->shape));
    pool_planes(&job);
    return TN_OK;
}

static bool pool_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}
static bool pool_accepts_max(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL | TN__TYPES_BYTE, 1, 0) &&
           tn__output_may_be(setup, 1, TN__TYPE(INT64));
}
static tn_status pool_run_max(tn_kernel_call *call) { return pool_run(call, POOL_MAX); }
static tn_status pool_run_average(tn_kernel_call *call) { return pool_run(call, POOL_AVERAGE); }
static tn_status pool_run_power(tn_kernel_call *call) { return pool_run(call, POOL_POWER); }

/* --- global pools, over the whole image --- */

static tn_status pool_run_whole(tn_kernel_call *call, pool_kind kind) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    double power = tn__attr_float(call->op, "p", (double)tn__attr_int(call->op, "p", 2));
    if (x->rank < 2 || (kind == POOL_POWER && !(power > 0)))
        return tn__call_fail(call, TN_E_INVALID, "the rank or attribute p is out of range");
    uint64_t planes = tn__operand_span(x, 0, 2), area = tn__operand_span(x, 2, x->rank);
    if (tn__operand_count(y) != planes)
        return tn__call_fail(call, TN_E_INVALID, "the output has not one element per channel");
    for (uint64_t plane = 0; plane < planes; plane++) {
        double sum = kind == POOL_MAX ? (double)-INFINITY : 0, values[TN__REAL_TILE];
        for (uint64_t i = 0; i < area; i += TN__REAL_TILE) {
            uint64_t count = area - i < TN__REAL_TILE ? area - i : TN__REAL_TILE;
            tn__real_load(x, plane * area + i, 1, count, values);
            for (uint64_t k = 0; k < count; k++) {
                if (kind == POOL_MAX)
                    sum = values[k] > sum || isnan(values[k]) ? values[k] : sum;
                else
                    sum += kind == POOL_POWER ? pool_power(values[k], power) : values[k];
            }
        }
        if (kind == POOL_AVERAGE) sum /= (double)area;
        if (kind == POOL_POWER) sum = pow(sum, 1 / power);
        tn__real_set(y, plane, sum);
    }
    return TN_OK;
}

static tn_status pool_run_whole_max(tn_kernel_call *call) { return pool_run_whole(call, POOL_MAX); }
static tn_status pool_run_whole_average(tn_kernel_call *call) {
    return pool_run_whole(call, POOL_AVERAGE);
}
static tn_status pool_run_whole_power(tn_kernel_call *call) {
    return pool_run_whole(call, POOL_POWER);
}

/* --- MaxUnpool, which writes each maximum back to the place that it came from --- */

/* Finds the element of MaxUnpool's output for `index`, which counts the elements of the tensor from
 * which MaxPool took the maximum. The extents of that tensor follow from the window; the output may
 * be larger if its shape is given. Returns false if there is no such element. */
static bool pool_unpool_place(const tn_operand *y, const int64_t *extents, int64_t index,
                              uint64_t *place) {
    uint64_t left = (uint64_t)index, step = 1;
    *place = 0;
    if (index < 0) return false;
    for (uint32_t d = y->rank; d-- > 0; left /= (uint64_t)extents[d]) {
        if (extents[d] == 0 || left % (uint64_t)extents[d] >= (uint64_t)y->shape[d]) return false;
        *place += left % (uint64_t)extents[d] * step;
        step *= (uint64_t)y->shape[d];
    }
    return left == 0;
}

static tn_status pool_run_unpool(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *indices = &call->inputs[1], *y = &call->outputs[0];
    int64_t extents[TN_RANK_MAX];
    tn__slide slide;
    TN_TRY(tn__slide_read(call, x, NULL, y, true, &slide));
    TN_TRY(tn__check_shape(call, 1, x->rank, x->shape));
    for (uint32_t d = 0; d < x->rank; d++) {
        extents[d] = x->shape[d];
        if (d >= 2)
            extents[d] = (x->shape[d] - 1) * slide.stride[d - 2] + slide.kernel[d - 2] -
                         slide.begin[d - 2] - slide.end[d - 2];
        if (extents[d] < 0)
            return tn__call_fail(call, TN_E_INVALID, "padding leaves dimension %u negative", d);
    }
    uint64_t count = tn__operand_count(x), size = tn_dtype_bits(x->dtype) / 8;
    memset(y->data, 0, tn__operand_bytes(y));
    for (uint64_t i = 0; i < count; i++) {
        int64_t index = ((const int64_t *)indices->data)[i];
        uint64_t place;
        if (!pool_unpool_place(y, extents, index, &place))
            return tn__call_fail(call, TN_E_INVALID, "index %lld is outside the output",
                                 (long long)index);
        memcpy((char *)y->data + place * size, (const char *)x->data + i * size, size);
    }
    return TN_OK;
}

static bool pool_accepts_unpool(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) && tn__input_is(setup, 1, TN__TYPE(INT64));
}

/* --- MaxPoolTrain: a maximum pool that stores which element of each window has the maximum ---
 *
 * If several elements are equal, the first one is stored; a NaN precedes all numbers, as in
 * MaxPoolGrad. A window without any input element gets entry 0, which is in the padding, so its
 * gradient is dropped.
 */

static tn_status pool_run_map(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0], *map = &call->outputs[1];
    pool_job job = {.input = x, .output = y, .kind = POOL_MAX, .map = map->data};
    TN_TRY(tn__slide_read(call, x, NULL, y, false, &job.slide));
    job.bits = tn__window_map_bits(job.slide.taps);
    if (y->shape[0] != x->shape[0] || y->shape[1] != x->shape[1] || job.bits == 0 ||
        tn__operand_count(map) != tn__window_map_bytes(job.slide.taps, tn__operand_count(y)))
        return tn__call_fail(call, TN_E_INVALID, "the extents of its operands do not agree");
    pool_planes(&job);
    return TN_OK;
}

static bool pool_accepts_map(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1, 0) &&
           tn__output_is(setup, 1, TN__TYPE(UINT8));
}

/* --- gradients ---
 *
 * The gradient of a maximum is added to the gradient of the first element that has this maximum.
 * MaxPoolGrad searches for that element in the input, MaxPoolMapGrad reads it from the map. If
 * windows overlap, their gradients are added in the order of the windows, so both operators compute
 * the same bits. A window without any input element contributes nothing.
 */

/* Finds the index in the input's plane of element `tap` of the window at an output position.
 * Returns false if the element is in the padding. */
static bool pool_tap_place(const tn__slide *slide, const int64_t *position, uint64_t tap,
                           uint64_t *place) {
    uint64_t step = 1;
    *place = 0;
    for (uint32_t d = slide->spatial; d-- > 0;) {
        int64_t k = (int64_t)(tap % (uint64_t)slide->kernel[d]);
        int64_t at = position[d] * slide->stride[d] - slide->begin[d] + k * slide->dilation[d];
        if (at < 0 || at >= slide->input[d]) return false;
        *place += (uint64_t)at * step;
        step *= (uint64_t)slide->input[d];
        tap /= (uint64_t)slide->kernel[d];
    }
    return true;
}

static uint32_t pool_map_get(const uint8_t *map, uint32_t bits, uint64_t at) {
    if (bits == 8) return map[at];
    return (uint32_t)map[at / 2] >> at % 2 * 4 & 0xf;
}

static tn_status pool_map_run_grad(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0], *map = &call->inputs[1];
    tn_operand *dx = &call->outputs[0];
    int64_t position[TN__SLIDE_MAX];
    tn__slide slide;
    TN_TRY(tn__slide_read(call, dx, NULL, dy, false, &slide));
    uint64_t planes = tn__operand_span(dx, 0, 2), place, at = 0;
    uint32_t bits = tn__window_map_bits(slide.taps);
    if (tn__operand_span(dy, 0, 2) != planes || bits == 0)
        return tn__call_fail(call, TN_E_INVALID, "batch and channels differ");
    TN_TRY(tn__check_count(call, 1, tn__window_map_bytes(slide.taps, planes * slide.output_area)));
    memset(dx->data, 0, tn__operand_bytes(dx));
    for (uint64_t plane = 0; plane < planes; plane++)
        for (uint64_t i = 0; i < slide.output_area; i++, at++) {
            tn__slide_position(&slide, i, position);
            if (!pool_tap_place(&slide, position, pool_map_get(map->data, bits, at), &place))
                continue;
            place += plane * slide.input_area;
            tn__real_set(dx, place, tn__real_get(dx, place) + tn__real_get(dy, at));
        }
    return TN_OK;
}

static bool pool_map_accepts_grad(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1, 0) &&
           tn__input_is(setup, 1, TN__TYPE(UINT8));
}

static bool pool_grad_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 3, 0);
}

typedef struct pool_grad {
    const tn_operand *dy, *x;
    tn_operand *dx;
    tn__slide slide;
    bool max, count_padding;
} pool_grad;

/* Visits the window elements at an output position that are inside the input, and sets *met to
 * their number. For a maximum pool, returns the index of the maximum. For an average, adds `add` to
 * the gradient of each element. */
static uint64_t pool_grad_window(const pool_grad *job, uint64_t plane, const int64_t *position,
                                 double add, uint64_t *met) {
    const tn__slide *slide = &job->slide;
    uint64_t best = UINT64_MAX;
    double most = 0;
    *met = 0;
    for (uint64_t tap = 0; tap < slide->taps; tap++) {
        uint64_t place;
        if (!pool_tap_place(slide, position, tap, &place)) continue;
        ++*met;
        place += plane * slide->input_area;
        if (job->max) {
            double value = tn__real_get(job->x, place);
            if (best == UINT64_MAX || value > most || (isnan(value) && !isnan(most))) {
                most = value;
                best = place;
            }
        } else if (add != 0) {
            tn__real_set(job->dx, place, tn__real_get(job->dx, place) + add);
        }
    }
    return best;
}

/* Returns the number of elements that an average with padding counts; the padding that ceil_mode
 * adds is not counted. */
static uint64_t pool_grad_padded(const tn__slide *slide, const int64_t *position) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < slide->spatial; d++) count *= pool_taps(slide, true, d, position[d]);
    return count;
}

static tn_status pool_grad_run(tn_kernel_call *call, bool max) {
    pool_grad job = {.dy = &call->inputs[0],
                     .x = max ? &call->inputs[1] : NULL,
                     .dx = &call->outputs[0],
                     .max = max,
                     .count_padding = tn__attr_int(call->op, "count_include_pad", 0) != 0};
    int64_t position[TN__SLIDE_MAX];
    TN_TRY(tn__slide_read(call, job.dx, NULL, job.dy, false, &job.slide));
    uint64_t planes = tn__operand_span(job.dx, 0, 2), met;
    if (tn__operand_span(job.dy, 0, 2) != planes)
        return tn__call_fail(call, TN_E_INVALID, "batch and channels differ");
    memset(job.dx->data, 0, tn__operand_bytes(job.dx));
    for (uint64_t plane = 0; plane < planes; plane++)
        for (uint64_t i = 0; i < job.slide.output_area; i++) {
            double given = tn__real_get(job.dy, plane * job.slide.output_area + i);
            tn__slide_position(&job.slide, i, position);
            uint64_t best = pool_grad_window(&job, plane, position, 0, &met);
            if (max && best != UINT64_MAX)
                tn__real_set(job.dx, best, tn__real_get(job.dx, best) + given);
            if (max || met == 0) continue;
            uint64_t parts = job.count_padding ? pool_grad_padded(&job.slide, position) : met;
            pool_grad_window(&job, plane, position, given / (double)parts, &met);
        }
    return TN_OK;
}

static tn_status pool_grad_run_max(tn_kernel_call *call) { return pool_grad_run(call, true); }
static tn_status pool_grad_run_average(tn_kernel_call *call) { return pool_grad_run(call, false); }

static const tn_kernel pool_kernels[] = {
    {.type = "AveragePool", .accepts = pool_accepts, .run = pool_run_average},
    {.type = "GlobalAveragePool", .accepts = pool_accepts, .run = pool_run_whole_average},
    {.type = "GlobalLpPool", .accepts = pool_accepts, .run = pool_run_whole_power},
    {.type = "GlobalMaxPool", .accepts = pool_accepts, .run = pool_run_whole_max},
    {.type = "LpPool", .accepts = pool_accepts, .run = pool_run_power},
    {.type = "MaxPool", .accepts = pool_accepts_max, .run = pool_run_max},
    {.type = "MaxUnpool", .accepts = pool_accepts_unpool, .run = pool_run_unpool},
    {.domain = "tenure",
     .type = "AveragePoolGrad",
     .accepts = pool_grad_accepts,
     .run = pool_grad_run_average},
    {.domain = "tenure",
     .type = "MaxPoolGrad",
     .accepts = pool_grad_accepts,
     .run = pool_grad_run_max},
    {.domain = "tenure",
     .type = "MaxPoolMapGrad",
     .accepts = pool_map_accepts_grad,
     .run = pool_map_run_grad},
    {.domain = "tenure", .type = "MaxPoolTrain", .accepts = pool_accepts_map, .run = pool_run_map},
};

TN_KERNEL_FAMILY(pool, "");
