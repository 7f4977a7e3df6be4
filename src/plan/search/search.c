/* search.c - searches depth-first for a placement within a capacity, lowest offsets first.
 *
 * A solution with the least sum of offsets is left-justified: every buffer lies at 0, at its pin,
 * or directly on another buffer. If buffers are placed in the order (offset, rank), each lies at
 * its `minimum`, the lowest offset that the buffers placed before it allow. So a node of the tree
 * is a set of placed buffers, its children are the buffers that may be placed next, and no other
 * offsets need to be tried. A slot is a step of time. None of the following rules excludes a
 * solution with the least sum of offsets.
 *
 *   canonical    (offset, rank) never decreases along a path.
 *   dominance    a buffer that would start at or above the end of another unplaced buffer need
 *                not be placed before it.
 *   totals       in every slot: lowest possible start + bytes still to place <= capacity.
 *   latest       if only one buffer can start low enough for a slot's total, it must; a buffer
 *                that no longer fits below it goes above it, which raises its start, and so on.
 *   floors       a slot without slack must be filled without a gap. If only few buffers can do
 *                that now, and no other buffer can come below them, they are the only children.
 *   skipped      a buffer that was passed over must lie on a buffer placed after it: its start
 *                is at least the lowest end among its unplaced neighbours.
 *   hatless      if placing a buffer raised no other start, it cannot cause a failure, so no
 *                other buffer is tried instead of it.
 *   components   slots that no unplaced buffer bridges split the other buffers into independent
 *                parts, each searched with an order of its own (its totals have changed).
 *   twins        equal buffers with equal live ranges keep their order.
 *   memory       a part with the same buffers and minima as one that failed before fails at once.
 *
 * Cost: a node is linear in its part's buffers and their slots. The search uses an explicit stack
 * and an undo log.
 * Source: Moffitt, MiniMalloc: a lightweight memory allocator for hardware-accelerated machine
 * learning, ASPLOS 2023 (canonical, dominance, totals, hatless, components, orders). Twins follow
 * OmniMalloc's symmetry rule. New here: latest (as in job-shop scheduling, where a slot is a
 * machine and bytes are its time), floors, skipped, memory.
 */
#include "plan/search/search.h"

#include "base/heap.h"

#include <stdlib.h>

/* number of bits of an index into the table of parts that failed: 2^14 entries of 16 bytes */
#define SEARCH_MEMORY_BITS 14u
/* limit of the sum, over all buffers, of the slots in which each one is live */
#define SEARCH_ENTRIES_MAX ((size_t)1 << 25)
#define SEARCH_NEVER (UINT64_MAX / 2) /* the value of `earliest` for a placed buffer */
/* number of buffers and slots in visited nodes, added up, after which the clock is checked */
#define SEARCH_EFFORT 100000u
/* limit of passes of the rule `latest` per node; fewer passes only make the rule weaker */
#define SEARCH_PASSES 16u

typedef struct search_undo { /* an entry of the undo log: the previous value of `*place` */
    uint64_t *place;
    uint64_t value;
} search_undo;

/* a part of the problem that is searched on its own: buffers list[first .. first+count) in time
 * slots [from, to) */
typedef struct search_part {
    uint32_t first, count, from, to;
} search_part;

/* A node of the search tree: the part of the problem that it searches, its cursor (offset and rank
 * of the buffer that was placed last), and the children that were tried. */
typedef struct search_frame {
    search_part part;
    /* below the cursor, the offset of the last placed buffer, no further buffer is placed */
    uint64_t cursor;
    /* rank of the last placed buffer: at offset `cursor`, no buffer of a smaller rank is placed */
    uint32_t cursor_rank;
    /* the children are the buffers that fill a time slot without slack; placing one leaves the
     * cursor where it is */
    bool fills;
    /* placing the current child raised the lowest allowed offset (`minimum`) of a neighbour */
    bool lifted;
    uint32_t next; /* the child to try next, an index into the candidates */
    /* range of search->scratch that lists the buffers which may be placed next */
    uint32_t candidate_first, candidate_count;
    /* range of search->parts with the independent parts that remain after the current child was
     * placed */
    uint32_t part_first, part_count, part_next;
    size_t undo_mark, scratch_mark, part_mark;
    uint64_t key[2];
} search_frame;

/* A buffer that is live in a time slot; its bytes in that slot begin `lo` bytes above its offset.
 * `pair` is the number of this pair of buffer piece and slot. */
typedef struct search_entry {
    uint32_t id, pair;
    uint64_t lo;
} search_entry;

/* Two buffers of a time slot, as indices into search->entries, which could both start low enough
 * when the slot was last checked. */
typedef struct search_watch {
    uint32_t entry[2];
} search_watch;

typedef struct search_failure {
    uint64_t key[2];
} search_failure;

