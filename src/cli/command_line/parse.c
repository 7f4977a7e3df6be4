/* parse.c - parses the options that every command has, reports errors for unknown options, and
 * prints `tenure COMMAND --help`.
 *
 * The list of all options of a command is made from the tables that argp parses. Help, shell
 * completion and the man pages are generated from that list, so they cannot differ.
 */
#include "base/base.h"
#include "cli/cli.h"
#include "cli/command_line/combine.h"
#include "cli/model/training.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define PARSE_BAD 2 /* exit status after a usage error */

typedef struct parse_call {
    const cli_command *command;
    void *input;
} parse_call;

static const cli_command *parse_command; /* the command that this process runs */
static cli_tone parse_tone;
static bool parse_follow_links, parse_overwrites;
static uint64_t parse_read_limit;
const char *cli_command_name(void) { return parse_command->name; }
cli_tone cli_tone_asked(void) { return parse_tone; }
bool cli_follows_links(void) { return parse_follow_links; }
void cli_context_read(tn_context *context) {
    context->follow_links = parse_follow_links;
    context->read_limit = parse_read_limit;
}

enum { PARSE_BRIEF = 2000, PARSE_PROGRESS, PARSE_FOLLOW, PARSE_READ_LIMIT, PARSE_OVERWRITE };

#define COMMON_OPTIONS(X)                                                                          \
    X('q', "quiet", NULL, "print errors only; the exit status and the files show the result")      \
    X(PARSE_BRIEF, "brief", NULL, "print the result in one line")                                  \
    X(PARSE_OVERWRITE, "overwrite", NULL,                                                          \
      "allow an output file to replace an input file (default: this is an error)")                 \
    X(PARSE_PROGRESS, "progress", "auto|bar|lines|none",                                           \
      "show the progress of long work on standard error: a bar, or lines, or none; auto is a bar " \
      "on a terminal and none elsewhere (default: auto)")                                          \
    X(PARSE_FOLLOW, "follow-links", NULL,                                                          \
      "read external data, shards and checkpoints through symbolic links that leave the folder "   \
      "of the file that names them, as in model caches (default: such a link is an error)")        \
    X(PARSE_READ_LIMIT, "read-limit", "SIZE",                                                      \
      "most bytes to read from a pipe or a device (default: 1GiB from a pipe, 4GiB from the "      \
      "input "                                                                                     \
      "`-`, 16MiB from a device)")

static const struct argp_option common_options[] = {
    COMMON_OPTIONS(CLI_OPTION){"help", 'h', "all", OPTION_ARG_OPTIONAL,
                               "print the common options and examples; =all prints every option",
                               0},
    {0}};

static bool parse_is_rank(void) { return parse_command->has_ranks && cli_ranks_started(); }

void cli_end(const tn_error *error) {
    exit(parse_is_rank() ? cli_ranks_end(error) : cli_fail(error));
}

static const char *parse_file; /* the file from which options are parsed; NULL: the command line */
void cli_misuse_in(const char *path) { parse_file = path; }

_Noreturn static void parse_end(const char *text) {
    tn_error error = {.status = TN_E_INVALID};
    snprintf(error.message, sizeof error.message, "%s", text);
    if (parse_is_rank()) cli_end(&error);
    cli_prefix(CLI_ERROR);
    if (parse_file != NULL) {
        cli_put_text(stderr, parse_file);
        fputs(": ", stderr);
    }
    cli_put_text(stderr, text);
    fputc('\n', stderr);
    exit(PARSE_BAD);
}

static void parse_show_help(const struct argp_state *state, const cli_command *command,
                            const char *value) {
    if (!cli_help(command, value, stdout))
        cli_misuse(state, "--help=%s: write --help or --help=all", value);
    exit(cli_finish(0));
}

