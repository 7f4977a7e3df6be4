/* contiguous.c - frees contiguous bytes: in the cheapest region of the arena, some blocks are
 * evicted and the others are moved together.
 *
 * A region is a sequence of neighbouring blocks. In it, each block is either evicted or moved
 * together with the others, whichever takes less time. The region that takes the least time and
 * frees enough contiguous bytes is chosen.
 *
 * Evicting a value costs the time to recompute it (as the policy estimates), less the worth of its
 * freed bytes, which later requests will use. Bytes have a price: the score up to which values
 * would be evicted if only the number of free bytes mattered. A value with a score at or below the
 * price would be evicted anyway, and costs nothing:
 *
 *     cost of evicting = cost of recomputing * (1 - price / score)
 *
 * The price is determined for a tenth of the arena, or for the request if that is larger. If that
 * many bytes are free already, the price is 0: evicting more would not help against fragmentation.
 * The time to move a byte is multiplied by three, since moving frees no bytes and leaves holes.
 *
 * These constants were chosen on the eight traces of DTR and 36 synthetic ones, with budgets of
 * 0.25 to 0.7 of their peaks. Prices for an eighth to a sixteenth of the arena and weights of 2 to
 * 6 differ by less than the noise. Without a price too much is moved (1.2 to 1.3 times the time).
 * If every value up to the size of the request costs nothing, regardless of free bytes, some runs
 * never end.
 *
 * A score is computed only as far as needed: for the price, up to the best score so far; for a
 * block, up to the point where moving is cheaper. This changes no decision.
 *
 * With sampling the price is remembered between searches: a sample is small, and a price that is
 * too high by chance evicts values that are then recomputed. A price that rose because too few
 * values were at or below it is not remembered, because with it some runs never end.
 *
 * Cost: O(blocks), one score for each candidate except those that must be moved, and a heap of
 * candidates. With sampling, it computes O(sqrt(candidates)) scores for the price and tries
 * CONTIGUOUS_STARTS regions that begin at random candidates, or fewer once CONTIGUOUS_LOOKS blocks
 * were examined and a region was found. A longer region costs a sampling search no more, so a
 * sixteenth of the arena is freed at once for later requests.
 * Source: new here; evicting a sequence of neighbours is from Zhang et al.: Coop, NeurIPS 2023.
 */
#include "memory/evict/policy.h"
#include "base/heap.h"

#include <math.h>

/* --- evicting all blocks of a sequence ----------------------------------------
 *
 * Finds the cheapest sequence of free blocks and candidates that is long enough. Two pointers walk
 * through the blocks by address; a block that cannot be evicted ends a sequence. The cost of a
 * sequence is the sum of score * bytes. A sequence that contains a value without a finite score is
 * chosen only if all sequences contain one. Cost: O(blocks), one score for each candidate and one
 * more when the candidate leaves the sequence.
 *
 * Source: Zhang et al.: Coop, NeurIPS 2023.
 */

typedef struct window_sum {
    uint64_t bytes;
    double cost;
    uint32_t endless; /* number of candidates of the sequence whose score is infinite */
} window_sum;

static bool window_may_go(const tn__evict *e, uint32_t block) {
    uint32_t owner = e->blocks[block].owner;
    if (owner == TN__BLOCK_FREE) return true;
    return owner < e->storage_count && tn__is_candidate(e, owner) &&
           (e->storages[owner].stuck == 0 || tn__space_swaps(e, owner));
}

static void window_add(tn__evict *e, window_sum *sum, uint32_t block, bool enters) {
    const tn__evict_block *record = &e->blocks[block];
    double cost = 0;
    if (record->owner != TN__BLOCK_FREE) {
        cost = e->policy->score(e, record->owner) * (double)record->size;
        e->counts.evaluation_count += enters;
    }
    sum->bytes += enters ? record->size : -record->size;
    if (isfinite(cost))
        sum->cost += enters ? cost : -cost;
    else
        sum->endless += enters ? 1u : -1u;
}

static bool window_is_less(const window_sum *a, const window_sum *b) {
    return a->endless != b->endless ? a->endless < b->endless : a->cost < b->cost;
}

