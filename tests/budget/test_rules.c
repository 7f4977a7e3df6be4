/* test_rules.c - rules about tensors are obeyed: by numbers worked out by hand, by an independent
 * judge on random steps of training, and by looking at the instructions of fitted programs.
 */
#include "count.h"
#include "../random_graph.h"

#include "../train/drawn.h"

#include <tenure/fit.h>
#include <tenure/search.h>
#include <tenure/train.h>

#include "fit/budget/schedule/lower.h"
#include "fit/budget/rules.h"

#define failure kit_failure
#include "kit_judge.h"
#undef failure

/* --- by hand --- */

/*   a(10) ── b(1) ── c(20) ── d(1) ── e      e reads a as well: c makes the peak, 10 + 1 + 20 */
static const char chain[] =
    "{\"values\": [{\"bytes\": 10}, {\"bytes\": 1}, {\"bytes\": 20}, {\"bytes\": 1},"
    " {\"bytes\": 1, \"kept\": true}],"
    " \"operators\": [{\"cost\": 7, \"outputs\": [0], \"name\": \"a\"},"
    " {\"cost\": 1, \"inputs\": [0], \"outputs\": [1], \"name\": \"b\"},"
    " {\"cost\": 1, \"inputs\": [1], \"outputs\": [2], \"name\": \"c\"},"
    " {\"cost\": 1, \"inputs\": [2], \"outputs\": [3], \"name\": \"d\"},"
    " {\"cost\": 1, \"inputs\": [0, 3], \"outputs\": [4], \"name\": \"e\"}]}";

typedef struct problem {
    tn_graph *graph;
    tn_costs *costs;
    tn_program *program;
    tn_occupancy_options memory;
} problem;

static problem problem_open(const char *json) {
    problem it = {.memory = TN_OCCUPANCY_OPTIONS_INIT};
    it.memory.alignment = 1;
    assert_ok(tn_fit_problem_load_memory("p.json", json, strlen(json), NULL, &it.graph, &it.costs,
                                         &failure));
    assert_ok(tn_program_create(it.graph, NULL, &it.program, &failure));
    return it;
}

static void problem_close(problem *it) {
    tn_program_destroy(it->program);
    tn_costs_destroy(it->costs);
    tn_graph_destroy(it->graph);
}

static tn_fit_options problem_options(const problem *it, uint64_t budget, const tn_rules *rules) {
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    options.budget = budget;
    options.memory = &it->memory;
    options.live = true;
    options.rules = rules;
    options.allow = TN_FIT_RECOMPUTE | TN_FIT_SWAP;
    options.to_host_bytes_per_s = options.from_host_bytes_per_s = 1e12;
    return options;
}

static tn_rules rules_of(const tn_rule *list, uint32_t count) {
    tn_rules rules = TN_RULES_INIT;
    rules.list = list;
    rules.count = count;
    return rules;
}

static void a_chain_has_the_bytes_worked_out_by_hand(void **state) {
    (void)state;
    static const struct {
        tn_rule rule;
        uint64_t bytes, work; /* with plenty of memory; work: of all runs */
    } cases[] = {
        {{"a", TN_RULE_RECOMPUTE, 0}, 21, 18}, /* c: 1 + 20, and a runs twice */
        {{"?", TN_RULE_KEEP, 0}, 31, 11},
        {{"a", TN_RULE_SWAP, 0}, 31, 11}, /* settled after c */
        {{"type:Opaque*", TN_RULE_KEEP, 0}, 31, 11},
    };
    problem it = problem_open(chain);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_rules rules = rules_of(&cases[i].rule, 1);
        tn_fit_options options = problem_options(&it, 1000, &rules);
        tn_fit_result result;
        assert_ok(tn_fit(it.program, it.costs, &options, &result, &failure));
        if (result.bytes != cases[i].bytes)
            fail_msg("case %zu: %" PRIu64 " bytes", i, result.bytes);
        uint64_t work = 0, swaps = 0;
        for (uint32_t s = 0; s < tn_program_count(result.program); s++) {
            const tn_instruction *step = &tn_program_instructions(result.program)[s];
            if (step->opcode == TN_APPLY) work += tn_costs_of(it.costs, step->op);
            swaps += step->opcode == TN_SWAP_OUT || step->opcode == TN_SWAP_IN;
        }
        assert_true(work == cases[i].work);
        assert_int_equal(swaps, cases[i].rule.kind == TN_RULE_SWAP ? 2 : 0);
        tn_fit_release(&result);
    }
    problem_close(&it);
}

