/* measure.h - measures the costs of operators on this machine by running them.
 *
 *     // ... kernels: of tn_kernels_create, or tn_setup_kernels
 *     tn_costs *costs;
 *     tn_measure_report report;
 *     if (tn_costs_measure(kernels, NULL, &costs, &report, &error))
 *         return 2;
 *     // tn_costs_of(costs, op) picoseconds
 *     tn_costs_destroy(costs);
 *
 * Identical operators (same type, attributes, shapes and element types) are run once, with the
 * kernels of a real run. Repeated forms are measured as well. The time of an operator depends on
 * the caches. So the operators run in rounds, in the order of the graph, each with its own memory.
 * Before an operator runs again, all others have used the caches, as in a real step. With a set-up
 * (a compiled model), whole steps are run as well.
 *
 * The data is generated; an operator with data-dependent time can take another time in a real run.
 * Units: picoseconds (costs.h), seconds, bytes.
 * Threads: a call uses the threads of its kernels; no other code should use them meanwhile.
 */
#ifndef TENURE_MEASURE_H
#define TENURE_MEASURE_H

#include <tenure/costs.h>
#include <tenure/engine.h>
#include <tenure/kernels.h>
#include <tenure/program.h>
#include <tenure/setup.h>
#include <tenure/simulate.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_measure_options {
    size_t struct_size;
    const tn_context *context; /* NULL, or must outlive the costs; calls `progress` */
    double seconds;  /* no new round begins after this time; 0: 20. The first round always ends */
    uint32_t rounds; /* most rounds, after a first one for warming up; 0: 7 */
    uint64_t bytes;  /* memory limit, but at least that of the largest operator; 0: 2 GiB */
    /* NULL, or of a program of the graph: its in-place operators are measured in place. */
    const tn_occupancy *occupancy;
    const bool *only; /* NULL, or [operators] to measure: the others cost nothing */
    /* NULL, or a set-up with these kernels. A few steps of its program are run, with generated
     * weights and inputs, and all costs are scaled so that their sum is the time of a step. Skipped
     * if the program does more than compute, or needs more than `bytes`. */
    const tn_setup *setup;
} tn_measure_options;
#define TN_MEASURE_OPTIONS_INIT                                                                    \
    TN_INIT(tn_measure_options, TN_SET(struct_size, sizeof(tn_measure_options)))

typedef struct tn_measure_report {
    uint32_t operators; /* operators that run */
    uint32_t alike;     /* different operators and repeated forms that were run */
    /* Operators that could not run with generated data. They cost the time of copying their bytes.
     */
    uint32_t unmeasured;
    uint64_t bytes;      /* memory allocated for running single operators */
    double step_seconds; /* fastest step of options->setup; 0: no step was run */
    double scale;        /* factor of the costs for that; else 1 */
    double seconds;
} tn_measure_report;

/* Measures the costs of the kernels' graph. The kernels need not outlive the costs.
 *
 * report  out, may be NULL
 * Errors: E_STOPPED (by `progress`), E_NO_MEMORY, E_EXHAUSTED (the machine has too little memory
 * for the largest operator). Cost: the rounds; each takes the time of all different operators. */
TN_API TN_CHECKED tn_status tn_costs_measure(const tn_kernels *kernels,
                                             const tn_measure_options *options, tn_costs **costs,
                                             tn_measure_report *report, tn_error *error);

/* Measures the additional seconds of a run in which operators of the set-up use tiles for less
 * scratch (tn_setup_scratch). Both variants are measured, with the memory of the fastest. Below 0:
 * tiles are faster. Errors: those of tn_costs_measure; E_INVALID (no operator uses tiles). */
TN_API TN_CHECKED tn_status tn_setup_pieces_cost(const tn_setup *setup, double *seconds,
                                                 tn_error *error);

/* Measures shares of elements that are 0 in one run of the set-up's program, for
 * tn_fit_options.zeros. The plan must fit in the memory of this machine. Only `zeros` is changed:
 * parameters are copies.
 *
 * engine  `read`, `self` and `context` are used; NULL: defaults
 * inputs  as in tn_engine_run; NULL: generated numbers between -1 and 1, and indices of 0
 * zeros   [tensors of tn_setup_graph]: earlier results, or -1; each is lowered to the new share
 * Errors: those of tn_setup_open and tn_engine_run. Cost: a run, and one pass over all computed
 * data. */
TN_API TN_CHECKED tn_status tn_setup_zeros(const tn_setup *setup, const tn_engine_options *engine,
                                           const tn_array *inputs, uint32_t input_count,
                                           float *zeros, tn_error *error);

/* Predicts the time of a run of the set-up's program from costs: tn_simulate with its operators'
 * costs and its occupancy. If the options state no rate for encoding, the rate of a copy is used.
 *
 * costs    of tn_setup_graph; NULL: measured now (E_INVALID: there are no kernels)
 * options  NULL: defaults; `costs`, `again` and `occupancy` are filled in
 * Errors: those of tn_simulate and tn_costs_measure; E_INVALID (costs of another graph). */
TN_API TN_CHECKED tn_status tn_setup_predict(const tn_setup *setup, const tn_costs *costs,
                                             const tn_simulate_options *options,
                                             tn_simulation *simulation, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
