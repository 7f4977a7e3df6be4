/* lstm.c - LSTM cells that learn to foretell the next byte of a text.
 *
 *     lstm FILE [--steps N] [--threads N] [--seed N]
 *
 * The last tenth of FILE is held out.
 */
#define TENURE_EXPERIMENTAL
#include "networks.h"
#include "task.h"

int main(int count, char **words) {
    static net n;
    task t = {.label = "byte", .prefix = "text", .steps = 1500, .rate = 3e-3};
    int failed = task_begin(&t, count, words);
    if (failed) return failed;
    net_open(&n, t.seed);
    (void)lstm(&n, 16, 32, 96, 256);
    return task_end(&t, &n);
}
