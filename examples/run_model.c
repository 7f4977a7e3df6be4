/* run_model.c - from a model file to its outputs, every byte at its planned place.
 *
 *     cc run_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx
 *
 * Weights are made up where the model has none; the inputs are zeros.
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>
#include <tenure/tenure.h>

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: run_model MODEL.onnx\n"), 2;
    tn_error error = {0};
    tn_session *session = NULL;
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    options.make_weights = true;
    tn_status status = tn_session_open_file(arguments[1], NULL, &options, &session, &error);
    if (status == TN_OK) status = tn_session_run(session, &error);
    if (status == TN_OK) {
        tn_engine_usage usage;
        tn_tensor_id output = tn_graph_block(tn_session_graph(session), 0)->outputs[0];
        tn_engine_measure(tn_session_engine(session), &usage);
        printf("planned %llu bytes, used %llu; first output has %llu bytes\n",
               (unsigned long long)usage.planned_peak, (unsigned long long)usage.measured_peak,
               (unsigned long long)tn_session_array(session, output)->bytes);
    }
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    tn_session_close(session);
    return tn_status_exit_code(status);
}
