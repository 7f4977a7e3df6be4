/* files.c - the files of the command line. It checks them before the work begins, and it supports
 * the path `-` for standard input and output.
 *
 * The kind of standard input is detected from its contents (io/import/kinds.h). A pipe is copied to
 * a temporary file, so that it can be read several times. The rest of the program finds the kind of
 * a file by the suffix of its path, so standard input has a path such as "-.csv" there. */
#include "base/base.h"
#include "cli/cli.h"
#include "io/import/kinds.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- standard input --- */

#define FILES_MOST (UINT64_C(4) << 30) /* largest number of bytes read from a pipe */
#define FILES_LOOK 512 /* bytes of standard input that are searched for control characters */
#define FILES_STEP 65536

/* Returns the value of --read-limit, or FILES_MOST if it is not given. The option may come after
 * the argument "-", so the whole command line is searched. The last value counts. Abbreviations are
 * accepted; the parser later refuses ambiguous ones. */
static uint64_t files_most(struct argp_state *state) {
    static const char option[] = "--read-limit";
    const char *value = NULL;
    for (int i = 1; i < state->argc && strcmp(state->argv[i], "--") != 0; i++) {
        const char *text = state->argv[i];
        size_t length = strcspn(text, "=");
        if (length < 4 || strncmp(text, option, length) != 0) continue; /* "--re" */
        if (text[length] == '=')
            value = text + length + 1;
        else if (i + 1 < state->argc)
            value = state->argv[++i];
    }
    return value != NULL ? cli_size(state, option + 2, value) : FILES_MOST;
}

/* Copies a pipe on standard input to a temporary file, which then replaces the pipe as standard
 * input. Does nothing if standard input is a file. */
static void files_spool(struct argp_state *state) {
    static char step[FILES_STEP];
    uint64_t all = 0, most = files_most(state);
    if (isatty(STDIN_FILENO))
        cli_misuse(state, "<stdin>: standard input is a terminal; pipe a file in");
    /* Standard input is already a file, which can be read several times. */
    if (lseek(STDIN_FILENO, 0, SEEK_CUR) >= 0) return;
    FILE *file = tmpfile();
    ssize_t count = 1;
    while (file != NULL && count > 0 && all <= most) {
        count = read(STDIN_FILENO, step, sizeof step);
        if (count < 0 && errno == EINTR) {
            count = 1;
            continue;
        }
        if (count > 0 && fwrite(step, 1, (size_t)count, file) != (size_t)count) count = -1;
        if (count > 0) all += (uint64_t)count;
    }
    if (all > most)
        cli_misuse(state, "<stdin>: more than %" PRIu64 " bytes; %s", most,
                   most == FILES_MOST ? "store them in a file"
                                      : "raise the limit with --read-limit");
    if (file == NULL || count < 0 || fflush(file) != 0 || dup2(fileno(file), STDIN_FILENO) < 0) {
        tn_error error;
        (void)tn__where(&error, tn__fail_system(&error, errno, "read"), "<stdin>");
        cli_end(&error);
    }
    fclose(file);
}

/* Returns the path that stands for standard input of the given kind, such as "-.onnx". The result
 * lasts until the next call. */
static const char *files_path_of(tn__span input) {
    static char path[32];
    const tn__file_kind *kind = tn__file_kind_of(input);
    const char *suffix = kind != NULL && kind->suffix != NULL ? kind->suffix : ".onnx";
    bool is_text = kind == NULL;
    for (size_t i = 0; is_text && i < input.size && i < FILES_LOOK; i++)
        is_text = input.bytes[i] >= ' ' ||
                  (input.bytes[i] != 0 && strchr("\t\r\n", input.bytes[i]) != NULL);
    if (is_text) suffix = ".csv";
    snprintf(path, sizeof path, suffix[0] == '.' ? "-%s" : "-.%s", suffix);
    return path;
}

/* --- input and output files must differ --- */

/* more files than any command accepts; further files would not be checked */
#define FILES_FILES_MAX 64u

