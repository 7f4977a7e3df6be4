/* fit.h - finds the fastest program that stays within a budget of bytes.
 *
 *     // ... program: of tn_program_create; costs: of tn_costs_measure or a model
 *     // ... fixed: bytes on the device outside the arena, such as weights
 *     tn_fit_options options = TN_FIT_OPTIONS_INIT;
 *     tn_fit_result result;
 *     options.budget = UINT64_C(2) << 30;
 *     options.fixed_bytes = fixed;
 *     tn_status status = tn_fit(program, costs, &options, &result, &error);
 *     if (status == TN_OK)
 *         printf("%.3f of the time\n", (double)result.time / (double)result.plain_time);
 *     else if (result.program != NULL)
 *         printf("smallest found: %llu bytes\n", (unsigned long long)result.bytes);
 *     tn_fit_release(&result);
 *
 * If tensors do not fit, they are recomputed, swapped (copied to the host and back), or kept
 * encoded. A pass makes these decisions (`tenure list passes`). The frame around it turns the
 * decisions into a program, lays it out and verifies the layout. If alignment and holes take the
 * layout above the budget, the frame asks the pass for fewer bytes, until the layout fits.
 *
 * The program of one of several ranks (dist.h) can be fitted, too. Its communication keeps its
 * place, so that ranks need not know each other's budgets; reordering and codecs are not tried.
 *
 * Some identifiers use other words: a life is a live range, a fate is a decision about a tensor, an
 * occupancy is the result of liveness analysis and buffer assignment, a link is the transfer path
 * between host and device.
 * Units: bytes. Times have the unit of the costs: picoseconds, except for problems (costs.h).
 * Threads: program and costs are only read; a result belongs to one thread.
 */
#ifndef TENURE_FIT_H
#define TENURE_FIT_H

#include <tenure/costs.h>
#include <tenure/rules.h>
#include <tenure/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {                         /* tn_fit_options.allow */
       TN_FIT_ORDER = 1u << 0, /* reorder operators */
       TN_FIT_RECOMPUTE = 1u << 1,
       TN_FIT_SWAP = 1u << 2,     /* over the link; its rates must be given */
       TN_FIT_COMPRESS = 1u << 3, /* keep tensors encoded, without loss */
       TN_FIT_LOSSY = 1u << 4,    /* also with loss: the results change */
       /* Only for tn_fit_graph (claim.h), as they change the graph or move weights: */
       TN_FIT_SPLIT =
           1u << 5, /* split operators into tiles; tensors between them may be recomputed */
       TN_FIT_STREAM = 1u << 6 /* weight streaming: read weights from their file on demand */
};

typedef struct tn_fit_options {
    size_t struct_size;
    /* NULL: the context of the graph. If its progress callback cancels, the best result so far is
     * returned, if one was found. */
    const tn_context *context;
    uint64_t budget;      /* bytes on the device; required */
    uint64_t fixed_bytes; /* bytes of the budget that are outside the arena: weights */
    uint64_t host_budget; /* bytes for tensors that are swapped out; 0: no limit */
    const char *pass;     /* name of the pass; NULL: "joint" */
    uint32_t allow;       /* TN_FIT_*; 0: ORDER and RECOMPUTE */
    double to_host_bytes_per_s, from_host_bytes_per_s; /* bytes per second for SWAP */
    const tn_occupancy_options *memory;                /* how bytes are counted; NULL: defaults */
    /* Options for layouts; NULL: defaults. Its capacity is not read. Without a planner it is
     * "fast" (a fast planner). */
    const tn_plan_options *plan;
    /* The budget is for the bytes that are live at once, without regard to addresses, as problems
     * count them. A layout is still made and reported. */
    bool live;
    /* Accept any program that fits, found quickly, for callers that only need to know whether one
     * exists. If none is found, the smallest program is not searched for, and the result has no
     * program. */
    bool any;
    uint64_t seed, work_limit; /* of the search; work_limit 0: the search ends at its own limit */
    double timeout_s;          /* stops the search early; 0: no limit */
    /* for the pass "segments": patterns of operator names, with * and ? */
    const char *const *segments;
    uint32_t segment_count;
    /* [tensors] measured share of elements that are 0; below 0: unknown. NULL: unknown for all
     * tensors. */
    const float *zeros;
    uint32_t codecs; /* bit 1 << tn_codec for each codec to use; 0: all that `allow` permits */
    /* receives each decision as a line of text; NULL: not called */
    void (*explain)(void *self, const char *line);
    void *explain_self;
    /* Rules about single tensors; NULL: none. With RECOMPUTE or SWAP rules, operators keep their
     * order. If the budget cannot be met, the message names the rule that prevents it. */
    const tn_rules *rules;
} tn_fit_options;
#define TN_FIT_OPTIONS_INIT TN_INIT(tn_fit_options, TN_SET(struct_size, sizeof(tn_fit_options)))

