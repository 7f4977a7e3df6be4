/* unet.c - a U-Net that finds a piece of clothing in a picture full of noise, pixel by pixel.
 *
 *     unet [FOLDER] [--steps N] [--threads N] [--seed N]
 *
 * The pictures are Fashion-MNIST's (Debian's package dataset-fashion-mnist by default). A pixel
 * belongs to the clothing where the picture is brighter than a fifth; the net sees half of the
 * picture's brightness under as much noise.
 */
#include "data.h"
#include "networks.h"
#include "task.h"

#define BATCH 32

static void fill(task *t, uint64_t batch, bool held_out, tn_array *samples, tn_array *labels) {
    const clothes *data = (const clothes *)t->data;
    const pictures *set = held_out ? &data->test : &data->train;
    for (uint64_t i = 0; i < BATCH; i++) {
        uint64_t which = clothes_choose(data, &t->random, held_out, batch * BATCH + i);
        for (uint64_t k = 0; k < PICTURE_PIXELS; k++) {
            uint8_t pixel = set->pixels[which * PICTURE_PIXELS + k];
            float noise = (float)data_random(&t->random, 256) / 255;
            ((float *)samples->data)[i * PICTURE_PIXELS + k] = (float)pixel / 510 + noise / 2;
            ((int64_t *)labels->data)[i * PICTURE_PIXELS + k] = pixel > 51;
        }
    }
}

int main(int count, char **words) {
    static net n;
    clothes data;
    task t = {.label = "pixel",
              .steps = 400,
              .threads = 1,
              .test_batches = 30,
              .rate = 1e-3f,
              .fill = fill,
              .data = &data};
    if (!clothes_load(task_arguments(&t, count, words), &data)) return 77;
    net_open(&n, t.seed);
    (void)unet(&n, BATCH, PICTURE_SIDE, 8, 2);
    int code = task_run(&t, &n);
    net_close(&n);
    clothes_release(&data);
    return code;
}
