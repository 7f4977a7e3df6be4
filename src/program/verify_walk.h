/* verify_walk.h - the shared state of the walk of verify_walk.c and verify_copies.c. */
#ifndef TN_PROGRAM_VERIFY_WALK_H
#define TN_PROGRAM_VERIFY_WALK_H

#include "program/verify.h"

#define WALK_FIRST 1u /* contents that exist before the program starts */

/* A tensor during the walk. Tensors with equal `contents` have equal bytes. */
typedef struct walk_tensor {
    bool here;                  /* defined and not released */
    bool known;                 /* has been defined at least once */
    bool fetched;               /* the caller or another rank has received it */
    bool away;                  /* static, but in host memory when the program starts and ends */
    bool stored;                /* static, but in memory only after it is fetched from its file */
    uint32_t definer, released; /* steps */
    uint32_t region;            /* around the definition */
    uint32_t memory;            /* index into memories */
    uint32_t root;              /* itself, or the source if it is an alias by definition */
    uint32_t readers;           /* list of touches since its definition */
    uint32_t contents;
    uint32_t changes; /* change count of its memory when `contents` was given */
    uint32_t born;    /* change count when it was defined */
    uint32_t made;    /* the contents that its operator, or its GATHER, produces */
    uint32_t part;    /* of a GATHER: the contents of the part of this rank */
    uint32_t parts;   /* number of parts, if a RECV has brought only one; 0: it is complete */
} walk_tensor;

/* Tensors that may share memory: a tensor and its views. */
typedef struct walk_memory {
    uint32_t writer;  /* the newest in-place change */
    uint32_t readers; /* list of touches since then */
    uint32_t changes;
    uint32_t changer; /* the newest change by an instruction that is not an operator */
    uint32_t root;    /* root of the tensor that this instruction changed */
} walk_memory;

typedef struct walk_touch {
    uint32_t what, next;
} walk_touch;

typedef struct walk_host { /* a buffer of the host pool */
    tn_tensor_id tensor;
    uint32_t contents, writer, readers;
    bool pending; /* swapped out and not yet back */
} walk_host;

typedef struct walk_form { /* an encoded tensor */
    tn_tensor_id of;
    tn_codec codec;
    uint32_t contents; /* contents of the tensor `of` */
    uint32_t itself;   /* contents of the form itself, while `of` has the contents above */
    uint32_t received; /* contents of the form itself, if it came from another rank or is static */
} walk_form;

typedef struct walk_state {
    verify_state *verify;
    const tn_context *context;
    walk_tensor *tensors;
    walk_memory *memories;
    size_t memory_count, memory_room;
    walk_touch *touches;
    size_t touch_count, touch_room;
    uint32_t *inside;    /* [regions] list of touches: the tensors that it defined */
    uint32_t *times;     /* [operators] number of APPLY instructions */
    uint32_t **before;   /* [operators] contents of its inputs the first time */
    uint32_t *last_time; /* [operators] the newest step */
    walk_host *hosts;    /* [tensors + instructions + 1] a tensor's own buffers come first, then
                          * slots; or NULL */
    walk_form *forms;    /* [tensors], or NULL */
    uint32_t contents;   /* number of contents created so far */
    uint32_t ordered;    /* newest operator with a fixed place among others */
    uint32_t next;       /* of verify->sorted */
    bool speaks;         /* the program communicates with other ranks */
} walk_state;

tn_status tn__walk_touch(walk_state *walk, uint32_t *list, uint32_t what);
/* The contents number of a tensor now. */
uint32_t tn__walk_contents(walk_state *walk, tn_tensor_id tensor);
/* contents: 0 creates a new number. region: the region around the definition. */
tn_status tn__walk_define(walk_state *walk, tn_tensor_id tensor, uint32_t step, uint32_t region,
                          uint32_t contents);
tn_status tn__walk_read(walk_state *walk, tn_tensor_id tensor, uint32_t step);

/* verify_copies.c: the state of the host pool and of encoded forms. */
tn_status tn__walk_copies_begin(walk_state *walk);
/* Applies an instruction to the host pool and the forms. *contents receives the contents of the
 * tensor that it defines; 0: new contents. */
tn_status tn__walk_copy(walk_state *walk, uint32_t step, uint32_t *contents);
tn_status tn__walk_copies_end(walk_state *walk);
/* An encoded form that ends without a reader is useless, so it is an error. */
tn_status tn__walk_check_form(walk_state *walk, tn_tensor_id tensor, uint32_t step);

#endif
