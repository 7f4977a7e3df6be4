/* test_dead_storages.c - values without outside references that cannot be recomputed: when they are
 * evicted, and that values made from them stay then. Counts bytes only: nothing is computed. */
#include "support.h"

#include "memory/evict/evict.h"

static tn_error failure;

static void ok(tn_status status) {
    if (status != TN_OK) fail_msg("%s: %s", failure.where, failure.message);
}

static tn__evict *open_core(const char *policy, uint64_t budget) {
    tn__evict *evict = NULL;
    tn__evict_options options = {.policy = policy, .budget = budget};
    ok(tn__evict_create(&options, &evict, &failure));
    return evict;
}

static void close_core(tn__evict *evict) {
    assert_null(tn__evict_check(evict));
    tn__evict_destroy(evict);
}

static tn_status try_apply(tn__evict *evict, uint32_t count, const uint32_t *inputs, uint64_t bytes,
                           bool once, uint32_t *made) {
    tn__evict_output output = {.bytes = bytes, .alias = TN__EVICT_NONE};
    tn__evict_call call = {.cost = 10,
                           .flags = once ? TN__EVICT_ONCE : 0,
                           .inputs = inputs,
                           .input_count = count,
                           .outputs = &output,
                           .output_count = 1};
    return tn__evict_apply(evict, &call, made, &failure);
}

static uint32_t apply(tn__evict *evict, uint32_t count, const uint32_t *inputs, uint64_t bytes) {
    uint32_t made = TN__EVICT_NONE;
    ok(try_apply(evict, count, inputs, bytes, false, &made));
    return made;
}

static uint32_t once(tn__evict *evict, uint64_t bytes) {
    uint32_t made = TN__EVICT_NONE;
    ok(try_apply(evict, 0, NULL, bytes, true, &made));
    return made;
}

/* In the memory that it takes without evictions a run makes nothing again. */
static void spent_values_go_before_anything_is_evicted(void **state) {
    (void)state;
    tn__evict *evict = open_core("lru", 100);
    uint32_t source = once(evict, 40), made = apply(evict, 1, &source, 50), next;
    tn__evict_release(evict, source); /* others were made from it */
    assert_int_equal(tn__evict_count(evict)->bytes, 90);
    next = apply(evict, 1, &made, 50);
    assert_int_equal(tn__evict_count(evict)->spent_count, 1);
    assert_int_equal(tn__evict_count(evict)->spent_bytes, 40);
    assert_int_equal(tn__evict_count(evict)->bytes, 100);
    assert_int_equal(tn__evict_held(evict), 50); /* nothing makes `made` again */
    ok(tn__evict_want(evict, made, &failure));
    tn__evict_unlock(evict, made);
    assert_int_equal(tn__evict_count(evict)->remade_ops, 0);
    tn__evict_release(evict, made); /* its turn, when bytes are wanted */
    assert_int_equal(tn__evict_count(evict)->bytes, 100);
    tn__evict_release(evict, apply(evict, 1, &next, 50));
    assert_int_equal(tn__evict_count(evict)->spent_count, 2);
    close_core(evict);
}

/* Four values of 25 bytes were made from one of 9, whose handle is deleted. Without the 9 bytes the
 * four could not be evicted any more. */
static void nine_are_kept_for_four_of_25(void **state) {
    (void)state;
    for (uint64_t budget = 59; budget <= 160; budget++) {
        tn__evict *evict = open_core("lru", budget);
        uint32_t nine = once(evict, 9), four[4], fifth;
        for (int i = 0; i < 4; i++) four[i] = apply(evict, 1, &nine, 25);
        tn__evict_release(evict, nine);
        fifth = apply(evict, 0, NULL, 25);
        for (int i = 0; i < 4; i++) {
            ok(tn__evict_want(evict, four[i], &failure));
            tn__evict_unlock(evict, four[i]);
        }
        const tn_evict_counts *counts = tn__evict_count(evict);
        assert_true(counts->peak_bytes <= budget);
        /* from 125 on everything has room, without the 9 or with them */
        assert_int_equal(counts->spent_count, budget >= 125 && budget < 134);
        assert_true((counts->remade_ops > 0) == (budget < 125));
        for (int i = 0; i < 4; i++) tn__evict_release(evict, four[i]);
        assert_int_equal(counts->bytes, tn__evict_is_there(evict, fifth) ? 25 : 0);
        close_core(evict);
    }
}

