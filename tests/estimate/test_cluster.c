/* test_cluster.c - time on many devices: schedules against a longest path that is found without
 * them, against closed forms, and against an order written down by hand; searches against trying
 * everything; the published table of Narayanan et al. 2021 (../shared/reference/
 * devices_and_torch.md, 1.5).
 */
#include <math.h>

#include "base/base.h"
#include "report/estimate/cluster.h"
#include "support.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static double run_schedule(uint64_t stages, uint64_t pieces, uint64_t rounds, const double *forward,
                           const double *backward, double send) {
    tn__schedule_job job = {.stages = stages,
                            .pieces = pieces,
                            .rounds = rounds,
                            .time = {forward, backward},
                            .send = send};
    double seconds = 0;
    assert_ok(tn__schedule_run(&job, &seconds, &failure));
    return seconds;
}

/* --- an independent answer: passes as nodes of a graph, edges as what they wait for, ends found by
 * going over all edges until nothing moves. The order of a stage is made otherwise than there:
 * forward and backward lists first, then dealt out. --- */

#define NODES 4096u

typedef struct path_graph {
    uint32_t count, edges, from[3 * NODES], to[3 * NODES];
    double time[NODES], wait[3 * NODES], end[NODES];
} path_graph;

static uint32_t path_node(uint64_t rounds, uint64_t parts, bool back, uint64_t part,
                          uint64_t round) {
    return (uint32_t)((back ? parts * rounds : 0) + part * rounds + round);
}

static void path_edge(path_graph *graph, uint32_t from, uint32_t to, double wait) {
    graph->from[graph->edges] = from;
    graph->to[graph->edges] = to;
    graph->wait[graph->edges++] = wait;
}

static void path_stage(path_graph *graph, uint64_t stages, uint64_t pieces, uint64_t rounds,
                       uint64_t stage) {
    uint32_t list[2][NODES], count = 0, dealt[2] = {0, 0}, last = UINT32_MAX;
    uint64_t group = pieces == 1 ? 1 : stages;
    for (uint64_t base = 0; base < rounds; base += group)
        for (uint64_t piece = 0; piece < pieces; piece++)
            for (uint64_t i = 0; i < group && base + i < rounds; i++, count++) {
                list[0][count] =
                    path_node(rounds, stages * pieces, false, piece * stages + stage, base + i);
                list[1][count] = path_node(rounds, stages * pieces, true,
                                           (pieces - 1 - piece) * stages + stage, base + i);
            }
    uint64_t ahead = stages - 1 - stage;
    if (pieces > 1) ahead = 2 * ahead + (pieces - 1) * stages;
    while (dealt[1] < count) {
        bool forward = dealt[0] < count && dealt[0] <= dealt[1] + ahead;
        uint32_t node = list[!forward][dealt[!forward]++];
        if (last != UINT32_MAX) path_edge(graph, last, node, 0);
        last = node;
    }
}

static double path_longest(uint64_t stages, uint64_t pieces, uint64_t rounds, const double *forward,
                           const double *backward, double send) {
    static path_graph graph;
    uint64_t parts = stages * pieces;
    double wait = stages > 1 ? send : 0, longest = 0;
    memset(&graph, 0, sizeof graph);
    graph.count = (uint32_t)(2 * parts * rounds);
    assert_true(graph.count <= NODES);
    for (uint64_t part = 0; part < parts; part++)
        for (uint64_t round = 0; round < rounds; round++) {
            uint32_t there = path_node(rounds, parts, false, part, round);
            uint32_t back = path_node(rounds, parts, true, part, round);
            graph.time[there] = forward[part], graph.time[back] = backward[part];
            if (part > 0) {
                path_edge(&graph, path_node(rounds, parts, false, part - 1, round), there, wait);
                path_edge(&graph, back, path_node(rounds, parts, true, part - 1, round), wait);
            } else {
                uint64_t end = parts - 1;
                path_edge(&graph, path_node(rounds, parts, false, end, round),
                          path_node(rounds, parts, true, end, round), 0);
            }
        }
    for (uint64_t stage = 0; stage < stages; stage++)
        path_stage(&graph, stages, pieces, rounds, stage);
    for (uint32_t i = 0; i < graph.count; i++) graph.end[i] = graph.time[i];
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < graph.edges; i++) {
            double end = graph.end[graph.from[i]] + graph.wait[i] + graph.time[graph.to[i]];
            if (end <= graph.end[graph.to[i]]) continue;
            graph.end[graph.to[i]] = end;
            moved = true;
        }
    }
    for (uint32_t i = 0; i < graph.count; i++) longest = fmax(longest, graph.end[i]);
    return longest;
}

