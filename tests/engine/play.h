/* play.h - a graph run by a program of one's own, in one call for tests. */
#ifndef TN_TESTS_ENGINE_PLAY_H
#define TN_TESTS_ENGINE_PLAY_H

#include "rig.h"

#define VALUES 8u
#define OUT_BYTES 256u

/* --- a graph with a program of one's own --- */

typedef struct way { /* in which it runs */
    const char *planner, *pool;
    bool poison, library;
    double link; /* bytes a second; 0: no limit */
    uint64_t host_capacity;
    const tn_layout *host_layout;
    const char *swap_device;
    double swap_bytes_per_s;
    tn_trace *trace;
    const tn_context *context;
} way;

typedef struct play {
    tn_program *program;
    tn_setup *setup;
    tn_engine *engine;
} play;

static inline void play_close(play *it) {
    tn_engine_destroy(it->engine);
    tn_setup_destroy(it->setup);
    tn_program_destroy(it->program);
    *it = (play){0};
}

/* Parameters are 7, 8, 9, ... */
static inline tn_status read_any(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                                 uint64_t size, tn_error *error) {
    if (tn_graph_tensor(graph, id)->kind != TN_KIND_PARAMETER)
        return read_value(self, graph, id, bytes, size, error);
    for (uint64_t i = 0; i < size / 4; i++) ((int32_t *)bytes)[i] = (int32_t)i + 7;
    return TN_OK;
}

/* The program is the player's from here on. */
static inline tn_status play_program(play *it, const tn_graph *graph, tn_program *program,
                                     const way *how, tn_error *error) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    *it = (play){.program = program};
    kernels.plain = !how->library;
    plan.planner = how->planner;
    plan.work_limit = 1000;
    options.context = how->context;
    options.kernels = &kernels;
    options.plan = &plan;
    engine.read = read_any;
    engine.poison = how->poison;
    engine.trace = how->trace;
    engine.pool = how->pool;
    engine.pool_capacity = how->poison ? 1 << 16 : 1 << 23;
    engine.host_capacity = how->host_capacity;
    engine.host_layout = how->host_layout;
    engine.swap_device = how->swap_device;
    engine.swap_bytes_per_s = how->swap_bytes_per_s;
    device.link_bytes_per_s = how->link;
    options.given_program = it->program;
    tn_status status = tn_setup_create(graph, &options, &it->setup, error);
    if (status == TN_E_UNSUPPORTED || status == TN_E_STOPPED) { /* it does not know clocks */
        plan.planner = NULL;
        status = tn_setup_create(graph, &options, &it->setup, error);
    }
    if (status == TN_OK) status = tn_setup_open(it->setup, &device, &engine, &it->engine, error);
    if (status != TN_OK) play_close(it);
    return status;
}

static inline tn_status play_open(play *it, const tn_graph *graph, const tn_instruction *list,
                                  uint32_t count, const way *how, tn_error *error) {
    tn_program *program;
    *it = (play){0};
    TN_TRY(tn_program_from(graph, list, count, NULL, 0, &program, error));
    return play_program(it, graph, program, how, error);
}

static inline tn_status run_on(tn_engine *engine, int32_t in[2][VALUES], uint8_t *out,
                               uint64_t *bytes) {
    tn_array inputs[2], output = {.bytes = OUT_BYTES, .data = out};
    for (int i = 0; i < 2; i++) {
        inputs[i] = (tn_array){.dtype = TN_INT32, .rank = 1, .bytes = 4 * VALUES, .data = in[i]};
        inputs[i].shape[0] = VALUES;
    }
    memset(out, 0x77, OUT_BYTES);
    tn_status status = tn_engine_run(engine, inputs, 2, &output, 1, &failure);
    *bytes = output.bytes;
    return status;
}

#endif
