/* operand_parts.c - the part of each operand that a rank needs to compute its part of one operator.
 *
 *     MatMul  [.., n, k] [k, m]      columns m: x whole, w cut, y cut
 *                                    rows n:    x cut, w whole, y cut
 *                                    sum k:     x cut, w cut, y a partial sum
 *     Reshape [.., 3 h d] -> [.., 3, h, d]      h cut: 3 blocks of the other's axis
 *     Split   [.., q + k + v]        q, k and v cut: one block each
 *
 * Axes and sums follow from the operators' rules for parts, which are asked about single elements:
 * only if an element depends on exactly the element at the same place (no halo, no scaling) does
 * any cut of one tensor apply to the other.
 */
#include "graph/tensor_parallel/cut.h"

bool tn__cut_same(const tn__cut *a, const tn__cut *b) {
    if (a->axis != b->axis || a->blocks != b->blocks) return false;
    if (a->sizes == b->sizes) return true;
    return a->sizes != NULL && b->sizes != NULL &&
           memcmp(a->sizes, b->sizes, a->blocks * sizeof *a->sizes) == 0;
}

bool tn__cuts_divides(const tn__cuts *it, const tn_tensor *tensor, const tn__cut *cut) {
    int64_t extent = tensor->shape[cut->axis];
    if (cut->sizes == NULL)
        return extent % cut->blocks == 0 && extent / cut->blocks % it->ranks == 0;
    for (uint32_t b = 0; b < cut->blocks; b++)
        if (cut->sizes[b] % it->ranks != 0) return false;
    return true;
}

bool tn__cuts_takes_part(const tn__cuts *it, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
    bool alone =
        tensor->kind == TN_KIND_PARAMETER && tensor->producer == TN_NONE && it->uses[id] == 1;
    return tensor->block == 0 && (it->depends[id] || alone);
}

bool tn__cuts_looks(const tn__cuts *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    bool known = tn__op_has(it->graph, id, TN_RULE_SHAPE_ONLY);
    for (uint32_t k = 0; k < op->output_count && known; k++)
        known =
            op->outputs[k] == TN_NONE || tn_graph_tensor(it->graph, op->outputs[k])->value != NULL;
    return known;
}

static const tn_tensor *link_input(const tn__cuts *it, const tn_op *op, uint32_t index) {
    return op->inputs[index] == TN_NONE ? NULL : tn_graph_tensor(it->graph, op->inputs[index]);
}

/* --- operators that give the same elements another shape --- */

static bool link_flat(const tn_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (tensor->shape[d] < 1) return false;
        count = tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    }
    return count < INT64_MAX;
}

/* Finds the axis of `to` along which parts have the same elements as the parts of the cut axis: the
 * products of the extents before both axes are equal. */
static bool link_reshape(const tn_tensor *from, const tn__cut *cut, const tn_tensor *to,
                         tn__cut *other) {
    int64_t outer = cut->blocks, before = 1;
    if (cut->sizes != NULL || !link_flat(from) || !link_flat(to)) return false;
    for (uint32_t d = 0; d < cut->axis; d++) outer *= from->shape[d];
    for (uint32_t d = 0; d < to->rank; d++) {
        int64_t behind = before * to->shape[d];
        if (outer < behind) {
            *other = (tn__cut){.axis = d, .blocks = (uint32_t)(outer / before)};
            return outer % before == 0 && to->shape[d] % (outer / before) == 0;
        }
        before = behind;
    }
    return false;
}

static bool link_reshapes(tn__cuts *it, const tn_op *op, bool output, uint32_t index,
                          const tn__cut *cut) {
    const tn_tensor *x = link_input(it, op, 0), *y = tn_graph_tensor(it->graph, op->outputs[0]);
    tn__cut *in = &it->link.inputs[0], *out = &it->link.outputs[0];
    if (index != 0) return false;
    *(output ? out : in) = *cut;
    return output ? link_reshape(y, cut, x, in) : link_reshape(x, cut, y, out);
}

/* --- Split and Concat, if the cut is along the axis that they split or join --- */

/* Returns the extents of the tensors along the axis; NULL if memory runs out or an extent is
 * unknown. */
static int64_t *link_sizes(tn__cuts *it, const tn_tensor_id *pieces, uint32_t count, uint32_t axis,
                           bool *equal) {
    int64_t *sizes = tn__arena_array(it->arena, count, sizeof *sizes);
    *equal = true;
    for (uint32_t p = 0; p < count && sizes != NULL; p++) {
        if (pieces[p] == TN_NONE) return NULL;
        sizes[p] = tn_graph_tensor(it->graph, pieces[p])->shape[axis];
        *equal = *equal && sizes[p] == sizes[0];
    }
    return sizes;
}

/* Sets the cuts for a Split or Concat along the cut axis: each piece has one block, and the whole
 * tensor one block for each piece. Returns false if the given cut is another one. */
static bool link_beside(tn__cuts *it, const tn_tensor_id *pieces, uint32_t count, tn__cut *parts,
                        tn__cut *whole, bool from_whole, const tn__cut *cut) {
    bool equal;
    const int64_t *sizes = link_sizes(it, pieces, count, cut->axis, &equal);
    if (sizes == NULL) return false;
    tn__cut all = {.axis = cut->axis, .blocks = count, .sizes = equal ? NULL : sizes};
    if (from_whole ? !tn__cut_same(cut, &all) : cut->blocks != 1) return false;
    *whole = all;
    for (uint32_t p = 0; p < count; p++) parts[p] = (tn__cut){.axis = cut->axis, .blocks = 1};
    return true;
}

