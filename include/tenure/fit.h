/* fit.h - a budget of bytes, and the fastest program whose every byte fits.
 *
 *     // ... program: of tn_program_create; costs: of tn_costs_measure or a model
 *     // ... fixed: bytes on the device beside the arena, as of weights
 *     tn_fit_options options = TN_FIT_OPTIONS_INIT;
 *     tn_fit_result result;
 *     options.budget = UINT64_C(2) << 30;
 *     options.fixed_bytes = fixed;
 *     tn_status status = tn_fit(program, costs, &options, &result, &error);
 *     if (status == TN_OK)
 *         printf("%.3f of the time\n", (double)result.time / (double)result.plain_time);
 *     else if (result.program != NULL)
 *         printf("the least there is: %llu\n", (unsigned long long)result.bytes);
 *     tn_fit_release(&result);
 *
 * What lives longer than the budget allows is computed again, copied to the host and back, or kept
 * encoded. A pass decides (`tenure list passes`); the frame makes a program of it, its layout,
 * which is verified, and corrects what the pass may use by what alignment and holes took, until the
 * layout is within the budget.
 *
 * A program of one of several ranks (dist.h) is fitted as well: what it says to others stays in its
 * place, so that ranks need not know of each other's budgets; neither orders nor codecs are tried.
 *
 * Units: bytes; times are those of the costs, picoseconds but for problems (costs.h).
 * Threads: a program and costs are only read; a result belongs to one thread.
 */
#ifndef TENURE_FIT_H
#define TENURE_FIT_H

#include <tenure/costs.h>
#include <tenure/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {                         /* tn_fit_options.allow */
       TN_FIT_ORDER = 1u << 0, /* operators in another order */
       TN_FIT_RECOMPUTE = 1u << 1,
       TN_FIT_SWAP = 1u << 2,     /* over the link, whose rates are given */
       TN_FIT_COMPRESS = 1u << 3, /* kept encoded, without loss */
       TN_FIT_LOSSY = 1u << 4,    /* also with loss: the results change */
       /* Of tn_fit_graph alone (claim.h), as they change the graph or where weights are: */
       TN_FIT_SPLIT = 1u << 5, /* operators run in parts */
       TN_FIT_STREAM = 1u << 6 /* weights come from their file when they are needed */
};

typedef struct tn_fit_options {
    size_t struct_size;
    const tn_context *context; /* NULL: that of the graph. Its progress may cancel: then the best so
                                * far is the answer, if there is one */
    uint64_t budget;           /* bytes on the device; required */
    uint64_t fixed_bytes;      /* of them, that are outside the arena: weights */
    uint64_t host_budget;      /* bytes for what is copied away; 0: no limit */
    const char *pass;          /* NULL: "joint" */
    uint32_t allow;            /* TN_FIT_*; 0: ORDER and RECOMPUTE */
    double to_host_bytes_per_s, from_host_bytes_per_s; /* for SWAP */
    const tn_occupancy_options *memory; /* what bytes are counted with; NULL: defaults */
    const tn_plan_options *plan;        /* of layouts; NULL: defaults. Its capacity is not read;
                                         * without a planner it is `draft` */
    bool live; /* the budget is for what lives at once, wherever it lies: for problems that know no
                * addresses. The layout is made, and told, beside it */
    bool any;  /* whatever fits will do, found quickly: for who asks whether, not how fast. Where
                * nothing does, the least is not looked for: there is no program */
    uint64_t seed, work_limit;   /* of the search; 0: it ends by itself */
    double timeout_s;            /* 0: none; only ever stops early */
    const char *const *segments; /* patterns with * and ? of operators' names: for "segments" */
    uint32_t segment_count;
    const float *zeros; /* [tensors] share of elements that are 0, measured; below 0: unknown. NULL:
                         * nothing is known */
    uint32_t codecs;    /* bit 1 << tn_codec: encoded by these alone; 0: by all that `allow` lets */
    void (*explain)(void *self, const char *line); /* NULL: nobody asks; decisions, in words */
    void *explain_self;
} tn_fit_options;
#define TN_FIT_OPTIONS_INIT TN_INIT(tn_fit_options, TN_SET(struct_size, sizeof(tn_fit_options)))

