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
 * counted in operators. A tensor without late readers is left alone, except that RECOMPUTE makes it
 * again, instead of keeping it, if another recomputation reads it. With several ranks, RECOMPUTE of
 * an operator whose results the ranks combine repeats this communication, at the same place on all
 * ranks (dist.h).
 */

typedef enum tn_rule_kind {
    TN_RULE_KEEP, /* the results are never recomputed, swapped or encoded */
    /* each result is released after its last early reader and recomputed before its first late
     * reader. Released inputs of the recomputation are recomputed first */
    TN_RULE_RECOMPUTE,
    /* each result is copied to the host after its last early reader, and copied back */
    TN_RULE_SWAP,
    TN_RULE_COUNT
} tn_rule_kind;

typedef struct tn_rule {
    /* a pattern of operator names, or of operator types after "type:"; * matches any characters, ?
     * matches any one character */
    const char *pattern;
    tn_rule_kind kind;
    /* for SWAP: the copy back starts this many operators before the first late reader; 0: one
     * operator */
    uint32_t prefetch;
} tn_rule;

typedef struct tn_rules {
    size_t struct_size;
    const tn_rule *list; /* [count] */
    uint32_t count;
    /* The operators of the forward pass form this many segments of equal length. In all but the
     * last segment, results that only their own segment and the backward pass read are recomputed,
     * unless a rule of `list` matches the operator. 0: no segments */
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

enum {                         /* the techniques of tn_fit_options.allow, as bits */
       TN_FIT_ORDER = 1u << 0, /* operators may be reordered */
       TN_FIT_RECOMPUTE = 1u << 1,
       /* tensors may be copied to the host and back over the link; the rates of the link must be
        * given */
       TN_FIT_SWAP = 1u << 2,
       TN_FIT_COMPRESS = 1u << 3, /* tensors may be kept encoded, if the encoding is lossless */
       /* tensors may also be encoded with loss, which changes the results */
       TN_FIT_LOSSY = 1u << 4,
       /* Techniques only for tn_fit_graph, because they change the graph or move weights: */
       TN_FIT_SPLIT =
           1u << 5, /* operators may be split into tiles; tensors between tiles may be recomputed */
       TN_FIT_STREAM = 1u << 6 /* weight streaming: weights may be read from their file on demand */
};

typedef struct tn_fit_options {
    size_t struct_size;
    /* Services of the caller; NULL: the context of the graph. If the progress callback cancels the
     * call, the best result so far is returned, if a result was found. */
    const tn_context *context;
    uint64_t budget;      /* bytes on the device that the program may occupy; required */
    uint64_t fixed_bytes; /* bytes of the budget that are outside the arena: weights */
    uint64_t host_budget; /* bytes on the host for tensors that are swapped out; 0: no limit */
    const char *pass;     /* name of the pass; NULL: "joint" */
    uint32_t allow;       /* the allowed techniques (TN_FIT_*); 0: ORDER and RECOMPUTE */
    /* rates of the link in bytes per second, for SWAP */
    double to_host_bytes_per_s, from_host_bytes_per_s;
    const struct tn_occupancy_options *memory; /* how bytes are counted; NULL: defaults */
    /* Options for layouts; NULL: defaults. The capacity in the options is not read. If they name no
     * planner, the planner is "fast". */
    const tn_plan_options *plan;
    /* If true, the budget is for the bytes that are live at once, without regard to addresses, as
     * problems count bytes. A layout is still made and reported. */
    bool live;
    /* If true, accept any program that fits, found quickly, for callers that only need to know
     * whether one exists. If none is found, the smallest program is not searched for, and the
     * result has no program. */
    bool any;
    /* seed and work limit of the search; work_limit 0: the search ends at its own limit */
    uint64_t seed, work_limit;
    double timeout_s; /* time limit, which stops the search early; 0: no limit */
    /* for the pass "segments": [segment_count] a pattern of operator names, with * and ?, for each
     * segment */
    const char *const *segments;
    uint32_t segment_count;
    /* [tensors] measured share of elements that are 0 in each tensor; below 0: not known. NULL: not
     * known for any tensor. */
    const float *zeros;
    /* codecs to use, bit 1 << tn_codec for each of them; 0: all that `allow` permits */
    uint32_t codecs;
    /* receives each decision as a line of text; NULL: not called */
    void (*explain)(void *self, const char *line);
    void *explain_self;
    /* Rules about single tensors; NULL: no rules. With RECOMPUTE or SWAP rules, operators keep
     * their order. If the budget cannot be met, the message names the rule that prevents it. */
    const tn_rules *rules;
} tn_fit_options;
#define TN_FIT_OPTIONS_INIT TN_INIT(tn_fit_options, TN_SET(struct_size, sizeof(tn_fit_options)))

typedef struct tn_fit_result {
    struct tn_program *program; /* the program; NULL: no program was found */
    struct tn_occupancy *occupancy;
    tn_layout layout; /* verified layout of the arena */
    tn_problem *host; /* layout problem of the host memory; NULL: no host memory is used */
    /* layout of the host memory; its peak is the host memory needed, in bytes */
    tn_layout host_layout;
    /* name of the pass that found the program, a static string; "none": no change was needed */
    const char *pass;
    /* Bytes on the device: fixed_bytes + the peak of the layout. With `live`: fixed_bytes + the
     * bytes that are live at once. */
    uint64_t bytes;
    uint64_t live_bytes;  /* live bytes of the arena at the peak step */
    uint64_t plain_bytes; /* `bytes` of the given program, without changes */
    uint64_t time;        /* predicted time of the program, including copies (tn_simulate) */
    uint64_t plain_time;  /* predicted time of the given program, without changes */
    /* Lower bound of the time: it is proved that no allowed program within the budget takes
     * less. */
    uint64_t time_bound;
    /* lower bound of the bytes: it is proved that no allowed program needs fewer */
    uint64_t bytes_bound;
    uint64_t to_host_bytes, from_host_bytes, stall;
    uint64_t work;     /* effort of the search; deterministic */
    double seconds;    /* wall time of the search */
    uint32_t rounds;   /* number of times that the pass was called */
    bool stopped;      /* true: a limit or the caller ended the search early */
    uint64_t spare[8]; /* reserved for later fields: 0 (status.h) */
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
 * `tn_setup` is a compiled model.
 * Units: bytes, picoseconds (search.h).
 * Threads: a graph is only read; an answer belongs to one thread.
 */

/* The default of `allow`: techniques that keep results the same bit by bit and need no further
 * information. */
#define TN_FIT_USUAL (TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SPLIT)

typedef enum tn_claim_kind {
    TN_CLAIM_FITS,       /* a program was found, with `bytes` and `time` */
    TN_CLAIM_INFEASIBLE, /* it is proved that no program with these techniques fits */
    TN_CLAIM_NOT_FOUND,  /* no program was found; a program needs at least `bytes_bound` */
    TN_CLAIM_STOPPED,    /* a limit ended the search before a program was found */
    TN_CLAIM_NOT_TRIED,  /* the techniques were not tried, for the reason in `why` */
    TN_CLAIM_COUNT
} tn_claim_kind;
/* Returns the word for a kind of claim: "fits", "infeasible", "not_found", "stopped",
 * "not_tried". */
TN_API const char *tn_claim_kind_name(tn_claim_kind kind);

/* The claim about one set of techniques. */
typedef struct tn_claim {
    uint32_t techniques; /* the set of techniques (TN_FIT_*); 0: the plan without changes */
    tn_claim_kind kind;
    /* bytes of the program, or of the smallest program found if no program fits; 0: no program was
     * found */
    uint64_t bytes;
    uint64_t time; /* time of the program; 0: not known */
    /* lower bound: it is proved that no program with these techniques needs fewer bytes; 0: no
     * bound */
    uint64_t bytes_bound;
    const char *why;   /* the reason for NOT_TRIED, otherwise ""; owned by the answer */
    uint64_t spare[2]; /* reserved for later fields: 0 (status.h) */
} tn_claim;

/* Techniques that would help if they were allowed, and the result of a call that allows them. */
typedef struct tn_hint {
    uint32_t techniques; /* techniques (TN_FIT_*) in addition to the allowed ones */
    /* whether `bytes` is within the budget; if not, `bytes` is a larger budget that can be met */
    bool fits;
    uint64_t bytes;
    /* additional time as a share of the plain plan's time, predicted; below 0: not known */
    double more_time;
    uint64_t spare[2]; /* reserved for later fields: 0 (status.h) */
} tn_hint;

#define TN_CLAIMS_MAX 8u
#define TN_HINTS_MAX 4u

typedef struct tn_fit_request {
    size_t struct_size;
    /* Options for compiling the graph; NULL: defaults. `fit`, `split`, `stream`, `costs` and
     * `make_costs` are not read. */
    const struct tn_setup_options *setup;
    /* Budget, rates, limits and allowed techniques of the search. `allow` 0 means TN_FIT_USUAL and,
     * with rates, SWAP. The time limit is for the whole call. `fixed_bytes`, `memory`, `plan`,
     * `zeros` and `live` are not read. If `pass` is set, only that pass is used, and operators are
     * split only if `allow` contains SPLIT. The pass "none" with `allow` SPLIT tries tiles
     * alone. */
    const tn_fit_options *search;
    /* read rate of the weight file in bytes per second, for STREAM; 0: 1e9 */
    double storage_bytes_per_s;
    double storage_latency_s; /* latency of one read of the weight file */
    /* Whether the time of the unchanged plan is predicted, too. Costs are then computed even if
     * that plan fits. */
    bool timed;
    bool no_hints; /* whether the search for hints is omitted */
    /* If true, the budget is for the arena alone; weights are not counted. Claims and hints then
     * also count the arena alone, and weights are not streamed. */
    bool arena;
    double hint_seconds; /* processor time in seconds for each hint; 0: 10 */
    /* With SPLIT: limit of the additional work, as a share of the graph's work
     * (tn_split_choice.work); 0: no limit. */
    double split_share;
    /* Returns the costs of the operators of `setup`'s graph, which is the model after rewriting and
     * tiling. The callback is called on demand, for each graph that the search tries. A callback
     * that knows only the costs of the graph without tiles returns E_UNSUPPORTED for other graphs.
     * NULL: costs are measured for some seconds if there are kernels, otherwise taken from a
     * model. */
    tn_status (*costs)(void *self, const struct tn_setup *setup, struct tn_costs **costs,
                       tn_error *error);
    /* Returns the share of zeros in each tensor for codecs (tn_fit_options.zeros), for the graph
     * that runs without tiles. The callback owns the memory. NULL: the shares are not known. */
    tn_status (*zeros)(void *self, const struct tn_setup *setup, const float **zeros,
                       tn_error *error);
    /* Returns the read rate of the weight file. The callback is called on demand; NULL:
     * `storage_bytes_per_s` is used. */
    tn_status (*storage)(void *self, double *bytes_per_s, tn_error *error);
    void *self; /* passed to the callbacks `costs`, `zeros` and `storage` */
} tn_fit_request;
#define TN_FIT_REQUEST_INIT TN_INIT(tn_fit_request, TN_SET(struct_size, sizeof(tn_fit_request)))

typedef struct tn_fit_answer {
    /* the compiled model that stays within the budget; NULL: no such model was found. The answer
     * owns it, and also `whole` and `least`; two of the three may be one compiled model */
    struct tn_setup *setup;
    struct tn_setup *whole; /* the compiled model of the plan without changes */
    /* equal to `setup`; if `setup` is NULL, the smallest compiled model that was tried */
    struct tn_setup *least;
    /* The result of `setup`, or of `least` if `setup` is NULL. The compiled model owns the result;
     * do not release it. */
    tn_fit_result result;
    uint64_t fixed_bytes;               /* bytes outside the arena that belong to `result` */
    const struct tn_costs *costs;       /* costs of the graph of `result`; NULL: not needed */
    const struct tn_costs *whole_costs; /* costs of the graph of `whole`; NULL: not needed */
    /* the set of techniques (TN_FIT_*) with which the program was found; 0: the plan without
     * changes */
    uint32_t techniques;
    uint32_t allowed;             /* the techniques (TN_FIT_*) that the request allowed */
    uint64_t budget, host_budget; /* budgets in bytes, as given in the request */
    /* if request.arena is set: bytes outside the arena, which no number in the answer counts */
    uint64_t apart;
    /* [claim_count] claims, in the order in which the sets of techniques were tried */
    tn_claim claims[TN_CLAIMS_MAX];
    tn_hint hints[TN_HINTS_MAX]; /* [hint_count] hints, if no program fits */
    uint32_t claim_count, hint_count;
    double costs_seconds; /* seconds spent on computing costs */
    /* if no program fits: a sentence about the rule that prevents it, or about the step that needs
     * most memory with streamed weights; otherwise "" */
    char detail[280];
    bool ruled; /* whether the claims are about programs that obey the rules of the request */
    void *own;
    uint64_t spare[8]; /* reserved for later fields: 0 (status.h) */
} tn_fit_answer;

/* Finds the fastest program that runs the graph within the budget.
 *
 * answer  out; must be released, also after an error, and after the engines on its compiled models
 * Errors: E_INFEASIBLE (proved for everything that was allowed), E_EXHAUSTED (none was found);
 * both messages contain the scope of the claim, and as many hints, as values of `allow`, as fit
 * in a message. E_STOPPED (a limit was reached before a program was found), and those of
 * tn_setup_create, tn_fit and the callbacks of the request. */
TN_API TN_CHECKED tn_status tn_fit_graph(const tn_graph *graph, const tn_fit_request *request,
                                         tn_fit_answer *answer, tn_error *error);
/* Releases an answer; a zeroed one has no effect. */
TN_API void tn_fit_answer_release(tn_fit_answer *answer);

/* A point of the curve of memory against time. */
typedef struct tn_curve_point {
    uint64_t budget;
    tn_fit_result result; /* result of the point; the curve owns it, so do not release it */
    /* compiled model of the result's graph: without tiles, or with some */
    const struct tn_setup *setup;
    const struct tn_costs *costs; /* costs of the result's graph */
    uint64_t fixed_bytes;         /* bytes outside the arena that belong to the result */
    uint64_t spare[2];            /* reserved for later fields: 0 (status.h) */
} tn_curve_point;
typedef struct tn_fit_curve {
    tn_curve_point *points; /* [count] points by rising budget; the time never rises */
    uint32_t count, room;
    void *own;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
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
/* Releases a curve; a zeroed one has no effect. */
TN_API void tn_fit_curve_release(tn_fit_curve *curve);

/* Writes a set of techniques in the words of options and JSON: "order,recompute". */
#define TN_TECHNIQUES_TEXT 64
TN_API const char *tn_techniques_text(uint32_t techniques, char text[TN_TECHNIQUES_TEXT]);
/* Returns the techniques that were not tried, whether they were allowed or not. */
TN_API uint32_t tn_fit_answer_not_tried(const tn_fit_answer *answer);

#ifdef __cplusplus
}
#endif
#endif