uint32_t tn__window_find(tn__evict *e, uint64_t size) {
    window_sum sum = {0}, least = {0};
    uint32_t best = TN__NONE, low = e->block_first;
    for (uint32_t high = e->block_first; high != TN__NONE; high = e->blocks[high].after) {
        if (!window_may_go(e, high)) {
            sum = (window_sum){0};
            low = e->blocks[high].after;
            continue;
        }
        window_add(e, &sum, high, true);
        while (sum.bytes - e->blocks[low].size >= size) {
            window_add(e, &sum, low, false);
            low = e->blocks[low].after;
        }
        if (sum.bytes < size || (best != TN__NONE && !window_is_less(&sum, &least))) continue;
        least = sum;
        best = low;
    }
    return best;
}

/* --- evicting some blocks and moving the others --- */

#define CONTIGUOUS_SHARE 10u /* the price of a byte is determined for evicting 1/10 of the arena */
#define CONTIGUOUS_MOVE_COST 3 /* factor by which the time to move a byte is multiplied */
/* with the option `sample`: limit of the regions of the arena that a search examines */
#define CONTIGUOUS_STARTS 4u
/* with the option `sample`: after this number of examined blocks, the first region found is
 * chosen */
#define CONTIGUOUS_LOOKS 64u
/* with the option `sample`: a search frees 1/16 of the arena at once */
#define CONTIGUOUS_AHEAD 16u
/* with the option `sample`: a request for at least 1/2 of the arena replaces the remembered
 * price */
#define CONTIGUOUS_MEMORY 2u

typedef struct contiguous_sum { /* sums over the blocks of a region */
    double cost;
    double loss;    /* score * bytes of evicted blocks; decides between regions of equal cost */
    uint64_t freed; /* bytes */
} contiguous_sum;

typedef struct contiguous_search {
    uint64_t size;
    uint32_t asked; /* number of candidates whose scores determine the price of a byte */
    /* bytes of the candidates that determine the price, as a fraction of the bytes of all
     * candidates */
    double share;
    double price;
    double move_cost; /* cost of moving one byte */
    bool all;         /* true: every candidate of the region is evicted, and none is moved */
    uint32_t looked;  /* number of blocks that a search with sampling has examined */
    contiguous_sum least;
    uint32_t first, behind;
} contiguous_search;

/* --- the score of a block, computed only as far as it matters --- */

/* Returns the exact score of a storage if it is at most the limit, else any number above the
 * limit. */
static double contiguous_score(tn__evict *e, uint32_t storage, double limit) {
    double weight = e->policy->weight(e, storage);
    double cost = e->policy->cost_within(e, storage, weight > 0 ? weight * limit : 0);
    if (cost == 0) return 0;
    return weight > 0 ? cost / weight : (double)INFINITY;
}

/* --- the price of a byte --- */

/* Returns a random candidate if the option `sample` is set, else candidate `i` of the list. NONE:
 * this entry of the list is empty, or the storage may not be evicted now. */
static uint32_t contiguous_candidate(tn__evict *e, uint32_t i) {
    uint32_t at = e->options.sample ? (uint32_t)tn__random_below(&e->random, e->candidate_end) : i;
    uint32_t storage = e->candidates[at];
    return storage != TN__NONE && tn__space_may_go(e, storage) ? storage : TN__NONE;
}

/* Returns the number of entries of the list of candidates that are examined for the price: all, or
 * with the option `sample` about the square root of the number of candidates. */
static uint32_t contiguous_looks(const tn__evict *e) {
    return e->options.sample ? (uint32_t)sqrt((double)e->candidate_count) + 1 : e->candidate_end;
}

/* Lists the candidates whose scores determine the price of a byte: all of them, or a sample. */
static void contiguous_ask(tn__evict *e, contiguous_search *search) {
    uint64_t bytes = 0;
    uint32_t looks = contiguous_looks(e);
    for (uint32_t i = 0; i < looks && e->candidate_count > 0; i++) {
        uint32_t storage = contiguous_candidate(e, i);
        if (storage == TN__NONE) continue;
        bytes += e->storages[storage].size;
        e->offers[search->asked++] =
            (tn__evict_offer){.storage = storage, .size = e->storages[storage].size};
    }
    search->share = e->candidate_bytes > 0 ? (double)bytes / (double)e->candidate_bytes : 0;
}

/* The order of a heap of candidates, largest score first. */
static bool contiguous_before(const tn__evict_offer *a, const tn__evict_offer *b) {
    return a->score > b->score;
}
TN__HEAP(contiguous_heap, tn__evict_offer, contiguous_before)

/* Returns the least score such that the candidates with at most that score have `bytes` bytes
 * together; the largest score if all candidates have fewer bytes. Those candidates are kept in a
 * heap. Scores of other candidates are computed only until they exceed the largest one in the
 * heap. */
