/* evict.h - policies that evict tensors when a budget is full and the future is unknown.
 *
 *     for (uint32_t i = 0; i < tn_evict_policy_count(); i++)
 *         printf("%-10s %s\n", tn_evict_policy_name(i), tn_evict_policy_summary(i));
 *
 * If memory is full and a value must be stored, other values are evicted: dropped and recomputed on
 * demand, or swapped to the host and back. The policy decides from past operators and accesses
 * only.
 *
 * Units: bytes. Costs have the unit of the caller (nanoseconds in logs).
 */
#ifndef TENURE_EVICT_H
#define TENURE_EVICT_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- policies --------------------------------------------------------------------------- */

TN_API uint32_t tn_evict_policy_count(void);
/* index < tn_evict_policy_count(). The texts are static. */
TN_API const char *tn_evict_policy_name(uint32_t index);    /* name for options */
TN_API const char *tn_evict_policy_summary(uint32_t index); /* one line */
TN_API const char *tn_evict_policy_source(uint32_t index);  /* publication of the idea */

/* Counters since the beginning. */
typedef struct tn_evict_counts {
    uint64_t plain_cost, plain_ops;      /* first runs of operators */
    uint64_t remade_cost, remade_ops;    /* recomputations */
    uint64_t drop_count, dropped_bytes;  /* evictions by dropping */
    uint64_t swap_count, swapped_bytes;  /* evictions by copying to the host */
    uint64_t fetch_count, fetched_bytes; /* copies back from the host */
    uint64_t swap_cost;                  /* of copies both ways, at the rate of the link */
    uint64_t move_count, moved_bytes;    /* by compaction */
    uint64_t move_cost;                  /* at the rate of moves */
    uint64_t search_count;               /* searches for a candidate */
    uint64_t evaluation_count;           /* candidates considered */
    uint64_t access_count;               /* records touched, counted as DTR's authors do */
    /* Seconds spent on choosing candidates and on updating the records of a policy (extrapolated:
     * one in 16 updates is timed). Only if they are timed. */
    double search_s;
    uint64_t bytes, peak_bytes; /* resident, now and at peak; including scratch */
    uint64_t reach_bytes;       /* with addresses: the highest byte ever in use */
    uint64_t hole_count; /* allocations for which enough bytes were free, but not contiguous */
    uint64_t hole_bytes; /* additional bytes evicted for those */
    uint64_t host_bytes, host_peak_bytes; /* of copies on the host */
    uint64_t restart_count; /* times that locked operands were released to make room */
    /* Values released because they were unreferenced and could not be recomputed. */
    uint64_t spent_count, spent_bytes;
} tn_evict_counts;

/* The memory that any policy needs if nothing is copied to the host: a lower bound of every budget.
 * Recomputation can need more. */
typedef struct tn_evict_least {
    uint64_t bytes;   /* at the operator that needs most */
    uint64_t pinned;  /* part at fixed addresses: parameters, states, constants */
    uint64_t held;    /* part that is referenced and cannot be recomputed: data, gradients */
    uint64_t working; /* the operator's other operands, its results and its scratch */
    uint64_t op;      /* number of operators before it; values from outside count, too */
    const char *name; /* of the operator or the put tensor; NULL: all live values at the end */
} tn_evict_least;

/* --- recorded runs ----------------------------------------------------------------------- */

/* The operators of a run, in order: a log in the line format of DTR's simulator (docs/eager.md), or
 * of Tenure's recorder. */
typedef struct tn_evict_log tn_evict_log;
typedef struct tn_evict_log_facts {
    uint32_t op_count, tensor_count; /* calls; values, including views and constants */
    uint32_t constant_count;
    uint64_t constant_bytes; /* always resident */
    uint64_t plain_cost;     /* nanoseconds of all calls */
} tn_evict_log_facts;

/* Reads a log. `path` "-" is standard input. Errors: E_INVALID (bad line; error.where has
 * file:line), E_IO, E_NO_MEMORY, E_UNSUPPORTED (a build without JSON). Cost: O(bytes). */
TN_API TN_CHECKED tn_status tn_evict_log_load(const tn_context *context, const char *path,
                                              tn_evict_log **log, tn_error *error);
/* Reads a log from memory; `file` is its name in messages. */
TN_API TN_CHECKED tn_status tn_evict_log_parse(const tn_context *context, const void *bytes,
                                               size_t size, const char *file, tn_evict_log **log,
                                               tn_error *error);
TN_API void tn_evict_log_destroy(tn_evict_log *log);
TN_API const tn_evict_log_facts *tn_evict_log_about(const tn_evict_log *log);

/* --- simulation ------------------------------------------------------------------------ */

typedef struct tn_evict_options {
    size_t struct_size;        /* sizeof(tn_evict_options) */
    const tn_context *context; /* NULL: that of the log */
    const char *policy;        /* NULL: the default */
    uint64_t budget;           /* bytes, including constants */
    bool addresses;            /* in one arena with addresses; false: only bytes are counted */
    uint64_t alignment;        /* with addresses: alignment of each value; 0: 64 */
    double overhead_max;       /* stop above this multiple of the plain cost; 0: never */
    uint64_t link_bytes_per_s; /* to the host, for policies that swap; 0: no link */
    uint64_t host_bytes;       /* host memory; 0: no limit */
    uint64_t move_bytes_per_s; /* speed of compaction; 0: 10^11 */
    uint64_t seed;
    bool sample;      /* consider only sqrt(n) of n candidates */
    bool time_search; /* measure counts.search_s */
} tn_evict_options;
#define TN_EVICT_OPTIONS_INIT                                                                      \
    TN_INIT(tn_evict_options, TN_SET(struct_size, sizeof(tn_evict_options)))

typedef enum tn_evict_end {
    TN_EVICT_DONE,
    TN_EVICT_FULL, /* the budget is too small: nothing else can be evicted */
    TN_EVICT_OVER  /* overhead_max was exceeded */
} tn_evict_end;

typedef struct tn_evict_outcome {
    tn_evict_end end;
    uint32_t line;   /* line of the log at which it ended; 0: the end */
    uint64_t needed; /* FULL: bytes that would have sufficed for that step */
    uint64_t cost;   /* first runs, recomputations, swaps, moves */
    double overhead; /* cost / plain cost of the log; valid if DONE */
    tn_evict_counts counts;
    char message[400]; /* FULL: names the holders of the memory */
} tn_evict_outcome;

/* Replays a log under a budget. Without addresses, DTR's policies give the same integers as DTR's
 * simulator: resident results of a recomputed operator count twice, and histories are never
 * forgotten. Values that are referenced at the end of the log must be resident together.
 *
 * Errors: E_UNKNOWN (policy), E_INVALID (options), E_NO_MEMORY. A budget that is too small is an
 * outcome, not an error. Cost: that of the policy. */
TN_API TN_CHECKED tn_status tn_evict_simulate(const tn_evict_log *log,
                                              const tn_evict_options *options,
                                              tn_evict_outcome *outcome, tn_error *error);
/* Computes the peak in bytes if nothing is ever evicted. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_evict_plain_peak(const tn_evict_log *log, uint64_t *bytes,
                                                tn_error *error);

/* Computes a lower bound of every budget (tn_evict_least). Errors: E_NO_MEMORY. Cost: O(operators x
 * values that are live at once). */
TN_API TN_CHECKED tn_status tn_evict_plain_least(const tn_evict_log *log, tn_evict_least *least,
                                                 tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
