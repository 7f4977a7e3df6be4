/* words.c - formats numbers and names for people and machines.
 *
 * Names come from files that are not trusted. Text for a terminal therefore has no control
 * characters and no marks that change the direction of text, and its width is known. A code point
 * counts as two columns if it is a wide East Asian form, and as none if it is a combining mark.
 * This is right for common names. Other names make the columns of a table slightly misaligned.
 */
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "report/format.h"

/* --- numbers --- */

const char *tn__words_iec(uint64_t bytes, char text[TN__WORDS_MAX]) {
    char both[TN_SIZE_TEXT_MAX];
    tn_size_format(bytes, both); /* a text such as "9.2 MiB (9,633,792 bytes)" */
    both[strcspn(both, "(")] = '\0';
    size_t length = strlen(both);
    while (length > 0 && both[length - 1] == ' ') both[--length] = '\0';
    snprintf(text, TN__WORDS_MAX, "%.*s", TN__WORDS_MAX - 1, both);
    return text;
}

void tn__words_integer(tn__text *text, uint64_t value) {
    char digits[20], *at = digits + sizeof digits;
    do *--at = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    tn__text_add(text, at, (size_t)(digits + sizeof digits - at));
}

void tn__words_signed(tn__text *text, int64_t value) {
    if (value < 0) tn__text_add(text, "-", 1);
    tn__words_integer(text, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void tn__words_number(tn__text *text, double value) {
    if (!isfinite(value)) {
        tn__text_put(text, "null");
        return;
    }
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        double again = strtod(digits, NULL);
        if (memcmp(&again, &value, sizeof value) == 0) break;
    }
    const char *point = localeconv()->decimal_point;
    const char *found = *point && strcmp(point, ".") != 0 ? strstr(digits, point) : NULL;
    if (found == NULL) {
        tn__text_put(text, digits);
        return;
    }
    tn__text_add(text, digits, (size_t)(found - digits));
    tn__text_put(text, ".");
    tn__text_put(text, found + strlen(point));
}

double tn__words_gap(uint64_t peak, uint64_t lower_bound) {
    if (peak == lower_bound) return 0;
    if (lower_bound == 0) return INFINITY;
    return (double)peak / (double)lower_bound - 1;
}

void tn__words_shape(tn__text *text, const tn_tensor *tensor) {
    if (tensor == NULL) return;
    if (tensor->flags & TN_TENSOR_SEQUENCE)
        tn__text_printf(text, "%llu times ", (unsigned long long)tensor->repeat);
    if (tensor->rank == TN_RANK_UNKNOWN) tn__text_put(text, "?");
    if (tensor->rank == 0) tn__text_put(text, "scalar");
    for (uint32_t i = 0; i < tensor->rank && tensor->rank != TN_RANK_UNKNOWN; i++) {
        if (i > 0) tn__text_put(text, "x");
        if (tensor->shape[i] == TN_DIM_UNKNOWN)
            tn__text_put(text, "?");
        else
            tn__words_signed(text, tensor->shape[i]);
    }
}

/* The colours of Okabe and Ito. src/report/page/plan.css has the same colours. */
const char *tn__words_colour(uint32_t kind) {
    static const char *const colours[TN__KIND_COUNT] = {
        [TN_KIND_ACTIVATION] = "#56b4e9", [TN_KIND_INPUT] = "#009e73",
        [TN_KIND_OUTPUT] = "#e69f00",     [TN_KIND_PARAMETER] = "#8a93a0",
        [TN_KIND_CONSTANT] = "#b4bac3",   [TN_KIND_WORKSPACE] = "#f0e442",
        [TN_KIND_GRADIENT] = "#d55e00",   [TN_KIND_OPTIMIZER_STATE] = "#cc79a7",
        [TN__KIND_BUFFER] = "#56b4e9",
    };
    const char *colour = kind < TN__KIND_COUNT ? colours[kind] : NULL;
    return colour ? colour : "#8a93a0"; /* a default colour, for kinds that may be added later */
}

const char *tn__words_role_colour(tn__role role) {
    static const char *const colours[TN__ROLE_COUNT] = {
        [TN__ROLE_PARAMETER] = "#8a93a0",       [TN__ROLE_CONSTANT] = "#b4bac3",
        [TN__ROLE_OPTIMIZER_STATE] = "#cc79a7", [TN__ROLE_GRADIENT] = "#d55e00",
        [TN__ROLE_SAVED] = "#3a7fc1",           [TN__ROLE_PASSING] = "#8fd0f5",
        [TN__ROLE_INPUT] = "#009e73",           [TN__ROLE_OUTPUT] = "#e69f00",
        [TN__ROLE_WORKSPACE] = "#f0e442",
    };
    return colours[role];
}

const char *tn__words_fate_colour(tn_fate fate) {
    static const char *const colours[TN_FATE_COUNT] = {[TN_FATE_KEPT] = "#b4bac3",
                                                       [TN_FATE_RECOMPUTED] = "#e69f00",
                                                       [TN_FATE_SWAPPED] = "#56b4e9",
                                                       [TN_FATE_ENCODED] = "#cc79a7"};
    return fate < TN_FATE_COUNT ? colours[fate] : colours[TN_FATE_KEPT];
}

void tn__words_time(tn__text *text, const tn_report_fit *fit, uint64_t time) {
    if (fit->abstract)
        tn__words_integer(text, time);
    else
        tn__text_printf(text, "%.4g s", (double)time / (double)TN_COSTS_PER_S);
}

/* --- names that fit into columns of a terminal --- */

typedef struct words_glyph {
    uint32_t code;
    uint8_t bytes;   /* length of the character in bytes; 0 at the end of the string */
    uint8_t columns; /* number of columns of the character on a terminal */
} words_glyph;

typedef struct words_range {
    uint32_t first, last;
} words_range;

static bool words_in(uint32_t code, const words_range *ranges, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    }
    return false;
}

