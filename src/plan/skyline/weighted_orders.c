/* weighted_orders.c - draws orders of buffers from one family, because the best order for a problem
 * is not known before it is tried.
 *
 * Good orders put large buffers before small ones, long live ranges before short ones, and buffers
 * at crowded steps before others. All known orders (size, length, area, MiniMalloc's TWA and
 * similar ones) are weighted sums of the logarithms of size and length, of the load (the live bytes
 * at the fullest step of the live range), and of time. Random weights, with a little noise, find
 * better plans than any fixed weights, and filling a skyline takes milliseconds.
 *
 * All arithmetic is on integers, so every machine gets the same order.
 */
#include "plan/skyline/weighted_orders.h"

#include "base/range_tree.h"

#define WEIGHTED_BITS 12u /* number of fractional bits of a logarithm */

/* Returns log2 of `value` with WEIGHTED_BITS fractional bits, rounded down; 0 for 0. Squaring a
 * number in [1, 2) gives the next bit of its logarithm. */
static uint32_t weighted_log2(uint64_t value) {
    if (value == 0) return 0;
    uint32_t result = 63 - (uint32_t)__builtin_clzll(value);
    uint64_t part = value << (63 - result) >> 32; /* a number in [1, 2) with 31 fractional bits */
    for (uint32_t i = 0; i < WEIGHTED_BITS; i++) {
        uint64_t square = part * part; /* the square, a number in [1, 4) with 62 fractional bits */
        bool two = square >> 63 != 0;
        part = square >> (two ? 32 : 31);
        result = 2 * result + two;
    }
    return result;
}

/* --- the load over time --- */

/* Makes a tree of the highest load (live bytes at a step) of every range of steps; NULL if memory
 * is exhausted. */
static uint64_t *weighted_load(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t times = tn__run_time_count(run);
    uint64_t *tree = tn__run_scratch(run, 2 * (size_t)times + 2, sizeof *tree),
             *load = tree + times;
    if (tree == NULL) return NULL;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        const tn_run_piece *pieces = tn__run_pieces(run) + bodies[i].piece_first;
        /* a negative change wraps modulo 2^64, so the sums of changes are right */
        for (uint32_t k = 0; k < bodies[i].piece_count; k++) {
            load[pieces[k].first] += pieces[k].hi - pieces[k].lo;
            load[pieces[k].last] -= pieces[k].hi - pieces[k].lo;
        }
    }
    for (uint32_t t = 1; t < times; t++) load[t] += load[t - 1];
    tn__range_max_init(tree, times);
    return tree;
}

bool tn__weighted_orders_prepare(tn_run *run, const uint32_t *ids, uint32_t count,
                                 tn__weighted_orders *orders) {
    const tn_run_body *bodies = tn__run_bodies(run);
    *orders = (tn__weighted_orders){.ids = ids, .count = count};
    orders->size = tn__run_scratch(run, count, sizeof *orders->size);
    orders->life = tn__run_scratch(run, count, sizeof *orders->life);
    orders->load = tn__run_scratch(run, count, sizeof *orders->load);
    orders->first = tn__run_scratch(run, count, sizeof *orders->first);
    orders->key = tn__run_scratch(run, count, sizeof *orders->key);
    orders->spare = tn__run_scratch(run, count, sizeof *orders->spare);
    if (!orders->size || !orders->life || !orders->load || !orders->first || !orders->key ||
        !orders->spare)
        return false;
    const uint64_t *tree = weighted_load(run);
    if (tree == NULL) return false;
    uint32_t times = tn__run_time_count(run);
    /* the load is expressed as a fraction of the highest load */
    uint64_t unit = (tree[1] >> WEIGHTED_BITS) + 1;
    for (uint32_t i = 0; i < count; i++) {
        const tn_run_body *body = &bodies[ids[i]];
        orders->size[i] = weighted_log2(body->size);
        orders->life[i] = weighted_log2(body->last - body->first);
        uint64_t load = tn__range_max(tree, times, body->first, body->last);
        orders->load[i] = (uint32_t)(load / unit);
        orders->first[i] = (uint32_t)(((uint64_t)body->first << WEIGHTED_BITS) / times);
    }
    return true;
}

/* --- orders --- */

/* bits of a key that one pass of the radix sort uses: six passes sort a 64-bit key, and the
 * counters fit into a cache */
#define WEIGHTED_DIGIT 11u
#define WEIGHTED_DIGITS (1u << WEIGHTED_DIGIT)