static error_t common_parse(int key, char *value, struct argp_state *state) {
    parse_call *call = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = call->input;
        return 0;
    case 'h':
        parse_show_help(state, call->command, value);
        return 0;
    case 'q':
        parse_tone.quiet = true;
        return 0;
    case PARSE_BRIEF:
        parse_tone.brief = true;
        return 0;
    case PARSE_FOLLOW:
        parse_follow_links = true;
        return 0;
    case PARSE_READ_LIMIT:
        parse_read_limit = cli_size(state, "read-limit", value);
        return 0;
    case PARSE_OVERWRITE:
        parse_overwrites = true;
        return 0;
    case PARSE_PROGRESS:
        cli_progress_set(cli_choice(state, "progress", value, cli_progress_modes));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp common_argp = {.options = common_options, .parser = common_parse};

/* The parser of the last child table. argp calls it first at ARGP_KEY_END, so the rules about
 * options are checked before a command acts on its options. */
static error_t combine_parse(int key, char *value, struct argp_state *state) {
    (void)value;
    (void)state;
    if (key == ARGP_KEY_END) cli_combine_check(parse_command);
    return key == ARGP_KEY_END ? 0 : ARGP_ERR_UNKNOWN;
}
static const struct argp combine_argp = {.parser = combine_parse};

/* --- refusing unknown names of options --- */

_Noreturn static void parse_no_memory(void) {
    tn_error error;
    tn__no_memory(&error, "the options");
    cli_end(&error);
}

/* A pass over the command line that runs before argp and refuses unknown options. It exists because
 * argp does not suggest similar names. */
typedef struct parse_scan {
    const cli_command *command;
    const cli_options *options;
} parse_scan;

_Noreturn static void parse_refuse(const char *format, ...) {
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    parse_end(text);
}

static void parse_refuse_name(const parse_scan *scan, const char *name) {
    tn__near near = tn__near_begin(name);
    for (uint32_t i = 0; i < scan->options->count; i++)
        tn__near_try(&near, scan->options->rows[i].name);
    if (near.name != NULL)
        parse_refuse("there is no option --%.80s; did you mean --%s?", name, near.name);
    parse_refuse("there is no option --%.80s; `tenure %s --help=all` lists them", name,
                 scan->command->name);
}

/* Finds an option by its name or by an unambiguous prefix of its name. Any other name is a usage
 * error. */
static const cli_option *parse_find(const parse_scan *scan, const char *name) {
    const cli_option *found = NULL, *other = NULL;
    for (uint32_t i = 0; i < scan->options->count; i++) {
        const cli_option *option = &scan->options->rows[i];
        if (strcmp(option->name, name) == 0) return option;
        if (strncmp(option->name, name, strlen(name)) != 0) continue;
        if (found != NULL) other = option;
        if (found == NULL) found = option;
    }
    if (other != NULL)
        parse_refuse("--%s could mean --%s or --%s; write the full name", name, found->name,
                     other->name);
    if (found == NULL) parse_refuse_name(scan, name);
    return found;
}

/* parse_scan_name and parse_scan_letters check one argument that has options. They return whether
 * the next argument, `next`, is the value of the option. `next` is NULL after the last argument. */
static bool parse_scan_name(const parse_scan *scan, const char *word, const char *next) {
    const char *equals = strchr(word, '=');
    char *name = strndup(word, equals != NULL ? (size_t)(equals - word) : strlen(word));
    if (name == NULL) parse_no_memory();
    const cli_option *option = parse_find(scan, name);
    free(name);
    parse_tone.json |= strcmp(option->name, "json") == 0;
    if (equals != NULL && option->argument == NULL)
        parse_refuse("--%s takes no value; remove '=%.80s'", option->name, equals + 1);
    bool takes = equals == NULL && option->argument != NULL && !option->argument_may_lack;
    if (takes && next == NULL)
        parse_refuse("--%s needs a value: %s", option->name, option->argument);
    cli_combine_note(option->name, takes ? next : equals != NULL ? equals + 1 : NULL);
    return takes;
}

static bool parse_scan_letters(const parse_scan *scan, const char *letters, const char *next) {
    for (; *letters != '\0'; letters++) {
        const cli_option *option = NULL;
        for (uint32_t i = 0; i < scan->options->count; i++)
            if (scan->options->rows[i].letter == *letters) option = &scan->options->rows[i];
        if (option == NULL)
            parse_refuse("there is no option -%c; `tenure %s --help=all` lists them", *letters,
                         scan->command->name);
        bool takes = option->argument != NULL && !option->argument_may_lack;
        bool follows = option->argument != NULL && letters[1] != '\0';
        if (takes && !follows && next == NULL)
            parse_refuse("-%c, --%s needs a value: %s", *letters, option->name, option->argument);
        cli_combine_note(option->name, follows ? letters + 1 : takes ? next : NULL);
        if (option->argument != NULL) return takes && !follows;
    }
    return false;
}

static void parse_check_names(const cli_command *command, int count, char **words) {
    cli_options options;
    parse_scan scan = {command, &options};
    cli_options_list(command, &options);
    for (int i = 1; i < count && strcmp(words[i], "--") != 0; i++) {
        bool value = false;
        const char *next = i + 1 < count ? words[i + 1] : NULL;
        if (strncmp(words[i], "--", 2) == 0)
            value = parse_scan_name(&scan, words[i] + 2, next);
        else if (words[i][0] == '-')
            value = parse_scan_letters(&scan, words[i] + 1, next);
        i += value;
    }
    cli_options_release(&options);
}

void cli_misuse(const struct argp_state *state, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)state;
    parse_end(text);
}

