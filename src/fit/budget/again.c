/* again.c - tn_program_recompute: a program that recomputes some tensors instead of keeping them,
 * within a share of the work of one run.
 *
 * Work is arithmetic or memory traffic, whichever takes longer. The result is measured with an
 * occupancy and compared with the input program; if it is not better, the result is a copy of the
 * input. Rules (rules.c) come first: with rules, the program that only obeys them is the input.
 * Cost: share.c, with an occupancy for each schedule that is judged.
 */
#include <tenure/budget.h>

#include <math.h>

#include "fit/budget/costs.h"
#include "fit/budget/lower.h"
#include "fit/budget/rules.h"
#include "fit/budget/share.h"
#include "graph/takes.h"

typedef struct again_state {
    const tn_program *program;
    const tn_graph *graph;
    tn_recompute_options options;
    tn_context context;
    tn__arena arena;
    tn__work work, plain; /* plain: without rules, as `map` describes it */
    tn__work_map *map;
    tn__ruled ruled; /* without jobs: no rules */
    bool *may;       /* [jobs] */
    tn_error *error;
} again_state;

/* --- work --- */

/* Work in operations, on a machine that does flops_per_byte of them while it moves a byte. */
static uint64_t again_work(const again_state *s, tn_op_id id, bool *cheap, bool *known) {
    const tn__machine machine = {1, 1 / (double)s->options.flops_per_byte};
    tn_cost cost = tn_op_cost(s->graph, id);
    *known = cost.flops != TN_SIZE_UNKNOWN && cost.bytes_moved != TN_SIZE_UNKNOWN;
    *cheap = cost.flops <= tn__mul_sat(cost.bytes_moved, s->options.flops_per_byte);
    double work = *known ? tn__op_takes(s->graph, id, &machine, NULL) + 0.5 : 0;
    return work < (double)TN_COSTS_MOST ? (uint64_t)work : TN_COSTS_MOST;
}

static bool again_is_listed(const char *list, const char *type) {
    size_t length = strlen(type);
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t word = strcspn(at, ",");
        if (word == length && strncmp(at, type, word) == 0) return true;
        at += word + (at[word] == ',');
    }
    return list == NULL;
}

static tn_status again_read(again_state *s) {
    uint32_t ops = tn_graph_op_count(s->graph);
    bool *may = tn__arena_array(&s->arena, (size_t)ops + 1, sizeof *may);
    tn_costs *costs;
    if (may == NULL) return tn__no_memory(s->error, "recomputation");
    TN_TRY(tn__costs_create(&s->context, s->graph, &costs, s->error));
    for (tn_op_id id = 0; id < ops; id++) {
        bool cheap, known;
        costs->of[id] = costs->again[id] = again_work(s, id, &cheap, &known);
        may[id] = known && (cheap || !s->options.cheap) &&
                  again_is_listed(s->options.only, tn_graph_op(s->graph, id)->type);
    }
    tn_status status =
        tn__work_read(s->program, costs, s->options.memory, &s->arena, &s->work, &s->map, s->error);
    tn_costs_destroy(costs);
    TN_TRY(status);
    s->plain = s->work;
    if (tn__rules_any(s->options.rules)) {
        TN_TRY(tn__rules_apply(s->options.rules, s->graph, &s->plain,
                               tn__rules_are_strict(s->program), NULL, NULL, &s->arena, &s->ruled,
                               s->error));
        s->work = s->ruled.work;
    }
    s->may = tn__arena_array(&s->arena, s->work.job_count + (size_t)1, sizeof *s->may);
    if (s->may == NULL) return tn__no_memory(s->error, "recomputation");
    for (uint32_t j = 0; j < s->work.job_count; j++)
        s->may[j] = s->work.jobs[j].op != TN_NONE && may[s->work.jobs[j].op];
    s->work.is_ordered = true; /* required by communication between ranks (work_talk.c); only
                                * repeats are added */
    return TN_OK;
}

/* --- results --- */

static tn_status again_peak(const again_state *s, const tn_program *program, uint64_t *peak) {
    tn_occupancy *occupancy;
    TN_TRY(tn_occupancy_create(program, s->options.memory, &occupancy, s->error));
    *peak = tn_occupancy_summary(occupancy).peak_live;
    tn_occupancy_destroy(occupancy);
    return TN_OK;
}

