/* guillotine.c - joins buffers that match without a gap into blocks, then plans the blocks as
 * usual.
 *
 * skyline/perfect_packing.c makes blocks out of buffers that seem to have been cut from one. The
 * remaining blocks are planned by `scale`, and by `exact` if they are few; a packing that was cut
 * from one rectangle often becomes a single block. Steps are visited in several orders; in a
 * perfect packing, wrong joins are repaired. With a limit, all orders are tried again with more
 * work for `exact`, until the limit is reached. Alignments must hold inside a block: buffers are
 * joined only if all sizes are multiples of the largest alignment, and only without windows, pins
 * and streams.
 *
 * It is the best planner for perfect packings, for which all greedy orders stay a tenth or more
 * above the bound, and for problems that consist of perfect packings. If no buffers match, it gives
 * the result of `scale`; if many match by chance, it can be worse.
 *
 * Cost: O(n log n), plus the cost of `scale` and `exact`.
 * Source: new here.
 */
#include "plan/skyline/perfect_packing.h"

#define GUILLOTINE_SCALE_WORK 50u     /* number of placements that `scale` makes per block */
#define GUILLOTINE_EXACT_BLOCKS 1500u /* limit of blocks up to which `exact` plans them */
/* limit of buffers up to which blocks are joined in several orders of the steps */
#define GUILLOTINE_FEW 10000u
#define GUILLOTINE_TURNS 12u /* number of orders of the steps in which blocks are joined */
#define GUILLOTINE_EXACT_WORK 3000000u /* work of `exact` at depth 1: nodes times blocks */
/* number of orders for which the remaining work must suffice at the first depth */
#define GUILLOTINE_FEW_WAYS 3u
/* limit of the first depth (the factor of the usual work of `exact`): some seconds per order */
#define GUILLOTINE_BEGIN_MAX 256u
#define GUILLOTINE_DEEPER 4u /* factor by which the depth grows each time all orders were tried */
/* with few buffers, blocks are used only if there are at least 1/10 fewer separate blocks than
 * buffers */
#define GUILLOTINE_CHANCE 10u
/* with more than GUILLOTINE_FEW buffers, wrong joins are repaired only if there are at least this
 * many buffers per separate block */
#define GUILLOTINE_SOLVED 12u
/* limit of the sums of block sizes that repair may compute, per buffer */
#define GUILLOTINE_MEND 100000u
/* limit of the sums of block sizes that repair may compute for all buffers: some seconds */
#define GUILLOTINE_MEND_MAX 300000000u
#define GUILLOTINE_STALE 8u /* repair ends after this number of plans without progress */

typedef struct guillotine_plan {
    tn_run *run;
    uint32_t *ids; /* [count], numbers of the buffers of nonzero size */
    uint32_t count;
    tn__packing blocks;
    uint64_t *offset; /* [run count], offset of each buffer of the run */
    /* [room], the blocks that are in no other block, as buffers of a smaller problem */
    tn__subproblem_body *bodies;
    uint64_t *found; /* [room], the offsets found for the separate blocks */
    uint32_t room;
    bool full;       /* the problem is a perfect packing */
    uint64_t effort; /* limit of the work of joining, in computed sums */
    uint64_t times;  /* depth of the search: a factor of the usual work of `exact` */
} guillotine_plan;

static bool guillotine_may_join(tn_run *run) {
    uint64_t alignment = 1, sizes = 0;
    if (tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT) return false;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        const tn_run_body *body = &tn__run_bodies(run)[i];
        if (body->alignment > alignment) alignment = body->alignment;
        sizes |= body->size;
    }
    return (sizes & (alignment - 1)) == 0;
}

static uint64_t guillotine_alignment(tn_run *run) {
    uint64_t alignment = 1;
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (tn__run_bodies(run)[i].alignment > alignment)
            alignment = tn__run_bodies(run)[i].alignment;
    return alignment;
}

