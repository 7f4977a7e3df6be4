/* measure.c - makes a candidate of tn_split_file: the split graph, its file, and the memory that a
 * runtime needs for that file.
 *
 * The file is read again from memory like any other file. If Tenure's own reader refuses it, or if
 * it has other inputs or outputs than the model, it is never written to disk.
 *
 * Cost: O(size of the file).
 */
#include "report/export/export.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <tenure/plan.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "graph/takes.h"
#include "io/import/tflm/tflm.h"
#include "report/format.h"

/* limit of each plan, as a number of placements and not as a time, so that results can be
 * reproduced */
#define MEASURE_PLAN_WORK 200000u
#define MEASURE_PLAN_LEAST 2000u

/* --- opening the model --- */

static tn_status source_scratch(export_source *source, const tn_export_options *asked,
                                tn_error *error) {
    size_t ops = (size_t)tn_graph_op_count(source->graph) + 1;
    source->workspaces = tn__alloc_array(&source->context, ops, sizeof *source->workspaces);
    source->kept = tn__alloc_array(&source->context, ops, sizeof *source->kept);
    if (source->workspaces == NULL || source->kept == NULL) return tn__no_memory(error, "scratch");
    TN_TRY(tn__tflm_workspaces_of(&source->plan, source->graph, &asked->micro, source->workspaces));
    return tn__tflm_kept_of(&source->plan, source->graph, &asked->micro, source->kept,
                            &source->move_kept);
}

/* Sets the sizes that the caller gave for dimensions that the file leaves open. */
static void source_sizes(const tn_export_options *asked, tn_import_options *import) {
    import->dims = asked->dims;
    import->dim_count = asked->dim_count;
    import->input_shapes = asked->input_shapes;
    import->input_shape_count = asked->input_shape_count;
}

static bool source_met(void *self, uint32_t subgraph, uint32_t index, tn_tensor_id id) {
    export_source *source = self;
    (void)subgraph;
    (void)id;
    source->has_external = source->has_external || index == TN__MET_EXTERNAL;
    return true;
}

tn_status tn__export_open(export_source *source, const char *path, const tn_context *context,
                          const tn_export_options *asked, tn_error *error) {
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    *source = (export_source){.path = path, .context = *context};
    source->is_tflite = tn__has_suffix(path, ".tflite");
    if (!source->is_tflite && !tn__has_suffix(path, ".onnx"))
        TN_FAIL(error, TN_E_UNSUPPORTED, "'%.200s': .tflite and .onnx models are written in parts",
                path);
    if (source->is_tflite && (asked->dim_count > 0 || asked->input_shape_count > 0))
        TN_FAIL(error, TN_E_UNSUPPORTED, "'%.200s': a .tflite model is written with its own sizes",
                path);
    source_sizes(asked, &import);
    TN_TRY(tn__file_map_most(path, context->read_limit, &source->mapped, error));
    source->file = (tn__span){source->mapped.bytes, source->mapped.size};
    import.context = &source->context;
    TN_TRY(tn__import(path, source->file, &import, source_met, source, &source->graph, error));
    if (!source->is_tflite) return TN_OK;
    TN_TRY(tn__tflite_plan_from(&source->plan, path, source->file, &import, source->graph, error));
    TN_TRY(tn__tflite_plan_check(&source->plan));
    return source_scratch(source, asked, error);
}

void tn__export_close(export_source *source) {
    size_t ops = source->graph != NULL ? (size_t)tn_graph_op_count(source->graph) + 1 : 0;
    if (source->workspaces != NULL)
        tn__free(&source->context, source->workspaces, ops * sizeof *source->workspaces);
    if (source->kept != NULL) tn__free(&source->context, source->kept, ops * sizeof *source->kept);
    if (source->is_tflite && source->plan.bytes.bytes != NULL)
        /* releases the plan only; the file itself is unmapped below */
        tn__tflite_plan_close(&source->plan);
    tn_graph_destroy(source->graph);
    tn__file_unmap(&source->mapped);
}

