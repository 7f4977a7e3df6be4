/* measure.h - what operators cost on this machine, found by running them.
 *
 *     // ... kernels: of tn_kernels_create, or tn_setup_kernels
 *     tn_costs *costs;
 *     tn_measure_report report;
 *     if (tn_costs_measure(kernels, NULL, &costs, &report, &error))
 *         return 2;
 *     // tn_costs_of(costs, op) picoseconds
 *     tn_costs_destroy(costs);
 *
 * Operators that are alike (of one type, with the same attributes, shapes and element types) are
 * run once for all, with the kernels that a run uses. Repeat forms are measured as well. What a
 * step takes depends on what lies in caches, so the operators are run in turns, in the order in
 * which they first stand in the graph, each in memory of its own: when one's turn comes again, all
 * others have been through the caches, as in a step. With a set-up, whole steps are run as well.
 *
 * Contents are made up; an operator whose time depends on them may take another time in a run.
 * Units: picoseconds (costs.h), seconds, bytes.
 * Threads: one call uses the threads of its kernels, which nobody else should run meanwhile.
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
    const tn_context *context; /* NULL or outlives the costs; `progress` is told and asked */
    double seconds;  /* no new round begins after so long; 0: 20. The first is always whole */
    uint32_t rounds; /* at most, beside the first that warms up; 0: 7 */
    uint64_t bytes;  /* of memory, or what the largest operator needs; 0: 2 GiB */
    /* NULL, or of a program of the graph: what works in place there is measured in place */
    const tn_occupancy *occupancy;
    const bool *only; /* NULL, or [operators] which are measured: the others cost nothing */
    /* NULL, or one with these kernels, on which all costs are scaled so that those of its program
     * add up to what a step takes: a few are run, with weights and inputs that are made up. Not
     * where it does more than compute, nor where it needs more than `bytes` */
    const tn_setup *setup;
} tn_measure_options;
#define TN_MEASURE_OPTIONS_INIT                                                                    \
    TN_INIT(tn_measure_options, TN_SET(struct_size, sizeof(tn_measure_options)))

typedef struct tn_measure_report {
    uint32_t operators;  /* that run */
    uint32_t alike;      /* of those, and of repeat forms, that were run: no two of them alike */
    uint32_t unmeasured; /* that could not be run on contents that are made up: they cost what their
                          * bytes take at the rate of a copy */
    uint64_t bytes;      /* of memory that was taken for operators by themselves */
    double step_seconds; /* of the fastest step of options->setup; 0: none was run */
    double scale;        /* what costs were multiplied by for it; else 1 */
    double seconds;
} tn_measure_report;

/* The graph is that of the kernels, which may go before the costs.
 *
 * report   out, may be NULL
 * Errors: E_STOPPED (`progress` said so), E_NO_MEMORY, E_EXHAUSTED (the machine has no room for the
 * largest operator). Cost: the rounds, each as long as all operators that differ. */
TN_API TN_CHECKED tn_status tn_costs_measure(const tn_kernels *kernels,
                                             const tn_measure_options *options, tn_costs **costs,
                                             tn_measure_report *report, tn_error *error);

/* Seconds that it takes longer in a run that operators of the set-up run in pieces, for less
 * scratch (tn_setup_scratch): both ways measured now, with the memory that the fastest takes. Below
 * 0: they are faster so. Errors: those of tn_costs_measure; E_INVALID (none runs in pieces). */
TN_API TN_CHECKED tn_status tn_setup_pieces_cost(const tn_setup *setup, double *seconds,
                                                 tn_error *error);

/* Shares of elements that are 0 in one run of the set-up's program, whose plan must have room on
 * this machine: for tn_fit_options.zeros. Nothing but `zeros` is left of it: parameters that it
 * changed were a copy.
 *
 * engine  `read`, `self` and `context` are read; NULL: defaults
 * inputs  as in tn_engine_run; NULL: made up, numbers between -1 and 1, and indices of 0
 * zeros   [tensors of tn_setup_graph] what was found before, or -1: the least of both stays
 * Errors: those of tn_setup_open and tn_engine_run. Cost: a run, and one pass over what is made. */
TN_API TN_CHECKED tn_status tn_setup_zeros(const tn_setup *setup, const tn_engine_options *engine,
                                           const tn_array *inputs, uint32_t input_count,
                                           float *zeros, tn_error *error);

/* What a run of the set-up's program takes by these costs: tn_simulate, with its operators' costs,
 * its occupancy, and the rate of a copy for encoding where the options have none.
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
