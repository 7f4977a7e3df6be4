/* answer.c - the frame around passes: checks the request, runs a pass, and turns its schedule into
 * a program with a layout, proofs and a time.
 *
 *     program ─ read ─▶ jobs and values ─ pass ─▶ schedule ─ emit ─▶ program ─▶ occupancy ─▶ layout
 *                              ▲                                                              │
 *                              └──────────── fewer bytes, if the layout is too large ─────────┘
 *
 * A pass gets a limit for live bytes, but the caller's budget is for the layout. within.c closes
 * this loop; it starts from the orders of operators that this file makes, after decide.c found that
 * some program is within the budget. compete.c lists the searches, and their best result is the
 * answer. Every result is verified three times by code that shares nothing with the passes: the
 * schedule by replay.c, the program by tn_program_verify, the layout by tn_layout_verify.
 */
#include "fit/budget/search/seek.h"

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include <math.h>

#include "fit/budget/costs.h"
#include "graph/takes.h"
#include "program/program.h"

/* --- orders of operators ---------------------------------------------------------------------- */

/* The orders of operators from which passes start, as jobs and values.
 *
 * There are one or two: the program's order, and, if the order is free, the order with the least
 * memory. The second one is used even if its peak is no smaller, because it often needs less memory
 * outside the peak. Each order has two schedule graphs: one with the given costs, and one with
 * reproducible costs, for decisions that must not depend on measured times.
 */

static tn_status starts_mark(tn__fit *fit, tn__fit_start *start) {
    const tn_graph *graph = tn_program_graph(fit->given);
    const tn__dag *dag = &start->dag;
    if (fit->options.segment_count > 0) {
        start->segments = tn__arena_array(&fit->arena, (size_t)dag->job_count + 1, 1);
        if (start->segments == NULL) return tn__no_memory(fit->error, "segments");
        for (uint32_t j = 0; j < dag->job_count; j++) {
            if (dag->jobs[j].op == TN_NONE) continue;
            const char *name = tn_graph_op(graph, dag->jobs[j].op)->name;
            for (uint32_t s = 0; s < fit->options.segment_count && start->segments[j] == 0; s++)
                if (tn__glob(fit->options.segments[s], name))
                    start->segments[j] = (uint8_t)(s < 254 ? s + 1 : 255);
        }
    }
    if (fit->options.zeros == NULL) return TN_OK;
    start->zeros = tn__arena_array(&fit->arena, (size_t)dag->value_count + 1, sizeof *start->zeros);
    if (start->zeros == NULL) return tn__no_memory(fit->error, "measured zeros");
    for (uint32_t v = 0; v < dag->value_count; v++)
        start->zeros[v] =
            dag->values[v].tensor != TN_NONE ? fit->options.zeros[dag->values[v].tensor] : -1.0f;
    return TN_OK;
}

/* Applies the user's rules to the schedule graphs of one order of operators (a start), so that
 * passes see only schedule graphs that obey the rules. Rules that change nothing are an error only
 * for the caller's own order. */
static tn_status starts_rule(tn__fit *fit, tn__fit_start *start) {
    const tn_rules *rules = fit->options.rules;
    const tn_graph *graph = tn_program_graph(fit->given);
    const bool first = fit->start_count == 1;
    const bool strict = first && tn__rules_are_strict(start->program);
    tn__ruled even;
    if (!tn__rules_any(rules)) return TN_OK;
    start->ruled = tn__arena_array(&fit->arena, 1, sizeof *start->ruled);
    if (start->ruled == NULL) return tn__no_memory(fit->error, "rules");
    start->plain = start->dag;
    TN_TRY(tn__rules_apply(rules, graph, &start->dag, strict, first ? fit->options.explain : NULL,
                           fit->options.explain_self, &fit->arena, start->ruled, fit->error));
    TN_TRY(tn__rules_apply(rules, graph, &start->even, false, NULL, NULL, &fit->arena, &even,
                           fit->error));
    start->dag = start->ruled->dag;
    start->even = even.dag;
    return TN_OK;
}

