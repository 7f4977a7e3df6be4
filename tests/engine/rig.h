/* rig.h - a graph with its kernels, plan, device and engine, made in one call for tests. */
#ifndef TN_TESTS_RIG_H
#define TN_TESTS_RIG_H

#include "../random_graph.h"

#include <tenure/engine.h>

#include "engine/engine.h"

typedef struct rig {
    tn_graph *graph;
    tn_kernels *kernels;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_device *device;
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
    const tn_context *context;
} setting;

static inline tn_status rig_make(rig *r, tn_graph *graph, const setting *how, tn_error *error) {
    *r = (rig){.graph = graph};
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    kernels.plain = true;
    kernels.context = device.context = engine.context = plan.context = how->context;
    memory.inplace = how->naive ? TN_INPLACE_NONE : TN_INPLACE_CHOOSE;
    memory.no_views = how->naive || how->no_views;
    memory.fuse_concat = how->fuse;
    program.order = how->order;
    program.memory = &memory;
    plan.planner = how->planner;
    engine.read = read_value;
    engine.poison = how->poison;
    engine.pool = how->pool;
    engine.pool_capacity = how->poison ? 1 << 16 : 1 << 23; /* segments are large */
    TN_TRY(tn_kernels_create(graph, &kernels, &r->kernels, error));
    memory.workspaces = tn_kernels_workspaces(r->kernels);
    TN_TRY(tn_program_create(graph, &program, &r->program, error));
    TN_TRY(tn_occupancy_create(r->program, &memory, &r->occupancy, error));
    if (how->naive)
        TN_TRY(tn_layout_without_reuse(tn_occupancy_problem(r->occupancy), &r->layout, error));
    else
        TN_TRY(tn_plan(tn_occupancy_problem(r->occupancy), &plan, &r->layout, error));
    TN_TRY(tn_device_create(&device, &r->device, error));
    return tn_engine_create(r->occupancy, how->pool == NULL ? &r->layout : NULL, r->kernels,
                            r->device, &engine, &r->engine, error);
}

static inline void rig_release(rig *r) {
    tn_engine_destroy(r->engine);
    tn_device_destroy(r->device);
    tn_layout_release(&r->layout);
    tn_occupancy_destroy(r->occupancy);
    tn_program_destroy(r->program);
    tn_kernels_destroy(r->kernels);
}

#endif
