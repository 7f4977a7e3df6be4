/* test_orders.c - orders of operators against all orders there are.
 *
 * The reference knows nothing of models, items or cuts. An order is allowed when every operator
 * reads the same versions of the same memory as in the file; what it costs is the peak of live
 * bytes that an occupancy finds for the program built from it by hand. Small graphs are tried in
 * all allowed orders. Operators are PyTorch's, whose files state shapes: any sizes go together,
 * some work in place, some are views, some write into their inputs.
 */
#include "../support.h"

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "base/base.h"
#include "program/program.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* --- random graphs --- */

#define TENSORS_MAX 400u

typedef struct maker {
    tn_graph *graph;
    tn__random random;
    tn_tensor_id tensors[TENSORS_MAX];
    int64_t sizes[TENSORS_MAX];
    uint32_t count, ops;
    bool writes; /* operators that write into their inputs are among them */
} maker;

static uint64_t draw(maker *m, uint64_t bound) { return tn__random_below(&m->random, bound); }

static tn_tensor_id bytes(maker *m, tn_kind kind, int64_t size) {
    tn_tensor_id id;
    char name[16];
    snprintf(name, sizeof name, "t%u", tn_graph_tensor_count(m->graph));
    tn_tensor_spec spec = {
        .name = name, .kind = kind, .dtype = TN_UINT8, .rank = 1, .shape = &size};
    assert_ok(tn_graph_add_tensor(m->graph, &spec, &id, &failure));
    if (m->count < TENSORS_MAX) {
        m->tensors[m->count] = id;
        m->sizes[m->count++] = size;
    }
    return id;
}

static void apply(maker *m, const char *type, const tn_tensor_id *inputs, uint32_t input_count,
                  const tn_tensor_id *outputs, uint32_t output_count) {
    tn_op_spec spec = {.type = type,
                       .name = type,
                       .domain = "aten",
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count};
    assert_ok(tn_graph_add_op(m->graph, &spec, NULL, &failure));
    m->ops++;
}

/* Mostly what is new: long and wide graphs, not stars around the inputs. */
static uint32_t pick(maker *m) {
    uint64_t recent = m->count < 5 ? m->count : 5;
    if (draw(m, 4) == 0) return (uint32_t)draw(m, m->count);
    return (uint32_t)(m->count - 1 - draw(m, recent));
}

static void make_op(maker *m) {
    uint32_t a = pick(m), b = pick(m);
    tn_tensor_id in[2] = {m->tensors[a], m->tensors[b]}, out[2];
    int64_t size = m->sizes[a];
    uint64_t kind = draw(m, m->writes ? 9 : 7);
    if (kind <= 2) {
        out[0] = bytes(m, TN_KIND_ACTIVATION, 1 + (int64_t)draw(m, 40));
        apply(m, "mix.default", in, 1 + (uint32_t)draw(m, 2), out, 1);
    } else if (kind == 3) {
        out[0] = bytes(m, TN_KIND_ACTIVATION, size);
        apply(m, "add.Tensor", in, 2, out, 1);
    } else if (kind == 4) {
        out[0] = bytes(m, TN_KIND_ACTIVATION, 1 + (int64_t)draw(m, 40));
        out[1] = bytes(m, TN_KIND_ACTIVATION, 1 + (int64_t)draw(m, 20));
        apply(m, "pair.default", in, 2, out, 2);
    } else if (kind == 5) {
        out[0] = bytes(m, TN_KIND_ACTIVATION, size);
        apply(m, "view.default", in, 1, out, 1);
    } else if (kind == 6) { /* a part of it, nobody knows where */
        out[0] = bytes(m, TN_KIND_ACTIVATION, 1 + (int64_t)draw(m, (uint64_t)size));
        apply(m, "select.int", in, 1, out, 1);
    } else {
        out[0] = bytes(m, TN_KIND_ACTIVATION, size);
        apply(m, "add_.Tensor", in, 2, out, 1);
    }
}

