/* load.c - loads problems from files, with the reader that the file's suffix determines, and solutions
 * for them. */
#include "plan/io/io.h"
#include "plan/problem/problem.h"

bool tn__reading_offset(tn__reading *reading, uint64_t offset) {
    size_t row = reading->problem->count;
    if (!tn__reserve(&reading->problem->context, &reading->offsets, &reading->offset_room, row + 1,
                     sizeof *reading->offsets))
        return false;
    reading->offsets[row] = offset;
    return true;
}

static tn_status load_read(tn__reading *reading) {
    if (tn__has_suffix(reading->name, ".csv") || strcmp(reading->name, "-") == 0)
        return tn__csv_read(reading);
    if (tn__has_suffix(reading->name, ".json")) {
#ifdef TENURE_MINIMAL
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "this minimal build reads no JSON; give a CSV");
#else
        return tn__json_read(reading);
#endif
    }
    TN_FAIL(reading->error, TN_E_UNSUPPORTED,
            "no reader knows this suffix; problems are .csv or .json. Rename the file, or pass its "
            "contents on standard input");
}

/* Copies the offsets to an array of exactly `count` items, because callers release it by count. */
static tn_status load_hand_over(tn__reading *reading, uint64_t **offsets) {
    *offsets = NULL;
    if (!reading->has_offsets) return TN_OK;
    const tn_problem *problem = reading->problem;
    *offsets = tn__alloc_array(&problem->context, problem->count, sizeof **offsets);
    if (*offsets == NULL) return tn__no_memory(reading->error, "offsets");
    memcpy(*offsets, reading->offsets, problem->count * sizeof **offsets);
    return TN_OK;
}

tn_status tn_problem_load_memory(const char *name, const void *bytes, size_t size,
                                 const tn_context *context, tn_problem **problem,
                                 uint64_t **offsets, tn_error *error) {
    tn__reading reading = {.name = name,
                           .bytes = bytes,
                           .size = size,
                           .wants_offsets = offsets != NULL,
                           .error = error};
    TN_TRY(tn_problem_create(context, &reading.problem, error));
    uint64_t *found = NULL;
    tn_status status = load_read(&reading);
    if (status == TN_OK && offsets != NULL) status = load_hand_over(&reading, &found);
    tn__free(&reading.problem->context, reading.offsets,
             reading.offset_room * sizeof *reading.offsets);
    if (status != TN_OK) {
        tn_problem_destroy(reading.problem);
        return tn__where(error, status, "%s", name);
    }
    if (offsets != NULL) *offsets = found;
    *problem = reading.problem;
    return TN_OK;
}

tn_status tn_problem_load(const char *path, const tn_context *context, tn_problem **problem,
                          uint64_t **offsets, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_text(path, tn__context(context).read_limit, &file, error));
    tn_status status =
        tn_problem_load_memory(path, file.bytes, file.size, context, problem, offsets, error);
    tn__file_unmap(&file);
    return status;
}

tn_status tn_layout_load_memory(const tn_problem *problem, const char *name, const void *bytes,
                                size_t size, tn_layout *layout, tn_error *error) {
#ifdef TENURE_MINIMAL
    (void)problem, (void)bytes, (void)size, (void)layout;
    tn__fail(error, TN_E_UNSUPPORTED, "this minimal build reads no JSON");
    return tn__where(error, TN_E_UNSUPPORTED, "%s", name);
#else
    const tn_context *context = &problem->context;
    uint64_t *offsets = tn__alloc_array(context, problem->count, sizeof *offsets);
    tn_bank_id *banks = tn__alloc_array(context, problem->count, sizeof *banks);
    tn_status status = offsets != NULL && banks != NULL ? TN_OK : tn__no_memory(error, "offsets");
    if (status == TN_OK)
        status = tn__json_read_solution(problem, name, bytes, size, offsets, banks, error);
    if (status == TN_OK) status = tn_layout_from_places(problem, offsets, banks, layout, error);
    tn__free(context, offsets, problem->count * sizeof *offsets);
    tn__free(context, banks, problem->count * sizeof *banks);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", name);
#endif
}

tn_status tn_layout_load(const tn_problem *problem, const char *path, tn_layout *layout,
                         tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_text(path, problem->context.read_limit, &file, error));
    tn_status status =
        tn_layout_load_memory(problem, path, file.bytes, file.size, layout, error);
    tn__file_unmap(&file);
    return status;
}

void tn_offsets_release(const tn_context *context, uint64_t *offsets, uint32_t count) {
    tn__free(context, offsets, (size_t)count * sizeof *offsets);
}
