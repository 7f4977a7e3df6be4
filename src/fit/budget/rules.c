/* rules.c - finds the operators that the rules of the user match and the place of each change, and
 * writes a schedule graph that obeys the rules.
 *
 * A rule is about the results of an operator: keep, recompute or swap them. The readers of a result
 * before a certain job are early, the others late (tenure/fit.h). In the schedule graph that is
 * written, early and late readers read different values, so that every pass obeys the rules without
 * knowing them. In this example a rule says that a is recomputed:
 *
 *     jobs        a    b(a)   c   d   e(a)          the live range of value a ends after b
 *     ruled       a    b(a)   c   d   a'  e(a')     a' runs in the form of a repeat of a
 *
 * A result without late readers is recomputed only if a repeat reads it; otherwise it would be live
 * until then. For a swapped value, three jobs without costs are written instead of a': out, settle
 * and in. A kept value may not be copied or encoded, and its job may not be repeated. Cost: O((jobs
 * + operands) log jobs + jobs * rules). Source: torch.utils.checkpoint (checkpoint_sequential,
 * selective checkpointing), and `recompute` and `offload` with `prefetch` of MindSpore's cells and
 * operators.
 */
#include "fit/budget/rules.h"

#include <stdio.h>

#include "graph/op.h"

typedef enum tn__ruled_how {
    TN__RULED_NOT,
    TN__RULED_KEEP,
    TN__RULED_RECOMPUTE,
    TN__RULED_SWAP
} tn__ruled_how;

/* Where a swapped value is copied, as jobs of the original schedule graph. If `in` is 0, the value
 * is not swapped. */
typedef struct tn__ruled_swap {
    uint32_t leave;  /* the last early reader; the copy to the host starts after it */
    uint32_t settle; /* the job that waits until the copy to the host is done */
    uint32_t in;     /* the job before which the copy back to the device starts */
} tn__ruled_swap;

typedef struct tn__rules_state {
    tn_rules rules;
    const tn_graph *graph;
    const tn__dag *dag;
    const tn_context *context;
    tn__arena *arena;
    void (*explain)(void *self, const char *line);
    void *explain_self;
    uint32_t *rule; /* [jobs] the last rule that matches the job; TN_NONE: no rule matches */
    /* [jobs] the next job of a backward pass after this job; TN_NONE: there is no such job */
    uint32_t *turn;
    /* [jobs] whether the job belongs to a backward pass: it makes a gradient */
    bool *is_backward;
    uint8_t *how; /* [jobs] tn__ruled_how: the decision of the rule */
    /* [jobs] for RECOMPUTE: the job before which this one runs again; TN_NONE: it has no late
     * readers, and runs again only before repeats that read its results */
    uint32_t *at;
    bool *is_again;        /* [jobs] whether the job runs again because of a rule */
    bool *acts;            /* [rules] whether the rule changes anything */
    tn__ruled_swap *swaps; /* [values] */
    bool trains;           /* the program has a backward pass */
    bool strict;           /* refuse rules that match nothing or change nothing */
    tn_error *error;
} tn__rules_state;

/* --- the schedule graph that obeys the decisions ---------------------------------------------- */

/* Writes a schedule graph that obeys the rules, and translates its schedules back.
 *
 * The jobs keep their order. The additional jobs that are due at a job are written before it. A
 * repeat is written after the repeats and copies that bring back its released sources. Each value
 * has a current version, and a job reads the version that is current where the job is written.
 *
 * If an early reader reads a tensor that a rule releases, passes may not repeat this reader: a
 * repeat in the backward pass would need the released version. Cost: O((jobs + operands) log jobs).
 */

enum {
    BUILD_OUT,
    BUILD_SETTLE,
    BUILD_IN,
    BUILD_RECOMPUTE,
    BUILD_KINDS
}; /* the order in which additional jobs are written before the same job */

typedef struct build_state {
    tn__rules_state *rules;
    const tn__dag *dag;
    tn__arena *arena;
    tn__dag_job *jobs; /* [job_count] the jobs of the new schedule graph */
    tn__ruled_job *of;
    tn__dag_value *values;
    uint32_t *value_of;
    uint32_t job_count, value_count;
    uint32_t now; /* the job of the original schedule graph whose first run is written next */
    /* [jobs] the job of the new schedule graph that is the first run of this job */
    uint32_t *first;
    /* [values] the current version of the value, a value of the new schedule graph */
    uint32_t *current;
    /* [values] for a swapped value: whether its jobs out, settle and in are written already */
    bool *is_out, *is_settled, *is_in;
    bool *is_again; /* as in tn__rules_state, for the repeats that are written already */
    uint32_t *stack;
    tn__ruled *ruled;
} build_state;

static tn_status build_no_memory(const build_state *s) {
    return tn__no_memory(s->rules->error, "the jobs of rules");
}

/* --- lists --- */

static uint32_t *build_list(build_state *s, const uint32_t *from, uint32_t count, bool versions) {
    uint32_t *list = tn__arena_array(s->arena, (size_t)count + 1, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < count; i++)
        list[i] = versions ? s->current[from[i]] : from[i];
    return list;
}

static uint32_t *build_one(build_state *s, uint32_t value) {
    uint32_t *list = tn__arena_array(s->arena, 1, sizeof *list);
    if (list != NULL) list[0] = value;
    return list;
}

static bool build_names(const uint32_t *list, uint32_t count, uint32_t value) {
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == value) return true;
    return false;
}

/* --- jobs --- */

