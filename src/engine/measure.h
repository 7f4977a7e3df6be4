/* measure.h - what the files of measuring share. */
#ifndef TN_ENGINE_MEASURE_H
#define TN_ENGINE_MEASURE_H

#include <tenure/device.h>
#include <tenure/measure.h>

#include "budget/costs.h"
#include "engine/executor.h"
#include "kernels/kernels.h"

#define MEASURE_ROUNDS_MOST 64u
#define MEASURE_OPERANDS 64u /* that are looked at, of inputs and of outputs */

/* An operator that stands for all that are alike. Its operands lie one after the other. */
typedef struct tn__sample {
    tn__executor *executor; /* of the graph that it is in */
    tn_op_id op;
    const tn__prepared *prepared;
    uint64_t inplace; /* bit i: output 0 lies in input i */
    /* How many of those alike had an operand nearer than a step ago: inputs, then outputs. */
    uint32_t near[2 * MEASURE_OPERANDS];
    uint32_t uses;   /* of those alike that were looked at */
    uint64_t bytes;  /* of all operands, packed forms and scratch */
    uint64_t offset; /* of these in the memory of its group */
    double seconds[MEASURE_ROUNDS_MOST];
    uint32_t count; /* of those */
    bool failed;    /* it does not run on contents that are made up */
} tn__sample;

/* measure_reach.c: counts which operands of samples a step finds nearer than `reach` bytes. */
typedef struct tn__measure_step {
    const tn_graph *graph;
    const tn_occupancy *occupancy; /* NULL: the graph in the order of its operators */
    tn__sample *samples;
    const uint32_t *of; /* [operators] sample; TN_NONE */
    uint64_t reach;
} tn__measure_step;
tn_status tn__measure_reach(const tn__measure_step *step, tn__arena *arena, tn_error *error);

/* measure_step.c: what all costs are to be multiplied by, so that they add up to a step of the
 * set-up's program; 1 where it is not run. */
typedef struct tn__measure_whole {
    const tn_setup *setup; /* NULL: nothing is run */
    const tn_context *context;
    double seconds; /* of measuring, in all */
    uint64_t room;  /* bytes that the step may take */
} tn__measure_whole;
/* *seconds: of the step; 0: none was run. */
double tn__measure_scale(const tn__measure_whole *whole, const tn_costs *costs, double *seconds);

/* measure_operands.c */
uint64_t tn__sample_bytes(const tn__sample *sample);
/* Contents for all that it reads. */
void tn__sample_fill(const tn__sample *sample, uint8_t *memory);
/* The operands where tn__sample_fill put them, and one run: what it took. Before it, what a step
 * has touched not long before is read once. */
tn_status tn__sample_run(const tn__sample *sample, uint8_t *memory, double *seconds);

#endif
