/* trace.c - recorded lookups: read from text, or drawn by popularity.
 *
 * Ranks are drawn by rejection-inversion: the area below the density is inverted in closed form,
 * and the small difference to the histogram is rejected. So it needs no table, and O(1) per draw
 * for any number of rows. Ranks are then spread over the rows by a multiplication modulo their
 * number, so that popular rows are not neighbours.
 * Source: Hormann, Derflinger: Rejection-inversion to generate variates from monotone discrete
 * distributions, 1996.
 */
#include "run/embedding/trace.h"

#include <inttypes.h>
#include <math.h>

const uint32_t *tn_embedding_trace_rows(const tn_embedding_trace *trace, uint64_t *count) {
    *count = trace->count;
    return trace->rows;
}

void tn_embedding_trace_destroy(tn_embedding_trace *trace) {
    if (trace == NULL) return;
    tn_context context = trace->context;
    tn__free(&context, trace->rows, trace->room * sizeof *trace->rows);
    tn__free(&context, trace, sizeof *trace);
}

static tn_embedding_trace *trace_make(const tn_context *given) {
    tn_context context = tn__context(given);
    tn_embedding_trace *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made != NULL) made->context = context;
    return made;
}

static tn_status trace_finish(tn_embedding_trace *made, tn_status status,
                              tn_embedding_trace **trace) {
    if (status == TN_OK)
        *trace = made;
    else
        tn_embedding_trace_destroy(made);
    return status;
}

/* --- text --- */

static tn_status trace_line(tn_embedding_trace *trace, const char *line, size_t size,
                            tn_error *error) {
    int64_t row = -1;
    while (size > 0 && (line[size - 1] == '\r' || line[size - 1] == ' ')) size--;
    if (size == 0 || line[0] == '#') return TN_OK;
    if (!tn__take_integer(&line, &size, &row) || size > 0 || row < 0)
        TN_FAIL(error, TN_E_INVALID, "a line is a row number from 0 up, and this is none");
    if (row >= TN_EMBEDDING_ROWS_MAX)
        TN_FAIL(error, TN_E_INVALID, "row %" PRId64 ": a table has at most 2^32 - 2 rows", row);
    if (!tn__reserve(&trace->context, &trace->rows, &trace->room, trace->count + 1,
                     sizeof *trace->rows))
        return tn__no_memory(error, "recorded lookups");
    trace->rows[trace->count++] = (uint32_t)row;
    return TN_OK;
}

static tn_status trace_read(tn_embedding_trace *trace, const tn__file *file, const char *path,
                            tn_error *error) {
    const char *at = (const char *)file->bytes, *end = at + file->size;
    for (uint64_t number = 1; at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline != NULL ? newline : end;
        tn_status status = trace_line(trace, at, (size_t)(stop - at), error);
        if (status != TN_OK) return tn__where(error, status, "%s:%" PRIu64, path, number);
        at = stop + 1;
    }
    if (trace->count > 0) return TN_OK;
    return tn__where(error, tn__fail(error, TN_E_INVALID, "no row numbers are in it"), "%s", path);
}

tn_status tn_embedding_trace_load(const char *path, const tn_context *context,
                                  tn_embedding_trace **trace, tn_error *error) {
    tn__file file;
    tn_embedding_trace *made = trace_make(context);
    if (made == NULL) return tn__no_memory(error, "recorded lookups");
    tn_status status = tn__file_map_most(path, made->context.read_limit, &file, error);
    if (status == TN_OK) {
        status = trace_read(made, &file, path, error);
        tn__file_unmap(&file);
    }
    return trace_finish(made, status, trace);
}

/* --- drawn --- */

/* The area below x^-s from 1 to x, and its inverse; both are accurate also near s = 1. */
static double trace_area(const tn__zipf *zipf, double x) {
    double power = 1 - zipf->exponent, log_x = log(x), t = power * log_x;
    return fabs(t) > 1e-8 ? log_x * expm1(t) / t : log_x * (1 + t / 2);
}

static double trace_inverse(const tn__zipf *zipf, double area) {
    double t = area * (1 - zipf->exponent);
    if (t < -1) t = -1;
    return exp(fabs(t) > 1e-8 ? log1p(t) / t * area : area * (1 - t / 2));
}

static double trace_density(const tn__zipf *zipf, double x) {
    return exp(-zipf->exponent * log(x));
}

static uint64_t trace_common(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

tn_status tn__zipf_open(tn__zipf *zipf, const tn_embedding_zipf *wanted, tn_error *error) {
    if (wanted->rows == 0 || wanted->rows > TN_EMBEDDING_ROWS_MAX)
        TN_FAIL(error, TN_E_INVALID, "a table has from 1 to 2^32 - 2 rows, not %" PRIu64,
                wanted->rows);
    if (!(wanted->exponent >= 0 && wanted->exponent <= 10))
        TN_FAIL(error, TN_E_INVALID, "the exponent of Zipf's law is from 0 to 10, not %g",
                wanted->exponent);
    *zipf = (tn__zipf){.exponent = wanted->exponent,
                       .rows = wanted->rows,
                       .random = {wanted->seed ^ UINT64_C(0x7a697066)}};
    zipf->first = trace_area(zipf, 1.5) - 1;
    zipf->last = trace_area(zipf, (double)wanted->rows + 0.5);
    zipf->near = 2 - trace_inverse(zipf, trace_area(zipf, 2.5) - trace_density(zipf, 2));
    zipf->factor = UINT64_C(2654435761) % zipf->rows;
    if (zipf->factor == 0) zipf->factor = 1;
    while (trace_common(zipf->factor, zipf->rows) != 1) zipf->factor++;
    return TN_OK;
}

uint32_t tn__zipf_next(tn__zipf *zipf) {
    for (;;) {
        double u = (double)(tn__random_next(&zipf->random) >> 11) * 0x1p-53;
        double area = zipf->last + u * (zipf->first - zipf->last), x = trace_inverse(zipf, area);
        double rank = floor(x + 0.5);
        rank = rank < 1 ? 1 : rank > (double)zipf->rows ? (double)zipf->rows : rank;
        if (rank - x > zipf->near &&
            area < trace_area(zipf, rank + 0.5) - trace_density(zipf, rank))
            continue;
        return (uint32_t)((uint64_t)(rank - 1) * zipf->factor % zipf->rows);
    }
}

tn_status tn_embedding_trace_zipf(const tn_embedding_zipf *wanted, const tn_context *context,
                                  tn_embedding_trace **trace, tn_error *error) {
    tn__zipf zipf;
    TN_TRY(tn__zipf_open(&zipf, wanted, error));
    if (wanted->lookups == 0) TN_FAIL(error, TN_E_INVALID, "a run has at least one lookup");
    tn_embedding_trace *made = trace_make(context);
    if (made == NULL) return tn__no_memory(error, "recorded lookups");
    tn_status status = TN_OK;
    made->rows = wanted->lookups <= SIZE_MAX
                     ? tn__alloc_array(&made->context, (size_t)wanted->lookups, sizeof *made->rows)
                     : NULL;
    if (made->rows == NULL)
        status = tn__no_memory(error, "recorded lookups");
    else
        made->room = made->count = (size_t)wanted->lookups;
    for (size_t i = 0; i < made->count; i++) made->rows[i] = tn__zipf_next(&zipf);
    return trace_finish(made, status, trace);
}
