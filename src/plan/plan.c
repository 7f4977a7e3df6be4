/* plan.c - the frame around every planner: refuse, prepare, limit, solve, prove, hand over.
 *
 * Banks do not touch each other, so each is planned by itself. Bodies tied together are planned as
 * one (groups.c) and get their offsets back from its. Times are replaced by their ranks among the
 * bank's event times. No layout leaves without tn_layout_verify's consent.
 */
#include "plan/run.h"

#include <inttypes.h>
#include <stdio.h>

#define TN_PLANNER(name) extern const tn_planner tn__planner_##name;
#include "plan/planners.def"
#undef TN_PLANNER

static const tn_planner *const planners[] = {
#define TN_PLANNER(name) &tn__planner_##name,
#include "plan/planners.def"
#undef TN_PLANNER
};

uint32_t tn_planner_count(void) { return (uint32_t)(sizeof planners / sizeof *planners); }
const char *tn_planner_name(uint32_t index) { return planners[index]->name; }
const char *tn_planner_summary(uint32_t index) { return planners[index]->summary; }
const char *tn_planner_source(uint32_t index) { return planners[index]->source; }

const tn_planner *tn__planner_at(uint32_t index) { return planners[index]; }

const tn_planner *tn__planner_find(const char *name) {
    for (uint32_t i = 0; i < tn_planner_count(); i++)
        if (strcmp(planners[i]->name, name) == 0) return planners[i];
    return NULL;
}

/* --- preparing one bank --- */

typedef struct plan_bank {
    tn__prepared prepared;
    const tn__wholes *wholes;
    tn_body_id *ids;
    uint64_t *pins;
    int64_t *times;
    size_t time_room, clock_room;
} plan_bank;

static int plan_time_order(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t plan_rank(const int64_t *times, uint32_t count, int64_t time) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (times[middle] <= time)
            low = middle;
        else
            high = middle;
    }
    tn_assert(times[low] == time);
    return low;
}

static void plan_release_bank(plan_bank *bank) {
    tn__prepared *p = &bank->prepared;
    const tn_context *context = &p->context;
    size_t n = p->count;
    tn__free(context, bank->ids, n * sizeof *bank->ids);
    tn__free(context, bank->pins, n * sizeof *bank->pins);
    tn__free(context, bank->times, bank->time_room * sizeof *bank->times);
    tn__free(context, p->bodies, n * sizeof *p->bodies);
    tn__free(context, p->pieces, p->piece_count * sizeof *p->pieces);
    tn__free(context, p->begins, bank->clock_room * sizeof *p->begins);
    tn__free(context, p->ends, bank->clock_room * sizeof *p->ends);
    tn__free(context, p->by_first, n * sizeof *p->by_first);
    tn__free(context, p->position, n * sizeof *p->position);
    tn__free(context, p->until, ((size_t)p->time_count + 1) * sizeof *p->until);
}

/* Which bodies, which times; sets count, piece_count, time_count. */
static tn_status plan_gather(plan_bank *bank, tn_bank_id which, tn_error *error) {
    tn__prepared *p = &bank->prepared;
    const tn_problem *problem = p->problem;
    const tn_body *body;
    for (size_t i = 0; i < problem->count; i++) {
        if ((body = tn__whole_in(bank->wholes, i, which)) == NULL) continue;
        p->count++;
        p->piece_count += body->piece_count;
    }
    bank->time_room = 2 * ((size_t)p->piece_count + p->count);
    bank->ids = tn__alloc_array(&p->context, p->count, sizeof *bank->ids);
    bank->pins = tn__alloc_array(&p->context, p->count, sizeof *bank->pins);
    bank->times = tn__alloc_array(&p->context, bank->time_room, sizeof *bank->times);
    if (!bank->ids || !bank->pins || !bank->times) return tn__no_memory(error, "a bank");
    p->ids = bank->ids;
    p->pins = bank->pins;
    p->times = bank->times;
    uint32_t count = 0;
    size_t times = 0;
    for (size_t i = 0; i < problem->count; i++) {
        if ((body = tn__whole_in(bank->wholes, i, which)) == NULL) continue;
        bank->ids[count] = (tn_body_id)i;
        bank->pins[count++] = body->flags & TN_BODY_PINNED ? body->offset : TN__FREE;
        bank->times[times++] = body->first;
        bank->times[times++] = body->last;
        for (uint32_t k = 0; k < body->piece_count; k++) {
            bank->times[times++] = body->pieces[k].first;
            bank->times[times++] = body->pieces[k].last;
        }
    }
    qsort(bank->times, times, sizeof *bank->times, plan_time_order);
    for (size_t i = 0; i < times; i++)
        if (i == 0 || bank->times[i] != bank->times[i - 1])
            bank->times[p->time_count++] = bank->times[i];
    return TN_OK;
}

