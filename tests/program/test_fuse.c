/* test_fuse.c - concatenation without copies: who is laid inside, who is copied, and why. That what
 * is shared is right is shown by the judge of test_program.c. */
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

typedef struct scene {
    tn_graph *graph;
    tn_program *program;
    tn_occupancy *occupancy;
} scene;

static scene begin(void) {
    scene s = {0};
    assert_ok(tn_graph_create(NULL, &s.graph, &failure));
    return s;
}

static tn_tensor_id tensor(scene *s, tn_kind kind, uint32_t rank, const int64_t *shape) {
    tn_tensor_id id;
    char name[16];
    snprintf(name, sizeof name, "t%u", tn_graph_tensor_count(s->graph));
    tn_tensor_spec spec = {
        .name = name, .kind = kind, .dtype = TN_UINT8, .rank = rank, .shape = shape};
    assert_ok(tn_graph_add_tensor(s->graph, &spec, &id, &failure));
    return id;
}

static tn_tensor_id vector(scene *s, tn_kind kind, int64_t size) {
    return tensor(s, kind, 1, &size);
}

static void apply_to(scene *s, const char *type, const tn_tensor_id *inputs, uint32_t count,
                     const tn_tensor_id *outputs, uint32_t output_count) {
    bool is_onnx = type[0] >= 'A' && type[0] <= 'Z';
    tn_attr axis = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = (int64_t[]){0}};
    tn_op_spec spec = {.type = type,
                       .domain = is_onnx ? "" : "aten",
                       .version = is_onnx ? 17 : 0,
                       .inputs = inputs,
                       .input_count = count,
                       .outputs = outputs,
                       .output_count = output_count,
                       .attrs = &axis,
                       .attr_count = strcmp(type, "Concat") == 0 || strcmp(type, "Split") == 0};
    assert_ok(tn_graph_add_op(s->graph, &spec, NULL, &failure));
}

static void apply(scene *s, const char *type, const tn_tensor_id *inputs, uint32_t count,
                  tn_tensor_id output) {
    apply_to(s, type, inputs, count, &output, 1);
}

static void occupy(scene *s, uint64_t alignment, bool fuse) {
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    options.alignment = alignment;
    options.fuse_concat = fuse;
    if (s->program == NULL) {
        assert_ok(tn_graph_infer(s->graph, &failure));
        assert_ok(tn_program_create(s->graph, NULL, &s->program, &failure));
    }
    tn_occupancy_destroy(s->occupancy);
    assert_ok(tn_occupancy_create(s->program, &options, &s->occupancy, &failure));
}

static uint64_t peak(const scene *s) { return tn_occupancy_summary(s->occupancy).peak_live; }

static void end(scene *s) {
    tn_occupancy_destroy(s->occupancy);
    tn_program_destroy(s->program);
    tn_graph_destroy(s->graph);
}

static const tn_life *life_of(const scene *s, tn_tensor_id id) {
    const tn_life *lives = tn_occupancy_lives(s->occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(s->occupancy); i++)
        if (lives[i].tensor == id) return &lives[i];
    return NULL;
}

/* Whether `part` lies `at` bytes into `whole`. */
static bool lies_in(const scene *s, tn_tensor_id part, tn_tensor_id whole, uint64_t at) {
    const tn_life *a = life_of(s, part), *b = life_of(s, whole);
    return a->body == b->body && a->delta == b->delta + at;
}

/* a and b, computed from one input, of `first` and `second` bytes; then y = [a, b]. */
static tn_tensor_id make_pair(scene *s, int64_t first, int64_t second, tn_tensor_id parts[2]) {
    tn_tensor_id x = vector(s, TN_KIND_INPUT, 8);
    parts[0] = vector(s, TN_KIND_ACTIVATION, first);
    parts[1] = vector(s, TN_KIND_ACTIVATION, second);
    tn_tensor_id y = vector(s, TN_KIND_ACTIVATION, first + second);
    apply(s, "mix.default", &x, 1, parts[0]);
    apply(s, "mix.default", &x, 1, parts[1]);
    apply(s, "Concat", parts, 2, y);
    return y;
}

