/* test_model.c - reports of a model: tensors, steps and kinds, against the occupancy they come
 * from. Models are random chains of element-wise operators, additions and reshapes, so that
 * bodies hold views and in-place tensors. */
#include "report_tools.h"

#include <jansson.h>

#include "graph/kit.h"

typedef struct model {
    test_kit kit;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_report report;
} model;

static model model_of(uint64_t seed, uint32_t ops) {
    static const char *const unary[] = {"Relu", "Sigmoid", "Tanh"};
    model made = {.kit = kit_open()};
    tn__random random = {seed};
    tn_tensor_id ids[128] = {
        kit_input(&made.kit, "x <&\"> \x1b", TN_FLOAT32, 2, (int64_t[]){6, 20})};
    tn_tensor_id flat = kit_list(&made.kit, 2, (int64_t[]){3, 40});
    tn_tensor_id weight = kit_constant(&made.kit, TN_FLOAT32, 0, NULL, NULL, (double[]){2});
    uint32_t count = 1;
    for (uint32_t i = 0; i < ops; i++) {
        char name[64];
        bool last = i + 1 == ops;
        snprintf(name, sizeof name, "a/tensor/whose.name/is.long/%u", i);
        tn_tensor_id output =
            kit_tensor(&made.kit, name, last ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, TN_UNDEFINED,
                       last ? TN_RANK_UNKNOWN : 0, NULL);
        uint32_t recent = count < 4 ? count : 4;
        tn_tensor_id one = ids[count - 1 - tn__random_below(&random, recent)];
        switch (tn__random_below(&random, 4)) {
        case 0:
            kit_op_to(&made.kit, "Reshape", KIT_LIST(one, flat), KIT_LIST(output));
            break;
        case 1:
            kit_op_to(&made.kit, "Mul", KIT_LIST(one, weight), KIT_LIST(output));
            break;
        default:
            kit_op_to(&made.kit, unary[tn__random_below(&random, 3)], KIT_LIST(one),
                      KIT_LIST(output));
        }
        ids[count++] = output;
    }
    assert_ok(tn_graph_infer(made.kit.graph, &failure));
    assert_ok(tn_program_create(made.kit.graph, NULL, &made.program, &failure));
    assert_ok(tn_occupancy_create(made.program, NULL, &made.occupancy, &failure));
    assert_ok(tn_plan(tn_occupancy_problem(made.occupancy), NULL, &made.layout, &failure));
    return made;
}

static void model_report(model *made) {
    made->report = report_of(tn_occupancy_problem(made->occupancy), &made->layout);
    made->report.occupancy = made->occupancy;
    made->report.input = "model.onnx";
}

static void model_close(model *made) {
    tn_layout_release(&made->layout);
    tn_occupancy_destroy(made->occupancy);
    tn_program_destroy(made->program);
    kit_close(&made->kit);
}

static const char *string_of(const json_t *object, const char *key) {
    const char *string = json_string_value(json_object_get(object, key));
    assert_non_null(string);
    return string;
}
static uint64_t number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

/* --- json --- */

static void assert_tensor(const model *made, const json_t *entry, const tn_life *life) {
    static const char *const shares[] = {"own", "view", "inplace"};
    const tn_tensor *tensor = tn_graph_tensor(made->kit.graph, life->tensor);
    const tn_instruction *step = &tn_program_instructions(made->program)[life->first];
    assert_string_equal(string_of(entry, "name"), tensor->name);
    assert_int_equal(number_of(entry, "buffer"), life->body);
    assert_int_equal(number_of(entry, "offset"), made->layout.offset[life->body] + life->delta);
    assert_int_equal(number_of(entry, "size"), tensor->bytes);
    assert_int_equal(number_of(entry, "first"), life->first);
    assert_int_equal(number_of(entry, "last_excl"), life->last);
    assert_string_equal(string_of(entry, "kind"), tn_kind_name(tensor->kind));
    assert_string_equal(string_of(entry, "dtype"), "float32");
    assert_string_equal(string_of(entry, "share"), shares[life->share]);
    const json_t *shape = json_object_get(entry, "shape"),
                 *source = json_object_get(entry, "source");
    assert_int_equal(json_array_size(shape), tensor->rank);
    for (uint32_t i = 0; i < tensor->rank; i++)
        assert_int_equal(json_integer_value(json_array_get(shape, i)), tensor->shape[i]);
    if (life->source == TN_NONE)
        assert_true(json_is_null(source));
    else
        assert_string_equal(json_string_value(source),
                            tn_graph_tensor(made->kit.graph, life->source)->name);
    assert_string_equal(string_of(entry, "op_type"),
                        step->op == TN_NONE ? "put" : tn_graph_op(made->kit.graph, step->op)->type);
}

