/* completion.c - `tenure completion`: prints the completion scripts of bash, zsh and fish, which
 * are generated from the tables of options. The build writes the three scripts and installs them in
 * the folders of the shells. */
#include "cli/cli.h"

#include <string.h>

#define COMPLETION_VALUES 4096u /* buffer size in bytes for the possible values of one option */

typedef enum completion_shell { COMPLETION_BASH, COMPLETION_ZSH, COMPLETION_FISH } completion_shell;

typedef struct completion_arguments {
    uint32_t shell;
    bool given;
} completion_arguments;

/* --- possible values of options --- */

/* Options that have an entry of a list of `tenure list` as their value. */
static const struct {
    const char *option, *list;
} completion_lists[] = {{"planner", "planners"}, {"order", "orders"},    {"pass", "passes"},
                        {"pool", "pools"},       {"policy", "policies"}, {"device", "hardware"}};

static void completion_list(const char *name, char values[COMPLETION_VALUES]) {
    const cli_list *list = cli_list_find(name);
    size_t used = 0;
    for (uint32_t i = 0; list != NULL && i < list->count(); i++) {
        int wrote = snprintf(values + used, COMPLETION_VALUES - used, "%s%s", i > 0 ? " " : "",
                             list->row(i));
        used += wrote > 0 && (size_t)wrote < COMPLETION_VALUES - used ? (size_t)wrote : 0;
    }
}

/* Sets `values` to the possible values of an option, "a b c", if the description of its value is
 * "a|b|c". Leaves `values` unchanged if the description is a kind of value, such as "SIZE". */
static void completion_choices(const char *argument, char values[COMPLETION_VALUES]) {
    if (argument == NULL || argument[strcspn(argument, "=,[@/:ABCDEFGHIJKLMNOPQRSTUVWXYZ")] != '\0')
        return;
    snprintf(values, COMPLETION_VALUES, "%s", argument);
    for (char *at = values; *at != '\0'; at++)
        if (*at == '|') *at = ' ';
}

static void completion_values(const cli_option *option, char values[COMPLETION_VALUES]) {
    values[0] = '\0';
    for (size_t i = 0; i < sizeof completion_lists / sizeof *completion_lists; i++)
        if (strcmp(option->name, completion_lists[i].option) == 0)
            completion_list(completion_lists[i].list, values);
    if (values[0] == '\0') completion_choices(option->argument, values);
}

static bool completion_takes_file(const cli_option *option) {
    return option->argument != NULL &&
           (strstr(option->argument, "FILE") != NULL || strstr(option->argument, "DIR") != NULL ||
            strstr(option->argument, "DATA") != NULL);
}

/* --- quoting --- */

/* Prints the first sentence of `text` so that it can stand between single quotes in bash, zsh and
 * fish. The characters in `escaped` get a backslash. */
static void completion_quote(const char *text, const char *escaped) {
    for (; *text != '\0' && *text != ';' && strncmp(text, ". ", 2) != 0; text++) {
        if (*text == '\'' || *text == '`')
            putchar('"');
        else if (strchr(escaped, *text) != NULL)
            printf("\\%c", *text);
        else
            putchar(*text);
    }
}

/* --- bash --- */

static void completion_bash_command(const cli_command *command) {
    char values[COMPLETION_VALUES];
    cli_options options;
    cli_options_list(command, &options);
    printf("    %s)\n        options='", command->name);
    for (uint32_t i = 0; i < options.count; i++) {
        const cli_option *option = &options.rows[i];
        bool needs = option->argument != NULL && !option->argument_may_lack;
        printf("%s--%s%s", i > 0 ? " " : "", option->name, needs ? "=" : "");
    }
    printf("'\n        case $option in\n");
    for (uint32_t i = 0; i < options.count; i++) {
        const cli_option *option = &options.rows[i];
        completion_values(option, values);
        bool needs = option->argument != NULL && !option->argument_may_lack;
        if (values[0] == '\0' && !needs) continue;
        if (option->letter != '\0') printf("        -%c | --%s)", option->letter, option->name);
        if (option->letter == '\0') printf("        --%s)", option->name);
        if (values[0] != '\0')
            printf(" values='%s' ;;\n", values);
        else
            printf(" %s=1 ;;\n", completion_takes_file(option) ? "files" : "other");
    }
    printf("        esac\n        ;;\n");
    cli_options_release(&options);
}

