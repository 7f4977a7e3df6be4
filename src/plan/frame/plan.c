/* plan.c - the code around every planner: it checks the problem, prepares it, sets the limits,
 * calls the planner, verifies the layout and returns it.
 *
 * Banks do not affect each other, so each bank is planned separately (prepare.c), after buffers
 * with a choice of banks have been assigned to one (banks.c). Buffers tied together are planned as
 * one buffer (groups.c), and their offsets follow from the offset of the group. Every layout passes
 * tn_layout_verify before it is returned.
 */
#include "plan/frame/planner_run.h"

#include <inttypes.h>
#include <stdio.h>

#define TN_PLANNER(folder, name) extern const tn_planner tn__planner_##name;
#include "plan/planners.def"
#undef TN_PLANNER

static const tn_planner *const plan_planners[] = {
#define TN_PLANNER(folder, name) &tn__planner_##name,
#include "plan/planners.def"
#undef TN_PLANNER
};

uint32_t tn_planner_count(void) { return (uint32_t)(sizeof plan_planners / sizeof *plan_planners); }
const char *tn_planner_name(uint32_t index) { return plan_planners[index]->name; }
const char *tn_planner_summary(uint32_t index) { return plan_planners[index]->summary; }

const tn_planner *tn__planner_at(uint32_t index) { return plan_planners[index]; }

/* Planner names of version 0.1, accepted until the version after next. */
static const char *plan_renamed(const char *name) {
    static const char *const names[][2] = {{"draft", "fast"},
                                           {"uncut", "guillotine"},
                                           {"slide", "window-search"},
                                           {"crest", "peak-first"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i][0]) == 0) return names[i][1];
    return name;
}

const tn_planner *tn__planner_find(const char *name) {
    name = plan_renamed(name);
    for (uint32_t i = 0; i < tn_planner_count(); i++)
        if (strcmp(plan_planners[i]->name, name) == 0) return plan_planners[i];
    return NULL;
}

/* --- refusing --- */

tn_status tn__call_refuse(const tn__call *call, uint32_t needs) {
    const tn_planner *planner = call->planner;
    uint32_t missing = needs & ~planner->features;
    if (missing == 0) return TN_OK;
    const char *what = missing & TN_PLANS_ALIGNMENT ? "alignments"
                       : missing & TN_PLANS_PINS    ? "pinned offsets"
                       : missing & TN_PLANS_STREAMS ? "several streams"
                       : missing & TN_PLANS_PIECES  ? "pieces and windows"
                       : missing & TN_PLANS_APART   ? "separations, exclusions and reserved ranges"
                                                    : "reuse costs";
    TN_FAIL(call->error, TN_E_UNSUPPORTED, "planner %s does not model %s; use `planner` auto",
            planner->name, what);
}

/* Refuses a bank with offsets that could reach 2^63, so that sums of an offset, a size and an
 * alignment fit in 64 bits. */
static tn_status plan_refuse_height(const tn_problem *problem, tn_bank_id bank, uint64_t bound,
                                    tn_error *error) {
    if (bound <= TN__PLAN_HEIGHT_MAX) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "%s: its bodies need more than 2^63 - 1 bytes at once",
            problem->banks[bank].name);
}

/* --- planning one bank, then all banks -------------------------------------------------------- */

uint64_t tn__call_capacity(const tn__call *call, tn_bank_id which) {
    uint64_t capacity = call->problem->banks[which].capacity;
    uint64_t asked = which == 0 ? call->options.capacity : 0;
    if (asked != 0 && (capacity == 0 || asked < capacity)) capacity = asked;
    return capacity != 0 ? capacity : UINT64_MAX;
}

tn__prepared_bank tn__call_prepared(const tn__call *call, tn_bank_id which) {
    double timeout_s = call->options.timeout_s;
    uint64_t capacity = tn__call_capacity(call, which);
    return (tn__prepared_bank){.problem = call->problem,
                               .wholes = &call->wholes,
                               .options = &call->options,
                               .context = tn__context(call->options.context),
                               .capacity = capacity,
                               .has_capacity = capacity != UINT64_MAX,
                               .deadline_s = timeout_s > 0 ? call->start_s + timeout_s : 0};
}

/* Reports that the capacity of a bank is too small. If the planner chose the banks of buffers,
 * another choice might have fitted, so nothing is proved. */
