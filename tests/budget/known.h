/* known.h - computation graphs whose optima are known: data of published tables and of proofs by
 * mixed integer programs (HiGHS, CBC). VGG as in Checkmate's artifact: cost in multiplications,
 * backward twice forward; bytes of float32 outputs, batch 1.
 */
#ifndef TN_TESTS_BUDGET_KNOWN_H
#define TN_TESTS_BUDGET_KNOWN_H

#include "kit.h"

/* n forward, loss n, backward 2n-i, which reads what forward i made, what i+1 made, and the
 * gradient of i+1. */
static inline kit *known_chain(uint32_t n, const uint64_t *costs, const uint64_t *bytes) {
    kit_graph *g = calloc(1, sizeof *g);
    assert_non_null(g);
    for (uint32_t i = 0; i < 2 * n; i++) kit_edge(g, i, i + 1);
    for (uint32_t i = 0; i < n; i++) {
        kit_edge(g, i, 2 * n - i);
        kit_edge(g, i + 1, 2 * n - i);
    }
    kit *k = kit_nodes(costs, bytes, 2 * n + 1, g->edges, g->edge_count);
    free(g);
    return k;
}

typedef struct known_layers {
    uint64_t costs[KIT_JOBS], bytes[KIT_JOBS];
    uint32_t count;
} known_layers;

static inline void known_layer(known_layers *layers, uint64_t cost, uint64_t elements) {
    layers->costs[layers->count] = cost;
    layers->bytes[layers->count++] = 4 * elements;
}

/* convolutions in five blocks with a pool behind each, flatten, three products, a loss */
static inline kit *known_vgg(const uint32_t blocks[5]) {
    static const uint64_t widths[] = {64, 128, 256, 512, 512};
    known_layers layers = {0};
    uint64_t side = 224, channels = 3;
    for (int block = 0; block < 5; block++) {
        for (uint32_t i = 0; i < blocks[block]; i++, channels = widths[block])
            known_layer(&layers, 9 * channels * widths[block] * side * side,
                        side * side * widths[block]);
        side /= 2;
        known_layer(&layers, 0, side * side * channels);
    }
    known_layer(&layers, 0, 25088);
    known_layer(&layers, (uint64_t)25088 * 4096, 4096);
    known_layer(&layers, (uint64_t)4096 * 4096, 4096);
    known_layer(&layers, (uint64_t)4096 * 1000, 1000);
    uint32_t n = layers.count;
    known_layer(&layers, 0, 1);
    for (uint32_t i = n; i-- > 0;) known_layer(&layers, 2 * layers.costs[i], layers.bytes[i] / 4);
    return known_chain(n, layers.costs, layers.bytes);
}
static const uint32_t known_vgg19[5] = {2, 2, 4, 4, 4}, known_vgg16[5] = {2, 2, 3, 3, 3};

/* --- proved --- */

typedef struct known_optimum {
    uint64_t budget, cost; /* UINT64_MAX: none fits */
} known_optimum;

typedef struct known_case {
    const char *name;
    uint32_t forward; /* 0: edges are given */
    uint64_t costs[21], bytes[21];
    uint32_t edges[40][2], edge_count;
    known_optimum optima[8];
} known_case;

static const known_case known_cases[] = {
    {"heterogeneous chain of 8, first",
     8,
     {5, 19, 3, 9, 4, 16, 15, 16, 1, 32, 30, 32, 8, 18, 6, 38, 10},
     {7, 4, 2, 8, 1, 7, 7, 10, 1, 10, 7, 7, 1, 8, 2, 4, 7},
     {{0}},
     0,
     {{34, 335}, {36, 314}, {38, 308}, {42, 292}, {45, 283}, {51, 276}, {57, 267}}},
    {"heterogeneous chain of 8, second",
     8,
     {2, 3, 3, 12, 6, 10, 9, 20, 1, 40, 18, 20, 12, 24, 6, 6, 4},
     {4, 10, 1, 10, 3, 7, 7, 9, 1, 9, 7, 7, 3, 10, 1, 10, 4},
     {{0}},
     0,
     {{32, 249}, {35, 229}, {38, 223}, {43, 213}, {47, 211}, {55, 201}, {63, 198}}},
    {"heterogeneous chain of 10",
     10,
     {8, 19, 18, 5, 12, 20, 16, 19, 3, 20, 1, 40, 6, 38, 32, 40, 24, 10, 36, 38, 16},
     {1, 8, 5, 9, 4, 4, 8, 9, 9, 8, 1, 8, 9, 9, 8, 4, 4, 9, 5, 8, 1},
     {{0}},
     0,
     {{36, 726}, {40, 534}, {45, 514}, {51, 487}, {58, 461}, {69, 438}, {81, 426}}},
    {"two residual blocks",
     0,
     {2, 3, 3, 1, 3, 3, 1, 1, 2, 6, 6, 2, 6, 6, 4},
     {4, 4, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4},
     {{0, 1},  {1, 2},   {0, 3},  {2, 3},   {3, 4},   {4, 5},  {3, 6},  {5, 6},
      {6, 7},  {7, 8},   {4, 9},  {8, 9},   {3, 10},  {9, 10}, {8, 11}, {10, 11},
      {1, 12}, {11, 12}, {0, 13}, {12, 13}, {11, 14}, {13, 14}},
     22,
     {{12, UINT64_MAX}, {16, 54}, {20, 51}, {24, 49}, {28, 49}, {32, 49}, {40, 49}, {48, 49}}},
    {"three residual blocks",
     0,
     {2, 3, 3, 1, 3, 3, 1, 3, 3, 1, 1, 2, 6, 6, 2, 6, 6, 2, 6, 6, 4},
     {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4},
     {{0, 1},   {1, 2},   {0, 3},   {2, 3},   {3, 4},  {4, 5},   {3, 6},   {5, 6},
      {6, 7},   {7, 8},   {6, 9},   {8, 9},   {9, 10}, {10, 11}, {7, 12},  {11, 12},
      {6, 13},  {12, 13}, {11, 14}, {13, 14}, {4, 15}, {14, 15}, {3, 16},  {15, 16},
      {14, 17}, {16, 17}, {1, 18},  {17, 18}, {0, 19}, {18, 19}, {17, 20}, {19, 20}},
     32,
     {{12, UINT64_MAX}, {16, 87}, {20, 78}, {24, 75}, {28, 72}, {32, 70}, {40, 70}, {48, 70}}},
};
enum { KNOWN_CASES = sizeof known_cases / sizeof *known_cases };

static inline kit *known_kit(const known_case *known) {
    if (known->forward > 0) return known_chain(known->forward, known->costs, known->bytes);
    uint32_t edges[40][2], count = 0;
    memcpy(edges, known->edges, sizeof edges);
    for (uint32_t e = 0; e < known->edge_count; e++)
        if (edges[e][1] >= count) count = edges[e][1] + 1;
    return kit_nodes(known->costs, known->bytes, count, edges, known->edge_count);
}

/* Griewank and Walther's count: the least forward steps to reverse l steps with c >= 1 checkpoints.
 */
static inline uint64_t known_reversal(uint64_t l, uint64_t c) {
    __extension__ typedef unsigned __int128 wide;
    uint64_t r = 0;
    wide reach = 1; /* C(c+r, c) */
    while (reach < l) {
        r++;
        reach = reach * (c + r) / r;
    }
    /* C(c+r, c+1) = C(c+r, c) * r / (c+1) */
    return r * l - (uint64_t)(reach * r / (c + 1));
}

#endif
