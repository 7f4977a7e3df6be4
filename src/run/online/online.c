/* online.c - the iterations of a run within a budget that is met while it runs: passive and
 * measured, then guided, with feedback (online.h).
 *
 * An engine is replaced between two iterations. Its static memory is copied to the host, its device
 * memory is freed, and the next engine allocates that memory. Two engines never exist at one time,
 * because the budget is not large enough for both.
 */
#include "run/online/online.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "engine/on_demand.h"
#include "fit/setup/setup.h"

#define ONLINE_KEPT 1000u /* number of iterations whose measurements are kept */
#define ONLINE_POLICY "capuchin"
#define ONLINE_POOL "best-fit"

/* a tensor of static memory, whose data must survive a change of engines */
typedef struct online_static {
    tn_tensor_id tensor;
    uint64_t bytes, at; /* at: offset of the tensor's data in `saved` */
} online_static;

struct tn_online {
    tn_context context;
    const tn_setup *base;
    tn_setup_options compile;
    tn_engine_options engine_options;
    tn_online_options options;
    tn_device *device;
    tn_engine *engine;
    tn_trace *trace; /* events of the last guided iteration */
    tn_costs *costs;
    tn_setup *guided; /* the program that the policy made; NULL: the run is passive */
    bool tried;       /* true: the policy was asked for a program, with or without success */
    tn__triggers triggers;
    /* the program after feedback changed it; NULL: the program of `guided` runs unchanged */
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    online_static *statics; /* [static_count] */
    uint32_t static_count;
    uint8_t *saved;
    uint64_t saved_bytes;
    tn_online_iteration *list; /* [ONLINE_KEPT + 1] the iterations whose measurements are kept */
    tn_online_iteration next;  /* facts about the next iteration that are known before it runs */
    uint32_t late;             /* number of copies back that were late in the last iteration */
    tn_online_usage usage;
};

/* --- explanations ----------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void online_say(const tn_online *online,
                                                             const char *format, ...) {
    char line[400];
    va_list values;
    if (online->options.explain == NULL) return;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    online->options.explain(online->options.self, line);
}

/* Explains the accesses to a tensor that the policy evicts: their number, and the longest time
 * between two of them. */
static void online_say_accesses(const tn_online *online, tn_tensor_id tensor) {
    const tn__on_demand *it = online->engine->places.on_demand;
    const tn_graph *graph = tn_setup_graph(online->base);
    const tn_instruction *list = tn_program_instructions(tn_setup_program(online->base));
    uint32_t count = 0, leave = 0, back = 0, last = TN_NONE;
    double longest = -1;
    for (uint32_t s = 0; s < it->steps; s++) {
        bool named = list[s].tensor == tensor;
        const tn_op *op = list[s].op != TN_NONE ? tn_graph_op(graph, list[s].op) : NULL;
        for (uint32_t i = 0; op != NULL && i < op->input_count; i++)
            named |= op->inputs[i] == tensor;
        for (uint32_t k = 0; op != NULL && k < op->output_count; k++)
            named |= op->outputs[k] == tensor;
        if (!named) continue;
        count++;
        if (last != TN_NONE && it->times[s] - it->times[last + 1] > longest) {
            longest = it->times[s] - it->times[last + 1];
            leave = last;
            back = s;
        }
        last = s;
    }
    if (longest < 0) return;
    online_say(online,
               "measured: '%.80s' has %" PRIu32 " accesses; it is idle longest from step %" PRIu32
               " (%.3f ms) to its back-access at step %" PRIu32 " (%.3f ms)",
               tn_graph_tensor(graph, tensor)->name, count, leave, 1e3 * it->times[leave + 1], back,
               1e3 * it->times[back]);
}

/* --- static memory ---------------------------------------------------------------------------- */

