/* first.c - makes a valid layout in linear time, for time limits too short for any planner; also
 * runs the planners that simulate memory pools.
 *
 * It works like a heap at run time: buffers are allocated and freed in order of time, each in a
 * hole that is hardly larger than the buffer, or on top of all others if there is no such hole.
 * Holes are kept in lists by size, sixteen lists per power of two, with one bit per list that is
 * not empty. A hole in a list of larger sizes always fits. In the list of the buffer's own size,
 * only the first few holes are tried. Neighbouring holes are merged. So a buffer takes a small
 * constant number of operations, and memory depends on the number of buffers that are live at once.
 *
 * Each buffer counts as live from its first to its last step, without windows or gaps, and pinned
 * buffers lie below all others. With several streams, separations or reserved ranges, no memory is
 * shared. The layout is valid for every problem, but its peak is often far from the best.
 *
 * Pools that always take the smallest sufficient hole (`time-order`, `ggml`) keep the holes in a
 * treap by size instead of in lists. The free bytes above all live buffers are not in the treap;
 * they are used if no hole fits.
 *
 * Cost: O(n), a second for 10^7 buffers; 40 bytes for each buffer that is live at the step with the
 * most live buffers. O(n log n) with the treap.
 * Source: Masmano et al., TLSF, ECRTS 2004 (lists by size and bits; here sizes are known, so blocks
 * need no header). Seidel, Aragon: Randomized search trees, 1996.
 */
#include "plan/frame/planner_run.h"

#define FIRST_NONE UINT32_MAX
#define FIRST_PARTS 4u /* 2^FIRST_PARTS lists per power of two of the hole size */
#define FIRST_LISTS ((64u << FIRST_PARTS) + 64u)
/* number of holes in the list of the buffer's own size that are tried, although they may be too
 * small */
#define FIRST_TRIES 12u
/* number of buffers between two checks whether the caller wants to stop */
#define FIRST_LOOK 16384u
/* number of buffers by which reading their sizes runs ahead of placing them */
#define FIRST_AHEAD 16u

typedef struct first_block { /* a buffer or a hole, in order of addresses */
    uint64_t start, end;
    uint32_t below, above;
    union {
        /* links in the list of holes; `next` also links buffers that end at the same step */
        struct {
            uint32_t next, previous;
        };
        uint32_t child[2]; /* children in the treap of holes */
    };
    bool hole;
} first_block;

typedef struct first_heap {
    const tn__prepared_bank *prepared;
    bool tight;    /* true: holes are kept in the treap by size; false: in lists */
    bool last;     /* of equal holes, true: the highest is taken; false: the lowest */
    uint32_t root; /* root of the treap of holes */
    /* counts the work against the limits of a run; NULL: only the caller's progress function can
     * stop it */
    tn_run *run;
    first_block *blocks;
    size_t room;
    uint32_t used, spare; /* `spare` is the head of the list of unused blocks */
    uint32_t list[FIRST_LISTS];
    uint64_t any[(FIRST_LISTS + 63) / 64];
    uint32_t top;  /* the highest block */
    uint32_t *end; /* [time_count] head of the list of buffers that end at this step */
} first_heap;

/* The number of the list that keeps holes of `size` bytes; larger sizes have larger numbers. */
static uint32_t first_list(uint64_t size) {
    if (size < 1u << FIRST_PARTS) return (uint32_t)size;
    uint32_t exponent = 63 - (uint32_t)__builtin_clzll(size);
    uint32_t part = (uint32_t)(size >> (exponent - FIRST_PARTS)) - (1u << FIRST_PARTS);
    return ((exponent - FIRST_PARTS + 1) << FIRST_PARTS) + part;
}

/* --- the tree: by size, then by address --- */

/* The treap priority of a block: a bijection (the finaliser of MurmurHash3), so that no two blocks
 * have equal priorities. */
static uint32_t first_rank(uint32_t at) {
    at ^= at >> 16;
    at *= 0x85ebca6bu;
    at ^= at >> 13;
    at *= 0xc2b2ae35u;
    return at ^ at >> 16;
}

static bool first_before(const first_heap *heap, uint32_t a, uint32_t b) {
    const first_block *x = &heap->blocks[a], *y = &heap->blocks[b];
    uint64_t of_x = x->end - x->start, of_y = y->end - y->start;
    if (of_x != of_y) return of_x < of_y;
    return heap->last ? x->start > y->start : x->start < y->start;
}

