/* embed.c - `tenure embed`: embedding tables that are larger than memory. The command creates a
 * table, prints one, takes back updates, and computes the hits of a cache of rows. */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/command_line/combine.h"
#include "run/embedding/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EMBED_POLICIES_MAX 32u
#define EMBED_ROWS_MAX 64u

typedef struct embed_arguments {
    uint32_t action;  /* what to do: EMBED_CREATE, EMBED_SHOW, EMBED_UNDO or EMBED_REPLAY */
    const char *path; /* file of the table; for `replay`, of the recorded lookups */
    bool has_action;
    tn_embedding_table table;
    uint32_t rows[EMBED_ROWS_MAX]; /* numbers of the rows that `show` prints */
    uint32_t row_count;
    /* The fields from here to `sample` are for `tenure embed replay` only. */
    const char *policies[EMBED_POLICIES_MAX];
    uint32_t policy_count;
    tn_embedding_zipf zipf;
    bool has_zipf;
    const char *run; /* file of a table on which the lookups are executed, or NULL */
    const char *reader;
    uint64_t cache_bytes;
    uint32_t batch, sample;
    bool json;
    tn_context context;
} embed_arguments;

/* --- replay: the hits of each policy, compared with an upper bound --- */

/* Each policy gets as many rows as fit into the given bytes together with the policy's own
 * bookkeeping. The upper bound of the hits is computed with the largest of these row counts, so it
 * holds for every policy. */

typedef struct embed_row { /* one line of the printed table */
    const char *policy;
    uint32_t slots;
    tn_embedding_replayed replayed;
    /* lookups per second on the table; fraction of the time spent waiting for reads */
    double per_s, waited;
} embed_row;

typedef struct embed_found {
    embed_row rows[EMBED_POLICIES_MAX];
    tn_embedding_trace *trace;
    tn_embedding_table table;
    uint32_t most; /* the largest number of rows that any cache policy gets */
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

/* --- replay: reading the lookups --- */

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

/* --- replay: running each policy --- */

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

/* --- replay: printing the answer --- */

static const embed_row *embed_bound(const embed_arguments *arguments, const embed_found *found) {
    for (uint32_t i = 0; i < arguments->policy_count; i++)
        if (embed_is_bound(found->rows[i].policy)) return &found->rows[i];
    return NULL;
}

static const cli_facts embed_policy_facts = {
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
static const cli_facts embed_values_facts = {
    .width = 3,
    .indent = 2,
    .rows = (const cli_fact[]){CLI_FACT(COUNT, "row", "row", "number of the row"),
                               CLI_FACT(LIST, "values", "|", "its numbers"), CLI_FACTS_END}};
static const cli_facts embed_facts = {
    .name = "embed",
    .width = 17,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "table", "table", "@: ", "path of the table; `replay` has none"),
        CLI_FACT_BRIEF(COUNT, "rows", "rows", "@ rows of ", "number of rows of the table"),
        CLI_FACT_BRIEF(COUNT, "dim", "numbers per row", "@ ", "numbers per row"),
        CLI_FACT_BRIEF(WORD, "type", "type", "@", "type of the numbers"),
        CLI_FACT(WORD, "optimizer", "optimizer", "optimizer of the rows"),
        CLI_FACT(BYTES, "row_bytes", "a row", "bytes of a row with its optimizer state"),
        CLI_FACT(BYTES, "bytes", "all rows", "bytes of the file"),
        CLI_FACT(REAL, "scale", "initial values", "initial values are between -scale and scale"),
        CLI_FACT(COUNT, "seed", "seed", "seed of the initial values"),
        CLI_FACT(COUNT, "checkpoints", "checkpoints", "number of checkpoints"),
        CLI_FACT_BRIEF(COUNT, "undone", "changes undone", ", @ changes undone",
                       "changes after the last checkpoint that were undone"),
        CLI_FACT_OF(LIST, "values", "of `show`: the rows given with --row", &embed_values_facts),
        CLI_FACT(COUNT, "lookups", "lookups", "of `replay`: number of lookups"),
        CLI_FACT(COUNT, "batch", "batch", "of `replay`: lookups per batch"),
        CLI_FACT(BYTES, "cache", "cache", "of `replay`: bytes of the cache"),
        CLI_FACT_OF(LIST, "policies", "of `replay`: the hits of each policy", &embed_policy_facts),
        CLI_FACTS_END}};