static uint8_t words_columns(uint32_t code) {
    static const words_range combining[] = {
        {0x300, 0x36f}, {0x1ab0, 0x1aff}, {0x20d0, 0x20ff}, {0xfe20, 0xfe2f}};
    static const words_range wide[] = {{0x1100, 0x115f},  {0x2e80, 0xa4cf},   {0xac00, 0xd7a3},
                                       {0xf900, 0xfaff},  {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                                       {0xffe0, 0xffe6},  {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff},
                                       {0x20000, 0x3fffd}};
    if (words_in(code, combining, sizeof combining / sizeof *combining)) return 0;
    return words_in(code, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

/* Reads the next code point. A byte that is not UTF-8 and a code point that is not printable become
 * '?'. */
static words_glyph words_next(const char *string) {
    uint32_t code;
    if (string[0] == 0) return (words_glyph){0, 0, 0};
    uint8_t bytes = (uint8_t)tn__text_code(string, &code);
    if (bytes == 0) return (words_glyph){'?', 1, 1};
    if (tn__text_unprintable(code)) return (words_glyph){'?', bytes, 1};
    return (words_glyph){code, bytes, words_columns(code)};
}

static size_t words_width(const char *string) {
    size_t width = 0;
    for (words_glyph glyph; (glyph = words_next(string)).bytes > 0; string += glyph.bytes)
        width += glyph.columns;
    return width;
}

static void words_spaces(tn__text *text, size_t count) {
    while (count-- > 0) tn__text_add(text, " ", 1);
}

/* Adds the characters of `string` that lie completely in the columns [first, last). Returns the
 * number of columns added. */
static size_t words_slice(tn__text *text, const char *string, size_t first, size_t last) {
    size_t column = 0, added = 0;
    for (words_glyph glyph; (glyph = words_next(string)).bytes > 0; string += glyph.bytes) {
        if (column >= first && column + glyph.columns <= last) {
            bool replaced = glyph.code == '?';
            tn__text_add(text, replaced ? "?" : string, replaced ? 1 : glyph.bytes);
            added += glyph.columns;
        }
        column += glyph.columns;
    }
    return added;
}

void tn__words_cell(tn__text *text, const char *string, size_t width, bool right_aligned) {
    size_t columns = words_width(string);
    if (columns <= width) {
        if (right_aligned) words_spaces(text, width - columns);
        words_slice(text, string, 0, SIZE_MAX);
        if (!right_aligned) words_spaces(text, width - columns);
        return;
    }
    /* two thirds of the columns are for the end, because the end of a path is more useful than its
     * start */
    size_t dots = width < 5 ? 0 : 2, head = (width - dots) / 3, tail = width - dots - head;
    size_t added = words_slice(text, string, 0, head);
    tn__text_add(text, "..", dots);
    added += dots + words_slice(text, string, columns - tail, SIZE_MAX);
    /* if a wide character at the cut does not fit, one column is filled with a blank */
    words_spaces(text, width - added);
}

void tn__words_kernels(tn__text *text, const tn_report_kernels *kernels) {
    if (kernels == NULL) {
        tn__text_put(text, "null");
        return;
    }
    tn__text_put(text, "{\"library\":");
    tn__text_json(text, kernels->library);
    tn__text_put(text, ",\"isa\":");
    tn__text_json(text, kernels->isa);
    tn__text_printf(text, ",\"threads\":%u,\"rewritten\":%s,\"fastest\":%s}", kernels->threads,
                    kernels->rewritten ? "true" : "false", kernels->fastest ? "true" : "false");
}

const char *tn__words_verdict(const tn_report *report) {
    if (report->layout->verdict == TN_VERDICT_OPTIMAL && report->occupancy != NULL)
        return "optimal for this order";
    return tn_verdict_name(report->layout->verdict);
}

void tn__words_whom(tn__text *text, const tn_report_kernels *kernels) {
    if (kernels == NULL) {
        tn__text_put(text, "the graph alone");
        return;
    }
    bool isa = kernels->isa[0] != '\0';
    tn__text_printf(text, "this machine's kernels: %s%s%s%s, %u thread%s%s%s",
                    strcmp(kernels->library, "onednn") == 0 ? "oneDNN" : "Tenure's own kernels",
                    isa ? " (" : "", kernels->isa, isa ? ")" : "", kernels->threads,
                    kernels->threads == 1 ? "" : "s", kernels->rewritten ? "" : ", not rewritten",
                    kernels->fastest ? ", fastest kernels" : "");
}