typedef struct tn_fit_result {
    tn_program *program; /* NULL: none was found */
    tn_occupancy *occupancy;
    tn_layout layout;      /* of the arena, verified */
    tn_problem *host;      /* of what is on the host; NULL: nothing is */
    tn_layout host_layout; /* its peak is what the host must have */
    const char *pass;      /* that found it; "keep" where nothing had to be done. Static */
    uint64_t bytes;      /* fixed_bytes and the layout's peak; with `live` and what lives at once */
    uint64_t live_bytes; /* of the arena at the worst step */
    uint64_t plain_bytes; /* the same of the program as it was given */
    uint64_t time;        /* predicted, with copies (tn_simulate) */
    uint64_t plain_time;  /* of the program as it was given */
    uint64_t time_bound;  /* proved: no program within the budget takes less, of those allowed */
    uint64_t bytes_bound; /* proved: no program needs less */
    uint64_t to_host_bytes, from_host_bytes, stall;
    uint64_t work;   /* of the search: deterministic */
    double seconds;  /* of the search, wall time */
    uint32_t rounds; /* pass and layout, in turns */
    bool stopped;    /* a limit, or the caller, ended the search early */
} tn_fit_result;

/* The fastest program found within the budget.
 *
 * result  out, to be released whatever is returned
 * Errors: E_INFEASIBLE (proved: none exists), E_EXHAUSTED (none was found); for both the result is
 * the program that needs least, of those found, and `bytes` what that is: without a limit the same
 * for every budget and any costs (of problems that are `live`: for theirs); who asks for so many
 * is answered, and nobody who asks for fewer. E_STOPPED (a limit came
 * before any program), E_INVALID (no budget, rates that are none, costs of another graph),
 * E_UNKNOWN (a pass), E_UNSUPPORTED (a pass that does not model what is asked), E_NO_MEMORY.
 * Cost: that of the pass and of a plan, some ten times.
 * Source: Jain et al., "Checkmate" (MLSys 2020), for the question; tn_pass's sources for the
 * answers. */
TN_API TN_CHECKED tn_status tn_fit(const tn_program *program, const tn_costs *costs,
                                   const tn_fit_options *options, tn_fit_result *result,
                                   tn_error *error);
/* The program that needs least, whatever it takes; `budget` is not read. */
TN_API TN_CHECKED tn_status tn_fit_least(const tn_program *program, const tn_costs *costs,
                                         const tn_fit_options *options, tn_fit_result *result,
                                         tn_error *error);
/* The curve of memory against time: `count` budgets from the least to the plain program's bytes,
 * evenly. What was found for a smaller budget is used for a larger one where that is faster, so
 * time never falls as the budget shrinks.
 *
 * results  out, [count], each with its program; each to be released whatever is returned
 * budgets  out, [count], rising */
TN_API TN_CHECKED tn_status tn_fit_sweep(const tn_program *program, const tn_costs *costs,
                                         const tn_fit_options *options, uint32_t count,
                                         uint64_t *budgets, tn_fit_result *results,
                                         tn_error *error);
TN_API void tn_fit_release(tn_fit_result *result); /* zeroed is fine */
/* The simulation behind a result's `time`, once more, as events: steps alone, from 0 s on.
 * costs, options  those of the result. Errors: those of tn_simulate. */
TN_API TN_CHECKED tn_status tn_fit_trace(const tn_fit_result *result, const tn_costs *costs,
                                         const tn_fit_options *options, tn_trace *trace,
                                         tn_error *error);

/* What became of a tensor in a program. */
typedef enum tn_fate {
    TN_FATE_KEPT,
    TN_FATE_RECOMPUTED,
    TN_FATE_SWAPPED,
    TN_FATE_ENCODED,
    TN_FATE_COUNT
} tn_fate;
TN_API const char *tn_fate_name(tn_fate fate);
/* fates  out, [tensors of the program's graph]; of several the last in the order above */
TN_API void tn_program_fates(const tn_program *program, uint8_t *fates);

/* Tensors with memory of their own, by what became of them; of encoded forms, none. */
typedef struct tn_fate_totals {
    uint32_t tensors[TN_FATE_COUNT];
    uint64_t bytes[TN_FATE_COUNT]; /* each tensor once, as it is when nothing is done to it */
} tn_fate_totals;
/* totals  out. Errors: E_NO_MEMORY. Cost: O(lives + instructions). */
TN_API TN_CHECKED tn_status tn_fit_fates(const tn_occupancy *occupancy, tn_fate_totals *totals,
                                         tn_error *error);

/* The passes, for `tenure list passes`. */
TN_API uint32_t tn_pass_count(void);
TN_API const char *tn_pass_name(uint32_t index);
TN_API const char *tn_pass_summary(uint32_t index);
TN_API const char *tn_pass_source(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
