/* open_model.h - from a model file to an engine that can run it: what `tenure run` does, in steps.
 */
#ifndef TN_CLI_OPEN_MODEL_H
#define TN_CLI_OPEN_MODEL_H

#include "cli/fit_options.h"
#include "cli/train_options.h"
#include "cli/zeros.h"

typedef struct cli_choices { /* of kernels and plan */
    tn_plan_options plan;
    uint32_t threads;
    bool no_rewrite; /* operators as they are in the file */
    bool fastest;    /* kernels, whatever scratch they take */
} cli_choices;
#define CLI_CHOICES_INIT                                                                           \
    { .plan = TN_PLAN_OPTIONS_INIT, .threads = 1 }

typedef struct cli_session cli_session;
struct cli_session {
    cli_input *input; /* how to read the model; its graph is the file's, and may be loaded before */
    const cli_training *training; /* NULL, or one run is one step of training */
    tn_trainer *trained;          /* NULL, or where parameters come from that it has trained */
    cli_choices choices;
    bool plain;         /* no oneDNN */
    bool check;         /* against memory of its own for every tensor: cli_session_naive */
    bool poison, naive; /* naive: it has that */
    const char *pool;
    cli_paths traces;          /* files of the trace, all of the same run */
    bool traced;               /* somebody reads the trace beside its file */
    uint64_t budget;           /* bytes, of arena and weights; 0: what is needed */
    const char *pass;          /* that makes it fit them; NULL: fit's own. "keep": nobody does */
    uint32_t codecs;           /* bit 1 << tn_codec: tensors may be kept so to fit; 0: none */
    cli_samples samples;       /* what zeros are counted on; zeroed: what is made up */
    double link;               /* bytes per second, to the device and back; 0: as fast as it goes */
    double to_swap, from_swap; /* bytes per second of what keeps what is swapped out; 0: nothing */
    const char *swap_device;   /* its name; NULL: the host */
    uint32_t allow;            /* TN_FIT_*, to fit; 0: fit's own, and with a link swaps */
    double storage;            /* bytes per second, of files of weights; 0: measured */
    bool storage_cache;
    const char *forms_folder;
    uint64_t host_budget;     /* bytes for what is swapped; 0: no limit */
    double timeout_s;         /* of looking for a program within the budget; 0: none */
    cli_costs from;           /* seconds of operators, for fitting; nobody said: measured */
    const char *weights_path; /* NULL, or weights that go before the file's */
    bool weights_made_up;
    uint64_t weights_seed, seed;
    tn_dtype weights_dtype; /* of the model's weights while it runs; UNDEFINED: as they are */
    double prune; /* share of the model's weights that become zero while it runs; 0: none */
    tn_prune_scope prune_scope;
    const tn_divide *divide;     /* NULL, or it is one rank of several, */
    const tn_exchange *exchange; /* that talk by this one */
    /* what was made */
    tn_trace *trace;
    tn_contents *contents, *fresh; /* of the file; made up, for what is trained */
    bool own_contents;
    tn_checkpoint *kept; /* of weights_path; or */
    tn_weights *weights;
    uint32_t weights_taken; /* how many of them */
    tn_graph *model;        /* that is trained; NULL: as it was loaded */
    tn_training step;       /* of `training`; ids are also those of the model and of `graph` */
    tn_pruning pruning;     /* of `graph` before it was rewritten; count 0: none */
    tn_fit_answer answer;   /* of the budget; zero: there was none */
    float *zeros;           /* shares that were counted for it */
    tn_setup *setup;        /* the answer's, where there is one */
    const tn_graph *graph;  /* that runs */
    tn_engine *engine;
};

/* Children of parsers; their inputs are a cli_choices and a cli_session, which has the first. */
extern const struct argp cli_choices_argp, cli_session_argp;

/* Whose kernels run it: whom.h. */
cli_whom cli_session_whom(const cli_session *session);
/* Everything up to the plan. */
tn_status cli_session_plan(cli_session *session, tn_error *error);
/* What parameters begin with, for a trainer; `session` outlives it. */
tn_contents_of cli_session_contents(cli_session *session);
/* Room for what so many runs will tell, where anybody reads it, and the file of it; nothing without
 * `traces`. */
tn_status cli_session_open_trace(cli_session *session, uint64_t runs, tn_error *error);
tn_status cli_session_write_trace(const cli_session *session, tn_error *error);
/* Device and engine. Errors: E_EXHAUSTED when the budget is too small. */
tn_status cli_session_open(cli_session *session, tn_error *error);
/* Another engine for the same program, every tensor in memory of its own. `other` starts zeroed. */
tn_status cli_session_naive(const cli_session *session, cli_session *other, tn_error *error);
void cli_session_close(cli_session *session);

/* --- between open_model.c and open_plan.c --- */

/* The set-up of session->graph, which becomes that which runs. */
tn_status cli_session_set_up(cli_session *session, tn_error *error);
tn_occupancy_options cli_session_memory(const cli_session *session);
/* Contents as tn_engine_options asks for them; `self` is the session. */
tn_status cli_session_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                           uint64_t size, tn_error *error);
tn_status cli_session_where(void *self, const tn_graph *graph, tn_tensor_id id,
                            tn_file_range *range, bool *found, tn_error *error);

#endif