static void first_plant(first_heap *heap, uint32_t added) {
    uint32_t *link = &heap->root, rank = first_rank(added);
    uint32_t *ends[2] = {&heap->blocks[added].child[0], &heap->blocks[added].child[1]};
    while (*link != FIRST_NONE && first_rank(*link) > rank)
        link = &heap->blocks[*link].child[first_before(heap, *link, added)];
    uint32_t at = *link;
    /* splits the subtree that was at this link into the two subtrees of the added node */
    for (*link = added; at != FIRST_NONE;) {
        bool lower = first_before(heap, at, added);
        *ends[!lower] = at;
        ends[!lower] = &heap->blocks[at].child[lower];
        at = *ends[!lower];
    }
    *ends[0] = *ends[1] = FIRST_NONE;
}

static void first_uproot(first_heap *heap, uint32_t gone) {
    uint32_t *link = &heap->root;
    while (*link != gone) link = &heap->blocks[*link].child[first_before(heap, *link, gone)];
    uint32_t left = heap->blocks[gone].child[0], right = heap->blocks[gone].child[1];
    while (left != FIRST_NONE && right != FIRST_NONE) {
        bool is_left = first_rank(left) > first_rank(right);
        uint32_t *taken = is_left ? &left : &right;
        *link = *taken;
        link = &heap->blocks[*taken].child[is_left];
        *taken = *link;
    }
    *link = left != FIRST_NONE ? left : right;
}

/* The smallest hole of at least `size` bytes; FIRST_NONE if no hole is that large. */
static uint32_t first_tightest(const first_heap *heap, uint64_t size) {
    uint32_t found = FIRST_NONE;
    for (uint32_t at = heap->root; at != FIRST_NONE;) {
        const first_block *block = &heap->blocks[at];
        bool enough = block->end - block->start >= size;
        if (enough) found = at;
        at = block->child[!enough];
    }
    return found;
}

/* --- holes --- */

static void first_enter(first_heap *heap, uint32_t at) {
    first_block *block = &heap->blocks[at];
    uint32_t list = first_list(block->end - block->start);
    block->hole = true;
    if (heap->tight) {
        if (at != heap->top) first_plant(heap, at);
        return;
    }
    block->previous = FIRST_NONE;
    block->next = heap->list[list];
    if (block->next != FIRST_NONE) heap->blocks[block->next].previous = at;
    heap->list[list] = at;
    heap->any[list / 64] |= (uint64_t)1 << list % 64;
}

static void first_leave(first_heap *heap, uint32_t at) {
    first_block *block = &heap->blocks[at];
    uint32_t list = first_list(block->end - block->start);
    block->hole = false;
    if (heap->tight) {
        if (at != heap->top) first_uproot(heap, at);
        return;
    }
    if (block->next != FIRST_NONE) heap->blocks[block->next].previous = block->previous;
    if (block->previous != FIRST_NONE)
        heap->blocks[block->previous].next = block->next;
    else
        heap->list[list] = block->next;
    if (heap->list[list] == FIRST_NONE) heap->any[list / 64] &= ~((uint64_t)1 << list % 64);
}

/* Makes a block right above `below` (FIRST_NONE: below all blocks); returns FIRST_NONE if memory is
 * exhausted. */
static uint32_t first_make(first_heap *heap, uint32_t below, uint64_t start, uint64_t end) {
    uint32_t at = heap->spare;
    if (at != FIRST_NONE) {
        heap->spare = heap->blocks[at].next;
    } else {
        if (!tn__reserve(&heap->prepared->context, &heap->blocks, &heap->room,
                         (size_t)heap->used + 1, sizeof *heap->blocks))
            return FIRST_NONE;
        at = heap->used++;
    }
    uint32_t above = below != FIRST_NONE ? heap->blocks[below].above : FIRST_NONE;
    heap->blocks[at] = (first_block){.start = start, .end = end, .below = below, .above = above};
    if (below != FIRST_NONE) heap->blocks[below].above = at;
    if (above != FIRST_NONE)
        heap->blocks[above].below = at;
    else
        heap->top = at;
    return at;
}

/* Merges block `at` with the block above it, which is removed. */
static void first_join(first_heap *heap, uint32_t at) {
    uint32_t gone = heap->blocks[at].above, above = heap->blocks[gone].above;
    heap->blocks[at].end = heap->blocks[gone].end;
    heap->blocks[at].above = above;
    if (above != FIRST_NONE)
        heap->blocks[above].below = at;
    else
        heap->top = at;
    heap->blocks[gone].next = heap->spare;
    heap->spare = gone;
}

