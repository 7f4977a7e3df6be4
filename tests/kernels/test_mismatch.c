/* Kernels of arithmetic called past all rules: operands of any types and shapes, in blocks of
 * exactly their size. They may refuse or compute something; under ASan they must not be caught
 * outside their operands, and without it nothing behind the output may change.
 */
#include "count.h"
#include "numbers.h"

static const char *const mismatch_types[] = {"Abs",
                                             "Erf",
                                             "Tanh",
                                             "Not",
                                             "IsInf",
                                             "Clip",
                                             "PRelu",
                                             "Selu",
                                             "Add",
                                             "Div",
                                             "Mod",
                                             "Pow",
                                             "BitShift",
                                             "Equal",
                                             "Less",
                                             "And",
                                             "Where",
                                             "Max",
                                             "Mean",
                                             "Sum",
                                             "Cast",
                                             "CastLike",
                                             "ReduceSum",
                                             "ReduceMax",
                                             "ReduceL2",
                                             "ReduceMean",
                                             "ArgMax",
                                             "ArgMin",
                                             "ReduceLogSumExp",
                                             "CumSum",
                                             "Softmax",
                                             "Hardmax",
                                             "LogSoftmax",
                                             "Relu",
                                             "HardSigmoid"};
static const tn_dtype mismatch_dtypes[] = {TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16,
                                           TN_UINT8,   TN_INT8,    TN_UINT16,  TN_INT32,
                                           TN_UINT64,  TN_INT64,   TN_BOOL};
enum { MISMATCH_OPERANDS = 4, MISMATCH_GUARD = 32 };

/* The tables, as `accepts` would look at a graph. */
extern const tn_kernel_family tn__kernels_unary, tn__kernels_binary, tn__kernels_reduce,
    tn__kernels_softmax;
static const tn_kernel_family *const families[] = {&tn__kernels_unary, &tn__kernels_binary,
                                                   &tn__kernels_reduce, &tn__kernels_softmax};

typedef struct mismatch_scene {
    tn__random random;
    tn_operand operands[MISMATCH_OPERANDS]; /* the last is the output */
    int64_t shapes[MISMATCH_OPERANDS][4];
} mismatch_scene;

static void mismatch_operand(mismatch_scene *scene, uint32_t k, tn_dtype dtype) {
    tn_operand *operand = &scene->operands[k], *first = &scene->operands[0];
    tn__random *random = &scene->random;
    *operand = (tn_operand){.dtype = dtype, .shape = scene->shapes[k]};
    bool like = k > 0 && tn__random_below(random, 4) != 0;
    operand->rank = like ? first->rank : (uint32_t)tn__random_below(random, 5);
    for (uint32_t d = 0; d < operand->rank; d++) {
        operand->shape[d] = like ? first->shape[d] : (int64_t)tn__random_below(random, 6);
        if (tn__random_below(random, 8) == 0) operand->shape[d] = 1;
    }
    operand->room = tn__operand_bytes(operand);
#if defined(__SANITIZE_ADDRESS__)
    operand->data = malloc(operand->room > 0 ? operand->room : 1);
#else
    operand->data = malloc(operand->room + MISMATCH_GUARD);
    memset((char *)operand->data + operand->room, 0x5a, MISMATCH_GUARD);
#endif
    assert_non_null(operand->data);
    for (uint64_t i = 0; i < operand->room; i++) {
        bool odd = tn__random_below(random, 3) == 0 && dtype != TN_BOOL;
        ((uint8_t *)operand->data)[i] = (uint8_t)tn__random_below(random, odd ? 256 : 2);
    }
}

static bool mismatch_run(mismatch_scene *scene, const char *type, uint32_t inputs) {
    tn__random *random = &scene->random;
    const int64_t axis = (int64_t)tn__random_below(random, 9) - 4, one = 1;
    const int64_t axes[] = {(int64_t)tn__random_below(random, 6) - 3, 0};
    const tn_attr attrs[] = {{"axis", TN_ATTR_INT, 1, .ints = &axis},
                             {"fmod", TN_ATTR_INT, 1, .ints = &one},
                             {"axes", TN_ATTR_INTS, 1, .ints = axes}};
    tn_error error;
    tn_op op = {.name = "",
                .type = type,
                .domain = "",
                .attrs = attrs,
                .attr_count = (uint32_t)tn__random_below(random, 4),
                .input_count = inputs};
    const tn_kernel *kernel = NULL;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (uint32_t k = 0; k < families[f]->kernel_count; k++)
            if (strcmp(families[f]->kernels[k].type, type) == 0) kernel = &families[f]->kernels[k];
    assert_non_null(kernel);
    tn_kernel_call call = {.op = &op,
                           .version = tn__random_below(random, 2) ? 6 : 13,
                           .inputs = scene->operands,
                           .input_count = inputs,
                           .outputs = &scene->operands[MISMATCH_OPERANDS - 1],
                           .output_count = 1,
                           .error = &error};
    return kernel->run(&call) == TN_OK;
}

static void whatever_the_operands_kernels_stay_within_them(void **state) {
    (void)state;
    static mismatch_scene scene;
    for (size_t t = 0; t < sizeof mismatch_types / sizeof *mismatch_types; t++) {
        const char *type = mismatch_types[t];
        bool bits = strcmp(type, "BitShift") == 0;
        uint32_t well = 0;
        for (uint64_t seed = 1; seed <= case_count(2000, 200); seed++) {
            scene.random.state = seed * 64 + t;
            tn_dtype dtypes[MISMATCH_OPERANDS];
            for (uint32_t k = 0; k < MISMATCH_OPERANDS; k++) {
                dtypes[k] = mismatch_dtypes[tn__random_below(&scene.random, 11)];
                if (k > 0 && seed % 2 == 0) dtypes[k] = dtypes[0];
                if (bits) dtypes[k] = TN_UINT8;
            }
            if (strncmp(type, "Arg", 3) == 0 && seed % 2 == 0) dtypes[3] = TN_INT64;
            for (uint32_t k = 0; k < MISMATCH_OPERANDS; k++) mismatch_operand(&scene, k, dtypes[k]);
            well += mismatch_run(&scene, type, strcmp(type, "Cast") == 0 ? 1 : 3);
            for (uint32_t k = 0; k < MISMATCH_OPERANDS; k++) {
                tn_operand *operand = &scene.operands[k];
#if !defined(__SANITIZE_ADDRESS__)
                for (uint32_t i = 0; i < MISMATCH_GUARD; i++)
                    if (((uint8_t *)operand->data)[operand->room + i] != 0x5a)
                        fail_msg("seed %llu: %s wrote behind an operand", (unsigned long long)seed,
                                 type);
#endif
                free(operand->data);
            }
        }
        if (well < 5) fail_msg("%s ran only %u times of 2000", type, well);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_the_operands_kernels_stay_within_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
