/* gradients.h - what the cases of gradient rules (gradients_<family>.c) are written in: a builder
 * makes a small graph of random shapes and attributes from parameters alone, `check` differentiates
 * it.
 *
 * Every operator of the registry with a gradient must stand in some case: test_gradients.c asks.
 */
#ifndef TN_TESTS_TRAIN_GRADIENTS_H
#define TN_TESTS_TRAIN_GRADIENTS_H

#include "steps.h"

typedef tn_tensor_id (*builder)(net *n, const void *data);

/* Float64 against central differences, and float32 against float64, element by element. */
void check(builder build, const void *data, const char *what, uint64_t seed);

#define SEEDS 4
#define EACH_SEED(seed) for (uint64_t seed = 1; seed <= SEEDS; seed++)

/* --- building --- */

typedef struct shape {
    uint32_t rank;
    int64_t extent[8];
} shape;

static inline shape draw_shape(net *n, uint32_t least, uint32_t most, int64_t extent) {
    shape s = {.rank = least + (uint32_t)tn__random_below(&n->random, most - least + 1)};
    for (uint32_t d = 0; d < s.rank; d++)
        s.extent[d] = 1 + (int64_t)tn__random_below(&n->random, (uint64_t)extent);
    return s;
}
static inline int64_t draw(net *n, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(&n->random, (uint64_t)(last - first + 1));
}
static inline tn_tensor_id param(net *n, double middle, double spread, const shape *s) {
    return net_given(n, "p", TN_KIND_PARAMETER, middle, spread, s->rank, s->extent);
}
static inline tn_tensor_id number(net *n, double value) {
    tn_tensor_id id;
    tn_tensor_spec spec = {
        .dtype = n->dtype, .kind = TN_KIND_CONSTANT, .value = {.count = 1, .floats = &value}};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &id, &n->error));
    return id;
}
static inline tn_tensor_id floats(net *n, uint32_t count, const double *values) {
    int64_t extent = count;
    tn_tensor_id id;
    tn_tensor_spec spec = {.dtype = TN_FLOAT32,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &extent,
                           .value = {.count = count, .floats = values}};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &id, &n->error));
    return id;
}
/* A shape that broadcasts to `s`. */
static inline shape draw_narrower(net *n, const shape *s) {
    shape t = *s;
    uint32_t cut = (uint32_t)draw(n, 0, s->rank - 1);
    for (uint32_t d = 0; d + cut < s->rank; d++) t.extent[d] = s->extent[d + cut];
    t.rank = s->rank - cut;
    for (uint32_t d = 0; d < t.rank; d++)
        if (draw(n, 0, 2) == 0) t.extent[d] = 1;
    return t;
}

void one_element_from_one(void **state);
void clips_and_steps(void **state);
void arithmetic(void **state);
void casts(void **state);
void decomposed(void **state);
void linear_attention(void **state);
void reductions(void **state);
void normalisations(void **state);
void movement(void **state);
void indices(void **state);
void resampled(void **state);
void sampled(void **state);
void products(void **state);
void windows(void **state);
void losses(void **state);

#endif
