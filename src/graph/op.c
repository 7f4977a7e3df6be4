/* op.c - the functions that rules are written with (op.h, attr.h): they read an operator and its
 * attributes, and decide its outputs.
 *
 * Setters write into the tensors at once; the driver (infer.c) clears the outputs before and
 * merges them with the file's statements afterwards. Shapes are immutable once set, so an output
 * that is like its input shares the array.
 */
#include "graph/attr.h"
#include "graph/rules/fold.h"
#include "graph/store.h"

#include <stdio.h>
#include <string.h>

/* --- access to operands and outputs ----------------------------------------------------------- */

/* --- reading --- */

static const tn_tensor *op_tensor(const tn_infer *infer, const tn_tensor_id *list, uint32_t count,
                                  uint32_t index) {
    if (index >= count || list[index] == TN_NONE) return NULL;
    return &infer->graph->tensors[list[index]];
}

const tn_tensor *tn__input(const tn_infer *infer, uint32_t index) {
    if (infer->state && infer->state->low && index < infer->op->input_count)
        return infer->op->inputs[index] == TN_NONE ? NULL : &infer->state->low[index];
    return op_tensor(infer, infer->op->inputs, infer->op->input_count, index);
}

const tn_tensor *tn__output(const tn_infer *infer, uint32_t index) {
    return op_tensor(infer, infer->op->outputs, infer->op->output_count, index);
}

bool tn__rank_known(const tn_tensor *tensor) { return tensor && tensor->rank != TN_RANK_UNKNOWN; }

bool tn__shape_known(const tn_tensor *tensor) {
    if (!tn__rank_known(tensor)) return false;
    for (uint32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] == TN_DIM_UNKNOWN) return false;
    return true;
}

uint32_t tn__memory_axis(const tn_tensor *tensor, uint32_t place) {
    if (tensor->format.order != TN_ORDER_NHWC || tensor->rank < 3 || place == 0) return place;
    return place + 1 < tensor->rank ? place + 1 : 1;
}

uint64_t tn__elements(const tn_tensor *tensor) {
    if (!tn__shape_known(tensor)) return TN_SIZE_UNKNOWN;
    uint64_t elements = 1;
    bool fits = true;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] == 0) return 0;
        fits = fits && tn__mul(elements, (uint64_t)tensor->shape[i], &elements);
    }
    return fits ? elements : TN_SIZE_UNKNOWN;
}

const tn_value *tn__attr_tensor_value(const tn_infer *infer, const char *name) {
    const tn_attr *attr = tn__attr(infer->op, name);
    return attr && attr->type == TN_ATTR_TENSOR ? infer->graph->tensors[attr->tensor].value : NULL;
}

static const tn__loose *op_loose(const tn_infer *infer, uint32_t index) {
    if (index >= infer->op->input_count || infer->op->inputs[index] == TN_NONE) return NULL;
    const tn__loose *loose = infer->graph->origins[infer->op->inputs[index]].loose;
    return loose && loose->most ? loose : NULL;
}

static bool op_has_bit(uint64_t bits, uint32_t index) {
    return bits >> (index < 63 ? index : 63) & 1;
}

/* Returns the bounds of an input, which the current run of the rule reads in place of unknown
 * values; NULL: no bounds. */
static const tn_value *op_bound(const tn_infer *infer, uint32_t index) {
    const tn_op_rule *rule = infer->graph->rules[infer->id];
    const tn__loose *loose = op_loose(infer, index);
    bool low = infer->state && infer->state->low;
    if (!rule || !loose) return NULL;
    if (op_has_bit(rule->monotone, index)) return low ? loose->least : loose->most;
    return op_has_bit(rule->antitone, index) ? (low ? loose->most : loose->least) : NULL;
}

/* Returns the values of a list without elements, which are known without data; NULL: not one. */
static const tn_value *op_empty(const tn_tensor *tensor) {
    static const int64_t none[1] = {0};
    static const tn_value empty = {.ints = none};
    bool exact = (tensor->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE)) == 0;
    bool index = tensor->dtype == TN_INT64 || tensor->dtype == TN_INT32;
    return exact && index && tensor->rank == 1 && tensor->shape[0] == 0 ? &empty : NULL;
}

