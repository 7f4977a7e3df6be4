/* evict.h - the core that keeps a running program within a budget of bytes when the next operators
 * are unknown. The simulator of logs and the eager interpreter are built on it.
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
 *     TN_TRY(tn__evict_want(evict, y, error)); // recomputed, if it was evicted; and locked
 *     read(memory + tn__evict_at(evict, y));
 *     tn__evict_unlock(evict, y);
 *     tn__evict_release(evict, y);
 *
 * A *storage* is a range of bytes. A *tensor* is a value in a storage (a view is another tensor of
 * the same storage). An *operator* made it and can recompute it. The core has no memory of its own:
 * it computes the offset of each storage in the caller's arena, and calls the hooks to compute, to
 * copy and to move. Without addresses it only counts bytes, as DTR's simulator does.
 *
 * When the last outside reference to a tensor is released, its bytes are free at once. Its history
 * is kept while other tensors may need it to be recomputed; then the history is freed too, and ids
 * are reused. Some tensors are no result of an operator that may run again: constants, results of
 * operators that run once, values whose operands were overwritten. Such a tensor is never dropped
 * while it has an outside reference. Without one it may be evicted even if others were made from
 * it; those others then stay (dead_storages.c).
 *
 * Host memory grows with the history.
 * Errors: E_EXHAUSTED (the budget is too small: the message names what is locked and a budget that
 * would have sufficed), E_NO_MEMORY (of the host), and the errors of hooks. After an error nothing
 * is lost: each tensor with a reference is resident or can be recomputed, and the call can be
 * repeated.
 * Threads: one at a time.
 */
#ifndef TN_EVICT_H
#define TN_EVICT_H

#include <tenure/eager.h>

#include "base/base.h"

#define TN__EVICT_NONE UINT32_MAX

typedef struct tn__evict tn__evict;

/* The arguments of the hook `compute`: offsets of operands and results in the arena (0 without
 * addresses). */
typedef struct tn__evict_run {
    uint32_t op;
    void *what; /* from the call */
    bool again; /* it ran before, on the same values */
    uint32_t input_count, output_count;
    const uint32_t *inputs, *outputs; /* tensors */
    const uint64_t *input_at;         /* [input_count] */
    const uint64_t *output_at; /* [output_count]; overwriting or alias: the offset of its input */
    uint64_t scratch_at, scratch_bytes;
} tn__evict_run;

typedef struct tn__evict_hooks { /* a hook may be NULL: then nothing is done */
    void *self;
    /* *cost: on entry the cost that the call stated; the hook may set it to a measured cost at the
     * first run. If the hook fails, the call that needed it returns the same status. */
    tn_status (*compute)(void *self, const tn__evict_run *run, uint64_t *cost, tn_error *error);
    void (*move)(void *self, uint64_t from, uint64_t to, uint64_t bytes); /* they may overlap */
    /* Copies to the host, and back. `host` is the caller's handle of the copy. */
    tn_status (*copy_out)(void *self, uint64_t at, uint64_t bytes, uint64_t *host, tn_error *error);
    tn_status (*copy_in)(void *self, uint64_t host, uint64_t at, uint64_t bytes, tn_error *error);
    void (*forget_copy)(void *self, uint64_t host, uint64_t bytes);
    void (*poison)(void *self, uint64_t at, uint64_t bytes); /* these bytes are free now */
    void (*forget)(void *self, void *what);                  /* the operator will never run again */
    /* The name of a tensor for messages; may return NULL. */
    const char *(*name)(void *self, uint32_t tensor);
} tn__evict_hooks;

typedef struct tn__evict_options { /* zero means the default */
    const tn_context *context;     /* NULL or outlives the core */
    const char *policy;            /* NULL: the default */
    uint64_t budget;               /* bytes; with addresses also the size of the arena */
    bool addresses;                /* storages have addresses; otherwise bytes are only counted */
    uint64_t alignment;            /* of addresses, a power of two; 0: 64 */
    bool exact;                    /* as DTR's simulator does it: histories stay, results of an
                                    * operator that are there already take bytes twice */
    uint64_t cost_limit;           /* of recomputations; 0: no limit. Beyond it: E_STOPPED */
    bool small_too;                /* storages below 1 % of the mean are candidates as well */
    bool sample;                   /* look at sqrt(n) random candidates of n */
    bool find_least;               /* for tn__evict_least_of: O(storages) per operator */
    bool time_search;              /* fill search_s: reads the clock twice per search, and for one
                                    * in 16 storages that are dropped or recomputed */
    uint64_t seed;
    uint64_t cost_per_s;       /* units of cost in a second; 0: 10^9 */
    uint64_t link_bytes_per_s; /* to the host, each way; 0: no swapping */
    uint64_t host_bytes;       /* host memory for copies; 0: no limit */
    uint64_t move_bytes_per_s; /* of compaction; 0: 10^11 */
    tn__evict_hooks hooks;
} tn__evict_options;