static void completion_bash(void) {
    printf("# bash completion of tenure; made by `tenure completion bash`\n"
           "_tenure() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local commands='help version");
    for (uint32_t i = 0; i < cli_command_count(); i++) printf(" %s", cli_command_at(i)->name);
    printf("' lists='");
    for (uint32_t i = 0; i < cli_list_count(); i++)
        printf("%s%s", i > 0 ? " " : "", cli_list_at(i)->name);
    printf("'\n"
           "    local options= values= files= other=\n"
           "    # --name=value comes as three words\n"
           "    if [[ $word == = ]]; then\n"
           "        word=\n"
           "    elif [[ $option == = ]]; then\n"
           "        option=${COMP_WORDS[COMP_CWORD-2]}\n"
           "    elif [[ $word == -* || $option == --help || $option == --holders ]]; then\n"
           "        option=\n"
           "    fi\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]} in\n"
           "    help) values=$commands ;;\n");
    for (uint32_t i = 0; i < cli_command_count(); i++) completion_bash_command(cli_command_at(i));
    printf("    esac\n"
           "    [[ ${COMP_WORDS[1]} == list && $word != -* ]] && values=$lists\n"
           "    [[ ${COMP_WORDS[1]} == completion && $word != -* ]] && values='bash zsh fish'\n"
           "    if [[ -n $values ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$values\" -- \"$word\"))\n"
           "    elif [[ -n $other ]]; then\n"
           "        :\n"
           "    elif [[ $word == -* && -z $files ]]; then\n"
           "        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
           "        [[ ${COMPREPLY[*]} == *= ]] && compopt -o nospace\n"
           "    else\n"
           "        compopt -o filenames\n"
           "        COMPREPLY=($(compgen -f -- \"$word\"))\n"
           "    fi\n"
           "}\n"
           "complete -F _tenure tenure\n");
}

/* --- zsh --- */

static void completion_zsh_option(const cli_option *option) {
    char values[COMPLETION_VALUES];
    completion_values(option, values);
    bool needs = option->argument != NULL && !option->argument_may_lack;
    for (int letter = option->letter != '\0'; letter >= 0; letter--) {
        if (letter) printf("            '*-%c%s[", option->letter, needs ? "+" : "");
        if (!letter)
            printf("            '*--%s%s[", option->name,
                   needs                      ? "="
                   : option->argument != NULL ? "=-"
                                              : "");
        completion_quote(option->help != NULL ? option->help : "", "[]\\");
        printf("]");
        if (option->argument != NULL && (needs || !letter)) {
            printf(option->argument_may_lack ? "::" : ":");
            completion_quote(option->argument, ":[]\\");
            if (values[0] != '\0')
                printf(":(%s)", values);
            else
                printf(completion_takes_file(option) ? ":_files" : ": ");
        }
        printf("'\n");
    }
}

static void completion_zsh(void) {
    printf("#compdef tenure\n# zsh completion of tenure; made by `tenure completion zsh`\n"
           "_tenure() {\n    local -a commands arguments\n    commands=(\n"
           "        'help:list the commands, or show the help of one'\n"
           "        'version:print the version and the libraries of this build'\n");
    for (uint32_t i = 0; i < cli_command_count(); i++) {
        printf("        '%s:", cli_command_at(i)->name);
        completion_quote(cli_command_at(i)->summary, ":\\");
        printf("'\n");
    }
    printf(
        "    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n"
        "        return\n    fi\n    local command=$words[2]\n    shift words\n    ((CURRENT--))\n"
        "    case $command in\n    help) _describe command commands ;;\n");
    for (uint32_t i = 0; i < cli_command_count(); i++) {
        const cli_command *command = cli_command_at(i);
        cli_options options;
        cli_options_list(command, &options);
        printf("    %s)\n        arguments=(\n", command->name);
        for (uint32_t k = 0; k < options.count; k++) completion_zsh_option(&options.rows[k]);
        cli_options_release(&options);
        if (strcmp(command->name, "list") == 0) {
            printf("            '1:list:(");
            for (uint32_t k = 0; k < cli_list_count(); k++) printf(" %s", cli_list_at(k)->name);
            printf(")'\n");
        } else if (strcmp(command->name, "completion") == 0) {
            printf("            '1:shell:(bash zsh fish)'\n");
        } else {
            printf("            '*:file:_files'\n");
        }
        printf("        )\n        _arguments -s $arguments\n        ;;\n");
    }
    printf("    esac\n}\n"
           "if [[ $funcstack[1] == _tenure ]]; then\n    _tenure \"$@\"\n"
           "else\n    compdef _tenure tenure\nfi\n");
}

