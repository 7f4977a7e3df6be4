/* test_codes.c - steps of training whose tensors are kept encoded, alone and with what is computed
 * again: within their budget, and the same bits as the plain step, however many zeros there are.
 * With losses the budget is kept, and results may be others.
 */
#include "count.h"
#include "drawn.h"

typedef struct told {
    uint32_t fitted, codecs[TN_CODEC_COUNT], both; /* both: codes and runs again in one program */
} told;

/* Networks of layers whose Relus hand on what nobody but they keep. */
static void draw_sparse(net *n, uint64_t seed) {
    int64_t from = 3;
    net_open(n, TN_FLOAT32, seed);
    tn_tensor_id x = net_input(n, "x", NET_SHAPE(4, 3, 12, 12));
    for (uint32_t layers = 3 + (uint32_t)tn__random_below(&n->random, 5); layers > 0; layers--) {
        int64_t to = 4 + (int64_t)tn__random_below(&n->random, 8);
        x = net_conv(n, x, from, to, tn__random_below(&n->random, 2) ? 3 : 1, 1, true);
        if (tn__random_below(&n->random, 3) == 0) x = net_batch_norm(n, x, to);
        x = net_op(n, tn__random_below(&n->random, 5) ? "Relu" : "Sigmoid", NET_LIST(x));
        if (tn__random_below(&n->random, 4) == 0) {
            net_attr_ints(n, "kernel_shape", 2, (const int64_t[]){3, 3});
            net_attr_ints(n, "pads", 4, (const int64_t[]){1, 1, 1, 1});
            x = net_op(n, tn__random_below(&n->random, 2) ? "MaxPool" : "AveragePool", NET_LIST(x));
        }
        from = to;
    }
    x = net_op(n, "Flatten", NET_LIST(net_op(n, "GlobalAveragePool", NET_LIST(x))));
    net_output(n, net_dense(n, x, from, 3));
}

static void count_program(const steps *s, told *to) {
    const tn_program *program = tn_setup_program(s->setup);
    bool codes = false, again = false;
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        const tn_instruction *it = &tn_program_instructions(program)[i];
        codes |= it->opcode == TN_ENCODE;
        again |= it->again;
        to->codecs[it->codec] += it->opcode == TN_ENCODE;
    }
    to->fitted += s->fitted;
    to->both += codes && again;
}

/* Losses of three steps and the parameters that they leave. */
static size_t run_steps(uint64_t seed, const setting *how, double *numbers, told *to) {
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_engine_usage usage;
    size_t count = 0;
    net n;
    steps s;
    options.optimizer = TN_OPTIMIZER_MOMENTUM;
    options.fuse_update = true;
    if (seed % 2 == 0)
        draw_sparse(&n, seed);
    else
        draw_net(&n, seed);
    steps_open(&s, &n, &options, how);
    s.rate = 0.05;
    double *labels = steps_draw_labels(&s, 3);
    for (s.step = 0; s.step < 3; s.step++) numbers[count++] = steps_run(&s);
    for (uint32_t i = 0; i < s.training.parameter_count; i++) {
        uint64_t elements;
        double *values = steps_static(&s, s.training.parameters[i].parameter, &elements);
        memcpy(numbers + count, values, elements * sizeof *values);
        count += elements;
        free(values);
    }
    tn_engine_measure(s.engine, &usage);
    assert_int_equal(usage.measured_peak, usage.planned_peak);
    if (to != NULL) count_program(&s, to);
    free(labels);
    steps_close(&s);
    net_close(&n);
    return count;
}

static void check_codes(uint64_t seed, const setting *how, bool same, told *to) {
    static double expected[30000], got[30000];
    setting plain = *how;
    plain.fit = 0;
    plain.allow = 0;
    size_t count = run_steps(seed, &plain, expected, NULL);
    assert_int_equal(run_steps(seed, how, got, to), count);
    for (size_t i = 0; i < count && same; i++)
        if (memcmp(&expected[i], &got[i], sizeof *got) != 0)
            fail_msg("seed %llu, %s at %.2f: number %zu is %.9g, not %.9g",
                     (unsigned long long)seed, how->pass != NULL ? how->pass : "joint", how->fit, i,
                     got[i], expected[i]);
    for (size_t i = 0; i < count; i++) assert_true(isfinite(got[i]));
}

#define SEEDS case_count(24, 8)

static void lossless_codes_leave_every_bit(void **state) {
    told gist = {0}, joint = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        setting how = {.poison = true, .pass = "gist", .allow = TN_FIT_COMPRESS};
        how.library = seed % 4 > 1;
        how.fit = 0.75 + 0.05 * (double)(seed % 5);
        check_codes(seed, &how, true, &gist);
        how.pass = NULL;
        how.allow = TN_FIT_COMPRESS | TN_FIT_RECOMPUTE | TN_FIT_ORDER;
        how.fit -= 0.2;
        how.flops = 1e8; /* codecs are worth their while */
        check_codes(seed, &how, true, &joint);
    }
    printf("gist: %u of %u within budget, %u bits, %u csr; joint: %u, %u bits, %u csr, %u with "
           "runs again\n",
           gist.fitted, SEEDS, gist.codecs[TN_CODEC_BITS], gist.codecs[TN_CODEC_CSR], joint.fitted,
           joint.codecs[TN_CODEC_BITS], joint.codecs[TN_CODEC_CSR], joint.both);
    assert_true(gist.fitted > 0 && gist.codecs[TN_CODEC_BITS] > 0);
    assert_true(gist.codecs[TN_CODEC_CSR] > 0 && joint.fitted > 0);
    assert_true(joint.codecs[TN_CODEC_CSR] > 0 && joint.both > 0);
    for (int codec = TN_CODEC_FLOAT16; codec < TN_CODEC_COUNT; codec++)
        assert_int_equal(gist.codecs[codec] + joint.codecs[codec], 0);
}

static void losses_come_only_where_they_are_allowed(void **state) {
    told lossy = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        setting how = {.poison = true, .library = true, .fit = 0.75};
        how.allow = TN_FIT_COMPRESS | TN_FIT_LOSSY;
        how.pass = seed % 3 == 0 ? NULL : "gist";
        check_codes(seed, &how, false, &lossy);
    }
    printf("%u float16, %u float10, %u float8, %u of %u within budget\n",
           lossy.codecs[TN_CODEC_FLOAT16], lossy.codecs[TN_CODEC_FLOAT10],
           lossy.codecs[TN_CODEC_FLOAT8], lossy.fitted, SEEDS);
    assert_true(lossy.codecs[TN_CODEC_FLOAT16] + lossy.codecs[TN_CODEC_FLOAT10] +
                    lossy.codecs[TN_CODEC_FLOAT8] >
                SEEDS / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lossless_codes_leave_every_bit),
        cmocka_unit_test(losses_come_only_where_they_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
