/* transformer.c - a small GPT that learns to foretell the next byte of a text.
 *
 *     transformer FILE [--steps N] [--threads N] [--seed N]
 *
 * The last tenth of FILE is held out.
 */
#define TENURE_EXPERIMENTAL
#include "networks.h"
#include "task.h"

int main(int count, char **words) {
    const transformer_size size = {
        .batch = 16, .time = 64, .width = 128, .heads = 4, .depth = 2, .words = 256};
    static net n;
    task t = {.label = "byte", .prefix = "text", .steps = 1500, .rate = 1e-3};
    int failed = task_begin(&t, count, words);
    if (failed) return failed;
    net_open(&n, t.seed);
    (void)transformer(&n, &size);
    return task_end(&t, &n);
}
