/* test_networks.c - networks of the usual kinds, trained for 20 steps by 2 and 4 ranks, against one
 * process that takes the same samples.
 *
 * Where batches are normalised by their own statistics, one process does what ranks do if it takes
 * their parts as micro-batches; where they are not, also if it takes the whole batch at once. Ranks
 * that divide state, gradients or parameters among them are bit by bit as those that do not.
 */
#include "count.h"
#include "trainer/kit.h"

#include "../../examples/training/networks.h"

#include <math.h>

#include <tenure/dist.h>

#define STEPS 20
#define RANKS_MOST 4u
#define BATCH 8

enum { RESIDUAL, UNET, TRANSFORMER, LSTM, NETWORKS };
static const char *const names[] = {"residual_cnn", "unet", "transformer", "lstm"};

typedef struct trained {
    double losses[STEPS];
    float *values; /* of all parameters, one behind the other */
    uint64_t count;
    uint64_t *ends; /* [parameters] */
    uint32_t parameters;
} trained;

typedef struct task {
    uint32_t which, ranks;
    tn_shard shard;
    trained got[RANKS_MOST];
    uint64_t statics; /* of a rank */
} task;

static int64_t classes_of(uint32_t which) { return which >= TRANSFORMER ? 17 : 4; }

static tn_status fill(void *self, bool held_out, uint64_t number, tn_array *samples,
                      tn_array *labels, tn_error *error) {
    tn__random random = {.state = 77 * number + 5};
    int64_t classes = classes_of(*(const uint32_t *)self);
    uint64_t each = samples->dtype == TN_INT64 ? 8 : 4;
    (void)held_out;
    (void)error;
    for (uint64_t i = 0; i < samples->bytes / each; i++) {
        uint64_t drawn = tn__random_below(&random, 1 << 20);
        if (each == 8)
            ((int64_t *)samples->data)[i] = (int64_t)(drawn % (uint64_t)classes);
        else
            ((float *)samples->data)[i] = (float)drawn / (1 << 19) - 1;
    }
    for (uint64_t i = 0; i < labels->bytes / 8; i++)
        ((int64_t *)labels->data)[i] = (int64_t)tn__random_below(&random, (uint64_t)classes);
    return TN_OK;
}

/* Batch `number` of the whole is its parts, as ranks have them. */
static tn_status fill_whole(void *self, bool held_out, uint64_t number, tn_array *samples,
                            tn_array *labels, tn_error *error) {
    uint32_t parts = ((const uint32_t *)self)[1];
    for (uint32_t p = 0; p < parts; p++) {
        tn_array x = *samples, y = *labels;
        x.bytes /= parts;
        y.bytes /= parts;
        x.data = (uint8_t *)samples->data + p * x.bytes;
        y.data = (uint8_t *)labels->data + p * y.bytes;
        TN_TRY(fill(self, held_out, number * parts + p, &x, &y, error));
    }
    return TN_OK;
}

static void make(kit_run *run, uint32_t which, int64_t batch) {
    transformer_size size = {
        .batch = batch, .time = 6, .width = 12, .heads = 3, .depth = 4, .words = 17};
    kit_begin(run, 3);
    tn_status status = which == RESIDUAL      ? residual_cnn(run->n, batch, 8, 4, 4)
                       : which == UNET        ? unet(run->n, batch, 8, 3, 4)
                       : which == TRANSFORMER ? transformer(run->n, &size)
                                              : lstm(run->n, batch, 6, 9, 17);
    if (status != TN_OK) fail_msg("%s: %s", names[which], run->n->error.message);
    run->train.optimizer = TN_OPTIMIZER_MOMENTUM;
    run->options.rate = 1e-3;
    run->options.steps = STEPS;
    run->options.fill = fill;
}

