/* test_editable.c - the list of runs that joint changes all the time, against the judge of
 * schedules: after any run put in, taken out, moved, or undone, the bytes of each run and the cost
 * are those that tn__replay_schedule finds for the schedule that is written. */
#include "count.h"
#include "kit.h"

#include "fit/budget/joint/editable.h"

static void check_line(const tn__editable *edit, uint64_t seed) {
    tn__schedule schedule;
    tn__schedule_init(&schedule, &edit->context);
    assert_ok(tn__editable_write(edit, &schedule, &failure));
    uint64_t *profile = calloc((size_t)schedule.count + 1, sizeof *profile);
    tn__replay replay;
    tn_status status = tn__replay_schedule(edit->dag, &schedule, &replay, profile, &failure);
    if (status != TN_OK) fail_msg("seed %" PRIu64 ": %s\n", seed, failure.message);
    uint32_t at = edit->nodes[TN__EDITABLE_HEAD].next;
    for (uint32_t i = 0; i < schedule.count; i++, at = edit->nodes[at].next) {
        uint32_t key = edit->nodes[at].key;
        int64_t bytes = tn__editable_tree_most(&edit->tree, key, key);
        if (bytes != (int64_t)profile[i])
            fail_msg("seed %" PRIu64 ", act %u: %" PRId64 " bytes, judged %" PRIu64 "\n", seed, i,
                     bytes, profile[i]);
    }
    assert_int_equal(replay.peak, tn__editable_peak(edit));
    assert_int_equal(replay.cost, edit->cost);
    free(profile);
    tn__schedule_release(&schedule);
}

static bool line_may_run(const tn__editable *edit, uint32_t job, uint32_t before) {
    const tn__dag *dag = edit->dag;
    const tn__job *it = &dag->jobs[job];
    uint32_t key = edit->nodes[before].key, count;
    if (!(it->flags & TN__JOB_REPEATS) || edit->nodes[TN__EDITABLE_FIRST + job].key >= key)
        return false;
    for (uint32_t i = 0; i < it->limit_count; i++) {
        uint32_t limit = dag->others[it->limit_first + i];
        if (limit != job && edit->nodes[TN__EDITABLE_FIRST + limit].key < key) return false;
    }
    const uint32_t *output = tn__job_outputs(dag, job, true, &count);
    for (uint32_t i = 0; i < count; i++)
        if (dag->values[output[i]].flags & TN__VALUE_HELD) return false;
    const uint32_t *input = tn__job_inputs(dag, job, true, &count);
    for (uint32_t i = 0; i < count; i++)
        if (tn__editable_before(edit, input[i], key) == TN_NONE) return false;
    return true;
}

static uint32_t any_node(const tn__editable *edit, tn__random *r) {
    uint32_t id;
    do id = 1 + (uint32_t)tn__random_below(r, edit->node_count - 1);
    while (!edit->nodes[id].linked);
    return id;
}

/* Whether two neighbours may change places: the later one then comes first. */
static bool line_may_swap(const tn__editable *edit, uint32_t early, uint32_t late) {
    const tn__editable_node *a = &edit->nodes[early], *b = &edit->nodes[late];
    if (early <= TN__EDITABLE_TAIL || late <= TN__EDITABLE_TAIL || a->prev == TN__EDITABLE_HEAD)
        return false;
    const tn__dag *dag = edit->dag;
    if (!a->recompute && !b->recompute && (dag->is_ordered || dag->jobs[b->job].after_count > 0))
        return false;
    for (uint32_t i = 0; i < a->touch_count; i++)
        for (uint32_t k = 0; k < b->touch_count; k++) {
            const tn__editable_touch *x = &edit->touches[a->touch_first + i];
            const tn__editable_touch *y = &edit->touches[b->touch_first + k];
            if (x->value == y->value && (x->makes || y->makes)) return false;
        }
    const tn__job *job = &dag->jobs[a->job];
    for (uint32_t i = 0; i < job->limit_count; i++)
        if (dag->others[job->limit_first + i] == b->job && a->job != b->job) return false;
    return true;
}

static void move_in_line(tn__editable *edit, tn__random *r) {
    uint32_t node = any_node(edit, r), at = node, steps = 1 + (uint32_t)tn__random_below(r, 8);
    bool back = tn__random_below(r, 2);
    if (node <= TN__EDITABLE_TAIL || edit->nodes[node].prev == TN__EDITABLE_HEAD) return;
    for (; steps > 0; steps--) {
        uint32_t next = back ? edit->nodes[at].prev : edit->nodes[at].next;
        if (!(back ? line_may_swap(edit, next, node) : line_may_swap(edit, node, next))) break;
        at = next;
    }
    if (at != node) tn__editable_move(edit, node, back ? at : edit->nodes[at].next);
}

static void change_line(tn__editable *edit, tn__random *r) {
    uint32_t job = (uint32_t)tn__random_below(r, edit->dag->job_count), node = any_node(edit, r);
    if (edit->nodes[node].recompute && tn__random_below(r, 3) == 0)
        tn__editable_take(edit, node);
    else if (tn__random_below(r, 3) == 0)
        move_in_line(edit, r);
    else if (line_may_run(edit, job, node))
        assert_int_not_equal(tn__editable_put(edit, job, node), TN_NONE);
}

static void a_line_has_the_bytes_that_the_judge_finds(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(150, 15); seed++) {
        kit *k = kit_random_spiced(seed, 4 + (uint32_t)(seed % 30));
        tn__editable edit;
        tn__random r = {seed};
        kit_end(k);
        k->dag.is_ordered = seed % 2;
        assert_ok(tn__editable_init(&edit, &k->dag, &k->context, NULL, &failure));
        check_line(&edit, seed);
        for (uint32_t round = 0; round < 30; round++) {
            uint32_t mark = tn__editable_mark(&edit);
            int64_t peak = tn__editable_peak(&edit);
            for (uint32_t i = 0; i < 12; i++) change_line(&edit, &r);
            check_line(&edit, seed);
            if (tn__random_below(&r, 2) == 0) {
                tn__editable_undo(&edit, mark);
                assert_int_equal(tn__editable_peak(&edit), peak);
                check_line(&edit, seed);
            } else if (tn__random_below(&r, 2) == 0) {
                tn__editable_forget(&edit);
            }
        }
        tn__editable_release(&edit);
        kit_free(k);
    }
}

/* Many runs in one place: keys are used up there again and again. */
static void a_line_takes_many_runs_in_one_place(void **state) {
    (void)state;
    kit *k = kit_random_nodes(10, 60);
    tn__editable edit;
    kit_end(k);
    k->dag.is_ordered = true;
    assert_ok(tn__editable_init(&edit, &k->dag, &k->context, NULL, &failure));
    uint32_t place = TN__EDITABLE_FIRST + k->dag.job_count / 2;
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t id = tn__editable_put(&edit, i % (k->dag.job_count / 2), place);
        assert_int_not_equal(id, TN_NONE);
        if (i % 7 == 0) place = id;
        if (i % 500 == 0) check_line(&edit, i);
    }
    check_line(&edit, 10);
    tn__editable_undo(&edit, 0);
    check_line(&edit, 10);
    assert_int_equal(edit.cost, k->dag.cost);
    tn__editable_release(&edit);
    kit_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_the_bytes_that_the_judge_finds),
        cmocka_unit_test(a_line_takes_many_runs_in_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
