/* fit.h - what the files of the frame share; fit.c says how they work together. */
#ifndef TN_BUDGET_FIT_H
#define TN_BUDGET_FIT_H

#include <tenure/fit.h>

#include "budget/lower.h"
#include "budget/pass.h"

#define TN__FIT_ORDERS 2u /* the program's, and that of least memory */
#define TN__FIT_PARTS 13u

/* One order of operators that passes begin with. */
typedef struct tn__fit_start {
    const tn_program *program;
    tn_program *own;     /* NULL: the caller's */
    tn__work work, even; /* the same jobs; even: with costs by their arithmetic and bytes alone,
                          * whatever was measured */
    tn__work_map *map;
    float *zeros;      /* [values] or NULL */
    uint8_t *segments; /* [jobs] or NULL */
    uint64_t low;      /* live bytes that halving for the least ended above */
} tn__fit_start;

/* One search of those that an answer is the best of: fit_parts.c. What it knows holds for what it
 * allows. */
typedef struct tn__fit_part {
    const tn_pass *pass;
    uint32_t allow; /* TN_FIT_* */
    uint32_t most;  /* times the effort of `joint` that it spends on a run, without a limit; 0: as
                     * much as it likes */
    bool searched;
    uint64_t bytes_bound, time_bound;
    bool has_bound;   /* time_bound is of the budget that is searched */
    uint64_t denied;  /* live bytes that were proved to be too few; 0: none */
    uint64_t floor;   /* the least that it answers, in all; 0: it was not asked for to its end */
    uint64_t reached; /* fewest bytes, in all, of a link on the way to that; UINT64_MAX: none */
    uint64_t time;    /* of its answer to the budget that is asked about; UINT64_MAX: none */
} tn__fit_part;

typedef struct tn__fit {
    const tn_program *given;
    const tn_costs *costs;
    tn_fit_options options;
    tn_context context;
    tn__fit_part parts[TN__FIT_PARTS], *part; /* part: that is searched */
    uint32_t part_count;
    tn__arena arena;
    tn__fit_start starts[TN__FIT_ORDERS];
    uint32_t start_count;
    uint64_t plain_bytes, plain_time;
    double began, deadline;
    uint64_t work_done;
    uint64_t limit; /* time of an answer of a search of less: who takes as long is no answer, but of
                     * for_least; UINT64_MAX: none */
    uint32_t rounds;
    bool for_least;  /* whether there is any is all that is asked of the pass, of even work */
    bool only_proof; /* whether it can prove that there is none */
    bool no_bound;   /* what it proves of this budget is of no use */
    uint64_t beaten; /* time of an answer from another order: what takes longer is of no use; 0:
                      * there is none */
    bool stopped;
    tn__text lines; /* of the pass that runs, for explain */
    tn_error *error;
} tn__fit;

/* fit.c */
/* A layout by the options of every plan. Who stops the search still gets the layout of what it
 * found. */
tn_status tn__fit_plan(tn__fit *fit, const tn_problem *problem, uint64_t enough, tn_layout *layout);
tn_status tn__fit_open(tn__fit *fit, const tn_program *program, const tn_costs *costs,
                       const tn_fit_options *options, tn_error *error);
void tn__fit_close(tn__fit *fit);
/* One answer of the pass for live bytes `allowed`, from one order, as a program without its layout:
 * result->bytes are what a layout takes at least. *found false: the pass has none.
 *
 * warm  NULL; or an answer for other bytes from the same order, without acts: none, which becomes
 *       this answer */
tn_status tn__fit_ask(tn__fit *fit, const tn__fit_start *start, uint64_t allowed,
                      tn__schedule *warm, tn_fit_result *result, bool *found);
/* Its layout, and then its bytes, in the place of the one that it has.
 *
 * care    QUICK: in no time, and never better than the careful one. SHORT: in a tenth of its time,
 *         mostly as good; careful where whoever calls says how layouts are made
 * enough  bytes that do: no smaller one is looked for; 0: the smallest */
typedef enum tn__fit_care { TN__FIT_CAREFUL, TN__FIT_SHORT, TN__FIT_QUICK } tn__fit_care;
tn_status tn__fit_lay_out(tn__fit *fit, tn__fit_care care, uint64_t enough, tn_fit_result *result);
/* Whether what takes so many bytes by a short layout takes more than `most` by any. */
bool tn__fit_is_far(const tn__fit *fit, uint64_t bytes, uint64_t most);
/* The program as it was given. */
tn_status tn__fit_plain(tn__fit *fit, tn_fit_result *result);
/* A result of this frame once more. */
tn_status tn__fit_copy(tn__fit *fit, const tn_fit_result *from, tn_fit_result *to);
/* What is the same in every result: bounds, the plain program, the work that was done. */
void tn__fit_finish(const tn__fit *fit, tn_fit_result *result);

/* fit_host.c: the pool of what a result's program swaps; nothing where it swaps nothing.
 * Errors: those of tn_plan. */
tn_status tn__fit_host(tn__fit *fit, tn_fit_result *result);

/* fit_start.c: errors as tn_fit. */
tn_status tn__fit_make_starts(tn__fit *fit);

/* fit_parts.c: the answers of tenure/fit.h, of all searches. Errors as there. */
void tn__fit_make_parts(tn__fit *fit, const tn_pass *pass);
/* The fastest within `budget` bytes in all; `result` starts zeroed. */
tn_status tn__fit_answer(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* The same, but nobody looks whether there is any at all; result->program NULL: none was found. */
tn_status tn__fit_answer_within(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* The least that is answered; `result` is the plain program. */
tn_status tn__fit_answer_least(tn__fit *fit, tn_fit_result *result);
/* No answer takes fewer bytes, where the least was asked for. */
uint64_t tn__fit_floor(const tn__fit *fit);
/* Fewest bytes that this search, or one of less, is known to answer. */
uint64_t tn__fit_reached(const tn__fit *fit);
/* Whether the search of runs alone had an answer, and this one builds on it. */
bool tn__fit_runs(const tn__fit *fit);
/* The search whose bounds hold for all that is allowed. */
const tn__fit_part *tn__fit_told(const tn__fit *fit);

/* fit_search.c: of fit->part. The fastest within `budget` that is faster than fit->limit; where
 * there is no such limit, and nothing is found, what takes fewest bytes. `result` starts zeroed.
 * tn__fit_search_fail tells that nothing is; `least` is what was found to take fewest bytes. */
tn_status tn__fit_search(tn__fit *fit, uint64_t budget, const tn_fit_result *plain,
                         tn_fit_result *result);
tn_status tn__fit_search_fail(tn__fit *fit, uint64_t budget, const tn_fit_result *least);
/* What the pass finds within a budget; result->program NULL: nothing. Of for_least what takes
 * fewest bytes. */
tn_status tn__fit_search_within(tn__fit *fit, uint64_t budget, tn_fit_result *result);
/* *next becomes *best; what was there is released. */
void tn__fit_take(tn_fit_result *best, tn_fit_result *next);
/* Whether the host's pool is within its own budget, holes and all. */
bool tn__fit_has_host(const tn__fit *fit, const tn_fit_result *result);

/* fit_scope.c: "no program that reorders and recomputes whole operators", of TN_FIT_*. */
#define TN__SCOPE_TEXT 128
const char *tn__fit_scope(uint32_t techniques, char text[TN__SCOPE_TEXT]);

/* fit_least.c: the program that needs least, or the first on the way to it that fits in `enough`.
 * `result` is the plain program. */
tn_status tn__fit_search_least(tn__fit *fit, uint64_t enough, tn_fit_result *result);

#endif
