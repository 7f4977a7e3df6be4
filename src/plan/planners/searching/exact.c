/* exact.c - searches completely: finds the lowest peak, or proves that no plan fits.
 *
 * It starts from the best quick plan (and a short run of `scale`), so it always has a result. Then
 * it repeatedly asks search.c the question: is there a placement within this capacity? It is
 * unpredictable which order of the buffers finds one, and for which capacity: a search that fails
 * after a second may succeed at once with two buffers exchanged, or with one more unit of capacity.
 * So there are three kinds of question, which share the work:
 *
 *   plain      the lower bound, or the capacity that the caller gave, in each of a few static
 *              orders, with a limit of nodes that grows fourfold from turn to turn. On real
 *              networks the first turn usually finds a placement. A search that completes
 *              without finding one is a proof and raises the bound.
 *   shuffled   a random capacity between the bound and the best plan, an order with neighbours
 *              exchanged, and a small limit. These random trials lower the peak if the bound
 *              cannot be reached.
 *   window     only the buffers in a few crowded slots, at the bound and above: if alignments or
 *              pins keep every plan above the peak of live bytes, this proves it.
 *
 * Questions of the first two kinds come in batches. The questions of a batch do not depend on each
 * other, so threads can share them; their answers are evaluated in order, so the result does not
 * depend on the number of threads. The search ends when the bound and the best plan meet, which
 * proves the plan optimal.
 *
 * Buffers may have conflicts other than "one lies above the other" (windows that pass under each
 * other). They are planned too, but then a failed search proves nothing.
 *
 * Cost: exponential at worst; memory O(buffers + conflicts) per thread. For up to a few thousand
 * buffers.
 * Source: Moffitt, MiniMalloc, ASPLOS 2023 (orders, growing limits); the random trials are new
 * here.
 */
#include "plan/frame/planner.h"
#include "plan/search/search.h"

#include <pthread.h>
#include <time.h>

/* limit of buffers: for more, making tables and orders takes longer than making plans */
#define EXACT_BODIES_MAX 8192u
#define EXACT_CONFLICTS_MAX ((uint64_t)1 << 24)
/* limit of the nodes of shuffled questions, per buffer, after which the search gives up if no proof
 * is possible */
#define EXACT_NODES_WITHOUT_PROOF 4000u
#define EXACT_THREADS_MAX 64u /* limit of the threads of one search */
/* nanoseconds between two checks whether to stop, while other threads work */
#define EXACT_WAIT_NS 20000000
/* limit of buffers for which running all quick planners takes little time */
#define EXACT_QUICK 4096u
#define EXACT_BEGIN_WORK 50u /* placements that `scale` makes per buffer for the first plan */
/* number of visited nodes after which buffers are first joined into blocks (`guillotine`) */
#define EXACT_BLOCKS_FIRST 400000u
/* after buffers were joined into blocks, they are joined again when the number of visited nodes has
 * grown by this factor */
#define EXACT_BLOCKS_AGAIN 4u
/* work of `guillotine` each time buffers are joined into blocks, per node visited so far */
#define EXACT_BLOCKS_SHARE 3u
/* if a batch has fewer nodes, starting threads costs more than they save */
#define EXACT_ALONE 20000u

static const char *const exact_orders[] = {"TWA", "TAW", "WAT", "TOW", "OTW"};
static const uint32_t exact_widths[] = {2, TN__SEARCH_WIDE};
static const uint32_t exact_windows[] = {3, 5, 9, 2, 16};
#define EXACT_COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))
#define EXACT_ORDERS EXACT_COUNT(exact_orders)
#define EXACT_QUESTIONS (EXACT_ORDERS * EXACT_COUNT(exact_widths))
/* limit of the doublings of a node limit: 2^40 times the first limit exceeds any limit of time */
#define EXACT_DOUBLINGS_MAX 40u
/* number of nodes of shuffled questions for each node of a plain question */
#define EXACT_SHUFFLED_SHARE 3u
/* number of turns at the beginning in which plain and shuffled questions get equal numbers of
 * nodes */
