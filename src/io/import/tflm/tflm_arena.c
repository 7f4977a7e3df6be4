/* tflm_arena.c - the whole arena of TensorFlow Lite Micro.
 *
 *     | head: tensors, scratch | ... free ... | tail: persistent, growing downwards |
 *
 * The tail is summed in the order in which the interpreter allocates, with each allocation's
 * alignment, so the losses by alignment are exact. While it grows, AllocateTensors() needs
 * temporary memory above the start of the arena: requests for scratch, tensor structures while a
 * kernel prepares, then the planner's own lists. The arena must be large enough at every moment, so
 * its size is the maximum over those moments and the end, when the head is in place.
 *
 * The order, the counts, the structs (their fields, by ABI) and the head are exact. The parts that
 * differ between versions and kernel libraries are in tflm_kernels.c. If the options leave several
 * versions open, the arena is computed for each of them (tflm_builds.c), and each number is the
 * largest or the smallest. Versions with the same scratch share one run of the planner. Source:
 * tflite-micro's micro_allocator.cc, micro_interpreter.cc, single_arena_buffer_allocator.cc.
 */
#include "io/import/tflm/tflm.h"

#define TFLM_REQUESTS_MAX                                                                          \
    12u /* number of scratch requests for which space is reserved while each operator prepares */

static const char *const tflm_part_names[] = {
#define TN_X(name, text) text,
    TN_MICRO_PART_TABLE(TN_X)
#undef TN_X
};

const char *tn_micro_part_name(tn_micro_part part) { return tflm_part_names[part]; }

/* --- reading tensors and operators of the model --------------------------------------------- */

static tn_status tflm_tensor_read(tflm_model *model, const tn__flat_table *table,
                                  tflm_tensor *tensor) {
    tn_error *error = model->error;
    tn__flat_vector shape = tn__flat_list(table, TFLITE_TENSOR_SHAPE);
    tn__flat_table quantization = tn__flat_child(table, TFLITE_TENSOR_QUANTIZATION);
    int64_t *extents = tn__arena_array(&model->arena, (size_t)shape.count + 1, sizeof *extents);
    if (!extents) return tn__no_memory(error, "the tensors");
    for (uint32_t i = 0; i < shape.count; i++) extents[i] = tn__flat_int32(&shape, i);
    *tensor = (tflm_tensor){.shape = extents, .rank = shape.count};
    tensor->dtype = tn__tflite_dtype(tn__flat_int(table, TFLITE_TENSOR_TYPE, 1, 0));
    tensor->is_variable = tn__flat_uint(table, TFLITE_TENSOR_VARIABLE, 1, 0) != 0;
    tensor->is_constant = tn__tflite_has_contents(&model->plan->buffers, table);
    if (quantization.bytes != NULL) {
        uint32_t zeros = tn__flat_list(&quantization, TFLITE_QUANTIZATION_ZERO).count;
        uint32_t scales = tn__flat_list(&quantization, TFLITE_QUANTIZATION_SCALE).count;
        tensor->channels = zeros > 0 ? scales : 0;
    }
    return TN_OK;
}

/* Takes the extents of a tensor from the graph: if --input-shape made the file's shapes stale, the
 * graph has the right ones. */
static void tflm_tensor_take(tflm_tensor *tensor, const tn_tensor *known) {
    if (known->rank == TN_RANK_UNKNOWN || known->bytes == TN_SIZE_UNKNOWN) return;
    tensor->shape = known->shape;
    tensor->rank = known->rank;
}

static void tflm_tensor_count(tflm_tensor *tensor) {
    uint32_t bits = tn_dtype_bits(tensor->dtype);
    tensor->elements = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint64_t extent = tensor->shape[i] < 0 ? 1 : (uint64_t)tensor->shape[i];
        tensor->elements = tn__mul_sat(tensor->elements, extent);
    }
    tensor->is_unknown = bits == 0;
    tensor->bytes = tensor->is_unknown ? 0 : tn__mul_sat(tensor->elements, (bits + 7) / 8);
}

static tn_status tflm_read_tensors(tflm_model *model, const tn_graph *graph) {
    const tflite_plan *plan = model->plan;
    uint64_t count = plan->first[plan->subgraphs.count];
    model->tensors = tn__arena_array(&model->arena, (size_t)count + 1, sizeof *model->tensors);
    if (!model->tensors) return tn__no_memory(model->error, "the tensors");
    for (uint32_t s = 0; s < plan->subgraphs.count; s++) {
        tn__flat_table subgraph = tn__flat_item(&plan->subgraphs, s);
        tn__flat_vector tensors = tn__flat_list(&subgraph, TFLITE_GRAPH_TENSORS);
        for (uint32_t i = 0; i < tensors.count; i++) {
            tn__flat_table table = tn__flat_item(&tensors, i);
            TN_TRY(tflm_tensor_read(model, &table, &model->tensors[plan->first[s] + i]));
        }
    }
    for (size_t i = 0; i < plan->place_count; i++)
        tflm_tensor_take(&model->tensors[plan->places[i].tensor],
                         tn_graph_tensor(graph, plan->places[i].id));
    for (uint64_t i = 0; i < count; i++) tflm_tensor_count(&model->tensors[i]);
    return TN_OK;
}

