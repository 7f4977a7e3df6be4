/* pool_conf.c - the pool "caching" with settings as in PYTORCH_CUDA_ALLOC_CONF: --pool
 * caching:expandable_segments:True,max_split_size_mb:128. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "cli/replay.h"

#define CONF_PREFIX "caching:"

#define CONF_MOST_MIB (UINT64_C(1) << 40)
#define CONF_MOST_STEPS (UINT64_C(1) << 31)

static double conf_share(struct argp_state *state, const char *key, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0) || value > 1)
        cli_misuse(state, "--pool: %s: '%s' is not a number from 0 to 1", key, text);
    return value;
}

static uint64_t conf_count(struct argp_state *state, const char *key, const char *text,
                           uint64_t most) {
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > most)
        cli_misuse(state, "--pool: %s: '%s' is not a whole number from 0 to %llu", key, text,
                   (unsigned long long)most);
    return value;
}

/* [256:1,512:2,>:8]: MiB and steps. The first entry is also for smaller sizes, and > for all sizes
 * above the entry before it. As in PyTorch's parser: its documentation has each entry for the sizes
 * below it instead. */
static void conf_list(struct argp_state *state, const char *key, char *list,
                      tn_pool_caching *caching) {
    const size_t length = strlen(list);
    uint32_t next = 0;
    bool any = false;
    if (list[length - 1] != ']')
        cli_misuse(state, "--pool: %s: the list '%s' does not end with ]", key, list);
    list[length - 1] = '\0';
    list++;
    caching->roundup_power2_divisions = 0; /* the last setting counts */
    memset(caching->roundup_by_size, 0, sizeof caching->roundup_by_size);
    for (char *entry; (entry = strsep(&list, ",")) != NULL; any = true) {
        char *steps_text = strchr(entry, ':');
        if (steps_text == NULL)
            cli_misuse(state, "--pool: %s: '%s' is not MIB:STEPS or >:STEPS", key, entry);
        *steps_text++ = '\0';
        const uint32_t steps = (uint32_t)conf_count(state, key, steps_text, CONF_MOST_STEPS);
        if (strcmp(entry, ">") == 0) {
            while (next < TN_POOL_ROUNDUP_SIZES) caching->roundup_by_size[next++] = steps;
            continue;
        }
        const uint64_t mib = conf_count(state, key, entry, CONF_MOST_MIB);
        if (!tn__is_power_of_two(mib))
            cli_misuse(state, "--pool: %s: '%s' MiB is not a power of two", key, entry);
        uint32_t at = 63u - (uint32_t)__builtin_clzll(mib);
        if (at >= TN_POOL_ROUNDUP_SIZES) at = TN_POOL_ROUNDUP_SIZES - 1;
        for (uint32_t i = 0; i < at && !any; i++) caching->roundup_by_size[i] = steps;
        caching->roundup_by_size[at] = steps;
        next = at + 1;
    }
}

static bool conf_truth(struct argp_state *state, const char *key, const char *text) {
    if (strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0)
        cli_misuse(state, "--pool: %s: '%s' is neither True nor False", key, text);
    return strcasecmp(text, "true") == 0;
}

static void conf_set(struct argp_state *state, char *word, tn_pool_caching *caching) {
    char *value = strchr(word, ':');
    if (value != NULL) *value++ = '\0';
    if (*word == '\0')
        cli_misuse(state, "--pool: a setting of caching is empty; write caching:KEY:VALUE,...");
    else if (value == NULL)
        cli_misuse(state, "--pool: '%s' has no value; write %s:VALUE", word, word);
    else if (strcmp(word, "expandable_segments") == 0)
        caching->expandable = conf_truth(state, word, value);
    else if (strcmp(word, "max_split_size_mb") == 0)
        caching->max_split_size = conf_count(state, word, value, CONF_MOST_MIB) << 20;
    else if (strcmp(word, "roundup_power2_divisions") == 0 && *value == '[')
        conf_list(state, word, value, caching);
    else if (strcmp(word, "roundup_power2_divisions") == 0)
        caching->roundup_power2_divisions =
            (uint32_t)conf_count(state, word, value, CONF_MOST_STEPS);
    else if (strcmp(word, "garbage_collection_threshold") == 0)
        caching->garbage_collection_threshold = conf_share(state, word, value);
    else
        cli_misuse(state,
                   "--pool: '%s' is not one of expandable_segments, max_split_size_mb, "
                   "roundup_power2_divisions, garbage_collection_threshold",
                   word);
}

/* The next setting, as of strsep; a comma within [ ] does not separate. */
static char *conf_word(char **next) {
    char *word = *next, *at = word;
    if (word == NULL) return NULL;
    for (bool inside = false; *at != '\0' && (inside || *at != ','); at++)
        inside = *at == '[' || (inside && *at != ']');
    *next = *at != '\0' ? at + 1 : NULL;
    *at = '\0';
    return word;
}

bool cli_pool_conf(struct argp_state *state, const char *text, tn_pool_caching *caching) {
    const size_t length = sizeof CONF_PREFIX - 1;
    tn_error error;
    if (strncmp(text, CONF_PREFIX, length) != 0) return false;
    *caching = (tn_pool_caching)TN_POOL_CACHING_INIT;
    char *words = strdup(text + length), *next = words;
    if (words == NULL) argp_failure(state, 4, 0, "out of memory");
    for (char *word; (word = conf_word(&next)) != NULL;) conf_set(state, word, caching);
    free(words);
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool_caching limited = *caching;
    tn_pool *pool = NULL;
    options.pool = "caching";
    options.caching = &limited;
    limited.limit = UINT64_C(1) << 40; /* the limit follows from --capacity */
    if (tn_pool_create(&options, &pool, &error) != TN_OK)
        cli_misuse(state, "--pool: %s", error.message);
    tn_pool_destroy(pool);
    return true;
}
