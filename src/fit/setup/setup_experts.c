/* setup_experts.c - experts of mixtures as rows of a cache, a step of the stage REWRITE, and the
 * size of the cache for a budget.
 *
 * The cache is one static tensor of the new graph, so all later stages count and place it like any
 * other weight. Its size changes neither the order of operators nor the other memory. One
 * compilation with a small cache therefore shows how many bytes are left for more rows, and a
 * second one uses them. If even the small cache does not fit, the stage STREAM also reads other
 * weights when they are needed; these are used in every run, so they come before more experts.
 * Cost: two or three compilations.
 */
#include <tenure/engine.h>
#include <tenure/fit.h>

#include "engine/row_cache.h"
#include "fit/setup/setup.h"
#include "graph/rewrite/experts.h"

tn_status tn__setup_expert_rows(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    const tn__setup_part *rewritten = setup->parts[PART_REWRITTEN];
    const tn_graph *graph = rewritten != NULL ? rewritten->graph : setup->given;
    uint32_t slots = options->expert_slots;
    tn__experts found;
    tn__setup_part *part;
    if (options->given_kernels != NULL || options->given_program != NULL || options->split != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "experts in a cache: tiles, or kernels or a program that are given, are of the "
                "whole graph");
    TN_TRY(tn__experts_find(graph, &setup->context, &found, error));
    if (found.operators == 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "no operator of the graph is a mixture of experts with constant weights");
    if (slots > found.rows) slots = found.rows;
    const tn_expert_cache cache = {.operators = found.operators,
                                   .experts = found.rows,
                                   .slots = slots,
                                   .expert_bytes = found.row_bytes,
                                   .cache_bytes =
                                       tn__row_cache_bytes(slots, found.row_bytes, found.most),
                                   .bytes = found.bytes};
    if (cache.cache_bytes == TN_SIZE_UNKNOWN)
        TN_FAIL(error, TN_E_INVALID, "a cache of %u experts has more than 2^64 bytes", slots);
    TN_TRY(tn__setup_part_make(setup, PART_GRAPH, &part, error));
    part->experts = cache;
    return tn__experts_graph(graph, slots, cache.cache_bytes, &setup->context, &part->graph, error);
}

/* --- the size of the cache for a budget --- */

static bool experts_is_none(tn_status status) {
    return status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE || status == TN_E_UNSUPPORTED;
}

/* Compiles the model with a cache of `slots` rows, which may exceed the budget. */
static tn_status experts_compile(const tn_setup *whole, const tn_setup_options *asked,
                                 uint32_t slots, tn_setup **setup, tn_error *error) {
    tn_setup_options options = *asked;
    options.expert_slots = slots;
    options.stream = NULL;
    options.split = NULL;
    options.costs = NULL;
    options.fit = NULL;
    return tn__setup_make(whole->given, NULL, TN_SETUP_REWRITE, &options, setup, NULL, error);
}

/* Returns the largest number of rows of a cache that needs at most `bytes` bytes. */
static uint32_t experts_room(const tn__experts *found, uint64_t bytes) {
    uint32_t low = 0, high = found->rows;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (tn__row_cache_bytes(middle, found->row_bytes, found->most) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Replaces a compiled model that is within the budget by one with as many rows as fit. */
static tn_status experts_grow(const tn_setup *whole, const tn_setup_options *options,
                              const tn__experts *found, tn_setup **setup, tn_error *error) {
    const uint64_t budget = options->stream->budget, need = tn_setup_need(*setup).total;
    const tn_expert_cache *now = tn_setup_experts(*setup);
    uint32_t slots = experts_room(found, now->cache_bytes + (budget - need));
    /* if static memory lies in the arena, the gaps of the layout may change */
    while (slots > now->slots) {
        tn_setup *more;
        TN_TRY(experts_compile(whole, options, slots, &more, error));
        if (tn_setup_need(more).total <= budget) {
            tn_setup_destroy(*setup);
            *setup = more;
            return TN_OK;
        }
        tn_setup_destroy(more);
        slots -= slots / 8 + 1;
    }
    return TN_OK;
}

/* Streams the other weights of a model with a cache of experts. The rates of the operators do not
 * matter much, because the times of the mixtures are unknown: default rates are used. */
static tn_status experts_stream(const tn_setup *base, const tn_setup_options *asked,
                                tn_setup **setup, tn__refusal *refusal, tn_error *error) {
    tn_setup_options options = *asked;
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_setup_stream stream = *asked->stream;
    tn_costs *costs;
    model.context = &base->context;
    stream.parts = false;
    options.stream = &stream;
    TN_TRY(tn_costs_create_model(tn_setup_graph(base), &model, &costs, error));
    options.costs = costs;
    tn_status status =
        tn__setup_make(base->given, base, TN_SETUP_STREAM, &options, setup, refusal, error);
    tn_costs_destroy(costs);
    return status;
}

/* Tries a cache of one row with all other weights in memory, and more rows as far as the budget
 * allows. Errors: E_EXHAUSTED (no message). */
static tn_status experts_try(const tn_setup *whole, const tn_setup_options *options,
                             const tn__experts *found, tn_setup **setup, tn_error *error) {
    TN_TRY(experts_compile(whole, options, 1, setup, error));
    bool fits = tn_setup_need(*setup).total <= options->stream->budget;
    tn_status status = fits ? experts_grow(whole, options, found, setup, error) : TN_E_EXHAUSTED;
    if (status == TN_OK) return TN_OK;
    tn_setup_destroy(*setup);
    *setup = NULL;
    return status;
}

/* Tries a cache of `slots` rows, with other weights streamed. */
static tn_status experts_try_streamed(const tn_setup *whole, const tn_setup_options *options,
                                      uint32_t slots, tn_setup **setup, tn__refusal *refusal,
                                      tn_error *error) {
    tn_setup *base;
    TN_TRY(experts_compile(whole, options, slots, &base, error));
    tn_status status = experts_stream(base, options, setup, refusal, error);
    tn_setup_destroy(base);
    if (status != TN_OK) *setup = NULL;
    return status;
}

tn_status tn__setup_expert_cache(const tn_setup *whole, const tn_setup_options *options,
                                 tn_setup **setup, tn__refusal *refusal, tn_error *error) {
    tn__experts found;
    tn_error said = {0};
    *setup = NULL;
    TN_TRY(tn__experts_find(tn_setup_graph(whole), &whole->context, &found, error));
    if (found.operators == 0 || options->given_kernels != NULL || options->given_program != NULL ||
        options->divide != NULL)
        return TN_OK;
    tn_status status = experts_try(whole, options, &found, setup, &said);
    /* room for the experts of a token and as many guessed ones; else for one */
    uint32_t both = 2 * found.chosen < found.rows ? 2 * found.chosen : found.rows;
    if (experts_is_none(status))
        status = experts_try_streamed(whole, options, both, setup, refusal, &said);
    if (experts_is_none(status))
        status = experts_try_streamed(whole, options, 1, setup, refusal, &said);
    return status == TN_OK || experts_is_none(status) ? TN_OK : tn__fail_as(error, status, &said);
}