static void build_put(build_state *s, tn__dag_job job, uint8_t kind, uint32_t what) {
    s->of[s->job_count] = (tn__ruled_job){kind, what};
    s->jobs[s->job_count++] = job;
}

/* Begins a new version of a value, which becomes the current one. If the value is an output of the
 * program, the new version is the output instead of the old one. */
static uint32_t build_version(build_state *s, uint32_t value) {
    const uint32_t old = s->current[value], made = s->value_count++;
    s->values[made] = s->values[old];
    s->value_of[made] = value;
    s->values[old].flags &= ~(uint32_t)TN__VALUE_KEPT;
    s->current[value] = made;
    return made;
}

/* Writes the job OUT or SETTLE of a swapped value. Both are jobs that read the value. */
static tn_status build_reads(build_state *s, uint32_t value, uint8_t kind) {
    tn__dag_job job = {.job = {.op = TN_NONE, .inplace = TN_NONE, .input_count = 1}};
    job.inputs = build_one(s, s->current[value]);
    if (job.inputs == NULL) return build_no_memory(s);
    build_put(s, job, kind, value);
    return TN_OK;
}

static tn_status build_settle(build_state *s, uint32_t value) {
    if (s->is_settled[value]) return TN_OK;
    s->is_settled[value] = true;
    return build_reads(s, value, TN__SETTLE);
}

static tn_status build_in(build_state *s, uint32_t value) {
    if (s->is_in[value]) return TN_OK;
    s->is_in[value] = true;
    TN_TRY(build_settle(s, value));
    tn__dag_job job = {.job = {.op = TN_NONE, .inplace = TN_NONE, .output_count = 1}};
    job.outputs = build_one(s, build_version(s, value));
    if (job.outputs == NULL) return build_no_memory(s);
    build_put(s, job, TN__IN, value);
    s->ruled->copied++;
    return TN_OK;
}

/* Whether a repeat of this job would read a version of a value that a rule releases, so that passes
 * may not repeat the job. */
static bool build_reads_released(const build_state *s, uint32_t id) {
    uint32_t count;
    const uint32_t *inputs = tn__job_inputs(s->dag, id, true, &count);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t maker = s->dag->values[inputs[i]].maker;
        const uint8_t how = maker != TN_NONE ? s->rules->how[maker] : TN__RULED_NOT;
        if (how == TN__RULED_RECOMPUTE && s->rules->at[maker] != TN_NONE && !s->is_again[maker])
            return true;
        if (how == TN__RULED_SWAP && s->rules->swaps[inputs[i]].in > 0 && !s->is_in[inputs[i]])
            return true;
    }
    return false;
}

/* Writes the repeat of a job as a new job. Its first run has the inputs, outputs and cost of a
 * repeat. */
static tn_status build_repeat(build_state *s, uint32_t id) {
    const tn__job *it = &s->dag->jobs[id];
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(s->dag, id, true, &inputs);
    const uint32_t *output = tn__job_outputs(s->dag, id, true, &outputs);
    tn__dag_job job = {.job = *it};
    job.job.cost = it->recompute_cost;
    job.job.input_count = inputs;
    job.job.output_count = outputs;
    /* in the new schedule graph the order of jobs is fixed, so the repeat needs no ordering
     * constraints */
    job.job.after_count = 0;
    job.job.flags &= ~(uint32_t)TN__JOB_BY_RULE;
    if (build_reads_released(s, id)) job.job.flags &= ~(uint32_t)TN__JOB_REPEATS;
    job.inputs = build_list(s, input, inputs, true);
    if (job.inputs == NULL) return build_no_memory(s);
    uint32_t inplace = it->inplace != TN_NONE ? s->current[it->inplace] : TN_NONE;
    bool fits = inplace != TN_NONE && outputs > 0 && build_names(job.inputs, inputs, inplace) &&
                s->dag->values[output[0]].bytes == s->values[inplace].bytes;
    job.job.inplace = fits ? inplace : TN_NONE;
    for (uint32_t k = 0; k < outputs; k++) build_version(s, output[k]);
    job.outputs = build_list(s, output, outputs, true);
    if (job.outputs == NULL) return build_no_memory(s);
    build_put(s, job, TN__RUN, id);
    s->is_again[id] = true;
    s->ruled->recompute++;
    return TN_OK;
}

/* Whether a source of a repeat was released by a rule, and is not yet recomputed or copied back. */
static bool build_is_gone(const build_state *s, uint32_t value) {
    const uint32_t maker = s->dag->values[value].maker;
    if (maker == TN_NONE) return false;
    if (s->rules->how[maker] == TN__RULED_SWAP) return s->is_out[value] && !s->is_in[value];
    if (s->rules->how[maker] != TN__RULED_RECOMPUTE || s->is_again[maker]) return false;
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(s->dag, maker, true, &count);
    if (!build_names(outputs, count, value)) return false;
    /* a repeat that only other repeats demand must not come too late */
    const tn__job *it = &s->dag->jobs[maker];
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (s->dag->others[it->limit_first + i] < s->now) return false;
    /* The value is released if no early reader follows the current job. Only late readers remain,
     * and they read the result of the repeat. */
    const uint32_t after = s->now > 0 ? tn__lists_after(&s->dag->reads, value, s->now - 1)
                                      : s->dag->reads.first[value];
    return after == s->dag->reads.first[value + 1] ||
           s->dag->reads.items[after] >= s->rules->at[maker];
}

