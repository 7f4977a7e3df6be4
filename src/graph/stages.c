/* stages.c - finds orders of a pipeline's passes by name, in the table of stages.h. */
#include <tenure/stages.h>

#include "base/base.h"

static const char *const stages_names[] = {
#define TN_X(name, text, sentence) text,
    TN_PIPELINE_TABLE(TN_X)
#undef TN_X
};

const char *tn_pipeline_name(tn_pipeline schedule) {
    return (unsigned)schedule < TN_PIPELINE_COUNT ? stages_names[schedule] : NULL;
}
