/* kinds.h - recognises the kind of a file by its contents: models, and files that are taken for
 * models. */
#ifndef TN_IMPORT_KINDS_H
#define TN_IMPORT_KINDS_H

#include "base/base.h"
#include "io/import/onnx/wire.h"

typedef struct tn__file_kind {
    const char *suffix; /* suffix that files of this kind have, such as ".pt2"; NULL: any */
    const char *name;   /* such as "a program of ExecuTorch" */
    /* the step that makes the file usable, if another suffix does not; else NULL */
    const char *remedy;
} tn__file_kind;

/* Returns the kind of a file; NULL: unknown, or text without a mark. The result is static. Cost:
 * O(1); for a zip archive O(members). */
const tn__file_kind *tn__file_kind_of(tn__span file);
/* Whether files of a kind have the suffix, as ".gguf". */
bool tn__file_kind_has_suffix(const char *suffix);
/* Fails with a message that names the kind of the file and the remedy. `said` is the suffix of its
 * name; NULL: the name says nothing. */
tn_status tn__file_kind_refuse(const tn__file_kind *kind, const char *said, tn_error *error);

#endif
