/* weighted_orders.h - orders of buffers by a weighted sum of size, length of the live range, load,
 * time and noise. */
#ifndef TN_PLAN_SKYLINE_WEIGHTED_ORDERS_H
#define TN_PLAN_SKYLINE_WEIGHTED_ORDERS_H

#include "plan/frame/planner.h"
#include "plan/skyline/skyline.h"

/* Weights of the sum that decides a buffer's place in the order: larger sums come first. */
typedef struct tn__order_weights {
    /* weight of log(length of the live range), 0 ... 1024; log(size) has the weight 1024 - life */
    uint32_t life;
    /* weight of the load, the most live bytes at a step of the buffer's live range, as a fraction
     * of the highest load of all buffers */
    uint32_t load;
    /* weight of the buffer's first step, as a fraction of all time, 1024 per unit; negative: late
     * buffers first */
    int32_t early;
    /* largest random amount that is added to the sum: 0 ... 1024, which is one unit */
    uint32_t noise;
    tn__skyline_rule rule;
} tn__order_weights;

typedef struct tn__weighted_orders {
    const uint32_t *ids; /* [count] */
    uint32_t count;
    /* [count], features of each buffer, with 12 fractional bits */
    uint32_t *size, *life, *load, *first;
    uint64_t *key;   /* [count] */
    uint32_t *spare; /* [count] */
} tn__weighted_orders;

/* Reads the run's buffers once, into scratch memory of the run. Cost: O(n log n). False if memory
 * is exhausted. */
bool tn__weighted_orders_prepare(tn_run *run, const uint32_t *ids, uint32_t count,
                                 tn__weighted_orders *orders);
/* Fills order[] with indices of `ids`, first buffer first. Equal weights with an equal state of the
 * random generator give equal orders. */
void tn__weighted_orders_order(tn__weighted_orders *orders, const tn__order_weights *weights,
                               tn__random *random, uint32_t *order);
/* Returns the weights for try number 0, 1, 2, ...: first some that are known to be good, then
 * random ones. */
tn__order_weights tn__weighted_orders_draw(uint32_t turn, tn__random *random);
/* Varies a set of weights a little: new noise, and one or two changed weights. */
tn__order_weights tn__weighted_orders_vary(const tn__order_weights *weights, tn__random *random);

/* Sorts order[0 ... count) by key[number], least first; equal keys keep their order. `spare` is
 * scratch memory. Cost: O(count). */
void tn__weighted_orders_sort(const uint64_t *key, uint32_t *order, uint32_t *spare,
                              uint32_t count);

#endif
