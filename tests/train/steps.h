/* steps.h - a net with its training graph, planned and set up, and what tests ask of it: a step,
 * a gradient, a parameter, and gradients by finite differences.
 */
#ifndef TN_TESTS_TRAIN_STEPS_H
#define TN_TESTS_TRAIN_STEPS_H

#include "net.h"

#include <float.h>

#include <tenure/engine.h>
#include <tenure/run.h>
#include <tenure/train.h>

#include "engine/kernels/convert.h"

#define STEPS_IO 96u

typedef struct setting {
    const char *order, *planner, *pool;
    bool naive, poison, library; /* library: with oneDNN */
    bool formats;                /* channels last where convolutions work */
    bool fused;                  /* rewrites for a step of training */
    const char *without;         /* but these */
    uint32_t threads;
    double recompute; /* share of work that may be done again */
    bool cheap;       /* by cheap operators only */
    bool twice;       /* whoever may run again does so at once */
    double fit;       /* share of the plan's arena that there is; 0: as much as it takes */
    const char *pass; /* fit: NULL: its own */
    double flops;     /* fit: operations a second; 0: 80e9 */
    uint32_t allow;   /* fit: TN_FIT_*; with COMPRESS zeros are counted, too */
    tn_static_place statics;
} setting;

typedef struct steps {
    net *n;
    tn_training training;
    tn_setup *setup;
    tn_setup *plain;       /* twice, fit: what it was before */
    tn_program *program;   /* twice */
    uint32_t by_other;     /* twice: who ran again by another type */
    bool fitted;           /* fit: it could be */
    const tn_graph *graph; /* as it runs; ids are the training's */
    tn_engine *engine;
    tn_array inputs[STEPS_IO], outputs[STEPS_IO];
    uint32_t input_count, output_count;
    tn_tensor_id input_ids[STEPS_IO];
    const double *labels; /* contents of labels */
    double rate;
    int64_t step, micro;
    tn_error error;
} steps;

static inline void steps_ok(const steps *s, tn_status status) {
    if (status != TN_OK)
        fail_msg("%s: %s: %s", tn_status_name(status), s->error.where, s->error.message);
}

static inline void steps_put(tn_dtype dtype, void *to, uint64_t i, double value) {
    switch (dtype) {
    case TN_FLOAT32:
        ((float *)to)[i] = (float)value;
        break;
    case TN_FLOAT64:
        ((double *)to)[i] = value;
        break;
    case TN_INT64:
        ((int64_t *)to)[i] = (int64_t)value;
        break;
    case TN_INT32:
        ((int32_t *)to)[i] = (int32_t)value;
        break;
    case TN_FLOAT16:
    case TN_BFLOAT16:
        tn__convert(TN_FLOAT64, &value, dtype, (uint16_t *)to + i, 1);
        break;
    default:
        fail_msg("type %s", tn_dtype_name(dtype));
    }
}
static inline double steps_get(tn_dtype dtype, const void *from, uint64_t i) {
    if (dtype == TN_FLOAT32) return (double)((const float *)from)[i];
    if (dtype == TN_FLOAT64) return ((const double *)from)[i];
    if (dtype == TN_INT64) return (double)((const int64_t *)from)[i];
    if (dtype == TN_FLOAT16) return (double)tn__half_to_float(((const uint16_t *)from)[i]);
    if (dtype == TN_BFLOAT16) return (double)tn__bfloat_to_float(((const uint16_t *)from)[i]);
    fail_msg("type %s", tn_dtype_name(dtype));
    return 0;
}

static inline tn_status steps_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                                   uint64_t size, tn_error *error) {
    const net *n = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    uint64_t count = size * 8 / tn_dtype_bits(tensor->dtype);
    for (uint64_t i = 0; i < count; i++) {
        if (tensor->value != NULL && tensor->value->ints != NULL)
            steps_put(tensor->dtype, bytes, i, (double)tensor->value->ints[i]);
        else if (tensor->value != NULL)
            steps_put(tensor->dtype, bytes, i, tensor->value->floats[i]);
        else if (id < NET_TENSORS && n->contents[id] != NULL)
            steps_put(tensor->dtype, bytes, i, n->contents[id][i]);
        else
            return tn__fail(error, TN_E_INVALID, "no contents of %s", tensor->name);
    }
    return TN_OK;
}

