/* test_networks.c - passes on steps of training of small networks: what they ask the registry of
 * operators, and that what they decide becomes a program that needs no more than was said.
 */
#include "count.h"
#include "kit_judge.h"

#undef assert_ok
#include "../train/net.h"

#include <tenure/train.h>

#include "fit/budget/schedule/lower.h"

#define fine(call)                                                                                 \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

typedef struct network {
    net n;
    tn_training training;
    tn_program *program;
    tn_costs *costs;
    tn_context context;
    tn__arena arena;
    tn__dag dag;
    tn__dag_map *map;
    uint64_t peak; /* everything kept */
} network;

/* An image through convolutions and pools; what Relu makes before a sum is read again by its
 * gradient alone. */
static tn_tensor_id draw_body(net *n, tn_tensor_id x, int depth) {
    static const int64_t kernel[] = {2, 2};
    x = net_op(n, "Relu", NET_LIST(net_conv(n, x, 3, 8, 3, 1, true)));
    for (int i = 0; i < depth; i++) {
        tn_tensor_id y =
            net_op(n, "Relu", NET_LIST(net_batch_norm(n, net_conv(n, x, 8, 8, 3, 1, false), 8)));
        y = net_op(n, "Relu", NET_LIST(net_conv(n, y, 8, 8, 3, 1, true)));
        x = net_op(n, "Add", NET_LIST(x, y));
        if (i != depth / 2) continue;
        x = net_op(n, "Relu", NET_LIST(x));
        net_attr_ints(n, "kernel_shape", 2, kernel);
        net_attr_ints(n, "strides", 2, kernel);
        x = net_op(n, "MaxPool", NET_LIST(x));
    }
    return x;
}

static void open_network(network *it, int depth) {
    tn__schedule keep;
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    memset(it, 0, sizeof *it);
    net_open(&it->n, TN_FLOAT32, 7);
    tn_tensor_id x = draw_body(&it->n, net_input(&it->n, "x", NET_SHAPE(4, 3, 16, 16)), depth);
    x = net_op(&it->n, "Flatten", NET_LIST(net_op(&it->n, "GlobalAveragePool", NET_LIST(x))));
    net_output(&it->n, net_dense(&it->n, x, 8, 5));
    fine(tn_train(it->n.graph, &options, &it->training, &failure));
    model.flops_per_s = 1e12, model.bytes_per_s = 1e11;
    fine(tn_costs_create_model(it->training.graph, &model, &it->costs, &failure));
    fine(tn_program_create(it->training.graph, NULL, &it->program, &failure));
    it->context = tn__context(NULL);
    tn__arena_init(&it->arena, &it->context);
    fine(tn__dag_read(it->program, it->costs, NULL, &it->arena, &it->dag, &it->map, &failure));
    tn__schedule_init(&keep, &it->context);
    for (uint32_t j = 0; j < it->dag.job_count; j++)
        fine(tn__schedule_add(&keep, (tn__action){.kind = TN__RUN, .what = j}, &failure));
    it->peak = kit_judge(&it->dag, &keep).peak;
    tn__schedule_release(&keep);
}

static void close_network(network *it) {
    tn__arena_release(&it->arena);
    tn_program_destroy(it->program);
    tn_costs_destroy(it->costs);
    tn_training_release(&it->training);
    net_close(&it->n);
}

typedef struct attempt {
    tn__pass_run run;
    tn__arena arena;
    tn__text text;
} attempt;

/* rate: bytes of the link in a picosecond. */
static tn_status try_pass(attempt *it, network *w, const char *name, uint64_t budget,
                          uint32_t allow, double rate, const float *zeros) {
    const tn_pass *pass = tn__pass_named(name);
    assert_non_null(pass);
    tn__arena_init(&it->arena, &w->context);
    it->run = (tn__pass_run){.pass = pass,
                             .dag = &w->dag,
                             .graph = w->training.graph,
                             .arena = &it->arena,
                             .context = w->context,
                             .error = &failure,
                             .budget = budget,
                             .host_budget = UINT64_MAX,
                             .allow = allow,
                             .out_rate = rate,
                             .in_rate = rate,
                             .codec_rate = 0.05,
                             .codecs = UINT32_MAX,
                             .zeros = zeros,
                             .explain = &it->text};
    tn__text_init(&it->text, &w->context);
    tn__schedule_init(&it->run.best, &w->context);
    return pass->solve(&it->run);
}

