/* test_triggers.c - in-triggers on a timeline that is computed by hand.
 *
 *     step      0   1    2    3    4    5  6  7    8         9           10    11      12  13
 *     stream 0  x   y    a         b0      b1 b2   b3 ......             WAIT  c=a+b3  GET
 *     stream 1                SWAP_OUT a   WAIT
 *     stream 2                                             SWAP_IN a
 *
 * Each operator takes 1 ms, the copy back 4 ms. It begins at the end of b3, so it is 4 ms late.
 */
#include "../random_graph.h"

#include <tenure/program.h>

#include "run/online/online.h"

enum { OP_A, OP_B, OPS = 6 }; /* a, b0 to b3, c */
#define COPY_S 4e-3

typedef struct hand {
    tn_graph *graph;
    tn_tensor_id x, y, a, out;
    tn_instruction list[32];
    uint32_t count;
    tn_program *program;
    tn_trace *trace;
    tn__triggers triggers;
} hand;

static tn_instruction *hand_add(hand *it, tn_opcode opcode, tn_op_id op, tn_tensor_id tensor) {
    static const tn_instruction none = TN_INSTRUCTION_INIT;
    tn_instruction *made = &it->list[it->count++];
    *made = none;
    made->opcode = opcode;
    made->op = op;
    made->tensor = tensor;
    return made;
}

static tn_tensor_id hand_relu(hand *it, tn_tensor_id in) {
    tn_tensor_id made = vector(it->graph, "t", TN_KIND_ACTIVATION, -1, 0);
    apply(it->graph, "Relu", 0, &in, 1, &made, 1);
    return made;
}

static void hand_open(hand *it) {
    *it = (hand){0};
    assert_ok(tn_graph_create(NULL, &it->graph, &failure));
    it->x = vector(it->graph, "x", TN_KIND_INPUT, 8, 0);
    it->y = vector(it->graph, "y", TN_KIND_INPUT, 8, 0);
    it->a = hand_relu(it, it->x);
    tn_tensor_id b = it->y;
    for (int i = 0; i < 4; i++) b = hand_relu(it, b);
    it->out = vector(it->graph, "out", TN_KIND_OUTPUT, -1, 0);
    apply(it->graph, "Max", 0, (tn_tensor_id[]){it->a, b}, 2, &it->out, 1);
    assert_ok(tn_graph_infer(it->graph, &failure));
    hand_add(it, TN_PUT, TN_NONE, it->x);
    hand_add(it, TN_PUT, TN_NONE, it->y);
    hand_add(it, TN_APPLY, OP_A, TN_NONE)->signal = 1;
    tn_instruction *out = hand_add(it, TN_SWAP_OUT, TN_NONE, it->a);
    out->stream = 1, out->wait = 1, out->signal = 2;
    hand_add(it, TN_APPLY, OP_B, TN_NONE);
    hand_add(it, TN_WAIT, TN_NONE, TN_NONE)->wait = 2;
    for (tn_op_id op = OP_B + 1; op < OP_B + 4; op++) hand_add(it, TN_APPLY, op, TN_NONE);
    it->list[it->count - 1].signal = 3;
    tn_instruction *in = hand_add(it, TN_SWAP_IN, TN_NONE, it->a);
    in->stream = 2, in->wait = 3, in->signal = 4;
    hand_add(it, TN_WAIT, TN_NONE, TN_NONE)->wait = 4;
    hand_add(it, TN_APPLY, OPS - 1, TN_NONE);
    hand_add(it, TN_GET, TN_NONE, it->out);
    assert_ok(tn_program_from(it->graph, it->list, it->count, NULL, 0, &it->program, &failure));
    assert_ok(tn_trace_create(NULL, 64, &it->trace, &failure));
}

static void hand_close(hand *it) {
    tn__triggers_release(&it->triggers);
    tn_trace_destroy(it->trace);
    tn_program_destroy(it->program);
    tn_graph_destroy(it->graph);
}

/* Records one iteration of a program as the clock of the drawing has it: stream 0 waits for
 * nothing but the copy back, which begins when its in-trigger has ended. */