/* Checks operands of subgraphs that are never run, which the importer has not checked. */
static tn_status tflm_check_list(const tflm_model *model, uint32_t subgraph,
                                 const tn__flat_vector *list) {
    uint64_t count = model->plan->first[subgraph + 1] - model->plan->first[subgraph];
    for (uint32_t i = 0; i < list->count; i++) {
        int32_t tensor = tn__flat_int32(list, i);
        if (tensor < -1 || (tensor >= 0 && (uint64_t)tensor >= count))
            TN_FAIL(model->error, TN_E_INVALID, "subgraph %u names tensor %d, of %llu", subgraph,
                    tensor, (unsigned long long)count);
    }
    return TN_OK;
}

static tn_status tflm_read_op(tflm_model *model, uint32_t subgraph, const tn__flat_table *table,
                              tflm_op *op) {
    uint64_t code = tn__flat_uint(table, TFLITE_OP_CODE, 4, 0);
    *op = (tflm_op){.table = *table,
                    .subgraph = subgraph,
                    .inputs = tn__flat_list(table, TFLITE_OP_INPUTS),
                    .outputs = tn__flat_list(table, TFLITE_OP_OUTPUTS)};
    if (code >= model->code_count)
        TN_FAIL(model->error, TN_E_INVALID, "subgraph %u has operator code %llu, of %u", subgraph,
                (unsigned long long)code, model->code_count);
    op->code = &model->codes[code];
    TN_TRY(tflm_check_list(model, subgraph, &op->inputs));
    return tflm_check_list(model, subgraph, &op->outputs);
}

/* Marks the output of a VAR_HANDLE. The kernel sets the data of that tensor itself, so the planner
 * omits it. */
static void tflm_mark_handle(tflm_model *model, uint64_t index) {
    const tflm_op *op = &model->ops[index];
    if (strcmp(op->code->type, "VAR_HANDLE") != 0 || op->outputs.count == 0) return;
    int32_t tensor = tn__flat_int32(&op->outputs, 0);
    if (tensor < 0 || index >= UINT32_MAX) return;
    model->tensors[model->plan->first[op->subgraph] + (uint32_t)tensor].handle_of =
        (uint32_t)index + 1;
}

static tn_status tflm_read_ops(tflm_model *model) {
    const tflite_plan *plan = model->plan;
    uint32_t subgraphs = plan->subgraphs.count;
    model->first_op = tn__arena_array(&model->arena, (size_t)subgraphs + 1, sizeof(uint64_t));
    if (!model->first_op) return tn__no_memory(model->error, "the operators");
    for (uint32_t s = 0; s < subgraphs; s++) {
        tn__flat_table graph = tn__flat_item(&plan->subgraphs, s);
        model->first_op[s + 1] =
            model->first_op[s] + tn__flat_list(&graph, TFLITE_GRAPH_OPERATORS).count;
    }
    model->ops =
        tn__arena_array(&model->arena, (size_t)model->first_op[subgraphs] + 1, sizeof *model->ops);
    if (!model->ops) return tn__no_memory(model->error, "the operators");
    for (uint32_t s = 0; s < subgraphs; s++) {
        tn__flat_table graph = tn__flat_item(&plan->subgraphs, s);
        tn__flat_vector ops = tn__flat_list(&graph, TFLITE_GRAPH_OPERATORS);
        tn__flat_vector inputs = tn__flat_list(&graph, TFLITE_GRAPH_INPUTS);
        tn__flat_vector outputs = tn__flat_list(&graph, TFLITE_GRAPH_OUTPUTS);
        TN_TRY(tflm_check_list(model, s, &inputs));
        TN_TRY(tflm_check_list(model, s, &outputs));
        for (uint32_t i = 0; i < ops.count; i++) {
            tn__flat_table table = tn__flat_item(&ops, i);
            TN_TRY(tflm_read_op(model, s, &table, &model->ops[model->first_op[s] + i]));
            tflm_mark_handle(model, model->first_op[s] + i);
        }
    }
    return TN_OK;
}

/* --- the tail: memory that is allocated downwards from the end of the arena ------------------- */

typedef struct tflm_tail {
    tflm_model *model;
    tn_micro_arena *arena;
    uint64_t used;       /* bytes used from the end of the arena downwards */
    uint64_t asked;      /* bytes requested, without alignment */
    uint64_t requests;   /* number of scratch requests so far */
    uint64_t moments;    /* largest sum of used and temporary bytes so far */
    tn__names allocated; /* names of the resource variables that have a buffer */
    tn__text name;
    tn_status status;
} tflm_tail;

static uint64_t tflm_size(const tflm_tail *tail, const char *fields) {
    return TN__TFLM_SIZE(tail->model->options->target, fields);
}

