/* stretch.c - room in one piece: in the cheapest stretch of the arena some go, the others move up.
 *
 * Of a stretch of neighbours each is either dropped or moved together with the others of it,
 * whichever takes less time; the stretch that takes the least, and leaves enough in one piece, is
 * made free, one step at a time, as whoever goes changes what others cost.
 *
 * To drop a value takes the time of making it again (the policy's), less what it is worth that its
 * bytes are free then: others will want them. Bytes have a price, the score up to which values
 * would go by bytes alone; who is at or below that would go anyhow, and costs nothing:
 *
 *     cost of dropping = cost of making it again * (1 - price / score)
 *
 * What is wanted at that price is a tenth of the arena, or the wish, if that is larger. Where so
 * much is free already, the price is 0: what lies in pieces is not made more by dropping others in
 * vain. A moved byte counts three times, since it leaves no byte more free, and holes remain.
 *
 * Of the eight traces of DTR and 36 synthetic ones at 0.25 to 0.7 of their peaks, a share between
 * an eighth and a sixteenth and a weight between 2 and 6 do about as well; without the price (all
 * is wanted back) or without the share (all up to the wish is worth nothing) some never end.
 *
 * Cost: O(blocks) a step, two scores for each candidate, and a selection among the candidates.
 * Source: ours; the run of neighbours is from Zhang et al.: Coop, NeurIPS 2023.
 */
#include <math.h>

#include "evict/policy.h"

#define STRETCH_SHARE 10u   /* of the arena */
#define STRETCH_MOVE_COST 3 /* times the time that it takes */

typedef struct stretch_part { /* what is done with a block, or with all of a stretch */
    double cost;
    double loss;    /* score * bytes of who is dropped: between stretches that cost nothing */
    uint64_t freed; /* bytes; 0: it is moved */
} stretch_part;

typedef struct stretch_search {
    uint64_t size;
    double price;
    bool all; /* everybody goes who can */
    uint32_t first, behind;
} stretch_search;

/* --- the price of bytes --- */

static void stretch_swap(tn__evict_offer *a, tn__evict_offer *b) {
    tn__evict_offer kept = *a;
    *a = *b;
    *b = kept;
}

/* The least score so that those up to it have so many bytes together; the largest, if all have not.
 * They are reordered: around one in the middle, until one side is empty. */
static double stretch_select(tn__evict_offer *offers, uint32_t count, uint64_t bytes) {
    uint32_t from = 0, end = count;
    while (end - from > 1) {
        stretch_swap(&offers[from + (end - from) / 2], &offers[end - 1]);
        double pivot = offers[end - 1].score;
        uint64_t below = 0;
        uint32_t middle = from;
        for (uint32_t i = from; i + 1 < end; i++)
            if (offers[i].score < pivot) {
                below += offers[i].size;
                stretch_swap(&offers[i], &offers[middle++]);
            }
        stretch_swap(&offers[end - 1], &offers[middle]);
        if (below >= bytes) {
            end = middle;
        } else if (below + offers[middle].size >= bytes || middle + 1 == end) {
            return pivot;
        } else {
            bytes -= below + offers[middle].size;
            from = middle + 1;
        }
    }
    return count > 0 ? offers[from].score : 0;
}

static bool stretch_price(tn__evict *e, uint64_t size, double *price) {
    uint64_t wanted = e->capacity / STRETCH_SHARE;
    uint32_t count = 0;
    if (wanted < size) wanted = size;
    *price = 0;
    if (wanted <= e->free_bytes) return true;
    if (!tn__reserve(&e->context, &e->offers, &e->offer_room, e->candidate_count,
                     sizeof *e->offers))
        return false;
    for (uint32_t i = 0; i < e->candidate_end; i++) {
        uint32_t storage = e->candidates[i];
        if (storage == TN__NONE || !tn__space_may_go(e, storage)) continue;
        double score = e->policy->score(e, storage);
        e->counts.evaluation_count++;
        if (isfinite(score))
            e->offers[count++] = (tn__evict_offer){score, e->storages[storage].size};
    }
    *price = stretch_select(e->offers, count, wanted - e->free_bytes);
    return true;
}

/* --- a block --- */

static double stretch_move_cost(const tn__evict *e, uint32_t block) {
    uint32_t owner = e->blocks[block].owner;
    if (owner == TN__BLOCK_TEMPORARY || e->storages[owner].state != TN__RESIDENT ||
        e->storages[owner].block != block)
        return 0; /* it holds nothing yet */
    return STRETCH_MOVE_COST * (double)e->blocks[block].size * (double)e->options.cost_per_s /
           (double)e->options.move_bytes_per_s;
}

