/* test_random.c - random commands in little memory against the same with all there is: the same
 * values, no handle and no byte left. Chains too deep for a stack. Every request for memory failing
 * in turn.
 *
 *     build/tests/test_eager_random COMMANDS SEED   so many of them, by hand
 */
#include "kit.h"

#define SIDE 16
#define OPEN_MOST 80u
#define FIXED 5u /* a weight; scale, shift and running statistics of a normalisation */

typedef struct pair { /* a tensor here, and with all the memory */
    tn_handle here, there;
} pair;

typedef struct player {
    tn_device *device; /* with a link, over which copies go: of every other interpreter */
    tn_eager *here, *there;
    pair open[OPEN_MOST], fixed[FIXED], shape, rate;
    uint32_t open_count, put_count; /* what was put stays while histories begin with it */
    uint64_t exhausted, freed;      /* freed: by the user's wish */
    bool tape;
    tn__random random;
} player;

/* Here first: what does not fit is not done there. */
static bool player_apply(player *p, const char *type, uint32_t count, const pair *inputs,
                         uint32_t output_count, pair *outputs) {
    tn_handle here[5], there[5], made[2][5];
    const bool own = type[0] == '.';
    for (uint32_t i = 0; i < count; i++) here[i] = inputs[i].here, there[i] = inputs[i].there;
    tn_eager_call call = {.type = type + own,
                          .domain = own ? "tenure" : "",
                          .inputs = here,
                          .input_count = count,
                          .output_count = output_count};
    tn_status status = tn_eager_apply(p->here, &call, made[0], &failure);
    p->exhausted += status == TN_E_EXHAUSTED;
    if (status == TN_E_EXHAUSTED) return false;
    check(status);
    call.inputs = there;
    check(tn_eager_apply(p->there, &call, made[1], &failure));
    for (uint32_t k = 0; k < output_count; k++)
        outputs[k] = (pair){.here = made[0][k], .there = made[1][k]};
    return true;
}

static void player_open(player *p, const char *type, uint32_t count, const pair *inputs) {
    p->open_count += player_apply(p, type, count, inputs, 1, &p->open[p->open_count]);
}

static void player_compare(player *p, pair which, uint32_t count) {
    float here[SIDE * SIDE], there[SIDE * SIDE];
    tn_status status = tn_eager_get(p->here, which.here, here, count * sizeof *here, &failure);
    p->exhausted += status == TN_E_EXHAUSTED;
    if (status == TN_E_EXHAUSTED) return;
    check(status);
    kit_get(p->there, which.there, there, count * sizeof *there);
    assert_memory_equal(here, there, count * sizeof *here);
}

static void player_del(player *p, pair which) {
    kit_del(p->here, which.here);
    kit_del(p->there, which.there);
}

static void player_drop(player *p, uint32_t which) {
    player_del(p, p->open[which]);
    p->open[which] = p->open[--p->open_count];
}

/* False: no room here. */
static bool player_put(player *p, tn_kind kind, uint32_t rank, pair *put) {
    float numbers[SIDE * SIDE];
    for (uint32_t i = 0; i < SIDE * SIDE; i++)
        numbers[i] = (float)tn__random_below(&p->random, 2001) / 1000 - 1;
    const int64_t shape[] = {SIDE, SIDE};
    const tn_eager_data data = {
        .dtype = TN_FLOAT32, .kind = kind, .rank = rank, .shape = shape, .data = numbers};
    tn_status status = tn_eager_put(p->here, &data, &put->here, &failure);
    p->exhausted += status == TN_E_EXHAUSTED;
    if (status == TN_E_EXHAUSTED) return false;
    check(status);
    check(tn_eager_put(p->there, &data, &put->there, &failure));
    return true;
}

static void player_set(player *p, uint32_t which) {
    float numbers[SIDE * SIDE];
    for (uint32_t i = 0; i < SIDE * SIDE; i++)
        numbers[i] = (float)tn__random_below(&p->random, 2001) / 2000;
    const uint64_t size = (which == 0 ? SIDE * SIDE : SIDE) * sizeof *numbers;
    tn_status status = tn_eager_set(p->here, p->fixed[which].here, numbers, size, &failure);
    p->exhausted += status == TN_E_EXHAUSTED;
    if (status == TN_E_EXHAUSTED) return;
    check(status);
    check(tn_eager_set(p->there, p->fixed[which].there, numbers, size, &failure));
}