static void tflm_take(tflm_tail *tail, tn_micro_part part, uint64_t bytes, uint64_t alignment) {
    tail->asked = tn__add_sat(tail->asked, bytes);
    tail->arena->part[part] = tn__add_sat(tail->arena->part[part], bytes);
    tail->used = tn__add_sat(tail->used, bytes);
    if (!tn__align_up(tail->used, alignment, &tail->used)) tail->used = UINT64_MAX;
}

static void tflm_take_struct(tflm_tail *tail, tn_micro_part part, const char *fields,
                             uint64_t count) {
    uint64_t alignment;
    uint64_t size = tn__tflm_struct(tail->model->options->target, fields, &alignment);
    tflm_take(tail, part, tn__mul_sat(size, count), alignment);
}

/* The bytes of the records of scratch requests, which lie at the bottom of the arena, with space
 * for the requests of one more operator. */
static uint64_t tflm_bottom(const tflm_tail *tail) {
    return tn__mul_sat(tflm_size(tail, "z2i"), tail->requests + TFLM_REQUESTS_MAX);
}

/* Records the memory that is needed at one moment during set-up, to find the largest. Temporary
 * memory lies above the records of scratch requests at the bottom of the arena. */
static void tflm_moment(tflm_tail *tail, uint64_t temporary) {
    uint64_t below = tn__add_sat(tflm_bottom(tail), temporary);
    if (below > tail->arena->temporary) tail->arena->temporary = below;
    uint64_t all = tn__add_sat(below, tail->used);
    if (all > tail->moments) tail->moments = all;
}

/* The bytes of the struct of a tensor with its quantisation. */
static uint64_t tflm_tensor_struct(const tflm_tail *tail, const tflm_tensor *tensor) {
    uint64_t size = tflm_size(tail, "ep2ippz2eb");
    if (tensor == NULL) return 0;
    if (tensor->channels) size += tflm_size(tail, "2pi") + 4 + 4 * (uint64_t)tensor->channels;
    return (size + 7) / 8 * 8;
}

static uint64_t tflm_prepare_structs(const tflm_tail *tail, const tflm_op *op) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < op->inputs.count; i++)
        sum = tn__add_sat(sum, tflm_tensor_struct(tail, tn__tflm_input(tail->model, op, i)));
    for (uint32_t i = 0; i < op->outputs.count; i++)
        sum = tn__add_sat(sum, tflm_tensor_struct(tail, tn__tflm_output(tail->model, op, i)));
    /* for the upper estimate twice the sum, because several kernels request each of these structs
     * twice before they release any */
    return tail->model->options->most ? tn__mul_sat(2, sum) : sum;
}

/* Adds the interpreter's structs, then the options of all operators. */
static void tflm_start(tflm_tail *tail) {
    const tflite_plan *plan = tail->model->plan;
    uint32_t subgraphs = plan->subgraphs.count;
    tflm_take_struct(tail, TN_MICRO_PART_ALLOCATORS, "2p5ppi", 1); /* SingleArenaBufferAllocator */
    tflm_take_struct(tail, TN_MICRO_PART_ALLOCATORS, "p2i4p2ipb", 1); /* GreedyMemoryPlanner */
    tflm_take_struct(tail, TN_MICRO_PART_ALLOCATORS, "p4pbzpz", 1);   /* MicroAllocator */
    tflm_take_struct(tail, TN_MICRO_PART_ALLOCATORS, "2p", 1); /* MicroBuiltinDataAllocator */
    tflm_moment(tail, 0);
    tflm_take_struct(tail, TN_MICRO_PART_TENSORS, "2p", subgraphs); /* SubgraphAllocations */
    for (uint32_t s = 0; s < subgraphs; s++)
        tflm_take_struct(tail, TN_MICRO_PART_TENSORS, "2pe", plan->first[s + 1] - plan->first[s]);
    for (uint32_t s = 0; s < subgraphs; s++)
        tflm_take_struct(tail, TN_MICRO_PART_NODES, "6pip",
                         tail->model->first_op[s + 1] - tail->model->first_op[s]);
}

static void tflm_options_of(tflm_tail *tail, const tflm_need *needs, uint64_t ops) {
    for (uint64_t i = 0; i < ops; i++)
        if (needs[i].options)
            tflm_take(tail, TN_MICRO_PART_OPTIONS, needs[i].options, needs[i].options_alignment);
}

/* Adds a string of VAR_HANDLE's options, with its length, to the name of its variable. */
static void tflm_put_name(tflm_tail *tail, const tn__flat_table *options, uint32_t field) {
    tn__span text = {0};
    if (options->bytes) text = tn__flat_string(options, field);
    tn__text_printf(&tail->name, "%zu:", (size_t)text.size);
    tn__span_text(&tail->name, text);
}

/* Adds the buffer of a resource variable, which its first ASSIGN_VARIABLE allocates: the bytes of
 * the value. A handle that comes from another subgraph allocates nothing. */