static tn_status starts_add(tn__fit *fit, const tn_program *program, tn_program *own) {
    tn__fit_start *start = &fit->starts[fit->start_count++];
    *start = (tn__fit_start){.program = program, .own = own};
    TN_TRY(tn__dag_read(program, fit->costs, fit->options.memory, &fit->arena, &start->dag,
                        &start->map, fit->error));
    /* the costs of a problem without a model are exact, so both schedule graphs use them */
    start->even = start->dag;
    tn__dag_map *map;
    if (!fit->options.live)
        TN_TRY(tn__dag_read(program, NULL, fit->options.memory, &fit->arena, &start->even, &map,
                            fit->error));
    start->dag.is_ordered = start->even.is_ordered = (fit->options.allow & TN_FIT_ORDER) == 0;
    TN_TRY(starts_rule(fit, start));
    return starts_mark(fit, start);
}

/* Checks that each segment pattern matches the name of an operator; otherwise the pattern is
 * probably a mistake of the user. */
static tn_status starts_check_segments(const tn__fit *fit) {
    const tn_graph *graph = tn_program_graph(fit->given);
    for (uint32_t s = 0; s < fit->options.segment_count; s++) {
        bool any = false;
        for (uint32_t j = 0; j < fit->starts[0].dag.job_count && !any; j++) {
            tn_op_id op = fit->starts[0].dag.jobs[j].op;
            any = op != TN_NONE && tn__glob(fit->options.segments[s], tn_graph_op(graph, op)->name);
        }
        if (!any)
            TN_FAIL(fit->error, TN_E_INVALID, "no operator's name matches the segment '%.100s'",
                    fit->options.segments[s]);
    }
    return TN_OK;
}

static tn_status starts_add_order(tn__fit *fit) {
    tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
    tn_program *program;
    bool orders =
        (fit->options.allow & TN_FIT_ORDER) != 0 && fit->competitors[0].pass->features != 0;
    /* for problems without a model, passes choose the order themselves */
    if (!orders || fit->options.live) return TN_OK;
    options.order = "memory";
    options.memory = fit->options.memory;
    TN_TRY(tn__program_ordered(tn_program_graph(fit->given), &options, &program, fit->error));
    uint32_t count = tn_program_count(program);
    if (count == tn_program_count(fit->given) &&
        memcmp(tn_program_instructions(program), tn_program_instructions(fit->given),
               count * sizeof(tn_instruction)) == 0) {
        tn_program_destroy(program);
        return TN_OK;
    }
    return starts_add(fit, program, program);
}

tn_status tn__fit_make_starts(tn__fit *fit) {
    TN_TRY(starts_add(fit, fit->given, NULL));
    TN_TRY(starts_check_segments(fit));
    return starts_add_order(fit);
}

/* --- answers of a pass ------------------------------------------------------------------------ */

#define ANSWER_PASS "joint"
#define ANSWER_PLANNER "fast"
#define ANSWER_QUICK_PLANNER "scale"
#define ANSWER_QUICK_WORK 4u /* limit for the planner: placements that it tries per buffer */
#define ANSWER_SHORT_WORK 200u
/* a careful layout is hardly ever smaller than a short one (planned with little work) by more than
 * 1/24 */
#define ANSWER_FAR 24u

/* --- options --- */

static tn_status answer_check_options(const tn__fit *fit) {
    const tn_fit_options *options = &fit->options;
    double out = options->to_host_bytes_per_s, in = options->from_host_bytes_per_s;
    if (!(out >= 0) || !(in >= 0) || isinf(out) || isinf(in))
        TN_FAIL(fit->error, TN_E_INVALID, "a link of %g and %g bytes a second is none", out, in);
    if ((options->allow & TN_FIT_SWAP) != 0 && (out <= 0 || in <= 0))
        TN_FAIL(fit->error, TN_E_INVALID, "swapping needs a link: how many bytes a second?");
    if (!(options->timeout_s >= 0))
        TN_FAIL(fit->error, TN_E_INVALID, "a time limit of %g s is none", options->timeout_s);
    if (tn_costs_graph(fit->costs) != tn_program_graph(fit->given))
        TN_FAIL(fit->error, TN_E_INVALID, "the costs are of another graph");
    return TN_OK;
}

