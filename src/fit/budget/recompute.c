/* recompute.c - tn_program_recompute: a program that recomputes some tensors instead of keeping
 * them, within a share of the work of one run.
 *
 * The work of an operator is its arithmetic or its memory traffic, whichever takes longer. The
 * memory of the result is measured with an occupancy and compared with that of the input program.
 * If it is not smaller, the result is a copy of the input. If the user gave rules (rules.c), they
 * are applied first, and the program that only obeys the rules takes the place of the input. Cost:
 * that of algorithms/work_budget.c, with an occupancy for each schedule that is compared.
 */
#include <tenure/search.h>

#include <math.h>

#include "fit/budget/algorithms/work_budget.h"
#include "fit/budget/costs.h"
#include "fit/budget/rules.h"
#include "fit/budget/schedule/lower.h"
#include "graph/takes.h"

typedef struct recompute_call {
    const tn_program *program;
    const tn_graph *graph;
    tn_recompute_options options;
    tn_context context;
    tn__arena arena;
    /* plain: the jobs and values of the program, to which `map` belongs; dag: the same after the
     * user's rules were applied, which is the schedule graph that is searched */
    tn__dag dag, plain;
    tn__dag_map *map;
    /* the schedule graph that obeys the user's rules; it has no jobs if there are no rules */
    tn__ruled ruled;
    bool *may; /* [jobs] */
    tn_error *error;
} recompute_call;

/* --- work --- */

/* Returns the work of an operator in operations, on a machine that performs flops_per_byte
 * operations in the time of moving one byte. *cheap: memory traffic takes longer than arithmetic;
 * *known: the work is known. */
static uint64_t recompute_work(const recompute_call *s, tn_op_id id, bool *cheap, bool *known) {
    const tn__machine machine = {1, 1 / (double)s->options.flops_per_byte};
    tn_cost cost = tn_op_cost(s->graph, id);
    *known = cost.flops != TN_SIZE_UNKNOWN && cost.bytes_moved != TN_SIZE_UNKNOWN;
    *cheap = cost.flops <= tn__mul_sat(cost.bytes_moved, s->options.flops_per_byte);
    double work = *known ? tn__op_takes(s->graph, id, &machine, NULL) + 0.5 : 0;
    return work < (double)TN_COSTS_MOST ? (uint64_t)work : TN_COSTS_MOST;
}

static bool recompute_is_listed(const char *list, const char *type) {
    size_t length = strlen(type);
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, type, word) == 0) return true;
        at += word + (at[word] == ',');
    }
    return list == NULL;
}

static tn_status recompute_read(recompute_call *s) {
    uint32_t ops = tn_graph_op_count(s->graph);
    bool *may = tn__arena_array(&s->arena, (size_t)ops + 1, sizeof *may);
    tn_costs *costs;
    if (may == NULL) return tn__no_memory(s->error, "recomputation");
    TN_TRY(tn__costs_create(&s->context, s->graph, &costs, s->error));
    for (tn_op_id id = 0; id < ops; id++) {
        bool cheap, known;
        costs->of[id] = costs->recompute[id] = recompute_work(s, id, &cheap, &known);
        may[id] = known && (cheap || !s->options.cheap) &&
                  recompute_is_listed(s->options.only, tn_graph_op(s->graph, id)->type);
    }
    tn_status status =
        tn__dag_read(s->program, costs, s->options.memory, &s->arena, &s->dag, &s->map, s->error);
    tn_costs_destroy(costs);
    TN_TRY(status);
    s->plain = s->dag;
    if (tn__rules_any(s->options.rules)) {
        TN_TRY(tn__rules_apply(s->options.rules, s->graph, &s->plain,
                               tn__rules_are_strict(s->program), NULL, NULL, &s->arena, &s->ruled,
                               s->error));
        s->dag = s->ruled.dag;
    }
    s->may = tn__arena_array(&s->arena, s->dag.job_count + (size_t)1, sizeof *s->may);
    if (s->may == NULL) return tn__no_memory(s->error, "recomputation");
    for (uint32_t j = 0; j < s->dag.job_count; j++)
        s->may[j] = s->dag.jobs[j].op != TN_NONE && may[s->dag.jobs[j].op];
    /* communication between ranks needs this order (read_messages.c), so the order does not change,
     * and only repeats are added */
    s->dag.is_ordered = true;
    return TN_OK;
}

/* --- results --- */

static tn_status recompute_peak(const recompute_call *s, const tn_program *program,
                                uint64_t *peak) {
    tn_occupancy *occupancy;
    TN_TRY(tn_occupancy_create(program, s->options.memory, &occupancy, s->error));
    *peak = tn_occupancy_summary(occupancy).peak_live;
    tn_occupancy_destroy(occupancy);
    return TN_OK;
}

static tn_status recompute_emit(const recompute_call *s, const tn__schedule *schedule,
                                tn_program **made) {
    tn__schedule plain;
    if (s->ruled.jobs == NULL) return tn__schedule_emit(s->map, &s->dag, schedule, made, s->error);
    tn__schedule_init(&plain, &s->context);
    tn_status status = tn__rules_schedule(&s->ruled, schedule, &plain, s->error);
    if (status == TN_OK) status = tn__schedule_emit(s->map, &s->plain, &plain, made, s->error);
    tn__schedule_release(&plain);
    return status;
}

