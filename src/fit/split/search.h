/* search.h - chooses the regions to split: prices of operator sequences, and paths for budgets.
 *
 *   search.c         prices of all sequences of one graph
 *   search_paths.c   the least work of one graph for a budget
 *   search_stages.c  the unsplit graph, and graphs in which tensors are recomputed (again.h)
 */
#ifndef TN_SPLIT_SEARCH_H
#define TN_SPLIT_SEARCH_H

#include "fit/split/price.h"

typedef struct search_point {
    uint32_t first, last; /* places */
    tn_split_region region;
    split_price price;
    uint64_t cost; /* additional operations, and moved bytes in operations */
    uint64_t floor;
} search_point;

/* Limits on the total of all graphs of a search. */
typedef struct search_limits {
    uint64_t work, work_limit; /* priced regions, and their maximum; 0: no limit */
    double deadline;           /* in the time of tn__clock_s; 0: no deadline */
    bool stopped;
} search_limits;

/* A graph with its prices. */
typedef struct search_stage {
    const tn_context *context; /* NULL: the stage is not open */
    search_limits *limits;
    tn__arena arena;
    const tn_graph *graph;
    tn_graph *own; /* NULL: the graph is the caller's */
    split_model model;
    search_point *points; /* [count] sorted by last */
    size_t count, room;
    uint64_t whole;             /* live bytes of the unsplit graph */
    uint32_t byte_flops;        /* operations that take as long as copying a byte */
    const tn_split_again *list; /* [again_count], owned by the search */
    uint32_t again_count;       /* number of recomputed tensors */
    uint64_t again;             /* operations of these recomputations */
} search_stage;

/* `context` and `limits` are set, `arena` is initialised, all else is 0. The caller closes the
 * stage, also after an error. Errors: E_STOPPED by a limit or the caller, E_NO_MEMORY. */
tn_status tn__search_open(search_stage *stage, const tn_graph *graph,
                          const tn_split_options *options, tn_error *error);
void tn__search_close(search_stage *stage);

/* --- search_paths.c: one graph; work is counted without recomputed operators --- */

typedef struct search_path {
    uint64_t *cost;   /* [places + 1] cost of all operators before the place; UINT64_MAX: no path */
    uint32_t *region; /* [places + 1] the point that ends right before it; TN_NONE: a whole
                       * operator */
} search_path;

/* The caller releases the path, also after an error. */
tn_status tn__path_make(const search_stage *stage, search_path *path, tn_error *error);
void tn__path_release(const search_stage *stage, search_path *path);
/* The work of the best path plus `weight` times its permanent bytes; UINT64_MAX: no path keeps
 * to the budget. */
uint64_t tn__path_walk(const search_stage *stage, uint64_t budget, double weight,
                       search_path *path);
/* The smallest budget with a best path of at most `limit` work; without regions it is the
 * graph's peak. */
tn_status tn__path_smallest(const search_stage *stage, uint64_t limit, search_path *path,
                            uint64_t *budget, tn_error *error);
/* Returns the last path as a choice; `work` is its share of `whole` operations. */
tn_status tn__path_take(const search_stage *stage, const search_path *path, uint64_t whole,
                        tn_split_choice *choice, tn_error *error);
/* The operator or region, from place *first to place *last, that needs the most bytes; with
 * `across`, the one across which the most bytes wait that it does not need. */
void tn__path_worst(search_stage *stage, const search_path *path, bool across, uint32_t *first,
                    uint32_t *last);

#endif
