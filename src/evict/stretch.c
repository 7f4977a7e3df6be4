/* stretch.c - room in one piece: in the cheapest stretch of the arena some go, the others move up.
 *
 * Of a stretch of neighbours each is either dropped or moved together with the others of it,
 * whichever takes less time; the stretch that takes the least, and leaves enough in one piece, is
 * made free.
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
 * Tried on the eight traces of DTR and 36 synthetic ones at 0.25 to 0.7 of their peaks: shares of
 * an eighth to a sixteenth and weights of 2 to 6 differ by less than chance does. Without a price
 * too much is moved (1.2 to 1.3 times); where all up to the wish costs nothing, whatever is free,
 * some never end.
 *
 * Cost: O(blocks), two scores for each candidate that is not moved for its own cost alone, and a
 * selection among the candidates. With a sample O(sqrt(candidates)) scores for the price, and
 * STRETCH_STARTS stretches that begin somewhere, or as many as it takes to look at STRETCH_LOOKS
 * blocks; and as it costs no more to make a long one free, it is a sixteenth of the arena, for what
 * comes next as well.
 * Source: ours; the run of neighbours is from Zhang et al.: Coop, NeurIPS 2023.
 */
#include <math.h>

#include "evict/policy.h"

#define STRETCH_SHARE 10u   /* of the arena */
#define STRETCH_MOVE_COST 3 /* times the time that it takes */
#define STRETCH_STARTS 8u   /* of a sample, */
#define STRETCH_LOOKS 256u  /* unless one was found, and so many blocks were looked at */
#define STRETCH_AHEAD 16u   /* with a sample: such a part of the arena is made free at once */

typedef struct stretch_part { /* what is done with a block, or with all of a stretch */
    double cost;
    double loss;    /* score * bytes of who is dropped: between stretches that cost nothing */
    uint64_t freed; /* bytes; 0: it is moved */
} stretch_part;

typedef struct stretch_search {
    uint64_t size;
    uint32_t asked; /* for the price, */
    double share;   /* such a part of all */
    double price;
    bool all;        /* everybody goes who can */
    uint32_t looked; /* at blocks, by a sample */
    stretch_part least;
    uint32_t first, behind;
} stretch_search;

/* --- the price of bytes --- */

static void stretch_swap(tn__evict_offer *a, tn__evict_offer *b) {
    tn__evict_offer kept = *a;
    *a = *b;
    *b = kept;
}

/* The least score so that those up to it have so many bytes together; the largest, if all have not.
 * They are reordered: below, at and above the score of one in the middle, until a part is left. */
static double stretch_select(tn__evict_offer *offers, uint32_t count, uint64_t bytes) {
    uint32_t from = 0, end = count;
    while (end - from > 1) {
        double pivot = offers[from + (end - from) / 2].score;
        uint64_t below = 0, same = 0;
        uint32_t low = from, at = from, high = end;
        while (at < high) {
            if (offers[at].score < pivot) {
                below += offers[at].size;
                stretch_swap(&offers[at++], &offers[low++]);
            } else if (offers[at].score > pivot) {
                stretch_swap(&offers[at], &offers[--high]);
            } else {
                same += offers[at++].size;
            }
        }
        if (below >= bytes && low > from) {
            end = low;
        } else if (below + same >= bytes || high == end) {
            return pivot;
        } else {
            bytes -= below + same;
            from = high;
        }
    }
    return count > 0 ? offers[from].score : 0;
}

/* A candidate: the number `i` of the list, or where a sample does, any. NONE: nobody is there. */
static uint32_t stretch_candidate(tn__evict *e, uint32_t i) {
    uint32_t at = e->options.sample ? (uint32_t)tn__random_below(&e->random, e->candidate_end) : i;
    uint32_t storage = e->candidates[at];
    return storage != TN__NONE && tn__space_may_go(e, storage) ? storage : TN__NONE;
}

/* Candidates that are looked at: at all, or at the square root of those there are. */
static uint32_t stretch_looks(const tn__evict *e) {
    return e->options.sample ? (uint32_t)sqrt((double)e->candidate_count) + 1 : e->candidate_end;
}