static void the_json_plan_lists_every_life_and_step(void **state) {
    (void)state;
    unsigned shared = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        model made = model_of(seed, 4 + (uint32_t)seed);
        model_report(&made);
        char *text = rendered(&made.report, "json");
        json_error_t error;
        json_t *root = json_loads(text, 0, &error);
        assert_non_null(root);
        const json_t *tensors = json_object_get(root, "tensors");
        const tn_life *lives = tn_occupancy_lives(made.occupancy);
        assert_int_equal(json_array_size(tensors), tn_occupancy_life_count(made.occupancy));
        for (uint32_t i = 0; i < tn_occupancy_life_count(made.occupancy); i++) {
            assert_tensor(&made, json_array_get(tensors, i), &lives[i]);
            shared += lives[i].share != TN_SHARE_OWN;
        }
        const json_t *steps = json_object_get(root, "steps");
        assert_int_equal(json_array_size(steps), tn_program_count(made.program));
        for (uint32_t i = 0; i < tn_program_count(made.program); i++) {
            const tn_instruction *step = &tn_program_instructions(made.program)[i];
            const json_t *entry = json_array_get(steps, i);
            assert_string_equal(string_of(entry, "opcode"), tn_opcode_name(step->opcode));
            assert_string_equal(string_of(entry, "type"),
                                step->op == TN_NONE ? ""
                                                    : tn_graph_op(made.kit.graph, step->op)->type);
        }
        tn_memory_summary summary = tn_occupancy_summary(made.occupancy);
        const json_t *fixed = json_object_get(root, "static");
        assert_int_equal(number_of(fixed, "parameter"), summary.total[TN_KIND_PARAMETER]);
        assert_int_equal(number_of(json_object_get(root, "result"), "naive"), summary.naive);
        json_decref(root);
        tn_report_release(text);
        model_close(&made);
    }
    assert_true(shared > 20); /* else this test would not test much */
}

/* --- summary --- */

static void assert_kinds(const json_t *object, const uint64_t *bytes) {
    size_t kinds = 0;
    for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++) {
        if (bytes[kind] == 0) continue;
        assert_int_equal(number_of(object, tn_kind_name((tn_kind)kind)), bytes[kind]);
        kinds++;
    }
    assert_int_equal(json_object_size(object), kinds);
}

static void the_summary_breaks_memory_down_by_kind(void **state) {
    (void)state;
    model made = model_of(7, 20);
    model_report(&made);
    char *text = rendered(&made.report, "summary");
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    assert_non_null(root);
    tn_memory_summary summary = tn_occupancy_summary(made.occupancy);
    assert_kinds(json_object_get(root, "by_kind"), summary.total);
    assert_kinds(json_object_get(root, "at_peak"), summary.at_peak);
    assert_int_equal(number_of(root, "naive"), summary.naive);
    assert_int_equal(number_of(root, "tensors"), tn_occupancy_life_count(made.occupancy));
    assert_int_equal(number_of(root, "buffers"), made.layout.body_count);
    json_decref(root);
    tn_report_release(text);
    model_close(&made);
}

/* --- the scene: what the pictures draw --- */

/* What covers a body: its listed pieces, or the window of its one item. */
static uint64_t drawn_at(const tn__scene *scene, int64_t at) {
    uint64_t bytes = 0;
    for (size_t p = 0; p < scene->piece_count; p++) {
        const tn_piece *piece = &scene->pieces[p].piece;
        if (piece->first <= at && at < piece->last) bytes += piece->hi - piece->lo;
    }
    for (uint32_t i = 0; i < scene->item_count; i++) {
        const tn__report_item *item = &scene->items[i];
        bool listed = false;
        for (size_t p = 0; p < scene->piece_count && !listed; p++)
            listed = scene->pieces[p].body == item->body;
        if (!listed && item->first <= at && at < item->last) bytes += item->hi - item->lo;
    }
    return bytes;
}

