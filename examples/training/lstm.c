/* lstm.c - LSTM cells that learn to foretell the next byte of a text.
 *
 *     lstm FILE [--steps N] [--threads N] [--seed N]
 *
 * The last tenth of FILE is held out.
 */
#include "data.h"
#include "networks.h"
#include "task.h"

#define BATCH 16
#define TIME 32

static void fill(task *t, uint64_t batch, bool held_out, tn_array *samples, tn_array *labels) {
    text_windows((const text *)t->data, &t->random, held_out, batch * BATCH, BATCH, TIME,
                 (int64_t *)samples->data, (int64_t *)labels->data);
}

int main(int count, char **words) {
    static net n;
    text book;
    task t = {
        .label = "byte", .steps = 1500, .threads = 1, .rate = 3e-3f, .fill = fill, .data = &book};
    const char *path = task_arguments(&t, count, words);
    if (path == NULL) return fprintf(stderr, "usage: lstm FILE [--steps N]\n"), 2;
    if (!text_load(path, &book) || book.size < 12 * BATCH * TIME)
        return fprintf(stderr, "%s: no text, or too short\n", path), 2;
    t.test_batches = (uint32_t)((book.size - book.held_out - 1) / (BATCH * TIME));
    net_open(&n, t.seed);
    (void)lstm(&n, BATCH, TIME, 96, 256);
    int code = task_run(&t, &n);
    net_close(&n);
    free(book.bytes);
    return code;
}