static void parts_are_laid_inside_the_whole(void **state) {
    (void)state;
    scene s = begin();
    tn_tensor_id parts[2], y = make_pair(&s, 100, 50, parts), z = vector(&s, TN_KIND_OUTPUT, 1);
    apply(&s, "mix.default", &y, 1, z);
    occupy(&s, 1, false);
    assert_int_equal(peak(&s), 300);
    occupy(&s, 1, true);
    assert_true(lies_in(&s, parts[0], y, 0) && lies_in(&s, parts[1], y, 100));
    assert_int_equal(life_of(&s, y)->share, TN_SHARE_FUSED);
    assert_int_equal(life_of(&s, y)->source, parts[0]);
    assert_int_equal(peak(&s), 158); /* while the second is computed, the input lives as well */
    end(&s);
}

static void a_place_off_the_alignment_is_copied(void **state) {
    (void)state;
    scene s = begin();
    tn_tensor_id parts[2], y = make_pair(&s, 100, 50, parts), z = vector(&s, TN_KIND_OUTPUT, 1);
    apply(&s, "mix.default", &y, 1, z);
    occupy(&s, 64, true);
    assert_true(lies_in(&s, parts[0], y, 0));
    assert_int_not_equal(life_of(&s, parts[1])->body, life_of(&s, y)->body);
    end(&s);
}

static void inner_axes_are_copied(void **state) {
    (void)state;
    for (int64_t outer = 1; outer <= 2; outer++) {
        scene s = begin();
        tn_tensor_id x = vector(&s, TN_KIND_INPUT, 8), parts[2];
        for (int i = 0; i < 2; i++) {
            parts[i] = tensor(&s, TN_KIND_ACTIVATION, 3, (int64_t[]){outer, 4, 8});
            apply(&s, "mix.default", &x, 1, parts[i]);
        }
        tn_tensor_id y = tensor(&s, TN_KIND_OUTPUT, 3, (int64_t[]){outer, 8, 8});
        apply(&s, "cat.default", parts, 2, y);
        occupy(&s, 1, true);
        assert_int_equal(life_of(&s, y)->share, outer == 1 ? TN_SHARE_FUSED : TN_SHARE_OWN);
        end(&s);
    }
}

static void one_tensor_twice_is_copied_once(void **state) {
    (void)state;
    scene s = begin();
    tn_tensor_id x = vector(&s, TN_KIND_INPUT, 8), a = vector(&s, TN_KIND_ACTIVATION, 10);
    tn_tensor_id y = vector(&s, TN_KIND_OUTPUT, 20);
    apply(&s, "mix.default", &x, 1, a);
    apply(&s, "Concat", (tn_tensor_id[]){a, a}, 2, y);
    occupy(&s, 1, true);
    assert_true(lies_in(&s, a, y, 0));
    assert_int_equal(peak(&s), 20);
    end(&s);
}

/* As in DenseNet: every concatenation begins with what the one before it has. */
static void growing_concatenations_share_their_beginnings(void **state) {
    (void)state;
    enum { LAYERS = 6 };
    scene s = begin();
    tn_tensor_id parts[LAYERS + 1], wholes[LAYERS + 1];
    parts[0] = vector(&s, TN_KIND_INPUT, 10);
    wholes[0] = parts[0];
    for (int i = 1; i <= LAYERS; i++) {
        parts[i] = vector(&s, TN_KIND_ACTIVATION, 10);
        apply(&s, "mix.default", &wholes[i - 1], 1, parts[i]);
        wholes[i] = vector(&s, i == LAYERS ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, 10 * (i + 1));
        apply(&s, "Concat", parts, (uint32_t)i + 1, wholes[i]);
    }
    occupy(&s, 1, true);
    for (int i = 0; i < LAYERS; i++) {
        assert_true(lies_in(&s, parts[i], wholes[LAYERS], 10 * (uint64_t)i));
        assert_true(lies_in(&s, wholes[i], wholes[LAYERS], 0));
    }
    assert_int_equal(peak(&s), 10 * (LAYERS + 1));
    end(&s);
}

static void what_is_written_into_later_is_copied(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++) { /* nobody, the whole, a part */
        scene s = begin();
        tn_tensor_id parts[2], y = make_pair(&s, 10, 10, parts);
        tn_tensor_id changed = vector(&s, TN_KIND_ACTIVATION, which == 2 ? 10 : 20);
        tn_tensor_id read = vector(&s, TN_KIND_ACTIVATION, 1), z = vector(&s, TN_KIND_OUTPUT, 1);
        apply(&s, which == 0 ? "mix.default" : "relu_.default", which == 2 ? parts : &y, 1,
              changed);
        apply(&s, "mix.default", (tn_tensor_id[]){changed, parts[0]}, 2, read);
        apply(&s, "mix.default", (tn_tensor_id[]){read, y}, 2, z);
        occupy(&s, 1, true);
        assert_int_equal(life_of(&s, parts[0])->body == life_of(&s, y)->body, which == 0);
        end(&s);
    }
}

