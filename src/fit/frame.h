/* frame.h - declarations that the files of this folder share; fit_graph.c explains how they
 * combine. */
#ifndef TN_FIT_FRAME_H
#define TN_FIT_FRAME_H

#include <tenure/engine.h>
#include <tenure/fit.h>

#include <time.h>

#include "base/base.h"
#include "fit/budget/search/seek.h"

/* Techniques that change only the program (tn_fit). The other techniques change the graph, or where
 * weights are stored. */
#define TN__FIT_PROGRAM                                                                            \
    (uint32_t)(TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP | TN_FIT_COMPRESS | TN_FIT_LOSSY)

#define TN__WHY_TEXT sizeof(((tn_error *)0)->message)
/* Data that must exist as long as the answer, because the compiled models keep using their
 * context. */
typedef struct tn__graph_own {
    tn_context context, outer;
    double deadline; /* time at which the search must end, as tn__clock_s counts; 0: no limit */
    /* processor time (clock()) at which the search for a hint ends, so that hints do not depend on
     * the load of the machine; 0: no hint is being searched for */
    clock_t hint_ends_at;
    bool interrupted; /* the caller's progress function asked to stop */
    /* texts of the reasons in claims; the additional last element takes the reason if there are too
     * many claims, and is never read */
    char why[TN_CLAIMS_MAX + 1][TN__WHY_TEXT];
    bool keeps; /* the pass is "none": the program may not be changed */
} tn__graph_own;

typedef struct tn__candidate {
    tn_setup *setup; /* the compiled model of this candidate; NULL: the candidate is empty */
    tn_costs *costs;
    bool shares;          /* the costs are owned by another candidate with the same graph */
    tn_fit_result result; /* program, occupancy and layout are borrowed from `setup` */
    uint64_t fixed;
    uint32_t techniques;
} tn__candidate;

typedef struct tn__graph_frame {
    const tn_graph *graph;
    tn_fit_request request;
    tn_setup_options options; /* options for every compiled model of this search */
    tn_fit_options search;
    /* options of the planner; their context also stops at the time limit of the request */
    tn_plan_options plan;
    tn__graph_own *own;
    tn_fit_answer *answer;
    /* written if the list of claims is full, and never read, so that the caller of graph_claim
     * always gets a claim to fill */
    tn_claim unwanted;
    tn__candidate best, least, whole;
    double costs_seconds;
    /* receives messages; while one set of techniques is tried, graph_set puts a separate error
     * here */
    tn_error *error;
} tn__graph_frame;

/* Prepares a search (fit_graph.c). The frame's context stops every computation at the time limit of
 * the request. */
tn_status tn__graph_begin(tn__graph_frame *f, const tn_graph *graph, const tn_fit_request *given,
                          tn_fit_answer *answer, tn_error *error);
/* Gets the fraction of zeros in each tensor, which codecs use, if the request has a function that
 * measures it. */
tn_status tn__graph_zeros(tn__graph_frame *f);
/* Returns the seconds until the time limit; after the limit, a small positive number. */
double tn__graph_left(const tn__graph_frame *f);
/* Plans the unchanged graph as the first candidate, without a time limit, and records its claim.
 * With the option `arena`, the budget is raised by the bytes of static memory. */
tn_status tn__graph_whole(tn__graph_frame *f);
/* Searches for a program within the budget; call it after tn__graph_whole. Moves the candidates to
 * the answer if the search fails. */
tn_status tn__graph_rest(tn__graph_frame *f);
/* Moves the candidates of the search to the answer, which then owns them. */
void tn__graph_keep(tn__graph_frame *f);
/* Returns the reason why a technique cannot be used for this graph; NULL if it can be used. */
const char *tn__graph_hinders(const tn__graph_frame *f, uint32_t technique);
/* Whether the graph is a training step, which is a graph with operators that write into static
 * tensors. */
bool tn__graph_is_trained(const tn_graph *graph);
tn_status tn__candidate_costs(tn__graph_frame *f, tn__candidate *it);

/* Fails with E_INFEASIBLE, E_EXHAUSTED or E_STOPPED (`status`), and writes a message that states
 * which techniques were considered (claim.c). */
tn_status tn__claim_fail(const tn_fit_answer *answer, tn_status status, tn__ended ended,
                         const tn_context *context, tn_error *error);

#endif