/* On ranks that keep parts of parameters only the first one comes to have all. */
static tn_status take(kit_run *run, trained *got, bool all, tn_error *error) {
    const tn_training *step = tn_trainer_training(run->trainer);
    TN_TRY(tn_trainer_gather(run->trainer, error));
    if (!all) return TN_OK;
    got->parameters = step->parameter_count;
    got->ends = calloc(step->parameter_count, sizeof *got->ends);
    for (uint32_t i = 0; i < step->parameter_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(step->graph, step->parameters[i].parameter);
        got->values = realloc(got->values, got->count * sizeof(float) + tensor->bytes);
        if (!tn_trainer_read(run->trainer, tensor->name, got->values + got->count, tensor->bytes))
            TN_FAIL(error, TN_E_INTERNAL, "'%s' is not there", tensor->name);
        got->count += tensor->bytes / sizeof(float);
        got->ends[i] = got->count;
    }
    return TN_OK;
}

static tn_status train(kit_run *run, trained *got, bool all, tn_error *error) {
    tn_engine_usage usage;
    tn_status status = kit_open(run);
    for (uint32_t s = 0; s < STEPS && status == TN_OK; s++) {
        status = tn_trainer_step(run->trainer, &run->error);
        if (status == TN_OK) got->losses[s] = tn_trainer_at(run->trainer)->loss;
    }
    *error = run->error;
    if (status != TN_OK) return status;
    tn_engine_measure(tn_trainer_engine(run->trainer), &usage);
    if (usage.measured_peak != usage.planned_peak)
        TN_FAIL(error, TN_E_INTERNAL, "peak %llu, planned %llu",
                (unsigned long long)usage.measured_peak, (unsigned long long)usage.planned_peak);
    return take(run, got, all, error);
}

static void alone(uint32_t which, uint32_t micro, uint32_t parts, trained *got) {
    uint32_t how[] = {which, parts};
    tn_error error = {0};
    kit_run run;
    make(&run, which, BATCH / micro);
    run.train.micro_batches = micro;
    run.options.self = how;
    if (parts > 1) run.options.fill = fill_whole;
    if (train(&run, got, true, &error) != TN_OK) fail_msg("%s: %s", names[which], error.message);
    kit_end(&run);
}

/* Parameters that come together one unit at a time, as often as they are read. */
static tn_status divide(void *self, const tn_program *program, tn_program **divided,
                        tn_error *error) {
    const task *it = self;
    tn_program_shard_options options = TN_PROGRAM_SHARD_OPTIONS_INIT;
    options.shard = it->shard;
    options.ahead_bytes = 1;
    return it->shard == TN_SHARD_NONE ? tn_program_average(program, 0, divided, error)
                                      : tn_program_shard(program, &options, divided, error);
}

static tn_status rank(void *self, tn_world *world, tn_error *error) {
    task *it = self;
    uint32_t how[] = {it->which, 1}, number = tn_world_rank(world);
    const tn_divide by_data = {.program = divide, .self = it};
    tn_engine_usage usage;
    kit_run run;
    make(&run, it->which, BATCH / it->ranks);
    run.train.bucket_bytes = 2000;
    run.train.shard = it->shard;
    run.train.shard_count = it->ranks;
    run.train.shard_index = number;
    run.session.poison = true;
    run.session.divide = &by_data;
    run.session.exchange = run.options.exchange = tn_world_exchange(world);
    run.options.self = how;
    bool all = number == 0 || it->shard != TN_SHARD_PARAMETERS;
    tn_status status = train(&run, &it->got[number], all, error);
    if (status == TN_OK && number == 0) {
        tn_engine_measure(tn_trainer_engine(run.trainer), &usage);
        it->statics = usage.static_bytes;
    }
    kit_end(&run);
    return status;
}

/* How far apart, as a share of the loss, and of the largest element of each parameter; or of a
 * hundredth of the largest of all, where a parameter is smaller: the loss does not depend on the
 * bias of an attention's keys, so that is made of nothing but rounding. */
