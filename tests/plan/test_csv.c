/* test_csv.c - MiniMalloc's CSV in its dialects, read and written back. */
#include "kit.h"

#include "plan/io/io.h"

static tn_status read_text(const char *text, tn_problem **problem, uint64_t **offsets) {
    return tn_problem_load_memory("t.csv", text, strlen(text), NULL, problem, offsets, &failure);
}

static const tn_body *only_body(const char *text, tn_problem **problem) {
    assert_ok(read_text(text, problem, NULL));
    assert_int_equal(tn_problem_count(*problem), 1);
    return tn_problem_body(*problem, 0);
}

static void every_name_of_a_column_is_known(void **state) {
    (void)state;
    static const char *const headers[] = {"id,lower,upper,size", "buffer,begin,upper,size",
                                          "buffer_id,start,upper,size"};
    for (size_t i = 0; i < 3; i++) {
        char text[100];
        tn_problem *problem;
        snprintf(text, sizeof text, "%s\nb7,-2,5,9\n", headers[i]);
        const tn_body *body = only_body(text, &problem);
        assert_string_equal(body->name, "b7");
        assert_true(body->first == -2 && body->last == 5 && body->size == 9);
        tn_problem_destroy(problem);
    }
}

static void banks_of_a_file_without_names_have_different_names(void **state) {
    (void)state;
    tn_problem *problem;
    assert_ok(read_text("id,lower,upper,size,bank\na,0,2,5,0\nb,0,2,7,2\n", &problem, NULL));
    assert_int_equal(tn_problem_bank_count(problem), 3);
    assert_string_equal(tn_problem_bank(problem, 0)->name, "arena");
    assert_string_equal(tn_problem_bank(problem, 1)->name, "bank 1");
    assert_string_equal(tn_problem_bank(problem, 2)->name, "bank 2");
    tn_problem_destroy(problem);
}

static void a_column_called_end_is_inclusive_also_in_gaps(void **state) {
    (void)state;
    tn_problem *problem;
    const tn_body *body = only_body("size,end,start,id,gaps\n8,9,0,x,2-3 5-6@4:8\n", &problem);
    static const tn_piece expected[] = {{.first = 0, .last = 2, .hi = 8},
                                        {.first = 4, .last = 5, .hi = 8},
                                        {.first = 5, .last = 7, .lo = 4, .hi = 8},
                                        {.first = 7, .last = 10, .hi = 8}};
    assert_true(body->first == 0 && body->last == 10 && body->piece_count == 4);
    assert_memory_equal(body->pieces, expected, sizeof expected);
    tn_problem_destroy(problem);
}

static void offsets_pin_unless_the_caller_asks_for_them(void **state) {
    (void)state;
    static const char text[] = "id,lower,upper,size,alignment,hint,offset\r\na,0,2,8,4,7,16\r\n";
    tn_problem *problem;
    uint64_t *offsets;
    const tn_body *body = only_body(text, &problem);
    assert_true(body->flags & TN_BODY_PINNED);
    assert_true(body->offset == 16 && body->alignment == 4 && body->has_hint && body->hint == 7);
    tn_problem_destroy(problem);
    assert_ok(read_text(text, &problem, &offsets));
    assert_int_equal(offsets[0], 16);
    assert_false(tn_problem_body(problem, 0)->flags & TN_BODY_PINNED);
    tn_offsets_release(NULL, offsets, 1);
    tn_problem_destroy(problem);
}

static void the_first_empty_line_ends_the_file(void **state) {
    (void)state;
    tn_problem *problem;
    only_body("id,lower,upper,size\na,0,1,1\n\nb,0,1,garbage\n", &problem);
    tn_problem_destroy(problem);
}

/* One body whose name is `name`. */
static void only_named(const char *text, const char *name) {
    tn_problem *problem;
    only_body(text, &problem);
    assert_string_equal(tn_problem_body(problem, 0)->name, name);
    assert_int_equal(tn_problem_body(problem, 0)->size, 100);
    tn_problem_destroy(problem);
}

static void separators_and_quotes_are_those_of_spreadsheets(void **state) {
    (void)state;
    only_named("id;lower;upper;size\na;0;3;100\n", "a");
    only_named("id\tlower\tupper\tsize\na b\t0\t3\t100\n", "a b");
    only_named("id lower  upper size\na 0 3 100\n", "a");
    only_named("id, lower, upper, size\n a , 0, 3, 100\n", "a");
    only_named("\"id\",\"lower\",upper,size\r\n\"a,b\",0,3,100\r\n", "a,b");
    only_named("id,lower,upper,size\n\"a\"\"b\nc\",0,3,\"100\"\n", "a\"b\nc");
    only_named("id,lower,upper,size\n\"  a\" ,0,3,100\n", "  a");
    only_named("id,lower,upper,size\n\"abc,0,3,100\n", "\"abc"); /* MiniMalloc knows no quotes */
    only_named("id,lower,upper,size\n\"a\"b,0,3,100\n", "\"a\"b");
    only_named("id,lower,upper,size\na\"b,0,3,100\n", "a\"b");
}

