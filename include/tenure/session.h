/* session.h - from a graph to running it in one call: kernels, plan, a device of just that size.
 *
 *     tn_graph *graph;
 *     tn_session *session;
 *     tn_error error;
 *     int64_t shape[] = {1, 2};
 *     tn_tensor_id x, y;
 *     tn_tensor_spec in = {.name = "x", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .rank = 2,
 *                          .shape = shape};
 *     tn_tensor_spec out = {.name = "y", .kind = TN_KIND_OUTPUT};
 *     tn_op_spec relu = {.type = "Relu", .inputs = &x, .input_count = 1, .outputs = &y,
 *                        .output_count = 1};
 *     if (tn_graph_create(NULL, &graph, &error) ||
 *         tn_graph_add_tensor(graph, &in, &x, &error) ||
 *         tn_graph_add_tensor(graph, &out, &y, &error) ||
 *         tn_graph_add_op(graph, &relu, NULL, &error) || tn_graph_infer(graph, &error) ||
 *         tn_session_open(graph, NULL, &session, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     float *numbers = tn_session_array(session, x)->data;
 *     numbers[0] = -1;
 *     numbers[1] = 1;
 *     if (tn_session_run(session, &error)) return 2;
 *     printf("%g\n", ((float *)tn_session_array(session, y)->data)[1]);
 *     tn_session_close(session);
 *     tn_graph_destroy(graph);
 *
 * It is tn_setup_create and tn_setup_open with arrays for every input and output; whoever needs
 * more calls those (setup.h). Units and threads: as there.
 */
#ifndef TENURE_SESSION_H
#define TENURE_SESSION_H

#include <tenure/claim.h>
#include <tenure/setup.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_session tn_session;

typedef struct tn_session_options {
    size_t struct_size;
    const tn_context *context; /* NULL or outlives the session */
    /* Contents of parameters and constants, as in tn_engine_options; with `fuse`, `graph` is the
     * rewritten one. */
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
    uint32_t threads;     /* of the kernels; 0 = 1 */
    bool plain;           /* our own loops alone, without oneDNN, on the graph as it is */
    bool no_rewrite;      /* the graph as it is; else channels last where convolutions work */
    bool fuse;            /* of a graph that is no training step: operators may be merged, too, and
                           * ids change inside. A training step is always rewritten as one */
    double recompute;     /* share of work that may be done again instead of keeping, as in
                           * tn_recompute_options; 0: none */
    bool recompute_cheap; /* by cheap operators alone */
    const char *order;    /* of operators, as in tn_program_options; NULL: the graph's */
    const char *planner;  /* as in tn_plan_options; NULL: auto */
    uint64_t budget;  /* bytes for arena and static memory: where the plan needs more, it is kept
                       * to by tn_fit_graph (claim.h); what cannot be is refused. 0: what it
                       * needs */
    const char *pass; /* of fit.h, for that; NULL: its own. "keep": the plan as it is, or none */
    uint64_t seed;    /* of operators that draw numbers without a seed of their own */
    bool poison;      /* as in tn_engine_options */
    bool naive;       /* memory of its own for every tensor: what a plan may be compared with */
    tn_static_place statics;     /* of weights and state of optimizers, as in tn_setup_options */
    const tn_divide *divide;     /* NULL, or as in tn_setup_options: it is one rank of several, */
    const tn_exchange *exchange; /* that talk by this one (dist.h), which outlives the session */
    /* With `allow` 0: weights come from their files when they are needed, where not all of them fit
     * the budget, and no operator runs again for it. */
    bool stream;
    /* As in tn_engine_options: what is in no file as it is is kept in one while it runs */
    tn_status (*where)(void *self, const tn_graph *graph, tn_tensor_id tensor, tn_file_range *range,
                       bool *found, tn_error *error);
    double storage_bytes_per_s; /* what it is planned for; 0: 1e9 (tn_storage_measure tells) */
    bool stream_parts; /* of `stream`: operators whose weights alone are too large for the budget
                        * run in parts, and read them in slices */
    uint32_t allow;    /* TN_FIT_* that may keep to the budget; 0: as tn_fit_request says */
    double timeout_s;  /* of looking for that; 0: none */
} tn_session_options;
#define TN_SESSION_OPTIONS_INIT                                                                    \
    TN_INIT(tn_session_options, TN_SET(struct_size, sizeof(tn_session_options)))

/* Plans the graph and sets it up. The graph must outlive the session.
 *
 * options   NULL: defaults
 * Errors: those of the calls that it is made of; E_EXHAUSTED, or E_INFEASIBLE where that is proved,
 * with what would do when the budget is too small; E_UNKNOWN when an input or output has no known
 * size. */
TN_API TN_CHECKED tn_status tn_session_open(const tn_graph *graph,
                                            const tn_session_options *options, tn_session **session,
                                            tn_error *error);
TN_API void tn_session_close(tn_session *session); /* NULL is fine */

/* The array of an input or output, by its id in the graph of tn_session_open; its data lie aligned
 * and are zero at first. NULL: neither an input that is no parameter, nor an output. */
TN_API tn_array *tn_session_array(tn_session *session, tn_tensor_id tensor);

/* Runs the graph once on its arrays. Errors: those of tn_engine_run. */
TN_API TN_CHECKED tn_status tn_session_run(tn_session *session, tn_error *error);

/* What it is made of: to read and set static tensors, to measure, to draw. They live as long. */
TN_API tn_engine *tn_session_engine(tn_session *session);
TN_API const tn_setup *tn_session_setup(const tn_session *session);

#ifdef __cplusplus
}
#endif
#endif
