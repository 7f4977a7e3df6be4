/* weighted_orders.h - orders of bodies from a few weights: size, life, load, time, noise. */
#ifndef TN_PLAN_SKYLINE_WEIGHTED_ORDERS_H
#define TN_PLAN_SKYLINE_WEIGHTED_ORDERS_H

#include "plan/frame/planner.h"
#include "plan/skyline/skyline.h"

/* A body's place in the order: the larger the sum, the earlier. */
typedef struct tn__order_weights {
    uint32_t life; /* 0 ... 1024: weight of log(life); the rest is the weight of log(size) */
    uint32_t load; /* weight of the highest load in its life, as a share of the highest of all */
    /* 1024 per unit: weight of its first step, as a share of time; negative: late first */
    int32_t early;
    uint32_t noise; /* 0 ... 1024: up to one unit of random noise */
    tn__skyline_rule rule;
} tn__order_weights;

typedef struct tn__weighted_orders {
    const uint32_t *ids; /* [count] */
    uint32_t count;
    uint32_t *size, *life, *load, *first; /* [count], 12 fractional bits */
    uint64_t *key;                        /* [count] */
    uint32_t *spare;                      /* [count] */
} tn__weighted_orders;

/* Reads the run's bodies once; the memory is scratch of the run. O(n log n). False: no memory. */
bool tn__weighted_orders_prepare(tn_run *run, const uint32_t *ids, uint32_t count,
                                 tn__weighted_orders *orders);
/* order[] = numbers in `ids`, first come first. The same weights and random state give the same
 * order. */
void tn__weighted_orders_order(tn__weighted_orders *orders, const tn__order_weights *weights,
                               tn__random *random, uint32_t *order);
/* The weights of turn 0, 1, 2, ...: first those known to be good, then random ones. */
tn__order_weights tn__weighted_orders_draw(uint32_t turn, tn__random *random);
/* A neighbour of a set of weights: other noise, and one or two other weights. */
tn__order_weights tn__weighted_orders_vary(const tn__order_weights *weights, tn__random *random);

/* Sorts order[0 ... count) by key[number], least first; equal keys keep their order. O(count). */
void tn__weighted_orders_sort(const uint64_t *key, uint32_t *order, uint32_t *spare,
                              uint32_t count);

#endif
