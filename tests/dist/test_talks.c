/* test_talks.c - every instruction that talks, run by engines of several ranks: on the walk's
 * stream and beside it, with released memory poisoned. */
#include "trainer/kit.h"

#include <tenure/dist.h>
#include <tenure/engine.h>

#define WIDTH 8

enum { REDUCE, GATHER, GATHER_IN_PLACE, SCATTER, SCATTER_IN_PLACE, MESSAGE, CASES };

/* a = Relu(x); b = a for each rank, one behind the other; c = -b; d = -a;
 * e = Tanh(a), that nobody computes here; f = -e */
typedef struct tensors {
    tn_tensor_id x, a, b, c, d, e, f;
} tensors;

typedef struct trial {
    uint32_t ranks, which, stream;
} trial;

static void build(net *n, uint32_t ranks, tensors *t) {
    tn_tensor_id parts[8];
    net_open(n, 1);
    t->x = net_input(n, TN_FLOAT32, NET_SHAPE(WIDTH));
    t->a = net_unary(n, "Relu", t->x);
    for (uint32_t r = 0; r < ranks; r++) parts[r] = t->a;
    tn_attr axis = NET_INT("axis", 0);
    t->b = net_op(n, (tn_op_spec){.type = "Concat",
                                  .inputs = parts,
                                  .input_count = ranks,
                                  .attrs = &axis,
                                  .attr_count = 1});
    t->c = net_unary(n, "Neg", t->b);
    t->d = net_unary(n, "Neg", t->a);
    t->e = net_unary(n, "Tanh", t->a);
    t->f = net_unary(n, "Neg", t->e);
}

static tn_status finish(net *n, const tensors *t, tn_error *error) {
    const tn_tensor_id outputs[] = {t->c, t->d, t->f};
    TN_TRY(n->status);
    TN_TRY(tn_graph_set_block_io(n->graph, 0, &t->x, 1, outputs, 3, error));
    return tn_graph_infer(n->graph, error);
}

/* --- programs --- */

typedef struct list {
    const tn_graph *graph;
    tn_instruction items[16];
    uint32_t count;
} list;

static tn_instruction *add(list *l, tn_opcode opcode, tn_tensor_id tensor) {
    tn_instruction *it = &l->items[l->count++];
    *it = (tn_instruction)TN_INSTRUCTION_INIT;
    it->opcode = opcode;
    it->tensor = tensor;
    return it;
}

/* The operator that makes a tensor. */
static tn_instruction *apply(list *l, tn_tensor_id output) {
    tn_instruction *it = add(l, TN_APPLY, TN_NONE);
    for (tn_op_id op = 0; op < tn_graph_op_count(l->graph); op++)
        if (tn_graph_op(l->graph, op)->outputs[0] == output) it->op = op;
    return it;
}

static void talk(list *l, const trial *of, const tensors *t, uint32_t rank) {
    static const tn_opcode opcodes[] = {TN_REDUCE, TN_GATHER, TN_GATHER, TN_SCATTER, TN_SCATTER};
    bool in_place = of->which == GATHER_IN_PLACE || of->which == SCATTER_IN_PLACE;
    bool whole = of->which == SCATTER || in_place;
    if (of->which == MESSAGE) { /* round the ring; the first one sends first */
        for (uint32_t turn = 0; turn < 2; turn++) {
            bool sends = (turn == 0) == (rank == 0);
            tn_instruction *it = add(l, sends ? TN_SEND : TN_RECV, sends ? t->a : t->e);
            it->peer = sends ? (rank + 1) % of->ranks : (rank + of->ranks - 1) % of->ranks;
            it->tag = 5;
        }
        return;
    }
    tn_instruction *it = add(l, opcodes[of->which], whole ? t->b : t->a);
    if (of->which == GATHER) it->other = t->b;
    if (of->which == SCATTER) it->other = t->e;
}

