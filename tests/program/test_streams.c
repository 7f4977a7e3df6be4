/* test_streams.c - programs with operators on several streams: in any order of execution that the
 * streams and signals allow, every operator reads what its producers wrote, whatever else lies in
 * the same memory. Independent of the clocks that the plan is made from: orders are drawn, and each
 * byte of the arena holds a mark of the tensor that wrote it.
 */
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "count.h"
#include "random_graph.h"

#include <inttypes.h>

enum { STREAMS = 4, ORDERS = 12, SIGNALS = 4096 };

typedef struct play {
    const tn_program *program;
    const tn_occupancy *occupancy;
    const tn_layout *layout;
    const tn_graph *graph;
    uint32_t *arena;     /* [bytes of the arena] the mark of each byte */
    uint32_t **expected; /* [tensors] the marks of its bytes; NULL: not written yet */
    uint64_t seed;
} play;

static const tn_life *life_of(const play *p, tn_tensor_id tensor) {
    const tn_life *lives = tn_occupancy_lives(p->occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(p->occupancy); i++)
        if (lives[i].tensor == tensor) return &lives[i];
    return NULL;
}

static uint32_t *place_of(const play *p, const tn_life *life) {
    return p->arena + p->layout->offset[life->body] + life->delta;
}

static void reads(const play *p, tn_tensor_id tensor, uint32_t step) {
    const tn_life *life = tensor == TN_NONE ? NULL : life_of(p, tensor);
    if (life == NULL || life->whole) return; /* a constant, or a view at an unknown place */
    assert_non_null(p->expected[tensor]);
    for (uint64_t i = 0; i < life->bytes; i++)
        if (place_of(p, life)[i] != p->expected[tensor][i])
            fail_msg("seed %llu: step %u reads tensor %u, and byte %llu is of tensor %u",
                     (unsigned long long)p->seed, step, tensor, (unsigned long long)i,
                     place_of(p, life)[i] - 1);
}

static void writes(const play *p, tn_tensor_id tensor) {
    const tn_life *life = tensor == TN_NONE ? NULL : life_of(p, tensor);
    if (life == NULL) return;
    if (p->expected[tensor] == NULL)
        p->expected[tensor] = malloc((life->bytes + 1) * sizeof *p->expected[tensor]);
    for (uint64_t i = 0; i < life->bytes && life->share != TN_SHARE_VIEW; i++)
        place_of(p, life)[i] = tensor + 1;
    if (!life->whole)
        memcpy(p->expected[tensor], place_of(p, life), life->bytes * sizeof **p->expected);
}

static void run_step(const play *p, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(p->program)[step];
    if (it->opcode == TN_PUT) writes(p, it->tensor);
    if (it->opcode == TN_GET) reads(p, it->tensor, step);
    if (it->opcode != TN_APPLY) return;
    const tn_op *op = tn_graph_op(p->graph, it->op);
    for (uint32_t i = 0; i < op->input_count; i++) reads(p, op->inputs[i], step);
    const tn_life *lives = tn_occupancy_lives(p->occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(p->occupancy); i++)
        for (uint64_t b = 0;
             lives[i].tensor == TN_NONE && lives[i].op == it->op && b < lives[i].bytes; b++)
            place_of(p, &lives[i])[b] = 0; /* scratch */
    for (uint32_t k = 0; k < op->output_count; k++) writes(p, op->outputs[k]);
}

/* Runs the next instruction of a random stream, again and again, unless it waits for a signal that
 * was not given yet. */
static void play_once(play *p, tn__random *random) {
    const tn_instruction *list = tn_program_instructions(p->program);
    uint32_t count = tn_program_count(p->program), next[STREAMS], done = 0;
    static bool given[SIGNALS];
    memset(given, 0, sizeof given);
    memset(next, 0, sizeof next);
    for (uint32_t t = 0; t < tn_graph_tensor_count(p->graph); t++) {
        free(p->expected[t]);
        p->expected[t] = NULL;
    }
    while (done < count) {
        uint32_t stream = (uint32_t)tn__random_below(random, STREAMS), at = next[stream];
        while (at < count && list[at].stream != stream) at++;
        next[stream] = at;
        if (at == count || (list[at].wait != 0 && !given[list[at].wait])) continue;
        run_step(p, at);
        assert_true(list[at].signal < SIGNALS);
        given[list[at].signal] = true;
        next[stream]++;
        done++;
    }
}

