/* seek.h - data and functions shared by the files of one search for a budget (tn__fit_seek):
 *
 *     calls.c      the public calls, and tn__fit_seek
 *     compete.c    the searches that compete, by the techniques that they allow
 *     decide.c     first: whether any program is within the budget; the least
 *     within.c     then: the fastest program within the budget
 *     answer.c     the orders of operators from which passes start; one answer of a pass, as a
 *                  verified program with a layout, and a layout of its host pool
 */
#ifndef TN_SEARCH_SEEK_H
#define TN_SEARCH_SEEK_H

#include <tenure/fit.h>
#include <tenure/program.h>

#include "fit/budget/pass.h"
#include "fit/budget/refusal.h"
#include "fit/budget/rules.h"
#include "fit/budget/schedule/lower.h"

#define TN__FIT_ORDERS 2u /* the program's order, and the order with the least memory */
#define TN__FIT_COMPETITORS 13u

/* One order of operators from which passes start. */
typedef struct tn__fit_start {
    const tn_program *program;
    tn_program *own;   /* NULL: the caller's program */
    tn__dag dag, even; /* the same jobs; even: costs derived from arithmetic and bytes only,
                          * without measurements */
    tn__dag plain;     /* with rules: the jobs without them, which `map` describes */
    tn__ruled *ruled;  /* NULL: no rules */
    tn__dag_map *map;
    float *zeros;      /* [values] or NULL */
    uint8_t *segments; /* [jobs] or NULL */
    uint64_t low;      /* live bytes at which the bisection for the least stopped; the least is
                        * above */
} tn__fit_start;

/* One of the searches that compete for the answer (compete.c). Its findings hold for the techniques
 * that it allows. */
typedef struct tn__fit_competitor {
    const tn_pass *pass;
    uint32_t allow; /* TN_FIT_* */
    uint32_t most;  /* limit on a run of `joint`, as a multiple of its default effort; 0: no
                     * limit */
    bool searched;
    uint64_t bytes_bound, time_bound;
    bool has_bound;   /* time_bound belongs to the current budget */
    uint64_t denied;  /* live bytes that were proved to be too few; 0: unknown */
    uint64_t floor;   /* the smallest answer, in total bytes; 0: the search for it did not finish */
    uint64_t reached; /* fewest total bytes of an answer on the way to the least; UINT64_MAX: no
                       * answer yet */
    uint64_t time;    /* time of its answer for the requested budget; UINT64_MAX: no answer */
} tn__fit_competitor;

typedef struct tn__fit {
    const tn_program *given;
    const tn_layout *laid; /* of the given program; NULL: not planned yet */
    const tn_costs *costs;
    tn_fit_options options;
    tn_context context;
    tn__fit_competitor competitors[TN__FIT_COMPETITORS],
        *competitor; /* part: the search in progress */
    uint32_t competitor_count;
    tn__arena arena;
    tn__fit_start starts[TN__FIT_ORDERS];
    uint32_t start_count;
    uint64_t plain_bytes, plain_time;
    double began, deadline;
    uint64_t work_done;
    uint64_t limit; /* time of the answer of a narrower search; results that take as long are
                     * rejected, except for for_least; UINT64_MAX: no limit */
    uint32_t rounds;
    bool for_least;      /* the pass is only asked whether any schedule exists, with even costs */
    bool only_proof;     /* the pass is only asked for a proof of infeasibility */
    bool no_bound;       /* lower bounds for this budget are not needed */
    uint64_t incumbent;  /* time of an answer from another order; slower results are useless; 0: no
                      * such answer */
    tn__ended ended;     /* TIME or CALLER: answers so far are the result */
    tn__text lines;      /* explanations of the pass that runs */
    tn__refusal refusal; /* if no program meets the budget */
    tn_error *error;
} tn__fit;

/* answer.c */
tn_status tn__fit_open(tn__fit *fit, const tn_program *program, const tn_costs *costs,
                       const tn_fit_options *options, tn_error *error);
void tn__fit_close(tn__fit *fit);
/* One answer of the pass for `allowed` live bytes from one order, as a program without a layout;
 * result->bytes is a lower bound of its layout. *found false: the pass found nothing. That is no
 * error, so no message is written.
 *
 * warm  NULL, or an answer for other bytes from the same order (without actions: no answer yet);
 *       it becomes this answer
 */
tn_status tn__fit_ask(tn__fit *fit, const tn__fit_start *start, uint64_t allowed,
                      tn__schedule *warm, tn_fit_result *result, bool *found);
