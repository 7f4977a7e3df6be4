/* fit.h - fits a graph into a budget of bytes: tn_fit_graph, its options, rules and answer.
 *
 * search.h (experimental) has the single searches and the costs that they read.
 */
#ifndef TENURE_FIT_H
#define TENURE_FIT_H

#include <tenure/graph.h>
#include <tenure/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of experimental headers. Stable calls only pass pointers to them on. */
struct tn_costs;
struct tn_occupancy;
struct tn_occupancy_options;
struct tn_program;
struct tn_setup;
struct tn_setup_options;

/* --- rules ----------------------------------------------------------------------------------- */

/* Rules of the user about tensors: keep, recompute or swap the results of operators that
 * match a pattern, or recompute whole segments of a training step.
 *
 *     // ... graph: of tn_graph_load; tn_setup_create is experimental (engine.h)
 *     tn_rule list[] = {{"type:Relu", TN_RULE_RECOMPUTE, 0}, {"encoder*", TN_RULE_SWAP, 4}};
 *     tn_rules rules = TN_RULES_INIT;
 *     tn_setup_options options = TN_SETUP_OPTIONS_INIT;
 *     tn_setup *setup;
 *     rules.list = list;
 *     rules.count = 2;
 *     options.rules = &rules; // also obeyed by options.fit, and by tn_fit_graph
 *     tn_status status = tn_setup_create(graph, &options, &setup, &error);
 *     if (status == TN_OK) tn_setup_destroy(setup);
 *
 * One structure describes the rules once: tn_setup_options, tn_fit_options and
 * tn_recompute_options refer to it. A search within a budget decides about all other tensors.
 *
 * The early readers of a tensor are separated from the late ones. In a training step, late readers
 * belong to the backward pass. Otherwise the longest time without a reader separates them; time is
 * counted in operators. A tensor without late readers is left alone.
 */

typedef enum tn_rule_kind {
    TN_RULE_KEEP,      /* never recomputed, swapped or encoded */
    TN_RULE_RECOMPUTE, /* released after the last early reader, recomputed before the first late
                        * one. Sources that were released are recomputed first */
    TN_RULE_SWAP,      /* copied to the host after the last early reader, and back */
    TN_RULE_COUNT
} tn_rule_kind;

typedef struct tn_rule {
    const char *pattern; /* of operator names, or of operator types after "type:"; * and ? match
                          * any characters, and any one character */
    tn_rule_kind kind;
    uint32_t prefetch; /* SWAP: the copy back starts this many operators before the first late
                        * reader; 0: one operator */
} tn_rule;

typedef struct tn_rules {
    size_t struct_size;
    const tn_rule *list; /* [count] */
    uint32_t count;
    /* The operators of the forward pass form this many segments of equal length. In all but the
     * last segment, results that only their own segment and the backward pass read are recomputed,
     * unless a rule of the list matches the operator. 0: no segments */
    uint32_t segments;
} tn_rules;
#define TN_RULES_INIT TN_INIT(tn_rules, TN_SET(struct_size, sizeof(tn_rules)))

/* --- fit ------------------------------------------------------------------------------------- */

/* Finds the fastest program that stays within a budget of bytes.
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
 * A tn_occupancy is the result of liveness analysis and buffer assignment. The link is the transfer
 * path between host and device.
 * Units: bytes. Times have the unit of the costs: picoseconds, except for problems (search.h).
 * Threads: program and costs are only read; a result belongs to one thread.
 */

enum {                         /* tn_fit_options.allow */
       TN_FIT_ORDER = 1u << 0, /* reorder operators */
       TN_FIT_RECOMPUTE = 1u << 1,
       TN_FIT_SWAP = 1u << 2,     /* over the link; its rates must be given */
       TN_FIT_COMPRESS = 1u << 3, /* keep tensors encoded, without loss */
       TN_FIT_LOSSY = 1u << 4,    /* also with loss: the results change */
       /* Only for tn_fit_graph, as they change the graph or move weights: */
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
    const struct tn_occupancy_options *memory;         /* how bytes are counted; NULL: defaults */
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
    struct tn_program *program; /* NULL: no program was found */
    struct tn_occupancy *occupancy;
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
    uint64_t work;     /* effort of the search; deterministic */
    double seconds;    /* wall time of the search */
    uint32_t rounds;   /* times that a pass was asked */
    bool stopped;      /* a limit or the caller ended the search early */
    uint64_t spare[8]; /* 0 (status.h) */
} tn_fit_result;

/* The passes (`tenure list passes`). */
TN_API uint32_t tn_pass_count(void);
TN_API const char *tn_pass_name(uint32_t index);
TN_API const char *tn_pass_summary(uint32_t index);

/* --- claim ----------------------------------------------------------------------------------- */