/* Writes the repeat of a job. Before it, the released sources of the repeat are recomputed or
 * copied back. A stack replaces recursion. */
static tn_status build_recompute(build_state *s, uint32_t id) {
    uint32_t depth = 0;
    s->stack[depth++] = id;
    while (depth > 0) {
        const uint32_t job = s->stack[depth - 1], before = depth;
        uint32_t count;
        const uint32_t *inputs = tn__job_inputs(s->dag, job, true, &count);
        for (uint32_t i = 0; i < count && !s->is_again[job]; i++) {
            if (!build_is_gone(s, inputs[i])) continue;
            const uint32_t maker = s->dag->values[inputs[i]].maker;
            if (s->rules->how[maker] == TN__RULED_SWAP) {
                TN_TRY(build_in(s, inputs[i]));
            } else {
                /* the stack does not overflow: it has each job of a chain of sources at most
                 * once */
                s->stack[depth++] = maker;
                break;
            }
        }
        if (depth > before) continue;
        if (!s->is_again[job]) TN_TRY(build_repeat(s, job));
        depth--;
    }
    return TN_OK;
}

static tn_status build_first(build_state *s, uint32_t id) {
    const tn__job *it = &s->dag->jobs[id];
    uint32_t inputs, outputs;
    const uint32_t *input = tn__job_inputs(s->dag, id, false, &inputs);
    const uint32_t *output = tn__job_outputs(s->dag, id, false, &outputs);
    tn__dag_job job = {.job = *it};
    job.inputs = build_list(s, input, inputs, true);
    job.outputs = build_list(s, output, outputs, true);
    if (job.inputs == NULL || job.outputs == NULL) return build_no_memory(s);
    if (it->inplace != TN_NONE) job.job.inplace = s->current[it->inplace];
    job.job.flags &= ~(uint32_t)TN__JOB_BY_RULE;
    const uint8_t how = s->rules->how[id];
    const bool demanded = how == TN__RULED_RECOMPUTE && s->rules->at[id] == TN_NONE;
    if ((how != TN__RULED_NOT && !demanded) || build_reads_released(s, id))
        job.job.flags &= ~(uint32_t)TN__JOB_REPEATS;
    if (job.job.flags & TN__JOB_REPEATS) {
        input = tn__job_inputs(s->dag, id, true, &inputs);
        output = tn__job_outputs(s->dag, id, true, &outputs);
        job.recompute_inputs = build_list(s, input, inputs, true);
        job.recompute_outputs = build_list(s, output, outputs, true);
        if (job.recompute_inputs == NULL || job.recompute_outputs == NULL)
            return build_no_memory(s);
    }
    s->first[id] = s->job_count;
    build_put(s, job, TN__RUN, id);
    return TN_OK;
}

/* --- the order in which jobs are written --- */

static tn_status build_item(build_state *s, uint32_t kind, uint32_t what) {
    switch (kind) {
    case BUILD_OUT:
        s->is_out[what] = true;
        return build_reads(s, what, TN__OUT);
    case BUILD_SETTLE:
        return build_settle(s, what);
    case BUILD_IN:
        return build_in(s, what);
    default:
        return s->is_again[what] ? TN_OK : build_recompute(s, what);
    }
}

static uint64_t build_key(uint32_t place, uint32_t kind) {
    return (uint64_t)place * BUILD_KINDS + kind;
}

static tn_status build_items(build_state *s, tn__sort_item **list, uint32_t *count) {
    const tn__rules_state *rules = s->rules;
    const size_t most = (size_t)s->dag->job_count + 3 * (size_t)s->dag->value_count + 1;
    tn__sort_item *items = tn__arena_array(s->arena, most, sizeof *items);
    uint32_t n = 0;
    if (items == NULL) return build_no_memory(s);
    for (uint32_t v = 0; v < s->dag->value_count; v++) {
        const tn__ruled_swap *swap = &rules->swaps[v];
        if (swap->in == 0) continue;
        items[n++] = (tn__sort_item){build_key(swap->leave + 1, BUILD_OUT), v};
        items[n++] = (tn__sort_item){build_key(swap->settle, BUILD_SETTLE), v};
        items[n++] = (tn__sort_item){build_key(swap->in, BUILD_IN), v};
    }
    for (uint32_t j = 0; j < s->dag->job_count; j++)
        if (rules->how[j] == TN__RULED_RECOMPUTE && rules->at[j] != TN_NONE)
            items[n++] = (tn__sort_item){build_key(rules->at[j], BUILD_RECOMPUTE), j};
    if (!tn__sort_items(rules->context, items, n)) return build_no_memory(s);
    *list = items;
    *count = n;
    return TN_OK;
}

static tn_status build_walk(build_state *s) {
    tn__sort_item *items = NULL;
    uint32_t count = 0, at = 0;
    TN_TRY(build_items(s, &items, &count));
    for (s->now = 0; s->now < s->dag->job_count; s->now++) {
        for (; at < count && items[at].key < build_key(s->now + 1, 0); at++)
            TN_TRY(build_item(s, (uint32_t)(items[at].key % BUILD_KINDS), items[at].id));
        TN_TRY(build_first(s, s->now));
    }
    return TN_OK;
}

/* Translates ordering constraints (`after`) and `limits` from jobs of the original schedule graph
 * to their first runs in the new one. */