static void schedules_take_as_long_as_their_longest_path(void **state) {
    (void)state;
    tn__random random = {.state = 11};
    for (int trial = 0; trial < 400; trial++) {
        uint64_t stages = 1 + tn__random_below(&random, 6);
        uint64_t pieces = stages == 1 ? 1 : 1 + tn__random_below(&random, 4);
        uint64_t rounds = 1 + tn__random_below(&random, 8 * stages);
        double forward[24], backward[24], send = (double)tn__random_below(&random, 4);
        if (pieces > 1) rounds = stages * (1 + tn__random_below(&random, 8));
        for (uint64_t i = 0; i < stages * pieces; i++) {
            forward[i] = (double)(1 + tn__random_below(&random, 9));
            backward[i] = (double)(1 + tn__random_below(&random, 19));
        }
        double seconds = run_schedule(stages, pieces, rounds, forward, backward, send);
        double longest = path_longest(stages, pieces, rounds, forward, backward, send);
        if (fabs(seconds - longest) > 1e-9)
            fail_msg("seed 11, trial %d: %g and not %g\n", trial, seconds, longest);
    }
}

/* Equal stages: rounds + (stages - 1) / pieces of what one round takes a stage. */
static void equal_stages_have_the_published_bubble(void **state) {
    (void)state;
    double forward[64], backward[64];
    for (uint64_t stages = 1; stages <= 8; stages++)
        for (uint64_t pieces = 1; pieces <= (stages > 1 ? 8u : 1u); pieces++)
            for (uint64_t groups = 1; groups <= 40; groups += 3) {
                uint64_t rounds = groups * stages;
                for (uint64_t i = 0; i < stages * pieces; i++)
                    forward[i] = 1.0 / (double)pieces, backward[i] = 2.0 / (double)pieces;
                double seconds = run_schedule(stages, pieces, rounds, forward, backward, 0);
                double closed = 3 * ((double)rounds + (double)(stages - 1) / (double)pieces);
                assert_true(fabs(seconds / closed - 1) < 1e-9);
            }
}

/* --- the published table --- */

static const struct {
    uint64_t heads, hidden, layers, tensor, pipeline, devices, batch;
    double teraflops;
} published[] = {
    {24, 2304, 24, 1, 1, 32, 512, 137},        {32, 3072, 30, 2, 1, 64, 512, 138},
    {32, 4096, 36, 4, 1, 128, 512, 142},       {48, 6144, 40, 8, 1, 256, 1024, 135},
    {64, 8192, 48, 8, 2, 512, 1536, 138},      {80, 10240, 60, 8, 4, 1024, 1792, 140},
    {96, 12288, 80, 8, 8, 1536, 2304, 148},    {128, 16384, 96, 8, 16, 1920, 2160, 155},
    {128, 20480, 105, 8, 35, 2520, 2520, 163}, {160, 25600, 128, 8, 64, 3072, 3072, 163}};
#define PUBLISHED (sizeof published / sizeof *published)

static tn_cluster selene(uint64_t devices) {
    tn_cluster cluster = TN_CLUSTER_INIT;
    cluster.devices = devices;
    cluster.memory = UINT64_C(80) << 30;
    cluster.flops = 312e12;
    cluster.bytes_per_s = 2039e9;
    return cluster;
}