/* Whether the program is one of several ranks. All ranks must communicate in one order, and values
 * that are sent are not encoded, so a pass may then neither reorder nor encode. */
static bool answer_communicates(const tn_program *program) {
    bool communicates = false;
    for (uint32_t i = 0; i < tn_program_count(program) && !communicates; i++)
        communicates = tn__instruction_talks(&tn_program_instructions(program)[i]);
    return communicates;
}

tn_status tn__pass_find(const char *name, const tn_pass **pass, tn_error *error) {
    char asked[TN__NEAR_TEXT];
    *pass = tn__pass_named(name);
    if (*pass != NULL) return TN_OK;
    TN_FAIL(error, TN_E_UNKNOWN, "no pass is called '%.60s'; %s", name,
            tn__near_of(name, tn_pass_count(), tn_pass_name, "see `tn_pass_name`", asked));
}

/* Finds the pass that the options name, and removes from the allowed techniques those that this
 * search cannot use. Refuses a pass that can use none of the allowed techniques, and a pass that
 * only swaps if swaps are not allowed. */
static tn_status answer_find_pass(tn__fit *fit, const tn_pass **found) {
    const char *name = fit->options.pass != NULL ? fit->options.pass : ANSWER_PASS;
    TN_TRY(tn__pass_find(name, found, fit->error));
    const tn_pass *pass = *found;
    uint32_t does = 0;
    if (pass->features & TN__PASS_RECOMPUTES) does |= TN_FIT_RECOMPUTE;
    if (pass->features & TN__PASS_SWAPS) does |= TN_FIT_SWAP;
    if (pass->features & TN__PASS_COMPRESSES) does |= TN_FIT_COMPRESS | TN_FIT_LOSSY;
    if (pass->features & TN__PASS_ORDERS) does |= TN_FIT_ORDER;
    fit->options.allow &= ~(uint32_t)(TN_FIT_SPLIT | TN_FIT_STREAM);
    if (fit->options.allow == 0) fit->options.allow = TN_FIT_ORDER | TN_FIT_RECOMPUTE;
    if (answer_communicates(fit->given)) fit->options.allow &= TN_FIT_RECOMPUTE | TN_FIT_SWAP;
    bool nothing = does != 0 && (fit->options.allow & does) == 0;
    if (nothing)
        TN_FAIL(fit->error, TN_E_UNSUPPORTED, "'%s' does nothing of what is allowed", name);
    if ((pass->features & TN__PASS_SWAPS) && !(does & TN_FIT_RECOMPUTE) &&
        !(fit->options.allow & TN_FIT_SWAP))
        TN_FAIL(fit->error, TN_E_UNSUPPORTED, "'%s' swaps: allow it, and give the link", name);
    return TN_OK;
}

tn_status tn__fit_open(tn__fit *fit, const tn_program *program, const tn_costs *costs,
                       const tn_fit_options *options, tn_error *error) {
    *fit = (tn__fit){.given = program,
                     .costs = costs,
                     .options = TN_FIT_OPTIONS_INIT,
                     .began = tn__clock_s(),
                     .error = error};
    tn__options(&fit->options, sizeof fit->options, options);
    fit->context =
        tn__context(fit->options.context != NULL ? fit->options.context
                                                 : tn_graph_context(tn_program_graph(program)));
    tn__arena_init(&fit->arena, &fit->context);
    tn__text_init(&fit->lines, &fit->context);
    if (fit->options.timeout_s > 0) fit->deadline = fit->began + fit->options.timeout_s;
    TN_TRY(answer_check_options(fit));
    const tn_pass *pass;
    TN_TRY(answer_find_pass(fit, &pass));
    tn__fit_make_competitors(fit, pass);
    return tn__fit_make_starts(fit);
}

void tn__fit_close(tn__fit *fit) {
    for (uint32_t i = 0; i < fit->start_count; i++) tn_program_destroy(fit->starts[i].own);
    tn__text_release(&fit->lines);
    tn__arena_release(&fit->arena);
}

