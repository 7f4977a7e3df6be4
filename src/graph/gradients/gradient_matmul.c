/* gradient_matmul.c - gradients of products: the gradient of an operand is a product of the other
 * operand and the given gradient, one of them transposed. Both operands are kept.
 *
 * If one matrix serves a whole batch (a linear layer), the batch is folded into the rows, so its
 * gradient is one product, which also sums over the batch.
 */
#include "graph/gradients/gradients.h"

/* Gemm: y = alpha a' b' + beta c. */

static tn_status matmul_gemm(tn_gradient *it, tn_tensor_id a, tn_tensor_id b, int64_t flip_a,
                             int64_t flip_b, double alpha, tn_tensor_id *output) {
    const tn_attr attrs[] = {TN__ATTR_INT("transA", &flip_a), TN__ATTR_INT("transB", &flip_b),
                             TN__ATTR_FLOAT("alpha", &alpha)};
    return tn__gradient_op(it, "Gemm", TN__LIST(a, b), attrs, 3, output);
}

tn_status tn__gradient_gemm(tn_gradient *it) {
    tn_tensor_id dy = it->given[0], a = it->op.inputs[0], b = it->op.inputs[1];
    int64_t flip_a = tn__attr_int(&it->op, "transA", 0) != 0;
    int64_t flip_b = tn__attr_int(&it->op, "transB", 0) != 0;
    double alpha = tn__attr_float(&it->op, "alpha", 1), beta = tn__attr_float(&it->op, "beta", 1);
    if (it->wanted[1])
        TN_TRY(flip_b ? matmul_gemm(it, dy, a, 1, flip_a, alpha, &it->found[1])
                      : matmul_gemm(it, a, dy, !flip_a, 0, alpha, &it->found[1]));
    if (it->wanted[0])
        TN_TRY(flip_a ? matmul_gemm(it, b, dy, flip_b, 1, alpha, &it->found[0])
                      : matmul_gemm(it, dy, b, 0, !flip_b, alpha, &it->found[0]));
    if (!tn__gradient_wants(it, 2)) return TN_OK;
    TN_TRY(tn__gradient_unbroadcast(it, 0, 2, dy));
    if (beta == 1) return TN_OK;
    tn_tensor_id factor, sum = it->found[2];
    TN_TRY(tn__gradient_number(it, tn__gradient_input(it, 2).dtype, beta, &factor));
    return tn__gradient_op(it, "Mul", TN__LIST(sum, factor), NULL, 0, &it->found[2]);
}

/* MatMul */

/* [rows, columns] of a tensor: all but the last dimension are rows. */
static tn_status matmul_flat(tn_gradient *it, tn_tensor_id id, uint32_t rank, int64_t columns,
                             tn_tensor_id *flat) {
    const int64_t shape[] = {-1, columns};
    tn_tensor_id list;
    *flat = id;
    if (rank == 2) return TN_OK;
    TN_TRY(tn__gradient_list(it, shape, 2, &list));
    return tn__gradient_op(it, "Reshape", TN__LIST(id, list), NULL, 0, flat);
}

/* a [..., n, k] times one b [k, m]. */
static tn_status matmul_linear(tn_gradient *it) {
    tn_tensor a = tn__gradient_input(it, 0), b = tn__gradient_input(it, 1);
    tn_tensor_id dy, x, product;
    TN_TRY(matmul_flat(it, it->given[0], a.rank, b.shape[1], &dy));
    if (it->wanted[1]) {
        TN_TRY(matmul_flat(it, it->op.inputs[0], a.rank, b.shape[0], &x));
        TN_TRY(matmul_gemm(it, x, dy, 1, 0, 1, &it->found[1]));
    }
    if (!it->wanted[0]) return TN_OK;
    TN_TRY(matmul_gemm(it, dy, it->op.inputs[1], 0, 1, 1, &product));
    it->found[0] = product;
    return a.rank == 2 ? TN_OK : tn__gradient_reshaped(it, 0, product);
}