const tn_value *tn__value(const tn_infer *infer, uint32_t index) {
    const tn_tensor *tensor = tn__input(infer, index);
    if (!tensor) return NULL;
    /* training updates this tensor, so its known value holds only before the first update */
    if (tensor->value && (tensor->flags & TN_TENSOR_UPDATED)) return NULL;
    if (tensor->value) return tensor->value;
    if (op_empty(tensor) != NULL) return op_empty(tensor);
    const tn_value *bound = op_bound(infer, index);
    if (bound && infer->state) infer->state->saw_bound = true;
    return bound;
}

bool tn__value_range(const tn_infer *infer, uint32_t index, const tn_value **least,
                     const tn_value **most) {
    const tn_tensor *tensor = tn__input(infer, index);
    const tn__loose *loose = op_loose(infer, index);
    if (!tensor || (tensor->flags & TN_TENSOR_UPDATED)) return false;
    *least = tensor->value ? tensor->value : loose ? loose->least : NULL;
    *most = tensor->value ? tensor->value : loose ? loose->most : NULL;
    return *least && *most;
}

bool tn__value_is_bound(const tn_infer *infer, uint32_t index) {
    const tn_tensor *tensor = tn__input(infer, index);
    return tensor && !tensor->value && op_bound(infer, index);
}

bool tn__value_is_rough(const tn_infer *infer, tn_tensor_id id) {
    return infer->graph->origins[id].rough;
}

bool tn__value_is_exact_at(const tn_infer *infer, uint32_t index, uint32_t element) {
    const tn_tensor *tensor = tn__input(infer, index);
    const tn__loose *loose = op_loose(infer, index);
    if (!tensor || tensor->value || !loose) return tensor && tensor->value;
    return loose->least && element < loose->most->count &&
           tn__value_at(loose->most, element) == tn__value_at(loose->least, element);
}

int64_t tn__least_extent(const tn_infer *infer, tn_tensor_id id, uint32_t axis) {
    const tn_graph *graph = infer->graph;
    return tn__is_loose(graph, id) ? graph->origins[id].loose->low[axis]
                                   : graph->tensors[id].shape[axis];
}

uint64_t tn__bound_axes(const tn_infer *infer, tn_tensor_id id) {
    const tn_graph *graph = infer->graph;
    uint64_t axes = 0;
    for (uint32_t d = 0; tn__is_loose(graph, id) && d < graph->tensors[id].rank; d++)
        if (graph->origins[id].loose->low[d] != graph->tensors[id].shape[d])
            axes |= UINT64_C(1) << d;
    return axes;
}

const int64_t *tn__value_ints(const tn_infer *infer, uint32_t index, uint32_t *count) {
    const tn_value *value = tn__value(infer, index);
    *count = value && value->ints ? value->count : 0;
    return value ? value->ints : NULL;
}

double tn__value_at(const tn_value *value, uint32_t index) {
    return value->floats ? value->floats[index] : (double)value->ints[index];
}

tn_status tn__axis(const tn_infer *infer, int64_t axis, uint32_t rank, uint32_t *result) {
    int64_t size = rank;
    if (axis < -size || axis >= size)
        return tn__infer_fail((tn_infer *)infer, "axis %lld is outside rank %u", (long long)axis,
                              rank);
    *result = (uint32_t)(axis < 0 ? axis + size : axis);
    return TN_OK;
}

/* --- deciding --- */

void *tn__scratch(tn_infer *infer, size_t count, size_t item) {
    struct infer_state *state = infer->state;
    uint64_t size;
    if (!state || !tn__mul(count, item, &size) || !tn__align_up(size, 16, &size)) return NULL;
    if (size <= TN__SCRATCH_SIZE - state->scratch_used) {
        void *block = state->scratch + state->scratch_used;
        state->scratch_used += (size_t)size;
        return memset(block, 0, (size_t)size);
    }
    state->overflowed = true;
    return tn__arena_alloc(&state->overflow, (size_t)size);
}

tn_status tn__infer_no_memory(tn_infer *infer) {
    return tn__no_memory(infer->error, "shape inference");
}

