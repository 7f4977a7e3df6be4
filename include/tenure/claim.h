/* claim.h - a graph within a budget of bytes: the fastest way that was found, and what is claimed
 * of the others.
 *
 *     // ... graph: of tn_graph_load
 *     tn_fit_request request = TN_FIT_REQUEST_INIT;
 *     tn_fit_options search = TN_FIT_OPTIONS_INIT;
 *     tn_fit_answer answer;
 *     search.budget = UINT64_C(64) << 20;
 *     request.search = &search;
 *     tn_status status = tn_fit_graph(graph, &request, &answer, &error);
 *     if (status == TN_OK) printf("%llu bytes\n", (unsigned long long)answer.result.bytes);
 *     for (uint32_t i = 0; i < answer.hint_count; i++) // what else would fit
 *         printf("%llu bytes\n", (unsigned long long)answer.hints[i].bytes);
 *     tn_fit_answer_release(&answer);
 *
 * Techniques are tried from those of least cost up: the plan as it is; what a program can do
 * (another order, recomputation, copies to the host, codecs: tn_fit); operators in parts, and both
 * together; at last weights that come from their file. A set of techniques that finds a program
 * within the budget sets the time that the next one has to beat; where the plan as it is fits, or
 * what was found takes hardly longer, no other set is tried. Each set leaves a claim. Where nothing
 * fits, what was not allowed is tried as well, and becomes a hint, with the bytes that a call finds
 * which allows it.
 *
 * Units: bytes; picoseconds (costs.h). Threads: a graph is only read; an answer belongs to one
 * thread.
 */
#ifndef TENURE_CLAIM_H
#define TENURE_CLAIM_H

#include <tenure/setup.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is allowed where nobody says: techniques that keep every bit of a result and need no
 * further information. */
#define TN_FIT_USUAL (TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SPLIT)

typedef enum tn_claim_kind {
    TN_CLAIM_FITS,       /* a program was found, of `bytes` and `time` */
    TN_CLAIM_INFEASIBLE, /* proved: no program of these techniques fits */
    TN_CLAIM_NOT_FOUND,  /* none was found; there may be one, of no less than `bytes_bound` */
    TN_CLAIM_STOPPED,    /* a limit ended the search before it found one */
    TN_CLAIM_NOT_TRIED,  /* `why` */
    TN_CLAIM_COUNT
} tn_claim_kind;
/* "fits", "infeasible", "not_found", "stopped", "not_tried". */
TN_API const char *tn_claim_kind_name(tn_claim_kind kind);

/* What is known of one set of techniques. */
typedef struct tn_claim {
    uint32_t techniques; /* TN_FIT_*; 0: the plan as it is */
    tn_claim_kind kind;
    uint64_t bytes; /* of the program; of those that do not fit the least found; 0: none was */
    uint64_t time;  /* of the program; 0: not known */
    uint64_t bytes_bound; /* proved of these techniques: none takes less; 0: nothing is */
    const char *why;      /* static; "" but for NOT_TRIED */
} tn_claim;

/* One technique more, and what a call that allows it finds. */
typedef struct tn_hint {
    uint32_t techniques; /* TN_FIT_*, beside those that were allowed */
    bool fits;           /* the budget that was asked for; else `bytes` is a budget that does */
    uint64_t bytes;
    double more_time; /* share of the plain plan's time, predicted; below 0: not known */
} tn_hint;

#define TN_CLAIMS_MAX 8u
#define TN_HINTS_MAX 4u

typedef struct tn_fit_request {
    size_t struct_size;
    const tn_setup_options *setup; /* how the graph is compiled; NULL: defaults. `fit`, `split`,
                                    * `stream`, `costs` and `make_costs` are not read */
    const tn_fit_options *search;  /* `budget`, rates, limits, and `allow`: TN_FIT_*, 0: USUAL and,
                                    * with rates, SWAP. The limit of time is for all of the call.
                                    * `fixed_bytes`, `memory`, `plan`, `zeros`, `live` are not read.
                                    * With a `pass` of its own: that alone, and no parts unless they
                                    * are allowed by name */
    double storage_bytes_per_s;    /* of the file of weights, for STREAM; 0: 1e9 */
    double storage_latency_s;      /* of one read */
    bool timed; /* the time of the plan as it is is wanted, so costs are made even where it fits */
    bool no_hints; /* nobody asks what else would fit */
    /* Costs of a graph as it runs: called where there is need of them, for each graph that is
     * tried. E_UNSUPPORTED: they are known of the graph without parts alone. NULL: measured where
     * there are kernels, for some seconds; else modelled */
    tn_status (*costs)(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error);
    /* Shares of zeros for codecs, as tn_fit_options.zeros, of the graph as it runs without parts;
     * memory of the callee. NULL: not known */
    tn_status (*zeros)(void *self, const tn_setup *setup, const float **zeros, tn_error *error);
    /* The speed of the file of weights, asked for where it is needed; NULL: as given above */
    tn_status (*storage)(void *self, double *bytes_per_s, tn_error *error);
    void *self; /* of all three */
} tn_fit_request;
#define TN_FIT_REQUEST_INIT TN_INIT(tn_fit_request, TN_SET(struct_size, sizeof(tn_fit_request)))

typedef struct tn_fit_answer {
    tn_setup *setup;       /* that keeps to the budget; NULL: none was found */
    tn_setup *whole;       /* of the plan as it is */
    tn_setup *least;       /* that takes fewest bytes of all that were found. All three are the
                            * answer's, and one may stand for another */
    tn_fit_result result;  /* of `setup`, else of `least`. What it points to is the set-up's: it is
                            * not released by itself */
    uint64_t fixed_bytes;  /* of its bytes, outside of the arena */
    const tn_costs *costs; /* of the graph that it is of; NULL: none were needed */
    const tn_costs *whole_costs;    /* of the graph of `whole`; NULL: none were needed */
    uint32_t techniques;            /* of the set that found it; 0: the plan as it is */
    uint32_t allowed;               /* TN_FIT_* */
    uint64_t budget, host_budget;   /* as they were asked for */
    tn_claim claims[TN_CLAIMS_MAX]; /* [claim_count] in the order of trying */
    tn_hint hints[TN_HINTS_MAX];    /* [hint_count] where nothing fits */
    uint32_t claim_count, hint_count;
    double costs_seconds; /* that making costs took */
    char detail[280];     /* what the last set that found nothing says of itself, or "" */
    void *own;
} tn_fit_answer;

/* The fastest of the ways that were found to run the graph within the budget.
 *
 * answer  out, to be released whatever is returned, behind engines on its set-ups
 * Errors: E_INFEASIBLE (proved of all that was allowed), E_EXHAUSTED (none was found): both with
 * the scope of the claim and the hints in words; E_STOPPED (a limit came before any), those of
 * tn_setup_create, of tn_fit, and of the calls of the request. */
TN_API TN_CHECKED tn_status tn_fit_graph(const tn_graph *graph, const tn_fit_request *request,
                                         tn_fit_answer *answer, tn_error *error);
TN_API void tn_fit_answer_release(tn_fit_answer *answer); /* zeroed is fine */

/* The words of techniques, as options and JSON have them: "order,recompute". */
#define TN_TECHNIQUES_TEXT 64
TN_API const char *tn_techniques_text(uint32_t techniques, char text[TN_TECHNIQUES_TEXT]);
/* Techniques that no claim's set contains: allowed or not, they were not tried. */
TN_API uint32_t tn_fit_answer_not_tried(const tn_fit_answer *answer);

#ifdef __cplusplus
}
#endif
#endif