static tn_status build_others(build_state *s) {
    for (uint32_t j = 0; j < s->job_count; j++) {
        tn__dag_job *job = &s->jobs[j];
        if (s->of[j].kind != TN__RUN) continue;
        const tn__job *it = &s->dag->jobs[s->of[j].what];
        uint32_t *after = build_list(s, s->dag->others + it->after_first, it->after_count, false);
        uint32_t *limits = build_list(s, s->dag->others + it->limit_first, it->limit_count, false);
        if (after == NULL || limits == NULL) return build_no_memory(s);
        for (uint32_t i = 0; i < it->after_count; i++) after[i] = s->first[after[i]];
        for (uint32_t i = 0; i < it->limit_count; i++) limits[i] = s->first[limits[i]];
        job->after = after;
        job->limits = limits;
    }
    return TN_OK;
}

/* --- values --- */

static void build_flags(build_state *s) {
    const tn__rules_state *rules = s->rules;
    for (uint32_t v = 0; v < s->dag->value_count; v++) {
        const uint32_t maker = s->dag->values[v].maker;
        s->values[v] = s->dag->values[v];
        s->value_of[v] = s->current[v] = v;
        if (maker == TN_NONE || rules->how[maker] == TN__RULED_NOT) continue;
        s->values[v].flags &= ~(uint32_t)TN__VALUE_COPIES;
        s->values[v].flags |= TN__VALUE_RULED;
    }
}

static tn_status build_room(build_state *s) {
    const size_t jobs = (size_t)s->dag->job_count + 1, values = (size_t)s->dag->value_count + 1;
    const size_t all = 2 * jobs + 3 * values;
    size_t versions = 2 * values;
    for (uint32_t j = 0; j < s->dag->job_count; j++)
        versions += s->dag->jobs[j].recompute_output_count;
    s->jobs = tn__arena_array(s->arena, all, sizeof *s->jobs);
    s->of = tn__arena_array(s->arena, all, sizeof *s->of);
    s->values = tn__arena_array(s->arena, versions, sizeof *s->values);
    s->value_of = tn__arena_array(s->arena, versions, sizeof *s->value_of);
    s->first = tn__arena_array(s->arena, jobs, sizeof *s->first);
    s->stack = tn__arena_array(s->arena, jobs, sizeof *s->stack);
    s->is_again = s->rules->is_again;
    s->current = tn__arena_array(s->arena, values, sizeof *s->current);
    s->is_out = tn__arena_array(s->arena, values, sizeof *s->is_out);
    s->is_settled = tn__arena_array(s->arena, values, sizeof *s->is_settled);
    s->is_in = tn__arena_array(s->arena, values, sizeof *s->is_in);
    if (!s->jobs || !s->of || !s->values || !s->value_of || !s->first || !s->stack || !s->current ||
        !s->is_out || !s->is_settled || !s->is_in)
        return build_no_memory(s);
    s->value_count = s->dag->value_count;
    return TN_OK;
}

/* Writes the schedule graph that obeys the decisions about all jobs. Errors: E_NO_MEMORY, and those
 * of tn__dag_make, which would be a mistake of this file. Cost: O((jobs + operands) log jobs). */
static tn_status rules_build(tn__rules_state *rules, tn__ruled *ruled) {
    build_state s = {.rules = rules, .dag = rules->dag, .arena = rules->arena, .ruled = ruled};
    *ruled = (tn__ruled){0};
    TN_TRY(build_room(&s));
    build_flags(&s);
    TN_TRY(build_walk(&s));
    TN_TRY(build_others(&s));
    TN_TRY(tn__dag_make(s.arena, s.jobs, s.job_count, s.values, s.value_count, &ruled->dag,
                        rules->error));
    ruled->dag.fixed_bytes = s.dag->fixed_bytes;
    ruled->dag.slack = s.dag->slack;
    ruled->dag.is_ordered = s.dag->is_ordered || ruled->recompute > 0 || ruled->copied > 0;
    ruled->jobs = s.of;
    ruled->values = s.value_of;
    return TN_OK;
}

/* --- schedules --- */

tn_status tn__rules_schedule(const tn__ruled *ruled, const tn__schedule *from, tn__schedule *to,
                             tn_error *error) {
    to->count = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        tn__action action = from->actions[i];
        if (action.kind == TN__RUN) {
            action = (tn__action){.kind = ruled->jobs[action.what].kind,
                                  .what = ruled->jobs[action.what].what};
        } else {
            action.what = ruled->values[action.what];
        }
        TN_TRY(tn__schedule_add(to, action, error));
    }
    return TN_OK;
}

/* --- matches and places ----------------------------------------------------------------------- */

static const char *const rules_names[TN_RULE_COUNT] = {"keep", "recompute", "swap"};

static const char *rules_kind_name(tn_rule_kind kind) {
    return (uint32_t)kind < TN_RULE_COUNT ? rules_names[kind] : "";
}

bool tn__rules_are_strict(const tn_program *program) {
    for (uint32_t step = 0; step < tn_program_count(program); step++) {
        const tn_opcode opcode = tn_program_instructions(program)[step].opcode;
        if (opcode == TN_SEND || opcode == TN_RECV) return false;
    }
    return true;
}

static tn_rules rules_read(const tn_rules *given) {
    tn_rules rules = TN_RULES_INIT;
    tn__options(&rules, sizeof rules, given);
    return rules;
}

bool tn__rules_any(const tn_rules *given) {
    const tn_rules rules = rules_read(given);
    return rules.count > 0 || rules.segments > 0;
}

