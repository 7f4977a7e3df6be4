/* test_swap.c - passes that copy to the host, on networks whose layers are known: what leaves, when
 * it comes back, and what that must be worth.
 */
#include "kit_judge.h"

static const tn_pass *named(const char *name) {
    const tn_pass *pass = tn__pass_named(name);
    if (pass == NULL) fail_msg("no pass %s", name);
    return pass;
}

/* --- networks: n layers, a loss, n layers back; layer i makes value i and is operator i ----------
 */

typedef struct layers {
    kit *k;
    tn_graph *graph;
    uint32_t count;
} layers;

static tn_op_id layer_op(tn_graph *graph, const char *type) {
    tn_op_id id;
    tn_tensor_id made;
    tn_tensor_spec tensor = {.name = type, .dtype = TN_FLOAT32};
    tn_op_spec op = {.name = type, .type = type, .outputs = &made, .output_count = 1};
    assert_ok(tn_graph_add_tensor(graph, &tensor, &made, &failure));
    assert_ok(tn_graph_add_op(graph, &op, &id, &failure));
    return id;
}

/* types: of the layers, "" for what is no kind of its own. Each map has 100 bytes and costs 10. */
static layers layers_make(const char *const *types, uint32_t n) {
    layers made = {.k = kit_unit_chain(n), .count = n};
    assert_ok(tn_graph_create(NULL, &made.graph, &failure));
    for (uint32_t j = 0; j < made.k->job_count; j++) {
        made.k->jobs[j].job.cost = made.k->jobs[j].job.recompute_cost = 10;
        made.k->jobs[j].job.op = layer_op(made.graph, j < n && types[j][0] ? types[j] : "Neg");
        made.k->values[j].bytes = 100;
    }
    kit_end(made.k);
    return made;
}

static void layers_free(layers *made) {
    kit_free(made->k);
    tn_graph_destroy(made->graph);
}

typedef struct run_of {
    tn__pass_run run;
    tn__arena arena;
    tn__text text;
} run_of;

static tn_status solve(run_of *it, layers *net, const char *pass, uint64_t budget, uint32_t allow,
                       double rate) {
    kit_run_begin(&it->run, &it->arena, net->k, named(pass), budget, allow);
    it->run.graph = net->graph;
    it->run.out_rate = it->run.in_rate = rate;
    tn__text_init(&it->text, &net->k->context);
    it->run.explain = &it->text;
    return it->run.pass->solve(&it->run);
}

static void done(run_of *it) {
    tn__text_release(&it->text);
    kit_run_end(&it->run);
}

static uint32_t action_of(const run_of *it, tn__action_kind kind, uint32_t what) {
    for (uint32_t i = 0; i < it->run.best.count; i++)
        if (it->run.best.actions[i].kind == kind && it->run.best.actions[i].what == what) return i;
    return TN_NONE;
}

static const char *const conv_net[] = {"Conv", "Relu", "Conv", "Relu",
                                       "Conv", "Relu", "",     "MatMul"};

static void vdnn_all_offloads_each_map_with_its_last_reader(void **state) {
    run_of it;
    layers net = layers_make(conv_net, 8);
    (void)state;
    assert_int_equal(solve(&it, &net, "vdnn-all", UINT64_MAX, TN__ALLOW_SWAP, 100), TN_OK);
    /* The one that the product reads stays, and so does that which the loss reads: no job is
     * between it and its next reader. */
    for (uint32_t v = 0; v < 8; v++) {
        uint32_t out = action_of(&it, TN__OUT, v);
        if (v >= 6) {
            assert_true(out == TN_NONE);
            continue;
        }
        uint32_t reader = action_of(&it, TN__RUN, v + 1);
        uint32_t settle = action_of(&it, TN__SETTLE, v), in = action_of(&it, TN__IN, v);
        assert_true(out + 1 == reader && settle == reader + 1);
        uint32_t back = action_of(&it, TN__RUN, 16 - v);
        assert_true(in < back && in > action_of(&it, TN__RUN, 8 - 1));
    }
    assert_true(it.run.found.out_bytes == 600 && it.run.found.in_bytes == 600);
    assert_true(it.text.data != NULL && strstr(it.text.data, "offload") != NULL);
    done(&it);
    layers_free(&net);
}