static void tflm_assign(tflm_tail *tail, const tflm_op *op) {
    const tflm_tensor *handle = tn__tflm_input(tail->model, op, 0);
    const tflm_tensor *value = tn__tflm_input(tail->model, op, 1);
    if (strcmp(op->code->type, "ASSIGN_VARIABLE") != 0 || !handle || !value) return;
    if (handle->handle_of == 0) return;
    const tflm_op *maker = &tail->model->ops[handle->handle_of - 1];
    tn__flat_table options = tn__flat_child(&maker->table, TFLITE_OP_OPTIONS);
    tail->name.size = 0;
    /* the name of a resource variable consists of the options container and shared_name */
    tflm_put_name(tail, &options, 0);
    tflm_put_name(tail, &options, 1);
    if (tail->name.failed) {
        tail->status = TN_E_NO_MEMORY;
        return;
    }
    const char *name = tail->name.data;
    size_t length = tail->name.size;
    if (tn__names_find(&tail->allocated, name, length) != TN__NAMES_NONE) return;
    const char *kept = tn__arena_copy(&tail->model->arena, name, length);
    if (!kept || !tn__names_add(&tail->allocated, kept, length, 0, NULL))
        tail->status = TN_E_NO_MEMORY;
    tflm_take(tail, TN_MICRO_PART_VARIABLES, value->bytes, TFLM_ALIGNMENT);
}

/* Adds the buffers of all kernels: Init() allocates the first one of each kernel, Prepare() the
 * others. */
static void tflm_kernels_of(tflm_tail *tail, const tflm_need *needs, uint64_t ops) {
    for (uint64_t i = 0; i < ops; i++)
        if (needs[i].buffer_count)
            tflm_take(tail, TN_MICRO_PART_KERNELS, needs[i].buffers[0], TFLM_ALIGNMENT);
    for (uint64_t i = 0; i < ops; i++) {
        for (uint32_t k = 1; k < needs[i].buffer_count; k++)
            tflm_take(tail, TN_MICRO_PART_KERNELS, needs[i].buffers[k], TFLM_ALIGNMENT);
        tflm_assign(tail, &tail->model->ops[i]);
        tflm_moment(tail, tflm_prepare_structs(tail, &tail->model->ops[i]));
        tail->requests += needs[i].scratch_count;
    }
}

static void tflm_variables(tflm_tail *tail, const int64_t *offsets) {
    uint64_t tensors = tail->model->plan->first[tail->model->plan->subgraphs.count];
    for (uint64_t t = 0; t < tensors; t++)
        if (tail->model->tensors[t].is_variable && offsets[t] < 0)
            tflm_take(tail, TN_MICRO_PART_VARIABLES, tail->model->tensors[t].bytes, TFLM_ALIGNMENT);
}

/* Notes the moment with the planner's lists: records of each tensor and scratch request, then,
 * aligned to 16 bytes, of each buffer that it places. */
static void tflm_planner_moment(tflm_tail *tail) {
    const tflite_plan *plan = tail->model->plan;
    uint64_t tensors = plan->first[plan->subgraphs.count] + tail->model->scratch_count;
    uint64_t temporary = tn__mul_sat(tflm_size(tail, "z"), plan->subgraphs.count);
    temporary = tn__add_sat(temporary, tn__mul_sat(tflm_size(tail, "zp3ib"), tensors));
    uint64_t bottom = tflm_bottom(tail), start = tn__add_sat(bottom, temporary);
    uint64_t lists = tn__mul_sat(40, tail->arena->planned);
    if (!tn__align_up(start, TFLM_ALIGNMENT, &start)) start = UINT64_MAX;
    tflm_moment(tail, tn__add_sat(start, lists) - bottom);
}

/* Adds the structs for inputs or outputs of the main subgraph, which the code that calls the
 * interpreter uses. */
static void tflm_io(tflm_tail *tail, uint32_t field) {
    const tflm_model *model = tail->model;
    tn__flat_table graph = tn__flat_item(&model->plan->subgraphs, 0);
    tn__flat_vector list = tn__flat_list(&graph, field);
    tflm_take(tail, TN_MICRO_PART_IO, tflm_size(tail, "p") * list.count, TFLM_ALIGNMENT);
    for (uint32_t i = 0; i < list.count; i++) {
        int32_t index = tn__flat_int32(&list, i);
        if (index < 0) continue;
        tflm_take_struct(tail, TN_MICRO_PART_IO, "ep2ippz2eb", 1);
        const tflm_tensor *tensor = &model->tensors[index];
        if (!tensor->channels) continue;
        tflm_take_struct(tail, TN_MICRO_PART_IO, "2pi", 1);
        tflm_take(tail, TN_MICRO_PART_IO, 4 + 4 * (uint64_t)tensor->channels, 4);
    }
}

/* --- the arena of one build ------------------------------------------------------------------- */

