/* rules.c - finds the operators that the rules of the user match, and the place of each change.
 *
 * A rule is about the results of an operator. For each result, the readers before `back` are early,
 * the others late (tenure/rules.h). rules_build.c then writes a work in which both groups read
 * different values, so that every pass obeys the rules without knowing them:
 *
 *     jobs        a    b(a)   c   d   e(a)          recompute a: the value a ends after b
 *     ruled       a    b(a)   c   d   a'  e(a')     a' runs in the same form as a repeat of a
 *
 * A swapped value gets three jobs without costs instead: out, settle, in. A kept value may not be
 * copied or encoded, and its job may not be repeated.
 * Cost: O(jobs * rules + operands). Source: torch.utils.checkpoint (checkpoint_sequential,
 * selective checkpointing) and `recompute` and `offload` with `prefetch` of MindSpore's cells and
 * operators.
 */
#include "fit/budget/rules_build.h"

#include <stdio.h>

static const char *const rules_names[TN_RULE_COUNT] = {"keep", "recompute", "swap"};

const char *tn_rule_kind_name(tn_rule_kind kind) {
    return (uint32_t)kind < TN_RULE_COUNT ? rules_names[kind] : "";
}

bool tn__rules_are_strict(const tn_program *program) {
    for (uint32_t step = 0; step < tn_program_count(program); step++) {
        const uint8_t opcode = tn_program_instructions(program)[step].opcode;
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
                 tn_rule_kind_name(rules.list[index].kind), rules.list[index].pattern,
                 rules.list[index].prefetch);
    else if (index < rules.count)
        snprintf(text, TN__RULE_TEXT, "%s '%.80s'", tn_rule_kind_name(rules.list[index].kind),
                 rules.list[index].pattern);
    else
        snprintf(text, TN__RULE_TEXT, "%u segments", rules.segments);
    return text;
}

/* --- patterns --- */

#define RULES_TYPE "type:"
#define RULES_LISTED 8u /* names that a message lists */

static bool rules_is_type(const char *pattern) {
    return strncmp(pattern, RULES_TYPE, sizeof RULES_TYPE - 1) == 0;
}

static const char *rules_word(const tn__rules_state *s, uint32_t job, bool type) {
    const tn_op *op = tn_graph_op(s->graph, s->work->jobs[job].op);
    return type ? op->type : op->name;
}

static bool rules_match(const tn__rules_state *s, const tn_rule *rule, uint32_t job) {
    bool type = rules_is_type(rule->pattern);
    const char *pattern = type ? rule->pattern + sizeof RULES_TYPE - 1 : rule->pattern;
    return s->work->jobs[job].op != TN_NONE && tn__glob(pattern, rules_word(s, job, type));
}

