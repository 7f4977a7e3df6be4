/* draft.c - implements the editing of graphs (rewrite.h). Lists live in one arena; the number of
 * uses of each tensor is updated with every change. */
#include "graph/element.h"
#include "graph/rewrite/rewrite.h"

#include <math.h>

#include "graph/attr.h"

/* --- looking --- */

tn_tensor_id tn__draft_input(const tn__draft *draft, tn_op_id id, uint32_t index) {
    const tn_op *op = tn__draft_op_of(draft, id);
    return index < op->input_count ? op->inputs[index] : TN_NONE;
}

tn_op_id tn__draft_producer(const tn__draft *draft, tn_op_id id, uint32_t index, const char *type) {
    tn_tensor_id input = tn__draft_input(draft, id, index);
    if (input == TN_NONE) return TN_NONE;
    tn_op_id producer = draft->tensors[input].producer;
    if (producer == TN_NONE || draft->ops[producer].op.block != 0) return TN_NONE;
    return type == NULL || tn__draft_is(draft, producer, type) ? producer : TN_NONE;
}

tn_op_id tn__draft_only(const tn__draft *draft, tn_op_id id, uint32_t index, const char *type) {
    tn_op_id producer = tn__draft_producer(draft, id, index, type);
    if (producer == TN_NONE || draft->ops[producer].op.output_count != 1) return TN_NONE;
    const tn__draft_tensor *between = &draft->tensors[tn__draft_input(draft, id, index)];
    return between->uses == 1 && !between->fixed ? producer : TN_NONE;
}

bool tn__draft_is_static(const tn__draft *draft, tn_tensor_id id) {
    if (id == TN_NONE) return false;
    const tn_tensor *tensor = tn__draft_tensor_of(draft, id);
    return tensor->kind == TN_KIND_PARAMETER || tensor->kind == TN_KIND_CONSTANT ||
           (tensor->flags & TN_TENSOR_FOLDED) != 0;
}

bool tn__draft_is_known(const tn__draft *draft, tn_tensor_id id) {
    return tn__draft_is_static(draft, id) &&
           (tn__draft_tensor_of(draft, id)->flags & TN_TENSOR_UPDATED) == 0;
}

bool tn__draft_number(const tn__draft *draft, tn_tensor_id id, double *number) {
    if (id == TN_NONE) return false;
    const tn_tensor *tensor = tn__draft_tensor_of(draft, id);
    if (tensor->value == NULL || tensor->value->count != 1) return false;
    *number =
        tensor->value->floats != NULL ? tensor->value->floats[0] : (double)tensor->value->ints[0];
    return true;
}

bool tn__draft_is_number(const tn__draft *draft, tn_tensor_id id, double number) {
    double found;
    return tn__draft_number(draft, id, &found) && fabs(found - number) <= 1e-5 * fabs(number);
}

bool tn__draft_is_row(const tn__draft *draft, tn_tensor_id id, int64_t count) {
    if (!tn__draft_is_static(draft, id)) return false;
    const tn_tensor *tensor = tn__draft_tensor_of(draft, id);
    return tensor->dtype == TN_FLOAT32 && tensor->rank == 1 && tensor->shape[0] == count;
}

bool tn__draft_weights_axis(const tn__draft *draft, tn_op_id id, uint32_t *axis) {
    const tn_op *op = tn__draft_op_of(draft, id);
    tn_tensor_id w = tn__draft_input(draft, id, 1);
    uint32_t count, rank;
    if (!tn__draft_is_static(draft, w) || !tn__draft_is_exact(draft, w)) return false;
    rank = tn__draft_tensor_of(draft, w)->rank;
    *axis = rank - 1;
    if (tn__draft_has(draft, id, TN_RULE_CONV)) {
        *axis = 0;
        return rank >= 3;
    }
    if (tn__draft_is(draft, id, "ConvTranspose")) {
        *axis = 1;
        return rank >= 3 && tn__attr_int(op, "group", 1) == 1;
    }
    if (tn__draft_is(draft, id, "Gemm")) {
        *axis = tn__attr_int(op, "transB", 0) != 0 ? 0 : 1;
        return rank == 2;
    }
    const int64_t *perm = tn__attr_ints(op, "perm_b", &count);
    if (perm != NULL && count == rank && rank > 0) *axis = (uint32_t)perm[rank - 1];
    return rank >= 2 &&
           (tn__draft_is(draft, id, "MatMul") || tn__draft_is(draft, id, "tenure.MatMul"));
}

