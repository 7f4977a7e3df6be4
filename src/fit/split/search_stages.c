/* search_stages.c - chooses the regions that run in parts: the least work within a budget.
 *
 * A tensor that waits long for its last readers is live during everything in between, so
 * splitting cannot go below its size. So the search uses several graphs: the given one, and
 * others that each recompute one more tensor for late readers (again.h). The next tensor is the
 * one that saves the most bytes per operation at the place where the previous graph needs most.
 * Each graph has the prices of its own sequences. A budget takes the least work over all graphs,
 * so a larger budget never needs more work.
 *
 * Cost: O(operators x 80 x axes x parts) for each graph; a budget O(operators + prices).
 */
#include "fit/split/again.h"
#include "fit/split/search.h"
#include "graph/takes.h"

#define STAGES_MOST 8u
#define STAGES_LEAST 32u /* part of the peak: a smaller saving is not worth a graph */
#define STAGES_GAIN 64u  /* part of the peak that a further graph must save */

struct tn_split_search {
    tn_context context;
    search_limits limits;
    search_stage stages[STAGES_MOST];  /* [count]; the first is the given graph */
    tn_split_again again[STAGES_MOST]; /* the tensor that each graph recomputes in addition to
                                        * the previous one */
    uint32_t count;
    uint64_t whole, work;
};

/* --- graphs --- */

/* The scratch of a copied operator is that of its original. */
static tn_status stages_scratch(search_stage *next, const search_stage *from,
                                const tn_op_id *sources, tn_split_options *options,
                                tn_error *error) {
    uint32_t ops = tn_graph_op_count(next->own);
    options->workspaces = NULL;
    if (from->model.scratch == NULL) return TN_OK;
    uint64_t *list = tn__arena_array(&next->arena, (size_t)ops + 1, sizeof *list);
    if (list == NULL) return tn__no_memory(error, "a split graph");
    for (uint32_t i = 0; i < ops; i++) list[i] = from->model.scratch[sources[i]];
    options->workspaces = list;
    return TN_OK;
}

static tn_status stages_open_next(tn_split_search *search, const split_again *again,
                                  const tn_split_options *asked, tn_error *error) {
    const search_stage *from = &search->stages[search->count - 1];
    search_stage *next = &search->stages[search->count];
    tn_split_options options = *asked;
    tn_op_id *sources;
    *next = (search_stage){.context = &search->context, .limits = &search->limits};
    tn__arena_init(&next->arena, next->context);
    TN_TRY(tn__again_graph(&from->model, again, next->context, &next->arena, &next->own, &sources,
                           error));
    TN_TRY(stages_scratch(next, from, sources, &options, error));
    next->again = from->again + again->flops;
    next->again_count = from->again_count + 1;
    next->list = search->again;
    search->again[from->again_count] = (tn_split_again){again->tensor, again->from, again->before};
    return tn__search_open(next, next->own, &options, error);
}

/* The smallest budget of a graph within a share of work; UINT64_MAX: the recomputation alone
 * exceeds it. */
static tn_status stages_smallest(const search_stage *stage, uint64_t limit, uint64_t *budget,
                                 tn_error *error) {
    search_path path = {0};
    *budget = UINT64_MAX;
    if (stage->again > limit) return TN_OK;
    tn_status status = tn__path_make(stage, &path, error);
    if (status == TN_OK)
        status = tn__path_smallest(stage, limit - stage->again, &path, budget, error);
    tn__path_release(stage, &path);
    return status;
}

/* Where to look for a waiting tensor: across the region or operator of the best path that has
 * the most waiting bytes, or that needs the most bytes. If one region covers all waiting
 * tensors, the third way looks across the operator with the most waiting bytes. */
enum { STAGES_ACROSS, STAGES_WORST, STAGES_FULLEST, STAGES_WAYS };