/* Without the rule 21 bytes suffice; `keep` prevents that, and the message says so. */
static void a_budget_that_a_rule_prevents_names_it(void **state) {
    (void)state;
    static const tn_rule list[] = {{"d", TN_RULE_KEEP, 0}, {"a", TN_RULE_KEEP, 0}};
    problem it = problem_open(chain);
    for (uint32_t count = 0; count <= 2; count++) {
        tn_rules rules = rules_of(list, count);
        tn_fit_options options = problem_options(&it, 21, &rules);
        tn_fit_result result;
        tn_status status = tn_fit(it.program, it.costs, &options, &result, &failure);
        assert_int_equal(status == TN_OK, count < 2);
        if (count == 2) {
            assert_true(status == TN_E_INFEASIBLE || status == TN_E_EXHAUSTED);
            assert_non_null(strstr(failure.message, "the rule keep 'a' prevents it"));
            assert_non_null(strstr(failure.message, "obeys the rules"));
        }
        tn_fit_release(&result);
    }
    problem_close(&it);
}

static void rules_that_say_nothing_are_refused(void **state) {
    (void)state;
    static const struct {
        tn_rule list[2];
        uint32_t count, segments;
        const char *says;
    } bad[] = {
        {{{"f", TN_RULE_KEEP, 0}}, 1, 0, "operator names are 'a', 'b', 'c', 'd', 'e'"},
        {{{"type:Conv", TN_RULE_KEEP, 0}}, 1, 0, "operators of a problem have no types"},
        {{{"a", TN_RULE_KEEP, 0}, {"*", TN_RULE_RECOMPUTE, 0}}, 2, 0, "both match 'a'"},
        {{{"a", TN_RULE_SWAP, 1}, {"a*", TN_RULE_SWAP, 2}}, 2, 0, "contradict"},
        {{{"e", TN_RULE_RECOMPUTE, 0}}, 1, 0, "changes nothing"},
        {{{"b", TN_RULE_SWAP, 0}}, 1, 0, "changes nothing"},
        {{{NULL, TN_RULE_SWAP, 0}}, 1, 0, "no pattern"},
        {{{"a", TN_RULE_COUNT, 0}}, 1, 0, "unknown kind"},
        {{{"a", TN_RULE_KEEP, 0}}, 1, 3, "segments need a training step"},
    };
    problem it = problem_open(chain);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_rules rules = rules_of(bad[i].list, bad[i].count);
        rules.segments = bad[i].segments;
        tn_fit_options options = problem_options(&it, 1000, &rules);
        tn_recompute_options recompute = TN_RECOMPUTE_OPTIONS_INIT;
        tn_fit_result result;
        tn_program *made = NULL;
        assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_INVALID);
        if (strstr(failure.message, bad[i].says) == NULL)
            fail_msg("case %zu: %s", i, failure.message);
        tn_fit_release(&result);
        recompute.rules = &rules;
        assert_int_equal(tn_program_recompute(it.program, &recompute, &made, NULL, &failure),
                         TN_E_INVALID);
        assert_null(made);
    }
    tn_rules none = rules_of(NULL, 1);
    tn_fit_options options = problem_options(&it, 1000, &none);
    tn_fit_result result;
    assert_int_equal(tn_fit(it.program, it.costs, &options, &result, &failure), TN_E_INVALID);
    tn_fit_release(&result);
    problem_close(&it);
}

/* --- random steps of training --- */

typedef struct step {
    tn_training training;
    tn_program *program;
    tn_costs *costs;
} step;

