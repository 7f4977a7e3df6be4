/* banks.c - chooses a memory bank for each buffer that several banks may hold, so that memory
 * traffic takes the least time.
 *
 * A byte of traffic takes 1 / bytes_per_s of its bank, so the time that a buffer saves in a faster
 * bank is proportional to its traffic. Banks are filled in order, fastest first. Buffers with the
 * most traffic per byte and step are taken first, as long as the live bytes at each step stay
 * within the capacity; a range tree over the steps keeps their maximum over any range. Live bytes
 * are only a lower bound of a plan's peak, so the chosen buffers are then planned. While the plan
 * exceeds the capacity, buffers are removed from the bank: the least dense of those that are live
 * together with a buffer placed too high. Each round removes twice as many as the round before. At
 * the end, removed buffers are brought back if the plan has a hole for them. A group of tied
 * buffers counts as one buffer in this file.
 *
 * If the slowest bank can hold all other buffers, the choice is repeated with other orders (traffic
 * per byte, size), and with a method that simply puts each buffer into the fastest bank that has a
 * hole for it. The choice with the least time for traffic is kept. So the result is never slower
 * than the order by size, or than the slowest bank for all buffers.
 *
 * With two banks, few buffers (BANKS_SEARCH_UNITS, BANKS_SEARCH_BODIES) and a slower bank that can
 * hold all of them, the choice is searched: sets of buffers for the faster bank are tried in order
 * of decreasing traffic, until a set has a plan or has no more traffic than the heuristic's choice.
 * If every better set was proved not to fit, the choice is proved to be optimal.
 *
 * Banks of unknown speed come last, in their order, each assumed to be half as fast as the bank
 * before it. Moving a buffer from one bank to another during its live range is not modelled.
 *
 * Cost: O(n log n) and O(log n) plans for each bank and each order; the search makes at most
 * BANKS_SEARCH_PLANS plans.
 */
#include "base/range_tree.h"
#include "plan/frame/planner_run.h"

#include <float.h>
#include <inttypes.h>

/* limit of units (buffers with a choice) for the search, which lists and sorts 2^14 sets */
#define BANKS_SEARCH_UNITS 14u
/* limit of buffers for the search, because small problems can be planned many times */
#define BANKS_SEARCH_BODIES 64u
/* after this number of plans, the search ends and the heuristic's choice is kept */
#define BANKS_SEARCH_PLANS 200u
#define BANKS_NONE UINT32_MAX /* in place of a bank's number: no bank is chosen yet */

__extension__ typedef unsigned __int128 banks_wide;

typedef struct banks_unit { /* a buffer, or a group of tied buffers, that several banks may hold */
    tn_body_id id;
    bool taken;
    uint64_t traffic;
    double density; /* traffic per byte and step */
    uint64_t size;
} banks_unit;

typedef struct banks_profile { /* live bytes of one bank at each step */
    int64_t *times;
    uint32_t time_count;
    tn__range_tree live; /* tree over the steps: the live bytes from times[i] on have the index i */
    int64_t *memory;     /* memory of the tree `live` */
} banks_profile;

/* The order in which buffers are offered to a bank, and how they are placed. */
typedef struct banks_way {
    int (*order)(const void *a, const void *b);
    /* buffers are placed into holes one by one, instead of planning them together */
    bool simply;
} banks_way;

typedef struct banks_answer {
    tn_bank_id *bank; /* [bodies] */
    uint64_t *offset; /* [bodies] */
    bool *planned;    /* [banks] */
    bool least_time;
    double seconds;
} banks_answer;

typedef struct banks {
    tn__call *call;
    banks_unit *units; /* buffers that several banks may hold, sorted by density, densest first */
    uint32_t unit_count;
    tn_bank_id *order; /* [bank_count], the banks, fastest first */
    banks_profile profile;
} banks;

/* --- bytes over time --- */

static uint32_t banks_rank(const banks_profile *profile, int64_t time) {
    return tn__time_rank(profile->times, profile->time_count, time);
}

