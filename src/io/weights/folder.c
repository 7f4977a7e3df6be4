/* folder.c - finds the files of a model in a folder: an index of .safetensors files, one file, or
 * numbered parts ("x-00001-of-00003").
 *
 * If the folder has an index, the index decides. Otherwise numbered parts belong together and none
 * may be missing. A folder with two models is an error. Only "model.safetensors", the name under
 * which the weights of a folder are published, has precedence over other .safetensors files. A
 * projector for images (mmproj-*.gguf) belongs to a model and is not a model of its own.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "io/weights/weights.h"

#define FOLDER_FILES_MOST 20000u
#define FOLDER_TAIL (sizeof "-00001-of-00003" - 1)

typedef struct folder_reading {
    tn_weights *to;
    const char *folder;
    const char **names;
    size_t count, room;
    tn_error *error;
} folder_reading;

bool tn_weights_is_folder(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static int folder_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool folder_is_weights(const char *name) {
    return *name != '.' && strncmp(name, "mmproj", 6) != 0 && tn_weights_recognises(name);
}

static tn_status folder_add(folder_reading *it, const char *name) {
    const tn_context *context = &it->to->context;
    if (it->count >= FOLDER_FILES_MOST)
        TN_FAIL(it->error, TN_E_INVALID, "more than %u files of weights", FOLDER_FILES_MOST);
    const char *copy = tn__arena_string(&it->to->arena, name, strlen(name));
    if (copy == NULL || !tn__reserve(context, &it->names, &it->room, it->count + 1, sizeof copy))
        return tn__no_memory(it->error, "names of files");
    it->names[it->count++] = copy;
    return TN_OK;
}

static tn_status folder_list(folder_reading *it) {
    DIR *open = opendir(it->folder);
    if (open == NULL) return tn__fail_system(it->error, errno, "read the folder");
    tn_status status = TN_OK;
    for (const struct dirent *entry; status == TN_OK && (entry = readdir(open)) != NULL;)
        if (folder_is_weights(entry->d_name)) status = folder_add(it, entry->d_name);
    closedir(open);
    if (status == TN_OK && it->count > 0)
        qsort(it->names, it->count, sizeof *it->names, folder_compare);
    return status;
}

/* Reads the number of a part and the number of parts from a file name; returns false if it is not a
 * numbered part. `stem` receives the length of the name before the numbers. */
static bool folder_part(const char *name, uint32_t *part, uint32_t *of, size_t *stem) {
    const char *dot = strrchr(name, '.');
    size_t length = dot != NULL ? (size_t)(dot - name) : 0;
    char end;
    if (length < FOLDER_TAIL) return false;
    *stem = length - FOLDER_TAIL;
    return sscanf(name + *stem, "-%5u-of-%5u%c", part, of, &end) == 3 && end == '.';
}

static const char *folder_find(const folder_reading *it, const char *name) {
    for (size_t i = 0; i < it->count; i++)
        if (strcmp(it->names[i], name) == 0) return it->names[i];
    return NULL;
}

static size_t folder_with(const folder_reading *it, const char *suffix, const char **first) {
    size_t count = 0;
    for (size_t i = 0; i < it->count; i++)
        if (tn__has_suffix(it->names[i], suffix) && count++ == 0) *first = it->names[i];
    return count;
}

/* Keeps the files [first, first + count) of the sorted names. */
static void folder_keep(folder_reading *it, size_t first, size_t count) {
    for (size_t i = 0; i < count; i++) it->names[i] = it->names[first + i];
    it->count = count;
}

static void folder_keep_one(folder_reading *it, const char *name) {
    it->names[0] = name;
    it->count = 1;
}

/* Checks that the names are all parts of one model. */
static tn_status folder_parts(folder_reading *it) {
    uint32_t part, of, first_of;
    size_t stem, first_stem;
    bool parts = folder_part(it->names[0], &part, &first_of, &first_stem);
    for (size_t i = 0; i < it->count && parts; i++)
        parts = folder_part(it->names[i], &part, &of, &stem) && of == first_of &&
                stem == first_stem && strncmp(it->names[i], it->names[0], stem) == 0 &&
                strcmp(strrchr(it->names[i], '.'), strrchr(it->names[0], '.')) == 0;
    if (!parts)
        TN_FAIL(it->error, TN_E_INVALID,
                "the folder holds several models, '%.80s' and '%.80s' among them; name one file",
                it->names[0], it->names[1]);
    for (size_t i = 0; i < it->count; i++) {
        folder_part(it->names[i], &part, &of, &stem);
        if (part != i + 1)
            TN_FAIL(it->error, TN_E_INVALID, "part %zu of %u is missing; download all parts", i + 1,
                    first_of);
    }
    if (it->count != first_of)
        TN_FAIL(it->error, TN_E_INVALID, "part %zu of %u is missing; download all parts",
                it->count + 1, first_of);
    return TN_OK;
}

static tn_status folder_choose(folder_reading *it) {
    const char *index = NULL, *gguf = NULL, *one = NULL;
    size_t indexes = folder_with(it, ".safetensors.index.json", &index);
    size_t ggufs = folder_with(it, ".gguf", &gguf);
    if (it->count == 0)
        TN_FAIL(it->error, TN_E_UNKNOWN, "the folder holds no .safetensors and no .gguf file");
    if (indexes > 0) {
        const char *usual = folder_find(it, "model.safetensors.index.json");
        if (usual != NULL || (indexes == 1 && ggufs == 0)) {
            folder_keep_one(it, usual != NULL ? usual : index);
            return TN_OK;
        }
    }
    if (ggufs == 0 && indexes == 0) one = folder_find(it, "model.safetensors");
    if (one != NULL) folder_keep_one(it, one);
    if (it->count == 1) {
        uint32_t part = 1, of = 1;
        size_t stem;
        if (folder_part(it->names[0], &part, &of, &stem) && of != 1)
            TN_FAIL(it->error, TN_E_INVALID, "only part %u of %u is here; download all parts", part,
                    of);
        return TN_OK;
    }
    TN_TRY(folder_parts(it));
    if (ggufs > 0) folder_keep(it, 0, 1); /* the first part names all parts */
    return TN_OK;
}

static tn_status folder_paths(folder_reading *it, tn__weights_folder *found) {
    size_t length = strlen(it->folder);
    bool slash = length > 0 && it->folder[length - 1] == '/';
    found->paths = tn__arena_array(&it->to->arena, it->count, sizeof *found->paths);
    if (found->paths == NULL) return tn__no_memory(it->error, "names of files");
    found->count = it->count;
    for (size_t i = 0; i < it->count; i++) {
        tn__text text;
        tn__text_init(&text, &it->to->context);
        tn__text_printf(&text, "%s%s%s", it->folder, slash ? "" : "/", it->names[i]);
        found->paths[i] =
            text.failed ? NULL : tn__arena_string(&it->to->arena, text.data, text.size);
        tn__text_release(&text);
        if (found->paths[i] == NULL) return tn__no_memory(it->error, "names of files");
    }
    return TN_OK;
}

tn_status tn__weights_folder_read(tn_weights *to, const char *folder, tn__weights_folder *found,
                                  tn_error *error) {
    folder_reading it = {.to = to, .folder = folder, .error = error};
    tn_status status = folder_list(&it);
    if (status == TN_OK) status = folder_choose(&it);
    if (status == TN_OK) status = folder_paths(&it, found);
    tn__free(&to->context, it.names, it.room * sizeof *it.names);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", folder);
}