/* A planned head of the arena, and the scratch requests for which it was planned. */
typedef struct tflm_head {
    uint64_t *scratch; /* [count] bytes of the requests, kept in the model's arena */
    uint32_t *counts;  /* [operators] number of requests of each operator */
    size_t count;
    int64_t *offsets; /* [tensors] where the planner places each tensor; -1: it places it nowhere */
    uint64_t head, planned;
} tflm_head;

typedef struct tflm_heads {
    tflm_head known[TFLM_BUILDS_MAX];
    uint32_t count;
    const int64_t *given; /* [tensors] the fixed offsets, before the run time's planner has run */
} tflm_heads;

static tn_status tflm_scratch(tflm_model *model, const tflm_need *needs, uint64_t ops) {
    model->scratch_count = 0;
    for (uint64_t i = 0; i < ops; i++) model->scratch_count += needs[i].scratch_count;
    model->scratch =
        tn__arena_array(&model->arena, model->scratch_count + 1, sizeof *model->scratch);
    if (!model->scratch) return tn__no_memory(model->error, "scratch");
    uint32_t at = 0;
    for (uint64_t i = 0; i < ops; i++) {
        model->ops[i].first_scratch = at;
        model->ops[i].scratch_count = needs[i].scratch_count;
        for (uint32_t k = 0; k < needs[i].scratch_count; k++)
            model->scratch[at++] = needs[i].scratch[k];
    }
    return TN_OK;
}

static bool tflm_same_scratch(const tflm_model *model, const tflm_head *known, uint64_t ops) {
    if (known->count != model->scratch_count) return false;
    for (uint64_t i = 0; i < ops; i++)
        if (known->counts[i] != model->ops[i].scratch_count) return false;
    return memcmp(known->scratch, model->scratch, known->count * sizeof *known->scratch) == 0;
}

/* Plans the head of the arena with the run time's planner, or reuses the head of an earlier build
 * that has equal scratch requests. */
static tn_status tflm_head_of(tflm_model *model, tflm_heads *heads, const tflm_head **head) {
    uint64_t ops = model->first_op[model->plan->subgraphs.count];
    uint64_t tensors = model->plan->first[model->plan->subgraphs.count];
    for (uint32_t i = 0; i < heads->count; i++) {
        *head = &heads->known[i];
        if (tflm_same_scratch(model, *head, ops)) return TN_OK;
    }
    tflm_head *next = &heads->known[heads->count++];
    next->scratch = model->scratch;
    next->count = model->scratch_count;
    next->counts = tn__arena_array(&model->arena, (size_t)ops + 1, sizeof *next->counts);
    next->offsets = tn__arena_array(&model->arena, (size_t)tensors + 1, sizeof *next->offsets);
    if (!next->counts || !next->offsets) return tn__no_memory(model->error, "the arena");
    for (uint64_t i = 0; i < ops; i++) next->counts[i] = model->ops[i].scratch_count;
    memcpy(next->offsets, heads->given, tensors * sizeof *next->offsets);
    *head = next;
    return tn__tflm_online(model, next->offsets, &next->head, &next->planned);
}

static tn_status tflm_check_sizes(const tflm_model *model) {
    uint64_t tensors = model->plan->first[model->plan->subgraphs.count];
    for (uint64_t t = 0; t < tensors; t++)
        if (model->tensors[t].is_unknown && !model->tensors[t].is_constant)
            TN_FAIL(model->error, TN_E_UNSUPPORTED,
                    "tensor %llu has no size: strings and variants have no place in this run time",
                    (unsigned long long)t);
    return TN_OK;
}

static tn_status tflm_tail_of(tflm_tail *tail, const tflm_need *needs, const tflm_head *head,
                              const int64_t *given) {
    const tflm_model *model = tail->model;
    uint64_t ops = model->first_op[model->plan->subgraphs.count];
    tn_micro_arena *arena = tail->arena;
    tflm_start(tail);
    tflm_options_of(tail, needs, ops);
    tflm_kernels_of(tail, needs, ops);
    if (tail->status != TN_OK) return tn__no_memory(model->error, "variables");
    if (model->scratch_count)
        tflm_take_struct(tail, TN_MICRO_PART_HANDLES, "p", model->scratch_count);
    tflm_variables(tail, given);
    arena->head = head->head;
    arena->planned = head->planned;
    arena->scratch = model->scratch_count;
    tflm_planner_moment(tail);
    tflm_io(tail, TFLITE_GRAPH_INPUTS);
    tflm_io(tail, TFLITE_GRAPH_OUTPUTS);
    arena->tail = tail->used;
    arena->tail_alignment = tail->used - tail->asked;
    arena->used = tn__add_sat(arena->head, arena->tail);
    arena->total = arena->used > tail->moments ? arena->used : tail->moments;
    if (!tn__align_up(arena->total, TFLM_ALIGNMENT, &arena->total))
        TN_FAIL(model->error, TN_E_UNSUPPORTED, "an arena of more than 2^64 bytes");
    return TN_OK;
}

