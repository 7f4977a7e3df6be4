/* measure.h - the samples of measure.c, and the operands that a step finds in its caches
 * (measure_reach.c). */
#ifndef TN_SETUP_MEASURE_H
#define TN_SETUP_MEASURE_H

#include <tenure/engine.h>

#include "engine/executor.h"
#include "engine/kernels/kernels.h"
#include "fit/budget/costs.h"

#define MEASURE_ROUNDS_MOST 64u
#define MEASURE_OPERANDS 64u /* of inputs and of outputs, this number is looked at */

/* An operator that stands for all operators like it. Its operands lie one after the other. */
typedef struct tn__sample {
    tn__executor *executor; /* executor of the operator's graph */
    tn_op_id op;
    const tn__prepared *prepared;
    uint64_t inplace; /* bit i: output 0 lies in input i */
    /* Number of such operators that had the operand nearer than a step ago: inputs, then outputs.
     */
    uint32_t near[2 * MEASURE_OPERANDS];
    uint32_t uses;   /* number of such operators that were looked at */
    uint64_t bytes;  /* bytes of all operands, packed forms and scratch */
    uint64_t offset; /* start of these bytes in the memory of the sample's group */
    double seconds[MEASURE_ROUNDS_MOST];
    uint32_t count; /* number of such operators */
    bool failed;    /* it does not run on generated data */
} tn__sample;

/* Counts the operands of samples that a step finds nearer than `reach` bytes. */
typedef struct tn__measure_step {
    const tn_graph *graph;
    const tn_occupancy *occupancy; /* NULL: operators run in the order of the graph */
    tn__sample *samples;
    const uint32_t *of; /* [operators] index of its sample; TN_NONE */
    uint64_t reach;
} tn__measure_step;
tn_status tn__measure_reach(const tn__measure_step *step, tn__arena *arena, tn_error *error);

#endif
