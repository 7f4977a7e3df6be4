/* scale.c - makes a good plan for 10^4 to 10^6 buffers in seconds, and improves it until its limit
 * of work or time.
 *
 * A plan is made by filling a skyline in some order (skyline.c): this takes milliseconds for 10^4
 * buffers, a second for 10^6, which allows many orders to be tried. The orders are drawn from one
 * family (weighted_orders.c). The order of the lowest plan so far is repaired: buffers that end too
 * high in that plan move forward in the order, and the next plan is made from it. For each repair,
 * the height above which an end is too high is drawn between the lower bound and the peak of the
 * lowest plan.
 *
 * The skyline handles plain buffers, alignments, gaps and windows directly. If buffers have gaps,
 * all buffers are lowered once more afterwards, in order of their offsets. The skyline ignores
 * pins; with pins, all other buffers are lowered around the pinned ones, in order of their offsets.
 * With streams, intervals do not decide which buffers overlap; each buffer in the order is then
 * placed in its lowest hole among all placed buffers (tn__run_holes), which costs O(n^2) at worst.
 * With pins or windows, the planner also tries this if it is cheap.
 *
 * A plan of this planner is proved optimal only if it reaches the lower bound. Without a limit the
 * planner stops after SCALE_WORK placements or a few plans; with a work or time limit it continues
 * until the limit.
 *
 * Cost: O(n log n) per plan; about 150 bytes per buffer.
 * Source: new here; the repair follows squeaky wheel optimisation (Joslin, Clements 1999).
 */
#include "plan/skyline/drop.h"
#include "plan/frame/planner.h"
#include "plan/skyline/weighted_orders.h"
#include "plan/skyline/skyline.h"

#define SCALE_WORK 2000000u  /* limit of placements of buffers if the caller set no limit */
#define SCALE_PLANS 2u       /* minimum number of plans, however many buffers there are */
#define SCALE_PLANS_MAX 400u /* limit of the number of plans if the caller set no limit */
#define SCALE_DRAWS 12u   /* number of orders of the buffers that are drawn at random in a round */
#define SCALE_REPAIRS 24u /* limit of repairs that follow the orders of a round */
/* after this number of repairs without a better plan, repair starts again from the order of the
 * best plan */
#define SCALE_STALE 12u
/* after this number of repairs in a row with equal peaks, repair ends, because the buffers that
 * move do not determine the peak */
#define SCALE_LEVEL 3u
/* limit of buffers up to which each buffer may be placed in its lowest hole (tn__run_holes) */
#define SCALE_HOLES 16384u
#define SCALE_LOOK 1000000u /* number of pairs of pieces between two checks of the clock */
/* buffers are lowered around the pins only if the number of buffers times the number of pieces of
 * pinned buffers is at most this */
#define SCALE_PINS 400000000u

typedef struct scale_pin {
    uint64_t offset;
    uint32_t id;
} scale_pin;

typedef struct scale_state {
    tn_run *run;
    uint32_t *ids; /* [count], the run's numbers of buffers that are not pinned and not empty */
    uint32_t count;
    bool plain;    /* all buffers have one whole piece, and none is pinned */
    bool by_holes; /* there are streams, or sums beyond 2^63: only tn__run_holes can handle these */
    tn__weighted_orders orders;
    tn__skyline *skyline;
    tn__drop *drop;
    scale_pin *pins; /* [pin_count], pinned buffers, lowest offset first */
    uint32_t pin_count, pin_piece_count;
    uint32_t *order, *best_order; /* [count], orders in which buffers are placed on the skyline */
    uint32_t *fall; /* [count], indices of `ids` in order of offset, in which buffers are lowered */
    tn__skyline_rule rule, best_rule;
    /* weights that drew the order of the best plan, before that order was repaired */
    tn__order_weights best_weights;
    /* [run count] three lists of offsets: the last plan, the best plan, and after lowering the
     * buffers */
    uint64_t *offsets, *best_offsets, *fallen;
    uint64_t best;  /* peak of the plan of best_order */
    uint64_t peak;  /* peak of the last plan */
    bool is_better; /* the last plan is the best one so far */
    uint64_t spent; /* number of placements so far */
    uint32_t plans;
    tn__random random;
    tn_status status; /* result of the last tn__run_work */
} scale_state;

