/* test_host.c - the host's side of swaps: which copies there are, for how long, in whose buffers.
 * (That nothing is lost on a planned one is shown on random programs: test_opcodes.c.)
 */
#include "opcodes.h"

typedef struct line {
    tn_opcode opcode;
    tn_tensor_id tensor;
    uint32_t slot;
    tn_op_id op;
} line;

/* x and y, z = Relu(y) and w = Max(z, x); p is a parameter. */
static tn_graph *small(const tn_context *context) {
    tn_graph *graph;
    assert_ok(tn_graph_create(context, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 100, 0),
                 y = vector(graph, "y", TN_KIND_INPUT, 60, 0),
                 z = vector(graph, "z", TN_KIND_OUTPUT, 60, 0),
                 p = vector(graph, "p", TN_KIND_PARAMETER, 100, 0),
                 w = vector(graph, "w", TN_KIND_OUTPUT, 100, 0);
    apply(graph, "Relu", 0, &y, 1, &z, 1);
    apply(graph, "Max", 0, (tn_tensor_id[]){x, p}, 2, &w, 1);
    assert_ok(tn_graph_infer(graph, &failure));
    return graph;
}
enum { X, Y, Z, P, W };

static tn_status host_of(const tn_graph *graph, const line *lines, uint32_t count, tn_host *host) {
    tn_instruction list[24];
    tn_program *program;
    assert_true(count <= 24);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = (tn_instruction)TN_INSTRUCTION_INIT;
        list[i].opcode = lines[i].opcode;
        if (lines[i].opcode == TN_APPLY)
            list[i].op = lines[i].op;
        else
            list[i].tensor = lines[i].tensor;
        list[i].slot = lines[i].slot;
    }
    TN_TRY(tn_program_from(graph, list, count, NULL, 0, &program, &failure));
    tn_status status = tn_program_host(program, 1, host, &failure);
    tn_program_destroy(program);
    return status;
}
#define HOST_OF(graph, host, ...)                                                                  \
    assert_ok(host_of(graph, (const line[]){__VA_ARGS__},                                          \
                      sizeof((const line[]){__VA_ARGS__}) / sizeof(line), host))

static void piece_is(const tn_host *host, tn_body_id body, uint32_t piece, int64_t first,
                     int64_t last, uint64_t bytes) {
    const tn_body *it = tn_problem_body(host->problem, body);
    assert_true(piece < it->piece_count);
    assert_int_equal(it->pieces[piece].first, first);
    assert_int_equal(it->pieces[piece].last, last);
    assert_int_equal(it->pieces[piece].hi - it->pieces[piece].lo, bytes);
}

static void a_copy_is_held_until_it_came_back_last(void **state) {
    (void)state;
    tn_graph *g = small(NULL);
    tn_host host;
    HOST_OF(g, &host, {TN_PUT, .tensor = X}, {TN_PUT, .tensor = Y}, {TN_SWAP_OUT, .tensor = X},
            {TN_APPLY, .op = 0}, {TN_SWAP_IN, .tensor = X}, {TN_DROP, .tensor = X},
            {TN_SWAP_IN, .tensor = X}, {TN_SWAP_OUT, .tensor = Z}, {TN_APPLY, .op = 1},
            {TN_SWAP_OUT, .tensor = X}, {TN_SWAP_IN, .tensor = X}, {TN_SWAP_IN, .tensor = Z},
            {TN_GET, .tensor = Z}, {TN_GET, .tensor = W});
    assert_int_equal(tn_problem_count(host.problem), 3);
    assert_int_equal(host.copied, 260);
    piece_is(&host, host.body[2], 0, 2, 7, 100);
    piece_is(&host, host.body[7], 0, 7, 12, 60);
    piece_is(&host, host.body[9], 0, 9, 11, 100);
    assert_int_equal(host.body[4], host.body[2]);
    assert_int_equal(host.body[6], host.body[2]);
    assert_int_equal(host.body[10], host.body[9]);
    assert_int_equal(host.body[11], host.body[7]);
    assert_int_equal(host.body[3], TN_NONE);
    assert_string_equal(tn_problem_body(host.problem, host.body[7])->name, "z");
    tn_layout layout;
    assert_ok(tn_plan(host.problem, NULL, &layout, &failure));
    assert_int_equal(layout.peak, 160);
    tn_layout_release(&layout);
    tn_host_release(&host);
    tn_graph_destroy(g);
}