/* --- from a schedule to a layout --- */

/* Counts the bytes of swaps. Inputs and outputs also cross the host link, but they do so in any
 * program. */
static void answer_count_copies(tn_fit_result *result) {
    const tn_graph *graph = tn_program_graph(result->program);
    const tn_instruction *list = tn_program_instructions(result->program);
    result->to_host_bytes = result->from_host_bytes = 0;
    for (uint32_t i = 0; i < tn_program_count(result->program); i++) {
        bool out = list[i].opcode == TN_SWAP_OUT, in = list[i].opcode == TN_SWAP_IN;
        uint64_t *sum = out ? &result->to_host_bytes : &result->from_host_bytes;
        if (out || in) *sum = tn__add_sat(*sum, tn_graph_tensor(graph, list[i].tensor)->bytes);
    }
}

tn_status tn__fit_simulate(const tn_program *program, const tn_costs *costs,
                           const tn_fit_options *given, tn_trace *trace, tn_simulation *simulation,
                           tn_error *error) {
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    options.context = given->context;
    options.to_host_bytes_per_s = given->to_host_bytes_per_s;
    options.from_host_bytes_per_s = given->from_host_bytes_per_s;
    options.trace = trace;
    return tn__costs_simulate(costs, program, &options, simulation, error);
}

tn_status tn_fit_trace(const tn_fit_result *result, const tn_costs *costs,
                       const tn_fit_options *given, tn_trace *trace, tn_error *error) {
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    tn_simulation simulation;
    tn__options(&options, sizeof options, given);
    if (result->program == NULL) TN_FAIL(error, TN_E_INVALID, "no program was found");
    TN_TRY(tn__fit_simulate(result->program, costs, &options, trace, &simulation, error));
    tn_simulation_release(&simulation);
    return TN_OK;
}

static tn_status answer_time(const tn__fit *fit, tn_fit_result *result) {
    tn_simulation simulation;
    TN_TRY(tn__fit_simulate(result->program, fit->costs, &fit->options, NULL, &simulation,
                            fit->error));
    result->time = simulation.total_ps;
    result->stall = simulation.stall_ps;
    answer_count_copies(result);
    tn_simulation_release(&simulation);
    return TN_OK;
}

static bool answer_cancelled(const tn_context *context) {
    return context->progress != NULL && !context->progress(context->self, "plan", 0, 0);
}

/* Plans a layout with the options that all plans of a search share. The planner is `fast` unless
 * the caller chose another one, because most of the programs that are tried are thrown away. If the
 * caller stops the search, a last layout is planned without asking the caller again. */
static tn_status answer_plan(tn__fit *fit, const tn_problem *problem, uint64_t enough,
                             tn_layout *layout) {
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn__options(&plan, sizeof plan, fit->options.plan);
    plan.struct_size = sizeof plan;
    plan.capacity = 0;
    plan.enough = enough;
    if (plan.planner == NULL) plan.planner = ANSWER_PLANNER;
    tn_context quiet = tn__context(plan.context != NULL ? plan.context : &fit->context);
    plan.context = &quiet;
    tn_error said = {0};
    tn_status status = tn_plan(problem, &plan, layout, &said);
    if (status == TN_OK) return TN_OK;
    if (status != TN_E_STOPPED || !answer_cancelled(&quiet))
        return tn__fail_as(fit->error, status, &said);
    fit->ended = TN__ENDED_CALLER;
    quiet.progress = NULL;
    /* after a stop by the caller, a planner runs that ends in a short time without a limit */
    plan.planner = ANSWER_PLANNER;
    return tn_plan(problem, &plan, layout, fit->error);
}

/* Plans the host pool of a result: a layout of the host memory for the values that the program
 * swaps. Does nothing if the program swaps no values. Errors: those of tn_plan. */