/* Something that somebody refers to was evicted before: 40 bytes that would make 50 stay are kept,
 * as those can be evicted and made again. */
static void spent_values_stay_where_more_would_stay_for_them(void **state) {
    (void)state;
    for (int small = 0; small < 2; small++) {
        tn__evict *evict = open_core("lru", 100);
        uint32_t first = apply(evict, 0, NULL, 90), second = apply(evict, 0, NULL, 20);
        assert_false(tn__evict_is_there(evict, first));
        tn__evict_release(evict, second);
        tn__evict_release(evict, first);
        uint32_t source = once(evict, 40), made = apply(evict, 1, &source, small ? 30 : 50);
        tn__evict_release(evict, source);
        uint32_t other = apply(evict, 0, NULL, small ? 60 : 50);
        assert_int_equal(tn__evict_count(evict)->spent_count, small);
        assert_int_equal(tn__evict_is_there(evict, made), small);
        ok(tn__evict_want(evict, made, &failure));
        assert_true(tn__evict_is_there(evict, made));
        assert_true(tn__evict_is_there(evict, other) == (small != 0));
        tn__evict_unlock(evict, made);
        close_core(evict);
    }
}

/* Nobody else is left: it goes as long as all that was made from it is there, and not while that is
 * to be made from it. */
static void spent_values_are_the_last_to_go_and_never_too_early(void **state) {
    (void)state;
    tn__evict *evict = open_core("lru", 100);
    uint32_t first = apply(evict, 0, NULL, 90), second = apply(evict, 0, NULL, 20);
    assert_false(tn__evict_is_there(evict, first)); /* so that evictions have begun */
    tn__evict_release(evict, second);
    tn__evict_release(evict, first);
    uint32_t source = once(evict, 40), made = apply(evict, 1, &source, 50), large;
    tn__evict_release(evict, source);
    large = apply(evict, 0, NULL, 60); /* `made` had to go, not `source` */
    assert_false(tn__evict_is_there(evict, made));
    tn__evict_release(evict, large);
    assert_int_equal(try_apply(evict, 0, NULL, 70, false, &large), TN_E_EXHAUSTED);
    ok(tn__evict_want(evict, made, &failure)); /* now it is there, and locked */
    large = apply(evict, 0, NULL, 50);
    assert_int_equal(tn__evict_count(evict)->spent_count, 1);
    tn__evict_unlock(evict, made);
    assert_int_equal(try_apply(evict, 0, NULL, 60, false, &first), TN_E_EXHAUSTED);
    assert_true(tn__evict_is_there(evict, made));
    close_core(evict);
}

/* One of two results of an operator that runs once is needed, the other's bytes are free. */
static void what_nobody_needs_goes_without_its_operator(void **state) {
    (void)state;
    tn__evict *evict = open_core("lru", 100);
    tn__evict_output outputs[2] = {{.bytes = 30, .alias = TN__EVICT_NONE},
                                   {.bytes = 40, .alias = TN__EVICT_NONE}};
    tn__evict_call call = {
        .cost = 1, .flags = TN__EVICT_ONCE, .outputs = outputs, .output_count = 2};
    uint32_t made[2];
    ok(tn__evict_apply(evict, &call, made, &failure));
    uint32_t next = apply(evict, 1, &made[1], 5);
    tn__evict_release(evict, made[0]);
    assert_int_equal(tn__evict_count(evict)->bytes, 45);
    tn__evict_release(evict, made[1]);
    assert_int_equal(tn__evict_count(evict)->bytes, 45);
    tn__evict_release(evict, next);
    assert_int_equal(tn__evict_count(evict)->bytes, 0);
    close_core(evict);
}

/* --- logs at random --- */

#define LOG_LIVE_MAX 24u

typedef struct writer {
    tn__text text;
    tn__random random;
    uint32_t live[LOG_LIVE_MAX], live_count, count;
} writer;

static uint64_t draw(writer *w, uint64_t below) { return tn__random_below(&w->random, below); }

