/* test_tensor.c - models that are cut over 2 and 4 ranks, and beside that trained on parts of each
 * batch, against one process that has all of it. */
#include "trainer/kit.h"

#include "../../examples/training/networks.h"

#include <math.h>

#include <tenure/dist.h>

#ifdef __SANITIZE_THREAD__ /* each takes long, and any finds what threads do to each other */
#define STEPS 2
#define PLAIN true /* oneDNN guards what its threads share by means that TSan does not see */
#define FILTER "so_they_do_*"
#else
#define STEPS 20
#define PLAIN false
#define FILTER NULL
#endif
#define RANKS_MOST 4u
#define BATCH 8
#define PARAMETERS_MOST 128u

enum { TRANSFORMER, MLP, CNN, DROPS, NETWORKS };
static const char *const names[] = {"transformer", "mlp", "cnn", "dropout"};

typedef struct trained {
    double losses[STEPS];
    int64_t correct[STEPS];
    uint32_t parameters, cut;
    float *values[PARAMETERS_MOST]; /* of each parameter, whole */
    uint64_t counts[PARAMETERS_MOST];
    bool whole[PARAMETERS_MOST]; /* on every rank */
    tn_part_sums sums;
} trained;

typedef struct task {
    uint32_t which, data, tensor;
    bool sequence; /* parallel */
    const tn_rules *rules;
    uint64_t said[RANKS_MOST]; /* bytes in the last step */
    trained got[RANKS_MOST];
    uint64_t peaks[RANKS_MOST];
} task;

static tn_status fill(void *self, bool held_out, uint64_t number, tn_array *samples,
                      tn_array *labels, tn_error *error) {
    uint64_t parts = *(const uint32_t *)self, part = number % parts; /* of a batch */
    (void)held_out;
    (void)error;
    tn__random random = {.state = 77 * (number / parts) + 5};
    uint64_t each = samples->dtype == TN_INT64 ? 8 : 4, count = samples->bytes / each;
    for (uint64_t i = 0; i < count * parts; i++) {
        uint64_t drawn = tn__random_below(&random, 1 << 20), at = i - part * count;
        if (at >= count) continue;
        if (each == 8)
            ((int64_t *)samples->data)[at] = (int64_t)(drawn % 20);
        else
            ((float *)samples->data)[at] = (float)drawn / (1 << 19) - 1;
    }
    count = labels->bytes / 8;
    for (uint64_t i = 0; i < count * parts; i++) {
        uint64_t drawn = tn__random_below(&random, 4), at = i - part * count;
        if (at < count) ((int64_t *)labels->data)[at] = (int64_t)drawn;
    }
    return TN_OK;
}

static tn_status mlp(net *n, int64_t batch) {
    tn_tensor_id x = net_input(n, TN_FLOAT32, NET_SHAPE(batch, 12));
    tn_tensor_id y = net_unary(n, "Relu", net_dense(n, x, 12, 64));
    y = net_unary(n, "Tanh", net_dense(n, y, 64, 32));
    return net_finish(n, x, net_dense(n, y, 32, 4));
}

static tn_tensor_id drop(net *n, tn_tensor_id x, double ratio) {
    tn_attr share = {.name = "ratio", .type = TN_ATTR_FLOAT, .count = 1, .floats = &ratio};
    return net_op(
        n, (tn_op_spec){
               .type = "Dropout", NET_INPUTS(x), .version = 7, .attrs = &share, .attr_count = 1});
}

static tn_status drops(net *n, int64_t batch) {
    tn_tensor_id x = net_input(n, TN_FLOAT32, NET_SHAPE(batch, 12));
    tn_tensor_id y = drop(n, net_unary(n, "Gelu", net_dense(n, x, 12, 64)), 0.3);
    y = drop(n, net_dense(n, y, 64, 12), 0.2);
    return net_finish(n, x, net_dense(n, net_binary(n, "Add", x, y), 12, 4));
}

static void make(kit_run *run, uint32_t which, int64_t batch) {
    transformer_size size = {
        .batch = batch, .time = 6, .width = 16, .heads = 4, .depth = 4, .words = 20};
    kit_begin(run, 3);
    tn_status status = which == TRANSFORMER ? transformer(run->n, &size)
                       : which == MLP       ? mlp(run->n, batch)
                       : which == CNN       ? residual_cnn(run->n, batch, 8, 4, 4)
                                            : drops(run->n, batch);
    if (status != TN_OK) fail_msg("%s: %s", names[which], run->n->error.message);
    run->train.optimizer = TN_OPTIMIZER_MOMENTUM;
    run->train.seed = 9;
    run->options.rate = 1e-3;
    run->options.steps = STEPS;
    run->options.fill = fill;
    run->session.poison = true;
    run->session.plain = PLAIN;
}