static tn_status recompute_bytes(void *self, const tn__schedule *schedule, uint64_t *bytes) {
    const recompute_call *s = self;
    tn_program *program;
    TN_TRY(recompute_emit(s, schedule, &program));
    tn_status status = recompute_peak(s, program, bytes);
    tn_program_destroy(program);
    return status;
}

static tn_status recompute_copy(const recompute_call *s, tn_program **copy) {
    return tn_program_from(s->graph, tn_program_instructions(s->program),
                           tn_program_count(s->program), tn_program_regions(s->program),
                           tn_program_region_count(s->program), copy, s->error);
}

static void recompute_count(const recompute_call *s, const tn__schedule *schedule, uint64_t cost,
                            tn_recompute_report *report) {
    report->operators = schedule->count - s->dag.job_count + s->ruled.recompute;
    double total = (double)s->plain.cost;
    report->share = total > 0 ? (double)(cost - s->plain.cost) / total : 0;
}

/* Sums the arithmetic of all repeats of a schedule. */
static tn_status recompute_flops(recompute_call *s, const tn__schedule *schedule, uint64_t *flops) {
    bool *ran = tn__arena_array(&s->arena, s->dag.job_count + (size_t)1, sizeof *ran);
    if (ran == NULL) return tn__no_memory(s->error, "recomputation");
    *flops = 0;
    for (uint32_t i = 0; i < schedule->count; i++) {
        uint32_t job = schedule->actions[i].what;
        if (s->ruled.jobs != NULL) {
            if (s->ruled.jobs[job].kind != TN__RUN) continue;
            job = s->ruled.jobs[job].what;
        }
        if (ran[job])
            *flops = tn__add_sat(*flops, tn_op_cost(s->graph, s->plain.jobs[job].op).flops);
        ran[job] = true;
    }
    return TN_OK;
}

static tn_status recompute_choose(recompute_call *s, tn__schedule *schedule, tn_program **made,
                                  tn_recompute_report *report) {
    double most = s->options.share * (double)s->plain.cost;
    uint64_t added = most < 1e18 ? (uint64_t)most : (uint64_t)1e18;
    tn__replay replay;
    for (uint32_t j = 0; j < s->dag.job_count; j++)
        TN_TRY(tn__schedule_add(schedule, (tn__action){.kind = TN__RUN, .what = j}, s->error));
    tn__work_budget goal = {.may = s->may, .added = added, .bytes = recompute_bytes, .self = s};
    TN_TRY(tn__work_budget_lower(&s->dag, &goal, schedule, &replay, s->error));
    TN_TRY(recompute_peak(s, s->program, &report->before));
    TN_TRY(recompute_emit(s, schedule, made));
    TN_TRY(recompute_peak(s, *made, &report->after));
    recompute_count(s, schedule, replay.cost, report);
    return recompute_flops(s, schedule, &report->flops);
}

static tn_status recompute_run(recompute_call *s, tn_program **made, tn_recompute_report *report) {
    tn__schedule schedule;
    TN_TRY(recompute_read(s));
    tn__schedule_init(&schedule, &s->context);
    tn_status status = recompute_choose(s, &schedule, made, report);
    tn__schedule_release(&schedule);
    bool is_better = report->after < report->before || s->ruled.jobs != NULL;
    if (status != TN_OK || is_better) return status;
    tn_program_destroy(*made);
    *made = NULL;
    *report = (tn_recompute_report){.before = report->before, .after = report->before};
    return recompute_copy(s, made);
}

static tn_status recompute_options(recompute_call *s, const tn_recompute_options *options) {
    s->options = (tn_recompute_options)TN_RECOMPUTE_OPTIONS_INIT;
    tn__options(&s->options, sizeof s->options, options);
    if (!(s->options.share >= 0 && isfinite(s->options.share)))
        TN_FAIL(s->error, TN_E_INVALID, "the share of work that is added must be 0 or more");
    if (s->options.flops_per_byte == 0) s->options.flops_per_byte = TN__PLAIN_RATIO;
    s->context =
        tn__context(s->options.context != NULL ? s->options.context : tn_graph_context(s->graph));
    return TN_OK;
}

tn_status tn_program_recompute(const tn_program *program, const tn_recompute_options *options,
                               tn_program **recomputed, tn_recompute_report *report,
                               tn_error *error) {
    recompute_call state = {.program = program, .graph = tn_program_graph(program), .error = error};
    tn_recompute_report made_report = {0};
    tn_program *made = NULL;
    TN_TRY(recompute_options(&state, options));
    tn__arena_init(&state.arena, &state.context);
    tn_status status = recompute_run(&state, &made, &made_report);
    tn__arena_release(&state.arena);
    if (status != TN_OK) {
        tn_program_destroy(made);
        return status;
    }
    *recomputed = made;
    if (report != NULL) *report = made_report;
    return TN_OK;
}