static tn_graph *random_graph(uint64_t seed, uint32_t ops, bool writes) {
    maker m = {.random = {.state = seed}, .writes = writes};
    tn_tensor_id outputs[2];
    assert_ok(tn_graph_create(NULL, &m.graph, &failure));
    for (uint64_t i = 0; i < 1 + seed % 3; i++)
        bytes(&m, i == 2 ? TN_KIND_PARAMETER : TN_KIND_INPUT, 1 + (int64_t)draw(&m, 40));
    while (m.ops < ops) make_op(&m);
    for (int i = 0; i < 2; i++) outputs[i] = m.tensors[m.count - 1 - draw(&m, m.count / 2)];
    const tn_block *block = tn_graph_block(m.graph, 0);
    tn_tensor_id inputs[3];
    memcpy(inputs, block->inputs, block->input_count * sizeof *inputs);
    assert_ok(tn_graph_set_block_io(m.graph, 0, inputs, block->input_count, outputs, 2, &failure));
    assert_ok(tn_graph_infer(m.graph, &failure));
    return m.graph;
}

/* --- the reference --- */

#define OPS_MAX 16u

typedef struct reference {
    const tn_graph *graph;
    uint32_t count;
    tn_op_id order[OPS_MAX];
    uint32_t home[TENSORS_MAX]; /* tensor -> the one whose memory it is, through aliases */
    uint64_t read[OPS_MAX]; /* a number for the versions that the operator reads in file order */
    uint64_t best, file, tried;
} reference;

static bool writes_input(const tn_op *op) { return strcmp(op->type, "add_.Tensor") == 0; }

/* What an operator reads, as a number: who has written into the memory of its inputs so far. */
static uint64_t version_read(const reference *r, const tn_op *op, const uint64_t *versions) {
    uint64_t value = 1;
    for (uint32_t i = 0; i < op->input_count; i++)
        value = value * 1000003u + versions[r->home[op->inputs[i]]] + 1;
    return value;
}

/* Runs the order on versions; false as soon as somebody reads what it should not. */
static bool is_allowed(reference *r, const tn_op_id *order, uint32_t count, bool note) {
    uint64_t versions[TENSORS_MAX] = {0};
    bool made[TENSORS_MAX] = {false};
    for (uint32_t i = 0; i < count; i++) {
        const tn_op *op = tn_graph_op(r->graph, order[i]);
        for (uint32_t k = 0; k < op->input_count; k++)
            if (tn_graph_tensor(r->graph, op->inputs[k])->producer != TN_NONE &&
                !made[op->inputs[k]])
                return false;
        uint64_t read = version_read(r, op, versions);
        if (note) r->read[order[i]] = read;
        if (read != r->read[order[i]]) return false;
        if (writes_input(op)) versions[r->home[op->inputs[0]]] = order[i] + 1;
        for (uint32_t k = 0; k < op->output_count; k++) made[op->outputs[k]] = true;
    }
    return true;
}

static void find_homes(reference *r) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(r->graph); id++) {
        tn_op_id producer = tn_graph_tensor(r->graph, id)->producer;
        tn_view view = {.source = TN_NONE};
        if (producer != TN_NONE) view = tn_op_view(r->graph, producer, 0);
        bool first = producer != TN_NONE && tn_graph_op(r->graph, producer)->outputs[0] == id;
        r->home[id] = first && view.source != TN_NONE ? r->home[view.source] : id;
    }
}

static bool is_folded(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (!tn_tensor_is_static(tn_graph_tensor(graph, op->outputs[k]))) return false;
    return true;
}