static void vdnn_conv_offloads_what_convolutions_read(void **state) {
    run_of it;
    layers net = layers_make(conv_net, 8);
    (void)state;
    assert_int_equal(solve(&it, &net, "vdnn-conv", UINT64_MAX, TN__ALLOW_SWAP, 100), TN_OK);
    for (uint32_t v = 0; v < 8; v++)
        assert_int_equal(action_of(&it, TN__OUT, v) != TN_NONE, v == 1 || v == 3);
    done(&it);
    layers_free(&net);
}

/* With a link that hides everything the time is that of computing, and the peak falls. */
static void a_fast_link_hides_what_is_copied(void **state) {
    static const char *const passes[] = {"vdnn-all", "vdnn-dynamic"};
    layers net = layers_make((const char *const[]){"", "", "", "", "", "", "", "", "", ""}, 10);
    run_of keep;
    (void)state;
    assert_int_equal(solve(&keep, &net, "none", UINT64_MAX, 0, 0), TN_OK);
    uint64_t peak = keep.run.found.peak, cost = keep.run.found.cost;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        run_of fast, slow;
        assert_int_equal(solve(&fast, &net, passes[i], peak - 1, TN__ALLOW_SWAP, 1e6), TN_OK);
        assert_true(fast.run.time == cost && fast.run.found.peak <= peak / 2);
        assert_int_equal(solve(&slow, &net, passes[i], peak - 1, TN__ALLOW_SWAP, 2), TN_OK);
        assert_true(slow.run.time > cost); /* 50 for a map, 10 for a layer */
        done(&fast);
        done(&slow);
    }
    done(&keep);
    layers_free(&net);
}

static void vdnn_dynamic_is_the_fastest_of_all_that_fit(void **state) {
    layers net = layers_make(conv_net, 8);
    static const char *const others[] = {"none", "vdnn-conv", "vdnn-all"};
    (void)state;
    for (uint64_t budget = 200; budget <= 1200; budget += 100)
        for (double rate = 1; rate < 200; rate *= 7) {
            run_of it, other;
            uint64_t best = UINT64_MAX;
            tn_status status = solve(&it, &net, "vdnn-dynamic", budget, TN__ALLOW_SWAP, rate);
            for (int i = 0; i < 3; i++) {
                if (solve(&other, &net, others[i], budget, TN__ALLOW_SWAP, rate) == TN_OK &&
                    other.run.time < best)
                    best = other.run.time;
                done(&other);
            }
            assert_int_equal(status == TN_OK, best != UINT64_MAX);
            if (status == TN_OK) assert_true(it.run.time == best);
            done(&it);
        }
    layers_free(&net);
}

static void without_a_link_nothing_is_copied(void **state) {
    static const char *const passes[] = {"vdnn-all", "vdnn-conv", "vdnn-dynamic"};
    layers net = layers_make(conv_net, 8);
    (void)state;
    for (int i = 0; i < 3; i++) {
        run_of it;
        assert_int_equal(solve(&it, &net, passes[i], 300, TN__ALLOW_SWAP, 0), TN_E_UNSUPPORTED);
        assert_false(it.run.has_best);
        done(&it);
    }
    layers_free(&net);
}

/* --- capuchin -----------------------------------------------------------------------------------
 */

static uint32_t count_actions(const run_of *it, tn__action_kind kind) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < it->run.best.count; i++) count += it->run.best.actions[i].kind == kind;
    return count;
}

static uint64_t keep_peak(layers *net) {
    run_of keep;
    assert_int_equal(solve(&keep, net, "none", UINT64_MAX, 0, 0), TN_OK);
    uint64_t peak = keep.run.found.peak;
    done(&keep);
    return peak;
}

