/* test_tags.c - the tag pass: the worked example to the letter, and random programs by what tags
 * promise: nobody has a tag that somebody else still holds, and every tag comes back once.
 */
#include "count.h"
#include "../support.h"

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "base/base.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

#define EVENTS_MAX 4096u

typedef struct story {
    tn_tag_event events[EVENTS_MAX];
    uint32_t count, stop_at; /* stop_at 0: never */
} story;

static bool note(void *self, const tn_tag_event *event) {
    story *told = self;
    if (told->count < EVENTS_MAX) told->events[told->count++] = *event;
    return told->stop_at == 0 || told->count < told->stop_at;
}

typedef struct fixture {
    tn_graph *graph;
    tn_program *program;
    tn_occupancy *occupancy;
} fixture;

static tn_tensor_id square(tn_graph *graph, const char *name, tn_kind kind, int64_t side) {
    tn_tensor_id id;
    int64_t shape[2] = {side, side};
    tn_tensor_spec spec = {
        .name = name, .kind = kind, .dtype = TN_FLOAT32, .rank = 2, .shape = shape};
    assert_ok(tn_graph_add_tensor(graph, &spec, &id, &failure));
    return id;
}

static void apply(tn_graph *graph, const char *type, tn_tensor_id a, tn_tensor_id b,
                  tn_tensor_id output) {
    tn_tensor_id inputs[2] = {a, b};
    tn_op_spec spec = {.type = type,
                       .name = type,
                       .version = 17,
                       .inputs = inputs,
                       .input_count = b == TN_NONE ? 1 : 2,
                       .outputs = &output,
                       .output_count = 1};
    assert_ok(tn_graph_add_op(graph, &spec, NULL, &failure));
}

static void finish(fixture *made, tn_tensor_id input, tn_tensor_id output) {
    assert_ok(tn_graph_set_block_io(made->graph, 0, &input, 1, &output, 1, &failure));
    assert_ok(tn_graph_infer(made->graph, &failure));
    assert_ok(tn_program_create(made->graph, NULL, &made->program, &failure));
    assert_ok(tn_occupancy_create(made->program, NULL, &made->occupancy, &failure));
}

static void release(fixture *made) {
    tn_occupancy_destroy(made->occupancy);
    tn_program_destroy(made->program);
    tn_graph_destroy(made->graph);
}

enum { A, B, C, F, E, G };

/* B is read by C and F, C by E, F and E by G. */
static fixture worked_example(void) {
    fixture made = {0};
    static const char *const names[] = {"A", "B", "C", "F", "E", "G"};
    assert_ok(tn_graph_create(NULL, &made.graph, &failure));
    for (uint32_t i = A; i <= G; i++)
        assert_int_equal(square(made.graph, names[i],
                                i == A   ? TN_KIND_INPUT
                                : i == G ? TN_KIND_OUTPUT
                                         : TN_KIND_ACTIVATION,
                                4),
                         i);
    apply(made.graph, "MatMul", A, A, B);
    apply(made.graph, "MatMul", B, B, C);
    apply(made.graph, "MatMul", B, B, F);
    apply(made.graph, "MatMul", C, C, E);
    apply(made.graph, "Add", F, E, G);
    finish(&made, A, G);
    return made;
}

static void the_worked_example_is_told_as_in_the_book(void **state) {
    (void)state;
    static const struct {
        tn_tag_kind kind;
        uint32_t step;
        tn_tensor_id tensor;
        uint32_t tag;
        tn_tensor_id other;
        uint32_t uses;
    } wanted[] = {
        {TN_TAG_OUTSIDE, 0, A, TN_NONE, TN_NONE, 0},
        {TN_TAG_NEW, 1, B, 0, TN_NONE, 0},
        {TN_TAG_NEW, 2, C, 1, B, 1}, /* B still lives */
        {TN_TAG_KEPT, 2, B, TN_NONE, TN_NONE, 1},
        {TN_TAG_NEW, 3, F, 2, TN_NONE, 0},
        {TN_TAG_FREED, 3, B, 0, TN_NONE, 0}, /* F ends B's life */
        {TN_TAG_TAKEN, 4, E, 0, TN_NONE, 0}, /* E takes B's tag from the queue */
        {TN_TAG_FREED, 4, C, 1, TN_NONE, 0},
        {TN_TAG_INPLACE, 5, G, 0, E, 0}, /* the last one works in place */
        {TN_TAG_FREED, 5, F, 2, TN_NONE, 0},
        {TN_TAG_FREED, 6, G, 0, TN_NONE, 0},
    };
    fixture made = worked_example();
    static story told;
    tn_tag_summary summary;
    told = (story){.count = 0};
    assert_ok(tn_occupancy_tags(made.occupancy, note, &told, &summary, &failure));
    assert_int_equal(told.count, sizeof wanted / sizeof *wanted);
    for (uint32_t i = 0; i < told.count; i++) {
        assert_int_equal(told.events[i].kind, wanted[i].kind);
        assert_int_equal(told.events[i].step, wanted[i].step);
        assert_int_equal(told.events[i].tensor, wanted[i].tensor);
        assert_int_equal(told.events[i].tag, wanted[i].tag);
        assert_int_equal(told.events[i].other, wanted[i].other);
        assert_int_equal(told.events[i].uses, wanted[i].uses);
    }
    assert_int_equal(summary.tag_count, 3);
    assert_int_equal(summary.bytes, 3 * 64);
    release(&made);
}

