/* list.c - `tenure list`: prints the registries of this build. Without an argument it prints the
 * names of the lists. */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/cli.h"
#include "cli/command_line/combine.h"
#include "engine/kernels/kernel.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- details of entries that are computed for the list --- */

/* The families of language models that `tenure estimate` supports. */
static uint32_t list_model_count(void) {
    uint32_t count = 0;
    while (tn_llm_family(count) != NULL) count++;
    return count;
}
static const char *list_model(uint32_t index) {
    (void)index;
    return "\"model_type\" of a config.json";
}

static const char *list_hardware_name(uint32_t index) { return tn_hardware_at(index)->name; }
static const char *list_hardware(uint32_t index, char *detail, size_t room) {
    const tn_hardware *it = tn_hardware_at(index);
    const double rates[] = {it->fp32, it->fp16, it->bf16};
    char text[3][24];
    for (uint32_t i = 0; i < 3; i++) {
        if (rates[i] < 0)
            snprintf(text[i], sizeof text[i], "-");
        else
            snprintf(text[i], sizeof text[i], "%g", rates[i] / 1e12);
    }
    snprintf(detail, room,
             "%s: %llu GiB, %g GB/s; TFLOP/s in fp32 %s, fp16 %s, bf16 %s; data sheet of %u",
             it->title, (unsigned long long)(it->memory >> 30), it->bytes_per_s / 1e9, text[0],
             text[1], text[2], it->year);
    return detail;
}

static const char *list_domain(uint32_t index, char *detail, size_t room) {
    const char *domain = tn_op_rule_domain(index);
    (void)detail;
    (void)room;
    return domain[0] == '\0' ? "ai.onnx" : domain;
}

/* Families of kernels. The detail lists the data types that a family computes, as many as fit into
 * the text. */
static const char *list_family_name(uint32_t index) { return tn__kernel_family_at(index)->name; }
static const char *list_family(uint32_t index, char *detail, size_t room) {
    const tn_kernel_family *family = tn__kernel_family_at(index);
    const char *last = "";
    size_t used = 0;
    detail[0] = '\0';
    for (uint32_t i = 0; i < family->kernel_count; i++) {
        const char *type = family->kernels[i].type;
        /* the kernels for one type are adjacent in the table */
        if (strcmp(type, last) == 0) continue;
        size_t length = strlen(type) + (used > 0);
        if (used + length + sizeof " ..." > room) {
            memcpy(detail + used, " ...", sizeof " ...");
            break;
        }
        snprintf(detail + used, room - used, "%s%s", used > 0 ? " " : "", type);
        used += length;
        last = type;
    }
    return detail;
}

/* File formats: first those that can be read, then those that can be written. */
static uint32_t list_format_count(void) {
    return tn_import_format_count() + tn_report_format_count();
}
static const char *list_format_name(uint32_t index) {
    uint32_t read = tn_import_format_count();
    return index < read ? tn_import_format_name(index) : tn_report_format_name(index - read);
}
static const char *list_format_summary(uint32_t index) {
    uint32_t read = tn_import_format_count();
    return index < read ? tn_import_format_summary(index) : tn_report_format_summary(index - read);
}

/* Links to devices. Their speeds are measured when the list is printed, with buffers of this
 * size. */
#define LISTS_LINK_BYTES (UINT64_C(32) << 20)

static const char *list_link_told(char *detail, size_t room, const tn_error *error) {
    snprintf(detail, room, "not here: %s", error->message);
    for (char *at = detail; *at != '\0'; at++)
        /* the details are not escaped in JSON, and a path may contain these characters */
        if (*at == '"' || *at == '\\') *at = '\'';
    return detail;
}

static const char *list_link(uint32_t index, char *detail, size_t room) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    char capacity[TN_SIZE_TEXT_MAX];
    tn_device_link link;
    tn_device *device;
    tn_error error = {0};
    options.device = tn_device_name(index);
    if (tn_device_create(&options, &device, &error) != TN_OK)
        return list_link_told(detail, room, &error);
    uint64_t has = tn_device_limits_of(device).capacity, bytes = has / 8;
    tn_status status = tn_device_measure_link(
        device, bytes < LISTS_LINK_BYTES ? bytes : LISTS_LINK_BYTES, NULL, &link, &error);
    tn_device_destroy(device);
    if (status != TN_OK) return list_link_told(detail, room, &error);
    snprintf(detail, room, "put %.1f GB/s, get %.1f GB/s, both at once %.1f GB/s; %s",
             link.put_bytes_per_s / 1e9, link.get_bytes_per_s / 1e9, link.both_bytes_per_s / 1e9,
             has == TN_SIZE_UNKNOWN ? "no limit" : tn_size_format(has, capacity));
    return detail;
}

