/* train_model.c - trains a model within 85 % of the memory that a step needs as it is.
 *
 *     cc train_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx
 *
 * The session (run.h) is stable; making a step of a model (train.h) is experimental. Parameters are
 * made up, and all samples are zeros of class 0, so the loss falls.
 */
#define TENURE_EXPERIMENTAL /* tn_train */
#include <stdio.h>
#include <string.h>
#include <tenure/run.h>
#include <tenure/train.h>

static tn_status read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                      uint64_t size, tn_error *error) {
    return tn_contents_read((tn_contents *)self, graph, tensor, bytes, size, error);
}

/* The bytes that the step needs without a budget; 0 after an error. */
static uint64_t plain_bytes(const tn_graph *step, const tn_session_options *options,
                            tn_error *error) {
    tn_session *session = NULL;
    if (tn_session_open(step, options, &session, error) != TN_OK) return 0;
    uint64_t bytes = tn_session_bytes(session);
    tn_session_close(session);
    return bytes;
}

static tn_status train(const tn_training *training, tn_session *session, tn_error *error) {
    *(float *)tn_session_array(session, training->learning_rate)->data = 0.01f;
    for (int64_t i = 0; i < 4; i++) {
        if (training->step != TN_NONE)
            *(int64_t *)tn_session_array(session, training->step)->data = i;
        tn_status status = tn_session_run(session, error);
        if (status != TN_OK) return status;
        printf("loss %.3f\n", (double)*(float *)tn_session_array(session, training->loss)->data);
    }
    return TN_OK;
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: train_model MODEL\n"), 2;
    tn_error error;
    tn_graph *model = NULL;
    tn_contents *contents = NULL;
    tn_training training;
    tn_session *session = NULL;
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_train_options step = TN_TRAIN_OPTIONS_INIT;
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    memset(&training, 0, sizeof training);
    import.batch = 4;
    tn_status status = tn_graph_load(arguments[1], &import, &model, &error);
    if (status == TN_OK)
        status = tn_contents_generate(arguments[1], model, 1, NULL, &contents, &error);
    if (status == TN_OK) status = tn_train(model, &step, &training, &error);
    options.read = read;
    options.self = contents;
    uint64_t plain = status == TN_OK ? plain_bytes(training.graph, &options, &error) : 0;
    options.budget = plain / 100 * 85;
    if (plain == 0) status = error.status;
    if (status == TN_OK) status = tn_session_open(training.graph, &options, &session, &error);
    if (status == TN_OK) {
        printf("%llu bytes instead of %llu\n", (unsigned long long)tn_session_bytes(session),
               (unsigned long long)plain);
        status = train(&training, session, &error);
    }
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    tn_session_close(session);
    tn_training_release(&training);
    tn_contents_close(contents);
    tn_graph_destroy(model);
    return tn_status_exit_code(status);
}
