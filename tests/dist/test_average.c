/* test_average.c - the same training by several ranks, each with a part of every batch, against one
 * that has all of it. */
#include "nets.h"

#include <math.h>

#include <tenure/dist.h>

#include "graph/op.h"

#define PARAMETERS_MOST 64u

typedef struct result {
    float losses[32];
    uint64_t steps;
    uint32_t count;
    double *values[PARAMETERS_MOST]; /* of each parameter */
    uint64_t sizes[PARAMETERS_MOST];
} result;

typedef struct task {
    uint64_t seed;
    uint32_t ranks;
    uint64_t bucket;
    result got[4];
} task;

static void take(kit_run *run, result *got) {
    const tn_training *step = tn_trainer_training(run->trainer);
    got->count = step->parameter_count;
    for (uint32_t i = 0; i < got->count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(step->graph, step->parameters[i].parameter);
        float *values = malloc(tensor->bytes);
        kit_must(run, tn_engine_get_static(tn_trainer_engine(run->trainer),
                                           step->parameters[i].parameter, values, tensor->bytes,
                                           &run->error));
        got->sizes[i] = tensor->bytes / sizeof *values;
        got->values[i] = malloc((got->sizes[i] + 1) * sizeof(double));
        for (uint64_t k = 0; k < got->sizes[i]; k++) got->values[i][k] = values[k];
        free(values);
    }
}

static void drop(result *got) {
    for (uint32_t i = 0; i < got->count; i++) free(got->values[i]);
}

static tn_status peaks_are_planned(kit_run *run, tn_error *error) {
    tn_engine_usage usage;
    tn_engine_measure(tn_trainer_engine(run->trainer), &usage);
    if (usage.measured_peak == usage.planned_peak) return TN_OK;
    TN_FAIL(error, TN_E_INTERNAL, "peak %llu, planned %llu",
            (unsigned long long)usage.measured_peak, (unsigned long long)usage.planned_peak);
}

static tn_status train(kit_run *run, result *got, tn_error *error) {
    tn_status status = kit_open(run);
    while (status == TN_OK && got->steps < run->options.steps) {
        status = tn_trainer_step(run->trainer, &run->error);
        got->losses[got->steps++] = (float)tn_trainer_at(run->trainer)->loss;
    }
    if (status == TN_OK)
        status = peaks_are_planned(run, error);
    else
        *error = run->error;
    if (status == TN_OK) take(run, got);
    return status;
}

static tn_status divide(void *self, const tn_program *program, tn_program **divided,
                        tn_error *error) {
    (void)self;
    return tn_program_average(program, 0, divided, error);
}
static const tn_divide by_data = {.program = divide};

static tn_status one_rank(void *self, tn_world *world, tn_error *error) {
    task *it = self;
    uint32_t rank = tn_world_rank(world);
    samples *some = calloc(1, sizeof *some);
    kit_run run;
    make_net(&run, it->seed, 12 / (int64_t)it->ranks);
    make_samples(some, it->seed);
    run.options.fill = NULL;
    run.options.data = some->data;
    run.train.bucket_bytes = it->bucket;
    run.session.divide = &by_data;
    run.session.exchange = run.options.exchange = tn_world_exchange(world);
    tn_status status = train(&run, &it->got[rank], error);
    kit_end(&run);
    tn_data_destroy(some->data);
    free(some);
    return status;
}

static void train_alone(uint64_t seed, uint64_t bucket, result *got) {
    samples *some = calloc(1, sizeof *some);
    tn_error error = {0};
    kit_run run;
    make_net(&run, seed, 12);
    make_samples(some, seed);
    run.options.fill = NULL;
    run.options.data = some->data;
    run.train.bucket_bytes = bucket;
    if (train(&run, got, &error) != TN_OK) fail_msg("%s: %s", error.where, error.message);
    kit_end(&run);
    tn_data_destroy(some->data);
    free(some);
}

/* Within a share of the largest element of the tensor: sums have another order. */
static void compare(const result *a, const result *b, double share, uint64_t seed) {
    assert_int_equal(a->count, b->count);
    for (uint64_t s = 0; s < a->steps; s++)
        if (!(fabs((double)a->losses[s] - (double)b->losses[s]) <=
              share * fabs((double)a->losses[s])))
            fail_msg("seed %llu, step %llu: %.9g and %.9g", (unsigned long long)seed,
                     (unsigned long long)s, (double)a->losses[s], (double)b->losses[s]);
    for (uint32_t i = 0; i < a->count; i++) {
        double most = 0;
        for (uint64_t k = 0; k < a->sizes[i]; k++) most = fmax(most, fabs(a->values[i][k]));
        for (uint64_t k = 0; k < a->sizes[i]; k++)
            if (!(fabs(a->values[i][k] - b->values[i][k]) <= share * most))
                fail_msg("seed %llu, parameter %u: %.9g and %.9g", (unsigned long long)seed, i,
                         a->values[i][k], b->values[i][k]);
    }
}

