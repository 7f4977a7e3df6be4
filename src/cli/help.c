/* help.c - `tenure COMMAND --help`: usage, the common options, and examples; --help=all prints
 * every option. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#define HELP_AT 30u /* the column of the description */

/* Whether `name` is a whole word of the list. */
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

/* In the order of the list: the most useful first. */
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

/* Line by line: examples stay as written, longer lines are filled. */
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

/* "--help=llm: a language model to run", one line for each topic. */
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