/* The peak of live bytes of a program whose operators run in this order. */
static uint64_t peak_of(const tn_graph *graph, const tn_op_id *order, uint32_t count) {
    tn_program *file, *program;
    tn_occupancy *occupancy;
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    options.alignment = 1;
    assert_ok(tn_program_create(graph, NULL, &file, &failure));
    uint32_t steps = tn_program_count(file), at = 0;
    tn_instruction *made = calloc(steps + 1, sizeof *made);
    memcpy(made, tn_program_instructions(file), steps * sizeof *made);
    for (uint32_t i = 0; i < steps; i++) {
        if (made[i].opcode != TN_APPLY) continue;
        while (is_folded(graph, order[at])) at++;
        made[i].op = order[at++];
    }
    while (at < count && is_folded(graph, order[at])) at++;
    assert_int_equal(at, count);
    assert_ok(tn_program_from(graph, made, steps, NULL, 0, &program, &failure));
    assert_ok(tn_occupancy_create(program, &options, &occupancy, &failure));
    uint64_t peak = tn_occupancy_summary(occupancy).peak_live;
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_program_destroy(file);
    free(made);
    return peak;
}

/* All orders: the operators not used yet, tried at place `at`. As deep as there are operators. */
static void try_all(reference *r, uint32_t at) {
    if (at == r->count) {
        uint64_t peak = peak_of(r->graph, r->order, r->count);
        if (peak < r->best) r->best = peak;
        r->tried++;
        return;
    }
    for (uint32_t i = at; i < r->count; i++) {
        tn_op_id op = r->order[i];
        r->order[i] = r->order[at];
        r->order[at] = op;
        if (is_allowed(r, r->order, at + 1, false)) try_all(r, at + 1);
        r->order[at] = r->order[i];
        r->order[i] = op;
    }
}

static reference reference_of(const tn_graph *graph) {
    reference r = {.graph = graph, .count = tn_graph_op_count(graph), .best = UINT64_MAX};
    for (uint32_t i = 0; i < r.count; i++) r.order[i] = i;
    find_homes(&r);
    assert_true(is_allowed(&r, r.order, r.count, true));
    r.file = peak_of(graph, r.order, r.count);
    return r;
}

/* --- the orders under test --- */

static uint64_t arrange(const tn_graph *graph, const char *name, uint64_t state_limit,
                        tn_op_id *order, tn_order_proof *proof) {
    tn_order_task task = {.graph = graph, .state_limit = state_limit};
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    options.alignment = 1;
    assert_ok(tn__occupancy_options(&options, &task.memory, &failure));
    *proof = (tn_order_proof){0};
    assert_ok(tn__order_find(name)->arrange(&task, order, proof, &failure));
    return peak_of(graph, order, tn_graph_op_count(graph));
}

static void exact_is_the_best_of_all_orders(void **state) {
    (void)state;
    uint64_t tried = 0, better = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        tn_graph *graph = random_graph(seed, 4 + (uint32_t)(seed % 4), seed % 3 == 0);
        reference r = reference_of(graph);
        tn_op_id order[OPS_MAX];
        tn_order_proof proof;
        try_all(&r, 0);
        for (int forced = 0; forced < 2; forced++) {
            uint64_t peak = arrange(graph, "memory", forced ? 0 : 100000, order, &proof);
            if (!is_allowed(&r, order, r.count, false))
                fail_msg("seed %llu: an order that does something else\n",
                         (unsigned long long)seed);
            if (peak != proof.peak || proof.bound > r.best)
                fail_msg("seed %llu: says %llu to %llu, is %llu, best %llu\n",
                         (unsigned long long)seed, (unsigned long long)proof.bound,
                         (unsigned long long)proof.peak, (unsigned long long)peak,
                         (unsigned long long)r.best);
            if (forced ? (double)peak > 1.01 * (double)r.best
                       : peak != r.best || proof.bound != r.best)
                fail_msg("seed %llu: %llu (bound %llu), the best of %llu orders has %llu\n",
                         (unsigned long long)seed, (unsigned long long)peak,
                         (unsigned long long)proof.bound, (unsigned long long)r.tried,
                         (unsigned long long)r.best);
        }
        tried += r.tried;
        better += r.best < r.file;
        tn_graph_destroy(graph);
    }
    print_message("400 graphs, %llu orders; %llu better than the file's\n",
                  (unsigned long long)tried, (unsigned long long)better);
    assert_true(better > 40);
}