struct tn__search {
    tn_context context;
    const tn__search_input *input;
    uint64_t capacity;
    const char *keys;
    uint32_t width;
    /* by buffer: `minimum` is the lowest offset that the placed buffers allow; `earliest` and
     * `latest` are bounds of its offset in the current node */
    uint64_t *minimum, *offset, *earliest, *latest;
    /* by buffer: `twin` is the number of the preceding equal buffer, or the buffer's own number;
     * `list` groups the buffers by part */
    uint32_t *rank, *twin, *list;
    uint8_t *placed;
    uint64_t *top_total, *zobrist, *shuffle;
    /* by time slot; total: bytes of unplaced buffers; bridges: number of unplaced buffers that are
     * live in this slot and the next one */
    uint64_t *total, *bridges;
    uint32_t *slot_first; /* [slots + 1], range of `entries` with the buffers of each slot */
    /* [slots], number of unplaced buffers in each slot; they come first in the slot's range of
     * `entries` */
    uint64_t *active;
    search_watch *watches;
    /* list of buffers of which the latest start was lowered in the current pass */
    uint32_t *raised;
    search_entry *entries;
    uint32_t *where;      /* [entry_count], the index in `entries` of each pair of piece and slot */
    uint32_t *pair_first; /* [pieces], the number of the first pair of each piece */
    size_t entry_count, piece_count;
    /* the stacks of nodes, undo entries, candidates and parts; each grows as needed */
    search_frame *frames;
    search_undo *undo;
    uint32_t *scratch;
    search_part *parts;
    size_t frame_room, undo_room, scratch_room, part_room;
    size_t frame_count, undo_count, scratch_count, part_count;
    search_failure *failures;
    uint64_t generation;
    bool out_of_memory;
};

