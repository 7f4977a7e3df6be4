/* pass.h - the interface of a pass, and the data types it uses.
 *
 * A pass is an algorithm that finds a schedule within a budget. It is one file in passes/ that
 * fills in one tn_pass, plus one line in passes.def. It decides which values are kept, recomputed,
 * copied to the host or encoded, and when. answer.c turns the decisions into instructions, live
 * ranges, offsets, a proof and a time, in one way for all passes.
 *
 * A pass gets a budget for the bytes that are live at one time. A layout needs more bytes than
 * that, for alignment and holes between tensors. The frame therefore plans the resulting program.
 * If the layout exceeds the real budget, the frame lowers the budget that the pass sees, and asks
 * again.
 */
#ifndef TN_BUDGET_PASS_H
#define TN_BUDGET_PASS_H

#include <tenure/graph.h>

#include "fit/budget/refusal.h"
#include "fit/budget/schedule/schedule_graph.h"

/* tn_pass.features. The first four are the techniques that the pass can use; requests for others
 * are refused, or the technique is switched off. The rest are properties of the pass. */
enum {
    TN__PASS_RECOMPUTES = 1u << 0,
    TN__PASS_SWAPS = 1u << 1,
    TN__PASS_COMPRESSES = 1u << 2,
    TN__PASS_ORDERS = 1u << 3, /* the pass may change the order of first runs */
    /* the pass takes a budget and tries to meet it; a pass without this flag has only one result */
    TN__PASS_BUDGETS = 1u << 4,
    /* the pass needs the operators, so it cannot solve problems without a graph */
    TN__PASS_GRAPH = 1u << 5,
    TN__PASS_CHAIN =
        1u << 6, /* the pass handles only chains (tn__chain_of) and refuses other schedule graphs */
    /* the pass searches completely: if it finds no schedule and no limit stopped it, it has proved
     * that none exists */
    TN__PASS_COMPLETE = 1u << 7
};

enum { /* techniques that a run allows: tn__pass_run.allow */
       TN__ALLOW_ORDER = 1u << 0,
       TN__ALLOW_RECOMPUTE = 1u << 1,
       TN__ALLOW_SWAP = 1u << 2,
       TN__ALLOW_COMPRESS = 1u << 3,
       TN__ALLOW_LOSSY = 1u << 4
};

typedef struct tn__pass_run tn__pass_run;

typedef struct tn_pass {
    const char *name;    /* the name that users type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, without a full stop */
    const char *source;  /* the paper, book or tool that describes the idea */
    uint32_t features;   /* TN__PASS_*: techniques and properties of the pass */
    /* Searches for a schedule and offers it with tn__pass_offer, which fills run->best. Errors:
     * E_INFEASIBLE (the pass proved that no schedule with its techniques fits), E_STOPPED (no
     * schedule was found, or a limit stopped the pass; see run->ended). Neither has a message,
     * because the frame calls passes many times for one answer. */
    tn_status (*solve)(tn__pass_run *run);
} tn_pass;

