/* Kernels called with operands that nobody checked: of any rank, any extents, any contents, in
 * blocks of exactly their size. Whatever they answer, they must not leave their operands; under
 * ASan they would be caught. Without it, the bytes behind the outputs tell.
 */
#include <math.h>

#include "boxes.h"

/* d: data of any type, n: a number of any type, i: int32 or int64, f: float32, b: bool, s: like
 * input 0, x: scalar like input 0. Capitals: may be omitted. */
typedef struct hostile {
    const char *type, *inputs, *outputs; /* outputs: s like input 0, i int64 */
    const char *ranks;                   /* most often, of inputs, then outputs; NULL: whichever */
} hostile;

static const hostile subjects[] = {
    {"Transpose", "d", "s", NULL},
    {"Expand", "di", "s", "112"},
    {"Tile", "dii", "s", "2112"},
    {"Slice", "diiII", "s", "211112"},
    {"Split", "dI", "sss", "21222"},
    {"Concat", "dss", "s", NULL},
    {"Pad", "diXI", "s", "21012"},
    {"CenterCropPad", "di", "s", "212"},
    {"DepthToSpace", "d", "s", "44"},
    {"SpaceToDepth", "d", "s", "44"},
    {"ReverseSequence", "di", "s", "212"},
    {"Trilu", "dI", "s", NULL},
    {"Gather", "di", "s", NULL},
    {"GatherElements", "di", "s", NULL},
    {"GatherND", "di", "s", NULL},
    {"ScatterElements", "nis", "s", NULL},
    {"ScatterND", "nis", "s", NULL},
    {"Compress", "db", "s", NULL},
    {"NonZero", "n", "i", NULL},
    {"Unique", "n", "siii", NULL},
    {"TopK", "ni", "si", "2122"},
    {"NonMaxSuppression", "ffIFF", "i", "331002"},
    {"OneHot", "iis", "s", "1012"},
    {"Range", "nxx", "s", "0001"},
    {"ConstantOfShape", "i", "s", NULL},
    {"EyeLike", "n", "s", NULL},
    {"HannWindow", "i", "s", NULL},
    {"RandomNormalLike", "n", "s", NULL},
    {"Bernoulli", "f", "s", NULL},
    {"Multinomial", "f", "i", "22"},
    {"Resize", "nFfI", "s", "22112"},
    {"Upsample", "nf", "s", "212"},
    {"GridSample", "nf", "s", "444"},
    {"RoiAlign", "ffi", "s", "4214"},
    {"MaxRoiPool", "ff", "s", "424"},
    {"Det", "f", "s", "31"},
    {"Einsum", "nss", "s", "2222"},
    {"Shape", "d", "i", NULL},
    {"Size", "d", "i", NULL},
    {"Reshape", "di", "s", NULL},
    {"TfIdfVectorizer", "i", "s", NULL},
};

enum { OPERANDS = 5, ATTRS = 24 };

typedef struct scene {
    tn__random random;
    tn_operand inputs[OPERANDS], outputs[OPERANDS];
    int64_t shapes[2 * OPERANDS][8], base[8];
    uint32_t rank;
    const char *ranks;
    tn_attr attrs[ATTRS];
    int64_t ints[ATTRS][8];
    const char *texts[ATTRS];
    double floats[ATTRS][8];
    uint32_t attr_count;
} scene;

static int64_t odd_int(tn__random *random) {
    static const int64_t odd[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, 1 << 20, -99};
    return tn__random_below(random, 20) ? random_in(random, -3, 4)
                                        : odd[tn__random_below(random, 6)];
}

static double odd_float(tn__random *random) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1e30, -1e9, 1e-30};
    return tn__random_below(random, 20) ? (double)random_in(random, -4, 8) / 2
                                        : odd[tn__random_below(random, 6)];
}

static void hostile_fill(tn__random *random, tn_operand *operand, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if (operand->dtype == TN_INT64) ((int64_t *)operand->data)[i] = odd_int(random);
        if (operand->dtype == TN_INT32) ((int32_t *)operand->data)[i] = (int32_t)odd_int(random);
        if (operand->dtype == TN_FLOAT32) ((float *)operand->data)[i] = (float)odd_float(random);
        if (operand->dtype == TN_FLOAT64) ((double *)operand->data)[i] = odd_float(random);
        if (operand->dtype == TN_UINT8 || operand->dtype == TN_BOOL)
            ((uint8_t *)operand->data)[i] = (uint8_t)tn__random_below(random, 2);
    }
}

static tn_dtype hostile_type(scene *of, char kind) {
    static const tn_dtype numbers[] = {TN_FLOAT32, TN_INT64, TN_UINT8, TN_FLOAT64};
    switch (kind) {
    case 'i':
        return tn__random_below(&of->random, 2) ? TN_INT64 : TN_INT32;
    case 'f':
        return TN_FLOAT32;
    case 'b':
        return TN_BOOL;
    case 'n':
        return numbers[tn__random_below(&of->random, 4)];
    case 'd':
        return random_type(&of->random);
    default:
        return of->inputs[0].dtype;
    }
}

