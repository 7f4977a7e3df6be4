/* space.c - frees memory for a request: chooses what to evict, drops or copies it, and reports an
 * error when nothing is left to evict.
 *
 * When only bytes are counted (as in DTR's simulator), candidates are evicted one by one, the least
 * score first, until the sum is within the budget. With addresses they are evicted until one free
 * region is long enough; some policies evict a whole sequence of neighbouring blocks at once, the
 * cheapest that is long enough. If enough bytes are free but not contiguous, more candidates are
 * evicted until recomputing them would take as long as compacting the arena; then, or when no
 * candidate is left, the arena is compacted (compact.c). A policy with TN__POLICY_MOVES evicts some
 * blocks of a region and moves the others (contiguous.c).
 */
#include "memory/evict/policy.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* with the option `sample`: contiguous regions are searched only after this number of evictions for
 * one request */
#define SPACE_GONE 4u
/* with the option `sample`: regions are searched if the evicted values have on average less than
 * 1/SPACE_MANY of the requested bytes */
#define SPACE_MANY 16u

static uint64_t space_taken(const tn__evict *e, uint32_t storage) {
    uint64_t size = e->storages[storage].size;
    return e->options.addresses ? tn__arena_round(e, size) : size;
}

void tn__space_used(tn__evict *e, uint64_t bytes) {
    e->counts.bytes += bytes;
    if (e->counts.bytes > e->counts.peak_bytes) e->counts.peak_bytes = e->counts.bytes;
}

/* --- timing --- */

double tn__search_begin(tn__evict *e) {
    if (!e->options.time_search || e->is_choosing) return 0;
    e->is_choosing = true;
    return tn__clock_s();
}

void tn__search_end(tn__evict *e, double since) {
    if (since == 0) return;
    e->counts.search_s += tn__clock_s() - since;
    e->is_choosing = false;
}

double tn__search_begin_one(tn__evict *e) {
    return ++e->told % TN__SEARCH_TIMED == 0 ? tn__search_begin(e) : 0;
}

void tn__search_end_one(tn__evict *e, double since) {
    if (since == 0) return;
    e->counts.search_s += TN__SEARCH_TIMED * (tn__clock_s() - since);
    e->is_choosing = false;
}

/* --- freeing --- */

void tn__space_leave(tn__evict *e, uint32_t storage, tn__evict_state state) {
    tn__evict_storage *record = &e->storages[storage];
    tn__candidates_remove(e, storage);
    e->counts.bytes -= space_taken(e, storage);
    if (record->block != TN__NONE) {
        const tn__evict_block *block = &e->blocks[record->block];
        if (e->options.hooks.poison != NULL)
            e->options.hooks.poison(e->options.hooks.self, block->at, block->size);
        tn__arena_free(e, record->block);
        record->block = TN__NONE;
    }
    record->state = (uint8_t)state;
    for (uint32_t t = record->first; state == TN__DROPPED && t != TN__NONE; t = e->tensors[t].next)
        e->tensors[t].is_defined = false;
}

void tn__space_evict(tn__evict *e, uint32_t storage) {
    tn__evict_storage *record = &e->storages[storage];
    tn_assert(record->stuck == 0 || (record->outside == 0 && record->uses == 0));
    e->is_short = e->is_short || record->outside > 0;
    tn__space_leave(e, storage, TN__DROPPED);
    record->drops++;
    e->counts.drop_count++;
    e->counts.dropped_bytes += record->size;
    if (e->policy->evicted == NULL) return;
    double since = record->outside > 0 ? tn__search_begin_one(e) : 0;
    if (!e->policy->evicted(e, storage)) e->failed = true;
    tn__search_end_one(e, since);
}

/* --- copies on the host --- */

static uint64_t space_link_cost(const tn__evict *e, uint64_t bytes) {
    tn__wide cost = (tn__wide)bytes * e->options.cost_per_s / e->options.link_bytes_per_s;
    return cost > UINT64_MAX ? UINT64_MAX : (uint64_t)cost;
}

bool tn__space_has_host_room(const tn__evict *e, uint32_t storage) {
    uint64_t size = e->storages[storage].size;
    return e->options.host_bytes == 0 || (e->counts.host_bytes <= e->options.host_bytes &&
                                          size <= e->options.host_bytes - e->counts.host_bytes);
}