/* A call of a pass. The pass may read every field, but writes only through the functions below. */
struct tn__pass_run {
    const tn_pass *pass;
    const tn__dag *dag;
    const tn_graph *graph; /* the graph of the program; NULL: a problem without a graph */
    tn__arena *arena;      /* memory that is released when the pass ends */
    tn_context context;
    tn_error *error;
    uint64_t budget; /* limit for the bytes that are live at one time, without dag->fixed_bytes */
    uint64_t host_budget; /* limit for the bytes of copies on the host; UINT64_MAX: no limit */
    uint32_t allow;       /* TN__ALLOW_*: the allowed techniques; a pass may support fewer */
    uint64_t seed;
    /* a schedule for another budget of this schedule graph, to start from; NULL: no schedule */
    const tn__schedule *warm;
    /* true: the caller does not need lower bounds for this budget, so the pass need not compute
     * any */
    bool no_bound;
    /* the cost of a known schedule within this budget; a schedule that costs more is useless; 0: no
     * such schedule is known */
    uint64_t incumbent;
    /* true: for this budget, schedules with fewer techniques (only repeats, or copies without
     * codecs) were searched before */
    bool fewer_known;
    /* true: a schedule with only repeats is within the budget, but takes at least `incumbent` */
    bool runs_fit;
    /* true: stop at the first schedule within the budget, because the caller only searches for the
     * smallest budget */
    bool feasible_only;
    /* true: only a proof that no schedule is within the budget is needed; offered schedules are not
     * kept */
    bool only_proof;
    /* bytes that the link copies to and from the host per unit of cost; 0: no host link */
    double out_rate, in_rate;
    double codec_rate; /* bytes that ENCODE and DECODE process per unit of cost */
    uint32_t codecs;   /* a bit 1 << tn_codec for each allowed codec */
    /* [value_count] measured fraction of the value's elements that are 0; negative: unknown */
    const float *zeros;
    /* NULL, or [job_count] number of the user's segment to which the job belongs, from 1 */
    const uint8_t *segments;
    /* the results of the pass: the best schedule so far */
    tn__schedule best;
    tn__replay found; /* the judge's measurements (peak, cost, copied bytes) of `best` */
    uint64_t time;    /* time of `best` including copies, from tn__pass_time */
    bool has_best;
    /* a proved lower bound: every allowed schedule within the budget takes at least this time */
    uint64_t bound;
    /* a proved lower bound: the layout of every schedule has at least this many bytes */
    uint64_t least_bytes;
    /* limits */
    uint64_t work_done, work_limit; /* units of work done, and their limit; 0: no limit */
    double deadline;   /* a time of tn__clock_s at which the pass must stop; 0: no limit */
    uint64_t asked;    /* value of work_done when the clock and the caller were last asked */
    tn__ended ended;   /* why the pass has to stop: the time limit (TIME), or the caller (CALLER) */
    tn__text *explain; /* receives a line of explanation for each decision; NULL: not wanted */
};

/* Lets the judge check a schedule, and keeps it if it is within the budget and takes less time than
 * the best so far, or as much time and fewer bytes. *kept: whether it was kept. Does nothing if
 * only a proof is needed (only_proof). Errors: E_INVALID (tn__replay_schedule refuses the schedule,
 * which is a mistake of the pass), E_NO_MEMORY. */
tn_status tn__pass_offer(tn__pass_run *run, const tn__schedule *schedule, bool *kept);
/* A callback for tn__pass_time: `waits` is called when the first run of a job waits for a copy of a
 * value that the job reads. */
typedef struct tn__pass_watch {
    void (*waits)(void *self, uint32_t value, uint32_t job, uint64_t time);
    void *self;
} tn__pass_watch;
/* Returns the time of a schedule including its copies, in the unit of costs: compute, both
 * directions of the host link and codecs run in parallel, as in tn_simulate. The schedule must be
 * one that tn__replay_schedule accepts. `watch` may be NULL. Returns UINT64_MAX if memory is
 * exhausted. Cost: O(actions + operands). */
uint64_t tn__pass_time(const tn__pass_run *run, const tn__schedule *schedule,
                       const tn__pass_watch *watch);
/* Counts units of work; a unit is about one look at a job or value. Returns E_STOPPED, without a
 * message, if a limit is reached or the caller cancelled. */
tn_status tn__pass_work(tn__pass_run *run, uint64_t units);
void tn__pass_raise_bound(tn__pass_run *run, uint64_t time);
/* The default number of units of work that the pass `joint` spends on a run: a little more than a
 * third of a second, plus an amount for each job. */
uint64_t tn__pass_effort(const tn__dag *dag);

/* The registry of passes. */
uint32_t tn__pass_count(void);
const tn_pass *tn__pass_at(uint32_t index);
const tn_pass *tn__pass_named(const char *name);
/* Finds a pass by name. Errors: E_UNKNOWN with the most similar name. */
tn_status tn__pass_find(const char *name, const tn_pass **pass, tn_error *error);
/* Runs another pass on a run that is in progress, for a pass that combines several. If the run
 * kept a schedule that the other pass offered, it stays the best of the run until a better one is
 * offered. */
tn_status tn__pass_solve(tn__pass_run *run, const tn_pass *pass);

/* --- questions about operators, answered by the registry of operators ------------------------- */

/* Whether an operator is a convolution, of any domain and in any form (forward, gradient, fused).
 * For TN_NONE, or without a graph, this and the following functions return false or 0. */
bool tn__kind_is_conv(const tn_graph *graph, tn_op_id op);
/* whether the operator is a matrix product, or contains one, as attention does */
bool tn__kind_is_matmul(const tn_graph *graph, tn_op_id op);
/* The bit mask tn_op_rule.signs: one bit for each input of which the operator only needs to know
 * which elements are positive. */
uint64_t tn__kind_signs(const tn_graph *graph, tn_op_id op);

#endif