static tn_status answer_host(tn__fit *fit, tn_fit_result *result) {
    bool swaps = false;
    tn_host host;
    const tn_instruction *list = tn_program_instructions(result->program);
    for (uint32_t i = 0; i < tn_program_count(result->program); i++)
        swaps |= list[i].opcode == TN_SWAP_OUT;
    if (!swaps) return TN_OK;
    TN_TRY(tn_program_host(result->program, 0, &host, fit->error));
    result->host = host.problem;
    host.problem = NULL; /* `result` owns the problem now */
    tn_host_release(&host);
    return answer_plan(fit, result->host, 0, &result->host_layout);
}

/* Plans a layout with a limited number of placements per buffer. Errors: E_UNSUPPORTED (the caller
 * chose a planner, or this planner cannot handle the problem), E_STOPPED (the caller stopped the
 * search). Neither has a message, because another plan is made afterwards. */
static tn_status answer_plan_within(tn__fit *fit, const tn_problem *problem, const char *planner,
                                    uint32_t each, tn_layout *layout) {
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    if (fit->options.plan != NULL && fit->options.plan->planner != NULL) return TN_E_UNSUPPORTED;
    tn__options(&plan, sizeof plan, fit->options.plan);
    plan.struct_size = sizeof plan;
    plan.capacity = 0;
    plan.planner = planner;
    plan.work_limit = each * ((uint64_t)tn_problem_count(problem) + 1);
    tn_error said = {0};
    tn_status status = tn_plan(problem, &plan, layout, &said);
    bool follows = status == TN_OK || status == TN_E_UNSUPPORTED || status == TN_E_STOPPED;
    return follows ? status : tn__fail_as(fit->error, status, &said);
}

/* Plans a quick or a short layout. A quick one uses only the first stage of the planner `fast`, so
 * it is never smaller than a layout of `fast`. */
static tn_status answer_plan_fast(tn__fit *fit, const tn_problem *problem, tn__fit_care care,
                                  tn_layout *layout) {
    if (care == TN__FIT_QUICK)
        return answer_plan_within(fit, problem, ANSWER_QUICK_PLANNER, ANSWER_QUICK_WORK, layout);
    return answer_plan_within(fit, problem, ANSWER_PLANNER, ANSWER_SHORT_WORK, layout);
}

bool tn__fit_is_far(const tn__fit *fit, uint64_t bytes, uint64_t most) {
    const uint64_t arena = bytes - fit->options.fixed_bytes;
    return bytes > most && bytes - most > arena / ANSWER_FAR;
}

/* Takes over, as a copy, a layout that was planned for the same program before, and verifies it. */
static tn_status answer_copy_layout(const tn__fit *fit, const tn_problem *problem,
                                    const tn_layout *from, tn_layout *layout) {
    TN_TRY(tn_layout_from_offsets(problem, from->offset, layout, fit->error));
    layout->verdict = from->verdict;
    layout->planner = from->planner;
    layout->seed = from->seed;
    layout->work = from->work;
    layout->seconds = from->seconds;
    return tn_layout_verify(problem, layout, NULL, fit->error);
}

/* Fills in the fields of a result that follow from its program without a layout. */
static tn_status answer_read(tn__fit *fit, tn_fit_result *result) {
    TN_TRY(
        tn_occupancy_create(result->program, fit->options.memory, &result->occupancy, fit->error));
    result->live_bytes = tn_occupancy_summary(result->occupancy).peak_live;
    return answer_time(fit, result);
}

static tn_status answer_take_layout(tn__fit *fit, tn_fit_result *result) {
    if (!fit->options.live)
        result->bytes = tn__add_sat(result->layout.peak, fit->options.fixed_bytes);
    return answer_host(fit, result);
}

tn_status tn__fit_lay_out(tn__fit *fit, tn__fit_care care, uint64_t enough, tn_fit_result *result) {
    const tn_problem *problem = tn_occupancy_problem(result->occupancy);
    tn_layout_release(&result->layout);
    tn_layout_release(&result->host_layout);
    tn_problem_destroy(result->host);
    result->host = NULL;
    tn_status status = TN_E_UNSUPPORTED;
    if (care != TN__FIT_CAREFUL) status = answer_plan_fast(fit, problem, care, &result->layout);
    if (status == TN_E_UNSUPPORTED || status == TN_E_STOPPED)
        status = answer_plan(fit, problem, enough, &result->layout);
    TN_TRY(status);
    return answer_take_layout(fit, result);
}