bool tn__space_swaps(const tn__evict *e, uint32_t storage) {
    if (!(e->policy->features & TN__POLICY_SWAPS) || e->options.link_bytes_per_s == 0) return false;
    return tn__space_has_host_room(e, storage);
}

static void space_pay_link(tn__evict *e, uint64_t bytes) {
    uint64_t cost = space_link_cost(e, bytes);
    e->counts.swap_cost = tn__add_sat(e->counts.swap_cost, cost);
}

tn_status tn__space_swap_out(tn__evict *e, uint32_t storage, tn_error *error) {
    tn__evict_storage *record = &e->storages[storage];
    const tn__evict_hooks *hooks = &e->options.hooks;
    uint64_t at = record->block != TN__NONE ? e->blocks[record->block].at : 0;
    if (hooks->copy_out != NULL)
        TN_TRY(hooks->copy_out(hooks->self, at, record->size, &record->host, error));
    tn__space_leave(e, storage, TN__ON_HOST);
    e->counts.swap_count++;
    e->counts.swapped_bytes += record->size;
    e->counts.host_bytes += record->size;
    if (e->counts.host_bytes > e->counts.host_peak_bytes)
        e->counts.host_peak_bytes = e->counts.host_bytes;
    space_pay_link(e, record->size);
    return TN_OK;
}

void tn__space_forget_copy(tn__evict *e, uint32_t storage) {
    tn__evict_storage *record = &e->storages[storage];
    const tn__evict_hooks *hooks = &e->options.hooks;
    if (hooks->forget_copy != NULL) hooks->forget_copy(hooks->self, record->host, record->size);
    e->counts.host_bytes -= record->size;
    record->state = TN__DROPPED;
    for (uint32_t t = record->first; t != TN__NONE; t = e->tensors[t].next)
        e->tensors[t].is_defined = false;
}

tn_status tn__space_fetch(tn__evict *e, uint32_t storage, tn_error *error) {
    const tn__evict_hooks *hooks = &e->options.hooks;
    uint32_t block = TN__NONE;
    uint64_t size = e->storages[storage].size;
    if (e->options.addresses)
        TN_TRY(tn__space_take(e, size, storage, &block, error));
    else
        TN_TRY(tn__space_room(e, size, error));
    tn__evict_storage *record = &e->storages[storage];
    if (hooks->copy_in != NULL) {
        uint64_t at = block != TN__NONE ? e->blocks[block].at : 0;
        tn_status status = hooks->copy_in(hooks->self, record->host, at, size, error);
        if (status != TN_OK) {
            if (block != TN__NONE) tn__arena_free(e, block);
            return status;
        }
    }
    if (hooks->forget_copy != NULL) hooks->forget_copy(hooks->self, record->host, size);
    record->state = TN__RESIDENT;
    record->block = block;
    e->counts.host_bytes -= size;
    e->counts.fetch_count++;
    e->counts.fetched_bytes += size;
    space_pay_link(e, size);
    tn__space_used(e, space_taken(e, storage));
    tn__candidates_settle(e, storage);
    return TN_OK;
}

/* Whether eviction copies the storage to the host rather than dropping it: if a copy is possible
 * and the policy does not prefer to drop it. */
static bool space_is_copied(tn__evict *e, uint32_t storage) {
    if (!tn__space_swaps(e, storage)) return false;
    if (e->storages[storage].stuck > 0) return true;
    double since = tn__search_begin_one(e);
    bool is_copied = e->policy->swaps != NULL && e->policy->swaps(e, storage);
    tn__search_end_one(e, since);
    return is_copied;
}

tn_status tn__space_give_up(tn__evict *e, uint32_t storage, tn_error *error) {
    if (space_is_copied(e, storage)) return tn__space_swap_out(e, storage, error);
    tn__space_evict(e, storage);
    if (!e->failed) return TN_OK;
    e->failed = false;
    return tn__no_memory(error, "the neighbours of a value");
}

/* --- choosing what to evict --- */