static double contiguous_least(tn__evict *e, const contiguous_search *search, uint64_t bytes) {
    tn__evict_offer *heap = e->cheap;
    uint64_t sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->asked; i++) {
        tn__evict_offer offer = e->offers[i];
        double limit = sum >= bytes && count > 0 ? heap[0].score : (double)INFINITY;
        offer.score = contiguous_score(e, offer.storage, limit);
        e->counts.evaluation_count++;
        if (offer.score >= limit) continue;
        contiguous_heap_push(heap, count++, offer);
        sum += offer.size;
        while (count > 1 && sum - heap[0].size >= bytes) {
            sum -= heap[0].size;
            contiguous_heap_pop(heap, count--);
        }
    }
    return count > 0 ? heap[0].score : 0;
}

/* Updates the remembered price with the price `told` by one sample, and returns it. A single sample
 * is imprecise, so it only moves the remembered price, further the more bytes were requested. */
static double contiguous_remember(tn__evict *e, const contiguous_search *search, double told) {
    double fresh = (double)CONTIGUOUS_MEMORY * (double)search->size / (double)e->capacity;
    if (!e->options.sample || !(told > 0) || !isfinite(told)) return told;
    e->price = e->price > 0 && fresh < 1 ? e->price * pow(told / e->price, fresh) : told;
    return e->price;
}

/* Returns the price of a byte if `bytes` bytes were evicted: the highest score among the values
 * that would be evicted for that. */
static double contiguous_price(tn__evict *e, contiguous_search *search, uint64_t bytes) {
    if (bytes == 0) return 0;
    if (search->asked == 0) contiguous_ask(e, search);
    return contiguous_least(e, search, (uint64_t)(search->share * (double)bytes));
}

/* --- a block --- */

static double contiguous_move_cost(const tn__evict *e, const contiguous_search *search,
                                   uint32_t block) {
    uint32_t owner = e->blocks[block].owner;
    if (owner == TN__BLOCK_TEMPORARY || e->storages[owner].state != TN__RESIDENT ||
        e->storages[owner].block != block)
        return 0; /* the block has no contents yet, so moving it costs nothing */
    return search->move_cost * (double)e->blocks[block].size;
}

/* Decides whether a candidate is evicted or moved. Evicting costs cost * (1 - price / score), which
 * equals cost - price * weight. */
static tn__evict_part contiguous_choose(tn__evict *e, const contiguous_search *search,
                                        uint32_t owner, double move) {
    double weight = e->policy->weight(e, owner), worth = search->price * weight;
    double limit = search->all ? (double)INFINITY : move + worth;
    double cost = e->policy->cost_within(e, owner, limit);
    tn__evict_part part = {.freed = e->storages[owner].size};
    if (cost > 0) {
        part.score = weight > 0 ? cost / weight : (double)INFINITY;
        part.cost = part.score <= search->price ? 0 : weight > 0 ? cost - worth : (double)INFINITY;
    }
    if (search->all && !(part.cost < 0x1p62)) part.cost = part.score = 0x1p62;
    if (part.cost > move && !search->all) return (tn__evict_part){.cost = move};
    return part;
}

static tn__evict_part contiguous_find_part(tn__evict *e, const contiguous_search *search,
                                           uint32_t block) {
    uint32_t owner = e->blocks[block].owner;
    uint64_t size = e->blocks[block].size;
    if (owner == TN__BLOCK_FREE) return (tn__evict_part){.freed = size};
    double move = contiguous_move_cost(e, search, block);
    if (owner == TN__BLOCK_TEMPORARY || !tn__is_candidate(e, owner) || !tn__space_may_go(e, owner))
        return (tn__evict_part){.cost = move};
    tn__evict_part part = contiguous_choose(e, search, owner, move);
    if (part.freed > 0) part.freed = size;
    return part;
}

/* Returns the decision about a block (evict or move), which is made once per search. Costs are
 * rounded to whole numbers; otherwise rounding errors of adding and subtracting them would decide
 * between regions of equal cost. */
static const tn__evict_part *contiguous_of(tn__evict *e, const contiguous_search *search,
                                           uint32_t block) {
    tn__evict_part *part = &e->parts[block];
    if (part->search == e->part_search) return part;
    *part = contiguous_find_part(e, search, block);
    part->cost = floor(part->cost);
    part->loss = floor(part->score * (double)part->freed);
    part->search = e->part_search;
    return part;
}

