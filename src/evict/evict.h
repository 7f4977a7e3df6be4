/* evict.h - the core that decides what stays in a budget of bytes while nobody knows what comes
 * next. The simulator of logs and the eager interpreter are written on it.
 *
 *     tn__evict_options options = {.policy = "lru", .budget = 1 << 20, .addresses = true,
 *                                  .hooks = {.self = me, .compute = me_compute}};
 *     TN_TRY(tn__evict_create(&options, &evict, error));
 *     TN_TRY(tn__evict_constant(evict, &(tn__evict_value){.bytes = 400, .pinned = true}, &x,
 *                               error));
 *     fill(memory + tn__evict_at(evict, x));
 *     tn__evict_output out[1] = {{.bytes = 400, .alias = TN__EVICT_NONE}};
 *     tn__evict_call call = {.what = relu, .inputs = &x, .input_count = 1, .outputs = out,
 *                            .output_count = 1};
 *     TN_TRY(tn__evict_apply(evict, &call, &y, error));
 *     TN_TRY(tn__evict_want(evict, y, error)); // computed again, if it was evicted; and locked
 *     read(memory + tn__evict_at(evict, y));
 *     tn__evict_unlock(evict, y);
 *     tn__evict_release(evict, y);
 *
 * A *storage* is bytes; a *tensor* is a value in them (a view is another tensor of the same
 * storage); an *operator* made it and can make it again. The core has no memory of its own: it says
 * at which offset of the caller's arena a storage lies, and asks the hooks to compute, to copy and
 * to move. Without addresses it counts bytes alone, as DTR's authors do.
 *
 * A tensor that nobody refers to any more (release) gives its bytes back at once and keeps its
 * history while others may need it to be made again; then the history goes as well, and ids are
 * used anew. What is no result of an operator that may run again (constants, operators that run
 * once, values whose operands were overwritten) is never dropped while somebody refers to it; when
 * nobody does, and others were made from it, it may be let go, and those stay (spent.c).
 *
 * Host memory grows with the history.
 * Errors: E_EXHAUSTED (the budget: says what is locked and what would have sufficed), E_NO_MEMORY
 * (of the host), and what hooks return. After an error nothing is lost: what was referred to is
 * there or can be made again, and the call can be tried again.
 * Threads: one at a time.
 */
#ifndef TN_EVICT_H
#define TN_EVICT_H

#include <tenure/evict.h>

#include "base/base.h"

#define TN__EVICT_NONE UINT32_MAX

typedef struct tn__evict tn__evict;

/* What the hook computes: operands lie at these offsets of the arena (0 without addresses). */
typedef struct tn__evict_run {
    uint32_t op;
    void *what; /* of the call */
    bool again; /* it ran before, on the same values */
    uint32_t input_count, output_count;
    const uint32_t *inputs, *outputs; /* tensors */
    const uint64_t *input_at;         /* [input_count] */
    const uint64_t *output_at; /* [output_count]; an overwritten or aliased one: its input's */
    uint64_t scratch_at, scratch_bytes;
} tn__evict_run;

typedef struct tn__evict_hooks { /* each may be NULL: nothing is done */
    void *self;
    /* *cost: as the call said; may be set to what was measured at the first run. A failure ends the
     * call that needed it, with that status. */
    tn_status (*compute)(void *self, const tn__evict_run *run, uint64_t *cost, tn_error *error);
    void (*move)(void *self, uint64_t from, uint64_t to, uint64_t bytes); /* they may overlap */
    /* A copy on the host, and back. `host` is the caller's handle of the copy. */
    tn_status (*copy_out)(void *self, uint64_t at, uint64_t bytes, uint64_t *host, tn_error *error);
    tn_status (*copy_in)(void *self, uint64_t host, uint64_t at, uint64_t bytes, tn_error *error);
    void (*forget_copy)(void *self, uint64_t host, uint64_t bytes);
    void (*poison)(void *self, uint64_t at, uint64_t bytes); /* nobody's from now on */
    void (*forget)(void *self, void *what);                  /* the operator will never run again */
    /* Of a tensor, for messages; may return NULL. */
    const char *(*name)(void *self, uint32_t tensor);
} tn__evict_hooks;

typedef struct tn__evict_options { /* zero means the default */
    const tn_context *context;     /* NULL or outlives it */
    const char *policy;            /* NULL: the default */
    uint64_t budget;               /* bytes; with addresses the arena is exactly so large */
    bool addresses;                /* storages have places; else bytes alone */
    uint64_t alignment;            /* of places, a power of two; 0: 64 */
    bool exact;                    /* as DTR's simulator does it: histories stay, results of an
                                    * operator that are there already take bytes twice */
    uint64_t cost_limit;           /* of runs again; 0: none. Beyond it calls end: E_STOPPED */
    bool small_too;                /* storages below 1 % of the mean are candidates as well */
    bool sample;                   /* look at sqrt(n) random candidates of n */
    bool find_least;               /* for tn__evict_least_of: O(storages) an operator */
    bool time_search;              /* fill search_s: two looks at the clock a search, and for one in
                                    * 16 that go or come back */
    uint64_t seed;
    uint64_t cost_per_s;       /* units of cost in a second; 0: 10^9 */
    uint64_t link_bytes_per_s; /* to the host, each way; 0: nothing is swapped */
    uint64_t host_bytes;       /* room for copies there; 0: no limit */
    uint64_t move_bytes_per_s; /* of compaction; 0: 10^11 */
    tn__evict_hooks hooks;
} tn__evict_options;

