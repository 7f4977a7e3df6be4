/* test_trainer.c - runs that are stopped and resumed, compared, tested and broken. */
#include "kit.h"

static uint64_t hash_of(const char *path) {
    tn__file file;
    uint64_t hash = 14695981039346656037u;
    assert_int_equal(tn__file_map(path, &file, NULL), TN_OK);
    for (size_t i = 0; i < file.size; i++) hash = (hash ^ file.bytes[i]) * 1099511628211u;
    tn__file_unmap(&file);
    return hash;
}

/* --- stopped and resumed --- */

typedef struct stopper {
    uint64_t at; /* stops behind this step; UINT64_MAX: never */
    uint64_t calls, last;
} stopper;

static bool stop_at(void *self, const tn_trainer_state *state) {
    stopper *it = self;
    it->calls++;
    assert_true(it->calls == 1 || state->done == it->last + 1);
    it->last = state->done;
    return state->done != it->at;
}

static void set_modes(kit_run *run, uint64_t seed) {
    tn__random random = {.state = seed};
    run->train.optimizer = (tn_optimizer)tn__random_below(&random, TN_OPTIMIZER_NONE);
    run->train.micro_batches = 1 + (uint32_t)tn__random_below(&random, 3);
    run->train.fuse_update = tn__random_below(&random, 2);
    run->options.schedule = (tn_schedule)tn__random_below(&random, TN_SCHEDULE_COUNT);
    run->options.warmup = tn__random_below(&random, 6);
    run->options.rate = 1e-2;
    run->options.steps = 5 + tn__random_below(&random, 30);
    run->options.checkpoint_every = 1 + tn__random_below(&random, 9);
    run->options.seed = seed;
}

static void turn(uint64_t seed, const char *path, stopper *stops, bool *stopped) {
    kit_run run;
    kit_classes(&run, 5);
    set_modes(&run, seed);
    run.options.checkpoint = path;
    run.options.go_on = true;
    run.options.step = stop_at;
    run.options.self = stops;
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_run(run.trainer, &run.error));
    const tn_trainer_state *at = tn_trainer_at(run.trainer);
    *stopped = at->stopped;
    assert_int_equal(at->done - at->first, stops->calls);
    assert_true(at->done == (at->stopped ? stops->at : at->total));
    kit_end(&run);
}

static void a_run_that_is_stopped_anywhere_ends_with_the_same_bits(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 25; seed++) {
        tn__random random = {.state = seed + 99};
        const char *whole = kit_path("whole.ck"), *parts = kit_path("parts.ck");
        bool stopped;
        turn(seed, whole, &(stopper){.at = UINT64_MAX}, &stopped);
        assert_false(stopped);
        uint64_t at = 0;
        do {
            at += 1 + tn__random_below(&random, 8);
            turn(seed, parts, &(stopper){.at = at}, &stopped);
        } while (stopped);
        if (hash_of(whole) != hash_of(parts))
            fail_msg("seed %llu: other bits", (unsigned long long)seed);
        unlink(whole);
        unlink(parts);
    }
}

/* What was written now and then is what goes on, whatever came after it: a kill is no stop. */
static void a_run_goes_on_from_any_checkpoint(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        kit_run run;
        bool stopped;
        kit_classes(&run, 5);
        set_modes(&run, seed);
        kit_must(&run, kit_open(&run));
        uint64_t lost = 0;
        for (; lost < run.options.steps / 2; lost++)
            kit_must(&run, tn_trainer_step(run.trainer, &run.error));
        kit_must(&run, tn_trainer_save(run.trainer, kit_path("parts.ck"), &run.error));
        for (; lost < run.options.steps; lost++) /* and these are lost */
            kit_must(&run, tn_trainer_step(run.trainer, &run.error));
        assert_int_equal(tn_trainer_step(run.trainer, &run.error), TN_E_INVALID);
        kit_must(&run, tn_trainer_save(run.trainer, kit_path("whole.ck"), &run.error));
        kit_end(&run);
        turn(seed, kit_path("parts.ck"), &(stopper){.at = UINT64_MAX}, &stopped);
        assert_int_equal(hash_of(kit_path("whole.ck")), hash_of(kit_path("parts.ck")));
        unlink(kit_path("parts.ck"));
    }
}

/* --- a twin --- */

