/* test_tflite.c - .tflite models: what is read, what is refused, and what follows for memory.
 *
 *     test_import_tflite --corpus FOLDER    writes the samples there, as seeds of the fuzzer
 */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/occupancy.h>
#include <tenure/program.h>
#include <tenure/rewrite.h>

#include "base/base.h"
#include "tflite_samples.h"

static const tn_op *op_of(loaded result, const char *type) {
    for (tn_op_id i = 0; i < tn_graph_op_count(result.graph); i++)
        if (!strcmp(tn_graph_op(result.graph, i)->type, type)) return tn_graph_op(result.graph, i);
    fail_msg("there is no %s", type);
    return NULL;
}
static tn_op_id op_id(loaded result, const char *type) {
    tn_op_id id = 0;
    while (strcmp(tn_graph_op(result.graph, id)->type, type) != 0) id++;
    return id;
}

/* --- what is read --- */

static void tensors_and_operators_come_as_the_file_states_them(void **state) {
    (void)state;
    loaded result = lite_load(sample_convolution());
    assert_loads(result);
    assert_int_equal(tn_graph_tensor_count(result.graph), 5); /* nobody needs the sixth */
    assert_shape(tensor_of(result, "x"), "1,8,8,3");
    assert_int_equal(tensor_of(result, "x")->bytes, 192);
    assert_int_equal(tensor_of(result, "x")->kind, TN_KIND_INPUT);
    assert_int_equal(tensor_of(result, "w")->kind, TN_KIND_PARAMETER);
    assert_int_equal(tensor_of(result, "b")->bytes, 16);
    assert_int_equal(tensor_of(result, "c")->bytes, 256);
    assert_int_equal(tensor_of(result, "c")->kind, TN_KIND_ACTIVATION);
    assert_int_equal(tensor_of(result, "y")->kind, TN_KIND_OUTPUT);
    const tn_op *conv = op_of(result, "CONV_2D");
    assert_string_equal(conv->domain, "tflite");
    assert_string_equal(conv->name, "c");
    assert_int_equal(conv->version, 3);
    assert_int_equal(conv->input_count, 3);
    /* 256 outputs of 27 products each */
    assert_int_equal(tn_op_cost(result.graph, op_id(result, "CONV_2D")).flops, 256 * 27 * 2);
    unload(result);
}

static void every_element_type_has_its_size(void **state) {
    (void)state;
    static const struct {
        int type;
        uint64_t bytes; /* of 3 elements */
    } types[] = {{T_FLOAT32, 12}, {T_FLOAT16, 6},  {T_INT32, 12},      {T_UINT8, 3},
                 {T_INT64, 24},   {T_BOOL, 3},     {T_INT16, 6},       {T_COMPLEX64, 24},
                 {T_INT8, 3},     {T_FLOAT64, 24}, {T_COMPLEX128, 48}, {T_UINT64, 24},
                 {T_UINT32, 12},  {T_UINT16, 6},   {T_INT4, 2},        {T_BFLOAT16, 6},
                 {T_INT2, 1},     {T_UINT4, 2},    {T_RESOURCE, 12}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        lite *m = lite_new();
        lite_add(m, (lite_tensor){.name = "x", .shape = "3", .type = types[i].type});
        lite_add(m, (lite_tensor){.name = "y", .shape = "3", .type = types[i].type});
        lite_op(m, OP_CUSTOM, "0", "1");
        lite_end(m, "main", "0", "1");
        loaded result = lite_load(m);
        assert_loads(result);
        assert_int_equal(tensor_of(result, "y")->bytes, types[i].bytes);
        unload(result);
    }
}

static void strings_have_no_size_and_that_is_said(void **state) {
    (void)state;
    lite *m = lite_new();
    lite_add(m, (lite_tensor){.name = "x", .shape = "3", .type = T_STRING});
    lite_add(m, (lite_tensor){.name = "y", .shape = "3", .type = T_INT32});
    lite_op(m, OP_CUSTOM, "0", "1");
    lite_end(m, "main", "0", "1");
    assert_refused(lite_load(m), TN_E_UNKNOWN, "test.tflite", "string");
}

