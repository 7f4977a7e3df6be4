/* dsa_file.c - the common parts of problems and solutions of dsa-solver: ids, members, and the
 * fingerprint of a problem.
 *
 * The fingerprint is the 64-bit hash FNV-1a of the canonical form of a problem file: keys in order
 * of their bytes, an indent of two blanks, every item on a line of its own, empty lists as [] and
 * {}, characters above 127 as they are, and a newline at the end. `metadata` is always there; empty
 * `relaxed_features` and empty `reasons` are left out.
 *
 * Source: tonibohnlein/dsa-solver, src/dsa/model/structured_json.cpp and structured_problem.cpp
 * (facts, no code); Fowler, Noll, Vo (FNV-1a).
 */
#include "plan/io/dsa.h"

#include <stdio.h>
#include <stdlib.h>

/* --- ids and members --- */

static uint64_t dsa_hash(int64_t id) { return (uint64_t)id * 0x9e3779b97f4a7c15u; }

uint32_t tn__dsa_find(const tn__dsa_ids *ids, int64_t id) {
    tn__probe probe = tn__table_probe(&ids->table, dsa_hash(id));
    uint32_t number;
    do number = tn__table_next(&ids->table, &probe);
    while (number != TN__TABLE_NONE && ids->ids[number] != id);
    return number;
}

bool tn__dsa_add(tn__dsa_ids *ids, uint32_t number) {
    if (tn__dsa_find(ids, ids->ids[number]) != UINT32_MAX) return false;
    return tn__table_add(&ids->table, dsa_hash(ids->ids[number]), number);
}

bool tn__dsa_integer(const json_t *object, const char *member, int64_t least, int64_t *value) {
    const json_t *found = json_object_get(object, member);
    if (!json_is_integer(found) || json_integer_value(found) < least) return false;
    *value = json_integer_value(found);
    return true;
}

static bool dsa_is_empty(const json_t *value) {
    if (json_is_array(value)) return json_array_size(value) == 0;
    if (json_is_object(value)) return json_object_size(value) == 0;
    return json_is_null(value);
}

const char *tn__dsa_unknown(const json_t *object, const char *known, bool empty) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value) {
        size_t length = strlen(name);
        const char *at = known;
        while (*at != '\0' && (strncmp(at, name, length) != 0 || at[length] != ' '))
            at += strcspn(at, " ") + 1;
        if (*at == '\0' && !(empty && dsa_is_empty(value))) return name;
    }
    return NULL;
}

/* --- the fingerprint --- */

#define DSA_FNV_BASIS UINT64_C(14695981039346656037)
#define DSA_FNV_PRIME UINT64_C(1099511628211)
#define DSA_KEYS_FEW 16u /* objects with at most this many keys are sorted without an allocation */

static void dsa_put(uint64_t *hash, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) *hash = (*hash ^ (unsigned char)bytes[i]) * DSA_FNV_PRIME;
}

static void dsa_put_text(uint64_t *hash, const char *text) { dsa_put(hash, text, strlen(text)); }

static void dsa_put_string(uint64_t *hash, const char *string) {
    static const char named[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
    dsa_put(hash, "\"", 1);
    for (; *string != '\0'; string++) {
        const char *found = strchr(named, *string);
        char escaped[8] = {'\\', found != NULL ? letters[found - named] : '\0'};
        if (found == NULL && (unsigned char)*string < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*string);
        if (found != NULL || (unsigned char)*string < 0x20)
            dsa_put_text(hash, escaped);
        else
            dsa_put(hash, string, 1);
    }
    dsa_put(hash, "\"", 1);
}

static void dsa_put_line(uint64_t *hash, uint32_t depth) {
    dsa_put(hash, "\n", 1);
    for (uint32_t i = 0; i < depth; i++) dsa_put(hash, "  ", 2);
}

static int dsa_by_key(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool dsa_put_value(uint64_t *hash, const json_t *value, uint32_t depth);

static bool dsa_put_object(uint64_t *hash, const json_t *object, uint32_t depth) {
    size_t count = json_object_size(object), used = 0;
    const char *few[DSA_KEYS_FEW], **keys = few, *key;
    json_t *unused;
    bool done = true;
    if (count > DSA_KEYS_FEW) keys = malloc(count * sizeof *keys);
    if (keys == NULL) return false;
    json_object_foreach((json_t *)(uintptr_t)object, key, unused) keys[used++] = key;
    qsort(keys, used, sizeof *keys, dsa_by_key);
    for (size_t i = 0; i < used && done; i++) {
        dsa_put(hash, i == 0 ? "{" : ",", 1);
        dsa_put_line(hash, depth + 1);
        dsa_put_string(hash, keys[i]);
        dsa_put(hash, ": ", 2);
        done = dsa_put_value(hash, json_object_get(object, keys[i]), depth + 1);
    }
    if (count > 0) dsa_put_line(hash, depth);
    dsa_put_text(hash, count > 0 ? "}" : "{}");
    if (keys != few) free(keys);
    return done;
}

/* Recursion is limited by the depth of the text, which the JSON parser limits. */
static bool dsa_put_value(uint64_t *hash, const json_t *value, uint32_t depth) {
    char number[40];
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return dsa_put_object(hash, value, depth);
    case JSON_ARRAY:
        for (size_t i = 0; i < json_array_size(value); i++) {
            dsa_put(hash, i == 0 ? "[" : ",", 1);
            dsa_put_line(hash, depth + 1);
            if (!dsa_put_value(hash, json_array_get(value, i), depth + 1)) return false;
        }
        if (json_array_size(value) > 0) dsa_put_line(hash, depth);
        dsa_put_text(hash, json_array_size(value) > 0 ? "]" : "[]");
        return true;
    case JSON_STRING:
        dsa_put_string(hash, json_string_value(value));
        return true;
    case JSON_INTEGER:
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(number, sizeof number, "%.17g", json_real_value(value));
        break;
    default:
        snprintf(number, sizeof number, "%s",
                 json_is_true(value)    ? "true"
                 : json_is_false(value) ? "false"
                                        : "null");
    }
    dsa_put_text(hash, number);
    return true;
}

bool tn__dsa_fingerprint(json_t *root, uint64_t *fingerprint) {
    json_t *problem = json_object_get(root, "problem"), *separation;
    json_t *separations = json_object_get(json_object_get(problem, "constraints"), "separations");
    size_t index;
    if (json_object_get(root, "metadata") == NULL &&
        json_object_set_new(root, "metadata", json_object()) != 0)
        return false;
    if (dsa_is_empty(json_object_get(root, "relaxed_features")))
        json_object_del(root, "relaxed_features");
    json_array_foreach(separations, index, separation) {
        json_t *reasons = json_object_get(separation, "reasons");
        if (reasons != NULL && dsa_is_empty(reasons)) json_object_del(separation, "reasons");
    }
    *fingerprint = DSA_FNV_BASIS;
    if (!dsa_put_value(fingerprint, root, 0)) return false;
    dsa_put(fingerprint, "\n", 1);
    return true;
}