typedef struct tn_fit_result {
    tn_program *program; /* NULL: no program was found */
    tn_occupancy *occupancy;
    tn_layout layout;      /* of the arena, verified */
    tn_problem *host;      /* layout problem of the host memory; NULL: not used */
    tn_layout host_layout; /* its peak is the host memory needed, in bytes */
    const char *pass;      /* the pass that found it, static; "none": no change was needed */
    /* fixed_bytes + the peak of the layout; with `live`, fixed_bytes + the bytes that are live at
     * once. */
    uint64_t bytes;
    uint64_t live_bytes;  /* live bytes of the arena at the peak step */
    uint64_t plain_bytes; /* `bytes` of the given program */
    uint64_t time;        /* predicted, including copies (tn_simulate) */
    uint64_t plain_time;  /* predicted for the given program */
    /* Proved: no allowed program within the budget takes less time. */
    uint64_t time_bound;
    uint64_t bytes_bound; /* proved: no allowed program needs fewer bytes */
    uint64_t to_host_bytes, from_host_bytes, stall;
    uint64_t work;   /* effort of the search; deterministic */
    double seconds;  /* wall time of the search */
    uint32_t rounds; /* times that a pass was asked */
    bool stopped;    /* a limit or the caller ended the search early */
} tn_fit_result;

/* Finds the fastest program within the budget.
 *
 * result  out; must be released, also after an error
 * Errors: E_INFEASIBLE (proved: no program fits), E_EXHAUSTED (none was found), E_STOPPED (a limit
 * was reached before any program was found), E_INVALID (no budget, rates that are not positive,
 * costs of another graph), E_UNKNOWN (a pass), E_UNSUPPORTED (the pass does not model this
 * request), E_NO_MEMORY. Rules: E_INVALID if a pattern matches no operator, if two rules of
 * different kinds match the same operator, or if a rule changes nothing.
 * With E_INFEASIBLE and E_EXHAUSTED the result is the smallest program that was found, and `bytes`
 * its size. Without a limit this size is the same for every budget and all costs (with `live`, for
 * the given costs). Budgets of at least this size succeed, smaller ones fail.
 * Cost: that of the pass and of a plan, about ten times.
 * Source: Jain et al., "Checkmate" (MLSys 2020), for the problem; tn_pass_source for the methods.
 */
TN_API TN_CHECKED tn_status tn_fit(const tn_program *program, const tn_costs *costs,
                                   const tn_fit_options *options, tn_fit_result *result,
                                   tn_error *error);
/* Finds the program with the fewest bytes, without regard to time. `budget` is not read. Otherwise
 * as tn_fit. */
TN_API TN_CHECKED tn_status tn_fit_least(const tn_program *program, const tn_costs *costs,
                                         const tn_fit_options *options, tn_fit_result *result,
                                         tn_error *error);
/* Computes the curve of memory against time for `count` budgets, evenly spaced from the smallest
 * program to the bytes of the given program. A program that was found for a smaller budget is used
 * for a larger one if it is faster there. So a larger budget never has a slower result.
 *
 * budgets  out, [count], rising
 * results  out, [count], each with its program; release each one, also after an error */
TN_API TN_CHECKED tn_status tn_fit_sweep(const tn_program *program, const tn_costs *costs,
                                         const tn_fit_options *options, uint32_t count,
                                         uint64_t *budgets, tn_fit_result *results,
                                         tn_error *error);
TN_API void tn_fit_release(tn_fit_result *result); /* a zeroed result is fine */
/* Repeats the simulation that predicted a result's `time`, and records its steps as events, from 0
 * s on.
 *
 * costs, options  those of the result
 * Errors: those of tn_simulate. */
TN_API TN_CHECKED tn_status tn_fit_trace(const tn_fit_result *result, const tn_costs *costs,
                                         const tn_fit_options *options, tn_trace *trace,
                                         tn_error *error);

/* The decision about a tensor in a program. */
typedef enum tn_fate {
    TN_FATE_KEPT,
    TN_FATE_RECOMPUTED,
    TN_FATE_SWAPPED,
    TN_FATE_ENCODED,
    TN_FATE_COUNT
} tn_fate;
TN_API const char *tn_fate_name(tn_fate fate);
/* fates  out, [tensors of the program's graph]; if several apply, the last in the order above */
TN_API void tn_program_fates(const tn_program *program, uint8_t *fates);

/* Tensors that have memory of their own, by decision. Encoded forms are not counted. */
typedef struct tn_fate_totals {
    uint32_t tensors[TN_FATE_COUNT];
    uint64_t bytes[TN_FATE_COUNT]; /* each tensor counts once, with its size before encoding */
} tn_fate_totals;
/* totals  out. Errors: E_NO_MEMORY. Cost: O(live ranges + instructions). */
TN_API TN_CHECKED tn_status tn_fit_fates(const tn_occupancy *occupancy, tn_fate_totals *totals,
                                         tn_error *error);

/* The passes (`tenure list passes`). */
TN_API uint32_t tn_pass_count(void);
TN_API const char *tn_pass_name(uint32_t index);
TN_API const char *tn_pass_summary(uint32_t index);
TN_API const char *tn_pass_source(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