static void write_call(writer *w, bool is_once, bool is_fresh) {
    uint32_t of = w->live_count > 0 ? (uint32_t)draw(w, w->live_count) : 0,
             results = 1 + (uint32_t)draw(w, 2);
    bool has_input = w->live_count > 0 && draw(w, 10) > 0;
    tn__text_put(&w->text, "{\"INSTRUCTION\":\"CALL\",\"NAME\":\"op\",\"ARGS\":[");
    if (has_input) tn__text_printf(&w->text, "\"x%u\"", w->live[of]);
    if (has_input && draw(w, 2) == 0)
        tn__text_printf(&w->text, ",\"x%u\"", w->live[draw(w, w->live_count)]);
    tn__text_printf(&w->text, "],\"TIME\":%u,\"SCRATCH\":%u", (unsigned)draw(w, 50),
                    (unsigned)draw(w, 40));
    if (is_once || draw(w, 5) == 0) tn__text_put(&w->text, ",\"ONCE\":1");
    tn__text_put(&w->text, ",\"RESULT\":[");
    for (uint32_t r = 0; r < results; r++)
        tn__text_printf(&w->text, "%s\"x%u\"", r > 0 ? "," : "", w->count + r);
    tn__text_put(&w->text, "]}\n");
    for (uint32_t r = 0; r < results; r++) {
        bool view = has_input && !is_fresh && draw(w, 5) == 0;
        tn__text_printf(&w->text,
                        "{\"INSTRUCTION\":\"MEMORY\",\"NAME\":\"x%u\",\"MEMORY\":%u}\n"
                        "{\"INSTRUCTION\":\"ALIAS\",\"NAME\":\"x%u\",\"ALIAS\":%d}\n",
                        w->count, view ? 0 : (unsigned)draw(w, 300), w->count, view ? 0 : -1);
        w->live[w->live_count++] = w->count++;
    }
}

static void write_release(writer *w) {
    uint32_t at = (uint32_t)draw(w, w->live_count);
    tn__text_printf(&w->text, "{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"x%u\"}\n", w->live[at]);
    w->live[at] = w->live[--w->live_count];
}

/* Who else refers to it is lost, so it is written as soon as it is made. */
static void write_in_place(writer *w) {
    uint32_t name = w->count;
    if (w->live_count + 4 > LOG_LIVE_MAX) return;
    write_call(w, false, true);
    tn__text_printf(&w->text,
                    "{\"INSTRUCTION\":\"MUTATE\",\"NAME\":\"op_\",\"ARGS\":[\"x%u\"],"
                    "\"MUTATE\":[0],\"TIME\":3,\"IN_PLACE\":1}\n",
                    name);
}

static char *random_log(uint64_t seed) {
    writer w = {.random = {.state = seed}};
    tn_context context = tn__context(NULL);
    tn__text_init(&w.text, &context);
    for (uint32_t i = 0; i < 150; i++) {
        if (w.live_count + 2 > LOG_LIVE_MAX || (w.live_count > 4 && draw(&w, 5) < 2))
            write_release(&w);
        else if (draw(&w, 8) == 0)
            write_in_place(&w);
        else
            write_call(&w, i == 0, false);
    }
    char *text = strdup(w.text.data);
    tn__text_release(&w.text);
    return text;
}

static void a_run_does_in_its_plain_peak(void **state) {
    (void)state;
    uint64_t let_go = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        char *text = random_log(seed);
        tn_evict_log *log = NULL;
        uint64_t peak = 0;
        ok(tn_evict_log_parse(NULL, text, strlen(text), "random", &log, &failure));
        ok(tn_evict_plain_peak(log, &peak, &failure));
        for (uint32_t p = 0; p < tn_evict_policy_count(); p++) {
            tn_evict_options options = TN_EVICT_OPTIONS_INIT;
            tn_evict_outcome outcome;
            options.policy = tn_evict_policy_name(p);
            options.budget = peak;
            ok(tn_evict_simulate(log, &options, &outcome, &failure));
            if (outcome.end != TN_EVICT_DONE || outcome.counts.remade_ops > 0)
                fail_msg("seed %u, %s: %llu made again, %llu evicted: %s", (unsigned)seed,
                         options.policy, (unsigned long long)outcome.counts.remade_ops,
                         (unsigned long long)outcome.counts.drop_count, outcome.message);
            let_go += outcome.counts.spent_count;
        }
        tn_evict_log_destroy(log);
        free(text);
    }
    assert_true(let_go > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spent_values_go_before_anything_is_evicted),
        cmocka_unit_test(nine_are_kept_for_four_of_25),
        cmocka_unit_test(spent_values_stay_where_more_would_stay_for_them),
        cmocka_unit_test(spent_values_are_the_last_to_go_and_never_too_early),
        cmocka_unit_test(what_nobody_needs_goes_without_its_operator),
        cmocka_unit_test(a_run_does_in_its_plain_peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