static tn_status online_list_statics(tn_online *online, tn_error *error) {
    const tn_graph *graph = tn_setup_graph(online->base);
    uint32_t tensors = tn_graph_tensor_count(graph);
    online->statics =
        tn__alloc_array(&online->context, (size_t)tensors + 1, sizeof *online->statics);
    if (online->statics == NULL) return tn__no_memory(error, "static memory");
    for (tn_tensor_id id = 0; id < tensors; id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        if (!tn_tensor_is_static(tensor) || (tensor->flags & TN_TENSOR_UPDATED) == 0) continue;
        /* the tensor has no buffer in the engine, because nothing uses it */
        if (online->engine->executor.operands[id].data == NULL) continue;
        online->statics[online->static_count++] =
            (online_static){id, tensor->bytes, online->saved_bytes};
        online->saved_bytes += tensor->bytes;
    }
    online->saved = tn__alloc(&online->context, (size_t)online->saved_bytes + 1);
    return online->saved != NULL ? TN_OK : tn__no_memory(error, "static memory");
}

static tn_status online_save(tn_online *online, tn_error *error) {
    for (uint32_t i = 0; i < online->static_count; i++)
        TN_TRY(tn_engine_get_static(online->engine, online->statics[i].tensor,
                                    online->saved + online->statics[i].at, online->statics[i].bytes,
                                    error));
    return TN_OK;
}

static tn_status online_restore(tn_online *online, tn_error *error) {
    for (uint32_t i = 0; i < online->static_count; i++)
        TN_TRY(tn_engine_set_static(online->engine, online->statics[i].tensor,
                                    online->saved + online->statics[i].at, online->statics[i].bytes,
                                    error));
    return TN_OK;
}

/* --- engines ---------------------------------------------------------------------------------- */

/* Returns the capacity of the pool: the budget, but not more than all buffers together take without
 * reuse, because a pool of that size never has to copy anything. */
static uint64_t online_pool_bytes(const tn_online *online) {
    tn_setup_needs needs = tn_setup_need(online->base);
    uint64_t most = tn__add_sat(tn_occupancy_summary(tn_setup_occupancy(online->base)).naive,
                                needs.total - needs.arena);
    return online->options.budget < most ? online->options.budget : most;
}

static tn_status online_open_passive(tn_online *online, tn_error *error) {
    tn_engine_options options = online->engine_options;
    options.pool = ONLINE_POOL;
    options.pool_capacity = online_pool_bytes(online);
    options.on_demand = options.warm = true;
    return tn_engine_create(tn_setup_occupancy(online->base), NULL, tn_setup_kernels(online->base),
                            online->device, &options, &online->engine, error);
}

static tn_status online_open_trace(tn_online *online, const tn_occupancy *occupancy,
                                   tn_error *error) {
    uint64_t steps = tn_program_count(tn_occupancy_program(occupancy));
    uint64_t bodies = tn_problem_count(tn_occupancy_problem(occupancy));
    uint64_t tensors = tn_graph_tensor_count(tn_setup_graph(online->base));
    tn_trace_destroy(online->trace);
    online->trace = NULL;
    return tn_trace_create(&online->context, steps + 4 * bodies + 2 * tensors + 64, &online->trace,
                           error);
}

/* Replaces the engine by one for another program and layout, and carries the data of static memory
 * over. */
static tn_status online_replace(tn_online *online, const tn_occupancy *occupancy,
                                const tn_layout *layout, tn_error *error) {
    tn_engine_options options = online->engine_options;
    TN_TRY(online_save(online, error));
    tn_engine_destroy(online->engine);
    online->engine = NULL;
    TN_TRY(online_open_trace(online, occupancy, error));
    options.trace = online->trace;
    options.warm = true;
    TN_TRY(tn_engine_create(occupancy, layout, tn_setup_kernels(online->guided), online->device,
                            &options, &online->engine, error));
    online->usage.settled = online->usage.iterations;
    return online_restore(online, error);
}

/* --- from measured costs to the policy's program ---------------------------------------------- */