static uint32_t space_least(tn__evict *e, uint64_t small) {
    double best_score = (double)INFINITY;
    uint32_t best = TN__NONE;
    for (uint32_t i = 0; i < e->candidate_end; i++) {
        uint32_t storage = e->candidates[i];
        if (storage == TN__NONE || e->storages[storage].size < small ||
            !tn__space_may_go(e, storage))
            continue;
        double score = e->policy->score(e, storage);
        e->counts.evaluation_count++;
        if (score <= best_score) {
            best_score = score;
            best = storage;
        }
        if (score == 0) break; /* a score of 0 ends the search, as in DTR's simulator */
    }
    return best;
}

static uint32_t space_least_of_sample(tn__evict *e, uint64_t small) {
    double best_score = (double)INFINITY;
    uint32_t best = TN__NONE, looks = (uint32_t)sqrt((double)e->candidate_count) + 1;
    for (uint32_t tries = 0; looks > 0 && tries < 4 * e->candidate_end; tries++) {
        uint32_t storage = e->candidates[tn__random_below(&e->random, e->candidate_end)];
        if (storage == TN__NONE || e->storages[storage].size < small ||
            !tn__space_may_go(e, storage))
            continue;
        double score = e->policy->score(e, storage);
        e->counts.evaluation_count++;
        looks--;
        if (score > best_score) continue;
        best_score = score;
        best = storage;
    }
    return best;
}

static uint64_t space_free(const tn__evict *e) {
    if (e->options.addresses) return e->free_bytes;
    return e->counts.bytes < e->options.budget ? e->options.budget - e->counts.bytes : 0;
}

static bool space_would_do(const tn__evict *e, uint64_t bytes) {
    return tn__add_sat(space_free(e), e->candidate_bytes) >= bytes;
}

/* Chooses a candidate to evict. Storages below 1 % of the mean size free few bytes and cost a
 * search each, so they are tried last, and only if evicting everything could free enough. */
static uint32_t space_search(tn__evict *e, uint64_t bytes) {
    uint64_t small = 0;
    if (e->candidate_count == 0) return TN__NONE;
    if (e->policy->choose != NULL) return e->policy->choose(e, bytes);
    if (!e->options.small_too && !e->options.exact)
        small = e->candidate_bytes / e->candidate_count / 100;
    uint32_t found = TN__NONE;
    if (e->options.sample && e->candidate_count > 16) found = space_least_of_sample(e, small);
    if (found == TN__NONE) found = space_least(e, small);
    if (found == TN__NONE && small > 0 && space_would_do(e, bytes)) found = space_least(e, 0);
    return found;
}

static uint32_t space_choose(tn__evict *e, uint64_t bytes) {
    double since = tn__search_begin(e);
    uint32_t found = space_search(e, bytes);
    e->counts.search_count++;
    tn__search_end(e, since);
    return found;
}

static bool space_let_go(tn__evict *e, uint64_t bytes, bool last) {
    double since = tn__search_begin(e);
    uint64_t free = space_free(e);
    bool done = tn__dead_let_go(e, bytes > free ? bytes - free : 0, last);
    tn__search_end(e, since);
    return done;
}

/* --- reporting that nothing is left to evict --- */

uint64_t tn__evict_held(const tn__evict *e) {
    uint64_t free_able = 0;
    for (uint32_t i = 0; i < e->candidate_end; i++)
        if (e->candidates[i] != TN__NONE && tn__space_may_go(e, e->candidates[i]))
            free_able += space_taken(e, e->candidates[i]);
    return e->counts.bytes - free_able;
}

static void space_name_largest(const tn__evict *e, char *text, size_t size) {
    uint32_t largest = TN__NONE;
    for (uint32_t s = 0; s < e->storage_count; s++) {
        const tn__evict_storage *record = &e->storages[s];
        if (record->is_vacant || record->state != TN__RESIDENT || tn__is_candidate(e, s)) continue;
        if (largest == TN__NONE || record->size > e->storages[largest].size) largest = s;
    }
    text[0] = '\0';
    if (largest == TN__NONE) return;
    const tn__evict_storage *record = &e->storages[largest];
    const char *name = e->options.hooks.name != NULL
                           ? e->options.hooks.name(e->options.hooks.self, record->first)
                           : NULL;
    if (name != NULL)
        snprintf(text, size, ", most by '%.60s' (%" PRIu64 ")", name, record->size);
    else
        snprintf(text, size, ", most by one of %" PRIu64, record->size);
}

