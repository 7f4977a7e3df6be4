/* simulate.h - how long a program takes, from what its instructions cost.
 *
 *     // ... program: of tn_program_create, or of a pass; costs: of tn_costs_measure
 *     tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
 *     tn_simulation simulation;
 *     options.costs = tn_costs_list(costs), options.again = tn_costs_again_list(costs);
 *     options.to_host_bytes_per_s = options.from_host_bytes_per_s = 12e9;
 *     if (tn_simulate(program, &options, &simulation, &error))
 *         return 2;
 *     // simulation.total_ps, of which simulation.stall_ps were waited
 *     tn_simulation_release(&simulation);
 *
 * What is modelled is the walk of an engine (engine.h). The list is walked in order by one thread.
 * What stands on stream 0, or blocks its caller (PUT, GET), is done there and then. What stands on
 * another stream is handed to it when the walk comes to it, and starts when the stream has done
 * what it was given before. Whoever waits for a signal starts when that was given. A copy also
 * needs its direction of the link, which serves one at a time, in the order of the list. Nothing
 * else takes time: not the walk itself, nor an instruction that only says what is dropped.
 *
 * Where control flow depends on data, a guess stands for it: of the branches of an operator the one
 * that takes longest, a loop as many turns as are known before the run, else one.
 * tn_simulation.guesses counts them.
 *
 * Units: picoseconds (TN_COSTS_PER_S of costs.h is a second), bytes.
 * Threads: any number at once, with a trace of their own.
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
    const uint64_t *costs;     /* [operators] of an APPLY; NULL: operators take no time */
    const uint64_t *again;     /* [operators] of an APPLY that runs its operator once more, in its
                                * repeat form where it has one; NULL: as `costs` */
    /* Bytes a second; 0: takes no time. Each direction by itself */
    double to_host_bytes_per_s;   /* GET, SWAP_OUT */
    double from_host_bytes_per_s; /* PUT, SWAP_IN */
    double peer_bytes_per_s;      /* SEND, RECV, REDUCE, ...: the other ranks are always ready */
    double codec_bytes_per_s;     /* ENCODE, DECODE: bytes of both forms */
    double latency_s;             /* of each copy and message, in which its direction is busy */
    /* Events, as a run writes them */
    tn_trace *trace;               /* NULL: none */
    const tn_occupancy *occupancy; /* of this program: what lives, and what begins and ends; NULL:
                                    * steps alone, with nothing alive */
    uint32_t run;                  /* number of the run in events */
    double start_s;                /* of it, on the clock of the events */
    /* FETCH: the file is a link of its own */
    double from_storage_bytes_per_s, storage_latency_s;
    const uint64_t *fetch_bytes; /* [tensors] that a FETCH reads; NULL: those of the tensor */
    double peer_latency_s;       /* of each message to other ranks, beside latency_s */
} tn_simulate_options;
#define TN_SIMULATE_OPTIONS_INIT                                                                   \
    TN_INIT(tn_simulate_options, TN_SET(struct_size, sizeof(tn_simulate_options)))

/* Stream 0 could have gone on and had to wait. */
typedef struct tn_stall {
    uint32_t step;                  /* who waited */
    uint32_t on;                    /* for the end of which instruction */
    uint64_t start_ps, duration_ps; /* from the start of the run */
} tn_stall;

typedef struct tn_simulation {
    uint64_t total_ps;   /* until the last instruction of the last stream has ended; saturating */
    uint64_t compute_ps; /* of all APPLY, ENCODE, DECODE; what runs side by side counts twice */
    uint64_t stall_ps;   /* of all stalls */
    uint64_t to_host_ps, from_host_ps; /* that each direction was busy */
    uint64_t to_host_bytes, from_host_bytes, peer_bytes;
    tn_stall *stalls; /* [stall_count] in order */
    uint32_t stall_count;
    uint32_t guesses;                             /* control flow that the run will decide */
    uint64_t from_storage_ps, from_storage_bytes; /* FETCH, as the others */
} tn_simulation;

/* simulation  out; released by tn_simulation_release
 * Errors: E_INVALID (a rate or latency that is negative, no number or without end; an occupancy of
 * another program), E_NO_MEMORY. Cost: O(instructions + operands), times the depth of control flow;
 * with signals O(signals log signals) more, with an occupancy O(lives log lives). */
TN_API TN_CHECKED tn_status tn_simulate(const tn_program *program,
                                        const tn_simulate_options *options,
                                        tn_simulation *simulation, tn_error *error);
TN_API void tn_simulation_release(tn_simulation *simulation); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