/* What is read behind the talk. */
static tn_tensor_id result(const trial *of, const tensors *t) {
    if (of->which == REDUCE) return t->d;
    return of->which == SCATTER || of->which == MESSAGE ? t->f : t->c;
}

static void program(list *l, const trial *of, const tensors *t, uint32_t rank) {
    add(l, TN_PUT, t->x);
    apply(l, t->a);
    if (of->which == SCATTER || of->which == GATHER_IN_PLACE || of->which == SCATTER_IN_PLACE)
        apply(l, t->b);
    uint32_t first = l->count;
    talk(l, of, t, rank);
    apply(l, result(of, t));
    add(l, TN_GET, result(of, t));
    if (of->stream == 0) return;
    for (uint32_t i = first; i + 2 < l->count; i++) l->items[i].stream = of->stream;
    l->items[first - 1].signal = 1;
    l->items[first].wait = 1;
    l->items[l->count - 3].signal = 2;
    l->items[l->count - 2].wait = 2;
}

/* --- running --- */

static float value(uint32_t rank, uint32_t i) { return (float)(rank * 100 + i + 1); }

static float wanted(const trial *of, uint32_t rank, uint32_t at) {
    uint32_t from = at / WIDTH, i = at % WIDTH;
    float sum = 0;
    for (uint32_t r = 0; r < of->ranks; r++) sum += value(r, i);
    switch (of->which) {
    case REDUCE:
    case SCATTER:
        return -sum;
    case MESSAGE:
        return -value((rank + of->ranks - 1) % of->ranks, i);
    case SCATTER_IN_PLACE:
        return -sum; /* in its own part; what else there is nobody says */
    default:
        return -value(from, i);
    }
}

static tn_status check(const trial *of, uint32_t rank, const tn_array *array, tn_error *error) {
    const float *got = array->data;
    for (uint32_t k = 0; k < array->bytes / sizeof *got; k++) {
        if (of->which == SCATTER_IN_PLACE && k / WIDTH != rank) continue;
        if (got[k] != wanted(of, rank, k))
            TN_FAIL(error, TN_E_INTERNAL, "element %u is %g, not %g", k, (double)got[k],
                    (double)wanted(of, rank, k));
    }
    return TN_OK;
}

static tn_status run(const trial *of, tn_world *world, tn_setup *setup, const tensors *t,
                     tn_error *error) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    const tn_block *block = tn_graph_block(tn_setup_graph(setup), 0);
    float x[WIDTH], room[3][8 * WIDTH];
    tn_array input = {
        .data = x, .bytes = sizeof x, .dtype = TN_FLOAT32, .rank = 1, .shape = {WIDTH}};
    tn_array outputs[3];
    tn_engine *engine;
    options.poison = true;
    options.exchange = tn_world_exchange(world);
    TN_TRY(tn_setup_open(setup, NULL, &options, &engine, error));
    tn_status status = TN_OK;
    for (uint32_t turn = 0; turn < 3 && status == TN_OK; turn++) {
        for (uint32_t i = 0; i < WIDTH; i++) x[i] = value(tn_world_rank(world), i);
        for (uint32_t k = 0; k < 3; k++)
            outputs[k] = (tn_array){.data = room[k], .bytes = sizeof room[k]};
        status = tn_engine_run(engine, &input, 1, outputs, 3, error);
        for (uint32_t k = 0; k < 3 && status == TN_OK; k++)
            if (block->outputs[k] == result(of, t))
                status = check(of, tn_world_rank(world), &outputs[k], error);
    }
    tn_engine_destroy(engine);
    return status;
}

static tn_status set_up(const trial *of, tn_world *world, net *n, const tensors *t,
                        tn_error *error) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    /* oneDNN guards what its threads share by means that TSan does not see */
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    list l = {.graph = n->graph};
    kernels.plain = true;
    options.kernels = &kernels;
    tn_program *made = NULL;
    tn_setup *setup = NULL;
    TN_TRY(finish(n, t, error));
    program(&l, of, t, tn_world_rank(world));
    TN_TRY(tn_program_from(n->graph, l.items, l.count, NULL, 0, &made, error));
    options.given_program = made;
    tn_status status = tn_setup_create(n->graph, &options, &setup, error);
    if (status == TN_OK) status = run(of, world, setup, t, error);
    tn_setup_destroy(setup);
    tn_program_destroy(made);
    return status;
}

