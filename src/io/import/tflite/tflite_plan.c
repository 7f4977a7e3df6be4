/* tflite_plan.c - reads and writes offline plans inside .tflite files.
 *
 * A plan is a metadata entry "OfflineMemoryAllocation" with a buffer of int32 numbers: version,
 * number of subgraphs, number of tensors n, and an offset for each tensor of all subgraphs in the
 * order of the file, or -1 if the run time decides (constants too). Version and number of subgraphs
 * are written correctly but not checked, because the run time does not check them; n must be right.
 *
 * Writing. Offsets of a FlatBuffer only point forward, so the new objects go in front: a new head,
 * root table, list of buffers and list of metadata point into the old file, which follows byte for
 * byte; its old head and root are unused. It moves by a multiple of 16, so every alignment holds.
 *
 *     | root offset, TFL3 | Model | [buffers] | [metadata] | Metadata, name | Buffer, plan |
 *     | old file |
 *
 * The tensors of file and graph are matched by reading the model again: with the same options that
 * gives the same graph.
 * Cost: O(file).
 * Source: tflite-micro's micro_allocation_info.cc and memory_management.md.
 */
#include <tenure/rewrite.h>
#include "io/import/tflite/tflite_plan.h"

#define PLAN_NAME "OfflineMemoryAllocation"
#define PLAN_HEAD 3u /* number of integers in a plan before the offsets */
#define PLAN_ALIGNMENT 16u

void tn__tflite_plan_close(tflite_plan *plan) {
    size_t subgraphs = (size_t)plan->subgraphs.count + 1;
    tn__free(&plan->context, plan->first, plan->first ? subgraphs * sizeof *plan->first : 0);
    tn__free(&plan->context, plan->places, plan->place_room * sizeof *plan->places);
    tn__free(&plan->context, plan->block_subgraphs,
             plan->block_count * sizeof *plan->block_subgraphs);
    tn__file_unmap(&plan->file);
}

/* --- matching the tensors of file and graph ---------------------------------------------- */

typedef struct plan_met {
    uint32_t subgraph, index;
    tn_tensor_id id;
} plan_met;
typedef struct plan_meetings {
    const tn_context *context;
    plan_met *met;
    size_t count, room;
} plan_meetings;

static bool plan_meet(void *self, uint32_t subgraph, uint32_t index, tn_tensor_id id) {
    plan_meetings *all = self;
    if (!tn__reserve(all->context, &all->met, &all->room, all->count + 1, sizeof *all->met))
        return false;
    all->met[all->count++] = (plan_met){subgraph, index, id};
    return true;
}

static tn_status plan_same_graph(const tflite_plan *plan, const tn_graph *given,
                                 const tn_graph *again) {
    uint32_t count = tn_graph_tensor_count(given);
    bool same = count == tn_graph_tensor_count(again);
    for (tn_tensor_id id = 0; same && id < count; id++)
        same = strcmp(tn_graph_tensor(given, id)->name, tn_graph_tensor(again, id)->name) == 0 &&
               tn_graph_tensor(given, id)->bytes == tn_graph_tensor(again, id)->bytes;
    if (same) return TN_OK;
    TN_FAIL(plan->error, TN_E_INVALID, "the graph is not that of the model in this file");
}

static tn_status plan_count(tflite_plan *plan) {
    plan->first =
        tn__alloc_array(&plan->context, (size_t)plan->subgraphs.count + 1, sizeof *plan->first);
    if (!plan->first) return tn__no_memory(plan->error, "the plan");
    for (uint32_t i = 0; i < plan->subgraphs.count; i++) {
        tn__flat_table graph = tn__flat_item(&plan->subgraphs, i);
        plan->first[i + 1] = plan->first[i] + tn__flat_list(&graph, TFLITE_GRAPH_TENSORS).count;
    }
    return TN_OK;
}