static uint64_t search_mix(uint64_t z) { /* mixes bits with the finaliser of splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t search_max(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t search_min(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t search_align(uint64_t offset, uint64_t alignment) {
    uint64_t over = alignment > 1 ? offset % alignment : 0;
    return over == 0 ? offset : offset + (alignment - over);
}

static int search_conflict_order(const void *a, const void *b) {
    const tn__search_conflict *x = a, *y = b;
    if (x->below != y->below) return x->below < y->below ? -1 : 1;
    return (x->other > y->other) - (x->other < y->other);
}

void tn__search_sort(tn__search_conflict *conflicts, uint32_t count) {
    if (count > 1) qsort(conflicts, count, sizeof *conflicts, search_conflict_order);
}

/* --- state --- */

/* clang-format off */
#define SEARCH_ARRAYS(X, n, slots)                                                                 \
    X(minimum, n) X(offset, n) X(earliest, n) X(latest, n) X(rank, n) X(twin, n) X(list, n)        \
    X(placed, n) X(top_total, n) X(zobrist, n) X(shuffle, n)                                       \
    X(total, slots) X(active, slots) X(bridges, slots) X(watches, slots) X(raised, slots)                           \
    X(slot_first, (slots) + 1)                                                                     \
    X(failures, (size_t)1 << SEARCH_MEMORY_BITS)
/* clang-format on */

void tn__search_destroy(tn__search *search) {
    if (search == NULL) return;
    tn_context context = search->context;
    size_t n = search->input->count, slots = search->input->slot_count;
#define TN_X(field, room)                                                                          \
    tn__free(&context, search->field, ((room) ? (room) : 1) * sizeof *search->field);
    SEARCH_ARRAYS(TN_X, n, slots)
#undef TN_X
    tn__free(&context, search->entries, search->entry_count * sizeof *search->entries);
    tn__free(&context, search->where, search->entry_count * sizeof *search->where);
    tn__free(&context, search->pair_first, search->piece_count * sizeof *search->pair_first);
    tn__free(&context, search->frames, search->frame_room * sizeof *search->frames);
    tn__free(&context, search->undo, search->undo_room * sizeof *search->undo);
    tn__free(&context, search->scratch, search->scratch_room * sizeof *search->scratch);
    tn__free(&context, search->parts, search->part_room * sizeof *search->parts);
    tn__free(&context, search, sizeof *search);
}

static bool search_twins(const tn__search_input *input, uint32_t i, uint32_t k) {
    const tn__search_body *a = &input->bodies[i], *b = &input->bodies[k];
    if (a->piece_count != 1 || b->piece_count != 1) return false;
    if (input->crosses || input->unlike) return false;
    const tn__search_piece *p = &input->pieces[a->piece_first], *q = &input->pieces[b->piece_first];
    return p->first == q->first && p->last == q->last && p->lo == q->lo && p->hi == q->hi &&
           a->size == b->size && a->alignment == b->alignment && a->pin == TN__SEARCH_FREE &&
           b->pin == TN__SEARCH_FREE;
}

/* Lists the buffers in each slot: counts them, then fills the lists. Returns false if they are too
 * many, or if memory is exhausted. */
static bool search_list_slots(tn__search *search) {
    const tn__search_input *input = search->input;
    uint32_t *first = search->slot_first, pair = 0;
    for (uint32_t i = 0; i < input->count; i++) search->piece_count += input->bodies[i].piece_count;
    for (size_t k = 0; k < search->piece_count; k++) {
        search->entry_count += input->pieces[k].last - input->pieces[k].first;
        for (uint32_t slot = input->pieces[k].first; slot < input->pieces[k].last; slot++)
            first[slot + 1]++;
    }
    if (search->entry_count > SEARCH_ENTRIES_MAX) search->entry_count = 0;
    const tn_context *context = &search->context;
    search->entries = tn__alloc_array(context, search->entry_count, sizeof *search->entries);
    search->where = tn__alloc_array(context, search->entry_count, sizeof *search->where);
    search->pair_first = tn__alloc_array(context, search->piece_count, sizeof *search->pair_first);
    if (search->entry_count == 0) return search->piece_count == 0;
    if (!search->entries || !search->where || !search->pair_first) return false;
    for (uint32_t slot = 0; slot < input->slot_count; slot++) first[slot + 1] += first[slot];
    for (uint32_t i = 0; i < input->count; i++) {
        for (uint32_t k = 0; k < input->bodies[i].piece_count; k++) {
            const tn__search_piece *piece = &input->pieces[input->bodies[i].piece_first + k];
            search->pair_first[input->bodies[i].piece_first + k] = pair;
            for (uint32_t slot = piece->first; slot < piece->last; slot++, pair++) {
                search->where[pair] = first[slot]++;
                search->entries[search->where[pair]] = (search_entry){i, pair, piece->lo};
            }
        }
    }
    for (uint32_t slot = input->slot_count; slot > 0; slot--) first[slot] = first[slot - 1];
    first[0] = 0;
    return true;
}

/* Prepares data that does not change between searches: random keys of the buffers for the table of
 * failures, and pairs of equal buffers (twins). */
static void search_prepare(tn__search *search) {
    const tn__search_input *input = search->input;
    tn__random random = {.state = 1};
    for (uint32_t i = 0; i < input->count; i++) {
        const tn__search_body *body = &input->bodies[i];
        search->zobrist[i] = tn__random_next(&random) | 1;
        search->twin[i] = i;
        for (uint32_t k = 0; k < body->conflict_count; k++) {
            uint32_t other = input->conflicts[body->conflict_first + k].other;
            bool later = search->twin[i] == i || other > search->twin[i];
            if (other < i && later && search_twins(input, i, other)) search->twin[i] = other;
        }
    }
}

tn__search *tn__search_create(const tn_context *context, const tn__search_input *input) {
    tn__search *search = tn__alloc_array(context, 1, sizeof *search);
    if (search == NULL) return NULL;
    size_t n = input->count, slots = input->slot_count;
    search->context = tn__context(context);
    search->input = input;
    bool all = true;
#define TN_X(field, room)                                                                          \
    search->field = tn__alloc_array(context, (room) ? (room) : 1, sizeof *search->field);          \
    all = all && search->field != NULL;
    SEARCH_ARRAYS(TN_X, n, slots)
#undef TN_X
    if (!all || !search_list_slots(search)) {
        tn__search_destroy(search);
        return NULL;
    }
    search_prepare(search);
    return search;
}

/* Makes one of the stacks large enough for `need` items. If memory is exhausted, it returns false
 * and sets search->out_of_memory, which ends the search. */
static bool search_room(tn__search *search, void *stack, size_t *room, size_t need, size_t item) {
    if (need <= *room) return true;
    if (tn__reserve(&search->context, stack, room, need, item)) return true;
    search->out_of_memory = true;
    return false;
}

static void search_set(tn__search *search, uint64_t *place, uint64_t value) {
    /* search_place has already made the undo log large enough for this entry */
    tn_assert(search->undo_count < search->undo_room);
    search->undo[search->undo_count++] = (search_undo){place, *place};
    *place = value;
}

/* --- orders --- */

static uint64_t search_key(const tn__search *search, uint32_t id, char letter) {
    const tn__search_body *body = &search->input->bodies[id];
    switch (letter) {
    case 'A':
        return body->area;
    case 'T':
        return search->top_total[id];
    case 'W':
        return body->span;
    case 'Z':
        return body->size;
    case 'L':
        return body->first;
    case 'U':
        return body->last;
    default:
        return body->conflict_count; /* 'O' */
    }
}

static bool search_after(const tn__search *search, const uint32_t *a, const uint32_t *b) {
    if (search->shuffle[*a] != search->shuffle[*b])
        return search->shuffle[*a] > search->shuffle[*b];
    for (const char *letter = search->keys; *letter; letter++) {
        uint64_t x = search_key(search, *a, *letter), y = search_key(search, *b, *letter);
        if (x != y) return x < y;
    }
    return *a > *b;
}
/* Heap sort: it does not recurse, needs no global variable for its context, and gives the same
 * order with every C library. */
TN__HEAP_OF(search_heap, const tn__search, uint32_t, search_after, TN__HEAP_UNPLACED)

/* Ranks the buffers of a part by the keys of the search order; the key T uses the present totals of
 * the slots. */
static void search_rank(tn__search *search, search_part part) {
    const tn__search_input *input = search->input;
    uint32_t *list = search->list + part.first;
    for (uint32_t i = 0; i < part.count; i++) {
        const tn__search_body *body = &input->bodies[list[i]];
        uint64_t top = 0;
        for (uint32_t slot = body->first; slot < body->last; slot++)
            top = search_max(top, search->total[slot]);
        search->top_total[list[i]] = top;
    }
    for (uint32_t root = part.count / 2; root-- > 0;)
        search_heap_sink(search, list, part.count, root, list[root]);
    for (uint32_t end = part.count; end > 1; end--)
        list[end - 1] = search_heap_pop(search, list, end);
    for (uint32_t i = 0; i < part.count; i++) search->rank[list[i]] = i;
}

/* --- one node: its bounds and its candidates --- */

/* Returns the lowest start of an unplaced buffer that was passed over, which means that the cursor
 * has moved beyond it: it must lie on a neighbour that is placed later. */
static uint64_t search_skipped_start(const tn__search *search, uint32_t id, uint64_t cursor) {
    const tn__search_body *body = &search->input->bodies[id];
    const tn__search_conflict *conflicts = search->input->conflicts + body->conflict_first;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t k = 0; k < body->conflict_count; k++) {
        uint32_t other = conflicts[k].other;
        /* conflicts are sorted by `below`, so no further conflict gives a lower start */
        if (cursor + conflicts[k].below >= lowest) break;
        if (search->placed[other]) continue;
        lowest =
            search_min(lowest, search_max(search->minimum[other], cursor) + conflicts[k].below);
    }
    return lowest == UINT64_MAX ? lowest : search_align(lowest, body->alignment);
}