/* Errors: E_UNKNOWN (policy), E_INVALID (alignment), E_NO_MEMORY. */
tn_status tn__evict_create(const tn__evict_options *options, tn__evict **evict, tn_error *error);
void tn__evict_destroy(tn__evict *evict); /* forgets every copy and operator; NULL is fine */

/* A value from outside, which no operator makes again: its bytes stay until nothing needs them.
 * With `pinned` they never move, either: parameters, states, and what others hold a pointer to. The
 * caller fills tn__evict_at(tensor) before the next call. One outside reference is the caller's. */
typedef struct tn__evict_value {
    uint64_t bytes;
    bool pinned;
} tn__evict_value;
tn_status tn__evict_constant(tn__evict *evict, const tn__evict_value *value, uint32_t *tensor,
                             tn_error *error);

typedef struct tn__evict_output {
    uint64_t bytes;  /* of a fresh storage */
    uint32_t alias;  /* number of an input whose storage it shares, or TN__EVICT_NONE */
    uint64_t shift;  /* an alias: bytes from that input's first byte */
    bool overwrites; /* of an alias: writes new contents into that input's storage, in place.
                      * Whatever is evicted and would need the old ones is made first; the tensors
                      * that were in it are lost and may only be released. The operator, and what
                      * it makes, is never made again. */
} tn__evict_output;
enum {                           /* tn__evict_call.flags */
       TN__EVICT_ONCE = 1u << 0, /* may not run again: its results are never dropped */
       TN__EVICT_STAYS = 1u << 1 /* fresh results are pinned; for tn__evict_constant */
};
typedef struct tn__evict_call {
    void *what; /* handed to the hooks */
    uint64_t cost;
    uint64_t scratch; /* bytes that it needs while it runs */
    uint32_t flags;
    uint32_t input_count, output_count;
    const uint32_t *inputs;
    const tn__evict_output *outputs;
} tn__evict_call;
/* Runs an operator: operands are made again where they must be, room is made, the hook computes.
 * tensors [output_count]: the results, each with one outside reference, the caller's. On failure
 * there are none, and `what` is the caller's again (the hook `forget` is not called). */
tn_status tn__evict_apply(tn__evict *evict, const tn__evict_call *call, uint32_t *tensors,
                          tn_error *error);

/* Outside references. The last one gone: bytes are free at once, if they can be had again or nobody
 * needs them. */
void tn__evict_retain(tn__evict *evict, uint32_t tensor);
void tn__evict_release(tn__evict *evict, uint32_t tensor);

/* Makes the tensor again, if it is not there, and locks it, so that its bytes stay where they are
 * until tn__evict_unlock. */
tn_status tn__evict_want(tn__evict *evict, uint32_t tensor, tn_error *error);
void tn__evict_unlock(tn__evict *evict, uint32_t tensor);
/* The same for ever: the storage is never evicted or moved any more. */
tn_status tn__evict_pin(tn__evict *evict, uint32_t tensor, tn_error *error);

/* Makes the tensor again, if it is not there, and, where its operator makes nothing else, lets go
 * of how it was made: it is never dropped any more (it may be moved), and what it was made from may
 * go. For what would take a whole run to make again. */
tn_status tn__evict_keep(tn__evict *evict, uint32_t tensor, tn_error *error);

bool tn__evict_is_there(const tn__evict *evict, uint32_t tensor);
uint64_t tn__evict_at(const tn__evict *evict, uint32_t tensor); /* offset in the arena; is there */
uint32_t tn__evict_storage_of(const tn__evict *evict, uint32_t tensor);
uint64_t tn__evict_bytes(const tn__evict *evict, uint32_t storage);
const tn_evict_counts *tn__evict_count(const tn__evict *evict);
uint64_t tn__evict_clock(const tn__evict *evict); /* cost of all that ran, and 1 */
/* Bytes that cannot be given up now: pinned, locked, or of no operator that may run again. */
uint64_t tn__evict_held(const tn__evict *evict);
/* The budget that would have sufficed for the step that failed last for want of it; 0: none did. */
uint64_t tn__evict_needed(const tn__evict *evict);
/* With `find_least`: what the operators that ran so far could not have done without; without a
 * name. */
const tn_evict_least *tn__evict_least_of(const tn__evict *evict);
/* Everything that must hold: NULL, or what does not. O(n). */
const char *tn__evict_check(const tn__evict *evict);

#endif