static tn_status guillotine_prepare(guillotine_plan *plan) {
    tn_run *run = plan->run;
    uint32_t n = tn__run_count(run);
    plan->ids = tn__run_scratch(run, n, sizeof *plan->ids);
    plan->offset = tn__run_scratch(run, n, sizeof *plan->offset);
    if (!plan->ids || !plan->offset) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if (tn__run_bodies(run)[i].size > 0) plan->ids[plan->count++] = i;
    return tn__packing_create(run, plan->ids, plan->count, &plan->blocks);
}

/* Lists the separate blocks as the buffers of a smaller problem. */
static tn_status guillotine_list(guillotine_plan *plan) {
    uint64_t alignment = guillotine_alignment(plan->run);
    uint32_t count = plan->blocks.standing_count;
    if (count > plan->room) {
        plan->bodies = tn__run_scratch(plan->run, count, sizeof *plan->bodies);
        plan->found = tn__run_scratch(plan->run, count, sizeof *plan->found);
        if (!plan->bodies || !plan->found) return TN_E_NO_MEMORY;
        plan->room = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        const tn__packing_block *block = &plan->blocks.blocks[plan->blocks.standing[i]];
        plan->bodies[i] = (tn__subproblem_body){.size = block->size,
                                                .alignment = alignment,
                                                .first = block->first,
                                                .last = block->last,
                                                .pin = TN__FREE};
    }
    return TN_OK;
}

/* Computes the offset of each buffer from that of its block, and offers this plan to the run. */
static void guillotine_keep(guillotine_plan *plan) {
    const tn__packing_block *blocks = plan->blocks.blocks;
    for (uint32_t i = 0; i < plan->count; i++) {
        uint64_t offset = 0;
        uint32_t at = i;
        for (; blocks[at].parent != TN__PACKING_NONE; at = blocks[at].parent)
            offset += blocks[at].delta;
        plan->offset[plan->ids[i]] = offset + plan->found[blocks[at].place];
    }
    tn__run_keep_offsets(plan->run, plan->offset);
}

static tn_status guillotine_ask(guillotine_plan *plan, const char *planner, uint64_t work) {
    tn_run *run = plan->run;
    uint64_t peak;
    tn__subproblem part = {.bodies = plan->bodies,
                           .count = plan->blocks.standing_count,
                           .planner = tn__planner_find(planner),
                           .capacity = tn__run_capacity(run),
                           .work_limit = work};
    if (part.planner == NULL || tn__run_is_done(run)) return TN_OK;
    TN_TRY(tn__run_part(run, &part, plan->found, &peak));
    if (peak != UINT64_MAX) guillotine_keep(plan);
    return TN_OK;
}

/* Plans the present separate blocks with `scale`, and with `exact` if they are few. */
static tn_status guillotine_plan_blocks(guillotine_plan *plan) {
    TN_TRY(guillotine_list(plan));
    uint32_t count = plan->blocks.standing_count;
    TN_TRY(guillotine_ask(plan, "scale", (uint64_t)GUILLOTINE_SCALE_WORK * count));
    if (count > GUILLOTINE_EXACT_BLOCKS) return TN_OK;
    uint64_t work = tn__mul_sat(GUILLOTINE_EXACT_WORK, plan->times) / count;
    return guillotine_ask(plan, "exact", tn__add_sat(100, work));
}

/* Repairs wrong joins of a perfect packing and plans the blocks again, until GUILLOTINE_STALE plans
 * in a row bring neither fewer blocks nor a lower peak. */
static tn_status guillotine_mend(guillotine_plan *plan) {
    for (uint32_t stale = 0; stale < GUILLOTINE_STALE && !tn__run_is_done(plan->run); stale++) {
        uint64_t before = tn__run_best(plan->run);
        uint32_t count = plan->blocks.standing_count;
        if (plan->blocks.effort >= plan->effort) return TN_OK;
        TN_TRY(tn__packing_mend(&plan->blocks, plan->effort));
        TN_TRY(guillotine_plan_blocks(plan));
        if (plan->blocks.standing_count < count || tn__run_best(plan->run) < before) stale = 0;
    }
    return TN_OK;
}

