/* pass.h - the interface of a pass, and the data types it uses.
 *
 * A pass is one file in passes/ that fills in one tn_pass, plus one line in passes.def. It decides
 * which values are kept, recomputed, copied to the host or encoded, and when. answer.c turns the
 * decisions into instructions, live ranges, offsets, a proof and a time, in the same way for all
 * passes.
 *
 * A pass gets a budget for the bytes that are live at once. Alignment and holes between tensors
 * need more than that. The frame therefore plans the resulting program, lowers the budget that the
 * pass sees, and asks again.
 */
#ifndef TN_BUDGET_PASS_H
#define TN_BUDGET_PASS_H

#include <tenure/graph.h>

#include "fit/budget/refusal.h"
#include "fit/budget/schedule/schedule_graph.h"

enum { /* tn_pass.features: techniques that the pass models; others are refused or switched off */
       TN__PASS_RECOMPUTES = 1u << 0,
       TN__PASS_SWAPS = 1u << 1,
       TN__PASS_COMPRESSES = 1u << 2,
       TN__PASS_ORDERS = 1u << 3,  /* may change the order of first runs */
       TN__PASS_BUDGETS = 1u << 4, /* takes a budget and tries to meet it; without this flag the
                                    * pass has one answer */
       TN__PASS_GRAPH = 1u << 5,   /* needs to know the operators: cannot solve problems without
                                    * a graph */
       TN__PASS_CHAIN =
           1u << 6, /* models only chains (tn__chain_of); other schedule graphs are refused */
       TN__PASS_COMPLETE = 1u << 7 /* complete search: if the pass finds nothing, it proved that
                                    * nothing exists, unless a limit stopped it */
};

enum { /* tn__pass_run.allow */
       TN__ALLOW_ORDER = 1u << 0,
       TN__ALLOW_RECOMPUTE = 1u << 1,
       TN__ALLOW_SWAP = 1u << 2,
       TN__ALLOW_COMPRESS = 1u << 3,
       TN__ALLOW_LOSSY = 1u << 4
};

typedef struct tn__pass_run tn__pass_run;

typedef struct tn_pass {
    const char *name;    /* the name users type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, without a full stop */
    const char *source;  /* the paper, book or tool that describes the idea */
    uint32_t features;   /* TN__PASS_* */
    /* Fills run->best by tn__pass_offer. E_INFEASIBLE: proved that no schedule with its techniques
     * fits; E_STOPPED: no schedule was found, or a limit stopped the pass (run->ended). These two
     * have no message: the frame asks many times for one answer. */
    tn_status (*solve)(tn__pass_run *run);
} tn_pass;

