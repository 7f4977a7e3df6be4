/* header.c - writes the plan as a C header for firmware: sizes, offsets, memory banks, assertions.
 *
 * The header is valid in C99 to C17 and in C++ from C++11 on, and includes no other file of Tenure.
 * It declares one array per bank, and defines the arrays if the user defines a macro. Each array is
 * in a section of its own, so that a linker script decides where it is placed. For runtimes of the
 * user there is a macro with one line per tensor. Static assertions check the plan again in the
 * compiler: every tensor is inside its bank, and every bank is within its capacity.
 *
 * Names come from files that are not trusted. Identifiers contain only letters, digits and
 * underscores, strings are escaped, and comments contain no names.
 */
#include "report/format.h"

#include <stdio.h>

/* largest number of characters of an identifier that come from a file */
#define HEADER_NAME_MAX 60u

static bool header_is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
static char header_case(char c, bool upper) {
    if (upper && c >= 'a' && c <= 'z') return (char)(c - 'a' + 'A');
    if (!upper && c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
    return c;
}

/* Copies the letters and digits of `name`; each run of other characters becomes one '_'. The result
 * is "" if there are no letters or digits. */
static void header_identifier(const char *name, bool upper, char to[HEADER_NAME_MAX + 1]) {
    size_t size = 0;
    for (; *name && size < HEADER_NAME_MAX; name++) {
        if (header_is_word(*name))
            to[size++] = header_case(*name, upper);
        else if (size > 0 && to[size - 1] != '_')
            to[size++] = '_';
    }
    while (size > 0 && to[size - 1] == '_') size--;
    to[size] = '\0';
}

/* Makes a C identifier of the name of the input file, without folders and suffix. */
static void header_prefix(const char *input, bool upper, char to[HEADER_NAME_MAX + 1]) {
    char stem[4 * HEADER_NAME_MAX];
    const char *base = strrchr(input, '/');
    base = base ? base + 1 : input;
    const char *dot = strrchr(base, '.');
    size_t size = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    if (size >= sizeof stem) size = sizeof stem - 1;
    memcpy(stem, base, size);
    stem[size] = '\0';
    header_identifier(stem, upper, to);
    if (to[0] >= '0' && to[0] <= '9') { /* a C identifier must not begin with a digit */
        memmove(to + 1, to, HEADER_NAME_MAX - 1);
        to[0] = upper ? 'M' : 'm';
        to[HEADER_NAME_MAX] = '\0';
    }
    if (to[0] == '\0') memcpy(to, upper ? "MODEL" : "model", 6);
}

static void header_string(tn__text *text, const char *string) {
    tn__text_put(text, "\"");
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        /* '?' is escaped because of trigraphs */
        if (c < ' ' || c > '~' || c == '"' || c == '\\' || c == '?')
            tn__text_printf(text, "\\%03o", c);
        else
            tn__text_add(text, string, 1);
    }
    tn__text_put(text, "\"");
}

static void header_number(tn__text *text, uint64_t value) {
    tn__words_integer(text, value);
    tn__text_put(text, value > UINT32_MAX ? "ull" : "u");
}

typedef struct header_writer {
    const tn_report *report;
    tn__scene *scene;
    tn__text *text;
    char upper[HEADER_NAME_MAX + 1], lower[HEADER_NAME_MAX + 1];
    tn__names names; /* identifiers of tensors that are in use */
    tn_error *error;
} header_writer;

/* --- memories --------------------------------------------------------------------------------- */

/* Makes an identifier of a bank's name; a bank without a name is "ARENA". The bank's number is
 * appended if the identifier is empty or taken by an earlier bank. */
static void header_bank(const header_writer *writer, tn_bank_id bank, bool upper,
                        char to[HEADER_NAME_MAX + 12]) {
    const char *name = tn_problem_bank(writer->report->problem, bank)->name;
    char word[HEADER_NAME_MAX + 1];
    header_identifier(name ? name : "arena", upper, word);
    bool taken = word[0] == '\0';
    for (tn_bank_id other = 0; other < bank && !taken; other++) {
        char earlier[HEADER_NAME_MAX + 1];
        const char *text = tn_problem_bank(writer->report->problem, other)->name;
        header_identifier(text ? text : "arena", upper, earlier);
        taken = strcmp(earlier, word) == 0;
    }
    if (taken)
        snprintf(to, HEADER_NAME_MAX + 12, "%s%u", upper ? "BANK" : "bank", bank);
    else
        snprintf(to, HEADER_NAME_MAX + 12, "%s", word);
}

static uint64_t header_alignment(const header_writer *writer, tn_bank_id bank) {
    const tn_problem *problem = writer->report->problem;
    uint64_t most = 1;
    for (tn_body_id id = 0; id < tn_problem_count(problem); id++)
        if (writer->report->layout->bank[id] == bank &&
            tn_problem_body(problem, id)->alignment > most)
            most = tn_problem_body(problem, id)->alignment;
    return most;
}

/* Returns the size of the array of a bank. For a runtime that plans its whole arena itself, it is
 * the size of that arena. */
