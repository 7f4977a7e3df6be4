/* test_replay.c - the judge of schedules against one that looks up every action in a table, on
 * random schedules with all kinds of actions, whole and damaged; and small cases by hand. */
#include "count.h"
#include "kit_judge.h"

/* --- random schedules --- */

typedef struct walk {
    kit *k;
    tn__schedule schedule;
    bool ran[KIT_JOBS], there[KIT_VALUES], leaving[KIT_VALUES], away[KIT_VALUES];
    bool encoded[KIT_VALUES];
} walk;

static void walk_add(walk *w, tn__action action) {
    assert_ok(tn__schedule_add(&w->schedule, action, &failure));
}

static bool walk_may_run(const walk *w, uint32_t job) {
    const tn__dag *dag = &w->k->dag;
    const tn__job *it = &dag->jobs[job];
    uint32_t count;
    const uint32_t *list = tn__job_inputs(dag, job, w->ran[job], &count);
    if (w->ran[job] && !(it->flags & TN__JOB_REPEATS)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (!w->there[list[i]]) return false;
    for (uint32_t i = 0; i < it->after_count; i++)
        if (!w->ran[dag->others[it->after_first + i]]) return false;
    for (uint32_t i = 0; i < it->limit_count; i++)
        if (w->ran[dag->others[it->limit_first + i]]) return false;
    list = tn__job_outputs(dag, job, w->ran[job], &count);
    for (uint32_t i = 0; i < count; i++)
        if (w->leaving[list[i]] || (w->ran[job] && (dag->values[list[i]].flags & TN__VALUE_HELD)))
            return false;
    return true;
}

static void walk_run(walk *w, uint32_t job) {
    uint32_t count;
    const uint32_t *list = tn__job_outputs(&w->k->dag, job, w->ran[job], &count);
    for (uint32_t i = 0; i < count; i++) w->there[list[i]] = true;
    w->ran[job] = true;
    walk_add(w, (tn__action){.kind = TN__RUN, .what = job});
}

/* Something with a value, where it may be done. */
static void walk_move(walk *w, uint32_t v, tn__random *r) {
    const tn__dag_value *value = &w->k->dag.values[v];
    if (value->flags & TN__VALUE_HELD) return;
    if (w->leaving[v]) {
        w->leaving[v] = w->there[v] = false;
        walk_add(w, (tn__action){.kind = TN__SETTLE, .what = v});
    } else if (w->there[v] && (value->flags & TN__VALUE_COPIES) && tn__random_below(r, 2) == 0) {
        w->leaving[v] = w->away[v] = true;
        walk_add(w, (tn__action){.kind = TN__OUT, .what = v});
    } else if (w->there[v] && !w->encoded[v]) {
        w->encoded[v] = true;
        walk_add(w, (tn__action){.kind = TN__ENCODE, .codec = 3, .what = v, .bytes = 1});
    } else if (w->encoded[v]) {
        w->there[v] = true;
        walk_add(w, (tn__action){.kind = TN__DECODE, .codec = 3, .what = v});
    }
}

static void walk_bring(walk *w, uint32_t v) {
    if (w->leaving[v]) {
        w->leaving[v] = w->there[v] = false;
        walk_add(w, (tn__action){.kind = TN__SETTLE, .what = v});
    }
    if (w->there[v] || !w->away[v]) return;
    w->there[v] = true;
    walk_add(w, (tn__action){.kind = TN__IN, .what = v});
}

/* Jobs in order; between them others again, and values moved about. What a job reads is brought. */
static void walk_random(walk *w, tn__random *r) {
    const tn__dag *dag = &w->k->dag;
    for (uint32_t v = 0; v < dag->value_count; v++) w->there[v] = dag->values[v].maker == TN_NONE;
    for (uint32_t j = 0; j < dag->job_count; j++) {
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t other = (uint32_t)tn__random_below(r, j + 1);
            if (w->ran[other] && walk_may_run(w, other)) walk_run(w, other);
            if (tn__random_below(r, 2) == 0)
                walk_move(w, (uint32_t)tn__random_below(r, dag->value_count), r);
        }
        uint32_t count;
        const uint32_t *list = tn__job_inputs(dag, j, false, &count);
        for (uint32_t i = 0; i < count; i++)
            if (!w->there[list[i]]) walk_bring(w, list[i]);
        walk_run(w, j);
    }
    for (uint32_t v = 0; v < dag->value_count; v++)
        if (w->leaving[v] || (dag->values[v].flags & TN__VALUE_KEPT)) walk_bring(w, v);
}

