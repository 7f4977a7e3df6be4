/* plan.h - memory planning: buffers with live ranges go in, verified offsets come out.
 *
 *     tn_problem *problem;
 *     tn_layout layout;
 *     tn_error error;
 *     if (tn_problem_create(NULL, &problem, &error) ||
 *         tn_problem_add(problem, &(tn_body){.size = 1024, .last = 3}, NULL, &error) ||
 *         tn_problem_add(problem, &(tn_body){.size = 512, .first = 3, .last = 4}, NULL, &error) ||
 *         tn_plan(problem, NULL, &layout, &error)) // verified, or not returned
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     printf("arena: %llu bytes\n", (unsigned long long)layout.peak); // 1024
 *     tn_layout_release(&layout);
 *     tn_problem_destroy(problem);
 *
 * A body (`tn_body`, a buffer of the plan) is a rigid set of pieces. A piece (`tn_piece`, a section
 * of a buffer) is a rectangle: a half-open time interval [first, last) times a byte window [lo, hi)
 * relative to the body's offset. Two bodies may share bytes only if no piece of one overlaps a
 * piece of the other in time. A plain buffer is one piece.
 *
 *        byte |      +------+            one body of two pieces: all of its bytes are live
 *             |      |      |            in [1, 3), only the lower half in [5, 7)
 *             |      |      |  +------+
 *             |      +------+  +------+
 *             +------1------3--5------7-- time
 *
 * A body tied to another (TN_BODY_TIED) lies at a fixed distance above it. Examples are the inputs
 * of one collective operation, which lie side by side, and an alias, which views bytes of another
 * body. Bodies of one such group may share bytes with each other at any time. Relative to all other
 * bodies the group acts as one body.
 *
 * With several streams (tn_problem_set_streams) time is a partial order. `first` and `last` give
 * one possible serial order, and clocks say which uses are known to precede others. Piece p is
 * before piece q if p.last <= q.first and p.ends[s] <= q.begins[s] on every stream s. Pieces of two
 * bodies may share bytes only if one of them is before the other.
 *
 * More constraints are properties of the problem. A separation keeps the byte ranges of two bodies
 * disjoint at all times. An exclusion says that two bodies are never live at the same time, so they
 * may share bytes although their live ranges overlap. A reserved range of a bank holds no body. A
 * reuse cost is the price of a pair of bodies that share bytes: for example, a wait of one stream
 * for another one. Instead of such prices, a problem may state the partial order of its program
 * (tn_problem_add_event). Planners can then minimise the waits that a layout adds, or the time of
 * the program with them.
 *
 * Units: sizes, offsets and peaks in bytes; time in integer steps. Intervals are half open: a body
 * that ends at step 3 and a body that begins at step 3 may share bytes.
 * Threads: any number of threads may read one problem; one thread at a time may change it.
 */
#ifndef TENURE_PLAN_H
#define TENURE_PLAN_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_problem tn_problem;
typedef uint32_t tn_body_id; /* id of a body: 0, 1, 2, ... in the order of adding */
typedef uint32_t tn_bank_id; /* id of a bank; 0 is the default bank */

#define TN_STREAMS_MAX 65536u

enum {                           /* flags of a body (tn_body.flags) */
       TN_BODY_PINNED = 1u << 0, /* the `offset` of the body is given, not chosen by the planner */
       /* set by the library: the body uses the problem's default alignment */
       TN_BODY_DEFAULT_ALIGNED = 1u << 1,
       TN_BODY_TIED = 1u << 2,  /* the body lies `delta` bytes above the start of body `leader` */
       TN_BODY_LEADS = 1u << 3, /* set by the library: other bodies are tied to the body */
       /* the planner chooses the bank; `bank` does not bind the planner */
       TN_BODY_ANY_BANK = 1u << 4,
};