static tn_status plan_too_small(const tn__call *call, const char *bank, uint64_t least,
                                uint64_t capacity) {
    if (tn__has_choice(call->problem))
        TN_FAIL(call->error, TN_E_STOPPED,
                "%s: the bodies that are left for it need %" PRIu64
                " bytes, the capacity is %" PRIu64 "; no choice of banks was found that fits",
                bank, least, capacity);
    TN_FAIL(call->error, TN_E_INFEASIBLE,
            "%s: no layout of these buffers needs less than %" PRIu64
            " bytes, the capacity is %" PRIu64,
            bank, least, capacity);
}

/* Reports that the bytes that are live at one step exceed the capacity of a bank. */
static tn_status plan_refuse(const tn__call *call, const char *bank, int64_t step,
                             const tn__prepared_bank *p) {
    char least[TN_SIZE_TEXT_MAX], capacity[TN_SIZE_TEXT_MAX];
    TN_FAIL(call->error, TN_E_INFEASIBLE,
            "%s: the buffers at step %" PRId64 " need %s, so no layout of these buffers fits in %s",
            bank, step, tn_size_format(p->lower_bound, least),
            tn_size_format(p->capacity, capacity));
}

/* the layout found for one bank */
typedef struct plan_found {
    const uint64_t *offset; /* [prepared->count], offset of each buffer */
    uint64_t peak, lower_bound;
} plan_found;

static tn_status plan_take(tn__call *call, const tn__prepared_bank *prepared, plan_found found,
                           tn_bank_id which) {
    tn_layout *layout = &call->layout;
    layout->bank_peak[which] = found.peak;
    layout->bank_lower_bound[which] = found.lower_bound;
    layout->peak = tn__add_sat(layout->peak, found.peak);
    layout->lower_bound = tn__add_sat(layout->lower_bound, found.lower_bound);
    for (uint32_t i = 0; i < prepared->count; i++)
        layout->offset[prepared->ids[i]] = found.offset[i];
    if (tn__call_capacity(call, which) == UINT64_MAX || found.peak <= prepared->capacity)
        return TN_OK;
    const char *bank = call->problem->banks[which].name;
    if (found.lower_bound > prepared->capacity)
        return plan_too_small(call, bank, found.lower_bound, prepared->capacity);
    TN_FAIL(call->error, TN_E_STOPPED,
            "%s: the best layout found needs %" PRIu64 " bytes, the capacity is %" PRIu64
            "; try another planner or more time",
            bank, found.peak, prepared->capacity);
}

/* Whether the reuse cost of this bank is to be minimised, once there is a layout that fits. */
static bool plan_wants_cost(const tn__call *call, const tn__prepared_bank *p) {
    if (p->judge != NULL) return true;
    return call->options.objective == TN_OBJECTIVE_PAIRS && p->costs.item_count > 0;
}

/* Improves a layout that fits the capacity: searches the least reuse cost with the work and time
 * that are left. */
static tn_status plan_bank_cost(tn__call *call, tn__prepared_bank *p, tn_run *run,
                                double deadline_s) {
    tn_run by_cost;
    p->by_cost = true;
    p->deadline_s = deadline_s;
    TN_TRY(tn__run_create(&by_cost, p, call->planner, call->error));
    uint64_t limit = call->options.work_limit;
    if (limit != 0) by_cost.work_limit = limit > run->work ? limit - run->work : 1;
    tn__run_keep_offsets(&by_cost, run->best);
    tn_status status = tn__run_solve(&by_cost);
    if (status == TN_OK) {
        memcpy(run->best, by_cost.best, p->count * sizeof *run->best);
        run->best_peak = by_cost.best_peak;
        run->cost_bound = by_cost.cost_bound;
    }
    run->work += by_cost.work;
    run->timed_out |= by_cost.timed_out;
    tn__run_release(&by_cost);
    return status;
}

static void plan_take_bound(tn__call *call, uint64_t bound) {
    tn_layout *layout = &call->layout;
    uint64_t *of = layout->objective == TN_OBJECTIVE_WAITS  ? &layout->waits_bound
                   : layout->objective == TN_OBJECTIVE_TIME ? &layout->time_bound
                                                            : &layout->reuse_cost_bound;
    *of = tn__add_sat(*of, bound);
}