static inline tn_array steps_array(const tn_graph *graph, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    tn_array array = {.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array.shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    array.data = malloc(tensor->bytes + 1);
    return array;
}

/* Rewritten and computed again or not: the same ids, and never more memory. */
static inline void steps_check_setup(const steps *s, const setting *how) {
    const tn_recompute_report *again = tn_setup_recomputed(s->setup);
    uint32_t count = tn_graph_tensor_count(s->training.graph);
    assert_true(tn_graph_tensor_count(s->graph) >= count);
    for (tn_tensor_id id = 0; id < count; id++) {
        const tn_tensor *a = tn_graph_tensor(s->training.graph, id);
        const tn_tensor *b = tn_graph_tensor(s->graph, id);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->flags & TN_TENSOR_UPDATED, b->flags & TN_TENSOR_UPDATED);
        bool lost = how->fused && a->producer != TN_NONE && b->producer == TN_NONE;
        assert_int_equal(lost ? 0 : a->bytes, b->bytes);
    }
    assert_int_equal(again != NULL, how->recompute > 0);
    if (again == NULL) return;
    assert_true(again->after <= again->before);
    assert_true(again->share <= how->recompute);
}

/* Whether an operator may run again as soon as it has run: what it defines is its own. */
static inline bool steps_repeats(const tn_graph *graph, const tn_instruction *it) {
    if (it->opcode != TN_APPLY) return false;
    tn_op_form form = tn_op_form_of(graph, it->op, true);
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE && tn_op_view(graph, it->op, k).source != TN_NONE)
            return false;
    return form.type != NULL && form.output_count > 0;
}

/* Behind whoever may run again: what it defined is dropped, and it runs again. */
static inline void steps_run_twice(steps *s, tn_setup_options *options) {
    const tn_program *from = tn_setup_program(s->setup);
    const tn_graph *graph = tn_setup_graph(s->setup);
    uint32_t count = tn_program_count(from), made = 0;
    tn_instruction *list = malloc(8 * (size_t)count * sizeof *list);
    for (uint32_t i = 0; i < count; i++) {
        tn_instruction it = tn_program_instructions(from)[i], drop = TN_INSTRUCTION_INIT;
        list[made++] = it;
        if (!steps_repeats(graph, &it)) continue;
        tn_op_form form = tn_op_form_of(graph, it.op, it.again = true);
        drop.opcode = TN_DROP;
        assert_true(form.output_count < 6);
        for (uint32_t k = 0; k < form.output_count; k++) {
            drop.tensor = form.op->outputs[k];
            if (drop.tensor != TN_NONE) list[made++] = drop;
        }
        s->by_other += form.found != 0;
        list[made++] = it;
    }
    steps_ok(s, tn_program_from(graph, list, made, NULL, 0, &s->program, &s->error));
    free(list);
    s->plain = s->setup;
    options->given_program = s->program;
    steps_ok(s, tn_setup_from(s->plain, TN_SETUP_ORDER, options, &s->setup, &s->error));
}

/* Of inputs that are made up: a step on others may have fewer. */
static inline float *steps_zeros(steps *s) {
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    uint32_t count = tn_graph_tensor_count(tn_setup_graph(s->setup));
    float *zeros = malloc((count + 1) * sizeof *zeros);
    for (uint32_t i = 0; i < count; i++) zeros[i] = -1;
    engine.read = steps_read;
    engine.self = s->n;
    steps_ok(s, tn_setup_zeros(s->setup, &engine, NULL, 0, zeros, &s->error));
    return zeros;
}

/* Within a share of the arena, by the costs of a model; where that cannot be, as it was. */
static inline void steps_fit(steps *s, const setting *how, tn_setup_options *options) {
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_costs *costs;
    tn_setup *fitted;
    tn_setup_needs need = tn_setup_need(s->setup);
    model.flops_per_s = how->flops > 0 ? how->flops : 80e9;
    model.bytes_per_s = 10e9;
    steps_ok(s, tn_costs_create_model(tn_setup_graph(s->setup), &model, &costs, &s->error));
    float *zeros = how->allow & TN_FIT_COMPRESS ? steps_zeros(s) : NULL;
    fit.work_limit = 300000;
    fit.allow = how->allow;
    fit.pass = how->pass;
    fit.zeros = zeros;
    fit.budget = need.total - need.arena + (uint64_t)((double)need.arena * how->fit);
    options->fit = &fit;
    options->costs = costs;
    tn_status status = tn_setup_from(s->setup, TN_SETUP_FIT, options, &fitted, &s->error);
    tn_costs_destroy(costs);
    free(zeros);
    if (status == TN_E_INFEASIBLE || status == TN_E_EXHAUSTED) return;
    steps_ok(s, status);
    s->fitted = tn_setup_fitted(fitted) != NULL;
    assert_true(tn_setup_need(fitted).total <= fit.budget);
    assert_true(tn_setup_fitted(fitted)->bytes <= fit.budget);
    assert_ptr_equal(tn_setup_program(fitted), tn_setup_fitted(fitted)->program);
    assert_ptr_equal(tn_setup_kernels(fitted), tn_setup_kernels(s->setup)); /* made once */
    tn_setup *later; /* goes on from the program that was found */
    steps_ok(s, tn_setup_from(fitted, TN_SETUP_OCCUPY, options, &later, &s->error));
    assert_ptr_equal(tn_setup_program(later), tn_setup_program(fitted));
    assert_true(tn_setup_need(later).total <= tn_setup_need(fitted).total); /* which would do */
    s->plain = s->setup;
    s->setup = later;
    tn_setup_destroy(fitted);
}

