/* data.h - what the examples learn from: Fashion-MNIST, and the bytes of a text. */
#ifndef TRAINING_DATA_H
#define TRAINING_DATA_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PICTURES "/usr/share/datasets/fashion-mnist" /* Debian: dataset-fashion-mnist */
#define PICTURE_SIDE 28
#define PICTURE_PIXELS (PICTURE_SIDE * PICTURE_SIDE)

/* Uniform below `bound`; xorshift64*. */
static inline uint64_t data_random(uint64_t *state, uint64_t bound) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545f4914f6cdd1du >> 32) * bound >> 32;
}

/* The bytes behind the head of a packed .idx file; NULL: absent or cut short. */
static inline uint8_t *data_idx(const char *folder, const char *name, size_t head, size_t size) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s-ubyte.gz", folder, name);
    gzFile file = gzopen(path, "rb");
    uint8_t *bytes = file != NULL ? (uint8_t *)malloc(size + head) : NULL;
    if (bytes != NULL && gzread(file, bytes, (unsigned)(size + head)) == (int)(size + head))
        memmove(bytes, bytes + head, size);
    else if (bytes != NULL) {
        free(bytes);
        bytes = NULL;
    }
    if (file != NULL) gzclose(file);
    return bytes;
}

typedef struct pictures { /* of clothes, ten sorts */
    uint8_t *pixels, *labels;
    uint32_t count;
} pictures;

static inline int pictures_load(const char *folder, int held_out, pictures *p) {
    p->count = held_out ? 10000 : 60000;
    p->pixels = data_idx(folder, held_out ? "t10k-images-idx3" : "train-images-idx3", 16,
                         (size_t)p->count * PICTURE_PIXELS);
    p->labels = data_idx(folder, held_out ? "t10k-labels-idx1" : "train-labels-idx1", 8, p->count);
    return p->pixels != NULL && p->labels != NULL;
}

typedef struct clothes {
    pictures train, test;
} clothes;

static inline int clothes_load(const char *folder, clothes *c) {
    int train = pictures_load(folder != NULL ? folder : PICTURES, 0, &c->train);
    int test = pictures_load(folder != NULL ? folder : PICTURES, 1, &c->test);
    if (!train || !test)
        fprintf(stderr, "SKIP: no Fashion-MNIST; apt-get install dataset-fashion-mnist\n");
    return train && test;
}

static inline void clothes_release(clothes *c) {
    free(c->train.pixels);
    free(c->train.labels);
    free(c->test.pixels);
    free(c->test.labels);
}

/* Picture i of a batch: drawn, or of those held out in their order. */
static inline uint64_t clothes_choose(const clothes *c, uint64_t *random, int held_out,
                                      uint64_t place) {
    return held_out ? place % c->test.count : data_random(random, c->train.count);
}

typedef struct text {
    uint8_t *bytes;
    size_t size, held_out; /* the last tenth is held out: bytes from `held_out` on */
} text;

static inline int text_load(const char *path, text *t) {
    FILE *file = fopen(path, "rb");
    t->bytes = NULL;
    t->size = 0;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0 && ftell(file) > 0) {
        t->size = (size_t)ftell(file);
        t->bytes = (uint8_t *)malloc(t->size);
        rewind(file);
    }
    if (t->bytes != NULL && fread(t->bytes, 1, t->size, file) != t->size) t->size = 0;
    if (file != NULL) fclose(file);
    t->held_out = t->size - t->size / 10;
    return t->size > 0;
}

/* `count` windows of `time` bytes and for each byte the one behind it: drawn, or of those held out
 * from window `first` on. */
static inline void text_windows(const text *t, uint64_t *random, int held_out, uint64_t first,
                                uint64_t count, uint64_t time, int64_t *bytes, int64_t *next) {
    for (uint64_t i = 0; i < count; i++) {
        uint64_t from =
            held_out ? t->held_out + (first + i) * time : data_random(random, t->held_out - time);
        for (uint64_t k = 0; k < time; k++) {
            bytes[i * time + k] = t->bytes[from + k];
            next[i * time + k] = t->bytes[from + k + 1];
        }
    }
}

#endif
