/* conv_loops.h - the loops of a convolution for one element type. conv.c includes this file once
 * per type, after it has defined CONV(name), CONV_TYPE (of elements), CONV_SUM (type of sums),
 * CONV_DIRECT (whether both are one type and CONV_READ does nothing), CONV_READ(job, value),
 * CONV_WEIGHT(job, value), CONV_SHIFT(job, filter) and CONV_STORE.
 *
 * A tile of outputs is at most 64 positions of one line, for up to 8 filters. For each weight, the
 * innermost loop runs along a line of the input. The products are summed in groups of 64, and these
 * sums are added to a total, which keeps the error of a sum of n products near n / 64.
 */
#define CONV_FILTERS 8u
#define CONV_TERMS 64u

/* Returns the inputs of a run as adjacent numbers of type CONV_SUM: the input itself if possible,
 * else a copy in `room`. */
static inline const CONV_SUM *CONV(gather)(const conv_job *job, const CONV_TYPE *source,
                                           const tn__slide_run *run, CONV_SUM *room) {
    (void)job;
    if (CONV_DIRECT && run->source_step == 1) return (const void *)source;
    for (uint64_t i = 0; i < run->count; i++)
        room[i] = CONV_READ(job, source[i * run->source_step]);
    return room;
}

static inline void CONV(add)(CONV_SUM *target, const CONV_SUM *source, CONV_SUM weight,
                             const tn__slide_run *run) {
    if (run->target_step == 1)
        for (uint64_t i = 0; i < run->count; i++) target[i] += weight * source[i];
    else
        for (uint64_t i = 0; i < run->count; i++)
            target[i * run->target_step] += weight * source[i];
}

static void CONV(flush)(CONV_SUM (*total)[TN__SLIDE_TILE], CONV_SUM (*part)[TN__SLIDE_TILE],
                        uint64_t filters, uint64_t count) {
    for (uint64_t f = 0; f < filters; f++)
        for (uint64_t i = 0; i < count; i++) {
            total[f][i] += part[f][i];
            part[f][i] = 0;
        }
}

/* Adds the products of one element of the window and one input channel, for all filters of the
 * tile. */
static inline void CONV(tap)(const conv_job *job, uint64_t filters,
                             CONV_SUM (*part)[TN__SLIDE_TILE], const CONV_TYPE *source,
                             const CONV_TYPE *weights, const CONV_SUM *shift,
                             const tn__slide_run *run) {
    CONV_SUM room[TN__SLIDE_TILE];
    const CONV_SUM *values = CONV(gather)(job, source, run, room);
    for (uint64_t f = 0; f < filters; f++) {
        CONV_SUM weight = CONV_WEIGHT(job, weights[f * job->filter_step]) - shift[f];
        CONV(add)(part[f] + run->target, values, weight, run);
    }
}

static void CONV(tile)(const conv_job *job, const conv_tile *tile) {
    const CONV_TYPE *input = (const CONV_TYPE *)job->input + tile->input;
    const CONV_TYPE *weights = (const CONV_TYPE *)job->weights + tile->weights;
    CONV_SUM total[CONV_FILTERS][TN__SLIDE_TILE] = {{0}};
    CONV_SUM part[CONV_FILTERS][TN__SLIDE_TILE] = {{0}};
    CONV_SUM shift[CONV_FILTERS];
    tn__slide_rows rows;
    uint64_t next = 0, terms = 0, taps = (uint64_t)job->slide.kernel[job->slide.spatial - 1];
    for (uint64_t f = 0; f < tile->filters; f++) shift[f] = CONV_SHIFT(job, tile->filter + f);
    while (tn__slide_find(&job->slide, tile->line, &next, &rows))
        for (uint64_t tap = 0; tap < taps; tap++) {
            tn__slide_run run = tn__slide_meet(&job->slide, tap, tile->first, tile->count);
            for (uint64_t c = 0; run.count > 0 && c < job->channels; c++)
                for (uint32_t r = 0; r < rows.count; r++) {
                    const CONV_TYPE *source =
                        input + c * job->slide.input_area + rows.source[r] + run.source;
                    const CONV_TYPE *weight = weights + c * job->channel_step + rows.tap[r] + tap;
                    CONV(tap)(job, tile->filters, part, source, weight, shift, &run);
                    if (++terms % CONV_TERMS == 0)
                        CONV(flush)(total, part, tile->filters, tile->count);
                }
        }
    CONV(flush)(total, part, tile->filters, tile->count);
    for (uint64_t f = 0; f < tile->filters; f++) {
        uint64_t output = tile->output + f * job->slide.output_area;
        CONV_STORE(job, tile->filter + f, output, tile->count, total[f]);
    }
}

#undef CONV_FILTERS
#undef CONV_TERMS
#undef CONV
#undef CONV_TYPE
#undef CONV_SUM
#undef CONV_READ
#undef CONV_WEIGHT
#undef CONV_SHIFT
#undef CONV_STORE
#undef CONV_DIRECT
