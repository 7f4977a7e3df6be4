/* list.c - `tenure list`: what this build knows. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { LIST_JSON = 400 };

#define LIST_OPTIONS(X) X(LIST_JSON, "json", NULL, "print a JSON array instead of the table")

typedef struct list_arguments {
    const char *what;
    bool json;
} list_arguments;

static const struct argp_option list_options[] = {LIST_OPTIONS(CLI_OPTION){0}};

static error_t list_parse(int key, char *value, struct argp_state *state) {
    list_arguments *arguments = state->input;
    switch (key) {
    case LIST_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->what != NULL) argp_error(state, "one list, not '%s' too", value);
        arguments->what = value;
        return 0;
    case ARGP_KEY_END:
        if (arguments->what == NULL)
            argp_error(state, "which list? planners, objects, orders, pools, devices, rewrites, "
                              "operators or formats");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A row of two columns. The words are ours: names and summaries without quotes or backslashes. */
static void list_row(const list_arguments *arguments, bool first, const char *key, const char *name,
                     const char *detail) {
    if (arguments->json)
        printf("%s\n {\"name\": \"%s\", \"%s\": \"%s\"}", first ? "" : ",", name, key, detail);
    else
        printf("%-28s %s\n", name, detail);
}

/* "80 GiB, 2039 GB/s, ...": a row of the table that estimates compare with. */
static void list_hardware(const list_arguments *arguments, uint32_t index) {
    const tn_hardware *it = tn_hardware_at(index);
    const double rates[] = {it->fp32, it->fp16, it->bf16};
    char detail[200], text[3][24];
    for (uint32_t i = 0; i < 3; i++) {
        if (rates[i] < 0)
            snprintf(text[i], sizeof text[i], "-");
        else
            snprintf(text[i], sizeof text[i], "%g", rates[i] / 1e12);
    }
    snprintf(detail, sizeof detail,
             "%s: %llu GiB, %g GB/s; TFLOP/s in fp32 %s, fp16 %s, bf16 %s; data sheet of %u",
             it->title, (unsigned long long)(it->memory >> 30), it->bytes_per_s / 1e9, text[0],
             text[1], text[2], it->year);
    list_row(arguments, index == 0, "summary", it->name, detail);
}

static int list_print(const list_arguments *arguments) {
    const char *what = arguments->what;
    uint32_t rows = 0;
    if (arguments->json) printf("[");
    if (strcmp(what, "planners") == 0) {
        for (uint32_t i = 0; i < tn_planner_count(); i++)
            list_row(arguments, rows++ == 0, "summary", tn_planner_name(i), tn_planner_summary(i));
    } else if (strcmp(what, "objects") == 0) {
        for (uint32_t i = 0; i < tn_object_strategy_count(); i++)
            list_row(arguments, rows++ == 0, "summary", tn_object_strategy_name(i),
                     tn_object_strategy_summary(i));
    } else if (strcmp(what, "orders") == 0) {
        for (uint32_t i = 0; i < tn_order_count(); i++)
            list_row(arguments, rows++ == 0, "summary", tn_order_name(i), tn_order_summary(i));
    } else if (strcmp(what, "pools") == 0) {
        for (uint32_t i = 0; i < tn_pool_count(); i++)
            list_row(arguments, rows++ == 0, "summary", tn_pool_name(i), tn_pool_summary(i));
    } else if (strcmp(what, "devices") == 0) {
        for (uint32_t i = 0; i < tn_device_count(); i++)
            list_row(arguments, rows++ == 0, "summary", tn_device_name(i), tn_device_summary(i));
    } else if (strcmp(what, "rewrites") == 0) {
        for (uint32_t i = 0; i < tn_rewrite_count(); i++)
            list_row(arguments, rows++ == 0, "summary", tn_rewrite_name(i), tn_rewrite_summary(i));
    } else if (strcmp(what, "hardware") == 0) {
        for (uint32_t i = 0; i < tn_hardware_count(); i++) list_hardware(arguments, i);
    } else if (strcmp(what, "operators") == 0) {
        for (uint32_t i = 0; i < tn_op_rule_count(); i++) {
            const char *domain = tn_op_rule_domain(i);
            list_row(arguments, rows++ == 0, "domain", tn_op_rule_type(i),
                     domain[0] == '\0' ? "ai.onnx" : domain);
        }
    } else {
        for (uint32_t i = 0; i < tn_import_format_count(); i++)
            list_row(arguments, rows++ == 0, "summary", tn_import_format_name(i),
                     tn_import_format_summary(i));
        for (uint32_t i = 0; i < tn_report_format_count(); i++)
            list_row(arguments, rows++ == 0, "summary", tn_report_format_name(i),
                     tn_report_format_summary(i));
    }
    if (arguments->json) printf("\n]\n");
    return 0;
}

static int list_run(int count, char **words) {
    static const char doc[] =
        "Lists the planners, the strategies for shared objects (plan --form objects), the orders "
        "of operators (plan --order), the pools (replay --pool), the devices that programs run on, "
        "the hardware that estimates compare with, what is done to graphs before they run, the "
        "operators with rules, or the formats that are "
        "read and written.\vExample:\n  tenure "
        "list "
        "planners";
    static const struct argp parser = {
        list_options,
        list_parse,
        "planners|objects|orders|pools|devices|hardware|rewrites|operators|formats",
        doc,
        NULL,
        0,
        0};
    list_arguments arguments = {0};
    argp_parse(&parser, count, words, 0, NULL, &arguments);
    const char *what = arguments.what;
    if (strcmp(what, "planners") != 0 && strcmp(what, "objects") != 0 &&
        strcmp(what, "orders") != 0 && strcmp(what, "pools") != 0 && strcmp(what, "devices") != 0 &&
        strcmp(what, "hardware") != 0 && strcmp(what, "rewrites") != 0 &&
        strcmp(what, "operators") != 0 && strcmp(what, "formats") != 0) {
        fprintf(stderr,
                "tenure list: there is no list '%s'; planners, objects, orders, pools, devices, "
                "hardware, "
                "rewrites, operators or formats\n",
                what);
        return 2;
    }
    return cli_finish(list_print(&arguments));
}

const cli_command cli_command_list = {
    .name = "list",
    .summary =
        "list planners, object strategies, orders, pools, devices, rewrites, operators or formats",
    .run = list_run,
};