typedef struct files_files {
    const char *option[FILES_FILES_MAX], *path[FILES_FILES_MAX];
    uint32_t count;
} files_files;

static files_files files_inputs, files_outputs;

static void files_note(files_files *files, const char *option, const char *path) {
    if (files->count == FILES_FILES_MAX) return;
    files->option[files->count] = option;
    files->path[files->count++] = path;
}

void cli_note_input(const char *path) { files_note(&files_inputs, "", path); }

static void files_note_output(const char *option, const char *path) {
    files_note(&files_outputs, option, path);
}

/* Returns whether two paths are the same regular file. It compares device and inode numbers,
 * because a link and its target have different names. */
static bool files_is_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

void cli_check_files(void) {
    for (uint32_t o = 0; o < files_outputs.count; o++)
        for (uint32_t i = 0; i < files_inputs.count; i++)
            if (files_is_same(files_outputs.path[o], files_inputs.path[i]))
                cli_misuse(NULL,
                           "%s %s would replace the input '%s'; write to another file, or give "
                           "--overwrite",
                           files_outputs.option[o], files_outputs.path[o], files_inputs.path[i]);
}

static bool files_is_read, files_is_written;
static const char *files_reader; /* the option that reads standard input; NULL: none does */
bool cli_standard_is_input(void) { return files_is_read && !files_is_written; }

const char *cli_shown_path(const char *path) {
    bool standard = path != NULL && path[0] == '-' && path[1] == '.' && cli_standard_is_input();
    return standard ? "<stdin>" : path;
}

/* Returns whether the path means standard input or output: "-", or "-" and a suffix such as
 * "-.csv". */
static bool files_is_standard(const char *path) {
    return path[0] == '-' && (path[1] == '\0' || path[1] == '.');
}

const char *cli_standard_input(struct argp_state *state, const char *path) {
    tn__file file;
    tn_error error;
    if (!files_is_standard(path)) {
        cli_note_input(path);
        return path;
    }
    if (files_reader != NULL)
        cli_misuse(state, "standard input is given twice: %s reads it; name a file", files_reader);
    files_spool(state);
    files_is_read = true;
    if (path[1] != '\0') return path;
    if (tn__file_map("-", &file, &error) != TN_OK) cli_end(&error);
    if (file.size == 0) cli_misuse(state, "<stdin>: standard input is empty");
    path = files_path_of((tn__span){file.bytes, file.size});
    tn__file_unmap(&file);
    return path;
}

const char *cli_standard_value(struct argp_state *state, const char *option, const char *path) {
    tn__file file;
    tn_error error;
    if (!files_is_standard(path)) return path;
    if (files_is_read || files_reader != NULL)
        cli_misuse(state, "%s: standard input is given twice; name a file", option);
    files_spool(state);
    files_reader = option;
    files_is_read = true;
    if (path[1] != '\0') return path;
    if (tn__file_map("-", &file, &error) != TN_OK) cli_end(&error);
    if (file.size == 0) cli_misuse(state, "%s: standard input is empty", option);
    /* a suffix only where it chooses the reader: other contents are of the kind that the option
     * takes */
    const tn__file_kind *kind = tn__file_kind_of((tn__span){file.bytes, file.size});
    if (kind != NULL && kind->suffix != NULL)
        path = files_path_of((tn__span){file.bytes, file.size});
    tn__file_unmap(&file);
    return path;
}

const char *cli_standard_output(const char *path) {
    static const char *const raw[] = {".csv", ".tflite", ".onnx", ".pickle"};
    if (!files_is_standard(path)) return path;
    for (size_t i = 0; i < sizeof raw / sizeof *raw && isatty(STDOUT_FILENO); i++)
        if (tn__has_suffix(path, raw[i]))
            cli_misuse(NULL,
                       "'%s': standard output is a terminal, and a %s file may have control "
                       "characters; redirect it, or name a file",
                       path, raw[i]);
    files_is_written = true;
    stdout = stderr; /* stdout becomes stderr so that text for people is not mixed into the file */
    return path[1] == '\0' ? "-.json" : path;
}