/* Fills in a result by copying the layout that another result with this program already has. */
static tn_status answer_lay_out_as(tn__fit *fit, const tn_layout *from, tn_fit_result *result) {
    TN_TRY(answer_read(fit, result));
    TN_TRY(answer_copy_layout(fit, tn_occupancy_problem(result->occupancy), from, &result->layout));
    return answer_take_layout(fit, result);
}

static tn_status answer_copy_program(const tn__fit *fit, const tn_program *given,
                                     tn_program **copy) {
    uint32_t encoded_count;
    const tn_encoded *encoded = tn_program_encoded(given, &encoded_count);
    return tn_program_from_encoded(tn_program_graph(fit->given), encoded, encoded_count,
                                   tn_program_instructions(given), tn_program_count(given),
                                   tn_program_regions(given), tn_program_region_count(given), copy,
                                   fit->error);
}

/* Writes a schedule as a program. `start` is the order of operators from which the schedule was
 * found. If the user gave rules, the schedule is first translated to the schedule graph without
 * rules. Errors: E_NO_MEMORY. */
static tn_status answer_emit(tn__fit *fit, const tn__fit_start *start, const tn__schedule *schedule,
                             tn_program **program) {
    tn__schedule plain;
    if (start->ruled == NULL)
        return tn__schedule_emit(start->map, &start->dag, schedule, program, fit->error);
    tn__schedule_init(&plain, &fit->context);
    tn_status status = tn__rules_schedule(start->ruled, schedule, &plain, fit->error);
    if (status == TN_OK)
        status = tn__schedule_emit(start->map, &start->plain, &plain, program, fit->error);
    tn__schedule_release(&plain);
    return status;
}

/* Replaces the given program by the program that obeys the rules and uses no other technique.
 * Results are still compared with the time and bytes of the given program. */
static tn_status answer_rule(tn__fit *fit, tn_fit_result *result) {
    const tn__fit_start *start = &fit->starts[0];
    tn__schedule once;
    tn_status status = TN_OK;
    tn_fit_release(result);
    tn__schedule_init(&once, &fit->context);
    for (uint32_t j = 0; j < start->dag.job_count && status == TN_OK; j++)
        status = tn__schedule_add(&once, (tn__action){.kind = TN__RUN, .what = j}, fit->error);
    if (status == TN_OK) status = answer_emit(fit, start, &once, &result->program);
    tn__schedule_release(&once);
    TN_TRY(status);
    TN_TRY(answer_read(fit, result));
    TN_TRY(tn__fit_lay_out(fit, TN__FIT_CAREFUL, 0, result));
    result->pass = "none";
    return TN_OK;
}

/* A problem without a model counts live bytes instead of a layout: those of the schedule in which
 * each job of `dag` runs once. */
static tn_status answer_count_live(const tn__fit *fit, const tn__dag *dag, tn_fit_result *result) {
    uint64_t peak;
    if (!fit->options.live) return TN_OK;
    TN_TRY(tn__dag_plain_peak(dag, &fit->context, &peak, fit->error));
    result->bytes = tn__add_sat(peak, fit->options.fixed_bytes);
    return TN_OK;
}

tn_status tn__fit_plain(tn__fit *fit, tn_fit_result *result) {
    const tn__fit_start *start = &fit->starts[0];
    TN_TRY(answer_copy_program(fit, fit->given, &result->program));
    if (fit->laid != NULL) {
        TN_TRY(answer_lay_out_as(fit, fit->laid, result));
    } else {
        TN_TRY(answer_read(fit, result));
        TN_TRY(tn__fit_lay_out(fit, TN__FIT_CAREFUL, 0, result));
    }
    result->pass = "none";
    TN_TRY(answer_count_live(fit, start->ruled == NULL ? &start->dag : &start->plain, result));
    fit->plain_bytes = result->bytes;
    fit->plain_time = result->time;
    if (start->ruled == NULL) return TN_OK;
    TN_TRY(answer_rule(fit, result));
    return answer_count_live(fit, &start->dag, result);
}