#define EXACT_EVEN_TURNS 4u
/* number of nodes of shuffled questions for each node of a window question */
#define EXACT_WINDOW_SHARE 6u
/* number of windows, all of one width, that a turn of window questions examines */
#define EXACT_WINDOWS 6u
/* limit of nodes for a window at first; it grows with the nodes that shuffled questions visit */
#define EXACT_WINDOW_NODES 100u

/* A question to search.c (is there a placement within `capacity`?) and its answer. */
typedef struct exact_question {
    tn__search_order order;
    uint64_t capacity, node_limit, nodes;
    tn__search_outcome outcome;
    bool asked;
    uint64_t *found; /* [input.count], the offsets found, in units */
} exact_question;

typedef struct exact_state {
    tn_run *run;
    tn__search_input input;
    tn__search_body *bodies;
    tn__search_piece *pieces;
    tn__search_conflict *conflicts;
    uint32_t *ids;        /* [input.count], the run's number of each buffer of the search */
    uint64_t *offsets;    /* [run count], offsets in bytes of all buffers of the run */
    uint64_t *slot_bytes; /* [slot count], scratch memory */
    uint64_t unit;        /* number of bytes per unit */
    /* the problem has several streams, so buffers that never overlap in time may conflict */
    bool streams;
    /* low: proved lower bound of the peak; high: peak of the best plan; both in units */
    uint64_t low, high;
    /* the questions of the current batch, which threads share */
    exact_question questions[EXACT_QUESTIONS];
    uint32_t next;  /* the next question of the batch to work on */
    uint32_t helps; /* number of threads that still help with the batch */
    pthread_mutex_t lock;
    pthread_cond_t done; /* signalled when `helps` becomes 0 */
    /* one search for each thread that works on a batch, made when it is first needed */
    tn__search *searches[EXACT_THREADS_MAX];
    /* number of turns so far for each kind of question, and number of nodes that they visited */
    uint32_t plain_turns, shuffled_turns, window_turns;
    uint64_t plain_nodes, shuffled_nodes, window_nodes;
    /* number of visited nodes after which buffers are joined into blocks again */
    uint64_t blocks_after;
    /* the shuffled order that found the last better plan; every second shuffled turn uses it
     * again */
    tn__search_order lucky;
} exact_state;

/* --- the problem in units, with its conflicts --- */

static uint64_t exact_gcd(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Computes the unit of offsets: the greatest common divisor of all window bounds, alignments, sizes
 * and pins. In a left-justified placement, every offset is a sum of window bounds, rounded up to
 * alignments, from 0 or a pin, so it is a multiple of the unit. */
static uint64_t exact_unit(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    const tn_run_piece *pieces = tn__run_pieces(run);
    uint64_t unit = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        unit = exact_gcd(unit, bodies[i].size);
        if (bodies[i].alignment > 1) unit = exact_gcd(unit, bodies[i].alignment);
        if (tn__run_pinned(run, i)) unit = exact_gcd(unit, tn__run_offset(run, i));
        for (uint32_t k = 0; k < bodies[i].piece_count; k++) {
            const tn_run_piece *piece = &pieces[bodies[i].piece_first + k];
            unit = exact_gcd(exact_gcd(unit, piece->lo), piece->hi);
        }
    }
    return unit > 0 ? unit : 1;
}

