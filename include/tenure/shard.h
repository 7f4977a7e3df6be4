/* shard.h - names the state that data-parallel ranks divide instead of replicating it (ZeRO).
 *
 *     printf("%s\n", tn_shard_name(TN_SHARD_GRADIENTS)); // gradients
 */
#ifndef TENURE_SHARD_H
#define TENURE_SHARD_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text, sentence): each kind includes those before it. Source: Rajbhandari et al., "ZeRO"
 * (2020), stages 1 to 3. */
/* clang-format off */
#define TN_SHARD_TABLE(X)                                                                         \
    X(NONE, "none", "every rank keeps everything")                                                \
    X(OPTIMIZER, "optimizer", "a rank keeps the optimizer's state of its part of the parameters")  \
    X(GRADIENTS, "gradients", "and their gradients, once they are added up")                      \
    X(PARAMETERS, "parameters", "and the parameters, which come together where they are read")
/* clang-format on */
typedef enum tn_shard {
#define TN_X(name, text, sentence) TN_SHARD_##name,
    TN_SHARD_TABLE(TN_X)
#undef TN_X
        TN_SHARD_COUNT
} tn_shard;

/* Find returns TN_SHARD_COUNT for an unknown text. Names and summaries are static; NULL for a value
 * out of range. */
TN_API tn_shard tn_shard_find(const char *text);
TN_API const char *tn_shard_name(tn_shard shard);
TN_API const char *tn_shard_summary(tn_shard shard);

#ifdef __cplusplus
}
#endif
#endif
