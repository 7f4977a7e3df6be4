/* values.c - inputs with values that are known before the run: `values`.
 *
 * If a shape depends on the value of an input, the value must be known before planning. Such an
 * input becomes a parameter with a small value; shape inference and constant folding do the rest,
 * for every model format. It is no longer an input of the program: a run cannot change the value
 * that was planned for.
 */
#include "io/import/importer.h"

#define VALUES_EXACT 9007199254740992.0 /* 2^53: up to here each integer is a double */

static tn_status values_find(const tn_importer *importer, const tn_input_value *given,
                             tn_tensor_id *id) {
    char text[220];
    tn__list list = tn__list_begin(text, sizeof text);
    const tn_block *block = tn_graph_block(importer->graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(importer->graph, block->inputs[i]);
        *id = block->inputs[i];
        if (strcmp(tensor->name, given->name) == 0) return TN_OK;
        tn__list_add(&list, "'%.80s'", tensor->name);
    }
    TN_FAIL(importer->error, TN_E_INVALID, "`values` %.100s: no input has that name; inputs are %s",
            given->name, list.count ? tn__list_end(&list) : "none");
}

static tn_status values_check(const tn_importer *importer, const tn_input_value *given,
                              const tn_tensor *tensor) {
    uint64_t count = tensor->rank == TN_RANK_UNKNOWN ? TN_SIZE_UNKNOWN : 1;
    for (uint32_t d = 0; tensor->rank != TN_RANK_UNKNOWN && d < tensor->rank; d++)
        count = tensor->shape[d] == TN_DIM_UNKNOWN ? TN_SIZE_UNKNOWN
                                                   : tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    if ((tensor->flags & TN_TENSOR_SEQUENCE) != 0 || count == TN_SIZE_UNKNOWN)
        TN_FAIL(importer->error, TN_E_UNSUPPORTED,
                "`values` %.100s: that input is not a tensor of a known shape (`input_shapes` "
                "gives one)",
                given->name);
    if (count != given->count || count > TN_VALUE_MAX || count == 0)
        TN_FAIL(importer->error, TN_E_INVALID,
                "`values` %.100s: %u numbers for an input of %llu elements (at most %u)",
                given->name, given->count, (unsigned long long)count, TN_VALUE_MAX);
    return TN_OK;
}

/* The range of an integer type; false: not an integer type. */
static bool values_range(tn_dtype dtype, double *least, double *most) {
    uint32_t bits = tn_dtype_bits(dtype);
    switch (dtype) {
    case TN_BOOL:
        bits = 1; /* fall through */
    case TN_UINT2:
    case TN_UINT4:
    case TN_UINT8:
    case TN_UINT16:
    case TN_UINT32:
    case TN_UINT64:
        *least = 0;
        *most = bits > 53 ? VALUES_EXACT : (double)((UINT64_C(1) << bits) - 1);
        return true;
    case TN_INT2:
    case TN_INT4:
    case TN_INT8:
    case TN_INT16:
    case TN_INT32:
    case TN_INT64:
        *most = bits > 54 ? VALUES_EXACT : (double)((UINT64_C(1) << (bits - 1)) - 1);
        *least = bits > 54 ? -VALUES_EXACT : -*most - 1;
        return true;
    default:
        return false;
    }
}

static tn_status values_ints(const tn_importer *importer, const tn_input_value *given,
                             const tn_tensor *tensor, int64_t *ints) {
    double least = 0, most = 0;
    if (!values_range(tensor->dtype, &least, &most))
        TN_FAIL(importer->error, TN_E_UNSUPPORTED,
                "`values` %.100s: contents of type %s cannot be given", given->name,
                tn_dtype_name(tensor->dtype));
    for (uint32_t i = 0; i < given->count; i++) {
        double number = given->numbers[i];
        bool fits = number >= least && number <= most; /* no NaN */
        ints[i] = fits ? (int64_t)number : 0;
        if (!fits || (double)ints[i] != number)
            TN_FAIL(importer->error, TN_E_INVALID, "`values` %.100s: %.9g is not of type %s",
                    given->name, number, tn_dtype_name(tensor->dtype));
    }
    return TN_OK;
}

/* Rounds as the type does, so that folding uses the values of a run. */
static void values_floats(const tn_input_value *given, tn_dtype dtype, double *floats) {
    for (uint32_t i = 0; i < given->count; i++)
        floats[i] = dtype == TN_FLOAT32 ? (double)(float)given->numbers[i] : given->numbers[i];
}

typedef union values_scratch {
    int64_t ints[TN_VALUE_MAX];
    double floats[TN_VALUE_MAX];
} values_scratch;

static tn_status values_set(const tn_importer *importer, const tn_input_value *given,
                            values_scratch *scratch) {
    tn_tensor_id id = TN_NONE;
    if (!given->name || !given->numbers)
        TN_FAIL(importer->error, TN_E_INVALID, "`values` needs a name and numbers: size=3,4");
    TN_TRY(values_find(importer, given, &id));
    const tn_tensor *tensor = tn_graph_tensor(importer->graph, id);
    TN_TRY(values_check(importer, given, tensor));
    bool floating = tensor->dtype == TN_FLOAT32 || tensor->dtype == TN_FLOAT64;
    if (floating)
        values_floats(given, tensor->dtype, scratch->floats);
    else
        TN_TRY(values_ints(importer, given, tensor, scratch->ints));
    tn_tensor_spec spec = {.dtype = tensor->dtype,
                           .kind = TN_KIND_PARAMETER,
                           .format = tensor->format,
                           .flags = tensor->flags,
                           .rank = tensor->rank,
                           .shape = tensor->shape,
                           .value = {.count = given->count,
                                     .ints = floating ? NULL : scratch->ints,
                                     .floats = floating ? scratch->floats : NULL}};
    return tn_graph_set_tensor(importer->graph, id, &spec, importer->error);
}

tn_status tn__import_values(const tn_importer *importer) {
    const tn_import_options *options = importer->options;
    if (options->value_count == 0) return TN_OK;
    values_scratch *scratch = tn__alloc(importer->context, sizeof *scratch);
    if (scratch == NULL) return tn__no_memory(importer->error, "the contents of inputs");
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < options->value_count && status == TN_OK; i++)
        status = values_set(importer, &options->values[i], scratch);
    tn__free(importer->context, scratch, sizeof *scratch);
    return status;
}
