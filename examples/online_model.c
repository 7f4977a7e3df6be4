/* online_model.c - trains a model in three quarters of the memory of its plan, without planning for
 * that budget: the first step copies tensors to the host on demand and is measured, the others
 * follow the policy of Capuchin.
 *
 *     cc online_model.c $(pkg-config --cflags --libs tenure) && ./a.out mobilenet_v2.onnx
 *
 * Parameters are made up, and all samples are zeros of class 0, so the loss falls.
 */
#define TENURE_EXPERIMENTAL /* online.h, train.h */
#include <stdio.h>
#include <string.h>
#include <tenure/online.h>
#include <tenure/train.h>

#define LINK 4e9 /* bytes per second, each way */

typedef struct example {
    tn_graph *model;
    tn_contents *contents;
    tn_training training;
    tn_setup *setup; /* without a budget */
    tn_online *online;
    tn_trainer *trainer;
} example;

static tn_status example_read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                              uint64_t size, tn_error *error) {
    return tn_contents_read((tn_contents *)self, graph, tensor, bytes, size, error);
}

static tn_status example_fill(void *self, bool held_out, uint64_t number, tn_array *samples,
                              tn_array *labels, tn_error *error) {
    (void)self, (void)held_out, (void)number, (void)error;
    memset(samples->data, 0, samples->bytes);
    memset(labels->data, 0, labels->bytes);
    return TN_OK;
}

static tn_status example_load(example *it, const char *path, tn_error *error) {
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    import.batch = 4;
    tn_status status = tn_graph_load(path, &import, &it->model, error);
    if (status == TN_OK)
        status = tn_contents_generate(path, it->model, 1, NULL, &it->contents, error);
    if (status == TN_OK) status = tn_train(it->model, &train, &it->training, error);
    if (status == TN_OK) status = tn_setup_create(it->training.graph, NULL, &it->setup, error);
    return status;
}

static tn_status example_open(example *it, tn_error *error) {
    tn_online_options options = TN_ONLINE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    tn_trainer_options trainer = TN_TRAINER_OPTIONS_INIT;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    engine.read = example_read;
    engine.self = it->contents;
    options.budget = tn_setup_need(it->setup).total / 4 * 3;
    options.link_bytes_per_s = LINK;
    options.engine = &engine;
    tn_status status = tn_online_create(it->setup, &options, &it->online, error);
    if (status != TN_OK) return status;
    trainer.train = &train;
    trainer.fill = example_fill;
    trainer.steps = 6;
    trainer.online = it->online;
    return tn_trainer_create(it->model, &it->training, tn_online_engine(it->online), &trainer,
                             &it->trainer, error);
}

static void example_print(const example *it) {
    uint32_t count;
    tn_online_usage usage;
    const tn_online_iteration *list = tn_online_iterations(it->online, &count);
    tn_online_measure(it->online, &usage);
    for (uint32_t i = 0; i < count; i++)
        printf("step %u: %s, %.0f ms, of which %.0f ms waiting for copies\n", i,
               list[i].guided ? "guided" : "passive", 1e3 * list[i].seconds,
               1e3 * list[i].stall_seconds);
    printf("%u tensors swapped, %u recomputed; %llu bytes of a budget of %llu\n", usage.swapped,
           usage.recomputed, (unsigned long long)usage.peak, (unsigned long long)usage.budget);
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: online_model MODEL\n"), 2;
    tn_error error;
    example it;
    memset(&it, 0, sizeof it);
    tn_status status = example_load(&it, arguments[1], &error);
    if (status == TN_OK) status = example_open(&it, &error);
    if (status == TN_OK) status = tn_trainer_run(it.trainer, &error);
    if (status == TN_OK) example_print(&it);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    tn_trainer_destroy(it.trainer);
    tn_online_destroy(it.online);
    tn_setup_destroy(it.setup);
    tn_training_release(&it.training);
    tn_contents_close(it.contents);
    tn_graph_destroy(it.model);
    return tn_status_exit_code(status);
}