bool tn__draft_same_shape(const tn__draft *draft, tn_tensor_id a, tn_tensor_id b) {
    const tn_tensor *left = tn__draft_tensor_of(draft, a), *right = tn__draft_tensor_of(draft, b);
    return left->rank == right->rank && left->rank != TN_RANK_UNKNOWN &&
           (left->rank == 0 ||
            memcmp(left->shape, right->shape, left->rank * sizeof *left->shape) == 0);
}

bool tn__draft_is_exact(const tn__draft *draft, tn_tensor_id id) {
    return tn__draft_is_float(draft, id) && tn__draft_tensor_of(draft, id)->dtype == TN_FLOAT32;
}

bool tn__draft_is_float(const tn__draft *draft, tn_tensor_id id) {
    if (id == TN_NONE) return false;
    const tn_tensor *tensor = tn__draft_tensor_of(draft, id);
    if (!tn__is_short_float(tensor->dtype) || tensor->rank == TN_RANK_UNKNOWN ||
        (tensor->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE)) != 0)
        return false;
    for (uint32_t d = 0; d < tensor->rank; d++)
        if (tensor->shape[d] == TN_DIM_UNKNOWN) return false;
    return true;
}

tn_tensor_id tn__draft_row_of(const tn__draft *draft, tn_op_id add, tn_tensor_id *x) {
    if (add == TN_NONE) return TN_NONE;
    tn_tensor_id y = tn__draft_op_of(draft, add)->outputs[0];
    const tn_tensor *sum = tn__draft_tensor_of(draft, y);
    for (uint32_t i = 0; i < 2 && tn__draft_is_exact(draft, y) && sum->rank > 0; i++) {
        *x = tn__draft_input(draft, add, i);
        tn_tensor_id row = tn__draft_input(draft, add, 1 - i);
        if (tn__draft_same_shape(draft, *x, y) && tn__draft_is_exact(draft, *x) &&
            tn__draft_is_row(draft, row, sum->shape[sum->rank - 1]))
            return row;
    }
    return TN_NONE;
}

/* --- changing --- */

static tn_status draft_new_tensor(tn__draft *draft, tn_tensor_id *id) {
    if (!tn__reserve(&draft->context, &draft->tensors, &draft->tensor_room,
                     (size_t)draft->tensor_count + 1, sizeof *draft->tensors))
        return tn__no_memory(draft->error, "a rewritten graph");
    *id = draft->tensor_count++;
    draft->tensors[*id] = (tn__draft_tensor){.producer = TN_NONE, .twin = TN_NONE};
    return TN_OK;
}