static void take(kit_run *run, trained *got) {
    const tn_training *step = tn_trainer_training(run->trainer);
    got->parameters = step->parameter_count;
    got->sums = tn_training_parts(step);
    assert_true(got->parameters <= PARAMETERS_MOST);
    for (uint32_t i = 0; i < step->parameter_count; i++) {
        tn_tensor_id id = step->parameters[i].parameter;
        uint64_t bytes = tn_graph_tensor(step->graph, id)->bytes;
        const tn_tensor_part *part = tn_training_part(step, id);
        float *mine = malloc(bytes);
        kit_must(run, tn_engine_get_static(tn_trainer_engine(run->trainer), id, mine, bytes,
                                           &run->error));
        got->whole[i] = part == NULL;
        got->cut += part != NULL;
        got->values[i] = mine;
        got->counts[i] = bytes / sizeof(float);
        if (part == NULL) continue;
        assert_int_equal(part->bytes, bytes * run->train.tensor_ranks);
        got->values[i] = calloc(1, part->bytes);
        got->counts[i] = part->bytes / sizeof(float);
        tn_tensor_part_put(part, run->train.tensor_ranks, run->train.tensor_rank, mine,
                           got->values[i]);
        free(mine);
    }
}

static tn_status train(kit_run *run, trained *got, tn_error *error) {
    tn_engine_usage usage;
    tn_status status = kit_open(run);
    for (uint32_t s = 0; s < STEPS && status == TN_OK; s++) {
        status = tn_trainer_step(run->trainer, &run->error);
        if (status != TN_OK) break;
        got->losses[s] = tn_trainer_at(run->trainer)->loss;
        got->correct[s] = tn_trainer_at(run->trainer)->correct;
    }
    *error = run->error;
    if (status != TN_OK) return status;
    tn_engine_measure(tn_trainer_engine(run->trainer), &usage);
    if (usage.measured_peak != usage.planned_peak)
        TN_FAIL(error, TN_E_INTERNAL, "peak %llu, planned %llu",
                (unsigned long long)usage.measured_peak, (unsigned long long)usage.planned_peak);
    take(run, got);
    return TN_OK;
}

/* Group 1: the ranks that have the same part of the model; group 2: those of one model. */
static tn_status divide(void *self, const tn_program *program, tn_program **divided,
                        tn_error *error) {
    const task *it = self;
    tn_program *joined;
    TN_TRY(tn_program_join(program, 2, it->rules, &joined, error));
    if (it->data == 1) {
        *divided = joined;
        return TN_OK;
    }
    tn_status status = tn_program_average(joined, 1, divided, error);
    tn_program_destroy(joined);
    return status;
}

static tn_status groups(const task *it, tn_world *world, tn_error *error) {
    uint32_t rank = tn_world_rank(world), members[RANKS_MOST];
    for (uint32_t d = 0; d < it->data; d++) members[d] = d * it->tensor + rank % it->tensor;
    TN_TRY(tn_world_group(world, 1, members, it->data, error));
    for (uint32_t t = 0; t < it->tensor; t++) members[t] = rank / it->tensor * it->tensor + t;
    return tn_world_group(world, 2, members, it->tensor, error);
}

static tn_status rank(void *self, tn_world *world, tn_error *error) {
    task *it = self;
    uint32_t mine = tn_world_rank(world), how = it->data;
    tn_divide by = {.program = divide, .self = it};
    kit_run run;
    TN_TRY(groups(it, world, error));
    make(&run, it->which, BATCH / it->data);
    run.train.bucket_bytes = it->data > 1 ? 2000 : 0;
    run.train.tensor_ranks = it->tensor;
    run.train.tensor_rank = mine % it->tensor;
    run.train.sequence_parallel = it->sequence;
    run.session.divide = &by;
    run.session.rules = it->rules;
    run.session.exchange = tn_world_exchange(world);
    run.options.exchange = tn_world_exchange(world);
    run.options.group = 1;
    run.options.tensor_group = 2;
    run.options.self = &how;
    tn_status status = train(&run, &it->got[mine], error);
    if (status == TN_OK) {
        tn_engine_usage usage;
        tn_engine_measure(tn_trainer_engine(run.trainer), &usage);
        it->peaks[mine] = usage.measured_peak;
        it->said[mine] = usage.talk_bytes;
    }
    kit_end(&run);
    return status;
}