static uint64_t exact_max(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint32_t exact_run_piece(const exact_state *exact, uint32_t body) {
    return tn__run_bodies(exact->run)[exact->ids[body]].piece_first;
}

/* Computes the distances that two buffers must keep in either order; false if they never overlap in
 * time. If two windows do not overlap at equal offsets, the conflict is more than "one lies above
 * the other", and the input is incomplete. */
static bool exact_conflict(exact_state *exact, uint32_t a, uint32_t b,
                           tn__search_conflict *conflict) {
    const tn__search_body *x = &exact->bodies[a], *y = &exact->bodies[b];
    bool meet = false;
    /* skips the pieces of the second buffer that end before this piece begins; the pieces of both
     * buffers are sorted by first step */
    for (uint32_t i = 0, from = 0; i < x->piece_count; i++) {
        const tn__search_piece *p = &exact->pieces[x->piece_first + i];
        while (!exact->streams && from < y->piece_count &&
               exact->pieces[y->piece_first + from].last <= p->first)
            from++;
        for (uint32_t k = from; k < y->piece_count; k++) {
            const tn__search_piece *q = &exact->pieces[y->piece_first + k];
            if (!exact->streams && q->first >= p->last) break;
            if ((p->first >= q->last || q->first >= p->last) &&
                (!exact->streams || !tn__run_pieces_meet(exact->run, exact_run_piece(exact, a) + i,
                                                         exact_run_piece(exact, b) + k)))
                continue;
            bool simple = p->hi > q->lo && q->hi > p->lo;
            if (!simple) exact->input.complete = false;
            if (p->hi > q->lo) conflict->above = exact_max(conflict->above, p->hi - q->lo);
            if (q->hi > p->lo) conflict->below = exact_max(conflict->below, q->hi - p->lo);
            meet = true;
        }
    }
    if (meet && (x->first >= y->last || y->first >= x->last)) exact->input.crosses = true;
    return meet;
}

/* Finds all conflicts in two passes over all pairs: the first counts them, the second stores them.
 * False if there are too many, or if memory or time is out. */
static bool exact_find_conflicts(exact_state *exact) {
    exact->streams = tn__run_has_streams(exact->run);
    for (int pass = 0; pass < 2; pass++) {
        uint64_t at = 0;
        for (uint32_t a = 0; a < exact->input.count; a++) {
            tn__search_body *body = &exact->bodies[a];
            body->conflict_first = (uint32_t)at;
            if (!tn__run_goes_on(exact->run)) return false;
            for (uint32_t b = 0; b < exact->input.count; b++) {
                tn__search_conflict conflict = {.other = b};
                const tn__search_body *other = &exact->bodies[b];
                bool apart = body->first >= other->last || other->first >= body->last;
                if (a == b || (apart && !exact->streams)) continue;
                if (pass == 0) {
                    /* the first pass counts all pairs with overlapping hulls, which may be more
                     * than the conflicts */
                    at++;
                } else if (exact_conflict(exact, a, b, &conflict)) {
                    exact->conflicts[at++] = conflict;
                }
            }
            body->conflict_count = (uint32_t)(at - body->conflict_first);
            if (pass > 0)
                tn__search_sort(exact->conflicts + body->conflict_first, body->conflict_count);
        }
        if (pass > 0) continue;
        if (at > EXACT_CONFLICTS_MAX) return false;
        exact->conflicts = tn__run_scratch(exact->run, (size_t)at, sizeof *exact->conflicts);
        if (exact->conflicts == NULL) return false;
    }
    exact->input.conflicts = exact->conflicts;
    return true;
}

static void exact_fill(exact_state *exact) {
    tn_run *run = exact->run;
    const tn_run_piece *pieces = tn__run_pieces(run);
    uint32_t count = 0, piece_count = 0;
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        const tn_run_body *body = &tn__run_bodies(run)[i];
        if (body->size == 0 || body->piece_count == 0) continue;
        uint64_t span = tn__run_span(run, i), unit = exact->unit;
        exact->ids[count] = i;
        exact->bodies[count++] = (tn__search_body){
            .size = body->size / unit,
            .alignment = body->alignment > 1 ? body->alignment / unit : 1,
            .pin = tn__run_pinned(run, i) ? tn__run_offset(run, i) / unit : TN__SEARCH_FREE,
            .span = span,
            .area = tn__mul_sat(span, body->size),
            .first = body->first,
            .last = body->last,
            .piece_first = piece_count,
            .piece_count = body->piece_count};
        for (uint32_t k = 0; k < body->piece_count; k++) {
            const tn_run_piece *piece = &pieces[body->piece_first + k];
            exact->pieces[piece_count++] =
                (tn__search_piece){piece->first, piece->last, piece->lo / unit, piece->hi / unit};
        }
    }
    uint32_t times = tn__run_time_count(run);
    exact->input = (tn__search_input){.count = count,
                                      .slot_count = times > 0 ? times - 1 : 0,
                                      .bodies = exact->bodies,
                                      .pieces = exact->pieces,
                                      .complete = true,
                                      .unlike = tn__run_has_streams(run)};
}