static double apart(const trained *a, const trained *b) {
    double worst = 0, largest = 0;
    for (uint64_t k = 0; k < a->count; k++) largest = fmax(largest, fabs((double)a->values[k]));
    assert_int_equal(a->count, b->count);
    for (uint32_t s = 0; s < STEPS; s++)
        if (!isfinite(a->losses[s]) || !isfinite(b->losses[s])) return INFINITY;
    for (uint64_t k = 0; k < a->count; k++) /* fmax passes over what is no number */
        if (!isfinite((double)a->values[k]) || !isfinite((double)b->values[k])) return INFINITY;
    for (uint32_t s = 0; s < STEPS; s++)
        worst = fmax(worst, fabs(a->losses[s] - b->losses[s]) / fabs(a->losses[s]));
    for (uint32_t i = 0; i < a->parameters; i++) {
        double most = largest / 100, far = 0;
        for (uint64_t k = i > 0 ? a->ends[i - 1] : 0; k < a->ends[i]; k++) {
            most = fmax(most, fabs((double)a->values[k]));
            far = fmax(far, fabs((double)a->values[k] - (double)b->values[k]));
        }
        worst = fmax(worst, far / most);
    }
    return worst;
}

static void drop(trained *got) {
    free(got->values);
    free(got->ends);
}

static void run_task(task *it) {
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    tn_error error = {0};
    options.driver = "threads";
    options.ranks = it->ranks;
    if (tn_world_run(&options, rank, it, &error) != TN_OK)
        fail_msg("%s, %u ranks, %s: %s: %s", names[it->which], it->ranks, tn_shard_name(it->shard),
                 error.where, error.message);
}

/* Momentum keeps as many bytes as there are of parameters. Parts are filled up: some room. */
static void compare_shards(const task *plain) {
    const trained *whole = &plain->got[0];
    uint64_t parameters = whole->count * sizeof(float), away = 0;
    for (tn_shard shard = TN_SHARD_OPTIMIZER; shard <= TN_SHARD_PARAMETERS; shard++) {
        task it = {.which = plain->which, .ranks = plain->ranks, .shard = shard};
        run_task(&it);
        assert_memory_equal(it.got[0].losses, whole->losses, sizeof whole->losses);
        assert_int_equal(it.got[0].count, whole->count);
        assert_memory_equal(it.got[0].values, whole->values, parameters);
        if (shard != TN_SHARD_GRADIENTS) away += parameters - parameters / it.ranks;
        assert_true(it.statics <= plain->statics - away * 3 / 4);
        for (uint32_t r = 0; r < it.ranks; r++) drop(&it.got[r]);
    }
}

static void compare(uint32_t which, uint32_t ranks) {
    task it = {.which = which, .ranks = ranks};
    trained micro = {0}, whole = {0};
    run_task(&it);
    alone(which, ranks, 1, &micro);
    alone(which, 1, ranks, &whole);
    double parts = apart(&micro, &it.got[0]), all = apart(&whole, &it.got[0]);
    printf("%-12s %u ranks: %.1e from micro-batches, %.1e from the whole batch\n", names[which],
           ranks, parts, all);
    assert_true(parts <= 1e-5);
    bool statistics = which == RESIDUAL || which == UNET;
    assert_true(statistics || all <= 1e-5);
    for (uint32_t r = 1; r < ranks; r++) assert_true(apart(&it.got[0], &it.got[r]) == 0);
    compare_shards(&it);
    for (uint32_t r = 0; r < ranks; r++) drop(&it.got[r]);
    drop(&micro);
    drop(&whole);
}

static void networks_train_by_ranks_as_by_one(void **state) {
    (void)state;
    uint32_t most = case_percent() < 100 ? 2 : RANKS_MOST;
    for (uint32_t which = 0; which < NETWORKS; which++)
        for (uint32_t ranks = 2; ranks <= most; ranks *= 2) compare(which, ranks);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_train_by_ranks_as_by_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