#include "apart.h"

/* The whole out of the parts; what is whole everywhere is the same everywhere, bit by bit. */
static void put_together(task *it) {
    trained *to = &it->got[0];
    for (uint32_t i = 0; i < to->parameters; i++)
        for (uint32_t r = 1; r < it->data * it->tensor; r++) {
            const trained *from = &it->got[r];
            assert_int_equal(from->counts[i], to->counts[i]);
            if (r >= it->tensor || to->whole[i]) continue;
            for (uint64_t k = 0; k < to->counts[i]; k++) to->values[i][k] += from->values[i][k];
        }
    for (uint32_t r = 1; r < it->data * it->tensor; r++)
        for (uint32_t i = 0; i < to->parameters; i++)
            if (to->whole[i])
                assert_memory_equal(to->values[i], it->got[r].values[i],
                                    to->counts[i] * sizeof(float));
}

static void run_ranks(task *it) {
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    tn_error error = {0};
    options.driver = "threads";
    options.ranks = it->data * it->tensor;
    if (tn_world_run(&options, rank, it, &error) != TN_OK)
        fail_msg("%s, %u x %u ranks: %s: %s", names[it->which], it->data, it->tensor, error.where,
                 error.message);
}

static void free_ranks(task *it) {
    for (uint32_t r = 0; r < it->data * it->tensor; r++)
        for (uint32_t i = 0; i < it->got[r].parameters; i++) free(it->got[r].values[i]);
}

static uint64_t compare_with(uint32_t which, uint32_t data, uint32_t tensor, bool sequence) {
    task it = {.which = which, .data = data, .tensor = tensor, .sequence = sequence};
    uint32_t how = 1;
    trained alone = {0};
    tn_error error = {0};
    kit_run run;
    run_ranks(&it);
    make(&run, which, BATCH);
    run.options.self = &how;
    if (train(&run, &alone, &error) != TN_OK) fail_msg("%s: %s", names[which], error.message);
    kit_end(&run);
    put_together(&it);
    double far = apart(&alone, &it.got[0]);
    tn_part_sums sums = it.got[0].sums;
    printf("%-12s data %u, tensor %u%s: %.1e apart; %u of %u parameters cut, %.0f %% of bytes; %u "
           "sums of %llu bytes\n",
           names[which], data, tensor, sequence ? ", sequence" : "", far, it.got[0].cut,
           it.got[0].parameters, 100 * (double)sums.cut / (double)sums.parameters, sums.sums,
           (unsigned long long)sums.bytes);
    assert_true(far <= 1e-5);
    assert_true(it.got[0].cut > 0);
    for (uint32_t s = 0; s < STEPS; s++) assert_int_equal(alone.correct[s], it.got[0].correct[s]);
    for (uint32_t i = 0; i < alone.parameters; i++) free(alone.values[i]);
    assert_true((sums.between > 0) == sequence);
    free_ranks(&it);
    return it.peaks[0];
}

static void compare(uint32_t which, uint32_t data, uint32_t tensor) {
    (void)compare_with(which, data, tensor, false);
}

static void models_that_are_cut_train_as_whole_ones(void **state) {
    (void)state;
    for (uint32_t which = 0; which < NETWORKS; which++)
        for (uint32_t tensor = 2; tensor <= RANKS_MOST; tensor *= 2) compare(which, 1, tensor);
}

static void so_they_do_on_parts_of_a_batch(void **state) {
    (void)state;
    compare(TRANSFORMER, 2, 2);
    compare(MLP, 2, 2);
}

/* What lies between is cut as well: the same training in less memory, and nothing of it where
 * nothing lies there. */
static void what_lies_between_is_cut_as_well(void **state) {
    (void)state;
    for (uint32_t tensor = 2; tensor <= RANKS_MOST; tensor *= 2) {
        uint64_t whole = compare_with(TRANSFORMER, 1, tensor, false);
        uint64_t parts = compare_with(TRANSFORMER, 1, tensor, true);
        printf("peak %llu, with what lies between in parts %llu\n", (unsigned long long)whole,
               (unsigned long long)parts);
        assert_true(parts < whole);
    }
    (void)compare_with(TRANSFORMER, 2, 2, true);
    (void)compare_with(DROPS, 1, 2, true);
    (void)compare_with(DROPS, 1, 4, true);
}