static void twins(kit_run *one, kit_run *other) {
    kit_classes(one, 5);
    kit_classes(other, 5);
    other->session.naive = true;
    kit_must(other, kit_open(other));
    one->options.twin = tn_trainer_engine(other->trainer);
    one->session.poison = true;
    kit_must(one, kit_open(one));
}

static void a_twin_without_reuse_has_the_same_bits(void **state) {
    (void)state;
    kit_run one, other;
    twins(&one, &other);
    kit_must(&one, tn_trainer_run(one.trainer, &one.error));
    kit_end(&one);
    kit_end(&other);
}

static void add_a_little(kit_run *run, tn_tensor_id id, float little) {
    const tn_tensor *tensor = tn_graph_tensor(tn_trainer_training(run->trainer)->graph, id);
    tn_engine *engine = tn_trainer_engine(run->trainer);
    float *values = malloc(tensor->bytes);
    assert_non_null(values);
    kit_must(run, tn_engine_get_static(engine, id, values, tensor->bytes, &run->error));
    values[0] += little;
    kit_must(run, tn_engine_set_static(engine, id, values, tensor->bytes, &run->error));
    free(values);
}

static void a_twin_that_differs_is_told(void **state) {
    (void)state;
    kit_run one, other;
    twins(&one, &other);
    add_a_little(&other, tn_trainer_training(other.trainer)->parameters[0].parameter, 0.5f);
    assert_int_equal(tn_trainer_run(one.trainer, &one.error), TN_E_CONFLICT);
    assert_non_null(strstr(one.error.message, "the loss is"));
    kit_end(&one);
    kit_end(&other);
    twins(&one, &other);
    kit_must(&one, tn_trainer_run(one.trainer, &one.error));
    /* a statistic has no say in the loss of a step */
    add_a_little(&other, tn_trainer_training(other.trainer)->statistics[0], 1);
    assert_int_equal(tn_trainer_run(one.trainer, &one.error), TN_E_CONFLICT);
    assert_non_null(strstr(one.error.message, "running_"));
    kit_end(&one);
    kit_end(&other);
}

/* --- what is told --- */

static tn_status count_run(void *self, tn_engine *engine, tn_error *error) {
    (void)engine;
    (void)error;
    ((stopper *)self)->calls += 1000;
    return TN_OK;
}

static tn_status fail_run(void *self, tn_engine *engine, tn_error *error) {
    (void)self;
    (void)engine;
    return tn__fail(error, TN_E_STOPPED, "enough");
}

static bool add_one(void *self, const tn_trainer_state *state) {
    ((stopper *)self)->calls++;
    assert_true(state->micro_batches == 2 && state->batch == 4 && state->labels == 1);
    assert_true(state->correct >= 0 && state->correct <= 8);
    return true;
}

static void steps_and_runs_are_told(void **state) {
    (void)state;
    kit_run run;
    stopper told = {0};
    kit_classes(&run, 5);
    run.train.micro_batches = 2;
    run.options.steps = 7;
    run.options.step = add_one;
    run.options.ran = count_run;
    run.options.self = &told;
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_run(run.trainer, &run.error));
    assert_int_equal(told.calls, 14 * 1000 + 7);
    kit_end(&run);
    kit_classes(&run, 5);
    run.options.ran = fail_run;
    kit_must(&run, kit_open(&run));
    assert_int_equal(tn_trainer_run(run.trainer, &run.error), TN_E_STOPPED);
    assert_string_equal(run.error.message, "enough");
    kit_end(&run);
}

static void a_loss_that_is_no_number_ends_the_run_and_keeps_the_checkpoint(void **state) {
    (void)state;
    kit_run run;
    kit_classes(&run, 5);
    run.options.checkpoint = kit_path("wild.ck");
    run.options.rate = 1e30;
    run.options.steps = 90;
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_save(run.trainer, kit_path("wild.ck"), &run.error));
    uint64_t hash = hash_of(kit_path("wild.ck"));
    assert_int_equal(tn_trainer_run(run.trainer, &run.error), TN_E_INVALID);
    assert_non_null(strstr(run.error.message, "is not a number (learning rate 1e+30)"));
    assert_non_null(strstr(run.error.message, "wild.ck stays"));
    assert_int_equal(hash_of(kit_path("wild.ck")), hash);
    kit_end(&run);
}

/* --- how good it is --- */