const char *tn__rule_text(const tn_rules *given, uint32_t index, char text[TN__RULE_TEXT]) {
    const tn_rules rules = rules_read(given);
    if (index < rules.count && rules.list[index].prefetch > 0)
        snprintf(text, TN__RULE_TEXT, "%s '%.80s' (prefetch %u)",
                 rules_kind_name(rules.list[index].kind), rules.list[index].pattern,
                 rules.list[index].prefetch);
    else if (index < rules.count)
        snprintf(text, TN__RULE_TEXT, "%s '%.80s'", rules_kind_name(rules.list[index].kind),
                 rules.list[index].pattern);
    else
        snprintf(text, TN__RULE_TEXT, "%u segments", rules.segments);
    return text;
}

/* --- patterns --- */

#define RULES_TYPE "type:"
#define RULES_LISTED 8u /* number of names that a message lists */

static bool rules_is_type(const char *pattern) {
    return strncmp(pattern, RULES_TYPE, sizeof RULES_TYPE - 1) == 0;
}

static const char *rules_word(const tn__rules_state *s, uint32_t job, bool type) {
    const tn_op *op = tn_graph_op(s->graph, s->dag->jobs[job].op);
    return type ? op->type : op->name;
}

static bool rules_match_op(const tn_rule *rule, const tn_op *op) {
    bool type = rules_is_type(rule->pattern);
    const char *pattern = type ? rule->pattern + sizeof RULES_TYPE - 1 : rule->pattern;
    return tn__glob(pattern, type ? op->type : op->name);
}

static bool rules_match(const tn__rules_state *s, const tn_rule *rule, uint32_t job) {
    const tn_op_id op = s->dag->jobs[job].op;
    return op != TN_NONE && rules_match_op(rule, tn_graph_op(s->graph, op));
}

tn_rule_kind tn__rules_of(const tn_rules *given, const tn_graph *graph, tn_op_id op) {
    const tn_rules rules = rules_read(given);
    for (uint32_t r = 0; rules.list != NULL && r < rules.count; r++)
        if (rules.list[r].pattern != NULL && rules_match_op(&rules.list[r], tn_graph_op(graph, op)))
            return rules.list[r].kind;
    return TN_RULE_COUNT;
}

/* Whether an operator is one of a problem without a model. Its type is internal. */
static bool rules_is_opaque(const tn_op *op) {
    return strcmp(op->domain, "tenure") == 0 && strncmp(op->type, "Opaque", 6) == 0;
}

/* Fails for a rule with a pattern that matches nothing. The message lists some names or types that
 * a pattern could match. */
static tn_status rules_refuse(const tn__rules_state *s, uint32_t index) {
    const bool type = rules_is_type(s->rules.list[index].pattern);
    const char *listed[RULES_LISTED];
    uint32_t count = 0, more = 0;
    bool untyped = false;
    char text[TN__RULE_TEXT];
    tn__text words;
    tn__text_init(&words, s->context);
    for (uint32_t j = 0; j < s->dag->job_count; j++) {
        if (s->dag->jobs[j].op == TN_NONE) continue;
        if (type && rules_is_opaque(tn_graph_op(s->graph, s->dag->jobs[j].op))) {
            untyped = true;
            continue;
        }
        const char *word = rules_word(s, j, type);
        bool known = word[0] == '\0';
        for (uint32_t i = 0; i < count && !known; i++) known = strcmp(listed[i], word) == 0;
        if (known) continue;
        if (count == RULES_LISTED) {
            more++;
            continue;
        }
        listed[count++] = word;
        tn__text_printf(&words, "%s'%.60s'", count > 1 ? ", " : "", word);
    }
    tn_status status =
        words.failed || words.data == NULL
            ? tn__fail(s->error, TN_E_INVALID, "the rule %s matches no operator%s",
                       tn__rule_text(&s->rules, index, text),
                       untyped ? ": operators of a problem have no types; give a pattern of names"
                               : "")
            : tn__fail(s->error, TN_E_INVALID,
                       "the rule %s matches no operator that has a result of its own; %s are %s%s",
                       tn__rule_text(&s->rules, index, text),
                       type ? "operator types" : "operator names", words.data,
                       more > 0 ? ", ..." : "");
    tn__text_release(&words);
    return status;
}

static tn_status rules_contradict(const tn__rules_state *s, uint32_t job, uint32_t a, uint32_t b) {
    char one[TN__RULE_TEXT], other[TN__RULE_TEXT];
    TN_FAIL(s->error, TN_E_INVALID,
            "the rules %s and %s contradict each other: both match '%.80s' (%s); make one of the "
            "patterns narrower",
            tn__rule_text(&s->rules, a, one), tn__rule_text(&s->rules, b, other),
            rules_word(s, job, false), rules_word(s, job, true));
}

static uint32_t rules_prefetch(const tn_rule *rule) {
    if (rule->kind != TN_RULE_SWAP) return 0;
    return rule->prefetch > 0 ? rule->prefetch : 1;
}

