/* open.c - opens a training run from a model, and tests the model on the test samples. */
#include "run/trainer/trainer.h"

/* The model in the form that is trained; with session.fuse, after rewrites to fused operators that
 * have gradients. */
static tn_status open_model(tn_trainer *trainer, const tn_graph *model,
                            const tn_train_options *train, tn_error *error) {
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    const tn_session_options *session = &trainer->test_options;
    TN_TRY(tn_train_model(model, train, &trainer->model, error));
    if (session->fuse && !session->no_rewrite && !session->plain) {
        rewrite.context = &trainer->context;
        rewrite.use = TN_REWRITE_TO_TRAIN;
        TN_TRY(tn_graph_rewrite(trainer->model, &rewrite, &trainer->rewritten, error));
    }
    const tn_graph *trained = trainer->rewritten != NULL ? trainer->rewritten : trainer->model;
    TN_TRY(tn_train(trained, train, &trainer->made, error));
    trainer->training = &trainer->made;
    return TN_OK;
}

/* The initial contents of a static tensor of the step. */
static tn_status open_begin(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                            uint64_t size, tn_error *error) {
    const tn_trainer *trainer = self;
    (void)graph; /* rewriting keeps the ids of tensors */
    return tn_training_read(&trainer->made, id, &trainer->contents, bytes, size, error);
}

static tn_status open_all(tn_trainer *trainer, const tn_graph *model,
                          const tn_trainer_options *options, tn_error *error) {
    tn_session_options *session = &trainer->test_options;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    *session = (tn_session_options)TN_SESSION_OPTIONS_INIT;
    tn__options(session, sizeof *session, options->session);
    session->struct_size = sizeof *session;
    tn__options(&train, sizeof train, options->train);
    train.struct_size = sizeof train;
    if (session->context == NULL) session->context = &trainer->context;
    if (session->seed == 0) session->seed = options->seed;
    if (train.seed == 0) train.seed = options->seed;
    TN_TRY(open_model(trainer, model, &train, error));
    tn_session_options open = *session;
    session->rules = NULL; /* the test runs the model, not the step */
    trainer->contents = (tn_contents_of){session->read, session->self, trainer->model};
    bool parts = trainer->made.parts != NULL || trainer->made.sharded_count > 0;
    if (parts && session->read != NULL) {
        open.read = open_begin;
        open.self = trainer;
    }
    TN_TRY(tn_session_open(trainer->made.graph, &open, &trainer->session, error));
    trainer->engine = tn_session_engine(trainer->session);
    return tn__trainer_begin(trainer, model, options, error);
}

tn_status tn_trainer_open(const tn_graph *model, const tn_trainer_options *given,
                          tn_trainer **trainer, tn_error *error) {
    tn_trainer_options options = TN_TRAINER_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    tn_trainer *made = tn__trainer_make(options.context);
    if (made == NULL) return tn__no_memory(error, "a trainer");
    tn_status status = open_all(made, model, &options, error);
    if (status == TN_OK)
        *trainer = made;
    else
        tn_trainer_destroy(made);
    return status;
}

/* --- testing the model --- */

/* Current values of parameters; other tensors have the contents that training started with. */
static tn_status open_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                           uint64_t size, tn_error *error) {
    tn_trainer *trainer = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    const tn_session_options *options = &trainer->test_options;
    if (tensor->kind == TN_KIND_PARAMETER && tn_trainer_read(trainer, tensor->name, bytes, size))
        return TN_OK;
    if (options->read != NULL) return options->read(options->self, graph, id, bytes, size, error);
    TN_FAIL(error, TN_E_UNKNOWN, "there are no contents of '%.80s'", tensor->name);
}

tn_status tn_trainer_test(tn_trainer *trainer, tn_trainer_score *score, tn_error *error) {
    tn_session *session;
    if (trainer->model == NULL)
        TN_FAIL(error, TN_E_INVALID,
                "this trainer has no model; give tn_trainer_test_on an engine");
    if (tn__trainer_is_apart(trainer) && trainer->gathered == NULL)
        TN_FAIL(error, TN_E_INVALID,
                "each rank has a part of the parameters: tn_trainer_gather brings them together");
    if (!tn_trainer_tests(trainer)) {
        *score = (tn_trainer_score){0};
        return TN_OK;
    }
    tn_session_options options = trainer->test_options;
    options.read = open_read;
    options.self = trainer;
    options.recompute = 0; /* no backward pass reads activations later */
    options.divide = NULL; /* each rank tests alone */
    options.exchange = NULL;
    TN_TRY(tn_session_open(trainer->model, &options, &session, error));
    tn_status status =
        tn_trainer_test_on(trainer, trainer->model, tn_session_engine(session), score, error);
    tn_session_close(session);
    return status;
}