static void first_release(first_heap *heap, uint32_t at) {
    uint32_t above = heap->blocks[at].above, below = heap->blocks[at].below;
    if (above != FIRST_NONE && heap->blocks[above].hole) {
        first_leave(heap, above);
        first_join(heap, at);
    }
    if (below != FIRST_NONE && heap->blocks[below].hole) {
        first_leave(heap, below);
        first_join(heap, below);
        at = below;
    }
    first_enter(heap, at);
}

static uint64_t first_align(uint64_t offset, const tn_run_body *body) {
    return (offset + (body->alignment - 1)) & ~(body->alignment - 1);
}

static bool first_fits(const first_heap *heap, uint32_t at, const tn_run_body *body) {
    return first_align(heap->blocks[at].start, body) + body->size <= heap->blocks[at].end;
}

/* Finds a hole for the buffer; FIRST_NONE: no hole fits. */
static uint32_t first_find(const first_heap *heap, const tn_run_body *body) {
    if (heap->tight) return first_tightest(heap, body->size);
    uint32_t list = first_list(body->size), tries = 0;
    for (uint32_t at = heap->list[list]; at != FIRST_NONE && tries < FIRST_TRIES; tries++) {
        if (first_fits(heap, at, body)) return at;
        at = heap->blocks[at].next;
    }
    uint32_t word = (list + 1) / 64;
    uint64_t bits = heap->any[word] & ~(uint64_t)0 << (list + 1) % 64;
    for (;;) {
        for (; bits != 0; bits &= bits - 1) {
            uint32_t found = heap->list[64 * word + (uint32_t)__builtin_ctzll(bits)];
            /* the hole is larger than the buffer, so the buffer fits unless alignment needs
             * bytes */
            if (first_fits(heap, found, body)) return found;
        }
        if (++word == sizeof heap->any / sizeof *heap->any) return FIRST_NONE;
        bits = heap->any[word];
    }
}

/* Extends the hole at the top until the buffer fits into it; FIRST_NONE: no memory, or too high. */
static uint32_t first_grow(first_heap *heap, const tn_run_body *body) {
    uint32_t top = heap->top;
    if (heap->blocks[top].hole) {
        first_leave(heap, top);
    } else {
        uint64_t start = heap->blocks[top].end;
        top = first_make(heap, top, start, start);
        if (top == FIRST_NONE) return top;
    }
    uint64_t start = first_align(heap->blocks[top].start, body);
    if (start > TN__PLAN_HEIGHT_MAX - body->size) return FIRST_NONE;
    heap->blocks[top].end = start + body->size;
    first_enter(heap, top);
    return top;
}

/* Cuts the buffer out of a hole: the bytes of the hole below and above the buffer become holes. */
static uint32_t first_cut(first_heap *heap, uint32_t at, const tn_run_body *body) {
    first_leave(heap, at);
    uint64_t start = first_align(heap->blocks[at].start, body), end = heap->blocks[at].end;
    if (start > heap->blocks[at].start) {
        uint32_t lower = at;
        heap->blocks[lower].end = start;
        first_enter(heap, lower);
        at = first_make(heap, lower, start, end);
        if (at == FIRST_NONE) return at;
    }
    if (start + body->size == end) return at;
    heap->blocks[at].end = start + body->size;
    uint32_t upper = first_make(heap, at, start + body->size, end);
    if (upper != FIRST_NONE) first_enter(heap, upper);
    return upper != FIRST_NONE ? at : FIRST_NONE;
}

static tn_status first_place(first_heap *heap, uint32_t id, uint64_t *offset, tn_error *error) {
    const tn_run_body *body = &heap->prepared->bodies[id];
    uint32_t at = first_find(heap, body);
    if (at == FIRST_NONE) at = first_grow(heap, body);
    if (at != FIRST_NONE) at = first_cut(heap, at, body);
    /* the error is E_STOPPED even if memory is exhausted, because there is no other method to
     * try */
    if (at == FIRST_NONE) TN_FAIL(error, TN_E_STOPPED, "stopped before there was any layout");
    offset[id] = heap->blocks[at].start;
    heap->blocks[at].next = heap->end[body->last];
    heap->end[body->last] = at;
    return TN_OK;
}

static tn_status first_look(const first_heap *heap, uint32_t done, tn_error *error) {
    const tn_context *context = &heap->prepared->context;
    if (heap->run != NULL) return tn__run_work(heap->run, 1);
    if (done % FIRST_LOOK != 0 || context->progress == NULL ||
        context->progress(context->self, "plan", done, heap->prepared->count))
        return TN_OK;
    TN_FAIL(error, TN_E_STOPPED, "stopped before there was any layout");
}