static tn_status plan_places(tflite_plan *plan, const plan_meetings *all, uint32_t blocks) {
    plan->model = tn__flat_root(plan->bytes);
    plan->subgraphs = tn__flat_list(&plan->model, TFLITE_MODEL_SUBGRAPHS);
    plan->buffers = tn__flat_list(&plan->model, TFLITE_MODEL_BUFFERS);
    plan->metadata = tn__flat_list(&plan->model, TFLITE_MODEL_METADATA);
    TN_TRY(plan_count(plan));
    plan->block_count = blocks;
    plan->block_subgraphs = tn__alloc_array(&plan->context, blocks, sizeof *plan->block_subgraphs);
    if (!plan->block_subgraphs || !tn__reserve(&plan->context, &plan->places, &plan->place_room,
                                               all->count + 1, sizeof *plan->places))
        return tn__no_memory(plan->error, "the plan");
    for (size_t i = 0; i < all->count; i++) {
        const plan_met *met = &all->met[i];
        if (met->index == TN__MET_BLOCK)
            plan->block_subgraphs[met->id] = met->subgraph;
        else
            plan->places[plan->place_count++] =
                (tflite_place){plan->first[met->subgraph] + met->index, met->id};
    }
    return TN_OK;
}

/* Opens a .tflite file for its offline plan, and reads the model in it again. */
tn_status tn__tflite_plan_from(tflite_plan *plan, const char *name, tn__span bytes,
                               const tn_import_options *options, const tn_graph *graph,
                               tn_error *error) {
    tn_graph *again = NULL;
    *plan = (tflite_plan){.context = *tn_graph_context(graph), .bytes = bytes, .error = error};
    plan_meetings all = {.context = &plan->context};
    /* options without a log, because the notes were logged when the model was first read */
    tn_import_options quiet;
    tn__import_options(options, &quiet);
    quiet.context = &plan->context;
    plan->context.log = NULL;
    if (bytes.size < 8 || memcmp(bytes.bytes + 4, "TFL3", 4) != 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "plans are kept inside of .tflite models alone");
    tn_status status = tn__import(name, bytes, &quiet, plan_meet, &all, &again, error);
    if (status == TN_OK) status = plan_same_graph(plan, graph, again);
    if (status == TN_OK) status = plan_places(plan, &all, tn_graph_block_count(graph));
    tn_graph_destroy(again);
    tn__free(&plan->context, all.met, all.room * sizeof *all.met);
    return status;
}

tn_status tn__tflite_plan_open(tflite_plan *plan, const char *path,
                               const tn_import_options *options, const tn_graph *graph,
                               tn_error *error) {
    tn__file file;
    *plan = (tflite_plan){.context = *tn_graph_context(graph), .error = error};
    TN_TRY(tn__file_map_most(path, plan->context.read_limit, &file, error));
    tn_status status =
        tn__tflite_plan_from(plan, path, (tn__span){file.bytes, file.size}, options, graph, error);
    plan->file = file;
    return status;
}

/* --- reading ------------------------------------------------------------------------------------
 */

bool tn__tflite_plan_is(const tflite_plan *plan, uint32_t at) {
    tn__flat_table entry = tn__flat_item(&plan->metadata, at);
    return tn__span_is(tn__flat_string(&entry, TFLITE_METADATA_NAME), PLAN_NAME);
}

uint32_t tn__tflite_plan_find(const tflite_plan *plan) {
    uint32_t i = 0;
    while (i < plan->metadata.count && !tn__tflite_plan_is(plan, i)) i++;
    return i;
}