typedef struct tn_piece {
    int64_t first, last; /* time during which the piece is live: [first, last), first < last */
    uint64_t lo, hi;     /* bytes [lo, hi) of the body, lo < hi <= size */
    /* [streams], copied; read only if the problem has more than one stream. begins[s]: the number
     * of events of stream s that are known to precede the definition of the piece. NULL: 0 on every
     * stream. ends[s]: the number of events of stream s up to and including the last one that uses
     * the piece; its definition is a use, and 0 means that stream s does not use it. NULL: unknown,
     * so no piece is known to be after this one. The library raises ends[s] to
     * begins[s], which does not change correct clocks. */
    const int64_t *begins, *ends;
} tn_piece;

/* A buffer that needs an offset. In every field 0 means the default. */
typedef struct tn_body {
    uint64_t size; /* size in bytes; 0 is allowed and takes no memory */
    /* with piece_count 0: the body is live in [first, last); otherwise set to the hull of the
     * pieces */
    int64_t first;
    int64_t last;
    uint64_t alignment; /* alignment, a power of two; 0: the problem's default */
    uint64_t offset;    /* offset in bytes; read only with TN_BODY_PINNED */
    uint32_t flags;     /* flags of the body: bits TN_BODY_* */
    tn_bank_id bank;
    /* [piece_count] the pieces, in any order; they may overlap; copied. NULL: one piece */
    const tn_piece *pieces;
    uint32_t piece_count;
    /* name for messages and files; copied; NULL: the number of the body is used */
    const char *name;
    int64_t hint; /* the "hint" column of MiniMalloc's CSV, preserved; read only if has_hint */
    bool has_hint;
    /* with TN_BODY_TIED: an earlier body of the same bank, and a distance that is a multiple of the
     * alignment. In a body read back, `leader` is the root of the chain and `delta` the distance
     * from the root. */
    tn_body_id leader;
    uint64_t delta; /* bytes */
    /* bytes read and written during the live range, for the choice of a bank. 0: twice the size
     * (the body is written once and read once) */
    uint64_t traffic;
    uint64_t spare[2]; /* reserved for later fields: 0 (status.h) */
} tn_body;

typedef struct tn_bank {
    const char *name;  /* name of the bank; copied; NULL: "arena" for bank 0, "bank 1" for bank 1 */
    uint64_t capacity; /* capacity in bytes; 0: no capacity, and the peak is minimised */
    /* bandwidth; 0: not known, which counts as slower than every known bandwidth */
    double bytes_per_s;
} tn_bank;

/* Two bodies a < b, with a constraint or a cost between them. The byte range of a body is [offset,
 * offset + size) in its bank. */
typedef struct tn_pair {
    tn_body_id a, b;
    uint64_t cost; /* reuse cost of the pair; 0 for a separation or an exclusion */
} tn_pair;

/* Bytes [first, last) of a bank that no body may use. */
typedef struct tn_reserved {
    tn_bank_id bank;
    uint64_t first, last;
} tn_reserved;

/* Bytes of a body from a write to their last uses, in events of the program (see
 * tn_problem_add_event). If bytes of two spans share an address, all uses of the earlier span must
 * be over before the later span is written. */
#define TN_EVENT_NONE UINT32_MAX
typedef struct tn_span {
    tn_body_id body;
    uint64_t lo, hi; /* bytes [lo, hi) of the body; lo = hi = 0: all bytes */
    /* the event that writes the bytes; TN_EVENT_NONE: no event has to wait to write them */
    uint32_t first;
    /* [use_count] the events that use the bytes, copied; `first` counts as a use, too */
    const uint32_t *uses;
    uint32_t use_count;
} tn_span;

/* A wait: event `after` must wait for event `before`. */
typedef struct tn_wait {
    uint32_t before, after;
} tn_wait;

/* The objective of a planner, in the form X(name, text). */
/* clang-format off */
#define TN_OBJECTIVE_TABLE(X) X(BYTES, "bytes") X(PAIRS, "pairs") X(WAITS, "waits") X(TIME, "time")
/* clang-format on */
typedef enum tn_objective {
#define TN_X(name, text) TN_OBJECTIVE_##name,
    TN_OBJECTIVE_TABLE(TN_X)
#undef TN_X
} tn_objective;
TN_API const char *tn_objective_name(tn_objective objective);