static tn_status stages_place(const tn_split_search *search, search_stage *stage, uint32_t way,
                              uint32_t *first, uint32_t *last, tn_error *error) {
    search_path path = {0};
    uint64_t most = search->work / 2, limit = most > stage->again ? most - stage->again : 0, bytes;
    if (way == STAGES_FULLEST) {
        *first = *last = TN_NONE;
        return TN_OK;
    }
    tn_status status = tn__path_make(stage, &path, error);
    if (status == TN_OK) status = tn__path_smallest(stage, limit, &path, &bytes, error);
    if (status == TN_OK) {
        (void)tn__path_walk(stage, bytes, 0, &path);
        tn__path_worst(stage, &path, way == STAGES_ACROSS, first, last);
    }
    tn__path_release(stage, &path);
    return status;
}

/* Adds a graph that recomputes one more tensor. *better: it needs less than *least. */
static tn_status stages_try(tn_split_search *search, const split_again *again,
                            const tn_split_options *options, uint64_t *least, bool *better,
                            tn_error *error) {
    search_stage *next = &search->stages[search->count];
    uint64_t bytes = UINT64_MAX;
    tn_error said = {0};
    tn_status status = stages_open_next(search, again, options, &said);
    if (status == TN_OK) status = stages_smallest(next, search->work / 2, &bytes, &said);
    *better = status == TN_OK && bytes < *least - *least / STAGES_GAIN;
    /* drops a graph with sizes that cannot be inferred any more, and one that a limit stopped */
    bool drops = status == TN_E_INVALID || status == TN_E_UNKNOWN || status == TN_E_UNSUPPORTED ||
                 status == TN_E_STOPPED;
    if (!*better) {
        tn__search_close(next);
        return drops || status == TN_OK ? TN_OK : tn__fail_as(error, status, &said);
    }
    search->count++;
    *least = bytes;
    return TN_OK;
}

/* *more: a graph was added. */
static tn_status stages_next(tn_split_search *search, const tn_split_options *options,
                             uint64_t *least, bool *more, tn_error *error) {
    search_stage *stage = &search->stages[search->count - 1];
    split_again tried = {.tensor = TN_NONE}, again;
    *more = false;
    for (uint32_t way = 0; way < STAGES_WAYS && !*more; way++) {
        uint32_t first, last;
        bool found;
        TN_TRY(stages_place(search, stage, way, &first, &last, error));
        TN_TRY(tn__again_choose(&stage->model, first, last, search->whole / STAGES_LEAST, &again,
                                &found, error));
        bool is_new = found && (again.tensor != tried.tensor || again.from != tried.from);
        if (search->limits.stopped) return TN_OK;
        if (!is_new || stage->again + again.flops > search->work / 2) continue;
        tried = again;
        TN_TRY(stages_try(search, &again, options, least, more, error));
    }
    return TN_OK;
}

tn_status tn_split_search_create(const tn_graph *graph, const tn_split_options *options,
                                 tn_split_search **search, tn_error *error) {
    tn_split_options asked = TN_SPLIT_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    tn_context context =
        asked.context != NULL ? tn__context(asked.context) : *tn_graph_context(graph);
    tn_split_search *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a split graph");
    if (asked.byte_flops == 0) asked.byte_flops = TN__PLAIN_RATIO;
    made->context = context;
    made->count = 1;
    made->limits.work_limit = asked.work_limit;
    if (asked.timeout_s > 0) made->limits.deadline = tn__clock_s() + asked.timeout_s;
    made->stages[0].context = &made->context;
    made->stages[0].limits = &made->limits;
    tn__arena_init(&made->stages[0].arena, &made->context);
    tn_status status = tn__search_open(&made->stages[0], graph, &asked, error);
    made->whole = made->stages[0].whole;
    made->work = made->stages[0].model.work;
    bool more = asked.again && !asked.copies && asked.kept == NULL;
    uint64_t least = 0;
    if (status == TN_OK) status = stages_smallest(&made->stages[0], made->work / 2, &least, error);
    while (status == TN_OK && more && made->count < STAGES_MOST)
        status = stages_next(made, &asked, &least, &more, error);
    for (uint32_t i = 0; i < made->count; i++) /* the caller's, valid only during the call */
        made->stages[i].model.scratch = made->stages[i].model.kept = NULL;
    if (status == TN_OK)
        *search = made;
    else
        tn_split_search_destroy(made);
    return status;
}

