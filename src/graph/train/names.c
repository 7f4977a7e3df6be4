/* names.c - finds losses and optimizers by name, and gives the names of losses, optimizers,
 * divisions among ranks and orders of a pipeline's passes, from the tables of the public
 * headers. */
#include <tenure/dist.h>
#include <tenure/estimate.h>
#include <tenure/train.h>

#include "base/base.h"

/* --- losses and optimizers -------------------------------------------------------------------- */

typedef struct names_entry {
    const char *text, *sentence;
} names_entry;

static const names_entry names_losses[] = {
#define TN_X(name, text, sentence) {text, sentence},
    TN_LOSS_TABLE(TN_X)
#undef TN_X
};
static const names_entry names_optimizers[] = {
#define TN_X(name, text, sentence) {text, sentence},
    TN_OPTIMIZER_TABLE(TN_X)
#undef TN_X
};

static uint32_t names_find(const names_entry *entries, uint32_t count, const char *text) {
    uint32_t i = 0;
    while (i < count && strcmp(entries[i].text, text) != 0) i++;
    return i;
}

tn_loss tn_loss_find(const char *text) {
    return (tn_loss)names_find(names_losses, TN_LOSS_COUNT, text);
}
const char *tn_loss_name(tn_loss loss) {
    return (unsigned)loss < TN_LOSS_COUNT ? names_losses[loss].text : NULL;
}
const char *tn_loss_summary(tn_loss loss) {
    return (unsigned)loss < TN_LOSS_COUNT ? names_losses[loss].sentence : NULL;
}

tn_optimizer tn_optimizer_find(const char *text) {
    return (tn_optimizer)names_find(names_optimizers, TN_OPTIMIZER_COUNT, text);
}
const char *tn_optimizer_name(tn_optimizer optimizer) {
    return (unsigned)optimizer < TN_OPTIMIZER_COUNT ? names_optimizers[optimizer].text : NULL;
}
const char *tn_optimizer_summary(tn_optimizer optimizer) {
    return (unsigned)optimizer < TN_OPTIMIZER_COUNT ? names_optimizers[optimizer].sentence : NULL;
}

/* --- names of divisions among ranks ----------------------------------------------------------- */

/* The names of what ranks divide among each other, from the table of tenure/estimate.h. */

static const char *const shard_names[] = {
#define TN_X(name, text, sentence) text,
    TN_SHARD_TABLE(TN_X)
#undef TN_X
};

const char *tn_shard_name(tn_shard shard) {
    return (unsigned)shard < TN_SHARD_COUNT ? shard_names[shard] : NULL;
}

/* --- names of the orders of a pipeline's passes ----------------------------------------------- */

/* Finds orders of a pipeline's passes by name, in the table of tenure/dist.h. */

static const char *const stages_names[] = {
#define TN_X(name, text, sentence) text,
    TN_PIPELINE_TABLE(TN_X)
#undef TN_X
};

const char *tn_pipeline_name(tn_pipeline schedule) {
    return (unsigned)schedule < TN_PIPELINE_COUNT ? stages_names[schedule] : NULL;
}