static void banks_add(banks_profile *profile, int64_t first, int64_t last, int64_t bytes) {
    tn__range_tree_add(&profile->live, banks_rank(profile, first), banks_rank(profile, last),
                       bytes);
}

static int64_t banks_most(const banks_profile *profile, int64_t first, int64_t last) {
    int64_t most =
        tn__range_tree_most(&profile->live, banks_rank(profile, first), banks_rank(profile, last));
    return most > 0 ? most : 0;
}

static void banks_put(banks_profile *profile, const tn_body *body, bool in) {
    for (uint32_t k = 0; k < body->piece_count; k++) {
        const tn_piece *piece = &body->pieces[k];
        int64_t bytes = (int64_t)(piece->hi - piece->lo);
        banks_add(profile, piece->first, piece->last, in ? bytes : -bytes);
    }
}

static bool banks_has_room(const banks_profile *profile, const tn_body *body, uint64_t capacity) {
    if (body->size > capacity) return false;
    for (uint32_t k = 0; k < body->piece_count; k++) {
        const tn_piece *piece = &body->pieces[k];
        int64_t most = banks_most(profile, piece->first, piece->last);
        if (piece->hi - piece->lo > capacity - (uint64_t)most) return false;
    }
    return true;
}

/* Makes the profile (live bytes at each step) of a bank with the buffers that only this bank may
 * hold; their bytes are within the capacity. */
static void banks_begin(banks *all, tn_bank_id bank) {
    const tn_problem *problem = all->call->problem;
    banks_profile *profile = &all->profile;
    tn__range_tree_init(&profile->live, profile->time_count, profile->memory);
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = tn__whole_in(&all->call->wholes, i, bank);
        if (body != NULL && !(body->flags & TN_BODY_ANY_BANK)) banks_put(profile, body, true);
    }
}

/* --- preparing --- */