tn_status tn__tflite_plan_numbers(const tflite_plan *plan, tn__flat_vector *numbers) {
    uint32_t at = tn__tflite_plan_find(plan);
    *numbers = (tn__flat_vector){0};
    if (at == plan->metadata.count) return TN_OK;
    tn__flat_table entry = tn__flat_item(&plan->metadata, at);
    uint64_t index = tn__flat_uint(&entry, TFLITE_METADATA_BUFFER, 4, 0);
    if (index >= plan->buffers.count)
        TN_FAIL(plan->error, TN_E_INVALID, "the plan inside is buffer %llu, of %u",
                (unsigned long long)index, plan->buffers.count);
    tn__flat_table buffer = tn__flat_item(&plan->buffers, (uint32_t)index);
    tn__flat_vector bytes = tn__flat_list(&buffer, TFLITE_BUFFER_DATA);
    uint64_t tensors = plan->first[plan->subgraphs.count];
    if (bytes.count % 4 || bytes.count < 4 * PLAN_HEAD ||
        tn__little(bytes.items + 8, 4) != tensors || bytes.count / 4 - PLAN_HEAD != tensors)
        TN_FAIL(plan->error, TN_E_INVALID,
                "the plan inside has %u bytes for the %llu tensors of the model; it should have "
                "%llu",
                bytes.count, (unsigned long long)tensors,
                (unsigned long long)(4 * (PLAN_HEAD + tensors)));
    tn__flat_vector found = {bytes.items + 4 * PLAN_HEAD, bytes.count / 4 - PLAN_HEAD};
    for (uint32_t i = 0; i < found.count; i++)
        if (tn__flat_int32(&found, i) < -1)
            TN_FAIL(plan->error, TN_E_INVALID, "the plan inside puts tensor %u at %d", i,
                    tn__flat_int32(&found, i));
    *numbers = found;
    return TN_OK;
}

static tn_status plan_read(const tflite_plan *plan, uint32_t tensors, uint64_t *offsets) {
    tn__flat_vector numbers;
    TN_TRY(tn__tflite_plan_numbers(plan, &numbers));
    if (numbers.items == NULL)
        TN_FAIL(plan->error, TN_E_UNKNOWN,
                "there is no plan inside this model; give one with `tn_layout_from_offsets`");
    for (uint32_t id = 0; id < tensors; id++) offsets[id] = TN_SIZE_UNKNOWN;
    for (size_t i = 0; i < plan->place_count; i++) {
        int32_t offset = tn__flat_int32(&numbers, (uint32_t)plan->places[i].tensor);
        if (offset >= 0) offsets[plan->places[i].id] = (uint64_t)offset;
    }
    return TN_OK;
}

tn_status tn_tflite_read_plan(const char *path, const tn_import_options *options,
                              const tn_graph *graph, uint64_t *offsets, tn_error *error) {
    tflite_plan plan;
    tn_status status = tn__tflite_plan_open(&plan, path, options, graph, error);
    if (status == TN_OK) status = plan_read(&plan, tn_graph_tensor_count(graph), offsets);
    tn__tflite_plan_close(&plan);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%.200s", path);
}

/* --- writing ------------------------------------------------------------------------------------
 */

tn_status tn__tflite_plan_check(const tflite_plan *plan) {
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        tn__flat_table buffer = tn__flat_item(&plan->buffers, i);
        if (tn__flat_uint(&buffer, TFLITE_BUFFER_OFFSET, 8, 0) > 1)
            TN_FAIL(plan->error, TN_E_UNSUPPORTED, "a model with contents after the FlatBuffer");
    }
    for (uint32_t i = 0; i < plan->subgraphs.count; i++) {
        tn__flat_table graph = tn__flat_item(&plan->subgraphs, i);
        tn__flat_vector ops = tn__flat_list(&graph, TFLITE_GRAPH_OPERATORS);
        for (uint32_t k = 0; k < ops.count; k++) {
            tn__flat_table op = tn__flat_item(&ops, k);
            if (tn__flat_uint(&op, TFLITE_OP_LARGE, 8, 0) > 1)
                TN_FAIL(plan->error, TN_E_UNSUPPORTED, "a model with options after the FlatBuffer");
        }
    }
    for (uint32_t field = TFLITE_MODEL_KNOWN; 4 + 2 * field < plan->model.vtable_size; field++)
        if (tn__flat_has(&plan->model, field))
            TN_FAIL(plan->error, TN_E_UNSUPPORTED, "the model has parts of a later schema");
    return TN_OK;
}