static void pictures_draw_the_bytes_that_live(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        model made = model_of(seed, 25);
        model_report(&made);
        tn__scene scene;
        tn__curve curve;
        assert_ok(tn__scene_make(&scene, &made.report, &failure));
        assert_ok(tn__scene_pieces(&scene, &failure));
        assert_ok(tn__curve_make(&curve, made.report.problem, NULL, &failure));
        for (size_t i = 0; i < curve.count; i++)
            assert_int_equal(drawn_at(&scene, curve.at[i]), curve.live[i]);
        tn__curve_release(&curve);
        tn__scene_release(&scene);
        model_close(&made);
    }
}

static void without_reuse_the_stack_is_as_high_as_the_summary_says(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        model made = model_of(seed, 25);
        model_report(&made);
        tn__scene scene;
        uint64_t stack = 0;
        assert_ok(tn__scene_make(&scene, &made.report, &failure));
        for (uint32_t i = 0; i < scene.item_count; i++) {
            const tn__report_item *item = &scene.items[i];
            uint64_t alignment = tn_problem_body(made.report.problem, item->body)->alignment;
            if (!item->alias) stack += (item->bytes + alignment - 1) / alignment * alignment;
        }
        assert_int_equal(stack, tn_occupancy_summary(made.occupancy).naive);
        tn__scene_release(&scene);
        model_close(&made);
    }
}

static void a_holder_is_who_wrote_there_last(void **state) {
    (void)state;
    model made = model_of(3, 30);
    model_report(&made);
    tn__scene scene;
    assert_ok(tn__scene_make(&scene, &made.report, &failure));
    for (int64_t at = 0; at < scene.last; at++) {
        const tn__holder *holders;
        uint32_t count;
        assert_ok(tn__holders_at(&scene, at, &holders, &count, &failure));
        for (uint32_t h = 0; h < count; h++) {
            const tn__report_item *named = &scene.items[holders[h].item];
            assert_true(named->share != TN_SHARE_VIEW && named->first <= at);
            for (uint32_t i = 0; i < scene.item_count; i++) {
                const tn__report_item *item = &scene.items[i];
                if (item->body != named->body || item->share == TN_SHARE_VIEW) continue;
                assert_true(item->first > at || item->first <= named->first);
            }
        }
    }
    tn__scene_release(&scene);
    model_close(&made);
}

/* --- table and failures --- */

static void the_table_names_kinds_and_holders(void **state) {
    (void)state;
    model made = model_of(5, 40);
    model_report(&made);
    char *text = rendered(&made.report, "table");
    assert_non_null(strstr(text, "model.onnx"));
    assert_non_null(strstr(text, "activation"));
    assert_non_null(strstr(text, "outside the arena")); /* parameters */
    assert_non_null(strstr(text, "at the peak, step"));
    assert_non_null(strstr(text, "float32"));
    assert_null(strchr(text, '\x1b'));
    size_t columns = 0;
    for (const char *at = text; *at; at++) {
        columns = *at == '\n' ? 0 : columns + 1;
        assert_true(columns <= 100);
    }
    tn_report_release(text);
    model_close(&made);
}

static void reports_of_a_model_survive_every_failing_allocation(void **state) {
    (void)state;
    static const char *const formats[] = {"table", "summary", "json", "html", "svg"};
    model made = model_of(11, 30);
    model_report(&made);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        for (size_t fail_at = 1;; fail_at++) {
            counting count = {.fail_at = fail_at};
            tn_context context = counting_context(&count);
            tn_report report = made.report;
            report.context = &context;
            char *text = NULL;
            tn_status status = tn_report_render(&report, formats[f], &text, NULL, &failure);
            if (status == TN_OK)
                tn_report_release(text);
            else
                assert_int_equal(status, TN_E_NO_MEMORY);
            assert_int_equal(count.blocks, 0);
            assert_int_equal(count.bytes, 0);
            if (status == TN_OK) break;
            assert_null(text);
        }
    }
    model_close(&made);
}