/* Whether joining left few enough separate blocks to be useful: many pairs of buffers may match by
 * chance. */
static bool guillotine_is_of_use(const guillotine_plan *plan) {
    uint32_t left = plan->blocks.standing_count;
    if (left <= plan->count / 2) return true;
    return left <= plan->count - plan->count / GUILLOTINE_CHANCE &&
           plan->count <= GUILLOTINE_EXACT_BLOCKS;
}

/* Joins buffers into blocks, visiting the steps in the order number `turn`, and plans the blocks.
 * *end is set if trying another order is useless. */
static tn_status guillotine_turn(guillotine_plan *plan, uint32_t turn, bool *end) {
    tn__packing_reset(&plan->blocks);
    TN_TRY(tn__packing_join(&plan->blocks, turn));
    bool of_use = guillotine_is_of_use(plan);
    *end = plan->count > GUILLOTINE_FEW || !of_use;
    if (!of_use) return TN_OK;
    TN_TRY(guillotine_plan_blocks(plan));
    bool mends = plan->count <= GUILLOTINE_FEW ||
                 plan->blocks.standing_count <= plan->count / GUILLOTINE_SOLVED;
    return plan->full && mends ? guillotine_mend(plan) : TN_OK;
}

/* Returns the depth (factor of the usual work of `exact`) to begin with: the largest one at which
 * the remaining work suffices for some orders. So a call with a larger limit does not repeat the
 * work of a smaller one. */
static uint64_t guillotine_depth(const guillotine_plan *plan) {
    uint64_t left = tn__run_work_left(plan->run), times = 1;
    uint64_t once = GUILLOTINE_FEW_WAYS * (GUILLOTINE_EXACT_WORK / (plan->count / 2 + 1) + 1);
    if (left == UINT64_MAX) return 1;
    while (times < GUILLOTINE_BEGIN_MAX && times * GUILLOTINE_DEEPER <= left / once)
        times *= GUILLOTINE_DEEPER;
    return times;
}

/* Joins and plans in each order of the steps; with a limit it tries all orders again and again,
 * with more work for `exact` each time. */
static tn_status guillotine_search(guillotine_plan *plan) {
    bool end = false;
    for (plan->times = guillotine_depth(plan); plan->times < UINT32_MAX;
         plan->times *= GUILLOTINE_DEEPER) {
        for (uint32_t turn = 0; turn < GUILLOTINE_TURNS; turn++) {
            if (end || tn__run_is_done(plan->run) || plan->blocks.effort > plan->effort)
                return TN_OK;
            TN_TRY(guillotine_turn(plan, turn, &end));
        }
        if (!tn__run_is_limited(plan->run)) return TN_OK;
    }
    return TN_OK;
}

static tn_status guillotine_solve(tn_run *run) {
    guillotine_plan plan = {.run = run};
    if (!guillotine_may_join(run))
        return tn__run_best(run) != UINT64_MAX ? TN_OK : tn__run_as(run, "scale");
    plan.full = tn__packing_is_full(run);
    tn_status status = guillotine_prepare(&plan);
    plan.effort = tn__mul_sat(GUILLOTINE_MEND, plan.count);
    if (plan.effort > GUILLOTINE_MEND_MAX) plan.effort = GUILLOTINE_MEND_MAX;
    if (status == TN_OK && plan.count > 0) status = guillotine_search(&plan);
    if (plan.blocks.state != NULL) tn__packing_release(&plan.blocks);
    TN_TRY(status);
    if (plan.count == 0) tn__run_keep_offsets(run, plan.offset); /* all buffers have size 0 */
    return tn__run_best(run) != UINT64_MAX ? TN_OK : tn__run_as(run, "scale");
}

const tn_planner tn__planner_guillotine = {
    .name = "guillotine",
    .summary = "joins buffers that fit without a gap into blocks; exact and scale place the rest",
    .source = "ours",
    .features = TN_PLANS_ALL,
    .solve = guillotine_solve,
};