bool tn__tflite_plan_takes(const tn_graph *graph, tn_tensor_id id) {
    tn_dtype dtype = tn_graph_tensor(graph, id)->dtype;
    uint32_t bits = tn_dtype_bits(dtype);
    return dtype != TN_RESOURCE && (bits == 0 || bits >= 8);
}

/* Sets the offset of each tensor of the file; tensors without an offset keep their -1. */
static tn_status plan_offsets(const tflite_plan *plan, const tn_graph *graph,
                              const uint64_t *offsets, int32_t *numbers) {
    for (size_t i = 0; i < plan->place_count; i++) {
        tn_tensor_id id = plan->places[i].id;
        int32_t *number = &numbers[plan->places[i].tensor];
        const char *name = tn_graph_tensor(graph, id)->name;
        if (offsets[id] == TN_SIZE_UNKNOWN || !tn__tflite_plan_takes(graph, id)) continue;
        if (offsets[id] % PLAN_ALIGNMENT || offsets[id] > INT32_MAX)
            TN_FAIL(plan->error, TN_E_UNSUPPORTED,
                    "'%.80s' is at %llu: the format wants multiples of 16 below 2 GiB; plan with "
                    "`alignment` 16 or more, without `fuse_concat`",
                    name, (unsigned long long)offsets[id]);
        if (*number >= 0 && (uint64_t)*number != offsets[id])
            TN_FAIL(plan->error, TN_E_UNSUPPORTED,
                    "'%.80s' has a second place: its subgraph is run by several operators, and the "
                    "format has one place for each tensor",
                    name);
        *number = (int32_t)offsets[id];
    }
    return TN_OK;
}

static void plan_put(tn__text *to, const void *bytes, size_t size) {
    tn__text_add(to, bytes, size);
}
static void plan_u32(tn__text *to, uint64_t value) {
    uint8_t bytes[4];
    for (uint32_t i = 0; i < 4; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    plan_put(to, bytes, 4);
}
static void plan_u16s(tn__text *to, const uint16_t *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint8_t bytes[2] = {(uint8_t)values[i], (uint8_t)(values[i] >> 8)};
        plan_put(to, bytes, 2);
    }
}
static void plan_pad(tn__text *to, size_t target) {
    while (!to->failed && to->size < target) plan_put(to, "", 1);
}

/* The positions of all parts of the new head, from the start of the file. */
typedef struct plan_layout {
    size_t model, buffers, metadata, entry, name, buffer, data, end;
    uint32_t buffer_count, metadata_count;
    /* indices of the buffer and of the metadata entry of the plan */
    uint32_t buffer_index, metadata_index;
} plan_layout;

#define PLAN_VTABLE (4u + 2 * TFLITE_MODEL_KNOWN)
#define PLAN_TABLE (4u + 4 * TFLITE_MODEL_KNOWN)
#define PLAN_ENTRY_VTABLE 8u
#define PLAN_BUFFER_VTABLE 8u /* bytes of the vtable, with two bytes of padding before it */

/* Whether a buffer is used only by the old plan, so that the new one replaces it. */
static bool plan_owns_buffer(const tflite_plan *plan, uint64_t index) {
    if (index == 0 || index >= plan->buffers.count) return false;
    for (uint32_t i = 0; i < plan->subgraphs.count; i++) {
        tn__flat_table graph = tn__flat_item(&plan->subgraphs, i);
        tn__flat_vector tensors = tn__flat_list(&graph, TFLITE_GRAPH_TENSORS);
        for (uint32_t k = 0; k < tensors.count; k++) {
            tn__flat_table tensor = tn__flat_item(&tensors, k);
            if (tn__flat_uint(&tensor, TFLITE_TENSOR_BUFFER, 4, 0) == index) return false;
        }
    }
    return true;
}