static void heuristics_come_within_a_percent_of_exact(void **state) {
    (void)state;
    uint32_t solved = 0, graphs = 0;
    double worst = 1;
    for (uint64_t seed = 1; seed <= 240; seed++) {
        uint32_t ops = 10 + (uint32_t)(seed % 60);
        tn_graph *graph = random_graph(seed, ops, seed % 3 == 0);
        tn_op_id *order = calloc(ops, sizeof *order), *again = calloc(ops, sizeof *again);
        tn_order_proof exact, forced;
        for (uint32_t i = 0; i < ops; i++) order[i] = i;
        uint64_t file = peak_of(graph, order, ops);
        uint64_t best = arrange(graph, "memory", 100000, order, &exact);
        uint64_t near = arrange(graph, "memory", 0, again, &forced);
        if (best > file || near > file || forced.bound > best)
            fail_msg("seed %llu: file %llu, exact %llu, forced %llu (bound %llu)\n",
                     (unsigned long long)seed, (unsigned long long)file, (unsigned long long)best,
                     (unsigned long long)near, (unsigned long long)forced.bound);
        graphs++;
        if (exact.peak == exact.bound) {
            solved++;
            if ((double)near / (double)best > worst) worst = (double)near / (double)best;
            if ((double)near > 1.01 * (double)best)
                fail_msg("seed %llu: %u operators, exact %llu, forced %llu\n",
                         (unsigned long long)seed, ops, (unsigned long long)best,
                         (unsigned long long)near);
        }
        arrange(graph, "memory", 100000, again, &forced);
        assert_memory_equal(order, again, ops * sizeof *order); /* the same every time */
        free(order);
        free(again);
        tn_graph_destroy(graph);
    }
    print_message(
        "%u of %u graphs of 10 to 69 operators solved exactly; heuristic at most %.4f x\n", solved,
        graphs, worst);
    assert_true(solved > graphs / 2);
}

/* --- through the public face --- */

static void no_order_costs_more_than_the_file(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        tn_graph *graph = random_graph(seed, 30, seed % 2 == 0);
        tn_program *program;
        tn_occupancy *occupancy;
        tn_layout layout;
        uint64_t arenas[3];
        static const char *const names[3] = {"file", "memory", "auto"};
        for (int i = 0; i < 3; i++) {
            tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
            options.order = names[i];
            assert_ok(tn_program_plan(graph, &options, NULL, NULL, &program, &occupancy, &layout,
                                      &failure));
            arenas[i] = layout.peak;
            tn_program_order order = tn_program_order_of(program);
            if (order.proved) assert_true(order.bound == order.peak && order.peak > 0);
            tn_layout_release(&layout);
            tn_occupancy_destroy(occupancy);
            tn_program_destroy(program);
        }
        if (arenas[1] > arenas[0] || arenas[2] > arenas[1])
            fail_msg("seed %llu: file %llu, memory %llu, auto %llu\n", (unsigned long long)seed,
                     (unsigned long long)arenas[0], (unsigned long long)arenas[1],
                     (unsigned long long)arenas[2]);
        tn_graph_destroy(graph);
    }
}

