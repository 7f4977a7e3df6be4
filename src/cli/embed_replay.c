/* embed_replay.c - `tenure embed replay`: the hits of each policy, compared with an upper bound.
 *
 * A policy gets as many rows as fit in the given bytes with its own records. The bound uses the
 * largest of these row counts, so it bounds every policy.
 */
#include "cli/embed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

typedef struct embed_row { /* columns of the printed table */
    const char *policy;
    uint32_t slots;
    tn_embedding_replayed replayed;
    double per_s, waited; /* lookups per second in the table, fraction of time spent waiting */
} embed_row;

typedef struct embed_found {
    embed_row rows[EMBED_POLICIES_MAX];
    tn_embedding_trace *trace;
    tn_embedding_table table;
    uint32_t most; /* the largest number of slots of any policy */
} embed_found;

static bool embed_is_bound(const char *policy) { return strcmp(policy, "belady") == 0; }

static double embed_share(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : (double)part / (double)whole;
}

static tn_embedding_options embed_cache(const embed_arguments *arguments, const char *policy) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    options.context = &arguments->context;
    options.cache_bytes = arguments->cache_bytes;
    options.policy = policy;
    options.reader = arguments->reader;
    options.batch_rows = arguments->batch != 0 ? arguments->batch : 1;
    options.batch_count = 2;
    options.sample = arguments->sample;
    options.seed = arguments->zipf.seed;
    options.read_only = true;
    return options;
}

/* --- the lookups --- */

static tn_status embed_facts_of(const embed_arguments *arguments, tn_embedding_table *table,
                                tn_error *error) {
    tn_embedding *e;
    tn_embedding_facts facts;
    tn_embedding_options options = embed_cache(arguments, "lru");
    TN_TRY(tn_embedding_open(arguments->run, &options, &e, error));
    tn_embedding_tell(e, &facts);
    tn_embedding_close(e);
    *table = facts.table;
    return TN_OK;
}

static tn_status embed_load(embed_arguments *arguments, embed_found *found, tn_error *error) {
    found->table = arguments->table;
    if (arguments->run != NULL) TN_TRY(embed_facts_of(arguments, &found->table, error));
    arguments->zipf.rows = arguments->run != NULL && arguments->table.rows == 0
                               ? found->table.rows
                               : arguments->table.rows;
    if (arguments->has_zipf) {
        TN_TRY(
            tn_embedding_trace_zipf(&arguments->zipf, &arguments->context, &found->trace, error));
    } else {
        TN_TRY(tn_embedding_trace_load(arguments->path, &arguments->context, &found->trace, error));
    }
    uint64_t count, rows = found->table.rows;
    const uint32_t *numbers = tn_embedding_trace_rows(found->trace, &count);
    for (uint64_t i = 0; i < count; i++) {
        if (numbers[i] < rows) continue;
        if (arguments->table.rows == 0 && arguments->run == NULL)
            rows = found->table.rows = (uint64_t)numbers[i] + 1;
        else
            TN_FAIL(error, TN_E_INVALID,
                    "lookup %" PRIu64 " reads row %u; the table has rows 0 to %" PRIu64
                    "; make a larger table or check --rows",
                    i, numbers[i], rows - 1);
    }
    if (found->table.scale < 0 || arguments->run == NULL) found->table.scale = 0;
    return TN_OK;
}

/* --- the runs --- */

static tn_status embed_run_table(const embed_arguments *arguments, const embed_found *found,
                                 embed_row *row, tn_error *error) {
    uint64_t count;
    const uint32_t *numbers = tn_embedding_trace_rows(found->trace, &count);
    tn_embedding_options options = embed_cache(arguments, row->policy);
    uint32_t batch = options.batch_rows;
    tn_embedding_facts facts;
    tn_embedding *e;
    TN_TRY(tn_embedding_open(arguments->run, &options, &e, error));
    float *sums = malloc((size_t)batch * found->table.dim * sizeof *sums);
    tn_status status = sums != NULL ? TN_OK : tn__no_memory(error, "sums");
    double start = tn__clock_s();
    for (uint64_t at = 0; status == TN_OK && at < count; at += batch) {
        uint32_t part = count - at < batch ? (uint32_t)(count - at) : batch;
        tn_embedding_batch lookups = {.rows = numbers + at, .row_count = part, .bag_count = part};
        status = tn_embedding_lookup(e, &lookups, sums, error);
    }
    double seconds = tn__clock_s() - start;
    tn_embedding_tell(e, &facts);
    row->per_s = seconds > 0 ? (double)count / seconds : 0;
    row->waited = seconds > 0 ? facts.waited_s / seconds : 0;
    free(sums);
    tn_embedding_close(e);
    if (status == TN_OK && facts.hits != row->replayed.hits)
        status = tn__fail(error, TN_E_INTERNAL,
                          "policy %s has %" PRIu64 " hits in the table and %" PRIu64
                          " in the replay; please report this bug",
                          row->policy, facts.hits, row->replayed.hits);
    return status;
}

static tn_status embed_policy(const embed_arguments *arguments, const embed_found *found,
                              embed_row *row, tn_error *error) {
    tn_embedding_replay_options options = TN_EMBEDDING_REPLAY_OPTIONS_INIT;
    options.context = &arguments->context;
    options.policy = row->policy;
    options.slots = row->slots;
    options.batch = arguments->batch;
    options.sample = arguments->sample;
    options.seed = arguments->zipf.seed;
    TN_TRY(tn_embedding_replay(found->trace, &options, &row->replayed, error));
    if (arguments->run == NULL || embed_is_bound(row->policy)) return TN_OK;
    return embed_run_table(arguments, found, row, error);
}