static tn_status rules_find(tn__rules_state *s) {
    if (s->rules.count > 0 && s->rules.list == NULL)
        TN_FAIL(s->error, TN_E_INVALID, "%u rules, but no list of them", s->rules.count);
    for (uint32_t j = 0; j < s->dag->job_count; j++) s->rule[j] = TN_NONE;
    for (uint32_t r = 0; r < s->rules.count; r++) {
        const tn_rule *rule = &s->rules.list[r];
        bool any = false;
        if (rule->pattern == NULL || (uint32_t)rule->kind >= TN_RULE_COUNT)
            TN_FAIL(s->error, TN_E_INVALID, "rule %u has no pattern, or an unknown kind", r);
        for (uint32_t j = 0; j < s->dag->job_count; j++) {
            if (!rules_match(s, rule, j)) continue;
            any = true;
            const tn_rule *other = s->rule[j] != TN_NONE ? &s->rules.list[s->rule[j]] : rule;
            if (other->kind != rule->kind || rules_prefetch(other) != rules_prefetch(rule))
                return rules_contradict(s, j, s->rule[j], r);
            s->rule[j] = r;
        }
        if (!any && s->strict) return rules_refuse(s, r);
    }
    return TN_OK;
}

/* --- forward and backward pass --- */

bool tn__rules_is_backward(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            tn_graph_tensor(graph, op->outputs[k])->kind == TN_KIND_GRADIENT)
            return true;
    return strcmp(op->domain, "aten") == 0 && strstr(op->type, "_backward") != NULL;
}

static bool rules_is_backward(const tn__rules_state *s, uint32_t job) {
    const tn__job *it = &s->dag->jobs[job];
    return it->op != TN_NONE && it->input_count > 0 && tn__rules_is_backward(s->graph, it->op);
}

static void rules_find_turns(tn__rules_state *s) {
    uint32_t next = TN_NONE;
    for (uint32_t j = s->dag->job_count; j-- > 0;) {
        s->turn[j] = next;
        if (!rules_is_backward(s, j)) continue;
        s->is_backward[j] = s->trains = true;
        next = j;
    }
}

/* --- the place of a change --- */

/* Finds the last early access of a value (*leave) and its first late reader (*back). Without a
 * backward pass these are the two consecutive accesses that are furthest apart. Returns false if no
 * reader is late enough, so that a release in between would gain nothing. */
static bool rules_separate(const tn__rules_state *s, uint32_t value, uint32_t *leave,
                           uint32_t *back) {
    const tn__lists *reads = &s->dag->reads;
    const uint32_t maker = s->dag->values[value].maker;
    uint32_t from = maker, longest = 0;
    *leave = maker;
    *back = TN_NONE;
    if (s->trains && (s->is_backward[maker] || s->turn[maker] == TN_NONE)) return false;
    for (uint32_t i = reads->first[value]; i < reads->first[value + 1]; i++) {
        const uint32_t job = reads->items[i];
        bool late = s->trains ? job >= s->turn[maker] && *back == TN_NONE : job - from > longest;
        if (late) {
            longest = job - from;
            *leave = from;
            *back = job;
        }
        from = job;
    }
    return *back != TN_NONE && *back > *leave + 1;
}

static bool rules_may_repeat(const tn__dag *dag, uint32_t job) {
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(dag, job, true, &count);
    for (uint32_t k = 0; k < count; k++)
        if (dag->values[outputs[k]].flags & TN__VALUE_HELD) return false;
    return (dag->jobs[job].flags & (TN__JOB_REPEATS | TN__JOB_BY_RULE)) != 0;
}

/* Returns the job before which an operator must run again at the latest: the first late reader of
 * its results, or a job that overwrites one of its sources. TN_NONE: recomputation would gain
 * nothing. */
static uint32_t rules_recompute_at(const tn__rules_state *s, uint32_t job) {
    const tn__dag *dag = s->dag;
    const tn__job *it = &dag->jobs[job];
    uint32_t count, at = TN_NONE, first = TN_NONE;
    const uint32_t *outputs = tn__job_outputs(dag, job, true, &count);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t leave, back;
        if (!rules_separate(s, outputs[k], &leave, &back)) continue;
        if (back < at) at = back;
        if (leave < first) first = leave;
    }
    for (uint32_t i = 0; i < it->limit_count; i++) {
        uint32_t limit = dag->others[it->limit_first + i];
        if (limit != job && limit < at) at = limit;
    }
    return at != TN_NONE && at > first + 1 ? at : TN_NONE;
}

/* Whether the results of a forward operator may be recomputed if a repeat needs them, although they
 * have no late readers of their own. */
static bool rules_may_demand(const tn__rules_state *s, uint32_t job) {
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(s->dag, job, true, &count);
    if (s->trains && (s->is_backward[job] || s->turn[job] == TN_NONE)) return false;
    for (uint32_t k = 0; k < count; k++)
        if (s->dag->values[outputs[k]].flags & TN__VALUE_KEPT) return false;
    return rules_may_repeat(s->dag, job);
}

static void rules_explain(const tn__rules_state *s, tn_rule_kind kind, uint32_t value,
                          const char *why) {
    char line[256];
    const tn_tensor_id tensor = s->dag->values[value].tensor;
    if (s->explain == NULL || tensor == TN_NONE) return;
    snprintf(line, sizeof line, "%s '%.80s', %llu bytes: rule %s", rules_kind_name(kind),
             tn_graph_tensor(s->graph, tensor)->name,
             (unsigned long long)s->dag->values[value].bytes, why);
    s->explain(s->explain_self, line);
}

/* Whether a result of the job may leave memory at all. Static tensors, such as the parameters that
 * an optimizer updates, never do. */
static bool rules_may_leave(const tn__dag *dag, uint32_t job) {
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(dag, job, false, &count);
    for (uint32_t k = 0; k < count; k++)
        if ((dag->values[outputs[k]].flags & TN__VALUE_HELD) == 0) return true;
    return false;
}

