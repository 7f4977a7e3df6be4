/* simulate.c - replays a log on the eviction core without memory for values; costs come from the
 * log.
 *
 * Cost: that of the core's calls, about one for each line.
 */
#include "memory/evict/log.h"
#include "memory/evict/policy.h"

typedef struct simulate_replay {
    const tn_evict_log *log;
    const tn_context *context;
    tn__evict *evict;
    uint32_t *tensors; /* [tensors of the log]: the id that the core gave each tensor */
    tn__evict_output *outputs;
    uint32_t *inputs;
    size_t most_outputs, most_inputs;
} simulate_replay;

static void simulate_room(simulate_replay *run) {
    for (size_t i = 0; i < run->log->op_count; i++) {
        const tn__log_op *op = &run->log->ops[i];
        if (op->input_count > run->most_inputs) run->most_inputs = op->input_count;
        if (op->output_count > run->most_outputs) run->most_outputs = op->output_count;
    }
}

static bool simulate_alloc(simulate_replay *run) {
    simulate_room(run);
    run->tensors = tn__alloc_array(run->context, run->log->tensor_count, sizeof *run->tensors);
    run->outputs = tn__alloc_array(run->context, run->most_outputs, sizeof *run->outputs);
    run->inputs = tn__alloc_array(run->context, run->most_inputs, sizeof *run->inputs);
    return run->tensors != NULL && run->outputs != NULL && run->inputs != NULL;
}

static void simulate_free(simulate_replay *run) {
    tn__evict_destroy(run->evict);
    tn__free(run->context, run->tensors, run->log->tensor_count * sizeof *run->tensors);
    tn__free(run->context, run->outputs, run->most_outputs * sizeof *run->outputs);
    tn__free(run->context, run->inputs, run->most_inputs * sizeof *run->inputs);
}

static tn_status simulate_apply(simulate_replay *run, const tn__log_op *op, tn_error *error) {
    const tn_evict_log *log = run->log;
    for (uint32_t i = 0; i < op->input_count; i++)
        run->inputs[i] = run->tensors[log->inputs[op->first_input + i]];
    for (uint32_t o = 0; o < op->output_count; o++) {
        const tn__log_tensor *tensor = &log->tensors[op->first_output + o];
        run->outputs[o] = (tn__evict_output){.bytes = tensor->bytes,
                                             .alias = tensor->alias,
                                             .shift = tensor->shift,
                                             .overwrites = tensor->overwrites};
    }
    tn__evict_call call = {.cost = op->cost,
                           .scratch = op->scratch,
                           .flags = op->once ? TN__EVICT_ONCE : 0,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .inputs = run->inputs,
                           .outputs = run->outputs};
    return tn__evict_apply(run->evict, &call, &run->tensors[op->first_output], error);
}

static tn_status simulate_constant(simulate_replay *run, const tn__log_op *op, tn_error *error) {
    tn__evict_value value = {.bytes = run->log->tensors[op->first_output].bytes, .pinned = true};
    return tn__evict_constant(run->evict, &value, &run->tensors[op->first_output], error);
}

static tn_status simulate_command(simulate_replay *run, const tn__log_command *command,
                                  tn_error *error) {
    switch ((tn__log_what)command->what) {
    case TN__LOG_CONSTANT:
        return simulate_constant(run, &run->log->ops[command->id], error);
    case TN__LOG_APPLY:
        return simulate_apply(run, &run->log->ops[command->id], error);
    case TN__LOG_RETAIN:
        tn__evict_retain(run->evict, run->tensors[command->id]);
        return TN_OK;
    case TN__LOG_RELEASE:
        tn__evict_release(run->evict, run->tensors[command->id]);
        return TN_OK;
    case TN__LOG_KEEP:
        return tn__evict_pin(run->evict, run->tensors[command->id], error);
    }
    return TN_OK;
}

static void simulate_tell(const simulate_replay *run, tn_evict_outcome *outcome) {
    const tn_evict_counts *counts = tn__evict_count(run->evict);
    uint64_t plain = run->log->facts.plain_cost;
    outcome->counts = *counts;
    outcome->cost = tn__add_sat(counts->plain_cost, counts->remade_cost);
    outcome->cost = tn__add_sat(outcome->cost, counts->swap_cost);
    outcome->cost = tn__add_sat(outcome->cost, counts->move_cost);
    outcome->overhead = plain > 0 ? (double)outcome->cost / (double)plain : 1.0;
    if (outcome->end == TN_EVICT_FULL) outcome->needed = tn__evict_needed(run->evict);
}

static tn_status simulate_all(simulate_replay *run, tn_evict_outcome *outcome, tn_error *error) {
    const tn_evict_log *log = run->log;
    tn_error full = {0};
    for (size_t i = 0; i < log->command_count; i++) {
        tn_status status = simulate_command(run, &log->commands[i], &full);
        if (status == TN_OK) continue;
        outcome->line = log->commands[i].line;
        if (status == TN_E_EXHAUSTED) {
            outcome->end = TN_EVICT_FULL;
            memcpy(outcome->message, full.message, sizeof outcome->message);
            return TN_OK;
        }
        if (status == TN_E_STOPPED) {
            outcome->end = TN_EVICT_OVER;
            return TN_OK;
        }
        if (error != NULL) *error = full;
        return tn__where(error, status, "%s:%u", log->file, log->commands[i].line);
    }
    return TN_OK;
}

/* The limit of recomputation cost used by DTR's authors: int(plain * (overhead_max - 1)), in
 * nanoseconds. */