/* An operand as a matrix, or a batch of them: a vector gets a dimension of 1. */
typedef struct matmul_side {
    tn_tensor_id id;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX];
} matmul_side;

static tn_status matmul_wide(tn_gradient *it, tn_tensor_id id, const tn_tensor *own, bool row,
                             bool column, matmul_side *side) {
    tn_tensor_id list;
    uint32_t from = own->rank;
    *side = (matmul_side){.id = id, .rank = own->rank + row + column};
    if (side->rank > TN_RANK_MAX) return tn__gradient_fail(it, "too many dimensions");
    for (uint32_t d = side->rank; d-- > 0;) {
        bool one = (column && d + 1 == side->rank) || (row && d + 2 == side->rank);
        side->shape[d] = one ? 1 : own->shape[--from];
    }
    if (!row && !column) return TN_OK;
    TN_TRY(tn__gradient_list(it, side->shape, side->rank, &list));
    return tn__gradient_op(it, "Reshape", TN__LIST(id, list), NULL, 0, &side->id);
}

/* Sums over the dimensions of the batch that were repeated. */
static tn_status matmul_settle(tn_gradient *it, uint32_t input, const matmul_side *own,
                               const matmul_side *y, tn_tensor_id product) {
    int64_t axes[TN_RANK_MAX], keep = 0;
    uint32_t count = 0;
    for (uint32_t d = 0; d + 2 < y->rank; d++)
        if (d + own->rank < y->rank ||
            (own->shape[d + own->rank - y->rank] == 1 && y->shape[d] != 1))
            axes[count++] = d;
    it->found[input] = product;
    bool vector = own->id != it->op.inputs[input];
    if (count == 0) return vector ? tn__gradient_reshaped(it, input, product) : TN_OK;
    tn_tensor_id list, sum;
    TN_TRY(tn__gradient_list(it, axes, count, &list));
    TN_TRY(tn__gradient_op(it, "ReduceSum", TN__LIST(product, list),
                           &TN__ATTR_INT("keepdims", &keep), 1, &sum));
    return tn__gradient_reshaped(it, input, sum);
}

static tn_status matmul_batched(tn_gradient *it) {
    const int64_t yes = 1, no = 0;
    const tn_attr left[] = {TN__ATTR_INT("trans_a", &yes), TN__ATTR_INT("trans_b", &no)};
    const tn_attr right[] = {TN__ATTR_INT("trans_a", &no), TN__ATTR_INT("trans_b", &yes)};
    tn_tensor a = tn__gradient_input(it, 0), b = tn__gradient_input(it, 1);
    tn_tensor out = tn__gradient_output(it, 0);
    bool row = a.rank == 1, column = b.rank == 1;
    matmul_side x, w, y;
    tn_tensor_id product;
    TN_TRY(matmul_wide(it, it->op.inputs[0], &a, row, false, &x));
    TN_TRY(matmul_wide(it, it->op.inputs[1], &b, false, column, &w));
    TN_TRY(matmul_wide(it, it->given[0], &out, row, column, &y));
    if (it->wanted[1]) {
        TN_TRY(tn__gradient_own(it, "TransposedMatMul", TN__LIST(x.id, y.id), left, 2, &product));
        TN_TRY(matmul_settle(it, 1, &w, &y, product));
    }
    if (!it->wanted[0]) return TN_OK;
    TN_TRY(tn__gradient_own(it, "TransposedMatMul", TN__LIST(y.id, w.id), right, 2, &product));
    return matmul_settle(it, 0, &x, &y, product);
}

tn_status tn__gradient_matmul(tn_gradient *it) {
    tn_tensor a = tn__gradient_input(it, 0), b = tn__gradient_input(it, 1);
    return a.rank > 1 && b.rank == 2 ? matmul_linear(it) : matmul_batched(it);
}