/* --- preparing --- */

/* Whether the sizes of all buffers, laid end to end with their alignments, add up to less than
 * 2^63, so that no sum of offset and size overflows. */
static bool scale_is_small(tn_run *run) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        const tn_run_body *body = &tn__run_bodies(run)[i];
        uint64_t from = tn__run_pinned(run, i) ? tn__run_offset(run, i) : 0;
        sum = tn__add_sat(sum, tn__add_sat(from, tn__add_sat(body->size, 2 * body->alignment)));
    }
    return sum < INT64_MAX;
}

static bool scale_is_plain(tn_run *run, const tn_run_body *body) {
    const tn_run_piece *piece = &tn__run_pieces(run)[body->piece_first];
    return body->piece_count == 1 && piece->lo == 0 && piece->hi == body->size;
}

static int scale_pin_order(const void *a, const void *b) {
    const scale_pin *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static void scale_gather(scale_state *scale) {
    tn_run *run = scale->run;
    scale->plain = true;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        const tn_run_body *body = &tn__run_bodies(run)[i];
        if (tn__run_pinned(run, i)) {
            scale->fallen[i] = scale->best_offsets[i] = scale->offsets[i] = tn__run_offset(run, i);
            scale->pins[scale->pin_count++] = (scale_pin){tn__run_offset(run, i), i};
            scale->pin_piece_count += body->piece_count;
        } else if (body->piece_count > 0) {
            scale->ids[scale->count++] = i;
            scale->plain = scale->plain && scale_is_plain(run, body);
        }
    }
    scale->plain = scale->plain && scale->pin_piece_count == 0;
    qsort(scale->pins, scale->pin_count, sizeof *scale->pins, scale_pin_order);
}

static tn_status scale_prepare(scale_state *scale) {
    tn_run *run = scale->run;
    const tn_context *context = tn__run_context(run);
    uint32_t n = tn__run_count(run);
    scale->ids = tn__run_scratch(run, n, sizeof *scale->ids);
    scale->pins = tn__run_scratch(run, n, sizeof *scale->pins);
    scale->order = tn__run_scratch(run, n, sizeof *scale->order);
    scale->best_order = tn__run_scratch(run, n, sizeof *scale->best_order);
    scale->fall = tn__run_scratch(run, n, sizeof *scale->fall);
    scale->offsets = tn__run_scratch(run, n, sizeof *scale->offsets);
    scale->fallen = tn__run_scratch(run, n, sizeof *scale->fallen);
    scale->best_offsets = tn__run_scratch(run, n, sizeof *scale->best_offsets);
    if (!scale->ids || !scale->pins || !scale->order || !scale->best_order || !scale->fall ||
        !scale->offsets || !scale->fallen || !scale->best_offsets)
        return TN_E_NO_MEMORY;
    scale_gather(scale);
    scale->by_holes = tn__run_has_streams(run) || !scale_is_small(run);
    if (!tn__weighted_orders_prepare(run, scale->ids, scale->count, &scale->orders))
        return TN_E_NO_MEMORY;
    if (scale->by_holes) return TN_OK;
    tn__live_tree_input input = {context, tn__run_bodies(run), scale->ids, scale->count, run};
    scale->skyline = tn__skyline_create(&input, tn__run_pieces(run), tn__run_time_count(run));
    if (!tn__run_goes_on(run)) return tn__run_work(run, 0);
    if (!scale->plain) scale->drop = tn__drop_create(context, tn__run_time_count(run));
    if (scale->skyline == NULL || (scale->drop == NULL && !scale->plain)) return TN_E_NO_MEMORY;
    return TN_OK;
}

