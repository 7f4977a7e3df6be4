/* residual_cnn.c - a residual CNN that tells ten sorts of clothes apart.
 *
 *     residual_cnn [FOLDER] [--steps N] [--threads N] [--seed N]
 *
 * FOLDER holds Fashion-MNIST (Debian's package dataset-fashion-mnist by default). 1,875 steps of 64
 * pictures are two epochs.
 */
#define TENURE_EXPERIMENTAL
#include "networks.h"
#include "task.h"

int main(int count, char **words) {
    static net n;
    task t = {.label = "picture", .prefix = "fashion-mnist", .steps = 1875, .rate = 1e-3};
    int failed = task_begin(&t, count, words);
    if (failed) return failed;
    net_open(&n, t.seed);
    (void)residual_cnn(&n, 64, 28, 16, 10);
    return task_end(&t, &n);
}