static tn_status space_exhausted(tn__evict *e, uint64_t bytes, bool is_hole, tn_error *error) {
    uint64_t held = tn__evict_held(e);
    uint32_t locked = 0;
    char largest[128];
    for (uint32_t s = 0; s < e->storage_count; s++)
        locked += e->storages[s].state == TN__RESIDENT && !e->storages[s].is_vacant &&
                  !tn__is_candidate(e, s);
    space_name_largest(e, largest, sizeof largest);
    e->needed = tn__add_sat(held, bytes);
    TN_FAIL(error, TN_E_EXHAUSTED,
            "the budget of %" PRIu64 " bytes is full: %" PRIu64 " more are wanted and %" PRIu64
            " are held by %u values that are pinned, in use or made by nothing that may run "
            "again%s; %s%" PRIu64 " bytes would have done for this step",
            e->options.budget, bytes, held, locked, largest,
            is_hole ? "there is room, but in pieces; in one piece " : "", e->needed);
}

/* --- room --- */

tn_status tn__space_room(tn__evict *e, uint64_t bytes, tn_error *error) {
    while (bytes > e->options.budget || e->counts.bytes > e->options.budget - bytes) {
        if (space_let_go(e, bytes, false)) continue;
        uint32_t storage = space_choose(e, bytes);
        if (storage == TN__NONE && space_let_go(e, bytes, true)) continue;
        if (storage == TN__NONE) return space_exhausted(e, bytes, false, error);
        TN_TRY(tn__space_give_up(e, storage, error));
    }
    return TN_OK;
}

/* Evicts the cheapest sequence of neighbouring blocks that is long enough. *done: whether one was
 * found. */
static tn_status space_clear_window(tn__evict *e, uint64_t size, bool *done, tn_error *error) {
    double since = tn__search_begin(e);
    uint32_t block = tn__window_find(e, size), next;
    uint64_t cleared = 0;
    e->counts.search_count++;
    tn__search_end(e, since);
    *done = block != TN__NONE;
    for (; block != TN__NONE && cleared < size; block = next) {
        uint32_t owner = e->blocks[block].owner;
        cleared += e->blocks[block].size;
        next = e->blocks[block].after;
        if (owner == TN__BLOCK_FREE) continue;
        /* the free block after the evicted one will be merged with it, so its bytes are counted
         * now */
        if (next != TN__NONE && e->blocks[next].owner == TN__BLOCK_FREE) {
            cleared += e->blocks[next].size;
            next = e->blocks[next].after;
        }
        TN_TRY(tn__space_give_up(e, owner, error));
    }
    return TN_OK;
}

/* --- freeing a range of addresses --- */

typedef struct space_wish {
    uint64_t size;
    /* cost of recomputing what was evicted although enough (scattered) bytes were free already */
    uint64_t in_vain;
    /* number and bytes of the candidates evicted one by one for this request */
    uint64_t gone, gone_bytes;
    bool was_hole, is_compact;
} space_wish;

/* Returns the cost of recomputing the storage; 0 if it has no outside reference. */
static uint64_t space_again(tn__evict *e, uint32_t storage) {
    if (e->storages[storage].outside == 0) return 0;
    return e->policy->cost != NULL ? e->policy->cost(e, storage) : e->storages[storage].cost;
}

/* Whether the cost of the evictions for this request, including the next one, reaches the cost of
 * moving blocks together. */
static bool space_is_dearer(tn__evict *e, space_wish *wish, uint32_t storage) {
    double since = tn__search_begin(e);
    wish->in_vain = tn__add_sat(wish->in_vain, space_again(e, storage));
    bool is_dearer = wish->in_vain >= tn__arena_gap_cost(e, wish->size);
    tn__search_end(e, since);
    return is_dearer;
}

/* Called when no candidate is left: compacts the arena, makes a waiting operator release its locks,
 * or evicts dead values. Returns E_EXHAUSTED if none of these is possible. */
