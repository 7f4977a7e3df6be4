/* shrink_model.c - the least work that is done twice to train a model within a budget.
 *
 *     shrink_model MODEL.onnx [BYTES]
 *
 * One base is set up; every trial goes on from it at the stage of recomputation, so that what comes
 * before it is done once. Without BYTES the budget is three quarters of what the base takes.
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>
#include <stdlib.h>

#include <tenure/tenure.h>

/* The cheapest of these shares that fits; *best is the set-up with it, or NULL. */
static tn_status search(const tn_setup *base, uint64_t budget, tn_setup **best, tn_error *error) {
    const double shares[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.5};
    *best = NULL;
    for (size_t i = 0; i < sizeof shares / sizeof *shares && *best == NULL; i++) {
        tn_setup_options options = TN_SETUP_OPTIONS_INIT;
        tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
        tn_setup *trial;
        again.share = shares[i];
        options.recompute = &again;
        options.statics = TN_STATIC_ARENA; /* one number bounds weights, state and activations */
        tn_status status = tn_setup_from(base, TN_SETUP_RECOMPUTE, &options, &trial, error);
        if (status != TN_OK) return status;
        uint64_t need = tn_setup_need(trial).total;
        printf("share %.2f: %llu bytes, %u operators run twice\n", shares[i],
               (unsigned long long)need, tn_setup_recomputed(trial)->operators);
        if (need <= budget)
            *best = trial;
        else
            tn_setup_destroy(trial);
    }
    return TN_OK;
}

static tn_status run(const char *path, uint64_t budget, tn_error *error) {
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_graph *model = NULL;
    tn_training training = {0};
    tn_setup *base = NULL, *best = NULL;
    rewrite.use = TN_REWRITE_TRAINED;
    options.rewrite = &rewrite;
    options.statics = TN_STATIC_ARENA;
    tn_status status = tn_graph_load(path, &import, &model, error);
    if (status == TN_OK) status = tn_train(model, &train, &training, error);
    if (status == TN_OK) status = tn_setup_create(training.graph, &options, &base, error);
    if (status == TN_OK) {
        uint64_t need = tn_setup_need(base).total;
        if (budget == 0) budget = need / 4 * 3;
        printf("plain: %llu bytes; the budget is %llu\n", (unsigned long long)need,
               (unsigned long long)budget);
        if (need > budget) status = search(base, budget, &best, error);
        if (need > budget && status == TN_OK && best == NULL) printf("nothing fits\n");
    }
    tn_setup_destroy(base); /* what the best one shares with it stays */
    tn_setup_destroy(best);
    tn_training_release(&training);
    tn_graph_destroy(model);
    return status;
}

int main(int count, char **arguments) {
    tn_error error = {0};
    if (count < 2) return fprintf(stderr, "usage: shrink_model MODEL.onnx [BYTES]\n"), 2;
    tn_status status = run(arguments[1], count > 2 ? strtoull(arguments[2], NULL, 10) : 0, &error);
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    return tn_status_exit_code(status);
}