static step step_open(uint64_t seed) {
    net n;
    step it;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    model.flops_per_s = 1e9, model.bytes_per_s = 1e9;
    draw_net(&n, seed);
    assert_ok(tn_graph_infer(n.graph, &failure));
    assert_ok(tn_train(n.graph, &options, &it.training, &failure));
    net_close(&n);
    assert_ok(tn_program_create(it.training.graph, NULL, &it.program, &failure));
    assert_ok(tn_costs_create_model(it.training.graph, &model, &it.costs, &failure));
    return it;
}

static void step_close(step *it) {
    tn_costs_destroy(it->costs);
    tn_program_destroy(it->program);
    tn_training_release(&it->training);
}

/* Up to three rules about different types, and sometimes segments. */
#define RULES_DRAWN 3u
typedef struct drawn_rules {
    char pattern[RULES_DRAWN][64];
    tn_rule list[RULES_DRAWN];
} drawn_rules;

/* Whether the operator updates parameters, which are static memory. */
static bool is_update(const tn_op *op) {
    const size_t length = strlen(op->type);
    return length > 4 && strcmp(op->type + length - 4, "Step") == 0; /* SgdStep, AdamStep, ... */
}

static bool is_backward(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            tn_graph_tensor(graph, op->outputs[k])->kind == TN_KIND_GRADIENT)
            return true;
    return false;
}

/* Draws an operator. Most rules about gradients and updates are refused, so these are drawn
 * seldom. */
static tn_op_id draw_op(const tn_graph *graph, tn__random *r) {
    tn_op_id id = TN_NONE;
    for (uint32_t tries = 0; tries < 4; tries++) {
        id = (tn_op_id)tn__random_below(r, tn_graph_op_count(graph));
        if (!is_backward(graph, id) && !is_update(tn_graph_op(graph, id))) break;
    }
    return id;
}

static tn_rules draw_rules(const step *it, drawn_rules *words, tn__random *r) {
    const tn_graph *graph = it->training.graph;
    tn_rules rules = TN_RULES_INIT;
    rules.list = words->list;
    for (uint32_t i = 0; i < RULES_DRAWN; i++) {
        const tn_op *op = tn_graph_op(graph, draw_op(graph, r));
        bool known = false;
        snprintf(words->pattern[rules.count], sizeof words->pattern[0], "type:%s", op->type);
        for (uint32_t k = 0; k < rules.count; k++)
            known |= strcmp(words->pattern[k], words->pattern[rules.count]) == 0;
        if (known) continue;
        words->list[rules.count] =
            (tn_rule){words->pattern[rules.count], (tn_rule_kind)tn__random_below(r, TN_RULE_COUNT),
                      (uint32_t)tn__random_below(r, 6)};
        rules.count++;
    }
    if (tn__random_below(r, 3) == 0) rules.segments = 1 + (uint32_t)tn__random_below(r, 4);
    return rules;
}

static void run_all(const tn__dag *dag, tn__schedule *schedule) {
    for (uint32_t j = 0; j < dag->job_count; j++)
        assert_ok(tn__schedule_add(schedule, (tn__action){.kind = TN__RUN, .what = j}, &failure));
}

/* The ruled work, run once, has the bytes that a judge that knows no rules counts for the schedule
 * that it stands for; its program is one. */
