/* seek.h - data and functions shared by the files of one search for a budget (tn__fit_seek):
 *
 *     calls.c      the public calls, and tn__fit_seek
 *     compete.c    the list of searches that compete, by the techniques that they allow
 *     decide.c     the first step of a search: whether any program is within the budget, and the
 *                  least budget
 *     within.c     the second step: the fastest program within the budget
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

/* there are at most two orders of operators: that of the program, and the one with the least
 * memory */
#define TN__FIT_ORDERS 2u
#define TN__FIT_COMPETITORS 13u

/* An order of operators from which passes start. */
typedef struct tn__fit_start {
    const tn_program *program;
    /* the program of this order if the search made it; NULL: it is the caller's program */
    tn_program *own;
    /* the jobs and values of this order, with the given costs (dag) and with costs computed only
     * from arithmetic and bytes, without measurements (even) */
    tn__dag dag, even;
    /* if there are rules, the jobs and values without them, to which `map` belongs */
    tn__dag plain;
    tn__ruled *ruled; /* the schedule graph that obeys the rules; NULL: there are no rules */
    tn__dag_map *map;
    float *zeros;      /* [values] measured fraction of zeros; NULL: not measured */
    uint8_t *segments; /* [jobs] the user's segment of the job; NULL: no segments */
    /* limit of live bytes at which the bisection for the least stopped; with this limit no schedule
     * was found */
    uint64_t low;
} tn__fit_start;

/* One of the searches that compete for the answer (compete.c). The bounds in it hold for the
 * techniques that it allows. */
typedef struct tn__fit_competitor {
    const tn_pass *pass;
    uint32_t allow; /* TN_FIT_*: the techniques that the search allows */
    /* limit for the work of a call of the pass, as a multiple of the default effort of `joint`; 0:
     * no limit */
    uint32_t most;
    bool searched;
    uint64_t bytes_bound, time_bound;
    bool has_bound; /* time_bound was proved for the current budget */
    /* the largest number of bytes for which the pass proved that no program has a layout of them;
     * 0: no proof */
    uint64_t denied;
    uint64_t floor; /* total bytes of the smallest answer; 0: the search for it did not finish */
    /* fewest total bytes of any answer in the search for the least; UINT64_MAX: no answer yet */
    uint64_t reached;
    uint64_t time; /* time of the search's answer for the requested budget; UINT64_MAX: no answer */
} tn__fit_competitor;

typedef struct tn__fit {
    const tn_program *given;
    const tn_layout *laid; /* a layout of the given program; NULL: not planned yet */
    const tn_costs *costs;
    tn_fit_options options;
    tn_context context;
    /* the searches that compete for the answer, and the one that runs now */
    tn__fit_competitor competitors[TN__FIT_COMPETITORS], *competitor;
    uint32_t competitor_count;
    tn__arena arena;
    tn__fit_start starts[TN__FIT_ORDERS];
    uint32_t start_count;
    uint64_t plain_bytes, plain_time;
    double began, deadline;
    uint64_t work_done;
    /* time to beat: results that take as long are rejected, except with for_least. It is the time
     * of a search with fewer techniques; UINT64_MAX: no such time */
    uint64_t limit;
    uint32_t rounds;
    /* the search is for the least budget: the pass only has to find any schedule, with costs that
     * do not depend on measurements */
    bool for_least;
    /* true: the pass is asked only for a proof that no schedule within the budget exists */
    bool only_proof;
    bool no_bound; /* true: the pass need not compute lower bounds for this budget */
    /* time of an answer from another order of operators; slower results are useless; 0: no such
     * answer */
    uint64_t incumbent;
    /* what ended the search early: with TIME or CALLER, the answers so far are the result */
    tn__ended ended;
    tn__text lines;      /* explanations of the pass that is running */
    tn__refusal refusal; /* the facts for the error message if no program meets the budget */
    tn_error *error;
} tn__fit;

/* Begins a search: reads the options, finds the pass, and lists the competing searches and the
 * orders of operators (answer.c). The caller must call tn__fit_close, even after an error. */
tn_status tn__fit_open(tn__fit *fit, const tn_program *program, const tn_costs *costs,
                       const tn_fit_options *options, tn_error *error);
void tn__fit_close(tn__fit *fit);
/* Asks the pass for one answer for at most `allowed` live bytes, from one order of operators, as a
 * program without a layout. result->bytes is a lower bound on the bytes of its layout. *found is
 * false if the pass found nothing; that is no error, so there is no message.
 *
 * warm  NULL, or an answer of the same order for another limit, to start from (without actions: no
 *       answer yet); it is replaced by this answer
 */
tn_status tn__fit_ask(tn__fit *fit, const tn__fit_start *start, uint64_t allowed,
                      tn__schedule *warm, tn_fit_result *result, bool *found);
/* By how many bytes a layout of a schedule of `dag` may be smaller than the live bytes. */
uint64_t tn__fit_slack(const tn__fit *fit, const tn__dag *dag);
/* Plans the layout of a result, and updates its bytes. An earlier layout is replaced.
 *
 * care    QUICK: fastest, and never smaller than the careful layout. SHORT: a tenth of the time of
 *         a careful layout, and mostly as small; careful if the caller chose a planner
 * enough  stop at a layout of at most this many bytes; 0: search for the smallest
 */
