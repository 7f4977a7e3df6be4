/* evict.h - a budget of bytes while nobody knows what comes next: policies that evict.
 *
 *     for (uint32_t i = 0; i < tn_evict_policy_count(); i++)
 *         printf("%-10s %s\n", tn_evict_policy_name(i), tn_evict_policy_summary(i));
 *
 * When memory is full and a value is to be made, others go: they are dropped and computed again
 * when somebody asks for them, or copied to the host and back. Which of them goes is the policy's
 * choice, made from what has been seen so far and nothing else.
 *
 * Units: bytes; costs in the unit of whoever computes (nanoseconds in logs).
 */
#ifndef TENURE_EVICT_H
#define TENURE_EVICT_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- policies: one file each ---------------------------------------------------------- */

TN_API uint32_t tn_evict_policy_count(void);
/* index < tn_evict_policy_count(). Static texts. */
TN_API const char *tn_evict_policy_name(uint32_t index);    /* what people type */
TN_API const char *tn_evict_policy_summary(uint32_t index); /* one line */
TN_API const char *tn_evict_policy_source(uint32_t index);  /* where the idea comes from */

/* What was done for the budget's sake, since the beginning. */
typedef struct tn_evict_counts {
    uint64_t plain_cost, plain_ops;       /* first runs of operators */
    uint64_t remade_cost, remade_ops;     /* runs again */
    uint64_t drop_count, dropped_bytes;   /* evictions to be computed again */
    uint64_t swap_count, swapped_bytes;   /* evictions to the host */
    uint64_t fetch_count, fetched_bytes;  /* copies back from the host */
    uint64_t swap_cost;                   /* of copies both ways, by the link's rate */
    uint64_t move_count, moved_bytes;     /* by compaction */
    uint64_t move_cost;                   /* by the rate of moves */
    uint64_t search_count;                /* times that a policy was asked */
    uint64_t evaluation_count;            /* candidates that it looked at */
    uint64_t access_count;                /* records touched, as DTR's authors count them */
    double search_s;                      /* seconds of choosing who goes, and of a policy's records
                                           * of who went and came back (one in 16 of these is timed,
                                           * for all); when they are timed */
    uint64_t bytes, peak_bytes;           /* resident, now and at most; scratch included */
    uint64_t reach_bytes;                 /* with addresses: the highest byte in use, ever */
    uint64_t hole_count;                  /* allocations for which free bytes would have done, */
    uint64_t hole_bytes;                  /* and addresses did not; bytes evicted more for it */
    uint64_t host_bytes, host_peak_bytes; /* of copies on the host */
    uint64_t restart_count;               /* times that locked operands were given up for room */
    uint64_t spent_count, spent_bytes;    /* values let go that nobody referred to and nothing could
                                           * make again */
} tn_evict_counts;

/* What must be there at once whatever a policy decides, as long as nothing is copied to the host:
 * no budget below it can do. More may be needed, for what is made again on the way. */
typedef struct tn_evict_least {
    uint64_t bytes;   /* at the operator that needs most */
    uint64_t pinned;  /* of it, at fixed places: parameters, states, constants */
    uint64_t held;    /* that somebody refers to and nothing makes again: data, gradients */
    uint64_t working; /* the operator's other operands, its results and its scratch */
    uint64_t op;      /* which: so many ran before it, values from outside among them */
    const char *name; /* of the operator, or of what was put; NULL: all that is there at the end */
} tn_evict_least;

/* --- recorded runs ----------------------------------------------------------------------- */

/* What a program did, operator by operator: a log in the line format of DTR's simulator
 * (docs/eager.md has it), or of a recorder of ours. */
typedef struct tn_evict_log tn_evict_log;
typedef struct tn_evict_log_facts {
    uint32_t op_count, tensor_count; /* calls; values, views and constants too */
    uint32_t constant_count;
    uint64_t constant_bytes; /* held all the time */
    uint64_t plain_cost;     /* nanoseconds of all calls */
} tn_evict_log_facts;

/* path: "-" is standard input. Errors: E_INVALID (bad line: where says file:line), E_IO,
 * E_NO_MEMORY, E_UNSUPPORTED (a build without JSON). Cost: O(bytes). */
TN_API TN_CHECKED tn_status tn_evict_log_load(const tn_context *context, const char *path,
                                              tn_evict_log **log, tn_error *error);
/* The same from memory; `file` is its name in messages. */
TN_API TN_CHECKED tn_status tn_evict_log_parse(const tn_context *context, const void *bytes,
                                               size_t size, const char *file, tn_evict_log **log,
                                               tn_error *error);
TN_API void tn_evict_log_destroy(tn_evict_log *log);
TN_API const tn_evict_log_facts *tn_evict_log_about(const tn_evict_log *log);

/* --- simulation ------------------------------------------------------------------------ */

typedef struct tn_evict_options {
    size_t struct_size;        /* sizeof(tn_evict_options) */
    const tn_context *context; /* NULL: the log's */
    const char *policy;        /* NULL: the default */
    uint64_t budget;           /* bytes; constants count */
    bool addresses;            /* in one arena of the budget; else by bytes alone */
    uint64_t alignment;        /* with addresses: of places; 0: 64 */
    double overhead_max;       /* gives up beyond so many times the plain cost; 0: never */
    uint64_t link_bytes_per_s; /* to the host, for policies that swap; 0: there is none */
    uint64_t host_bytes;       /* room there; 0: without end */
    uint64_t move_bytes_per_s; /* of compaction; 0: 10^11 */
    uint64_t seed;
    bool sample;      /* look at sqrt(n) candidates of n */
    bool time_search; /* fill counts.search_s */
} tn_evict_options;
#define TN_EVICT_OPTIONS_INIT                                                                      \
    TN_INIT(tn_evict_options, TN_SET(struct_size, sizeof(tn_evict_options)))

typedef enum tn_evict_end {
    TN_EVICT_DONE,
    TN_EVICT_FULL, /* the budget does not do: nothing else can go */
    TN_EVICT_OVER  /* more than overhead_max */
} tn_evict_end;

typedef struct tn_evict_outcome {
    tn_evict_end end;
    uint32_t line;   /* of the log at which it ended; 0: at its end */
    uint64_t needed; /* FULL: bytes that would have done for that step */
    uint64_t cost;   /* plain, again, swaps, moves */
    double overhead; /* cost / plain cost of the log; meaningful when DONE */
    tn_evict_counts counts;
    char message[400]; /* FULL: who holds the memory */
} tn_evict_outcome;

/* Replays a log under a budget. By bytes alone DTR's policies do what DTR's simulator does, integer
 * for integer: resident results of an operator that runs again take their bytes twice, histories
 * are never forgotten. What is referred to when the log ends must be there together.
 *
 * Errors: E_UNKNOWN (policy), E_INVALID (options), E_NO_MEMORY. A budget that does not do is an
 * outcome. Cost: that of the policy. */
TN_API TN_CHECKED tn_status tn_evict_simulate(const tn_evict_log *log,
                                              const tn_evict_options *options,
                                              tn_evict_outcome *outcome, tn_error *error);
/* Bytes at the most, when nothing is ever evicted. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_evict_plain_peak(const tn_evict_log *log, uint64_t *bytes,
                                                tn_error *error);

/* What no budget can do without: see tn_evict_least. Errors: E_NO_MEMORY. Cost: O(operators x
 * values that live at once). */
TN_API TN_CHECKED tn_status tn_evict_plain_least(const tn_evict_log *log, tn_evict_least *least,
                                                 tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