static tn_status first_in_time(first_heap *heap, uint64_t *offset, tn_error *error) {
    const tn__prepared_bank *p = heap->prepared;
    bool pins = (p->needs & TN_PLANS_PINS) != 0;
    for (uint32_t t = 0; t < p->time_count; t++) {
        for (uint32_t at = heap->end[t], next; at != FIRST_NONE; at = next) {
            next = heap->blocks[at].next;
            first_release(heap, at);
        }
        for (uint32_t i = p->until[t]; i < p->until[t + 1]; i++) {
            uint32_t id = p->by_first[i];
            if (i + FIRST_AHEAD < p->count) {
                uint32_t soon = p->by_first[i + FIRST_AHEAD];
                __builtin_prefetch(&p->bodies[soon]);
                __builtin_prefetch(&offset[soon], 1);
            }
            TN_TRY(first_look(heap, i, error));
            if (p->bodies[id].size == 0 || (pins && p->pins[id] != TN__FREE)) continue;
            TN_TRY(first_place(heap, id, offset, error));
        }
    }
    return TN_OK;
}

/* Places all buffers one after the other, without sharing memory. */
static tn_status first_end_to_end(const tn__prepared_bank *p, uint64_t base, uint64_t *offset,
                                  tn_error *error) {
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->bodies[i].size == 0 || p->pins[i] != TN__FREE) continue;
        offset[i] = tn__prepared_above_reserved(p, &p->bodies[i], base);
        if (offset[i] > TN__PLAN_HEIGHT_MAX - p->bodies[i].size)
            TN_FAIL(error, TN_E_STOPPED, "stopped before there was any layout");
        base = offset[i] + p->bodies[i].size;
    }
    return TN_OK;
}

/* Places all buffers above `base`. */
static tn_status first_heap_run(first_heap *heap, uint64_t base, uint64_t *offset,
                                tn_error *error) {
    const tn__prepared_bank *p = heap->prepared;
    size_t times = p->time_count;
    heap->spare = heap->top = heap->root = FIRST_NONE;
    for (uint32_t i = 0; i < FIRST_LISTS; i++) heap->list[i] = FIRST_NONE;
    heap->end = tn__alloc(&p->context, times * sizeof *heap->end);
    if (heap->end != NULL) memset(heap->end, 0xff, times * sizeof *heap->end);
    bool ready = heap->end != NULL && first_make(heap, FIRST_NONE, 0, base) != FIRST_NONE;
    tn_status status =
        ready ? first_in_time(heap, offset, error) : tn__no_memory(error, "the first layout");
    tn__free(&p->context, heap->end, times * sizeof *heap->end);
    tn__free(&p->context, heap->blocks, heap->room * sizeof *heap->blocks);
    return status;
}

tn_status tn__first_layout(const tn__prepared_bank *p, uint64_t *offset, uint64_t *peak,
                           tn_error *error) {
    uint64_t base = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        bool pinned = p->pins[i] != TN__FREE;
        offset[i] = pinned ? p->pins[i] : 0;
        if (pinned && p->pins[i] + p->bodies[i].size > base) base = p->pins[i] + p->bodies[i].size;
    }
    if (p->streams > 1 || (p->needs & TN_PLANS_APART))
        TN_TRY(first_end_to_end(p, base, offset, error));
    else
        TN_TRY(first_heap_run(&(first_heap){.prepared = p}, base, offset, error));
    *peak = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->bodies[i].size > 0 && offset[i] + p->bodies[i].size > *peak)
            *peak = offset[i] + p->bodies[i].size;
    return TN_OK;
}

/* Whether the pool can be simulated. A hole in the treap fits whenever it is long enough, because
 * every start is aligned for every buffer. */
bool tn__run_replays(const tn_run *run) {
    const tn__prepared_bank *p = run->prepared;
    uint64_t sizes = 0, alignment = 1;
    if (p->needs & ~(uint32_t)TN_PLANS_ALIGNMENT) return false;
    for (uint32_t i = 0; i < p->count; i++) {
        sizes |= p->bodies[i].size;
        if (p->bodies[i].alignment > alignment) alignment = p->bodies[i].alignment;
    }
    return (sizes & (alignment - 1)) == 0;
}

tn_status tn__run_replay(tn_run *run, bool last) {
    uint64_t *offset = tn__run_scratch(run, run->prepared->count, sizeof *offset);
    if (offset == NULL) return TN_E_NO_MEMORY;
    first_heap heap = {.prepared = run->prepared, .tight = true, .last = last, .run = run};
    TN_TRY(first_heap_run(&heap, 0, offset, run->error));
    tn__run_keep_offsets(run, offset);
    return TN_OK;
}