/* Sets up the search. Returns false if that is impossible (too many buffers or conflicts, no
 * memory); the plan of the quick planners is then the result. */
static bool exact_prepare(exact_state *exact) {
    tn_run *run = exact->run;
    uint32_t n = tn__run_count(run), pieces = 0;
    if (n > EXACT_BODIES_MAX) return false;
    for (uint32_t i = 0; i < n; i++) pieces += tn__run_bodies(run)[i].piece_count;
    exact->bodies = tn__run_scratch(run, n, sizeof *exact->bodies);
    exact->pieces = tn__run_scratch(run, pieces, sizeof *exact->pieces);
    exact->ids = tn__run_scratch(run, n, sizeof *exact->ids);
    exact->offsets = tn__run_scratch(run, n, sizeof *exact->offsets);
    uint64_t *found = tn__run_scratch(run, (size_t)n * EXACT_QUESTIONS, sizeof *found);
    if (!exact->bodies || !exact->pieces || !exact->ids || !exact->offsets || !found) return false;
    for (size_t i = 0; i < EXACT_QUESTIONS; i++) exact->questions[i].found = found + i * n;
    exact->unit = exact_unit(run);
    exact_fill(exact);
    exact->slot_bytes = tn__run_scratch(run, exact->input.slot_count, sizeof *exact->slot_bytes);
    if (exact->slot_bytes == NULL) return false;
    if (!exact_find_conflicts(exact)) return false;
    exact->searches[0] = tn__search_create(tn__run_context(run), &exact->input);
    exact->low = (tn__run_lower_bound(run) + exact->unit - 1) / exact->unit;
    exact->high = (tn__run_best(run) + exact->unit - 1) / exact->unit;
    return exact->searches[0] != NULL;
}

/* --- asking --- */

static bool exact_go_on(void *self) { return tn__run_goes_on(self); }
static bool exact_go_on_elsewhere(void *self) { return !tn__run_is_over(self); }

/* Works on questions of the batch until none is left. Skips a question if an earlier one has found
 * a plan at or below its capacity, or has proved that its capacity is too low. */
static void exact_work(exact_state *exact, tn__search *search, tn__search_poll poll) {
    for (;;) {
        pthread_mutex_lock(&exact->lock);
        uint32_t index = exact->next;
        exact_question *question = index < EXACT_QUESTIONS ? &exact->questions[index] : NULL;
        bool needed = true;
        for (uint32_t i = 0; i < index && question != NULL; i++) {
            const exact_question *before = &exact->questions[i];
            if (!before->asked) continue;
            if (before->outcome == TN__SEARCH_FOUND && question->capacity >= before->capacity)
                needed = false;
            if (before->outcome == TN__SEARCH_NONE && exact->input.complete &&
                question->capacity <= before->capacity)
                needed = false;
        }
        if (question != NULL) exact->next++;
        pthread_mutex_unlock(&exact->lock);
        if (question == NULL) return;
        if (!needed) continue;
        uint64_t nodes;
        tn__search_outcome outcome =
            tn__search_decide(search, question->order, question->capacity, question->node_limit,
                              poll, question->found, &nodes);
        pthread_mutex_lock(&exact->lock);
        /* counts the question itself as one node, because a search may answer it without visiting
         * any */
        question->nodes = nodes + 1;
        question->outcome = outcome;
        question->asked = true;
        pthread_mutex_unlock(&exact->lock);
        if (!poll.go_on(poll.self)) return;
    }
}

typedef struct exact_helper {
    exact_state *exact;
    tn__search *search;
    pthread_t thread;
} exact_helper;

