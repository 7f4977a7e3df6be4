/* test_trace.c - a run as files: rows of the trace against the events they come from, its counters
 * against the curve of the plan counted byte by byte, its allocations as `tenure replay` reads
 * them. */
#include <unistd.h>

#include <jansson.h>

#include <tenure/pool.h>

#include "report_tools.h"

#include "graph/kit.h"
#include "program/holders.h"

enum { RUNS = 2 };

typedef struct run {
    test_kit kit;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_trace *trace;
    tn_report report;
    uint32_t steps;
} run;

static void add_ops(test_kit *kit, tn__random *random, uint32_t ops) {
    static const char *const types[] = {"Relu", "Sigmoid", "Add", "CumSum"};
    tn_tensor_id ids[64] = {kit_input(kit, "x, \"<\x1b>\"\n", TN_FLOAT32, KIT_SHAPE(3, 7))};
    tn_tensor_id axis = kit_list(kit, 1, (int64_t[]){0});
    for (uint32_t i = 0; i < ops; i++) {
        char name[32];
        snprintf(name, sizeof name, "tensor %u", i);
        tn_tensor_id output = kit_tensor(kit, i % 5 == 4 ? "" : name,
                                         i + 1 == ops ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION,
                                         TN_UNDEFINED, i + 1 == ops ? TN_RANK_UNKNOWN : 0, NULL);
        tn_tensor_id a = ids[i], b = ids[tn__random_below(random, i + 1)];
        const char *type = types[tn__random_below(random, 4)];
        if (strcmp(type, "Add") == 0)
            kit_op_to(kit, type, KIT_LIST(a, b), KIT_LIST(output));
        else if (strcmp(type, "CumSum") == 0)
            kit_op_to(kit, type, KIT_LIST(a, axis), KIT_LIST(output));
        else
            kit_op_to(kit, type, KIT_LIST(a), KIT_LIST(output));
        ids[i + 1] = output;
    }
}

static void make(run *made, uint64_t seed, const tn_context *context) {
    tn__random random = {seed};
    *made = (run){.kit = kit_open()};
    add_ops(&made->kit, &random, 3 + (uint32_t)seed % 20);
    assert_ok(tn_graph_infer(made->kit.graph, &failure));
    assert_ok(tn_program_create(made->kit.graph, NULL, &made->program, &failure));
    assert_ok(tn_occupancy_create(made->program, NULL, &made->occupancy, &failure));
    assert_ok(tn_trace_create(NULL, 1000, &made->trace, &failure));
    made->steps = tn_program_count(made->program);
    made->report = (tn_report){.struct_size = sizeof made->report,
                               .input = "a \"model\"",
                               .occupancy = made->occupancy,
                               .context = context,
                               .trace = made->trace};
}

static void unmake(run *made) {
    tn_trace_destroy(made->trace);
    tn_occupancy_destroy(made->occupancy);
    tn_program_destroy(made->program);
    kit_close(&made->kit);
}

/* Runs as an engine would tell them: step after step, on two streams. */
static void tell_steps(run *made, uint64_t seed) {
    tn__random random = {seed};
    uint64_t live[64][TN_KIND_COUNT];
    double at = 1e5 + (double)tn__random_below(&random, 1000);
    assert_true(made->steps <= 64);
    assert_ok(tn_occupancy_live(made->occupancy, live, &failure));
    for (uint32_t i = 0; i < RUNS * made->steps; i++) {
        uint32_t step = i % made->steps;
        const tn_instruction *it = &tn_program_instructions(made->program)[step];
        tn_event event = {.kind = TN_EVENT_STEP,
                          .opcode = it->opcode,
                          .step = step,
                          .run = i / made->steps,
                          .stream = it->opcode == TN_APPLY ? 0 : 3,
                          .op = it->op,
                          .tensor = it->tensor,
                          .body = TN_NONE,
                          .start_s = at,
                          .duration_s = (double)tn__random_below(&random, 3000) * 1.37e-9};
        memcpy(event.live, live[step], sizeof event.live);
        if (it->op == TN_NONE) event.bytes = tn_graph_tensor(made->kit.graph, it->tensor)->bytes;
        at = event.start_s + event.duration_s; /* the next begins where this one ends */
        tn_trace_add(made->trace, &event);
    }
}

static uint64_t number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static double real_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static const char *string_of(const json_t *object, const char *key) {
    const char *string = json_string_value(json_object_get(object, key));
    assert_non_null(string);
    return string;
}