static bool search_is_skipped(const tn__search *search, const search_frame *frame, uint32_t id) {
    uint64_t minimum = search->minimum[id];
    return minimum < frame->cursor ||
           (minimum == frame->cursor && search->rank[id] < frame->cursor_rank);
}

/* Computes the earliest and the latest start of every buffer; returns false if a buffer does not
 * fit between them. *dominated receives the lowest end of an unplaced buffer: the next buffer must
 * start below it. */
static bool search_starts(tn__search *search, const search_frame *frame, uint64_t *dominated) {
    const uint32_t *list = search->list + frame->part.first;
    *dominated = UINT64_MAX;
    for (uint32_t i = 0; i < frame->part.count; i++) {
        uint32_t id = list[i];
        const tn__search_body *body = &search->input->bodies[id];
        bool pinned = body->pin != TN__SEARCH_FREE;
        uint64_t start =
            search_align(search_max(search->minimum[id], frame->cursor), body->alignment);
        *dominated = search_min(*dominated, start + body->size);
        if (search_is_skipped(search, frame, id)) {
            if (pinned) return false;
            start = search_max(start, search_skipped_start(search, id, frame->cursor));
        }
        if (start > search->capacity || body->size > search->capacity - start) return false;
        search->earliest[id] = start;
        search->latest[id] = pinned ? body->pin : search->capacity - body->size;
    }
    return true;
}

/* Returns the lowest offset at which an entry's bytes can begin in the current node; a very high
 * number if its buffer is already placed. */
static uint64_t search_low(const tn__search *search, search_entry entry) {
    return search->earliest[entry.id] + entry.lo;
}

/* Finds up to two entries of a time slot whose bytes can begin at or below `highest`, stores them
 * as the slot's watches and returns their number. As long as both watches can begin there, the slot
 * need not be checked. */
static uint32_t search_find_watches(tn__search *search, uint32_t slot, uint64_t highest) {
    uint32_t first = search->slot_first[slot], last = first + (uint32_t)search->active[slot];
    uint32_t found = 0, *watch = search->watches[slot].entry;
    uint32_t start = watch[0] < last ? watch[0] : first, at = start;
    if (first == last) return 0;
    do { /* at most once around the list, from the first watch on, until two are found */
        if (search_low(search, search->entries[at]) <= highest) watch[found++] = at;
        if (++at == last) at = first;
    } while (found < 2 && at != start);
    if (found == 1) watch[1] = watch[0];
    return found;
}

/* Checks the totals of all slots; returns false if a slot's live bytes cannot fit. If only one
 * buffer of a slot can start low enough, its latest start is lowered and it is listed in
 * search->raised. *raised receives the number of buffers listed. */
static bool search_check_slots(tn__search *search, search_part part, uint32_t *raised) {
    *raised = 0;
    for (uint32_t slot = part.from; slot < part.to; slot++) {
        uint64_t total = search->total[slot];
        if (total == 0) continue;
        if (total > search->capacity) return false;
        /* the lowest bytes of this slot must begin at `highest` or below, else its live bytes do
         * not fit */
        uint64_t highest = search->capacity - total;
        const uint32_t *watch = search->watches[slot].entry;
        if (watch[0] != watch[1] && search_low(search, search->entries[watch[0]]) <= highest &&
            search_low(search, search->entries[watch[1]]) <= highest)
            continue;
        uint32_t found = search_find_watches(search, slot, highest);
        if (found == 0) return false;
        if (found == 2) continue;
        search_entry only = search->entries[watch[0]];
        if (highest - only.lo >= search->latest[only.id]) continue;
        search->latest[only.id] = highest - only.lo;
        search->raised[(*raised)++] = only.id;
    }
    return true;
}

/* Raises the earliest start of every neighbour that cannot end at or below the latest start of
 * buffer `id`, because it must then lie above `id`. Returns false if such a neighbour does not fit
 * there either. *changed is set if a start was raised. */
static bool search_lift(tn__search *search, uint32_t id, bool *changed) {
    const tn__search_input *input = search->input;
    const tn__search_body *body = &input->bodies[id];
    const tn__search_conflict *conflicts = input->conflicts + body->conflict_first;
    for (uint32_t k = 0; k < body->conflict_count; k++) {
        uint32_t other = conflicts[k].other;
        uint64_t lifted = search->earliest[id] + conflicts[k].above;
        if (search->placed[other] || lifted <= search->earliest[other]) continue;
        if (search->earliest[other] + conflicts[k].below <= search->latest[id]) continue;
        lifted = search_align(lifted, input->bodies[other].alignment);
        if (lifted > search->latest[other]) return false;
        search->earliest[other] = lifted;
        *changed = true;
    }
    return true;
}

/* Computes earliest and latest starts of the part's buffers that hold for every completion of the
 * node; returns false if some buffer or slot does not fit within the capacity. *dominated: as for
 * search_starts. *most: largest total of a slot. */