/* The tensor of an output, for writing; NULL if the output is omitted. */
static tn_tensor *op_output(tn_infer *infer, uint32_t index) {
    if (index >= infer->op->output_count || infer->op->outputs[index] == TN_NONE) return NULL;
    return &infer->graph->tensors[infer->op->outputs[index]];
}

static tn_status op_set_shape(tn_infer *infer, tn_tensor *tensor, tn_dtype dtype, uint32_t rank,
                              const int64_t *shape) {
    int64_t *copy = NULL;
    if (rank != TN_RANK_UNKNOWN && rank > TN_RANK_MAX)
        return tn__infer_fail(infer, "output '%.100s' would have rank %u; the most is %u",
                              tensor->name, rank, TN_RANK_MAX);
    if (rank != TN_RANK_UNKNOWN && rank) {
        copy = tn__arena_array(&infer->graph->found, rank, sizeof *copy);
        if (!copy) return tn__infer_no_memory(infer);
        for (uint32_t i = 0; i < rank; i++) {
            if (shape[i] < 0 && shape[i] != TN_DIM_UNKNOWN)
                return tn__infer_fail(infer, "dimension %u of output '%.100s' would be %lld", i,
                                      tensor->name, (long long)shape[i]);
            copy[i] = shape[i];
        }
    }
    tensor->dtype = dtype;
    tensor->rank = rank;
    tensor->shape = copy;
    return TN_OK;
}

tn_status tn__set_output(tn_infer *infer, uint32_t index, tn_dtype dtype, uint32_t rank,
                         const int64_t *shape) {
    tn_tensor *tensor = op_output(infer, index);
    return tensor ? op_set_shape(infer, tensor, dtype, rank, shape) : TN_OK;
}

tn_status tn__set_dtype(tn_infer *infer, uint32_t index, tn_dtype dtype) {
    tn_tensor *tensor = op_output(infer, index);
    if (tensor) tensor->dtype = dtype;
    return TN_OK;
}

tn_status tn__set_like(tn_infer *infer, uint32_t index, const tn_tensor *tensor) {
    tn_tensor *output = op_output(infer, index);
    if (!output || !tensor) return TN_OK;
    output->dtype = tensor->dtype;
    output->rank = tensor->rank;
    output->shape = tensor->shape;
    output->repeat = tensor->repeat;
    output->flags |= tensor->flags & TN_TENSOR_SEQUENCE;
    return TN_OK;
}

tn_status tn__set_sequence(tn_infer *infer, uint32_t index, tn_dtype dtype, uint32_t rank,
                           const int64_t *shape, uint64_t repeat) {
    tn_tensor *tensor = op_output(infer, index);
    if (!tensor) return TN_OK;
    TN_TRY(op_set_shape(infer, tensor, dtype, rank, shape));
    tensor->flags |= TN_TENSOR_SEQUENCE;
    tensor->repeat = repeat;
    return TN_OK;
}

static void op_mark_axes(tn_infer *infer, uint32_t index, uint64_t axes) {
    struct infer_state *state = infer->state;
    if (!state || !op_output(infer, index)) return;
    if (!state->axes)
        state->axes = tn__scratch(infer, infer->op->output_count, sizeof *state->axes);
    if (state->axes)
        state->axes[index] |= axes;
    else
        state->no_memory = true;
}

void tn__set_bound_axis(tn_infer *infer, uint32_t index, uint32_t axis) {
    op_mark_axes(infer, index, UINT64_C(1) << axis);
}

void tn__set_bound(tn_infer *infer, uint32_t index) { op_mark_axes(infer, index, UINT64_MAX); }

/* Stores values in the arena as the output's value. If they were computed from bounds, they are
 * bounds too: upper bounds when the rule runs the first time, lower bounds the second time. */