/* Sets the cost of each operator to its measured time: from the beginning of its step to that of
 * the next one, without the time of copies. Passive mode recorded these times. */
static tn_status online_measure_costs(tn_online *online, tn_error *error) {
    const tn__on_demand *it = online->engine->places.on_demand;
    const tn_graph *graph = tn_setup_graph(online->base);
    const tn_instruction *list = tn_program_instructions(tn_setup_program(online->base));
    uint32_t ops = tn_graph_op_count(graph);
    uint64_t *of = tn__alloc_array(&online->context, (size_t)ops + 1, sizeof *of);
    if (of == NULL) return tn__no_memory(error, "costs");
    for (uint32_t s = 0; s < it->steps; s++) {
        double seconds = it->times[s + 1] - it->times[s];
        if (list[s].opcode == TN_APPLY && seconds > 0)
            of[list[s].op] += (uint64_t)(seconds * (double)TN_COSTS_PER_S);
    }
    tn_status status =
        tn_costs_given(&online->context, graph, of, NULL, ops, 0, &online->costs, error);
    tn__free(&online->context, of, ((size_t)ops + 1) * sizeof *of);
    return status;
}

/* Returns the speed of the link as measured over all copies, but at most the speed that the caller
 * gave. */
static double online_rate(const tn_online *online, uint64_t bytes, double seconds) {
    double limit = online->options.link_bytes_per_s;
    double measured = bytes > 0 && seconds > 0 ? (double)bytes / seconds : limit;
    return measured < limit ? measured : limit;
}

/* Asks the policy for a program. If it finds none within the budget, that is no error: the run
 * stays passive. */
static tn_status online_ask(tn_online *online, tn_error *error) {
    const tn__on_demand *it = online->engine->places.on_demand;
    tn_setup_options options = online->compile;
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    tn_error why = {0};
    fit.context = &online->context;
    fit.budget = online->options.budget;
    fit.host_budget = online->engine_options.host_capacity;
    fit.pass = ONLINE_POLICY;
    fit.allow = TN_FIT_RECOMPUTE | TN_FIT_SWAP;
    fit.to_host_bytes_per_s = online_rate(online, it->out_bytes, it->out_s);
    fit.from_host_bytes_per_s = online_rate(online, it->in_bytes, it->in_s);
    fit.explain = online->options.explain;
    fit.explain_self = online->options.self;
    online->usage.link_bytes_per_s = fit.to_host_bytes_per_s < fit.from_host_bytes_per_s
                                         ? fit.to_host_bytes_per_s
                                         : fit.from_host_bytes_per_s;
    options.fit = &fit;
    options.costs = online->costs;
    tn_status status = tn_setup_from(online->base, TN_SETUP_FIT, &options, &online->guided, &why);
    if (status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE || status == TN_E_STOPPED) {
        online_say(online, "the policy found no program, so the run stays passive: %.200s",
                   why.message);
        return TN_OK;
    }
    if (status != TN_OK && error != NULL) *error = why;
    return status;
}

static tn_status online_count_fates(tn_online *online, tn_error *error) {
    tn_fate_totals totals;
    const tn_program *program = tn_setup_program(online->guided);
    uint32_t tensors = tn_graph_tensor_count(tn_program_graph(program));
    uint8_t *fates = tn__alloc(&online->context, (size_t)tensors + 1);
    if (fates == NULL) return tn__no_memory(error, "decisions");
    tn_program_fates(program, fates);
    for (tn_tensor_id id = 0; id < tensors && online->options.explain != NULL; id++)
        if (fates[id] == TN_FATE_SWAPPED || fates[id] == TN_FATE_RECOMPUTED)
            online_say_accesses(online, id);
    tn__free(&online->context, fates, (size_t)tensors + 1);
    TN_TRY(tn_fit_fates(tn_setup_occupancy(online->guided), &totals, error));
    online->usage.swapped = totals.tensors[TN_FATE_SWAPPED];
    online->usage.recomputed = totals.tensors[TN_FATE_RECOMPUTED];
    return TN_OK;
}

