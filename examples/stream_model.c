/* stream_model.c - a network whose weights do not fit: they come from their file when they are
 * needed, ahead of need.
 *
 *     cc stream_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx
 *
 * Half of what it takes with all weights must do. Those that are in no file are made up, and kept
 * in one while it runs, as are forms that kernels want of their own.
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>
#include <tenure/tenure.h>

static tn_status read_weights(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                              uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, tensor, bytes, size, error);
}

static tn_status where_weights_are(void *self, const tn_graph *graph, tn_tensor_id tensor,
                                   tn_file_range *range, bool *found, tn_error *error) {
    return tn_contents_where(self, graph, tensor, range, found, error);
}

/* The first output of a run on zeros, summed up, and the memory that it took. */
static tn_status run(const tn_graph *graph, const tn_session_options *options, uint64_t *bytes,
                     tn_error *error) {
    tn_session *session = NULL;
    tn_status status = tn_session_open(graph, options, &session, error);
    if (status == TN_OK) status = tn_session_run(session, error);
    if (status == TN_OK) {
        tn_engine_usage usage;
        const tn_array *output = tn_session_array(session, tn_graph_block(graph, 0)->outputs[0]);
        double sum = 0;
        for (uint64_t i = 0; i < output->bytes / sizeof(float); i++)
            sum += ((const float *)output->data)[i];
        tn_engine_measure(tn_session_engine(session), &usage);
        *bytes = tn_setup_need(tn_session_setup(session)).total;
        printf("%10llu bytes, %10llu fetched: sum %.9g\n", (unsigned long long)*bytes,
               (unsigned long long)usage.fetch_bytes, sum);
    }
    tn_session_close(session);
    return status;
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: stream_model MODEL.onnx\n"), 2;
    tn_error error = {0};
    tn_graph *graph = NULL;
    tn_contents *weights = NULL;
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    uint64_t bytes = 0;
    tn_status status = tn_graph_load(arguments[1], NULL, &graph, &error);
    if (status == TN_OK)
        status = tn_contents_generate(arguments[1], graph, 1, NULL, &weights, &error);
    options.read = read_weights;
    options.where = where_weights_are;
    options.self = weights;
    options.fuse = true;
    if (status == TN_OK) status = run(graph, &options, &bytes, &error);
    options.stream = true;
    options.budget = bytes / 2;
    if (status == TN_OK) status = run(graph, &options, &bytes, &error);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    tn_contents_close(weights);
    tn_graph_destroy(graph);
    return tn_status_exit_code(status);
}
