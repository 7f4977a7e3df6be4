/* pool_conf.c - the pool "caching" with settings as in PYTORCH_CUDA_ALLOC_CONF: --pool
 * caching:expandable_segments:True,max_split_size_mb:128. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "cli/replay.h"

#define CONF_PREFIX "caching:"

static double conf_number(struct argp_state *state, const char *key, const char *text,
                          double most) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0) || value > most)
        cli_misuse(state, "--pool: %s: '%s' is not a number from 0 to %g", key, text, most);
    return value;
}

static bool conf_truth(struct argp_state *state, const char *key, const char *text) {
    if (strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0)
        cli_misuse(state, "--pool: %s: '%s' is neither True nor False", key, text);
    return strcasecmp(text, "true") == 0;
}

static void conf_set(struct argp_state *state, char *word, tn_pool_caching *caching) {
    char *value = strchr(word, ':');
    if (value != NULL) *value++ = '\0';
    if (value == NULL)
        cli_misuse(state, "--pool: '%s' has no value; write %s:VALUE", word, word);
    else if (strcmp(word, "expandable_segments") == 0)
        caching->expandable = conf_truth(state, word, value);
    else if (strcmp(word, "max_split_size_mb") == 0)
        caching->max_split_size = (uint64_t)conf_number(state, word, value, 1e12) << 20;
    else if (strcmp(word, "roundup_power2_divisions") == 0)
        caching->roundup_power2_divisions = (uint32_t)conf_number(state, word, value, 1e6);
    else if (strcmp(word, "garbage_collection_threshold") == 0)
        caching->garbage_collection_threshold = conf_number(state, word, value, 1);
    else
        cli_misuse(state,
                   "--pool: '%s' is not one of expandable_segments, max_split_size_mb, "
                   "roundup_power2_divisions, garbage_collection_threshold",
                   word);
}

bool cli_pool_conf(struct argp_state *state, const char *text, tn_pool_caching *caching) {
    const size_t length = sizeof CONF_PREFIX - 1;
    tn_error error;
    if (strncmp(text, CONF_PREFIX, length) != 0) return false;
    *caching = (tn_pool_caching)TN_POOL_CACHING_INIT;
    char *words = strdup(text + length), *next = words;
    if (words == NULL) argp_failure(state, 4, 0, "out of memory");
    for (char *word; (word = strsep(&next, ",")) != NULL;) conf_set(state, word, caching);
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