bool tn__export_folder(const char *path, char folder[EXPORT_FOLDER_MAX]) {
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
    if (length >= EXPORT_FOLDER_MAX) return false;
    memcpy(folder, slash == NULL ? "." : path, length);
    folder[length] = '\0';
    return true;
}

/* Finds the device and inode numbers of the folder that contains a file. */
static bool source_folder(const char *path, struct stat *folder) {
    char text[EXPORT_FOLDER_MAX];
    return tn__export_folder(path, text) && stat(text, folder) == 0;
}

tn_status tn__export_beside(const export_source *source, const char *output, tn_error *error) {
    struct stat from, to;
    if (output == NULL || !source->has_external) return TN_OK;
    if (source_folder(source->path, &from) && source_folder(output, &to) &&
        from.st_dev == to.st_dev && from.st_ino == to.st_ino)
        return TN_OK;
    TN_FAIL(error, TN_E_INVALID,
            "weights of the model lie in files beside it, which it names by place: write it into "
            "the folder of '%.200s'",
            source->path);
}

/* --- finding the tensors at the peak --- */

static void measure_binding(const tn_occupancy *occupancy, export_candidate *to) {
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(occupancy));
    tn_occupant holders[TN_EXPORT_BINDING];
    uint32_t count = tn_occupancy_holders(occupancy, TN_NONE, holders, TN_EXPORT_BINDING);
    for (uint32_t i = 0; i < count && i < TN_EXPORT_BINDING; i++) {
        const tn_life *life = &tn_occupancy_lives(occupancy)[holders[i].life];
        char size[TN_SIZE_TEXT_MAX];
        const char *name = life->tensor != TN_NONE ? tn_graph_tensor(graph, life->tensor)->name
                           : life->op != TN_NONE   ? tn_graph_op(graph, life->op)->type
                                                   : "";
        snprintf(to->binding[i], sizeof to->binding[i], "%s%.80s, %s",
                 life->tensor == TN_NONE ? "scratch of " : "", name,
                 tn_size_format(holders[i].bytes, size));
    }
}

/* Returns the limit of the placements of each plan. A caller who limits the work limits that of the
 * plans too, but not below what a plan of a small model takes. */
static uint64_t measure_plan_work(const tn_export_options *asked) {
    if (asked->work_limit == 0 || asked->work_limit > MEASURE_PLAN_WORK) return MEASURE_PLAN_WORK;
    return asked->work_limit < MEASURE_PLAN_LEAST ? MEASURE_PLAN_LEAST : asked->work_limit;
}

/* Plans the arena for the operators in the order of the file, in at most `work` placements. Sets
 * offsets[tensor] if `offsets` is not NULL. */
static tn_status measure_plan(const tn_graph *graph, const tn_occupancy_options *memory,
                              uint64_t work, uint64_t *offsets, export_candidate *to,
                              tn_error *error) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    tn_layout layout = {0};
    options.work_limit = work;
    tn_status status = tn_program_create(graph, NULL, &program, error);
    if (status == TN_OK) status = tn_occupancy_create(program, memory, &occupancy, error);
    if (status == TN_OK)
        status = tn_plan(tn_occupancy_problem(occupancy), &options, &layout, error);
    if (status == TN_OK && offsets != NULL)
        status = tn__report_offsets(occupancy, &layout, offsets, error);
    if (status == TN_OK) {
        to->bytes = layout.peak;
        measure_binding(occupancy, to);
    }
    tn_layout_release(&layout);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    return status;
}

/* --- .tflite --- */

/* Returns the bytes that the search minimises: those of the head or of the whole arena. */
static uint64_t measure_count(const tn_export_options *asked, const tn_micro_arena *arena) {
    return asked->head ? arena->head : arena->total;
}

/* Stores Tenure's plan in the file, if it needs no more memory than the plan that the runtime would
 * make. */