static bool rules_is_gathered(const tn__rules_state *s, uint32_t job) {
    const tn_op_id op = s->dag->jobs[job].op;
    return op != TN_NONE && tn__op_has(s->graph, op, TN_RULE_GATHERED);
}

/* Decides how a rule of this kind treats the results of one job. Returns false if the rule changes
 * nothing here. */
static bool rules_decide(tn__rules_state *s, uint32_t job, tn_rule_kind kind, uint32_t ahead) {
    const tn__dag *dag = s->dag;
    const tn__job *it = &dag->jobs[job];
    bool any = false;
    /* the division of the program gathers the result again or keeps it, as the rule says */
    if (rules_is_gathered(s, job) && kind != TN_RULE_SWAP) return true;
    if (kind == TN_RULE_KEEP) {
        s->how[job] = TN__RULED_KEEP;
        return rules_may_leave(dag, job);
    }
    if (kind == TN_RULE_RECOMPUTE) {
        s->at[job] = rules_may_repeat(dag, job) ? rules_recompute_at(s, job) : TN_NONE;
        if (s->at[job] != TN_NONE || rules_may_demand(s, job)) s->how[job] = TN__RULED_RECOMPUTE;
        return s->at[job] != TN_NONE;
    }
    for (uint32_t k = 0; k < it->output_count; k++) {
        const uint32_t value = dag->operands[it->output_first + k],
                       flags = dag->values[value].flags;
        uint32_t leave, back;
        if (!(flags & TN__VALUE_COPIES) || (flags & TN__VALUE_HELD)) continue;
        if (!rules_separate(s, value, &leave, &back)) continue;
        const uint32_t settle = leave + 2 < back ? leave + 2 : back;
        s->swaps[value] = (tn__ruled_swap){
            .leave = leave, .settle = settle, .in = back - settle > ahead ? back - ahead : settle};
        any = true;
    }
    if (any) s->how[job] = TN__RULED_SWAP;
    return any;
}

static void rules_explain_job(const tn__rules_state *s, tn_rule_kind kind, uint32_t job,
                              const char *why) {
    const tn__job *it = &s->dag->jobs[job];
    for (uint32_t k = 0; k < it->output_count; k++) {
        const uint32_t value = s->dag->operands[it->output_first + k];
        if (kind != TN_RULE_SWAP || s->swaps[value].in > 0) rules_explain(s, kind, value, why);
    }
}

/* Whether the job runs again only if other repeats read its results. */
static bool rules_is_demanded(const tn__rules_state *s, uint32_t job) {
    return s->how[job] == TN__RULED_RECOMPUTE && s->at[job] == TN_NONE;
}

static void rules_decide_all(tn__rules_state *s) {
    for (uint32_t r = 0; r < s->rules.count; r++) {
        const tn_rule *rule = &s->rules.list[r];
        char text[TN__RULE_TEXT];
        tn__rule_text(&s->rules, r, text);
        for (uint32_t j = 0; j < s->dag->job_count; j++) {
            if (s->rule[j] == TN_NONE || !rules_match(s, rule, j)) continue;
            if (s->how[j] == TN__RULED_NOT && !rules_decide(s, j, rule->kind, rules_prefetch(rule)))
                continue;
            if (rules_is_demanded(s, j)) continue; /* rules_check sees whether it is */
            if (s->rule[j] == r) rules_explain_job(s, rule->kind, j, text);
            s->acts[r] = true;
        }
    }
}

/* Explains the repeats that only other repeats demand, and refuses rules that change nothing. */
static tn_status rules_check(tn__rules_state *s) {
    char text[TN__RULE_TEXT];
    for (uint32_t j = 0; j < s->dag->job_count; j++) {
        if (!rules_is_demanded(s, j) || !s->is_again[j]) continue;
        const bool listed = s->rule[j] != TN_NONE;
        rules_explain_job(s, TN_RULE_RECOMPUTE, j,
                          listed ? tn__rule_text(&s->rules, s->rule[j], text) : "segments");
        for (uint32_t r = 0; listed && r < s->rules.count; r++)
            s->acts[r] = s->acts[r] || rules_match(s, &s->rules.list[r], j);
    }
    for (uint32_t r = 0; r < s->rules.count && s->strict; r++) {
        if (s->acts[r]) continue;
        if (s->rules.list[r].kind == TN_RULE_KEEP)
            TN_FAIL(s->error, TN_E_INVALID,
                    "the rule %s changes nothing: the results of the operators that match are "
                    "static memory, which always stays; remove the rule",
                    tn__rule_text(&s->rules, r, text));
        TN_FAIL(s->error, TN_E_INVALID,
                "the rule %s changes nothing: of the operators that match, none has a result "
                "that is idle before a late reader and may be %s; remove the rule",
                tn__rule_text(&s->rules, r, text),
                s->rules.list[r].kind == TN_RULE_SWAP ? "copied" : "recomputed");
    }
    return TN_OK;
}

/* --- segments --- */

static bool rules_is_forward(const tn__rules_state *s, uint32_t job) {
    return !s->is_backward[job] && s->turn[job] != TN_NONE && s->dag->jobs[job].op != TN_NONE;
}

static uint32_t rules_root(uint32_t *pass, uint32_t job) {
    for (; pass[job] != job; job = pass[job]) pass[job] = pass[pass[job]];
    return job;
}

/* Separates the forward passes of a program: groups of forward operators that are connected by
 * results. A stage of a pipeline runs several forward passes, one for each micro-batch, before the
 * first backward pass. */