static fixture random_program(uint64_t seed) {
    static const char *const types[] = {"MatMul", "Add", "Relu", "Transpose", "Mul"};
    tn__random random = {.state = seed};
    fixture made = {0};
    uint32_t count = 3 + (uint32_t)tn__random_below(&random, 30);
    int64_t side = 1 + (int64_t)tn__random_below(&random, 12);
    assert_ok(tn_graph_create(NULL, &made.graph, &failure));
    tn_tensor_id last = square(made.graph, "x", TN_KIND_INPUT, side);
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        uint32_t which = (uint32_t)tn__random_below(&random, 5);
        snprintf(name, sizeof name, "t%u", i);
        tn_tensor_id a = (tn_tensor_id)tn__random_below(&random, last + 1);
        tn_tensor_id b = (tn_tensor_id)tn__random_below(&random, last + 1);
        tn_tensor_id to =
            square(made.graph, name, i + 1 == count ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, side);
        apply(made.graph, types[which], i + 1 == count ? last : a,
              which == 2 || which == 3 ? TN_NONE : b, to);
        last = to;
    }
    finish(&made, 0, last);
    return made;
}

/* By the lives alone: who has a tag, until when. */
static void check_story(const fixture *made, const story *told, uint64_t seed) {
    const tn_life *lives = tn_occupancy_lives(made->occupancy);
    uint32_t life_count = tn_occupancy_life_count(made->occupancy);
    uint32_t body_count = tn_problem_count(tn_occupancy_problem(made->occupancy));
    uint32_t ends[128] = {0}, body_of[128] = {0}, held = 0;
    bool busy[128] = {0};
    assert_true(life_count < 128);
    for (uint32_t i = 0; i < life_count; i++)
        if (lives[i].last > ends[lives[i].body]) ends[lives[i].body] = lives[i].last;
    for (uint32_t i = 0; i < told->count; i++) {
        const tn_tag_event *event = &told->events[i];
        uint32_t body = TN_NONE;
        for (uint32_t k = 0; k < life_count; k++)
            if (lives[k].tensor == event->tensor) body = lives[k].body;
        if (event->kind == TN_TAG_NEW || event->kind == TN_TAG_TAKEN) {
            if (busy[event->tag])
                fail_msg("seed %llu: tag %u is held by two\n", (unsigned long long)seed,
                         event->tag);
            busy[event->tag] = true;
            body_of[event->tag] = body;
            held++;
        } else if (event->kind == TN_TAG_FREED) {
            assert_true(busy[event->tag]);
            assert_int_equal(body_of[event->tag], body);
            assert_int_equal(ends[body], event->step + 1);
            busy[event->tag] = false;
            held--;
        } else if (event->kind == TN_TAG_INPLACE || event->kind == TN_TAG_VIEW) {
            assert_true(event->tag == TN_NONE || body_of[event->tag] == body);
        }
        if (event->kind == TN_TAG_NEW) /* only when no tag is free */
            for (uint32_t tag = 0; tag < event->tag; tag++) assert_true(busy[tag]);
    }
    assert_int_equal(held, 0);
    assert_true(body_count <= life_count);
}

static void tags_are_never_held_by_two_and_always_come_back(void **state) {
    (void)state;
    static story told;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        fixture made = random_program(seed);
        told = (story){.count = 0};
        tn_tag_summary summary;
        assert_ok(tn_occupancy_tags(made.occupancy, note, &told, &summary, &failure));
        check_story(&made, &told, seed);
        assert_true(summary.tag_count <= tn_problem_count(tn_occupancy_problem(made.occupancy)));
        release(&made);
    }
}

static void the_caller_may_stop_the_story(void **state) {
    (void)state;
    static story told;
    fixture made = worked_example();
    told = (story){.stop_at = 4};
    tn_tag_summary summary = {.tag_count = 77};
    assert_int_equal(tn_occupancy_tags(made.occupancy, note, &told, &summary, &failure),
                     TN_E_STOPPED);
    assert_int_equal(told.count, 4);
    assert_int_equal(summary.tag_count, 77);
    release(&made);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_is_told_as_in_the_book),
        cmocka_unit_test(tags_are_never_held_by_two_and_always_come_back),
        cmocka_unit_test(the_caller_may_stop_the_story),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