/* Errors: E_UNKNOWN (policy), E_INVALID (alignment), E_NO_MEMORY. */
tn_status tn__evict_create(const tn__evict_options *options, tn__evict **evict, tn_error *error);
void tn__evict_destroy(tn__evict *evict); /* forgets every copy and operator; NULL is fine */

/* A value from outside, which no operator can recompute: its bytes stay until nothing needs them.
 * With `pinned` they never move either; use it for parameters, states, and memory that others hold
 * a pointer to. The caller fills tn__evict_at(tensor) before the next call, and owns one outside
 * reference. */
typedef struct tn__evict_value {
    uint64_t bytes;
    bool pinned;
} tn__evict_value;
tn_status tn__evict_constant(tn__evict *evict, const tn__evict_value *value, uint32_t *tensor,
                             tn_error *error);

typedef struct tn__evict_output {
    uint64_t bytes;  /* size of a new storage */
    uint32_t alias;  /* index of the input that shares its storage, or TN__EVICT_NONE */
    uint64_t shift;  /* an alias: bytes from that input's first byte */
    bool overwrites; /* for an alias: writes new contents into that input's storage, in place.
                      * Dropped tensors that would need the old contents are made first; the tensors
                      * in that storage are lost and may only be released. The operator and its
                      * results are never recomputed. */
} tn__evict_output;
enum {                           /* tn__evict_call.flags */
       TN__EVICT_ONCE = 1u << 0, /* may not run again: its results are never dropped */
       TN__EVICT_STAYS = 1u << 1 /* new results are pinned; for tn__evict_constant */
};
typedef struct tn__evict_call {
    void *what; /* passed to the hooks */
    uint64_t cost;
    uint64_t scratch; /* bytes that it needs while it runs */
    uint32_t flags;
    uint32_t input_count, output_count;
    const uint32_t *inputs;
    const tn__evict_output *outputs;
} tn__evict_call;
/* Runs an operator: recomputes operands where necessary, makes room, calls the hook `compute`.
 * tensors [output_count]: the results; the caller owns one outside reference to each. On failure no
 * results exist, and the caller owns `what` again (the hook `forget` is not called). */
tn_status tn__evict_apply(tn__evict *evict, const tn__evict_call *call, uint32_t *tensors,
                          tn_error *error);

/* Outside references. When the last one is released, the bytes are free at once if the value can be
 * recomputed or nothing needs it. */
void tn__evict_retain(tn__evict *evict, uint32_t tensor);
void tn__evict_release(tn__evict *evict, uint32_t tensor);

/* Recomputes the tensor if it is not resident, and locks it: its bytes stay where they are until
 * tn__evict_unlock. */
tn_status tn__evict_want(tn__evict *evict, uint32_t tensor, tn_error *error);
void tn__evict_unlock(tn__evict *evict, uint32_t tensor);
/* The same for ever: the storage is never evicted or moved again. */
tn_status tn__evict_pin(tn__evict *evict, uint32_t tensor, tn_error *error);

/* Recomputes the tensor if it is not resident. If its operator has no other result, forgets how it
 * was made: it is never dropped again (it may be moved), and its operands may be freed. For tensors
 * that could only be recomputed by repeating a whole run. */
tn_status tn__evict_keep(tn__evict *evict, uint32_t tensor, tn_error *error);

/* Frees the bytes of the tensor's storage now, with any policy. The next use brings it back.
 * The other tensors of the storage go with it. Nothing happens if it is not resident.
 * drop: it is recomputed. Errors: E_UNSUPPORTED (it cannot be recomputed, or must stay in place).
 * offload: it is copied to the host. Errors: E_UNSUPPORTED (no link, or it must stay in place),
 * E_EXHAUSTED (no room on the host), those of the hook. */
tn_status tn__evict_drop(tn__evict *evict, uint32_t tensor, tn_error *error);
tn_status tn__evict_offload(tn__evict *evict, uint32_t tensor, tn_error *error);

bool tn__evict_is_there(const tn__evict *evict, uint32_t tensor);
/* offset in the arena; must be resident */
uint64_t tn__evict_at(const tn__evict *evict, uint32_t tensor);
uint32_t tn__evict_storage_of(const tn__evict *evict, uint32_t tensor);
uint64_t tn__evict_bytes(const tn__evict *evict, uint32_t storage);
const tn_evict_counts *tn__evict_count(const tn__evict *evict);
uint64_t tn__evict_clock(const tn__evict *evict); /* 1 + cost of all operators that ran */
/* Bytes that cannot be evicted now: pinned, locked, or not the result of an operator that may run
 * again. */
uint64_t tn__evict_held(const tn__evict *evict);
/* The budget that would have sufficed for the last step that exceeded it; 0 if no step did. */
uint64_t tn__evict_needed(const tn__evict *evict);
/* With `find_least`: the bytes that the operators so far could not do without. Contains no name. */
const tn_evict_least *tn__evict_least_of(const tn__evict *evict);
/* Checks the invariants: NULL, or a sentence about one that is broken. O(n). */
const char *tn__evict_check(const tn__evict *evict);

#endif
