/* test_recompute.c - tensors that are computed again instead of kept: the same bits, no more bytes,
 * no more work than allowed, on networks drawn at random and with everything that a step may have.
 */
#include "drawn.h"

/* --- tests --- */

static void what_is_computed_again_has_the_same_bits(void **state) {
    (void)state;
    static const char *const early[] = {"conv.w", "bn.*"};
    static const double shares[] = {0.03, 0.1, 0.3, 5};
    static left expected, got;
    uint32_t again = 0, lower = 0, higher = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        options.optimizer = (tn_optimizer)(seed % TN_OPTIMIZER_NONE);
        options.fuse_update = seed % 2 != 0;
        options.micro_batches = seed % 5 == 0 ? 2 : 1;
        options.freeze = early + seed % 2;
        options.freeze_count = seed % 7 == 0;
        options.weight_decay = 0.01;
        setting how = {.library = seed % 3 != 0,
                       .formats = seed % 4 != 0,
                       .fused = seed / 2 % 2 == 1,
                       .threads = seed % 4 == 1 ? 2 : 1,
                       .naive = true};
        train(seed, &options, &how, &expected);
        how.naive = false;
        train(seed, &options, &how, &got);
        uint64_t before = got.peak;
        same(&expected, &got, "kept", seed);
        how.recompute = shares[seed % 4];
        how.cheap = seed % 6 == 0;
        how.poison = seed % 2 == 0;
        how.order = seed % 3 == 1 ? "auto" : NULL;
        train(seed, &options, &how, &got);
        same(&expected, &got, "computed again", seed);
        again += got.report.operators > 0;
        lower += got.peak < before;
        higher += got.peak > before;
        how.pool = seed % 3 == 0 ? "bfc" : NULL;
        how.poison = true;
        train(seed, &options, &how, &got);
        same(&expected, &got, "computed again, poisoned", seed);
    }
    if (again < 16 || lower < 14 || higher > 0)
        fail_msg("of 20: %u computed something again, %u lower peaks, %u higher", again, lower,
                 higher);
}

/* Masks of dropout kept as bits, or drawn twice. */
static void a_mask_kept_as_bits_gives_the_same_numbers(void **state) {
    (void)state;
    static left expected, got;
    uint32_t kept = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        setting how = {.formats = seed % 2 == 0, .naive = true};
        options.micro_batches = seed % 3 == 0 ? 2 : 1;
        train(seed, &options, &how, &expected);
        options.dropout_bits = true;
        how = (setting){.formats = seed % 2 == 0, .poison = true};
        train(seed, &options, &how, &got);
        same(&expected, &got, "bits", seed);
        kept += got.bits > 0;
        how.recompute = 0.5;
        train(seed, &options, &how, &got);
        same(&expected, &got, "bits, computed again", seed);
    }
    assert_true(kept >= 4);
}

/* Work as the header defines it, counted anew; views take none. */
static double work(const tn_program *program) {
    const tn_graph *graph = tn_program_graph(program);
    double sum = 0;
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        const tn_instruction *it = &tn_program_instructions(program)[i];
        if (it->opcode != TN_APPLY) continue;
        tn_cost cost = tn_op_cost(graph, it->op);
        if (tn_op_view(graph, it->op, 0).source != TN_NONE && tn_op_changes(graph, it->op) == 0)
            continue;
        double flops = (double)cost.flops, moves = 8 * (double)cost.bytes_moved;
        sum += flops > moves ? flops : moves;
    }
    return sum;
}

/* How often operators run behind their first time, with work. */
static uint32_t repeats(const tn_program *program) {
    const tn_graph *graph = tn_program_graph(program);
    bool *ran = calloc(tn_graph_op_count(graph) + (size_t)1, sizeof *ran);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        const tn_instruction *it = &tn_program_instructions(program)[i];
        if (it->opcode != TN_APPLY) continue;
        count += ran[it->op] && tn_op_view(graph, it->op, 0).source == TN_NONE;
        ran[it->op] = true;
    }
    free(ran);
    return count;
}

static uint64_t live(const tn_program *program) {
    tn_occupancy *occupancy;
    tn_error error;
    assert_int_equal(tn_occupancy_create(program, NULL, &occupancy, &error), TN_OK);
    uint64_t peak = tn_occupancy_summary(occupancy).peak_live;
    tn_occupancy_destroy(occupancy);
    return peak;
}

static void the_bound_on_work_and_the_peak_hold(void **state) {
    (void)state;
    static const double shares[] = {0, 0.02, 0.05, 0.1, 0.2, 0.4, 1};
    for (uint64_t seed = 1; seed <= 16; seed++) {
        tn_train_options options = TN_TRAIN_OPTIONS_INIT;
        tn_training training;
        tn_error error;
        net n;
        draw_net(&n, seed);
        assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_OK);
        tn_program *program;
        assert_int_equal(tn_program_create(training.graph, NULL, &program, &error), TN_OK);
        double whole = work(program);
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
            tn_recompute_options recompute = TN_RECOMPUTE_OPTIONS_INIT;
            tn_recompute_report report;
            tn_program *made;
            recompute.share = shares[i];
            assert_int_equal(tn_program_recompute(program, &recompute, &made, &report, &error),
                             TN_OK);
            double added = work(made) - whole;
            if (added > shares[i] * whole * (1 + 1e-9) || report.share > shares[i])
                fail_msg("seed %llu, share %g: %g of the work is added", (unsigned long long)seed,
                         shares[i], added / whole);
            assert_int_equal(tn_program_verify(made, &error), TN_OK);
            assert_int_equal(report.operators, repeats(made));
            assert_int_equal(report.before, live(program));
            assert_int_equal(report.after, live(made));
            assert_true(report.after <= report.before);
            if (shares[i] == 0) assert_int_equal(report.operators, 0);
            if (shares[i] == 0) assert_int_equal(report.after, report.before);
            tn_program_destroy(made);
        }
        tn_program_destroy(program);
        tn_training_release(&training);
        net_close(&n);
    }
}

