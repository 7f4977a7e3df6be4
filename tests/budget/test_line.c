/* test_line.c - the list of runs that joint changes all the time, against the judge of schedules:
 * after any run put in, taken out, moved, or undone, the bytes of each run and the cost are those
 * that tn__replay_schedule finds for the schedule that is written. */
#include "count.h"
#include "kit.h"

#include "fit/budget/joint_line.h"

static void check_line(const tn__line *line, uint64_t seed) {
    tn__schedule schedule;
    tn__schedule_init(&schedule, &line->context);
    assert_ok(tn__line_write(line, &schedule, &failure));
    uint64_t *profile = calloc((size_t)schedule.count + 1, sizeof *profile);
    tn__replay replay;
    tn_status status = tn__replay_schedule(line->work, &schedule, &replay, profile, &failure);
    if (status != TN_OK) fail_msg("seed %" PRIu64 ": %s\n", seed, failure.message);
    uint32_t at = line->nodes[TN__LINE_HEAD].next;
    for (uint32_t i = 0; i < schedule.count; i++, at = line->nodes[at].next) {
        uint32_t key = line->nodes[at].key;
        int64_t bytes = tn__line_tree_most(&line->tree, key, key);
        if (bytes != (int64_t)profile[i])
            fail_msg("seed %" PRIu64 ", act %u: %" PRId64 " bytes, judged %" PRIu64 "\n", seed, i,
                     bytes, profile[i]);
    }
    assert_int_equal(replay.peak, tn__line_peak(line));
    assert_int_equal(replay.cost, line->cost);
    free(profile);
    tn__schedule_release(&schedule);
}

static bool line_may_run(const tn__line *line, uint32_t job, uint32_t before) {
    const tn__work *work = line->work;
    const tn__job *it = &work->jobs[job];
    uint32_t key = line->nodes[before].key, count;
    if (!(it->flags & TN__JOB_REPEATS) || line->nodes[TN__LINE_FIRST + job].key >= key)
        return false;
    for (uint32_t i = 0; i < it->limit_count; i++) {
        uint32_t limit = work->others[it->limit_first + i];
        if (limit != job && line->nodes[TN__LINE_FIRST + limit].key < key) return false;
    }
    const uint32_t *output = tn__job_outputs(work, job, true, &count);
    for (uint32_t i = 0; i < count; i++)
        if (work->values[output[i]].flags & TN__VALUE_HELD) return false;
    const uint32_t *input = tn__job_inputs(work, job, true, &count);
    for (uint32_t i = 0; i < count; i++)
        if (tn__line_before(line, input[i], key) == TN_NONE) return false;
    return true;
}

static uint32_t any_node(const tn__line *line, tn__random *r) {
    uint32_t id;
    do id = 1 + (uint32_t)tn__random_below(r, line->node_count - 1);
    while (!line->nodes[id].linked);
    return id;
}

/* Whether two neighbours may change places: the later one then comes first. */
static bool line_may_swap(const tn__line *line, uint32_t early, uint32_t late) {
    const tn__line_node *a = &line->nodes[early], *b = &line->nodes[late];
    if (early <= TN__LINE_TAIL || late <= TN__LINE_TAIL || a->prev == TN__LINE_HEAD) return false;
    const tn__work *work = line->work;
    if (!a->again && !b->again && (work->is_ordered || work->jobs[b->job].after_count > 0))
        return false;
    for (uint32_t i = 0; i < a->touch_count; i++)
        for (uint32_t k = 0; k < b->touch_count; k++) {
            const tn__line_touch *x = &line->touches[a->touch_first + i];
            const tn__line_touch *y = &line->touches[b->touch_first + k];
            if (x->value == y->value && (x->makes || y->makes)) return false;
        }
    const tn__job *job = &work->jobs[a->job];
    for (uint32_t i = 0; i < job->limit_count; i++)
        if (work->others[job->limit_first + i] == b->job && a->job != b->job) return false;
    return true;
}

static void move_in_line(tn__line *line, tn__random *r) {
    uint32_t node = any_node(line, r), at = node, steps = 1 + (uint32_t)tn__random_below(r, 8);
    bool back = tn__random_below(r, 2);
    if (node <= TN__LINE_TAIL || line->nodes[node].prev == TN__LINE_HEAD) return;
    for (; steps > 0; steps--) {
        uint32_t next = back ? line->nodes[at].prev : line->nodes[at].next;
        if (!(back ? line_may_swap(line, next, node) : line_may_swap(line, node, next))) break;
        at = next;
    }
    if (at != node) tn__line_move(line, node, back ? at : line->nodes[at].next);
}

static void change_line(tn__line *line, tn__random *r) {
    uint32_t job = (uint32_t)tn__random_below(r, line->work->job_count), node = any_node(line, r);
    if (line->nodes[node].again && tn__random_below(r, 3) == 0)
        tn__line_take(line, node);
    else if (tn__random_below(r, 3) == 0)
        move_in_line(line, r);
    else if (line_may_run(line, job, node))
        assert_int_not_equal(tn__line_put(line, job, node), TN_NONE);
}

static void a_line_has_the_bytes_that_the_judge_finds(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(150, 15); seed++) {
        kit *k = kit_random_spiced(seed, 4 + (uint32_t)(seed % 30));
        tn__line line;
        tn__random r = {seed};
        kit_end(k);
        k->work.is_ordered = seed % 2;
        assert_ok(tn__line_init(&line, &k->work, &k->context, NULL, &failure));
        check_line(&line, seed);
        for (uint32_t round = 0; round < 30; round++) {
            uint32_t mark = tn__line_mark(&line);
            int64_t peak = tn__line_peak(&line);
            for (uint32_t i = 0; i < 12; i++) change_line(&line, &r);
            check_line(&line, seed);
            if (tn__random_below(&r, 2) == 0) {
                tn__line_undo(&line, mark);
                assert_int_equal(tn__line_peak(&line), peak);
                check_line(&line, seed);
            } else if (tn__random_below(&r, 2) == 0) {
                tn__line_forget(&line);
            }
        }
        tn__line_release(&line);
        kit_free(k);
    }
}

/* Many runs in one place: keys are used up there again and again. */
static void a_line_takes_many_runs_in_one_place(void **state) {
    (void)state;
    kit *k = kit_random_nodes(10, 60);
    tn__line line;
    kit_end(k);
    k->work.is_ordered = true;
    assert_ok(tn__line_init(&line, &k->work, &k->context, NULL, &failure));
    uint32_t place = TN__LINE_FIRST + k->work.job_count / 2;
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t id = tn__line_put(&line, i % (k->work.job_count / 2), place);
        assert_int_not_equal(id, TN_NONE);
        if (i % 7 == 0) place = id;
        if (i % 500 == 0) check_line(&line, i);
    }
    check_line(&line, 10);
    tn__line_undo(&line, 0);
    check_line(&line, 10);
    assert_int_equal(line.cost, k->work.cost);
    tn__line_release(&line);
    kit_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_the_bytes_that_the_judge_finds),
        cmocka_unit_test(a_line_takes_many_runs_in_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