static tn_status tflm_arena(tflm_model *model, tflm_heads *heads, tflm_need *needs,
                            tn_micro_arena *arena, const tflm_head **head) {
    uint64_t ops = model->first_op[model->plan->subgraphs.count];
    tflm_tail tail = {.model = model, .arena = arena};
    for (uint64_t i = 0; i < ops; i++) {
        tn__tflm_need(model, &model->ops[i], &needs[i]);
        arena->unknown_ops += !needs[i].is_known;
    }
    arena->kernels = tn__tflm_kernels_name(model->build->kernels);
    arena->version = model->build->name;
    TN_TRY(tflm_scratch(model, needs, ops));
    TN_TRY(tflm_head_of(model, heads, head));
    tn__names_init(&tail.allocated, &model->plan->context);
    tn__text_init(&tail.name, &model->plan->context);
    tn_status status = tflm_tail_of(&tail, needs, *head, heads->given);
    tn__names_release(&tail.allocated);
    tn__text_release(&tail.name);
    return status;
}

/* --- the smallest or largest arena of all builds ---------------------------------------------- */

static void tflm_widen(uint64_t *to, uint64_t value, bool most) {
    if (most ? value > *to : value < *to) *to = value;
}

/* Combines the arenas of two builds, number by number. The name is that of the build with the
 * deciding `total`. */
static void tflm_merge(tn_micro_arena *to, const tn_micro_arena *arena, bool most) {
    /* of builds with equal totals, the last one compared is named if the largest arena is sought
     * (`most`), the first one if the smallest is */
    if (most ? arena->total >= to->total : arena->total < to->total) {
        to->kernels = arena->kernels;
        to->version = arena->version;
    }
    tflm_widen(&to->head, arena->head, most);
    tflm_widen(&to->tail, arena->tail, most);
    for (uint32_t part = 0; part < TN_MICRO_PART_COUNT; part++)
        tflm_widen(&to->part[part], arena->part[part], most);
    tflm_widen(&to->tail_alignment, arena->tail_alignment, most);
    tflm_widen(&to->temporary, arena->temporary, most);
    tflm_widen(&to->total, arena->total, most);
    tflm_widen(&to->used, arena->used, most);
    tflm_widen(&to->planned, arena->planned, most);
    tflm_widen(&to->scratch, arena->scratch, most);
}

/* Computes the arenas of all builds. offsets receives where the run time's planner places tensors
 * in the build with the deciding head. */
static tn_status tflm_arenas(tflm_model *model, tflm_heads *heads, tn_micro_arena *arena,
                             const int64_t **offsets) {
    tflm_build builds[TFLM_BUILDS_MAX];
    uint32_t count;
    bool most = model->options->most;
    size_t ops = (size_t)model->first_op[model->plan->subgraphs.count];
    tflm_need *needs = tn__arena_array(&model->arena, ops + 1, sizeof *needs);
    if (!needs) return tn__no_memory(model->error, "the arena");
    TN_TRY(tn__tflm_builds(model->options, builds, &count, model->error));
    TN_TRY(tflm_check_sizes(model));
    for (uint32_t b = 0; b < count; b++) {
        tn_micro_arena one = {0};
        const tflm_head *head = NULL;
        model->build = &builds[b];
        TN_TRY(tflm_arena(model, heads, needs, &one, &head));
        if (b == 0 || (most ? one.head > arena->head : one.head < arena->head))
            *offsets = head->offsets;
        if (b == 0)
            *arena = one;
        else
            tflm_merge(arena, &one, most);
    }
    model->build = NULL;
    return TN_OK;
}

/* --- the public functions --------------------------------------------------------------------- */

/* Finds the fixed offsets by tensor of the file: those of the caller, or else those inside the
 * model. */
static tn_status tflm_offsets(const tflm_model *model, const tn_graph *graph, const uint64_t *given,
                              int64_t *offsets) {
    const tflite_plan *plan = model->plan;
    uint64_t tensors = plan->first[plan->subgraphs.count];
    tn__flat_vector numbers;
    for (uint64_t t = 0; t < tensors; t++) offsets[t] = -1;
    if (given == NULL) {
        TN_TRY(tn__tflite_plan_numbers(plan, &numbers));
        for (uint32_t i = 0; i < numbers.count; i++) offsets[i] = tn__flat_int32(&numbers, i);
        return TN_OK;
    }
    for (size_t i = 0; i < plan->place_count; i++) {
        uint64_t offset = given[plan->places[i].id];
        if (offset == TN_SIZE_UNKNOWN || !tn__tflite_plan_takes(graph, plan->places[i].id))
            continue;
        if (offset > INT64_MAX)
            TN_FAIL(model->error, TN_E_UNSUPPORTED, "an offset above 2^63 bytes");
        offsets[plan->places[i].tensor] = (int64_t)offset;
    }
    return TN_OK;
}

/* Whether the operator is the only custom operator with a known kernel: the one that Vela makes for
 * an Ethos-U. */
