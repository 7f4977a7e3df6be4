/* test_places.c - anybody's offsets as a layout, and problems as files: sums by the definition, and
 * nothing half done when memory ends. */
#include "count.h"
#include "kit.h"

static uint64_t add_saturating(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Offsets up to the end of what 64 bits can say, banks of every body's own and others. */
static void places_are_summed_by_bank(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2000, 200); seed++) {
        tn__random random = {.state = seed};
        tn_problem *problem =
            kit_random(seed, 1 + (uint32_t)kit_below(&random, 12), 40, 20, KIT_BANKS | KIT_PIECES);
        uint32_t count = tn_problem_count(problem), banks = tn_problem_bank_count(problem);
        uint64_t offsets[16], peaks[16] = {0}, traffic[16] = {0}, sum = 0;
        tn_bank_id places[16];
        bool given = kit_below(&random, 2) == 0, wrong = false;
        for (tn_body_id i = 0; i < count; i++) {
            const tn_body *body = tn_problem_body(problem, i);
            bool far = kit_below(&random, 8) == 0;
            offsets[i] = far ? UINT64_MAX - kit_below(&random, 60) : kit_below(&random, 1000);
            places[i] =
                given ? (tn_bank_id)kit_below(&random, banks + (seed % 4 == 0)) : body->bank;
            wrong |= places[i] >= banks;
            if (wrong) continue;
            uint64_t end = add_saturating(offsets[i], body->size);
            if (body->size > 0 && end > peaks[places[i]]) peaks[places[i]] = end;
            uint64_t moved = body->traffic != 0 ? body->traffic : 2 * body->size;
            traffic[places[i]] = add_saturating(traffic[places[i]], moved);
        }
        tn_layout layout = {.seed = 77};
        tn_status status = given
                               ? tn_layout_from_places(problem, offsets, places, &layout, &failure)
                               : tn_layout_from_offsets(problem, offsets, &layout, &failure);
        assert_int_equal(status, wrong ? TN_E_INVALID : TN_OK);
        assert_int_equal(layout.seed, wrong ? 77 : 0); /* untouched, or new */
        for (tn_bank_id b = 0; b < banks && !wrong; b++) {
            assert_int_equal(layout.bank_peak[b], peaks[b]);
            assert_int_equal(layout.bank_traffic[b], traffic[b]);
            sum = add_saturating(sum, peaks[b]);
        }
        if (!wrong) {
            assert_int_equal(layout.peak, sum);
            assert_memory_equal(layout.offset, offsets, count * sizeof *offsets);
            assert_memory_equal(layout.bank, places, count * sizeof *places);
            tn_layout_release(&layout);
        }
        tn_problem_destroy(problem);
    }
}

