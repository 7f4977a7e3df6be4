/* gradients_products.c - cases of gradients: products, convolutions, pools.
 */
#include "gradients.h"

/* --- products and maxima --- */

/* An equation; letters have extents that are drawn once. */
static tn_tensor_id build_einsum(net *n, const void *data) {
    const char *equation = data;
    int64_t extents[128];
    tn_tensor_id operands[3];
    uint32_t count = 0;
    shape s = {.rank = 0};
    for (uint32_t c = 0; c < 128; c++) extents[c] = draw(n, 1, 4);
    for (const char *c = equation;; c++) {
        bool label = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (label) s.extent[s.rank++] = extents[(int)*c];
        if (label || *c == ' ') continue;
        operands[count++] = param(n, 0, 1, &s);
        s.rank = 0;
        if (*c != ',') break;
    }
    net_attr_string(n, "equation", equation);
    return net_op(n, "Einsum", count, operands);
}

static tn_tensor_id build_global_max(net *n, const void *data) {
    shape s = draw_shape(n, 3, 5, 4);
    (void)data;
    return net_op(n, "GlobalMaxPool", NET_LIST(param(n, 0, 1, &s)));
}

void products_and_maxima(void **state) {
    static const char *const equations[] = {
        "ij,jk->ik",    "bij,bjk->bik", "bhqd, bhkd -> bhqk", "ij->ji", "ij->", "i,j->ij",
        "ij,ik,jl->kl", "ij,jk",        "abc,cd->ad",         "ba,ca",  "i,i->"};
    (void)state;
    EACH_SEED(seed) {
        for (size_t i = 0; i < sizeof equations / sizeof *equations; i++)
            check(build_einsum, equations[i], equations[i], seed);
        check(build_global_max, NULL, "GlobalMaxPool", seed);
    }
}
