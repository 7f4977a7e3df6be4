/* list.c - `tenure list`: the registries of this build; without an argument, the names of the
 * lists. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/cli.h"

#define LIST_AT 18u /* the smallest column of the details */
#define LIST_GAP 2u

enum { LIST_JSON = 400 };

#define LIST_OPTIONS(X) X(LIST_JSON, "json", NULL, "print a JSON array instead of the table")

typedef struct list_arguments {
    const char *what; /* NULL: the lists */
    bool json;
} list_arguments;

static const struct argp_option list_options[] = {LIST_OPTIONS(CLI_OPTION){0}};

/* The list of the lists. */
static const char *list_name(uint32_t index) { return cli_list_at(index)->name; }
static const char *list_about(uint32_t index) { return cli_list_at(index)->about; }
static const cli_list list_of_lists = {
    "lists", "the lists", cli_list_count, list_name, "summary", list_about, NULL};

static void list_refuse(const struct argp_state *state, const char *name) {
    char asked[TN__NEAR_TEXT];
    cli_misuse(
        state, "there is no list '%.60s'; %s", name,
        tn__near_of(name, cli_list_count(), list_name, "`tenure list` shows the names", asked));
}

static error_t list_parse(int key, char *value, struct argp_state *state) {
    list_arguments *arguments = state->input;
    switch (key) {
    case LIST_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->what != NULL)
            cli_misuse(state, "give only one list; '%s' is a second one", value);
        if (cli_list_find(value) == NULL) list_refuse(state, value);
        arguments->what = value;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *list_detail(const cli_list *what, uint32_t index, char made[CLI_LIST_TEXT]) {
    return what->make != NULL ? what->make(index, made, CLI_LIST_TEXT) : what->detail(index);
}

static void list_print_json(const cli_list *what) {
    char made[CLI_LIST_TEXT];
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "[");
    for (uint32_t i = 0; i < what->count(); i++) {
        tn__text_put(&text, i == 0 ? "\n {\"name\": " : ",\n {\"name\": ");
        tn__text_json(&text, what->row(i));
        tn__text_printf(&text, ", \"%s\": ", what->key);
        tn__text_json(&text, list_detail(what, i, made));
        tn__text_put(&text, "}");
    }
    tn__text_put(&text, "\n]\n");
    if (!text.failed) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
}

/* In a pipe each row is one line of any length, for grep and awk. */
static void list_print(const cli_list *what) {
    uint32_t columns = isatty(STDOUT_FILENO) ? cli_columns(stdout) : UINT32_MAX;
    char made[CLI_LIST_TEXT];
    uint32_t at = LIST_AT;
    for (uint32_t i = 0; i < what->count(); i++)
        if (strlen(what->row(i)) + LIST_GAP > at) at = (uint32_t)strlen(what->row(i)) + LIST_GAP;
    for (uint32_t i = 0; i < what->count(); i++) {
        printf("%-*s", (int)at, what->row(i));
        cli_fill(stdout, list_detail(what, i, made), at, at, columns);
    }
}

static void list_print_brief(const cli_list *what) {
    for (uint32_t i = 0; i < what->count(); i++) printf("%s%s", i > 0 ? " " : "", what->row(i));
    printf("\n");
}

static const char list_doc[] = "Prints a list of this build, such as planners, orders, passes or "
                               "hardware. Without LIST it prints the names of the lists.\v"
                               "Examples:\n"
                               "  tenure list\n"
                               "  tenure list planners\n"
                               "  tenure list hardware\n\n"
                               "Exit status: 0 done, 2 bad usage.";
static const struct argp list_parser = {list_options, list_parse, "[LIST]", list_doc, NULL, 0, 0};

static int list_run(int count, char **words) {
    list_arguments arguments = {0};
    cli_parse(&cli_command_list, count, words, &arguments);
    const cli_list *what = arguments.what != NULL ? cli_list_find(arguments.what) : &list_of_lists;
    if (arguments.json)
        list_print_json(what);
    else
        (cli_tone_asked().brief ? list_print_brief : list_print)(what);
    if (arguments.what == NULL && !arguments.json && !cli_tone_asked().brief)
        printf("\n`tenure list LIST` shows one: tenure list hardware\n");
    return cli_finish(0);
}

const cli_command cli_command_list = {
    .name = "list",
    .summary = "list planners, passes, pools, hardware, operators and formats of this build",
    .first = "",
    .parser = &list_parser,
    .run = list_run,
};
