/* test_random.c - random commands in little memory against the same with all there is: the same
 * values, no handle and no byte left. Chains too deep for a stack. Every request for memory failing
 * in turn.
 */
#include "kit.h"

#define SIDE 16
#define OPEN_MOST 80u

typedef struct pair { /* a tensor here, and with all the memory */
    tn_handle here, there;
} pair;

typedef struct player {
    tn_eager *here, *there;
    pair open[OPEN_MOST];
    uint32_t open_count, put_count; /* what was put stays while histories begin with it */
    tn__random random;
} player;

static pair player_apply(player *p, const char *type, uint32_t count, const pair *inputs) {
    tn_handle here[2], there[2];
    for (uint32_t i = 0; i < count; i++) here[i] = inputs[i].here, there[i] = inputs[i].there;
    return (pair){.here = kit_op(p->here, type, count, here),
                  .there = kit_op(p->there, type, count, there)};
}

static void player_compare(player *p, pair which) {
    float here[SIDE * SIDE], there[SIDE * SIDE];
    kit_get(p->here, which.here, here, sizeof here);
    kit_get(p->there, which.there, there, sizeof there);
    assert_memory_equal(here, there, sizeof here);
}

static void player_drop(player *p, uint32_t which) {
    kit_del(p->here, p->open[which].here);
    kit_del(p->there, p->open[which].there);
    p->open[which] = p->open[--p->open_count];
}

static void player_step(player *p, tn_handle here_shape, tn_handle there_shape) {
    static const char *const ones[] = {"Tanh",    "Sin",       "Neg",
                                       "Softmax", "Transpose", "RandomUniformLike"};
    static const char *const twos[] = {"Add", "Mul", "MatMul", "Max"};
    uint64_t what = tn__random_below(&p->random, 100);
    if (p->open_count == 0 || (what < 5 && p->put_count < 8 && p->open_count < OPEN_MOST)) {
        p->put_count++;
        uint64_t seed = tn__random_next(&p->random);
        p->open[p->open_count++] =
            (pair){.here = kit_floats(p->here, TN_KIND_INPUT, seed, SHAPE(SIDE, SIDE)),
                   .there = kit_floats(p->there, TN_KIND_INPUT, seed, SHAPE(SIDE, SIDE))};
        return;
    }
    uint32_t a = (uint32_t)tn__random_below(&p->random, p->open_count);
    uint32_t b = (uint32_t)tn__random_below(&p->random, p->open_count);
    if (what < 10) {
        player_compare(p, p->open[a]);
    } else if (p->open_count == OPEN_MOST || what < 34) {
        player_drop(p, a);
    } else if (what < 45) {
        pair view = {.here = kit_op(p->here, "Reshape", LIST(p->open[a].here, here_shape)),
                     .there = kit_op(p->there, "Reshape", LIST(p->open[a].there, there_shape))};
        p->open[p->open_count++] = view;
    } else if (what < 70) {
        p->open[p->open_count++] =
            player_apply(p, ones[tn__random_below(&p->random, 6)], 1, &p->open[a]);
    } else {
        p->open[p->open_count++] = player_apply(p, twos[tn__random_below(&p->random, 4)], 2,
                                                (pair[]){p->open[a], p->open[b]});
    }
}

static void random_commands(const char *policy, uint64_t seed, uint32_t count) {
    const int64_t same[] = {SIDE, SIDE};
    player p = {.random = {.state = seed}};
    p.here = kit_open((tn_eager_options){
        .budget = 56 << 10, .policy = policy, .seed = seed, .no_tape = true, .poison = true});
    p.there = kit_open((tn_eager_options){.budget = 4 << 20, .seed = seed, .no_tape = true});
    tn_handle here = kit_put(p.here, TN_INT64, TN_KIND_CONSTANT, same, SHAPE(2));
    tn_handle there = kit_put(p.there, TN_INT64, TN_KIND_CONSTANT, same, SHAPE(2));
    for (uint32_t i = 0; i < count; i++) player_step(&p, here, there);
    assert_true(kit_count(p.here).evict.remade_ops > 0);
    assert_int_equal(kit_count(p.there).evict.remade_ops, 0);
    assert_int_equal(kit_count(p.here).evict.plain_ops, kit_count(p.there).evict.plain_ops);
    while (p.open_count > 0) {
        player_compare(&p, p.open[p.open_count - 1]);
        player_drop(&p, p.open_count - 1);
    }
    check(tn_eager_check(p.here, &failure));
    tn_eager_counts left = kit_count(p.here);
    assert_int_equal(left.evict.bytes, 0);
    assert_int_equal(left.history, 0);
    assert_int_equal(left.handles, 1); /* the constant */
    tn_eager_destroy(p.here);
    tn_eager_destroy(p.there);
}