static plan_layout plan_arrange(const tflite_plan *plan, uint64_t tensors) {
    plan_layout to = {.buffer_index = plan->buffers.count,
                      .metadata_index = tn__tflite_plan_find(plan)};
    if (to.metadata_index < plan->metadata.count) {
        tn__flat_table entry = tn__flat_item(&plan->metadata, to.metadata_index);
        uint64_t index = tn__flat_uint(&entry, TFLITE_METADATA_BUFFER, 4, 0);
        if (plan_owns_buffer(plan, index)) to.buffer_index = (uint32_t)index;
    }
    to.buffer_count = plan->buffers.count + (to.buffer_index == plan->buffers.count);
    to.metadata_count = plan->metadata.count + (to.metadata_index == plan->metadata.count);
    to.model = 8 + PLAN_VTABLE;
    to.buffers = to.model + PLAN_TABLE;
    to.metadata = to.buffers + 4 + (size_t)4 * to.buffer_count;
    to.entry = to.metadata + 4 + (size_t)4 * to.metadata_count + PLAN_ENTRY_VTABLE;
    to.name = to.entry + 12;
    to.buffer = to.name + 4 + sizeof PLAN_NAME + PLAN_BUFFER_VTABLE;
    to.data = to.buffer + 8;
    to.data += (2 * PLAN_ALIGNMENT - 4 - to.data % PLAN_ALIGNMENT) % PLAN_ALIGNMENT;
    to.end = to.data + 4 + (size_t)4 * (PLAN_HEAD + tensors);
    to.end += (PLAN_ALIGNMENT - to.end % PLAN_ALIGNMENT) % PLAN_ALIGNMENT;
    return to;
}

/* The position in the new file of the object at `bytes` in the old one. */
static size_t plan_moved(const tflite_plan *plan, const plan_layout *to, const uint8_t *bytes) {
    return to->end + (size_t)(bytes - plan->bytes.bytes);
}

/* Appends an offset that points to `target`. */
static void plan_lead(tn__text *text, size_t target) { plan_u32(text, target - text->size); }

static void plan_put_model(const tflite_plan *plan, const plan_layout *to, tn__text *text) {
    uint16_t slots[TFLITE_MODEL_KNOWN + 2] = {PLAN_VTABLE, PLAN_TABLE};
    plan_u32(text, to->model);
    plan_put(text, "TFL3", 4);
    for (uint32_t field = 0; field < TFLITE_MODEL_KNOWN; field++) {
        bool ours = field == TFLITE_MODEL_BUFFERS || field == TFLITE_MODEL_METADATA;
        if (ours || tn__flat_has(&plan->model, field)) slots[2 + field] = (uint16_t)(4 + 4 * field);
    }
    plan_u16s(text, slots, TFLITE_MODEL_KNOWN + 2);
    plan_u32(text, PLAN_VTABLE); /* the vtable is right before the table */
    for (uint32_t field = 0; field < TFLITE_MODEL_KNOWN; field++) {
        if (field == TFLITE_MODEL_BUFFERS)
            plan_lead(text, to->buffers);
        else if (field == TFLITE_MODEL_METADATA)
            plan_lead(text, to->metadata);
        else if (!slots[2 + field])
            plan_u32(text, 0);
        else if (field == TFLITE_MODEL_VERSION)
            plan_u32(text, tn__flat_uint(&plan->model, field, 4, 0));
        else /* the count precedes both texts and lists */
            plan_lead(text, plan_moved(plan, to, tn__flat_list(&plan->model, field).items - 4));
    }
}