static void scalars_and_tensors_without_names_are_read(void **state) {
    (void)state;
    lite *m = lite_new();
    lite_add(m, (lite_tensor){.type = T_FLOAT32});
    lite_add(m, (lite_tensor){.name = "y", .shape = "", .type = T_FLOAT32});
    lite_op(m, OP_RELU, "0", "1");
    lite_end(m, "main", "0", "1");
    loaded result = lite_load(m);
    assert_loads(result);
    assert_int_equal(tensor_of(result, "tensor 0")->rank, 0);
    assert_int_equal(tensor_of(result, "y")->bytes, 4);
    unload(result);
}

static void weights_behind_dequantize_and_densify_are_constants(void **state) {
    (void)state;
    loaded result = lite_load(sample_constants());
    assert_loads(result);
    assert_true(tensor_of(result, "dense")->flags & TN_TENSOR_FOLDED);
    assert_true(tensor_of(result, "w")->flags & TN_TENSOR_FOLDED);
    assert_false(tensor_of(result, "kk")->flags & TN_TENSOR_FOLDED); /* MUL runs each time */
    assert_int_equal(tensor_of(result, "empty")->kind, TN_KIND_PARAMETER);
    const tn_op *own = op_of(result, "CUSTOM:Own");
    assert_int_equal(own->inputs[3], TN_NONE); /* left out */
    unload(result);
}

static void a_variable_tensor_lives_for_the_whole_program(void **state) {
    (void)state;
    tn_error error;
    tn_program *program;
    tn_occupancy *occupancy;
    loaded result = lite_load(sample_state());
    assert_loads(result);
    tn_tensor_id id = tn_graph_find(result.graph, "state");
    assert_int_equal(tn_program_create(result.graph, NULL, &program, &error), TN_OK);
    assert_int_equal(tn_occupancy_create(program, NULL, &occupancy, &error), TN_OK);
    bool found = false;
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
        const tn_life *life = &tn_occupancy_lives(occupancy)[i];
        if (life->tensor != id) continue;
        found = true;
        assert_true(life->first <= 1); /* put with the inputs */
        assert_int_equal(life->last, tn_program_count(program));
        assert_int_equal(life->share, TN_SHARE_OWN);
    }
    assert_true(found);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    unload(result);
}

static void reshape_is_a_view_and_elementwise_may_overwrite(void **state) {
    (void)state;
    loaded result = lite_load(sample_state());
    assert_loads(result);
    tn_view view = tn_op_view(result.graph, op_id(result, "RESHAPE"), 0);
    assert_int_equal(view.source, tn_graph_find(result.graph, "h"));
    assert_int_equal(view.offset, 0);
    assert_false(view.must);
    assert_int_equal(tn_op_inplace(result.graph, op_id(result, "LOGISTIC"), 0), 1);
    assert_int_equal(tn_op_inplace(result.graph, op_id(result, "UNIDIRECTIONAL_SEQUENCE_LSTM"), 0),
                     0);
    unload(result);
    result = lite_load(sample_convolution());
    assert_loads(result);
    assert_int_equal(tn_op_inplace(result.graph, op_id(result, "CONV_2D"), 0), 0);
    unload(result);
}

/* --- control flow --- */

/* The lives of a tensor cover the steps [first, last), and no life of `other` shares bytes with it:
 * what the program needs at the same time lies apart. */
typedef struct planned {
    loaded model;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
} planned;

static planned plan_it(lite *m) {
    planned all = {.model = lite_load(m)};
    tn_error error;
    assert_loads(all.model);
    assert_int_equal(tn_program_create(all.model.graph, NULL, &all.program, &error), TN_OK);
    assert_int_equal(tn_occupancy_create(all.program, NULL, &all.occupancy, &error), TN_OK);
    if (tn_plan(tn_occupancy_problem(all.occupancy), NULL, &all.layout, &error) != TN_OK)
        fail_msg("%s", error.message);
    return all;
}
static void release(planned all) {
    tn_layout_release(&all.layout);
    tn_occupancy_destroy(all.occupancy);
    tn_program_destroy(all.program);
    unload(all.model);
}