static void random_commands_give_what_all_memory_gives(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_evict_policy_count(); p++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            printf("%s, seed %u\n", tn_evict_policy_name(p), (unsigned)seed);
            random_commands(tn_evict_policy_name(p), seed, 2000);
        }
}

/* Everything but the first and the last is dropped, and made again by one get. */
static void chains_are_made_again_without_a_stack(void **state) {
    (void)state;
    const uint32_t length = 1000000;
    tn_eager *eager = kit_open(
        (tn_eager_options){.budget = 64 << 10, .policy = "lru", .no_tape = true, .plain = true});
    tn_handle x = kit_floats(eager, TN_KIND_INPUT, 7, SHAPE(16)), first_put = x, middle = x;
    for (uint32_t i = 0; i < length; i++) {
        tn_handle y = kit_op(eager, "Neg", LIST(x));
        if (x != middle) kit_del(eager, x);
        x = y;
        if (i == length / 2) middle = x;
    }
    float first[16], got[16];
    kit_get(eager, x, first, sizeof first);
    tn_handle fill = kit_put(eager, TN_FLOAT32, TN_KIND_INPUT, NULL, SHAPE((16 << 10) - 16));
    kit_del(eager, fill); /* beside what was put first there was room for it alone */
    kit_get(eager, x, got, sizeof got);
    assert_memory_equal(first, got, sizeof got);
    assert_true(kit_count(eager).evict.remade_ops >= length - 1);
    kit_del(eager, x);
    kit_del(eager, middle);
    kit_del(eager,
            first_put); /* that was held: else it would have been let go, and not the chain */
    assert_int_equal(kit_count(eager).history, 0);
    tn_eager_destroy(eager);
}

/* A network with a tape and an update; false: memory was out. */
static bool small_run(const tn_context *context) {
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.context = context;
    options.budget = 24 << 10;
    options.policy = "lru";
    options.plain = options.record = options.poison = true;
    tn_eager *eager = NULL;
    tn_eager_optimizer *optimizer = NULL;
    tn_handle p[2], d[2], at, next;
    float numbers[256];
    for (uint32_t i = 0; i < 256; i++) numbers[i] = (float)i / 256;
    const tn_eager_data data = {.dtype = TN_FLOAT32,
                                .kind = TN_KIND_PARAMETER,
                                .rank = 2,
                                .shape = (int64_t[]){16, 16},
                                .data = numbers,
                                .name = "p"};
    tn_status status = tn_eager_create(&options, &eager, &failure);
    for (uint32_t i = 0; i < 2 && status == TN_OK; i++)
        status = tn_eager_put(eager, &data, &p[i], &failure);
    at = p[0];
    for (uint32_t i = 0; i < 24 && status == TN_OK; i++) {
        status = kit_try(eager, i % 2 == 0 ? "MatMul" : "Tanh", i % 2 == 0 ? 2 : 1,
                         (tn_handle[]){at, p[1]}, &next);
        if (status == TN_OK && at != p[0]) status = tn_eager_del(eager, at, &failure);
        if (status == TN_OK) at = next;
    }
    if (status == TN_OK) status = kit_try(eager, ".MeanSquared", 2, (tn_handle[]){at, p[1]}, &next);
    if (status == TN_OK)
        status = tn_eager_optimizer_create(eager, NULL, p, 2, &optimizer, &failure);
    if (status == TN_OK) status = tn_eager_backward(eager, next, p, 2, d, &failure);
    if (status == TN_OK) status = tn_eager_optimizer_step(optimizer, d, 0.1, &failure);
    if (eager != NULL) {
        tn_error broken;
        if (tn_eager_check(eager, &broken) != TN_OK) fail_msg("%s", broken.message);
    }
    tn_eager_optimizer_destroy(optimizer);
    tn_eager_destroy(eager);
    if (status != TN_OK && status != TN_E_NO_MEMORY)
        fail_msg("status %d: %s: %s", (int)status, failure.where, failure.message);
    return status == TN_OK;
}

static void every_request_may_fail(void **state) {
    (void)state;
    uint64_t requests = 0;
    for (uint64_t fail_at = 1;; fail_at++) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        bool done = small_run(&context);
        assert_int_equal(memory.held, 0);
        if (done && memory.requests < fail_at) {
            requests = memory.requests;
            break;
        }
    }
    assert_true(requests > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_commands_give_what_all_memory_gives),
        cmocka_unit_test(chains_are_made_again_without_a_stack),
        cmocka_unit_test(every_request_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