/* The row of a step: named and timed as its event. */
static void check_step(const run *made, const json_t *row, const tn_event *event, double origin_s) {
    const tn_graph *graph = made->kit.graph;
    const json_t *arguments = json_object_get(row, "args");
    assert_int_equal(number_of(arguments, "step"), event->step);
    assert_int_equal(number_of(arguments, "run"), event->run);
    assert_int_equal(number_of(row, "tid"), event->stream + 1);
    double off = real_of(row, "ts") - (event->start_s - origin_s) * 1e6;
    assert_true(off > -0.0011 && off < 0.0011);
    off = real_of(row, "dur") - event->duration_s * 1e6;
    assert_true(off > -0.0021 && off < 0.0021);
    if (event->opcode == TN_APPLY) {
        const tn_op *op = tn_graph_op(graph, event->op);
        assert_string_equal(string_of(row, "cat"), op->type);
        assert_string_equal(string_of(row, "name"), op->name[0] ? op->name : op->type);
    } else {
        const tn_tensor *tensor = tn_graph_tensor(graph, event->tensor);
        assert_string_equal(string_of(row, "cat"), tn_opcode_name(event->opcode));
        assert_int_equal(number_of(arguments, "bytes"), tensor->bytes);
        assert_string_equal(string_of(arguments, "kind"), tn_kind_name(tensor->kind));
    }
}

/* The counter behind a step: all that the pieces of the problem keep alive there. */
static void check_counter(const run *made, const json_t *row, uint32_t step) {
    const tn_problem *problem = tn_occupancy_problem(made->occupancy);
    uint64_t live = 0, told = 0;
    const char *key;
    json_t *value;
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++)
        live += judged_live(tn_problem_body(problem, b), step);
    json_object_foreach(json_object_get(row, "args"), key, value) {
        bool known = false;
        for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
            known |= strcmp(key, tn_kind_name((tn_kind)kind)) == 0;
        assert_true(known && json_is_integer(value));
        told += (uint64_t)json_integer_value(value);
    }
    assert_int_equal(told, live);
}

static json_t *parsed(const tn_report *report) {
    char *text;
    json_error_t error;
    assert_ok(tn_report_render(report, "trace", &text, NULL, &failure));
    json_t *root = json_loads(text, 0, &error);
    if (root == NULL) fail_msg("line %d: %s", error.line, error.text);
    tn_report_release(text);
    return root;
}

static void the_trace_tells_every_step_and_the_curve(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        run made;
        make(&made, seed, NULL);
        tell_steps(&made, seed);
        uint64_t count, steps = 0, counters = 0, names = 0;
        const tn_event *events = tn_trace_events(made.trace, &count);
        double free_at[8] = {0};
        json_t *root = parsed(&made.report), *rows = json_object_get(root, "traceEvents"), *row;
        size_t i;
        json_array_foreach(rows, i, row) {
            const char *phase = string_of(row, "ph");
            if (phase[0] == 'M') names++;
            if (phase[0] == 'X') {
                assert_true(steps < count);
                check_step(&made, row, &events[steps], events[0].start_s);
                double *stream = &free_at[number_of(row, "tid")];
                assert_true(real_of(row, "ts") > *stream - 1e-6); /* none before the last ended */
                *stream = real_of(row, "ts") + real_of(row, "dur");
                steps++;
            }
            if (phase[0] != 'C') continue;
            uint64_t position = counters++ % (made.steps + 1);
            if (position < made.steps)
                check_counter(&made, row, (uint32_t)position);
            else
                check_counter(&made, row, made.steps); /* behind the run: nothing */
        }
        assert_int_equal(steps, count);
        assert_int_equal(steps, RUNS * made.steps);
        assert_int_equal(counters, RUNS * (made.steps + 1));
        assert_int_equal(names, 3); /* the process, two streams */
        assert_int_equal(number_of(json_object_get(root, "otherData"), "dropped"), 0);
        json_decref(root);
        unmake(&made);
    }
}

/* A run with a pool: each body from its first step to its last; one weight before. */
static void tell_blocks(run *made) {
    const tn_problem *problem = tn_occupancy_problem(made->occupancy);
    const tn_life *lives = tn_occupancy_lives(made->occupancy);
    tn_tensor_id weight = 1; /* the list of add_ops */
    tn_trace_add(
        made->trace,
        &(tn_event){
            .kind = TN_EVENT_ALLOC, .op = TN_NONE, .tensor = weight, .body = TN_NONE, .bytes = 8});
    for (uint32_t step = 0; step <= made->steps; step++) {
        for (int frees = 1; frees >= 0; frees--) {
            for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
                const tn_body *body = tn_problem_body(problem, b);
                if ((frees ? body->last : body->first) != (int64_t)step) continue;
                uint32_t life = 0;
                while (lives[life].body != b) life++;
                tn_event event = {.kind = frees ? TN_EVENT_FREE : TN_EVENT_ALLOC,
                                  .step = step,
                                  .op = lives[life].op,
                                  .tensor = lives[life].tensor,
                                  .body = b,
                                  .start_s = step,
                                  .bytes = body->size};
                tn_trace_add(made->trace, &event);
            }
        }
    }
}

