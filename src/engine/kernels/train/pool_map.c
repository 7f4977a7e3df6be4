/* pool_map.c - maximum pools that store the index of each window's maximum, and their gradient,
 * which needs only that, in plain loops.
 *
 * The first element with the maximum wins, and the first NaN before all numbers, as in MaxPoolGrad
 * (grad.c). A window that is all padding has tap 0, which is padding, so its gradient is dropped.
 * Layout of entries: graph/rules/window.h.
 */
#include <math.h>

#include "engine/kernels/check.h"
#include "engine/kernels/slide.h"
#include "graph/rules/window.h"

#define MAP_NOBODY 0xffffu

typedef struct map_tile {
    double most[TN__SLIDE_TILE];
    uint16_t winner[TN__SLIDE_TILE];
} map_tile;

static uint32_t map_get(const uint8_t *map, uint32_t bits, uint64_t at) {
    if (bits == 8) return map[at];
    return (uint32_t)map[at / 2] >> at % 2 * 4 & 0xf;
}

/* Entries are written in their order, so the second of a byte finds the first there. */
static void map_set(uint8_t *map, uint32_t bits, uint64_t at, uint32_t tap) {
    if (bits == 8)
        map[at] = (uint8_t)tap;
    else
        map[at / 2] = (uint8_t)(at % 2 == 0 ? tap : (map[at / 2] & 0xf) | tap << 4);
}

static void map_meet(map_tile *tile, const tn__slide_run *run, const double *values, uint64_t tap) {
    for (uint64_t i = 0; i < run->count; i++) {
        double *most = &tile->most[run->target + i];
        uint16_t *winner = &tile->winner[run->target + i];
        if (*winner != MAP_NOBODY && !(values[i] > *most) && !(isnan(values[i]) && !isnan(*most)))
            continue;
        *most = values[i];
        *winner = (uint16_t)tap;
    }
}

typedef struct map_pool {
    const tn_operand *x;
    tn_operand *y;
    uint8_t *map;
    uint32_t bits;
    tn__slide slide;
} map_pool;

static void map_pool_tile(const map_pool *job, uint64_t plane, uint64_t line, uint64_t first,
                          uint64_t count) {
    const tn__slide *slide = &job->slide;
    uint64_t next = 0, width = (uint64_t)slide->output[slide->spatial - 1];
    uint64_t at = plane * slide->output_area + line * width + first;
    map_tile tile;
    tn__slide_rows rows;
    for (uint64_t i = 0; i < count; i++) {
        tile.most[i] = (double)-INFINITY;
        tile.winner[i] = MAP_NOBODY;
    }
    while (tn__slide_find(slide, line, &next, &rows))
        for (uint32_t r = 0; r < rows.count; r++)
            for (uint64_t tap = 0; tap < (uint64_t)slide->kernel[slide->spatial - 1]; tap++) {
                tn__slide_run run = tn__slide_meet(slide, tap, first, count);
                double values[TN__SLIDE_TILE];
                tn__real_load(job->x, plane * slide->input_area + rows.source[r] + run.source,
                              run.source_step, run.count, values);
                map_meet(&tile, &run, values, rows.tap[r] + tap);
            }
    tn__real_store(job->y, at, count, tile.most);
    for (uint64_t i = 0; i < count; i++)
        map_set(job->map, job->bits, at + i, tile.winner[i] == MAP_NOBODY ? 0 : tile.winner[i]);
}

static tn_status map_run_pool(tn_kernel_call *call) {
    map_pool job = {.x = &call->inputs[0], .y = &call->outputs[0], .map = call->outputs[1].data};
    const tn_operand *x = job.x, *y = job.y;
    TN_TRY(tn__slide_read(call, x, NULL, y, false, &job.slide));
    job.bits = tn__window_map_bits(job.slide.taps);
    if (y->shape[0] != x->shape[0] || y->shape[1] != x->shape[1] || job.bits == 0 ||
        tn__operand_count(&call->outputs[1]) !=
            tn__window_map_bytes(job.slide.taps, tn__operand_count(y)))
        return tn__call_fail(call, TN_E_INVALID, "the extents of its operands do not agree");
    uint64_t planes = tn__operand_span(x, 0, 2);
    uint64_t width = (uint64_t)job.slide.output[job.slide.spatial - 1];
    for (uint64_t plane = 0; plane < planes; plane++)
        for (uint64_t line = 0; line < job.slide.lines; line++)
            for (uint64_t i = 0; i < width; i += TN__SLIDE_TILE)
                map_pool_tile(&job, plane, line, i,
                              width - i < TN__SLIDE_TILE ? width - i : TN__SLIDE_TILE);
    return TN_OK;
}

/* Where tap `tap` of the window at `position` lies in the plane; false: in the padding. */
static bool map_place(const tn__slide *slide, const int64_t *position, uint64_t tap,
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

/* Windows give in their order: where several won by one element, the sum is MaxPoolGrad's. */
static tn_status map_run_grad(tn_kernel_call *call) {
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
            if (!map_place(&slide, position, map_get(map->data, bits, at), &place)) continue;
            place += plane * slide.input_area;
            tn__real_set(dx, place, tn__real_get(dx, place) + tn__real_get(dy, at));
        }
    return TN_OK;
}

static bool map_accepts_pool(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1, 0) &&
           tn__output_is(setup, 1, TN__TYPE(UINT8));
}
static bool map_accepts_grad(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1, 0) &&
           tn__input_is(setup, 1, TN__TYPE(UINT8));
}

static const tn_kernel train_pool_map_kernels[] = {
    {.type = "MaxPoolMapGrad", .accepts = map_accepts_grad, .run = map_run_grad},
    {.type = "MaxPoolTrain", .accepts = map_accepts_pool, .run = map_run_pool},
};

TN_KERNEL_FAMILY(train_pool_map, "tenure");