/* --- falling around the pins --- */

static bool scale_meet(const tn_run_piece *a, uint64_t at_a, const tn_run_piece *b, uint64_t at_b) {
    return a->first < b->last && b->first < a->last && at_a + a->lo < at_b + b->hi &&
           at_b + b->lo < at_a + a->hi;
}

/* Returns the lowest offset at or above `offset` at which the buffer overlaps no piece of the
 * pinned buffer. */
static uint64_t scale_above(const scale_state *scale, const tn_run_body *body, uint32_t pin,
                            uint64_t offset) {
    const tn_run_body *other = &tn__run_bodies(scale->run)[pin];
    const tn_run_piece *mine = tn__run_pieces(scale->run) + body->piece_first;
    const tn_run_piece *theirs = tn__run_pieces(scale->run) + other->piece_first;
    uint64_t at = tn__run_offset(scale->run, pin), mask = body->alignment - 1;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < body->piece_count; i++)
            for (uint32_t k = 0; k < other->piece_count; k++) {
                if (!scale_meet(&mine[i], offset, &theirs[k], at)) continue;
                offset = (at + theirs[k].hi - mine[i].lo + mask) & ~mask;
                moved = true;
            }
    }
    return offset;
}

static uint64_t scale_above_pins(const scale_state *scale, const tn_run_body *body,
                                 uint64_t offset) {
    /* moving above one pinned buffer may move the buffer into another that was checked before, so
     * the pins are checked again */
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < scale->pin_count; i++) {
            /* pins are sorted by offset, so this pin and all later ones lie above the buffer */
            if (scale->pins[i].offset >= offset + body->size) break;
            uint64_t higher = scale_above(scale, body, scale->pins[i].id, offset);
            moved = moved || higher != offset;
            offset = higher;
        }
    }
    return offset;
}

/* Fills scale->fall[] with all buffers in the order of their scale->offsets; buffers of equal
 * offsets keep their order. */
static void scale_sort_by_offset(scale_state *scale) {
    for (uint32_t i = 0; i < scale->count; i++) {
        scale->orders.key[i] = scale->offsets[scale->ids[i]];
        scale->fall[i] = i;
    }
    tn__weighted_orders_sort(scale->orders.key, scale->fall, scale->orders.spare, scale->count);
}

/* Lowers all buffers as far as possible, in order of their scale->offsets, and stores the new
 * offsets in scale->fallen; *peak receives their peak. If checking all pins costs too much, the
 * buffers are placed above all pins. */
static tn_status scale_fall(scale_state *scale, uint64_t *peak) {
    tn_run *run = scale->run;
    const tn_run_body *bodies = tn__run_bodies(run);
    const tn_run_piece *pieces = tn__run_pieces(run);
    bool around = (uint64_t)scale->pin_piece_count * scale->count <= SCALE_PINS;
    uint64_t asked = 0;
    *peak = 0;
    scale_sort_by_offset(scale);
    tn__drop_reset(scale->drop);
    for (uint32_t i = 0; i < scale->pin_count && !around; i++)
        tn__drop_raise(scale->drop, &bodies[scale->pins[i].id], pieces, scale->pins[i].offset);
    for (uint32_t i = 0; i < scale->count; i++) {
        uint32_t id = scale->ids[scale->fall[i]];
        uint64_t offset = tn__drop_offset(scale->drop, &bodies[id], pieces);
        if (around) offset = scale_above_pins(scale, &bodies[id], offset);
        tn__drop_raise(scale->drop, &bodies[id], pieces, offset);
        scale->fallen[id] = offset;
        if (offset + bodies[id].size > *peak) *peak = offset + bodies[id].size;
        asked += (uint64_t)bodies[id].piece_count * (1 + (around ? scale->pin_piece_count : 0));
        if (asked < SCALE_LOOK) continue;
        asked = 0;
        if (!tn__run_goes_on(run)) return tn__run_work(run, 0);
    }
    return TN_OK;
}