/* A pattern that matches nothing: lists what there is. */
static tn_status rules_refuse(const tn__rules_state *s, uint32_t index) {
    const bool type = rules_is_type(s->rules.list[index].pattern);
    const char *listed[RULES_LISTED];
    uint32_t count = 0, more = 0;
    char text[TN__RULE_TEXT];
    tn__text words;
    tn__text_init(&words, s->context);
    for (uint32_t j = 0; j < s->work->job_count; j++) {
        if (s->work->jobs[j].op == TN_NONE) continue;
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
            ? tn__fail(s->error, TN_E_INVALID, "the rule %s matches no operator",
                       tn__rule_text(&s->rules, index, text))
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
    for (uint32_t j = 0; j < s->work->job_count; j++) s->rule[j] = TN_NONE;
    for (uint32_t r = 0; r < s->rules.count; r++) {
        const tn_rule *rule = &s->rules.list[r];
        bool any = false;
        if (rule->pattern == NULL || (uint32_t)rule->kind >= TN_RULE_COUNT)
            TN_FAIL(s->error, TN_E_INVALID, "rule %u has no pattern, or an unknown kind", r);
        for (uint32_t j = 0; j < s->work->job_count; j++) {
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

static bool rules_is_backward(const tn__rules_state *s, uint32_t job) {
    const tn_op_id id = s->work->jobs[job].op;
    if (id == TN_NONE || s->work->jobs[job].input_count == 0) return false;
    const tn_op *op = tn_graph_op(s->graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            tn_graph_tensor(s->graph, op->outputs[k])->kind == TN_KIND_GRADIENT)
            return true;
    return strcmp(op->domain, "aten") == 0 && strstr(op->type, "_backward") != NULL;
}

static void rules_find_turns(tn__rules_state *s) {
    uint32_t next = TN_NONE;
    for (uint32_t j = s->work->job_count; j-- > 0;) {
        s->turn[j] = next;
        if (!rules_is_backward(s, j)) continue;
        s->is_backward[j] = s->trains = true;
        next = j;
    }
}

/* --- the place of a change --- */

/* Finds the last early access of a value and its first late reader. False: none is late enough. */
static bool rules_separate(const tn__rules_state *s, uint32_t value, uint32_t *leave,
                           uint32_t *back) {
    const tn__lists *reads = &s->work->reads;
    const uint32_t maker = s->work->values[value].maker;
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

static bool rules_may_repeat(const tn__work *work, uint32_t job) {
    uint32_t count;
    const uint32_t *outputs = tn__job_outputs(work, job, true, &count);
    for (uint32_t k = 0; k < count; k++)
        if (work->values[outputs[k]].flags & TN__VALUE_HELD) return false;
    return (work->jobs[job].flags & TN__JOB_REPEATS) != 0;
}

/* The job before which the operator runs again, at the latest: the first late reader, or a job that
 * overwrites a source. TN_NONE: nothing is gained. */
static uint32_t rules_again_at(const tn__rules_state *s, uint32_t job) {
    const tn__work *work = s->work;
    const tn__job *it = &work->jobs[job];
    uint32_t count, at = TN_NONE, first = TN_NONE;
    const uint32_t *outputs = tn__job_outputs(work, job, true, &count);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t leave, back;
        if (!rules_separate(s, outputs[k], &leave, &back)) continue;
        if (back < at) at = back;
        if (leave < first) first = leave;
    }
    for (uint32_t i = 0; i < it->limit_count; i++) {
        uint32_t limit = work->others[it->limit_first + i];
        if (limit != job && limit < at) at = limit;
    }
    return at != TN_NONE && at > first + 1 ? at : TN_NONE;
}

static void rules_explain(const tn__rules_state *s, uint32_t job, uint32_t value, const char *why) {
    char line[256];
    const tn_tensor_id tensor = s->work->values[value].tensor;
    if (s->explain == NULL || tensor == TN_NONE) return;
    snprintf(line, sizeof line, "%s '%.80s', %llu bytes: rule %s",
             s->how[job] == TN__RULED_AGAIN  ? "recompute"
             : s->how[job] == TN__RULED_SWAP ? "swap"
                                             : "keep",
             tn_graph_tensor(s->graph, tensor)->name,
             (unsigned long long)s->work->values[value].bytes, why);
    s->explain(s->explain_self, line);
}

/* Decides about the results of one job; false: the rule changes nothing here. */
static bool rules_decide(tn__rules_state *s, uint32_t job, tn_rule_kind kind, uint32_t ahead) {
    const tn__work *work = s->work;
    const tn__job *it = &work->jobs[job];
    bool any = false;
    if (kind == TN_RULE_KEEP) {
        s->how[job] = TN__RULED_KEEP;
        return true;
    }
    if (kind == TN_RULE_RECOMPUTE) {
        s->at[job] = rules_may_repeat(work, job) ? rules_again_at(s, job) : TN_NONE;
        if (s->at[job] != TN_NONE) s->how[job] = TN__RULED_AGAIN;
        return s->at[job] != TN_NONE;
    }
    for (uint32_t k = 0; k < it->output_count; k++) {
        const uint32_t value = work->operands[it->output_first + k],
                       flags = work->values[value].flags;
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

static void rules_explain_job(const tn__rules_state *s, uint32_t job, const char *why) {
    const tn__job *it = &s->work->jobs[job];
    for (uint32_t k = 0; k < it->output_count; k++) {
        const uint32_t value = s->work->operands[it->output_first + k];
        if (s->how[job] != TN__RULED_SWAP || s->swaps[value].in > 0)
            rules_explain(s, job, value, why);
    }
}

static tn_status rules_decide_all(tn__rules_state *s) {
    for (uint32_t r = 0; r < s->rules.count; r++) {
        const tn_rule *rule = &s->rules.list[r];
        char text[TN__RULE_TEXT];
        bool any = false;
        tn__rule_text(&s->rules, r, text);
        for (uint32_t j = 0; j < s->work->job_count; j++) {
            if (s->rule[j] == TN_NONE || !rules_match(s, rule, j)) continue;
            if (s->how[j] == TN__RULED_NOT && !rules_decide(s, j, rule->kind, rules_prefetch(rule)))
                continue;
            if (s->rule[j] == r) rules_explain_job(s, j, text);
            any = true;
        }
        if (!any && s->strict)
            TN_FAIL(s->error, TN_E_INVALID,
                    "the rule %s changes nothing: of the operators that match, none has a result "
                    "that is idle before a late reader and may be %s; remove the rule",
                    text, rule->kind == TN_RULE_SWAP ? "copied" : "recomputed");
    }
    return TN_OK;
}

/* --- segments --- */

static bool rules_is_forward(const tn__rules_state *s, uint32_t job) {
    return !s->is_backward[job] && s->turn[job] != TN_NONE && s->work->jobs[job].op != TN_NONE;
}

static uint32_t rules_root(uint32_t *pass, uint32_t job) {
    for (; pass[job] != job; job = pass[job]) pass[job] = pass[pass[job]];
    return job;
}

/* Separates the forward passes: forward operators that are connected by results. A stage of a
 * pipeline runs several passes, one for each micro-batch, before the first backward pass. */
static void rules_find_passes(const tn__rules_state *s, uint32_t *pass) {
    const tn__work *work = s->work;
    for (uint32_t j = 0; j < work->job_count; j++) pass[j] = j;
    for (uint32_t j = 0; j < work->job_count; j++) {
        const tn__job *it = &work->jobs[j];
        for (uint32_t i = 0; i < it->input_count && rules_is_forward(s, j); i++) {
            const uint32_t maker = work->values[work->operands[it->input_first + i]].maker;
            if (maker == TN_NONE || !rules_is_forward(s, maker)) continue;
            pass[rules_root(pass, j)] = rules_root(pass, maker);
        }
    }
    for (uint32_t j = 0; j < work->job_count; j++) pass[j] = rules_root(pass, j);
}

/* Whether another segment of the forward pass reads a result of this job. */
static bool rules_is_end(const tn__rules_state *s, const uint32_t *segment, uint32_t job) {
    const tn__job *it = &s->work->jobs[job];
    for (uint32_t k = 0; k < it->output_count; k++) {
        const uint32_t value = s->work->operands[it->output_first + k];
        if (s->work->values[value].flags & TN__VALUE_KEPT) return true;
        for (uint32_t i = s->work->reads.first[value]; i < s->work->reads.first[value + 1]; i++) {
            const uint32_t reader = s->work->reads.items[i];
            if (reader < s->turn[job] && segment[reader] != segment[job]) return true;
        }
    }
    return false;
}

static tn_status rules_segments(tn__rules_state *s) {
    const uint32_t segments = s->rules.segments, jobs = s->work->job_count;
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
        if (!rules_is_end(s, segment, j) && rules_decide(s, j, TN_RULE_RECOMPUTE, 0))
            rules_explain_job(s, j, "segments");
    }
    return TN_OK;
}

/* --- the whole --- */

static tn_status rules_room(tn__rules_state *s) {
    const size_t jobs = (size_t)s->work->job_count + 1, values = (size_t)s->work->value_count + 1;
    s->rule = tn__arena_array(s->arena, jobs, sizeof *s->rule);
    s->turn = tn__arena_array(s->arena, jobs, sizeof *s->turn);
    s->at = tn__arena_array(s->arena, jobs, sizeof *s->at);
    s->how = tn__arena_array(s->arena, jobs, sizeof *s->how);
    s->is_backward = tn__arena_array(s->arena, jobs, sizeof *s->is_backward);
    s->swaps = tn__arena_array(s->arena, values, sizeof *s->swaps);
    if (!s->rule || !s->turn || !s->at || !s->how || !s->is_backward || !s->swaps)
        return tn__no_memory(s->error, "rules");
    return TN_OK;
}

tn_status tn__rules_apply(const tn_rules *given, const tn_graph *graph, const tn__work *work,
                          bool strict, void (*explain)(void *self, const char *line),
                          void *explain_self, tn__arena *arena, tn__ruled *ruled, tn_error *error) {
    tn__rules_state state = {.rules = rules_read(given),
                             .graph = graph,
                             .work = work,
                             .context = arena->context,
                             .arena = arena,
                             .strict = strict,
                             .explain = explain,
                             .explain_self = explain_self,
                             .error = error};
    TN_TRY(rules_room(&state));
    TN_TRY(rules_find(&state));
    rules_find_turns(&state);
    TN_TRY(rules_decide_all(&state));
    TN_TRY(rules_segments(&state));
    return tn__rules_build(&state, ruled);
}
