/* embed.h - declarations shared by the files of `tenure embed`. */
#ifndef TN_CLI_EMBED_H
#define TN_CLI_EMBED_H

#include "cli/facts.h"

#define EMBED_POLICIES_MAX 32u
#define EMBED_ROWS_MAX 64u

typedef struct embed_arguments {
    uint32_t action;  /* EMBED_CREATE ... */
    const char *path; /* TABLE, or the recorded lookups */
    bool has_action;
    tn_embedding_table table;
    uint32_t rows[EMBED_ROWS_MAX]; /* to be shown */
    uint32_t row_count;
    /* of replay */
    const char *policies[EMBED_POLICIES_MAX];
    uint32_t policy_count;
    tn_embedding_zipf zipf;
    bool has_zipf;
    const char *run; /* a real table to run the lookups in, or NULL */
    const char *reader;
    uint64_t cache_bytes;
    uint32_t batch, sample;
    bool json;
    tn_context context;
} embed_arguments;

extern const cli_facts embed_facts;        /* of all actions */
extern const cli_facts embed_policy_facts; /* of its list of policies */

/* Prints the hits of every policy and, with a table, the speed of its lookups. */
tn_status embed_replay(embed_arguments *arguments, tn_error *error);

#endif