/* --- one plan --- */

static bool scale_go_on(void *self, uint32_t placed) {
    scale_state *scale = self;
    scale->spent += placed;
    scale->status = tn__run_work(scale->run, placed);
    return scale->status == TN_OK;
}

/* Makes a plan by placing each buffer of `order` in its lowest hole. *peak receives its peak. Cost:
 * O(n) per buffer at worst. */
static tn_status scale_fill_holes(scale_state *scale, const uint32_t *order, uint64_t *peak) {
    tn_run *run = scale->run;
    *peak = 0;
    for (uint32_t i = 0; i < scale->count; i++) {
        const tn_hole *holes;
        uint32_t hole_count, id = scale->ids[order[i]];
        TN_TRY(tn__run_holes(run, id, &holes, &hole_count));
        tn__run_place(run, id, holes[0].first);
        scale->offsets[id] = holes[0].first;
        uint64_t top = tn__add_sat(holes[0].first, tn__run_bodies(run)[id].size);
        if (top > *peak) *peak = top;
    }
    scale->spent += scale->count;
    /* ends the run with an error if a buffer was placed beyond the largest height */
    TN_TRY(tn__run_work(run, 0));
    for (uint32_t i = 0; i < scale->count; i++) tn__run_unplace(run, scale->ids[i]);
    return TN_OK;
}

/* Makes one plan from scale->order and scale->rule, in scale->offsets and *peak: fills the skyline
 * or the lowest holes, and lowers buffers afterwards if some have gaps or pins. */
static tn_status scale_plan(scale_state *scale, uint64_t give_up, uint64_t *peak) {
    tn__skyline_poll poll = {scale_go_on, scale};
    scale->plans++;
    if (scale->by_holes) return scale_fill_holes(scale, scale->order, peak);
    /* buffers are lowered afterwards, so a high peak is no reason to give up */
    if (!scale->plain) give_up = UINT64_MAX;
    if (!tn__skyline_fill(scale->skyline, scale->order, scale->rule, give_up, poll, scale->offsets,
                          peak))
        return scale->status;
    if (scale->plain) return TN_OK;
    uint64_t fallen;
    TN_TRY(scale_fall(scale, &fallen));
    /* takes the lowered plan if it is lower; with pins always, because the skyline ignored them */
    if (fallen < *peak || scale->pin_piece_count > 0) {
        uint64_t *swap = scale->offsets;
        scale->offsets = scale->fallen;
        scale->fallen = swap;
        *peak = fallen;
    }
    if (*peak >= scale->best || scale->count > SCALE_HOLES) return TN_OK;
    tn__run_keep_offsets(scale->run, scale->offsets);
    scale_sort_by_offset(scale);
    return scale_fill_holes(scale, scale->fall, peak);
}

/* Makes a plan and keeps it if it is the best so far. Plans with a peak of `give_up` or more are
 * not finished: then scale->offsets is only partly filled. */
static tn_status scale_try(scale_state *scale, uint64_t give_up) {
    TN_TRY(scale_plan(scale, give_up, &scale->peak));
    scale->is_better = scale->peak < scale->best;
    if (!scale->is_better) return TN_OK;
    scale->best = scale->peak;
    scale->best_rule = scale->rule;
    memcpy(scale->best_order, scale->order, scale->count * sizeof *scale->order);
    memcpy(scale->best_offsets, scale->offsets, tn__run_count(scale->run) * sizeof *scale->offsets);
    tn__run_keep_offsets(scale->run, scale->offsets);
    return TN_OK;
}

/* --- many plans --- */