static tn_large published_row(size_t row) {
    return (tn_large){.model.hidden = published[row].hidden,
                      .model.layers = published[row].layers,
                      .model.heads = published[row].heads,
                      .model.vocabulary = 51200,
                      .sequence = 2048,
                      .model.position_rows = TN_SIZE_UNKNOWN,
                      .batch = published[row].batch,
                      .tensor = published[row].tensor,
                      .pipeline = published[row].pipeline,
                      .data =
                          published[row].devices / published[row].tensor / published[row].pipeline,
                      .recompute = TN_RECOMPUTE_FULL};
}

/* It fits, it is slower on real machines than here (nothing is fitted to them), by less than half,
 * and the search finds nothing slower. */
static void the_published_divisions_fit_and_are_found_or_bettered(void **state) {
    (void)state;
    for (size_t row = 0; row < PUBLISHED; row++) {
        tn_cluster cluster = selene(published[row].devices);
        tn_large large = published_row(row);
        tn_large_estimate memory;
        tn_cluster_time time;
        tn_cluster_found found;
        assert_ok(tn_large_estimate_make(&large, &memory, &failure));
        assert_true(memory.largest.total < UINT64_C(80000000000));
        assert_ok(tn_cluster_time_make(&cluster, &large, &time, &failure));
        double share = published[row].teraflops / 312;
        print_message("%5.1f billion: %.1f %% predicted, %.1f %% published\n",
                      memory.parameters / 1e9, 100 * time.share, 100 * share);
        assert_true(time.share > share && time.share < 1.6 * share);
        assert_ok(tn_cluster_search(&cluster, &large, NULL, &found, &failure));
        assert_true(found.time.seconds <= time.seconds);
        assert_true(found.memory.largest.total <= cluster.memory);
    }
}

/* --- searches --- */

/* All divisions, one by one, by the two functions that the search is made of. */
static double tried_one_by_one(const tn_cluster *cluster, const tn_large *model) {
    double best = INFINITY;
    for (uint64_t t = 1; t <= cluster->per_node; t *= 2)
        for (uint64_t p = 1; p <= cluster->devices; p++)
            for (uint64_t v = 1; v <= model->model.layers; v++)
                for (uint64_t micro = 1; micro <= model->batch; micro *= 2)
                    for (int shard = 0; shard < 4; shard++)
                        for (int recompute = 0; recompute < 3; recompute++) {
                            tn_large it = *model;
                            tn_large_estimate memory;
                            tn_cluster_time time;
                            if (cluster->devices % (t * p) != 0) continue;
                            it.tensor = t, it.pipeline = p, it.data = cluster->devices / t / p;
                            it.interleave = v, it.micro = micro;
                            it.shard = (tn_shard)shard, it.recompute = (tn_recompute)recompute;
                            it.sequence_parallel = t > 1;
                            if (tn_large_estimate_make(&it, &memory, NULL) != TN_OK) continue;
                            if (memory.largest.total > cluster->memory) continue;
                            if (tn_cluster_time_make(cluster, &it, &time, NULL) != TN_OK) continue;
                            best = fmin(best, time.seconds);
                        }
    return best;
}