static tn_tensor_id id_of(const planned *all, const char *name) {
    tn_tensor_id id = 0;
    while (id < tn_graph_tensor_count(all->model.graph) &&
           strcmp(tn_graph_tensor(all->model.graph, id)->name, name) != 0)
        id++;
    if (id == tn_graph_tensor_count(all->model.graph)) fail_msg("there is no '%s'", name);
    return id;
}

/* First and last step of all lives of a tensor. */
static void span_of(const planned *all, const char *name, uint32_t *first, uint32_t *last) {
    tn_tensor_id id = id_of(all, name);
    *first = UINT32_MAX, *last = 0;
    for (uint32_t i = 0; i < tn_occupancy_life_count(all->occupancy); i++) {
        const tn_life *life = &tn_occupancy_lives(all->occupancy)[i];
        if (life->tensor != id) continue;
        if (life->first < *first) *first = life->first;
        if (life->last > *last) *last = life->last;
    }
    assert_true(*first < *last);
}
static bool apart(const planned *all, const char *a, const char *b) {
    uint64_t place[2] = {0}, size[2] = {0};
    tn_tensor_id ids[] = {id_of(all, a), id_of(all, b)};
    for (uint32_t i = 0; i < tn_occupancy_life_count(all->occupancy); i++)
        for (uint32_t k = 0; k < 2; k++) {
            const tn_life *life = &tn_occupancy_lives(all->occupancy)[i];
            if (life->tensor != ids[k]) continue;
            place[k] = all->layout.offset[life->body] + life->delta;
            size[k] = life->bytes;
        }
    return place[0] + size[0] <= place[1] || place[1] + size[1] <= place[0];
}
static uint32_t step_of(const planned *all, const char *type) {
    uint32_t step = 0;
    const tn_instruction *at = tn_program_instructions(all->program);
    while (at[step].opcode != TN_APPLY ||
           strcmp(tn_graph_op(all->model.graph, at[step].op)->type, type) != 0)
        step++;
    return step;
}

static void branches_pass_copies_and_share_memory(void **state) {
    (void)state;
    planned all = plan_it(sample_branches());
    assert_int_equal(tn_graph_block_count(all.model.graph), 3);
    assert_string_equal(tn_graph_block(all.model.graph, 1)->name, "then");
    uint32_t first, last, own = step_of(&all, "IF");
    span_of(&all, "then/a", &first, &last);
    assert_int_equal(first, step_of(&all, "LOGISTIC"));
    assert_true(last > step_of(&all, "ADD")); /* which reads it */
    span_of(&all, "y", &first, &last);
    assert_true(last > own);
    span_of(&all, "x", &first, &last);
    assert_true(last > own); /* early versions of TensorFlow Lite Micro write it back */
    assert_true(apart(&all, "x", "y"));
    span_of(&all, "else/r", &first, &last);
    assert_true(last <= own); /* copied out when the branch ends */
    assert_true(apart(&all, "then/a", "then/t"));
    /* x, y and what a branch holds at once; never both branches side by side */
    assert_true(all.layout.peak <= 4 * 64 + 64);
    release(all);
}