static void play_orders(play *p, tn__random *random) {
    uint32_t tensors = tn_graph_tensor_count(p->graph);
    p->arena = calloc(p->layout->peak + 1, sizeof *p->arena);
    p->expected = calloc(tensors + 1u, sizeof *p->expected);
    for (uint32_t k = 0; k < ORDERS; k++) play_once(p, random);
    for (uint32_t t = 0; t < tensors; t++) free(p->expected[t]);
    free(p->expected);
    free(p->arena);
}

/* One drawn graph, on some streams. */
static void check_seed(uint64_t seed, uint64_t *waits, uint64_t *above) {
    tn_graph *graph = random_graph(seed, false);
    tn__random random = {.state = seed};
    tn_program *plain, *made;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_program_streams_options options = TN_PROGRAM_STREAMS_OPTIONS_INIT;
    tn_program_streams_report report;
    uint32_t ops = tn_graph_op_count(graph);
    uint32_t *stream_of = calloc(ops + 1u, sizeof *stream_of);
    assert_ok(tn_graph_infer(graph, &failure));
    options.count = 1 + (uint32_t)tn__random_below(&random, STREAMS);
    for (uint32_t i = 0; i < ops; i++)
        stream_of[i] = tn__random_below(&random, 3) == 0
                           ? TN_NONE
                           : (uint32_t)tn__random_below(&random, options.count);
    if (seed % 2 == 0) options.stream_of = stream_of;
    plan.work_limit = 1000;
    assert_ok(tn_program_create(graph, NULL, &plain, &failure));
    assert_ok(tn_program_on_streams(plain, &options, &made, &failure));
    assert_ok(tn_program_streams_of(made, NULL, &report, &failure));
    assert_true(report.total_ps <= report.serial_ps || options.stream_of != NULL);
    assert_true(options.count > 1 || (report.waits == 0 && report.total_ps == report.serial_ps));
    for (uint32_t i = 0; i < tn_program_count(made); i++) {
        const tn_instruction *it = &tn_program_instructions(made)[i];
        assert_true(it->stream < options.count);
        if (it->opcode == TN_APPLY && seed % 2 == 0 && stream_of[it->op] != TN_NONE)
            assert_int_equal(it->stream, stream_of[it->op]);
    }
    assert_ok(tn_occupancy_create(made, NULL, &occupancy, &failure));
    assert_ok(tn_plan(tn_occupancy_problem(occupancy), &plan, &layout, &failure));
    assert_ok(tn_layout_verify(tn_occupancy_problem(occupancy), &layout, NULL, &failure));
    play p = {
        .program = made, .occupancy = occupancy, .layout = &layout, .graph = graph, .seed = seed};
    play_orders(&p, &random);
    *waits += report.waits;
    *above += tn_problem_streams(tn_occupancy_problem(occupancy)) > 1;
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(made);
    tn_program_destroy(plain);
    tn_graph_destroy(graph);
    free(stream_of);
}

static void any_order_of_the_streams_computes_the_same(void **state) {
    uint64_t waits = 0, above = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)case_count(2000, 100); seed++)
        check_seed(seed, &waits, &above);
    assert_true(waits > 100 && above > 10);
}

/* Two chains of equal operators on two streams take half the time, and wait for nothing but the
 * input and the end. */
static void two_chains_run_beside_each_other(void **state) {
    tn_graph *graph;
    tn_program *plain, *made;
    tn_program_streams_options options = TN_PROGRAM_STREAMS_OPTIONS_INIT;
    tn_program_streams_report report;
    (void)state;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 1 << 16, 0), ends[2];
    for (uint32_t k = 0; k < 2; k++) {
        tn_tensor_id at = x;
        for (uint32_t i = 0; i < 5; i++) {
            tn_tensor_id y = vector(graph, "y", TN_KIND_ACTIVATION, 1 << 16, 0);
            apply(graph, "Relu", 0, &at, 1, &y, 1);
            at = y;
        }
        ends[k] = at;
    }
    assert_ok(tn_graph_set_block_io(graph, 0, &x, 1, ends, 2, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_program_create(graph, NULL, &plain, &failure));
    options.count = 2;
    assert_ok(tn_program_on_streams(plain, &options, &made, &failure));
    assert_ok(tn_program_streams_of(made, NULL, &report, &failure));
    assert_int_equal(report.total_ps * 2, report.serial_ps);
    assert_int_equal(report.streams, 2);
    assert_int_equal(report.waits, 2);
    tn_program_destroy(made);
    options.count = TN_STREAM_MAX + 1;
    assert_int_equal(tn_program_on_streams(plain, &options, &made, &failure), TN_E_INVALID);
    uint32_t nowhere[10] = {7};
    options.count = 2;
    options.stream_of = nowhere;
    assert_int_equal(tn_program_on_streams(plain, &options, &made, &failure), TN_E_INVALID);
    tn_program_destroy(plain);
    tn_graph_destroy(graph);
}

