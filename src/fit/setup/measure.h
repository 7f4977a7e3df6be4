/* measure.h - the samples of measure.c, and which of their operands a step finds in its caches
 * (measure_reach.c). */
#ifndef TN_SETUP_MEASURE_H
#define TN_SETUP_MEASURE_H

#include <tenure/engine.h>

#include "engine/executor.h"
#include "engine/kernels/kernels.h"
#include "fit/budget/costs.h"

#define MEASURE_ROUNDS_MOST 64u
/* limit for the number of inputs, and for that of outputs, for which a sample records whether they
 * are in a cache */
#define MEASURE_OPERANDS 64u

/* An operator that is measured for all operators like it. Its operands follow each other in
 * memory. */
typedef struct tn__sample {
    tn__executor *executor; /* executor of the operator's graph */
    tn_op_id op;
    const tn__prepared *prepared;
    uint64_t inplace; /* the inputs over which output 0 is written: bit i stands for input i */
    /* for each input, then for each output: how many operators of this sample find it in a cache */
    uint32_t near[2 * MEASURE_OPERANDS];
    uint32_t uses;   /* number of operators of this sample that were examined for `near` */
    uint64_t bytes;  /* bytes of all operands, packed forms and scratch memory */
    uint64_t offset; /* offset of the sample's operands in the memory of the sample's group */
    double seconds[MEASURE_ROUNDS_MOST];
    uint32_t count; /* number of measured times in `seconds` */
    bool failed;    /* the operator does not run on generated data, so it has no times */
} tn__sample;

/* The data with which tn__measure_reach counts the operands that a step finds in its caches: those
 * that were touched less than `reach` bytes ago. */
typedef struct tn__measure_step {
    const tn_graph *graph;
    /* the program that gives the simulated order; NULL: operators run in the order of the graph */
    const tn_occupancy *occupancy;
    tn__sample *samples;
    const uint32_t *of; /* [operators] index of the operator's sample; TN_NONE: it has no sample */
    uint64_t reach;
} tn__measure_step;
tn_status tn__measure_reach(const tn__measure_step *step, tn__arena *arena, tn_error *error);

#endif