/* Candidates with their scores, all or a sample. */
static void stretch_ask(tn__evict *e, stretch_search *search) {
    uint64_t bytes = 0;
    uint32_t looks = stretch_looks(e);
    for (uint32_t i = 0; i < looks && e->candidate_count > 0; i++) {
        uint32_t storage = stretch_candidate(e, i);
        if (storage == TN__NONE) continue;
        double score = e->policy->score(e, storage);
        e->counts.evaluation_count++;
        bytes += e->storages[storage].size;
        if (isfinite(score))
            e->offers[search->asked++] =
                (tn__evict_offer){storage, score, e->storages[storage].size};
    }
    search->share = e->candidate_bytes > 0 ? (double)bytes / (double)e->candidate_bytes : 0;
}

/* Of so many bytes more than are free. */
static double stretch_price(tn__evict *e, stretch_search *search, uint64_t bytes) {
    if (bytes == 0) return 0;
    if (search->asked == 0) stretch_ask(e, search);
    return stretch_select(e->offers, search->asked, (uint64_t)(search->share * (double)bytes));
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

/* By its own cost alone it would be cheaper to move it: what is around it need not be known. */
static bool stretch_is_moved(tn__evict *e, uint32_t storage, double price, double move) {
    double least = e->policy->floor != NULL ? e->policy->floor(e, storage) : 0;
    return least > price && (double)e->storages[storage].cost * (1 - price / least) > move;
}

static stretch_part stretch_of(tn__evict *e, const stretch_search *search, uint32_t block) {
    uint32_t owner = e->blocks[block].owner;
    uint64_t size = e->blocks[block].size;
    if (owner == TN__BLOCK_FREE) return (stretch_part){.freed = size};
    double move = stretch_move_cost(e, block);
    if (owner == TN__BLOCK_TEMPORARY || !tn__is_candidate(e, owner) || !tn__space_may_go(e, owner))
        return (stretch_part){.cost = move};
    if (!search->all && stretch_is_moved(e, owner, search->price, move))
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

/* Blocks from `low` to `high`: the best so far? Those at its low end that are not needed do not
 * count. */
static uint32_t stretch_end(tn__evict *e, stretch_search *search, stretch_part *sum, uint32_t low,
                            uint32_t high) {
    for (; low != high; low = e->blocks[low].after) {
        stretch_part part = stretch_of(e, search, low);
        if (part.freed > 0 && sum->freed - part.freed < search->size) break;
        stretch_take(sum, part);
    }
    if (sum->freed < search->size || !stretch_is_less(sum, &search->least)) return low;
    search->least = *sum;
    search->first = low;
    search->behind = e->blocks[high].after;
    return low;
}

/* Two ends walk through the blocks in the order of addresses; what stays ends a stretch. */
static void stretch_find(tn__evict *e, stretch_search *search) {
    stretch_part sum = {0};
    uint32_t low = e->block_first;
    for (uint32_t high = low; high != TN__NONE; high = e->blocks[high].after) {
        if (tn__arena_stays(e, high)) {
            sum = (stretch_part){0};
            low = e->blocks[high].after;
            continue;
        }
        stretch_add(&sum, stretch_of(e, search, high));
        low = stretch_end(e, search, &sum, low, high);
    }
}

/* The one that begins at a candidate, or at what is free before it. */
static void stretch_from(tn__evict *e, stretch_search *search, uint32_t low) {
    stretch_part sum = {0};
    uint32_t before = e->blocks[low].before;
    if (before != TN__NONE && e->blocks[before].owner == TN__BLOCK_FREE) low = before;
    for (uint32_t high = low; high != TN__NONE && !tn__arena_stays(e, high);
         high = e->blocks[high].after) {
        search->looked++;
        stretch_add(&sum, stretch_of(e, search, high));
        if (sum.cost > search->least.cost) return;
        if (sum.freed < search->size) continue;
        (void)stretch_end(e, search, &sum, low, high);
        return;
    }
}

/* Where a sample does: those that begin at some. */
static void stretch_sample(tn__evict *e, stretch_search *search) {
    for (uint32_t s = 0; s < STRETCH_STARTS && e->candidate_count > 0; s++) {
        uint32_t storage = stretch_candidate(e, 0);
        if (isfinite(search->least.cost) && search->looked >= STRETCH_LOOKS) return;
        if (storage != TN__NONE && e->storages[storage].block != TN__NONE)
            stretch_from(e, search, e->storages[storage].block);
    }
}

/* By a sample, where one does and finds any; or among all. */
static bool stretch_try(tn__evict *e, stretch_search *search) {
    if (e->options.sample) stretch_sample(e, search);
    if (!isfinite(search->least.cost)) stretch_find(e, search);
    return isfinite(search->least.cost);
}

/* The price of twice as many bytes, until it is another; false: it is that of all. */
static bool stretch_raise(tn__evict *e, stretch_search *search, uint64_t *bytes) {
    double price = search->price;
    while (search->price <= price) {
        if (*bytes >= e->candidate_bytes) return false;
        *bytes = *bytes > 0 ? 2 * *bytes : search->size;
        search->price = stretch_price(e, search, *bytes);
    }
    return true;
}

/* Where values are small it is always cheaper to move than to drop who is above the price, and
 * those up to it may be too few: then it rises. With all going who can, where it can no more. */
static bool stretch_search_all(tn__evict *e, stretch_search *search) {
    uint64_t wanted = e->capacity / STRETCH_SHARE;
    if (wanted < search->size) wanted = search->size;
    uint64_t bytes = wanted > e->free_bytes ? wanted - e->free_bytes : 0;
    search->least.cost = (double)INFINITY;
    search->price = stretch_price(e, search, bytes);
    while (!stretch_try(e, search) && stretch_raise(e, search, &bytes)) continue;
    search->all = !isfinite(search->least.cost);
    if (search->all) stretch_find(e, search);
    return isfinite(search->least.cost);
}

/* --- those who go --- */

static int stretch_by_score(const void *left, const void *right) {
    const tn__evict_offer *a = left, *b = right;
    if (a->score != b->score) return a->score < b->score ? -1 : 1;
    return (a->storage > b->storage) - (a->storage < b->storage);
}

/* Who of the stretch could go, the least score first; *free: what lies free in it. */
static uint32_t stretch_list(tn__evict *e, const stretch_search *search, uint64_t *free) {
    uint32_t count = 0;
    *free = 0;
    for (uint32_t b = search->first; b != search->behind; b = e->blocks[b].after) {
        uint32_t owner = e->blocks[b].owner;
        if (owner == TN__BLOCK_FREE)
            *free += e->blocks[b].size;
        else if (stretch_of(e, search, b).freed > 0)
            e->offers[count++] =
                (tn__evict_offer){owner, e->policy->score(e, owner), e->blocks[b].size};
    }
    qsort(e->offers, count, sizeof *e->offers, stretch_by_score);
    return count;
}

/* The nearest block that is not free. */
static uint32_t stretch_used(const tn__evict *e, uint32_t block, bool upwards) {
    while (block != TN__NONE && e->blocks[block].owner == TN__BLOCK_FREE)
        block = upwards ? e->blocks[block].after : e->blocks[block].before;
    return block;
}

/* The first of `count` who could go until there are enough bytes with what is free. */
static tn_status stretch_make_free(tn__evict *e, const stretch_search *search, uint32_t count,
                                   uint64_t free, tn_error *error) {
    /* free blocks will be joined: */
    uint32_t below = stretch_used(e, e->blocks[search->first].before, false);
    uint32_t above = stretch_used(e, search->behind, true);
    for (uint32_t i = 0; i < count && free < search->size; i++) {
        tn__evict_offer *gone = &e->offers[i];
        if (e->free_bytes >= search->size) e->counts.hole_bytes += gone->size;
        free += gone->size;
        TN_TRY(tn__space_give_up(e, gone->storage, error));
    }
    if (tn__arena_find(e, search->size) != TN__NONE) return TN_OK;
    (void)tn__arena_slide_down(e, below != TN__NONE ? e->blocks[below].after : e->block_first,
                               above);
    return TN_OK;
}

uint64_t tn__stretch_ahead(const tn__evict *e) {
    return tn__arena_round(e, e->capacity / STRETCH_AHEAD);
}

tn_status tn__stretch_clear(tn__evict *e, uint64_t size, bool *done, tn_error *error) {
    stretch_search search = {.size = size};
    uint64_t free = 0;
    if (!tn__reserve(&e->context, &e->offers, &e->offer_room, (size_t)e->candidate_end + 1,
                     sizeof *e->offers))
        return tn__no_memory(error, "the candidates of a stretch");
    double since = tn__search_begin(e);
    e->counts.search_count++;
    *done = stretch_search_all(e, &search);
    uint32_t count = *done ? stretch_list(e, &search, &free) : 0;
    tn__search_end(e, since);
    return *done ? stretch_make_free(e, &search, count, free, error) : TN_OK;
}