static void rules_find_passes(const tn__rules_state *s, uint32_t *pass) {
    const tn__dag *dag = s->dag;
    for (uint32_t j = 0; j < dag->job_count; j++) pass[j] = j;
    for (uint32_t j = 0; j < dag->job_count; j++) {
        const tn__job *it = &dag->jobs[j];
        for (uint32_t i = 0; i < it->input_count && rules_is_forward(s, j); i++) {
            const uint32_t maker = dag->values[dag->operands[it->input_first + i]].maker;
            if (maker == TN_NONE || !rules_is_forward(s, maker)) continue;
            pass[rules_root(pass, j)] = rules_root(pass, maker);
        }
    }
    for (uint32_t j = 0; j < dag->job_count; j++) pass[j] = rules_root(pass, j);
}

/* Whether the job ends its segment: a result of the job is an output of the program, or is read by
 * a job of another segment before the backward pass. */
static bool rules_is_end(const tn__rules_state *s, const uint32_t *segment, uint32_t job) {
    const tn__job *it = &s->dag->jobs[job];
    for (uint32_t k = 0; k < it->output_count; k++) {
        const uint32_t value = s->dag->operands[it->output_first + k];
        if (s->dag->values[value].flags & TN__VALUE_KEPT) return true;
        for (uint32_t i = s->dag->reads.first[value]; i < s->dag->reads.first[value + 1]; i++) {
            const uint32_t reader = s->dag->reads.items[i];
            if (reader < s->turn[job] && segment[reader] != segment[job]) return true;
        }
    }
    return false;
}

static tn_status rules_segments(tn__rules_state *s) {
    const uint32_t segments = s->rules.segments, jobs = s->dag->job_count;
    uint32_t *segment = tn__arena_array(s->arena, (size_t)jobs + 1, sizeof *segment);
    uint32_t *pass = tn__arena_array(s->arena, (size_t)jobs + 1, sizeof *pass);
    uint32_t *size = tn__arena_array(s->arena, (size_t)jobs + 1, sizeof *size);
    uint32_t *at = tn__arena_array(s->arena, (size_t)jobs + 1, sizeof *at);
    uint32_t count = 0;
    if (segments == 0) return TN_OK;
    if (!segment || !pass || !size || !at) return tn__no_memory(s->error, "segments");
    rules_find_passes(s, pass);
    for (uint32_t j = 0; j < jobs; j++)
        if (rules_is_forward(s, j) && ++size[pass[j]] > count) count = size[pass[j]];
    if (!s->trains)
        TN_FAIL(s->error, TN_E_INVALID,
                "segments need a training step: here nothing defines a "
                "gradient");
    if (segments > count && s->strict)
        TN_FAIL(s->error, TN_E_INVALID,
                "the forward pass has %u operators, too few for %u segments", count, segments);
    for (uint32_t j = 0; j < jobs; j++)
        if (rules_is_forward(s, j))
            segment[j] = (uint32_t)((uint64_t)at[pass[j]]++ * segments / size[pass[j]]);
    for (uint32_t j = 0; j < jobs; j++) {
        if (!rules_is_forward(s, j) || s->rule[j] != TN_NONE || segment[j] + 1 == segments)
            continue;
        /* communication is repeated only if a rule of the list names it */
        if (!(s->dag->jobs[j].flags & TN__JOB_REPEATS) || rules_is_end(s, segment, j)) continue;
        if (rules_decide(s, j, TN_RULE_RECOMPUTE, 0))
            rules_explain_job(s, TN_RULE_RECOMPUTE, j, "segments");
    }
    return TN_OK;
}

/* --- all steps of applying rules --- */

static tn_status rules_room(tn__rules_state *s) {
    const size_t jobs = (size_t)s->dag->job_count + 1, values = (size_t)s->dag->value_count + 1;
    s->rule = tn__arena_array(s->arena, jobs, sizeof *s->rule);
    s->turn = tn__arena_array(s->arena, jobs, sizeof *s->turn);
    s->at = tn__arena_array(s->arena, jobs, sizeof *s->at);
    s->is_again = tn__arena_array(s->arena, jobs, sizeof *s->is_again);
    s->acts = tn__arena_array(s->arena, (size_t)s->rules.count + 1, sizeof *s->acts);
    s->how = tn__arena_array(s->arena, jobs, sizeof *s->how);
    s->is_backward = tn__arena_array(s->arena, jobs, sizeof *s->is_backward);
    s->swaps = tn__arena_array(s->arena, values, sizeof *s->swaps);
    if (!s->rule || !s->turn || !s->at || !s->is_again || !s->acts || !s->how || !s->is_backward ||
        !s->swaps)
        return tn__no_memory(s->error, "rules");
    return TN_OK;
}

tn_status tn__rules_apply(const tn_rules *given, const tn_graph *graph, const tn__dag *dag,
                          bool strict, void (*explain)(void *self, const char *line),
                          void *explain_self, tn__arena *arena, tn__ruled *ruled, tn_error *error) {
    tn__rules_state state = {.rules = rules_read(given),
                             .graph = graph,
                             .dag = dag,
                             .context = arena->context,
                             .arena = arena,
                             .strict = strict,
                             .explain = explain,
                             .explain_self = explain_self,
                             .error = error};
    TN_TRY(rules_room(&state));
    TN_TRY(rules_find(&state));
    rules_find_turns(&state);
    rules_decide_all(&state);
    TN_TRY(rules_segments(&state));
    TN_TRY(rules_build(&state, ruled));
    return rules_check(&state);
}