static void a_loop_keeps_what_its_next_turn_needs(void **state) {
    (void)state;
    planned all = plan_it(sample_loop());
    uint32_t first, last, own = step_of(&all, "WHILE");
    static const char *const kept[] = {"body/bi",   "body/bv",     "cond/ci", "cond/cv",
                                       "body/next", "body/square", "v_out",   "v"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        span_of(&all, kept[i], &first, &last);
        if (last <= own) fail_msg("%s ends at %u, before WHILE at %u", kept[i], last, own);
    }
    uint32_t body = step_of(&all, "ADD");
    span_of(&all, "v_out", &first, &last);
    assert_true(first <= body); /* it carries the state from the first turn on */
    static const char *const pairs[][2] = {{"cond/cv", "body/bv"},     {"v_out", "body/square"},
                                           {"v_out", "cond/cv"},       {"v_out", "body/bv"},
                                           {"body/square", "cond/cv"}, {"v", "v_out"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!apart(&all, pairs[i][0], pairs[i][1]))
            fail_msg("%s and %s share bytes", pairs[i][0], pairs[i][1]);
    assert_int_equal(tn_graph_find(all.model.graph, "init/handle"), TN_NONE); /* not in block 0 */
    release(all);
}

static void a_subgraph_called_twice_is_two_blocks(void **state) {
    (void)state;
    planned all = plan_it(sample_calls());
    assert_int_equal(tn_graph_block_count(all.model.graph), 3);
    assert_int_equal(tn_graph_op_count(all.model.graph), 4);
    assert_int_not_equal(id_of(&all, "f/in"), id_of(&all, "f/in#5")); /* plans go by names */
    release(all);
}

static void a_model_without_operators_plans(void **state) {
    (void)state;
    planned all = plan_it(sample_nothing());
    assert_int_equal(all.layout.body_count, 1);
    release(all);
}

static void operators_with_effects_keep_their_order(void **state) {
    (void)state;
    loaded result = lite_load(sample_loop());
    assert_loads(result);
    assert_true(tn_op_is_ordered(result.graph, op_id(result, "CALL_ONCE")));
    assert_true(tn_op_is_ordered(result.graph, op_id(result, "CUSTOM:Own")));
    assert_false(tn_op_is_ordered(result.graph, op_id(result, "MUL")));
    unload(result);
    /* Two customs that nothing connects; the second would free memory if it came first. */
    lite *m = lite_new();
    lite_float(m, "x", "1000");
    lite_float(m, "a", "1000");
    lite_float(m, "b", "1");
    lite_op(m, OP_CUSTOM, "", "1");
    lite_op(m, OP_CUSTOM, "0", "2");
    lite_end(m, "main", "0", "1,2");
    result = lite_load(m);
    assert_loads(result);
    tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
    options.order = "memory";
    tn_program *program;
    tn_error error;
    assert_int_equal(tn_program_create(result.graph, &options, &program, &error), TN_OK);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < tn_program_count(program); i++)
        if (tn_program_instructions(program)[i].opcode == TN_APPLY)
            assert_int_equal(tn_program_instructions(program)[i].op, seen++);
    tn_program_destroy(program);
    unload(result);
}

/* --- options --- */

static void an_input_shape_that_the_file_states_changes_nothing(void **state) {
    (void)state;
    static const int64_t same[] = {1, 8, 8, 3}, other[] = {2, 8, 8, 3};
    tn_input_shape shape = {"x", 4, same};
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    options.input_shapes = &shape;
    options.input_shape_count = 1;
    loaded result = lite_load_with(sample_convolution(), &options);
    assert_loads(result);
    assert_int_equal(tensor_of(result, "c")->bytes, 256);
    unload(result);
    shape.shape = other; /* shapes behind it are of another model then, and rules decide */
    result = lite_load_with(sample_convolution(), &options);
    assert_loads(result);
    assert_int_equal(tensor_of(result, "c")->bytes, 512);
    assert_int_equal(tensor_of(result, "y")->bytes, 512);
    unload(result);
    shape.rank = 2;
    shape.shape = (const int64_t[]){4, 3}; /* a custom operator has no rule */
    assert_refused(lite_load_with(sample_constants(), &options), TN_E_INVALID, "ADD", "");
    shape.name = "nothing";
    assert_refused(lite_load_with(sample_convolution(), &options), TN_E_INVALID, "test.tflite",
                   "no input has that name");
}