/* Bodies by first step: counting sort, since first steps are ranks. until[] is its by-product. */
static void plan_sort_by_first(tn__prepared *p) {
    for (uint32_t i = 0; i < p->count; i++) p->until[p->bodies[i].first + 1]++;
    for (uint32_t t = 0; t < p->time_count; t++) p->until[t + 1] += p->until[t];
    /* until[t] = bodies that begin before t; fill from there, which shifts it by one step */
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t at = p->until[p->bodies[i].first]++;
        p->by_first[at] = i;
        p->position[i] = at;
    }
    for (uint32_t t = p->time_count; t > 0; t--) p->until[t] = p->until[t - 1];
    p->until[0] = 0;
}

static bool plan_fill_room(plan_bank *bank) {
    tn__prepared *p = &bank->prepared;
    const tn_context *context = &p->context;
    p->bodies = tn__alloc_array(context, p->count, sizeof *p->bodies);
    p->pieces = tn__alloc_array(context, p->piece_count, sizeof *p->pieces);
    p->by_first = tn__alloc_array(context, p->count, sizeof *p->by_first);
    p->position = tn__alloc_array(context, p->count, sizeof *p->position);
    p->until = tn__alloc_array(context, (size_t)p->time_count + 1, sizeof *p->until);
    if (!p->bodies || !p->pieces || !p->by_first || !p->position || !p->until) return false;
    p->streams = p->problem->streams;
    if (p->streams == 1) return true;
    bank->clock_room = p->piece_count;
    p->begins = tn__alloc_array(context, bank->clock_room, sizeof *p->begins);
    p->ends = tn__alloc_array(context, bank->clock_room, sizeof *p->ends);
    p->needs |= TN_PLANS_STREAMS;
    return p->begins != NULL && p->ends != NULL;
}

static void plan_fill_body(plan_bank *bank, const tn_body *body, uint32_t i, uint32_t piece) {
    tn__prepared *p = &bank->prepared;
    p->bodies[i] = (tn_run_body){.size = body->size,
                                 .alignment = body->alignment,
                                 .first = plan_rank(bank->times, p->time_count, body->first),
                                 .last = plan_rank(bank->times, p->time_count, body->last),
                                 .piece_first = piece,
                                 .piece_count = body->piece_count};
    for (uint32_t k = 0; k < body->piece_count; k++, piece++) {
        const tn_piece *from = &body->pieces[k];
        p->pieces[piece] =
            (tn_run_piece){.first = plan_rank(bank->times, p->time_count, from->first),
                           .last = plan_rank(bank->times, p->time_count, from->last),
                           .lo = from->lo,
                           .hi = from->hi};
        if (from->lo != 0 || from->hi != body->size || body->piece_count > 1)
            p->needs |= TN_PLANS_PIECES;
        if (p->begins == NULL) continue;
        p->begins[piece] = from->begins;
        p->ends[piece] = from->ends;
    }
    if (body->alignment > 1) p->needs |= TN_PLANS_ALIGNMENT;
    if (body->flags & TN_BODY_PINNED) p->needs |= TN_PLANS_PINS;
}

static tn_status plan_fill(plan_bank *bank, tn_error *error) {
    tn__prepared *p = &bank->prepared;
    if (!plan_fill_room(bank)) return tn__no_memory(error, "a bank's bodies");
    uint32_t piece_count = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        plan_fill_body(bank, tn__whole(bank->wholes, p->ids[i]), i, piece_count);
        piece_count += p->bodies[i].piece_count;
    }
    plan_sort_by_first(p);
    for (p->leaf_count = 1; p->leaf_count < p->count;) p->leaf_count *= 2;
    return TN_OK;
}