/* A call in progress. A pass may read every field, and writes only through the functions below. */
struct tn__pass_run {
    const tn_pass *pass;
    const tn__dag *dag;
    const tn_graph *graph; /* NULL: a problem without a graph */
    tn__arena *arena;      /* scratch that lives until the end of the run */
    tn_context context;
    tn_error *error;
    uint64_t budget;      /* bytes that may live at once, without dag->fixed_bytes */
    uint64_t host_budget; /* UINT64_MAX: no limit */
    uint32_t allow;       /* TN__ALLOW_*: allowed techniques; a pass may know fewer */
    uint64_t seed;
    const tn__schedule
        *warm;          /* NULL, or the schedule for another budget of the same schedule graph */
    bool no_bound;      /* the caller has no use for lower bounds for this budget */
    uint64_t incumbent; /* incumbent cost: the cost of a known schedule for the same
                               * budget; schedules that cost more are useless; 0: no such
                               * schedule is known */
    bool fewer_known;   /* schedules with fewer techniques (only repeats; copies without codecs)
                       * were already searched for this budget */
    bool runs_fit;      /* schedules with only repeats are within the budget, but take at least
                       * `incumbent` */
    bool feasible_only; /* the first schedule within the budget suffices: the caller searches for
                       * the smallest budget */
    bool only_proof; /* only a proof of infeasibility is wanted: offered schedules are not kept */
    double out_rate, in_rate; /* bytes per unit of cost in each direction; 0: no host link */
    double codec_rate;        /* bytes that ENCODE and DECODE process per unit of cost */
    uint32_t codecs;          /* bit 1 << tn_codec: the allowed codecs */
    const float *zeros;       /* [value_count] measured fraction of elements that are 0; below 0:
                               * unknown */
    const uint8_t *segments;  /* NULL, or [job_count] mark of the job's segment, from 1 */
    /* results so far */
    tn__schedule best;
    tn__replay found; /* measurements of best */
    uint64_t time;    /* time of best, including copies: by tn__pass_time */
    bool has_best;
    uint64_t bound;       /* proved: every allowed schedule within the budget takes at least this
                           * time */
    uint64_t least_bytes; /* proved: no schedule has a lower peak */
    /* limits */
    uint64_t work_done, work_limit; /* 0: no limit */
    double deadline;                /* in terms of tn__clock_s; 0: no limit */
    uint64_t asked;                 /* work_done at the last check of the clock and the caller */
    tn__ended ended;                /* TIME or CALLER: the pass has to stop */
    tn__text *explain;              /* NULL: no explanations wanted; otherwise receives a line
                                     * for each decision */
};

/* Judges the schedule, and keeps it if it is within budget and takes less time than the best so far
 * (on ties: fewer bytes). Errors: E_INVALID (tn__replay_schedule refuses it, which is a mistake of
 * the pass), E_NO_MEMORY. */
tn_status tn__pass_offer(tn__pass_run *run, const tn__schedule *schedule, bool *kept);
/* Called when the first run of a job waits for a copy of a value that it reads. */
typedef struct tn__pass_watch {
    void (*waits)(void *self, uint32_t value, uint32_t job, uint64_t time);
    void *self;
} tn__pass_watch;
/* The time of a schedule including its copies: compute, both directions of the link and codecs run
 * as in simulate.h, in the unit of costs. tn__replay_schedule must accept the schedule. watch:
 * NULL, or a function to call. UINT64_MAX: out of memory. Cost: O(actions + operands). */
uint64_t tn__pass_time(const tn__pass_run *run, const tn__schedule *schedule,
                       const tn__pass_watch *watch);
/* Counts units of work (about one look at a job or value each). E_STOPPED, without a message: a
 * limit is reached, or the caller cancelled. */
tn_status tn__pass_work(tn__pass_run *run, uint64_t units);
void tn__pass_raise_bound(tn__pass_run *run, uint64_t time);
/* Default number of units that `joint` spends on a run: a little more than a third of a second,
 * plus an amount for each job. */
uint64_t tn__pass_effort(const tn__dag *dag);

/* The registry of passes, for the frame. */
uint32_t tn__pass_count(void);
const tn_pass *tn__pass_at(uint32_t index);
const tn_pass *tn__pass_named(const char *name);
/* Finds a pass by name. Errors: E_UNKNOWN with the most similar name. */
tn_status tn__pass_find(const char *name, const tn_pass **pass, tn_error *error);
/* Runs another pass on the same run (for a portfolio); schedules that it keeps stay kept. */
tn_status tn__pass_solve(tn__pass_run *run, const tn_pass *pass);

/* --- questions about operators, answered by the registry of operators ------------------------- */

/* For TN_NONE, or without a graph, nothing is known: the answer is false or 0. */
bool tn__kind_is_conv(const tn_graph *graph, tn_op_id op);   /* of any domain, in any form */
bool tn__kind_is_matmul(const tn_graph *graph, tn_op_id op); /* or it contains one, as attention */
/* tn_op_rule.signs: a bit for each input of which the operator only needs to know which elements
 * are above 0. */
uint64_t tn__kind_signs(const tn_graph *graph, tn_op_id op);

#endif