static void ranks_train_as_one_does(void **state) {
    static const uint64_t buckets[] = {1, 300, 1 << 20};
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        task it = {.seed = seed, .ranks = 2 + (uint32_t)(seed % 3), .bucket = buckets[seed % 3]};
        tn_world_options options = TN_WORLD_OPTIONS_INIT;
        result alone = {0};
        tn_error error = {0};
        train_alone(seed, 0, &alone);
        options.driver = "threads";
        options.ranks = it.ranks;
        if (tn_world_run(&options, one_rank, &it, &error) != TN_OK)
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, error.where, error.message);
        compare(&alone, &it.got[0], 1e-5, seed);
        for (uint32_t r = 1; r < it.ranks; r++) compare(&it.got[0], &it.got[r], 0, seed);
        for (uint32_t r = 0; r < it.ranks; r++) drop(&it.got[r]);
        drop(&alone);
    }
}

static void a_bucket_changes_no_bit(void **state) {
    (void)state;
    for (uint64_t seed = 30; seed < 50; seed++) {
        result with = {0}, without = {0};
        train_alone(seed, 1 + seed * seed % 5000, &with);
        train_alone(seed, 0, &without);
        compare(&without, &with, 0, seed);
        drop(&with);
        drop(&without);
    }
}

/* --- the program --- */

typedef struct made {
    kit_run run;
    tn_training training;
    tn_program *program, *averaged;
    tn_occupancy *occupancy;
} made;

static void make_program(made *it, uint64_t seed, uint64_t bucket, const char *order) {
    tn_program_options options = TN_PROGRAM_OPTIONS_INIT;
    options.order = order;
    make_net(&it->run, seed, 6);
    it->run.train.bucket_bytes = bucket;
    kit_must(&it->run, tn_train(it->run.n->graph, &it->run.train, &it->training, &it->run.error));
    kit_must(&it->run,
             tn_program_create(it->training.graph, &options, &it->program, &it->run.error));
    kit_must(&it->run, tn_program_average(it->program, 0, &it->averaged, &it->run.error));
    kit_must(&it->run, tn_occupancy_create(it->averaged, NULL, &it->occupancy, &it->run.error));
}

static void release_program(made *it) {
    tn_occupancy_destroy(it->occupancy);
    tn_program_destroy(it->averaged);
    tn_program_destroy(it->program);
    tn_training_release(&it->training);
    net_close(it->run.n);
    free(it->run.n);
}

/* Every gradient lies inside the body of its bucket, so that nothing is copied. */
static uint32_t copied(const made *it) {
    const tn_life *lives = tn_occupancy_lives(it->occupancy);
    const tn_graph *graph = it->training.graph;
    uint32_t apart = 0;
    for (tn_op_id op = 0; op < tn_graph_op_count(graph); op++) {
        if (!tn__op_has(graph, op, TN_RULE_SPACED)) continue;
        const tn_op *bucket = tn_graph_op(graph, op);
        tn_body_id body = TN_NONE;
        for (uint32_t l = 0; l < tn_occupancy_life_count(it->occupancy); l++)
            if (lives[l].tensor == bucket->outputs[0]) body = lives[l].body;
        for (uint32_t i = 0; i < bucket->input_count; i++) {
            bool inside = false;
            for (uint32_t l = 0; l < tn_occupancy_life_count(it->occupancy); l++)
                inside |= lives[l].tensor == bucket->inputs[i] && lives[l].body == body;
            apart += !inside;
        }
    }
    return apart;
}

static void gradients_lie_in_their_bucket_from_the_start(void **state) {
    (void)state;
    for (uint64_t seed = 60; seed < 80; seed++) {
        made it = {0};
        make_program(&it, seed, 4096, seed % 2 ? "memory" : "file");
        if (copied(&it) != 0)
            fail_msg("seed %llu: %u gradients are copied", (unsigned long long)seed, copied(&it));
        release_program(&it);
    }
}

static void programs_of_all_ranks_meet(void **state) {
    (void)state;
    for (uint64_t seed = 80; seed < 100; seed++) {
        made it = {0};
        make_program(&it, seed, 1 + seed % 7 * 200, seed % 2 ? "memory" : "file");
        const tn_program *all[] = {it.averaged, it.averaged, it.averaged};
        kit_must(&it.run, tn_programs_verify(all, 3, &it.run.error));
        const tn_program *odd[] = {it.averaged, it.program};
        assert_int_equal(tn_programs_verify(odd, 2, &it.run.error), TN_E_INVALID);
        uint32_t reduces = 0;
        for (uint32_t s = 0; s < tn_program_count(it.averaged); s++)
            reduces += tn_program_instructions(it.averaged)[s].opcode == TN_REDUCE;
        assert_in_range(reduces, 1, it.training.parameter_count);
        release_program(&it);
    }
}

static void without_buckets_there_is_nothing_to_average(void **state) {
    (void)state;
    made it = {0};
    tn_program *none = NULL;
    make_net(&it.run, 3, 6);
    kit_must(&it.run, tn_train(it.run.n->graph, &it.run.train, &it.training, &it.run.error));
    kit_must(&it.run, tn_program_create(it.training.graph, NULL, &it.program, &it.run.error));
    assert_int_equal(tn_program_average(it.program, 0, &none, &it.run.error), TN_E_INVALID);
    assert_non_null(strstr(it.run.error.message, "bucket"));
    assert_null(none);
    release_program(&it);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_train_as_one_does),
        cmocka_unit_test(a_bucket_changes_no_bit),
        cmocka_unit_test(gradients_lie_in_their_bucket_from_the_start),
        cmocka_unit_test(programs_of_all_ranks_meet),
        cmocka_unit_test(without_buckets_there_is_nothing_to_average),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