static void a_sequence_is_checked(void **state) {
    (void)state;
    maker m = {.random = {.state = 1}};
    tn_op_id right[3] = {0, 2, 1}, wrong[3] = {1, 0, 2}, twice[3] = {0, 0, 1},
             unknown[3] = {0, 1, 9};
    const tn_op_id *sequences[4] = {right, wrong, twice, unknown};
    static const char *const words[4] = {"", "#1", "twice", "#9"};
    assert_ok(tn_graph_create(NULL, &m.graph, &failure));
    tn_tensor_id x = bytes(&m, TN_KIND_INPUT, 8), y = bytes(&m, TN_KIND_ACTIVATION, 8);
    tn_tensor_id z = bytes(&m, TN_KIND_OUTPUT, 8), w = bytes(&m, TN_KIND_OUTPUT, 8);
    apply(&m, "mix.default", &x, 1, &y, 1);
    apply(&m, "mix.default", &y, 1, &z, 1); /* reads y; the next one writes into x */
    apply(&m, "add_.Tensor", (tn_tensor_id[]){x, x}, 2, &w, 1);
    assert_ok(tn_graph_infer(m.graph, &failure));
    for (int i = 0; i < 4; i++) {
        tn_program *program = NULL;
        tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
        options.sequence = sequences[i];
        options.sequence_count = 3;
        tn_status status = tn_program_create(m.graph, &options, &program, &failure);
        assert_int_equal(status, i == 0 ? TN_OK : TN_E_INVALID);
        if (i > 0) assert_non_null(strstr(failure.message, words[i]));
        if (i == 0) assert_string_equal(tn_program_order_of(program).name, "sequence");
        tn_program_destroy(program);
    }
    tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
    tn_program *program = NULL;
    options.sequence = (tn_op_id[]){2, 0, 1}; /* the write before the read */
    options.sequence_count = 3;
    assert_int_equal(tn_program_create(m.graph, &options, &program, &failure), TN_E_INVALID);
    options.sequence = (tn_op_id[]){0, 1};
    options.sequence_count = 2;
    assert_int_equal(tn_program_create(m.graph, &options, &program, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "leaves out"));
    options.sequence = NULL;
    options.order = "fastest";
    assert_int_equal(tn_program_create(m.graph, &options, &program, &failure), TN_E_UNKNOWN);
    tn_graph_destroy(m.graph);
}

/* Weights that are updated last, as optimizers do: each gradient waits, unless the order moves. */
static void updates_move_to_their_gradients(void **state) {
    (void)state;
    enum { LAYERS = 30 };
    maker m = {.random = {.state = 1}};
    tn_tensor_id weights[LAYERS], gradients[LAYERS], outputs[LAYERS], inputs[LAYERS + 1];
    assert_ok(tn_graph_create(NULL, &m.graph, &failure));
    inputs[0] = bytes(&m, TN_KIND_INPUT, 10);
    for (int i = 0; i < LAYERS; i++) inputs[i + 1] = weights[i] = bytes(&m, TN_KIND_INPUT, 1000);
    tn_tensor_id x = inputs[0];
    for (int i = 0; i < LAYERS; i++) {
        tn_tensor_id in[2] = {x, weights[i]};
        x = bytes(&m, TN_KIND_ACTIVATION, 10);
        apply(&m, "mix.default", in, 2, &x, 1);
    }
    for (int i = LAYERS; i-- > 0;) {
        tn_tensor_id in[2] = {x, weights[i]}, out[2] = {bytes(&m, TN_KIND_ACTIVATION, 10), 0};
        out[1] = gradients[i] = bytes(&m, TN_KIND_ACTIVATION, 1000);
        apply(&m, "mix.default", in, 2, out, 2);
        x = out[0];
    }
    for (int i = 0; i < LAYERS; i++) {
        tn_tensor_id in[2] = {weights[i], gradients[i]};
        outputs[i] = bytes(&m, TN_KIND_ACTIVATION, 1000);
        apply(&m, "add_.Tensor", in, 2, &outputs[i], 1);
    }
    assert_ok(tn_graph_set_block_io(m.graph, 0, inputs, LAYERS + 1, outputs, LAYERS, &failure));
    assert_ok(tn_graph_infer(m.graph, &failure));
    tn_op_id order[3 * LAYERS];
    tn_order_proof proof;
    for (uint32_t i = 0; i < 3 * LAYERS; i++) order[i] = i;
    assert_true(peak_of(m.graph, order, 3 * LAYERS) > 2 * LAYERS * 1000);
    assert_true(arrange(m.graph, "memory", 0, order, &proof) < (LAYERS + 2) * 1000);
    assert_int_equal(proof.peak, proof.bound);
    tn_graph_destroy(m.graph);
}

static uint32_t step_of(const tn_program *program, tn_op_id op) {
    const tn_instruction *list = tn_program_instructions(program);
    for (uint32_t i = 0; i < tn_program_count(program); i++)
        if (list[i].opcode == TN_APPLY && list[i].op == op) return i;
    fail_msg("operator #%u does not run", op);
    return 0;
}