static bool search_bound(tn__search *search, const search_frame *frame, uint64_t *dominated,
                         uint64_t *most) {
    const search_part part = frame->part;
    if (!search_starts(search, frame, dominated)) return false;
    bool changed = true;
    for (uint32_t pass = 0; pass < SEARCH_PASSES && changed; pass++) {
        uint32_t raised;
        if (!search_check_slots(search, part, &raised)) return false;
        changed = false;
        for (uint32_t i = 0; i < raised; i++)
            if (!search_lift(search, search->raised[i], &changed)) return false;
    }
    *most = 0;
    for (uint32_t slot = part.from; slot < part.to; slot++)
        *most = search_max(*most, search->total[slot]);
    return true;
}

/* Computes the key of a part of the search, under which its failure is remembered. A part is a set
 * of buffers that are still to be placed. Two parts are the same if their buffers have the same
 * lowest possible offsets, the search is at the same offset, and it has skipped the same buffers.
 * The key has two numbers of 64 bits with different mixing, so two parts are confused with a
 * probability of about 2^-114 per lookup. */
static void search_identify(const tn__search *search, search_frame *frame) {
    const uint32_t *list = search->list + frame->part.first;
    uint64_t a = 0, b = 0;
    for (uint32_t i = 0; i < frame->part.count; i++) {
        uint32_t id = list[i];
        uint64_t salt = search->zobrist[id] + (search_is_skipped(search, frame, id) ? 1 : 0);
        uint64_t mixed = search_mix(search->minimum[id] * 0x9e3779b97f4a7c15u ^ salt);
        a += mixed;
        b += search_mix(mixed ^ 0x2545f4914f6cdd1du);
    }
    /* The index in the table of failures depends on key[0] alone, without the generation. So the
     * failures that get overwritten do not depend on earlier searches. */
    frame->key[0] = search_mix(a ^ search_mix(frame->cursor));
    frame->key[1] = search_mix(b + frame->cursor * 0x9e3779b97f4a7c15u + search->generation);
}

static search_failure *search_memory(const tn__search *search, const search_frame *frame) {
    return &search->failures[frame->key[0] >> (64 - SEARCH_MEMORY_BITS)];
}

#define SEARCH_NO_FLOOR UINT32_MAX

/* Whether the buffer can start at its minimum in the current node, and no unplaced neighbour can
 * end at or below that offset. */
static bool search_is_ready(const tn__search *search, uint32_t id) {
    const tn__search_body *body = &search->input->bodies[id];
    const tn__search_conflict *conflicts = search->input->conflicts + body->conflict_first;
    uint64_t start = search->minimum[id];
    if (search->earliest[id] != start) return false;
    for (uint32_t k = 0; k < body->conflict_count; k++) {
        uint32_t other = conflicts[k].other;
        if (!search->placed[other] && search->earliest[other] + conflicts[k].below <= start)
            return false;
    }
    return true;
}

/* Counts the buffers that can begin exactly at the lowest free byte of a slot without slack.
 * Returns UINT32_MAX if they are more than search->width, if the slot has slack, or if one of them
 * is not ready (search_is_ready). */
static uint32_t search_count_fillers(tn__search *search, uint32_t slot, uint64_t highest) {
    uint32_t count = 0, last = search->slot_first[slot] + (uint32_t)search->active[slot];
    for (uint32_t at = search->slot_first[slot]; at < last; at++) {
        uint64_t low = search_low(search, search->entries[at]);
        if (low > highest) continue;
        if (low == highest && ++count <= search->width) continue;
        /* an entry that can begin below `highest` becomes a watch, so that the next check of this
         * slot is short */
        if (low < highest) search->watches[slot].entry[0] = at;
        return UINT32_MAX;
    }
    for (uint32_t at = search->slot_first[slot]; at < last; at++)
        if (search_low(search, search->entries[at]) == highest &&
            !search_is_ready(search, search->entries[at].id))
            return UINT32_MAX;
    return count;
}

/* Finds the time slot without slack that the fewest buffers can fill (at most search->width of
 * them). Returns SEARCH_NO_FLOOR if no such slot exists. */
static uint32_t search_narrowest(tn__search *search, search_part part) {
    uint32_t best = SEARCH_NO_FLOOR, fewest = UINT32_MAX;
    for (uint32_t slot = part.from; slot < part.to && fewest > 1; slot++) {
        uint64_t total = search->total[slot], highest = search->capacity - total;
        const uint32_t *watch = search->watches[slot].entry;
        if (total == 0 || search_low(search, search->entries[watch[0]]) < highest ||
            search_low(search, search->entries[watch[1]]) < highest)
            continue;
        uint32_t count = search_count_fillers(search, slot, highest);
        if (count >= fewest) continue;
        fewest = count;
        best = slot;
    }
    return best;
}

static bool search_fills(const tn__search *search, uint32_t id, uint32_t floor) {
    const tn__search_body *body = &search->input->bodies[id];
    uint64_t highest = search->capacity - search->total[floor];
    for (uint32_t k = 0; k < body->piece_count; k++) {
        const tn__search_piece *piece = &search->input->pieces[body->piece_first + k];
        if (piece->first <= floor && floor < piece->last &&
            search->earliest[id] + piece->lo == highest)
            return true;
    }
    return false;
}

/* Lists the buffers that may be placed next, by minimum, then by rank. If a slot without slack must
 * be filled, they are the buffers that can fill it; otherwise all buffers that the canonical order
 * allows. Returns false if memory is exhausted. */