static walk *walk_begin(uint64_t seed) {
    walk *w = calloc(1, sizeof *w);
    tn__random r = {seed};
    assert_non_null(w);
    w->k = kit_random_spiced(seed, 5 + (uint32_t)(seed % 16));
    kit_finish(w->k, seed);
    tn__schedule_init(&w->schedule, &w->k->context);
    walk_random(w, &r);
    return w;
}

static void walk_end(walk *w) {
    tn__schedule_release(&w->schedule);
    kit_free(w->k);
    free(w);
}

/* --- both judges --- */

static bool both_agree(const walk *w, uint64_t seed, const char *what) {
    tn__replay found;
    tn_status status = tn__replay_schedule(&w->k->dag, &w->schedule, &found, NULL, &failure);
    judged own = kit_judge(&w->k->dag, &w->schedule);
    if (own.is_valid != (status == TN_OK))
        fail_msg("seed %" PRIu64 " %s: judged %d, here %d (%s)\n", seed, what, status, own.is_valid,
                 failure.message);
    if (status != TN_OK) {
        assert_int_equal(status, TN_E_INVALID);
        return false;
    }
    if (own.peak != found.peak || own.cost != found.cost || own.out_bytes != found.out_bytes ||
        own.in_bytes != found.in_bytes || own.host_peak != found.host_peak)
        fail_msg("seed %" PRIu64 " %s: peak %" PRIu64 " here %" PRIu64 ", cost %" PRIu64 " %" PRIu64
                 ", host %" PRIu64 " %" PRIu64 "\n",
                 seed, what, found.peak, own.peak, found.cost, own.cost, found.host_peak,
                 own.host_peak);
    return true;
}

static void judges_agree_on_random_schedules(void **state) {
    (void)state;
    uint32_t accepted = 0, cases = 1500;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        walk *w = walk_begin(seed);
        accepted += both_agree(w, seed, "whole");
        walk_end(w);
    }
    print_message("%u of %u schedules were accepted\n", accepted, cases);
    assert_true(accepted > cases / 2);
}

static void walk_damage(walk *w, tn__random *r) {
    uint32_t count = w->schedule.count, at = (uint32_t)tn__random_below(r, count);
    tn__action *actions = w->schedule.actions, kept = actions[at];
    uint32_t other = (uint32_t)tn__random_below(r, count);
    switch (tn__random_below(r, 5)) {
    case 0:
        memmove(actions + at, actions + at + 1, (count - at - 1) * sizeof *actions);
        w->schedule.count--;
        break;
    case 1:
        actions[at] = actions[other];
        actions[other] = kept;
        break;
    case 2:
        actions[at].kind = (uint8_t)tn__random_below(r, 8);
        break;
    case 3:
        actions[at].what = (uint32_t)tn__random_below(r, w->k->dag.value_count + 2);
        break;
    default:
        walk_add(w, kept);
    }
}

static void judges_agree_on_damaged_schedules(void **state) {
    (void)state;
    uint32_t refused = 0, cases = 6000;
    for (uint64_t seed = 1; seed <= cases; seed++) {
        tn__random r = {seed ^ 0x5eed};
        walk *w = walk_begin(seed);
        for (uint64_t i = tn__random_below(&r, 2) + 1; i > 0; i--) walk_damage(w, &r);
        refused += !both_agree(w, seed, "damaged");
        walk_end(w);
    }
    print_message("%u of %u damaged schedules were refused\n", refused, cases);
    assert_true(refused > cases / 3 && refused < cases);
}