static void a_numbered_buffer_is_one_place(void **state) {
    (void)state;
    tn_graph *g = small(NULL);
    tn_host host;
    HOST_OF(g, &host, {TN_PUT, .tensor = X}, {TN_PUT, .tensor = Y},
            {TN_SWAP_OUT, .tensor = X, .slot = 2}, {TN_SWAP_IN, .tensor = X, .slot = 2},
            {TN_SWAP_OUT, .tensor = Y, .slot = 2}, {TN_SWAP_OUT, .tensor = X, .slot = 1},
            {TN_SWAP_IN, .tensor = X, .slot = 1}, {TN_SWAP_IN, .tensor = Y, .slot = 2},
            {TN_APPLY, .op = 0}, {TN_APPLY, .op = 1}, {TN_GET, .tensor = Z}, {TN_GET, .tensor = W});
    assert_int_equal(tn_problem_count(host.problem), 2);
    assert_int_equal(host.body[2], host.body[4]);
    assert_int_equal(tn_problem_body(host.problem, host.body[2])->size, 100);
    piece_is(&host, host.body[2], 0, 2, 4, 100);
    piece_is(&host, host.body[2], 1, 4, 8, 60);
    piece_is(&host, host.body[5], 0, 5, 7, 100);
    tn_host_release(&host);
    tn_graph_destroy(g);
}

static void what_is_static_stays_there(void **state) {
    (void)state;
    tn_graph *g = small(NULL);
    tn_host host;
    HOST_OF(g, &host, {TN_PUT, .tensor = X}, {TN_PUT, .tensor = Y}, {TN_APPLY, .op = 0},
            {TN_SWAP_IN, .tensor = P}, {TN_APPLY, .op = 1}, {TN_SWAP_OUT, .tensor = P},
            {TN_GET, .tensor = Z}, {TN_GET, .tensor = W});
    assert_int_equal(tn_problem_count(host.problem), 1);
    assert_int_equal(host.body[3], host.body[5]);
    piece_is(&host, host.body[3], 0, 0, 8, 100);
    tn_host_release(&host);
    HOST_OF(g, &host, {TN_PUT, .tensor = X}, {TN_PUT, .tensor = Y}, {TN_APPLY, .op = 0},
            {TN_APPLY, .op = 1}, {TN_GET, .tensor = Z}, {TN_GET, .tensor = W});
    assert_int_equal(tn_problem_count(host.problem), 0);
    tn_host_release(&host);
    tn_host_release(NULL);
    tn_graph_destroy(g);
}

/* Loop(trips, , x) with Max(x, c) in its body. */
static tn_graph *looping(tn_tensor_id *c) {
    tn_graph *graph;
    tn_block_id block;
    tn_tensor_id trips, formals[3], results[2];
    tn_tensor_spec integer = {.name = "trips", .kind = TN_KIND_INPUT, .dtype = TN_INT64};
    assert_ok(tn_graph_create(NULL, &graph, &failure));
    tn_tensor_id x = vector(graph, "x", TN_KIND_INPUT, 8, 0);
    *c = vector(graph, "c", TN_KIND_INPUT, 8, 0);
    tn_tensor_id out = vector(graph, "out", TN_KIND_OUTPUT, -1, 0);
    assert_ok(tn_graph_add_tensor(graph, &integer, &trips, &failure));
    assert_ok(tn_graph_add_block(graph, "body", &block, &failure));
    tn_tensor_spec turn = {.name = "turn", .dtype = TN_INT64, .block = block};
    tn_tensor_spec go = {.name = "go", .dtype = TN_BOOL, .block = block};
    assert_ok(tn_graph_add_tensor(graph, &turn, &formals[0], &failure));
    assert_ok(tn_graph_add_tensor(graph, &go, &formals[1], &failure));
    formals[2] = vector(graph, "formal", TN_KIND_ACTIVATION, 8, block);
    results[0] = formals[1];
    results[1] = vector(graph, "most", TN_KIND_ACTIVATION, -1, block);
    apply(graph, "Max", block, (tn_tensor_id[]){formals[2], *c}, 2, &results[1], 1);
    assert_ok(tn_graph_set_block_io(graph, block, formals, 3, results, 2, &failure));
    tn_attr attr = block_attr("body", block);
    tn_op_spec spec = {.type = "Loop",
                       .version = 17,
                       .inputs = (tn_tensor_id[]){trips, TN_NONE, x},
                       .input_count = 3,
                       .outputs = &out,
                       .output_count = 1,
                       .attrs = &attr,
                       .attr_count = 1};
    assert_ok(tn_graph_add_op(graph, &spec, NULL, &failure));
    assert_ok(tn_graph_infer(graph, &failure));
    return graph;
}