static void end_attempt(attempt *it) {
    tn__schedule_release(&it->run.best);
    tn__text_release(&it->text);
    tn__arena_release(&it->arena);
}

/* The schedule as a judge of the test's own sees it, and as a program. */
static void check_attempt(network *w, const attempt *it) {
    tn_program *program;
    judged own = kit_judge(&w->dag, &it->run.best);
    assert_true(own.is_valid && own.peak == it->run.found.peak && own.peak <= it->run.budget);
    fine(tn__schedule_emit(w->map, &w->dag, &it->run.best, &program, &failure));
    assert_true(tn_program_count(program) >= tn_program_count(w->program));
    tn_program_destroy(program);
}

static uint32_t count_kind(const attempt *it, tn__action_kind kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < it->run.best.count; i++) count += it->run.best.actions[i].kind == kind;
    return count;
}

static const char *value_name(const network *w, uint32_t v) {
    return tn_graph_tensor(w->training.graph, w->dag.values[v].tensor)->name;
}

static bool is_read_by(const network *w, uint32_t v, const char *type) {
    for (uint32_t i = w->dag.readers.first[v]; i < w->dag.readers.first[v + 1]; i++) {
        tn_op_id op = w->dag.jobs[w->dag.readers.items[i]].op;
        if (strcmp(tn_graph_op(w->training.graph, op)->type, type) == 0) return true;
    }
    return false;
}

static void vdnn_conv_offloads_inputs_of_convolutions_alone(void **state) {
    network w;
    attempt it;
    (void)state;
    open_network(&w, 6);
    assert_int_equal(try_pass(&it, &w, "vdnn-conv", UINT64_MAX, TN__ALLOW_SWAP, 1e3, NULL), TN_OK);
    check_attempt(&w, &it);
    assert_true(count_kind(&it, TN__OUT) >= 8);
    for (uint32_t i = 0; i < it.run.best.count; i++)
        if (it.run.best.actions[i].kind == TN__OUT)
            assert_true(is_read_by(&w, it.run.best.actions[i].what, "Conv"));
    end_attempt(&it);
    close_network(&w);
}

/* With a link that hides all there is no time lost, and less memory with what offloads more. */
static void swapping_needs_less_memory(void **state) {
    network w;
    attempt all, conv, capuchin;
    (void)state;
    open_network(&w, 10);
    assert_int_equal(try_pass(&all, &w, "vdnn-all", UINT64_MAX, TN__ALLOW_SWAP, 1e6, NULL), TN_OK);
    assert_int_equal(try_pass(&conv, &w, "vdnn-conv", UINT64_MAX, TN__ALLOW_SWAP, 1e6, NULL),
                     TN_OK);
    check_attempt(&w, &all);
    check_attempt(&w, &conv);
    assert_true(all.run.found.peak <= conv.run.found.peak && conv.run.found.peak < w.peak);
    assert_true(all.run.found.peak * 2 < w.peak);
    assert_true(all.run.time == w.dag.cost && conv.run.time == w.dag.cost);
    uint64_t budget = all.run.found.peak;
    assert_int_equal(try_pass(&capuchin, &w, "capuchin", budget, TN__ALLOW_SWAP, 1e6, NULL), TN_OK);
    check_attempt(&w, &capuchin);
    assert_true(capuchin.run.time == w.dag.cost);
    end_attempt(&all), end_attempt(&conv), end_attempt(&capuchin);
    close_network(&w);
}

static void capuchin_meets_budgets_at_any_link(void **state) {
    network w;
    (void)state;
    open_network(&w, 10);
    for (uint64_t part = 10 - case_count(5, 2); part <= 9; part++) {
        uint64_t least = UINT64_MAX;
        for (double rate = 1e-5; rate < 10; rate *= 10) {
            attempt it, recompute;
            const uint32_t both = TN__ALLOW_SWAP | TN__ALLOW_RECOMPUTE;
            uint64_t budget = w.peak * part / 10;
            tn_status a =
                try_pass(&recompute, &w, "capuchin", budget, TN__ALLOW_RECOMPUTE, 0, NULL);
            tn_status b = try_pass(&it, &w, "capuchin", budget, both, rate, NULL);
            if (b != TN_OK) fail_msg("part %d rate %g: %s", (int)part, rate, failure.message);
            check_attempt(&w, &it);
            if (a == TN_OK) check_attempt(&w, &recompute);
            assert_true(a != TN_OK || it.run.time <= recompute.run.time);
            least = it.run.time < least ? it.run.time : least;
            end_attempt(&it), end_attempt(&recompute);
        }
        assert_true(least < w.dag.cost + w.dag.cost / 20); /* with the fastest link */
    }
    close_network(&w);
}