/* Scores x w + b of a model of one layer, by plain doubles. */
static void a_test_is_what_the_parameters_say(void **state) {
    (void)state;
    kit_run run;
    tn_trainer_score score;
    float w[5][3], b[3], x[4][5];
    int64_t y[4];
    kit_begin(&run, 5);
    tn_tensor_id in = net_input(run.n, TN_FLOAT32, NET_SHAPE(4, 5));
    assert_int_equal(net_finish(run.n, in, net_dense(run.n, in, 5, 3)), TN_OK);
    run.options.test_batches = 9;
    run.options.rate = 1e-1;
    kit_must(&run, kit_open(&run));
    kit_must(&run, tn_trainer_run(run.trainer, &run.error));
    kit_must(&run, tn_trainer_test(run.trainer, &score, &run.error));
    const tn_training *step = tn_trainer_training(run.trainer);
    for (uint32_t i = 0; i < step->parameter_count; i++) {
        const tn_tensor *p = tn_graph_tensor(step->graph, step->parameters[i].parameter);
        assert_true(tn_trainer_read(run.trainer, p->name, p->rank == 2 ? (void *)w : b, p->bytes));
        assert_false(tn_trainer_read(run.trainer, p->name, w, p->bytes + 1));
    }
    assert_false(tn_trainer_read(run.trainer, "nothing", w, sizeof w));
    double loss = 0, right = 0;
    tn_array samples = {.bytes = sizeof x, .data = x}, labels = {.bytes = sizeof y, .data = y};
    for (uint64_t k = 0; k < 9; k++) {
        assert_int_equal(kit_fill(NULL, true, k, &samples, &labels, NULL), TN_OK);
        for (int i = 0; i < 4; i++) {
            double scores[3], sum = 0;
            int best = 0;
            for (int c = 0; c < 3; c++) {
                scores[c] = (double)b[c];
                for (int d = 0; d < 5; d++) scores[c] += (double)x[i][d] * (double)w[d][c];
                sum += exp(scores[c]);
                if (scores[c] > scores[best]) best = c;
            }
            loss += (log(sum) - scores[y[i]]) / 36;
            right += (best == y[i]) / 36.0;
        }
    }
    assert_int_equal(score.labels, 36);
    assert_true(fabs(score.loss - loss) < 1e-5 && fabs(score.accuracy - right) < 1e-9);
    kit_end(&run);
}

/* --- several inputs --- */

/* A model of two inputs, of which the second is subtracted from the first. */
static void two_inputs(kit_run *run) {
    kit_begin(run, 5);
    tn_tensor_id x = net_input(run->n, TN_FLOAT32, NET_SHAPE(4, 5));
    tn_tensor_id y = net_tensor(run->n, &(tn_tensor_spec){.name = "other",
                                                          .dtype = TN_FLOAT32,
                                                          .kind = TN_KIND_INPUT,
                                                          .rank = 2,
                                                          .shape = (const int64_t[]){4, 5}});
    tn_tensor_id both[] = {x, y}, scores = net_dense(run->n, net_binary(run->n, "Sub", x, y), 5, 3);
    assert_int_equal(run->n->status, TN_OK);
    assert_int_equal(tn_graph_set_block_io(run->n->graph, 0, both, 2, &scores, 1, NULL), TN_OK);
    assert_int_equal(tn_graph_infer(run->n->graph, NULL), TN_OK);
}

typedef struct two_data { /* 20 samples for both inputs, and labels */
    float x[20][5], other[20][5];
    int64_t labels[20];
} two_data;

/* Trains on the arrays in the order and with the names that are given. Returns the last loss. */
static double two_train(const two_data *from, const char *const names[3], const char *why) {
    kit_run run;
    tn_data *data;
    tn_named_array arrays[] = {
        {names[0],
         {.dtype = TN_FLOAT32, .rank = 2, .shape = {20, 5}, .bytes = 400, .data = (void *)from->x}},
        {names[1],
         {.dtype = TN_INT64, .rank = 1, .shape = {20}, .bytes = 160, .data = (void *)from->labels}},
        {names[2],
         {.dtype = TN_FLOAT32,
          .rank = 2,
          .shape = {20, 5},
          .bytes = 400,
          .data = (void *)from->other}}};
    tn_samples samples = {.inputs = arrays, .input_count = 3};
    two_inputs(&run);
    run.options.fill = NULL;
    kit_must(&run, tn_data_create(&samples, &samples, NULL, &data, &run.error));
    assert_int_equal(tn_data_samples(data, true).input_count, 3);
    run.options.data = data;
    double loss = -1;
    if (kit_open(&run) == TN_OK) {
        tn_trainer_score score;
        kit_must(&run, tn_trainer_run(run.trainer, &run.error));
        kit_must(&run, tn_trainer_test(run.trainer, &score, &run.error));
        assert_int_equal(score.labels, 20);
        loss = score.loss;
    } else if (why == NULL || strstr(run.error.message, why) == NULL) {
        fail_msg("%s", run.error.message);
    }
    kit_end(&run);
    tn_data_destroy(data);
    return loss;
}