/* --- the cheapest region --- */

static void contiguous_add(contiguous_sum *sum, const tn__evict_part *part) {
    sum->cost += part->cost;
    sum->loss += part->loss;
    sum->freed += part->freed;
}

static void contiguous_take(contiguous_sum *sum, const tn__evict_part *part) {
    sum->cost -= part->cost;
    sum->loss -= part->loss;
    sum->freed -= part->freed;
}

static bool contiguous_is_less(const contiguous_sum *a, const contiguous_sum *b) {
    return a->cost < b->cost || (a->cost == b->cost && a->loss < b->loss);
}

/* Removes blocks at the low end of the region low ... high that the request does not need. If the
 * region that is left is large enough and the cheapest so far, it is stored in `search`. Returns
 * the new low end. */
static uint32_t contiguous_end(tn__evict *e, contiguous_search *search, contiguous_sum *sum,
                               uint32_t low, uint32_t high) {
    for (; low != high; low = e->blocks[low].after) {
        const tn__evict_part *part = contiguous_of(e, search, low);
        if (part->freed > 0 && sum->freed - part->freed < search->size) break;
        contiguous_take(sum, part);
    }
    if (sum->freed < search->size || !contiguous_is_less(sum, &search->least)) return low;
    search->least = *sum;
    search->first = low;
    search->behind = e->blocks[high].after;
    return low;
}

/* Finds the cheapest region of the arena. Two pointers walk through the blocks by address; a fixed
 * block ends a region. */
static void contiguous_find(tn__evict *e, contiguous_search *search) {
    contiguous_sum sum = {0};
    uint32_t low = e->block_first;
    for (uint32_t high = low; high != TN__NONE; high = e->blocks[high].after) {
        if (tn__arena_stays(e, high)) {
            sum = (contiguous_sum){0};
            low = e->blocks[high].after;
            continue;
        }
        contiguous_add(&sum, contiguous_of(e, search, high));
        low = contiguous_end(e, search, &sum, low, high);
    }
}

/* Examines the shortest region that is long enough and begins at block `low`, or at the free block
 * before it. Stores the region if it is the cheapest so far. */
static void contiguous_from(tn__evict *e, contiguous_search *search, uint32_t low) {
    contiguous_sum sum = {0};
    uint32_t before = e->blocks[low].before;
    if (before != TN__NONE && e->blocks[before].owner == TN__BLOCK_FREE) low = before;
    for (uint32_t high = low; high != TN__NONE && !tn__arena_stays(e, high);
         high = e->blocks[high].after) {
        search->looked++;
        contiguous_add(&sum, contiguous_of(e, search, high));
        if (sum.cost > search->least.cost) return;
        if (sum.freed < search->size) continue;
        (void)contiguous_end(e, search, &sum, low, high);
        return;
    }
}

/* Examines regions that begin at random candidates, as the option `sample` asks. */
static void contiguous_sample(tn__evict *e, contiguous_search *search) {
    for (uint32_t s = 0; s < CONTIGUOUS_STARTS && e->candidate_count > 0; s++) {
        uint32_t storage = contiguous_candidate(e, 0);
        if (isfinite(search->least.cost) && search->looked >= CONTIGUOUS_LOOKS) return;
        if (storage != TN__NONE && e->storages[storage].block != TN__NONE)
            contiguous_from(e, search, e->storages[storage].block);
    }
}

/* Finds the cheapest region, with the option `sample` among random ones, else among all. If the
 * random ones contain none, all are examined, too. Returns false if no region exists. */
static bool contiguous_try(tn__evict *e, contiguous_search *search) {
    e->part_search++;
    if (e->options.sample) contiguous_sample(e, search);
    if (!isfinite(search->least.cost)) contiguous_find(e, search);
    return isfinite(search->least.cost);
}

/* Doubles the bytes for which the price is determined until the price rises; false if it is already
 * the price of all candidates. */
static bool contiguous_raise(tn__evict *e, contiguous_search *search, uint64_t *bytes) {
    double price = search->price;
    while (search->price <= price) {
        if (*bytes >= e->candidate_bytes) return false;
        *bytes = *bytes > 0 ? 2 * *bytes : search->size;
        search->price = contiguous_price(e, search, *bytes);
    }
    return true;
}

/* Finds the cheapest region. If values are small, moving is always cheaper than evicting a value
 * above the price, and the values at or below the price may have too few bytes. Then the price
 * rises. If it cannot rise further, every candidate of a region is evicted. */
