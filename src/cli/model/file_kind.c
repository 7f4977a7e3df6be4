/* file_kind.c - recognises files that another command reads, such as a trace or the configuration
 * of a language model, so that the error names the kind of the file and that command.
 *
 * Only the first bytes of a regular file are searched, for marks that its writers put there. A file
 * without a mark is left to the reader of the command.
 */
#define _GNU_SOURCE /* memmem */
#include "cli/model/file_kind.h"

#include <tenure/foreign.h>
#include <tenure/llm.h>

#include "base/base.h"
#include "interop/profile/profile.h"
#include "interop/snapshot/snapshot.h"
#include "io/import/kinds.h"

#include <sys/stat.h>

#define KIND_LOOK ((size_t)65536) /* bytes in which the marks of JSON files are */

typedef struct kind_file { /* The file that is looked at. */
    const char *path;
    const uint8_t *bytes;
    size_t size;
    const char *json; /* its first bytes if it is JSON text; else NULL */
    size_t json_size;
} kind_file;

static bool kind_has(const kind_file *file, const char *mark) {
    return file->json != NULL && memmem(file->json, file->json_size, mark, strlen(mark)) != NULL;
}

static bool kind_begins(const kind_file *file, const char *text) {
    size_t size = strlen(text);
    return file->size >= size && memcmp(file->bytes, text, size) == 0;
}

static bool kind_is_profile(const kind_file *file) {
    return tn__has_suffix(file->path, ".prof") || tn__has_suffix(file->path, ".pb.gz");
}
static bool kind_is_node_stats(const kind_file *file) {
    return tn__node_stats_recognises(file->bytes, file->size);
}
static bool kind_is_pickle(const kind_file *file) {
    return file->size > 1 && file->bytes[0] == 0x80;
}
static bool kind_is_gzip(const kind_file *file) { return tn__gzip_is(file->bytes, file->size); }
static bool kind_is_trace(const kind_file *file) { return kind_has(file, "\"traceEvents\""); }
static bool kind_is_log(const kind_file *file) { return kind_begins(file, "action,"); }
static bool kind_is_losses(const kind_file *file) { return kind_begins(file, "step,loss"); }
static bool kind_is_plan(const kind_file *file) { return kind_has(file, "\"mem-plan\""); }
static bool kind_is_costs(const kind_file *file) { return kind_has(file, "\"tenure-costs\""); }
static bool kind_is_index(const kind_file *file) { return kind_has(file, "\"weight_map\""); }

/* At least two of the keys that configurations of language models have. */
static bool kind_is_config(const kind_file *file) {
    static const char *const keys[] = {
        "\"model_type\"", "\"architectures\"", "\"hidden_size\"",         "\"num_hidden_layers\"",
        "\"vocab_size\"", "\"n_embd\"",        "\"num_attention_heads\"", "\"n_layer\""};
    uint32_t found = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) found += kind_has(file, keys[i]);
    return found > 1 && !kind_has(file, "\"buffers\"");
}

/* The kinds, in the order in which they are tried. */
static const struct {
    bool (*is)(const kind_file *file);
    const char *name;
    const char *readers; /* commands that read it as an argument, each between blanks */
    const char *how;
} kinds[] = {
    {kind_is_profile, "a device memory profile of JAX, without live ranges", " report ",
     "`tenure report` reads it"},
    {kind_is_node_stats, "a file of ONNX Runtime's node memory statistics, without live ranges",
     " report ", "`tenure report` reads it"},
    {kind_is_pickle, "a pickle, perhaps a memory snapshot of PyTorch", " report replay ",
     "`tenure report` and `tenure replay` read it"},
    {kind_is_gzip, "compressed by gzip, perhaps a profile or a snapshot", " report replay ",
     "`tenure report` and `tenure replay` read it"},
    {kind_is_plan, "a plan or a problem", " plan verify diff ",
     "`tenure plan`, `tenure verify` and `tenure diff` read it"},
    {kind_is_costs, "a file of operator costs", "",
     "it is a value of --costs, as in `tenure fit MODEL --costs FILE`"},
    {kind_is_trace, "a trace of PyTorch's profiler, or another one in Chrome's format",
     " report replay ",
     "`tenure report` and `tenure replay` read those with memory events of PyTorch"},
    {kind_is_index, "the index of a model's weights", " estimate ", "`tenure estimate` reads it"},
    {kind_is_config, "the configuration of a language model", " estimate ",
     "`tenure estimate` reads it"},
    {kind_is_log, "a log of allocations", " replay ", "`tenure replay` reads it"},
    {kind_is_losses, "the log of `tenure train`", "", "no command reads it"},
};

static bool kind_is_read_by(const char *readers, const char *command) {
    const char *at = strstr(readers, command);
    size_t length = strlen(command);
    return at != NULL && at > readers && at[-1] == ' ' && at[length] == ' ';
}

/* Refuses the contents of a model under a name of a problem. */
static void kind_refuse_contents(struct argp_state *state, const kind_file *file) {
    bool is_problem = tn__has_suffix(file->path, ".json") || tn__has_suffix(file->path, ".csv");
    const tn__file_kind *is = tn__file_kind_of((tn__span){file->bytes, file->size});
    if (!is_problem || file->json != NULL || is == NULL || is->suffix == NULL) return;
    cli_misuse(state, "%s: this is %s; give it a name that ends in %s", cli_shown_path(file->path),
               is->name, is->suffix);
}

static void kind_refuse(struct argp_state *state, const kind_file *file) {
    const char *command = cli_command_name();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i].is(file)) continue;
        if (kind_is_read_by(kinds[i].readers, command)) return;
        cli_misuse(state, "%s: this is %s; %s", cli_shown_path(file->path), kinds[i].name,
                   kinds[i].how);
    }
    kind_refuse_contents(state, file);
}

void cli_refuse_kind(struct argp_state *state, const char *path) {
    struct stat facts;
    tn__file mapped;
    tn_error unused;
    bool standard = path[0] == '-' && path[1] == '.';
    bool model = tn_import_recognises(path) || tn_weights_how_to_export(path) != NULL ||
                 tn_foreign_recognises(path);
    if ((model && !standard) || (!standard && (stat(path, &facts) != 0 || !S_ISREG(facts.st_mode))))
        return;
    if (tn__file_map(path, &mapped, &unused) != TN_OK) return;
    kind_file file = {.path = path, .bytes = mapped.bytes, .size = mapped.size};
    size_t at = 0;
    while (at < file.size && at < KIND_LOOK && file.bytes[at] != 0 &&
           strchr(" \t\r\n", file.bytes[at]) != NULL)
        at++;
    if (at < file.size && (file.bytes[at] == '{' || file.bytes[at] == '[')) {
        file.json = (const char *)file.bytes;
        file.json_size = file.size < KIND_LOOK ? file.size : KIND_LOOK;
    }
    kind_refuse(state, &file);
    tn__file_unmap(&mapped);
}