static void a_ruled_work_stands_for_a_schedule_of_the_same_bytes(void **state) {
    (void)state;
    uint32_t recompute = 0, copied = 0, tried = 0;
    for (uint64_t seed = 1; seed <= case_count(400, 10); seed++) {
        step it = step_open(seed);
        drawn_rules words;
        tn__random r = {seed};
        tn_rules rules = draw_rules(&it, &words, &r);
        const tn_context context = tn__context(NULL);
        tn__arena arena;
        tn__dag dag;
        tn__dag_map *map;
        tn__ruled ruled;
        tn__schedule once, plain;
        tn__replay replay;
        tn_program *made = NULL;
        tn__arena_init(&arena, &context);
        tn__schedule_init(&once, &context);
        tn__schedule_init(&plain, &context);
        assert_ok(tn__dag_read(it.program, it.costs, NULL, &arena, &dag, &map, &failure));
        tn_status status = tn__rules_apply(&rules, it.training.graph, &dag, false, NULL, NULL,
                                           &arena, &ruled, &failure);
        if (status == TN_OK) {
            run_all(&ruled.dag, &once);
            assert_ok(tn__replay_schedule(&ruled.dag, &once, &replay, NULL, &failure));
            assert_ok(tn__rules_schedule(&ruled, &once, &plain, &failure));
            judged found = kit_judge(&dag, &plain);
            if (!found.is_valid || found.peak != replay.peak || found.cost != replay.cost)
                fail_msg("seed %" PRIu64 ": valid %d, peak %" PRIu64 " and %" PRIu64, seed,
                         found.is_valid, found.peak, replay.peak);
            assert_ok(tn__schedule_emit(map, &dag, &plain, &made, &failure));
            assert_ok(tn_program_verify(made, &failure));
            tn_program_destroy(made);
            recompute += ruled.recompute;
            copied += ruled.copied;
            tried++;
        } else {
            assert_int_equal(status, TN_E_INVALID);
        }
        tn__schedule_release(&once);
        tn__schedule_release(&plain);
        tn__arena_release(&arena);
        step_close(&it);
    }
    assert_true(tried > 3 && recompute > 0 && copied > 0);
}

/* --- fitted programs --- */

static bool reads(const tn_graph *graph, const tn_instruction *it, tn_tensor_id tensor) {
    if (it->opcode != TN_APPLY || it->again) return false;
    const tn_op *op = tn_graph_op(graph, it->op);
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] == tensor) return true;
    return false;
}

/* What brought a tensor to its first reader that makes a gradient: APPLY (of its operator, the
 * first or a later time), SWAP_IN or DECODE. *far: others run between. */
typedef struct brought {
    tn_opcode by;
    uint32_t times;
    bool is_read, is_far;
} brought;

static brought look(const tn_program *program, tn_op_id by_op, tn_tensor_id tensor) {
    const tn_graph *graph = tn_program_graph(program);
    brought found = {.by = TN_APPLY};
    uint32_t between = 0;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        const tn_instruction *it = &tn_program_instructions(program)[s];
        if (it->opcode == TN_APPLY && it->op == by_op) found.by = TN_APPLY, found.times++;
        if (it->tensor == tensor && (it->opcode == TN_SWAP_IN || it->opcode == TN_DECODE))
            found.by = it->opcode;
        if (found.times == 0) continue;
        if (reads(graph, it, tensor) && is_backward(graph, it->op)) {
            found.is_read = true;
            found.is_far = between > 6;
            return found;
        }
        between = reads(graph, it, tensor) ? 0 : between + (it->opcode == TN_APPLY);
    }
    return found;
}

static void check_rules(const tn_program *program, const tn_rules *rules, uint64_t seed,
                        uint32_t *seen) {
    const tn_graph *graph = tn_program_graph(program);
    uint8_t *fates = calloc(tn_graph_tensor_count(graph) + (size_t)1, 1);
    assert_non_null(fates);
    tn_program_fates(program, fates);
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        const tn_rule *rule = NULL;
        for (uint32_t i = 0; i < rules->count; i++)
            if (strcmp(rules->list[i].pattern + 5, op->type) == 0) rule = &rules->list[i];
        tn_tensor_id made = op->output_count > 0 ? op->outputs[0] : TN_NONE;
        if (rule == NULL || made == TN_NONE || is_backward(graph, id)) continue;
        if (tn_op_view(graph, id, 0).source != TN_NONE) continue;
        brought by = look(program, id, made);
        if (rule->kind == TN_RULE_KEEP && fates[made] != TN_FATE_KEPT)
            fail_msg("seed %" PRIu64 ": '%s' is not kept", seed, op->name);
        if (rule->kind != TN_RULE_KEEP && by.is_read && by.is_far && tn_op_may_repeat(graph, id)) {
            bool obeys = rule->kind == TN_RULE_SWAP ? by.by == TN_SWAP_IN
                                                    : by.by == TN_APPLY && by.times > 1;
            if (!obeys) fail_msg("seed %" PRIu64 ": '%s' (%s)", seed, op->name, op->type);
            seen[rule->kind]++;
        }
        seen[TN_RULE_KEEP] += rule->kind == TN_RULE_KEEP;
    }
    free(fates);
}