/* --- rules about what ranks say --- */

/* Trains a transformer on two ranks with rules. */
static void run_ruled(task *it, bool sequence, const tn_rules *rules) {
    *it =
        (task){.which = TRANSFORMER, .data = 1, .tensor = 2, .sequence = sequence, .rules = rules};
    run_ranks(it);
}

static void assert_same_bits(const task *a, const task *b) {
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t i = 0; i < a->got[r].parameters; i++)
            assert_memory_equal(a->got[r].values[i], b->got[r].values[i],
                                a->got[r].counts[i] * sizeof(float));
}

/* Results that ranks combine are made again, and said again, only if a rule names them; then in
 * less memory. Gathered ones are kept if a rule says so: less is said, in more memory. */
static void rules_say_what_ranks_say_again(void **state) {
    static const tn_rule list[] = {{"type:RankS*", TN_RULE_RECOMPUTE, 0},
                                   {"type:RankGather", TN_RULE_KEEP, 0},
                                   {"type:RankGather", TN_RULE_RECOMPUTE, 0}};
    (void)state;
    for (int sequence = 0; sequence < 2; sequence++) {
        tn_rules rules = TN_RULES_INIT;
        task plain, segments, sums, kept, gathered;
        run_ruled(&plain, sequence, NULL);
        rules.segments = 3;
        run_ruled(&segments, sequence, &rules);
        rules.list = list;
        rules.count = 1;
        run_ruled(&sums, sequence, &rules);
        assert_same_bits(&plain, &segments);
        assert_same_bits(&plain, &sums);
        assert_true(segments.peaks[0] < plain.peaks[0]);
        if (!sequence) assert_int_equal(segments.said[0], plain.said[0]);
        for (uint32_t r = 0; r < 2; r++) {
            assert_true(sums.said[r] > segments.said[r]);
            assert_true(sums.peaks[r] < segments.peaks[r]);
        }
        printf("peak %llu, in segments %llu, with sums %llu; said %llu, %llu, %llu\n",
               (unsigned long long)plain.peaks[0], (unsigned long long)segments.peaks[0],
               (unsigned long long)sums.peaks[0], (unsigned long long)plain.said[0],
               (unsigned long long)segments.said[0], (unsigned long long)sums.said[0]);
        free_ranks(&segments);
        free_ranks(&sums);
        rules.segments = 0;
        rules.list = &list[1];
        if (sequence) {
            run_ruled(&kept, sequence, &rules);
            assert_same_bits(&plain, &kept);
            assert_true(kept.said[0] < plain.said[0] && kept.peaks[0] > plain.peaks[0]);
            rules.list = &list[2]; /* as without a rule */
            run_ruled(&gathered, sequence, &rules);
            assert_same_bits(&plain, &gathered);
            assert_int_equal(gathered.said[0], plain.said[0]);
            assert_int_equal(gathered.peaks[0], plain.peaks[0]);
            free_ranks(&kept);
            free_ranks(&gathered);
        }
        free_ranks(&plain);
    }
}

/* A rank that makes a sum again and does not say it again is found. */
static void a_sum_without_its_message_is_found(void **state) {
    static const tn_rule again = {"type:RankSum", TN_RULE_RECOMPUTE, 0};
    tn_rules rules = TN_RULES_INIT;
    tn_recompute_options options = TN_RECOMPUTE_OPTIONS_INIT;
    tn_recompute_report report;
    tn_graph *model;
    tn_training step;
    tn_program *plain, *ruled, *joined, *wrong;
    uint32_t removed = 0, refused = 0;
    kit_run run;
    (void)state;
    make(&run, TRANSFORMER, BATCH);
    run.train.tensor_ranks = 2;
    kit_must(&run, tn_train_model(run.n->graph, &run.train, &model, &run.error));
    kit_must(&run, tn_train(model, &run.train, &step, &run.error));
    kit_must(&run, tn_program_create(step.graph, NULL, &plain, &run.error));
    rules.list = &again;
    rules.count = 1;
    rules.segments = 3;
    options.rules = &rules;
    kit_must(&run, tn_program_recompute(plain, &options, &ruled, &report, &run.error));
    kit_must(&run, tn_program_join(ruled, 2, &rules, &joined, &run.error));
    kit_must(&run, tn_program_verify(joined, &run.error));
    const uint32_t count = tn_program_count(joined);
    tn_instruction *list = malloc(count * sizeof *list);
    bool *said = calloc(tn_graph_tensor_count(step.graph), sizeof *said);
    for (uint32_t s = 0; s < count; s++) {
        const tn_instruction *it = &tn_program_instructions(joined)[s];
        if (it->opcode != TN_REDUCE) continue;
        if (!said[it->tensor]) { /* the first time */
            said[it->tensor] = true;
            continue;
        }
        removed++;
        memcpy(list, tn_program_instructions(joined), s * sizeof *list);
        memcpy(list + s, tn_program_instructions(joined) + s + 1, (count - s - 1) * sizeof *list);
        if (tn_program_from(step.graph, list, count - 1, NULL, 0, &wrong, &run.error) == TN_OK) {
            tn_program_destroy(wrong);
            continue;
        }
        assert_non_null(strstr(run.error.message, "REDUCE it again"));
        refused++;
    }
    assert_true(removed > 0);
    assert_int_equal(refused, removed);
    free(said);
    free(list);
    tn_program_destroy(joined);
    tn_program_destroy(ruled);
    tn_program_destroy(plain);
    tn_training_release(&step);
    tn_graph_destroy(model);
    kit_end(&run);
}