/* Redirects text for people to the file `path`. Files that are written to standard output are not
 * redirected. */
static void parse_send_text(const char *path) {
    FILE *file = fopen(path, "w");
    if (file != NULL) stdout = file;
}

/* Replaces old names of options on the command line by the present names. The new strings are never
 * freed. */
static void parse_rename(int count, char **words) {
    for (int i = 1; i < count && strcmp(words[i], "--") != 0; i++) {
        const char *name =
            strncmp(words[i], "--", 2) == 0 ? cli_option_renamed(words[i] + 2) : NULL;
        if (name == NULL) continue;
        size_t room = strlen(name) + strlen(words[i]) + 3;
        const char *value = strchr(words[i], '=');
        char *word = malloc(room);
        if (word == NULL) parse_no_memory();
        snprintf(word, room, "--%s%s", name, value != NULL ? value : "");
        words[i] = word;
    }
}

void cli_parse(const cli_command *command, int count, char **words, void *input) {
    const struct argp_child children[] = {
        {command->parser, 0, NULL, 0}, {&combine_argp, 0, NULL, 0}, {0}};
    const struct argp parser = {.options = common_options,
                                .parser = common_parse,
                                .args_doc = command->parser->args_doc,
                                .children = children};
    parse_call call = {command, input};
    parse_command = command;
    parse_rename(count, words);
    parse_check_names(command, count, words);
    if (argp_parse(&parser, count, words, ARGP_NO_HELP, NULL, &call) != 0) parse_no_memory();
    cli_combine_check(command);
    if (!parse_overwrites) cli_check_files();
    if (parse_tone.quiet) parse_send_text("/dev/null");
}

/* --- all options of a command in one list --- */

/* Returns the help of an option as a new string. A command may describe a shared option in its own
 * words, which the help filter of its table returns. */
static char *options_help(const struct argp *argp, const struct argp_option *row) {
    const char *help = row->doc != NULL ? row->doc : "";
    char *filtered = argp->help_filter != NULL ? argp->help_filter(row->key, help, NULL) : NULL;
    return filtered != NULL && filtered != help ? filtered : strdup(help);
}