/* Plans one bank. If its reuse cost is minimised, at most half of the work and time is spent on
 * finding a layout that fits. */
static tn_status plan_bank_run(tn__call *call, tn_bank_id which, tn__prepared_bank *p,
                               const uint64_t *first) {
    const char *bank = call->problem->banks[which].name;
    double deadline_s = p->deadline_s, now_s = tn__clock_s();
    bool costs = plan_wants_cost(call, p);
    tn_run run;
    if (costs && deadline_s > now_s) p->deadline_s = now_s + (deadline_s - now_s) / 2;
    TN_TRY(tn__run_create(&run, p, call->planner, call->error));
    if (costs && run.work_limit > 1) run.work_limit /= 2;
    tn_status status = tn__run_answer(&run, first);
    if (status == TN_OK && costs && run.best_peak <= p->capacity)
        status = plan_bank_cost(call, p, &run, deadline_s);
    call->layout.work += run.work;
    call->layout.timed_out |= run.timed_out;
    plan_take_bound(call, run.cost_bound);
    if (status == TN_OK)
        status = plan_take(call, p, (plan_found){run.best, run.best_peak, run.lower_bound}, which);
    if (status == TN_E_STOPPED && run.best_peak == UINT64_MAX && p->has_capacity &&
        run.lower_bound > p->capacity)
        status = plan_too_small(call, bank, run.lower_bound, p->capacity);
    tn__run_release(&run);
    return status;
}

/* Plans one bank with a time limit. A quick first layout is made before anything else; if making it
 * took all the time, it is the result. Verifying the final layout takes about as long, so that much
 * time is reserved for the verification. */
static tn_status plan_bank_timed(tn__call *call, tn_bank_id which, tn__prepared_bank *p,
                                 double start_s) {
    uint64_t *first = tn__alloc(&p->context, p->count * sizeof *first), peak;
    tn_status status = first != NULL ? TN_OK : tn__no_memory(call->error, "the first layout");
    bool made = status == TN_OK && tn__first_layout(p, first, &peak, NULL) == TN_OK;
    double now_s = tn__clock_s();
    p->deadline_s -= now_s - start_s;
    if (status == TN_OK && made && now_s >= p->deadline_s) {
        call->layout.timed_out = true;
        status = plan_take(call, p, (plan_found){first, peak, p->lower_bound}, which);
    } else if (status == TN_OK) {
        status = plan_bank_run(call, which, p, made ? first : NULL);
    }
    tn__free(&p->context, first, p->count * sizeof *first);
    return status;
}

/* Turns a sufficient peak (the option `enough`) into a capacity for planners, if a layout with that
 * peak may exist. */
static void plan_note_enough(const tn__call *call, tn__prepared_bank *p) {
    uint64_t enough = call->options.enough;
    if (p->has_capacity || enough < p->lower_bound || enough == 0) return;
    p->has_capacity = true;
    p->capacity = enough;
}

static const char *plan_objective_text(const tn__call *call) {
    if (call->options.objective == TN_OBJECTIVE_PAIRS) return "reuse cost";
    return call->options.objective == TN_OBJECTIVE_WAITS ? "number of waits" : "time";
}

static tn_status plan_bank(tn__call *call, tn_bank_id which, tn__prepared_bank *p) {
    int64_t step;
    double start_s = tn__clock_s();
    p->judge = call->judge;
    TN_TRY(tn__prepare(p, which, call->error));
    bool costs = plan_wants_cost(call, p);
    TN_TRY(tn__call_refuse(call, p->needs | (costs ? TN_PLANS_BY_COST : 0)));
    if (costs && !p->has_capacity)
        TN_FAIL(
            call->error, TN_E_INVALID,
            "%s has no capacity, so no buffers need to share bytes, and the least %s is that of "
            "a plan without reuse; set `capacity`",
            call->problem->banks[which].name, plan_objective_text(call));
    TN_TRY(tn__prepared_bound(p, which, &p->lower_bound, &step, call->error));
    TN_TRY(plan_refuse_height(call->problem, which, p->lower_bound, call->error));
    const char *bank = call->problem->banks[which].name;
    if (p->lower_bound > p->capacity && tn__has_choice(call->problem))
        return plan_too_small(call, bank, p->lower_bound, p->capacity);
    if (p->lower_bound > p->capacity) return plan_refuse(call, bank, step, p);
    plan_note_enough(call, p);
    return p->deadline_s != 0 ? plan_bank_timed(call, which, p, start_s)
                              : plan_bank_run(call, which, p, NULL);
}