static bool tflm_is_ethos(const tn__flat_table *code) {
    tn__span name = tn__flat_string(code, TFLITE_CODE_CUSTOM);
    return name.size == 7 && memcmp(name.bytes, "ethos-u", 7) == 0;
}

static tn_status tflm_read_codes(tflm_model *model) {
    tn__flat_vector codes = tn__flat_list(&model->plan->model, TFLITE_MODEL_CODES);
    model->codes = tn__arena_array(&model->arena, (size_t)codes.count + 1, sizeof *model->codes);
    if (!model->codes) return tn__no_memory(model->error, "the operators");
    for (uint32_t i = 0; i < codes.count; i++) {
        tn__flat_table code = tn__flat_item(&codes, i);
        uint32_t builtin = tn__tflite_builtin(&code);
        const char *type = tn__tflite_operator(builtin);
        if (type != NULL && strcmp(type, "CUSTOM") == 0 && tflm_is_ethos(&code)) type = "ethos-u";
        model->codes[i] = (tflite_code){.builtin = builtin, .type = type ? type : "CUSTOM"};
    }
    model->code_count = codes.count;
    return TN_OK;
}

static tn_status tflm_open(tflm_model *model, const tn_graph *graph) {
    TN_TRY(tflm_read_codes(model));
    TN_TRY(tflm_read_tensors(model, graph));
    return tflm_read_ops(model);
}

static tn_status tflm_arena_of(tflm_model *model, const tn_graph *graph, const uint64_t *given,
                               tn_micro_arena *arena, uint64_t *placed) {
    TN_TRY(tflm_open(model, graph));
    uint64_t tensors = model->plan->first[model->plan->subgraphs.count];
    int64_t *offsets = tn__arena_array(&model->arena, (size_t)tensors + 1, sizeof *offsets);
    if (!offsets) return tn__no_memory(model->error, "offsets");
    TN_TRY(tflm_offsets(model, graph, given, offsets));
    tflm_heads *heads = tn__arena_array(&model->arena, 1, sizeof *heads);
    if (!heads) return tn__no_memory(model->error, "the arena");
    heads->given = offsets;
    const int64_t *laid = offsets;
    TN_TRY(tflm_arenas(model, heads, arena, &laid));
    for (uint32_t id = 0; placed && id < tn_graph_tensor_count(graph); id++)
        placed[id] = TN_SIZE_UNKNOWN;
    for (size_t i = 0; placed && i < model->plan->place_count; i++) {
        uint64_t tensor = model->plan->places[i].tensor;
        int64_t offset = model->tensors[tensor].handle_of == 0 ? laid[tensor] : -1;
        if (offset >= 0) placed[model->plan->places[i].id] = (uint64_t)offset;
    }
    return TN_OK;
}

/* Completes the given options with defaults, in the size of this version. */
static tn_micro_options tflm_options(const tn_micro_options *given) {
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    size_t size = sizeof options;
    if (given && given->struct_size && given->struct_size < size) size = given->struct_size;
    if (given) memcpy(&options, given, size);
    options.struct_size = sizeof options;
    return options;
}

static tn_status tflm_answer(const tflite_plan *plan, const tn_graph *graph,
                             const uint64_t *offsets, const tn_micro_options *options,
                             tn_micro_arena *arena, uint64_t *placed) {
    tn_micro_options complete = tflm_options(options);
    tn_micro_arena result = {0};
    tflm_model model = {.plan = plan, .options = &complete, .error = plan->error};
    tn__arena_init(&model.arena, &plan->context);
    tn_status status = tflm_arena_of(&model, graph, offsets, &result, placed);
    if (status == TN_OK) *arena = result;
    tn__arena_release(&model.arena);
    return status;
}

tn_status tn__tflm_arena_from(const char *name, tn__span bytes, const tn_import_options *import,
                              const tn_graph *graph, const uint64_t *offsets,
                              const tn_micro_options *options, tn_micro_arena *arena,
                              uint64_t *placed, tn_error *error) {
    tflite_plan plan;
    tn_status status = tn__tflite_plan_from(&plan, name, bytes, import, graph, error);
    if (status == TN_OK) status = tflm_answer(&plan, graph, offsets, options, arena, placed);
    tn__tflite_plan_close(&plan);
    return status;
}

tn_status tn_micro_arena_of(const char *path, const tn_import_options *import,
                            const tn_graph *graph, const uint64_t *offsets,
                            const tn_micro_options *options, tn_micro_arena *arena,
                            uint64_t *placed, tn_error *error) {
    tflite_plan plan;
    tn_status status = tn__tflite_plan_open(&plan, path, import, graph, error);
    if (status == TN_OK) status = tflm_answer(&plan, graph, offsets, options, arena, placed);
    tn__tflite_plan_close(&plan);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%.200s", path);
}