static void embed_add_policy_row(cli_answer *answer, const embed_arguments *arguments,
                                 const embed_row *row, const embed_row *bound) {
    const tn_embedding_replayed *got = &row->replayed;
    double hits = embed_share(got->lookup_hits, got->lookups);
    cli_add_brief(answer, ", %s %.3f %%", row->policy, 100 * hits);
    cli_answer_open(answer, NULL);
    cli_add_word(answer, "name", row->policy);
    cli_add(answer, "slots", row->slots);
    cli_add_cell(answer, "hits", "%.3f %%", 100 * hits);
    cli_add_cell(answer, "of different rows", "%.3f %%",
                 100 * embed_share(got->hits, got->distinct));
    if (bound != NULL)
        cli_add_cell(answer, "of the bound", "%.3f",
                     embed_share(got->lookup_hits, bound->replayed.lookup_hits));
    cli_add(answer, "lookup_hits", got->lookup_hits);
    cli_add(answer, "distinct", got->distinct);
    cli_add(answer, "hits", got->hits);
    if (embed_is_bound(row->policy)) {
        cli_add(answer, "cold", got->cold);
    } else if (arguments->run != NULL) {
        cli_add_real(answer, "lookups_per_s", row->per_s);
        cli_add_real(answer, "waited", row->waited);
    }
    cli_answer_close(answer);
}

static tn_status embed_print(const embed_arguments *arguments, const embed_found *found,
                             tn_error *error) {
    const embed_row *bound = embed_bound(arguments, found);
    cli_answer answer;
    uint64_t count;
    (void)tn_embedding_trace_rows(found->trace, &count);
    cli_answer_begin(&answer, &embed_facts, arguments->json);
    cli_add(&answer, "rows", found->table.rows);
    cli_add(&answer, "dim", found->table.dim);
    cli_add_word(&answer, "type", tn_dtype_name(found->table.type));
    cli_add(&answer, "lookups", count);
    cli_add(&answer, "batch", arguments->batch != 0 ? arguments->batch : 1);
    cli_add(&answer, "cache", arguments->cache_bytes);
    cli_answer_open(&answer, "policies");
    for (uint32_t i = 0; i < arguments->policy_count; i++)
        embed_add_policy_row(&answer, arguments, &found->rows[i], bound);
    cli_answer_close(&answer);
    return cli_answer_end(&answer, error);
}

/* Computes and prints the hits of every policy. With a table (--table), also prints the speed of
 * the lookups. */
static tn_status embed_replay(embed_arguments *arguments, tn_error *error) {
    embed_found found = {0};
    tn_status status = embed_load(arguments, &found, error);
    if (status == TN_OK) status = embed_slots(arguments, &found, error);
    for (uint32_t i = 0; status == TN_OK && i < arguments->policy_count; i++)
        status = embed_policy(arguments, &found, &found.rows[i], error);
    cli_progress_end();
    if (status == TN_OK) status = embed_print(arguments, &found, error);
    tn_embedding_trace_destroy(found.trace);
    return status;
}

/* --- the options of `tenure embed` --- */

enum {
    EMBED_ROWS = 400,
    EMBED_DIM,
    EMBED_TYPE,
    EMBED_RULE,
    EMBED_SCALE,
    EMBED_SEED,
    EMBED_ROW,
    EMBED_CACHE,
    EMBED_POLICY,
    EMBED_BATCH,
    EMBED_ZIPF,
    EMBED_LOOKUPS,
    EMBED_TABLE,
    EMBED_READER,
    EMBED_SAMPLE,
    EMBED_JSON
};