static bool search_candidates(tn__search *search, search_frame *frame, uint64_t dominated,
                              uint64_t most) {
    const uint32_t *list = search->list + frame->part.first;
    if (!search_room(search, &search->scratch, &search->scratch_room,
                     search->scratch_count + frame->part.count, sizeof *search->scratch))
        return false;
    uint32_t *candidates = search->scratch + search->scratch_count;
    uint32_t count = 0, floor = search_narrowest(search, frame->part);
    /* one of the unplaced buffers must start at this offset or below, else the fullest slot does
     * not fit */
    uint64_t highest = search->capacity - most;
    frame->fills = floor != SEARCH_NO_FLOOR;
    for (uint32_t i = 0; i < frame->part.count; i++) {
        uint32_t id = list[i];
        uint64_t minimum = search->minimum[id];
        if (frame->fills) {
            if (!search_fills(search, id, floor)) continue;
        } else if (search_is_skipped(search, frame, id) || minimum >= dominated ||
                   minimum > highest || minimum < search->earliest[id]) {
            continue;
        }
        if (search->twin[id] != id && !search->placed[search->twin[id]]) continue;
        uint32_t at = count++;
        for (; at > 0; at--) {
            uint32_t other = candidates[at - 1];
            if (search->minimum[other] < minimum ||
                (search->minimum[other] == minimum && search->rank[other] < search->rank[id]))
                break;
            candidates[at] = other;
        }
        candidates[at] = id;
    }
    frame->candidate_first = (uint32_t)search->scratch_count;
    frame->candidate_count = count;
    search->scratch_count += count;
    return true;
}

/* --- moving through the tree --------------------------------------------------------------------
 */

/* Moves a piece of a buffer that is being placed behind the unplaced entries of its slots, and
 * subtracts its bytes from the slots' totals. Only the slots' numbers of unplaced entries need to
 * be restored to undo the move. */
static void search_withdraw(tn__search *search, uint32_t piece_id) {
    const tn__search_piece *piece = &search->input->pieces[piece_id];
    uint32_t pair = search->pair_first[piece_id];
    for (uint32_t slot = piece->first; slot < piece->last; slot++, pair++) {
        search_set(search, &search->total[slot], search->total[slot] - (piece->hi - piece->lo));
        search_set(search, &search->active[slot], search->active[slot] - 1);
        uint32_t at = search->where[pair];
        uint32_t end = search->slot_first[slot] + (uint32_t)search->active[slot];
        search_entry mine = search->entries[at], last = search->entries[end];
        search->entries[at] = last;
        search->entries[end] = mine;
        search->where[last.pair] = at;
        search->where[pair] = end;
    }
}

/* Places a buffer at its minimum and raises the minima of its neighbours. Returns false if a
 * neighbour then cannot lie within the capacity, or if memory is exhausted. search_retract undoes
 * the placement, also after a failure. */
static bool search_place(tn__search *search, search_frame *frame, uint32_t id) {
    const tn__search_input *input = search->input;
    const tn__search_body *body = &input->bodies[id];
    uint64_t offset = search->minimum[id];
    size_t most = 2 * (size_t)(body->last - body->first) + body->conflict_count;
    for (uint32_t k = 0; k < body->piece_count; k++) {
        const tn__search_piece *piece = &input->pieces[body->piece_first + k];
        most += 2 * (size_t)(piece->last - piece->first);
    }
    if (!search_room(search, &search->undo, &search->undo_room, search->undo_count + most,
                     sizeof *search->undo))
        return false;
    search->placed[id] = 1;
    search->offset[id] = offset;
    search->earliest[id] = SEARCH_NEVER;
    frame->lifted = false;
    for (uint32_t k = 0; k < body->piece_count; k++) search_withdraw(search, body->piece_first + k);
    for (uint32_t slot = body->first; slot + 1 < body->last; slot++)
        search_set(search, &search->bridges[slot], search->bridges[slot] - 1);
    const tn__search_conflict *conflicts = input->conflicts + body->conflict_first;
    for (uint32_t k = 0; k < body->conflict_count; k++) {
        uint32_t other = conflicts[k].other;
        uint64_t raised = offset + conflicts[k].above;
        if (search->placed[other] || search->minimum[other] >= raised) continue;
        const tn__search_body *neighbour = &input->bodies[other];
        frame->lifted = true;
        raised = search_align(raised, neighbour->alignment);
        if (neighbour->pin != TN__SEARCH_FREE || raised > search->capacity ||
            neighbour->size > search->capacity - raised)
            return false;
        search_set(search, &search->minimum[other], raised);
    }
    return true;
}

static void search_retract(tn__search *search, search_frame *frame) {
    while (search->undo_count > frame->undo_mark) {
        const search_undo *undo = &search->undo[--search->undo_count];
        *undo->place = undo->value;
    }
    search->part_count = frame->part_mark;
    search->scratch_count = frame->scratch_mark;
    frame->part_count = frame->part_next = 0;
}

/* Splits the unplaced buffers of a part into components, between which no buffer bridges two slots.
 * Sorts the list by component and pushes one search_part for each, the smallest first, because a
 * failure there costs least. Returns false if memory is exhausted. */
