/* node_stats.c - reads the memory statistics of nodes that ONNX Runtime writes if
 * session.collect_node_memory_stats_to_file names a file.
 *
 *     #name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations
 *     conv1,602112,37632,3211264,1048576
 *
 * Names are not quoted and may contain commas, so the four numbers are read from the right. The
 * oldest versions write no heading. The order of the lines is that of a hash table.
 *
 * Source: ONNX Runtime, core/framework/stream_execution_context and node memory statistics.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "interop/profile/profile.h"
#include "io/import/onnx/wire.h"

static const char node_stats_heading[] = "#name,input_sizes";

bool tn__node_stats_recognises(const void *bytes, size_t size) {
    size_t length = sizeof node_stats_heading - 1;
    return size >= length && memcmp(bytes, node_stats_heading, length) == 0;
}

/* Cuts a trailing ",NUMBER" off a line and returns the number in *number; false if the line does
 * not end with one. */
static bool node_stats_cut(tn__span *line, uint64_t *number) {
    size_t at = line->size;
    int64_t value = 0;
    while (at > 0 && line->bytes[at - 1] != ',') at--;
    if (at == 0) return false;
    const char *text = (const char *)line->bytes + at;
    size_t size = line->size - at;
    if (size == 0 || *text == '-' || !tn__take_integer(&text, &size, &value) || size != 0)
        return false;
    *number = (uint64_t)value;
    line->size = at - 1;
    return true;
}

static tn_status node_stats_line(tn__node_stats *stats, tn__span line, tn_error *error) {
    tn__node_stats_row row = {0};
    if (line.size > 0 && line.bytes[line.size - 1] == '\r') line.size--;
    if (line.size == 0) return TN_OK;
    if (!node_stats_cut(&line, &row.scratch) || !node_stats_cut(&line, &row.outputs) ||
        !node_stats_cut(&line, &row.initializers) || !node_stats_cut(&line, &row.inputs))
        TN_FAIL(error, TN_E_INVALID,
                "no line of ONNX Runtime's node memory statistics, which are NAME,INPUTS,"
                "INITIALIZERS,OUTPUTS,SCRATCH with four numbers of bytes; `tn_problem_load` "
                "reads problems");
    if (stats->count == TN__PROFILE_SAMPLES_MAX)
        TN_FAIL(error, TN_E_UNSUPPORTED, "more than 10^7 nodes");
    size_t shown = line.size < 4096 ? line.size : 4096;
    row.name = tn__arena_string(&stats->texts, (const char *)line.bytes, shown);
    if (row.name == NULL ||
        !tn__reserve(&stats->context, &stats->rows, &stats->room, stats->count + 1, sizeof row))
        return tn__no_memory(error, "the nodes");
    stats->rows[stats->count++] = row;
    return TN_OK;
}

static tn_status node_stats_read(tn__node_stats *stats, const char *name, tn__span text,
                                 tn_error *error) {
    uint64_t number = 0;
    if (text.size > 0 && memchr(text.bytes, 0, text.size) != NULL)
        return tn__where(error, tn__fail(error, TN_E_INVALID, "a zero byte, so it is no text"),
                         "%.150s", name);
    while (text.size > 0) {
        const uint8_t *stop = memchr(text.bytes, '\n', text.size);
        tn__span line = {text.bytes, stop != NULL ? (size_t)(stop - text.bytes) : text.size};
        size_t step = line.size + (stop != NULL);
        text.bytes += step;
        text.size -= step;
        if (number++ == 0 && tn__node_stats_recognises(line.bytes, line.size)) continue;
        TN_TRY(
            tn__where(error, node_stats_line(stats, line, error), "%.150s:%" PRIu64, name, number));
    }
    if (stats->count == 0)
        return tn__where(error, tn__fail(error, TN_E_INVALID, "no node is listed"), "%.150s", name);
    return TN_OK;
}

static int node_stats_order(const void *a, const void *b) {
    const tn__node_stats_row *x = a, *y = b;
    uint64_t p = tn__add_sat(x->outputs, x->scratch), q = tn__add_sat(y->outputs, y->scratch);
    if (p != q) return p > q ? -1 : 1;
    int names = strcmp(x->name, y->name);
    return names != 0 ? names : (x->inputs < y->inputs) - (x->inputs > y->inputs);
}

tn_status tn__node_stats_read(const char *name, const void *bytes, size_t size,
                              const tn_context *given, tn__node_stats **stats, tn_error *error) {
    tn_context context = tn__context(given);
    tn__node_stats *made = tn__alloc(&context, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "the nodes");
    *made = (tn__node_stats){.context = context};
    tn__arena_init(&made->texts, &made->context);
    tn_status status = node_stats_read(made, name, (tn__span){bytes, size}, error);
    if (status != TN_OK) {
        tn__node_stats_destroy(made);
        return status;
    }
    qsort(made->rows, made->count, sizeof *made->rows, node_stats_order);
    *stats = made;
    return TN_OK;
}

void tn__node_stats_destroy(tn__node_stats *stats) {
    if (stats == NULL) return;
    const tn_context context = stats->context;
    tn__free(&context, stats->rows, stats->room * sizeof *stats->rows);
    tn__arena_release(&stats->texts);
    tn__free(&context, stats, sizeof *stats);
}