static void an_input_of_unknown_extents_asks_for_them(void **state) {
    (void)state;
    static const int64_t extents[] = {5};
    tn_input_shape shape = {"x", 1, extents};
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    lite *m = lite_new();
    lite_float(m, "x", "-1");
    lite_float(m, "y", "7");
    lite_op(m, OP_CUSTOM, "0", "1");
    lite_end(m, "main", "0", "1");
    assert_refused(lite_load(m), TN_E_UNKNOWN, "test.tflite", "give `input_shapes` x=...");
    options.input_shapes = &shape;
    options.input_shape_count = 1;
    m = lite_new();
    lite_float(m, "x", "-1");
    lite_float(m, "y", "7");
    lite_op(m, OP_CUSTOM, "0", "1");
    lite_end(m, "main", "0", "1");
    loaded result = lite_load_with(m, &options);
    assert_loads(result);
    assert_int_equal(tensor_of(result, "x")->bytes, 20);
    assert_int_equal(tensor_of(result, "y")->bytes, 28);
    unload(result);
}

/* --- plans inside models --- */

static const char *write_file(const char *name, const uint8_t *bytes, size_t size) {
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return name;
}

static void plans_inside_models_are_written_and_read(void **state) {
    (void)state;
    char path[] = "/tmp/tenure-planned-XXXXXX", copy[64];
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    snprintf(copy, sizeof copy, "%s.copy", path);
    lite *m = sample_state();
    size_t size;
    const uint8_t *bytes = lite_model(m, &size);
    write_file(path, bytes, size);
    free(m);
    loaded result = lite_load(sample_state());
    assert_loads(result);
    tn_error error;
    uint64_t offsets[5] = {0, 64, 128, 128, 128}, found[5];
    assert_int_equal(tn_graph_tensor_count(result.graph), 5);
    assert_int_equal(tn_tflite_read_plan(path, NULL, result.graph, found, &error), TN_E_UNKNOWN);
    offsets[4] = TN_SIZE_UNKNOWN; /* left to the run time */
    assert_int_equal(tn_tflite_write_plan(path, NULL, result.graph, offsets, copy, &error), TN_OK);
    assert_int_equal(tn_tflite_read_plan(copy, NULL, result.graph, found, &error), TN_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(found[i], offsets[i]);
    offsets[1] = 72;
    assert_int_equal(tn_tflite_write_plan(path, NULL, result.graph, offsets, copy, &error),
                     TN_E_UNSUPPORTED);
    offsets[1] = UINT64_C(1) << 31;
    assert_int_equal(tn_tflite_write_plan(path, NULL, result.graph, offsets, copy, &error),
                     TN_E_UNSUPPORTED);
    assert_int_equal(tn_tflite_read_plan(copy, NULL, result.graph, found, &error), TN_OK);
    unload(result);
    result = lite_load(sample_calls()); /* another model's graph */
    assert_loads(result);
    uint64_t others[8];
    assert_int_equal(tn_tflite_read_plan(copy, NULL, result.graph, others, &error), TN_E_INVALID);
    unload(result);
    remove(path);
    remove(copy);
}

/* --- what is refused --- */

static lite *small(const char *inputs, const char *outputs, const char *in, const char *out) {
    lite *m = lite_new();
    lite_float(m, "x", "2,3");
    lite_float(m, "y", "2,3");
    lite_op(m, OP_RELU, in, out);
    lite_end(m, "main", inputs, outputs);
    return m;
}

static void wrong_models_are_refused_with_a_reason(void **state) {
    (void)state;
    assert_refused(lite_load(small("0", "1", "7", "1")), TN_E_INVALID, "operator 0 (RELU)",
                   "tensor 7, of 2");
    assert_refused(lite_load(small("0", "1", "-2", "1")), TN_E_INVALID, "operator 0", "tensor -2");
    assert_refused(lite_load(small("9", "1", "0", "1")), TN_E_INVALID, "test.tflite",
                   "tensor 9, of 2");
    assert_refused(lite_load(small("", "1", "0", "1")), TN_E_INVALID, "RELU",
                   "nothing computes it");
    assert_refused(lite_load(small("0", "0", "1", "1")), TN_E_INVALID, "test.tflite", "cycle");
    lite *m = small("0", "1", "0", "1");
    m->version = 2;
    assert_refused(lite_load(m), TN_E_UNSUPPORTED, "test.tflite", "schema version 2");
    m = lite_new();
    assert_refused(lite_load(m), TN_E_INVALID, "test.tflite", "no subgraph");
    m = lite_new(); /* contents too short */
    lite_float(m, "x", "2");
    lite_add(m, (lite_tensor){.name = "w", .shape = "2", .type = T_FLOAT32, .bytes = 4});
    lite_float(m, "y", "2");
    lite_op(m, OP_ADD, "0,1", "2");
    lite_end(m, "main", "0", "2");
    assert_refused(lite_load(m), TN_E_INVALID, "tensor 1 of subgraph 0 'w'", "4 bytes");
    m = lite_new(); /* a buffer that is not there */
    lite_add(m, (lite_tensor){.name = "x", .shape = "2", .buffer = 5});
    lite_float(m, "y", "2");
    lite_op(m, OP_RELU, "0", "1");
    lite_end(m, "main", "0", "1");
    assert_refused(lite_load(m), TN_E_INVALID, "tensor 0", "buffer 5, of 1");
}

static void wrong_control_flow_is_refused_with_a_reason(void **state) {
    (void)state;
    lite *m = lite_new();
    lite_float(m, "x", "2");
    lite_float(m, "y", "2");
    lite_op_with(m, OP_CALL, "0", "1", 16, 7, 0);
    lite_end(m, "main", "0", "1");
    assert_refused(lite_load(m), TN_E_INVALID, "operator 0 (CALL)", "subgraph 7, of 1");
    m = lite_new();
    lite_float(m, "x", "2");
    lite_float(m, "y", "2");
    lite_op(m, OP_CALL, "0", "1");
    lite_end(m, "main", "0", "1");
    assert_refused(lite_load(m), TN_E_INVALID, "operator 0 (CALL)", "which subgraph");
    m = lite_new(); /* itself, for ever, twice each time */
    lite_float(m, "x", "2");
    lite_float(m, "y", "2");
    lite_float(m, "z", "2");
    lite_op_with(m, OP_CALL, "0", "1", 16, 0, 0);
    lite_op_with(m, OP_CALL, "1", "2", 16, 0, 0);
    lite_end(m, "main", "0", "2");
    assert_refused(lite_load(m), TN_E_INVALID, "test.tflite", "");
    m = lite_new(); /* one tensor where two are taken */
    lite_float(m, "x", "2");
    lite_float(m, "y", "2");
    lite_op_with(m, OP_CALL, "0", "1", 16, 1, 0);
    lite_end(m, "main", "0", "1");
    lite_float(m, "a", "2");
    lite_float(m, "b", "2");
    lite_op(m, OP_ADD, "0,1", "1");
    lite_end(m, "f", "0,1", "1");
    assert_refused(lite_load(m), TN_E_INVALID, "CALL", "subgraph 1 takes 2");
}

/* --- damage --- */

typedef struct counter {
    uint64_t calls, fail_at; /* 0: never */
    size_t held, most;
} counter;

static void *counter_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                            size_t alignment) {
    counter *count = self;
    (void)alignment;
    if (new_size && ++count->calls == count->fail_at) return NULL;
    void *result = new_size ? realloc(pointer, new_size) : NULL;
    if (new_size && !result) return NULL;
    if (!new_size) free(pointer);
    count->held += new_size - old_size;
    if (count->held > count->most) count->most = count->held;
    return result;
}