/* The outcome of planning, in the form X(name, text). */
/* clang-format off */
#define TN_VERDICT_TABLE(X)                                                                        \
    X(FEASIBLE, "feasible") X(OPTIMAL, "optimal") X(INFEASIBLE, "infeasible") X(STOPPED, "stopped")
/* clang-format on */
typedef enum tn_verdict {
#define TN_X(name, text) TN_VERDICT_##name,
    TN_VERDICT_TABLE(TN_X)
#undef TN_X
} tn_verdict;
TN_API const char *tn_verdict_name(tn_verdict verdict);

/* The offsets of all bodies, and how close to optimal the layout is known to be. */
typedef struct tn_layout {
    uint64_t *offset; /* [body_count] offset of each body in bytes from the start of its bank */
    tn_bank_id *bank; /* [body_count] bank of each body */
    uint32_t body_count;
    uint32_t bank_count;
    uint64_t *bank_peak; /* [bank_count] peak of each bank in bytes */
    /* [bank_count] lower bound in bytes: no layout of the bank's bodies needs less */
    uint64_t *bank_lower_bound;
    uint64_t *bank_traffic; /* [bank_count] bytes read and written by the bodies in the bank */
    uint64_t peak;          /* bytes that the arena needs: the sum of the peaks of all banks */
    uint64_t lower_bound;   /* sum of bank_lower_bound over all banks */
    /* OPTIMAL if peak == lower_bound, or if a search proved that no layout needs less. If bodies
     * may choose their bank: OPTIMAL if no choice that fits makes the traffic take less time. With
     * another objective than BYTES: OPTIMAL if reuse_cost, waits or time equals its bound */
    tn_verdict verdict;
    const char *planner; /* name of the planner that found the layout; a static string */
    uint64_t seed;
    /* number of placements that were tried; deterministic for equal problems and options */
    uint64_t work;
    double seconds; /* wall time of planning */
    bool timed_out; /* whether the time limit ended the search early */
    /* reuse cost of the layout (tn_layout_reuse_cost); 0 for problems without reuse costs */
    uint64_t reuse_cost;
    /* no layout within the capacities has a lower reuse cost; 0: no bound is known */
    uint64_t reuse_cost_bound;
    tn_objective objective; /* objective that the planner minimised */
    /* Results of tn_layout_waits; 0 for problems without events. The bounds hold for all layouts
     * within the capacity; 0: no bound is known */
    uint32_t workers;
    uint64_t waits, waits_bound;
    uint64_t time, time_bound;
    uint64_t spare[8]; /* reserved for later fields: 0 (status.h) */
} tn_layout;

typedef struct tn_plan_options {
    size_t struct_size; /* sizeof(tn_plan_options) */
    const tn_context *context;
    const char *planner; /* name of the planner; NULL: "auto" */
    /* capacity of bank 0 in bytes, if it is below the capacity that the bank itself has; 0: that of
     * the bank */
    uint64_t capacity;
    uint64_t work_limit; /* limit of the placements to try; 0: no limit; deterministic */
    double timeout_s;    /* limit of the wall time of the search; 0: no limit */
    /* number of threads; 0: 1. With a given work limit, the number of threads never changes the
     * result */
    uint32_t threads;
    uint64_t seed;
    /* target in bytes for a bank without a capacity: the search ends at the first layout within the
     * target. Larger layouts are still returned. 0: search for the smallest layout */
    uint64_t enough;
    /* Objective. BYTES: the least peak. PAIRS: the least reuse cost within the capacities, among
     * equal costs the least peak; every bank of a pair with a reuse cost must have a capacity.
     * The costs of a model are those of tn_problem_price_pairs. WAITS, TIME: the fewest waits, or
     * the least time, of tn_layout_waits within the capacity, among equal ones the least peak; the
     * problem has one bank, with a capacity, and events */
    tn_objective objective;
    uint32_t workers; /* for `time` of the layout: number of events that run at once; 0: no limit */
} tn_plan_options;

#define TN_PLAN_OPTIONS_INIT TN_INIT(tn_plan_options, TN_SET(struct_size, sizeof(tn_plan_options)))

/* --- problems ------------------------------------------------------------------------ */

