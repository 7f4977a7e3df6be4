/* online.h - runs a training step within a budget without planning it first: swapping on demand,
 * and after one measured step as its measurements say (Capuchin).
 */
#ifndef TENURE_ONLINE_H
#define TENURE_ONLINE_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/online.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A program that is run again and again within a budget, over a link to the host.
 *
 *     // ... setup: a compiled model that needs more than the budget, of tn_setup_create
 *     tn_online_options options = TN_ONLINE_OPTIONS_INIT;
 *     tn_online *online;
 *     options.budget = UINT64_C(64) << 20;
 *     options.link_bytes_per_s = 4e9;
 *     if (tn_online_create(setup, &options, &online, &error)) return 2;
 *     for (int step = 0; step < 100; step++)
 *         if (tn_online_run(online, inputs, 1, outputs, 1, &error)) return 2;
 *     tn_online_destroy(online);
 *
 * The first iteration is passive: the arena is a pool of the budget's bytes. When it is full, the
 * buffers that were accessed least recently are copied to the host, and a later access brings them
 * back; the run waits for every copy. The iteration also records all accesses and their times,
 * without the time of the copies, and the speed of the link.
 *
 * The following iterations are guided by a policy. It swaps a tensor where the free time between
 * its copies (FT) hides them, and otherwise compares an exposed copy with recomputing the tensor
 * (MSPS, memory saving per second). The result is a verified program with a verified layout within
 * the budget. If the policy finds none, all iterations are passive.
 *
 * Feedback: if a tensor is still being copied back when it is accessed (its back-access), the start
 * of this copy (its in-trigger) moves earlier for the next iteration, each time by 5 % of the
 * copy's time, as far as the budget has room.
 *
 * The results have the same bits as a run without a budget. The device refuses every byte beyond
 * the budget.
 *
 * Units: bytes, seconds.
 * Threads: one thread at a time uses a tn_online.
 * Source: Peng et al., "Capuchin: Tensor-based GPU Memory Management for Deep Learning" (2020).
 */
typedef struct tn_online tn_online;

typedef struct tn_online_options {
    size_t struct_size;
    /* services of the caller; NULL: defaults; must outlive the call of tn_online_destroy */
    const tn_context *context;
    const char *policy; /* name of the policy; NULL: "capuchin", the only one */
    /* budget in bytes for all memory on the device, static memory included; required */
    uint64_t budget;
    double link_bytes_per_s; /* rate of copies to and from the host, in each direction; required */
    /* NULL, or the options that made the set-up; `memory`, `plan` and `rules` are read until the
     * second iteration. They must keep static memory outside of the arena. */
    const tn_setup_options *setup;
    /* NULL, or the options of the engines: `read`, `self`, `seed` and `host_capacity`. What `self`
     * points to must outlive the last iteration. */
    const tn_engine_options *engine;
    /* receives each decision as a line of text; NULL: not called. Times in the lines of the policy
     * are picoseconds. */
    void (*explain)(void *self, const char *line);
    void *self;
} tn_online_options;
#define TN_ONLINE_OPTIONS_INIT                                                                     \
    TN_INIT(tn_online_options, TN_SET(struct_size, sizeof(tn_online_options)))

typedef struct tn_online_iteration {
    bool guided;          /* true: a policy's program ran; false: the iteration was passive */
    double seconds;       /* wall time of the iteration */
    double stall_seconds; /* section of `seconds` in which the run waited for copies */
    /* seconds before the iteration for making a new program and engine; 0: both were kept */
    double make_seconds;
    uint64_t out_bytes, in_bytes; /* bytes copied to the host, and bytes copied back */
    /* for a passive iteration: number of buffers that were evicted from the arena */
    uint32_t evictions;
    /* for a guided iteration: number of copies back from the host, and of those that were not
     * complete when the tensor was accessed */
    uint32_t copies, late;
    /* number of copies back that were moved to an earlier start before this iteration */
    uint32_t moved;
} tn_online_iteration;

typedef struct tn_online_usage {
    uint64_t budget;
    uint64_t peak;      /* largest number of bytes that were allocated on the device at one time */
    uint64_t host_peak; /* largest number of host bytes for swapped tensors in any iteration */
    uint64_t iterations;
    uint64_t settled; /* number, from 0, of the last iteration that began with a new program */
    bool guided;      /* true: a policy's program is running */
    uint32_t swapped; /* number of tensors that the policy swaps */
    uint32_t recomputed;
    /* rate of the link as the first iteration measured it, in the slower direction */
    double link_bytes_per_s;
} tn_online_usage;

/* Opens the first engine, for passive mode, on a device of its own.
 *
 * setup   with kernels, made without a budget; must outlive the call of tn_online_destroy
 * online  out; destroy it with tn_online_destroy
 * Errors: E_UNKNOWN (the policy), E_INVALID (no budget, no link), E_EXHAUSTED (the budget is too
 * small for one operator; the message names it and the buffers that it holds), E_UNSUPPORTED
 * (control flow, a program of several streams), those of tn_engine_create. */
TN_API TN_CHECKED tn_status tn_online_create(const tn_setup *setup,
                                             const tn_online_options *options, tn_online **online,
                                             tn_error *error);
/* Destroys a run and its engine; NULL has no effect. */
TN_API void tn_online_destroy(tn_online *online);

/* Runs one iteration, with the arguments of tn_engine_run. If the program changes before it, a new
 * engine continues with the static memory of the last one.
 * Errors: those of tn_engine_run and of tn_engine_create. */
TN_API TN_CHECKED tn_status tn_online_run(tn_online *online, const tn_array *inputs,
                                          uint32_t input_count, tn_array *outputs,
                                          uint32_t output_count, tn_error *error);

/* Returns the current engine, for access to static memory and for measurements. The next iteration
 * may replace it. */
TN_API tn_engine *tn_online_engine(tn_online *online);
/* Returns the measurements of the iterations so far, and their number in *count: the first 1,000,
 * and the last one. */
TN_API const tn_online_iteration *tn_online_iterations(const tn_online *online, uint32_t *count);
TN_API void tn_online_measure(const tn_online *online, tn_online_usage *usage);

#ifdef __cplusplus
}
#endif
#endif