/* The profile has the peak where it is said to be. */
static void profile_and_peak_are_one(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(200, 20); seed++) {
        walk *w = walk_begin(seed);
        uint64_t *profile = calloc(w->schedule.count, sizeof *profile), peak = 0;
        tn__replay found;
        tn_status status = tn__replay_schedule(&w->k->dag, &w->schedule, &found, profile, &failure);
        for (uint32_t i = 0; i < w->schedule.count; i++)
            if (profile[i] > peak) peak = profile[i];
        if (status == TN_OK) {
            assert_int_equal(peak, found.peak);
            assert_int_equal(profile[found.peak_action], peak);
        }
        free(profile);
        walk_end(w);
    }
}

/* --- by hand --- */

static kit *pair(uint64_t first, uint64_t second) {
    kit *k = kit_begin();
    uint32_t a = kit_value(k, first, TN__VALUE_COPIES);
    uint32_t b = kit_value(k, second, TN__VALUE_COPIES | TN__VALUE_KEPT);
    kit_job(k, 3, NULL, 0, &a, 1);
    kit_job(k, 5, &a, 1, &b, 1);
    return k;
}

static tn_status replay_actions(kit *k, const tn__action *actions, uint32_t count,
                                tn__replay *found) {
    tn__schedule schedule;
    tn__schedule_init(&schedule, &k->context);
    for (uint32_t i = 0; i < count; i++)
        assert_ok(tn__schedule_add(&schedule, actions[i], &failure));
    tn_status status = tn__replay_schedule(&k->dag, &schedule, found, NULL, &failure);
    tn__schedule_release(&schedule);
    return status;
}

static void an_input_that_is_kept_is_not_taken_in_place_by_the_last_job(void **state) {
    (void)state;
    kit *k = pair(4, 4);
    const tn__action actions[] = {{.kind = TN__RUN, .what = 0}, {.kind = TN__RUN, .what = 1}};
    tn__replay found;
    k->jobs[1].job.inplace = 0;
    kit_end(k);
    assert_ok(replay_actions(k, actions, 2, &found));
    assert_int_equal(found.peak, 4);
    k->values[0].flags |= TN__VALUE_KEPT;
    kit_end(k);
    assert_ok(replay_actions(k, actions, 2, &found));
    assert_int_equal(found.peak, 8);
    kit_free(k);
}

static void what_is_being_copied_is_not_decoded(void **state) {
    (void)state;
    kit *k = pair(4, 4);
    const tn__action actions[] = {
        {.kind = TN__RUN, .what = 0},    {.kind = TN__ENCODE, .what = 0, .bytes = 1},
        {.kind = TN__OUT, .what = 0},    {.kind = TN__DECODE, .what = 0},
        {.kind = TN__SETTLE, .what = 0}, {.kind = TN__IN, .what = 0},
        {.kind = TN__RUN, .what = 1},
    };
    tn__replay found;
    kit_end(k);
    assert_int_equal(replay_actions(k, actions, 7, &found), TN_E_INVALID);
    kit_free(k);
}

static void lists_that_contradict_each_other_are_refused(void **state) {
    (void)state;
    uint32_t first = 0;
    kit *k = pair(4, 5);
    k->jobs[1].job.inplace = 0; /* another size */
    assert_int_equal(tn__dag_make(&k->arena, k->jobs, 2, k->values, 2, &k->dag, &failure),
                     TN_E_INVALID);
    k->values[1].bytes = 4;
    k->jobs[0].job.inplace = 1; /* no input */
    assert_int_equal(tn__dag_make(&k->arena, k->jobs, 2, k->values, 2, &k->dag, &failure),
                     TN_E_INVALID);
    k->jobs[0].job.inplace = TN_NONE;
    k->jobs[1].recompute_inputs = k->jobs[1].recompute_outputs =
        &first; /* makes what another makes */
    k->jobs[1].job.recompute_input_count = k->jobs[1].job.recompute_output_count = 1;
    assert_int_equal(tn__dag_make(&k->arena, k->jobs, 2, k->values, 2, &k->dag, &failure),
                     TN_E_INVALID);
    kit_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judges_agree_on_random_schedules),
        cmocka_unit_test(judges_agree_on_damaged_schedules),
        cmocka_unit_test(profile_and_peak_are_one),
        cmocka_unit_test(an_input_that_is_kept_is_not_taken_in_place_by_the_last_job),
        cmocka_unit_test(what_is_being_copied_is_not_decoded),
        cmocka_unit_test(lists_that_contradict_each_other_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
