/* generate.c - generates tensor data for models without it: deterministic, and chosen so that
 * numbers neither vanish nor grow without bound in a network.
 *
 * Element i of a tensor is a function of seed, name and i alone (splitmix64 in counter mode), so
 * tensors can be made in any order and by any tool. The range depends on how the graph uses the
 * tensor. A weight with `fan_in` products per output is uniform in +- sqrt(3 / fan_in), which keeps
 * the variance. A scale or a divisor is far from 0. A bias is small. Uses are looked up once, by
 * name, because rewriting a graph changes its operators.
 *
 * The rule is documented in docs/contents.md and implemented again in tools/fill-weights; a test
 * compares both programs. Every expression rounds once, so that contraction by a compiler changes
 * nothing.
 *
 * Cost: O(operands) once, O(elements) for a tensor.
 * Source: LeCun and others, "Efficient BackProp" (1998), for the variance.
 */
#include <math.h>

#include "io/import/tensor_data.h"

enum { /* how the graph uses a tensor, as bits */
       GENERATE_POSITIVE = 1u << 0,
       GENERATE_SCALE = 1u << 1, /* a scale; it is positive if it has at most one dimension */
       /* weights [..., in, out]: a product sums over the last dimension but one */
       GENERATE_INNER = 1u << 2,
       GENERATE_LAST = 1u << 3 /* weights: a product sums over the last dimension */
};

static const struct {
    const char *type;
    uint32_t inputs; /* mask */
    uint32_t role;
} generate_uses[] = {
    {"BatchNormalization", 1u << 1 | 1u << 4, GENERATE_POSITIVE},
    {"Div", 1u << 1, GENERATE_POSITIVE},
    {"GRU", 1u << 1 | 1u << 2, GENERATE_LAST},
    {"GroupNormalization", 1u << 1, GENERATE_POSITIVE},
    {"InstanceNormalization", 1u << 1, GENERATE_POSITIVE},
    {"LSTM", 1u << 1 | 1u << 2, GENERATE_LAST},
    {"LayerNormalization", 1u << 1, GENERATE_POSITIVE},
    {"Log", 1u << 0, GENERATE_POSITIVE},
    {"MatMul", 1u << 1, GENERATE_INNER},
    {"Mul", 1u << 0 | 1u << 1, GENERATE_SCALE},
    {"Pow", 1u << 0 | 1u << 1, GENERATE_POSITIVE},
    {"RMSNormalization", 1u << 1, GENERATE_POSITIVE},
    {"RNN", 1u << 1 | 1u << 2, GENERATE_LAST},
    {"Reciprocal", 1u << 0, GENERATE_POSITIVE},
    {"Sqrt", 1u << 0, GENERATE_POSITIVE},
};

/* --- how the graph uses each tensor --- */

static uint32_t generate_role(const tn_op *op, uint32_t input) {
    if (input >= 32 || op->domain[0] != 0) return 0;
    for (size_t i = 0; i < sizeof generate_uses / sizeof *generate_uses; i++)
        if ((generate_uses[i].inputs >> input & 1) != 0 &&
            strcmp(op->type, generate_uses[i].type) == 0)
            return generate_uses[i].role;
    return 0;
}

static bool generate_note(tn__generator *generator, const char *name, uint32_t role) {
    size_t length = strlen(name);
    uint32_t at = tn__names_find(&generator->index, name, length);
    if (at != TN__NAMES_NONE) {
        generator->roles[at] |= role;
        return true;
    }
    char *text = tn__arena_string(&generator->arena, name, length);
    if (text == NULL ||
        !tn__reserve(generator->context, &generator->roles, &generator->role_room,
                     generator->role_count + 1, sizeof *generator->roles) ||
        !tn__names_add(&generator->index, text, length, (uint32_t)generator->role_count, NULL))
        return false;
    generator->roles[generator->role_count++] = role;
    return true;
}

static bool generate_note_all(tn__generator *generator, const tn_graph *graph) {
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        for (uint32_t i = 0; i < op->input_count; i++) {
            uint32_t role = op->inputs[i] != TN_NONE ? generate_role(op, i) : 0;
            if (role == 0) continue;
            const tn_tensor *tensor = tn_graph_tensor(graph, op->inputs[i]);
            if (tensor->producer == TN_NONE && !generate_note(generator, tensor->name, role))
                return false;
        }
    }
    return true;
}

tn_status tn__generator_create(const tn_graph *graph, uint64_t seed, const tn_context *context,
                               tn__generator **generator, tn_error *error) {
    tn__generator *made = tn__alloc(context, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "contents to make up");
    *made = (tn__generator){.context = context, .seed = seed};
    tn__arena_init(&made->arena, context);
    tn__names_init(&made->index, context);
    if (!generate_note_all(made, graph)) {
        tn__generator_destroy(made);
        return tn__no_memory(error, "contents to make up");
    }
    *generator = made;
    return TN_OK;
}

