/* measure.h - what the files of measuring share. */
#ifndef TN_ENGINE_MEASURE_H
#define TN_ENGINE_MEASURE_H

#include <tenure/device.h>
#include <tenure/measure.h>

#include "budget/costs.h"
#include "engine/executor.h"
#include "kernels/kernels.h"

#define MEASURE_ROUNDS_MOST 64u

/* An operator that stands for all that are alike. Its operands lie one after the other. */
typedef struct tn__sample {
    tn__executor *executor; /* of the graph that it is in */
    tn_op_id op;
    const tn__prepared *prepared;
    uint64_t inplace; /* bit i: output 0 lies in input i */
    uint64_t bytes;   /* of all operands, packed forms and scratch */
    uint64_t offset;  /* of these in the memory of its group */
    double seconds[MEASURE_ROUNDS_MOST];
    uint32_t count; /* of those */
    bool failed;    /* it does not run on contents that are made up */
} tn__sample;

/* measure_operands.c */
uint64_t tn__sample_bytes(const tn__sample *sample);
/* Contents for all that it reads. */
void tn__sample_fill(const tn__sample *sample, uint8_t *memory);
/* The operands where tn__sample_fill put them, and one run: what it took. */
tn_status tn__sample_run(const tn__sample *sample, uint8_t *memory, double *seconds);

#endif
