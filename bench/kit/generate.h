/* generate.h - problems of any size for benchmarks, tests and stress: the same seed, the same
 * problem, on every machine.
 *
 *     tn_problem *problem;
 *     uint64_t optimum; // bytes; 0: not known
 *     generate_find("tiling")->make(&(generate_wish){.count = 500, .seed = 7}, &problem, &optimum,
 *                                   &error);
 */
#ifndef TN_BENCH_GENERATE_H
#define TN_BENCH_GENERATE_H

#include <tenure/plan.h>

typedef struct generate_wish {
    uint32_t count;         /* buffers; a kind may come out a little below */
    uint64_t seed;          /* any */
    uint64_t alignment_max; /* each buffer gets a random power of two up to it; 0: none */
    uint32_t steps;         /* packings: time steps a buffer; few, and cuts share steps; 0: 64.
                               cuts, short, long, power: steps in all; 0: as the kind says */
    uint32_t windows;       /* of 100 buffers, so many are alive in part only; 0: none */
} generate_wish;

typedef struct generate_kind {
    const char *name, *summary;
    tn_status (*make)(const generate_wish *wish, tn_problem **problem, uint64_t *optimum,
                      tn_error *error);
} generate_kind;

extern const generate_kind generate_kinds[];
extern const uint32_t generate_kind_count;
const generate_kind *generate_find(const char *name); /* NULL: none */

#endif