/* Loads bytes; asserts what must hold whatever they are. */
static tn_status try_it(const uint8_t *bytes, size_t size, uint64_t fail_at, size_t *most) {
    counter count = {.fail_at = fail_at};
    tn_context context = TN_CONTEXT_INIT;
    context.allocator = (tn_allocator){counter_resize, &count};
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    options.context = &context;
    tn_graph *graph = NULL;
    tn_error error = {0};
    tn_status status = tn_graph_load_memory("test.tflite", bytes, size, &options, &graph, &error);
    assert_int_equal(status == TN_OK, graph != NULL);
    if (status != TN_OK && (!error.message[0] || strncmp(error.where, "test.tflite", 11) != 0))
        fail_msg("error without file or message: [%s] %s", error.where, error.message);
    tn_graph_destroy(graph);
    assert_int_equal(count.held, 0);
    if (most) *most = count.most;
    return status;
}

static void every_cut_of_a_sample_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        lite *m = samples[i].make();
        size_t size;
        const uint8_t *bytes = lite_model(m, &size);
        while (size && bytes[size - 1] == 0) size--; /* padding, or the end of a string */
        for (size_t cut = 0; cut < size; cut++) {
            uint8_t *part = malloc(cut + 1);
            memcpy(part, bytes, cut);
            if (try_it(part, cut, 0, NULL) != TN_E_INVALID)
                fail_msg("%s, cut at %zu of %zu, is not refused", samples[i].name, cut, size);
            free(part);
        }
        free(m);
    }
}

