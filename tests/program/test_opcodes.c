/* test_opcodes.c - programs of all opcodes: made at random, verified, planned by many planners,
 * executed on the planned bytes in many orders of their streams.
 *
 * test_program_opcodes --count N [--seed S]: that many programs, and what was in them.
 */
#include "opcodes.h"

typedef struct tally {
    uint64_t programs, runs, instructions, opcodes[TN_OPCODE_COUNT], again, own, streams, refused,
        host_peak, copied;
} tally;

/* The searches take a thousand times as long as the greedy ones, so they are drawn less often. */
static const char *const quick[] = {"greedy-by-size", "best-fit", "time-order", "two-ended",
                                    "given-order"};
static const char *const thorough[] = {NULL, "exact", "scale", "ggml", "colouring"};

static void options_of(tn_occupancy_options *options, uint64_t mode) {
    *options = (tn_occupancy_options)TN_OCCUPANCY_OPTIONS_INIT;
    options->alignment = 1;
    options->inplace = mode % 3 == 1 ? TN_INPLACE_NONE : TN_INPLACE_CHOOSE;
    options->no_views = mode % 5 == 1;
    options->parallel = mode % 7 == 1 ? TN_PARALLEL_SAFE : TN_PARALLEL_SERIAL;
}

static tn_status plan(const tn_problem *problem, const char *planner, tn_layout *layout) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.planner = planner;
    options.work_limit = 1000;
    return tn_plan(problem, &options, layout, &failure);
}

/* The same bodies, each over a step, or an event of every stream, too early; `wholly`: as soon as
 * they are there. */
static tn_problem *cut_short(const tn_problem *problem, bool wholly) {
    tn_problem *made;
    assert_ok(tn_problem_create(NULL, &made, &failure));
    uint32_t streams = tn_problem_streams(problem);
    if (streams > 1) assert_ok(tn_problem_set_streams(made, streams, &failure));
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        tn_body body = *tn_problem_body(problem, b);
        tn_piece pieces[64];
        static int64_t ends[64][STEPS_MAX];
        assert_true(body.piece_count <= 64);
        for (uint32_t p = 0; p < body.piece_count; p++) {
            pieces[p] = body.pieces[p];
            if (pieces[p].last > pieces[p].first + 1) pieces[p].last--;
            if (wholly) pieces[p].last = pieces[p].first + 1;
            for (uint32_t s = 0; s < streams && pieces[p].ends != NULL; s++)
                ends[p][s] = pieces[p].ends[s] <= pieces[p].begins[s] + 1 ? pieces[p].ends[s]
                             : wholly                                     ? pieces[p].begins[s] + 1
                                                                          : pieces[p].ends[s] - 1;
            if (pieces[p].ends != NULL) pieces[p].ends = ends[p];
        }
        body.pieces = pieces;
        assert_ok(tn_problem_add(made, &body, NULL, &failure));
    }
    return made;
}

typedef enum cut_of { CUT_NONE, CUT_DEVICE, CUT_HOST } cut_of;

/* A layout of the problem, or of one whose lives are cut short. */
static void plan_of(const tn_problem *problem, cut_of shorter, tn__random *random, tally *sum,
                    tn_layout *layout) {
    tn_problem *cut = shorter != CUT_NONE ? cut_short(problem, shorter == CUT_HOST) : NULL;
    const char *const *some = tn__random_below(random, 16) ? quick : thorough;
    const char *planner = some[tn__random_below(random, 5)];
    tn_status status = plan(cut != NULL ? cut : problem, planner, layout);
    if (status == TN_E_UNSUPPORTED || status == TN_E_STOPPED) {
        sum->refused++; /* it does not know clocks */
        status = plan(cut != NULL ? cut : problem, NULL, layout);
    }
    assert_int_equal(status, TN_OK);
    if (shorter == CUT_NONE) assert_ok(tn_layout_verify(problem, layout, NULL, &failure));
    tn_problem_destroy(cut);
}

/* How many reads were lost; `shorter`: whose lives are cut before they are planned. */
static uint64_t judge_program(const writer *made, uint64_t seed, cut_of shorter, tally *sum) {
    static judge j;
    tn_program *program;
    tn_occupancy_options options;
    tn_layout layout, host_layout;
    tn_host host;
    tn__random random = {.state = seed};
    if (program_of(made, &program))
        fail_msg("seed %llu: a valid program is refused: %s: %s\n", (unsigned long long)seed,
                 failure.where, failure.message);
    options_of(&options, tn__random_next(&random) % 105);
    j.made = made;
    j.program = program;
    j.lost = 0;
    assert_ok(tn_occupancy_create(program, &options, &j.occupancy, &failure));
    const tn_problem *problem = tn_occupancy_problem(j.occupancy);
    plan_of(problem, shorter == CUT_DEVICE ? shorter : CUT_NONE, &random, sum, &layout);
    assert_ok(tn_program_host(program, 1, &host, &failure));
    plan_of(host.problem, shorter == CUT_HOST ? shorter : CUT_NONE, &random, sum, &host_layout);
    j.host = &host;
    j.host_layout = &host_layout;
    j.host_memory = calloc((size_t)host_layout.peak + 1, sizeof *j.host_memory);
    sum->host_peak += host_layout.peak;
    sum->copied += host.copied;
    j.layout = &layout;
    j.memory = malloc((size_t)(layout.peak + 1) * sizeof *j.memory);
    learn(&j);
    find_places(&j);
    for (int way = 0; way < 2 && j.lost == 0; way++, sum->runs++) judge_run(&j, &random);
    if (j.lost > 0 && shorter == CUT_NONE)
        fail_msg("seed %llu: %llu reads are lost, the first at instruction %u (%s)\n",
                 (unsigned long long)seed, (unsigned long long)j.lost, j.lost_at,
                 tn_opcode_name(made->list[j.lost_at].opcode));
    sum->streams += tn_problem_streams(problem) > 1;
    free(j.memory);
    free(j.host_memory);
    tn_host_release(&host);
    tn_layout_release(&host_layout);
    tn_layout_release(&layout);
    tn_occupancy_destroy(j.occupancy);
    tn_program_destroy(program);
    return j.lost;
}