void tn__generator_destroy(tn__generator *generator) {
    if (generator == NULL) return;
    const tn_context *context = generator->context;
    tn__free(context, generator->roles, generator->role_room * sizeof *generator->roles);
    tn__names_release(&generator->index);
    tn__arena_release(&generator->arena);
    tn__free(context, generator, sizeof *generator);
}

/* --- numbers --- */

/* The begin of a tensor's sequence of random numbers: FNV-1a of its name, and the seed. */
static tn__random generate_start(uint64_t seed, const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name != 0; name++) hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
    tn__random mix = {seed};
    mix.state = hash ^ tn__random_next(&mix);
    return (tn__random){tn__random_next(&mix)};
}

static double generate_fan_in(const tn_tensor *tensor, uint32_t role) {
    double product = 1;
    if ((role & GENERATE_LAST) != 0) return (double)tensor->shape[tensor->rank - 1];
    if ((role & GENERATE_INNER) != 0) return (double)tensor->shape[tensor->rank - 2];
    for (uint32_t d = 1; d < tensor->rank; d++) product *= (double)tensor->shape[d];
    return product;
}

/* A uniform random number in (-1, 1): an odd multiple of 2^-24, so it is never 0. */
static double generate_unit(tn__random *random) {
    return (double)(2 * (int64_t)(tn__random_next(random) >> 40) + 1 - (1 << 24)) * 0x1p-24;
}

static void generate_floats(const tn__wanted *wanted, uint32_t role, tn__random random,
                            tn_dtype part, uint64_t count) {
    const tn_tensor *tensor = wanted->tensor;
    bool flat = tensor->rank < 2;
    bool positive = (role & GENERATE_POSITIVE) != 0 || ((role & GENERATE_SCALE) != 0 && flat);
    double bound = flat ? 0.01 : sqrt(3.0 / generate_fan_in(tensor, role));
    uint32_t bits = tn_dtype_bits(part);
    for (uint64_t i = 0; i < count; i++) {
        double unit = generate_unit(&random);
        /* the product 0.5 * unit is exact */
        double number = positive ? 1.0 + 0.5 * unit : bound * unit;
        tn__element_put(wanted->bytes, bits, i, tn__element_of(part, number));
    }
}

/* Fills integers with 0 or 1, which are valid for every index, flag and count. Types that hold
 * quantised weights get a wider range. */
static void generate_ints(const tn__wanted *wanted, tn__random random, uint64_t count) {
    uint64_t below = 2;
    int64_t least = 0;
    switch (wanted->tensor->dtype) {
    case TN_INT4:
    case TN_INT8:
    case TN_INT16:
        below = 16;
        least = -8;
        break;
    case TN_UINT4:
    case TN_UINT8:
    case TN_UINT16:
        below = 16;
        break;
    case TN_INT2:
        below = 4;
        least = -2;
        break;
    case TN_UINT2:
        below = 4;
        break;
    default:
        break;
    }
    uint32_t bits = tn_dtype_bits(wanted->tensor->dtype);
    memset(wanted->bytes, 0, (size_t)wanted->size);
    for (uint64_t i = 0; i < count; i++)
        tn__element_put(wanted->bytes, bits, i, tn__random_below(&random, below) + (uint64_t)least);
}

static bool generate_is_integer(tn_dtype dtype) {
    switch (dtype) {
    case TN_BOOL:
    case TN_INT2:
    case TN_UINT2:
    case TN_INT4:
    case TN_UINT4:
    case TN_INT8:
    case TN_UINT8:
    case TN_INT16:
    case TN_UINT16:
    case TN_INT32:
    case TN_UINT32:
    case TN_INT64:
    case TN_UINT64:
        return true;
    default:
        return false;
    }
}

tn_status tn__generate(const tn__generator *generator, const tn__wanted *wanted) {
    const tn_tensor *tensor = wanted->tensor;
    uint32_t at = tn__names_find(&generator->index, tensor->name, strlen(tensor->name));
    uint32_t role = at != TN__NAMES_NONE ? generator->roles[at] : 0;
    tn__random random = generate_start(generator->seed, tensor->name);
    /* the product does not overflow, because the size in bytes does not, and is not 0 */
    uint64_t count = 1;
    for (uint32_t d = 0; d < tensor->rank; d++) count *= (uint64_t)tensor->shape[d];
    switch (tensor->dtype) {
    case TN_FLOAT16:
    case TN_BFLOAT16:
    case TN_FLOAT32:
    case TN_FLOAT64:
        generate_floats(wanted, role, random, tensor->dtype, count);
        return TN_OK;
    case TN_COMPLEX64:
        generate_floats(wanted, role, random, TN_FLOAT32, 2 * count);
        return TN_OK;
    case TN_COMPLEX128:
        generate_floats(wanted, role, random, TN_FLOAT64, 2 * count);
        return TN_OK;
    default:
        break;
    }
    if (!generate_is_integer(tensor->dtype))
        TN_FAIL(wanted->error, TN_E_UNSUPPORTED, "contents of type %s are not made up",
                tn_dtype_name(tensor->dtype));
    generate_ints(wanted, random, count);
    return TN_OK;
}