static void *exact_help(void *argument) {
    exact_helper *helper = argument;
    exact_work(helper->exact, helper->search,
               (tn__search_poll){exact_go_on_elsewhere, helper->exact->run});
    pthread_mutex_lock(&helper->exact->lock);
    if (--helper->exact->helps == 0) pthread_cond_signal(&helper->exact->done);
    pthread_mutex_unlock(&helper->exact->lock);
    return NULL;
}

/* Waits until the threads that help with the batch have finished. A question may take minutes, so
 * the run's own thread asks the caller meanwhile whether to continue; the other threads must
 * not. */
static void exact_await(exact_state *exact) {
    pthread_mutex_lock(&exact->lock);
    while (exact->helps > 0) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += EXACT_WAIT_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec++;
        }
        if (pthread_cond_timedwait(&exact->done, &exact->lock, &until) == 0) continue;
        pthread_mutex_unlock(&exact->lock);
        /* updates the run's limits, which the other threads check */
        (void)tn__run_goes_on(exact->run);
        pthread_mutex_lock(&exact->lock);
    }
    pthread_mutex_unlock(&exact->lock);
}

/* Works on the batch with all threads; if a thread cannot be created, the others do its work. */
static void exact_ask(exact_state *exact) {
    exact_helper helpers[EXACT_THREADS_MAX];
    uint32_t threads = tn__run_threads(exact->run), started = 0;
    uint64_t nodes = 0;
    for (uint32_t i = 0; i < EXACT_QUESTIONS; i++) {
        exact->questions[i].asked = false;
        nodes = tn__add_sat(nodes, exact->questions[i].node_limit);
    }
    exact->next = 0;
    if (threads > EXACT_QUESTIONS) threads = EXACT_QUESTIONS;
    if (nodes < EXACT_ALONE) threads = 1;
    for (uint32_t i = 1; i < threads; i++) {
        tn__search **search = &exact->searches[i];
        if (*search == NULL)
            *search = tn__search_create(tn__run_context(exact->run), &exact->input);
        if (*search == NULL) break;
        helpers[started] = (exact_helper){.exact = exact, .search = *search};
        pthread_mutex_lock(&exact->lock);
        bool runs =
            pthread_create(&helpers[started].thread, NULL, exact_help, &helpers[started]) == 0;
        exact->helps += runs;
        pthread_mutex_unlock(&exact->lock);
        if (!runs) break;
        started++;
    }
    exact_work(exact, exact->searches[0], (tn__search_poll){exact_go_on, exact->run});
    exact_await(exact);
    for (uint32_t i = 0; i < started; i++) pthread_join(helpers[i].thread, NULL);
}

static void exact_keep(exact_state *exact, const uint64_t *found) {
    for (uint32_t i = 0; i < tn__run_count(exact->run); i++) exact->offsets[i] = 0;
    for (uint32_t i = 0; i < tn__run_count(exact->run); i++)
        if (tn__run_pinned(exact->run, i)) exact->offsets[i] = tn__run_offset(exact->run, i);
    for (uint32_t i = 0; i < exact->input.count; i++)
        exact->offsets[exact->ids[i]] = found[i] * exact->unit;
    tn__run_keep_offsets(exact->run, exact->offsets);
    exact->high = (tn__run_best(exact->run) + exact->unit - 1) / exact->unit;
}

/* Evaluates the answers of a batch in order, as if the questions had been asked one by one. *nodes:
 * sum of the nodes of the answers that count. */
