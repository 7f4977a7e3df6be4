/* fit_model.c - a step of training half way between the least memory and what it takes plainly.
 *
 *     fit_model MODEL.onnx
 *
 * Times are those of a device of 14 TFLOP/s and 900 GB/s; nothing is measured.
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>

#include <tenure/tenure.h>

static tn_status fit(const tn_program *program, const tn_costs *costs, tn_error *error) {
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    tn_fit_result result;
    options.work_limit = 20000; /* the same answer on every machine */
    tn_status status = tn_fit_least(program, costs, &options, &result, error);
    options.budget = result.bytes + (result.plain_bytes - result.bytes) / 2;
    tn_fit_release(&result);
    if (status != TN_OK) return status;
    status = tn_fit(program, costs, &options, &result, error);
    if (status == TN_OK)
        printf("%llu bytes instead of %llu, in %.4f of the time, no less than %.4f\n",
               (unsigned long long)result.bytes, (unsigned long long)result.plain_bytes,
               (double)result.time / (double)result.plain_time,
               (double)result.time_bound / (double)result.plain_time);
    tn_fit_release(&result); /* where nothing fits, too: it is the least that was found */
    return status;
}

static tn_status run(const char *path, tn_error *error) {
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_costs_model rates = TN_COSTS_MODEL_INIT;
    tn_graph *model = NULL;
    tn_training training = {0};
    tn_program *program = NULL;
    tn_costs *costs = NULL;
    rates.flops_per_s = 14e12, rates.bytes_per_s = 900e9;
    tn_status status = tn_graph_load(path, NULL, &model, error);
    if (status == TN_OK) status = tn_train(model, &train, &training, error);
    if (status == TN_OK) status = tn_program_create(training.graph, NULL, &program, error);
    if (status == TN_OK) status = tn_costs_create_model(training.graph, &rates, &costs, error);
    if (status == TN_OK) status = fit(program, costs, error);
    tn_costs_destroy(costs);
    tn_program_destroy(program);
    tn_training_release(&training);
    tn_graph_destroy(model);
    return status;
}

int main(int count, char **arguments) {
    tn_error error = {0};
    if (count < 2) return fprintf(stderr, "usage: fit_model MODEL.onnx\n"), 2;
    tn_status status = run(arguments[1], &error);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    return tn_status_exit_code(status);
}