static tn_status rank(void *self, tn_world *world, tn_error *error) {
    const trial *of = self;
    tensors t;
    net *n = calloc(1, sizeof *n);
    if (n == NULL) return TN_E_NO_MEMORY;
    build(n, of->ranks, &t);
    tn_status status = set_up(of, world, n, &t, error);
    net_close(n);
    free(n);
    return status;
}

static void every_instruction_that_talks_does_what_it_says(void **state) {
    (void)state;
    for (uint32_t which = 0; which < CASES; which++)
        for (uint32_t ranks = 2; ranks <= 5; ranks++)
            for (uint32_t stream = 0; stream <= 2; stream++) {
                trial of = {.ranks = ranks, .which = which, .stream = stream};
                tn_world_options options = TN_WORLD_OPTIONS_INIT;
                tn_error error = {0};
                options.driver = "threads";
                options.ranks = ranks;
                if (tn_world_run(&options, rank, &of, &error) != TN_OK)
                    fail_msg("case %u, %u ranks, stream %u: %s: %s", which, ranks, stream,
                             error.where, error.message);
            }
}

/* --- what is refused before anything runs --- */

static tn_status refused(const trial *of, tn_exchange *exchange, tn_error *error) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_engine_options with = TN_ENGINE_OPTIONS_INIT;
    tensors t;
    net *n = calloc(1, sizeof *n);
    build(n, of->ranks, &t);
    list l = {.graph = n->graph};
    tn_program *made = NULL;
    tn_setup *setup = NULL;
    tn_engine *engine = NULL;
    assert_int_equal(finish(n, &t, error), TN_OK);
    program(&l, of, &t, 0);
    assert_int_equal(tn_program_from(n->graph, l.items, l.count, NULL, 0, &made, error), TN_OK);
    options.given_program = made;
    assert_int_equal(tn_setup_create(n->graph, &options, &setup, error), TN_OK);
    with.exchange = exchange;
    tn_status status = tn_setup_open(setup, NULL, &with, &engine, error);
    tn_engine_destroy(engine);
    tn_setup_destroy(setup);
    tn_program_destroy(made);
    net_close(n);
    free(n);
    return status;
}

static uint32_t three(void *self, uint32_t group, uint32_t *mine) {
    (void)self;
    *mine = 0;
    return group == 0 ? 3 : 0;
}

static bool nothing(void *self, tn_dtype dtype, tn_reduction reduction) {
    (void)self;
    (void)dtype;
    (void)reduction;
    return false;
}

static void what_cannot_be_said_is_refused(void **state) {
    (void)state;
    tn_exchange narrow = {.ranks = 1, .members = three, .reduces = nothing};
    tn_error error = {0};
    for (uint32_t which = 0; which < CASES; which++) {
        trial of = {.ranks = 4, .which = which};
        assert_int_equal(refused(&of, NULL, &error), TN_E_UNSUPPORTED);
        assert_non_null(strstr(error.message, "exchange"));
    }
    assert_int_equal(refused(&(trial){.ranks = 4, .which = REDUCE}, &narrow, &error),
                     TN_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "sum of float32"));
    assert_int_equal(refused(&(trial){.ranks = 4, .which = GATHER}, &narrow, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "3 parts"));
    assert_int_equal(refused(&(trial){.ranks = 4, .which = MESSAGE}, &narrow, &error),
                     TN_E_INVALID);
    assert_non_null(strstr(error.message, "no rank 1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_that_talks_does_what_it_says),
        cmocka_unit_test(what_cannot_be_said_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