static tn_status op_set_value(tn_infer *infer, uint32_t index, const int64_t *ints,
                              const double *floats, uint32_t count) {
    tn_tensor *tensor = op_output(infer, index);
    if (!tensor || count > TN_VALUE_MAX || (tensor->flags & TN_TENSOR_BOUND) ||
        tn__elements(tensor) != count || tn__is_integer(tensor->dtype) != (ints != NULL))
        return TN_OK; /* values that are too many or of another type are not tracked */
    tn__arena *arena = &infer->graph->found;
    tn_value *value = tn__arena_alloc(arena, sizeof *value);
    if (!value) return tn__infer_no_memory(infer);
    value->count = count;
    /* one element more, so that the result is not NULL for 0 elements */
    void *copy = tn__arena_array(arena, (size_t)count + 1, 8);
    if (!copy) return tn__infer_no_memory(infer);
    if (count) memcpy(copy, ints ? (const void *)ints : floats, (size_t)count * 8);
    if (ints)
        value->ints = copy;
    else
        value->floats = copy;
    if (!infer->state || !(infer->state->saw_bound || infer->state->low)) {
        tensor->value = value;
        return TN_OK;
    }
    tn__loose *loose = tn__loose_of(infer->graph, infer->op->outputs[index]);
    if (!loose) return tn__infer_no_memory(infer);
    if (infer->state->low)
        loose->least = value;
    else
        loose->most = value;
    return TN_OK;
}

tn_status tn__set_value_ints(tn_infer *infer, uint32_t index, const int64_t *ints, uint32_t count) {
    return op_set_value(infer, index, ints, NULL, count);
}

tn_status tn__set_value_floats(tn_infer *infer, uint32_t index, const double *floats,
                               uint32_t count) {
    return op_set_value(infer, index, NULL, floats, count);
}

/* Broadcasts one aligned pair of extents. An extent marked `loose` is an upper bound, so the two
 * may differ. Then the exact one decides, because at run time the other must equal it or be 1.
 * Returns false on a contradiction. */
static bool op_broadcast_extent(int64_t a, bool a_loose, int64_t b, bool b_loose, int64_t *extent) {
    if (a == b || b == 1) {
        *extent = a;
    } else if (a == 1) {
        *extent = b;
    } else if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN) {
        *extent = a == TN_DIM_UNKNOWN ? b : a;
    } else if (a_loose || b_loose) {
        *extent = a_loose && b_loose ? (a > b ? a : b) : a_loose ? b : a;
    } else {
        return false;
    }
    return true;
}

tn_status tn__broadcast(tn_infer *infer, const tn_tensor *const *tensors, uint32_t count,
                        int64_t *shape, uint32_t *rank, bool *known) {
    *known = false;
    *rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!tn__rank_known(tensors[i])) return TN_OK;
        if (tensors[i]->rank > *rank) *rank = tensors[i]->rank;
    }
    *known = true;
    for (uint32_t d = 0; d < *rank; d++) {
        const tn_tensor *setter = NULL; /* the tensor that determined the extent so far */
        int64_t extent = 1;
        bool loose = false;
        for (uint32_t i = 0; i < count; i++) {
            const tn_tensor *tensor = tensors[i];
            if (d + tensor->rank < *rank) continue;
            int64_t own = tensor->shape[d + tensor->rank - *rank];
            bool own_loose = (tensor->flags & TN_TENSOR_BOUND) != 0;
            int64_t merged;
            if (!op_broadcast_extent(extent, loose, own, own_loose, &merged))
                return tn__infer_fail(infer,
                                      "'%.80s' and '%.80s' do not broadcast: extents %lld and %lld "
                                      "at dimension %u of %u",
                                      setter->name, tensor->name, (long long)extent, (long long)own,
                                      d, *rank);
            if (!setter || merged != extent) {
                setter = tensor;
                loose = own_loose;
            } else if (own == extent) {
                loose = loose && own_loose;
            }
            extent = merged;
        }
        shape[d] = extent;
    }
    return TN_OK;
}

void tn__set_folded(tn_infer *infer, uint32_t index) {
    tn_tensor *tensor = op_output(infer, index);
    if (!tensor) return;
    tensor->flags |= TN_TENSOR_FOLDED;
    if (tensor->kind == TN_KIND_ACTIVATION) tensor->kind = TN_KIND_CONSTANT;
}

