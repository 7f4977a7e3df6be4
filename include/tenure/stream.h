/* stream.h - weight streaming: plans runs that read some weights from a file to fit a budget.
 *
 *     // ... program: from tn_program_create; costs: from tn_costs_measure or a model; blocks: from
 *     // tn_engine_static_blocks; may: from tn_engine_may_fetch
 *     tn_stream_options options = TN_STREAM_OPTIONS_INIT;
 *     tn_stream_result result;
 *     options.budget = UINT64_C(64) << 20;
 *     options.blocks = blocks, options.block_count = count, options.may = may;
 *     options.bytes_per_s = 2e9;
 *     tn_status status = tn_program_stream(program, costs, &options, &result, &error);
 *     if (status == TN_OK)
 *         printf("%.3f ms, including %.3f ms of waits for the file\n", (double)result.time / 1e9,
 *                (double)result.stall / 1e9);
 *     tn_stream_release(&result);
 *
 * The arena holds everything: static memory that stays (resident), fetched weights while they are
 * present, and all other buffers. A fetched weight occupies memory from the start of its read until
 * its use. Weights are prefetched in the order of use, as early as memory allows. The resident
 * weights are chosen so that the computation waits as little as possible.
 * Units: bytes, picoseconds (costs.h).
 * Threads: the program and the costs are only read.
 */
#ifndef TENURE_STREAM_H
#define TENURE_STREAM_H

#include <tenure/costs.h>
#include <tenure/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_stream_options {
    size_t struct_size;
    const tn_context *context;     /* NULL: that of the graph */
    uint64_t budget;               /* bytes of the whole arena; 0: as few as possible */
    const tn_static_block *blocks; /* [block_count] all static memory, in the kernels' layouts */
    uint32_t block_count;
    const uint8_t *may;                 /* [block_count] nonzero: the block may be fetched */
    double bytes_per_s, latency_s;      /* read rate, above 0; latency of one read */
    const tn_occupancy_options *memory; /* how bytes are counted; `statics` are filled in */
    const tn_plan_options *plan;        /* for the layouts; NULL: defaults */
} tn_stream_options;
#define TN_STREAM_OPTIONS_INIT                                                                     \
    TN_INIT(tn_stream_options, TN_SET(struct_size, sizeof(tn_stream_options)))

typedef struct tn_stream_result {
    tn_program *program; /* with FETCH and DROP; NULL: no program was found */
    tn_occupancy *occupancy;
    tn_layout layout;       /* of the arena, verified */
    uint64_t bytes;         /* its peak; without a program, the smallest peak tried */
    uint64_t time;          /* predicted by tn_simulate */
    uint64_t plain_time;    /* the same with all static memory resident */
    uint64_t stall;         /* the part of `time` spent waiting for files */
    uint64_t fetched_bytes; /* in one run; repeated fetches count each time */
    uint64_t resident_bytes;
    uint32_t fetches, residents; /* FETCH instructions; resident blocks */
    uint32_t rounds;             /* iterations of choice and layout */
    double bytes_per_s;          /* the read rate that was assumed */
} tn_stream_result;

/* Finds the program within the budget that waits least (heuristic).
 *
 * result  out; release it in every case
 *
 * Errors: E_EXHAUSTED (no program within the budget was found; the message names a sufficient
 * budget, and the operator with the largest operands), E_INVALID (rates), E_UNSUPPORTED (control
 * flow), E_STOPPED (progress), those of tn_plan, E_NO_MEMORY.
 * Cost: mostly O(blocks) predictions of O(steps + blocks) each, and some layouts. */
TN_API TN_CHECKED tn_status tn_program_stream(const tn_program *program, const tn_costs *costs,
                                              const tn_stream_options *options,
                                              tn_stream_result *result, tn_error *error);
TN_API void tn_stream_release(tn_stream_result *result); /* zeroed is fine */

#ifdef __cplusplus
}
#endif
#endif