/* Fits a graph into a budget of bytes: the fastest program that was found, and a claim
 * for each set of techniques that was tried.
 *
 *     // ... graph: of tn_graph_load
 *     tn_fit_request request = TN_FIT_REQUEST_INIT;
 *     tn_fit_options search = TN_FIT_OPTIONS_INIT;
 *     tn_fit_answer answer;
 *     search.budget = UINT64_C(64) << 20;
 *     request.search = &search;
 *     tn_status status = tn_fit_graph(graph, &request, &answer, &error);
 *     if (status == TN_OK) printf("%llu bytes\n", (unsigned long long)answer.result.bytes);
 *     for (uint32_t i = 0; i < answer.hint_count; i++) // other ways to fit
 *         printf("%llu bytes\n", (unsigned long long)answer.hints[i].bytes);
 *     tn_fit_answer_release(&answer);
 *
 * Sets of techniques are tried in this order: the plan without changes; techniques within a program
 * (reordering, recomputation, swapping, codecs: tn_fit); operators split into tiles, combined with
 * the former; and weight streaming from the file. The last two are tried only while no program is
 * found that takes at most 1 % longer than the unchanged plan, and they must beat the fastest
 * program found so far. Each set leaves a claim. If nothing fits, reordering, recomputation, tiles
 * and streaming are also tried where they were not allowed. Each one that helps becomes a hint,
 * with the bytes that a call finds which allows it.
 *
 * A set-up (tn_setup) is a compiled model.
 * Units: bytes, picoseconds (search.h).
 * Threads: a graph is only read; an answer belongs to one thread.
 */

/* The default of `allow`: techniques that keep results the same bit by bit and need no further
 * information. */
#define TN_FIT_USUAL (TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SPLIT)

typedef enum tn_claim_kind {
    TN_CLAIM_FITS,       /* a program was found, with `bytes` and `time` */
    TN_CLAIM_INFEASIBLE, /* proved: no program with these techniques fits */
    TN_CLAIM_NOT_FOUND,  /* none was found; a program needs at least `bytes_bound` */
    TN_CLAIM_STOPPED,    /* a limit ended the search before a program was found */
    TN_CLAIM_NOT_TRIED,  /* `why` says the reason */
    TN_CLAIM_COUNT
} tn_claim_kind;
/* "fits", "infeasible", "not_found", "stopped", "not_tried". */
TN_API const char *tn_claim_kind_name(tn_claim_kind kind);

/* The claim about one set of techniques. */
typedef struct tn_claim {
    uint32_t techniques; /* TN_FIT_*; 0: the plan without changes */
    tn_claim_kind kind;
    uint64_t bytes;       /* of the program, or of the smallest found if none fits; 0: none found */
    uint64_t time;        /* of the program; 0: not known */
    uint64_t bytes_bound; /* proved: no program with these techniques needs less; 0: not proved */
    const char *why;      /* the reason for NOT_TRIED, else ""; owned by the answer */
    uint64_t spare[2];    /* 0 (status.h) */
} tn_claim;

/* Techniques that would help if they were allowed, and the result of a call that allows them. */
typedef struct tn_hint {
    uint32_t techniques; /* TN_FIT_*, in addition to the allowed ones */
    /* whether `bytes` is within the budget; if not, `bytes` is a budget that can be met */
    bool fits;
    uint64_t bytes;
    /* additional time as a share of the plain plan's time, predicted; below 0: not known */
    double more_time;
    uint64_t spare[2]; /* 0 (status.h) */
} tn_hint;

#define TN_CLAIMS_MAX 8u
#define TN_HINTS_MAX 4u

typedef struct tn_fit_request {
    size_t struct_size;
    /* How the graph is compiled; NULL: defaults. `fit`, `split`, `stream`, `costs` and `make_costs`
     * are not read. */
    const struct tn_setup_options *setup;
    /* Budget, rates, limits and `allow`: TN_FIT_*; 0: TN_FIT_USUAL and, with rates, SWAP. The time
     * limit is for the whole call. `fixed_bytes`, `memory`, `plan`, `zeros` and `live` are not
     * read. If `pass` is set, only that pass is used, and operators are split only if `allow`
     * contains SPLIT. The pass "none" with `allow` SPLIT tries tiles alone. */
    const tn_fit_options *search;
    double storage_bytes_per_s; /* read speed of the weight file, for STREAM; 0: 1e9 */
    double storage_latency_s;   /* latency of one read */
    /* Predict the time of the unchanged plan, too. Costs are then computed even if it fits. */
    bool timed;
    bool no_hints; /* do not search for hints */
    /* The budget is for the arena alone; weights are not counted. Claims and hints then count the
     * arena alone, too, and weights are not streamed. */
    bool arena;
    double hint_seconds; /* processor time for each hint; 0: 10 */
    /* With SPLIT: the most additional work, as a share of the graph's work
     * (tn_split_choice.work); 0: no limit. */
    double split_share;
    /* Returns the costs of the operators of `setup`'s graph, which is the model after rewriting and
     * tiling. Called on demand, for each graph that the search tries. A callback that knows only
     * the costs of the graph without tiles returns E_UNSUPPORTED for other graphs. NULL: costs are
     * measured for some seconds if there are kernels, else modelled. */
    tn_status (*costs)(void *self, const struct tn_setup *setup, struct tn_costs **costs,
                       tn_error *error);
    /* Returns shares of zeros for codecs (tn_fit_options.zeros), for the graph as it runs without
     * tiles. The callback owns the memory. NULL: not known. */
    tn_status (*zeros)(void *self, const struct tn_setup *setup, const float **zeros,
                       tn_error *error);
    /* Returns the read speed of the weight file. Called on demand; NULL: as given above. */
    tn_status (*storage)(void *self, double *bytes_per_s, tn_error *error);
    void *self; /* passed to the three callbacks */
} tn_fit_request;
#define TN_FIT_REQUEST_INIT TN_INIT(tn_fit_request, TN_SET(struct_size, sizeof(tn_fit_request)))

