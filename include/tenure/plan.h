/* plan.h - where: bodies with lifetimes go in, proved offsets come out.
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
 * A body is a rigid set of pieces; a piece is a rectangle: a half-open time interval
 * [first, last) times a byte window [lo, hi) relative to the body's offset. Two bodies
 * may share bytes only where no piece of one meets a piece of the other in time. A
 * plain buffer is one piece.
 *
 *        byte |      +------+            one body of two pieces: all of it is live
 *             |      |      |            in [1, 3), only its lower half in [5, 7)
 *             |      |      |  +------+
 *             |      +------+  +------+
 *             +------1------3--5------7-- time
 *
 * A body tied to another (TN_BODY_TIED) lies at a fixed distance above it: the inputs of one
 * collective operation side by side, a view of another body's bytes (an alias). Bodies of one
 * such group may share bytes with each other at any time; for all others the group is one body.
 *
 * With several streams (tn_problem_set_streams) time is a partial order: first and last give one
 * serial order that is possible, and clocks say which uses are known to come before others. Piece
 * p is before piece q when p.last <= q.first and p.ends[s] <= q.begins[s] on every stream s;
 * pieces of two bodies may share bytes only where one of them is before the other.
 *
 * Units everywhere: sizes, offsets, peaks in bytes; time in integer steps. Intervals are
 * half open: a body that dies at step 3 and one born at step 3 may share bytes.
 * Threads: any number may read one problem; one thread at a time may change it.
 */
#ifndef TENURE_PLAN_H
#define TENURE_PLAN_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_problem tn_problem;
typedef uint32_t tn_body_id; /* 0, 1, 2, ... in the order of adding */
typedef uint32_t tn_bank_id; /* 0 is the default bank */

#define TN_STREAMS_MAX 65536u

enum {                           /* tn_body.flags */
       TN_BODY_PINNED = 1u << 0, /* `offset` is given, not chosen */
       /* set by the library: the alignment is the problem's default, not the body's own */
       TN_BODY_DEFAULT_ALIGNED = 1u << 1,
       TN_BODY_TIED = 1u << 2,  /* lies `delta` bytes above the start of body `leader` */
       TN_BODY_LEADS = 1u << 3, /* set by the library: others are tied to it */
       /* in whatever bank planning finds best; `bank` is a remark that nothing depends on */
       TN_BODY_ANY_BANK = 1u << 4,
};

typedef struct tn_piece {
    int64_t first, last; /* live in [first, last), first < last */
    uint64_t lo, hi;     /* bytes [lo, hi) of the body, lo < hi <= size */
    /* [streams], copied; read only when the problem has more than one stream. begins[s]: how many
     * events of stream s are known to come before the piece is defined; NULL: none. ends[s]: 1 +
     * the index of its last use (being defined is one) on stream s, 0 without any; NULL: not known,
     * so that nothing can follow it. Raised to begins[s], which changes nothing for true clocks. */
    const int64_t *begins, *ends;
} tn_piece;

/* One thing that needs an address. Zero means the default in every field. */
typedef struct tn_body {
    uint64_t size; /* bytes; 0 is allowed and takes no memory */
    int64_t first; /* with piece_count 0: live in [first, last); else recomputed: the hull */
    int64_t last;
    uint64_t alignment; /* power of two; 0 = the problem's default */
    uint64_t offset;    /* bytes; read only with TN_BODY_PINNED */
    uint32_t flags;     /* TN_BODY_* */
    tn_bank_id bank;
    const tn_piece *pieces; /* [piece_count], any order, may overlap; copied. NULL: one piece */
    uint32_t piece_count;
    const char *name; /* for messages and files; copied; NULL: its number */
    int64_t hint;     /* MiniMalloc's column, carried along; read with has_hint */
    bool has_hint;
    /* With TN_BODY_TIED: an earlier body of the same bank, and a multiple of the alignment. Read
     * back, `leader` is the body at the root of the chain and `delta` the distance from it. */
    tn_body_id leader;
    uint64_t delta; /* bytes */
    /* bytes read and written in all its life: what a choice of banks saves or costs. 0 = twice the
     * size: written once, read once */
    uint64_t traffic;
} tn_body;

typedef struct tn_bank {
    const char *name;   /* copied; NULL: "arena" */
    uint64_t capacity;  /* bytes; 0 = as small as possible, and as large as needed */
    double bytes_per_s; /* 0 = not known: then slower than any that is */
} tn_bank;

/* The outcome of planning: X(name, text). */
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

/* Where everything is, and how good that is known to be. */
typedef struct tn_layout {
    uint64_t *offset; /* [body_count], bytes from the start of the body's bank */
    tn_bank_id *bank; /* [body_count], where each body is */
    uint32_t body_count;
    uint32_t bank_count;
    uint64_t *bank_peak;        /* [bank_count], bytes */
    uint64_t *bank_lower_bound; /* [bank_count], bytes that the bodies in it cannot go below */
    uint64_t *bank_traffic;     /* [bank_count], bytes read and written by the bodies in it */
    uint64_t peak;              /* bytes the arena needs: the sum over the banks */
    uint64_t lower_bound;       /* the same sum of bounds */
    /* OPTIMAL when peak == lower_bound, or proved otherwise. Where bodies may choose their bank:
     * when no choice that fits makes the traffic take less time */
    tn_verdict verdict;
    const char *planner; /* static string; who found it */
    uint64_t seed;
    uint64_t work;  /* placements tried: deterministic, for the same problem and options */
    double seconds; /* wall time */
    bool timed_out; /* the wall clock ended the search early */
} tn_layout;