static void hostile_input(scene *of, uint32_t k, char kind) {
    tn_operand *operand = &of->inputs[k];
    bool optional = kind < 'a';
    char plain = (char)(optional ? kind - 'A' + 'a' : kind);
    *operand = (tn_operand){.shape = of->shapes[k]};
    operand->omitted = optional && tn__random_below(&of->random, 2);
    operand->dtype = hostile_type(of, plain);
    if (operand->omitted) return;
    bool base = tn__random_below(&of->random, 3) != 0;
    operand->rank = base ? of->rank : (uint32_t)tn__random_below(&of->random, 5);
    if (plain == 'i' && tn__random_below(&of->random, 2)) operand->rank = 1;
    if (plain == 'x') operand->rank = 0;
    if (of->ranks != NULL) operand->rank = (uint32_t)(of->ranks[k] - '0');
    for (uint32_t d = 0; d < operand->rank; d++)
        operand->shape[d] = base ? of->base[d] : random_in(&of->random, 0, 5);
    uint64_t count = tn__operand_count(operand);
    operand->room = tn__operand_bytes(operand);
    operand->data = malloc(operand->room);
    if (operand->data == NULL) operand->data = malloc(1);
    if (operand->room > 0) memset(operand->data, 0, operand->room);
    hostile_fill(&of->random, operand, count);
}

static void hostile_output(scene *of, uint32_t k, char kind, uint32_t inputs) {
    tn_operand *operand = &of->outputs[k];
    *operand = (tn_operand){.shape = of->shapes[OPERANDS + k],
                            .dtype = kind == 'i' ? TN_INT64 : of->inputs[0].dtype,
                            .room = tn__random_below(&of->random, 1500)};
    operand->rank =
        tn__random_below(&of->random, 3) ? of->rank : (uint32_t)tn__random_below(&of->random, 6);
    if (of->ranks != NULL) operand->rank = (uint32_t)(of->ranks[inputs + k] - '0');
    for (uint32_t d = 0; d < operand->rank; d++) operand->shape[d] = 0;
    operand->data = malloc(operand->room + 16);
    memset((char *)operand->data + operand->room, 0x5a, 16);
#if defined(__SANITIZE_ADDRESS__)
    operand->data = realloc(operand->data, operand->room ? operand->room : 1);
#endif
}

static void hostile_attrs(scene *of) {
    static const char *const numbers[] = {"max_skip_count",
                                          "max_gram_length",
                                          "min_gram_length",
                                          "axis",
                                          "blocksize",
                                          "upper",
                                          "batch_dims",
                                          "time_axis",
                                          "batch_axis",
                                          "sorted",
                                          "k",
                                          "largest",
                                          "center_point_box",
                                          "start",
                                          "end",
                                          "sample_size",
                                          "align_corners",
                                          "sampling_ratio",
                                          "output_height",
                                          "output_width",
                                          "num_outputs",
                                          "periodic"};
    static const char *const lists[] = {"perm", "axes", "pooled_shape", "split"};
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    static const char *const samplings[] = {"nearest", "linear", "cubic", NULL};
    static const char *const equations[] = {"ij,jk,kl->il", "...i,...i,...->...", "ii,ij,j", "ab",
                                            "a...b,b,c->c..."};
    tn__random *random = &of->random;
    of->attr_count = 0;
    for (uint32_t i = 0; i < sizeof numbers / sizeof *numbers && of->attr_count < 12; i++) {
        if (tn__random_below(random, 3)) continue;
        int64_t *value = of->ints[of->attr_count];
        *value = odd_int(random);
        if (i >= 17 && i <= 19 && (*value > 99 || *value < -99)) *value = 3; /* time, not memory */
        of->attrs[of->attr_count++] = attr_int(numbers[i], value);
    }
    for (uint32_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (tn__random_below(random, 2)) continue;
        uint32_t count = tn__random_below(random, 2) ? of->rank : 2;
        for (uint32_t d = 0; d < count; d++)
            of->ints[of->attr_count][d] = i == 0   ? count - 1 - d
                                          : i == 2 ? random_in(random, -1, 3)
                                                   : odd_int(random);
        of->attrs[of->attr_count] = attr_ints(lists[i], of->ints[of->attr_count], count);
        of->attr_count++;
    }
    of->texts[0] = modes[tn__random_below(random, 4)];
    of->texts[1] = samplings[tn__random_below(random, 3)];
    of->texts[2] = equations[tn__random_below(random, 5)];
    of->texts[3] = tn__random_below(random, 2) ? "tf_crop_and_resize" : "align_corners";
}