tn_status tn__fit_copy(tn__fit *fit, const tn_fit_result *from, tn_fit_result *to) {
    TN_TRY(answer_copy_program(fit, from->program, &to->program));
    to->bytes = from->bytes;
    TN_TRY(answer_lay_out_as(fit, &from->layout, to));
    to->pass = from->pass;
    return TN_OK;
}

void tn__fit_finish(const tn__fit *fit, tn_fit_result *result) {
    /* cost of a run in which each operator runs once */
    const uint64_t once = fit->starts[0].dag.cost;
    const tn__fit_competitor *widest = tn__fit_widest(fit);
    const uint64_t bound = widest->time_bound > once ? widest->time_bound : once;
    result->plain_bytes = fit->plain_bytes;
    result->plain_time = fit->plain_time;
    result->bytes_bound = tn__add_sat(widest->bytes_bound, fit->options.fixed_bytes);
    result->time_bound = bound < result->time ? bound : result->time;
    result->work = fit->work_done;
    result->rounds = fit->rounds;
    result->stopped = fit->ended != TN__ENDED_NOT;
    result->seconds = tn__clock_s() - fit->began;
}

/* --- one answer of the pass --- */

static void answer_explain(tn__fit *fit) {
    if (fit->options.explain == NULL || fit->lines.data == NULL) return;
    for (char *line = fit->lines.data; *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end != NULL) *end = '\0';
        fit->options.explain(fit->options.explain_self, line);
        if (end == NULL) break;
        line = end + 1;
    }
    fit->lines.size = 0;
    fit->lines.data[0] = '\0';
}

/* Converts bytes per second to bytes per unit of cost. */
static double answer_rate(double bytes_per_s) { return bytes_per_s / (double)TN_COSTS_PER_S; }

/* Returns the rate of encoding and decoding, from the memory rate of the costs. If the answer must
 * be reproducible, half of a standard memory rate is used instead. */
static double answer_codec_rate(const tn__fit *fit) {
    bool even = fit->for_least && !fit->options.live;
    return answer_rate(even ? TN__PLAIN_BYTES_PER_S / 2 : tn_costs_bytes_per_s(fit->costs));
}

/* Returns the work limit of one call of a pass. All calls of a competitor have equal limits, so
 * that no answer depends on the answers before it. */
static uint64_t answer_work_limit(const tn__fit *fit, const tn__dag *dag) {
    uint64_t given = fit->options.work_limit;
    return given > 0 ? given : fit->competitor->most * tn__pass_effort(dag);
}

static tn__pass_run answer_make_run(tn__fit *fit, const tn__fit_start *start, uint64_t allowed,
                                    const tn__schedule *warm, tn__arena *arena) {
    const tn_fit_options *options = &fit->options;
    const tn__fit_competitor *competitor = fit->competitor;
    bool links = (competitor->allow & TN_FIT_SWAP) != 0;
    tn__pass_run run = {.pass = competitor->pass,
                        .dag = fit->for_least ? &start->even : &start->dag,
                        .graph = options->live ? NULL : tn_program_graph(fit->given),
                        .arena = arena,
                        .context = fit->context,
                        .error = fit->error,
                        .budget = allowed,
                        .host_budget = options->host_budget > 0 ? options->host_budget : UINT64_MAX,
                        .allow = competitor->allow,
                        .seed = options->seed,
                        .warm = warm != NULL && warm->count > 0 ? warm : NULL,
                        .incumbent = fit->incumbent,
                        .no_bound = fit->no_bound,
                        .fewer_known = !fit->for_least && fit->limit != UINT64_MAX,
                        .runs_fit = !fit->for_least && tn__fit_runs(fit),
                        .bound =
                            fit->no_bound && competitor->has_bound ? competitor->time_bound : 0,
                        .feasible_only = options->any || fit->for_least,
                        .only_proof = fit->only_proof,
                        .out_rate = links ? answer_rate(options->to_host_bytes_per_s) : 0,
                        .in_rate = links ? answer_rate(options->from_host_bytes_per_s) : 0,
                        .codec_rate = answer_codec_rate(fit),
                        .codecs = options->codecs > 0 ? options->codecs : UINT32_MAX,
                        .zeros = start->zeros,
                        .segments = start->segments,
                        .work_limit = answer_work_limit(fit, &start->dag),
                        .deadline = fit->deadline,
                        .explain = options->explain != NULL ? &fit->lines : NULL};
    tn__schedule_init(&run.best, &fit->context);
    /* this call only serves to find the least budget, so its times are not reported to the
     * caller */
    if (fit->for_least) {
        run.context.found = NULL;
        run.explain = NULL;
    }
    return run;
}