static tn_status embed_slots(const embed_arguments *arguments, embed_found *found,
                             tn_error *error) {
    for (uint32_t i = 0; i < tn_embedding_policy_count(); i++) {
        uint32_t slots;
        const char *name = tn_embedding_policy_name(i);
        if (embed_is_bound(name)) continue;
        tn_embedding_options options = embed_cache(arguments, name);
        TN_TRY(tn_embedding_room(&found->table, &options, &slots, error));
        if (slots > found->most) found->most = slots;
        for (uint32_t k = 0; k < arguments->policy_count; k++)
            if (strcmp(arguments->policies[k], name) == 0) found->rows[k].slots = slots;
    }
    for (uint32_t k = 0; k < arguments->policy_count; k++) {
        embed_row *row = &found->rows[k];
        row->policy = arguments->policies[k];
        if (embed_is_bound(row->policy)) row->slots = found->most;
        if (row->slots > 0) continue;
        uint64_t least;
        char text[TN_SIZE_TEXT_MAX];
        tn_embedding_options options =
            embed_cache(arguments, embed_is_bound(row->policy) ? "lru" : row->policy);
        TN_TRY(tn_embedding_bytes(&found->table, &options, 1, &least, error));
        TN_FAIL(error, TN_E_INVALID, "--cache: too small for one row; give at least %s",
                tn_size_format(least, text));
    }
    return TN_OK;
}

/* --- output --- */

static const embed_row *embed_bound(const embed_arguments *arguments, const embed_found *found) {
    for (uint32_t i = 0; i < arguments->policy_count; i++)
        if (embed_is_bound(found->rows[i].policy)) return &found->rows[i];
    return NULL;
}

const cli_facts embed_policy_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", "policy", "name of the policy"),
        CLI_FACT(COUNT, "slots", "rows in cache", "rows that fit in the cache"),
        CLI_COLUMN(SHARE, "hits"), CLI_COLUMN(SHARE, "of different rows"),
        CLI_COLUMN(REAL, "of the bound"),
        CLI_FACT(COUNT, "lookup_hits", NULL, "lookups that found their row in the cache"),
        CLI_FACT(COUNT, "distinct", NULL, "number of lookups if each row of a batch counts once"),
        CLI_FACT(COUNT, "hits", NULL, "lookups of `distinct` that found their row in the cache"),
        CLI_FACT(COUNT, "cold", "first lookups",
                 "of the bound: distinct rows of the run; the first lookup of a row always misses"),
        CLI_FACT(REAL, "lookups_per_s", "lookups/s", "with --table: lookups per second"),
        CLI_FACT(SHARE, "waited", "waiting",
                 "with --table: time spent waiting for rows, as a fraction of the run time"),
        CLI_FACTS_END}};

static void embed_tell_policy(cli_answer *answer, const embed_arguments *arguments,
                              const embed_row *row, const embed_row *bound) {
    const tn_embedding_replayed *got = &row->replayed;
    double hits = embed_share(got->lookup_hits, got->lookups);
    cli_tell_brief(answer, ", %s %.3f %%", row->policy, 100 * hits);
    cli_answer_open(answer, NULL);
    cli_tell_word(answer, "name", row->policy);
    cli_tell(answer, "slots", row->slots);
    cli_tell_cell(answer, "hits", "%.3f %%", 100 * hits);
    cli_tell_cell(answer, "of different rows", "%.3f %%",
                  100 * embed_share(got->hits, got->distinct));
    if (bound != NULL)
        cli_tell_cell(answer, "of the bound", "%.3f",
                      embed_share(got->lookup_hits, bound->replayed.lookup_hits));
    cli_tell(answer, "lookup_hits", got->lookup_hits);
    cli_tell(answer, "distinct", got->distinct);
    cli_tell(answer, "hits", got->hits);
    if (embed_is_bound(row->policy)) {
        cli_tell(answer, "cold", got->cold);
    } else if (arguments->run != NULL) {
        cli_tell_real(answer, "lookups_per_s", row->per_s);
        cli_tell_real(answer, "waited", row->waited);
    }
    cli_answer_close(answer);
}

static tn_status embed_tell(const embed_arguments *arguments, const embed_found *found,
                            tn_error *error) {
    const embed_row *bound = embed_bound(arguments, found);
    cli_answer answer;
    uint64_t count;
    (void)tn_embedding_trace_rows(found->trace, &count);
    cli_answer_begin(&answer, &embed_facts, arguments->json);
    cli_tell(&answer, "rows", found->table.rows);
    cli_tell(&answer, "dim", found->table.dim);
    cli_tell_word(&answer, "type", tn_dtype_name(found->table.type));
    cli_tell(&answer, "lookups", count);
    cli_tell(&answer, "batch", arguments->batch != 0 ? arguments->batch : 1);
    cli_tell(&answer, "cache", arguments->cache_bytes);
    cli_answer_open(&answer, "policies");
    for (uint32_t i = 0; i < arguments->policy_count; i++)
        embed_tell_policy(&answer, arguments, &found->rows[i], bound);
    cli_answer_close(&answer);
    return cli_answer_end(&answer, error);
}

tn_status embed_replay(embed_arguments *arguments, tn_error *error) {
    embed_found found = {0};
    tn_status status = embed_load(arguments, &found, error);
    if (status == TN_OK) status = embed_slots(arguments, &found, error);
    for (uint32_t i = 0; status == TN_OK && i < arguments->policy_count; i++)
        status = embed_policy(arguments, &found, &found.rows[i], error);
    cli_progress_end();
    if (status == TN_OK) status = embed_tell(arguments, &found, error);
    tn_embedding_trace_destroy(found.trace);
    return status;
}