static uint64_t tflm_scratch_sum(const tflm_model *model, const tflm_op *op) {
    tflm_need need;
    uint64_t sum = 0, up;
    tn__tflm_need(model, op, &need);
    for (uint32_t k = 0; k < need.scratch_count; k++)
        if (tn__align_up(need.scratch[k], TFLM_ALIGNMENT, &up)) sum = tn__add_sat(sum, up);
    return sum;
}

static uint64_t tflm_kept(const tflm_model *model, const tflm_op *op) {
    tn_micro_target target = model->options->target;
    tflm_need need;
    uint64_t up, sum = TN__TFLM_SIZE(target, "6pip") + TN__TFLM_SIZE(target, "2pe");
    tn__tflm_need(model, op, &need);
    sum = tn__add_sat(sum, need.options);
    for (uint32_t k = 0; k < need.buffer_count; k++)
        if (tn__align_up(need.buffers[k], TFLM_ALIGNMENT, &up)) sum = tn__add_sat(sum, up);
    return sum;
}

/* Returns the largest or the smallest value, over all builds, of one number about an operator. */
static uint64_t tflm_over(tflm_model *model, const tflm_build *builds, uint32_t count,
                          uint64_t (*of)(const tflm_model *, const tflm_op *), const tflm_op *op) {
    uint64_t result = 0;
    for (uint32_t b = 0; b < count; b++) {
        model->build = &builds[b];
        uint64_t bytes = of(model, op);
        if (b == 0) result = bytes;
        tflm_widen(&result, bytes, model->options->most);
    }
    model->build = NULL;
    return result;
}

/* Computes the workspaces of a graph. The operators of a block, in the order of their ids,
 * correspond one to one to those of a subgraph in the order of the file. */
static tn_status tflm_workspaces(tflm_model *model, const tn_graph *graph, uint64_t *workspaces) {
    tflm_build builds[TFLM_BUILDS_MAX];
    uint32_t count;
    TN_TRY(tflm_open(model, graph));
    TN_TRY(tn__tflm_builds(model->options, builds, &count, model->error));
    size_t blocks = tn_graph_block_count(graph);
    uint64_t *next = tn__arena_array(&model->arena, blocks, sizeof *next);
    if (!next) return tn__no_memory(model->error, "scratch");
    for (size_t b = 0; b < blocks; b++) next[b] = model->first_op[model->plan->block_subgraphs[b]];
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        workspaces[id] = tflm_over(model, builds, count, tflm_scratch_sum,
                                   &model->ops[next[tn_graph_op(graph, id)->block]++]);
    return TN_OK;
}

static tn_status tflm_kept_all(tflm_model *model, const tn_graph *graph, uint64_t *kept,
                               uint64_t *move) {
    tflm_build builds[TFLM_BUILDS_MAX];
    uint32_t count;
    TN_TRY(tflm_open(model, graph));
    TN_TRY(tn__tflm_builds(model->options, builds, &count, model->error));
    uint64_t at = model->first_op[0];
    tn_micro_target target = model->options->target;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++)
        kept[id] = tn_graph_op(graph, id)->block == 0
                       ? tflm_over(model, builds, count, tflm_kept, &model->ops[at++])
                       : 0;
    *move = TN__TFLM_SIZE(target, "6pip") + 2 * TN__TFLM_SIZE(target, "2pe") + TFLM_ALIGNMENT;
    return TN_OK;
}

tn_status tn__tflm_kept_of(const tflite_plan *plan, const tn_graph *graph,
                           const tn_micro_options *options, uint64_t *kept, uint64_t *move) {
    tn_micro_options complete = tflm_options(options);
    tflm_model model = {.plan = plan, .options = &complete, .error = plan->error};
    tn__arena_init(&model.arena, &plan->context);
    tn_status status = tflm_kept_all(&model, graph, kept, move);
    tn__arena_release(&model.arena);
    return status;
}

tn_status tn__tflm_workspaces_of(const tflite_plan *plan, const tn_graph *graph,
                                 const tn_micro_options *options, uint64_t *workspaces) {
    tn_micro_options complete = tflm_options(options);
    tflm_model model = {.plan = plan, .options = &complete, .error = plan->error};
    tn__arena_init(&model.arena, &plan->context);
    tn_status status = tflm_workspaces(&model, graph, workspaces);
    tn__arena_release(&model.arena);
    return status;
}

tn_status tn__tflm_arena_at(const tflite_plan *plan, const tn_graph *graph, const uint64_t *offsets,
                            const tn_micro_options *options, tn_micro_arena *arena,
                            uint64_t *placed) {
    return tflm_answer(plan, graph, offsets, options, arena, placed);
}

tn_status tn_micro_workspaces(const char *path, const tn_import_options *import,
                              const tn_graph *graph, const tn_micro_options *options,
                              uint64_t *workspaces, tn_error *error) {
    tflite_plan plan;
    tn_status status = tn__tflite_plan_open(&plan, path, import, graph, error);
    if (status == TN_OK) status = tn__tflm_workspaces_of(&plan, graph, options, workspaces);
    tn__tflite_plan_close(&plan);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%.200s", path);
}
