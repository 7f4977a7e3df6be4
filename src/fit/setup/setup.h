/* setup.h - the parts of a compiled model (a set-up, tn_setup): one part per compile stage,
 * reference-counted. setup.c makes them. */
#ifndef TN_SETUP_SETUP_H
#define TN_SETUP_SETUP_H

#include <tenure/engine.h>

#include <stdatomic.h>

#include "base/base.h"
#include "fit/budget/refusal.h"

enum {
    /* the graph that the stage REWRITE made, if its operators are then put into tiles or its
     * experts become rows; the result is PART_GRAPH. Otherwise the rewritten graph is PART_GRAPH
     * itself */
    PART_REWRITTEN,
    PART_GRAPH,
    PART_KERNELS,
    PART_PROGRAM,
    PART_RECOMPUTED, /* the program that recomputes tensors within a work budget */
    PART_SCRATCH,    /* kernels with less scratch memory, which replace PART_KERNELS */
    PART_FIT,        /* the program that is within a budget */
    PART_STREAM,     /* the program that streams weights */
    /* the program of one rank, in `fitted`; the other fields of `fitted` are used only if the
     * program had to be fitted to a budget */
    PART_DIVIDED,
    PART_STREAMS, /* the program whose operators are on several streams */
    PART_STATICS,
    PART_OCCUPANCY,
    PART_LAYOUT,
    PART_COUNT
};

typedef struct tn__setup_statics {
    tn_static_block *blocks;
    uint32_t count;
    uint64_t bytes; /* bytes of all static blocks, each rounded up to its alignment */
    bool inside;    /* the static blocks lie in the arena, as buffers of the problem */
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
        /* the result of weight streaming, without its occupancy and layout, which became other
         * parts */
        tn_stream_result streamed;
    };
    tn_recompute_report report; /* RECOMPUTED */
    /* report about the tiles, for PART_GRAPH; the part owns the lists of regions and repeats in the
     * report */
    tn_split_report split;
    tn_scratch_report scratch; /* SCRATCH */
    tn_expert_cache experts;   /* for PART_GRAPH; operators 0: all experts are in memory */
} tn__setup_part;

struct tn_setup {
    tn_context context;
    const tn_graph *given;
    const tn_kernels *given_kernels; /* kernels that the caller gave; NULL: none */
    const tn_program *given_program;
    /* the parts that stages made; NULL: the part was not made, or was given by the caller */
    tn__setup_part *parts[PART_COUNT];
    double seconds[TN_SETUP_STAGE_COUNT];
    /* Where a stage that cannot keep to its budget puts the facts, without a message, while the
     * stages run; NULL: it writes a message. */
    tn__refusal *refusal;
};

/* Makes a part of a compiled model, for the files of the stages; `setup` has no part of this kind
 * yet. */
tn_status tn__setup_part_make(tn_setup *setup, int kind, tn__setup_part **part, tn_error *error);
/* Releases a part of a compiled model, and frees it if no other compiled model shares it. Does
 * nothing if the part was not made. */
void tn__setup_part_release(tn_setup *setup, int kind);
/* releases a part that was taken out of the compiled model; NULL has no effect */
void tn__setup_part_drop(tn_setup *setup, int kind, tn__setup_part *part);
/* Returns the options for counting memory, with the results of the stages that have run so far. */
tn_occupancy_options tn__setup_memory(const tn_setup *setup, const tn_setup_options *options);
/* The stages OCCUPY and PLAN. They do nothing if an earlier stage has already made their parts. */
tn_status tn__setup_occupy(tn_setup *setup, const tn_setup_options *options, tn_error *error);
tn_status tn__setup_plan(tn_setup *setup, const tn_setup_options *options, tn_error *error);
tn_plan_options tn__setup_plan_options(const tn_setup *setup, const tn_setup_options *options);
/* Returns the program that the stage ORDER made, before any technique changed it. */
const tn_program *tn__setup_ordered(const tn_setup *setup);
/* Bytes of static memory outside of the arena. */
uint64_t tn__setup_fixed(const tn_setup *setup);
/* The stage RECOMPUTE, and whether the options give it anything to do. */
tn_status tn__setup_recompute(tn_setup *setup, const tn_setup_options *options, tn_error *error);
bool tn__setup_recomputes(const tn_setup_options *options);
/* The stage STREAMS (setup_streams.c), and whether the options give it anything to do. */
tn_status tn__setup_streams(tn_setup *setup, const tn_setup_options *options, tn_error *error);
bool tn__setup_has_streams(const tn_setup_options *options);
/* Makes a compiled model with operators in tiles, as options->split describes (setup_split.c). */
tn_status tn__setup_split(const tn_graph *graph, const tn_setup_options *options, tn_setup **setup,
                          tn_error *error);
/* A callback that predicts the time of one run of a compiled model; UINT64_MAX: unknown. */
typedef struct tn__setup_timer {
    tn_status (*time)(void *self, const tn_setup *setup, uint64_t *time, tn_error *error);
    void *self;
} tn__setup_timer;
/* Makes a compiled model with operators in tiles for a budget, and compares it with `whole`, the
 * one without tiles. *setup is NULL if no tiles need less memory. With a timer, smaller tiles are
 * compared with those that just keep to the budget, and the fastest are kept; `timer` may be NULL.
 * Two refusals have no message. E_EXHAUSTED: no tiles keep to the budget; *setup is the smallest
 * compiled model found, or NULL. E_STOPPED: a limit ended the search. */