void tn__weighted_orders_sort(const uint64_t *key, uint32_t *order, uint32_t *spare,
                              uint32_t count) {
    uint32_t *from = order, *to = spare;
    for (uint32_t shift = 0; shift < 64; shift += WEIGHTED_DIGIT) {
        uint32_t place[WEIGHTED_DIGITS] = {0}, sum = 0;
        for (uint32_t i = 0; i < count; i++) place[key[i] >> shift & (WEIGHTED_DIGITS - 1)]++;
        if (count == 0 || place[key[0] >> shift & (WEIGHTED_DIGITS - 1)] == count) continue;
        for (uint32_t digit = 0; digit < WEIGHTED_DIGITS; digit++) {
            uint32_t here = place[digit];
            place[digit] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            to[place[key[from[i]] >> shift & (WEIGHTED_DIGITS - 1)]++] = from[i];
        uint32_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != order) memcpy(order, from, count * sizeof *order);
}

void tn__weighted_orders_order(tn__weighted_orders *orders, const tn__order_weights *weights,
                               tn__random *random, uint32_t *order) {
    for (uint32_t i = 0; i < orders->count; i++) {
        int64_t sum = (int64_t)((uint64_t)orders->size[i] * (1024 - weights->life) +
                                (uint64_t)orders->life[i] * weights->life +
                                (uint64_t)orders->load[i] * weights->load);
        sum -= (int64_t)orders->first[i] * weights->early;
        if (weights->noise > 0)
            sum += (int64_t)(weights->noise * tn__random_below(random, 1u << WEIGHTED_BITS));
        /* `sum` has an absolute value below 2^61, so the key is positive */
        orders->key[i] = ((uint64_t)1 << 62) - (uint64_t)sum;
        order[i] = i;
    }
    tn__weighted_orders_sort(orders->key, order, orders->spare, orders->count);
}

#define WEIGHTED_LOAD_ALL (1u << 24) /* a weight of the load that outweighs all other weights */

tn__order_weights tn__weighted_orders_draw(uint32_t turn, tn__random *random) {
    static const tn__order_weights known[] = {
        /* order by load, largest first; of equal loads, the longest live range first */
        {1024, WEIGHTED_LOAD_ALL, 0, 0, {TN__SKYLINE_ANY, 0}},
        /* order by area (bytes x steps), largest first; the skyline prefers chains of buffers */
        {512, 0, 0, 0, {TN__SKYLINE_ROWS, 3}},
        {512, 0, 0, 0, {TN__SKYLINE_ANY, 0}}, /* area */
        {800, 50 << 10, 0, 512, {TN__SKYLINE_WALL, 0}},
        /* order by load, largest first; of equal loads, the largest area (bytes x steps) first */
        {512, WEIGHTED_LOAD_ALL, 0, 0, {TN__SKYLINE_WALL, 0}},
        {1024, 0, 0, 0, {TN__SKYLINE_WALL, 0}}, /* life */
        /* order by first step, earliest first; of equal steps, the largest size first */
        {0, 0, 1 << 24, 0, {TN__SKYLINE_WALL, 0}},
    };
    if (turn < sizeof known / sizeof *known) return known[turn];
    tn__order_weights weights = {.rule = {TN__SKYLINE_ANY, 0}};
    /* the weight of the length is a random u in (0, 1], that of the size is 1 - u */
    uint32_t odds = 1 + (uint32_t)tn__random_below(random, 1024);
    weights.life = odds > 1024 ? 1024 : odds;
    /* with probability 1/2, the load gets a random weight from 1 to 2^14 units */
    if (tn__random_below(random, 2) != 0) {
        uint32_t exponent = (uint32_t)tn__random_below(random, 14);
        weights.load = (1024u << exponent) + (uint32_t)tn__random_below(random, 1024u << exponent);
    }
    if (tn__random_below(random, 3) == 0)
        weights.early = (int32_t)tn__random_below(random, 20 << 10) - (10 << 10);
    if (tn__random_below(random, 2) != 0)
        weights.noise = 1 + (uint32_t)tn__random_below(random, 1024);
    uint64_t fit = tn__random_below(random, 6);
    if (fit < 2) weights.rule.fit = TN__SKYLINE_WALL;
    if (fit >= 4) weights.rule.fit = fit == 4 ? TN__SKYLINE_ROWS : TN__SKYLINE_ROWS_RANKED;
    if (fit >= 4) weights.rule.lift = (1u << tn__random_below(random, 6)) / 2;
    return weights;
}

tn__order_weights tn__weighted_orders_vary(const tn__order_weights *weights, tn__random *random) {
    tn__order_weights varied = *weights;
    uint32_t life = weights->life + (uint32_t)tn__random_below(random, 257);
    varied.life = life < 128 ? 0 : life - 128 > 1024 ? 1024 : life - 128;
    varied.noise = (uint32_t)tn__random_below(random, 1024);
    if (tn__random_below(random, 2) != 0)
        varied.load = (uint32_t)tn__random_below(random, 2 * (uint64_t)weights->load + 1024);
    return varied;
}
