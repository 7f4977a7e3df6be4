/* pass.h - what a pass is, and the words it is written in.
 *
 * A pass is one file in passes/ that fills in one tn_pass, plus one line in passes.def. It decides
 * what is kept, computed again, copied to the host or encoded, and when; what is made of that
 * (instructions, lives, offsets, proof, time) is done around it by fit.c and is the same for all.
 *
 * A pass gets a budget for what lives at once. As alignment and holes between tensors take more
 * than that, the frame plans what came of it, lowers the budget that the pass sees, and asks again.
 */
#ifndef TN_BUDGET_PASS_H
#define TN_BUDGET_PASS_H

#include "budget/work.h"

enum { /* tn_pass.features: what it models; what is not said is refused, or switched off */
       TN__PASS_RECOMPUTES = 1u << 0,
       TN__PASS_SWAPS = 1u << 1,
       TN__PASS_COMPRESSES = 1u << 2,
       TN__PASS_ORDERS = 1u << 3,  /* may change the order of first runs */
       TN__PASS_BUDGETS = 1u << 4, /* takes a budget and tries to meet it; without: one answer */
       TN__PASS_GRAPH = 1u << 5,   /* asks what the operators are: not for problems without graph */
       TN__PASS_CHAIN = 1u << 6, /* models chains alone (tn__chain_of); anything else is refused */
       TN__PASS_COMPLETE = 1u << 7 /* what it does not find is proved not to be, but for limits */
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
    const char *name;    /* what people type: [a-z0-9-]+ */
    const char *summary; /* one line for --help, no full stop */
    const char *source;  /* paper, book or peer the idea comes from */
    uint32_t features;   /* TN__PASS_* */
    /* Fills run->best by tn__pass_offer. E_INFEASIBLE: proved that no schedule of what it may do
     * fits; E_STOPPED: none was found, or a limit came first */
    tn_status (*solve)(tn__pass_run *run);
} tn_pass;

/* A call in progress. A pass reads all, and writes through the functions below. */
struct tn__pass_run {
    const tn_pass *pass;
    const tn__work *work;
    const tn_graph *graph; /* NULL: none */
    tn__arena *arena;      /* scratch that lives until the end of the run */
    tn_context context;
    tn_error *error;
    uint64_t budget;      /* bytes that may live at once, without work->fixed_bytes */
    uint64_t host_budget; /* UINT64_MAX: none */
    uint32_t allow;       /* TN__ALLOW_*, of what the pass models */
    uint64_t seed;
    const tn__schedule *warm; /* NULL, or an answer for another budget, of the same work */
    bool no_bound;            /* what is proved for this budget is of no use */
    uint64_t beaten; /* cost of a schedule of the same budget that there is already: dearer ones are
                      * of no use; 0: there is none */
    bool fewer_known; /* schedules of a part of what is allowed (runs alone; copies without codecs)
                       * were searched for this budget already */
    bool runs_fit;    /* and runs alone are within it, in no less time than `beaten` */
    bool any;         /* the first schedule within budget will do: the least budget is looked for */
    bool only_proof;  /* only a proof that there is none: nothing that is offered is kept */
    double out_rate, in_rate; /* bytes a unit of cost, each way; 0: there is no link */
    double codec_rate;        /* bytes that ENCODE and DECODE move in a unit of cost */
    uint32_t codecs;          /* bit 1 << tn_codec: those that may be used */
    const float *zeros; /* [value_count] share of elements that are 0, measured; below 0: unknown */
    const uint8_t
        *segments; /* NULL or [job_count] 1 and up: the segment that a job was marked with */
    /* what came of it so far */
    tn__schedule best;
    tn__replay found; /* of best */
    uint64_t time;    /* of best, with copies: by tn__pass_time */
    bool has_best;
    uint64_t bound;       /* proved: no schedule within budget of what is allowed takes less time */
    uint64_t least_bytes; /* proved: no schedule has a lower peak */
    /* limits */
    uint64_t work_done, work_limit; /* 0: none */
    double deadline;                /* of tn__clock_s; 0: none */
    uint64_t asked;                 /* work_done when the clock and the caller were last asked */
    bool cancelled;                 /* by the caller's progress */
    tn__text *explain;              /* NULL: nobody asked; else a line for each decision */
};

/* Judges the schedule and keeps it when it is within budget and takes less time than the best so
 * far (ties: fewer bytes). Errors: E_INVALID (what tn__replay_schedule refuses: a mistake of the
 * pass), E_NO_MEMORY. */
tn_status tn__pass_offer(tn__pass_run *run, const tn__schedule *schedule, bool *kept);
/* Called where the first run of a job waits for a copy of a value that it reads. */
typedef struct tn__pass_watch {
    void (*waits)(void *self, uint32_t value, uint32_t job, uint64_t time);
    void *self;
} tn__pass_watch;
/* What a schedule takes with its copies: compute, both directions of the link and codecs as in
 * simulate.h, in the unit of costs. The schedule is one that tn__replay_schedule accepts.
 * watch: NULL: nobody looks. UINT64_MAX: no memory. Cost: O(acts + operands). */
uint64_t tn__pass_time(const tn__pass_run *run, const tn__schedule *schedule,
                       const tn__pass_watch *watch);
/* Counts units of work (looks at a job or value, about). E_STOPPED when a limit is reached or the
 * caller cancelled. */
tn_status tn__pass_work(tn__pass_run *run, uint64_t units);
void tn__pass_raise_bound(tn__pass_run *run, uint64_t time);
/* Units that `joint` spends on a run of its own accord: a good third of a second, and more for each
 * job. */
uint64_t tn__pass_effort(const tn__work *work);

/* The registry, for the frame. */
uint32_t tn__pass_count(void);
const tn_pass *tn__pass_at(uint32_t index);
const tn_pass *tn__pass_named(const char *name);
/* The same, or E_UNKNOWN with the name that was probably meant. */
tn_status tn__pass_find(const char *name, const tn_pass **pass, tn_error *error);
/* Another pass on the same run (of a portfolio): what it keeps is kept. */
tn_status tn__pass_solve(tn__pass_run *run, const tn_pass *pass);

#endif