static void every_input_gets_the_array_of_its_name(void **state) {
    (void)state;
    static two_data given, turned;
    tn__random random = {.state = 8};
    for (int i = 0; i < 20; i++) {
        given.labels[i] = turned.labels[i] = (int64_t)tn__random_below(&random, 3);
        for (int d = 0; d < 5; d++) {
            given.x[i][d] = turned.other[i][d] = (float)tn__random_below(&random, 100) / 50;
            given.other[i][d] = turned.x[i][d] = (float)tn__random_below(&random, 100) / 50;
        }
    }
    kit_run run; /* the names of the model */
    two_inputs(&run);
    const tn_block *block = tn_graph_block(run.n->graph, 0);
    char first[80], second[80];
    snprintf(first, sizeof first, "%s", tn_graph_tensor(run.n->graph, block->inputs[0])->name);
    snprintf(second, sizeof second, "%s", tn_graph_tensor(run.n->graph, block->inputs[1])->name);
    kit_end(&run);
    double loss = two_train(&given, (const char *const[]){first, "labels", second}, NULL);
    double same = two_train(&turned, (const char *const[]){second, "labels", first}, NULL);
    double other = two_train(&given, (const char *const[]){second, "labels", first}, NULL);
    assert_true(loss > 0 && memcmp(&loss, &same, sizeof loss) == 0 && loss != other);
    (void)two_train(&given, (const char *const[]){first, "labels", "others"},
                    "'others' is no input");
    (void)two_train(&given, (const char *const[]){first, "label", second}, "'label' is no input");
}

/* --- pruning (what becomes zero: tests/cli/train_pruned.py) --- */

static void the_share_of_zeros_rises_to_what_was_asked_for(void **state) {
    (void)state;
    tn__random random = {.state = 4};
    for (int i = 0; i < 200; i++) {
        tn_prune_schedule schedule = {.share = (double)tn__random_below(&random, 1000) / 1000,
                                      .begin = tn__random_below(&random, 40)};
        schedule.end = schedule.begin + tn__random_below(&random, 50) + (schedule.begin == 0);
        double before = 0;
        for (uint64_t done = 0; done < 100; done++) {
            double share = tn_prune_share_at(&schedule, done);
            assert_true(share >= before && share <= schedule.share);
            assert_true(done >= schedule.begin || share == 0);
            assert_true(done < schedule.end || share == schedule.share);
            before = share;
        }
    }
}

static void a_pruned_run_tells_its_zeros(void **state) {
    (void)state;
    static const char *const patterns[] = {"*"};
    tn_prune_schedule schedule = {.share = 0.5, .end = 4, .every = 2};
    float w[30];
    kit_run run;
    kit_classes(&run, 5);
    run.options.prune = &schedule;
    kit_must(&run, kit_open(&run));
    schedule = (tn_prune_schedule){.share = 7}; /* was read */
    kit_must(&run, tn_trainer_run(run.trainer, &run.error));
    const tn_trainer_state *at = tn_trainer_at(run.trainer);
    assert_int_equal(at->prunable, 5 * 6 + 6 * 3);
    assert_int_equal(at->pruned, 24);
    const tn_training *step = tn_trainer_training(run.trainer);
    for (uint32_t i = 0; i < step->parameter_count; i++) {
        const tn_tensor *p = tn_graph_tensor(step->graph, step->parameters[i].parameter);
        uint64_t zeros = 0;
        if (p->rank != 2) continue;
        assert_true(tn_trainer_read(run.trainer, p->name, w, p->bytes));
        for (uint64_t k = 0; k < p->bytes / 4; k++) zeros += w[k] == 0;
        assert_int_equal(zeros, p->bytes / 8);
    }
    kit_end(&run);

    kit_classes(&run, 5);
    run.options.prune =
        &(tn_prune_schedule){.share = 0.5, .patterns = patterns, .pattern_count = 1};
    kit_must(&run, kit_open(&run));
    assert_int_equal(tn_trainer_at(run.trainer)->prunable, 5 * 6 + 6 + 2 * 6 + 6 * 3 + 3);
    kit_end(&run);
}