/* --- fish --- */

static void completion_fish_option(const cli_command *command, const cli_option *option) {
    char values[COMPLETION_VALUES];
    completion_values(option, values);
    printf("complete -c tenure -n '__fish_seen_subcommand_from %s' -l %s", command->name,
           option->name);
    if (option->letter != '\0') printf(" -s %c", option->letter);
    if (option->argument != NULL && !option->argument_may_lack) printf(" -r");
    if (option->argument != NULL && completion_takes_file(option)) printf(" -F");
    if (option->argument != NULL && !completion_takes_file(option)) printf(" -f");
    if (values[0] != '\0') printf(" -a '%s'", values);
    printf(" -d '");
    completion_quote(option->help != NULL ? option->help : "", "\\");
    printf("'\n");
}

static void completion_fish(void) {
    printf(
        "# fish completion of tenure; made by `tenure completion fish`\n"
        "complete -c tenure -n __fish_use_subcommand -f -a help -d 'list the commands, or show "
        "the help of one'\n"
        "complete -c tenure -n __fish_use_subcommand -f -a version -d 'print the version and the "
        "libraries of this build'\n");
    for (uint32_t i = 0; i < cli_command_count(); i++) {
        const cli_command *command = cli_command_at(i);
        cli_options options;
        printf("complete -c tenure -n __fish_use_subcommand -f -a %s -d '", command->name);
        completion_quote(command->summary, "\\");
        printf("'\ncomplete -c tenure -n '__fish_seen_subcommand_from help' -f -a %s\n",
               command->name);
        cli_options_list(command, &options);
        for (uint32_t k = 0; k < options.count; k++)
            completion_fish_option(command, &options.rows[k]);
        cli_options_release(&options);
    }
    printf("complete -c tenure -n '__fish_seen_subcommand_from list' -f -a '");
    for (uint32_t k = 0; k < cli_list_count(); k++)
        printf("%s%s", k > 0 ? " " : "", cli_list_at(k)->name);
    printf("'\ncomplete -c tenure -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'"
           "\n");
}

/* --- the command `tenure completion` --- */

static const char *const completion_shells[] = {"bash", "zsh", "fish", NULL};

static error_t completion_parse(int key, char *value, struct argp_state *state) {
    completion_arguments *arguments = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (arguments->given)
            cli_misuse(state, "give only one shell; '%.60s' is a second one", value);
        while (completion_shells[arguments->shell] != NULL &&
               strcmp(completion_shells[arguments->shell], value) != 0)
            arguments->shell++;
        if (completion_shells[arguments->shell] == NULL)
            cli_misuse(state, "'%.60s' is not a supported shell; use bash, zsh or fish", value);
        arguments->given = true;
        return 0;
    case ARGP_KEY_END:
        if (!arguments->given) cli_misuse(state, "no shell given; write bash, zsh or fish");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char completion_doc[] =
    "Prints the completion script of a shell. It completes commands, options, names such as "
    "planners, and files. An installed tenure has already installed it.\v"
    "Examples:\n"
    "  eval \"$(tenure completion bash)\"\n"
    "  tenure completion zsh > ~/.zfunc/_tenure\n"
    "  tenure completion fish > ~/.config/fish/completions/tenure.fish\n\n"
    "Exit status: 0 done, 2 bad usage.";
static const struct argp completion_parser = {
    NULL, completion_parse, "bash|zsh|fish", completion_doc, NULL, 0, 0};

static int completion_run(int count, char **words) {
    static void (*const makers[])(void) = {[COMPLETION_BASH] = completion_bash,
                                           [COMPLETION_ZSH] = completion_zsh,
                                           [COMPLETION_FISH] = completion_fish};
    completion_arguments arguments = {0};
    cli_parse(&cli_command_completion, count, words, &arguments);
    makers[arguments.shell]();
    return cli_finish(0);
}

const cli_command cli_command_completion = {
    .name = "completion",
    .summary = "print the completion script for bash, zsh or fish",
    .first = "",
    .parser = &completion_parser,
    .run = completion_run,
};