/* Out before the loop, back in every turn. */
static void what_a_loop_brings_back_is_held_until_it_ends(void **state) {
    (void)state;
    tn_tensor_id c;
    tn_graph *g = looping(&c);
    tn_program *file, *program;
    tn_host host;
    tn_instruction list[16];
    uint32_t count = 0, out = 0;
    assert_ok(tn_program_create(g, NULL, &file, &failure));
    tn_region region = tn_program_regions(file)[0];
    for (uint32_t i = 0; i < tn_program_count(file); i++) {
        for (uint32_t k = 0; k < 2 && i == region.first; k++) {
            if (k == 0) out = count;
            list[count] = (tn_instruction)TN_INSTRUCTION_INIT;
            list[count].opcode = k == 0 ? TN_SWAP_OUT : TN_SWAP_IN;
            list[count++].tensor = c;
        }
        list[count++] = tn_program_instructions(file)[i];
    }
    region.first += 1;
    region.last += 2;
    assert_int_equal(list[region.last].opcode, TN_APPLY); /* the loop's own */
    assert_ok(tn_program_from(g, list, count, &region, 1, &program, &failure));
    assert_ok(tn_program_host(program, 1, &host, &failure));
    piece_is(&host, host.body[out], 0, out, region.last + 1, 8);
    tn_host_release(&host);
    tn_program_destroy(program);
    tn_program_destroy(file);
    tn_graph_destroy(g);
}

static void running_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    uint32_t failures = 0;
    for (uint64_t fail_at = 1; status != TN_OK; fail_at++) {
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        tn_graph *g = small(&context);
        tn_program *program;
        tn_host host = {0};
        tn_instruction list[8];
        const tn_opcode opcodes[] = {TN_PUT,   TN_PUT,   TN_SWAP_OUT, TN_SWAP_IN,
                                     TN_APPLY, TN_APPLY, TN_GET,      TN_GET};
        for (uint32_t i = 0; i < 8; i++) {
            list[i] = (tn_instruction)TN_INSTRUCTION_INIT;
            list[i].opcode = opcodes[i];
            list[i].tensor = i == 1 ? Y : i == 6 ? Z : i == 7 ? W : X;
            list[i].stream = i == 2 || i == 3 ? 1 : 0;
            list[i].wait = i == 2 || i == 4 ? i : 0;
            list[i].signal = i == 1 || i == 3 ? i + 1 : 0;
            if (opcodes[i] == TN_APPLY) list[i].tensor = TN_NONE, list[i].op = i - 4;
        }
        assert_ok(tn_program_from(g, list, 8, NULL, 0, &program, &failure));
        memory.requests = 0;
        memory.fail_at = fail_at;
        status = tn_program_host(program, 0, &host, &failure);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        failures += status != TN_OK;
        tn_host_release(&host);
        tn_program_destroy(program);
        tn_graph_destroy(g);
        assert_int_equal(memory.held, 0);
    }
    assert_true(failures > 5);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_held_until_it_came_back_last),
        cmocka_unit_test(a_numbered_buffer_is_one_place),
        cmocka_unit_test(what_is_static_stays_there),
        cmocka_unit_test(what_a_loop_brings_back_is_held_until_it_ends),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