typedef struct tn_plan_options {
    size_t struct_size; /* sizeof(tn_plan_options) */
    const tn_context *context;
    const char *planner; /* NULL = "auto" */
    uint64_t capacity;   /* bytes of bank 0, when below the bank's own; 0 = the bank's own */
    uint64_t work_limit; /* placements tried; 0 = no limit; deterministic */
    double timeout_s;    /* wall clock; 0 = none. Only ever stops early */
    uint32_t threads;    /* 0 = 1. Never changes the answer for a given work limit */
    uint64_t seed;
    uint64_t enough; /* bytes of a bank without a capacity that would do: a layout that takes no
                      * more ends the search. 0 = as small as can be. Nothing is refused for it */
} tn_plan_options;

#define TN_PLAN_OPTIONS_INIT TN_INIT(tn_plan_options, TN_SET(struct_size, sizeof(tn_plan_options)))

/* --- problems ------------------------------------------------------------------------ */

/* `context` may be NULL and must outlive the problem. */
TN_API TN_CHECKED tn_status tn_problem_create(const tn_context *context, tn_problem **problem,
                                              tn_error *error);
TN_API void tn_problem_destroy(tn_problem *problem); /* NULL is fine */

/* Adds a body; its pieces are copied and normalised (sorted by time, merged).
 * Where pieces of one body overlap, the clocks of what they become cover those of all of them.
 * Errors: E_INVALID (empty or reversed interval, window outside the size, alignment no power
 * of two, pinned off its alignment, offset + size overflows, unknown bank; tied to a body that is
 * not there yet or in another bank, or at a distance off the alignment; pinned with no bank of its
 * own), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_problem_add(tn_problem *problem, const tn_body *body, tn_body_id *id,
                                           tn_error *error);
/* Sets bank `id`, which may be one past the last (0 exists from the start). */
TN_API TN_CHECKED tn_status tn_problem_set_bank(tn_problem *problem, tn_bank_id id,
                                                const tn_bank *bank, tn_error *error);
/* Gives a problem that is there already other banks. Where their names are those of its own banks,
 * they change these, else they take their places in order. Bodies in bank 0 that nothing pins may
 * then choose their bank. Errors: E_INVALID (some names known and some not), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_problem_offer_banks(tn_problem *problem, const tn_bank *banks,
                                                   uint32_t count, tn_error *error);
/* The alignment of bodies that give none; a power of two; the default is 1. */
TN_API TN_CHECKED tn_status tn_problem_set_alignment(tn_problem *problem, uint64_t alignment,
                                                     tn_error *error);

/* How many streams the clocks of pieces count, 1 to TN_STREAMS_MAX; before any body is added. */
TN_API TN_CHECKED tn_status tn_problem_set_streams(tn_problem *problem, uint32_t count,
                                                   tn_error *error);
TN_API uint32_t tn_problem_streams(const tn_problem *problem);

TN_API uint32_t tn_problem_count(const tn_problem *problem);
TN_API uint32_t tn_problem_bank_count(const tn_problem *problem);
/* Pointers live until the problem is changed or destroyed. In a body read back, alignment is
 * resolved (>= 1), pieces is never NULL unless size is 0, first and last are the hull; with
 * several streams no clock is NULL. */
TN_API const tn_body *tn_problem_body(const tn_problem *problem, tn_body_id id);
TN_API const tn_bank *tn_problem_bank(const tn_problem *problem, tn_bank_id id);

/* Sum of the sizes, each rounded up to its alignment: what memory without reuse takes. A group of
 * tied bodies counts once, from its lowest byte to its highest. Saturates at UINT64_MAX. */
TN_API uint64_t tn_problem_naive(const tn_problem *problem);
/* The largest number of bytes that live at one step, alignment counted: a body of size s and
 * alignment a takes at least s, and no layout of bank `bank` goes below the result. Bodies that may
 * choose their bank count when there is only one.
 * `step` (may be NULL) receives the first step of that peak. Cost: O(n log n). */
TN_API TN_CHECKED tn_status tn_problem_lower_bound(const tn_problem *problem, tn_bank_id bank,
                                                   uint64_t *bytes, int64_t *step, tn_error *error);

/* --- planning -------------------------------------------------------------------------- */

