/* evict.h - keeps a running program within a budget of bytes when the next operators are unknown.
 * The simulator of logs and the eager interpreter are built on it.
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
 *     TN_TRY(tn__evict_want(evict, y, error));    // recomputes y if it was evicted, and locks it
 *     read(memory + tn__evict_at(evict, y));
 *     tn__evict_unlock(evict, y);
 *     tn__evict_release(evict, y);
 *
 * A *storage* is a range of bytes. A *tensor* is a value in a storage (a view is another tensor of
 * the same storage). An *operator* made it and can recompute it. The core allocates no memory for
 * values: it computes the offset of each storage in the caller's arena, and calls the hooks to
 * compute, to copy and to move. Without addresses it only counts bytes, as DTR's simulator does.
 *
 * When the last outside reference to a tensor is released, its bytes are free at once if it can be
 * recomputed or nothing was made from it. Its history is kept while other tensors may need it to be
 * recomputed; then the history is freed too, and ids are reused. Some tensors are not the result of
 * an operator that may run again: constants, results of operators that run once, values with
 * overwritten operands. Such a tensor is never dropped while it has an outside reference. Without
 * one it may be evicted even if others were made from it; those others then stay (dead_storages.c).
 *
 * Host memory grows with the history.
 *
 * Errors: E_EXHAUSTED (the budget is too small; the message names what is locked and a budget that
 * would have sufficed), E_NO_MEMORY (of the host), and the errors of hooks. After an error nothing
 * is lost: each tensor with a reference is resident or can be recomputed, and the call can be
 * repeated.
 *
 * Threads: calls on one tn__evict must not overlap.
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
    void *what; /* the pointer `what` of the call */
    bool again; /* true: the operator ran before, on equal values */
    uint32_t input_count, output_count;
    const uint32_t *inputs, *outputs; /* tensors */
    const uint64_t *input_at;         /* [input_count] offset of each operand */
    /* [output_count] offset of each result; for an alias or an overwriting result, the offset of
     * its input */
    const uint64_t *output_at;
    uint64_t scratch_at, scratch_bytes;
} tn__evict_run;

/* functions of the caller; each may be NULL, then nothing is done */
typedef struct tn__evict_hooks {
    void *self;
    /* Runs an operator. On entry *cost is the cost that the call stated; the hook may replace it by
     * a measured cost at the first run. If the hook fails, the call that needed it returns the
     * hook's status. */
    tn_status (*compute)(void *self, const tn__evict_run *run, uint64_t *cost, tn_error *error);
    /* moves bytes inside the arena; the two ranges may overlap */
    void (*move)(void *self, uint64_t from, uint64_t to, uint64_t bytes);
    /* copy_out copies a storage to the host, copy_in back. `host` is the caller's handle of the
     * copy. */
    tn_status (*copy_out)(void *self, uint64_t at, uint64_t bytes, uint64_t *host, tn_error *error);
    tn_status (*copy_in)(void *self, uint64_t host, uint64_t at, uint64_t bytes, tn_error *error);
    void (*forget_copy)(void *self, uint64_t host, uint64_t bytes);
    /* reports that these bytes are free now */
    void (*poison)(void *self, uint64_t at, uint64_t bytes);
    void (*forget)(void *self, void *what); /* reports that the operator will never run again */
    /* Returns the name of a tensor for messages; may return NULL. */
    const char *(*name)(void *self, uint32_t tensor);
} tn__evict_hooks;

typedef struct tn__evict_options { /* a field that is zero means its default */
    const tn_context *context;     /* NULL, or a context that outlives the tn__evict */
    const char *policy;            /* name of the policy; NULL: the default */
    uint64_t budget;               /* bytes; with addresses also the size of the arena */
    bool addresses;                /* storages have addresses; otherwise bytes are only counted */
    uint64_t alignment;            /* alignment of addresses, a power of two; 0: 64 */
    /* behaves as DTR's simulator does: histories are kept, and results that are resident when their
     * operator runs again take bytes twice */
    bool exact;
    /* limit of the total cost of recomputations, beyond which calls return E_STOPPED; 0: no
     * limit */
    uint64_t cost_limit;
    bool small_too;  /* storages below 1 % of the mean size are candidates as well */
    bool sample;     /* examines sqrt(n) random candidates of n */
    bool find_least; /* enables tn__evict_least_of, at a cost of O(storages) per operator */
    /* measures search_s: reads the clock twice per search, and for one in 16 storages that are
     * dropped or recomputed */
    bool time_search;
    uint64_t seed;
    uint64_t cost_per_s;       /* units of cost per second; 0: 10^9 */
    uint64_t link_bytes_per_s; /* speed of copies to the host, each way; 0: no swapping */
    uint64_t host_bytes;       /* limit of host memory for copies; 0: no limit */
    uint64_t move_bytes_per_s; /* speed of compaction; 0: 10^11 */
    tn__evict_hooks hooks;
} tn__evict_options;

/* Makes a tn__evict. Errors: E_UNKNOWN (policy), E_INVALID (alignment), E_NO_MEMORY. */
tn_status tn__evict_create(const tn__evict_options *options, tn__evict **evict, tn_error *error);
void tn__evict_destroy(tn__evict *evict); /* forgets every copy and operator; NULL does nothing */