/* Whatever a name is made of, it is written so that it is read again. */
static void every_name_reads_back(void **state) {
    (void)state;
    static const char letters[] = ",;\"\"\n\r\t ab=-'";
    tn__random random = {7};
    for (int round = 0; round < 2000; round++) {
        char name[9];
        tn_problem *problem, *again;
        tn__text text;
        uint32_t length = (uint32_t)(tn__random_next(&random) % 8);
        for (uint32_t i = 0; i < length; i++)
            name[i] = letters[tn__random_next(&random) % (sizeof letters - 1)];
        name[length] = '\0';
        assert_ok(tn_problem_create(NULL, &problem, &failure));
        for (int i = 0; i < 2; i++)
            assert_ok(tn_problem_add(problem, &(tn_body){.name = name, .size = 8, .last = 3}, NULL,
                                     &failure));
        tn__text_init(&text, NULL);
        assert_ok(tn__csv_render(problem, NULL, &text, &failure));
        assert_ok(read_text(text.data, &again, NULL));
        assert_int_equal(tn_problem_count(again), 2);
        for (tn_body_id i = 0; i < 2; i++)
            assert_string_equal(tn_problem_body(again, i)->name, name);
        tn__text_release(&text);
        tn_problem_destroy(again);
        tn_problem_destroy(problem);
    }
}

static void nonsense_is_refused_with_its_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text, *where, *what;
    } cases[] = {
        {"", "t.csv:1", "header"},
        {"id,lower,size\n", "t.csv:1", "header"},
        {"id,lower,upper,size,size\n", "t.csv:1", "twice"},
        {"id,lower,upper,size,begin\n", "t.csv:1", "twice"},
        {"id,lower,upper,size\na,0,1\n", "t.csv:2", "fields"},
        {"id,lower,upper,size\na,0,1,1,1\n", "t.csv:2", "fields"},
        {"id,lower,upper,size\na,0,1,x\n", "t.csv:2", "'size'"},
        {"id,lower,upper,size\na,0,1,-1\n", "t.csv:2", "'size'"},
        {"id,lower,upper,size\na,0,1,9223372036854775808\n", "t.csv:2", "'size'"},
        {"id,lower,upper,size\na,0,1,1\nb,2,2,1\n", "t.csv:3", "'upper'"},
        {"id,lower,end,size\na,0,9223372036854775807,1\n", "t.csv:2", "'upper'"},
        {"id,lower,upper,size,alignment\na,0,1,1,3\n", "t.csv:2", "'alignment'"},
        {"id,lower,upper,size,gaps\na,0,9,1,3-2\n", "t.csv:2", "'gaps'"},
        {"id,lower,upper,size,gaps\na,0,9,1,3-5 4-6\n", "t.csv:2", "'gaps'"},
        {"id,lower,upper,size,gaps\na,0,9,1,0-9\n", "t.csv:2", "'gaps'"},
        {"id,lower,upper,size,gaps\na,0,9,4,1-2@2:5\n", "t.csv:2", "'gaps'"},
        {"id,lower,upper,size,offset\na,0,9,4,-1\n", "t.csv:2", "'offset'"},
        {"id,lower,upper,size,leader\na,0,9,4,a\n", "t.csv:2", "'leader'"},
        {"id,lower,upper,size,leader\na,0,9,4,b\nb,0,9,4,\n", "t.csv:2", "'leader'"},
        {"id,lower,upper,size,leader,delta\na,0,9,4,,\nb,0,9,4,a,9223372036854775807\n", "t.csv:3",
         "2^63"},
        {"id,lower,upper,size,leader,delta\na,0,9,4,,\nb,0,9,4,a,-1\n", "t.csv:3", "'delta'"},
        {"id,lower,upper,size,alignment,leader,delta\na,0,9,4,1,,\nb,0,9,4,4,a,6\n", "t.csv:3",
         "alignment"},
        {"id,lower,upper,size,begins,ends\na,0,9,4,0 0,1 0\nb,0,9,4,0,1 0\n", "t.csv:3",
         "'begins'"},
        {"id,lower,upper,size,begins,ends\na,0,9,4,0 0,1 0/1 0\n", "t.csv:2", "'ends'"},
        {"id,lower,upper,size,begins\na,0,9,4,0 x\n", "t.csv:2", "'begins'"},
        {"id,lower,upper,size,any_bank,pinned,offset\na,0,9,4,1,1,0\n", "t.csv:2", "pinned"},
        {"id,lower,upper,size,gaps\na,0,9,4,1-2@0:1+\n", "t.csv:2", "'gaps'"},
        {"id,lower,upper,size,gaps\na,0,9,4,1-2@0:1+2:5\n", "t.csv:2", "'gaps'"},
        {"id;lower;size\n", "t.csv:1", "semicolons"},
        {"id,lower,upper,size\n\"a\nb\",0,1,1\nc,0,1,x\n", "t.csv:4", "'size'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_problem *problem = NULL;
        assert_int_equal(read_text(cases[i].text, &problem, NULL), TN_E_INVALID);
        assert_null(problem);
        if (strcmp(failure.where, cases[i].where) != 0 ||
            strstr(failure.message, cases[i].what) == NULL)
            fail_msg("case %zu: %s: %s\n", i, failure.where, failure.message);
    }
}

