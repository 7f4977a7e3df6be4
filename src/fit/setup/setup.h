/* setup.h - the parts of a set-up: one per stage, reference-counted (setup.c makes them). */
#ifndef TN_SETUP_SETUP_H
#define TN_SETUP_SETUP_H

#include <tenure/engine.h>

#include <stdatomic.h>

#include "base/base.h"
#include "fit/budget/refusal.h"

enum {
    PART_REWRITTEN, /* the graph with operators in parts; else PART_GRAPH is used */
    PART_GRAPH,
    PART_KERNELS,
    PART_PROGRAM,
    PART_RECOMPUTED, /* the program that recomputes tensors within a work budget */
    PART_SCRATCH,    /* kernels with less scratch; they replace PART_KERNELS */
    PART_FIT,        /* the program that keeps to a budget */
    PART_STREAM,     /* the program that streams weights */
    PART_DIVIDED, /* the program of one rank; as `fitted`, but only the program if it fits anyway */
    PART_STATICS,
    PART_OCCUPANCY,
    PART_LAYOUT,
    PART_COUNT
};

typedef struct tn__setup_statics {
    tn_static_block *blocks;
    uint32_t count;
    uint64_t bytes; /* total of all blocks, each aligned */
    bool inside;    /* the blocks are bodies of the problem */
} tn__setup_statics;

typedef struct tn__setup_part {
    atomic_uint users;
    union {
        tn_graph *graph;
        tn_kernels *kernels;
        tn_program *program;
        tn_occupancy *occupancy;
        tn__setup_statics statics;
        tn_layout layout;
        tn_fit_result fitted;
        tn_stream_result streamed; /* without the objects that other parts own */
    };
    tn_recompute_report report; /* RECOMPUTED */
    tn_split_report split;      /* GRAPH; its regions are the part's own */
    tn_scratch_report scratch;  /* SCRATCH */
} tn__setup_part;

struct tn_setup {
    tn_context context;
    const tn_graph *given;
    const tn_kernels *given_kernels; /* the caller's own, or NULL */
    const tn_program *given_program;
    tn__setup_part *parts[PART_COUNT]; /* NULL: not made, or given */
    double seconds[TN_SETUP_STAGE_COUNT];
    /* While stages run: a stage that cannot keep to its budget puts the facts here, and no message;
     * NULL: it writes a message. */
    tn__refusal *refusal;
};

/* For scratch.c, setup_fit.c and setup_fit.c; `setup` has no such part yet. */
tn_status tn__setup_part_make(tn_setup *setup, int kind, tn__setup_part **part, tn_error *error);
void tn__setup_part_release(tn_setup *setup, int kind); /* accepts a part that was not made */
/* Options for counting memory, as far as the stages have run. */
tn_occupancy_options tn__setup_memory(const tn_setup *setup, const tn_setup_options *options);
/* The stages OCCUPY and PLAN: do the work that is left of them. */
tn_status tn__setup_occupy(tn_setup *setup, const tn_setup_options *options, tn_error *error);
tn_status tn__setup_plan(tn_setup *setup, const tn_setup_options *options, tn_error *error);
tn_plan_options tn__setup_plan_options(const tn_setup *setup, const tn_setup_options *options);
/* The program after the stage ORDER. */
const tn_program *tn__setup_ordered(const tn_setup *setup);
/* Bytes of static memory outside of the arena. */
uint64_t tn__setup_fixed(const tn_setup *setup);
/* The stage RECOMPUTE, and whether it has work to do. */
tn_status tn__setup_recompute(tn_setup *setup, const tn_setup_options *options, tn_error *error);
bool tn__setup_recomputes(const tn_setup_options *options);
/* setup_split.c: makes a set-up in which operators run in parts, as options->split asks. */
tn_status tn__setup_split(const tn_graph *graph, const tn_setup_options *options, tn_setup **setup,
                          tn_error *error);
/* Predicts the time of one run of a set-up; UINT64_MAX: unknown. */
typedef struct tn__setup_timer {
    tn_status (*time)(void *self, const tn_setup *setup, uint64_t *time, tn_error *error);
    void *self;
} tn__setup_timer;
/* The same for a budget, compared with the set-up without parts. *setup NULL: no parts need less
 * memory than that. With a timer (may be NULL), smaller parts are compared with those that just
 * keep to the budget, and the fastest is kept. Two refusals have no message. E_EXHAUSTED: no parts
 * keep to the budget; *setup is the smallest result that was found, or NULL. E_STOPPED: a limit
 * ended the search before. */
