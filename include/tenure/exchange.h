/* exchange.h - communication of a rank with other ranks, as a table of functions.
 *
 *     // ... world: of dist.h
 *     tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
 *     options.exchange = tn_world_exchange(world); // of dist.h, or your own
 *
 * SEND, RECV, REDUCE, GATHER and SCATTER (instruction.h) call these functions with memory of the
 * arena; an engine without an exchange refuses them. An engine knows nothing else of other ranks.
 *
 * A call returns when its memory can be used again. Calls of one stream are in order; calls of
 * several streams come from several threads at once. A group is a number that all of its members
 * know; 0 is all ranks. The implementation of the table must limit the time that a call waits.
 * Units: bytes, elements.
 */
#ifndef TENURE_EXCHANGE_H
#define TENURE_EXCHANGE_H

#include <tenure/instruction.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_exchange {
    size_t struct_size;
    void *self;
    uint32_t rank, ranks; /* this rank, and the number of ranks */
    /* Returns the number of ranks in a group and the index of this rank; 0: this rank is not a
     * member. */
    uint32_t (*members)(void *self, uint32_t group, uint32_t *mine);
    /* Whether elements of the type can be reduced in this way. */
    bool (*reduces)(void *self, tn_dtype dtype, tn_reduction reduction);
    tn_status (*send)(void *self, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                      tn_error *error);
    tn_status (*recv)(void *self, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                      tn_error *error);
    /* Reduces `count` elements over all members, in place. */
    tn_status (*reduce)(void *self, uint32_t group, void *data, uint64_t count, tn_dtype dtype,
                        tn_reduction reduction, tn_error *error);
    /* Sends the section of each member, `bytes` each, to all members, in the order of the members
     * (all-gather). `part` may point to its place in `all`. */
    tn_status (*gather)(void *self, uint32_t group, const void *part, void *all, uint64_t bytes,
                        tn_error *error);
    /* Like reduce, but each member receives only its section of `count` elements (reduce-scatter).
     * `part` may point to its place in `all`; the other data in `all` is then lost. */
    tn_status (*scatter)(void *self, uint32_t group, void *all, void *part, uint64_t count,
                         tn_dtype dtype, tn_reduction reduction, tn_error *error);
    /* Sends the data of member `root` to all members. It is used to set up ranks; no instruction
     * calls it. */
    tn_status (*broadcast)(void *self, uint32_t group, uint32_t root, void *data, uint64_t bytes,
                           tn_error *error);
} tn_exchange;

#ifdef __cplusplus
}
#endif
#endif
