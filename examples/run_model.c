/* run_model.c - from a model file to its outputs, every byte at its planned place.
 *
 *     cc run_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx
 *
 * Weights are made up where the model has none; the inputs are zeros.
 */
#include <stdio.h>
#include <tenure/tenure.h>

static tn_status read_weights(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                              uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, tensor, bytes, size, error);
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: run_model MODEL.onnx\n"), 2;
    tn_error error = {0};
    tn_graph *graph = NULL;
    tn_contents *weights = NULL;
    tn_session *session = NULL;
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_status status = tn_graph_load(arguments[1], NULL, &graph, &error);
    if (status == TN_OK)
        status = tn_contents_generate(arguments[1], graph, 1, NULL, &weights, &error);
    if (status == TN_OK) { /* rewritten, planned, set up on a device of just that size */
        options.read = read_weights;
        options.self = weights;
        options.fuse = true;
        status = tn_session_open(graph, &options, &session, &error);
    }
    if (status == TN_OK) status = tn_session_run(session, &error);
    if (status == TN_OK) {
        tn_engine_usage usage;
        tn_tensor_id output = tn_graph_block(graph, 0)->outputs[0];
        tn_engine_measure(tn_session_engine(session), &usage);
        printf("planned %llu bytes, used %llu; first output has %llu bytes\n",
               (unsigned long long)usage.planned_peak, (unsigned long long)usage.measured_peak,
               (unsigned long long)tn_session_array(session, output)->bytes);
    }
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    tn_session_close(session);
    tn_contents_close(weights);
    tn_graph_destroy(graph);
    return tn_status_exit_code(status);
}