/* Convolution, normalisation, ReLU in a chain: of each of these only the convolution's output need
 * be there, so a long chain needs little more than half. */
static void a_chain_keeps_what_convolutions_give(void **state) {
    (void)state;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_recompute_options recompute = TN_RECOMPUTE_OPTIONS_INIT;
    tn_recompute_report report;
    tn_training training;
    tn_error error;
    tn_program *program, *made;
    net n;
    net_open(&n, TN_FLOAT32, 1);
    tn_tensor_id x = net_input(&n, "x", NET_SHAPE(8, 16, 16, 16));
    for (int i = 0; i < 20; i++)
        x = net_op(&n, "Relu",
                   NET_LIST(net_batch_norm(&n, net_conv(&n, x, 16, 16, 3, 1, false), 16)));
    x = net_op(&n, "Flatten", NET_LIST(net_op(&n, "GlobalAveragePool", NET_LIST(x))));
    net_output(&n, net_dense(&n, x, 16, 3));
    options.fuse_update = true;
    recompute.share = 10;
    recompute.cheap = true;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_OK);
    assert_int_equal(tn_program_create(training.graph, NULL, &program, &error), TN_OK);
    assert_int_equal(tn_program_recompute(program, &recompute, &made, &report, &error), TN_OK);
    uint64_t image = 8 * 16 * 16 * 16 * 4;
    assert_true(report.before >= 40 * image);
    if (report.after > 24 * image)
        fail_msg("%.1f images are kept", (double)report.after / (double)image);
    tn_program_destroy(made);
    recompute.cheap = false; /* convolutions, too: in about the square root of the layers */
    assert_int_equal(tn_program_recompute(program, &recompute, &made, &report, &error), TN_OK);
    if (report.after > 12 * image)
        fail_msg("%.1f images are kept", (double)report.after / (double)image);
    tn_program_destroy(made);
    tn_program_destroy(program);
    tn_training_release(&training);
    net_close(&n);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const double wrong[] = {-0.1, NAN, INFINITY};
    tn_recompute_options more = TN_RECOMPUTE_OPTIONS_INIT;
    tn_program *program, *made, *again;
    tn_training training;
    tn_error error;
    net n;
    draw_net(&n, 1);
    assert_int_equal(tn_train(n.graph, NULL, &training, &error), TN_OK);
    assert_int_equal(tn_program_create(training.graph, NULL, &program, &error), TN_OK);
    for (size_t i = 0; i < 3; i++) {
        tn_recompute_options options = TN_RECOMPUTE_OPTIONS_INIT;
        options.share = wrong[i];
        assert_int_equal(tn_program_recompute(program, &options, &made, NULL, &error),
                         TN_E_INVALID);
    }
    more.share = 1; /* once is enough */
    assert_int_equal(tn_program_recompute(program, &more, &made, NULL, &error), TN_OK);
    assert_true(repeats(made) > 0);
    assert_int_equal(tn_program_recompute(made, &more, &again, NULL, &error), TN_E_UNSUPPORTED);
    tn_program_destroy(made);
    tn_program_destroy(program);
    tn_training_release(&training);
    net_close(&n);
}

static void running_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_recompute_options recompute = TN_RECOMPUTE_OPTIONS_INIT;
    tn_status status = TN_E_NO_MEMORY;
    tn_training training;
    tn_program *program, *made = NULL;
    tn_error error;
    net n;
    draw_net(&n, 3);
    recompute.context = &context;
    recompute.share = 0.3;
    assert_int_equal(tn_train(n.graph, &options, &training, &error), TN_OK);
    assert_int_equal(tn_program_create(training.graph, NULL, &program, &error), TN_OK);
    for (uint64_t at = 1; status != TN_OK; at++) {
        memory.requests = 0;
        memory.fail_at = at;
        status = tn_program_recompute(program, &recompute, &made, NULL, &error);
        memory.fail_at = 0;
        if (status == TN_OK) break;
        assert_int_equal(status, TN_E_NO_MEMORY);
        assert_int_equal(memory.held, 0);
    }
    tn_program_destroy(made);
    assert_int_equal(memory.held, 0);
    tn_program_destroy(program);
    tn_training_release(&training);
    net_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_computed_again_has_the_same_bits),
        cmocka_unit_test(a_mask_kept_as_bits_gives_the_same_numbers),
        cmocka_unit_test(the_bound_on_work_and_the_peak_hold),
        cmocka_unit_test(a_chain_keeps_what_convolutions_give),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