/* --- refusing --- */

static tn_status plan_refuse(const tn_planner *planner, uint32_t needs, tn_error *error) {
    uint32_t missing = needs & ~planner->features;
    if (missing == 0) return TN_OK;
    const char *what = missing & TN_PLANS_ALIGNMENT ? "alignments"
                       : missing & TN_PLANS_PINS    ? "pinned offsets"
                       : missing & TN_PLANS_STREAMS ? "several streams"
                                                    : "pieces and windows";
    TN_FAIL(error, TN_E_UNSUPPORTED, "planner %s does not model %s; use --planner auto",
            planner->name, what);
}

/* Offsets are below 2^63, so that sums of an offset, a size and an alignment fit in 64 bits. */
static tn_status plan_refuse_height(const tn_problem *problem, tn_bank_id bank, uint64_t bound,
                                    tn_error *error) {
    if (bound <= TN__PLAN_HEIGHT_MAX) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "%s: its bodies need more than 2^63 - 1 bytes at once",
            problem->banks[bank].name);
}

/* --- one bank, all banks ------------------------------------------------------------------------
 */

typedef struct plan_call {
    const tn_planner *planner;
    const tn_problem *problem;
    tn__wholes wholes;
    tn_plan_options options;
    double start_s;
    tn_layout layout;
    tn_error *error;
} plan_call;

static tn_status plan_take(plan_call *call, const tn_run *run, tn_bank_id which) {
    const tn__prepared *prepared = run->prepared;
    tn_layout *layout = &call->layout;
    layout->bank_peak[which] = run->best_peak;
    layout->bank_lower_bound[which] = run->lower_bound;
    layout->peak = tn__add_sat(layout->peak, run->best_peak);
    layout->lower_bound = tn__add_sat(layout->lower_bound, run->lower_bound);
    for (uint32_t i = 0; i < prepared->count; i++) layout->offset[prepared->ids[i]] = run->best[i];
    if (!prepared->has_capacity || run->best_peak <= prepared->capacity) return TN_OK;
    const char *bank = call->problem->banks[which].name;
    if (run->lower_bound > prepared->capacity)
        TN_FAIL(call->error, TN_E_INFEASIBLE,
                "%s: no layout needs less than %" PRIu64 " bytes, the capacity is %" PRIu64, bank,
                run->lower_bound, prepared->capacity);
    TN_FAIL(call->error, TN_E_STOPPED,
            "%s: the best layout found needs %" PRIu64 " bytes, the capacity is %" PRIu64
            "; try another planner or more time",
            bank, run->best_peak, prepared->capacity);
}

static tn_status plan_bank_run(plan_call *call, tn_bank_id which, plan_bank *bank) {
    tn__prepared *p = &bank->prepared;
    tn_run run;
    int64_t step;
    TN_TRY(plan_gather(bank, which, call->error));
    TN_TRY(plan_fill(bank, call->error));
    TN_TRY(plan_refuse(call->planner, p->needs, call->error));
    TN_TRY(tn__lower_bound(bank->wholes, which, &p->lower_bound, &step, call->error));
    TN_TRY(plan_refuse_height(call->problem, which, p->lower_bound, call->error));
    if (p->has_capacity && p->lower_bound > p->capacity)
        TN_FAIL(call->error, TN_E_INFEASIBLE,
                "%s: step %" PRId64 " needs at least %" PRIu64 " bytes, the capacity is %" PRIu64,
                call->problem->banks[which].name, step, p->lower_bound, p->capacity);
    TN_TRY(tn__run_create(&run, p, call->planner, call->error));
    tn_status status = tn__run_solve(&run);
    call->layout.work += run.work;
    call->layout.timed_out |= run.timed_out;
    if (status == TN_OK) status = plan_take(call, &run, which);
    if (status == TN_E_STOPPED && run.best_peak == UINT64_MAX &&
        run.lower_bound > (p->has_capacity ? p->capacity : UINT64_MAX))
        status = tn__fail(call->error, TN_E_INFEASIBLE,
                          "%s: proved that no layout fits in %" PRIu64 " bytes",
                          call->problem->banks[which].name, p->capacity);
    tn__run_release(&run);
    return status;
}