typedef struct tn_fit_answer {
    /* Three compiled models, which the answer owns. Two of them may be the same one. */
    struct tn_setup *setup; /* stays within the budget; NULL: none was found */
    struct tn_setup *whole; /* the plan without changes */
    struct tn_setup *least; /* `setup`; if it is NULL, the smallest compiled model that was tried */
    /* The result of `setup`, else of `least`. The compiled model owns it; do not release it. */
    tn_fit_result result;
    uint64_t fixed_bytes;               /* bytes of the result outside the arena */
    const struct tn_costs *costs;       /* costs of the graph of `result`; NULL: not needed */
    const struct tn_costs *whole_costs; /* costs of the graph of `whole`; NULL: not needed */
    uint32_t techniques;          /* the set that found the program; 0: the plan without changes */
    uint32_t allowed;             /* TN_FIT_* */
    uint64_t budget, host_budget; /* as given in the request */
    uint64_t apart; /* with request.arena: bytes outside the arena, which no number counts */
    tn_claim claims[TN_CLAIMS_MAX]; /* [claim_count], in the order of trying */
    tn_hint hints[TN_HINTS_MAX];    /* [hint_count], if nothing fits */
    uint32_t claim_count, hint_count;
    double costs_seconds; /* spent on computing costs */
    char detail[280];     /* if nothing fits, in words: the rule that prevents it, or the step that
                           * needs most with streamed weights; else "" */
    bool ruled;           /* the claims are about programs that obey the rules of the request */
    void *own;
    uint64_t spare[8]; /* 0 (status.h) */
} tn_fit_answer;

/* Finds the fastest program that runs the graph within the budget.
 *
 * answer  out; must be released, also after an error, and after the engines on its set-ups
 * Errors: E_INFEASIBLE (proved for everything that was allowed), E_EXHAUSTED (none was found); both
 * messages contain the scope of the claim, and the hints as values of `allow` as far as there is
 * room. E_STOPPED (a limit was reached before a program was found), and those of tn_setup_create,
 * tn_fit and the callbacks of the request. */
TN_API TN_CHECKED tn_status tn_fit_graph(const tn_graph *graph, const tn_fit_request *request,
                                         tn_fit_answer *answer, tn_error *error);
TN_API void tn_fit_answer_release(tn_fit_answer *answer); /* a zeroed answer is fine */

/* A point of the curve of memory against time. */
typedef struct tn_curve_point {
    uint64_t budget;
    tn_fit_result result;         /* the curve owns it; do not release it */
    const struct tn_setup *setup; /* compiled model of its graph: without tiles, or with some */
    const struct tn_costs *costs; /* costs of its graph */
    uint64_t fixed_bytes;         /* bytes of the result outside the arena */
    uint64_t spare[2];            /* 0 (status.h) */
} tn_curve_point;
typedef struct tn_fit_curve {
    tn_curve_point *points; /* [count] by rising budget; the time never rises */
    uint32_t count, room;
    void *own;
    uint64_t spare[4]; /* 0 (status.h) */
} tn_fit_curve;

/* Computes the curve of memory against time, and then the answer for the budget, as tn_fit_graph
 * does. A budget of 0 asks for the curve alone; the answer is then the unchanged plan.
 *
 * count   number of points, from the smallest program of whole operators to the unchanged plan,
 *         evenly spaced. Equal budgets are one point. Smaller budgets that only tiles meet are
 *         added before them.
 * answer  out; must be released, also after an error
 * curve   out; must be released before the answer, also after an error. It is complete if only the
 *         answer failed.
 * Errors: E_INVALID (fewer than 2 points), E_UNSUPPORTED (one rank of several), and those of
 * tn_fit_graph and tn_fit_sweep. */
TN_API TN_CHECKED tn_status tn_fit_graph_curve(const tn_graph *graph, const tn_fit_request *request,
                                               uint32_t count, tn_fit_answer *answer,
                                               tn_fit_curve *curve, tn_error *error);
TN_API void tn_fit_curve_release(tn_fit_curve *curve); /* a zeroed curve is fine */

/* Writes techniques in the words of options and JSON: "order,recompute". */
#define TN_TECHNIQUES_TEXT 64
TN_API const char *tn_techniques_text(uint32_t techniques, char text[TN_TECHNIQUES_TEXT]);
/* The techniques that were not tried, whether they were allowed or not. */
TN_API uint32_t tn_fit_answer_not_tried(const tn_fit_answer *answer);

#ifdef __cplusplus
}
#endif
#endif