/* Computes the peak and the bound of a bank that was already planned while banks were chosen, and
 * adds them to those of the layout. */
static tn_status plan_bank_again(tn__call *call, tn_bank_id which) {
    tn_layout *layout = &call->layout;
    uint64_t *peak = &layout->bank_peak[which], *bound = &layout->bank_lower_bound[which];
    TN_TRY(tn__lower_bound(&call->wholes, which, bound, NULL, call->error));
    for (size_t i = 0; i < call->problem->count; i++) {
        const tn_body *body = tn__whole_in(&call->wholes, i, which);
        if (body == NULL || body->size == 0) continue;
        if (layout->offset[i] + body->size > *peak) *peak = layout->offset[i] + body->size;
    }
    layout->peak = tn__add_sat(layout->peak, *peak);
    layout->lower_bound = tn__add_sat(layout->lower_bound, *bound);
    return TN_OK;
}

static tn_status plan_banks(tn__call *call) {
    tn_layout *layout = &call->layout;
    const tn_problem *problem = call->problem;
    if (tn__has_choice(problem)) TN_TRY(tn__choose_banks(call));
    for (tn_bank_id which = 0; which < problem->bank_count; which++) {
        if (call->planned[which]) {
            TN_TRY(plan_bank_again(call, which));
            continue;
        }
        tn__prepared_bank prepared = tn__call_prepared(call, which);
        tn_status status = plan_bank(call, which, &prepared);
        tn__prepared_release(&prepared);
        if (status != TN_OK) return status;
    }
    for (size_t i = 0; i < problem->count && problem->group_count > 0; i++) {
        const tn_body *body = &problem->bodies[i];
        if (!(body->flags & TN_BODY_TIED)) continue;
        layout->offset[i] = layout->offset[body->leader] + body->delta;
        layout->bank[i] = layout->bank[body->leader];
    }
    tn__layout_add_traffic(problem, layout);
    return TN_OK;
}

static tn_status plan_all(tn__call *call) {
    const tn_context *context = call->options.context;
    size_t bank_count = call->problem->bank_count;
    TN_TRY(tn__wholes_create(call->problem, &call->wholes, call->error));
    call->wholes.banks = call->layout.bank;
    call->planned = tn__alloc_array(context, bank_count, sizeof *call->planned);
    tn_status status =
        call->planned != NULL ? plan_banks(call) : tn__no_memory(call->error, "the banks");
    tn__free(context, call->planned, bank_count * sizeof *call->planned);
    tn__wholes_release(&call->wholes);
    return status;
}

/* Computes the waits and the time of the layout, if the problem states its events. */
static tn_status plan_wait(tn__call *call) {
    tn_layout *layout = &call->layout;
    if (call->problem->event_count == 0) return TN_OK;
    layout->workers = call->options.workers;
    TN_TRY(tn_layout_waits(call->problem, layout, layout->workers, NULL, &layout->waits,
                           &layout->time, call->error));
    if (layout->waits_bound <= layout->waits && layout->time_bound <= layout->time) return TN_OK;
    TN_FAIL(call->error, TN_E_INTERNAL, "planner %s claims a bound above its %s",
            call->planner->name, plan_objective_text(call));
}

static bool plan_is_optimal(const tn__call *call) {
    const tn_layout *layout = &call->layout;
    switch (layout->objective) {
    case TN_OBJECTIVE_PAIRS:
        return layout->reuse_cost == layout->reuse_cost_bound;
    case TN_OBJECTIVE_WAITS:
        return layout->waits == layout->waits_bound;
    case TN_OBJECTIVE_TIME:
        return layout->time == layout->time_bound;
    case TN_OBJECTIVE_BYTES:
        break;
    }
    return tn__has_choice(call->problem) ? call->least_time : layout->peak == layout->lower_bound;
}

/* Computes the reuse cost and the waits of the layout, verifies it, and sets its verdict. If the
 * verifier refuses it, that is a bug of the library, never the caller's mistake. */