static int banks_unit_order(const void *a, const void *b) {
    const banks_unit *x = a, *y = b;
    if (x->density != y->density) return x->density > y->density ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* sorts units by traffic per byte, highest first */
static int banks_traffic_order(const void *a, const void *b) {
    const banks_unit *x = a, *y = b;
    double left = (double)x->traffic * (double)y->size,
           right = (double)y->traffic * (double)x->size;
    return left != right ? (left > right ? -1 : 1) : banks_unit_order(a, b);
}

static int banks_size_order(const void *a, const void *b) {
    const banks_unit *x = a, *y = b;
    return x->size != y->size ? (x->size > y->size ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

static double banks_area(const tn_body *body) {
    double area = 0;
    for (uint32_t k = 0; k < body->piece_count; k++) {
        const tn_piece *piece = &body->pieces[k];
        area += (double)(piece->hi - piece->lo) *
                (double)((uint64_t)piece->last - (uint64_t)piece->first);
    }
    return area;
}

static void banks_gather(banks *all) {
    const tn_problem *problem = all->call->problem;
    const tn__wholes *wholes = &all->call->wholes;
    tn_layout *layout = &all->call->layout;
    all->unit_count = 0;
    for (size_t i = 0; i < problem->count; i++) {
        if (!(problem->bodies[i].flags & TN_BODY_ANY_BANK)) continue;
        layout->bank[i] = BANKS_NONE;
        if (tn__whole(wholes, i) != NULL)
            all->units[all->unit_count++] =
                (banks_unit){.id = (tn_body_id)i, .traffic = tn__traffic(&problem->bodies[i])};
    }
    uint32_t unit = 0;
    for (size_t i = 0; i < problem->count && problem->group_count > 0; i++) {
        /* finds the unit of a tied buffer by bisection: units are sorted by the number of their
         * root buffer */
        const tn_body *body = &problem->bodies[i];
        if (!(body->flags & TN_BODY_TIED) || !(body->flags & TN_BODY_ANY_BANK)) continue;
        uint32_t low = 0, high = all->unit_count;
        while (high - low > 1) {
            unit = low + (high - low) / 2;
            if (all->units[unit].id <= body->leader)
                low = unit;
            else
                high = unit;
        }
        all->units[low].traffic = tn__add_sat(all->units[low].traffic, tn__traffic(body));
    }
    for (uint32_t u = 0; u < all->unit_count; u++) {
        double area = banks_area(tn__whole(wholes, all->units[u].id));
        all->units[u].size = tn__whole(wholes, all->units[u].id)->size;
        all->units[u].density = area > 0 ? (double)all->units[u].traffic / area : DBL_MAX;
    }
}

/* Sorts banks of known speed first, faster ones earlier. Banks of equal or unknown speed are in
 * order of number. */
static void banks_sort(banks *all) {
    const tn_problem *problem = all->call->problem;
    for (tn_bank_id bank = 0; bank < problem->bank_count; bank++) {
        uint32_t at = bank;
        double speed = problem->banks[bank].bytes_per_s;
        for (; at > 0 && problem->banks[all->order[at - 1]].bytes_per_s < speed; at--)
            all->order[at] = all->order[at - 1];
        all->order[at] = bank;
    }
}

static void banks_times(banks *all) {
    const tn__wholes *wholes = &all->call->wholes;
    int64_t *times = all->profile.times;
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < wholes->problem->count; i++) {
        const tn_body *body = tn__whole(wholes, i);
        for (uint32_t k = 0; body != NULL && k < body->piece_count; k++) {
            times[count++] = body->pieces[k].first;
            times[count++] = body->pieces[k].last;
        }
    }
    qsort(times, count, sizeof *times, tn__time_order);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || times[i] != times[i - 1]) times[kept++] = times[i];
    all->profile.time_count = (uint32_t)kept;
}

/* Refuses the problem if buffers without a choice do not fit into their bank, or if a buffer with a
 * choice fits into no bank. */
static tn_status banks_refuse(banks *all) {
    tn__call *call = all->call;
    const tn_problem *problem = call->problem;
    tn__wholes fixed = call->wholes;
    uint64_t largest = 0, bound;
    fixed.banks = NULL;
    for (tn_bank_id bank = 0; bank < problem->bank_count; bank++) {
        uint64_t capacity = tn__call_capacity(call, bank);
        int64_t step;
        if (capacity > largest) largest = capacity;
        TN_TRY(tn__lower_bound(&fixed, bank, &bound, &step, call->error));
        if (bound > capacity)
            TN_FAIL(call->error, TN_E_INFEASIBLE,
                    "%s: the bodies that must be in it need at least %" PRIu64
                    " bytes at step %" PRId64 ", the capacity is %" PRIu64,
                    problem->banks[bank].name, bound, step, capacity);
        if (bound > TN__PLAN_HEIGHT_MAX)
            TN_FAIL(call->error, TN_E_INVALID, "%s: its bodies need more than 2^63 - 1 bytes",
                    problem->banks[bank].name);
    }
    for (uint32_t u = 0; u < all->unit_count; u++) {
        const tn_body *body = tn__whole(&call->wholes, all->units[u].id);
        char text[TN__BODY_TEXT_MAX];
        if (body->size > largest)
            TN_FAIL(call->error, TN_E_INFEASIBLE,
                    "%s: its %" PRIu64 " bytes fit into no bank, the largest has %" PRIu64,
                    tn__body_text(problem, all->units[u].id, text), body->size, largest);
    }
    return TN_OK;
}

typedef struct banks_event {
    int64_t time;
    uint64_t bytes;
    bool starts;
} banks_event;

/* sorts events by time; at equal times, ends come before starts */
static int banks_event_order(const void *a, const void *b) {
    const banks_event *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (int)x->starts - (int)y->starts;
}

static tn_status banks_refuse_sum(const tn__call *call) {
    const tn__wholes *wholes = &call->wholes;
    const tn_context *context = call->options.context;
    banks_wide room = 0, live = 0;
    size_t count = 0;
    for (tn_bank_id bank = 0; bank < call->problem->bank_count; bank++) {
        if (tn__call_capacity(call, bank) == UINT64_MAX) return TN_OK;
        room += tn__call_capacity(call, bank);
    }
    banks_event *events = tn__alloc_array(context, 2 * wholes->piece_count, sizeof *events);
    if (events == NULL) return tn__no_memory(call->error, "the banks");
    for (size_t i = 0; i < wholes->problem->count; i++) {
        const tn_body *body = tn__whole(wholes, i);
        for (uint32_t k = 0; body != NULL && k < body->piece_count; k++) {
            const tn_piece *piece = &body->pieces[k];
            events[count++] = (banks_event){piece->first, piece->hi - piece->lo, true};
            events[count++] = (banks_event){piece->last, piece->hi - piece->lo, false};
        }
    }
    qsort(events, count, sizeof *events, banks_event_order);
    tn_status status = TN_OK;
    for (size_t i = 0; i < count && status == TN_OK; i++) {
        live = events[i].starts ? live + events[i].bytes : live - events[i].bytes;
        if (live > room)
            status = tn__fail(call->error, TN_E_INFEASIBLE,
                              "more bytes live at step %" PRId64 " than all banks together hold",
                              events[i].time);
    }
    tn__free(context, events, 2 * wholes->piece_count * sizeof *events);
    return status;
}

/* --- planning the buffers taken for a bank --- */

typedef struct banks_trial {
    tn__prepared_bank prepared;
    tn_run run;
    /* ran: the planner was called; refuted: it is proved that the buffers do not fit */
    bool ran, fits, refuted;
    int64_t step; /* the step that needs the most bytes according to the lower bound */
} banks_trial;

static void banks_assign(const banks *all, tn_bank_id bank) {
    tn_layout *layout = &all->call->layout;
    for (uint32_t u = 0; u < all->unit_count; u++)
        layout->bank[all->units[u].id] = all->units[u].taken ? bank : BANKS_NONE;
}

/* If a limit ends the trial of a bank, the choice made before it is kept. */
static tn_status banks_forgive(const tn__call *call, tn_status status) {
    if (status != TN_E_STOPPED) return status;
    if (call->error != NULL) *call->error = (tn_error){.status = TN_OK};
    return TN_OK;
}

/* Many choices are planned and most are discarded. So a trial without a limit uses a quicker
 * planner than `auto`, because a long search for each choice would take too much time. */
static const tn_planner *banks_planner(const tn__call *call) {
    const tn_planner *quick = tn__planner_find("fast");
    bool limited = call->options.work_limit != 0 || call->options.timeout_s > 0;
    return quick != NULL && !limited && strcmp(call->planner->name, "auto") == 0 ? quick
                                                                                 : call->planner;
}

/* Plans the buffers assigned to the bank. The caller releases the trial, also after a failure. */
static tn_status banks_try(const banks *all, tn_bank_id bank, banks_trial *trial) {
    tn__call *call = all->call;
    tn__prepared_bank *prepared = &trial->prepared;
    *prepared = tn__call_prepared(call, bank);
    TN_TRY(tn__prepare(prepared, bank, call->error));
    TN_TRY(tn__call_refuse(call, prepared->needs));
    TN_TRY(tn__prepared_bound(prepared, bank, &prepared->lower_bound, &trial->step, call->error));
    trial->refuted = prepared->lower_bound > prepared->capacity;
    if (trial->refuted) return TN_OK;
    TN_TRY(tn__run_create(&trial->run, prepared, banks_planner(call), call->error));
    trial->ran = true;
    tn_status status = tn__run_answer(&trial->run, NULL);
    call->layout.work += trial->run.work;
    call->layout.timed_out |= trial->run.timed_out;
    trial->fits = status == TN_OK && trial->run.best_peak <= prepared->capacity;
    trial->refuted = !trial->fits && trial->run.lower_bound > prepared->capacity;
    return banks_forgive(call, status);
}

static void banks_end(banks_trial *trial) {
    if (trial->ran) tn__run_release(&trial->run);
    tn__prepared_release(&trial->prepared);
}

static void banks_keep(const banks *all, const banks_trial *trial) {
    for (uint32_t i = 0; i < trial->prepared.count; i++)
        all->call->layout.offset[trial->prepared.ids[i]] = trial->run.best[i];
}

/* --- removing buffers from a bank, and bringing them back --- */

static bool banks_lives(const tn_body *body, int64_t first, int64_t last) {
    for (uint32_t k = 0; k < body->piece_count; k++)
        if (body->pieces[k].first < last && first < body->pieces[k].last) return true;
    return false;
}

/* Removes the least dense buffer that was taken and is live in [first, last); false if there is
 * none. */
static bool banks_drop(banks *all, int64_t first, int64_t last) {
    for (uint32_t u = all->unit_count; u-- > 0;) {
        banks_unit *unit = &all->units[u];
        if (!unit->taken || !banks_lives(tn__whole(&all->call->wholes, unit->id), first, last))
            continue;
        unit->taken = false;
        return true;
    }
    return false;
}

/* Removes at most `count` of the taken buffers that are live where the plan is too high. Without a
 * plan, removes one that is live at the step with the highest lower bound, or else any. Returns
 * false if none was removed. */
static bool banks_give_up(banks *all, const banks_trial *trial, uint32_t count) {
    const tn__prepared_bank *prepared = &trial->prepared;
    uint32_t gone = 0;
    bool placed = trial->ran && trial->run.best_peak != UINT64_MAX;
    if (!placed)
        return banks_drop(all, trial->step, trial->step + 1) ||
               banks_drop(all, INT64_MIN, INT64_MAX);
    /* until this time, buffers that were already removed have freed enough memory */
    int64_t done = INT64_MIN;
    for (uint32_t at = 0; at < prepared->count && gone < count; at++) {
        uint32_t i = prepared->by_first[at];
        const tn_run_body *body = &prepared->bodies[i];
        int64_t first = prepared->times[body->first], last = prepared->times[body->last];
        if (trial->run.best[i] + body->size <= prepared->capacity || first < done) continue;
        if (!banks_drop(all, first, last)) continue;
        done = last;
        gone++;
    }
    return gone > 0;
}

/* Brings back removed buffers if the plan has a hole for them below the capacity. */
static tn_status banks_bring_back(banks *all, tn_bank_id bank) {
    tn__call *call = all->call;
    tn_layout *layout = &call->layout;
    for (uint32_t u = 0; u < all->unit_count; u++) layout->bank[all->units[u].id] = bank;
    banks_trial trial = {.prepared = tn__call_prepared(call, bank)};
    tn_status status = tn__prepare(&trial.prepared, bank, call->error);
    if (status == TN_OK)
        status = tn__run_create(&trial.run, &trial.prepared, call->planner, call->error);
    trial.ran = status == TN_OK;
    uint32_t *number = NULL; /* [buffers of the problem] the buffer's number in the run */
    size_t bodies = call->problem->count;
    if (status == TN_OK) {
        number = tn__alloc_array(call->options.context, bodies, sizeof *number);
        if (number == NULL) status = tn__no_memory(call->error, "the banks");
    }
    for (uint32_t i = 0; status == TN_OK && i < trial.prepared.count; i++)
        number[trial.prepared.ids[i]] = i;
    for (uint32_t i = 0; status == TN_OK && i < trial.prepared.count; i++)
        if (!tn__run_placed(&trial.run, i) &&
            !(call->problem->bodies[trial.prepared.ids[i]].flags & TN_BODY_ANY_BANK))
            tn__run_place(&trial.run, i, layout->offset[trial.prepared.ids[i]]);
    for (uint32_t u = 0; status == TN_OK && u < all->unit_count; u++)
        if (all->units[u].taken)
            tn__run_place(&trial.run, number[all->units[u].id], layout->offset[all->units[u].id]);
    for (uint32_t u = 0; status == TN_OK && u < all->unit_count; u++) {
        banks_unit *unit = &all->units[u];
        const tn_hole *holes;
        uint32_t count, i = number[unit->id];
        if (unit->taken || trial.prepared.bodies[i].size > trial.prepared.capacity) continue;
        status = tn__run_holes(&trial.run, i, &holes, &count);
        if (status != TN_OK ||
            holes[0].first > trial.prepared.capacity - trial.prepared.bodies[i].size)
            continue;
        tn__run_place(&trial.run, i, holes[0].first);
        layout->offset[unit->id] = holes[0].first;
        unit->taken = true;
    }
    if (trial.ran) call->layout.work += trial.run.work;
    tn__free(call->options.context, number, bodies * sizeof *number);
    banks_end(&trial);
    return banks_forgive(call, status);
}

/* Takes buffers as long as the live bytes allow it (with `simply` none), and removes some until a
 * plan fits. Then puts buffers that were not taken into holes of the plan. */
static tn_status banks_fill(banks *all, tn_bank_id bank, bool simply) {
    tn__call *call = all->call;
    uint64_t capacity = tn__call_capacity(call, bank);
    bool fits = false, more = true;
    if (capacity > TN__PLAN_HEIGHT_MAX) capacity = TN__PLAN_HEIGHT_MAX;
    banks_begin(all, bank);
    for (uint32_t u = 0; u < all->unit_count; u++) {
        const tn_body *body = tn__whole(&call->wholes, all->units[u].id);
        all->units[u].taken = !simply && banks_has_room(&all->profile, body, capacity);
        if (all->units[u].taken) banks_put(&all->profile, body, true);
    }
    for (uint32_t count = 1; !fits && more; count = count < 1u << 20 ? 2 * count : count) {
        banks_trial trial = {0};
        banks_assign(all, bank);
        tn_status status = banks_try(all, bank, &trial);
        fits = trial.fits;
        if (fits) banks_keep(all, &trial);
        if (status == TN_OK && !fits) more = banks_give_up(all, &trial, count);
        banks_end(&trial);
        if (status != TN_OK) return status;
    }
    /* the buffers that only this bank may hold do not fit, which plan.c reports later */
    if (!fits) return TN_OK;
    call->planned[bank] = true;
    TN_TRY(banks_bring_back(all, bank));
    banks_assign(all, bank);
    return TN_OK;
}

/* --- the search for the best set of buffers --- */

typedef struct banks_set {
    uint64_t traffic;
    uint32_t members; /* the units in the set: bit u stands for unit u */
} banks_set;

/* sorts sets by traffic, most first */
static int banks_set_order(const void *a, const void *b) {
    const banks_set *x = a, *y = b;
    if (x->traffic != y->traffic) return x->traffic > y->traffic ? -1 : 1;
    return (x->members > y->members) - (x->members < y->members);
}

static uint64_t banks_traffic(const banks *all, uint32_t members) {
    uint64_t sum = 0;
    for (uint32_t u = 0; u < all->unit_count; u++)
        if (members >> u & 1) sum = tn__add_sat(sum, all->units[u].traffic);
    return sum;
}

/* Tries the sets with more traffic than the set `best`. *proved: the set kept at the end is proved
 * to be optimal. */
static tn_status banks_search_sets(banks *all, tn_bank_id bank, const banks_set *sets,
                                   uint32_t best, bool *proved) {
    uint64_t floor = banks_traffic(all, best);
    uint32_t plans = 0, members = best;
    *proved = true;
    for (const banks_set *set = sets; set->traffic > floor && members == best; set++) {
        banks_trial trial = {0};
        for (uint32_t u = 0; u < all->unit_count; u++)
            all->units[u].taken = (set->members >> u & 1) != 0;
        banks_assign(all, bank);
        if (plans++ >= BANKS_SEARCH_PLANS) {
            *proved = false;
            break;
        }
        tn_status status = banks_try(all, bank, &trial);
        if (!trial.ran) plans--; /* the lower bound refuted the set, so no plan was made */
        if (status == TN_OK && trial.fits) {
            banks_keep(all, &trial);
            members = set->members;
        } else if (!trial.refuted) {
            *proved = false;
        }
        banks_end(&trial);
        TN_TRY(status);
    }
    for (uint32_t u = 0; u < all->unit_count; u++) all->units[u].taken = (members >> u & 1) != 0;
    banks_assign(all, bank);
    return TN_OK;
}

static tn_status banks_search(banks *all, tn_bank_id bank) {
    tn__call *call = all->call;
    const tn_context *context = call->options.context;
    uint32_t n = all->unit_count, best = 0;
    if (n > BANKS_SEARCH_UNITS || call->problem->count > BANKS_SEARCH_BODIES) return TN_OK;
    /* sums of traffic that overflow cannot be compared */
    if (banks_traffic(all, UINT32_MAX) == UINT64_MAX) return TN_OK;
    size_t count = (size_t)1 << n;
    banks_set *sets = tn__alloc_array(context, count, sizeof *sets);
    if (sets == NULL) return tn__no_memory(call->error, "the choice of banks");
    for (uint32_t u = 0; u < n; u++) best |= (uint32_t)all->units[u].taken << u;
    for (uint32_t members = 0; members < count; members++)
        sets[members] = (banks_set){banks_traffic(all, members), members};
    qsort(sets, count, sizeof *sets, banks_set_order);
    tn_status status = banks_search_sets(all, bank, sets, best, &call->least_time);
    tn__free(context, sets, count * sizeof *sets);
    return status;
}

/* --- choosing for all banks --- */

/* Whether the slowest bank can hold all buffers that are left, even without sharing memory. */
static bool banks_has_last(const banks *all) {
    const tn_problem *problem = all->call->problem;
    tn_bank_id last = all->order[problem->bank_count - 1];
    return tn__call_capacity(all->call, last) >= tn_problem_naive(problem);
}

/* Removes the units that were taken from the list of units. */
static void banks_settle(banks *all) {
    uint32_t left = 0;
    for (uint32_t u = 0; u < all->unit_count; u++)
        if (!all->units[u].taken) all->units[left++] = all->units[u];
    all->unit_count = left;
}

static tn_status banks_choose(banks *all, const banks_way *way) {
    tn__call *call = all->call;
    uint32_t count = (uint32_t)call->problem->bank_count;
    banks_gather(all);
    if (all->unit_count > 0) qsort(all->units, all->unit_count, sizeof *all->units, way->order);
    memset(call->planned, 0, count * sizeof *call->planned);
    call->least_time = false;
    for (uint32_t at = 0; at < count && all->unit_count > 0; at++) {
        tn_bank_id bank = all->order[at];
        if (at + 1 == count || tn__call_capacity(call, bank) == UINT64_MAX) {
            for (uint32_t u = 0; u < all->unit_count; u++) all->units[u].taken = true;
            banks_assign(all, bank);
            call->least_time |= at == 0;
        } else {
            TN_TRY(banks_fill(all, bank, way->simply));
            /* the slower of two banks can hold all buffers left, even without sharing memory */
            bool last_two = count == 2 && banks_has_last(all);
            bool faster = call->problem->banks[bank].bytes_per_s >
                          call->problem->banks[all->order[1]].bytes_per_s;
            if (at == 0 && last_two && faster && call->planned[bank])
                TN_TRY(banks_search(all, bank));
        }
        banks_settle(all);
        call->least_time |= at == 0 && all->unit_count == 0;
    }
    return TN_OK;
}

/* --- the best of several orders of buffers --- */

/* Seconds that the traffic of the buffers with a choice takes in their present banks. */
static double banks_seconds(const banks *all) {
    const tn_problem *problem = all->call->problem;
    double seconds = 0;
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = &problem->bodies[i];
        if (!(body->flags & TN_BODY_ANY_BANK)) continue;
        tn_bank_id bank = all->call->layout.bank[body->flags & TN_BODY_TIED ? body->leader : i];
        double speed = 1;
        for (uint32_t at = 0; at < problem->bank_count; at++) {
            double known = problem->banks[all->order[at]].bytes_per_s;
            speed = known > 0 ? known : speed / 2;
            if (all->order[at] == bank) break;
        }
        seconds += (double)tn__traffic(body) / speed;
    }
    return seconds;
}

