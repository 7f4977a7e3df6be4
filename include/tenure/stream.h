/* stream.h - weights that do not all fit: which stay, and when the others come from their file.
 *
 *     // ... program: of tn_program_create; costs: of tn_costs_measure or a model; blocks: of
 *     // tn_engine_static_blocks; may: of tn_engine_may_fetch
 *     tn_stream_options options = TN_STREAM_OPTIONS_INIT;
 *     tn_stream_result result;
 *     options.budget = UINT64_C(64) << 20;
 *     options.blocks = blocks, options.block_count = count, options.may = may;
 *     options.bytes_per_s = 2e9;
 *     tn_status status = tn_program_stream(program, costs, &options, &result, &error);
 *     if (status == TN_OK)
 *         printf("%.3f ms, of which %.3f ms waits for the file\n", (double)result.time / 1e9,
 *                (double)result.stall / 1e9);
 *     tn_stream_release(&result);
 *
 * The arena holds everything: static memory that stays, what is fetched while it is there, and all
 * else. A weight that is fetched is in memory from the start of its reading until it was used;
 * reading goes on ahead of need, in the order of need, as far as there is room. What stays is
 * chosen so that computing waits least.
 * Units: bytes, picoseconds (costs.h).
 * Threads: a program and costs are only read.
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
    uint64_t budget;               /* bytes of the arena, all in all; 0: the least there is */
    const tn_static_block *blocks; /* [block_count] all static memory, as the kernels want it */
    uint32_t block_count;
    const uint8_t *may;                 /* [block_count] which of them may be fetched */
    double bytes_per_s, latency_s;      /* of reading; above 0, and of one read */
    const tn_occupancy_options *memory; /* what bytes are counted with; `statics` are filled in */
    const tn_plan_options *plan;        /* of layouts; NULL: defaults */
} tn_stream_options;
#define TN_STREAM_OPTIONS_INIT                                                                     \
    TN_INIT(tn_stream_options, TN_SET(struct_size, sizeof(tn_stream_options)))

typedef struct tn_stream_result {
    tn_program *program; /* with FETCH and DROP; NULL: none was found */
    tn_occupancy *occupancy;
    tn_layout layout;       /* of the arena, verified */
    uint64_t bytes;         /* its peak; without a program the least that was tried */
    uint64_t time;          /* predicted (tn_simulate) */
    uint64_t plain_time;    /* the same if all static memory was there */
    uint64_t stall;         /* of the time, waiting for files */
    uint64_t fetched_bytes; /* in one run; what is fetched twice counts twice */
    uint64_t resident_bytes;
    uint32_t fetches, residents; /* FETCH instructions; blocks that stay */
    uint32_t rounds;             /* choice and layout, in turns */
    double bytes_per_s;          /* that it is planned for */
} tn_stream_result;

/* The program within the budget that waits least, of those found.
 *
 * result  out, to be released whatever is returned
 * Errors: E_EXHAUSTED (nothing within the budget was found, with what would do, and the operator
 * whose operands alone take most), E_INVALID (rates), E_UNSUPPORTED (control flow), E_STOPPED
 * (progress), those of tn_plan, E_NO_MEMORY.
 * Cost: O(blocks) predictions of O(steps + blocks) each, mostly, and some layouts. */
TN_API TN_CHECKED tn_status tn_program_stream(const tn_program *program, const tn_costs *costs,
                                              const tn_stream_options *options,
                                              tn_stream_result *result, tn_error *error);
TN_API void tn_stream_release(tn_stream_result *result); /* zeroed is fine */

#ifdef __cplusplus
}
#endif
#endif