enum { EMBED_CREATE, EMBED_SHOW, EMBED_UNDO, EMBED_REPLAY };
#define EMBED_ACTIONS "create", "show", "undo", "replay"

#define EMBED_SHOW_CACHE ((uint64_t)32 << 20) /* cache size in bytes; enough for the widest row */

#define EMBED_OPTIONS(X)                                                                           \
    X(EMBED_ROWS, "rows", "N", "number of rows of the table, such as 1000000 or 1e6")              \
    X(EMBED_DIM, "dim", "N", "numbers per row (default: 64)")                                      \
    X(EMBED_TYPE, "type", "float32|float16|bfloat16", "type of the numbers (default: float32)")    \
    X(EMBED_RULE, "optimizer", "sgd|adagrad|rowwise-adagrad",                                      \
      "optimizer of the rows; its state is stored with each row (default: sgd)")                   \
    X(EMBED_SCALE, "scale", "NUMBER",                                                              \
      "draw initial values uniformly between -NUMBER and NUMBER; 0 means zeros (default: 1 / "     \
      "sqrt(rows))")                                                                               \
    X(EMBED_SEED, "seed", "N", "seed of initial values and of random lookups (default: 0)")        \
    X(EMBED_ROW, "row", "N", "with show: print this row; may be repeated")                         \
    X(EMBED_CACHE, "cache", "SIZE",                                                                \
      "with replay: total size of the cache in bytes, bookkeeping included")                       \
    X(EMBED_POLICY, "policy", "NAME|all",                                                          \
      "with replay: eviction policy, one of `tenure list row-policies`; may be repeated "          \
      "(default: all)")                                                                            \
    X(EMBED_BATCH, "batch", "N",                                                                   \
      "with replay: number of lookups whose rows are locked together (default: 1)")                \
    X(EMBED_ZIPF, "zipf", "EXPONENT",                                                              \
      "with replay: draw random lookups by Zipf's law instead of reading TRACE")                   \
    X(EMBED_LOOKUPS, "lookups", "N", "with --zipf: number of lookups (default: 1e6)")              \
    X(EMBED_TABLE, "table", "FILE",                                                                \
      "with replay: also run the lookups in this table and print their speed")                     \
    X(EMBED_READER, "reader", "uring|threads|plain",                                               \
      "with --table: how rows are read (default: uring if the system allows it, else threads)")    \
    X(EMBED_SAMPLE, "sample", "N",                                                                 \
      "with replay: number of rows that policy sampled compares (default: 16)")                    \
    X(EMBED_JSON, "json", NULL, "print one JSON object instead of the text")

static const struct argp_option embed_options[] = {EMBED_OPTIONS(CLI_OPTION){0}};

/* --- words --- */

/* Parses a whole number such as 100000000 or 1e8. Any other text is a usage error. */
static uint64_t embed_whole(struct argp_state *state, const char *option, const char *text,
                            uint64_t least, uint64_t most) {
    char *end, digits[32];
    if (strpbrk(text, "eE") == NULL) return cli_range(state, option, text, least, most);
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || value != floor(value) || !(value >= 0 && value < 1e18))
        cli_misuse(state, "--%s: '%.60s' is not a whole number", option, text);
    snprintf(digits, sizeof digits, "%.0f", value);
    return cli_range(state, option, digits, least, most);
}

