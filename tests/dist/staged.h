/* staged.h - models divided among ranks by layers, within layers and by samples: networks, one
 * rank, all of them, and one process that goes through the same micro-batches. Who includes it says
 * how many STEPS are trained. */
#ifndef TN_TESTS_DIST_STAGED_H
#define TN_TESTS_DIST_STAGED_H

#include "trainer/kit.h"

#include "../../examples/training/networks.h"

#include <math.h>

#include <tenure/dist.h>
#include <tenure/train.h>

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

static inline tn_grid grid_of(const way *how) {
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
    uint64_t budget[RANKS_MOST];                   /* of each, for arena and static memory; 0 */
    trained got;                                   /* of rank 0 */
    uint64_t peak[RANKS_MOST], direct[RANKS_MOST]; /* planned; bytes sent to other stages */
    uint64_t statics[RANKS_MOST];
} task;

/* A micro-batch of all that train the same is drawn at once. */
static inline tn_status fill(void *self, bool held_out, uint64_t number, tn_array *samples,
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

static inline tn_status mlp(net *n, int64_t batch) {
    tn_tensor_id x = net_input(n, TN_FLOAT32, NET_SHAPE(batch, 12)), y = x;
    int64_t from = 12;
    for (int64_t wide = 40; wide > 20; from = wide, wide -= 4)
        y = net_unary(n, "Tanh", net_dense(n, y, from, wide));
    return net_finish(n, x, net_dense(n, y, from, 4));
}

static inline tn_tensor_id drop(net *n, tn_tensor_id x, double ratio) {
    tn_attr share = {.name = "ratio", .type = TN_ATTR_FLOAT, .count = 1, .floats = &ratio};
    return net_op(
        n, (tn_op_spec){
               .type = "Dropout", NET_INPUTS(x), .version = 7, .attrs = &share, .attr_count = 1});
}

static inline tn_status drops(net *n, int64_t batch) {
    tn_tensor_id x = net_input(n, TN_FLOAT32, NET_SHAPE(batch, 12));
    tn_tensor_id y = drop(n, net_unary(n, "Gelu", net_dense(n, x, 12, 64)), 0.3);
    y = drop(n, net_dense(n, y, 64, 12), 0.2);
    return net_finish(n, x, net_dense(n, net_binary(n, "Add", x, y), 12, 4));
}

/* A table that is looked up in, and whose other side scores: the first part has it, and the last.
 */
static inline tn_status tied(net *n, int64_t batch) {
    tn_tensor_id x = net_input(n, TN_INT64, NET_SHAPE(batch, 3));
    tn_tensor_id table = net_param(n, "table", 0, 0.3f, NET_SHAPE(20, 12));
    tn_tensor_id y = net_op(n, (tn_op_spec){.type = "Gather", NET_INPUTS(table, x)});
    for (int i = 0; i < 4; i++) y = net_unary(n, "Tanh", net_dense(n, y, 12, 12));
    return net_finish(n, x, net_binary(n, "MatMul", y, net_transpose(n, table, NET_SHAPE(1, 0))));
}

static inline tn_status network(net *n, uint32_t which, int64_t batch) {
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

static inline void make(kit_run *run, const way *how, int64_t batch) {
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
#ifdef __SANITIZE_THREAD__
    /* oneDNN guards what its threads share by means that TSan does not see */
    run->session.plain = true;
#else
    run->session.plain = !how->fast;
#endif
    run->session.planner = "fast";
}

/* --- training --- */

static inline tn_status take(kit_run *run, trained *got, tn_error *error) {
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
static inline tn_status train(kit_run *run, trained *got, uint64_t *peak, tn_error *error) {
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
static inline uint32_t gathers_of(const staged *it) {
    return tn_grid_group(&it->grid, TN_GRID_AXES, it->rank) +
           tn_grid_group(&it->grid, TN_GRID_DATA, it->rank);
}

static inline tn_status join_gathers(const staged *it, tn_world *world, tn_error *error) {
    tn_place at = tn_grid_place(&it->grid, it->rank);
    uint32_t members[RANKS_MOST];
    for (at.data = 0; at.data < it->grid.data; at.data++)
        members[at.data] = tn_grid_rank(&it->grid, at);
    return tn_world_group(world, gathers_of(it), members, it->grid.data, error);
}

static inline tn_status divide(void *self, const tn_program *program, tn_program **divided,
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

static inline tn_status step_of(staged *it, tn_error *error) {
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

static inline tn_status open_rank(staged *it, tn_world *world, tn_divide *by, tn_error *error) {
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

static inline void close_rank(staged *it) {
    kit_end(&it->run);
    tn_session_close(it->session);
    tn_training_release(&it->step);
    tn_graph_destroy(it->model);
}

static inline uint64_t statics_of(const kit_run *run) {
    tn_engine_usage usage;
    tn_engine_measure(tn_trainer_engine(run->trainer), &usage);
    return usage.static_bytes;
}

static inline tn_status rank(void *self, tn_world *world, tn_error *error) {
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
    mine->run.session.budget = it->budget[number];
    tn_status status = tn_world_grid(world, &mine->grid, error);
    if (status == TN_OK) status = join_gathers(mine, world, error);
    if (status == TN_OK) status = open_rank(mine, world, &by, error);
    if (status == TN_OK)
        status = train(&mine->run, number == 0 ? &it->got : NULL, &it->peak[number], error);
    it->direct[number] = tn_world_measure(world).direct_bytes;
    if (status == TN_OK) it->statics[number] = statics_of(&mine->run);
    close_rank(mine);
    free(mine);
    return status;
}

/* --- beside one process --- */

#include "apart.h"

static inline void forget(trained *got) {
    for (uint32_t i = 0; i < got->parameters; i++) free(got->values[i]);
    free(got->values);
    free(got->counts);
}

static inline void alone(const way *how, trained *got) {
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

/* `it` has what is asked for. */
static inline tn_status try_ranks(task *it, tn_error *error) {
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    const tn_grid grid = grid_of(&it->how);
    options.driver = "threads";
    options.ranks = tn_grid_ranks(&grid);
    return tn_world_run(&options, rank, it, error);
}

static inline void by_ranks_that_share(const way *how, tn_shard shard, bool early, task *it) {
    *it = (task){.how = *how, .shard = shard, .early = early};
    tn_error error = {0};
    if (try_ranks(it, &error) != TN_OK)
        fail_msg("%s, %u x %u x %u: %s: %s", names[how->which], how->data, grid_of(how).tensor,
                 how->stages, error.where, error.message);
}

static inline void by_ranks(const way *how, task *it) {
    by_ranks_that_share(how, TN_SHARD_NONE, false, it);
}

/* --- the step of one rank, which does not run --- */

static inline void begin_alone(staged *it, const way *how, uint32_t stage) {
    *it = (staged){.how = how, .rank = stage, .grid = grid_of(how)};
    it->grid.data = 1;
    make(&it->run, how, BATCH);
}

#endif
