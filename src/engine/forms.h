/* forms.h - encoded forms while a program runs, and tensors that turn out to be too many bytes. */
#ifndef TN_ENGINE_FORMS_H
#define TN_ENGINE_FORMS_H

#include <tenure/program.h>

#include "engine/executor.h"

/* Where the host keeps a tensor whose form had no room. */
typedef struct tn__spill {
    uint8_t *bytes;
    uint64_t room;
    bool here; /* what is encoded lies here */
} tn__spill;

typedef struct tn__forms {
    tn__executor *executor;
    const tn_context *context;
    tn__spill *spills;   /* [count] by the tensor that is a form */
    uint32_t count;      /* of tensors; 0: nothing is encoded */
    uint64_t host_left;  /* bytes that may be taken of the host */
    uint64_t host_bytes; /* that were */
    /* of a run */
    uint64_t raw_count, spill_count;
} tn__forms;

/* host_left: UINT64_MAX for no bound. `context` and `executor` outlive the forms. */
tn_status tn__forms_make(tn__forms *forms, const tn_program *program, tn__executor *executor,
                         const tn_context *context, uint64_t host_left, tn__arena *arena);
void tn__forms_release(tn__forms *forms); /* zeroed is fine */
void tn__forms_start(tn__forms *forms);   /* a run */
/* ENCODE or DECODE. Errors: E_EXHAUSTED (the form has no room, nor has the host), those of codecs.
 */
tn_status tn__forms_code(tn__forms *forms, const tn_instruction *it);

#endif