static bool search_split(tn__search *search, search_frame *frame, search_part rest) {
    uint32_t *list = search->list + rest.first;
    frame->part_first = (uint32_t)search->part_count;
    uint32_t from = rest.from, done = 0;
    for (uint32_t slot = rest.from; slot < rest.to && done < rest.count; slot++) {
        bool last = slot + 1 == rest.to;
        if (!last && (search->input->crosses || search->bridges[slot] > 0)) continue;
        search_part part = {.first = rest.first + done, .from = from, .to = slot + 1};
        from = slot + 1;
        for (uint32_t i = done; i < rest.count; i++) {
            uint32_t id = list[i];
            if (search->input->bodies[id].last > slot + 1) continue;
            list[i] = list[done + part.count];
            list[done + part.count++] = id;
        }
        if (part.count == 0) continue;
        done += part.count;
        if (!search_room(search, &search->parts, &search->part_room, search->part_count + 1,
                         sizeof *search->parts))
            return false;
        size_t at = search->part_count++;
        for (; at > frame->part_first && search->parts[at - 1].count > part.count; at--)
            search->parts[at] = search->parts[at - 1];
        search->parts[at] = part;
    }
    tn_assert(done == rest.count);
    frame->part_count = (uint32_t)(search->part_count - frame->part_first);
    frame->part_next = 0;
    return true;
}

/* Saves the ranks of a part's buffers on the scratch stack before the part is ranked again. It
 * saves pairs (buffer, rank), because the buffers of the part may later stand in any order in
 * list[first .. first+count). */
static bool search_keep_ranks(tn__search *search, search_part part) {
    if (!search_room(search, &search->scratch, &search->scratch_room,
                     search->scratch_count + 2 * (size_t)part.count, sizeof *search->scratch))
        return false;
    for (uint32_t i = 0; i < part.count; i++) {
        uint32_t id = search->list[part.first + i];
        search->scratch[search->scratch_count++] = id;
        search->scratch[search->scratch_count++] = search->rank[id];
    }
    return true;
}

/* Pushes a node of the search tree for a part. Returns FOUND if the part has no buffers, NONE if it
 * was proved that the part cannot be completed, and LIMIT if the node's children must be
 * searched. */
static tn__search_outcome search_enter(tn__search *search, search_part part, uint64_t cursor,
                                       uint32_t cursor_rank) {
    if (part.count == 0) return TN__SEARCH_FOUND;
    if (!search_room(search, &search->frames, &search->frame_room, search->frame_count + 1,
                     sizeof *search->frames))
        return TN__SEARCH_NO_MEMORY;
    search_frame *frame = &search->frames[search->frame_count];
    *frame = (search_frame){.part = part, .cursor = cursor, .cursor_rank = cursor_rank};
    uint64_t dominated, most;
    if (!search_bound(search, frame, &dominated, &most)) return TN__SEARCH_NONE;
    search_identify(search, frame);
    const search_failure *failure = search_memory(search, frame);
    if (failure->key[0] == frame->key[0] && failure->key[1] == frame->key[1])
        return TN__SEARCH_NONE;
    if (!search_candidates(search, frame, dominated, most)) return TN__SEARCH_NO_MEMORY;
    frame->undo_mark = search->undo_count;
    frame->scratch_mark = search->scratch_count;
    frame->part_mark = search->part_count;
    search->frame_count++;
    return TN__SEARCH_LIMIT;
}

/* Pops the top node from the stack of nodes, with the candidates and other entries that it
 * pushed. */
static void search_leave(tn__search *search) {
    const search_frame *frame = &search->frames[--search->frame_count];
    search->scratch_count = frame->candidate_first;
}

/* Pushes a node for the next component of the current child, after ranking the component's
 * buffers. */
static tn__search_outcome search_descend(tn__search *search, search_frame *frame) {
    search_part part = search->parts[frame->part_first + frame->part_next];
    uint32_t placed = search->scratch[frame->candidate_first + frame->next - 1];
    uint64_t cursor = frame->fills ? frame->cursor : search->offset[placed];
    uint32_t cursor_rank = frame->fills ? frame->cursor_rank : search->rank[placed] + 1;
    if (frame->part_count == 1 && part.from == frame->part.from && part.to == frame->part.to)
        return search_enter(search, part, cursor, cursor_rank);
    if (!search_keep_ranks(search, part)) return TN__SEARCH_NO_MEMORY;
    search_rank(search, part);
    return search_enter(search, part, cursor, 0);
}

/* Undoes the placement of the current child: restores minima, totals, and the ranks of buffers in
 * its components. */
static void search_take_back(tn__search *search, search_frame *frame) {
    for (size_t i = search->scratch_count; i > frame->scratch_mark; i -= 2)
        search->rank[search->scratch[i - 2]] = search->scratch[i - 1];
    const uint32_t *list = search->list + frame->part.first;
    for (uint32_t i = 0; i < frame->part.count; i++) search->placed[list[i]] = 0;
    search_retract(search, frame);
}

/* Places the next candidate of a node as its current child, and splits the remaining buffers into
 * components. */
static tn__search_outcome search_advance(tn__search *search, search_frame *frame) {
    uint32_t id = search->scratch[frame->candidate_first + frame->next++];
    if (!search_place(search, frame, id)) return TN__SEARCH_NONE;
    uint32_t *list = search->list + frame->part.first;
    uint32_t at = 0;
    while (list[at] != id) at++;
    list[at] = list[frame->part.count - 1];
    /* moves the placed buffer behind the unplaced ones of the list */
    list[frame->part.count - 1] = id;
    search_part rest = frame->part;
    rest.count--;
    return search_split(search, frame, rest) ? TN__SEARCH_LIMIT : TN__SEARCH_NO_MEMORY;
}