static void strides_that_nobody_states_are_copied(void **state) {
    (void)state;
    scene s = begin();
    tn_tensor_id x = vector(&s, TN_KIND_INPUT, 8), parts[2];
    tn_tensor_id a = tensor(&s, TN_KIND_ACTIVATION, 2, (int64_t[]){4, 4});
    for (int i = 0; i < 2; i++) parts[i] = tensor(&s, TN_KIND_ACTIVATION, 2, (int64_t[]){4, 4});
    tn_tensor_id y = tensor(&s, TN_KIND_OUTPUT, 2, (int64_t[]){8, 4});
    apply(&s, "mix.default", &x, 1, a);
    apply(&s, "t.default", &a, 1, parts[0]); /* the same bytes, in another arrangement */
    apply(&s, "mix.default", &x, 1, parts[1]);
    apply(&s, "cat.default", parts, 2, y);
    occupy(&s, 1, true);
    assert_int_not_equal(life_of(&s, parts[0])->body, life_of(&s, y)->body);
    assert_true(lies_in(&s, parts[1], y, 16));
    end(&s);
}

/* A part that outlives the whole would keep the whole from being written over. */
static void live_bytes_do_not_rise(void **state) {
    (void)state;
    scene s = begin();
    tn_tensor_id parts[2], y = make_pair(&s, 10, 1000, parts), z, w;
    z = vector(&s, TN_KIND_ACTIVATION, 1010);
    w = vector(&s, TN_KIND_OUTPUT, 1);
    apply(&s, "Relu", &y, 1, z);
    apply(&s, "mix.default", (tn_tensor_id[]){z, parts[0]}, 2, w);
    occupy(&s, 1, false);
    assert_int_equal(life_of(&s, z)->share, TN_SHARE_INPLACE);
    occupy(&s, 1, true);
    assert_int_equal(life_of(&s, z)->share, TN_SHARE_INPLACE);
    assert_true(lies_in(&s, parts[1], y, 10));
    assert_int_not_equal(life_of(&s, parts[0])->body, life_of(&s, y)->body);
    assert_int_equal(peak(&s), 1021);
    end(&s);
}

/* A view of a part that is made after the concatenation keeps the whole from being written over,
 * just as the part itself would. */
static void views_made_later_count(void **state) {
    (void)state;
    scene s = begin();
    tn_tensor_id x = vector(&s, TN_KIND_INPUT, 32), x2 = vector(&s, TN_KIND_INPUT, 32), t[6], half;
    static const int64_t sizes[] = {32, 96, 128, 96, 16, 128};
    for (int i = 0; i < 6; i++)
        t[i] = vector(&s, i < 3 ? TN_KIND_ACTIVATION : TN_KIND_OUTPUT, sizes[i]);
    half = vector(&s, TN_KIND_OUTPUT, 16);
    apply(&s, "Add", (tn_tensor_id[]){x, x2}, 2, t[0]);
    apply(&s, "Concat", (tn_tensor_id[]){x, t[0], t[0]}, 3, t[1]);
    apply(&s, "Concat", (tn_tensor_id[]){t[1], x2}, 2, t[2]);
    apply(&s, "Add", (tn_tensor_id[]){t[1], t[1]}, 2, t[3]);
    apply_to(&s, "Split", &x2, 1, (tn_tensor_id[]){t[4], half}, 2);
    apply(&s, "Relu", &t[2], 1, t[5]);
    occupy(&s, 1, false);
    uint64_t without = peak(&s);
    assert_int_equal(life_of(&s, t[5])->share, TN_SHARE_INPLACE);
    occupy(&s, 1, true);
    assert_true(peak(&s) <= without);
    end(&s);
}

enum { CHAIN_STEPS = 64 };

/* The live bytes at each step. The lower bound may be higher: a buffer of many sections needs all
 * of its bytes, even if they are not live together. */
