/* setup_read.c - reads the parts of a set-up, and makes an engine of it. */
#include "fit/setup/setup.h"

#include "engine/engine.h"

/* --- parts --- */

const tn_graph *tn_setup_given(const tn_setup *setup) { return setup->given; }

const tn_graph *tn_setup_graph(const tn_setup *setup) {
    const tn__setup_part *rewritten = setup->parts[PART_GRAPH];
    return rewritten != NULL ? rewritten->graph : setup->given;
}

const tn_kernels *tn_setup_kernels(const tn_setup *setup) {
    const tn__setup_part *made = setup->parts[PART_KERNELS], *scratch = setup->parts[PART_SCRATCH];
    if (scratch != NULL) return scratch->kernels;
    return made != NULL ? made->kernels : setup->given_kernels;
}

const tn_program *tn__setup_ordered(const tn_setup *setup) {
    const tn__setup_part *made = setup->parts[PART_PROGRAM];
    return made != NULL ? made->program : setup->given_program;
}

const tn_program *tn_setup_program(const tn_setup *setup) {
    const tn__setup_part *again = setup->parts[PART_AGAIN], *fit = setup->parts[PART_FIT];
    const tn__setup_part *divided = setup->parts[PART_DIVIDED];
    const tn__setup_part *stream = setup->parts[PART_STREAM];
    if (divided != NULL && divided->fitted.program != NULL) return divided->fitted.program;
    if (stream != NULL && stream->streamed.program != NULL) return stream->streamed.program;
    if (fit != NULL) return fit->fitted.program;
    return again != NULL ? again->program : tn__setup_ordered(setup);
}

const tn_occupancy *tn_setup_occupancy(const tn_setup *setup) {
    return setup->parts[PART_OCCUPANCY]->occupancy;
}

tn_status tn_setup_add_events(tn_setup *setup, tn_error *error) {
    return tn_occupancy_add_events(setup->parts[PART_OCCUPANCY]->occupancy, error);
}

const tn_layout *tn_setup_layout(const tn_setup *setup) {
    const tn__setup_part *made = setup->parts[PART_LAYOUT];
    return made != NULL ? &made->layout : NULL;
}

const tn_recompute_report *tn_setup_recomputed(const tn_setup *setup) {
    const tn__setup_part *again = setup->parts[PART_AGAIN];
    return again != NULL && setup->parts[PART_FIT] == NULL ? &again->report : NULL;
}

const tn_fit_result *tn_setup_fitted(const tn_setup *setup) {
    const tn__setup_part *fit = setup->parts[PART_FIT], *divided = setup->parts[PART_DIVIDED];
    if (fit != NULL) return &fit->fitted;
    return divided != NULL && divided->fitted.pass != NULL ? &divided->fitted : NULL;
}

const tn_stream_result *tn_setup_streamed(const tn_setup *setup) {
    const tn__setup_part *stream = setup->parts[PART_STREAM];
    return stream != NULL ? &stream->streamed : NULL;
}

const tn_scratch_report *tn_setup_scratch(const tn_setup *setup) {
    const tn__setup_part *scratch = setup->parts[PART_SCRATCH];
    return scratch != NULL ? &scratch->scratch : NULL;
}

const tn_static_block *tn_setup_statics(const tn_setup *setup, uint32_t *count) {
    const tn__setup_statics *statics = &setup->parts[PART_STATICS]->statics;
    *count = statics->count;
    return statics->blocks;
}

uint64_t tn__setup_fixed(const tn_setup *setup) {
    const tn__setup_statics *statics = &setup->parts[PART_STATICS]->statics;
    return statics->inside ? 0 : statics->bytes;
}

tn_setup_needs tn_setup_need(const tn_setup *setup) {
    const tn_layout *layout = tn_setup_layout(setup);
    tn_setup_needs needs = {
        .arena = layout != NULL ? layout->peak
                                : tn_occupancy_summary(tn_setup_occupancy(setup)).peak_live,
        .statics = setup->parts[PART_STATICS]->statics.bytes};
    needs.total = tn__add_sat(needs.arena, tn__setup_fixed(setup));
    return needs;
}

double tn_setup_seconds(const tn_setup *setup, tn_setup_stage stage) {
    return stage < TN_SETUP_STAGE_COUNT ? setup->seconds[stage] : 0;
}

/* --- to an engine --- */

static tn_status setup_check(const tn_setup *setup, const tn_engine_options *options,
                             uint64_t capacity, tn_error *error) {
    char need[TN_SIZE_TEXT_MAX], arena[TN_SIZE_TEXT_MAX], statics[TN_SIZE_TEXT_MAX];
    tn_setup_needs needs = tn_setup_need(setup);
    if (tn_setup_kernels(setup) == NULL)
        TN_FAIL(error, TN_E_INVALID, "a set-up without kernels cannot run");
    if (options->pool != NULL) return TN_OK;
    if (tn_setup_layout(setup) == NULL)
        TN_FAIL(error, TN_E_INVALID, "a set-up without a layout cannot run, but with a pool");
    if (capacity == 0 || needs.total <= capacity) return TN_OK;
    bool inside = setup->parts[PART_STATICS]->statics.inside;
    TN_FAIL(error, TN_E_EXHAUSTED, "the budget is too small; %s would do: arena %s, weights %s%s",
            tn_size_format(needs.total, need), tn_size_format(needs.arena, arena),
            tn_size_format(needs.statics, statics), inside ? " in it" : "");
}

/* The layout of the host memory with which the program was fitted; NULL: none. */
static const tn_layout *setup_host(const tn_setup *setup) {
    const tn_fit_result *fitted = tn_setup_fitted(setup);
    bool is_here = fitted != NULL && fitted->host != NULL;
    return is_here && fitted->program == tn_setup_program(setup) ? &fitted->host_layout : NULL;
}

tn_status tn_setup_open(const tn_setup *setup, const tn_device_options *device,
                        const tn_engine_options *options, tn_engine **engine, tn_error *error) {
    tn_device_options where = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options how = TN_ENGINE_OPTIONS_INIT;
    tn_device *made;
    tn__options(&where, sizeof where, device);
    tn__options(&how, sizeof how, options);
    TN_TRY(setup_check(setup, &how, where.capacity, error));
    if (where.capacity == 0) /* one byte more would break the promise of the budget */
        where.capacity = how.pool != NULL ? how.pool_capacity : tn_setup_need(setup).total;
    if (where.context == NULL) where.context = &setup->context;
    if (how.context == NULL) how.context = &setup->context;
    if (how.host_layout == NULL) how.host_layout = setup_host(setup);
    TN_TRY(tn_device_create(&where, &made, error));
    tn_status status = tn_engine_create(tn_setup_occupancy(setup),
                                        how.pool == NULL ? tn_setup_layout(setup) : NULL,
                                        tn_setup_kernels(setup), made, &how, engine, error);
    if (status == TN_OK)
        (*engine)->memory.own = made;
    else
        tn_device_destroy(made);
    return status;
}