static tn_status plan_prove(tn__call *call) {
    tn_layout *layout = &call->layout;
    tn_error why = {0};
    TN_TRY(tn_layout_reuse_cost(call->problem, layout, &layout->reuse_cost, NULL, call->error));
    TN_TRY(plan_wait(call));
    tn_status status = tn_layout_verify(call->problem, layout, NULL, &why);
    if (status == TN_E_CONFLICT)
        TN_FAIL(call->error, TN_E_INTERNAL, "planner %s made a layout that is not valid: %.200s",
                call->planner->name, why.message);
    if (status != TN_OK) TN_FAIL(call->error, status, "%s", why.message);
    if (layout->reuse_cost_bound > layout->reuse_cost)
        TN_FAIL(call->error, TN_E_INTERNAL,
                "planner %s claims the bound %" PRIu64 " above its reuse cost", call->planner->name,
                layout->reuse_cost_bound);
    if (layout->lower_bound > layout->peak)
        TN_FAIL(call->error, TN_E_INTERNAL,
                "planner %s claims the bound %" PRIu64 " above its peak", call->planner->name,
                layout->lower_bound);
    layout->verdict = plan_is_optimal(call) ? TN_VERDICT_OPTIMAL : TN_VERDICT_FEASIBLE;
    return TN_OK;
}

static tn_status plan_refuse_choice(const tn_problem *problem, tn_error *error) {
    bool pairs =
        tn__keeps_apart(problem) || problem->reuse_cost_count > 0 || problem->exclusion_count > 0;
    if (!pairs || !tn__has_choice(problem)) return TN_OK;
    TN_FAIL(
        error, TN_E_UNSUPPORTED,
        "bodies that choose their bank cannot be planned together with separations, exclusions, "
        "reserved ranges or reuse costs; give each body its bank");
}

/* Refuses the objectives waits and time if there is more than one bank or no events, because they
 * are properties of a whole program. */
static tn_status plan_refuse_objective(const tn_problem *problem, const tn_plan_options *options,
                                       tn_error *error) {
    if (options->objective != TN_OBJECTIVE_WAITS && options->objective != TN_OBJECTIVE_TIME)
        return TN_OK;
    if (problem->event_count == 0)
        TN_FAIL(error, TN_E_INVALID,
                "the objective %s needs a problem with events (`tn_problem_add_event`), or a model",
                tn_objective_name(options->objective));
    if (problem->exclusion_count > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "the objective %s cannot be combined with exclusions, which no order of events "
                "describes",
                tn_objective_name(options->objective));
    if (problem->bank_count > 1)
        TN_FAIL(error, TN_E_INVALID, "the objective %s is for problems with one bank; this has %zu",
                tn_objective_name(options->objective), problem->bank_count);
    return TN_OK;
}

tn_status tn__plan_with(const tn_planner *planner, const tn_problem *problem,
                        const tn_plan_options *options, tn_layout *layout, tn_error *error) {
    tn__call call = {.planner = planner,
                     .problem = problem,
                     .options = TN_PLAN_OPTIONS_INIT,
                     .start_s = tn__clock_s(),
                     .error = error};
    tn__options(&call.options, sizeof call.options, options);
    if (call.options.context == NULL) call.options.context = &problem->context;
    TN_TRY(plan_refuse_choice(problem, error));
    TN_TRY(plan_refuse_objective(problem, &call.options, error));
    TN_TRY(tn__verify_pins(problem, error));
    TN_TRY(tn__layout_create(problem, &call.layout, error));
    call.layout.planner = planner->name;
    call.layout.seed = call.options.seed;
    call.layout.objective = call.options.objective;
    tn_status status = TN_OK;
    if (call.options.objective == TN_OBJECTIVE_WAITS || call.options.objective == TN_OBJECTIVE_TIME)
        status = tn__judge_create(&call, &call.judge, error);
    if (status == TN_OK) status = plan_all(&call);
    if (status == TN_OK) status = plan_prove(&call);
    tn_context context = tn__context(call.options.context);
    tn__judge_destroy(call.judge, &context);
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
    if (planner == NULL) {
        char asked[TN__NEAR_TEXT];
        TN_FAIL(
            error, TN_E_UNKNOWN, "no planner is called '%.60s'; %s", name,
            tn__near_of(name, tn_planner_count(), tn_planner_name, "see `tn_planner_name`", asked));
    }
    return tn__plan_with(planner, problem, options, layout, error);
}