/* --- output files --- */

const char *cli_suffixes(char text[CLI_SUFFIXES_MAX]) {
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < tn_report_format_count(); i++) {
        const char *suffix = tn_report_format_suffix(i);
        if (suffix[0] == '\0' || tn_report_format_of_run(i)) continue;
        int wrote = snprintf(text + used, CLI_SUFFIXES_MAX - used, "%s%s", used ? " " : "", suffix);
        used += wrote > 0 ? (size_t)wrote : 0;
        if (used >= CLI_SUFFIXES_MAX) break;
    }
    return text;
}

static bool files_has_format(const char *path) {
    for (uint32_t i = 0; i < tn_report_format_count(); i++) {
        const char *suffix = tn_report_format_suffix(i);
        if (*suffix != '\0' && tn__has_suffix(path, suffix)) return true;
    }
    return false;
}

void cli_check_folder(struct argp_state *state, const char *option, const char *path) {
    const char *slash = strrchr(path, '/');
    struct stat facts;
    files_note_output(option, path);
    int length = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    char *folder = strndup(slash == NULL ? "." : path, (size_t)length);
    if (files_is_standard(path) || folder == NULL) {
        free(folder);
        return;
    }
    if (stat(folder, &facts) != 0)
        cli_misuse(state, "%s: '%s' cannot be written: %s: %s", option, path, folder,
                   strerror(errno));
    if (!S_ISDIR(facts.st_mode))
        cli_misuse(state, "%s: '%s' cannot be written: %s is not a folder", option, path, folder);
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        cli_misuse(state, "%s: '%s' is a folder; give the path of a file", option, path);
    free(folder);
}

void cli_paths_add(struct argp_state *state, const char *option, const char *const *suffixes,
                   const char *path, cli_paths *paths) {
    char all[CLI_SUFFIXES_MAX] = "";
    bool found = false;
    path = cli_standard_output(path);
    for (uint32_t i = 0; suffixes[i] != NULL; i++) {
        size_t used = strlen(all);
        found = found || tn__has_suffix(path, suffixes[i]);
        snprintf(all + used, sizeof all - used, "%s%s", used > 0 ? ", " : "", suffixes[i]);
    }
    if (!found) cli_misuse(state, "%s: '%s' does not end in %s", option, path, all);
    if (paths->count == CLI_PATHS_MAX)
        cli_misuse(state, "%s: at most %u files are accepted", option, CLI_PATHS_MAX);
    cli_check_folder(state, option, path);
    paths->at[paths->count++] = path;
}

tn_status cli_paths_write(const cli_paths *paths,
                          tn_status (*write)(const void *self, const char *path, tn_error *error),
                          const void *self, tn_error *error) {
    for (uint32_t i = 0; i < paths->count; i++) TN_TRY(write(self, paths->at[i], error));
    return TN_OK;
}

void cli_paths_print(const cli_paths *paths) {
    for (uint32_t i = 0; i < paths->count; i++) {
        fputs("wrote ", stdout);
        cli_put_text(stdout, paths->at[i]);
        putchar('\n');
    }
}

void cli_path_once(struct argp_state *state, const char *option, const char **slot,
                   const char *path) {
    if (*slot != NULL) cli_misuse(state, "%s: give this option only once", option);
    cli_check_folder(state, option, path);
    *slot = path;
}

void cli_add_output(struct argp_state *state, const char **outputs, uint32_t *count, uint32_t most,
                    const char *path) {
    char all[CLI_SUFFIXES_MAX];
    path = cli_standard_output(path);
    if (!files_has_format(path))
        cli_misuse(state, "-o: no format for '%s'; use one of %s", path, cli_suffixes(all));
    if (*count == most) cli_misuse(state, "-o: at most %u files are accepted", most);
    cli_check_folder(state, "-o", path);
    outputs[(*count)++] = path;
}