static bool scale_is_done(const scale_state *scale) {
    if (tn__run_is_done(scale->run) || scale->count < 2) return true;
    if (tn__run_is_limited(scale->run)) return false;
    return scale->plans >= SCALE_PLANS_MAX ||
           (scale->plans >= SCALE_PLANS && scale->spent >= SCALE_WORK);
}

/* Moves buffers that end above a random height forward in the order, by up to a third of their
 * distance from the front. */
static void scale_blame(scale_state *scale, const uint64_t *offsets) {
    const tn_run_body *bodies = tn__run_bodies(scale->run);
    uint64_t bound = tn__run_lower_bound(scale->run), gap = tn__run_best(scale->run) - bound;
    uint64_t height = bound + tn__random_below(&scale->random, gap);
    for (uint32_t place = 0; place < scale->count; place++) {
        uint32_t number = scale->order[place], id = scale->ids[number];
        uint32_t weight = 1024;
        if (offsets[id] + bodies[id].size > height)
            weight -= (uint32_t)tn__random_below(&scale->random, 308);
        scale->orders.key[number] = (uint64_t)place * weight;
    }
    for (uint32_t i = 0; i < scale->count; i++) scale->order[i] = i;
    tn__weighted_orders_sort(scale->orders.key, scale->order, scale->orders.spare, scale->count);
}

/* Repairs the order of the best plan until that no longer helps. Repair may fail: if a buffer is
 * too high only because of buffers that are not too high themselves, moving it forward does not
 * help. */
static tn_status scale_repair(scale_state *scale) {
    /* `stale` begins at its limit, so the first repair starts from the order of the best plan */
    uint32_t stale = SCALE_STALE, level = 0;
    for (uint32_t i = 0; i < SCALE_REPAIRS && level < SCALE_LEVEL && !scale_is_done(scale); i++) {
        bool again = stale >= SCALE_STALE;
        uint64_t before = again ? scale->best : scale->peak;
        if (again) {
            memcpy(scale->order, scale->best_order, scale->count * sizeof *scale->order);
            scale->rule = scale->best_rule;
            stale = 0;
        }
        scale_blame(scale, again ? scale->best_offsets : scale->offsets);
        /* this plan is completed even if it is high, because the next repair reads all its
         * offsets */
        TN_TRY(scale_try(scale, UINT64_MAX));
        stale = scale->is_better ? 0 : stale + 1;
        level = scale->peak == before ? level + 1 : 0;
    }
    return TN_OK;
}

static tn_status scale_search(scale_state *scale) {
    for (uint32_t turn = 0; turn == 0 || !scale_is_done(scale);) {
        for (uint32_t i = 0; i < SCALE_DRAWS && (turn == 0 || !scale_is_done(scale)); i++) {
            tn__order_weights weights = tn__weighted_orders_draw(turn, &scale->random);
            if (turn++ >= SCALE_DRAWS && i % 2 != 0)
                weights = tn__weighted_orders_vary(&scale->best_weights, &scale->random);
            tn__weighted_orders_order(&scale->orders, &weights, &scale->random, scale->order);
            scale->rule = weights.rule;
            TN_TRY(scale_try(scale, scale->best));
            if (scale->is_better) scale->best_weights = weights;
        }
        TN_TRY(scale_repair(scale));
    }
    return TN_OK;
}

static tn_status scale_solve(tn_run *run) {
    scale_state scale = {.run = run, .best = UINT64_MAX, .random = {.state = tn__run_seed(run)}};
    tn_status status = scale_prepare(&scale);
    if (status == TN_OK) status = scale_search(&scale);
    tn__skyline_destroy(scale.skyline);
    tn__drop_destroy(scale.drop);
    return status;
}

const tn_planner tn__planner_scale = {
    .name = "scale",
    .summary = "fills skylines in many orders and repairs them: 10^4 to 10^6 buffers in seconds",
    .source = "ours; squeaky wheel (Joslin 1999)",
    .features = TN_PLANS_ALL,
    .solve = scale_solve,
};