static void every_flipped_byte_is_answered(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        lite *m = samples[i].make();
        size_t size, most;
        uint8_t *bytes = (uint8_t *)(uintptr_t)lite_model(m, &size);
        for (size_t at = 0; at < size; at++) {
            static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x7f};
            for (size_t k = 0; k < sizeof masks; k++) {
                bytes[at] ^= masks[k];
                tn_status status = try_it(bytes, size, 0, &most);
                if (status == TN_E_INTERNAL || status == TN_E_NO_MEMORY || most > (8u << 20))
                    fail_msg("%s, byte %zu: %s, %zu bytes", samples[i].name, at,
                             tn_status_name(status), most);
                bytes[at] ^= masks[k];
            }
        }
        free(m);
    }
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        lite *m = samples[i].make();
        size_t size;
        const uint8_t *bytes = lite_model(m, &size);
        tn_status status = TN_E_NO_MEMORY;
        for (uint64_t at = 1; status != TN_OK; at++) {
            status = try_it(bytes, size, at, NULL);
            if (status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
        }
        free(m);
    }
}

/* Many offsets to one long name: a small file that asks for much. */
static void one_name_for_a_thousand_tensors_stays_small(void **state) {
    (void)state;
    lite *m = lite_new();
    flat_buffer *flat = &m->flat;
    enum { NAME = 20000, TENSORS = 4000 };
    char *name = malloc(NAME + 1);
    memset(name, 'n', NAME);
    name[NAME] = 0;
    flat_slot slots[] = {{0, 0, flat_ints(flat, "2")}, {3, 0, flat_text(flat, name)}};
    ref tensor = flat_table(flat, slots, 2);
    free(name);
    ref *tensors = malloc(TENSORS * sizeof *tensors);
    int32_t *list = malloc(TENSORS * sizeof *list);
    for (int i = 0; i < TENSORS; i++) tensors[i] = tensor, list[i] = i;
    flat_raw(flat, list, TENSORS * sizeof *list);
    flat_u32(flat, TENSORS);
    ref inputs = flat->used;
    flat_slot graph[] = {{0, 0, flat_refs(flat, tensors, TENSORS)}, {1, 0, inputs}};
    m->graphs[m->graph_count++] = flat_table(flat, graph, 2);
    free(tensors);
    free(list);
    size_t size, most;
    const uint8_t *bytes = lite_model(m, &size);
    assert_int_equal(try_it(bytes, size, 0, &most), TN_E_INVALID);
    assert_true(most < 64 * size);
    free(m);
}

/* --- real models --- */

#define SHARED TENURE_SOURCE_DIR "/../shared/data/tflite"