static void banks_store(const banks *all, banks_answer *answer) {
    const tn__call *call = all->call;
    memcpy(answer->bank, call->layout.bank, call->problem->count * sizeof *answer->bank);
    memcpy(answer->offset, call->layout.offset, call->problem->count * sizeof *answer->offset);
    memcpy(answer->planned, call->planned, call->problem->bank_count * sizeof *answer->planned);
    answer->least_time = call->least_time;
    answer->seconds = banks_seconds(all);
}

static void banks_restore(const banks *all, const banks_answer *answer) {
    tn__call *call = all->call;
    memcpy(call->layout.bank, answer->bank, call->problem->count * sizeof *answer->bank);
    memcpy(call->layout.offset, answer->offset, call->problem->count * sizeof *answer->offset);
    memcpy(call->planned, answer->planned, call->problem->bank_count * sizeof *answer->planned);
    call->least_time = answer->least_time;
}

static bool banks_is_late(const tn__call *call) {
    double limit = call->options.timeout_s;
    return call->layout.timed_out || (limit > 0 && tn__clock_s() - call->start_s >= limit);
}

/* Tries the first order of buffers. Tries the others too, unless the slowest bank cannot hold all
 * buffers that are left or the first result is proved to be optimal. Of equally good results the
 * first is kept. */
