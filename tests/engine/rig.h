/* rig.h - a graph set up and opened in one call for tests. */
#ifndef TN_TESTS_RIG_H
#define TN_TESTS_RIG_H

#include "../random_graph.h"

#include <tenure/engine.h>
#include <tenure/run.h>

#include "engine/engine.h"

typedef struct rig {
    tn_graph *graph;
    tn_setup *setup;
    tn_engine *engine;
} rig;

/* Numbers whose contents are small are known to the graph. */
static inline tn_status read_value(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                                   uint64_t size, tn_error *error) {
    (void)self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (tensor->value == NULL || tensor->value->ints == NULL || size != tensor->value->count * 8u)
        return tn__fail(error, TN_E_INVALID, "no contents");
    memcpy(bytes, tensor->value->ints, size);
    return TN_OK;
}

typedef struct setting {
    const char *order, *planner, *pool;
    bool naive, poison, fuse, no_views;
    tn_static_place statics;
    const tn_context *context;
    tn_trace *trace;
} setting;

static inline tn_status rig_make(rig *r, tn_graph *graph, const setting *how, tn_error *error) {
    *r = (rig){.graph = graph};
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    kernels.plain = true;
    memory.no_views = how->no_views;
    memory.fuse_concat = how->fuse;
    program.order = how->order;
    plan.planner = how->planner;
    options.context = how->context;
    options.kernels = &kernels;
    options.program = &program;
    options.memory = &memory;
    options.plan = &plan;
    options.statics = how->statics;
    options.without_reuse = how->naive;
    engine.read = read_value;
    engine.poison = how->poison;
    engine.trace = how->trace;
    engine.pool = how->pool;
    engine.pool_capacity = how->poison ? 1 << 16 : 1 << 23; /* segments are large */
    TN_TRY(tn_setup_create(graph, &options, &r->setup, error));
    return tn_setup_open(r->setup, NULL, &engine, &r->engine, error);
}

static inline void rig_release(rig *r) {
    tn_engine_destroy(r->engine);
    tn_setup_destroy(r->setup);
}

#endif