/* The weight goes down the gradient of how far two values are apart. */
static void player_train(player *p, pair a, pair b) {
    pair loss, gradient = {0}, none;
    if (!player_apply(p, ".MeanSquared", 2, (pair[]){a, b}, 1, &loss)) return;
    tn_eager_about about;
    tn_status status =
        tn_eager_backward(p->here, loss.here, &p->fixed[0].here, 1, &gradient.here, &failure);
    tn_status there =
        tn_eager_backward(p->there, loss.there, &p->fixed[0].there, 1, &gradient.there, &failure);
    p->exhausted += status == TN_E_EXHAUSTED;
    assert_true(status == there || status == TN_E_EXHAUSTED);
    if (status != TN_OK) gradient.here = TN_HANDLE_NONE; /* or no parameter leads to it */
    if (gradient.here != TN_HANDLE_NONE) {
        player_compare(p, gradient, SIDE * SIDE);
        (void)player_apply(p, ".SgdStep", 3, (pair[]){p->fixed[0], gradient, p->rate}, 1, &none);
    }
    player_del(p, loss);
    if (tn_eager_describe(p->here, gradient.here, &about, &failure) == TN_OK)
        kit_del(p->here, gradient.here);
    if (tn_eager_describe(p->there, gradient.there, &about, &failure) == TN_OK)
        kit_del(p->there, gradient.there);
}

/* What writes into fixed places. */
static void player_write(player *p, uint64_t what, pair a, pair b) {
    pair out[5];
    if (what < 2) {
        player_set(p, (uint32_t)tn__random_below(&p->random, FIXED - 2));
    } else if (what < 4) {
        (void)player_apply(p, ".SgdStep", 3, (pair[]){p->fixed[0], a, p->rate}, 1, out);
    } else if (what < 7) {
        const pair inputs[] = {a, p->fixed[1], p->fixed[2], p->fixed[3], p->fixed[4]};
        if (!player_apply(p, ".BatchNormTrain", 5, inputs, 5, out)) return;
        player_del(p, out[3]);
        player_del(p, out[4]);
        p->open[p->open_count++] = out[0];
    } else if (p->tape) {
        player_train(p, a, b);
    }
}

/* By the user's wish; what cannot go says so. */
static void player_free(player *p, pair a) {
    bool drops = tn__random_below(&p->random, 2) == 0;
    uint64_t bytes = kit_count(p->here).evict.bytes;
    tn_status status = drops ? tn_eager_drop(p->here, a.here, &failure)
                             : tn_eager_offload(p->here, a.here, &failure);
    p->freed += status == TN_OK && kit_count(p->here).evict.bytes < bytes;
    if (status == TN_E_UNSUPPORTED) return;
    check(status);
    check(tn_eager_check(p->here, &failure));
}

static void player_step(player *p) {
    static const char *const ones[] = {"Tanh",    "Sin",       "Neg",
                                       "Softmax", "Transpose", "RandomUniformLike"};
    static const char *const twos[] = {"Add", "Mul", "MatMul", "Max"};
    uint64_t what = tn__random_below(&p->random, 100);
    if (p->open_count == 0 || (what < 5 && p->put_count < 8 && p->open_count < OPEN_MOST)) {
        bool is_put = player_put(p, TN_KIND_INPUT, 2, &p->open[p->open_count]);
        p->put_count += is_put;
        p->open_count += is_put;
        return;
    }
    pair a = p->open[tn__random_below(&p->random, p->open_count)];
    pair b = p->open[tn__random_below(&p->random, p->open_count)];
    if (what < 8)
        player_free(p, a);
    else if (what < 13)
        player_compare(p, a, SIDE * SIDE);
    else if (p->open_count == OPEN_MOST || what < 34)
        player_drop(p, (uint32_t)tn__random_below(&p->random, p->open_count));
    else if (what < 42)
        player_open(p, "Reshape", 2, (pair[]){a, p->shape});
    else if (what < 60)
        player_open(p, ones[tn__random_below(&p->random, 6)], 1, &a);
    else if (what < 84)
        player_open(p, twos[tn__random_below(&p->random, 4)], 2, (pair[]){a, b});
    else if (what < 92)
        player_open(p, "MatMul", 2, (pair[]){a, p->fixed[0]});
    else
        player_write(p, what - 92, a, b);
}