static tn_status banks_try_ways(banks *all, banks_answer *best) {
    static const banks_way ways[] = {{banks_unit_order, false},
                                     {banks_traffic_order, false},
                                     {banks_size_order, false},
                                     {banks_unit_order, true},
                                     {banks_size_order, true}};
    tn__call *call = all->call;
    TN_TRY(banks_choose(all, &ways[0]));
    if (!banks_has_last(all)) return TN_OK;
    banks_store(all, best);
    for (size_t w = 1; w < sizeof ways / sizeof *ways && !best->least_time; w++) {
        if (banks_is_late(call)) break;
        TN_TRY(banks_choose(all, &ways[w]));
        if (call->least_time || banks_seconds(all) < best->seconds) banks_store(all, best);
    }
    banks_restore(all, best);
    return TN_OK;
}

static tn_status banks_answer_best(banks *all) {
    const tn_context *context = all->call->options.context;
    size_t bodies = all->call->problem->count, count = all->call->problem->bank_count;
    banks_answer best = {.bank = tn__alloc_array(context, bodies, sizeof *best.bank),
                         .offset = tn__alloc_array(context, bodies, sizeof *best.offset),
                         .planned = tn__alloc_array(context, count, sizeof *best.planned)};
    tn_status status = best.bank && best.offset && best.planned
                           ? TN_OK
                           : tn__no_memory(all->call->error, "the choice of banks");
    banks_gather(all);
    if (status == TN_OK) status = banks_refuse(all);
    if (status == TN_OK) status = banks_refuse_sum(all->call);
    if (status == TN_OK) status = banks_try_ways(all, &best);
    tn__free(context, best.bank, bodies * sizeof *best.bank);
    tn__free(context, best.offset, bodies * sizeof *best.offset);
    tn__free(context, best.planned, count * sizeof *best.planned);
    return status;
}