/* --- tensors that lie one after another --- */

/* Four gradients that are computed apart from each other, and read by one operator at the end. */
static tn_graph *four_gradients(const char *type) {
    tn_graph *graph;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 100, 0), g[4];
    for (uint32_t i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "g%u", i);
        g[i] = vector(graph, name, TN_KIND_ACTIVATION, 100, 0);
        apply(graph, type, 0, &x, 1, &g[i], 1);
    }
    tn_tensor_id sum = vector(graph, "sum", TN_KIND_OUTPUT, 100, 0);
    apply(graph, "Sum", 0, g, 4, &sum, 1);
    assert_ok(tn_graph_set_block_io(graph, 0, &x, 1, &sum, 1, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    return graph;
}

static void check_adjacent(const char *planner) {
    static const char *const patterns[] = {"g[no]", "g?"};
    tn_graph *graph = four_gradients("Neg");
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    uint64_t at[4] = {0};
    uint32_t found = 0;
    plan.planner = planner;
    plan.work_limit = 1000;
    assert_ok(tn_program_create(graph, NULL, &program, &failure));
    options.adjacent = patterns;
    options.adjacent_count = 2; /* nothing has the first name */
    assert_int_equal(tn_occupancy_create(program, &options, &occupancy, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "no tensor matches 'g[no]'"));
    options.adjacent = patterns + 1;
    options.adjacent_count = 1;
    assert_ok(tn_occupancy_create(program, &options, &occupancy, &failure));
    assert_ok(tn_plan(tn_occupancy_problem(occupancy), &plan, &layout, &failure));
    assert_ok(tn_layout_verify(tn_occupancy_problem(occupancy), &layout, NULL, &failure));
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
        const tn_life *life = &tn_occupancy_lives(occupancy)[i];
        const char *name =
            life->tensor != TN_NONE ? tn_graph_tensor(graph, life->tensor)->name : "";
        if (name[0] != 'g') continue;
        at[name[1] - '0'] = layout.offset[life->body] + life->delta;
        found++;
    }
    assert_int_equal(found, 4);
    for (uint32_t i = 1; i < 4; i++)
        if (at[i] != at[0] + 128 * i)
            fail_msg("%s: %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, planner, at[0], at[1],
                     at[2], at[3]);
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(graph);
}

static void adjacent_tensors_lie_one_after_another(void **state) {
    static const char *const planners[] = {NULL, "exact", "somas", "greedy-by-size", "naive"};
    static const char *const twice[] = {"g1", "g*"};
    tn_graph *graph = four_gradients("Neg"), *views = four_gradients("Identity");
    tn_program *program;
    tn_occupancy *occupancy;
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    (void)state;
    for (size_t i = 0; i < sizeof planners / sizeof *planners; i++) check_adjacent(planners[i]);
    options.adjacent = twice;
    options.adjacent_count = 2;
    assert_ok(tn_program_create(graph, NULL, &program, &failure));
    assert_int_equal(tn_occupancy_create(program, &options, &occupancy, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "two patterns"));
    tn_program_destroy(program);
    /* four views of one input are at one place */
    options.adjacent_count = 1;
    options.adjacent = (const char *const[]){"g*"};
    assert_ok(tn_program_create(views, NULL, &program, &failure));
    assert_int_equal(tn_occupancy_create(program, &options, &occupancy, &failure), TN_E_CONFLICT);
    options.no_views = true;
    assert_ok(tn_occupancy_create(program, &options, &occupancy, &failure));
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(views);
    tn_graph_destroy(graph);
}

/* --- further waits --- */

/* With the dependencies that a plan for one stream adds, the streams run in its arena; without
 * them, the streams need more. */