typedef enum tn__fit_care { TN__FIT_CAREFUL, TN__FIT_SHORT, TN__FIT_QUICK } tn__fit_care;
tn_status tn__fit_lay_out(tn__fit *fit, tn__fit_care care, uint64_t enough, tn_fit_result *result);
/* Whether a program with a short layout of `bytes` bytes is so large that a careful layout would
 * not be within `most` bytes. */
bool tn__fit_is_far(const tn__fit *fit, uint64_t bytes, uint64_t most);
/* Makes the plain program: the caller's program without changes, or with rules, the program that
 * only obeys them. It uses the layout fit->laid if that is set. */
tn_status tn__fit_plain(tn__fit *fit, tn_fit_result *result);
/* Computes the time of a program of the graph of `costs`, with the speeds of the host link from the
 * options. `trace`: NULL, or receives the events of the simulation. */
tn_status tn__fit_simulate(const tn_program *program, const tn_costs *costs,
                           const tn_fit_options *options, tn_trace *trace,
                           tn_simulation *simulation, tn_error *error);
/* Copies a result with its program and layout. */
tn_status tn__fit_copy(tn__fit *fit, const tn_fit_result *from, tn_fit_result *to);
/* Fills in the fields that all results of a search share: bounds, bytes and time of the plain
 * program, and the work done. */
void tn__fit_finish(const tn__fit *fit, tn_fit_result *result);

/* Makes the orders of operators from which passes start, fit->starts (answer.c). Errors: those of
 * tn_fit. */
tn_status tn__fit_make_starts(tn__fit *fit);

/* Lists the searches that compete for the answer, from the allowed techniques (compete.c). */
void tn__fit_make_competitors(tn__fit *fit, const tn_pass *pass);
/* Finds the fastest program within `budget` total bytes, over all searches. *result must be zeroed
 * before. Errors: those of tn_fit. */
tn_status tn__fit_compete_best(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* Finds the fastest program within `budget` total bytes, over all searches, without deciding first
 * whether there is one. result->program is NULL if nothing was found. */
tn_status tn__fit_compete_within(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* Finds the smallest answer over all searches. Before the call, *result is the plain program. */
tn_status tn__fit_compete_least(tn__fit *fit, tn_fit_result *result);
/* Returns the bytes below which there is no answer, if the search for the least was finished;
 * otherwise 0. */
uint64_t tn__fit_floor(const tn__fit *fit);
/* Returns the fewest bytes of an answer that is known from the current search or from a search on
 * which it builds. */
uint64_t tn__fit_reached(const tn__fit *fit);
/* Whether the search that allows only repeats had an answer within the budget, if the current
 * search builds on it. */
bool tn__fit_runs(const tn__fit *fit);
/* Returns the search that allows the most techniques; its lower bounds hold for all allowed
 * techniques. */
const tn__fit_competitor *tn__fit_widest(const tn__fit *fit);

/* tn_fit_sweep and tn_fit without a message for a refusal; *refusal gets its facts (calls.c).
 * `laid`: a layout of the program with these options, so that it is not planned again; NULL: no
 * such layout. */
tn_status tn__fit_seek(const tn_program *program, const tn_layout *laid, const tn_costs *costs,
                       const tn_fit_options *options, tn_fit_result *result, tn__refusal *refusal,
                       tn_error *error);
tn_status tn__fit_sweep(const tn_program *program, const tn_layout *laid, const tn_costs *costs,
                        const tn_fit_options *options, uint32_t count, uint64_t *budgets,
                        tn_fit_result *results, tn_error *error);

/* Runs the search fit->competitor (within.c). It finds the fastest program within `budget` that is
 * faster than fit->limit. If fit->limit is UINT64_MAX and nothing is within the budget, the result
 * is the smallest program found. *result must be zeroed before. tn__fit_search_fail is called if no
 * program meets the budget: it returns E_INFEASIBLE, E_EXHAUSTED or E_STOPPED, and puts the facts
 * into fit->refusal, without a message; `least` is the smallest program found. */
tn_status tn__fit_search(tn__fit *fit, uint64_t budget, const tn_fit_result *plain,
                         tn_fit_result *result);
tn_status tn__fit_search_fail(tn__fit *fit, uint64_t budget, const tn_fit_result *least);
/* Finds the fastest program within a budget, or with for_least the smallest. result->program is
 * NULL if nothing was found. */
tn_status tn__fit_search_within(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* Moves *next to *best, and releases the previous *best. */
void tn__fit_take(tn_fit_result *best, tn_fit_result *next);
/* Whether the layout of host memory is within the host budget. */
bool tn__fit_has_host(const tn__fit *fit, const tn_fit_result *result);

/* Finds the program that needs the fewest bytes, or the first one found that needs at most `enough`
 * bytes (decide.c). Before the call, *result is the plain program. */
tn_status tn__fit_decide(tn__fit *fit, uint64_t enough, tn_fit_result *result);

#endif