/* --- gist ---------------------------------------------------------------------------------------
 */

static void gist_keeps_bits_where_only_signs_are_asked_for(void **state) {
    network w;
    attempt it;
    uint32_t bits = 0;
    (void)state;
    open_network(&w, 6);
    tn_status status = try_pass(&it, &w, "gist", w.peak * 9 / 10, TN__ALLOW_COMPRESS, 0, NULL);
    assert_int_equal(status, TN_OK);
    check_attempt(&w, &it);
    for (uint32_t i = 0; i < it.run.best.count; i++) {
        const tn__action *action = &it.run.best.actions[i];
        if (action->kind != TN__ENCODE) continue;
        assert_int_equal(action->codec,
                         TN_CODEC_BITS); /* nothing was measured, no losses allowed */
        assert_true(is_read_by(&w, action->what, "ReluGrad"));
        assert_false(is_read_by(&w, action->what, "ConvGradWeights"));
        assert_false(is_read_by(&w, action->what, "MaxPoolGrad"));
        assert_true(action->bytes * 30 < w.dag.values[action->what].bytes);
        assert_non_null(strstr(it.text.data, value_name(&w, action->what)));
        bits++;
    }
    assert_true(bits > 0);
    end_attempt(&it);
    close_network(&w);
}

static void gist_keeps_rows_where_zeros_were_measured(void **state) {
    network w;
    attempt it;
    (void)state;
    open_network(&w, 6);
    float *zeros = calloc(w.dag.value_count, sizeof *zeros);
    for (uint32_t v = 0; v < w.dag.value_count; v++)
        zeros[v] = is_read_by(&w, v, "ReluGrad") ? 0.8f : 0.05f;
    assert_int_equal(try_pass(&it, &w, "gist", w.peak * 7 / 10, TN__ALLOW_COMPRESS, 0, zeros),
                     TN_OK);
    check_attempt(&w, &it);
    uint32_t rows = 0;
    for (uint32_t i = 0; i < it.run.best.count; i++) {
        const tn__action *action = &it.run.best.actions[i];
        if (action->kind != TN__ENCODE || action->codec != TN_CODEC_CSR) continue;
        assert_true(zeros[action->what] > 0.5f &&
                    action->bytes < w.dag.values[action->what].bytes / 2);
        rows++;
    }
    assert_true(rows > 0);
    end_attempt(&it);
    free(zeros);
    close_network(&w);
}

static void gist_loses_nothing_unless_it_may(void **state) {
    network w;
    attempt without, with;
    bool lossy = false;
    (void)state;
    open_network(&w, 6);
    uint64_t budget = w.peak * 6 / 10;
    assert_int_equal(try_pass(&without, &w, "gist", budget, TN__ALLOW_COMPRESS, 0, NULL),
                     TN_E_STOPPED);
    assert_int_equal(
        try_pass(&with, &w, "gist", budget, TN__ALLOW_COMPRESS | TN__ALLOW_LOSSY, 0, NULL), TN_OK);
    check_attempt(&w, &with);
    for (uint32_t i = 0; i < with.run.best.count; i++)
        lossy |= with.run.best.actions[i].kind == TN__ENCODE &&
                 with.run.best.actions[i].codec >= TN_CODEC_FLOAT16;
    assert_true(lossy);
    end_attempt(&without), end_attempt(&with);
    close_network(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vdnn_conv_offloads_inputs_of_convolutions_alone),
        cmocka_unit_test(swapping_needs_less_memory),
        cmocka_unit_test(capuchin_meets_budgets_at_any_link),
        cmocka_unit_test(gist_keeps_bits_where_only_signs_are_asked_for),
        cmocka_unit_test(gist_keeps_rows_where_zeros_were_measured),
        cmocka_unit_test(gist_loses_nothing_unless_it_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
