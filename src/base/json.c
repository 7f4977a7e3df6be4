/* json.c - parses JSON text with jansson, within a limit for memory.
 *
 * jansson cannot distinguish "out of memory" from "invalid token", because its lexer ignores some
 * failed allocations. Therefore its allocation functions are wrapped once per process. The wrapper
 * calls the function that was set before; during a parse of this file it also records failures and
 * counts bytes. Other parses in the process are not affected.
 *
 * The limit is needed because the three bytes "{}," can become an object of 240 bytes. All bytes
 * that are allocated during a parse are counted, even if they are freed again. An array of small
 * numbers takes 28 bytes for each byte of text.
 */
#include "base/json.h"

#include <pthread.h>
#include <stdio.h>

static json_malloc_t json_malloc_before;
static json_free_t json_free_before;
static pthread_once_t json_once = PTHREAD_ONCE_INIT;
static _Thread_local struct {
    bool parses, no_memory, too_much;
    size_t left;
} json_parse_now;

static void *json_malloc_counted(size_t size) {
    if (json_parse_now.parses && size > json_parse_now.left) {
        json_parse_now.too_much = true;
        return NULL;
    }
    void *made = json_malloc_before(size);
    if (json_parse_now.parses) {
        json_parse_now.left -= size;
        json_parse_now.no_memory = json_parse_now.no_memory || made == NULL;
    }
    return made;
}

static void json_wrap(void) {
    json_get_alloc_funcs(&json_malloc_before, &json_free_before);
    json_set_alloc_funcs(json_malloc_counted, json_free_before);
}

json_t *tn__json_parse(const void *bytes, size_t size, json_error_t *why, tn_status *status) {
    size_t most;
    if (__builtin_mul_overflow(size, TN__JSON_RATIO, &most) ||
        __builtin_add_overflow(most, TN__JSON_FREE, &most))
        most = SIZE_MAX;
    *why = (json_error_t){.position = 0};
    *status = TN_OK;
    if (pthread_once(&json_once, json_wrap) != 0) *status = TN_E_NO_MEMORY;
    json_parse_now.parses = true;
    json_parse_now.no_memory = json_parse_now.too_much = false;
    json_parse_now.left = most;
    json_t *root = *status == TN_OK ? json_loadb(bytes, size, JSON_REJECT_DUPLICATES, why) : NULL;
    json_parse_now.parses = false;
    bool failed = root == NULL || json_parse_now.no_memory || json_parse_now.too_much;
    if (!failed) return root;
    json_decref(root); /* accepts NULL; an incomplete value is discarded */
    bool no_memory = json_parse_now.no_memory || *status != TN_OK;
    *status = no_memory ? TN_E_NO_MEMORY : TN_E_INVALID;
    if (no_memory) snprintf(why->text, sizeof why->text, "no memory for its values");
    if (!no_memory && json_parse_now.too_much)
        snprintf(why->text, sizeof why->text,
                 "its values would take more than %u bytes of memory for each byte of the file",
                 TN__JSON_RATIO);
    return NULL;
}
