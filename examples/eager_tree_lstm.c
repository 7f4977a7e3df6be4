/* eager_tree_lstm.c - a TreeLSTM over random trees, trained eagerly within a budget.
 *
 *     eager_tree_lstm [NETWORK] [SHARE] [POLICY]
 *
 * Each sentence has a tree of its own, so there is no graph to plan. First it is trained with all
 * the memory that it takes, then in SHARE of that: the losses are the same to the last bit. The
 * other networks of eager/networks.h are trained by their names.
 */
#define TENURE_EXPERIMENTAL
#include "eager/networks.h"

#define STEPS 10

static uint64_t train(const network *which, const char *policy, uint64_t budget, float *losses) {
    static net n;
    static network_state state;
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.budget = budget;
    options.policy = policy;
    net_open(&n, &options, 1);
    which->make(&n, &state, 2);
    net_optimizer(&n, TN_OPTIMIZER_SGD);
    for (int s = 0; s < STEPS; s++) losses[s] = net_train(&n, which->loss(&n, &state), which->rate);
    if (n.status != TN_OK) {
        fprintf(stderr, "%s: %s\n", n.error.where, n.error.message);
        exit(tn_status_exit_code(n.status));
    }
    tn_eager_counts counts;
    tn_eager_count(n.eager, &counts);
    printf("%s in %llu bytes: at most %llu, %llu operators and %llu again, loss %.4f to %.4f\n",
           which->name, (unsigned long long)counts.budget,
           (unsigned long long)counts.evict.peak_bytes, (unsigned long long)counts.evict.plain_ops,
           (unsigned long long)counts.evict.remade_ops, losses[0], losses[STEPS - 1]);
    net_close(&n);
    return counts.evict.peak_bytes;
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "tree_lstm";
    double share = count > 2 ? atof(words[2]) : 0.7;
    float plain[STEPS], less[STEPS];
    for (size_t k = 0; k < NETWORK_COUNT; k++) {
        if (strcmp(networks[k].name, name) != 0) continue;
        uint64_t peak = train(&networks[k], NULL, 64 << 20, plain);
        uint64_t budget = (uint64_t)(share * (double)peak);
        train(&networks[k], count > 3 ? words[3] : NULL, budget, less);
        printf("losses");
        for (int s = 0; s < STEPS; s++) printf(" %.9g", plain[s]); /* all bits of a float */
        printf("\n");
        bool same = memcmp(plain, less, sizeof plain) == 0;
        puts(same ? "the same losses" : "other losses");
        return same ? 0 : 1;
    }
    fprintf(stderr, "no network '%s'\n", name);
    return 2;
}