/* A value from outside, which no operator can recompute, so its bytes stay until nothing needs
 * them. With `pinned` they never move either; use it for parameters, states, and memory to which
 * others hold a pointer. The caller fills the bytes at tn__evict_at(tensor) before the next call,
 * and owns one outside reference. */
typedef struct tn__evict_value {
    uint64_t bytes;
    bool pinned;
} tn__evict_value;
tn_status tn__evict_constant(tn__evict *evict, const tn__evict_value *value, uint32_t *tensor,
                             tn_error *error);

typedef struct tn__evict_output {
    uint64_t bytes; /* bytes of the new storage of a result; not read for an alias */
    /* index of the input of which the result shares the storage, or TN__EVICT_NONE */
    uint32_t alias;
    uint64_t shift; /* for an alias: distance in bytes from that input's first byte */
    /* for an alias: the operator writes new contents into that input's storage, in place. Dropped
     * tensors that would need the old contents are made first; the tensors in that storage are lost
     * and may only be released. The operator and its results are never recomputed. */
    bool overwrites;
} tn__evict_output;
enum { /* flags of a call (tn__evict_call.flags) */
       /* the operator may run only once, so its results are never dropped */
       TN__EVICT_ONCE = 1u << 0,
       TN__EVICT_STAYS = 1u << 1 /* new results are pinned; used by tn__evict_constant */
};
typedef struct tn__evict_call {
    void *what; /* passed to the hooks */
    uint64_t cost;
    uint64_t scratch; /* bytes of scratch memory that the operator needs while it runs */
    uint32_t flags;
    uint32_t input_count, output_count;
    const uint32_t *inputs;
    const tn__evict_output *outputs;
} tn__evict_call;
/* Runs an operator: recomputes operands where necessary, frees memory for the results, and calls
 * the hook `compute`. tensors [output_count] receives the results; the caller owns one outside
 * reference to each. On failure no results exist, and the caller owns `what` again (the hook
 * `forget` is not called). */
tn_status tn__evict_apply(tn__evict *evict, const tn__evict_call *call, uint32_t *tensors,
                          tn_error *error);

/* Adds or releases an outside reference. When the last one is released, the bytes are free at once
 * if the value can be recomputed or nothing needs it. */
void tn__evict_retain(tn__evict *evict, uint32_t tensor);
void tn__evict_release(tn__evict *evict, uint32_t tensor);

/* Recomputes the tensor if it is not resident, and locks it: its bytes are neither evicted nor
 * moved until tn__evict_unlock. */
tn_status tn__evict_want(tn__evict *evict, uint32_t tensor, tn_error *error);
void tn__evict_unlock(tn__evict *evict, uint32_t tensor);
/* Recomputes the tensor if it is not resident, and pins it: its storage is never evicted or moved
 * again. */
tn_status tn__evict_pin(tn__evict *evict, uint32_t tensor, tn_error *error);

/* Recomputes the tensor if it is not resident. If its operator has no other result, forgets how it
 * was made: it is never dropped again (it may be moved), and its operands may be freed. For tensors
 * that could only be recomputed by repeating a whole run. */
tn_status tn__evict_keep(tn__evict *evict, uint32_t tensor, tn_error *error);

/* Frees the bytes of the tensor's storage now, under any policy; the other tensors of the storage
 * are evicted with it. The next use brings it back. Nothing happens if it is not resident.
 *
 * tn__evict_drop: the tensor is recomputed at its next use. Errors: E_UNSUPPORTED (it cannot be
 * recomputed, or must stay in place).
 *
 * tn__evict_offload: it is copied to the host. Errors: E_UNSUPPORTED (no link, or it must stay in
 * place), E_EXHAUSTED (not enough host memory), those of the hook.
 */
tn_status tn__evict_drop(tn__evict *evict, uint32_t tensor, tn_error *error);
tn_status tn__evict_offload(tn__evict *evict, uint32_t tensor, tn_error *error);

bool tn__evict_is_there(const tn__evict *evict, uint32_t tensor);
/* the tensor's offset in the arena; it must be resident */
uint64_t tn__evict_at(const tn__evict *evict, uint32_t tensor);
uint32_t tn__evict_storage_of(const tn__evict *evict, uint32_t tensor);
uint64_t tn__evict_bytes(const tn__evict *evict, uint32_t storage);
const tn_evict_counts *tn__evict_count(const tn__evict *evict);
uint64_t tn__evict_clock(const tn__evict *evict); /* 1 + total cost of all operators that ran */
/* The bytes that cannot be evicted now: pinned, locked, or not the result of an operator that may
 * run again. */
uint64_t tn__evict_held(const tn__evict *evict);
/* The budget that would have sufficed for the last step that exceeded the budget; 0 if no step
 * did. */
uint64_t tn__evict_needed(const tn__evict *evict);
/* With the option `find_least`: the bytes that the operators so far must have had under any policy.
 * The `name` in the result is not set. */
const tn_evict_least *tn__evict_least_of(const tn__evict *evict);
/* Checks the invariants; returns NULL, or a sentence about one that is broken. Cost: O(n). */
const char *tn__evict_check(const tn__evict *evict);

#endif
