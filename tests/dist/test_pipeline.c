/* test_pipeline.c - models whose layers are divided among 2 and 4 ranks, and beside that cut within
 * layers and trained on parts of each batch, against one process that goes through the same
 * micro-batches; and how long their ranks stand still, against what is published. */
#include "trainer/kit.h"

#include "../../examples/training/networks.h"

#include <math.h>

#include <tenure/dist.h>
#include <tenure/timeline.h>

#define STEPS 20
#define RANKS_MOST 8u
#define BATCH 4 /* of a micro-batch */

enum { TRANSFORMER, MLP, CNN, UNET, DROPS, TIED, NETWORKS };
static const char *const names[] = {"transformer", "mlp", "cnn", "unet", "dropout", "tied"};

typedef struct way { /* how it is divided */
    uint32_t which, data, stages, pieces, rounds;
    tn_pipeline schedule;
    bool fast;       /* by whatever kernels there are */
    uint32_t tensor; /* ranks that have parts of each layer; */
    bool sequence;   /* and of what lies between */
    bool whole;      /* each sends all of what they have alike */
} way;

static tn_grid grid_of(const way *how) {
    return (tn_grid){how->tensor, how->data, how->stages, how->pieces};
}

typedef struct trained {
    double losses[STEPS];
    int64_t correct[STEPS];
    uint32_t parameters;
    uint64_t *counts; /* [parameters] */
    float **values;   /* [parameters] */
} trained;

typedef struct task {
    way how;
    tn_shard shard;                                /* what those with other samples divide; */
    bool early;                                    /* updates stand behind their gradients */
    trained got;                                   /* of rank 0 */
    uint64_t peak[RANKS_MOST], direct[RANKS_MOST]; /* planned; bytes sent to other stages */
} task;