/* Creates an empty problem. `context` may be NULL and must outlive the problem. */
TN_API TN_CHECKED tn_status tn_problem_create(const tn_context *context, tn_problem **problem,
                                              tn_error *error);
TN_API void tn_problem_destroy(tn_problem *problem); /* Destroys a problem; NULL has no effect. */

/* Adds a body. Its pieces are copied and normalised (sorted by time, merged). The clocks of a
 * merged piece cover the clocks of all pieces in it. `id` (may be NULL) receives the body's id.
 * Errors: E_INVALID (an empty or reversed interval; a window outside the size; an alignment that is
 * not a power of two; a pinned offset off the alignment; offset + size overflows; an unknown bank;
 * a leader that does not exist yet or lies in another bank; a distance off the alignment; a pinned
 * body with TN_BODY_ANY_BANK), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_problem_add(tn_problem *problem, const tn_body *body, tn_body_id *id,
                                           tn_error *error);
/* Sets bank `id`, which is an existing bank or one past the last bank. Bank 0 always exists. */
TN_API TN_CHECKED tn_status tn_problem_set_bank(tn_problem *problem, tn_bank_id id,
                                                const tn_bank *bank, tn_error *error);
/* Gives a problem, such as one that was read from a file, the memories of a device. If all names of
 * `banks` are names of banks of the problem, those banks are changed. If no name is, the given
 * banks become banks 0, 1, ... in order. (tn_problem_set_bank changes a single bank, by its
 * number.) Bodies in bank 0 that are not bound to it (pinned, or placed there by a file) may then
 * choose their bank. Errors: E_INVALID (some names are known and some are not), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_problem_offer_banks(tn_problem *problem, const tn_bank *banks,
                                                   uint32_t count, tn_error *error);
/* Sets the default alignment, for bodies that give no alignment: a power of two, 1 by default. */
TN_API TN_CHECKED tn_status tn_problem_set_alignment(tn_problem *problem, uint64_t alignment,
                                                     tn_error *error);

/* Sets the number of streams in the clocks of pieces, 1 to TN_STREAMS_MAX. Call it before adding
 * bodies. */
TN_API TN_CHECKED tn_status tn_problem_set_streams(tn_problem *problem, uint32_t count,
                                                   tn_error *error);
TN_API uint32_t tn_problem_streams(const tn_problem *problem);

/* Keeps the byte ranges of two bodies disjoint, even if their live ranges are disjoint. Bodies in
 * different banks, and bodies of 0 bytes, are apart in any case; giving a pair twice changes
 * nothing. Errors: E_INVALID (a == b; a body that does not exist; two bodies that are tied so that
 * they share bytes; more than 2^30 pairs), E_NO_MEMORY. Cost: O(1) time and memory. */
TN_API TN_CHECKED tn_status tn_problem_keep_apart(tn_problem *problem, tn_body_id a, tn_body_id b,
                                                  tn_error *error);
/* Says that two bodies are never live at the same time, although their live ranges overlap: for
 * example, each belongs to another branch of an If. They may share bytes at any time. Each body
 * counts together with the bodies tied to it, so the pair stands for all pairs of bodies of both
 * groups. Giving a pair twice changes nothing. The problem has one stream.
 * Errors: E_INVALID (a == b; a body that does not exist; several streams; more than 2^30 pairs),
 * E_NO_MEMORY. Cost: O(1) time and memory. */
TN_API TN_CHECKED tn_status tn_problem_add_exclusion(tn_problem *problem, tn_body_id a,
                                                     tn_body_id b, tn_error *error);
/* Keeps all bodies out of bytes [first, last) of a bank. Reserved ranges may overlap each other and
 * may end beyond the capacity. They do not count in the peak. An empty range has no effect.
 * Errors: E_INVALID (an unknown bank; first > last; more than 2^20 ranges), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_problem_reserve(tn_problem *problem, tn_bank_id bank, uint64_t first,
                                               uint64_t last, tn_error *error);
/* Makes a layout cost `cost` if the two bodies share at least one byte. The costs of a pair that is
 * given several times add up; sums saturate at UINT64_MAX. A cost has no effect on a pair that
 * cannot share bytes (live at the same time, separated, of 0 bytes, in two banks), and none on two
 * bodies of one group.
 * Errors: E_INVALID (a == b; a body that does not exist; a cost above 2^63 - 1; more than 2^30
 * pairs), E_NO_MEMORY. Cost: O(1) time and memory. */