static inline void steps_set_up(steps *s, const setting *how) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    rewrite.no_fuse = !how->fused;
    rewrite.no_formats = !how->formats;
    rewrite.without = how->without;
    rewrite.use = TN_REWRITE_TRAINED;
    kernels.plain = !how->library;
    kernels.threads = how->threads;
    again.share = how->recompute;
    again.cheap = how->cheap;
    program.order = how->order;
    plan.planner = how->planner;
    options.rewrite = how->formats || how->fused ? &rewrite : NULL;
    options.kernels = &kernels;
    options.recompute = &again;
    options.program = &program;
    options.plan = &plan;
    options.statics = how->statics;
    options.without_reuse = how->naive;
    steps_ok(s, tn_setup_create(s->training.graph, &options, &s->setup, &s->error));
    if (how->twice) steps_run_twice(s, &options);
    if (how->fit > 0) steps_fit(s, how, &options);
    s->graph = tn_setup_graph(s->setup);
    steps_check_setup(s, how);
}

/* Plans and sets up; labels are drawn when the loss takes them. */
static inline void steps_open(steps *s, net *n, const tn_train_options *options,
                              const setting *how) {
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    memset(s, 0, sizeof *s);
    s->n = n;
    s->rate = 0.01;
    steps_ok(s, tn_train(n->graph, options, &s->training, &s->error));
    steps_set_up(s, how);
    engine.read = steps_read;
    engine.self = n;
    engine.poison = how->poison;
    engine.pool = how->pool;
    engine.pool_capacity = how->poison ? 1 << 19 : 1 << 26;
    steps_ok(s, tn_setup_open(s->setup, NULL, &engine, &s->engine, &s->error));
    const tn_block *block = tn_graph_block(s->graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        if (tn_tensor_is_static(tn_graph_tensor(s->graph, block->inputs[i]))) continue;
        assert_true(s->input_count < STEPS_IO);
        s->input_ids[s->input_count] = block->inputs[i];
        s->inputs[s->input_count++] = steps_array(s->graph, block->inputs[i]);
    }
    assert_true(block->output_count <= STEPS_IO);
    for (uint32_t k = 0; k < block->output_count; k++)
        s->outputs[s->output_count++] = steps_array(s->graph, block->outputs[k]);
}

static inline void steps_close(steps *s) {
    for (uint32_t i = 0; i < s->input_count; i++) free(s->inputs[i].data);
    for (uint32_t k = 0; k < s->output_count; k++) free(s->outputs[k].data);
    tn_engine_destroy(s->engine);
    tn_setup_destroy(s->setup);
    tn_setup_destroy(s->plain);
    tn_program_destroy(s->program);
    tn_training_release(&s->training);
}

/* The output that is tensor `id`. */
static inline const tn_array *steps_output(const steps *s, tn_tensor_id id) {
    const tn_block *block = tn_graph_block(s->graph, 0);
    for (uint32_t k = 0; k < s->output_count; k++)
        if (block->outputs[k] == id) return &s->outputs[k];
    fail_msg("tensor %u is not an output", id);
    return NULL;
}

static inline tn_status steps_try(steps *s) {
    const tn_training *t = &s->training;
    for (uint32_t i = 0; i < s->input_count; i++) {
        tn_tensor_id id = s->input_ids[i];
        tn_array *array = &s->inputs[i];
        uint64_t count = array->bytes * 8 / tn_dtype_bits(array->dtype);
        const double *from = id == t->labels ? s->labels : NULL;
        if (id < NET_TENSORS && s->n->contents[id] != NULL) from = s->n->contents[id];
        if (id == t->learning_rate) from = &s->rate;
        for (uint64_t k = 0; k < count; k++) {
            double value = from != NULL ? from[k] : 0;
            if (id == t->step) value = (double)s->step;
            if (id == t->micro) value = (double)s->micro;
            steps_put(array->dtype, array->data, k, value);
        }
    }
    for (uint32_t k = 0; k < s->output_count; k++)
        s->outputs[k].bytes =
            tn_graph_tensor(s->graph, tn_graph_block(s->graph, 0)->outputs[k])->bytes;
    return tn_engine_run(s->engine, s->inputs, s->input_count, s->outputs, s->output_count,
                         &s->error);
}