static void embed_add_policy(embed_arguments *arguments, const char *name,
                             struct argp_state *state) {
    char asked[TN__NEAR_TEXT];
    uint32_t known = 0, count = tn_embedding_policy_count();
    if (strcmp(name, "all") == 0) {
        for (uint32_t i = 0; i < count; i++)
            embed_add_policy(arguments, tn_embedding_policy_name(i), state);
        return;
    }
    while (known < count && strcmp(name, tn_embedding_policy_name(known)) != 0) known++;
    if (known == count)
        cli_misuse(state, "--policy: there is no row policy '%.60s'; %s", name,
                   tn__near_of(name, count, tn_embedding_policy_name,
                               "see `tenure list row-policies`", asked));
    for (uint32_t i = 0; i < arguments->policy_count; i++)
        if (strcmp(arguments->policies[i], name) == 0) return;
    if (arguments->policy_count < EMBED_POLICIES_MAX)
        arguments->policies[arguments->policy_count++] = tn_embedding_policy_name(known);
}

static void embed_add_row(embed_arguments *arguments, const char *value, struct argp_state *state) {
    uint64_t row = embed_whole(state, "row", value, 0, TN_EMBEDDING_ROWS_MAX - 1);
    if (arguments->row_count == EMBED_ROWS_MAX)
        cli_misuse(state, "--row: at most %u rows can be shown at once", EMBED_ROWS_MAX);
    arguments->rows[arguments->row_count++] = (uint32_t)row;
}

static void embed_take(embed_arguments *arguments, const char *word, struct argp_state *state) {
    static const char *const actions[] = {EMBED_ACTIONS, NULL};
    char asked[TN__NEAR_TEXT];
    if (arguments->has_action) {
        if (arguments->path != NULL)
            cli_misuse(state, "give only one file; '%s' is a second one", word);
        arguments->path = word;
        return;
    }
    tn__near near = tn__near_begin(word);
    for (uint32_t i = 0; actions[i] != NULL; i++) {
        tn__near_try(&near, actions[i]);
        if (strcmp(actions[i], word) != 0) continue;
        arguments->action = i;
        arguments->has_action = true;
        return;
    }
    cli_misuse(state, "'%.60s' is not one of create, show, undo, replay%s%s", word,
               near.name != NULL ? "; " : "", tn__near_ask(&near, "", asked));
}

/* Checks that the options that the action needs were given, and sets the conditions of
 * combine.h. */
static void embed_check(embed_arguments *arguments, struct argp_state *state) {
    bool replays = arguments->action == EMBED_REPLAY;
    if (!arguments->has_action)
        cli_misuse(state, "no action given; write create, show, undo or replay");
    if (!replays && arguments->path == NULL) cli_misuse(state, "no table given; pass its file");
    cli_condition_set(CLI_IF_CREATE, arguments->action == EMBED_CREATE);
    cli_condition_set(CLI_IF_REPLAY, replays);
    if (!replays) return;
    arguments->path = arguments->path != NULL ? cli_standard_input(state, arguments->path) : NULL;
    if ((arguments->path != NULL) == arguments->has_zipf)
        cli_misuse(state,
                   "replay needs lookups; pass a file of row numbers, or add --zipf EXPONENT");
    if (arguments->policy_count == 0) embed_add_policy(arguments, "all", state);
}

