/* report.c - renders and writes reports. It finds the format, checks the report, renders it into
 * one text, and writes that text either completely or not at all.
 *
 * A rendered text is returned to the caller without a context. The allocator that must free it is
 * therefore stored in front of the text.
 */
#include <stdio.h>

#include "report/format.h"

#define TN_FORMAT(name) extern const tn_report_format tn__report_format_##name;
#include "report/formats.def"
#undef TN_FORMAT

static const tn_report_format *const report_formats[] = {
#define TN_FORMAT(name) &tn__report_format_##name,
#include "report/formats.def"
#undef TN_FORMAT
};
#define REPORT_FORMATS (sizeof report_formats / sizeof *report_formats)

typedef struct report_owner {
    tn_allocator allocator;
    size_t room;
} report_owner;
#define REPORT_OWNER_SIZE ((sizeof(report_owner) + 15) / 16 * 16)

uint32_t tn_report_format_count(void) { return REPORT_FORMATS; }

const char *tn_report_format_name(uint32_t index) {
    return index < REPORT_FORMATS ? report_formats[index]->name : "";
}
const char *tn_report_format_suffix(uint32_t index) {
    return index < REPORT_FORMATS ? report_formats[index]->suffix : "";
}
const char *tn_report_format_summary(uint32_t index) {
    return index < REPORT_FORMATS ? report_formats[index]->summary : "";
}
bool tn_report_format_of_run(uint32_t index) {
    return index < REPORT_FORMATS && report_formats[index]->of_run;
}

static tn_status report_check_run(const tn_report_format *format, const tn_report *report,
                                  tn_error *error) {
    if (report->trace == NULL || report->occupancy == NULL)
        TN_FAIL(error, TN_E_INVALID, "%s describes a run, but this report has no trace of one",
                format->name);
    return TN_OK;
}

static tn_status report_check_plan(const tn_report *report, tn_error *error) {
    if (report->problem == NULL || report->layout == NULL)
        TN_FAIL(error, TN_E_INVALID, "a report needs a problem and a layout");
    uint32_t bodies = tn_problem_count(report->problem);
    if (report->layout->body_count != bodies)
        TN_FAIL(error, TN_E_INVALID, "the layout is for %u buffers, the problem has %u",
                report->layout->body_count, bodies);
    if (report->layout->bank_count != tn_problem_bank_count(report->problem))
        TN_FAIL(error, TN_E_INVALID, "the layout is for %u banks, the problem has %u",
                report->layout->bank_count, tn_problem_bank_count(report->problem));
    if (report->occupancy && tn_occupancy_problem(report->occupancy) != report->problem)
        TN_FAIL(error, TN_E_INVALID, "the problem is not the one of the occupancy");
    const tn_report_fit *fit = report->fit;
    bool program = fit && fit->result != NULL && report->occupancy != NULL &&
                   (fit->work || tn_occupancy_program(report->occupancy) == fit->result->program);
    if (fit && !program) TN_FAIL(error, TN_E_INVALID, "the fit is of another program");
    return TN_OK;
}

/* Copies a report that may be of an older struct size, fills in defaults, and checks it. */
static tn_status report_one(const tn_report_format *format, const tn_report *given,
                            tn_report *report, tn_error *error) {
    if (given == NULL) TN_FAIL(error, TN_E_INVALID, "no report is given");
    *report = (tn_report){0};
    tn__options(report, sizeof *report, given);
    if (report->input == NULL) report->input = "";
    return format->of_run ? report_check_run(format, report, error)
                          : report_check_plan(report, error);
}

/* Completes a report, and the earlier report that it is compared with, if any. reports[1] is the
 * earlier one. */
static tn_status report_complete(const tn_report_format *format, const tn_report *given,
                                 tn_report reports[2], tn_error *error) {
    TN_TRY(report_one(format, given, &reports[0], error));
    if (format->of_run || reports[0].before == NULL) return TN_OK;
    TN_TRY(report_one(format, reports[0].before, &reports[1], error));
    reports[0].before = &reports[1];
    reports[1].before = NULL;
    return TN_OK;
}

/* Renders a report into `text`, which begins with `lead` zero bytes. On success the caller releases
 * the text. */
static tn_status report_render(const tn_report_format *format, const tn_report *given, size_t lead,
                               tn__text *text, tn_error *error) {
    static const char zeros[REPORT_OWNER_SIZE];
    tn_report report[2];
    TN_TRY(report_complete(format, given, report, error));
    if (format->render == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "%s is written to a file, not rendered", format->name);
    tn__text_init(text, report->context);
    tn__text_add(text, zeros, lead);
    tn_status status = format->render(report, text, error);
    if (status == TN_OK && text->failed) status = tn__no_memory(error, "a report");
    if (status != TN_OK) tn__text_release(text);
    return status;
}

/* Writes the names or the suffixes of all formats to `list`, for messages. */
static const char *report_known(char *list, size_t size, bool suffixes) {
    size_t used = 0;
    list[0] = '\0';
    for (size_t i = 0; i < REPORT_FORMATS; i++) {
        const char *word = suffixes ? report_formats[i]->suffix : report_formats[i]->name;
        if (*word == '\0' || used >= size) continue;
        int wrote = snprintf(list + used, size - used, "%s%s", used ? " " : "", word);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    return list;
}

tn_status tn_report_render(const tn_report *report, const char *format, char **text, size_t *size,
                           tn_error *error) {
    const tn_report_format *found = NULL;
    for (size_t i = 0; i < REPORT_FORMATS && format; i++) {
        if (strcmp(report_formats[i]->name, format) == 0) found = report_formats[i];
    }
    char known[160];
    if (found == NULL)
        TN_FAIL(error, TN_E_UNKNOWN, "no format '%s'; there are: %s", format ? format : "",
                report_known(known, sizeof known, false));
    tn__text rendered;
    TN_TRY(report_render(found, report, REPORT_OWNER_SIZE, &rendered, error));
    report_owner owner = {tn__context(rendered.context).allocator, rendered.room};
    memcpy(rendered.data, &owner, sizeof owner);
    *text = rendered.data + REPORT_OWNER_SIZE;
    if (size) *size = rendered.size - REPORT_OWNER_SIZE;
    return TN_OK;
}

void tn_report_release(char *text) {
    if (text == NULL) return;
    report_owner owner;
    memcpy(&owner, text - REPORT_OWNER_SIZE, sizeof owner);
    tn_context context = TN_CONTEXT_INIT;
    context.allocator = owner.allocator;
    tn__free(&context, text - REPORT_OWNER_SIZE, owner.room);
}

static tn_status report_write_itself(const tn_report_format *format, const tn_report *given,
                                     const char *path, tn_error *error) {
    tn_report report[2];
    TN_TRY(report_complete(format, given, report, error));
    tn_status status = format->write(report, path, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%.190s", path);
}

tn_status tn_report_write(const tn_report *report, const char *path, tn_error *error) {
    if (path == NULL) TN_FAIL(error, TN_E_INVALID, "no path is given");
    const tn_report_format *found = NULL;
    for (size_t i = 0; i < REPORT_FORMATS; i++) {
        const char *suffix = report_formats[i]->suffix;
        bool longer = found == NULL || strlen(suffix) > strlen(found->suffix);
        if (*suffix && longer && tn__has_suffix(path, suffix)) found = report_formats[i];
    }
    char known[160];
    if (found == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "the end of '%s' names no format; use one of %s", path,
                report_known(known, sizeof known, true));
    if (found->write != NULL) return report_write_itself(found, report, path, error);
    tn__text text;
    TN_TRY(report_render(found, report, 0, &text, error));
    tn_status status = tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}