static tn_status plan_banks(plan_call *call) {
    double timeout_s = call->options.timeout_s;
    for (tn_bank_id which = 0; which < call->problem->bank_count; which++) {
        uint64_t capacity = call->problem->banks[which].capacity;
        uint64_t asked = which == 0 ? call->options.capacity : 0;
        if (asked != 0 && (capacity == 0 || asked < capacity)) capacity = asked;
        plan_bank bank = {
            .wholes = &call->wholes,
            .prepared = {.problem = call->problem,
                         .options = &call->options,
                         .context = tn__context(call->options.context),
                         .capacity = capacity != 0 ? capacity : UINT64_MAX,
                         .has_capacity = capacity != 0,
                         .deadline_s = timeout_s > 0 ? call->start_s + timeout_s : 0}};
        tn_status status = plan_bank_run(call, which, &bank);
        plan_release_bank(&bank);
        if (status != TN_OK) return status;
    }
    for (size_t i = 0; i < call->problem->count; i++) {
        const tn_body *body = &call->problem->bodies[i];
        if (body->flags & TN_BODY_TIED)
            call->layout.offset[i] = call->layout.offset[body->leader] + body->delta;
    }
    return TN_OK;
}

/* The judge has the last word; what it refuses is our fault, never the caller's. */
static tn_status plan_prove(plan_call *call) {
    tn_layout *layout = &call->layout;
    tn_error why = {0};
    tn_status status = tn_layout_verify(call->problem, layout, NULL, &why);
    if (status == TN_E_CONFLICT)
        TN_FAIL(call->error, TN_E_INTERNAL, "planner %s made a layout that is not valid: %.200s",
                call->planner->name, why.message);
    if (status != TN_OK) TN_FAIL(call->error, status, "%s", why.message);
    if (layout->lower_bound > layout->peak)
        TN_FAIL(call->error, TN_E_INTERNAL,
                "planner %s claims the bound %" PRIu64 " above its peak", call->planner->name,
                layout->lower_bound);
    layout->verdict =
        layout->peak == layout->lower_bound ? TN_VERDICT_OPTIMAL : TN_VERDICT_FEASIBLE;
    return TN_OK;
}

tn_status tn__plan_with(const tn_planner *planner, const tn_problem *problem,
                        const tn_plan_options *options, tn_layout *layout, tn_error *error) {
    plan_call call = {.planner = planner,
                      .problem = problem,
                      .options = TN_PLAN_OPTIONS_INIT,
                      .start_s = tn__clock_s(),
                      .error = error};
    if (options != NULL) {
        size_t known =
            options->struct_size < sizeof call.options ? options->struct_size : sizeof call.options;
        memcpy(&call.options, options, known);
    }
    if (call.options.context == NULL) call.options.context = &problem->context;
    TN_TRY(tn__verify_pins(problem, error));
    TN_TRY(tn__layout_create(problem, &call.layout, error));
    call.layout.planner = planner->name;
    call.layout.seed = call.options.seed;
    tn_status status = tn__wholes_create(problem, &call.wholes, error);
    if (status == TN_OK) {
        status = plan_banks(&call);
        tn__wholes_release(&call.wholes);
    }
    if (status == TN_OK) status = plan_prove(&call);
    call.layout.seconds = tn__clock_s() - call.start_s;
    if (status == TN_OK)
        *layout = call.layout;
    else
        tn_layout_release(&call.layout);
    return status;
}

tn_status tn_plan(const tn_problem *problem, const tn_plan_options *options, tn_layout *layout,
                  tn_error *error) {
    const char *name = options != NULL && options->planner != NULL ? options->planner : "auto";
    const tn_planner *planner = tn__planner_find(name);
    if (planner == NULL)
        TN_FAIL(error, TN_E_UNKNOWN, "no planner is called '%.60s'; see `tenure list planners`",
                name);
    return tn__plan_with(planner, problem, options, layout, error);
}