/* Static memory always stays, so a rule to keep only that is refused; one that also keeps others is
 * none of these. */
static void a_rule_to_keep_static_memory_is_refused(void **state) {
    (void)state;
    step it = step_open(1);
    const tn_graph *graph = it.training.graph;
    const tn_op *update = NULL;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        if (is_update(tn_graph_op(graph, id))) update = tn_graph_op(graph, id);
    assert_non_null(update);
    char pattern[80];
    snprintf(pattern, sizeof pattern, "type:%s", update->type);
    for (uint32_t all = 0; all < 2; all++) {
        const tn_rule rule = {all ? "*" : pattern, TN_RULE_KEEP, 0};
        const tn_rules rules = rules_of(&rule, 1);
        tn_fit_options options = TN_FIT_OPTIONS_INIT;
        tn_fit_result result;
        options.budget = UINT64_C(1) << 50;
        options.rules = &rules;
        tn_status status = tn_fit(it.program, it.costs, &options, &result, &failure);
        assert_int_equal(status, all ? TN_OK : TN_E_INVALID);
        if (!all) assert_non_null(strstr(failure.message, "changes nothing: the results"));
        tn_fit_release(&result);
    }
    step_close(&it);
}

/* At several budgets, whatever else is done to meet them. */
static void fitted_programs_obey(void **state) {
    (void)state;
    uint32_t seen[TN_RULE_COUNT] = {0}, met = 0;
    for (uint64_t seed = 1; seed <= case_count(60, 20); seed++) {
        step it = step_open(seed);
        drawn_rules words;
        tn__random r = {seed + 1000};
        tn_rules rules = draw_rules(&it, &words, &r);
        tn_fit_options options = TN_FIT_OPTIONS_INIT;
        options.work_limit = 5000;
        options.allow = TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP | TN_FIT_COMPRESS;
        options.to_host_bytes_per_s = options.from_host_bytes_per_s = 1e9;
        options.rules = &rules;
        options.budget = UINT64_C(1) << 50;
        for (uint32_t round = 0; round < 3; round++) {
            tn_fit_result result;
            tn_status status = tn_fit(it.program, it.costs, &options, &result, &failure);
            if (status == TN_OK || result.program != NULL) {
                check_rules(result.program, &rules, seed, seen);
                assert_ok(tn_program_verify(result.program, &failure));
            }
            met += status == TN_OK;
            options.budget = result.bytes > 0 ? result.bytes - result.bytes / 8 : 1;
            tn_fit_release(&result);
            if (status == TN_E_INVALID) break;
        }
        step_close(&it);
    }
    assert_true(met > 3 && seen[TN_RULE_KEEP] > 0);
    assert_true(seen[TN_RULE_RECOMPUTE] + seen[TN_RULE_SWAP] > 0);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static const tn_rule list[] = {{"a", TN_RULE_RECOMPUTE, 0}, {"c", TN_RULE_KEEP, 0}};
    problem it = problem_open(chain);
    tn_rules rules = rules_of(list, 2);
    for (uint64_t at = 1;; at++) {
        tn_recompute_options options = TN_RECOMPUTE_OPTIONS_INIT;
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_program *made = NULL;
        options.context = &context;
        options.rules = &rules;
        options.memory = &it.memory;
        tn_status status = tn_program_recompute(it.program, &options, &made, NULL, &failure);
        tn_program_destroy(made);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        if (status == TN_OK && memory.requests < at) break;
    }
    problem_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_has_the_bytes_worked_out_by_hand),
        cmocka_unit_test(a_budget_that_a_rule_prevents_names_it),
        cmocka_unit_test(rules_that_say_nothing_are_refused),
        cmocka_unit_test(a_ruled_work_stands_for_a_schedule_of_the_same_bytes),
        cmocka_unit_test(a_rule_to_keep_static_memory_is_refused),
        cmocka_unit_test(fitted_programs_obey),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