/* Plans the layout of a result and updates its bytes. An earlier layout is replaced.
 *
 * care    QUICK: fastest, and never smaller than the careful layout. SHORT: a tenth of the
 *         time, mostly as good; careful if the caller set options for layouts
 * enough  stop at a layout of at most these bytes; 0: search for the smallest
 */
typedef enum tn__fit_care { TN__FIT_CAREFUL, TN__FIT_SHORT, TN__FIT_QUICK } tn__fit_care;
tn_status tn__fit_lay_out(tn__fit *fit, tn__fit_care care, uint64_t enough, tn_fit_result *result);
/* Whether a program with a short layout of `bytes` needs more than `most` with any layout. */
bool tn__fit_is_far(const tn__fit *fit, uint64_t bytes, uint64_t most);
/* The plain program: the caller's program, without changes. Its layout is fit->laid if there is
 * one. */
tn_status tn__fit_plain(tn__fit *fit, tn_fit_result *result);
/* The time of any program of the graph of `costs`, with the links of the options. trace: NULL, or
 * gets its events. */
tn_status tn__fit_simulate(const tn_program *program, const tn_costs *costs,
                           const tn_fit_options *options, tn_trace *trace,
                           tn_simulation *simulation, tn_error *error);
/* Copies a result of this frame. */
tn_status tn__fit_copy(tn__fit *fit, const tn_fit_result *from, tn_fit_result *to);
/* Fills in the fields that all results share: bounds, the plain program, the work done. */
void tn__fit_finish(const tn__fit *fit, tn_fit_result *result);

/* answer.c: makes fit->starts. Errors as tn_fit. */
tn_status tn__fit_make_starts(tn__fit *fit);

/* compete.c: the answers of tenure/fit.h, combined from all searches. Errors as there. */
void tn__fit_make_competitors(tn__fit *fit, const tn_pass *pass);
/* The fastest within `budget` total bytes; `result` starts zeroed. */
tn_status tn__fit_compete_best(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* The same without asking first whether any program fits; result->program NULL: nothing was found.
 */
tn_status tn__fit_compete_within(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* The smallest answer; `result` is the plain program. */
tn_status tn__fit_compete_least(tn__fit *fit, tn_fit_result *result);
/* No answer needs fewer bytes than this, provided that the least was searched for. */
uint64_t tn__fit_floor(const tn__fit *fit);
/* Fewest bytes of a known answer of this search or a narrower one. */
uint64_t tn__fit_reached(const tn__fit *fit);
/* Whether the search with only repeats had an answer on which this search builds. */
bool tn__fit_runs(const tn__fit *fit);
/* The search with bounds that hold for all allowed techniques. */
const tn__fit_competitor *tn__fit_widest(const tn__fit *fit);

/* calls.c: tn_fit_sweep, and tn_fit without a message for a refusal; *refusal has its facts. `laid`
 * is a layout of the program with these options, so that it is not planned again; NULL: none. */
tn_status tn__fit_seek(const tn_program *program, const tn_layout *laid, const tn_costs *costs,
                       const tn_fit_options *options, tn_fit_result *result, tn__refusal *refusal,
                       tn_error *error);
tn_status tn__fit_sweep(const tn_program *program, const tn_layout *laid, const tn_costs *costs,
                        const tn_fit_options *options, uint32_t count, uint64_t *budgets,
                        tn_fit_result *results, tn_error *error);

/* within.c: the search fit->competitor. Finds the fastest program within `budget` that is faster
 * than fit->limit. If there is no such limit and nothing is found, the result is the smallest
 * program. `result` starts zeroed. tn__fit_search_fail is for a budget that no program meets:
 * E_INFEASIBLE, E_EXHAUSTED or E_STOPPED, with the facts in fit->refusal and no message; `least` is
 * the smallest program found. */
tn_status tn__fit_search(tn__fit *fit, uint64_t budget, const tn_fit_result *plain,
                         tn_fit_result *result);
tn_status tn__fit_search_fail(tn__fit *fit, uint64_t budget, const tn_fit_result *least);
/* The pass's answer within a budget; result->program NULL: nothing. For for_least, the smallest
 * program. */
tn_status tn__fit_search_within(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* Moves *next to *best; the previous *best is released. */
void tn__fit_take(tn_fit_result *best, tn_fit_result *next);
/* Whether the host pool, holes included, is within its own budget. */
bool tn__fit_has_host(const tn__fit *fit, const tn_fit_result *result);

/* decide.c: the program that needs least, or the first one found that needs at most `enough` bytes.
 * `result` is the plain program. */
tn_status tn__fit_decide(tn__fit *fit, uint64_t enough, tn_fit_result *result);

#endif