/* Changes from passive to guided after the first iteration, if the policy has a program. */
static tn_status online_guide(tn_online *online, tn_error *error) {
    online->tried = true;
    online_say(online,
               "the policy: FT is the free time between the copies of a tensor, MSPS the bytes "
               "saved per unit of time; times are picoseconds, as measured in iteration 0");
    TN_TRY(online_measure_costs(online, error));
    TN_TRY(online_ask(online, error));
    if (online->guided == NULL) return TN_OK;
    TN_TRY(online_count_fates(online, error));
    TN_TRY(tn__triggers_make(&online->triggers, tn_setup_program(online->guided), &online->context,
                             error));
    online->usage.guided = true;
    return online_replace(online, tn_setup_occupancy(online->guided),
                          tn_setup_layout(online->guided), error);
}

/* --- feedback --------------------------------------------------------------------------------- */

typedef struct online_made { /* a program whose copies back begin earlier, with its layout */
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
} online_made;

static void online_release(online_made *made) {
    tn_layout_release(&made->layout);
    tn_occupancy_destroy(made->occupancy);
    tn_program_destroy(made->program);
    *made = (online_made){0};
}

static tn_status online_lay_out(const tn_online *online, online_made *made, tn_error *error) {
    tn_occupancy_options memory = tn__setup_memory(online->guided, &online->compile);
    tn_plan_options plan = tn__setup_plan_options(online->guided, &online->compile);
    if (plan.planner == NULL) plan.planner = "fast";
    TN_TRY(tn__triggers_program(&online->triggers,
                                tn_program_graph(tn_setup_program(online->guided)), &made->program,
                                error));
    TN_TRY(tn_occupancy_create(made->program, &memory, &made->occupancy, error));
    return tn_plan(tn_occupancy_problem(made->occupancy), &plan, &made->layout, error);
}

/* Compiles the instructions of triggers.next and plans their layout. Returns false if the program
 * is not valid, or needs more than the budget. */
static bool online_try(const tn_online *online, online_made *made) {
    tn_error unwanted;
    uint64_t statics = tn_setup_need(online->guided).statics;
    *made = (online_made){0};
    bool fits = online_lay_out(online, made, &unwanted) == TN_OK &&
                tn__add_sat(made->layout.peak, statics) <= online->options.budget;
    if (!fits) online_release(made);
    return fits;
}

static void online_say_late(const tn_online *online, const tn__trigger *trigger, uint32_t from,
                            uint32_t to, bool fits) {
    const tn__timed *list = online->triggers.list;
    uint32_t at = 0;
    while (list[at].it.signal != trigger->arrival) at++;
    online_say(online,
               "feedback of iteration %" PRIu64 ": '%.80s' came %.3f ms after its back-access (its "
               "copy took %.3f ms): its in-trigger %s from step %" PRIu32 " to step %" PRIu32,
               online->usage.iterations - 1,
               tn_graph_tensor(tn_setup_graph(online->base), list[at].it.tensor)->name,
               1e3 * trigger->late_s, 1e3 * trigger->copy_s, fits ? "moves" : "has no room to move",
               from, to);
}

/* Makes late copies back begin earlier, one after the other, as far as the budget allows. Returns
 * how many were moved. */
static uint32_t online_move(tn_online *online, online_made *made) {
    tn__triggers *triggers = &online->triggers;
    uint32_t moved = 0, from, to;
    size_t bytes = triggers->count * sizeof *triggers->next;
    tn__timed *before = tn__alloc(&online->context, bytes + 1);
    if (before == NULL) return 0;
    for (uint32_t t = 0; t < triggers->trigger_count; t++) {
        tn__trigger *trigger = &triggers->all[t];
        online_made tried;
        memcpy(before, triggers->next, bytes);
        if (!trigger->late || trigger->blocked || !tn__triggers_move(triggers, trigger, &from, &to))
            continue;
        bool fits = online_try(online, &tried);
        online_say_late(online, trigger, from, to, fits);
        if (fits) {
            online_release(made);
            *made = tried;
            moved++;
        } else {
            memcpy(triggers->next, before, bytes);
            trigger->blocked = true;
        }
    }
    tn__free(&online->context, before, bytes + 1);
    return moved;
}

