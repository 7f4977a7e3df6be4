/* list.c - `tenure list`: what this build knows. A list is a row of `lists`; what is in it comes
 * from the registry itself. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

#include "kernels/kernel.h"

enum { LIST_JSON = 400 };
#define LIST_TEXT 512 /* bytes of a detail that is put together */

#define LIST_OPTIONS(X) X(LIST_JSON, "json", NULL, "print a JSON array instead of the table")

typedef struct list_arguments {
    const char *what;
    bool json;
} list_arguments;

static const struct argp_option list_options[] = {LIST_OPTIONS(CLI_OPTION){0}};

/* --- rows that are put together --- */

/* "80 GiB, 2039 GB/s, ...": a row of the table that estimates compare with. */
static const char *list_hardware_name(uint32_t index) { return tn_hardware_at(index)->name; }
static const char *list_hardware(uint32_t index, char detail[LIST_TEXT]) {
    const tn_hardware *it = tn_hardware_at(index);
    const double rates[] = {it->fp32, it->fp16, it->bf16};
    char text[3][24];
    for (uint32_t i = 0; i < 3; i++) {
        if (rates[i] < 0)
            snprintf(text[i], sizeof text[i], "-");
        else
            snprintf(text[i], sizeof text[i], "%g", rates[i] / 1e12);
    }
    snprintf(detail, LIST_TEXT,
             "%s: %llu GiB, %g GB/s; TFLOP/s in fp32 %s, fp16 %s, bf16 %s; data sheet of %u",
             it->title, (unsigned long long)(it->memory >> 30), it->bytes_per_s / 1e9, text[0],
             text[1], text[2], it->year);
    return detail;
}

static const char *list_domain(uint32_t index, char detail[LIST_TEXT]) {
    const char *domain = tn_op_rule_domain(index);
    (void)detail;
    return domain[0] == '\0' ? "ai.onnx" : domain;
}

/* Families of kernels: the types that each computes, as many as there is room for. */
static const char *list_family_name(uint32_t index) { return tn__kernel_family_at(index)->name; }
static const char *list_family(uint32_t index, char detail[LIST_TEXT]) {
    const tn_kernel_family *family = tn__kernel_family_at(index);
    const char *last = "";
    size_t used = 0;
    detail[0] = '\0';
    for (uint32_t i = 0; i < family->kernel_count; i++) {
        const char *type = family->kernels[i].type;
        if (strcmp(type, last) == 0) continue; /* several ways to compute one type stand together */
        size_t length = strlen(type) + (used > 0);
        if (used + length + sizeof " ..." > LIST_TEXT) {
            memcpy(detail + used, " ...", sizeof " ...");
            break;
        }
        snprintf(detail + used, LIST_TEXT - used, "%s%s", used > 0 ? " " : "", type);
        used += length;
        last = type;
    }
    return detail;
}

/* Formats: those that are read, then those that are written. */
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

/* --- the lists --- */

typedef struct list {
    const char *name, *about;
    uint32_t (*count)(void);
    const char *(*row)(uint32_t index);
    const char *key; /* of the detail in JSON */
    const char *(*detail)(uint32_t index);
    const char *(*make)(uint32_t index, char detail[LIST_TEXT]); /* in place of `detail` */
} list;