tn_status tn__choose_banks(tn__call *call) {
    const tn_problem *problem = call->problem;
    const tn_context *context = call->options.context;
    banks all = {.call = call};
    banks_profile *profile = &all.profile;
    size_t times = 2 * call->wholes.piece_count, units = problem->any_count;
    size_t room = tn__range_tree_room(times < UINT32_MAX ? (uint32_t)times : UINT32_MAX);
    all.units = tn__alloc_array(context, units, sizeof *all.units);
    all.order = tn__alloc_array(context, problem->bank_count, sizeof *all.order);
    profile->times = tn__alloc_array(context, times, sizeof *profile->times);
    profile->memory = tn__alloc_array(context, room, sizeof *profile->memory);
    bool fits = all.units && all.order && profile->times && profile->memory;
    tn_status status = fits ? TN_OK : tn__no_memory(call->error, "the choice of banks");
    if (status == TN_OK) {
        banks_sort(&all);
        banks_times(&all);
        status = banks_answer_best(&all);
    }
    tn__free(context, all.units, units * sizeof *all.units);
    tn__free(context, all.order, problem->bank_count * sizeof *all.order);
    tn__free(context, profile->times, times * sizeof *profile->times);
    tn__free(context, profile->memory, room * sizeof *profile->memory);
    return status;
}