static void for_models(void (*visit)(uint8_t *bytes, size_t size, const char *name)) {
    DIR *directory = opendir(SHARED);
    if (!directory) {
        printf("SKIP: shared/data/tflite is not there\n");
        return;
    }
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[600];
        struct stat facts;
        size_t length = strlen(entry->d_name);
        if (length < 7 || strcmp(entry->d_name + length - 7, ".tflite") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", SHARED, entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        assert_int_equal(fstat(fileno(file), &facts), 0);
        size_t size = (size_t)facts.st_size;
        uint8_t *bytes = malloc(size);
        assert_int_equal(fread(bytes, 1, size, file), size);
        fclose(file);
        visit(bytes, size, entry->d_name);
        free(bytes);
    }
    closedir(directory);
}

static void cut_all_over(uint8_t *bytes, size_t size, const char *name) {
    for (size_t cut = 0; cut < size; cut += 97) {
        tn_status status = try_it(bytes, cut, 0, NULL);
        if (status != TN_E_INVALID)
            fail_msg("%s cut at %zu of %zu: %s", name, cut, size, tn_status_name(status));
    }
}
static void real_models_cut_off_anywhere_are_refused(void **state) {
    (void)state;
    for_models(cut_all_over);
}

static void flip_bits(uint8_t *bytes, size_t size, const char *name) {
    tn__random random = {size};
    for (int i = 0; i < 300; i++) {
        size_t at = (size_t)tn__random_below(&random, size), most;
        uint8_t mask = (uint8_t)(1u << tn__random_below(&random, 8));
        bytes[at] ^= mask;
        tn_status status = try_it(bytes, size, 0, &most);
        if (status == TN_E_INTERNAL || status == TN_E_NO_MEMORY)
            fail_msg("%s, byte %zu: %s", name, at, tn_status_name(status));
        bytes[at] ^= mask;
    }
}
static void real_models_with_flipped_bits_are_answered(void **state) {
    (void)state;
    for_models(flip_bits);
}

static int write_corpus(const char *folder) {
    for (size_t i = 0; i < SAMPLES; i++) {
        char path[600];
        size_t size;
        lite *m = samples[i].make();
        const uint8_t *bytes = lite_model(m, &size);
        snprintf(path, sizeof path, "%s/%s.tflite", folder, samples[i].name);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(bytes, 1, size, file) != size || fclose(file) != 0) return 1;
        free(m);
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count == 3 && !strcmp(arguments[1], "--corpus")) return write_corpus(arguments[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_and_operators_come_as_the_file_states_them),
        cmocka_unit_test(every_element_type_has_its_size),
        cmocka_unit_test(strings_have_no_size_and_that_is_said),
        cmocka_unit_test(scalars_and_tensors_without_names_are_read),
        cmocka_unit_test(weights_behind_dequantize_and_densify_are_constants),
        cmocka_unit_test(a_variable_tensor_lives_for_the_whole_program),
        cmocka_unit_test(reshape_is_a_view_and_elementwise_may_overwrite),
        cmocka_unit_test(branches_pass_copies_and_share_memory),
        cmocka_unit_test(a_loop_keeps_what_its_next_turn_needs),
        cmocka_unit_test(a_subgraph_called_twice_is_two_blocks),
        cmocka_unit_test(a_model_without_operators_plans),
        cmocka_unit_test(operators_with_effects_keep_their_order),
        cmocka_unit_test(an_input_shape_that_the_file_states_changes_nothing),
        cmocka_unit_test(an_input_of_unknown_extents_asks_for_them),
        cmocka_unit_test(plans_inside_models_are_written_and_read),
        cmocka_unit_test(wrong_models_are_refused_with_a_reason),
        cmocka_unit_test(wrong_control_flow_is_refused_with_a_reason),
        cmocka_unit_test(every_cut_of_a_sample_is_refused),
        cmocka_unit_test(every_flipped_byte_is_answered),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(one_name_for_a_thousand_tensors_stays_small),
        cmocka_unit_test(real_models_cut_off_anywhere_are_refused),
        cmocka_unit_test(real_models_with_flipped_bits_are_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