static void the_waits_of_a_plan_keep_its_arena(void **state) {
    uint32_t more = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= (uint64_t)case_count(300, 40); seed++) {
        tn_graph *graph = random_graph(seed, false);
        tn_program *plain, *made[2];
        tn_occupancy *occupancy[3];
        tn_layout layout[3];
        tn_dependency *after;
        tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
        tn_program_streams_options options = TN_PROGRAM_STREAMS_OPTIONS_INIT;
        plan.planner = "exact";
        plan.work_limit = 20000;
        options.count = 3;
        assert_ok(tn_graph_infer(graph, &failure));
        assert_ok(tn_program_create(graph, NULL, &plain, &failure));
        assert_ok(tn_occupancy_create(plain, NULL, &occupancy[0], &failure));
        assert_ok(tn_plan(tn_occupancy_problem(occupancy[0]), &plan, &layout[0], &failure));
        assert_ok(
            tn_plan_dependencies(occupancy[0], &layout[0], &after, &options.after_count, &failure));
        options.after = after;
        for (uint32_t k = 0; k < 2; k++) {
            assert_ok(tn_program_on_streams(plain, &options, &made[k], &failure));
            assert_ok(tn_occupancy_create(made[k], NULL, &occupancy[1 + k], &failure));
            plan.planner = NULL;
            assert_ok(
                tn_plan(tn_occupancy_problem(occupancy[1 + k]), &plan, &layout[1 + k], &failure));
            options.after_count = 0;
        }
        more += layout[2].peak > layout[1].peak;
        play p = {.program = made[0],
                  .occupancy = occupancy[1],
                  .layout = &layout[1],
                  .graph = graph,
                  .seed = seed};
        play_orders(&p, &(tn__random){.state = seed});
        for (uint32_t k = 0; k < 3; k++) {
            tn_layout_release(&layout[k]);
            tn_occupancy_destroy(occupancy[k]);
        }
        tn_dependencies_release(after);
        tn_program_destroy(made[0]);
        tn_program_destroy(made[1]);
        tn_program_destroy(plain);
        tn_graph_destroy(graph);
    }
    assert_true(more > 2);
}

/* Waits that another wait of the same operator implies are left out: here only the last of three
 * operators in a row, each on a stream of its own, gives a signal to the fourth stream. */
static void a_wait_that_another_implies_is_left_out(void **state) {
    static const tn_stream_rule rules[] = {{"n0", 0}, {"n1", 1}, {"n2", 2}, {"n3", 3}};
    tn_graph *graph;
    tn_program *plain, *made;
    tn_program_streams_options options = TN_PROGRAM_STREAMS_OPTIONS_INIT;
    tn_program_streams_report report;
    (void)state;
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 8, 0), y[4];
    for (uint32_t i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%u", i);
        y[i] = vector(graph, "y", i == 3 ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, 8, 0);
        const tn_tensor_id in[3] = {i > 0 ? y[i - 1] : x, i == 3 ? y[0] : x, i == 3 ? y[1] : x};
        tn_op_spec spec = {.type = "Sum",
                           .name = name,
                           .version = 13,
                           .inputs = in,
                           .input_count = 3,
                           .outputs = &y[i],
                           .output_count = 1};
        assert_ok(tn_graph_add_op(graph, &spec, NULL, &failure));
    }
    assert_ok(tn_graph_set_block_io(graph, 0, &x, 1, &y[3], 1, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    assert_ok(tn_program_create(graph, NULL, &plain, &failure));
    options.count = 4;
    options.rules = rules;
    options.rule_count = 4;
    assert_ok(tn_program_on_streams(plain, &options, &made, &failure));
    assert_ok(tn_program_streams_of(made, NULL, &report, &failure));
    assert_int_equal(report.streams, 4);
    assert_int_equal(report.waits, 4); /* each operator for the one before it, and the output */
    tn_program_destroy(made);
    options.rules = (const tn_stream_rule[]){{"nobody*", 0}};
    options.rule_count = 1;
    assert_int_equal(tn_program_on_streams(plain, &options, &made, &failure), TN_E_INVALID);
    options.rule_count = 0;
    const tn_dependency backward = {2, 1};
    options.after = &backward;
    options.after_count = 1;
    assert_int_equal(tn_program_on_streams(plain, &options, &made, &failure), TN_E_INVALID);
    tn_program_destroy(plain);
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_the_streams_computes_the_same),
        cmocka_unit_test(two_chains_run_beside_each_other),
        cmocka_unit_test(adjacent_tensors_lie_one_after_another),
        cmocka_unit_test(the_waits_of_a_plan_keep_its_arena),
        cmocka_unit_test(a_wait_that_another_implies_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
