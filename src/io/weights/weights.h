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

#define TN__WEIGHTS_MOST (1u << 22)      /* limit of tensors in a file */
#define TN__WEIGHTS_PARTS_MOST 100000u   /* files */
#define TN__WEIGHTS_KEYS_MOST (1u << 16) /* limit of keys in a .gguf file */

typedef struct tn__weights_key { /* a key of a .gguf file and its value */
    const char *name;
    uint32_t type;  /* type of the value; for a list, type of its items */
    uint64_t count; /* number of items of a list; otherwise 1 */
    bool list;
    const uint8_t *at; /* position of the value in the file */
    const char *text;  /* the value if it is a single string; otherwise NULL */
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
    tn__file *files; /* [file_count] the mapped files */
    size_t file_count, file_room;
};

typedef struct tn__weights_folder { /* the files of one model */
    const char **paths;
    size_t count;
} tn__weights_folder;
/* Finds the files of the model in a folder; their paths are in the arena of `to`. Errors: E_UNKNOWN
 * (the folder has no weights), E_INVALID (a part is missing, or there are several models). */
tn_status tn__weights_folder_read(tn_weights *to, const char *folder, tn__weights_folder *found,
                                  tn_error *error);

typedef struct tn__weights_reader { /* a weight file while it is being opened */
    tn_weights *to;
    const char *name;
    const uint8_t *bytes;
    size_t size;
    tn_error *error;
} tn__weights_reader;

tn_status tn__safetensors_read(tn__weights_reader *it);
tn_status tn__gguf_read(tn__weights_reader *it);
/* Calls `part` once for each file that an index names, in order. */
tn_status tn__safetensors_index(tn__weights_reader *it,
                                tn_status (*part)(void *self, const char *file), void *self);

/* Adds a tensor, in which all fields except the name are set. The name, of `length` bytes, is
 * copied. Errors: E_INVALID if the name exists already, or there are too many tensors. */
tn_status tn__weights_add(tn__weights_reader *it, const char *name, size_t length,
                          const tn_weight *tensor);
/* Computes the number of elements of `shape`; returns false if it overflows or an extent is
 * negative. */
bool tn__weights_elements(const int64_t *shape, uint32_t rank, uint64_t *elements);
/* returns the storage type with this number in .gguf files; TN_WEIGHT_TYPE_COUNT if it is
 * unknown */
tn_weight_type tn__weight_type_of_gguf(uint32_t number);
/* returns the storage type with this name in .safetensors files; TN_WEIGHT_TYPE_COUNT if it is
 * unknown */
tn_weight_type tn__weight_type_of_safetensors(const char *name);

#endif