/* `mode` means something else for every operator, and what it means has been checked before. */
static void hostile_texts(scene *of, const char *type) {
    bool resize = strcmp(type, "Resize") == 0 || strcmp(type, "Upsample") == 0;
    if (resize || strcmp(type, "Pad") == 0)
        of->attrs[of->attr_count++] = attr_string("mode", &of->texts[resize]);
    if (resize) {
        of->ints[of->attr_count][0] = (int64_t)tn__random_below(&of->random, 2);
        of->attrs[of->attr_count] = attr_int("antialias", of->ints[of->attr_count]);
        of->attr_count++;
    }
    if (strcmp(type, "TfIdfVectorizer") == 0) {
        static const int64_t pool[] = {0, 1, 2, 1, 1, 2, 3, 3}, begins[] = {0, 2, 8};
        of->attrs[of->attr_count++] = attr_ints("pool_int64s", pool, 8);
        of->attrs[of->attr_count++] = attr_ints("ngram_counts", begins, 3);
        for (uint32_t i = 0; i < 5; i++) of->ints[of->attr_count][i] = odd_int(&of->random);
        of->attrs[of->attr_count] = attr_ints("ngram_indexes", of->ints[of->attr_count], 5);
        of->attr_count++;
        of->texts[0] = tn__random_below(&of->random, 2) ? "TF" : "IDF";
        of->attrs[of->attr_count++] = attr_string("mode", &of->texts[0]);
    }
    of->attrs[of->attr_count++] = attr_string("equation", &of->texts[2]);
    of->attrs[of->attr_count++] = attr_string("coordinate_transformation_mode", &of->texts[3]);
}

static bool hostile_run(scene *of, const hostile *subject, uint64_t seed) {
    static char workspace[4096] __attribute__((aligned(64)));
    tn_error error;
    uint32_t inputs = (uint32_t)strlen(subject->inputs);
    uint32_t outputs = (uint32_t)strlen(subject->outputs);
    tn_op op = {.name = "",
                .type = subject->type,
                .domain = "",
                .attrs = of->attrs,
                .attr_count = of->attr_count};
    tn_kernel_call call = {.op = &op,
                           .version = 16,
                           .inputs = of->inputs,
                           .input_count = inputs,
                           .outputs = of->outputs,
                           .output_count = outputs,
                           .workspace = workspace,
                           .workspace_bytes = sizeof workspace,
                           .error = &error};
    const tn_kernel *kernel = kernel_of(subject->type);
    tn_status status = kernel->run(&call);
    for (uint32_t k = 0; k < outputs && status == TN_OK; k++)
        if (tn__operand_bytes(&of->outputs[k]) > of->outputs[k].room)
            fail_msg("seed %llu: %s: an output beyond its room", (unsigned long long)seed,
                     subject->type);
    return status == TN_OK;
}

static void whatever_they_are_given_kernels_stay_within_their_operands(void **state) {
    (void)state;
    static scene of;
    for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        uint32_t well = 0;
        for (uint64_t seed = 1; seed <= 3000; seed++) {
            of.random.state = seed * 64 + s;
            of.rank = (uint32_t)tn__random_below(&of.random, 5);
            bool cube = tn__random_below(&of.random, 2);
            int64_t side = random_in(&of.random, 0, 5);
            for (uint32_t d = 0; d < 8; d++) of.base[d] = cube ? side : random_in(&of.random, 0, 4);
            of.ranks = tn__random_below(&of.random, 4) ? subjects[s].ranks : NULL;
            for (uint32_t k = 0; subjects[s].inputs[k] != 0; k++)
                hostile_input(&of, k, subjects[s].inputs[k]);
            for (uint32_t k = 0; subjects[s].outputs[k] != 0; k++)
                hostile_output(&of, k, subjects[s].outputs[k],
                               (uint32_t)strlen(subjects[s].inputs));
            hostile_attrs(&of);
            hostile_texts(&of, subjects[s].type);
            well += hostile_run(&of, &subjects[s], seed);
            for (uint32_t k = 0; subjects[s].inputs[k] != 0; k++) free(of.inputs[k].data);
            for (uint32_t k = 0; subjects[s].outputs[k] != 0; k++) {
#if !defined(__SANITIZE_ADDRESS__)
                for (uint32_t i = 0; i < 16; i++)
                    if (((uint8_t *)of.outputs[k].data)[of.outputs[k].room + i] != 0x5a)
                        fail_msg("seed %llu: %s wrote behind output %u", (unsigned long long)seed,
                                 subjects[s].type, k);
#endif
                free(of.outputs[k].data);
            }
        }
        if (well < 5) fail_msg("%s ran only %u times of 3000", subjects[s].type, well);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_they_are_given_kernels_stay_within_their_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