/* --- between steps --- */

/* There are samples for one step. */
static tn_status fill_once(void *self, bool held_out, uint64_t number, tn_array *samples,
                           tn_array *labels, tn_error *error) {
    if (number == 0) return fill(self, held_out, number, samples, labels, error);
    TN_FAIL(error, TN_E_IO, "no more samples");
}

/* Whether a cut parameter can be read, whole. */
static bool reads(kit_run *run) {
    const tn_training *step = tn_trainer_training(run->trainer);
    for (uint32_t i = 0; i < step->parameter_count; i++) {
        tn_tensor_id id = step->parameters[i].parameter;
        const tn_tensor_part *part = tn_training_part(step, id);
        if (part == NULL) continue;
        void *bytes = malloc(part->bytes);
        bool fine = tn_trainer_read(run->trainer, tn_graph_tensor(step->graph, id)->name, bytes,
                                    part->bytes);
        free(bytes);
        return fine;
    }
    return true; /* none is cut, which none of these expects */
}

static tn_status gathered(kit_run *run, bool leads, tn_error *error) {
    TN_TRY(kit_open(run));
    bool first = reads(run);
    TN_TRY(tn_trainer_gather(run->trainer, error));
    bool there = reads(run);
    TN_TRY(tn_trainer_step(run->trainer, error));
    bool behind = reads(run);
    TN_TRY(tn_trainer_gather(run->trainer, error));
    bool again = reads(run), fails = tn_trainer_step(run->trainer, error) == TN_E_IO;
    *error = (tn_error){0};
    if (!first && there == leads && !behind && again == leads && fails && !reads(run)) return TN_OK;
    TN_FAIL(error, TN_E_INTERNAL, "read: %d, gathered %d, a step %d, gathered %d, a step %d", first,
            there, behind, again, reads(run));
}

static tn_status gathers(void *self, tn_world *world, tn_error *error) {
    task *it = self;
    tn_divide by = {.program = divide, .self = it};
    kit_run run;
    TN_TRY(groups(it, world, error));
    make(&run, MLP, BATCH);
    run.train.tensor_ranks = 2;
    run.train.tensor_rank = tn_world_rank(world);
    run.session.divide = &by;
    run.session.exchange = run.options.exchange = tn_world_exchange(world);
    run.options.group = 1;
    run.options.tensor_group = 2;
    run.options.fill = fill_once;
    run.options.self = &it->data;
    tn_status status = gathered(&run, tn_world_rank(world) == 0, error);
    kit_end(&run);
    return status;
}

static void what_was_gathered_is_of_now(void **state) {
    task it = {.which = MLP, .data = 1, .tensor = 2};
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    tn_error error = {0};
    (void)state;
    options.driver = "threads";
    options.ranks = 2;
    if (tn_world_run(&options, gathers, &it, &error) != TN_OK)
        fail_msg("%s: %s", error.where, error.message);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models_that_are_cut_train_as_whole_ones),
                                       cmocka_unit_test(so_they_do_on_parts_of_a_batch),
                                       cmocka_unit_test(what_lies_between_is_cut_as_well),
                                       cmocka_unit_test(rules_say_what_ranks_say_again),
                                       cmocka_unit_test(a_sum_without_its_message_is_found),
                                       cmocka_unit_test(what_was_gathered_is_of_now)};
    cmocka_set_test_filter(FILTER);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