/* One run; the loss. */
static inline double steps_run(steps *s) {
    steps_ok(s, steps_try(s));
    const tn_array *loss = steps_output(s, s->training.loss);
    return steps_get(loss->dtype, loss->data, 0);
}

/* Labels for the loss: classes or values, drawn. The caller frees them. */
static inline double *steps_draw_labels(steps *s, int64_t classes) {
    const tn_tensor *labels = tn_graph_tensor(s->graph, s->training.labels);
    uint64_t count = labels->bytes * 8 / tn_dtype_bits(labels->dtype);
    double *values = malloc((count + 1) * sizeof *values);
    for (uint64_t i = 0; i < count; i++)
        values[i] = labels->dtype == TN_INT64
                        ? (double)tn__random_below(&s->n->random, (uint64_t)classes)
                        : net_draw(s->n);
    s->labels = values;
    return values;
}

/* Contents of a static tensor as doubles; the caller frees them. */
static inline double *steps_static(steps *s, tn_tensor_id id, uint64_t *count) {
    const tn_tensor *tensor = tn_graph_tensor(s->graph, id);
    *count = tensor->bytes * 8 / tn_dtype_bits(tensor->dtype);
    void *bytes = malloc(tensor->bytes + 1);
    double *values = malloc((*count + 1) * sizeof *values);
    steps_ok(s, tn_engine_get_static(s->engine, id, bytes, tensor->bytes, &s->error));
    for (uint64_t i = 0; i < *count; i++) values[i] = steps_get(tensor->dtype, bytes, i);
    free(bytes);
    return values;
}
static inline void steps_set_static(steps *s, tn_tensor_id id, const double *values) {
    const tn_tensor *tensor = tn_graph_tensor(s->graph, id);
    uint64_t count = tensor->bytes * 8 / tn_dtype_bits(tensor->dtype);
    void *bytes = malloc(tensor->bytes + 1);
    for (uint64_t i = 0; i < count; i++) steps_put(tensor->dtype, bytes, i, values[i]);
    steps_ok(s, tn_engine_set_static(s->engine, id, bytes, tensor->bytes, &s->error));
    free(bytes);
}

/* Every gradient of a net of float64, made without an optimizer, against central differences: a few
 * elements of each parameter. `tolerance` is relative to the largest gradient of the parameter;
 * what the rounding of two losses makes of a gradient of 0 (of a bias before a normalisation) is
 * added. */
static inline void steps_check_gradients(steps *s, double tolerance, const char *what,
                                         uint64_t seed) {
    const double h = 1e-5;
    steps_run(s);
    for (uint32_t p = 0; p < s->training.parameter_count; p++) {
        const tn_trained *trained = &s->training.parameters[p];
        const char *name = tn_graph_tensor(s->graph, trained->parameter)->name;
        uint64_t count;
        double *values = steps_static(s, trained->parameter, &count), scale = 1e-6;
        double *own = malloc((count + 1) * sizeof *own);
        assert_true(trained->gradient != TN_NONE);
        steps_run(s);
        const tn_array *array = steps_output(s, trained->gradient);
        for (uint64_t i = 0; i < count; i++) {
            own[i] = steps_get(array->dtype, array->data, i);
            if (fabs(own[i]) > scale) scale = fabs(own[i]);
        }
        for (int k = 0; k < 12; k++) {
            uint64_t at = tn__random_below(&s->n->random, count);
            double before = values[at], up, down;
            values[at] = before + h;
            steps_set_static(s, trained->parameter, values);
            up = steps_run(s);
            values[at] = before - h;
            steps_set_static(s, trained->parameter, values);
            down = steps_run(s);
            values[at] = before;
            double expected = (up - down) / (2 * h);
            double rounding = 4 * DBL_EPSILON * (fabs(up) + fabs(down)) / (2 * h);
            if (!(fabs(expected - own[at]) <= tolerance * scale + rounding))
                fail_msg("%s, seed %llu: d %s [%llu] is %.12g, by differences %.12g", what,
                         (unsigned long long)seed, name, (unsigned long long)at, own[at], expected);
        }
        steps_set_static(s, trained->parameter, values);
        free(values);
        free(own);
    }
}

/* A net whose output is summed up by a mean-squared or cross-entropy loss: its gradients. */
static inline void steps_check_net(net *n, tn_loss loss, int64_t classes, const char *what,
                                   uint64_t seed) {
    const setting plain = {.poison = true};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    steps s;
    options.loss = loss;
    options.optimizer = TN_OPTIMIZER_NONE;
    steps_open(&s, n, &options, &plain);
    double *labels = loss == TN_LOSS_OUTPUT ? NULL : steps_draw_labels(&s, classes);
    steps_check_gradients(&s, 1e-6, what, seed);
    free(labels);
    steps_close(&s);
}

#endif