static void hand_play(hand *it, const tn_program *program) {
    const tn_instruction *list = tn_program_instructions(program);
    double now = 0, ends[32] = {0}, back = 0;
    tn_trace_clear(it->trace);
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        double start = now, takes = list[s].opcode == TN_APPLY ? 1e-3 : 0;
        if (list[s].opcode == TN_SWAP_IN) {
            for (uint32_t g = 0; g < s; g++)
                if (list[g].signal == list[s].wait) start = ends[g];
            takes = COPY_S;
            back = start + takes;
        } else if (list[s].opcode == TN_WAIT && list[s].wait == 4) {
            takes = back > now ? back - now : 0;
        }
        if (list[s].stream == 0) now = start + takes;
        ends[s] = start + takes;
        tn_trace_add(it->trace, &(tn_event){.kind = TN_EVENT_STEP,
                                            .opcode = list[s].opcode,
                                            .step = s,
                                            .start_s = start,
                                            .duration_s = takes});
    }
}

static uint32_t step_of(const tn_program *program, tn_opcode opcode) {
    uint32_t s = 0;
    while (tn_program_instructions(program)[s].opcode != opcode) s++;
    return s;
}

static void a_late_copy_moves_behind_the_instruction_that_ended_in_time(void **state) {
    hand it;
    uint32_t from, to;
    (void)state;
    hand_open(&it);
    hand_play(&it, it.program);
    tn_context context = tn__context(NULL);
    assert_ok(tn__triggers_make(&it.triggers, it.program, &context, &failure));
    assert_int_equal(it.triggers.trigger_count, 1);
    assert_int_equal(tn__triggers_read(&it.triggers, it.trace), 1);
    tn__trigger *trigger = &it.triggers.all[0];
    assert_true(trigger->late_s > 3.99e-3 && trigger->late_s < 4.01e-3);
    assert_true(trigger->copy_s > 3.99e-3 && trigger->copy_s < 4.01e-3);
    tn__triggers_begin(&it.triggers);
    /* 5 % of 4 ms before the end of b3, b2 is the last that has ended */
    assert_true(tn__triggers_move(&it.triggers, trigger, &from, &to));
    assert_int_equal(from, 8);
    assert_int_equal(to, 7);
    hand_close(&it);
}

/* The copy moves instruction by instruction, each program is a valid one, the wait gets shorter,
 * and it never begins before the copy out is waited for. */
static void a_copy_that_stays_late_moves_to_the_wait_for_its_copy_out_and_no_further(void **state) {
    hand it;
    uint32_t from = 0, to = 0, moves = 0;
    double late = 1;
    (void)state;
    hand_open(&it);
    hand_play(&it, it.program);
    tn_context context = tn__context(NULL);
    assert_ok(tn__triggers_make(&it.triggers, it.program, &context, &failure));
    for (;;) {
        assert_int_equal(tn__triggers_read(&it.triggers, it.trace), 1);
        assert_true(it.triggers.all[0].late_s < late);
        late = it.triggers.all[0].late_s;
        tn__triggers_begin(&it.triggers);
        if (!tn__triggers_move(&it.triggers, &it.triggers.all[0], &from, &to)) break;
        moves++;
        tn_program *program;
        assert_ok(tn__triggers_program(&it.triggers, it.graph, &program, &failure));
        assert_int_equal(step_of(program, TN_SWAP_IN), to + 1);
        assert_true(step_of(program, TN_WAIT) < step_of(program, TN_SWAP_IN));
        tn__triggers_take(&it.triggers);
        hand_play(&it, program);
        tn_program_destroy(program);
    }
    assert_true(it.triggers.all[0].blocked);
    assert_int_equal(moves, 3);                    /* behind b2, b1, and the wait */
    assert_true(late > 0.99e-3 && late < 1.01e-3); /* 4 ms, while b1, b2 and b3 run */
    hand_close(&it);
}

static void a_copy_that_comes_in_time_is_not_late(void **state) {
    hand it;
    (void)state;
    hand_open(&it);
    tn_context context = tn__context(NULL);
    assert_ok(tn__triggers_make(&it.triggers, it.program, &context, &failure));
    for (uint32_t s = 0; s < it.count; s++)
        tn_trace_add(it.trace, &(tn_event){.kind = TN_EVENT_STEP,
                                           .step = s,
                                           .start_s = 1e-3 * s,
                                           .duration_s = s == 9 ? 1e-6 : 1e-3});
    assert_int_equal(tn__triggers_read(&it.triggers, it.trace), 0);
    assert_false(it.triggers.all[0].late);
    hand_close(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_copy_moves_behind_the_instruction_that_ended_in_time),
        cmocka_unit_test(a_copy_that_stays_late_moves_to_the_wait_for_its_copy_out_and_no_further),
        cmocka_unit_test(a_copy_that_comes_in_time_is_not_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