/* --- what is refused --- */

static void assert_cannot_open(kit_run *run, tn_status status, const char *why) {
    assert_int_equal(kit_open(run), status);
    assert_null(run->trainer);
    if (strstr(run->error.message, why) == NULL) fail_msg("'%s'", run->error.message);
    kit_end(run);
}

static void runs_that_cannot_be_are_refused(void **state) {
    (void)state;
    kit_run run;
    kit_classes(&run, 5);
    run.options.steps = 0;
    assert_cannot_open(&run, TN_E_INVALID, "how many steps");
    kit_classes(&run, 5);
    run.options.fill = NULL;
    assert_cannot_open(&run, TN_E_INVALID, "`data` or from `fill`");
    const double shares[] = {1, -0.1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        kit_classes(&run, 5);
        run.options.prune = &(tn_prune_schedule){.share = shares[i]};
        assert_cannot_open(&run, TN_E_INVALID, "outside of [0, 1)");
    }
    kit_classes(&run, 5);
    run.options.prune = &(tn_prune_schedule){.share = 0.5, .begin = 4, .end = 3};
    assert_cannot_open(&run, TN_E_INVALID, "begins at step 4, after its end at step 3");
    const char *nothing = "nothing";
    kit_classes(&run, 5);
    run.options.prune =
        &(tn_prune_schedule){.share = 0.5, .patterns = &nothing, .pattern_count = 1};
    assert_cannot_open(&run, TN_E_INVALID, "no trained parameter matches 'nothing'");
    kit_classes(&run, 5);
    run.options.schedule = TN_SCHEDULE_COUNT;
    assert_cannot_open(&run, TN_E_UNKNOWN, "no such schedule");
    kit_classes(&run, 5);
    run.options.resume = kit_path("nothing.ck");
    assert_cannot_open(&run, TN_E_IO, "");
    kit_classes(&run, 5);
    run.session.budget = 100;
    assert_cannot_open(&run, TN_E_INFEASIBLE, "the least found takes");
}

static void no_allocation_that_fails_leaves_anything(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t at = 1; status != TN_OK; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        kit_run run;
        kit_classes(&run, 5);
        run.options.context = &context;
        run.options.prune = &(tn_prune_schedule){.share = 0.5};
        run.options.test_batches = 1;
        run.options.steps = 1;
        run.options.checkpoint = kit_path("memory.ck");
        tn_trainer_score score;
        status = kit_open(&run);
        if (status == TN_OK) status = tn_trainer_run(run.trainer, &run.error);
        if (status == TN_OK) status = tn_trainer_test(run.trainer, &score, &run.error);
        if (status != TN_OK && status != TN_E_NO_MEMORY)
            fail_msg("allocation %llu: %s: %s", (unsigned long long)at, tn_status_name(status),
                     run.error.message);
        assert_true(at < 100000);
        kit_end(&run);
        assert_int_equal(memory.held, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_is_stopped_anywhere_ends_with_the_same_bits),
        cmocka_unit_test(a_run_goes_on_from_any_checkpoint),
        cmocka_unit_test(a_twin_without_reuse_has_the_same_bits),
        cmocka_unit_test(a_twin_that_differs_is_told),
        cmocka_unit_test(steps_and_runs_are_told),
        cmocka_unit_test(a_loss_that_is_no_number_ends_the_run_and_keeps_the_checkpoint),
        cmocka_unit_test(a_test_is_what_the_parameters_say),
        cmocka_unit_test(every_input_gets_the_array_of_its_name),
        cmocka_unit_test(the_share_of_zeros_rises_to_what_was_asked_for),
        cmocka_unit_test(a_pruned_run_tells_its_zeros),
        cmocka_unit_test(runs_that_cannot_be_are_refused),
        cmocka_unit_test(no_allocation_that_fails_leaves_anything),
    };
    return cmocka_run_group_tests(tests, kit_enter, kit_leave);
}