tn_status tn__draft_add_tensor(tn__draft *draft, const char *name, tn_dtype dtype, uint32_t rank,
                               const int64_t *shape, tn_tensor_id *id) {
    int64_t *copy = tn__arena_copy(&draft->arena, shape, rank * sizeof *shape);
    char *text = tn__arena_string(&draft->arena, name, strlen(name));
    if (copy == NULL || text == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    TN_TRY(draft_new_tensor(draft, id));
    draft->tensors[*id].tensor = (tn_tensor){.name = text,
                                             .dtype = dtype,
                                             .kind = TN_KIND_ACTIVATION,
                                             .rank = rank,
                                             .shape = copy,
                                             .producer = TN_NONE,
                                             .repeat = 1};
    return TN_OK;
}

static tn_status draft_add_constant(tn__draft *draft, const char *name, tn_dtype dtype,
                                    const void *numbers, uint32_t count, tn_tensor_id *id) {
    int64_t extent = count;
    tn_value *value = tn__arena_alloc(&draft->arena, sizeof *value);
    void *copy = tn__arena_copy(&draft->arena, numbers, (count > 0 ? count : 1) * sizeof(double));
    if (value == NULL || copy == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    TN_TRY(tn__draft_add_tensor(draft, name, dtype, count > 0 ? 1 : 0, &extent, id));
    value->count = count > 0 ? count : 1;
    if (dtype == TN_INT64)
        value->ints = copy;
    else
        value->floats = copy;
    draft->tensors[*id].tensor.kind = TN_KIND_CONSTANT;
    draft->tensors[*id].tensor.value = value;
    return TN_OK;
}

tn_status tn__draft_add_floats(tn__draft *draft, const char *name, const double *numbers,
                               uint32_t count, tn_tensor_id *id) {
    return draft_add_constant(draft, name, TN_FLOAT32, numbers, count, id);
}

tn_status tn__draft_add_ints(tn__draft *draft, const char *name, const int64_t *numbers,
                             uint32_t count, tn_tensor_id *id) {
    return draft_add_constant(draft, name, TN_INT64, numbers, count, id);
}

static void draft_count_uses(tn__draft *draft, const tn_op *op, uint32_t by) {
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE) draft->tensors[op->inputs[i]].uses += by;
}

tn_status tn__draft_add_op(tn__draft *draft, tn_op_id before, const tn_op *like, tn_op_id *id) {
    tn_op op = *like;
    if (!tn__reserve(&draft->context, &draft->ops, &draft->op_room, (size_t)draft->op_count + 1,
                     sizeof *draft->ops))
        return tn__no_memory(draft->error, "a rewritten graph");
    op.name = draft->ops[before].op.name;
    op.block = 0;
    op.inputs = tn__arena_copy(&draft->arena, like->inputs, like->input_count * sizeof *op.inputs);
    op.outputs =
        tn__arena_copy(&draft->arena, like->outputs, like->output_count * sizeof *op.outputs);
    op.attrs = tn__draft_attrs(draft, like, NULL, 0, &op.attr_count);
    if (op.inputs == NULL || op.outputs == NULL || op.attrs == NULL)
        return tn__no_memory(draft->error, "a rewritten graph");
    *id = draft->op_count++;
    /* The new operator is placed before `before`, after all operators that were placed there
     * earlier. */
    draft->ops[*id] = (tn__draft_op){
        .op = op, .rule = tn__op_rule(op.domain, op.type), .at = draft->ops[before].at, .sub = *id};
    draft_count_uses(draft, &op, 1);
    for (uint32_t k = 0; k < op.output_count; k++) {
        if (op.outputs[k] == TN_NONE) continue;
        draft->tensors[op.outputs[k]].producer = *id;
        draft->tensors[op.outputs[k]].tensor.producer = *id;
    }
    return TN_OK;
}

tn_status tn__draft_fold(tn__draft *draft, tn_op_id before, const char *type,
                         const tn_tensor_id *inputs, uint32_t input_count, uint32_t rank,
                         const int64_t *shape, tn_tensor_id *id) {
    tn_op_id made;
    TN_TRY(tn__draft_add_tensor(draft, draft->ops[before].op.name, TN_FLOAT32, rank, shape, id));
    draft->tensors[*id].tensor.flags |= TN_TENSOR_FOLDED;
    tn_op op = {.type = type,
                .domain = "",
                .version = 13,
                .inputs = inputs,
                .outputs = id,
                .input_count = input_count,
                .output_count = 1};
    return tn__draft_add_op(draft, before, &op, &made);
}

tn_status tn__draft_become(tn__draft *draft, tn_op_id id, const char *domain, const char *type,
                           uint32_t version, const tn_tensor_id *inputs, uint32_t input_count,
                           const tn_attr *attrs, uint32_t attr_count) {
    tn_op op = draft->ops[id].op;
    op.domain = domain;
    op.type = type;
    op.version = version;
    op.inputs = tn__arena_copy(&draft->arena, inputs, input_count * sizeof *inputs);
    op.input_count = input_count;
    if (attrs != NULL) {
        op.attrs = tn__arena_copy(&draft->arena, attrs, attr_count * sizeof *attrs);
        op.attr_count = attr_count;
    }
    if (op.inputs == NULL || op.attrs == NULL)
        return tn__no_memory(draft->error, "a rewritten graph");
    draft_count_uses(draft, &op, 1);
    /* decreases the number of uses of the operator's inputs by one */
    draft_count_uses(draft, &draft->ops[id].op, UINT32_MAX);
    draft->ops[id].op = op;
    draft->ops[id].rule = tn__op_rule(domain, type);
    return TN_OK;
}

void tn__draft_divert(tn__draft *draft, tn_op_id id, tn_tensor_id output) {
    tn_tensor_id *outputs = (tn_tensor_id *)(uintptr_t)draft->ops[id].op.outputs;
    draft->tensors[outputs[0]].producer = draft->tensors[outputs[0]].tensor.producer = TN_NONE;
    draft->tensors[output].producer = draft->tensors[output].tensor.producer = id;
    outputs[0] = output;
}

void tn__draft_set(tn__draft *draft, tn_op_id id, uint32_t index, tn_tensor_id tensor) {
    /* The cast is safe: the list belongs to the draft, and the operator's type is const only for
     * readers. */
    tn_tensor_id *inputs = (tn_tensor_id *)(uintptr_t)draft->ops[id].op.inputs;
    if (inputs[index] != TN_NONE) draft->tensors[inputs[index]].uses--;
    if (tensor != TN_NONE) draft->tensors[tensor].uses++;
    inputs[index] = tensor;
}

void tn__draft_remove(tn__draft *draft, tn_op_id id) {
    draft_count_uses(draft, &draft->ops[id].op, UINT32_MAX);
    draft->ops[id].gone = true;
}

const tn_attr *tn__draft_attrs(tn__draft *draft, const tn_op *from, const tn_attr *more,
                               uint32_t more_count, uint32_t *count) {
    size_t most = (size_t)from->attr_count + more_count;
    tn_attr *made = tn__arena_array(&draft->arena, most + 1, sizeof *made);
    uint32_t filled = 0;
    if (made == NULL) return NULL;
    for (uint32_t i = 0; i < from->attr_count; i++) {
        bool replaced = false;
        for (uint32_t k = 0; k < more_count; k++)
            replaced = replaced || strcmp(more[k].name, from->attrs[i].name) == 0;
        if (!replaced) made[filled++] = from->attrs[i];
    }
    for (uint32_t k = 0; k < more_count; k++) {
        tn_attr attr = more[k];
        if (attr.ints != NULL)
            attr.ints = tn__arena_copy(&draft->arena, attr.ints, attr.count * sizeof *attr.ints);
        if (attr.floats != NULL)
            attr.floats =
                tn__arena_copy(&draft->arena, attr.floats, attr.count * sizeof *attr.floats);
        if (attr.strings != NULL)
            attr.strings =
                tn__arena_copy(&draft->arena, attr.strings, attr.count * sizeof *attr.strings);
        if ((more[k].ints != NULL && attr.ints == NULL) ||
            (more[k].floats != NULL && attr.floats == NULL) ||
            (more[k].strings != NULL && attr.strings == NULL))
            return NULL;
        made[filled++] = attr;
    }
    *count = filled;
    return made;
}

/* --- operators that can apply a bias, a summand and activations to their result --- */

bool tn__draft_is_open(const tn__draft *draft, tn_op_id id) {
    if (id == TN_NONE) return false;
    return tn__draft_has(draft, id, TN_RULE_CONV | TN_RULE_MATMUL) &&
           tn__attr(tn__draft_op_of(draft, id), "post") == NULL;
}

static bool draft_all_exact(const tn__draft *draft, const tn_op *op) {
    for (uint32_t i = 0; i < op->input_count; i++)
        if (op->inputs[i] != TN_NONE && !tn__draft_is_exact(draft, op->inputs[i])) return false;
    return op->output_count == 1 && tn__draft_is_exact(draft, op->outputs[0]);
}

/* Converts a Gemm to MatMul of domain "tenure", if its bias (if any) is a row without a factor. */
static tn_status draft_open_gemm(tn__draft *draft, tn_op_id id, bool *done) {
    static const int64_t swap[2] = {1, 0};
    const tn_op *op = tn__draft_op_of(draft, id);
    tn_tensor_id bias = tn__draft_input(draft, id, 2);
    tn_tensor_id inputs[3] = {op->inputs[0], op->inputs[1], bias};
    double alpha = tn__attr_float(op, "alpha", 1);
    tn_attr attrs[3];
    uint32_t count = 0;
    if (bias != TN_NONE) {
        const tn_tensor *row = tn__draft_tensor_of(draft, bias);
        if (tn__attr_float(op, "beta", 1) != 1 || row->rank != 1 ||
            row->shape[0] != tn__draft_tensor_of(draft, op->outputs[0])->shape[1])
            return TN_OK;
    }
    if (tn__attr_int(op, "transA", 0) != 0)
        attrs[count++] =
            (tn_attr){.name = "perm_a", .type = TN_ATTR_INTS, .count = 2, .ints = swap};
    if (tn__attr_int(op, "transB", 0) != 0)
        attrs[count++] =
            (tn_attr){.name = "perm_b", .type = TN_ATTR_INTS, .count = 2, .ints = swap};
    if (alpha != 1)
        attrs[count++] =
            (tn_attr){.name = "alpha", .type = TN_ATTR_FLOAT, .count = 1, .floats = &alpha};
    const tn_attr *kept = tn__draft_attrs(draft, &(tn_op){0}, attrs, count, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    *done = true;
    return tn__draft_become(draft, id, "tenure", "MatMul", 1, inputs, bias != TN_NONE ? 3 : 2, kept,
                            count);
}

/* Converts TransposedMatMul, the product in gradients in which the last two dimensions of an
 * operand may be exchanged, to MatMul of domain "tenure". */
static tn_status draft_open_flipped(tn__draft *draft, tn_op_id id, bool *done) {
    static const char *const names[2][2] = {{"trans_a", "perm_a"}, {"trans_b", "perm_b"}};
    const tn_op *op = tn__draft_op_of(draft, id);
    int64_t perms[2][TN_RANK_MAX];
    tn_attr attrs[2];
    uint32_t count = 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t rank = tn__draft_tensor_of(draft, op->inputs[i])->rank;
        if (tn__attr_int(op, names[i][0], 0) == 0) continue;
        for (uint32_t d = 0; d < rank; d++) perms[i][d] = d;
        perms[i][rank - 2] = rank - 1;
        perms[i][rank - 1] = rank - 2;
        attrs[count++] =
            (tn_attr){.name = names[i][1], .type = TN_ATTR_INTS, .count = rank, .ints = perms[i]};
    }
    const tn_attr *kept = tn__draft_attrs(draft, &(tn_op){0}, attrs, count, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    *done = true;
    return tn__draft_become(draft, id, "tenure", "MatMul", 1, op->inputs, op->input_count, kept,
                            count);
}

tn_status tn__draft_open(tn__draft *draft, tn_op_id id, bool *done) {
    const tn_op *op = tn__draft_op_of(draft, id);
    bool flips = tn__op_is(op, "tenure.TransposedMatMul");
    *done = strcmp(op->domain, "tenure") == 0 && !flips;
    if (*done || !draft_all_exact(draft, op)) return TN_OK;
    if (flips) return draft_open_flipped(draft, id, done);
    if (tn__op_is(op, "Gemm")) return draft_open_gemm(draft, id, done);
    for (uint32_t i = 0; i < 2; i++) /* an operand that is a vector cannot be fused */
        if (tn__draft_tensor_of(draft, op->inputs[i])->rank < 2) return TN_OK;
    *done = true;
    return tn__draft_become(draft, id, "tenure", op->type, 1, op->inputs, op->input_count,
                            op->attrs, op->attr_count);
}

tn_status tn__draft_take_over(tn__draft *draft, tn_op_id last, tn_op_id first) {
    const tn_op *op = tn__draft_op_of(draft, first);
    TN_TRY(tn__draft_become(draft, last, op->domain, op->type, op->version, op->inputs,
                            op->input_count, op->attrs, op->attr_count));
    draft->ops[last].op.name = op->name;
    tn__draft_remove(draft, first);
    return TN_OK;
}