static void plan_put_lists(const tflite_plan *plan, const plan_layout *to, tn__text *text) {
    plan_u32(text, to->buffer_count);
    for (uint32_t i = 0; i < to->buffer_count; i++)
        plan_lead(text, i == to->buffer_index
                            ? to->buffer
                            : plan_moved(plan, to, tn__flat_item(&plan->buffers, i).bytes));
    plan_u32(text, to->metadata_count);
    for (uint32_t i = 0; i < to->metadata_count; i++)
        plan_lead(text, i == to->metadata_index
                            ? to->entry
                            : plan_moved(plan, to, tn__flat_item(&plan->metadata, i).bytes));
}

static void plan_put_plan(const tflite_plan *plan, const plan_layout *to, const int32_t *numbers,
                          tn__text *text) {
    uint64_t tensors = plan->first[plan->subgraphs.count];
    plan_u16s(text, (const uint16_t[]){PLAN_ENTRY_VTABLE, 12, 4, 8}, 4);
    plan_u32(text, PLAN_ENTRY_VTABLE);
    plan_lead(text, to->name);
    plan_u32(text, to->buffer_index);
    plan_u32(text, sizeof PLAN_NAME - 1);
    plan_put(text, PLAN_NAME, sizeof PLAN_NAME);
    plan_u16s(text, (const uint16_t[]){0, PLAN_BUFFER_VTABLE - 2, 8, 4}, 4);
    plan_u32(text, PLAN_BUFFER_VTABLE - 2);
    plan_lead(text, to->data);
    plan_pad(text, to->data);
    plan_u32(text, 4 * (PLAN_HEAD + tensors));
    plan_u32(text, 1);
    plan_u32(text, plan->subgraphs.count);
    plan_u32(text, tensors);
    for (uint64_t i = 0; i < tensors; i++) plan_u32(text, (uint32_t)numbers[i]);
    plan_pad(text, to->end);
}

tn_status tn__tflite_plan_put(const tflite_plan *plan, const tn_graph *graph,
                              const uint64_t *offsets, tn__text *text) {
    uint64_t tensors = plan->first[plan->subgraphs.count], total;
    plan_layout to = plan_arrange(plan, tensors);
    TN_TRY(tn__tflite_plan_check(plan));
    if (!tn__add(to.end, plan->bytes.size, &total) || total > INT32_MAX)
        TN_FAIL(plan->error, TN_E_UNSUPPORTED, "a model above 2 GiB");
    size_t room = (size_t)tensors + 1;
    int32_t *numbers = tn__alloc_array(&plan->context, room, sizeof *numbers);
    if (!numbers) return tn__no_memory(plan->error, "the plan");
    for (uint64_t i = 0; i < tensors; i++) numbers[i] = -1;
    tn_status status = plan_offsets(plan, graph, offsets, numbers);
    if (status == TN_OK) {
        plan_put_model(plan, &to, text);
        plan_put_lists(plan, &to, text);
        plan_put_plan(plan, &to, numbers, text);
        plan_put(text, plan->bytes.bytes, plan->bytes.size);
        tn_assert(text->failed || text->size == total);
        if (text->failed) status = tn__no_memory(plan->error, "the planned model");
    }
    tn__free(&plan->context, numbers, room * sizeof *numbers);
    return status;
}

static tn_status plan_write(const tflite_plan *plan, const tn_graph *graph, const uint64_t *offsets,
                            const char *output) {
    tn__text text;
    tn__text_init(&text, &plan->context);
    tn_status status = tn__tflite_plan_put(plan, graph, offsets, &text);
    if (status == TN_OK) status = tn__file_write(output, text.data, text.size, plan->error);
    tn__text_release(&text);
    return status;
}

tn_status tn_tflite_write_plan(const char *path, const tn_import_options *options,
                               const tn_graph *graph, const uint64_t *offsets, const char *output,
                               tn_error *error) {
    tflite_plan plan;
    tn_status status = tn__tflite_plan_open(&plan, path, options, graph, error);
    if (status == TN_OK) status = plan_write(&plan, graph, offsets, output);
    tn__tflite_plan_close(&plan);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%.200s", output);
}
