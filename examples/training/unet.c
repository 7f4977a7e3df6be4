/* unet.c - a U-Net that finds a piece of clothing in a picture full of noise, pixel by pixel.
 *
 *     unet [FOLDER] [--steps N] [--threads N] [--seed N]
 *
 * The pictures are Fashion-MNIST's (Debian's package dataset-fashion-mnist by default). A pixel
 * belongs to the clothing where the picture is brighter than a fifth; the net sees half of the
 * picture's brightness under as much noise. So it makes its batches by itself.
 */
#define TENURE_EXPERIMENTAL
#include "networks.h"
#include "task.h"

#define BATCH 32u
#define SIDE 28
#define PIXELS (SIDE * SIDE)

/* Uniform below `bound`; xorshift64*. */
static uint64_t draw(uint64_t *state, uint64_t bound) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545f4914f6cdd1du >> 32) * bound >> 32;
}

/* Of the numbers alone: pictures drawn, or of those held out in their order, and the noise. */
static tn_status fill(void *self, bool held_out, uint64_t number, tn_array *samples,
                      tn_array *labels, tn_error *error) {
    const task *t = (const task *)self;
    const tn_samples set = tn_data_samples(t->data, held_out);
    const uint8_t *pixels = (const uint8_t *)set.samples.data;
    uint64_t count = (uint64_t)set.samples.shape[0];
    uint64_t state = (t->seed + 2 * number + held_out + 1) * 0x9e3779b97f4a7c15u;
    (void)error;
    for (uint64_t i = 0; i < BATCH; i++) {
        uint64_t which = held_out ? (number * BATCH + i) % count : draw(&state, count);
        for (uint64_t k = 0; k < PIXELS; k++) {
            uint8_t pixel = pixels[which * PIXELS + k];
            float noise = (float)draw(&state, 256) / 255;
            ((float *)samples->data)[i * PIXELS + k] = (float)pixel / 510 + noise / 2;
            ((int64_t *)labels->data)[i * PIXELS + k] = pixel > 51;
        }
    }
    return TN_OK;
}

int main(int count, char **words) {
    static net n;
    task t = {.label = "pixel",
              .prefix = "fashion-mnist",
              .steps = 400,
              .rate = 1e-3,
              .fill = fill,
              .test_batches = 30};
    int failed = task_begin(&t, count, words);
    if (failed) return failed;
    net_open(&n, t.seed);
    (void)unet(&n, BATCH, SIDE, 8, 2);
    return task_end(&t, &n);
}