TN_API TN_CHECKED tn_status tn_problem_add_reuse_cost(tn_problem *problem, tn_body_id a,
                                                      tn_body_id b, uint64_t cost, tn_error *error);
/* Return the separations, exclusions, reserved ranges and reuse costs as they were given, in the
 * order of adding. The pointers are valid until the problem is changed or destroyed. */
TN_API const tn_pair *tn_problem_separations(const tn_problem *problem, uint32_t *count);
TN_API const tn_pair *tn_problem_exclusions(const tn_problem *problem, uint32_t *count);
TN_API const tn_reserved *tn_problem_reserved(const tn_problem *problem, uint32_t *count);
TN_API const tn_pair *tn_problem_reuse_costs(const tn_problem *problem, uint32_t *count);

/* Events: the program that a problem belongs to, for TN_OBJECTIVE_WAITS and TN_OBJECTIVE_TIME.
 *
 * tn_problem_add_event  adds an event, such as an operator, that takes `time` (in any unit). Events
 *                       are numbered 0, 1, 2, ... in one possible serial order
 * tn_problem_add_order  event `before` is over when event `after` starts, in every layout
 * tn_problem_add_wait   event `after` waits for event `before`, in every layout: the program itself
 *                       has this wait, such as one for a copy, and it counts as a wait of every
 *                       layout
 * tn_problem_add_span   bytes of a body between a write and their uses
 *
 * Errors: E_INVALID (an event or body that does not exist; before >= after; a use before the write;
 * bytes outside the body; more than TN_EVENTS_MAX events, TN_SPANS_MAX spans, or 2^24 orders or
 * uses; spans times uses above 2^32; times with a sum above 2^63 - 1), E_NO_MEMORY. */
#define TN_EVENTS_MAX 16384u
#define TN_SPANS_MAX 65536u
TN_API TN_CHECKED tn_status tn_problem_add_event(tn_problem *problem, uint64_t time, uint32_t *id,
                                                 tn_error *error);
TN_API TN_CHECKED tn_status tn_problem_add_order(tn_problem *problem, uint32_t before,
                                                 uint32_t after, tn_error *error);
TN_API TN_CHECKED tn_status tn_problem_add_wait(tn_problem *problem, uint32_t before,
                                                uint32_t after, tn_error *error);
TN_API TN_CHECKED tn_status tn_problem_add_span(tn_problem *problem, const tn_span *span,
                                                tn_error *error);
/* Return the events, orders, waits and spans as they were given, with uses without repetitions. The
 * pointers are valid until the problem is changed or destroyed. */
TN_API const uint64_t *tn_problem_events(const tn_problem *problem, uint32_t *count); /* times */
TN_API const tn_wait *tn_problem_orders(const tn_problem *problem, uint32_t *count);
TN_API const tn_wait *tn_problem_waits(const tn_problem *problem, uint32_t *count);
TN_API const tn_span *tn_problem_spans(const tn_problem *problem, uint32_t *count);
/* Adds a reuse cost of 1 for each pair of bodies that needs a wait if the two share bytes: the
 * order of events does not imply that all uses of one are over when the other is written. Shares no
 * code with the planners. Errors: E_UNSUPPORTED (more than 2^22 pairs of spans need a wait),
 * E_NO_MEMORY.
 * Cost: O(spans (spans + uses) + events (events + orders) events / 64) time, O(events^2 / 4) bytes.
 */
TN_API TN_CHECKED tn_status tn_problem_price_pairs(tn_problem *problem, tn_error *error);

