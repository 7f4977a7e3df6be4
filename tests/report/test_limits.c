/* test_limits.c - plans with ties, streams and chosen banks: written whole, read back the same. */
#include "plan/kit.h"

#include <tenure/report.h>

static bool same_piece(const tn_piece *a, const tn_piece *b, uint32_t streams) {
    bool same = a->first == b->first && a->last == b->last && a->lo == b->lo && a->hi == b->hi;
    for (uint32_t s = 0; s < streams && streams > 1 && same; s++)
        same = a->begins[s] == b->begins[s] && a->ends[s] == b->ends[s];
    return same;
}

static bool same_body(const tn_body *x, const tn_body *y, uint32_t streams) {
    unsigned kept = TN_BODY_PINNED | TN_BODY_TIED | TN_BODY_LEADS | TN_BODY_ANY_BANK;
    bool same = x->size == y->size && x->first == y->first && x->last == y->last &&
                x->alignment == y->alignment && (x->flags & kept) == (y->flags & kept) &&
                x->leader == y->leader && x->delta == y->delta && x->traffic == y->traffic &&
                x->piece_count == y->piece_count;
    for (uint32_t k = 0; same && k < x->piece_count; k++)
        same = same_piece(&x->pieces[k], &y->pieces[k], streams);
    return same;
}

static void check_read_back(const tn_problem *problem, const tn_layout *layout, const char *text,
                            uint64_t seed) {
    tn_problem *again;
    tn_layout other;
    uint64_t *offsets;
    uint32_t count = tn_problem_count(problem), streams = tn_problem_streams(problem);
    tn_bank_id *banks = calloc((size_t)count + 1, sizeof *banks);
    assert_non_null(banks);
    assert_ok(
        tn_problem_load_memory("plan.json", text, strlen(text), NULL, &again, &offsets, &failure));
    assert_int_equal(tn_problem_count(again), count);
    assert_int_equal(tn_problem_streams(again), streams);
    for (tn_body_id i = 0; i < count; i++) {
        const tn_body *body = tn_problem_body(again, i);
        if (!same_body(tn_problem_body(problem, i), body, streams) || body->bank != layout->bank[i])
            fail_msg("seed %llu, body %u\n", (unsigned long long)seed, i);
        banks[i] = body->bank;
    }
    assert_memory_equal(offsets, layout->offset, count * sizeof *offsets);
    assert_ok(tn_layout_from_places(again, offsets, banks, &other, &failure));
    assert_ok(tn_layout_verify(again, &other, NULL, &failure));
    for (tn_bank_id bank = 0; bank < other.bank_count; bank++) {
        assert_int_equal(other.bank_peak[bank], layout->bank_peak[bank]);
        assert_int_equal(other.bank_traffic[bank], layout->bank_traffic[bank]);
        assert_true(tn_problem_bank(again, bank)->bytes_per_s ==
                    tn_problem_bank(problem, bank)->bytes_per_s);
    }
    tn_layout_release(&other);
    tn_offsets_release(NULL, offsets, count);
    tn_problem_destroy(again);
    free(banks);
}

static void a_plan_in_json_holds_every_constraint(void **state) {
    (void)state;
    uint32_t planned = 0;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        unsigned what = (unsigned)(seed % (KIT_ALL + 1)) | (seed % 3 == 0 ? KIT_CHOICE : 0u);
        tn_problem *problem = kit_random(seed, 1 + (uint32_t)(seed % 20), 40, 12, what);
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout;
        options.planner = "greedy-by-size";
        if (seed % 2 == 0 && (what & KIT_BANKS))
            assert_ok(tn_problem_set_bank(
                problem, 1, &(tn_bank){.name = "b", .capacity = 400, .bytes_per_s = 1.5e9},
                &failure));
        if (tn_plan(problem, &options, &layout, &failure) == TN_OK) {
            tn_report report = {.struct_size = sizeof report,
                                .input = "random",
                                .problem = problem,
                                .layout = &layout};
            for (uint32_t f = 0; f < tn_report_format_count(); f++) {
                const char *format = tn_report_format_name(f);
                const char *suffix = tn_report_format_suffix(f);
                bool of_runs = strstr(suffix, ".trace.") || strcmp(suffix, ".pickle") == 0;
                if (of_runs) continue;
                char *text;
                size_t size;
                tn_status status = tn_report_render(&report, format, &text, &size, &failure);
                if (status == TN_E_UNSUPPORTED) continue; /* two windows at one time, in CSV */
                assert_ok(status);
                assert_true(size > 0);
                if (strcmp(format, "json") == 0) check_read_back(problem, &layout, text, seed);
                tn_report_release(text);
            }
            planned++;
            tn_layout_release(&layout);
        }
        tn_problem_destroy(problem);
    }
    assert_true(planned > 500);
}

static void hostile_numbers_in_json_are_refused(void **state) {
    (void)state;
    static const char *const members[] = {
        "\"leader\": 0",
        "\"leader\": -1",
        "\"leader\": 4294967296",
        "\"leader\": \"a\"",
        "\"begins\": [[0]]",
        "\"begins\": [[0, 0, 0]]",
        "\"begins\": [[0, 0], [0, 0]]",
        "\"begins\": [[0, 0.5]]",
        "\"ends\": 7",
        "\"traffic\": -1",
        "\"any_pool\": true, \"pinned\": true, \"offset\": 0",
    };
    static const char *const heads[] = {"\"streams\": 0",
                                        "\"streams\": 65537",
                                        "\"streams\": -1",
                                        "\"streams\": \"two\"",
                                        "\"pools\": [{\"id\": 0, \"bytes_per_s\": -1}]",
                                        "\"pools\": [{\"id\": 0, \"bytes_per_s\": \"x\"}]"};
    char text[512];
    tn_problem *problem = NULL;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        snprintf(
            text, sizeof text,
            "{\"format\": \"mem-plan\", \"streams\": 2, \"buffers\": [{\"size\": 8, \"first\": "
            "0, \"last_excl\": 1, %s}]}",
            members[i]);
        if (tn_problem_load_memory("t.json", text, strlen(text), NULL, &problem, NULL, &failure) !=
            TN_E_INVALID)
            fail_msg("accepted: %s\n", members[i]);
    }
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        snprintf(text, sizeof text, "{\"format\": \"mem-plan\", %s, \"buffers\": []}", heads[i]);
        if (tn_problem_load_memory("t.json", text, strlen(text), NULL, &problem, NULL, &failure) !=
            TN_E_INVALID)
            fail_msg("accepted: %s\n", heads[i]);
    }
    assert_null(problem);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_in_json_holds_every_constraint),
        cmocka_unit_test(hostile_numbers_in_json_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
