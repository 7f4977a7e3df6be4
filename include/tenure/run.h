/* run.h - runs a graph with few calls: kernels, plan, and a device of exactly that size.
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
 * A model file with its own weights needs one call (examples/run_model.c):
 *
 *     tn_session *session;
 *     tn_error error;
 *     if (tn_session_open_file("no-such-model.onnx", NULL, NULL, &session, &error) == TN_OK) {
 *         printf("%llu bytes\n", (unsigned long long)tn_session_find(session, "image")->bytes);
 *         tn_session_close(session);
 *     } else {
 *         printf("%s: %s\n", error.where, error.message);
 *     }
 *
 * tn_session_open is tn_fit_graph (fit.h) and tn_setup_open (engine.h), plus an array for every
 * input and output. Programs that need more control call those directly.
 * Units: bytes, seconds. Threads: one thread at a time may use a session.
 */
#ifndef TENURE_RUN_H
#define TENURE_RUN_H

#include <tenure/fit.h>
#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of experimental headers. Stable calls only pass pointers to them on. */
struct tn_divide;
struct tn_exchange;

/* --- offsets of tensors, without running the graph ------------------------------------------- */

/* Plans the tensors of an inferred graph in the order of its operators, without running it.
 *
 * options  NULL: defaults
 * offsets  out, [tensors of the graph]: bytes from the start of the arena. TN_SIZE_UNKNOWN: the
 *          tensor is not in the arena (a parameter, a constant, or never used)
 * arena    out: bytes of the arena
 *
 * tn_plan_uses (plan.h) does this for sizes and uses without a graph.
 * Errors: E_UNKNOWN (a size), and those of tn_plan. */
TN_API TN_CHECKED tn_status tn_graph_allocate(const tn_graph *graph, const tn_plan_options *options,
                                              uint64_t *offsets, uint64_t *arena, tn_error *error);

/* --- running --------------------------------------------------------------------------------- */

typedef struct tn_session tn_session;

/* The place of static memory: parameters, constants, optimizer state and folded tensors, in the
 * layouts that the kernels need. */
typedef enum tn_static_place {
    TN_STATIC_APART, /* static memory is a separate block, outside the arena */
    /* static memory is in the arena, and the planner places it: one peak bounds all memory */
    TN_STATIC_ARENA,
    TN_STATIC_FIRST /* static blocks are pinned one after another at the start of the arena */
} tn_static_place;

