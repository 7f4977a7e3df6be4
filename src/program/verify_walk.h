/* verify_walk.h - the state of the walk of verify_walk.c and verify_copies.c. */
#ifndef TN_PROGRAM_VERIFY_WALK_H
#define TN_PROGRAM_VERIFY_WALK_H

#include "program/verify.h"

#define WALK_FIRST 1u /* contents, before the program starts */

/* A tensor while the list is walked. Equal `contents` are equal bytes. */
typedef struct walk_tensor {
    bool here;                  /* defined and not released */
    bool known;                 /* was it ever */
    bool fetched;               /* somebody outside has got it */
    bool away;                  /* static, and not here when the program starts and ends */
    bool stored;                /* static, and here only once it is fetched from its file */
    uint32_t definer, released; /* steps */
    uint32_t region;            /* around the definition */
    uint32_t memory;            /* index into memories */
    uint32_t root;    /* itself, or the tensor of which it is another name by definition */
    uint32_t readers; /* since its definition, a list of touches */
    uint32_t contents;
    uint32_t changes; /* of its memory when `contents` was given */
    uint32_t born;    /* the same when it was defined */
    uint32_t made;    /* the contents that its operator, or its GATHER, gives */
    uint32_t part;    /* of a GATHER: the contents of what this rank gave */
    uint32_t parts;   /* of which a RECV has brought one; 0: it is all there */
} walk_tensor;

/* What may be one piece of memory: a tensor and its views. */
typedef struct walk_memory {
    uint32_t writer;  /* the newest in-place change */
    uint32_t readers; /* since then */
    uint32_t changes;
    uint32_t changer; /* the newest change by an instruction that is no operator */
    uint32_t root;    /* of the tensor that it changed */
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
    uint32_t contents; /* of `of` */
    uint32_t itself;   /* its own contents, as long as the above holds */
    uint32_t received; /* its own contents, when they came from another rank or are static */
} walk_form;

typedef struct walk_state {
    verify_state *verify;
    const tn_context *context;
    walk_tensor *tensors;
    walk_memory *memories;
    size_t memory_count, memory_room;
    walk_touch *touches;
    size_t touch_count, touch_room;
    uint32_t *inside;    /* [regions] what it defined, a list of touches */
    uint32_t *times;     /* [operators] how often it is applied */
    uint32_t **before;   /* [operators] contents of its inputs at the first time */
    uint32_t *last_time; /* [operators] the newest step */
    walk_host *hosts;    /* [tensors + instructions + 1]: of a tensor's own, by slot; or NULL */
    walk_form *forms;    /* [tensors], or NULL */
    uint32_t contents;   /* numbers given so far */
    uint32_t ordered;    /* newest operator that keeps its place among others */
    uint32_t next;       /* of verify->sorted */
    bool speaks;         /* with other ranks */
} walk_state;

tn_status tn__walk_touch(walk_state *walk, uint32_t *list, uint32_t what);
/* The number of a tensor's contents now. */
uint32_t tn__walk_contents(walk_state *walk, tn_tensor_id tensor);
/* contents: 0: new ones. region: around it. */
tn_status tn__walk_define(walk_state *walk, tn_tensor_id tensor, uint32_t step, uint32_t region,
                          uint32_t contents);
tn_status tn__walk_read(walk_state *walk, tn_tensor_id tensor, uint32_t step);

/* verify_copies.c: what the host pool and encoded forms hold. */
tn_status tn__walk_copies_begin(walk_state *walk);
/* What an instruction takes from or leaves in them. *contents: of what it defines, 0: new ones. */
tn_status tn__walk_copy(walk_state *walk, uint32_t step, uint32_t *contents);
tn_status tn__walk_copies_end(walk_state *walk);
/* An encoded form that ends without a reader was made in vain. */
tn_status tn__walk_check_form(walk_state *walk, tn_tensor_id tensor, uint32_t step);

#endif