static void live_curve(const scene *s, uint64_t curve[CHAIN_STEPS]) {
    const tn_problem *problem = tn_occupancy_problem(s->occupancy);
    memset(curve, 0, CHAIN_STEPS * sizeof *curve);
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *body = tn_problem_body(problem, b);
        const tn_piece whole = {.first = body->first, .last = body->last, .hi = body->size};
        uint32_t count = body->piece_count > 0 ? body->piece_count : 1;
        for (uint32_t p = 0; p < count; p++) {
            const tn_piece *piece = body->piece_count > 0 ? &body->pieces[p] : &whole;
            assert_true(piece->last <= CHAIN_STEPS);
            for (int64_t t = piece->first; t < piece->last; t++) curve[t] += piece->hi - piece->lo;
        }
    }
}

static void random_chains_of_parts_never_cost_more(void **state) {
    (void)state;
    uint32_t lower = 0;
    uint64_t curve[2][CHAIN_STEPS];
    for (uint64_t seed = 1; seed <= case_count(20000, 500); seed++) {
        tn__random random = {.state = seed};
        scene s = begin();
        tn_tensor_id pool[64];
        int64_t sizes[64];
        uint32_t count = 0;
        sizes[count] = 1 + (int64_t)tn__random_below(&random, 30);
        pool[count] = vector(&s, TN_KIND_INPUT, sizes[count]);
        count++;
        while (count < 24) {
            uint32_t k = 1 + (uint32_t)tn__random_below(&random, 3), newest = count - 1;
            tn_tensor_id in[3];
            uint64_t kind = tn__random_below(&random, 9);
            int64_t sum = 0;
            for (uint32_t i = 0; i < k; i++) {
                uint32_t from =
                    newest - (uint32_t)tn__random_below(&random, newest < 6 ? newest + 1 : 6);
                in[i] = pool[from];
                sum += sizes[from];
                if (i == 0 && (kind < 3 || kind > 5)) break;
            }
            const tn_tensor *first = tn_graph_tensor(s.graph, in[0]);
            sizes[count] = kind == 0  ? 1 + (int64_t)tn__random_below(&random, 30)
                           : kind < 3 ? first->shape[0]
                           : kind > 5 ? first->shape[0]
                                      : sum;
            if (sizes[count] > 400) kind = 0, sizes[count] = 5;
            if (kind == 7 && first->shape[0] % 2 != 0) kind = 6;
            if (kind == 7) {
                sizes[count + 1] = sizes[count] = first->shape[0] / 2;
                pool[count] = vector(&s, TN_KIND_ACTIVATION, sizes[count]);
                count++;
            }
            pool[count] =
                vector(&s, count >= 23 ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, sizes[count]);
            if (kind == 0) apply(&s, "mix.default", in, 1, pool[count]);
            if (kind == 1) apply(&s, "Relu", in, 1, pool[count]);
            if (kind == 2) apply(&s, "relu_.default", in, 1, pool[count]);
            if (kind > 2 && kind < 6) apply(&s, "cat.default", in, k, pool[count]);
            if (kind == 6) apply(&s, "Identity", in, 1, pool[count]);
            if (kind == 8) apply(&s, "detach.default", in, 1, pool[count]);
            if (kind == 7) apply_to(&s, "Split", in, 1, &pool[count - 1], 2);
            count++;
        }
        for (int fused = 0; fused < 2; fused++) {
            occupy(&s, seed % 4 == 0 ? 4 : 1, fused != 0);
            live_curve(&s, curve[fused]);
        }
        bool less = false;
        for (int t = 0; t < CHAIN_STEPS; t++) {
            if (curve[1][t] > curve[0][t])
                fail_msg("seed %llu, step %d: %llu bytes without, %llu with\n",
                         (unsigned long long)seed, t, (unsigned long long)curve[0][t],
                         (unsigned long long)curve[1][t]);
            less = less || curve[1][t] < curve[0][t];
        }
        lower += less;
        end(&s);
    }
    print_message("%u graphs with lower live bytes\n", lower);
    assert_true(lower > 100);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_laid_inside_the_whole),
        cmocka_unit_test(a_place_off_the_alignment_is_copied),
        cmocka_unit_test(inner_axes_are_copied),
        cmocka_unit_test(one_tensor_twice_is_copied_once),
        cmocka_unit_test(growing_concatenations_share_their_beginnings),
        cmocka_unit_test(what_is_written_into_later_is_copied),
        cmocka_unit_test(strides_that_nobody_states_are_copied),
        cmocka_unit_test(live_bytes_do_not_rise),
        cmocka_unit_test(views_made_later_count),
        cmocka_unit_test(random_chains_of_parts_never_cost_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