/* What an instruction uses is told: a swap by a stream of its own, an encoding, a reduction. */
static void steps_tell_what_they_use(void **state) {
    static const struct {
        tn_opcode opcode;
        const char *key, *text;
        json_int_t number;
    } told[] = {{TN_SWAP_OUT, "tensor", "x", 0}, {TN_SWAP_OUT, "stream", NULL, 1},
                {TN_SWAP_OUT, "slot", NULL, 1},  {TN_SWAP_OUT, "wait", NULL, 4},
                {TN_SWAP_IN, "signal", NULL, 5}, {TN_ENCODE, "other", "e", 0},
                {TN_DECODE, "codec", "csr", 0},  {TN_SEND, "peer", NULL, 0},
                {TN_SEND, "tag", NULL, 7},       {TN_REDUCE, "reduction", "max", 0},
                {TN_REDUCE, "group", NULL, 2},   {TN_DROP, "tensor", "x", 0}};
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, 1, (int64_t[]){8});
    tn_tensor_id e = kit_tensor(&kit, "e", TN_KIND_ACTIVATION, TN_FLOAT32, 1, (int64_t[]){4});
    (void)state;
    assert_ok(tn_graph_infer(kit.graph, &failure));
    tn_instruction list[] = {
        {.opcode = TN_PUT, .tensor = x, .signal = 4},
        {.opcode = TN_SWAP_OUT, .tensor = x, .stream = 1, .wait = 4, .slot = 1},
        {.opcode = TN_SWAP_IN, .tensor = x, .stream = 1, .slot = 1, .signal = 5},
        {.opcode = TN_ENCODE, .tensor = x, .other = e, .wait = 5, .codec = TN_CODEC_CSR},
        {.opcode = TN_DROP, .tensor = x},
        {.opcode = TN_DECODE, .tensor = x, .other = e, .codec = TN_CODEC_CSR},
        {.opcode = TN_SEND, .tensor = x, .tag = 7},
        {.opcode = TN_REDUCE, .tensor = x, .group = 2, .reduction = TN_REDUCTION_MAX},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        list[i].op = TN_NONE;
        if (!tn_opcode_facts_of(list[i].opcode)->flags || list[i].other == 0)
            list[i].other = TN_NONE;
    }
    model made = {.kit = kit};
    assert_ok(tn_program_from(kit.graph, list, sizeof list / sizeof *list, NULL, 0, &made.program,
                              &failure));
    assert_ok(tn_occupancy_create(made.program, NULL, &made.occupancy, &failure));
    assert_ok(tn_plan(tn_occupancy_problem(made.occupancy), NULL, &made.layout, &failure));
    model_report(&made);
    char *text;
    assert_ok(tn_report_render(&made.report, "json", &text, NULL, &failure));
    json_t *root = json_loads(text, 0, NULL), *steps = json_object_get(root, "steps");
    for (size_t k = 0; k < sizeof told / sizeof *told; k++)
        for (size_t i = 0; i < json_array_size(steps); i++) {
            if (list[i].opcode != told[k].opcode) continue;
            const json_t *value = json_object_get(json_array_get(steps, i), told[k].key);
            assert_non_null(value);
            if (told[k].text != NULL)
                assert_string_equal(json_string_value(value), told[k].text);
            else
                assert_int_equal(json_integer_value(value), told[k].number);
        }
    assert_null(json_object_get(json_array_get(steps, 4), "stream"));
    json_decref(root);
    tn_report_release(text);
    model_close(&made);
}

typedef struct taken { /* what a model's file was given */
    uint64_t *offsets;
    uint32_t count, calls;
    const char *path;
} taken;

static tn_status take_plan(void *self, const uint64_t *offsets, const char *output,
                           tn_error *error) {
    taken *into = self;
    (void)error;
    memcpy(into->offsets, offsets, into->count * sizeof *offsets);
    into->path = output;
    into->calls++;
    return TN_OK;
}

