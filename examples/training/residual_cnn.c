/* residual_cnn.c - a residual CNN that tells ten sorts of clothes apart.
 *
 *     residual_cnn [FOLDER] [--steps N] [--threads N] [--seed N]
 *
 * FOLDER holds Fashion-MNIST (Debian's package dataset-fashion-mnist by default). 1,875 steps of 64
 * pictures are two epochs.
 */
#include "data.h"
#include "networks.h"
#include "task.h"

#define BATCH 64

static void fill(task *t, uint64_t batch, bool held_out, tn_array *samples, tn_array *labels) {
    const clothes *data = (const clothes *)t->data;
    const pictures *set = held_out ? &data->test : &data->train;
    for (uint64_t i = 0; i < BATCH; i++) {
        uint64_t which = clothes_choose(data, &t->random, held_out, batch * BATCH + i);
        for (uint64_t k = 0; k < PICTURE_PIXELS; k++)
            ((float *)samples->data)[i * PICTURE_PIXELS + k] =
                (float)set->pixels[which * PICTURE_PIXELS + k] / 255;
        ((int64_t *)labels->data)[i] = set->labels[which];
    }
}

int main(int count, char **words) {
    static net n;
    clothes data;
    task t = {.label = "picture",
              .steps = 1875,
              .threads = 1,
              .test_batches = 10000 / BATCH,
              .rate = 1e-3f,
              .fill = fill,
              .data = &data};
    if (!clothes_load(task_arguments(&t, count, words), &data)) return 77;
    net_open(&n, t.seed);
    (void)residual_cnn(&n, BATCH, PICTURE_SIDE, 16, 10);
    int code = task_run(&t, &n);
    net_close(&n);
    clothes_release(&data);
    return code;
}