static tn_status again_emit(const again_state *s, const tn__schedule *schedule, tn_program **made) {
    tn__schedule plain;
    if (s->ruled.jobs == NULL) return tn__schedule_emit(s->map, &s->work, schedule, made, s->error);
    tn__schedule_init(&plain, &s->context);
    tn_status status = tn__rules_schedule(&s->ruled, schedule, &plain, s->error);
    if (status == TN_OK) status = tn__schedule_emit(s->map, &s->plain, &plain, made, s->error);
    tn__schedule_release(&plain);
    return status;
}

static tn_status again_bytes(void *self, const tn__schedule *schedule, uint64_t *bytes) {
    const again_state *s = self;
    tn_program *program;
    TN_TRY(again_emit(s, schedule, &program));
    tn_status status = again_peak(s, program, bytes);
    tn_program_destroy(program);
    return status;
}

static tn_status again_copy(const again_state *s, tn_program **copy) {
    return tn_program_from(s->graph, tn_program_instructions(s->program),
                           tn_program_count(s->program), tn_program_regions(s->program),
                           tn_program_region_count(s->program), copy, s->error);
}

static void again_count(const again_state *s, const tn__schedule *schedule, uint64_t cost,
                        tn_recompute_report *report) {
    report->operators = schedule->count - s->work.job_count + s->ruled.again;
    double total = (double)s->plain.cost;
    report->share = total > 0 ? (double)(cost - s->plain.cost) / total : 0;
}

/* Arithmetic of all repeats. */
static tn_status again_flops(again_state *s, const tn__schedule *schedule, uint64_t *flops) {
    bool *ran = tn__arena_array(&s->arena, s->work.job_count + (size_t)1, sizeof *ran);
    if (ran == NULL) return tn__no_memory(s->error, "recomputation");
    *flops = 0;
    for (uint32_t i = 0; i < schedule->count; i++) {
        uint32_t job = schedule->acts[i].what;
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

static tn_status again_choose(again_state *s, tn__schedule *schedule, tn_program **made,
                              tn_recompute_report *report) {
    double most = s->options.share * (double)s->plain.cost;
    uint64_t added = most < 1e18 ? (uint64_t)most : (uint64_t)1e18;
    tn__replay replay;
    for (uint32_t j = 0; j < s->work.job_count; j++)
        TN_TRY(tn__schedule_add(schedule, (tn__act){.kind = TN__RUN, .what = j}, s->error));
    tn__share_goal goal = {.may = s->may, .added = added, .bytes = again_bytes, .self = s};
    TN_TRY(tn__share_lower(&s->work, &goal, schedule, &replay, s->error));
    TN_TRY(again_peak(s, s->program, &report->before));
    TN_TRY(again_emit(s, schedule, made));
    TN_TRY(again_peak(s, *made, &report->after));
    again_count(s, schedule, replay.cost, report);
    return again_flops(s, schedule, &report->flops);
}

static tn_status again_run(again_state *s, tn_program **made, tn_recompute_report *report) {
    tn__schedule schedule;
    TN_TRY(again_read(s));
    tn__schedule_init(&schedule, &s->context);
    tn_status status = again_choose(s, &schedule, made, report);
    tn__schedule_release(&schedule);
    bool is_better = report->after < report->before || s->ruled.jobs != NULL;
    if (status != TN_OK || is_better) return status;
    tn_program_destroy(*made);
    *made = NULL;
    *report = (tn_recompute_report){.before = report->before, .after = report->before};
    return again_copy(s, made);
}

static tn_status again_options(again_state *s, const tn_recompute_options *options) {
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
    again_state state = {.program = program, .graph = tn_program_graph(program), .error = error};
    tn_recompute_report told = {0};
    tn_program *made = NULL;
    TN_TRY(again_options(&state, options));
    tn__arena_init(&state.arena, &state.context);
    tn_status status = again_run(&state, &made, &told);
    tn__arena_release(&state.arena);
    if (status != TN_OK) {
        tn_program_destroy(made);
        return status;
    }
    *recomputed = made;
    if (report != NULL) *report = told;
    return TN_OK;
}