static void a_model_file_gets_the_place_of_every_tensor(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        model made = model_of(seed, 40);
        uint32_t count = tn_graph_tensor_count(made.kit.graph), placed = 0;
        taken into = {calloc(count, sizeof *into.offsets), count, 0, NULL};
        model_report(&made);
        assert_int_equal(tn_report_write(&made.report, "p.tflite", &failure), TN_E_UNSUPPORTED);
        made.report.write_plan = take_plan;
        made.report.write_plan_self = &into;
        char *text = NULL;
        assert_int_equal(tn_report_render(&made.report, "tflite", &text, NULL, &failure),
                         TN_E_UNSUPPORTED);
        assert_null(text);
        assert_int_equal(into.calls, 0);
        assert_ok(tn_report_write(&made.report, "p.tflite", &failure));
        assert_int_equal(into.calls, 1);
        assert_string_equal(into.path, "p.tflite");
        for (tn_tensor_id id = 0; id < count; id++) placed += into.offsets[id] != TN_SIZE_UNKNOWN;
        const tn_life *lives = tn_occupancy_lives(made.occupancy);
        for (uint32_t i = 0; i < tn_occupancy_life_count(made.occupancy); i++) {
            if (lives[i].tensor == TN_NONE || lives[i].whole) continue;
            assert_int_equal(into.offsets[lives[i].tensor],
                             made.layout.offset[lives[i].body] + lives[i].delta);
            placed--; /* one life each, in these models */
        }
        assert_int_equal(placed, 0);
        free(into.offsets);
        model_close(&made);
    }
}

/* Two operators that may run in either order: the file has one. */
static void a_model_file_keeps_its_order(void **state) {
    (void)state;
    for (tn_op_id first = 0; first < 2; first++) {
        model made = {.kit = kit_open()};
        tn_tensor_id x = kit_input(&made.kit, "x", TN_FLOAT32, 1, (int64_t[]){64});
        tn_tensor_id y[3];
        for (uint32_t i = 0; i < 3; i++)
            y[i] = kit_tensor(&made.kit, (const char *[]){"a", "b", "c"}[i],
                              i == 2 ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, TN_UNDEFINED,
                              i == 2 ? TN_RANK_UNKNOWN : 0, NULL);
        kit_op_to(&made.kit, "Relu", KIT_LIST(x), KIT_LIST(y[0]));
        kit_op_to(&made.kit, "Tanh", KIT_LIST(x), KIT_LIST(y[1]));
        kit_op_to(&made.kit, "Add", KIT_LIST(y[0], y[1]), KIT_LIST(y[2]));
        assert_ok(tn_graph_infer(made.kit.graph, &failure));
        tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
        options.sequence = (tn_op_id[]){first, 1 - first, 2};
        options.sequence_count = 3;
        assert_ok(tn_program_create(made.kit.graph, &options, &made.program, &failure));
        assert_ok(tn_occupancy_create(made.program, NULL, &made.occupancy, &failure));
        assert_ok(tn_plan(tn_occupancy_problem(made.occupancy), NULL, &made.layout, &failure));
        model_report(&made);
        uint64_t offsets[16];
        taken into = {offsets, tn_graph_tensor_count(made.kit.graph), 0, NULL};
        made.report.write_plan = take_plan;
        made.report.write_plan_self = &into;
        tn_status status = tn_report_write(&made.report, "p.tflite", &failure);
        assert_int_equal(status, first == 0 ? TN_OK : TN_E_UNSUPPORTED);
        assert_int_equal(into.calls, first == 0);
        model_close(&made);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_file_gets_the_place_of_every_tensor),
        cmocka_unit_test(a_model_file_keeps_its_order),
        cmocka_unit_test(the_json_plan_lists_every_life_and_step),
        cmocka_unit_test(the_summary_breaks_memory_down_by_kind),
        cmocka_unit_test(pictures_draw_the_bytes_that_live),
        cmocka_unit_test(without_reuse_the_stack_is_as_high_as_the_summary_says),
        cmocka_unit_test(a_holder_is_who_wrote_there_last),
        cmocka_unit_test(the_table_names_kinds_and_holders),
        cmocka_unit_test(reports_of_a_model_survive_every_failing_allocation),
        cmocka_unit_test(steps_tell_what_they_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
