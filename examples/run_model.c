/* run_model.c - runs a model file: inputs by name, every byte at its planned place.
 *
 *     cc run_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx input
 *
 * Weights are made up where the model has none. The named input is filled with ones.
 */
#include <stdio.h>
#include <tenure/run.h>

int main(int count, char **arguments) {
    if (count < 2) return fprintf(stderr, "usage: run_model MODEL [INPUT]\n"), 2;
    tn_error error;
    tn_session *session = NULL;
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    options.make_weights = true;
    tn_status status = tn_session_open_file(arguments[1], NULL, &options, &session, &error);
    tn_array *input = status == TN_OK && count > 2 ? tn_session_find(session, arguments[2]) : NULL;
    for (uint64_t i = 0; input != NULL && i < input->bytes / sizeof(float); i++)
        ((float *)input->data)[i] = 1;
    if (status == TN_OK) status = tn_session_run(session, &error);
    if (status == TN_OK) {
        const tn_tensor_id *outputs = tn_graph_block(tn_session_graph(session), 0)->outputs;
        const tn_array *output = tn_session_array(session, outputs[0]);
        printf("%llu bytes of memory; the first output has %llu bytes, the first number is %g\n",
               (unsigned long long)tn_session_bytes(session), (unsigned long long)output->bytes,
               (double)*(const float *)output->data);
    } else {
        fprintf(stderr, "%s: %s\n", error.where, error.message);
    }
    tn_session_close(session);
    return tn_status_exit_code(status);
}