static double stretch_drop_cost(tn__evict *e, uint32_t storage, double score, double price) {
    if (score <= price) return 0;
    if (!isfinite(score)) return (double)INFINITY;
    uint64_t cost =
        e->policy->cost != NULL ? e->policy->cost(e, storage) : e->storages[storage].cost;
    return (double)cost * (1 - price / score);
}

static stretch_part stretch_of(tn__evict *e, const stretch_search *search, uint32_t block) {
    uint32_t owner = e->blocks[block].owner;
    uint64_t size = e->blocks[block].size;
    if (owner == TN__BLOCK_FREE) return (stretch_part){.freed = size};
    double move = stretch_move_cost(e, block);
    if (owner == TN__BLOCK_TEMPORARY || !tn__is_candidate(e, owner) || !tn__space_may_go(e, owner))
        return (stretch_part){.cost = move};
    double score = e->policy->score(e, owner);
    double drop = stretch_drop_cost(e, owner, score, search->price);
    if (search->all && !(drop < 0x1p62)) drop = score = 0x1p62;
    if (drop > move && !search->all) return (stretch_part){.cost = move};
    return (stretch_part){.cost = drop, .loss = score * (double)size, .freed = size};
}

/* --- the stretch --- */

static void stretch_add(stretch_part *sum, stretch_part part) {
    sum->cost += part.cost;
    sum->loss += part.loss;
    sum->freed += part.freed;
}

static void stretch_take(stretch_part *sum, stretch_part part) {
    sum->cost -= part.cost;
    sum->loss -= part.loss;
    sum->freed -= part.freed;
}

static bool stretch_is_less(const stretch_part *a, const stretch_part *b) {
    return a->cost < b->cost || (a->cost == b->cost && a->loss < b->loss);
}

/* Two ends walk through the blocks in the order of addresses; what stays ends a stretch. */
static bool stretch_find(tn__evict *e, stretch_search *search) {
    stretch_part sum = {0}, least = {.cost = (double)INFINITY};
    uint32_t low = e->block_first;
    for (uint32_t high = low; high != TN__NONE; high = e->blocks[high].after) {
        if (tn__arena_stays(e, high)) {
            sum = (stretch_part){0};
            low = e->blocks[high].after;
            continue;
        }
        stretch_add(&sum, stretch_of(e, search, high));
        for (; low != high; low = e->blocks[low].after) {
            stretch_part part = stretch_of(e, search, low);
            if (part.freed > 0 && sum.freed - part.freed < search->size) break;
            stretch_take(&sum, part);
        }
        if (sum.freed < search->size || !stretch_is_less(&sum, &least)) continue;
        least = sum;
        search->first = low;
        search->behind = e->blocks[high].after;
    }
    return isfinite(least.cost);
}

/* Who of the stretch goes first: the least score; NONE: what is free does. */
static uint32_t stretch_victim(tn__evict *e, const stretch_search *search) {
    uint32_t victim = TN__NONE;
    double least = 0;
    uint64_t free = 0;
    for (uint32_t b = search->first; b != search->behind; b = e->blocks[b].after) {
        uint32_t owner = e->blocks[b].owner;
        if (owner == TN__BLOCK_FREE) free += e->blocks[b].size;
        if (owner == TN__BLOCK_FREE || stretch_of(e, search, b).freed == 0) continue;
        double score = e->policy->score(e, owner);
        if (victim != TN__NONE && score >= least) continue;
        least = score;
        victim = owner;
    }
    return free >= search->size ? TN__NONE : victim;
}

tn_status tn__stretch_step(tn__evict *e, uint64_t size, bool *done, tn_error *error) {
    stretch_search search = {.size = size};
    if (!stretch_price(e, size, &search.price))
        return tn__no_memory(error, "the candidates of a stretch");
    *done = stretch_find(e, &search);
    search.all = !*done;
    if (search.all) *done = stretch_find(e, &search);
    if (!*done) return TN_OK;
    uint32_t victim = stretch_victim(e, &search);
    if (victim == TN__NONE) {
        tn__arena_slide_down(e, search.first, search.behind);
        return TN_OK;
    }
    if (e->free_bytes >= size) e->counts.hole_bytes += e->blocks[e->storages[victim].block].size;
    return tn__space_give_up(e, victim, error);
}