static uint64_t header_size(const header_writer *writer, tn_bank_id bank) {
    uint64_t peak = writer->report->layout->bank_peak[bank];
    if (bank == 0 && writer->report->layout->bank_count == 1 && writer->report->arena_total > peak)
        return writer->report->arena_total;
    return peak;
}

static void header_define_bank(const header_writer *writer, tn_bank_id bank) {
    tn__text *text = writer->text;
    const tn_bank *facts = tn_problem_bank(writer->report->problem, bank);
    char upper[HEADER_NAME_MAX + 12], lower[HEADER_NAME_MAX + 12];
    header_bank(writer, bank, true, upper);
    header_bank(writer, bank, false, lower);
    tn__text_printf(text, "\n#define %s_%s_SIZE ", writer->upper, upper);
    header_number(text, header_size(writer, bank));
    tn__text_printf(text, " /* bytes */\n#define %s_%s_PLANNED ", writer->upper, upper);
    header_number(text, writer->report->layout->bank_peak[bank]);
    tn__text_printf(text, " /* of these, for the tensors below */\n#define %s_%s_ALIGNMENT ",
                    writer->upper, upper);
    header_number(text, header_alignment(writer, bank));
    if (facts->capacity) {
        tn__text_printf(text, "\n#define %s_%s_CAPACITY ", writer->upper, upper);
        header_number(text, facts->capacity);
    }
    tn__text_printf(text,
                    "\n#ifndef %s_%s_SECTION\n#define %s_%s_SECTION \".bss.%s\" /* for the linker "
                    "script */\n#endif\n",
                    writer->upper, upper, writer->upper, upper, lower);
}

/* Writes the declaration of a bank's array, or with `define` true its definition, which is compiled
 * only in the file that sets the macro. */
static void header_array(const header_writer *writer, tn_bank_id bank, bool define) {
    char upper[HEADER_NAME_MAX + 12], lower[HEADER_NAME_MAX + 12];
    header_bank(writer, bank, true, upper);
    header_bank(writer, bank, false, lower);
    if (header_size(writer, bank) == 0) return; /* C has no arrays of size 0 */
    tn__text_printf(writer->text, "%suint8_t %s_%s[%s_%s_SIZE]", define ? "" : "extern ",
                    writer->lower, lower, writer->upper, upper);
    if (define)
        tn__text_printf(writer->text,
                        "\n    __attribute__((section(%s_%s_SECTION), aligned(%s_%s_ALIGNMENT)))",
                        writer->upper, upper, writer->upper, upper);
    tn__text_put(writer->text, ";\n");
}

static void header_assert_bank(const header_writer *writer, tn_bank_id bank) {
    tn__text *text = writer->text;
    char name[HEADER_NAME_MAX + 12];
    header_bank(writer, bank, true, name);
    const char *u = writer->upper;
    tn__text_printf(
        text,
        "%s_ASSERT((%s_%s_ALIGNMENT & (%s_%s_ALIGNMENT - 1u)) == 0u, \"alignment\");\n"
        "%s_ASSERT(%s_%s_PLANNED <= %s_%s_SIZE, \"the plan is larger than its memory\");\n"
        "#ifdef %s_%s_CAPACITY\n"
        "%s_ASSERT(%s_%s_SIZE <= %s_%s_CAPACITY, \"the memory is too small\");\n#endif\n",
        u, u, name, u, name, u, u, name, u, name, u, name, u, u, name, u, name);
}

/* --- tensors ---------------------------------------------------------------------------------- */

/* Makes a unique identifier of a tensor's name. The tensor's number is appended if the identifier
 * is taken. */
static bool header_tensor_name(header_writer *writer, uint32_t item,
                               char to[HEADER_NAME_MAX + 16]) {
    char word[HEADER_NAME_MAX + 1];
    header_identifier(writer->scene->items[item].name, true, word);
    if (word[0] != '\0')
        snprintf(to, HEADER_NAME_MAX + 16, "%s", word);
    else
        snprintf(to, HEADER_NAME_MAX + 16, "T%u", item);
    for (uint32_t turn = 0;; turn++) {
        size_t length = strlen(to);
        uint32_t existing;
        char *kept = tn__arena_string(&writer->scene->arena, to, length);
        if (!kept || !tn__names_add(&writer->names, kept, length, item, &existing)) return false;
        if (existing == TN__NAMES_NONE) return true;
        snprintf(to, HEADER_NAME_MAX + 16, "%.50s_%u_%u", word, item, turn);
    }
}

static tn_status header_tensors(header_writer *writer, const char **names) {
    const tn_layout *layout = writer->report->layout;
    tn__text *text = writer->text;
    for (uint32_t i = 0; i < writer->scene->item_count; i++) {
        const tn__report_item *item = &writer->scene->items[i];
        char name[HEADER_NAME_MAX + 16];
        if (!header_tensor_name(writer, i, name)) return tn__no_memory(writer->error, "the header");
        names[i] = tn__arena_string(&writer->scene->arena, name, strlen(name));
        if (!names[i]) return tn__no_memory(writer->error, "the header");
        tn__text_printf(text, "#define %s_OFFSET_%s ", writer->upper, name);
        header_number(text, tn__add_sat(layout->offset[item->body], item->lo));
        tn__text_printf(text, "\n#define %s_BYTES_%s ", writer->upper, name);
        header_number(text, item->bytes);
        tn__text_put(text, "\n");
    }
    return TN_OK;
}