/* The worst step is elsewhere, so the file's order is one of the best; the lean one still lets go
 * of 100 bytes for 20 before 60 are made:
 *
 *     x ─ 1000 ─ 1 ─ 100 ─┬─ 1 ─ 60 ─ 1 ─┬─ out
 *                         └───── 20 ─────┘                                                      */
static void an_order_of_its_own_is_lean_beside_the_worst_step(void **state) {
    (void)state;
    maker m = {.random = {.state = 1}};
    assert_ok(tn_graph_create(NULL, &m.graph, &failure));
    static const int64_t sizes[] = {1000, 1, 100, 1, 60, 1};
    tn_tensor_id x = bytes(&m, TN_KIND_INPUT, 1), at = x, large = TN_NONE;
    for (int i = 0; i < 6; i++) {
        tn_tensor_id made = bytes(&m, TN_KIND_ACTIVATION, sizes[i]);
        apply(&m, "mix.default", &at, 1, &made, 1);
        at = made;
        if (sizes[i] == 100) large = made;
    }
    tn_tensor_id small = bytes(&m, TN_KIND_ACTIVATION, 20), out = bytes(&m, TN_KIND_ACTIVATION, 1);
    apply(&m, "mix.default", &large, 1, &small, 1);
    tn_tensor_id both[] = {at, small};
    apply(&m, "mix.default", both, 2, &out, 1);
    assert_ok(tn_graph_set_block_io(m.graph, 0, &x, 1, &out, 1, &failure));
    assert_ok(tn_graph_infer(m.graph, &failure));
    tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
    tn_program *chosen, *named;
    options.order = "memory";
    assert_ok(tn_program_create(m.graph, &options, &chosen, &failure));
    assert_ok(tn__program_ordered(m.graph, &options, &named, &failure));
    assert_ok(tn_program_verify(named, &failure));
    const tn_op_id shrinks = 6, grows = 4; /* as they were added */
    assert_true(step_of(chosen, shrinks) > step_of(chosen, grows));
    assert_true(step_of(named, shrinks) < step_of(named, grows));
    tn_program_destroy(chosen);
    tn_program_destroy(named);
    tn_graph_destroy(m.graph);
}

static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status != TN_OK && fail_at < 20000; fail_at++) {
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        maker m = {.random = {.state = 5}};
        tn_program *program = NULL;
        tn_occupancy *occupancy = NULL;
        tn_layout layout;
        tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
        tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
        assert_ok(tn_graph_create(&context, &m.graph, &failure));
        bytes(&m, TN_KIND_INPUT, 8);
        while (m.ops < 12) make_op(&m);
        bytes(&m, TN_KIND_OUTPUT, 8);
        apply(&m, "mix.default", &m.tensors[m.count - 2], 1, &m.tensors[m.count - 1], 1);
        assert_ok(tn_graph_infer(m.graph, &failure));
        memory.requests = 0;
        memory.fail_at = fail_at;
        options.order = "auto";
        plan.context = &context;
        plan.planner = "greedy-by-size";
        status = tn_program_plan(m.graph, &options, NULL, &plan, &program, &occupancy, &layout,
                                 &failure);
        assert_true(status == TN_OK || (status == TN_E_NO_MEMORY && program == NULL));
        if (status == TN_OK) tn_layout_release(&layout);
        tn_occupancy_destroy(occupancy);
        tn_program_destroy(program);
        tn_graph_destroy(m.graph);
        assert_int_equal(memory.held, 0);
    }
    assert_int_equal(status, TN_OK);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_is_the_best_of_all_orders),
        cmocka_unit_test(heuristics_come_within_a_percent_of_exact),
        cmocka_unit_test(no_order_costs_more_than_the_file),
        cmocka_unit_test(a_sequence_is_checked),
        cmocka_unit_test(updates_move_to_their_gradients),
        cmocka_unit_test(an_order_of_its_own_is_lean_beside_the_worst_step),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