static const list lists[] = {
    {"planners", "the planners", tn_planner_count, tn_planner_name, "summary", tn_planner_summary,
     NULL},
    {"objects", "the strategies for shared objects (plan --form objects)", tn_object_strategy_count,
     tn_object_strategy_name, "summary", tn_object_strategy_summary, NULL},
    {"orders", "the orders of operators (plan --order)", tn_order_count, tn_order_name, "summary",
     tn_order_summary, NULL},
    {"passes", "the passes that fit a program into a budget (fit --pass)", tn_pass_count,
     tn_pass_name, "summary", tn_pass_summary, NULL},
    {"policies", "the policies that evict (simulate --policy)", tn_evict_policy_count,
     tn_evict_policy_name, "summary", tn_evict_policy_summary, NULL},
    {"pools", "the pools (replay --pool)", tn_pool_count, tn_pool_name, "summary", tn_pool_summary,
     NULL},
    {"devices", "the devices that programs run on", tn_device_count, tn_device_name, "summary",
     tn_device_summary, NULL},
    {"hardware", "the hardware that estimates compare with", tn_hardware_count, list_hardware_name,
     "summary", NULL, list_hardware},
    {"rewrites", "what is done to graphs before they run", tn_rewrite_count, tn_rewrite_name,
     "summary", tn_rewrite_summary, NULL},
    {"kernels", "the families of kernels, in the order in which they are asked",
     tn__kernel_family_count, list_family_name, "types", NULL, list_family},
    {"operators", "the operators with rules", tn_op_rule_count, tn_op_rule_type, "domain", NULL,
     list_domain},
    {"formats", "the formats that are read and written", list_format_count, list_format_name,
     "summary", list_format_summary, NULL},
};
#define LIST_COUNT (sizeof lists / sizeof *lists)
#define LIST_WORDS 1024 /* bytes of all names or all that lists are about */

/* All lists in a row: "planners, objects, ... or formats". */
static const char *list_words(char text[LIST_WORDS], bool about, const char *between,
                              const char *last) {
    size_t used = 0;
    for (size_t i = 0; i < LIST_COUNT; i++) {
        const char *before = i == 0 ? "" : i + 1 == LIST_COUNT ? last : between;
        int wrote = snprintf(text + used, LIST_WORDS - used, "%s%s", before,
                             about ? lists[i].about : lists[i].name);
        used += (size_t)wrote < LIST_WORDS - used ? (size_t)wrote : 0;
    }
    return text;
}

static const list *list_find(const char *name) {
    for (size_t i = 0; i < LIST_COUNT; i++)
        if (strcmp(lists[i].name, name) == 0) return &lists[i];
    return NULL;
}

static error_t list_parse(int key, char *value, struct argp_state *state) {
    list_arguments *arguments = state->input;
    char words[LIST_WORDS];
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
            argp_error(state, "which list? %s", list_words(words, false, ", ", " or "));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The words are ours: names and details without quotes or backslashes. */
static int list_print(const list *what, bool json) {
    char made[LIST_TEXT];
    if (json) printf("[");
    for (uint32_t i = 0; i < what->count(); i++) {
        const char *detail = what->make != NULL ? what->make(i, made) : what->detail(i);
        if (json)
            printf("%s\n {\"name\": \"%s\", \"%s\": \"%s\"}", i == 0 ? "" : ",", what->row(i),
                   what->key, detail);
        else
            printf("%-28s %s\n", what->row(i), detail);
    }
    if (json) printf("\n]\n");
    return 0;
}

static int list_run(int count, char **words) {
    char names[LIST_WORDS], about[LIST_WORDS], doc[LIST_WORDS + 64];
    list_words(names, false, "|", "|");
    snprintf(doc, sizeof doc, "Lists %s.\vExample:\n  tenure list planners",
             list_words(about, true, ", ", ", or "));
    struct argp parser = {list_options, list_parse, names, doc, NULL, 0, 0};
    list_arguments arguments = {0};
    argp_parse(&parser, count, words, 0, NULL, &arguments);
    const list *what = list_find(arguments.what);
    if (what == NULL) {
        fprintf(stderr, "tenure list: there is no list '%s'; %s\n", arguments.what,
                list_words(names, false, ", ", " or "));
        return 2;
    }
    return cli_finish(list_print(what, arguments.json));
}

const cli_command cli_command_list = {
    .name = "list",
    .summary =
        "list planners, object strategies, orders, passes, pools, devices, rewrites, kernels, "
        "operators or formats",
    .run = list_run,
};