tn_status tn__setup_cut(const tn_setup *whole, const tn_setup_options *options,
                        const tn__setup_timer *timer, tn_setup **setup, tn_error *error);
/* The same for given regions: makes the graph of the stage REWRITE. */
tn_status tn__setup_regions(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* The stage FIT. */
tn_status tn__setup_fit(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Searches as tn_fit for a program with the parts made so far, counting memory as the stages do,
 * with the options options->fit. A refusal has facts and no message. */
tn_status tn__setup_search(const tn_setup *setup, const tn_setup_options *options,
                           const tn_program *program, const tn_costs *costs, tn_fit_result *result,
                           tn__refusal *refusal, tn_error *error);
/* Makes a set-up that streams weights, as options->stream asks, from one that does not. A refusal
 * has facts and no message. */
tn_status tn__setup_streamed_from(const tn_setup *whole, const tn_setup_options *options,
                                  tn_setup **setup, tn__refusal *refusal, tn_error *error);
/* setup.c: runs the stages from `stage` on; the parts before it are those of `base` (NULL: all
 * stages run). With `refusal` (may be NULL), a refusal has facts and no message. */
tn_status tn__setup_make(const tn_graph *graph, const tn_setup *base, tn_setup_stage stage,
                         const tn_setup_options *given, tn_setup **setup, tn__refusal *refusal,
                         tn_error *error);
/* setup_fit.c: tn_fit_sweep for the program of the stage ORDER. */
tn_status tn__setup_sweep(const tn_setup *setup, const tn_setup_options *options,
                          const tn_costs *costs, uint32_t count, uint64_t *budgets,
                          tn_fit_result *results, tn_error *error);
/* Makes another set-up from a result that tn__setup_search found for the program of stage ORDER. It
 * takes ownership of the result's contents, also on failure. */
tn_status tn__setup_fitted_from(const tn_setup *base, const tn_setup_options *options,
                                tn_fit_result *result, tn_setup **setup, tn_error *error);
/* setup.c: makes a set-up with the parts of another that come before `end`. */
tn_status tn__setup_share(const tn_setup *base, int end, tn_setup **setup, tn_error *error);
/* The stage FIT for the program of one rank, if the stage DIVIDE is to arrange it. */
tn_status tn__setup_fit_divided(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Costs of the graph as it runs, measured for about this time; without kernels, by default rates.
 * Ranks do not measure: each would get different costs, and so a different order of messages. */
#define TN__MEASURE_S 3.0 /* no new round begins after this time */
tn_status tn__setup_measure(const tn_setup *setup, const tn_setup_options *options, double seconds,
                            tn_costs **made, tn_error *error);
/* The same, or in place of it the caller's costs; *made is NULL if they are given. */
tn_status tn__setup_costs(const tn_setup *setup, const tn_setup_options *options, tn_costs **made,
                          tn_error *error);
/* The stage STREAM. */
tn_status tn__setup_stream(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Counts the static memory of a program, in the forms that its kernels want. */
tn_status tn__setup_count_statics(tn_setup *setup, const tn_program *program, bool inside,
                                  tn_error *error);
/* The stage SCRATCH. */
tn_status tn__setup_scratch(tn_setup *setup, const tn_setup_options *options, tn_error *error);

/* An engine of a set-up with its own input and output arrays, for runs with results that are not
 * read: measuring the times of operators, counting their zeros. */

typedef struct tn__made_up {
    tn_context context;
    tn_engine *engine;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
    tn__arena arena;
} tn__made_up;

/* Input numbers are between -1 and 1, indices are 0. The caller closes `it` after success and after
 * failure. Errors: E_UNKNOWN (a size is not known), E_NO_MEMORY, those of tn_setup_open.
 */
tn_status tn__made_up_open(tn__made_up *it, const tn_setup *setup, const tn_engine_options *options,
                           tn_error *error);
/* One run. Errors: those of tn_engine_run. */
tn_status tn__made_up_run(tn__made_up *it, tn_error *error);
void tn__made_up_close(tn__made_up *it);

#endif
