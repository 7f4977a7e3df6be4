/* weights.h - the table that readers of weight files fill in.
 *
 *   weights.c      opening, parts, looking up; storage types of numbers; files of formats that are
 *                  only recognised, and how to export from them
 *   folder.c       the files of a model in a folder
 *   safetensors.c  a header of JSON before packed tensors; an index of several files
 *   gguf.c         counts, keys with values, tensors, aligned contents
 *   bind.c         tensors of a file as a graph's parameters
 */
#ifndef TN_WEIGHTS_WEIGHTS_H
#define TN_WEIGHTS_WEIGHTS_H

#include <tenure/llm.h>

#include "base/base.h"

#define TN__WEIGHTS_MOST (1u << 22)      /* tensors in a file */
#define TN__WEIGHTS_PARTS_MOST 100000u   /* files */
#define TN__WEIGHTS_KEYS_MOST (1u << 16) /* keys in a .gguf file */

typedef struct tn__weights_key { /* a key of a .gguf file with its value */
    const char *name;
    uint32_t type;  /* for a list: of its items */
    uint64_t count; /* 1, or items of a list */
    bool list;
    const uint8_t *at; /* its value, in the file */
    const char *text;  /* the value, if it is a single string */
} tn__weights_key;

struct tn_weights {
    tn_context context;
    tn__arena arena;
    const char *format;
    tn_weight *tensors;
    size_t count, room;
    tn__weights_key *keys;
    size_t key_count, key_room;
    tn__names names, key_names;
    tn__file *files; /* [file_count], mapped */
    size_t file_count, file_room;
};

typedef struct tn__weights_folder { /* the files of one model */
    const char **paths;
    size_t count;
} tn__weights_folder;
/* E_UNKNOWN: the folder holds no weights; E_INVALID: a part is missing, or it holds several models.
 * Paths live in the arena of `to`. */
tn_status tn__weights_folder_read(tn_weights *to, const char *folder, tn__weights_folder *found,
                                  tn_error *error);

typedef struct tn__weights_reader { /* one weight file while it is being opened */
    tn_weights *to;
    const char *name;
    const uint8_t *bytes;
    size_t size;
    tn_error *error;
} tn__weights_reader;

tn_status tn__safetensors_read(tn__weights_reader *it);
tn_status tn__gguf_read(tn__weights_reader *it);
/* Calls `part` for each file that an index names, once each, in order. */
tn_status tn__safetensors_index(tn__weights_reader *it,
                                tn_status (*part)(void *self, const char *file), void *self);

/* Adds a tensor; everything but its name is set. The name, of `length` bytes, is copied. E_INVALID:
 * the name exists already. */
tn_status tn__weights_add(tn__weights_reader *it, const char *name, size_t length,
                          const tn_weight *tensor);
/* The number of elements of `shape`; false: it overflows, or is negative. */
bool tn__weights_elements(const int64_t *shape, uint32_t rank, uint64_t *elements);
tn_weight_type tn__weight_type_of_gguf(uint32_t number);         /* _COUNT: not known */
tn_weight_type tn__weight_type_of_safetensors(const char *name); /* _COUNT: not known */

#endif