static bool contiguous_search_all(tn__evict *e, contiguous_search *search) {
    uint64_t wanted = e->capacity / CONTIGUOUS_SHARE;
    if (wanted < search->size) wanted = search->size;
    uint64_t bytes = wanted > e->free_bytes ? wanted - e->free_bytes : 0;
    search->least.cost = (double)INFINITY;
    search->price = contiguous_remember(e, search, contiguous_price(e, search, bytes));
    while (!contiguous_try(e, search) && contiguous_raise(e, search, &bytes)) continue;
    search->all = !isfinite(search->least.cost);
    e->part_search += search->all;
    if (search->all) contiguous_find(e, search);
    return isfinite(search->least.cost);
}

/* --- eviction --- */

static int contiguous_by_score(const void *left, const void *right) {
    const tn__evict_offer *a = left, *b = right;
    if (a->score != b->score) return a->score < b->score ? -1 : 1;
    return (a->storage > b->storage) - (a->storage < b->storage);
}

/* Lists the candidates of the region that are evicted; sorts them by score if not all of them are
 * needed. *free: number of free bytes in the region. */
static uint32_t contiguous_list(tn__evict *e, const contiguous_search *search, uint64_t *free) {
    uint32_t count = 0;
    uint64_t freed = 0;
    tn__evict_offer last = {0};
    *free = 0;
    for (uint32_t b = search->first; b != search->behind; b = e->blocks[b].after) {
        uint32_t owner = e->blocks[b].owner;
        const tn__evict_part *part = contiguous_of(e, search, b);
        freed += part->freed;
        if (owner == TN__BLOCK_FREE) *free += part->freed;
        if (owner == TN__BLOCK_FREE || part->freed == 0) continue;
        e->offers[count] = (tn__evict_offer){owner, part->score, part->freed};
        if (contiguous_by_score(&e->offers[count], &last) > 0) last = e->offers[count];
        count++;
    }
    if (freed - last.size >= search->size)
        qsort(e->offers, count, sizeof *e->offers, contiguous_by_score);
    return count;
}

/* Returns the nearest block, from `block` on in one direction, that is not free. */
static uint32_t contiguous_used(const tn__evict *e, uint32_t block, bool upwards) {
    while (block != TN__NONE && e->blocks[block].owner == TN__BLOCK_FREE)
        block = upwards ? e->blocks[block].after : e->blocks[block].before;
    return block;
}

/* Evicts candidates of the list until their bytes and the free bytes suffice, then moves the other
 * blocks of the region together. */
static tn_status contiguous_make_free(tn__evict *e, const contiguous_search *search, uint32_t count,
                                      uint64_t free, tn_error *error) {
    /* evictions merge free blocks, so the used blocks on both sides of the region are noted
     * before */
    uint32_t below = contiguous_used(e, e->blocks[search->first].before, false);
    uint32_t above = contiguous_used(e, search->behind, true);
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

uint64_t tn__contiguous_ahead(const tn__evict *e) {
    return tn__arena_round(e, e->capacity / CONTIGUOUS_AHEAD);
}

static bool contiguous_reserve(tn__evict *e) {
    size_t candidates = (size_t)e->candidate_end + 1, known = e->part_room;
    if (!tn__reserve(&e->context, &e->offers, &e->offer_room, candidates, sizeof *e->offers) ||
        !tn__reserve(&e->context, &e->cheap, &e->cheap_room, candidates, sizeof *e->cheap) ||
        !tn__reserve(&e->context, &e->parts, &e->part_room, e->block_count, sizeof *e->parts))
        return false;
    for (size_t b = known; b < e->part_room; b++) e->parts[b].search = 0;
    return true;
}

tn_status tn__contiguous_clear(tn__evict *e, uint64_t size, bool *done, tn_error *error) {
    contiguous_search search = {.size = size,
                                .move_cost = CONTIGUOUS_MOVE_COST * (double)e->options.cost_per_s /
                                             (double)e->options.move_bytes_per_s};
    uint64_t free = 0;
    if (!contiguous_reserve(e)) return tn__no_memory(error, "the candidates of a region");
    double since = tn__search_begin(e);
    e->counts.search_count++;
    *done = contiguous_search_all(e, &search);
    uint32_t count = *done ? contiguous_list(e, &search, &free) : 0;
    tn__search_end(e, since);
    return *done ? contiguous_make_free(e, &search, count, free, error) : TN_OK;
}