void tn_split_search_destroy(tn_split_search *search) {
    if (search == NULL) return;
    tn_context context = search->context;
    for (uint32_t i = 0; i < STAGES_MOST; i++) tn__search_close(&search->stages[i]);
    tn__free(&context, search, sizeof *search);
}

uint64_t tn_split_whole(const tn_split_search *search) { return search->whole; }

uint64_t tn_split_work(const tn_split_search *search) { return search->limits.work; }

/* --- choices --- */

void tn_split_choice_release(const tn_split_search *search, tn_split_choice *choice) {
    if (choice->regions != NULL)
        tn__free(&search->context, choice->regions,
                 ((size_t)choice->count + 1) * sizeof *choice->regions);
    *choice = (tn_split_choice){0};
}

/* The choice of one graph for a budget, if a path exists. */
static tn_status stages_take(const tn_split_search *search, const search_stage *stage,
                             uint64_t budget, double weight, tn_split_choice *choice,
                             tn_error *error) {
    search_path path = {0};
    tn_status status = tn__path_make(stage, &path, error);
    if (status == TN_OK) {
        (void)tn__path_walk(stage, budget, weight, &path);
        status = tn__path_take(stage, &path, search->work, choice, error);
    }
    tn__path_release(stage, &path);
    return status;
}

/* Work of a graph for a budget, with its recomputed operators; UINT64_MAX: no path exists. */
static tn_status stages_cost(const search_stage *stage, uint64_t budget, double weight,
                             uint64_t *cost, tn_error *error) {
    search_path path = {0};
    tn_status status = tn__path_make(stage, &path, error);
    if (status == TN_OK) *cost = tn__path_walk(stage, budget, weight, &path);
    if (status == TN_OK && *cost != UINT64_MAX) *cost = tn__add_sat(*cost, stage->again);
    tn__path_release(stage, &path);
    return status;
}

/* The graph that needs the fewest bytes within a limit. */
static tn_status stages_fewest(const tn_split_search *search, uint64_t limit,
                               const search_stage **best, uint64_t *budget, tn_error *error) {
    *budget = UINT64_MAX;
    *best = &search->stages[0];
    for (uint32_t i = 0; i < search->count; i++) {
        uint64_t bytes;
        TN_TRY(stages_smallest(&search->stages[i], limit, &bytes, error));
        if (bytes >= *budget) continue;
        *budget = bytes;
        *best = &search->stages[i];
    }
    return TN_OK;
}

tn_status tn_split_within(const tn_split_search *search, uint64_t budget, tn_split_choice *choice,
                          tn_error *error) {
    return tn_split_weighing(search, budget, 0, choice, error);
}

tn_status tn_split_weighing(const tn_split_search *search, uint64_t budget, double weight,
                            tn_split_choice *choice, tn_error *error) {
    const search_stage *best = NULL;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < search->count; i++) {
        uint64_t cost;
        TN_TRY(stages_cost(&search->stages[i], budget, weight, &cost, error));
        if (cost >= least) continue;
        least = cost;
        best = &search->stages[i];
    }
    if (best != NULL) return stages_take(search, best, budget, weight, choice, error);
    if (error == NULL) return TN_E_EXHAUSTED;
    TN_TRY(stages_fewest(search, UINT64_MAX - 1, &best, &least, error));
    TN_FAIL(error, TN_E_EXHAUSTED, "in parts the graph needs %llu bytes at least, not %llu",
            (unsigned long long)least, (unsigned long long)budget);
}

tn_status tn_split_least(const tn_split_search *search, double share, tn_split_choice *choice,
                         tn_error *error) {
    const search_stage *best;
    uint64_t budget;
    double most = share * (double)search->work;
    uint64_t limit = most >= 0x1p63 ? UINT64_MAX - 1 : most > 0 ? (uint64_t)most : 0;
    TN_TRY(stages_fewest(search, limit, &best, &budget, error));
    return stages_take(search, best, budget, 0, choice, error);
}