TN_API uint32_t tn_problem_count(const tn_problem *problem);
TN_API uint32_t tn_problem_bank_count(const tn_problem *problem);
/* Returns a body, with pointers that are valid until the problem is changed or destroyed. In a body
 * read back, the alignment is resolved (>= 1), `pieces` is NULL only if the size is 0, and `first`
 * and `last` are the hull of the pieces. With several streams no clock is NULL. */
TN_API const tn_body *tn_problem_body(const tn_problem *problem, tn_body_id id);
TN_API const tn_bank *tn_problem_bank(const tn_problem *problem, tn_bank_id id);

/* Returns the bytes of memory without reuse: the sum of the sizes, each rounded up to its
 * alignment. A group of tied bodies counts once, from its lowest byte to its highest. Saturates at
 * UINT64_MAX. */
TN_API uint64_t tn_problem_naive(const tn_problem *problem);
/* Computes a lower bound on the bytes of every layout of bank `bank`: the peak of live bytes, with
 * the padding that alignment forces, and the highest end of a pinned body. Reserved ranges count.
 * Bodies with TN_BODY_ANY_BANK count only if the problem has one bank. `step` (may be NULL)
 * receives the first step of the peak. Errors: E_INVALID (the bank does not exist), E_NO_MEMORY.
 * Cost: O(n log n). */
TN_API TN_CHECKED tn_status tn_problem_lower_bound(const tn_problem *problem, tn_bank_id bank,
                                                   uint64_t *bytes, int64_t *step, tn_error *error);

/* --- planning -------------------------------------------------------------------------- */

/* Finds an offset for every body. A layout is returned only after tn_layout_verify accepted it.
 *
 * problem   read only; may be destroyed after the call
 * options   NULL for the defaults
 * layout    out; release with tn_layout_release. Unchanged on failure
 *
 * Errors: E_UNKNOWN (planner), E_UNSUPPORTED (a constraint that the named planner does not model;
 * separations, exclusions, reserved ranges or reuse costs together with bodies that choose their
 * bank; exclusions with the objective WAITS or TIME),
 * E_INVALID (more than 2^63 - 1 live bytes; a group of tied bodies with more simultaneous pieces
 * than can be merged; TN_OBJECTIVE_PAIRS and a bank with reuse costs but no capacity;
 * TN_OBJECTIVE_WAITS or _TIME without events or without a capacity, or with several banks),
 * E_INFEASIBLE (proved: every layout exceeds the capacity, or the pins contradict each other),
 * E_STOPPED (no layout within the capacity was found, or a limit ended the search before the first
 * layout), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_plan(const tn_problem *problem, const tn_plan_options *options,
                                    tn_layout *layout, tn_error *error);
/* Releases a layout; NULL or a zeroed one has no effect. */
TN_API void tn_layout_release(tn_layout *layout);

/* A use of a tensor: tensor `tensor` is written or read in step `step`. */
typedef struct tn_use {
    uint32_t step, tensor;
} tn_use;
/* Plans tensors from their uses alone (examples/allocate_graph.c). A tensor is live from its first
 * use to its last one, in both of these steps. A tensor that must outlive the last step gets one
 * more use after it.
 *
 * sizes    [count] bytes
 * uses     [use_count], in any order
 * options  NULL for the defaults
 * offsets  out, [count] bytes from the start of the arena, multiples of 64; 0 for a tensor without
 *          a use
 * arena    out: bytes of the arena
 *
 * tn_graph_allocate (run.h) does this for a tn_graph.
 * Errors: E_INVALID (a use of tensor `count` or above, or of step UINT32_MAX), and those of
 * tn_plan. */
TN_API TN_CHECKED tn_status tn_plan_uses(const uint64_t *sizes, uint32_t count, const tn_use *uses,
                                         uint32_t use_count, const tn_plan_options *options,
                                         uint64_t *offsets, uint64_t *arena, tn_error *error);

/* Makes a layout from given offsets, with every body in its own `bank`. Computes peaks and bounds;
 * checks nothing (see tn_layout_verify). */
TN_API TN_CHECKED tn_status tn_layout_from_offsets(const tn_problem *problem,
                                                   const uint64_t *offsets, tn_layout *layout,
                                                   tn_error *error);