static void header_table(const header_writer *writer, const char *const *names) {
    const tn_layout *layout = writer->report->layout;
    tn__text *text = writer->text;
    tn__text_printf(
        text,
        "\n/* X(name, memory, offset, bytes, first, last): live in steps [first, last). */\n"
        "#define %s_TENSORS(X)",
        writer->upper);
    for (uint32_t i = 0; i < writer->scene->item_count; i++) {
        const tn__report_item *item = &writer->scene->items[i];
        tn__text_put(text, " \\\n    X(");
        header_string(text, item->name);
        tn__text_printf(text, ", %u, %s_OFFSET_%s, %s_BYTES_%s, ", layout->bank[item->body],
                        writer->upper, names[i], writer->upper, names[i]);
        tn__words_signed(text, item->first);
        tn__text_put(text, ", ");
        tn__words_signed(text, item->last);
        tn__text_put(text, ")");
    }
    tn__text_put(text, "\n");
}

static void header_assert_tensors(const header_writer *writer, const char *const *names) {
    const tn_layout *layout = writer->report->layout;
    for (uint32_t i = 0; i < writer->scene->item_count; i++) {
        const tn__report_item *item = &writer->scene->items[i];
        char bank[HEADER_NAME_MAX + 12];
        header_bank(writer, layout->bank[item->body], true, bank);
        tn__text_printf(
            writer->text, "%s_ASSERT(%s_OFFSET_%s + %s_BYTES_%s <= %s_%s_PLANNED, \"outside\");\n",
            writer->upper, writer->upper, names[i], writer->upper, names[i], writer->upper, bank);
    }
}

/* --- the header file as a whole --------------------------------------------------------------- */

static void header_open(const header_writer *writer) {
    const char *u = writer->upper;
    tn__text_printf(
        writer->text,
        "/* %s: where its tensors live. Written by Tenure from a verified plan (%s); do not edit.\n"
        " *\n"
        " * Include it anywhere; define %s_DEFINE in one file before, to get the memory itself.\n"
        " */\n"
        "#ifndef %s_PLAN_H\n#define %s_PLAN_H\n\n#include <stdint.h>\n\n"
        "#if defined(__cplusplus)\n#define %s_ASSERT(condition, text) static_assert(condition, "
        "text)\n"
        "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n"
        "#define %s_ASSERT(condition, text) _Static_assert(condition, text)\n"
        "#else\n"
        "#define %s_ASSERT(condition, text) "
        "extern char %s_assertion[(condition) ? 1 : -1]\n#endif\n",
        writer->lower, tn__words_verdict(writer->report), u, u, u, u, u, u, writer->lower);
}

static tn_status header_write(header_writer *writer) {
    tn__text *text = writer->text;
    uint32_t banks = writer->report->layout->bank_count;
    const char **names = tn__arena_array(&writer->scene->arena,
                                         (size_t)writer->scene->item_count + 1, sizeof *names);
    if (!names) return tn__no_memory(writer->error, "the header");
    header_open(writer);
    for (tn_bank_id bank = 0; bank < banks; bank++) header_define_bank(writer, bank);
    tn__text_put(text, "\n/* Bytes from the start of the memory. */\n");
    TN_TRY(header_tensors(writer, names));
    header_table(writer, names);
    tn__text_put(text, "\n");
    for (tn_bank_id bank = 0; bank < banks; bank++) header_assert_bank(writer, bank);
    header_assert_tensors(writer, names);
    tn__text_put(text, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for (tn_bank_id bank = 0; bank < banks; bank++) header_array(writer, bank, false);
    tn__text_printf(text, "#ifdef %s_DEFINE\n", writer->upper);
    for (tn_bank_id bank = 0; bank < banks; bank++) header_array(writer, bank, true);
    tn__text_put(text, "#endif\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
    return TN_OK;
}

static tn_status header_render(const tn_report *report, tn__text *text, tn_error *error) {
    tn__scene scene;
    header_writer writer = {.report = report, .scene = &scene, .text = text, .error = error};
    tn_status status = tn__scene_make(&scene, report, error);
    tn__names_init(&writer.names, report->context);
    header_prefix(report->input, true, writer.upper);
    header_prefix(report->input, false, writer.lower);
    if (status == TN_OK) status = header_write(&writer);
    tn__names_release(&writer.names);
    tn__scene_release(&scene);
    return status;
}

const tn_report_format tn__report_format_header = {
    .name = "header",
    .suffix = ".h",
    .summary = "a C header for firmware: sizes, offsets, sections, assertions",
    .render = header_render,
};