static void without_reuse_nobody_shares(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(500, 50); seed++) {
        tn_problem *problem =
            kit_random(seed, 1 + (uint32_t)(seed % 20), 60, 20, KIT_ALIGNMENTS | KIT_PIECES);
        tn_layout layout;
        assert_ok(tn_layout_without_reuse(problem, &layout, &failure));
        for (tn_body_id i = 0; i < layout.body_count; i++) {
            const tn_body *a = tn_problem_body(problem, i);
            assert_int_equal(layout.offset[i] % (a->alignment > 0 ? a->alignment : 1), 0);
            for (tn_body_id j = 0; j < i; j++) {
                uint64_t size = tn_problem_body(problem, j)->size;
                assert_true(layout.offset[i] >= layout.offset[j] + size ||
                            layout.offset[j] >= layout.offset[i] + a->size);
            }
        }
        assert_ok(tn_layout_verify(problem, &layout, NULL, &failure));
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

static void every_verdict_has_a_word(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(tn_verdict_name((tn_verdict)i), tn_verdict_name((tn_verdict)j));
    assert_string_equal(tn_verdict_name((tn_verdict)99), "unknown");
}

/* --- files --- */

static const char csv[] = "id,lower,upper,size,offset\na,0,3,4,8\nb,1,4,8,0\nc,5,6,2,1\n";

static void the_suffix_says_who_reads(void **state) {
    (void)state;
    static const struct {
        const char *name;
        tn_status status;
    } cases[] = {{"p.csv", TN_OK},
                 {"P.CSV", TN_OK},
                 {"-", TN_OK},
                 {"p.json", TN_E_INVALID}, /* it is none inside */
                 {"p.txt", TN_E_UNSUPPORTED},
                 {"csv", TN_E_UNSUPPORTED},
                 {"", TN_E_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_problem *problem = NULL;
        uint64_t *offsets = NULL;
        tn_status status = tn_problem_load_memory(cases[i].name, csv, sizeof csv - 1, NULL,
                                                  &problem, &offsets, &failure);
#ifdef TENURE_MINIMAL
        if (i == 3) continue; /* reads no JSON at all */
#endif
        assert_int_equal(status, cases[i].status);
        assert_int_equal(problem != NULL, status == TN_OK);
        if (status != TN_OK) {
            assert_non_null(strstr(failure.where, cases[i].name));
            continue;
        }
        assert_true(offsets[0] == 8 && offsets[1] == 0 && offsets[2] == 1);
        tn_offsets_release(NULL, offsets, tn_problem_count(problem));
        tn_problem_destroy(problem);
    }
}

/* Offsets of a file are handed over, or they pin. */
static void offsets_that_nobody_takes_are_pins(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    assert_ok(tn_problem_load_memory("p.csv", csv, sizeof csv - 1, NULL, &problem, NULL, &failure));
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_true(layout.offset[0] == 8 && layout.offset[1] == 0 && layout.offset[2] == 1);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void reading_survives_every_failing_allocation(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status != TN_OK; fail_at++) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_problem *problem = NULL;
        uint64_t *offsets = NULL;
        status = tn_problem_load_memory("p.csv", csv, sizeof csv - 1, &context, &problem, &offsets,
                                        &failure);
        if (status == TN_OK) {
            tn_offsets_release(&context, offsets, tn_problem_count(problem));
            tn_problem_destroy(problem);
        } else {
            assert_int_equal(status, TN_E_NO_MEMORY);
            assert_true(problem == NULL && offsets == NULL);
        }
        assert_int_equal(memory.held, 0);
    }
}

/* --- `auto`: of each size and limit it is as good as the parts that it is made of --- */

static uint64_t peak_by(const tn_problem *problem, const char *planner, uint64_t limit,
                        uint64_t capacity) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout layout;
    options.planner = planner;
    options.work_limit = limit;
    options.capacity = capacity;
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    uint64_t peak = layout.peak;
    assert_true(capacity == 0 || peak <= capacity);
    tn_layout_release(&layout);
    return peak;
}

static void auto_is_never_worse_than_its_greedy_parts(void **state) {
    (void)state;
    static const uint32_t counts[] = {3, 60, 1400, 1600, 4200, 8300};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        tn__random random = {.state = i + 1};
        tn_problem *problem;
        assert_ok(tn_problem_create(NULL, &problem, &failure));
        for (uint32_t b = 0; b < counts[i]; b++) {
            int64_t first = (int64_t)kit_below(&random, counts[i]);
            tn_body body = {.size = 1 + kit_below(&random, 1000),
                            .first = first,
                            .last = first + 1 + (int64_t)kit_below(&random, 30)};
            assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        }
        uint64_t greedy = peak_by(problem, "greedy-by-size", 0, 0);
        uint64_t limit = counts[i] > 4096 ? 50000 : 0;
        uint64_t found = peak_by(problem, NULL, limit, 0);
        if (counts[i] <= 4096) assert_true(found <= greedy);
        peak_by(problem, NULL, 20ull * counts[i] + 20000,
                greedy + 100); /* it fits, and stops there */
        tn_problem_destroy(problem);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_summed_by_bank),
        cmocka_unit_test(without_reuse_nobody_shares),
        cmocka_unit_test(every_verdict_has_a_word),
        cmocka_unit_test(the_suffix_says_who_reads),
        cmocka_unit_test(offsets_that_nobody_takes_are_pins),
        cmocka_unit_test(reading_survives_every_failing_allocation),
        cmocka_unit_test(auto_is_never_worse_than_its_greedy_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