static void judge_many(uint64_t first, uint64_t count, tally *sum) {
    static writer made;
    for (uint64_t seed = first; seed < first + count; seed++) {
        write_program_of(&made, seed, 0, seed % 2);
        judge_program(&made, seed, CUT_NONE, sum);
        sum->programs++;
        sum->own += made.own_count;
        sum->instructions += made.count;
        for (uint32_t i = 0; i < made.count; i++) {
            const tn_instruction *it = &made.list[i];
            sum->opcodes[it->opcode]++;
            sum->again += it->again && is_norm(tn_graph_op(made.graph, it->op));
        }
        tn_graph_destroy(made.graph);
    }
}

static void every_read_of_every_opcode_finds_what_was_written(void **state) {
    tally sum = {0};
    (void)state;
    judge_many(1, 3000, &sum);
    for (uint32_t i = 0; i < TN_OPCODE_COUNT; i++)
        if (sum.opcodes[i] < 100)
            fail_msg("only %llu x %s\n", (unsigned long long)sum.opcodes[i],
                     tn_opcode_name((tn_opcode)i));
    assert_true(sum.again > 300); /* by another type */
    assert_true(sum.own > 300);   /* forms */
    assert_true(sum.streams > 1000);
    assert_true(10 * sum.host_peak < 9 * sum.copied); /* copies lie where others were */
}

static void a_plan_with_lives_cut_short_is_found_out(void **state) {
    static writer made;
    tally sum = {0};
    uint32_t found = 0, on_host = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        write_program(&made, seed, 0);
        found += judge_program(&made, seed, CUT_DEVICE, &sum) > 0;
        on_host += judge_program(&made, seed, CUT_HOST, &sum) > 0;
        tn_graph_destroy(made.graph);
    }
    assert_true(found > 75); /* in the others nothing takes bytes too early */
    assert_true(on_host > 10);
}

/* Leaves out what one instruction waits for. */
static bool forget_to_wait(writer *made, uint64_t seed) {
    uint32_t at = (uint32_t)(seed * 7919 % made->count);
    for (uint32_t i = 0; i < made->count; i++, at = (at + 1) % made->count) {
        if (made->list[at].wait == 0) continue;
        made->list[at].wait = 0;
        if (made->list[at].opcode == TN_WAIT)
            memmove(&made->list[at], &made->list[at + 1],
                    (--made->count - at) * sizeof *made->list);
        return true;
    }
    return false;
}

/* The verifier refuses it, or whoever runs it loses nothing. */
static void who_forgets_to_wait_is_refused_where_it_matters(void **state) {
    static writer made;
    tally sum = {0};
    uint32_t refused = 0, harmless = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 6000; seed++) {
        tn_program *program = NULL;
        write_program(&made, seed, 0);
        if (forget_to_wait(&made, seed)) {
            if (tn_program_from(made.graph, made.list, made.count, NULL, 0, &program, &failure)) {
                if (strstr(failure.message, "may not be over") == NULL)
                    fail_msg("seed %llu: %s: %s\n", (unsigned long long)seed, failure.where,
                             failure.message);
                refused++;
            } else {
                judge_program(&made, seed, CUT_NONE, &sum);
                harmless++;
            }
        }
        tn_program_destroy(program);
        tn_graph_destroy(made.graph);
    }
    assert_true(refused > 1000);
    assert_true(harmless > 5);
}

static int stress(uint64_t seed, uint64_t count) {
    tally sum = {0};
    double start = tn__clock_s();
    judge_many(seed, count, &sum);
    printf("%llu programs (%llu with clocks), %llu instructions, %llu runs, %.0f s; the planner "
           "was changed for %llu\n",
           (unsigned long long)sum.programs, (unsigned long long)sum.streams,
           (unsigned long long)sum.instructions, (unsigned long long)sum.runs,
           tn__clock_s() - start, (unsigned long long)sum.refused);
    printf("again     %llu\nforms     %llu\n", (unsigned long long)sum.again,
           (unsigned long long)sum.own);
    for (uint32_t i = 0; i < TN_OPCODE_COUNT; i++)
        printf("%-9s %llu\n", tn_opcode_name((tn_opcode)i), (unsigned long long)sum.opcodes[i]);
    return 0;
}

int main(int count, char **arguments) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_read_of_every_opcode_finds_what_was_written),
        cmocka_unit_test(a_plan_with_lives_cut_short_is_found_out),
        cmocka_unit_test(who_forgets_to_wait_is_refused_where_it_matters),
    };
    uint64_t seed = 1, programs = 0;
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(arguments[i], "--count") == 0) programs = strtoull(arguments[i + 1], NULL, 10);
        if (strcmp(arguments[i], "--seed") == 0) seed = strtoull(arguments[i + 1], NULL, 10);
    }
    if (programs > 0) return stress(seed, programs);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
