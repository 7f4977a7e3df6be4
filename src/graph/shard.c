/* shard.c - finds by name what ranks divide among each other, in the table of shard.h. */
#include <tenure/shard.h>

#include "base/base.h"

static const struct {
    const char *text, *sentence;
} shard_entries[] = {
#define TN_X(name, text, sentence) {text, sentence},
    TN_SHARD_TABLE(TN_X)
#undef TN_X
};

tn_shard tn_shard_find(const char *text) {
    uint32_t i = 0;
    while (i < TN_SHARD_COUNT && strcmp(shard_entries[i].text, text) != 0) i++;
    return (tn_shard)i;
}

const char *tn_shard_name(tn_shard shard) {
    return (unsigned)shard < TN_SHARD_COUNT ? shard_entries[shard].text : NULL;
}

const char *tn_shard_summary(tn_shard shard) {
    return (unsigned)shard < TN_SHARD_COUNT ? shard_entries[shard].sentence : NULL;
}