static void options_add(cli_options *options, const struct argp *command,
                        const struct argp_option *row, const char *heading) {
    if (options->count == CLI_OPTIONS_MAX || (row->flags & OPTION_HIDDEN) != 0) return;
    options->rows[options->count++] =
        (cli_option){.name = row->name,
                     .argument = row->arg,
                     .letter = row->key > ' ' && row->key < 127 ? (char)row->key : '\0',
                     .argument_may_lack = (row->flags & OPTION_ARG_OPTIONAL) != 0,
                     .heading = heading,
                     .help = options_help(command, row)};
}

/* Adds the options of a table and of its child tables. The recursion ends, because the tables are
 * constants of the program and form a tree. */
static void options_walk(cli_options *options, const struct argp *command, const struct argp *argp,
                         const char *heading) {
    for (const struct argp_option *row = argp->options; row != NULL && row->name != NULL; row++)
        options_add(options, command, row, heading);
    for (const struct argp_child *child = argp->children; child != NULL && child->argp != NULL;
         child++)
        options_walk(options, command, child->argp,
                     child->header != NULL ? child->header : heading);
}

/* Sorts the options under each heading by name. The headings stay in their order. */
static void options_sort(cli_options *options) {
    for (uint32_t i = 1; i < options->count; i++) {
        cli_option moved = options->rows[i];
        uint32_t at = i;
        while (at > 0 && strcmp(options->rows[at - 1].heading, moved.heading) == 0 &&
               strcmp(options->rows[at - 1].name, moved.name) > 0) {
            options->rows[at] = options->rows[at - 1];
            at--;
        }
        options->rows[at] = moved;
    }
}

const char *cli_option_renamed(const char *name) {
    static const char *const names[][2] = {{"recompute-share", "recompute-work"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i][0]);
        if (strncmp(name, names[i][0], length) != 0) continue;
        if (name[length] == '\0' || name[length] == '=') return names[i][1];
    }
    return NULL;
}

void cli_options_list(const cli_command *command, cli_options *options) {
    options->count = 0;
    options_walk(options, command->parser, command->parser, "");
    options_walk(options, command->parser, &common_argp, "Options of every command:");
    options_sort(options);
}

void cli_options_release(cli_options *options) {
    for (uint32_t i = 0; i < options->count; i++) free(options->rows[i].help);
    options->count = 0;
}

/* --- help --- */

/* --help prints the usage, the common options, and examples. --help=all prints every option. */

#define HELP_AT 30u /* column at which the descriptions of options begin */

