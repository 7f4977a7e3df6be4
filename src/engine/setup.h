/* setup.h - what a set-up is made of: parts, one a stage, counted (setup.c makes them). */
#ifndef TN_ENGINE_SETUP_H
#define TN_ENGINE_SETUP_H

#include <tenure/setup.h>

#include <stdatomic.h>

#include "base/base.h"

enum {
    PART_REWRITTEN, /* where operators of it run in parts: else it is the graph */
    PART_GRAPH,
    PART_KERNELS,
    PART_PROGRAM,
    PART_AGAIN,   /* the program that computes again within a share of work */
    PART_SCRATCH, /* kernels with less scratch, for the others */
    PART_FIT,     /* the program that keeps to a budget */
    PART_STREAM,  /* the program whose weights come and go */
    PART_DIVIDED, /* the program of one rank; `fitted`, with no more than that where it fits */
    PART_STATICS,
    PART_OCCUPANCY,
    PART_LAYOUT,
    PART_COUNT
};

typedef struct tn__setup_statics {
    tn_static_block *blocks;
    uint32_t count;
    uint64_t bytes; /* of all, each aligned */
    bool inside;    /* they are bodies of the problem */
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
        tn_stream_result streamed; /* but for what other parts have of it */
    };
    tn_recompute_report report; /* AGAIN */
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
};

/* For scratch.c, setup_again.c and setup_fit.c; `setup` has no such part yet. */
tn_status tn__setup_part_make(tn_setup *setup, int kind, tn__setup_part **part, tn_error *error);
void tn__setup_part_release(tn_setup *setup, int kind); /* none is fine */
/* What memory is counted with, by what has been made so far. */
tn_occupancy_options tn__setup_memory(const tn_setup *setup, const tn_setup_options *options);
/* The stages OCCUPY and PLAN, of what there is to do of them. */
tn_status tn__setup_occupy(tn_setup *setup, const tn_setup_options *options, tn_error *error);
tn_status tn__setup_plan(tn_setup *setup, const tn_setup_options *options, tn_error *error);
tn_plan_options tn__setup_plan_options(const tn_setup *setup, const tn_setup_options *options);
/* The program behind the stage ORDER. */
const tn_program *tn__setup_ordered(const tn_setup *setup);
/* The stage RECOMPUTE; whether there is anything to do. */
tn_status tn__setup_recompute(tn_setup *setup, const tn_setup_options *options, tn_error *error);
bool tn__setup_recomputes(const tn_setup_options *options);
/* setup_split.c: a set-up of which operators run in parts, as options->split asks. */
tn_status tn__setup_split(const tn_graph *graph, const tn_setup_options *options, tn_setup **setup,
                          tn_error *error);
/* The same for a budget, beside the set-up without parts. *setup NULL: no parts need less than
 * that. E_EXHAUSTED: none keep to the budget; *setup is the least that was found, or NULL. */
tn_status tn__setup_cut(const tn_setup *whole, const tn_setup_options *options, tn_setup **setup,
                        tn_error *error);
/* The same, of given regions: the graph of the stage REWRITE. */
tn_status tn__setup_regions(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* The stage FIT. */
tn_status tn__setup_fit(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* tn_fit of a program on what has been made, counted as the stages count: options->fit says how. */
tn_status tn__setup_search(const tn_setup *setup, const tn_setup_options *options,
                           const tn_program *program, const tn_costs *costs, tn_fit_result *result,
                           tn_error *error);
/* Another set-up, of a result that tn__setup_search found for the program of stage ORDER. It takes
 * what the result has, also where it fails. */
tn_status tn__setup_fitted_from(const tn_setup *base, const tn_setup_options *options,
                                tn_fit_result *result, tn_setup **setup, tn_error *error);
/* setup.c: one with the parts of another that come before `end`. */
tn_status tn__setup_share(const tn_setup *base, int end, tn_setup **setup, tn_error *error);
/* The same of the program of one rank, where the stage DIVIDE arranges it. */
tn_status tn__setup_fit_divided(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* Costs of the graph as it runs: what the caller gave, or *made, measured. Ranks do not measure:
 * they would at the same time, each with another answer, and so another order of messages. */
tn_status tn__setup_costs(const tn_setup *setup, const tn_setup_options *options, tn_costs **made,
                          tn_error *error);
/* The stage STREAM. */
tn_status tn__setup_stream(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* setup_stream_parts.c: the whole row, with operators in parts whose weights are too large. */
tn_status tn__setup_stream_parts(const tn_graph *graph, const tn_setup_options *options,
                                 tn_setup **setup, tn_error *error);
/* Static memory of a program, as its kernels want it. */
tn_status tn__setup_count_statics(tn_setup *setup, const tn_program *program, bool inside,
                                  tn_error *error);
/* The stage DIVIDE. */
tn_status tn__setup_divide(tn_setup *setup, const tn_setup_options *options, tn_error *error);
/* The stage SCRATCH. */
tn_status tn__setup_scratch(tn_setup *setup, const tn_setup_options *options, tn_error *error);

#endif