/* Searches the tree below one part of the problem. Each iteration acts on the top node of the stack
 * and on the outcome of the last step: FOUND, a component of the node's current child was placed;
 * NONE, a component cannot be placed; LIMIT, the node is new and its children must be searched. */
static tn__search_outcome search_run(tn__search *search, search_part root, uint64_t node_limit,
                                     tn__search_poll poll, uint64_t *nodes) {
    size_t bottom = search->frame_count;
    uint64_t effort = 0;
    tn__search_outcome outcome = search_enter(search, root, 0, 0);
    while (search->frame_count > bottom) {
        if (search->out_of_memory) return TN__SEARCH_NO_MEMORY;
        search_frame *frame = &search->frames[search->frame_count - 1];
        if (outcome == TN__SEARCH_FOUND) {
            if (++frame->part_next < frame->part_count)
                outcome = search_descend(search, frame);
            else
                /* all components were placed, so the node is complete; its parent receives FOUND */
                search_leave(search);
            continue;
        }
        bool hatless = outcome == TN__SEARCH_NONE && !frame->lifted;
        if (outcome == TN__SEARCH_NONE) search_take_back(search, frame);
        if (hatless || frame->next == frame->candidate_count) {
            *search_memory(search, frame) = (search_failure){{frame->key[0], frame->key[1]}};
            search_leave(search);
            outcome = TN__SEARCH_NONE;
            continue;
        }
        effort += frame->part.count + frame->part.to - frame->part.from;
        bool look = (++*nodes % TN__SEARCH_POLL == 0 || effort > SEARCH_EFFORT) && poll.go_on;
        if (look) effort = 0;
        if (*nodes > node_limit || (look && !poll.go_on(poll.self))) return TN__SEARCH_LIMIT;
        outcome = search_advance(search, frame);
        if (outcome != TN__SEARCH_LIMIT) continue;
        outcome = frame->part_count == 0 ? TN__SEARCH_FOUND : search_descend(search, frame);
    }
    return search->out_of_memory ? TN__SEARCH_NO_MEMORY : outcome;
}

/* --- one call of the search --- */

static void search_reset(tn__search *search) {
    const tn__search_input *input = search->input;
    search->frame_count = search->undo_count = search->scratch_count = search->part_count = 0;
    search->out_of_memory = false;
    /* the generation is part of each key, so failures that earlier searches recorded no longer
     * match */
    search->generation += 0x9e3779b97f4a7c15u;
    for (uint32_t slot = 0; slot < input->slot_count; slot++) {
        search->total[slot] = search->bridges[slot] = 0;
        search->active[slot] = search->slot_first[slot + 1] - search->slot_first[slot];
        search->watches[slot] =
            (search_watch){{search->slot_first[slot], search->slot_first[slot]}};
    }
    for (uint32_t id = 0; id < input->count; id++) {
        const tn__search_body *body = &input->bodies[id];
        search->minimum[id] = body->pin == TN__SEARCH_FREE ? 0 : body->pin;
        search->placed[id] = 0;
        search->list[id] = id;
        for (uint32_t k = 0; k < body->piece_count; k++) {
            const tn__search_piece *piece = &input->pieces[body->piece_first + k];
            for (uint32_t slot = piece->first; slot < piece->last; slot++)
                search->total[slot] += piece->hi - piece->lo;
        }
        for (uint32_t slot = body->first; slot + 1 < body->last; slot++) search->bridges[slot]++;
    }
}

/* Shuffles an order slightly: a random number of at most order.window is added to each buffer's
 * rank, so a buffer may move past the next few ones. */
static void search_shuffle(tn__search *search, search_part all, tn__search_order order) {
    for (uint32_t i = 0; i < all.count; i++) search->shuffle[i] = 0;
    if (order.window == 0) return;
    search_rank(search, all);
    tn__random random = {.state = order.seed};
    for (uint32_t i = 0; i < all.count; i++)
        search->shuffle[i] = search->rank[i] + tn__random_below(&random, 1 + order.window);
}

tn__search_outcome tn__search_decide(tn__search *search, tn__search_order order, uint64_t capacity,
                                     uint64_t node_limit, tn__search_poll poll, uint64_t *offsets,
                                     uint64_t *nodes) {
    const tn__search_input *input = search->input;
    search_part all = {.count = input->count, .to = input->slot_count};
    search_frame root = {.part = all};
    *nodes = 0;
    search->capacity = capacity;
    search->keys = order.keys;
    search->width = order.width;
    search_reset(search);
    for (uint32_t slot = 0; slot < input->slot_count; slot++)
        if (search->total[slot] > capacity) return TN__SEARCH_NONE;
    search_shuffle(search, all, order);
    if (!search_split(search, &root, all)) return TN__SEARCH_NO_MEMORY;
    for (uint32_t k = 0; k < root.part_count; k++) {
        search_part part = search->parts[root.part_first + k];
        search_rank(search, part);
        tn__search_outcome outcome = search_run(search, part, node_limit, poll, nodes);
        if (outcome != TN__SEARCH_FOUND) return outcome;
    }
    for (uint32_t id = 0; id < input->count; id++) offsets[id] = search->offset[id];
    return TN__SEARCH_FOUND;
}
