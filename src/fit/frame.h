/* frame.h - declarations that the files of this folder share; fit_graph.c explains how they
 * combine. */
#ifndef TN_FIT_FRAME_H
#define TN_FIT_FRAME_H

#include <tenure/engine.h>
#include <tenure/fit.h>

#include <time.h>

#include "base/base.h"
#include "fit/budget/search/seek.h"

/* Techniques that change only the program (tn_fit); the others change the graph or the place of
 * weights. */
#define TN__FIT_PROGRAM                                                                            \
    (uint32_t)(TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP | TN_FIT_COMPRESS | TN_FIT_LOSSY)

#define TN__WHY_TEXT sizeof(((tn_error *)0)->message)
/* Lives as long as the answer, because the compiled models keep using their context. */
typedef struct tn__graph_own {
    tn_context context, outer;
    double deadline;      /* 0: no deadline */
    clock_t hint_ends_at; /* processor time, so that hints do not depend on other load; 0: no
                           * hint is searched */
    bool interrupted;     /* the caller's progress has cancelled */
    char why[TN_CLAIMS_MAX + 1][TN__WHY_TEXT]; /* reasons of claims; the last one is not read */
    bool keeps; /* the pass "none": the program stays as it is, even if changes are allowed */
} tn__graph_own;

typedef struct tn__candidate {
    tn_setup *setup; /* NULL: no candidate */
    tn_costs *costs;
    bool shares;          /* its costs belong to another candidate of the same graph */
    tn_fit_result result; /* borrowed from the compiled model */
    uint64_t fixed;
    uint32_t techniques;
} tn__candidate;

typedef struct tn__graph_frame {
    const tn_graph *graph;
    tn_fit_request request;
    tn_setup_options options; /* options of all compiled models */
    tn_fit_options search;
    tn_plan_options plan; /* with a context that also ends at the time limit */
    tn__graph_own *own;
    tn_fit_answer *answer;
    tn__candidate best, least, whole;
    double costs_seconds;
    tn_error *error; /* during a set of techniques: one of its own, see graph_set */
} tn__graph_frame;

/* fit_graph.c. The context of the frame ends every computation at the time limit of the request. */
tn_status tn__graph_begin(tn__graph_frame *f, const tn_graph *graph, const tn_fit_request *given,
                          tn_fit_answer *answer, tn_error *error);
/* Shares of zeros for codecs, if they are allowed. */
tn_status tn__graph_zeros(tn__graph_frame *f);
double tn__graph_left(const tn__graph_frame *f); /* seconds; a little more than 0 after the limit */
/* Plans the unchanged graph. */
tn_status tn__graph_whole(tn__graph_frame *f);
/* Searches for the budget, after tn__graph_whole. Moves the candidates to the answer if it fails.
 */
tn_status tn__graph_rest(tn__graph_frame *f);
/* Moves the candidates to the answer. */
void tn__graph_keep(tn__graph_frame *f);
/* The reason why a technique cannot be used; NULL: it can. */
const char *tn__graph_hinders(const tn__graph_frame *f, uint32_t technique);
/* Whether it is a training step: its operators write into static tensors. */
bool tn__graph_is_trained(const tn_graph *graph);
tn_status tn__candidate_costs(tn__graph_frame *f, tn__candidate *it);

/* claim.c: E_INFEASIBLE, E_EXHAUSTED or E_STOPPED, with a message that states its scope. */
tn_status tn__claim_fail(const tn_fit_answer *answer, tn_status status, tn__ended ended,
                         const tn_context *context, tn_error *error);

#endif