static void allocations_are_what_replay_reads(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run made;
        char *text;
        size_t size;
        tn_pool_trace *read;
        make(&made, seed, NULL);
        tell_blocks(&made);
        uint64_t count, read_count;
        const tn_event *events = tn_trace_events(made.trace, &count);
        assert_ok(tn_report_render(&made.report, "allocations", &text, &size, &failure));
        assert_ok(tn_pool_trace_load_memory("run.csv", text, size, NULL, &read, &failure));
        const tn_pool_event *got = tn_pool_trace_events(read, &read_count);
        assert_int_equal(read_count, count);
        for (uint64_t i = 0; i < count; i++) {
            assert_int_equal(got[i].frees, events[i].kind == TN_EVENT_FREE);
            if (got[i].frees) continue;
            assert_int_equal(got[i].size, events[i].bytes);
            assert_int_equal(got[i].flags, i == 0 ? TN_POOL_LONG_LIVED : 0);
            const tn_tensor *tensor = tn_graph_tensor(made.kit.graph, events[i].tensor);
            const tn_pool_label *label = tn_pool_trace_label(read, got[i].label);
            assert_string_equal(label->kind, tn_kind_name(tensor->kind));
            if (strpbrk(tensor->name, ",\n") == NULL)
                assert_string_equal(label->name, tensor->name);
        }
        tn_pool_trace_destroy(read);
        tn_report_release(text);
        json_t *root = parsed(&made.report), *row;
        size_t i, marks = 0;
        json_array_foreach(json_object_get(root, "traceEvents"), i, row) marks +=
            strcmp(string_of(row, "ph"), "i") == 0;
        assert_int_equal(marks, count);
        json_decref(root);
        unmake(&made);
    }
}

static void what_had_no_room_is_told(void **state) {
    (void)state;
    run made;
    char *text = NULL;
    make(&made, 3, NULL);
    json_t *root = parsed(&made.report); /* nothing happened yet: a trace of nothing */
    assert_int_equal(json_array_size(json_object_get(root, "traceEvents")), 1);
    json_decref(root);
    for (int i = 0; i < 1007; i++)
        tn_trace_add(made.trace, &(tn_event){.op = TN_NONE, .tensor = TN_NONE, .body = TN_NONE});
    root = parsed(&made.report);
    assert_int_equal(number_of(json_object_get(root, "otherData"), "dropped"), 7);
    json_decref(root);
    assert_int_equal(tn_report_render(&made.report, "allocations", &text, NULL, &failure),
                     TN_E_INVALID);
    made.report.trace = NULL;
    assert_int_equal(tn_report_render(&made.report, "trace", &text, NULL, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "describes a run"));
    made.report.trace = made.trace;
    made.report.occupancy = NULL;
    assert_int_equal(tn_report_render(&made.report, "trace", &text, NULL, &failure), TN_E_INVALID);
    assert_null(text);
    unmake(&made);
}

static void the_longest_suffix_picks_the_format(void **state) {
    (void)state;
    static const char *const formats[] = {"trace", "allocations"};
    static const char *const suffixes[] = {".trace.json", ".Trace.CSV"};
    run made;
    make(&made, 5, NULL);
    tell_steps(&made, 5);
    for (int f = 0; f < 2; f++) {
        char path[80], *text;
        tn__file file;
        snprintf(path, sizeof path, "/tmp/tenure-trace-%ld%s", (long)getpid(), suffixes[f]);
        assert_ok(tn_report_render(&made.report, formats[f], &text, NULL, &failure));
        assert_ok(tn_report_write(&made.report, path, &failure));
        assert_ok(tn__file_map(path, &file, &failure));
        assert_int_equal(file.size, strlen(text));
        assert_memory_equal(file.bytes, text, file.size);
        tn__file_unmap(&file);
        unlink(path);
        tn_report_release(text);
    }
    unmake(&made);
}

static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    counting count = {0};
    for (count.fail_at = 1; status == TN_E_NO_MEMORY; count.fail_at++) {
        tn_context context = counting_context(&count);
        run made;
        char *text = NULL;
        make(&made, 7, &context);
        tell_steps(&made, 7);
        count.calls = 0;
        status = tn_report_render(&made.report, "trace", &text, NULL, &failure);
        assert_true(status == TN_OK || text == NULL);
        tn_report_release(text);
        assert_int_equal(count.blocks, 0);
        unmake(&made);
    }
    assert_int_equal(status, TN_OK);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(the_trace_tells_every_step_and_the_curve),
        cmocka_unit_test(allocations_are_what_replay_reads),
        cmocka_unit_test(what_had_no_room_is_told),
        cmocka_unit_test(the_longest_suffix_picks_the_format),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