static tn_status online_feed_back(tn_online *online, tn_error *error) {
    online_made made = {0};
    if (online->late == 0) return TN_OK;
    tn__triggers_begin(&online->triggers);
    online->next.moved = online_move(online, &made);
    if (online->next.moved == 0) return TN_OK;
    tn__triggers_take(&online->triggers);
    tn_status status = online_replace(online, made.occupancy, &made.layout, error);
    online_made old = {online->program, online->occupancy, online->layout};
    online->program = made.program;
    online->occupancy = made.occupancy;
    online->layout = made.layout;
    online_release(&old);
    return status;
}

/* --- iterations ------------------------------------------------------------------------------- */

/* Prepares an iteration: asks the policy after the first one, and applies the feedback of the last
 * one. */
static tn_status online_prepare(tn_online *online, tn_error *error) {
    double start = tn__clock_s();
    online->next = (tn_online_iteration){0};
    if (online->usage.iterations == 0) return TN_OK;
    if (online->guided != NULL)
        TN_TRY(online_feed_back(online, error));
    else if (!online->tried)
        TN_TRY(online_guide(online, error));
    /* a new engine was made for this iteration */
    if (online->usage.settled == online->usage.iterations)
        online->next.make_seconds = tn__clock_s() - start;
    return TN_OK;
}

static void online_note(tn_online *online) {
    tn_online_iteration *it = &online->next;
    tn_engine_usage usage;
    tn_engine_measure(online->engine, &usage);
    it->guided = online->guided != NULL;
    it->seconds = usage.seconds;
    it->stall_seconds = usage.stall_seconds;
    it->out_bytes = usage.out_bytes;
    it->in_bytes = usage.in_bytes;
    if (!it->guided) it->evictions = online->engine->places.on_demand->evictions;
    if (it->guided) it->late = online->late = tn__triggers_read(&online->triggers, online->trace);
    if (it->guided) it->copies = online->triggers.trigger_count;
    if (usage.host_peak > online->usage.host_peak) online->usage.host_peak = usage.host_peak;
    uint64_t at = online->usage.iterations++;
    online->list[at < ONLINE_KEPT ? at : ONLINE_KEPT] = *it;
    if (at > 2 && it->moved == 0 && it->late == 0) return;
    online_say(online,
               "iteration %" PRIu64 ": %s, %.3f ms, of which %.3f ms waiting; %" PRIu64
               " bytes out, %" PRIu64 " bytes in; %" PRIu32 " of %" PRIu32 " copies back late",
               at, it->guided ? "guided" : "passive", 1e3 * it->seconds, 1e3 * it->stall_seconds,
               it->out_bytes, it->in_bytes, it->late, it->copies);
}

tn_status tn_online_run(tn_online *online, const tn_array *inputs, uint32_t input_count,
                        tn_array *outputs, uint32_t output_count, tn_error *error) {
    if (online->engine != NULL) TN_TRY(online_prepare(online, error));
    if (online->engine == NULL)
        TN_FAIL(error, TN_E_INVALID, "an earlier iteration failed, and its engine is lost");
    if (online->trace != NULL) tn_trace_clear(online->trace);
    TN_TRY(tn_engine_run(online->engine, inputs, input_count, outputs, output_count, error));
    online_note(online);
    return TN_OK;
}

/* --- opening a run, and its measurements ------------------------------------------------------ */