static void capuchin_swaps_what_is_hidden_and_recomputes_what_is_not(void **state) {
    static const char *const plain[30] = {"", "", "", "", "", "", "", "", "", "",
                                          "", "", "", "", "", "", "", "", "", "",
                                          "", "", "", "", "", "", "", "", "", ""};
    layers net = layers_make(plain, 30);
    uint64_t peak = keep_peak(&net), cost = net.k->dag.cost;
    const uint32_t both = TN__ALLOW_SWAP | TN__ALLOW_RECOMPUTE;
    run_of it;
    (void)state;
    /* a map crosses in half of the time of a layer: little more than half of the memory costs
     * nothing */
    assert_int_equal(solve(&it, &net, "capuchin", peak * 6 / 10, both, 20), TN_OK);
    assert_true(it.run.time == cost && count_actions(&it, TN__OUT) > 5);
    assert_non_null(strstr(it.text.data, "FT "));
    assert_non_null(strstr(it.text.data, "hidden"));
    done(&it);
    /* it takes a thousand layers: all is computed again */
    assert_int_equal(solve(&it, &net, "capuchin", peak / 2, both, 0.01), TN_OK);
    assert_true(it.run.time > cost && it.run.time < 2 * cost && count_actions(&it, TN__OUT) == 0);
    assert_non_null(strstr(it.text.data, "MSPS "));
    done(&it);
    assert_int_equal(solve(&it, &net, "capuchin", peak, both, 0.01), TN_OK);
    assert_true(it.run.time == cost && it.run.best.count == net.k->dag.job_count);
    done(&it);
    layers_free(&net);
}

/* Under no budget is it slower than on demand, or than computing again alone; more of the link
 * never hurts by more than a little, and where copies take no time it is never slower than vDNN.
 */
static void capuchin_is_no_worse_than_its_parts(void **state) {
    layers net = layers_make(conv_net, 8);
    uint64_t peak = keep_peak(&net);
    uint32_t found = 0, cases = 0;
    (void)state;
    for (uint64_t budget = 300; budget <= peak; budget += 50)
        for (double rate = 0.5; rate < 1000; rate *= 4) {
            run_of all, recompute, swap, vdnn;
            const uint32_t both = TN__ALLOW_SWAP | TN__ALLOW_RECOMPUTE;
            tn_status status = solve(&all, &net, "capuchin", budget, both, rate);
            tn_status a = solve(&recompute, &net, "capuchin", budget, TN__ALLOW_RECOMPUTE, rate);
            tn_status b = solve(&swap, &net, "capuchin", budget, TN__ALLOW_SWAP, rate);
            tn_status c = solve(&vdnn, &net, "vdnn-all", budget, TN__ALLOW_SWAP, rate);
            if (a == TN_OK) assert_true(status == TN_OK && all.run.time <= recompute.run.time);
            if (b == TN_OK) assert_true(status == TN_OK && all.run.time <= swap.run.time);
            if (c == TN_OK)
                assert_true(status == TN_OK && (rate < 200 || all.run.time <= vdnn.run.time));
            assert_true(a != TN_OK || count_actions(&recompute, TN__OUT) == 0);
            found += status == TN_OK, cases++;
            done(&all), done(&recompute), done(&swap), done(&vdnn);
        }
    assert_true(found * 10 > cases * 9);
    layers_free(&net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vdnn_all_offloads_each_map_with_its_last_reader),
        cmocka_unit_test(vdnn_conv_offloads_what_convolutions_read),
        cmocka_unit_test(a_fast_link_hides_what_is_copied),
        cmocka_unit_test(vdnn_dynamic_is_the_fastest_of_all_that_fit),
        cmocka_unit_test(without_a_link_nothing_is_copied),
        cmocka_unit_test(capuchin_swaps_what_is_hidden_and_recomputes_what_is_not),
        cmocka_unit_test(capuchin_is_no_worse_than_its_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
