/* forms.h - handles encoded forms while a program runs, and tensors that turn out too large for
 * their form. */
#ifndef TN_ENGINE_FORMS_H
#define TN_ENGINE_FORMS_H

#include <tenure/program.h>

#include "engine/executor.h"

/* Host memory of a tensor that did not fit its form. */
typedef struct tn__spill {
    uint8_t *bytes;
    uint64_t room;
    bool here; /* the tensor's data lies here now */
} tn__spill;

/* The error of a lossy form, over the encodings that were measured. */
typedef struct tn__loss {
    tn_tensor_id tensor; /* that was encoded */
    tn_codec codec;
    uint64_t bytes, form_bytes;
    uint64_t measured; /* encodings; 0: none, or not a lossy form */
    uint64_t kept;     /* of these: above the limit, so kept on the host unencoded */
    double largest, relative;
} tn__loss;

typedef struct tn__forms {
    tn__executor *executor;
    const tn_context *context;
    tn__spill *spills;   /* [count] indexed by the tensor that is the form */
    tn__loss *losses;    /* [count] likewise */
    double error_limit;  /* relative error of a form; 0: none */
    uint64_t run;        /* runs that began before this one */
    uint32_t count;      /* of tensors; 0: nothing is encoded */
    uint64_t host_left;  /* bytes of host memory that may still be taken */
    uint64_t host_bytes; /* bytes of host memory that were taken */
    /* counts of one run */
    uint64_t raw_count, spill_count;
} tn__forms;

/* host_left: UINT64_MAX means no limit. `context` and `executor` must outlive the forms. */
tn_status tn__forms_make(tn__forms *forms, const tn_program *program, tn__executor *executor,
                         const tn_context *context, uint64_t host_left, double error_limit,
                         tn__arena *arena);
void tn__forms_release(tn__forms *forms); /* accepts zeros */
void tn__forms_start(tn__forms *forms);   /* a run begins */
/* ENCODE or DECODE. Errors: E_EXHAUSTED (neither the form nor the host has room), those of codecs.
 */
tn_status tn__forms_code(tn__forms *forms, const tn_instruction *it);

#endif