static void player_begin(player *p, const char *policy, uint64_t seed, bool tape) {
    const int64_t same[] = {SIDE, SIDE};
    const float rate = 0.01f;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    *p = (player){.tape = tape, .random = {.state = seed}};
    device.link_bytes_per_s = seed / 2 % 2 == 0 ? 1e11 : 0;
    check(tn_device_create(&device, &p->device, &failure));
    p->here = kit_open((tn_eager_options){.budget = 56 << 10,
                                          .policy = policy,
                                          .device = p->device,
                                          .seed = seed,
                                          .no_tape = !tape,
                                          .model_costs = true, /* decides the same in every run */
                                          .poison = true});
    p->there = kit_open((tn_eager_options){.budget = 64 << 20, .seed = seed, .no_tape = !tape});
    p->shape.here = kit_put(p->here, TN_INT64, TN_KIND_CONSTANT, same, SHAPE(2));
    p->shape.there = kit_put(p->there, TN_INT64, TN_KIND_CONSTANT, same, SHAPE(2));
    p->rate.here = kit_put(p->here, TN_FLOAT32, TN_KIND_INPUT, &rate, 0, NULL);
    p->rate.there = kit_put(p->there, TN_FLOAT32, TN_KIND_INPUT, &rate, 0, NULL);
    for (uint32_t i = 0; i < FIXED; i++)
        assert_true(player_put(p, i < 3 ? TN_KIND_PARAMETER : TN_KIND_OPTIMIZER_STATE,
                               i == 0 ? 2 : 1, &p->fixed[i]));
}

static void player_end(player *p) {
    tn_eager_forget(p->here);
    tn_eager_forget(p->there);
    while (p->open_count > 0) {
        player_compare(p, p->open[p->open_count - 1], SIDE * SIDE);
        player_drop(p, p->open_count - 1);
    }
    for (uint32_t i = 0; i < FIXED; i++) {
        player_compare(p, p->fixed[i], i == 0 ? SIDE * SIDE : SIDE);
        player_del(p, p->fixed[i]);
    }
    player_del(p, p->rate);
    check(tn_eager_check(p->here, &failure));
    tn_eager_counts left = kit_count(p->here);
    assert_int_equal(left.evict.bytes, 0);
    assert_int_equal(left.history, 0);
    assert_int_equal(left.handles, 1); /* the constant */
    tn_eager_destroy(p->here);
    tn_eager_destroy(p->there);
    tn_device_destroy(p->device);
}

static uint64_t fetched; /* copies back, of all */

static uint64_t random_commands(const char *policy, uint64_t seed, uint64_t count) {
    player p;
    player_begin(&p, policy, seed, seed % 2 == 0);
    for (uint64_t i = 0; i < count; i++) player_step(&p);
    tn_evict_counts here = kit_count(p.here).evict, there = kit_count(p.there).evict;
    assert_true(here.remade_ops > 0 || here.fetch_count > 0);
    assert_int_equal(there.remade_ops, 0);
    fetched += here.fetch_count;
    assert_true(p.freed > count / 1000);
    if (p.exhausted == 0) assert_int_equal(here.plain_ops, there.plain_ops);
    uint64_t exhausted = p.exhausted;
    player_end(&p);
    return exhausted;
}

static void random_commands_give_what_all_memory_gives(void **state) {
    (void)state;
    for (uint32_t p = 0; p < tn_evict_policy_count(); p++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            uint64_t exhausted = random_commands(tn_evict_policy_name(p), seed, 2000);
            printf("%s, seed %u: full %u times\n", tn_evict_policy_name(p), (unsigned)seed,
                   (unsigned)exhausted);
        }
    assert_true(fetched > 0);
}

static uint64_t long_count, long_seed;

/* By hand: so many commands, by all policies in turn, 10,000 for each interpreter. */
static void long_run(void **state) {
    (void)state;
    uint64_t exhausted = 0;
    for (uint64_t done = 0; done < long_count; done += 10000, long_seed++) {
        const char *policy = tn_evict_policy_name((uint32_t)(long_seed % tn_evict_policy_count()));
        printf("seed %llu, %s\n", (unsigned long long)long_seed, policy);
        fflush(stdout);
        exhausted += random_commands(policy, long_seed, 10000);
    }
    printf("%llu commands, full %llu times\n", (unsigned long long)long_count,
           (unsigned long long)exhausted);
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

int main(int count, char **words) {
    const struct CMUnitTest by_hand[] = {cmocka_unit_test(long_run)};
    if (count > 2) {
        long_count = strtoull(words[1], NULL, 10);
        long_seed = strtoull(words[2], NULL, 10);
        return cmocka_run_group_tests(by_hand, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_commands_give_what_all_memory_gives),
        cmocka_unit_test(chains_are_made_again_without_a_stack),
        cmocka_unit_test(every_request_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