static tn_status measure_planned(const tflite_plan *file, const tn_graph *graph,
                                 const tn_export_options *asked, const uint64_t *offsets,
                                 export_candidate *to) {
    tn_micro_arena planned;
    tn__text image;
    TN_TRY(tn__tflm_arena_at(file, graph, offsets, &asked->micro, &planned, NULL));
    if (!asked->plan || measure_count(asked, &planned) > measure_count(asked, &to->arena))
        return TN_OK;
    to->arena = planned;
    tn__text_init(&image, to->image.context);
    tn_status status = tn__tflite_plan_put(file, graph, offsets, &image);
    if (status != TN_OK) {
        tn__text_release(&image);
        return status;
    }
    /* the old image is released last, because `file` reads it until here */
    tn__text old = to->image;
    to->image = image;
    tn__text_release(&old);
    return TN_OK;
}

static tn_status measure_open_tflite(const tflite_plan *file, const tn_graph *graph,
                                     const tn_export_options *asked, export_candidate *to,
                                     tn_error *error) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    size_t ops = (size_t)tn_graph_op_count(graph) + 1,
           tensors = (size_t)tn_graph_tensor_count(graph) + 1;
    uint64_t *scratch = tn__alloc_array(&to->context, ops, sizeof *scratch);
    uint64_t *offsets = tn__alloc_array(&to->context, tensors, sizeof *offsets);
    tn_status status = scratch != NULL && offsets != NULL ? TN_OK : tn__no_memory(error, "a plan");
    if (status == TN_OK) status = tn__tflm_workspaces_of(file, graph, &asked->micro, scratch);
    memory.alignment = 16;
    memory.workspaces = scratch;
    if (status == TN_OK)
        status = measure_plan(graph, &memory, measure_plan_work(asked), offsets, to, error);
    if (status == TN_OK)
        status = tn__tflm_arena_at(file, graph, NULL, &asked->micro, &to->arena, NULL);
    if (status == TN_OK) status = measure_planned(file, graph, asked, offsets, to);
    to->bytes = measure_count(asked, &to->arena);
    if (scratch != NULL) tn__free(&to->context, scratch, ops * sizeof *scratch);
    if (offsets != NULL) tn__free(&to->context, offsets, tensors * sizeof *offsets);
    return status;
}

static tn_status measure_tflite(const export_source *source, const tn_graph *graph,
                                const tn_export_options *asked, export_candidate *to,
                                tn_error *error) {
    tflite_plan file;
    tn__span bytes = {(const uint8_t *)to->image.data, to->image.size};
    tn_status status = tn__tflite_plan_from(&file, source->path, bytes, NULL, graph, error);
    if (status == TN_OK) status = measure_open_tflite(&file, graph, asked, to, error);
    tn__tflite_plan_close(&file);
    return status;
}

/* --- work --- */

static uint64_t measure_bytes(const tn_graph *graph, tn_tensor_id id) {
    uint64_t bytes = tn_graph_tensor(graph, id)->bytes;
    return bytes == TN_SIZE_UNKNOWN ? 0 : bytes;
}

/* Computes the work that splitting adds, and the bytes of the added operators that only move
 * elements. */
static void measure_work(const export_source *source, const export_split *split,
                         uint32_t byte_flops, export_candidate *to) {
    uint64_t whole = tn_graph_work(source->graph).flops;
    to->flops = split->graph != NULL ? tn_graph_work(split->graph).flops : whole;
    to->moved = 0;
    for (tn_op_id id = 0; split->graph != NULL && id < split->trace.op_count; id++)
        if (split->trace.is_part[id] && split->trace.ops[id] == TN_NONE)
            to->moved = tn__add_sat(
                to->moved, measure_bytes(split->graph, tn_graph_op(split->graph, id)->outputs[0]));
    double extra =
        (double)to->flops - (double)whole + (double)tn__work_added(0, to->moved, byte_flops);
    to->work = whole > 0 ? extra / (double)whole : extra > 0 ? HUGE_VAL : 0;
}

/* --- making and measuring a candidate --- */

/* Counts the characters of a name before the "#number" that the reader appends where another tensor
 * of the file has the name, too. In a file in parts, that other tensor may be gone. */
static size_t measure_given_name(const char *name) {
    size_t given = strlen(name), digits;
    for (;;) {
        for (digits = given; digits > 0 && isdigit((unsigned char)name[digits - 1]); digits--) {
        }
        if (digits == 0 || digits == given || name[digits - 1] != '#') return given;
        given = digits - 1;
    }
}