static error_t embed_parse(int key, char *value, struct argp_state *state) {
    static const tn_dtype types[] = {TN_FLOAT32, TN_FLOAT16, TN_BFLOAT16};
    embed_arguments *arguments = state->input;
    tn_embedding_table *table = &arguments->table;
    switch (key) {
    case EMBED_ROWS:
        table->rows = embed_whole(state, "rows", value, 1, TN_EMBEDDING_ROWS_MAX);
        return 0;
    case EMBED_DIM:
        table->dim = (uint32_t)cli_count(state, "dim", value, TN_EMBEDDING_DIM_MAX);
        return 0;
    case EMBED_TYPE:
        table->type = types[CLI_CHOICE(state, "type", value, "float32", "float16", "bfloat16")];
        return 0;
    case EMBED_RULE:
        table->rule = (tn_embedding_rule)CLI_CHOICE(state, "optimizer", value, "sgd", "adagrad",
                                                    "rowwise-adagrad");
        return 0;
    case EMBED_SCALE:
        table->scale = cli_real(state, "scale", value);
        return 0;
    case EMBED_SEED:
        table->seed = arguments->zipf.seed = cli_number(state, "seed", value);
        return 0;
    case EMBED_ROW:
        embed_add_row(arguments, value, state);
        return 0;
    case EMBED_CACHE:
        arguments->cache_bytes = cli_size(state, "cache", value);
        if (arguments->cache_bytes == 0) cli_misuse(state, "--cache: the size must be above 0");
        return 0;
    case EMBED_POLICY:
        embed_add_policy(arguments, value, state);
        return 0;
    case EMBED_BATCH:
        arguments->batch = (uint32_t)embed_whole(state, "batch", value, 1, 1u << 24);
        return 0;
    case EMBED_ZIPF:
        arguments->zipf.exponent = cli_real(state, "zipf", value);
        arguments->has_zipf = true;
        return 0;
    case EMBED_LOOKUPS:
        arguments->zipf.lookups = embed_whole(state, "lookups", value, 1, UINT64_C(1) << 40);
        return 0;
    case EMBED_TABLE:
        arguments->run = value;
        return 0;
    case EMBED_READER:
        (void)CLI_CHOICE(state, "reader", value, "uring", "threads", "plain");
        arguments->reader = value;
        return 0;
    case EMBED_SAMPLE:
        arguments->sample = (uint32_t)cli_count(state, "sample", value, TN_EMBEDDING_SAMPLE_MAX);
        return 0;
    case EMBED_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        embed_take(arguments, value, state);
        return 0;
    case ARGP_KEY_END:
        embed_check(arguments, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- creating and printing a table --- */

static tn_status embed_open(const embed_arguments *arguments, bool read_only,
                            tn_embedding **embedding, tn_error *error) {
    tn_embedding_options options = TN_EMBEDDING_OPTIONS_INIT;
    options.context = &arguments->context;
    options.cache_bytes = EMBED_SHOW_CACHE;
    options.reader = "plain";
    options.read_only = read_only;
    return tn_embedding_open(arguments->path, &options, embedding, error);
}

static void embed_add_table(cli_answer *answer, const embed_arguments *arguments,
                            const tn_embedding_facts *facts) {
    const tn_embedding_table *table = &facts->table;
    cli_add_word(answer, "table", arguments->path);
    cli_add(answer, "rows", table->rows);
    cli_add(answer, "dim", table->dim);
    cli_add_word(answer, "type", tn_dtype_name(table->type));
    cli_add_word(answer, "optimizer", tn_embedding_rule_name(table->rule));
    cli_add(answer, "row_bytes", facts->row_bytes);
    cli_add(answer, "bytes", tn__table_at(table, table->rows));
    cli_add_real(answer, "scale", table->scale);
    cli_add_as(answer, "between -%g and %g", table->scale, table->scale);
    cli_add(answer, "seed", table->seed);
    cli_add_as(answer, "%" PRIu64, table->seed);
    cli_add(answer, "checkpoints", facts->checkpoints);
    cli_add(answer, "undone", facts->undone);
}

static tn_status embed_add_rows(cli_answer *answer, const embed_arguments *arguments,
                                tn_embedding *e, uint32_t dim, tn_error *error) {
    float *values = malloc(dim * sizeof *values);
    tn_status status = values != NULL ? TN_OK : tn__no_memory(error, "a row");
    cli_answer_open(answer, "values");
    for (uint32_t i = 0; status == TN_OK && i < arguments->row_count; i++) {
        tn_embedding_batch batch = {.rows = &arguments->rows[i], .row_count = 1, .bag_count = 1};
        status = tn_embedding_lookup(e, &batch, values, error);
        cli_answer_open(answer, NULL);
        cli_add(answer, "row", arguments->rows[i]);
        cli_add_as(answer, "%u:", arguments->rows[i]);
        cli_answer_open(answer, "values");
        for (uint32_t d = 0; status == TN_OK && d < dim; d++)
            cli_add_real_number(answer, (double)values[d]);
        cli_answer_close(answer);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
    free(values);
    return status;
}

/* Prints the facts of the table, and the requested rows. */
static tn_status embed_show(const embed_arguments *arguments, tn_error *error) {
    tn_embedding *e = NULL;
    tn_embedding_facts facts;
    cli_answer answer;
    tn_status status = TN_OK;
    TN_TRY(embed_open(arguments, arguments->action != EMBED_UNDO, &e, error));
    tn_embedding_tell(e, &facts);
    cli_answer_begin(&answer, &embed_facts, arguments->json);
    embed_add_table(&answer, arguments, &facts);
    if (arguments->action == EMBED_SHOW)
        status = embed_add_rows(&answer, arguments, e, facts.table.dim, error);
    if (arguments->action == EMBED_CREATE) cli_add_text(&answer, "wrote %s\n", arguments->path);
    if (status == TN_OK)
        status = cli_answer_end(&answer, error);
    else
        cli_answer_release(&answer);
    tn_embedding_close(e);
    return status;
}

static tn_status embed_create(const embed_arguments *arguments, tn_error *error) {
    TN_TRY(tn_embedding_create(arguments->path, &arguments->table, &arguments->context, error));
    return embed_show(arguments, error);
}

static tn_status embed_work(embed_arguments *arguments, tn_error *error) {
    if (arguments->table.scale < 0)
        arguments->table.scale = 1 / sqrt((double)arguments->table.rows);
    switch (arguments->action) {
    case EMBED_CREATE:
        return embed_create(arguments, error);
    case EMBED_SHOW:
    case EMBED_UNDO:
        return embed_show(arguments, error);
    default:
        return embed_replay(arguments, error);
    }
}

static const char embed_doc[] =
    "Handles tables of embedding rows that are larger than memory. `create` makes one in a file, "
    "`show` prints it, and `undo` restores its last checkpoint. `replay` computes the hits of "
    "caches for recorded lookups (TRACE, one row number per line) or random ones, and compares "
    "them with Belady's bound.\v"
    "Examples:\n"
    "  tenure embed create users.rows --rows 1e8 --dim 64 --optimizer adagrad\n"
    "  tenure embed show users.rows --row 7\n"
    "  tenure embed replay --zipf 1.0 --rows 1e8 --lookups 1e6 --cache 256MiB\n"
    "  tenure embed replay lookups.txt --cache 64MiB --batch 2048 --table users.rows\n\n"
    "Exit status: 0 done, 1 a batch has more rows than the cache, 2 bad usage or input, 4 out of "
    "memory or internal error.";

static const struct argp embed_parser = {
    embed_options, embed_parse, "create|show|undo|replay FILE", embed_doc, NULL, 0, 0};

static int embed_run(int count, char **words) {
    tn_error error = {0};
    embed_arguments arguments = {.table = TN_EMBEDDING_TABLE_INIT};
    arguments.context = cli_context();
    arguments.table.dim = 64;
    arguments.table.type = TN_FLOAT32;
    arguments.table.scale = -1; /* a negative value means that the option was not given */
    arguments.zipf.lookups = 1000000;
    cli_parse(&cli_command_embed, count, words, &arguments);
    cli_context_read(&arguments.context);
    tn_status status = embed_work(&arguments, &error);
    cli_progress_end();
    return cli_finish(status == TN_OK ? 0 : cli_fail(&error));
}

const cli_command cli_command_embed = {
    .name = "embed",
    .summary = "make and show embedding tables larger than memory, and simulate their caches",
    .first = "rows dim optimizer cache policy batch zipf lookups table json",
    .answers = (const cli_facts *const[]){&embed_facts, NULL},
    .parser = &embed_parser,
    .run = embed_run,
};
