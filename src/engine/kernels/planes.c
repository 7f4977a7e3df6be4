/* planes.c - copies the input of a convolution into planes.
 *
 * Cost: one copy of the input, and of a few lines of it again for each band.
 */
#include "engine/kernels/planes.h"

#define PLANES_BAND 65536u /* floats of planes: 256 KiB */
/* positions in a band, if the output has that number: weights are read once for them */
#define PLANES_LEAST 256u

uint64_t tn__planes_positions(const tn__planes *planes, uint64_t lines) {
    if (lines == 0 || planes->flat) return tn__planes_up(lines, TN__PLANES_LANES);
    uint64_t before = tn__mul_sat(lines - 1, planes->area);
    return tn__planes_up(tn__add_sat(before, planes->tail), TN__PLANES_LANES);
}

static void planes_plan_flat(const tn__slide *slide, tn__planes *planes) {
    uint64_t band = PLANES_BAND / (planes->channels > 0 ? planes->channels : 1);
    if (band < PLANES_LEAST) band = PLANES_LEAST;
    band = tn__planes_up(band, 4 * TN__PLANES_LANES);
    planes->plane = slide->input_area;
    planes->band = band < slide->output_area ? band : slide->output_area;
    planes->positions = tn__planes_up(planes->band, TN__PLANES_LANES);
}

void tn__planes_plan(const tn__slide *slide, uint64_t channels, tn__planes *planes) {
    *planes = (tn__planes){.flat = tn__slide_is_flat(slide),
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
        planes->tail += ((uint64_t)slide->output[d] - 1) * planes->area; /* a part of the plane */
        planes->area = tn__mul_sat(planes->area, planes->extent[d]);
    }
    uint64_t lines = (uint64_t)slide->output[0], halo = planes->extent[0] - lines;
    uint64_t all = tn__mul_sat(tn__mul_sat(channels, planes->phase_count), planes->area);
    uint64_t fit = all > 0 ? PLANES_BAND / all : lines;
    uint64_t least = tn__planes_up(PLANES_LEAST, planes->area > 0 ? planes->area : 1) /
                     (planes->area > 0 ? planes->area : 1);
    planes->band = fit > halo ? fit - halo : 0;
    if (planes->band < least) planes->band = least;
    if (planes->band > lines) planes->band = lines;
    planes->extent[0] = tn__add_sat(planes->band, halo);
    planes->plane = tn__mul_sat(planes->extent[0], planes->area);
    planes->positions = tn__planes_positions(planes, planes->band);
    planes->floats = tn__mul_sat(tn__mul_sat(channels, planes->phase_count), planes->plane);
    planes->floats = tn__add_sat(planes->floats, TN__PLANES_LANES);
}

/* Where the inputs of each column begin: channel, phase and shift of its tap. */
void tn__planes_table(const tn__slide *slide, const tn__planes *planes, uint64_t columns,
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

/* Copies `count` elements of one line of a plane, those at `first`, first + stride, and so on, to
 * `to`. Elements outside of [0, extent) are 0. */
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

/* The plane of one channel and phase: the inputs of lines from output line `begin` on. */
static void planes_one(const tn__slide *slide, const tn__planes *planes, const float *channel,
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

void tn__planes_fill(const tn__slide *slide, const tn__planes *planes, const float *image,
                     uint64_t begin, float *to) {
    for (uint64_t c = 0; c < planes->channels; c++)
        for (uint64_t p = 0; p < planes->phase_count; p++, to += planes->plane)
            planes_one(slide, planes, image + c * slide->input_area, p, begin, to);
}