static tn_status exact_take(exact_state *exact, uint64_t *nodes) {
    *nodes = 0;
    for (uint32_t i = 0; i < EXACT_QUESTIONS; i++) {
        const exact_question *question = &exact->questions[i];
        if (!question->asked || question->capacity >= exact->high ||
            question->capacity < exact->low)
            continue;
        uint64_t left = tn__run_work_left(exact->run);
        /* the question was answered after the work limit, so its answer does not count */
        bool over = question->nodes > left;
        TN_TRY(tn__run_work(exact->run, over ? left + 1 : question->nodes));
        *nodes += question->nodes;
        if (question->outcome == TN__SEARCH_NO_MEMORY) return TN_E_STOPPED;
        if (question->outcome == TN__SEARCH_FOUND) {
            exact_keep(exact, question->found);
            exact->lucky = question->order;
        }
        if (question->outcome == TN__SEARCH_NONE && exact->input.complete) {
            exact->low = question->capacity + 1;
            tn__run_raise_bound(exact->run, exact->low * exact->unit);
        }
    }
    return TN_OK;
}

/* --- choosing questions --- */

static uint64_t exact_wanted(const exact_state *exact) {
    return tn__run_has_capacity(exact->run) ? tn__run_capacity(exact->run) / exact->unit
                                            : exact->low;
}

static bool exact_is_done(const exact_state *exact) {
    if (exact->low >= exact->high) return true;
    if (!tn__run_has_capacity(exact->run)) return false;
    uint64_t capacity = tn__run_capacity(exact->run) / exact->unit;
    return exact->high <= capacity || exact->low > capacity;
}

static void exact_plain_turn(exact_state *exact) {
    uint32_t turn = exact->plain_turns++;
    uint64_t limit = (uint64_t)2 * (exact->input.count + 8)
                     << (turn < EXACT_DOUBLINGS_MAX / 2 ? 2 * turn : EXACT_DOUBLINGS_MAX);
    for (uint32_t i = 0; i < EXACT_QUESTIONS; i++) {
        exact_question *question = &exact->questions[i];
        question->order = (tn__search_order){.keys = exact_orders[i % EXACT_ORDERS],
                                             .width = exact_widths[i / EXACT_ORDERS]};
        question->capacity = exact_wanted(exact);
        question->node_limit = limit;
    }
}

static void exact_shuffled_turn(exact_state *exact) {
    uint32_t turn = exact->shuffled_turns++;
    uint32_t windows = EXACT_COUNT(exact_windows), doublings = turn % 3 + turn / 64;
    if (doublings > EXACT_DOUBLINGS_MAX) doublings = EXACT_DOUBLINGS_MAX;
    tn__random random = {.state = tn__run_seed(exact->run) * 0x9e3779b97f4a7c15u + turn};
    for (uint32_t i = 0; i < EXACT_QUESTIONS; i++) {
        exact_question *question = &exact->questions[i];
        /* takes the mean of two random numbers, which is seldom near either end of the range */
        uint64_t gap = exact->high - exact->low;
        uint64_t above = (tn__random_below(&random, gap) + tn__random_below(&random, gap)) / 2;
        bool lucky = turn % 2 == 1 && exact->lucky.keys != NULL;
        question->order = (tn__search_order){.keys = exact_orders[i % EXACT_ORDERS],
                                             .width = exact_widths[i / EXACT_ORDERS]};
        if (lucky) question->order = exact->lucky;
        question->order.seed = tn__random_next(&random);
        question->order.window = exact_windows[lucky ? i % windows : turn / 2 % windows];
        bool given = tn__run_has_capacity(exact->run);
        question->capacity = given ? exact_wanted(exact) : exact->low + above;
        question->node_limit = (uint64_t)(4 * (exact->input.count + 8)) << doublings;
    }
}

static tn_status exact_turn(exact_state *exact) {
    uint64_t share = exact->plain_turns < EXACT_EVEN_TURNS ? 1 : EXACT_SHUFFLED_SHARE;
    bool plain = share * exact->plain_nodes <= exact->shuffled_nodes;
    uint64_t nodes, left = tn__run_work_left(exact->run);
    if (plain)
        exact_plain_turn(exact);
    else
        exact_shuffled_turn(exact);
    for (uint32_t i = 0; i < EXACT_QUESTIONS; i++)
        if (exact->questions[i].node_limit > left) exact->questions[i].node_limit = left;
    exact_ask(exact);
    tn_status status = exact_take(exact, &nodes);
    *(plain ? &exact->plain_nodes : &exact->shuffled_nodes) += nodes;
    return status;
}