tn_status tn__setup_cut(const tn_setup *whole, const tn_setup_options *options,
                        const tn__setup_timer *timer, tn_setup **setup, tn_error *error);
/* Replaces the graph of the stage REWRITE by one in which the operators of the regions in
 * options->split run in tiles. */
tn_status tn__setup_regions(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Replaces the graph of the stage REWRITE by one with experts as rows of a cache of
 * options->expert_slots rows (setup_experts.c). */
tn_status tn__setup_expert_rows(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Makes a compiled model for a budget (options->stream) with experts as rows of a cache, which is
 * as large as the budget allows. Other weights are streamed only if a small cache is still too
 * large. *setup is NULL if the graph has no experts that can be rows, or if nothing fits; *refusal
 * then has the facts, if any. */
tn_status tn__setup_expert_cache(const tn_setup *whole, const tn_setup_options *options,
                                 tn_setup **setup, tn__refusal *refusal, tn_error *error);
/* The stage FIT: searches for a program within the budget if the plan exceeds it. */
tn_status tn__setup_fit(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Searches as tn_fit does for a program within the budget of options->fit, with the parts made so
 * far. Memory is counted as the stages count it. A refusal has facts and no message. */
tn_status tn__setup_search(const tn_setup *setup, const tn_setup_options *options,
                           const tn_program *program, const tn_costs *costs, tn_fit_result *result,
                           tn__refusal *refusal, tn_error *error);
/* Makes a compiled model that streams weights, as options->stream describes, from one that does
 * not. A refusal has facts and no message. */
tn_status tn__setup_streamed_from(const tn_setup *whole, const tn_setup_options *options,
                                  tn_setup **setup, tn__refusal *refusal, tn_error *error);
/* Runs the stages from `stage` on (setup.c). Parts of earlier stages are those of `base`; if it is
 * NULL, `stage` must be the first. If `refusal` is not NULL, a refusal has facts and no message. */
tn_status tn__setup_make(const tn_graph *graph, const tn_setup *base, tn_setup_stage stage,
                         const tn_setup_options *given, tn_setup **setup, tn__refusal *refusal,
                         tn_error *error);
/* Does what tn_fit_sweep does, for the program of the stage ORDER (setup_fit.c). */
tn_status tn__setup_sweep(const tn_setup *setup, const tn_setup_options *options,
                          const tn_costs *costs, uint32_t count, uint64_t *budgets,
                          tn_fit_result *results, tn_error *error);
/* Makes another compiled model from a result that tn__setup_search found for the program of the
 * stage ORDER. It takes ownership of the contents of *result, even on failure. */
tn_status tn__setup_fitted_from(const tn_setup *base, const tn_setup_options *options,
                                tn_fit_result *result, tn_setup **setup, tn_error *error);
/* Makes a compiled model that shares the parts of another one that come before the part `end`
 * (setup.c). */
tn_status tn__setup_share(const tn_setup *base, int end, tn_setup **setup, tn_error *error);
/* Fits the program of one rank to the budget, if the stage DIVIDE made the program
 * (divide->arranges). */
tn_status tn__setup_fit_divided(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Measures the costs of the compiled model's operators for about `seconds` seconds; without
 * kernels, computes them from default rates. For one of several ranks, default rates are used as
 * well: ranks would measure different costs, and might choose different orders of messages. */
#define TN__MEASURE_S 3.0 /* default measuring time in seconds; no new round begins after it */
tn_status tn__setup_measure(const tn_setup *setup, const tn_setup_options *options, double seconds,
                            tn_costs **made, tn_error *error);
/* Makes costs with tn__setup_measure, unless the caller gives costs in the options; *made is then
 * NULL. */
tn_status tn__setup_costs(const tn_setup *setup, const tn_setup_options *options, tn_costs **made,
                          tn_error *error);
/* The stage STREAM: streams weights if the plan exceeds the budget. */
tn_status tn__setup_stream(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Counts the static memory of a program, in the forms that its kernels need. inside: the static
 * blocks lie in the arena. */
tn_status tn__setup_count_statics(tn_setup *setup, const tn_program *program, bool inside,
                                  tn_error *error);
/* The stage SCRATCH: chooses kernels with less scratch memory if that lowers the peak. */
tn_status tn__setup_scratch(tn_setup *setup, const tn_setup_options *options, tn_error *error);

/* An engine of a compiled model with arrays for its inputs and outputs. It is used for runs with
 * results that are not read: to measure times, and to count zeros. */

typedef struct tn__made_up {
    tn_context context;
    tn_engine *engine;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
    tn__arena arena;
} tn__made_up;

/* Opens an engine of a compiled model on generated inputs: floats between -1 and 1, all other
 * inputs 0. The caller must close `it` after success and after failure. Errors: E_UNKNOWN (a size
 * is not known), E_NO_MEMORY, those of tn_setup_open. */
tn_status tn__made_up_open(tn__made_up *it, const tn_setup *setup, const tn_engine_options *options,
                           tn_error *error);
/* Runs the engine once. Errors: those of tn_engine_run. */
tn_status tn__made_up_run(tn__made_up *it, tn_error *error);
void tn__made_up_close(tn__made_up *it);

#endif