uint64_t tn__fit_slack(const tn__fit *fit, const tn__dag *dag) {
    /* encoded forms, which are not values of the graph, have sizes of their own */
    bool encodes = (fit->competitor->allow & TN_FIT_COMPRESS) != 0;
    return encodes ? fit->starts[0].map->memory.alignment - 1 : dag->slack;
}

/* Copies the facts of a finished run of a pass: work, proved bounds, and what ended it. Returns
 * TN_OK if the pass found nothing, because that is no error here. */
static tn_status answer_judge(tn__fit *fit, const tn__pass_run *run, uint64_t allowed,
                              tn_status status) {
    fit->work_done = tn__add_sat(fit->work_done, run->work_done);
    tn__fit_competitor *competitor = fit->competitor;
    /* a limit of live bytes that was refused is one of layouts that are smaller by the slack */
    const uint64_t slack = tn__fit_slack(fit, run->dag);
    const uint64_t denied = allowed > slack ? allowed - slack : 0;
    if (run->least_bytes > competitor->bytes_bound) competitor->bytes_bound = run->least_bytes;
    if (status == TN_E_INFEASIBLE && denied > competitor->denied) competitor->denied = denied;
    bool late = fit->deadline > 0 && tn__clock_s() > fit->deadline;
    if (fit->ended == TN__ENDED_NOT && late) fit->ended = TN__ENDED_TIME;
    if (run->ended != TN__ENDED_NOT) fit->ended = run->ended;
    return status == TN_E_STOPPED || status == TN_E_INFEASIBLE ? TN_OK : status;
}

tn_status tn__fit_ask(tn__fit *fit, const tn__fit_start *start, uint64_t allowed,
                      tn__schedule *warm, tn_fit_result *result, bool *found) {
    tn__arena arena;
    tn__arena_init(&arena, &fit->context);
    tn__pass_run run = answer_make_run(fit, start, allowed, warm, &arena);
    fit->rounds++;
    tn_status status = answer_judge(fit, &run, allowed, run.pass->solve(&run));
    *found = status == TN_OK && run.has_best;
    /* the bound on time holds for programs within `allowed` live bytes */
    result->time_bound = run.bound;
    if (*found) {
        result->pass = fit->competitor->pass->name;
        status = answer_emit(fit, start, &run.best, &result->program);
        if (status == TN_OK) status = answer_read(fit, result);
        result->bytes = tn__add_sat(fit->options.live ? run.found.peak : result->live_bytes,
                                    fit->options.fixed_bytes);
        if (status == TN_OK && warm != NULL)
            status = tn__schedule_copy(warm, &run.best, fit->error);
    }
    answer_explain(fit);
    tn__schedule_release(&run.best);
    tn__arena_release(&arena);
    return status;
}

/* --- results --- */

void tn_fit_release(tn_fit_result *result) {
    tn_layout_release(&result->layout);
    tn_layout_release(&result->host_layout);
    tn_problem_destroy(result->host);
    tn_occupancy_destroy(result->occupancy);
    tn_program_destroy(result->program);
    *result = (tn_fit_result){0};
}

uint32_t tn_pass_count(void) { return tn__pass_count(); }
const char *tn_pass_name(uint32_t index) { return tn__pass_at(index)->name; }
const char *tn_pass_summary(uint32_t index) { return tn__pass_at(index)->summary; }
