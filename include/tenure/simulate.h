/* simulate.h - predicts the run time of a program from the costs of its instructions.
 *
 *     // ... program: from tn_program_create or a pass; costs: from tn_costs_measure
 *     tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
 *     tn_simulation simulation;
 *     options.costs = tn_costs_list(costs), options.again = tn_costs_again_list(costs);
 *     options.to_host_bytes_per_s = options.from_host_bytes_per_s = 12e9;
 *     if (tn_simulate(program, &options, &simulation, &error))
 *         return 2;
 *     // simulation.total_ps; simulation.stall_ps of it are stalls
 *     tn_simulation_release(&simulation);
 *
 * The model follows the engine (engine.h). One thread walks the list in order. It runs instructions
 * of stream 0, and those that block the caller (PUT, GET), itself. It issues instructions of other
 * streams when it reaches them; they start when their stream has finished its earlier work. An
 * instruction with a wait starts when its signal was given. A copy also needs its direction of the
 * link, which serves one copy at a time, in list order. The walk itself and instructions such as
 * DROP take no time.
 *
 * Control flow that depends on data is estimated: the slowest branch of an operator, and the known
 * number of iterations of a loop, or one if it is unknown. tn_simulation.guesses counts these
 * estimates.
 *
 * Units: picoseconds (TN_COSTS_PER_S of costs.h is a second), bytes.
 * Threads: any number of calls at once, each with its own trace.
 */
#ifndef TENURE_SIMULATE_H
#define TENURE_SIMULATE_H

#include <tenure/program.h>
#include <tenure/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_simulate_options {
    size_t struct_size;
    const tn_context *context; /* NULL or outlives the simulation */
    const uint64_t *costs;     /* [operators] time of an APPLY; NULL: operators take no time */
    const uint64_t *again;     /* [operators] time of an APPLY that recomputes, in the operator's
                                * repeat form if it has one; NULL: as `costs` */
    /* Bytes per second in each direction; 0: copies take no time */
    double to_host_bytes_per_s;   /* GET, SWAP_OUT */
    double from_host_bytes_per_s; /* PUT, SWAP_IN */
    double peer_bytes_per_s;      /* SEND, RECV, REDUCE, ...: other ranks are always ready */
    double codec_bytes_per_s;     /* ENCODE, DECODE: bytes of both forms */
    double latency_s;             /* of each copy and message; its direction is busy meanwhile */
    /* Events, in the form of a run's */
    tn_trace *trace;               /* NULL: no events */
    const tn_occupancy *occupancy; /* of this program, for live bytes, ALLOC and FREE; NULL: only
                                    * steps, with no live bytes */
    uint32_t run;                  /* number of the run in the events */
    double start_s;                /* start of the run on the clock of the events */
    /* FETCH: storage is a link of its own */
    double from_storage_bytes_per_s, storage_latency_s;
    const uint64_t *fetch_bytes; /* [tensors] bytes that a FETCH reads; NULL: those of the tensor */
    double peer_latency_s;       /* of each message to other ranks, in addition to latency_s */
} tn_simulate_options;
#define TN_SIMULATE_OPTIONS_INIT                                                                   \
    TN_INIT(tn_simulate_options, TN_SET(struct_size, sizeof(tn_simulate_options)))

/* A stall: stream 0 was ready and had to wait. */
typedef struct tn_stall {
    uint32_t step;                  /* the instruction that waited */
    uint32_t on;                    /* the instruction that it waited for */
    uint64_t start_ps, duration_ps; /* from the start of the run */
} tn_stall;

typedef struct tn_simulation {
    uint64_t total_ps;   /* until the last instruction of all streams has ended; saturating */
    uint64_t compute_ps; /* sum over all APPLY, ENCODE, DECODE, including concurrent ones */
    uint64_t stall_ps;   /* sum of all stalls */
    uint64_t to_host_ps, from_host_ps; /* busy time of each direction */
    uint64_t to_host_bytes, from_host_bytes, peer_bytes;
    tn_stall *stalls; /* [stall_count] in order */
    uint32_t stall_count;
    uint32_t guesses;                             /* estimates for control flow */
    uint64_t from_storage_ps, from_storage_bytes; /* of FETCH */
} tn_simulation;

/* Predicts the run time of a program.
 *
 * simulation  out; release with tn_simulation_release
 *
 * Errors: E_INVALID (a rate or latency that is negative or not finite; an occupancy of another
 * program), E_NO_MEMORY. Cost: O(instructions + operands), times the depth of control flow; plus
 * O(signals log signals) with signals and O(lives log lives) with an occupancy. */
TN_API TN_CHECKED tn_status tn_simulate(const tn_program *program,
                                        const tn_simulate_options *options,
                                        tn_simulation *simulation, tn_error *error);
TN_API void tn_simulation_release(tn_simulation *simulation); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