static bool measure_same_name(const char *a, const char *b) {
    size_t length = measure_given_name(a);
    return length == measure_given_name(b) && memcmp(a, b, length) == 0;
}

static bool measure_same_list(const tn_graph *a, const tn_tensor_id *x, uint32_t x_count,
                              const tn_graph *b, const tn_tensor_id *y, uint32_t y_count) {
    if (x_count != y_count) return false;
    for (uint32_t i = 0; i < x_count; i++) {
        const tn_tensor *left = tn_graph_tensor(a, x[i]), *right = tn_graph_tensor(b, y[i]);
        if (!measure_same_name(left->name, right->name) || left->dtype != right->dtype ||
            left->rank != right->rank || left->bytes != right->bytes)
            return false;
    }
    return true;
}

/* Checks that the new file has the inputs and outputs of the old one. */
static tn_status measure_same(const tn_graph *whole, const tn_graph *again, tn_error *error) {
    const tn_block *a = tn_graph_block(whole, 0), *b = tn_graph_block(again, 0);
    if (measure_same_list(whole, a->inputs, a->input_count, again, b->inputs, b->input_count) &&
        measure_same_list(whole, a->outputs, a->output_count, again, b->outputs, b->output_count))
        return TN_OK;
    TN_FAIL(error, TN_E_INTERNAL, "the model in parts has other inputs or outputs");
}

static tn_status measure_write(const export_source *source, const export_split *split,
                               export_candidate *to, tn_error *error) {
    if (split->graph == NULL) {
        tn__text_add(&to->image, (const char *)source->file.bytes, source->file.size);
        return to->image.failed ? tn__no_memory(error, "the model") : TN_OK;
    }
    return source->is_tflite ? tn__export_tflite(&source->plan, split, &to->image, error)
                             : tn__export_onnx(source->file, split, &to->image, error);
}

static tn_status measure_image(const export_source *source, const export_split *split,
                               const tn_export_options *asked, export_candidate *to,
                               tn_error *error) {
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_graph *again = NULL;
    tn_context quiet = source->context;
    quiet.log = NULL; /* no log, because notes were printed when the model was read before */
    import.context = &quiet;
    /* the file of a split graph has no symbolic dimensions that need sizes */
    if (split->graph == NULL) source_sizes(asked, &import);
    TN_TRY(measure_write(source, split, to, error));
    tn_status status =
        tn_graph_load_memory(source->path, to->image.data, to->image.size, &import, &again, error);
    if (status == TN_OK) status = measure_same(source->graph, again, error);
    if (status == TN_OK) to->ops = tn_graph_block(again, 0)->op_count;
    if (status == TN_OK && source->is_tflite)
        status = measure_tflite(source, again, asked, to, error);
    if (status == TN_OK && !source->is_tflite)
        status = measure_plan(split->graph != NULL ? split->graph : source->graph, &memory,
                              measure_plan_work(asked), NULL, to, error);
    tn_graph_destroy(again);
    return status;
}

tn_status tn__export_measure(const export_source *source, const tn_split_choice *choice,
                             const tn_export_options *asked, uint32_t byte_flops,
                             export_candidate *candidate, tn_error *error) {
    export_split split = {.whole = source->graph};
    *candidate = (export_candidate){.context = source->context, .regions = choice->count};
    tn__text_init(&candidate->image, &source->context);
    tn_status status = TN_OK;
    if (choice->count > 0)
        status = tn__graph_split(source->graph, choice->regions, choice->count, &source->context,
                                 &split.graph, &split.trace, error);
    if (status == TN_OK) status = measure_image(source, &split, asked, candidate, error);
    if (status == TN_OK) measure_work(source, &split, byte_flops, candidate);
    if (split.graph != NULL) tn__split_trace_release(&split.trace);
    tn_graph_destroy(split.graph);
    if (status != TN_OK) tn__export_release(candidate);
    return status;
}

void tn__export_release(export_candidate *candidate) {
    if (candidate->image.context != NULL) tn__text_release(&candidate->image);
    *candidate = (export_candidate){0};
}