/* Makes a layout from given offsets and a bank for each body; `bank` NULL: the body's own bank.
 * Computes peaks and bounds; checks nothing. Errors: those of tn_layout_from_offsets; E_INVALID (a
 * bank does not exist). */
TN_API TN_CHECKED tn_status tn_layout_from_places(const tn_problem *problem,
                                                  const uint64_t *offsets, const tn_bank_id *banks,
                                                  tn_layout *layout, tn_error *error);
/* Places the bodies one after another without sharing bytes: the baseline for plans. Ignores pins,
 * ties and banks. */
TN_API TN_CHECKED tn_status tn_layout_without_reuse(const tn_problem *problem, tn_layout *layout,
                                                    tn_error *error);

/* Why a layout is invalid: the first conflict in time, among equal times the one at the lowest
 * byte. */
typedef struct tn_conflict {
    enum tn_conflict_reason {
        TN_CONFLICT_NONE,
        TN_CONFLICT_OVERLAP,   /* a and b share bytes [lo, hi) at step `step` */
        TN_CONFLICT_ALIGNMENT, /* the offset of a, `lo`, is not a multiple of its alignment */
        TN_CONFLICT_PIN,       /* a is at `lo` but pinned at `hi` */
        TN_CONFLICT_CAPACITY,  /* a ends at `hi`, beyond the capacity of its bank */
        TN_CONFLICT_PEAK,      /* a ends at `hi`, above the peak that the layout states */
        TN_CONFLICT_OVERFLOW,  /* a's offset plus its size exceeds 64 bits */
        TN_CONFLICT_COUNT,     /* the layout is for another number of bodies */
        TN_CONFLICT_TIE,       /* a is at `lo`; tied to b, it must be at `hi` */
        TN_CONFLICT_ORDER,     /* a and b share bytes [lo, hi) and neither is before the other */
        TN_CONFLICT_BANK,      /* a is in bank `lo` but belongs in bank `hi` */
        TN_CONFLICT_APART,     /* a and b are separated but share bytes [lo, hi) */
        TN_CONFLICT_RESERVED,  /* a holds the reserved bytes [lo, hi) */
        TN_CONFLICT_COST,      /* the layout states the reuse cost `lo`; it is `hi` */
        TN_CONFLICT_WAITS,     /* the layout states `lo` waits; there are `hi` */
        TN_CONFLICT_TIME       /* the layout states the time `lo`; it is `hi` */
    } reason;
    tn_body_id a, b;
    int64_t step;
    uint64_t lo, hi;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_conflict;

/* Checks a layout from any source against a problem. Shares no code with the planners.
 *
 * conflict  out, may be NULL; set on success too (reason NONE)
 *
 * Errors: E_CONFLICT. error->message names the two bodies, the bytes and the step. For bodies
 * without a known order it names the step at which the second begins in the serial order.
 * Cost: O((n + k) log n) for n pieces and k = 0 or 1 conflicts, with clocks O(n streams) more;
 * O(n) memory. */
TN_API TN_CHECKED tn_status tn_layout_verify(const tn_problem *problem, const tn_layout *layout,
                                             tn_conflict *conflict, tn_error *error);

/* The reuse cost of a layout: the sum of the costs of the pairs that share bytes. Two bodies share
 * bytes if they are in one bank and their ranges [offset, offset + size) overlap; a body of 0 bytes
 * shares no byte. Shares no code with the planners.
 *
 * active   out, may be NULL; [number of reuse costs], whether the pair of each one shares bytes
 *
 * Saturates at UINT64_MAX. Errors: E_INVALID (a layout for another number of bodies).
 * Cost: O(number of reuse costs). */
TN_API TN_CHECKED tn_status tn_layout_reuse_cost(const tn_problem *problem, const tn_layout *layout,
                                                 uint64_t *cost, bool *active, tn_error *error);

/* The waits that a layout adds to the order of the events, and the time of the program with them.
 * This code shares nothing with the planners' count of waits, so it checks them. The time is that
 * of the list schedule, which the planners use as well.
 *
 * A wait is needed from every use of a span to the write of a later span of another body that holds
 * a common byte, unless the order of events implies it. `list` has the waits that are left after
 * transitive reduction: those that no other path of orders and waits implies. Waits of
 * tn_problem_add_wait are included.
 *
 * workers  events that run at once; 0: no limit, so `time` is the length of the critical path. Else
 *          `time` is the length of a list schedule: whenever a worker is free, the ready event with
 *          the longest path to the end starts, among equals the one with the lowest number
 * list     out, [count], by after, then before; release with tn_waits_release. May be NULL
 * count    out
 * time     out, may be NULL
 *
 * Errors: E_INVALID (a layout for another number of bodies; spans that share bytes although each is
 * used after the other is written), E_NO_MEMORY.
 * Cost: O(spans^2 + events (events + orders) / 64). */
TN_API TN_CHECKED tn_status tn_layout_waits(const tn_problem *problem, const tn_layout *layout,
                                            uint32_t workers, tn_wait **list, uint64_t *count,
                                            uint64_t *time, tn_error *error);
/* Releases the waits of tn_layout_waits; NULL has no effect. */
TN_API void tn_waits_release(tn_wait *list);

/* Names and one-line summaries of the planners, for lists and --help. */
TN_API uint32_t tn_planner_count(void);
TN_API const char *tn_planner_name(uint32_t index);
TN_API const char *tn_planner_summary(uint32_t index);

/* --- files ------------------------------------------------------------------------------- */

/* Reads a problem from MiniMalloc's CSV in all its dialects, or from JSON (format "mem-plan", or
 * dsa-problem-v1, which has a member "schema_version"), chosen by the suffix.
 *
 * offsets   out, or NULL. Not NULL: receives an array [count] (release with tn_offsets_release), or
 *           NULL if the file has no offsets; offsets of the file do not pin. NULL: offsets of the
 *           file pin their bodies, as in MiniMalloc
 *
 * Errors: E_IO, E_INVALID with file:line (CSV) or file:byte (JSON), E_UNSUPPORTED (suffix, or JSON
 * in a minimal build). */
TN_API TN_CHECKED tn_status tn_problem_load(const char *path, const tn_context *context,
                                            tn_problem **problem, uint64_t **offsets,
                                            tn_error *error);
/* Reads a problem from memory; otherwise like tn_problem_load. `name` gives the suffix and appears
 * in messages. */
TN_API TN_CHECKED tn_status tn_problem_load_memory(const char *name, const void *bytes, size_t size,
                                                   const tn_context *context, tn_problem **problem,
                                                   uint64_t **offsets, tn_error *error);
/* Reads a plan for `problem` from a file: a solution of dsa-solver (dsa-solution-v1), for a problem
 * that was read from a dsa-problem-v1. It must state the profile, the instance and the fingerprint
 * of that problem. (Plans as CSV or mem-plan contain their own buffers: tn_problem_load reads
 * them.)
 *
 * layout   out; release with tn_layout_release. Computes peaks, bounds and the reuse cost; checks
 *          nothing else (see tn_layout_verify). Unchanged on failure
 *
 * Errors: E_IO, E_INVALID (the file cannot be read, or is a solution for another problem),
 * E_CONFLICT (a buffer of the problem is not placed; an unknown buffer or pool), E_UNSUPPORTED (the
 * problem was not read from a dsa-problem-v1; another version; a minimal build), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_layout_load(const tn_problem *problem, const char *path,
                                           tn_layout *layout, tn_error *error);
/* Reads a plan from memory; otherwise like tn_layout_load. `name` appears in messages. */
TN_API TN_CHECKED tn_status tn_layout_load_memory(const tn_problem *problem, const char *name,
                                                  const void *bytes, size_t size, tn_layout *layout,
                                                  tn_error *error);
TN_API void tn_offsets_release(const tn_context *context, uint64_t *offsets, uint32_t count);
/* Writes a problem as CSV with a last column `offset` (omitted if layout is NULL) and with the
 * optional columns that at least one body needs. The file is replaced atomically. */
TN_API TN_CHECKED tn_status tn_problem_save_csv(const tn_problem *problem, const tn_layout *layout,
                                                const char *path, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