static tn_status space_stuck(tn__evict *e, space_wish *wish, bool is_hole, tn_error *error) {
    if (is_hole && !wish->is_compact) {
        tn__arena_compact(e);
        wish->is_compact = true;
        return TN_OK;
    }
    wish->is_compact = false;
    if (tn__make_give_up(e) || space_let_go(e, wish->size, true)) return TN_OK;
    return space_exhausted(e, wish->size, is_hole, error);
}

/* Whether this request should free more bytes than it needs, for later requests (option `sample`).
 * That is so if it is smaller than the bytes freed in advance, or if it needs many evictions: at
 * least SPACE_GONE candidates were evicted for it, and on average each is a small part of it. */
static bool space_is_ahead(const tn__evict *e, const space_wish *wish) {
    if (!e->options.sample) return false;
    return wish->size < tn__contiguous_ahead(e) ||
           (wish->gone >= SPACE_GONE && wish->gone_bytes < wish->size / SPACE_MANY * wish->gone);
}

/* Frees a region for a policy with TN__POLICY_MOVES. With sampling it first tries a longer region,
 * then leaves it to the caller to evict single candidates, which is faster, unless the free bytes
 * suffice and are only scattered. *done: whether this step made progress or failed. */
static tn_status space_in_stretch(tn__evict *e, space_wish *wish, bool is_hole, bool *done,
                                  tn_error *error) {
    uint64_t ahead = tn__contiguous_ahead(e);
    *done = false;
    if (space_is_ahead(e, wish))
        TN_TRY(tn__contiguous_clear(e, ahead > wish->size ? ahead : wish->size, done, error));
    if (*done || (e->options.sample && !is_hole)) return TN_OK;
    TN_TRY(tn__contiguous_clear(e, wish->size, done, error));
    if (*done) return TN_OK;
    *done = true;
    return space_stuck(e, wish, is_hole, error);
}

/* Makes one step towards a free region that is long enough. If the free bytes suffice but are
 * scattered, more candidates are evicted until that has cost as much as moving blocks would: so the
 * total is at most twice the cheaper of the two. */
static tn_status space_step(tn__evict *e, space_wish *wish, tn_error *error) {
    bool is_hole = e->free_bytes >= wish->size, is_done;
    e->counts.hole_count += is_hole && !wish->was_hole;
    wish->was_hole = wish->was_hole || is_hole;
    if (space_let_go(e, wish->size, false)) return TN_OK;
    if (e->policy->features & TN__POLICY_MOVES) {
        TN_TRY(space_in_stretch(e, wish, is_hole, &is_done, error));
        if (is_done) return TN_OK;
    }
    if (e->policy->features & TN__POLICY_WINDOW) {
        TN_TRY(space_clear_window(e, wish->size, &is_done, error));
        if (is_done) return TN_OK;
    }
    uint32_t storage = space_choose(e, wish->size);
    if (storage == TN__NONE) return space_stuck(e, wish, is_hole, error);
    if (is_hole) {
        if (space_is_dearer(e, wish, storage) && tn__arena_make_gap(e, wish->size)) return TN_OK;
        e->counts.hole_bytes += space_taken(e, storage);
    }
    wish->gone++;
    wish->gone_bytes += space_taken(e, storage);
    return tn__space_give_up(e, storage, error);
}

tn_status tn__space_take(tn__evict *e, uint64_t bytes, uint32_t owner, uint32_t *block,
                         tn_error *error) {
    space_wish wish = {.size = tn__arena_round(e, bytes)};
    uint32_t found;
    *block = TN__NONE;
    if (wish.size == 0) return TN_OK;
    if (!tn__arena_reserve(e, 2)) return tn__no_memory(error, "the blocks of an arena");
    while ((found = tn__arena_find(e, wish.size)) == TN__NONE) TN_TRY(space_step(e, &wish, error));
    bool stays = owner != TN__BLOCK_TEMPORARY && e->storages[owner].is_pinned;
    *block = stays ? tn__arena_take_side(e, wish.size, owner)
                   : tn__arena_cut(e, found, wish.size, false, owner);
    uint64_t reach = e->blocks[*block].at + wish.size;
    if (reach > e->counts.reach_bytes) e->counts.reach_bytes = reach;
    return TN_OK;
}
