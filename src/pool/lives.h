/* lives.h - the blocks of an iteration that repeats, and a plan for them.
 *
 * Steps are requests: the block of request i lives from step i until as many requests were made as
 * when it was freed. Iterations follow each other, so time is a circle, and a block that lives into
 * the next iteration is there at the beginning of this one too. What lives longer than an iteration
 * has no place in the plan; what is in use now and will stay lies where it is, and the plan goes
 * around it. What is in use now and comes again keeps its place in the plan: so a plan fits what is
 * there from the first request on. It is made when the fewest bytes live, to be bound by little.
 *
 * Where memory that is given back can be had again elsewhere (tn_pool_options.release), a plan goes
 * around nothing: it begins above all that is in use, in bytes that nobody had, and what is left of
 * the old ones goes back. Where bytes cost nothing by themselves (tn_pool_options.is_sparse), it
 * does so only if it would be too high otherwise.
 *
 * Streams share no bytes: each has a zone of its own, one above the other, that with the most bytes
 * below.
 */
#ifndef TN_POOL_LIVES_H
#define TN_POOL_LIVES_H

#include "pool/learn.h"
#include "pool/technique.h"

typedef struct tn__life {
    uint64_t size, alignment;
    uint64_t offset; /* of the plan */
    uint64_t was;    /* with `is_there`: where its block is now */
    uint32_t stream;
    uint32_t length; /* steps; 0: it has no place in the plan */
    bool is_there;
} tn__life;

typedef struct tn__stay { /* bytes that are held for good */
    uint64_t offset, size;
} tn__stay;

enum { TN__ZONES_MAX = 32 };

typedef struct tn__lives {
    tn__life *items; /* [count], one for each request of an iteration */
    uint32_t count;
    tn__stay *around;
    size_t around_count, around_room;
    uint64_t now;                    /* the number of the next request, which item 0 is for */
    uint64_t base;                   /* where the first zone begins */
    uint64_t borders[TN__ZONES_MAX]; /* [zones], where each ends; the last: the plan's height */
    uint32_t streams[TN__ZONES_MAX];
    uint32_t zones;
} tn__lives;

/* What the last two periods were. False: memory is not as full after one as before, or there are
 * more streams than zones, or no memory for it. */
bool tn__lives_gather(const tn_pool *pool, const tn__learn *learn, uint64_t period,
                      tn__lives *lives);
/* Where the highest block in use ends. */
uint64_t tn__lives_end_of_use(const tn_pool *pool);
/* The step, from 0, before which the fewest bytes live. */
uint32_t tn__lives_calm(const tn_context *context, const tn__lives *lives);
/* Finds the offsets, from `base` on, which is raised to where all of them are aligned. False: no
 * plan was found in the time that is given to it. */
bool tn__lives_plan(const tn_context *context, tn__lives *lives, uint64_t unit);
void tn__lives_close(const tn_context *context, tn__lives *lives);

#endif