static bool same_piece(const tn_piece *a, const tn_piece *b, uint32_t streams) {
    bool same = a->first == b->first && a->last == b->last && a->lo == b->lo && a->hi == b->hi;
    for (uint32_t s = 0; s < streams && streams > 1 && same; s++)
        same = a->begins[s] == b->begins[s] && a->ends[s] == b->ends[s];
    return same;
}

static void assert_same(const tn_problem *a, const tn_problem *b, uint64_t seed) {
    assert_int_equal(tn_problem_count(a), tn_problem_count(b));
    assert_int_equal(tn_problem_streams(a), tn_problem_streams(b));
    for (uint32_t i = 0; i < tn_problem_count(a); i++) {
        const tn_body *x = tn_problem_body(a, i), *y = tn_problem_body(b, i);
        bool same =
            x->size == y->size && x->first == y->first && x->last == y->last &&
            x->alignment == y->alignment && (x->bank == y->bank || (x->flags & TN_BODY_ANY_BANK)) &&
            x->flags << 1 == y->flags << 1 && x->leader == y->leader && x->delta == y->delta &&
            x->traffic == y->traffic && x->piece_count == y->piece_count &&
            (!(x->flags & TN_BODY_PINNED) || x->offset == y->offset);
        for (uint32_t k = 0; same && k < x->piece_count; k++)
            same = same_piece(&x->pieces[k], &y->pieces[k], tn_problem_streams(a));
        if (!same) fail_msg("seed %llu, body %u\n", (unsigned long long)seed, i);
    }
}

static void what_is_written_reads_back_the_same(void **state) {
    (void)state;
    uint32_t written = 0;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.work_limit = 1000; /* any plan will do */
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        unsigned kinds = (unsigned)(seed % 64) | (seed & 64 ? KIT_CHOICE : 0u);
        tn_problem *problem = kit_random(seed, 12, 60, 15, kinds), *again;
        tn__text text;
        tn_layout layout;
        uint64_t *offsets;
        tn__text_init(&text, NULL);
        assert_ok(tn_plan(problem, &options, &layout, &failure));
        tn_status status = tn__csv_render(problem, NULL, &text, &failure);
        if (status == TN_E_UNSUPPORTED) { /* two windows at one time, with clocks */
            assert_true((kinds & KIT_PIECES) && tn_problem_streams(problem) > 1);
        } else {
            written++;
            assert_ok(status);
            assert_ok(read_text(text.data, &again, NULL));
            assert_same(problem, again, seed);
            tn_problem_destroy(again);
            text.size = 0;
            assert_ok(tn__csv_render(problem, &layout, &text, &failure)); /* with the plan */
            assert_ok(read_text(text.data, &again, &offsets));
            assert_same(problem, again, seed);
            assert_memory_equal(offsets, layout.offset, 12 * sizeof *offsets);
            tn_offsets_release(NULL, offsets, 12);
            tn_problem_destroy(again);
        }
        tn__text_release(&text);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
    assert_true(written > 1800);
}

static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    static const char text[] = "id,lower,upper,size,gaps,offset\na,0,9,8,2-3,0\nb,1,2,3,,8\n";
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status != TN_OK && fail_at < 200; fail_at++) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_problem *problem = NULL;
        uint64_t *offsets = NULL;
        status = tn_problem_load_memory("t.csv", text, sizeof text - 1, &context, &problem,
                                        &offsets, &failure);
        assert_true(status == TN_OK ||
                    (status == TN_E_NO_MEMORY && problem == NULL && offsets == NULL));
        if (status == TN_OK) tn_offsets_release(&context, offsets, 2);
        tn_problem_destroy(problem);
        assert_int_equal(memory.held, 0);
    }
    assert_int_equal(status, TN_OK);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_of_a_column_is_known),
        cmocka_unit_test(a_column_called_end_is_inclusive_also_in_gaps),
        cmocka_unit_test(banks_of_a_file_without_names_have_different_names),
        cmocka_unit_test(offsets_pin_unless_the_caller_asks_for_them),
        cmocka_unit_test(the_first_empty_line_ends_the_file),
        cmocka_unit_test(nonsense_is_refused_with_its_line_and_column),
        cmocka_unit_test(separators_and_quotes_are_those_of_spreadsheets),
        cmocka_unit_test(every_name_reads_back),
        cmocka_unit_test(what_is_written_reads_back_the_same),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