static void searches_find_what_trying_all_finds(void **state) {
    (void)state;
    tn__random random = {.state = 3};
    uint32_t fitting = 0;
    for (int trial = 0; trial < 60; trial++) {
        uint64_t heads = UINT64_C(4) << tn__random_below(&random, 3);
        tn_large model = {.model.heads = heads,
                          .model.hidden = heads * 64,
                          .model.layers = 2 * (1 + tn__random_below(&random, 6)),
                          .model.vocabulary = 1000 + tn__random_below(&random, 50000),
                          .sequence = UINT64_C(128) << tn__random_below(&random, 4),
                          .batch = UINT64_C(8) << tn__random_below(&random, 4)};
        tn_cluster cluster = selene(UINT64_C(1) << tn__random_below(&random, 5));
        tn_cluster_found found;
        cluster.memory = UINT64_C(1) << (26 + tn__random_below(&random, 8));
        cluster.slow = 1e9 * (double)(1 + tn__random_below(&random, 50));
        double best = tried_one_by_one(&cluster, &model);
        tn_status status = tn_cluster_search(&cluster, &model, NULL, &found, &failure);
        if (isinf(best)) {
            assert_int_equal(status, TN_E_INFEASIBLE);
            continue;
        }
        assert_int_equal(status, TN_OK);
        fitting++;
        if (found.time.seconds != best)
            fail_msg("seed 3, trial %d: %g and not %g\n", trial, found.time.seconds, best);
    }
    assert_true(fitting > 20);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    tn_cluster cluster = selene(8), bad;
    tn_large large = {.model.hidden = 512,
                      .model.layers = 8,
                      .model.heads = 8,
                      .model.vocabulary = 1000,
                      .sequence = 128,
                      .batch = 8,
                      .tensor = 2,
                      .pipeline = 2,
                      .data = 2};
    tn_cluster_time time;
    tn_cluster_found found;
    assert_ok(tn_cluster_time_make(&cluster, &large, &time, &failure));
    const double rates[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double *const members[] = {&bad.flops, &bad.bytes_per_s, &bad.fast, &bad.slow};
        for (size_t j = 0; j < sizeof members / sizeof *members; j++) {
            bad = cluster;
            *members[j] = rates[i];
            assert_int_equal(tn_cluster_time_make(&bad, &large, &time, &failure), TN_E_INVALID);
            assert_int_equal(tn_cluster_search(&bad, &large, NULL, &found, &failure), TN_E_INVALID);
        }
    }
    cluster.devices = 9;
    assert_int_equal(tn_cluster_time_make(&cluster, &large, &time, &failure), TN_E_INVALID);
    cluster.devices = 8;
    large.interleave = 3;
    assert_int_equal(tn_cluster_time_make(&cluster, &large, &time, &failure), TN_E_INVALID);
    large.interleave = 2;
    assert_ok(tn_cluster_time_make(&cluster, &large, &time, &failure));
    large.batch = 6; /* three micro-batches for two stages */
    assert_int_equal(tn_cluster_time_make(&cluster, &large, &time, &failure), TN_E_INVALID);
    cluster.memory = 1;
    assert_int_equal(tn_cluster_search(&cluster, &large, NULL, &found, &failure), TN_E_INFEASIBLE);
    large.model.hidden = 0;
    assert_int_equal(tn_cluster_search(&cluster, &large, NULL, &found, &failure), TN_E_INVALID);
}

/* A stage's share of the slow link: 1/t of what is sent whole. */
static void divided_sends_cross_the_slow_link_once(void **state) {
    (void)state;
    tn_cluster cluster = selene(64);
    tn_large large = {.model.hidden = 1024,
                      .model.layers = 16,
                      .model.heads = 16,
                      .model.vocabulary = 1000,
                      .sequence = 512,
                      .batch = 32,
                      .tensor = 8,
                      .pipeline = 8};
    tn_cluster_time divided, whole;
    assert_ok(tn_cluster_time_make(&cluster, &large, &divided, &failure));
    cluster.whole_sends = true;
    assert_ok(tn_cluster_time_make(&cluster, &large, &whole, &failure));
    assert_int_equal(whole.slow_bytes, 8 * divided.slow_bytes);
    assert_true(divided.seconds < whole.seconds);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_take_as_long_as_their_longest_path),
        cmocka_unit_test(equal_stages_have_the_published_bubble),
        cmocka_unit_test(the_published_divisions_fit_and_are_found_or_bettered),
        cmocka_unit_test(searches_find_what_trying_all_finds),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(divided_sends_cross_the_slow_link_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
