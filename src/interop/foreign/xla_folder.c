/* xla_folder.c - finds the texts of a module in a folder of XLA dumps.
 *
 * The files of a module are named [TIMESTAMP.]module_NUMBER[.NAME].SUFFIX, with a SUFFIX such as
 * sm_9.0_gpu_after_optimizations-buffer-assignment.txt. The number identifies the module, because
 * several may have one name. If the caller chooses no module, the one with the most planned bytes
 * is read.
 *
 * Files are opened relative to the folder, and a symbolic link cannot lead out of it.
 *
 * Source: XLA, xla/service/dump.cc.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interop/foreign/foreign.h"

#define FOLDER_FILES_MAX 100000u
#define FOLDER_SUFFIX "-buffer-assignment.txt"

typedef struct folder_reading {
    const tn_context *context;
    /* path of a file in the folder; other files are opened relative to its folder */
    const char *beside;
    const char *module; /* the module that the caller chose, or NULL */
    bool alone; /* true: the texts are standard input, so other files of the module do not exist */
    char chosen[NAME_MAX + 1];
    uint64_t planned;      /* planned bytes of the module that is chosen so far */
    uint32_t count, files; /* count: modules in the folder; files: files of any kind */
    tn_error *error;
} folder_reading;

static bool folder_is(const char *path) {
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

/* Whether a folder contains a file of a module; any other folder is not a dump. */
bool tn__xla_recognises(const char *path) {
    const struct dirent *entry;
    bool found = false;
    if (tn__has_suffix(path, FOLDER_SUFFIX)) return true;
    DIR *folder = folder_is(path) ? opendir(path) : NULL;
    for (uint32_t i = 0; folder != NULL && !found && i < FOLDER_FILES_MAX; i++) {
        if ((entry = readdir(folder)) == NULL) break;
        found = strstr(entry->d_name, "module_") != NULL;
    }
    if (folder != NULL) closedir(folder);
    return found;
}

/* Whether a file belongs to the chosen module, given by its number or by its name up to a dot. */
static bool folder_matches(const char *name, const char *module) {
    const char *at = strstr(name, "module_");
    if (module == NULL) return true;
    if (at == NULL) return false;
    at += strlen("module_");
    char *end, *end_of_choice;
    unsigned long number = strtoul(at, &end, 10), choice = strtoul(module, &end_of_choice, 10);
    if (*module != '\0' && *end_of_choice == '\0') return number == choice && end > at;
    size_t length = strlen(module);
    return *end == '.' && length > 0 && strncmp(end + 1, module, length) == 0 &&
           end[1 + length] == '.';
}

/* Chooses a module's file if it has more planned bytes than the module chosen so far. If they are
 * equal, the first name in alphabetical order wins. */
static tn_status folder_offer(folder_reading *reading, const char *name) {
    tn__file file;
    TN_TRY(tn__file_map_beneath(reading->beside, name, reading->context->follow_links, &file,
                                reading->error));
    uint64_t planned = tn__xla_planned((tn__span){file.bytes, file.size});
    tn__file_unmap(&file);
    bool better = reading->chosen[0] == '\0' || planned > reading->planned ||
                  (planned == reading->planned && strcmp(name, reading->chosen) < 0);
    if (!better) return TN_OK;
    reading->planned = planned;
    snprintf(reading->chosen, sizeof reading->chosen, "%s", name);
    return TN_OK;
}

static tn_status folder_list(folder_reading *reading, DIR *folder) {
    const struct dirent *entry;
    while ((entry = readdir(folder)) != NULL) {
        if (++reading->files > FOLDER_FILES_MAX)
            TN_FAIL(reading->error, TN_E_UNSUPPORTED, "more than 10^5 files in the folder");
        if (!tn__has_suffix(entry->d_name, FOLDER_SUFFIX)) continue;
        reading->count++;
        if (folder_matches(entry->d_name, reading->module))
            TN_TRY(folder_offer(reading, entry->d_name));
    }
    if (reading->chosen[0] != '\0') return TN_OK;
    if (reading->count > 0)
        TN_FAIL(reading->error, TN_E_UNKNOWN,
                "none of the %u modules here is '%.80s'; `module` takes a number or a name as in "
                "module_NUMBER.NAME",
                reading->count, reading->module);
    TN_FAIL(reading->error, TN_E_INVALID,
            "no file *" FOLDER_SUFFIX
            " here; make a text dump with xla_dump_to=FOLDER in XLA_FLAGS "
            "and an empty compilation cache, or pass the subfolder of one module");
}

/* Maps the file that has the first `stem` bytes of the module's name and ends with `suffix`.
 * `bytes` stays NULL if there is no such file. */
static tn_status folder_map(const folder_reading *reading, size_t stem, const char *suffix,
                            char name[NAME_MAX + 64], tn__file *file, tn__xla_file *text) {
    snprintf(name, NAME_MAX + 64, "%.*s%s", (int)stem, reading->chosen, suffix);
    text->name = name;
    if (reading->alone) {
        if (strcmp(suffix, FOLDER_SUFFIX) != 0) return TN_OK;
        text->name = "standard input";
        TN_TRY(
            tn__file_map_most(reading->beside, reading->context->read_limit, file, reading->error));
        text->span = (tn__span){file->bytes, file->size};
        return TN_OK;
    }
    bool follows = reading->context->follow_links;
    int probe =
        tn__open_beneath(reading->beside, name, follows, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (probe < 0 && errno == ENOENT) return TN_OK;
    if (probe >= 0) close(probe);
    TN_TRY(tn__file_map_beneath(reading->beside, name, follows, file, reading->error));
    text->span = (tn__span){file->bytes, file->size};
    return TN_OK;
}

static tn_status folder_read(const folder_reading *reading, tn_foreign **foreign) {
    static const char *const suffixes[] = {FOLDER_SUFFIX, "-live-range.txt", ".txt"};
    char names[3][NAME_MAX + 64];
    tn__file files[3] = {{0}};
    tn__xla_files texts = {0};
    tn__xla_file *each[] = {&texts.assignment, &texts.ranges, &texts.text};
    size_t stem = strlen(reading->chosen) - strlen(FOLDER_SUFFIX);
    tn_status status = TN_OK;
    for (int i = 0; i < 3 && status == TN_OK; i++)
        status = folder_map(reading, stem, suffixes[i], names[i], &files[i], each[i]);
    if (status == TN_OK) status = tn__xla_read(&texts, reading->context, foreign, reading->error);
    for (int i = 0; i < 3; i++) tn__file_unmap(&files[i]);
    if (status != TN_OK) return status;
    (*foreign)->facts.modules = reading->count;
    if ((*foreign)->facts.module[0] != '\0' || reading->alone) return TN_OK;
    char *name = tn__foreign_text(*foreign, (tn__span){(const uint8_t *)reading->chosen, stem});
    if (name == NULL) return tn__no_memory(reading->error, "a name");
    (*foreign)->facts.module = name;
    return TN_OK;
}

static tn_status folder_choose(folder_reading *reading, const char *path) {
    DIR *folder = opendir(path);
    if (folder == NULL) return tn__fail_system(reading->error, errno, "open");
    tn_status status = folder_list(reading, folder);
    closedir(folder);
    return status;
}

tn_status tn__xla_load(const char *path, const tn_foreign_options *options, tn_foreign **foreign,
                       tn_error *error) {
    char beside[PATH_MAX];
    const tn_context context = tn__context(options->context);
    folder_reading reading = {
        .context = &context, .beside = path, .module = options->module, .error = error};
    tn_foreign *made = NULL;
    tn_status status = TN_OK;
    if (folder_is(path)) {
        int length = snprintf(beside, sizeof beside, "%s/.", path);
        if (length < 0 || (size_t)length >= sizeof beside)
            TN_FAIL(error, TN_E_IO, "the path is too long");
        reading.beside = beside;
        status = folder_choose(&reading, path);
    } else {
        reading.count = 1;
        reading.alone = path[0] == '-' && path[1] == '.';
        snprintf(reading.chosen, sizeof reading.chosen, "%s", tn__base_name(path));
        if (!tn__has_suffix(reading.chosen, FOLDER_SUFFIX))
            status = tn__fail(error, TN_E_UNSUPPORTED, "its name does not end in " FOLDER_SUFFIX);
    }
    if (status == TN_OK) status = folder_read(&reading, &made);
    if (status == TN_OK && made != NULL)
        *foreign = made;
    else
        tn_foreign_destroy(made);
    return tn__where(error, status, "%.200s", path);
}