/* --- windows --- */

/* Finds crowded slots: at most EXACT_WINDOWS time slots, those with the most live bytes, at least
 * `width` slots apart. Returns their number. */
static uint32_t exact_crowded(exact_state *exact, uint32_t width, uint32_t slots[EXACT_WINDOWS]) {
    uint64_t *bytes = exact->slot_bytes;
    uint32_t count = 0;
    memset(bytes, 0, exact->input.slot_count * sizeof *bytes);
    for (uint32_t i = 0; i < exact->input.count; i++) {
        for (uint32_t k = 0; k < exact->bodies[i].piece_count; k++) {
            const tn__search_piece *piece = &exact->pieces[exact->bodies[i].piece_first + k];
            for (uint32_t slot = piece->first; slot < piece->last; slot++)
                bytes[slot] += piece->hi - piece->lo;
        }
    }
    for (; count < EXACT_WINDOWS; count++) {
        uint32_t best = 0;
        for (uint32_t slot = 1; slot < exact->input.slot_count; slot++)
            if (bytes[slot] > bytes[best]) best = slot;
        if (bytes[best] == 0) break;
        slots[count] = best;
        for (uint32_t slot = best < width ? 0 : best - width;
             slot <= best + width && slot < exact->input.slot_count; slot++)
            bytes[slot] = 0;
    }
    return count;
}

/* Raises the bound by searching the buffers in the window of slots [from, to) alone. The capacity
 * rises from the bound in doubling steps while no placement is found, then by bisection between the
 * highest capacity that is too small and the lowest that fits. */
static tn_status exact_window(exact_state *exact, uint32_t from, uint32_t to, uint64_t node_limit) {
    uint64_t fits = exact->high, step = 1, capacity = exact->low;
    while (exact->low < fits) {
        uint64_t nodes;
        tn__search_order order = {.keys = exact_orders[exact->window_turns % EXACT_ORDERS],
                                  .width = TN__SEARCH_WIDE};
        tn__search_outcome outcome =
            tn__window_decide(tn__run_context(exact->run), &exact->input, from, to, order, capacity,
                              node_limit, (tn__search_poll){exact_go_on, exact->run}, &nodes);
        exact->window_nodes += nodes + 1;
        TN_TRY(tn__run_work(exact->run, nodes + 1));
        if (outcome == TN__SEARCH_LIMIT || outcome == TN__SEARCH_NO_MEMORY) return TN_OK;
        if (outcome == TN__SEARCH_FOUND) {
            fits = capacity;
        } else {
            exact->low = capacity + 1;
            tn__run_raise_bound(exact->run, exact->low * exact->unit);
        }
        /* open: no capacity has been found yet that suffices for the window */
        bool open = fits == exact->high;
        capacity = open ? exact->low + step : exact->low + (fits - exact->low) / 2;
        step *= 2;
        if (capacity >= exact->high) capacity = exact->high - 1;
    }
    return TN_OK;
}

/* Searches windows of one width around the crowded slots. Each turn doubles the width; after the
 * widest, it starts narrow again. */
static tn_status exact_window_turn(exact_state *exact) {
    uint32_t slots[EXACT_WINDOWS], widths = 1, slot_count = exact->input.slot_count;
    while (widths < 31 && 1u << widths < slot_count) widths++;
    uint32_t width = 1u << exact->window_turns % widths;
    uint64_t limit =
        EXACT_WINDOW_NODES + exact->shuffled_nodes / (EXACT_WINDOW_SHARE * EXACT_WINDOWS);
    uint32_t count = exact_crowded(exact, width, slots);
    for (uint32_t i = 0; i < count && !exact_is_done(exact); i++) {
        uint32_t from = slots[i] < width / 2 ? 0 : slots[i] - width / 2;
        uint32_t to = from + width < slot_count ? from + width : slot_count;
        uint64_t left = tn__run_work_left(exact->run);
        TN_TRY(exact_window(exact, from, to, limit < left ? limit : left));
    }
    exact->window_turns++;
    return TN_OK;
}

