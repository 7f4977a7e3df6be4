/* exchange.h - how a program of one rank talks to the others: a table of functions.
 *
 *     // ... world: of dist.h
 *     tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
 *     options.exchange = tn_world_exchange(world); // of dist.h, or of one's own
 *
 * SEND, RECV, REDUCE, GATHER and SCATTER (instruction.h) are calls of it, with memory of the arena;
 * an engine without one refuses them. It is all that an engine knows of other ranks.
 *
 * A call returns when its memory may be used again. Calls of one stream follow each other, those of
 * several streams come from several threads at once. A group is a number that all of its members
 * know; 0 is all ranks. Whoever makes the table bounds how long a call waits.
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
    uint32_t rank, ranks; /* this one; how many there are */
    /* How many ranks a group has, and which of them this one is; 0: it has no part in it. */
    uint32_t (*members)(void *self, uint32_t group, uint32_t *mine);
    /* Whether elements of the type can be reduced so. */
    bool (*reduces)(void *self, tn_dtype dtype, tn_reduction reduction);
    tn_status (*send)(void *self, uint32_t peer, uint32_t tag, const void *data, uint64_t bytes,
                      tn_error *error);
    tn_status (*recv)(void *self, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                      tn_error *error);
    /* `count` elements of all members become one, in place. */
    tn_status (*reduce)(void *self, uint32_t group, void *data, uint64_t count, tn_dtype dtype,
                        tn_reduction reduction, tn_error *error);
    /* Every member's part, of `bytes` each, to all, in the order of the members. `part` may be
     * where it goes to. */
    tn_status (*gather)(void *self, uint32_t group, const void *part, void *all, uint64_t bytes,
                        tn_error *error);
    /* As reduce, but each member gets its part alone, of `count` elements. `part` may be its place
     * in `all`, whose other contents are then lost. */
    tn_status (*scatter)(void *self, uint32_t group, void *all, void *part, uint64_t count,
                         tn_dtype dtype, tn_reduction reduction, tn_error *error);
    /* What member `root` has to all. For who sets ranks up: no instruction does it. */
    tn_status (*broadcast)(void *self, uint32_t group, uint32_t root, void *data, uint64_t bytes,
                           tn_error *error);
} tn_exchange;

#ifdef __cplusplus
}
#endif
#endif