/* Whether `cut` is along the axis that the operator splits or joins. */
static bool link_is_beside(const tn__cuts *it, const tn_op *op, const tn__cut *cut) {
    const tn_tensor *x = link_input(it, op, 0);
    bool splits = tn__op_is(op, "Split");
    if ((!splits && !tn__op_is(op, "Concat")) || x == NULL) return false;
    int64_t axis = tn__attr_int(op, "axis", splits || op->version >= 4 ? 0 : 1);
    return (axis < 0 ? axis + x->rank : axis) == (int64_t)cut->axis;
}

static bool link_pieces(tn__cuts *it, const tn_op *op, bool output, const tn__cut *cut) {
    tn__op_cuts *to = &it->link;
    if (tn__op_is(op, "Split"))
        return link_beside(it, op->outputs, op->output_count, to->outputs, to->inputs, !output,
                           cut);
    return link_beside(it, op->inputs, op->input_count, to->inputs, to->outputs, output, cut);
}

/* --- cuts along an axis of the result, or along an axis that is summed over --- */

/* Whether an element of the result depends on the element of the input at the same place, and on no
 * other along this axis. */
static bool link_is_place(const tn__cuts *it, tn_op_id id, uint32_t axis, int64_t at,
                          uint32_t input) {
    tn__tile part = {axis, at, at + 1};
    tn__need need;
    return tn__op_split(it->graph, id, &part, input, &need) && part.first == at &&
           part.last == at + 1 && need.axis != TN_NONE && need.first == at && need.last == at + 1 &&
           need.before == 0 && need.after == 0 && need.extra == 0;
}

/* Finds the axis of an input that corresponds to an axis of the result; TN_NONE: all of the input
 * is needed. */
static bool link_needs(const tn__cuts *it, tn_op_id id, uint32_t axis, uint32_t input,
                       uint32_t *own) {
    const tn_op *op = tn_graph_op(it->graph, id);
    int64_t extent = tn_graph_tensor(it->graph, op->outputs[0])->shape[axis];
    tn__tile part = {axis, 0, extent};
    tn__need need;
    if (!tn__op_split(it->graph, id, &part, input, &need)) return false;
    *own = need.axis;
    if (need.axis == TN_NONE) return true;
    const tn_tensor *x = link_input(it, op, input);
    return x->shape[need.axis] == extent && link_is_place(it, id, axis, 0, input) &&
           link_is_place(it, id, axis, extent / 2, input) &&
           link_is_place(it, id, axis, extent - 1, input);
}

static bool link_axis(tn__cuts *it, tn_op_id id, uint32_t axis, const tn__cut *cut) {
    const tn_op *op = tn_graph_op(it->graph, id);
    tn__cut to = *cut;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!link_needs(it, id, axis, i, &to.axis)) return false;
        it->link.inputs[i] = to.axis == TN_NONE ? (tn__cut){0} : to;
    }
    to.axis = axis;
    for (uint32_t k = 0; k < op->output_count; k++) it->link.outputs[k] = to;
    return true;
}

/* Finds the axis of the result that corresponds to an axis of an input. */
static bool link_from_input(tn__cuts *it, tn_op_id id, uint32_t input, const tn__cut *cut) {
    const tn_op *op = tn_graph_op(it->graph, id);
    const tn_tensor *y = tn_graph_tensor(it->graph, op->outputs[0]);
    for (uint32_t axis = 0; axis < y->rank; axis++) {
        uint32_t own;
        if (link_needs(it, id, axis, input, &own) && own == cut->axis)
            return link_axis(it, id, axis, cut);
    }
    return false;
}

/* --- sums --- */

static bool link_sums(tn__cuts *it, tn_op_id id, uint32_t input, const tn__cut *cut) {
    const tn_op *op = tn_graph_op(it->graph, id);
    const tn_op_rule *rule = tn__rule_of(it->graph, id);
    tn__cut to = *cut;
    if (!tn__op_sums(it->graph, id, input, &to.axis) || to.axis != cut->axis) return false;
    /* an operator with `sums_as` depends on the position in the whole tensor, so it needs one
     * contiguous part */
    if (rule->sums_as != NULL && cut->blocks != 1) return false;
    int64_t extent = link_input(it, op, input)->shape[cut->axis];
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!tn__op_sums(it->graph, id, i, &to.axis)) return false;
        it->link.once[i] = to.axis == TN__SUM_ONCE;
        bool part = to.axis != TN__SUM_WHOLE && to.axis != TN__SUM_ONCE;
        if (part && link_input(it, op, i)->shape[to.axis] != extent) return false;
        it->link.inputs[i] = part ? to : (tn__cut){0};
    }
    it->link.sums = true;
    return op->output_count == 1;
}

bool tn__cuts_link(tn__cuts *it, tn_op_id id, bool output, uint32_t index, tn__cut given) {
    const tn_op *op = tn_graph_op(it->graph, id);
    const tn__cut *cut = &given;
    if (op->output_count == 0 || op->outputs[0] == TN_NONE || tn__rule_of(it->graph, id) == NULL)
        return false;
    memset(it->link.inputs, 0, op->input_count * sizeof *it->link.inputs);
    memset(it->link.outputs, 0, op->output_count * sizeof *it->link.outputs);
    memset(it->link.once, 0, op->input_count * sizeof *it->link.once);
    it->link.sums = false;
    if (tn__op_has(it->graph, id, TN_RULE_RESHAPES))
        return link_reshapes(it, op, output, index, cut);
    if (link_is_beside(it, op, cut)) return link_pieces(it, op, output, cut);
    if (output) return link_axis(it, id, cut->axis, cut);
    return link_from_input(it, id, index, cut) || link_sums(it, id, index, cut);
}