typedef struct tn_session_options {
    size_t struct_size;
    /* services of the caller; NULL: defaults; must outlive the session */
    const tn_context *context;
    /* Provides the data of parameters and constants, like `read` of tn_engine_options. With `fuse`,
     * the graph passed to it is the rewritten graph. */
    tn_status (*read)(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error);
    void *self;
    uint32_t threads; /* number of threads of the kernels; 0: 1 */
    /* true: use only the built-in kernels, without oneDNN, and do not rewrite the graph */
    bool plain;
    /* true: do not rewrite the graph; otherwise convolutions may use channels-last */
    bool no_rewrite;
    /* true: operators of an inference graph may be fused, which changes their ids. The graph of a
     * training step is rewritten with fusion in either case */
    bool fuse;
    /* work budget: share of the work that may be recomputed to save memory, as in
     * tn_recompute_options; 0: nothing is recomputed */
    double recompute;
    bool recompute_cheap; /* true: recompute only cheap operators */
    /* order of the operators, as in tn_program_options; NULL: the order of the graph */
    const char *order;
    const char *planner; /* name of the planner, as in tn_plan_options; NULL: "auto" */
    /* Bytes for arena and static memory. If the plan needs more, tn_fit_graph (fit.h) searches for
     * a program that fits; opening fails if it finds no such program. 0: no limit */
    uint64_t budget;
    /* name of the search to use, from fit.h; NULL: tn_fit_graph chooses it. "none": no search, only
     * the plan without changes */
    const char *pass;
    uint64_t seed; /* seed for random operators that have no seed of their own */
    bool poison;   /* true: check for stray writes, as in tn_engine_options */
    bool naive;    /* true: give every tensor memory of its own, as a baseline for plans */
    tn_static_place statics; /* place of weights and of optimizer state, as in tn_setup_options */
    /* makes the session one rank of several, as in tn_setup_options; NULL: one rank */
    const struct tn_divide *divide;
    /* transport between the ranks (dist.h); must outlive the session */
    const struct tn_exchange *exchange;
    /* With `allow` 0: if the weights do not all fit the budget, they are read from their files when
     * they are needed. No other technique is then used for the budget, except `stream_parts`. */
    bool stream;
    /* Finds the file range of a weight, as in tn_engine_options. Weights that no file contains in
     * the form that is needed are kept in a temporary file while the session runs */
    tn_status (*where)(void *self, const tn_graph *graph, tn_tensor_id tensor, tn_file_range *range,
                       bool *found, tn_error *error);
    /* read rate that is assumed for the storage of the weights; 0: 1e9 (tn_storage_measure measures
     * it) */
    double storage_bytes_per_s;
    /* with `stream`: operators with weights that alone exceed the budget run as tiles, and read
     * their weights in slices */
    bool stream_parts;
    /* techniques (TN_FIT_*) that are allowed to meet the budget; 0: the default of
     * tn_fit_request */
    uint32_t allow;
    double timeout_s; /* time limit in seconds of the search for a program that fits; 0: no limit */
    /* true: tn_session_open_file generates weights that the files do not contain
     * (tn_contents_generate) */
    bool make_weights;
    /* rules about single tensors (fit.h), which apply with and without a budget; read during the
     * call. In training, the rules are for the training step. NULL: no rules */
    const tn_rules *rules;
} tn_session_options;
#define TN_SESSION_OPTIONS_INIT                                                                    \
    TN_INIT(tn_session_options, TN_SET(struct_size, sizeof(tn_session_options)))

/* Plans the graph and prepares it to run. The graph must outlive the session.
 *
 * options   NULL: defaults
 *
 * Errors: those of tn_fit_graph and tn_setup_open. If the budget is too small: E_EXHAUSTED, or
 * E_INFEASIBLE where that is proved, with a sufficient budget in the message. E_UNKNOWN: an input
 * or output of unknown size. */
TN_API TN_CHECKED tn_status tn_session_open(const tn_graph *graph,
                                            const tn_session_options *options, tn_session **session,
                                            tn_error *error);
/* Loads a model file and opens a session on it, with the weights of its files. The session owns the
 * graph. Operators may be fused, except with `no_rewrite`.
 *
 * import   values of symbolic dimensions and other options of tn_graph_load; NULL: defaults
 * options  NULL: defaults. `read` and `where` have to be NULL: the files provide the data
 *
 * Errors: E_INVALID (`read` or `where` is not NULL), those of tn_graph_load, tn_contents_open and
 * tn_session_open.
 */
TN_API TN_CHECKED tn_status tn_session_open_file(const char *path, const tn_import_options *import,
                                                 const tn_session_options *options,
                                                 tn_session **session, tn_error *error);
TN_API void tn_session_close(tn_session *session); /* Closes a session; NULL has no effect. */

/* Returns the array of an input or output, by its id in the graph given to tn_session_open. The
 * data of the array is aligned, and zero at first. NULL: the tensor is a parameter, or neither an
 * input nor an output. */
TN_API tn_array *tn_session_array(tn_session *session, tn_tensor_id tensor);

/* Returns the array of an input or output, by its name. NULL: no input or output has this name.
 * Cost: O(inputs and outputs). */
TN_API tn_array *tn_session_find(tn_session *session, const char *name);
/* Returns all bytes of the device that the session occupies: its arena and its static memory. */
TN_API uint64_t tn_session_bytes(const tn_session *session);
/* Returns the graph that was given, or loaded from the file. */
TN_API const tn_graph *tn_session_graph(const tn_session *session);

/* Runs the graph once on its arrays. Errors: those of tn_engine_run. */
TN_API TN_CHECKED tn_status tn_session_run(tn_session *session, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