/* A micro-batch of all that train the same is drawn at once. */
static tn_status fill(void *self, bool held_out, uint64_t number, tn_array *samples,
                      tn_array *labels, tn_error *error) {
    uint64_t parts = *(const uint32_t *)self, part = number % parts;
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

/* --- networks --- */

static tn_status mlp(net *n, int64_t batch) {
    tn_tensor_id x = net_input(n, TN_FLOAT32, NET_SHAPE(batch, 12)), y = x;
    int64_t from = 12;
    for (int64_t wide = 40; wide > 20; from = wide, wide -= 4)
        y = net_unary(n, "Tanh", net_dense(n, y, from, wide));
    return net_finish(n, x, net_dense(n, y, from, 4));
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

/* A table that is looked up in, and whose other side scores: the first part has it, and the last.
 */
static tn_status tied(net *n, int64_t batch) {
    tn_tensor_id x = net_input(n, TN_INT64, NET_SHAPE(batch, 3));
    tn_tensor_id table = net_param(n, "table", 0, 0.3f, NET_SHAPE(20, 12));
    tn_tensor_id y = net_op(n, (tn_op_spec){.type = "Gather", NET_INPUTS(table, x)});
    for (int i = 0; i < 4; i++) y = net_unary(n, "Tanh", net_dense(n, y, 12, 12));
    return net_finish(n, x, net_binary(n, "MatMul", y, net_transpose(n, table, NET_SHAPE(1, 0))));
}

static tn_status network(net *n, uint32_t which, int64_t batch) {
    transformer_size size = {
        .batch = batch, .time = 6, .width = 16, .heads = 4, .depth = 4, .words = 20};
    switch (which) {
    case TRANSFORMER:
        return transformer(n, &size);
    case MLP:
        return mlp(n, batch);
    case CNN:
        return residual_cnn(n, batch, 8, 4, 4);
    case UNET:
        return unet(n, batch, 8, 4, 4);
    case DROPS:
        return drops(n, batch);
    default:
        return tied(n, batch);
    }
}

static void make(kit_run *run, const way *how, int64_t batch) {
    kit_begin(run, 3);
    if (network(run->n, how->which, batch) != TN_OK)
        fail_msg("%s: %s", names[how->which], run->n->error.message);
    run->train.optimizer = TN_OPTIMIZER_MOMENTUM;
    run->train.seed = 9;
    run->train.micro_batches = how->rounds;
    run->options.rate = 1e-3;
    run->options.steps = STEPS;
    run->options.fill = fill;
    run->session.poison = true;
    run->session.plain = !how->fast;
    run->session.planner = "draft";
}

/* --- training --- */

static tn_status take(kit_run *run, trained *got, tn_error *error) {
    const tn_training *step = tn_trainer_training(run->trainer);
    TN_TRY(tn_trainer_gather(run->trainer, error));
    got->parameters = step->parameter_count;
    got->values = calloc(got->parameters, sizeof *got->values);
    got->counts = calloc(got->parameters, sizeof *got->counts);
    for (uint32_t i = 0; i < got->parameters; i++) {
        tn_tensor_id id = step->parameters[i].parameter;
        const tn_tensor *tensor = tn_graph_tensor(step->graph, id);
        const tn_tensor_part *part = tn_training_part(step, id);
        uint64_t bytes = part != NULL ? part->bytes : tensor->bytes;
        got->counts[i] = bytes / sizeof(float);
        got->values[i] = calloc(1, bytes);
        if (!tn_trainer_read(run->trainer, tensor->name, got->values[i], bytes))
            TN_FAIL(error, TN_E_INTERNAL, "'%s' cannot be read", tensor->name);
    }
    return TN_OK;
}

/* got: NULL on ranks that have not all of it. */
static tn_status train(kit_run *run, trained *got, uint64_t *peak, tn_error *error) {
    tn_engine_usage usage;
    for (uint32_t s = 0; s < STEPS; s++) {
        TN_TRY(tn_trainer_step(run->trainer, error));
        if (got == NULL) continue;
        got->losses[s] = tn_trainer_at(run->trainer)->loss;
        got->correct[s] = tn_trainer_at(run->trainer)->correct;
    }
    tn_engine_measure(tn_trainer_engine(run->trainer), &usage);
    *peak = usage.planned_peak;
    if (usage.measured_peak != usage.planned_peak)
        TN_FAIL(error, TN_E_INTERNAL, "peak %llu, planned %llu",
                (unsigned long long)usage.measured_peak, (unsigned long long)usage.planned_peak);
    if (got == NULL) return tn_trainer_gather(run->trainer, error);
    return take(run, got, error);
}

typedef struct staged { /* one rank */
    const way *how;
    tn_shard shard;
    bool early;
    tn_grid grid;
    uint32_t rank;
    kit_run run;
    tn_graph *model;
    tn_training step;
    tn_session *session;
} staged;

/* The ranks with other samples once more: parameters come together beside gradients. */
static uint32_t gathers_of(const staged *it) {
    return tn_grid_group(&it->grid, TN_GRID_AXES, it->rank) +
           tn_grid_group(&it->grid, TN_GRID_DATA, it->rank);
}

static tn_status join_gathers(const staged *it, tn_world *world, tn_error *error) {
    tn_place at = tn_grid_place(&it->grid, it->rank);
    uint32_t members[RANKS_MOST];
    for (at.data = 0; at.data < it->grid.data; at.data++)
        members[at.data] = tn_grid_rank(&it->grid, at);
    return tn_world_group(world, gathers_of(it), members, it->grid.data, error);
}

static tn_status divide(void *self, const tn_program *program, tn_program **divided,
                        tn_error *error) {
    const staged *it = self;
    tn_place at = tn_grid_place(&it->grid, it->rank);
    tn_program_pipeline_options options = TN_PROGRAM_PIPELINE_OPTIONS_INIT;
    uint32_t ranks[RANKS_MOST];
    tn_program *stage;
    options.stages = it->step.stages;
    options.stage_count = it->grid.pipeline;
    options.stage = at.pipeline;
    options.schedule = it->how->schedule;
    options.ranks = ranks;
    options.tensor_ranks = it->grid.tensor;
    options.tensor_rank = at.tensor;
    options.tensor_group = tn_grid_group(&it->grid, TN_GRID_TENSOR, it->rank);
    options.whole_sends = it->how->whole;
    for (at.pipeline = 0; at.pipeline < options.stage_count; at.pipeline++)
        ranks[at.pipeline] = tn_grid_rank(&it->grid, at);
    TN_TRY(tn_program_pipeline(program, &options, &stage, error));
    *divided = stage;
    if (it->grid.data == 1) return TN_OK;
    tn_program_shard_options shard = TN_PROGRAM_SHARD_OPTIONS_INIT;
    shard.shard = it->shard;
    shard.group = tn_grid_group(&it->grid, TN_GRID_DATA, it->rank);
    shard.gather_group = gathers_of(it);
    tn_status status = tn_program_shard(stage, &shard, divided, error);
    tn_program_destroy(stage);
    return status;
}

static tn_status step_of(staged *it, tn_error *error) {
    kit_run *run = &it->run;
    run->train.pipeline_parts = it->how->stages * it->how->pieces;
    run->train.bucket_bytes = it->how->data > 1 ? 2000 : 0;
    run->train.tensor_ranks = it->grid.tensor;
    run->train.tensor_rank = tn_grid_place(&it->grid, it->rank).tensor;
    run->train.sequence_parallel = it->how->sequence;
    run->train.fuse_update = it->early;
    run->train.shard = it->shard;
    run->train.shard_count = it->grid.data;
    run->train.shard_index = tn_grid_place(&it->grid, it->rank).data;
    TN_TRY(tn_train_model(run->n->graph, &run->train, &it->model, error));
    return tn_train(it->model, &run->train, &it->step, error);
}

static tn_status open_rank(staged *it, tn_world *world, tn_divide *by, tn_error *error) {
    kit_run *run = &it->run;
    TN_TRY(step_of(it, error));
    run->session.divide = by;
    run->session.exchange = run->options.exchange = tn_world_exchange(world);
    run->options.group = tn_grid_group(&it->grid, TN_GRID_DATA, it->rank);
    run->options.pipeline_group = tn_grid_group(&it->grid, TN_GRID_PIPELINE, it->rank);
    run->options.tensor_group = tn_grid_group(&it->grid, TN_GRID_TENSOR, it->rank);
    run->options.train = &run->train;
    run->options.contents = (tn_contents_of){net_read, run->n, it->model};
    TN_TRY(tn_session_open(it->step.graph, &run->session, &it->session, error));
    return tn_trainer_create(it->model, &it->step, tn_session_engine(it->session), &run->options,
                             &run->trainer, error);
}

static void close_rank(staged *it) {
    kit_end(&it->run);
    tn_session_close(it->session);
    tn_training_release(&it->step);
    tn_graph_destroy(it->model);
}

static tn_status rank(void *self, tn_world *world, tn_error *error) {
    task *it = self;
    staged *mine = calloc(1, sizeof *mine);
    tn_divide by = {divide, mine, .arranges = true};
    uint32_t parts = it->how.data, number = tn_world_rank(world);
    mine->how = &it->how;
    mine->shard = it->shard;
    mine->early = it->early;
    mine->rank = number;
    mine->grid = grid_of(&it->how);
    make(&mine->run, &it->how, BATCH / it->how.data);
    mine->run.options.self = &parts;
    tn_status status = tn_world_grid(world, &mine->grid, error);
    if (status == TN_OK) status = join_gathers(mine, world, error);
    if (status == TN_OK) status = open_rank(mine, world, &by, error);
    if (status == TN_OK)
        status = train(&mine->run, number == 0 ? &it->got : NULL, &it->peak[number], error);
    it->direct[number] = tn_world_measure(world).direct_bytes;
    close_rank(mine);
    free(mine);
    return status;
}

/* --- beside one process --- */

#include "apart.h"

static void forget(trained *got) {
    for (uint32_t i = 0; i < got->parameters; i++) free(got->values[i]);
    free(got->values);
    free(got->counts);
}

static void alone(const way *how, trained *got) {
    tn_error error = {0};
    uint64_t peak;
    uint32_t one = 1;
    kit_run run;
    make(&run, how, BATCH);
    run.options.self = &one;
    kit_must(&run, kit_open(&run));
    if (train(&run, got, &peak, &error) != TN_OK)
        fail_msg("%s: %s", names[how->which], error.message);
    kit_end(&run);
}

static void by_ranks_that_share(const way *how, tn_shard shard, bool early, task *it) {
    *it = (task){.how = *how, .shard = shard, .early = early};
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    tn_error error = {0};
    options.driver = "threads";
    const tn_grid grid = grid_of(how);
    options.ranks = tn_grid_ranks(&grid);
    options.patience_s = 60;
    if (tn_world_run(&options, rank, it, &error) != TN_OK)
        fail_msg("%s, %u x %u x %u: %s: %s", names[how->which], grid.data, grid.tensor,
                 grid.pipeline, error.where, error.message);
}

static void by_ranks(const way *how, task *it) {
    by_ranks_that_share(how, TN_SHARD_NONE, false, it);
}

/* Bit for bit where every gradient is added up in the same order: each parameter is read once, on
 * one part of a batch, whole, by kernels that keep to it. */
static uint64_t compare(const way *how) {
    const tn_grid grid = grid_of(how);
    task it;
    trained whole = {0};
    by_ranks(how, &it);
    alone(how, &whole);
    double far = apart(&whole, &it.got);
    printf("%-12s data %u, tensor %u%s, %u stages of %u, %u micro-batches, %s%s: %.1e apart\n",
           names[how->which], how->data, grid.tensor, how->sequence ? " with sequences" : "",
           how->stages, how->pieces, how->rounds, tn_pipeline_name(how->schedule),
           how->fast ? ", fast" : "", far);
    assert_true(far <= 1e-5);
    bool same = how->data == 1 && grid.tensor == 1 && how->which != TIED && !how->fast;
    if (same) assert_true(far == 0);
    for (uint32_t s = 0; s < STEPS; s++) assert_int_equal(whole.correct[s], it.got.correct[s]);
    forget(&whole);
    forget(&it.got);
    return it.peak[0];
}

static void stages_train_as_one_process(void **state) {
    (void)state;
    for (uint32_t which = 0; which < NETWORKS; which++) {
        compare(&(way){which, 1, 2, 1, 4, TN_PIPELINE_ONE_BACK, which == CNN, 1, false, false});
        if (which != UNET && which != MLP)
            compare(&(way){which, 1, 4, 1, 3, TN_PIPELINE_ALL_AHEAD, false, 1, false, false});
    }
    compare(&(way){TRANSFORMER, 1, 4, 1, 8, TN_PIPELINE_ONE_BACK, true, 1, false, false});
    compare(&(way){MLP, 1, 2, 1, 1, TN_PIPELINE_ONE_BACK, false, 1, false, false});
}

/* The first of two stages keeps what two micro-batches need, however many there are: but for their
 * samples' places. */
static void memory_does_not_grow_where_passes_alternate(void **state) {
    (void)state;
    uint64_t some = compare(&(way){MLP, 1, 2, 1, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    uint64_t many = compare(&(way){MLP, 1, 2, 1, 12, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    uint64_t ahead =
        compare(&(way){MLP, 1, 2, 1, 12, TN_PIPELINE_ALL_AHEAD, false, 1, false, false});
    printf("%llu bytes for 4, %llu for 12, %llu with all ahead\n", (unsigned long long)some,
           (unsigned long long)many, (unsigned long long)ahead);
    assert_true(many <= some + some / 10);
    assert_true(ahead > many + many / 2);
}

static void so_they_do_with_several_pieces_each(void **state) {
    (void)state;
    compare(&(way){TRANSFORMER, 1, 2, 2, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){MLP, 1, 2, 3, 6, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){UNET, 1, 4, 2, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){TIED, 1, 3, 2, 3, TN_PIPELINE_ONE_BACK, false, 1, false, false});
}

static void so_they_do_on_parts_of_a_batch(void **state) {
    (void)state;
    compare(&(way){TRANSFORMER, 2, 2, 1, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){MLP, 2, 2, 2, 2, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    compare(&(way){TIED, 2, 2, 1, 2, TN_PIPELINE_ALL_AHEAD, false, 1, false, false});
}

/* Every rank has some of each layer of some of the layers, and a part of each batch. */
static void so_they_do_with_parts_of_layers(void **state) {
    const tn_pipeline back = TN_PIPELINE_ONE_BACK, ahead = TN_PIPELINE_ALL_AHEAD;
    (void)state;
    compare(&(way){TRANSFORMER, 2, 2, 1, 4, back, false, 2, false, false});
    compare(&(way){TRANSFORMER, 1, 4, 1, 3, ahead, false, 2, false, false});
    compare(&(way){TRANSFORMER, 1, 2, 2, 4, back, true, 4, false, false});
    compare(&(way){MLP, 1, 2, 3, 4, back, false, 2, false, false});
    compare(&(way){MLP, 2, 2, 1, 1, back, false, 2, false, false});
    compare(&(way){CNN, 1, 2, 1, 2, back, false, 2, false, false});
    compare(&(way){DROPS, 1, 2, 1, 3, back, false, 2, false, false});
    compare(&(way){TIED, 1, 2, 1, 4, back, false, 2, false, false});
    compare(&(way){TIED, 2, 2, 2, 2, ahead, false, 2, false, false});
}

/* What lies between is kept in parts, and put together again where it is needed again. */
static void and_of_what_lies_between(void **state) {
    const tn_pipeline back = TN_PIPELINE_ONE_BACK;
    (void)state;
    uint64_t whole = compare(&(way){TRANSFORMER, 1, 2, 1, 4, back, false, 2, false, false});
    uint64_t parts = compare(&(way){TRANSFORMER, 1, 2, 1, 4, back, false, 2, true, false});
    printf("peak %llu, with what lies between in parts %llu\n", (unsigned long long)whole,
           (unsigned long long)parts);
    assert_true(parts < whole);
    compare(&(way){TRANSFORMER, 2, 2, 2, 2, back, false, 2, true, false});
    compare(&(way){DROPS, 1, 2, 1, 2, back, false, 4, true, false});
}

/* What ranks of a stage have alike goes from stage to stage once, in parts: the same bits in as
 * much memory, 1/t of the bytes between stages. */
static void what_they_have_alike_goes_in_parts(void **state) {
    (void)state;
    for (uint32_t tensor = 2; tensor <= 4; tensor *= 2) {
        way how = {TRANSFORMER, 1, 2, 1, 3, TN_PIPELINE_ONE_BACK, false, tensor, false, false};
        task parts, whole;
        by_ranks(&how, &parts);
        how.whole = true;
        by_ranks(&how, &whole);
        assert_true(apart(&parts.got, &whole.got) == 0);
        for (uint32_t r = 0; r < 2 * tensor; r++) {
            printf("rank %u of %u: %llu bytes to the other stage, %llu where each sends all\n", r,
                   2 * tensor, (unsigned long long)parts.direct[r],
                   (unsigned long long)whole.direct[r]);
            assert_true(whole.direct[r] > 0);
            assert_int_equal(parts.direct[r] * tensor, whole.direct[r]);
            assert_int_equal(parts.peak[r], whole.peak[r]);
        }
        forget(&parts.got);
        forget(&whole.got);
    }
}

/* Ranks that have the same of the model divide what they keep of it: not one bit is another. */
static void dividing_what_stages_keep_changes_no_bit(void **state) {
    const tn_pipeline back = TN_PIPELINE_ONE_BACK, ahead = TN_PIPELINE_ALL_AHEAD;
    const way all[] = {{TRANSFORMER, 2, 2, 1, 4, back, false, 1, false, false},
                       {TRANSFORMER, 2, 2, 1, 2, back, false, 2, true, false},
                       {CNN, 2, 2, 1, 3, ahead, false, 1, false, false},
                       {MLP, 4, 2, 1, 2, back, false, 1, false, false},
                       {TIED, 2, 2, 2, 2, ahead, false, 2, false, false}};
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        task plain, divided;
        const way how = all[i];
        const bool early = i % 2 == 0;
        by_ranks_that_share(&how, TN_SHARD_NONE, early, &plain);
        for (tn_shard shard = TN_SHARD_OPTIMIZER; shard < TN_SHARD_COUNT; shard++) {
            by_ranks_that_share(&how, shard, early, &divided);
            printf("%-12s data %u, tensor %u, %u stages of %u, %s: peak %llu, plain %llu\n",
                   names[how.which], how.data, how.tensor, how.stages, how.pieces,
                   tn_shard_name(shard), (unsigned long long)divided.peak[0],
                   (unsigned long long)plain.peak[0]);
            assert_true(apart(&plain.got, &divided.got) == 0);
            forget(&divided.got);
        }
        forget(&plain.got);
    }
}

/* --- how long they stand still --- */

static void begin_alone(staged *it, const way *how, uint32_t stage) {
    *it = (staged){.how = how, .rank = stage, .grid = grid_of(how)};
    it->grid.data = 1;
    make(&it->run, how, BATCH);
}

/* One operator of each pass takes all of its time, a backward one twice as long; what is said to
 * others takes none. */
static void put_passes(tn_timeline *line, const staged *it, const tn_program *program) {
    const tn_stages *stages = it->step.stages;
    const tn_instruction *list = tn_program_instructions(program);
    uint32_t count = tn_program_count(program);
    bool *begun = calloc((size_t)stages->parts * stages->rounds * 2, sizeof *begun);
    tn_occupancy *occupancy;
    tn_trace *trace;
    double now = 0;
    assert_int_equal(tn_occupancy_create(program, NULL, &occupancy, NULL), TN_OK);
    assert_int_equal(tn_trace_create(NULL, count, &trace, NULL), TN_OK);
    for (uint32_t s = 0; s < count; s++) {
        tn_event event = {.opcode = list[s].opcode,
                          .step = s,
                          .stream = list[s].stream,
                          .op = list[s].op,
                          .tensor = list[s].tensor,
                          .body = TN_NONE,
                          .start_s = now};
        if (list[s].opcode == TN_APPLY) {
            const tn_op *op = tn_graph_op(it->step.graph, list[s].op);
            const tn_home *home = &stages->homes[op->outputs[0]];
            bool back = home->way == TN_WAY_BACKWARD;
            size_t pass = ((size_t)home->part * stages->rounds + home->round) * 2 + back;
            if (home->way != TN_WAY_UPDATE && home->of == TN_NONE && !begun[pass]) {
                begun[pass] = true;
                event.duration_s = 1 + back;
            }
        }
        now += event.duration_s;
        tn_trace_add(trace, &event);
    }
    assert_int_equal(
        tn_timeline_add(line, it->rank, TN_TIMELINE_PREDICTED, occupancy, trace, 0, 0, NULL),
        TN_OK);
    tn_trace_destroy(trace);
    tn_occupancy_destroy(occupancy);
    free(begun);
}

/* Of P stages with V pieces each and M micro-batches, a bubble of (P - 1) / V passes forward and as
 * many backward (Narayanan et al. 2021, section 2.2), by either order of passes. */
static void bubble(const way *how) {
    tn_program *all, *stage;
    tn_timeline *line;
    staged one;
    begin_alone(&one, how, 0);
    kit_must(&one.run, step_of(&one, &one.run.error));
    kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
    kit_must(&one.run, tn_timeline_create(NULL, "m", how->stages, &line, &one.run.error));
    for (one.rank = 0; one.rank < how->stages; one.rank++) {
        kit_must(&one.run, divide(&one, all, &stage, &one.run.error));
        put_passes(line, &one, stage);
        tn_program_destroy(stage);
    }
    kit_must(&one.run, tn_timeline_meet(line, &one.run.error));
    for (uint32_t r = 0; r < how->stages; r++) {
        tn_timeline_sums sums = tn_timeline_measure(line, r, TN_TIMELINE_PREDICTED);
        printf("%u stages of %u, %u micro-batches, %s: rank %u: %g, %g still\n", how->stages,
               how->pieces, how->rounds, tn_pipeline_name(how->schedule), r, sums.compute_s,
               sums.idle_s);
        assert_true(sums.compute_s == 3.0 * how->rounds * how->pieces);
        assert_true(sums.idle_s == 3.0 * (how->stages - 1));
    }
    tn_timeline_destroy(line);
    tn_program_destroy(all);
    close_rank(&one);
}

static void they_stand_still_as_long_as_published(void **state) {
    (void)state;
    for (uint32_t stages = 2; stages <= 4; stages++) {
        bubble(&(way){MLP, 1, stages, 1, 8, TN_PIPELINE_ONE_BACK, false, 1, false, false});
        bubble(&(way){MLP, 1, stages, 1, 5, TN_PIPELINE_ALL_AHEAD, false, 1, false, false});
    }
    bubble(&(way){TRANSFORMER, 1, 2, 2, 8, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    bubble(&(way){TRANSFORMER, 1, 4, 2, 8, TN_PIPELINE_ONE_BACK, false, 1, false, false});
    bubble(&(way){MLP, 1, 2, 3, 6, TN_PIPELINE_ONE_BACK, false, 1, false, false});
}

/* --- what cannot be --- */

/* The list without its first message, and who waits for that on its own rank. */
static uint32_t without_one(const tn_instruction *list, uint32_t count, tn_instruction *to) {
    uint32_t made = 0, gone = 0;
    for (uint32_t s = 0; s < count; s++) {
        if (list[s].opcode == TN_SEND && gone == 0)
            gone = list[s].signal;
        else if (list[s].opcode != TN_WAIT || gone == 0 || list[s].wait != gone)
            to[made++] = list[s];
    }
    assert_true(gone != 0 && made < count);
    return made;
}

static void a_message_that_is_not_sent_is_told_before_anything_runs(void **state) {
    const way how = {MLP, 1, 2, 1, 4, TN_PIPELINE_ONE_BACK, false, 1, false, false};
    tn_error error = {0};
    tn_program *stages[2], *all, *less;
    staged one;
    (void)state;
    begin_alone(&one, &how, 0);
    kit_must(&one.run, step_of(&one, &one.run.error));
    kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
    for (one.rank = 0; one.rank < 2; one.rank++)
        kit_must(&one.run, divide(&one, all, &stages[one.rank], &one.run.error));
    kit_must(&one.run, tn_programs_verify((const tn_program *const *)stages, 2, &error));
    uint32_t count = tn_program_count(stages[0]);
    tn_instruction *list = malloc(count * sizeof *list);
    count = without_one(tn_program_instructions(stages[0]), count, list);
    kit_must(&one.run,
             tn_program_from(one.step.graph, list, count, NULL, 0, &less, &one.run.error));
    const tn_program *const odd[] = {less, stages[1]};
    assert_int_equal(tn_programs_verify(odd, 2, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "rank 0 has no SEND to rank 1"));
    assert_non_null(strstr(error.where, "rank 1"));
    free(list);
    tn_program_destroy(less);
    for (uint32_t s = 0; s < 2; s++) tn_program_destroy(stages[s]);
    tn_program_destroy(all);
    close_rank(&one);
}

/* The list without the first of those that nobody waits for by a signal. */
static uint32_t without_a(tn_opcode opcode, const tn_instruction *list, uint32_t count,
                          tn_instruction *to) {
    uint32_t made = 0;
    bool gone = false;
    for (uint32_t s = 0; s < count; s++) {
        bool goes = !gone && list[s].opcode == opcode && list[s].signal == 0;
        if (!goes) to[made++] = list[s];
        gone = gone || goes;
    }
    assert_true(gone);
    return made;
}

/* Programs that ranks have made by themselves: all of 2 x 2 x 2. */
static void programs_of_all_ranks_hold_together(void **state) {
    const way how = {TRANSFORMER, 2, 2, 1, 4, TN_PIPELINE_ONE_BACK, false, 2, false, false};
    tn_error error = {0};
    tn_program *of[RANKS_MOST], *all, *less;
    staged *ranks = calloc(RANKS_MOST, sizeof *ranks);
    (void)state;
    for (uint32_t r = 0; r < RANKS_MOST; r++) {
        begin_alone(&ranks[r], &how, r);
        ranks[r].grid.data = how.data;
        kit_run *run = &ranks[r].run;
        kit_must(run, step_of(&ranks[r], &run->error));
        kit_must(run, tn_program_create(ranks[r].step.graph, NULL, &all, &run->error));
        kit_must(run, divide(&ranks[r], all, &of[r], &run->error));
        tn_program_destroy(all);
    }
    if (tn_programs_verify((const tn_program *const *)of, RANKS_MOST, &error) != TN_OK)
        fail_msg("%s: %s", error.where, error.message);
    for (uint32_t r = 0; r < RANKS_MOST; r++) {
        uint32_t count = tn_program_count(of[r]);
        tn_instruction *list = malloc(count * sizeof *list);
        tn_program *was = of[r];
        uint32_t some = without_a(TN_GATHER, tn_program_instructions(was), count, list);
        assert_int_equal(tn_program_from(ranks[r].step.graph, list, some, NULL, 0, &less, &error),
                         TN_E_INVALID);
        assert_non_null(strstr(error.message, "one of its 2 parts is there"));
        count = without_a(TN_REDUCE, tn_program_instructions(was), count, list);
        kit_must(&ranks[r].run,
                 tn_program_from(ranks[r].step.graph, list, count, NULL, 0, &less, &error));
        of[r] = less;
        assert_int_equal(tn_programs_verify((const tn_program *const *)of, RANKS_MOST, &error),
                         TN_E_INVALID);
        assert_non_null(strstr(error.message, "group "));
        of[r] = was;
        tn_program_destroy(less);
        free(list);
    }
    for (uint32_t r = 0; r < RANKS_MOST; r++) {
        tn_program_destroy(of[r]);
        close_rank(&ranks[r]);
    }
    free(ranks);
}

static void refuse(const way *how, void (*change)(tn_train_options *options), tn_status wanted,
                   const char *words) {
    tn_program *all, *stage;
    staged one;
    begin_alone(&one, how, 0);
    if (change != NULL) change(&one.run.train);
    tn_status status = step_of(&one, &one.run.error);
    if (status == TN_OK) {
        kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
        one.grid.pipeline = how->data; /* stages that the parts are not for */
        status = divide(&one, all, &stage, &one.run.error);
        tn_program_destroy(all);
    }
    if (status != wanted || strstr(one.run.error.message, words) == NULL)
        fail_msg("%s: %s", tn_status_name(status), one.run.error.message);
    close_rank(&one);
}

/* As if a rewrite had put what reads a parameter where that is not updated. */
static void what_is_read_where_it_is_not_updated_is_refused(void **state) {
    const way how = {MLP, 1, 2, 1, 2, TN_PIPELINE_ONE_BACK, false, 1, false, false};
    tn_program_pipeline_options options = TN_PROGRAM_PIPELINE_OPTIONS_INIT;
    tn_program *all, *stage;
    staged one;
    (void)state;
    begin_alone(&one, &how, 0);
    kit_must(&one.run, step_of(&one, &one.run.error));
    kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
    tn_stages stages = *one.step.stages;
    tn_tensor_id first = one.step.parameters[0].parameter;
    tn_home *homes = malloc(stages.tensors * sizeof *homes);
    memcpy(homes, stages.homes, stages.tensors * sizeof *homes);
    assert_int_equal(homes[first].readers, 1);
    homes[first].readers = 2;
    stages.homes = homes;
    options.stages = &stages;
    options.stage_count = 2;
    tn_error error = {0};
    assert_int_equal(tn_program_pipeline(all, &options, &stage, &error), TN_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, tn_graph_tensor(one.step.graph, first)->name));
    assert_non_null(strstr(error.message, "does not update it"));
    free(homes);
    tn_program_destroy(all);
    close_rank(&one);
}

/* The step of one rank with parts of a stage is not divided as another's. */
static void the_rank_is_that_of_the_step(void **state) {
    const way how = {TRANSFORMER, 1, 2, 1, 2, TN_PIPELINE_ONE_BACK, false, 2, false, false};
    tn_error error = {0};
    staged one = {0};
    tn_program *all, *stage;
    (void)state;
    begin_alone(&one, &how, 1);
    kit_must(&one.run, step_of(&one, &one.run.error));
    kit_must(&one.run, tn_program_create(one.step.graph, NULL, &all, &one.run.error));
    kit_must(&one.run, divide(&one, all, &stage, &one.run.error));
    tn_program_destroy(stage);
    one.rank = 0;
    assert_int_equal(divide(&one, all, &stage, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "of rank 1 of 2 with parts of a stage, not of 0 of 2"));
    tn_program_destroy(all);
    close_rank(&one);
}

static void scale(tn_train_options *options) { options->dynamic_loss_scale = true; }
static void halve(tn_train_options *options) { options->dtype = TN_BFLOAT16; }

static void what_cannot_be_is_refused(void **state) {
    const way plain = {MLP, 1, 2, 1, 2, TN_PIPELINE_ONE_BACK, false, 1, false, false};
    (void)state;
    refuse(&(way){MLP, 1, 60, 1, 2, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "more than the model's");
    refuse(&(way){MLP, 1, 65, 1, 2, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "at most 64 parts");
    refuse(&(way){MLP, 3, 4, 1, 4, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "not the same for 3 stages");
    refuse(&(way){MLP, 2, 2, 2, 3, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "do not divide among 2 stages");
    refuse(&(way){MLP, 1, 2, 1, 1 << 30, 0, false, 1, false, false}, NULL, TN_E_INVALID,
           "in one graph");
    refuse(&plain, scale, TN_E_UNSUPPORTED, "all gradients");
    refuse(&plain, halve, TN_E_UNSUPPORTED, "16 bits");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_train_as_one_process),
        cmocka_unit_test(memory_does_not_grow_where_passes_alternate),
        cmocka_unit_test(so_they_do_with_several_pieces_each),
        cmocka_unit_test(so_they_do_on_parts_of_a_batch),
        cmocka_unit_test(so_they_do_with_parts_of_layers),
        cmocka_unit_test(and_of_what_lies_between),
        cmocka_unit_test(what_they_have_alike_goes_in_parts),
        cmocka_unit_test(dividing_what_stages_keep_changes_no_bit),
        cmocka_unit_test(they_stand_still_as_long_as_published),
        cmocka_unit_test(programs_of_all_ranks_hold_together),
        cmocka_unit_test(a_message_that_is_not_sent_is_told_before_anything_runs),
        cmocka_unit_test(what_is_read_where_it_is_not_updated_is_refused),
        cmocka_unit_test(the_rank_is_that_of_the_step),
        cmocka_unit_test(what_cannot_be_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