static const char *list_combination(uint32_t index, char *detail, size_t room) {
    (void)detail;
    (void)room;
    return cli_combination_text(index);
}

/* --- the table of lists --- */

static const cli_list list_table[] = {
    {"planners", "the planners", tn_planner_count, tn_planner_name, "summary", tn_planner_summary,
     NULL},
    {"objects", "the strategies for shared objects (plan --form objects)", tn_object_strategy_count,
     tn_object_strategy_name, "summary", tn_object_strategy_summary, NULL},
    {"orders", "the orders of operators (plan --order)", tn_order_count, tn_order_name, "summary",
     tn_order_summary, NULL},
    {"passes", "the passes that reduce a program to a budget (fit --pass)", tn_pass_count,
     tn_pass_name, "summary", tn_pass_summary, NULL},
    {"policies", "the eviction policies of recorded runs (simulate --policy)",
     tn_evict_policy_count, tn_evict_policy_name, "summary", tn_evict_policy_summary, NULL},
    {"row-policies", "the eviction policies of caches of embedding rows (embed replay --policy)",
     tn_embedding_policy_count, tn_embedding_policy_name, "summary", tn_embedding_policy_summary,
     NULL},
    {"pools", "the memory pools (replay --pool)", tn_pool_count, tn_pool_name, "summary",
     tn_pool_summary, NULL},
    {"devices", "the devices that programs run on", tn_device_count, tn_device_name, "summary",
     tn_device_summary, NULL},
    {"links", "the copy speed of the devices of this machine, measured now", tn_device_count,
     tn_device_name, "speed", NULL, list_link},
    {"transports", "the transports of messages between ranks", tn_world_driver_count,
     tn_world_driver_name, "summary", tn_world_driver_summary, NULL},
    {"hardware", "the devices that estimates know, with memory and speed", tn_hardware_count,
     list_hardware_name, "summary", NULL, list_hardware},
    {"families", "the language model families that estimates know", list_model_count, tn_llm_family,
     "summary", list_model, NULL},
    {"rewrites", "the rewrites of graphs before they run", tn_rewrite_count, tn_rewrite_name,
     "summary", tn_rewrite_summary, NULL},
    {"kernels", "the kernel families, in the order of preference", tn__kernel_family_count,
     list_family_name, "types", NULL, list_family},
    {"operators", "the operators with shape rules", tn_op_rule_count, tn_op_rule_type, "domain",
     NULL, list_domain},
    {"formats", "the formats that can be read and written", list_format_count, list_format_name,
     "summary", list_format_summary, NULL},
    {"members", "the members of the objects that --json prints", cli_member_count, cli_member_name,
     "meaning", cli_member_help, NULL},
    {"combinations", "the options that need or exclude other options", cli_combination_count,
     cli_combination_name, "rule", NULL, list_combination},
};

uint32_t cli_list_count(void) { return sizeof list_table / sizeof *list_table; }
const cli_list *cli_list_at(uint32_t index) { return &list_table[index]; }

const cli_list *cli_list_find(const char *name) {
    /* the name that the list had in version 0.1 */
    if (strcmp(name, "carriers") == 0) name = "transports";
    for (uint32_t i = 0; i < cli_list_count(); i++)
        if (strcmp(list_table[i].name, name) == 0) return &list_table[i];
    return NULL;
}

/* --- the command `tenure list` --- */

#define LIST_AT 18u /* leftmost column at which the details may begin */
#define LIST_GAP 2u

enum { LIST_JSON = 400 };

#define LIST_OPTIONS(X) X(LIST_JSON, "json", NULL, "print a JSON array instead of the table")

typedef struct list_arguments {
    const char *what; /* name of the list; NULL: print the names of all lists */
    bool json;
} list_arguments;

static const struct argp_option list_options[] = {LIST_OPTIONS(CLI_OPTION){0}};

/* The list of all lists. */
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

/* Prints a list as a table. If standard output is not a terminal, each entry is one line of any
 * length, for grep and awk. */
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