static uint64_t simulate_limit(const tn_evict_log *log, double overhead_max) {
    double limit = (double)log->facts.plain_cost * (overhead_max - 1);
    if (!(overhead_max > 0)) return 0;
    if (limit < 1) return 1;
    return limit < 0x1p62 ? (uint64_t)limit : (uint64_t)1 << 62;
}

tn_status tn_evict_plain_least(const tn_evict_log *log, tn_evict_least *least, tn_error *error) {
    const tn__evict_options core = {
        .context = &log->context, .policy = "lru", .budget = UINT64_MAX, .find_least = true};
    tn_context context = tn__context(core.context);
    simulate_replay run = {.log = log, .context = &context};
    tn_evict_outcome outcome = {0};
    tn_status status = tn__evict_create(&core, &run.evict, error);
    if (status == TN_OK && !simulate_alloc(&run)) status = tn__no_memory(error, "a simulation");
    if (status == TN_OK) status = simulate_all(&run, &outcome, error);
    if (status == TN_OK) *least = *tn__evict_least_of(run.evict);
    if (status == TN_OK && least->op < log->op_count) least->name = log->ops[least->op].name;
    simulate_free(&run);
    return status;
}

static tn_status simulate(const tn_evict_log *log, const tn_evict_options *options,
                          tn_evict_outcome *outcome, tn_error *error) {
    const tn__policy *policy = tn__policy_find(options->policy);
    tn__evict_options core = {.context =
                                  options->context != NULL ? options->context : &log->context,
                              .policy = options->policy,
                              .budget = options->budget,
                              .addresses = options->addresses,
                              .alignment = options->alignment,
                              .exact = !options->addresses && !log->is_ours && policy != NULL &&
                                       (policy->features & TN__POLICY_PUBLISHED) != 0,
                              .cost_limit = simulate_limit(log, options->overhead_max),
                              .sample = options->sample,
                              .time_search = options->time_search,
                              .seed = options->seed,
                              .link_bytes_per_s = options->link_bytes_per_s,
                              .host_bytes = options->host_bytes,
                              .move_bytes_per_s = options->move_bytes_per_s};
    tn_context context = tn__context(core.context);
    simulate_replay run = {.log = log, .context = &context};
    tn_evict_outcome made = {0};
    tn_status status = tn__evict_create(&core, &run.evict, error);
    if (status == TN_OK && !simulate_alloc(&run)) status = tn__no_memory(error, "a simulation");
    if (status == TN_OK) status = simulate_all(&run, &made, error);
    if (status == TN_OK) {
        simulate_tell(&run, &made);
        *outcome = made;
    }
    simulate_free(&run);
    return status;
}

tn_status tn_evict_simulate(const tn_evict_log *log, const tn_evict_options *given,
                            tn_evict_outcome *outcome, tn_error *error) {
    tn_evict_options options = TN_EVICT_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    if (options.overhead_max != 0 && !(options.overhead_max >= 1))
        TN_FAIL(error, TN_E_INVALID, "an overhead is at least 1, that of the plain run");
    return simulate(log, &options, outcome, error);
}

/* A simulated run without eviction, which keeps every value with references, and constants too. */
typedef struct plain_run {
    uint32_t *roots; /* [tensor]: the first tensor of each tensor's storage */
    /* [tensor]: if the tensor is the first one of its storage, the number of references to the
     * storage */
    uint64_t *refs;
    uint64_t bytes, peak;
} plain_run;

static void plain_apply(const tn_evict_log *log, plain_run *run, const tn__log_op *op) {
    for (uint32_t o = 0; o < op->output_count; o++) {
        uint32_t id = op->first_output + o;
        const tn__log_tensor *tensor = &log->tensors[id];
        bool is_fresh = tensor->alias == TN__EVICT_NONE;
        run->roots[id] = is_fresh ? id : run->roots[log->inputs[op->first_input + tensor->alias]];
        run->refs[run->roots[id]]++;
        run->bytes = tn__add_sat(run->bytes, tensor->bytes);
    }
    uint64_t peak = tn__add_sat(run->bytes, op->scratch);
    if (peak > run->peak) run->peak = peak;
}

static void plain_command(const tn_evict_log *log, plain_run *run, const tn__log_command *command) {
    switch ((tn__log_what)command->what) {
    case TN__LOG_CONSTANT:
    case TN__LOG_APPLY:
        plain_apply(log, run, &log->ops[command->id]);
        break;
    case TN__LOG_RETAIN:
        run->refs[run->roots[command->id]]++;
        break;
    case TN__LOG_RELEASE: {
        uint32_t root = run->roots[command->id];
        if (--run->refs[root] == 0) run->bytes -= log->tensors[root].bytes;
        break;
    }
    case TN__LOG_KEEP:
        break;
    }
}

tn_status tn_evict_plain_peak(const tn_evict_log *log, uint64_t *bytes, tn_error *error) {
    const tn_context *context = &log->context;
    plain_run run = {
        .roots = tn__alloc_array(context, log->tensor_count, sizeof *run.roots),
        .refs = tn__alloc_array(context, log->tensor_count, sizeof *run.refs),
    };
    bool done = run.roots != NULL && run.refs != NULL;
    for (size_t i = 0; done && i < log->command_count; i++)
        plain_command(log, &run, &log->commands[i]);
    tn__free(context, run.roots, log->tensor_count * sizeof *run.roots);
    tn__free(context, run.refs, log->tensor_count * sizeof *run.refs);
    if (!done) return tn__no_memory(error, "a simulation");
    *bytes = run.peak;
    return TN_OK;
}