tn_status tn__set_formal(tn_infer *infer, tn_tensor_id formal, const tn_tensor *like,
                         uint64_t axes) {
    const uint32_t taken = TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE;
    tn_tensor *tensor = &infer->graph->tensors[formal];
    int64_t low[TN_RANK_MAX];
    TN_TRY(op_set_shape(infer, tensor, like->dtype, like->rank, like->shape));
    tensor->flags =
        (tensor->flags & ~(taken | TN_TENSOR_STATED)) | (like->flags & TN_TENSOR_SEQUENCE);
    tensor->repeat = like->repeat;
    infer->graph->origins[formal].loose = NULL;
    if (!axes || tensor->rank == TN_RANK_UNKNOWN) return TN_OK;
    for (uint32_t d = 0; d < tensor->rank; d++) low[d] = axes >> d & 1 ? 0 : tensor->shape[d];
    return tn__loosen(infer->graph, formal, low, infer->error);
}

void tn__set_dead(tn_infer *infer, tn_block_id block) {
    infer->graph->blocks[block].view.dead = true;
}

void tn__set_tried(tn_infer *infer, tn_block_id block) { infer->graph->blocks[block].tried = true; }

tn_status tn__infer_fail(tn_infer *infer, const char *format, ...) {
    if (!infer->error) return TN_E_INVALID;
    char message[sizeof infer->error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    tn_status status = tn__fail(infer->error, TN_E_INVALID, "%s", message);
    return tn__op_where(infer->graph, infer->id, infer->error, status);
}

/* --- attributes ------------------------------------------------------------------------------- */

/* Functions that read the attributes of an operator. */

const tn_attr *tn__attr(const tn_op *op, const char *name) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (strcmp(op->attrs[i].name, name) == 0) return &op->attrs[i];
    return NULL;
}

int64_t tn__attr_int(const tn_op *op, const char *name, int64_t otherwise) {
    const tn_attr *attr = tn__attr(op, name);
    return attr != NULL && attr->type == TN_ATTR_INT && attr->ints != NULL ? attr->ints[0]
                                                                           : otherwise;
}

double tn__attr_float(const tn_op *op, const char *name, double otherwise) {
    const tn_attr *attr = tn__attr(op, name);
    if (attr != NULL && attr->type == TN_ATTR_INT && attr->ints != NULL)
        return (double)attr->ints[0]; /* 1 means 1.0 */
    return attr != NULL && attr->type == TN_ATTR_FLOAT && attr->floats != NULL ? attr->floats[0]
                                                                               : otherwise;
}

const char *tn__attr_string(const tn_op *op, const char *name, const char *otherwise) {
    const tn_attr *attr = tn__attr(op, name);
    return attr != NULL && attr->type == TN_ATTR_STRING && attr->strings != NULL ? attr->strings[0]
                                                                                 : otherwise;
}

const int64_t *tn__attr_ints(const tn_op *op, const char *name, uint32_t *count) {
    static const int64_t nothing = 0;
    const tn_attr *attr = tn__attr(op, name);
    *count = 0;
    if (attr == NULL || (attr->type != TN_ATTR_INTS && attr->type != TN_ATTR_INT)) return NULL;
    if (attr->ints == NULL) return &nothing;
    *count = attr->count;
    return attr->ints;
}

const double *tn__attr_floats(const tn_op *op, const char *name, uint32_t *count) {
    static const double nothing = 0;
    const tn_attr *attr = tn__attr(op, name);
    *count = 0;
    if (attr == NULL || (attr->type != TN_ATTR_FLOATS && attr->type != TN_ATTR_FLOAT)) return NULL;
    if (attr->floats == NULL) return &nothing;
    *count = attr->count;
    return attr->floats;
}

bool tn__op_has_blocks(const tn_op *op) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].type == TN_ATTR_BLOCK) return true;
    return false;
}

tn__attr_ranks tn__attr_of_ranks(const tn_op *op, const char *name) {
    static const char *const may[] = {"part", "from", "starts", "ends"};
    static const char *const own[] = {"first", "places", "rank"};
    if (strcmp(name, "seed") == 0) return TN__ATTR_MAY;
    if (op->domain == NULL || strcmp(op->domain, "tenure") != 0) return TN__ATTR_SAME;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return TN__ATTR_OF_RANK;
    for (size_t i = 0; i < sizeof may / sizeof *may; i++)
        if (strcmp(name, may[i]) == 0) return TN__ATTR_MAY;
    return TN__ATTR_SAME;
}
