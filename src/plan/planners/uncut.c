/* uncut.c - what fits without a gap is put together first; the rest is planned as usual.
 *
 * skyline/uncut.c makes blocks out of bodies that seem to have been cut from one. As many as are
 * left are planned by `scale`, and by `exact` where they are few: of a packing that was cut from
 * one rectangle often a single one. Alignments must not be broken inside a block: all sizes are
 * multiples of the largest, or nothing is put together; nor is it where bodies have windows, pins
 * or streams.
 *
 * Best for perfect packings, which all greedy orders leave a tenth or more above the bound. Where
 * nothing fits it is `scale`, and where much fits by chance it can be worse.
 * Cost:   O(n log n) beside theirs.
 * Source: ours.
 */
#include "plan/skyline/uncut.h"

#define UNCUT_SCALE_WORK 50u      /* placements a block */
#define UNCUT_EXACT_BLOCKS 1500u  /* up to which blocks are searched */
#define UNCUT_FEW 10000u          /* bodies up to which ... */
#define UNCUT_TURNS 12u           /* ... so many orders are tried */
#define UNCUT_EXACT_WORK 3000000u /* nodes times blocks */

typedef struct uncut_plan {
    tn_run *run;
    uint32_t *ids; /* [count], bodies of more than no bytes */
    uint32_t count;
    tn__uncut blocks;
    tn__part_body *bodies; /* [standing_count] */
    uint32_t *standing;    /* [standing_count], blocks */
    uint32_t standing_count;
    uint64_t *offset, *found, *at; /* [run count]; [standing_count]; [blocks.count] */
} uncut_plan;

static bool uncut_may_join(tn_run *run) {
    uint64_t alignment = 1, sizes = 0;
    if (tn__run_needs(run) & ~(uint32_t)TN_PLANS_ALIGNMENT) return false;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        const tn_run_body *body = &tn__run_bodies(run)[i];
        if (body->alignment > alignment) alignment = body->alignment;
        sizes |= body->size;
    }
    return (sizes & (alignment - 1)) == 0;
}

static uint64_t uncut_alignment(tn_run *run) {
    uint64_t alignment = 1;
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        if (tn__run_bodies(run)[i].alignment > alignment)
            alignment = tn__run_bodies(run)[i].alignment;
    return alignment;
}

static tn_status uncut_prepare(uncut_plan *plan) {
    tn_run *run = plan->run;
    uint32_t n = tn__run_count(run);
    plan->ids = tn__run_scratch(run, n, sizeof *plan->ids);
    plan->offset = tn__run_scratch(run, n, sizeof *plan->offset);
    plan->found = tn__run_scratch(run, n, sizeof *plan->found);
    plan->bodies = tn__run_scratch(run, n, sizeof *plan->bodies);
    plan->standing = tn__run_scratch(run, n, sizeof *plan->standing);
    plan->at = tn__run_scratch(run, 2 * (size_t)n, sizeof *plan->at);
    if (!plan->ids || !plan->offset || !plan->found || !plan->bodies || !plan->standing ||
        !plan->at)
        return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        if (tn__run_bodies(run)[i].size > 0) plan->ids[plan->count++] = i;
    return TN_OK;
}

/* The blocks that stand by themselves, as bodies. */
static void uncut_list(uncut_plan *plan) {
    uint64_t alignment = uncut_alignment(plan->run);
    plan->standing_count = 0;
    for (uint32_t i = 0; i < plan->blocks.count; i++) {
        const tn__uncut_block *block = &plan->blocks.blocks[i];
        if (block->parent != TN__UNCUT_NONE) continue;
        plan->bodies[plan->standing_count] = (tn__part_body){.size = block->size,
                                                             .alignment = alignment,
                                                             .first = block->first,
                                                             .last = block->last,
                                                             .pin = TN__FREE};
        plan->standing[plan->standing_count++] = i;
    }
}

/* Bodies where their blocks are: parents come later in the list than what they are made of. */
static void uncut_keep(uncut_plan *plan) {
    for (uint32_t i = 0; i < plan->standing_count; i++)
        plan->at[plan->standing[i]] = plan->found[i];
    for (uint32_t i = plan->blocks.count; i-- > 0;) {
        const tn__uncut_block *block = &plan->blocks.blocks[i];
        if (block->parent != TN__UNCUT_NONE) plan->at[i] = plan->at[block->parent] + block->delta;
        if (i < plan->blocks.body_count) plan->offset[plan->ids[i]] = plan->at[i];
    }
    tn__run_keep_offsets(plan->run, plan->offset);
}

static bool uncut_is_done(tn_run *run) {
    uint64_t best = tn__run_best(run);
    return best <= tn__run_lower_bound(run) ||
           (tn__run_has_capacity(run) && best <= tn__run_capacity(run));
}

static tn_status uncut_ask(uncut_plan *plan, const char *planner, uint64_t work) {
    tn_run *run = plan->run;
    uint64_t peak;
    tn__part part = {.bodies = plan->bodies,
                     .count = plan->standing_count,
                     .planner = tn__planner_find(planner),
                     .capacity = tn__run_capacity(run),
                     .work_limit = work};
    if (part.planner == NULL || uncut_is_done(run)) return TN_OK;
    TN_TRY(tn__run_part(run, &part, plan->found, &peak));
    if (peak != UINT64_MAX) uncut_keep(plan);
    return TN_OK;
}

static tn_status uncut_solve(tn_run *run) {
    uncut_plan plan = {.run = run};
    if (!uncut_may_join(run)) return tn__run_as(run, "scale");
    TN_TRY(uncut_prepare(&plan));
    uint32_t turns = plan.count <= UNCUT_FEW ? UNCUT_TURNS : 1;
    for (uint32_t turn = 0; turn < turns && plan.count > 0 && !uncut_is_done(run); turn++) {
        TN_TRY(tn__uncut_make(run, plan.ids, plan.count, turn, &plan.blocks));
        uncut_list(&plan);
        uint32_t count = plan.standing_count;
        if (2 * count > plan.count) break; /* what fits by chance is no packing */
        TN_TRY(uncut_ask(&plan, "scale", (uint64_t)UNCUT_SCALE_WORK * count));
        if (count <= UNCUT_EXACT_BLOCKS)
            TN_TRY(uncut_ask(&plan, "exact", 100 + UNCUT_EXACT_WORK / count));
    }
    if (plan.count == 0) tn__run_keep_offsets(run, plan.offset); /* nothing takes a byte */
    return tn__run_best(run) != UINT64_MAX ? TN_OK : tn__run_as(run, "scale");
}

const tn_planner tn__planner_uncut = {
    .name = "uncut",
    .summary = "what fits without a gap is put together, the rest by scale and exact",
    .source = "ours",
    .features = TN_PLANS_ALL,
    .solve = uncut_solve,
};