static bool exact_wants_window(const exact_state *exact) {
    return exact->input.complete && exact->shuffled_turns > 0 &&
           EXACT_WINDOW_SHARE * exact->window_nodes <= exact->shuffled_nodes;
}

/* Returns whether the search gives up. With an incomplete input no search can prove anything, so it
 * might never end; the number of nodes is therefore limited. */
static bool exact_gives_up(const exact_state *exact) {
    return !exact->input.complete &&
           exact->shuffled_nodes >= (uint64_t)EXACT_NODES_WITHOUT_PROOF * exact->input.count;
}

/* Plans once with `guillotine`, which joins buffers that seem to have been cut from one into
 * blocks: there are fewer blocks than buffers, and often they have no slack. The caller repeats
 * this whenever the number of visited nodes has grown fourfold. */
static tn_status exact_block_turn(exact_state *exact) {
    const tn_planner *guillotine = tn__planner_find("guillotine");
    uint64_t nodes = exact->plain_nodes + exact->shuffled_nodes;
    exact->blocks_after = EXACT_BLOCKS_AGAIN * nodes;
    if (guillotine == NULL) return TN_OK;
    TN_TRY(tn__run_portfolio(exact->run, &guillotine, 1, EXACT_BLOCKS_SHARE * nodes));
    exact->high = (tn__run_best(exact->run) + exact->unit - 1) / exact->unit;
    return TN_OK;
}

static bool exact_wants_blocks(const exact_state *exact) {
    return exact->plain_nodes + exact->shuffled_nodes >= exact->blocks_after;
}

/* Makes a first plan: with the quick planners, or with `guillotine` if there are many buffers, and
 * then with a short run of `scale`. */
static tn_status exact_begin(tn_run *run) {
    const tn_planner *scale = tn__planner_find("scale"),
                     *guillotine = tn__planner_find("guillotine");
    uint64_t work = (uint64_t)EXACT_BEGIN_WORK * tn__run_count(run);
    if (tn__run_count(run) <= EXACT_QUICK)
        TN_TRY(tn__run_quick_portfolio(run));
    else if (guillotine != NULL)
        TN_TRY(tn__run_portfolio(run, &guillotine, 1, work));
    if (tn__run_is_done(run) || scale == NULL) return TN_OK;
    return tn__run_portfolio(run, &scale, 1, work);
}

static tn_status exact_solve(tn_run *run) {
    if (tn__run_by_cost(run) || (tn__run_needs(run) & TN_PLANS_APART)) return tn__reuse_exact(run);
    if (tn__run_best(run) == UINT64_MAX) TN_TRY(exact_begin(run));
    if (tn__run_is_done(run)) return TN_OK;
    exact_state *exact = tn__run_scratch(run, 1, sizeof *exact);
    /* the search cannot be set up, so the quick plan is the result */
    if (exact == NULL) return TN_OK;
    exact->run = run;
    exact->blocks_after = EXACT_BLOCKS_FIRST;
    tn_status status = TN_OK;
    pthread_mutex_init(&exact->lock, NULL);
    pthread_cond_init(&exact->done, NULL);
    if (exact_prepare(exact))
        while (status == TN_OK && !exact_is_done(exact) && !exact_gives_up(exact))
            status = exact_wants_window(exact)   ? exact_window_turn(exact)
                     : exact_wants_blocks(exact) ? exact_block_turn(exact)
                                                 : exact_turn(exact);
    for (uint32_t i = 0; i < EXACT_THREADS_MAX; i++) tn__search_destroy(exact->searches[i]);
    pthread_cond_destroy(&exact->done);
    pthread_mutex_destroy(&exact->lock);
    return status;
}

const tn_planner tn__planner_exact = {
    .name = "exact",
    .summary = "complete search: proves the smallest arena, or that no plan fits",
    .source = "Moffitt 2023 (MiniMalloc); ours",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_BY_COST,
    .solve = exact_solve,
};