/* Finds an offset for every body and proves the result.
 *
 * problem   read only; may be destroyed after the call
 * options   NULL for the defaults
 * layout    out; release with tn_layout_release. Untouched on failure
 *
 * A layout is returned only after tn_layout_verify has accepted it.
 * Errors: E_UNKNOWN (planner), E_UNSUPPORTED (a constraint the named planner does
 * not model), E_INVALID (more than 2^63 - 1 bytes live at once; a group of tied bodies with more
 * pieces alive at once than can be merged), E_INFEASIBLE (a proof, never
 * a guess: above the capacity for any layout, or pins that no layout can keep), E_STOPPED (above
 * the capacity, or a limit came before any layout), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_plan(const tn_problem *problem, const tn_plan_options *options,
                                    tn_layout *layout, tn_error *error);
TN_API void tn_layout_release(tn_layout *layout); /* NULL and zeroed are fine */

/* Takes anybody's offsets as a layout, every body in its own `bank`: peaks and bounds are computed,
 * nothing is checked. */
TN_API TN_CHECKED tn_status tn_layout_from_offsets(const tn_problem *problem,
                                                   const uint64_t *offsets, tn_layout *layout,
                                                   tn_error *error);
/* The same with a bank for each body (NULL: its own). E_INVALID when one does not exist. */
TN_API TN_CHECKED tn_status tn_layout_from_places(const tn_problem *problem,
                                                  const uint64_t *offsets, const tn_bank_id *banks,
                                                  tn_layout *layout, tn_error *error);
/* One body behind the other, each in memory of its own: what a plan is compared with. Pins, ties
 * and banks are not looked at. */
TN_API TN_CHECKED tn_status tn_layout_without_reuse(const tn_problem *problem, tn_layout *layout,
                                                    tn_error *error);

/* Why a layout is not valid: the first conflict in time, then by byte. */
typedef struct tn_conflict {
    enum tn_conflict_reason {
        TN_CONFLICT_NONE,
        TN_CONFLICT_OVERLAP,   /* a and b share bytes [lo, hi) at step `step` */
        TN_CONFLICT_ALIGNMENT, /* a's offset `lo` is no multiple of its alignment */
        TN_CONFLICT_PIN,       /* a is at `lo` but pinned at `hi` */
        TN_CONFLICT_CAPACITY,  /* a ends at `hi`, beyond the capacity of its bank */
        TN_CONFLICT_PEAK,      /* a ends at `hi`, above the peak that the layout states */
        TN_CONFLICT_OVERFLOW,  /* a's offset plus its size exceeds 64 bits */
        TN_CONFLICT_COUNT,     /* the layout is for another number of bodies */
        TN_CONFLICT_TIE,       /* a is at `lo`; tied to b, it must be at `hi` */
        TN_CONFLICT_ORDER,     /* a and b share bytes [lo, hi) and neither is before the other */
        TN_CONFLICT_BANK       /* a is in bank `lo` but belongs in bank `hi` */
    } reason;
    tn_body_id a, b;
    int64_t step;
    uint64_t lo, hi;
} tn_conflict;

/* Checks anybody's layout against a problem; shares no code with the planners.
 *
 * conflict  out, may be NULL: set on success too (reason NONE)
 * Errors: E_CONFLICT with the two bodies, the bytes and the step in error->message (for bodies
 * without a known order, the step at which the second begins in the serial order).
 * Cost: O((n + k) log n) for n pieces and k = 0 or 1 conflicts, with clocks
 * O(n streams) more; O(n) memory. */
TN_API TN_CHECKED tn_status tn_layout_verify(const tn_problem *problem, const tn_layout *layout,
                                             tn_conflict *conflict, tn_error *error);

/* Names and one-line summaries of the planners, for lists and --help. */
TN_API uint32_t tn_planner_count(void);
TN_API const char *tn_planner_name(uint32_t index);
TN_API const char *tn_planner_summary(uint32_t index);
TN_API const char *tn_planner_source(uint32_t index);

/* --- files ------------------------------------------------------------------------------- */

/* Reads a problem: MiniMalloc's CSV in all its dialects, or JSON (format "mem-plan"), by
 * suffix. `offsets`, when not NULL, receives a malloc'ed-by-context array [count] when the file
 * has offsets (release with tn_offsets_release), else NULL: then offsets of the file do not pin;
 * with `offsets` NULL they do, as in MiniMalloc.
 * Errors: E_IO, E_INVALID with file:line (CSV) or file:byte (JSON), E_UNSUPPORTED (suffix, or
 * JSON in a minimal build). */
TN_API TN_CHECKED tn_status tn_problem_load(const char *path, const tn_context *context,
                                            tn_problem **problem, uint64_t **offsets,
                                            tn_error *error);
/* The same from memory; `name` gives the suffix and stands in messages. */
TN_API TN_CHECKED tn_status tn_problem_load_memory(const char *name, const void *bytes, size_t size,
                                                   const tn_context *context, tn_problem **problem,
                                                   uint64_t **offsets, tn_error *error);
TN_API void tn_offsets_release(const tn_context *context, uint64_t *offsets, uint32_t count);
/* Writes the CSV with a last column `offset` (left out when layout is NULL); optional columns
 * only where a body needs them. The file appears whole or not at all. */
TN_API TN_CHECKED tn_status tn_problem_save_csv(const tn_problem *problem, const tn_layout *layout,
                                                const char *path, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
