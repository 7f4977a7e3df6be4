/* search.h - which regions: prices of runs of operators, and paths of them for budgets.
 *
 *   search.c         prices of all runs of one graph
 *   search_paths.c   the least work of one graph for a budget
 *   search_stages.c  the graph as it is, and those in which tensors are computed again (again.h)
 */
#ifndef TN_SPLIT_SEARCH_H
#define TN_SPLIT_SEARCH_H

#include "split/price.h"

typedef struct search_point {
    uint32_t first, last; /* places */
    tn_split_region region;
    split_price price;
    uint64_t cost; /* extra, and what is moved */
    uint64_t floor;
} search_point;

/* What all graphs of a search may take together. */
typedef struct search_limits {
    uint64_t work, work_limit; /* regions that were priced, and may be; 0: no limit */
    double deadline;           /* of tn__clock_s; 0: none */
    bool stopped;
} search_limits;

/* A graph with its prices. */
typedef struct search_stage {
    const tn_context *context; /* NULL: it is not open */
    search_limits *limits;
    tn__arena arena;
    const tn_graph *graph;
    tn_graph *own; /* NULL: the caller's */
    split_model model;
    search_point *points; /* [count] sorted by last */
    size_t count, room;
    uint64_t whole;             /* live bytes of the graph as it is */
    uint32_t byte_flops;        /* operations that take as long as copying a byte */
    const tn_split_again *list; /* [again_count], of the search */
    uint32_t again_count;       /* tensors that are computed again, and ... */
    uint64_t again;             /* ... the operations of it */
} search_stage;

/* `context` and `limits` are set, `arena` is ready, all else 0. Whatever is returned, close it.
 * Errors: E_STOPPED by a limit or the caller, E_NO_MEMORY. */
tn_status tn__search_open(search_stage *stage, const tn_graph *graph,
                          const tn_split_options *options, tn_error *error);
void tn__search_close(search_stage *stage);

/* --- search_paths.c: of one graph; work is without what is computed again --- */

typedef struct search_path {
    uint64_t *cost;   /* [places + 1] of all before the place; UINT64_MAX: no way */
    uint32_t *region; /* [places + 1] the point that ends right before it; TN_NONE: as it is */
} search_path;

/* Whatever is returned, release it. */
tn_status tn__path_make(const search_stage *stage, search_path *path, tn_error *error);
void tn__path_release(const search_stage *stage, search_path *path);
/* The work of the best path, and what it keeps by weight; UINT64_MAX: none keeps to the budget. */
uint64_t tn__path_walk(const search_stage *stage, uint64_t budget, double weight,
                       search_path *path);
/* The smallest budget whose best path takes no more than `limit`: without regions the graph's. */
tn_status tn__path_smallest(const search_stage *stage, uint64_t limit, search_path *path,
                            uint64_t *budget, tn_error *error);
/* What was walked last as a choice; `work` of its share in `whole` operations. */
tn_status tn__path_take(const search_stage *stage, const search_path *path, uint64_t whole,
                        tn_split_choice *choice, tn_error *error);
/* Where that needs most, or most waits that it does not need: places *first to *last, an operator
 * or a region. */
void tn__path_worst(search_stage *stage, const search_path *path, bool across, uint32_t *first,
                    uint32_t *last);

#endif
