/* status.c - the name, the description and the exit code of each status, from one table. Also fills
 * in errors. */
#include "base/base.h"

#include <errno.h>
#include <stdio.h>

typedef struct status_row {
    const char *name;
    const char *sentence;
    int exit_code;
} status_row;

static const status_row status_rows[] = {
#define TN_X(name, exit_status, sentence) {#name, sentence, exit_status},
    TN_STATUS_TABLE(TN_X)
#undef TN_X
};

static const status_row *status_find(tn_status status) {
    size_t index = (size_t)status;
    bool known = index < sizeof status_rows / sizeof *status_rows;
    return &status_rows[known ? index : (size_t)TN_E_INTERNAL];
}

const char *tn_status_name(tn_status status) { return status_find(status)->name; }
const char *tn_status_message(tn_status status) { return status_find(status)->sentence; }
int tn_status_exit_code(tn_status status) { return status_find(status)->exit_code; }
const char *tn_version(void) { return TENURE_VERSION; }

tn_status tn__fail(tn_error *error, tn_status status, const char *format, ...) {
    if (error == NULL) return status;
    *error = (tn_error){.status = status};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

tn_status tn__fail_as(tn_error *error, tn_status status, const tn_error *said) {
    if (error != NULL && said->status != TN_OK) *error = *said;
    return status;
}

tn_status tn__where(tn_error *error, tn_status status, const char *format, ...) {
    if (error == NULL || status == TN_OK || error->where[0] != '\0') return status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->where, sizeof error->where, format, arguments);
    va_end(arguments);
    return status;
}

tn_status tn__where_in(tn_error *error, tn_status status, const char *file) {
    char place[sizeof error->where];
    if (error == NULL || status == TN_OK) return status;
    memcpy(place, error->where, sizeof place);
    if (strlen(file) > 100) file = tn__base_name(file);
    snprintf(error->where, sizeof error->where, "%.100s%s%.90s", file, place[0] ? ": " : "", place);
    return status;
}

tn_status tn__fail_system(tn_error *error, int reason, const char *what) {
    tn_status status = reason == ENOMEM ? TN_E_NO_MEMORY : TN_E_IO;
    return tn__fail(error, status, "cannot %s: %s", what, strerror(reason));
}

tn_status tn__no_memory(tn_error *error, const char *what) {
    TN_FAIL(error, TN_E_NO_MEMORY, "no memory for %s", what);
}