static tn_status online_options(tn_online *online, tn_error *error) {
    const tn_online_options *options = &online->options;
    double rate = options->link_bytes_per_s;
    if (options->policy != NULL && strcmp(options->policy, ONLINE_POLICY) != 0)
        TN_FAIL(error, TN_E_UNKNOWN, "there is no online policy '%.40s'; the only one is %s",
                options->policy, ONLINE_POLICY);
    if (options->budget == 0) TN_FAIL(error, TN_E_INVALID, "an online run needs a budget");
    if (!(rate > 0 && rate <= 1e18))
        TN_FAIL(error, TN_E_INVALID,
                "an online run needs the speed of a link, above 0 bytes per second, not %g", rate);
    if (tn_setup_kernels(online->base) == NULL)
        TN_FAIL(error, TN_E_INVALID, "the set-up has no kernels, so it cannot run");
    tn__options(&online->compile, sizeof online->compile, options->setup);
    tn__options(&online->engine_options, sizeof online->engine_options, options->engine);
    online->compile.fit = NULL;
    online->compile.split = NULL;
    online->compile.stream = NULL;
    online->engine_options.poison = false;
    online->engine_options.trace = NULL;
    online->engine_options.host_layout = NULL;
    online->engine_options.swap_device = NULL;
    if (online->engine_options.context == NULL) online->engine_options.context = &online->context;
    return TN_OK;
}

static tn_status online_open(tn_online *online, tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    TN_TRY(online_options(online, error));
    online->list = tn__alloc_array(&online->context, (size_t)ONLINE_KEPT + 1, sizeof *online->list);
    if (online->list == NULL) return tn__no_memory(error, "iterations");
    device.context = &online->context;
    device.capacity = online->usage.budget = online->options.budget;
    device.link_bytes_per_s = online->options.link_bytes_per_s;
    TN_TRY(tn_device_create(&device, &online->device, error));
    TN_TRY(online_open_passive(online, error));
    return online_list_statics(online, error);
}

tn_status tn_online_create(const tn_setup *setup, const tn_online_options *given,
                           tn_online **online, tn_error *error) {
    tn_online_options options = TN_ONLINE_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    tn_context context = tn__context(options.context);
    tn_online *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "an online run");
    *made = (tn_online){.context = context,
                        .base = setup,
                        .options = options,
                        .compile = TN_SETUP_OPTIONS_INIT,
                        .engine_options = TN_ENGINE_OPTIONS_INIT};
    tn_status status = online_open(made, error);
    if (status == TN_OK)
        *online = made;
    else
        tn_online_destroy(made);
    return status;
}

void tn_online_destroy(tn_online *online) {
    if (online == NULL) return;
    tn_context context = online->context;
    uint32_t tensors = tn_graph_tensor_count(tn_setup_graph(online->base));
    online_made made = {online->program, online->occupancy, online->layout};
    tn_engine_destroy(online->engine);
    online_release(&made);
    tn__triggers_release(&online->triggers);
    tn_setup_destroy(online->guided);
    tn_costs_destroy(online->costs);
    tn_trace_destroy(online->trace);
    tn_device_destroy(online->device);
    tn__free(&context, online->statics, ((size_t)tensors + 1) * sizeof *online->statics);
    tn__free(&context, online->saved, (size_t)online->saved_bytes + 1);
    tn__free(&context, online->list, ((size_t)ONLINE_KEPT + 1) * sizeof *online->list);
    tn__free(&context, online, sizeof *online);
}

tn_engine *tn_online_engine(tn_online *online) { return online->engine; }

const tn_online_iteration *tn_online_iterations(const tn_online *online, uint32_t *count) {
    uint64_t all = online->usage.iterations;
    *count = (uint32_t)(all <= ONLINE_KEPT ? all : ONLINE_KEPT + 1);
    return online->list;
}

void tn_online_measure(const tn_online *online, tn_online_usage *usage) {
    tn_device_usage device;
    tn_device_measure(online->device, &device);
    *usage = online->usage;
    usage->peak = device.allocated_peak;
}