/* Returns whether `name` is one of the names in `words`, which are separated by blanks. */
static bool help_names(const char *words, const char *name) {
    size_t length = strlen(name);
    for (const char *at = words; (at = strstr(at, name)) != NULL; at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static void help_option(const cli_option *option, FILE *to) {
    char left[128];
    char letter[] = "    ";
    uint32_t columns = cli_columns(to);
    if (option->letter != '\0') snprintf(letter, sizeof letter, "-%c, ", option->letter);
    const char *argument = option->argument != NULL ? option->argument : "";
    snprintf(left, sizeof left, "  %.4s--%s%s%s%s", letter, option->name,
             option->argument_may_lack ? "[="
             : *argument != '\0'       ? "="
                                       : "",
             argument, option->argument_may_lack ? "]" : "");
    uint32_t at = (uint32_t)strlen(left);
    fputs(left, to);
    if (at + 2 > HELP_AT) fprintf(to, "\n%*s", (int)HELP_AT, "");
    if (at + 2 <= HELP_AT) fprintf(to, "%*s", (int)(HELP_AT - at), "");
    cli_fill(to, option->help != NULL ? option->help : "", HELP_AT, HELP_AT, columns);
}

/* Prints the options that are named in `words`, in the order of `words`, which begins with the most
 * useful option. */
static void help_first(const char *words, const cli_options *options, FILE *to) {
    while (*words != '\0') {
        size_t length = strcspn(words, " ");
        for (uint32_t i = 0; i < options->count; i++)
            if (strlen(options->rows[i].name) == length &&
                strncmp(options->rows[i].name, words, length) == 0)
                help_option(&options->rows[i], to);
        words += length;
        words += *words == ' ';
    }
}

static uint32_t help_rest(const cli_command *command, const cli_options *options, bool print,
                          FILE *to) {
    const char *heading = NULL;
    uint32_t count = 0;
    for (uint32_t i = 0; i < options->count; i++) {
        const cli_option *option = &options->rows[i];
        if (help_names(command->first, option->name)) continue;
        count++;
        if (!print) continue;
        if (heading == NULL || strcmp(heading, option->heading) != 0)
            fprintf(to, "\n%s\n", option->heading[0] != '\0' ? option->heading : "Other options:");
        heading = option->heading;
        help_option(option, to);
    }
    return count;
}

/* Prints the text line by line. A line that is too long is wrapped; a line that begins with a blank
 * is an example and is printed unchanged. */
static void help_after(const char *text, FILE *to) {
    uint32_t columns = cli_columns(to);
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        char *line = strndup(text, length);
        if (line != NULL && length > columns && text[0] != ' ')
            cli_fill(to, line, 0, 0, columns);
        else
            fprintf(to, "%.*s\n", (int)length, text);
        free(line);
        text += length;
        text += *text == '\n';
    }
}

static const cli_topic *help_topic(const cli_command *command, const char *name) {
    const cli_topic *topic = command->topics;
    while (topic != NULL && topic->name != NULL && strcmp(topic->name, name) != 0) topic++;
    return topic != NULL && topic->name != NULL ? topic : NULL;
}

static void help_usage(const cli_command *command, FILE *to) {
    const char *arguments = command->parser->args_doc;
    fprintf(to, "Usage: tenure %s [OPTION...] %s\n", command->name,
            arguments != NULL ? arguments : "");
}

/* Prints one line for each topic of the command, such as "--help=llm: a language model to run". */
static void help_topics(const cli_command *command, FILE *to) {
    for (const cli_topic *topic = command->topics; topic != NULL && topic->name != NULL; topic++)
        fprintf(to, "tenure %s --help=%s: %s\n", command->name, topic->name, topic->about);
}

static void help_one_topic(const cli_command *command, const cli_topic *topic,
                           const cli_options *options, FILE *to) {
    help_usage(command, to);
    fprintf(to, "For %s.\n\nOptions:\n", topic->about);
    help_first(topic->options, options, to);
    fprintf(to, "\nAll options: tenure %s --help=all\n\nExamples:\n%s", command->name,
            topic->examples);
}

static void help_whole(const cli_command *command, const cli_options *options, bool all, FILE *to) {
    const struct argp *parser = command->parser;
    const char *doc = parser->doc != NULL ? parser->doc : "";
    size_t before = strcspn(doc, "\v");
    char *about = strndup(doc, before);
    help_usage(command, to);
    cli_fill(to, about != NULL ? about : "", 0, 0, cli_columns(to));
    bool most = command->first[0] != '\0';
    if (most) fputs("\nCommon options:\n", to);
    help_first(command->first, options, to);
    uint32_t rest = help_rest(command, options, all || !most, to);
    if (!all && most) fprintf(to, "\n%u more options: tenure %s --help=all\n", rest, command->name);
    if (!all) help_topics(command, to);
    fputs("\n", to);
    help_after(doc[before] == '\v' ? doc + before + 1 : "", to);
    free(about);
}

bool cli_help(const cli_command *command, const char *what, FILE *to) {
    bool all = what != NULL && strcmp(what, "all") == 0;
    const cli_topic *topic = what != NULL && !all ? help_topic(command, what) : NULL;
    if (what != NULL && !all && topic == NULL) return false;
    cli_options options;
    cli_options_list(command, &options);
    if (topic != NULL)
        help_one_topic(command, topic, &options, to);
    else
        help_whole(command, &options, all, to);
    cli_options_release(&options);
    return true;
}
