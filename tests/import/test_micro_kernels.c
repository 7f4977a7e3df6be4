/* The memory that kernel libraries request: by hand, and as the libraries computed it.
 *
 * ../shared/data/tflite-2026 has results of the libraries' own size functions, compiled, for random
 * shapes. The values in this file were derived by hand from the layout that each kernel needs. */
#include "io/import/tflm/tflm.h"
#include "support.h"
#include "tflite_samples.h"

#include <tenure/graph.h>
#include <tenure/rewrite.h>

#define TABLES TENURE_SOURCE_DIR "/../shared/data/tflite-2026/"

static tn_error failure;

/* --- windows by hand --- */

/* in: rows, columns, channels; filter: rows, columns; out: rows, columns, channels */
static tflm_window window(uint64_t ih, uint64_t iw, uint64_t ic, uint64_t fh, uint64_t fw,
                          uint64_t oh, uint64_t ow, uint64_t oc) {
    return (tflm_window){.ih = ih,
                         .iw = iw,
                         .ic = ic,
                         .fh = fh,
                         .fw = fw,
                         .oh = oh,
                         .ow = ow,
                         .oc = oc,
                         .filter_channels = ic,
                         .batch = 1,
                         .multiplier = ic ? oc / ic : 1,
                         .sh = 1,
                         .sw = 1};
}

static uint64_t esp(uint32_t version, tn_micro_target target, bool depthwise, tflm_window w) {
    return tn__tflm_esp_window(version, target, depthwise, &w);
}

static uint64_t cmsis(uint32_t version, tn_micro_target target, bool depthwise, tflm_window w) {
    tflm_build build = {.kernels = TN_MICRO_CMSIS_NN, .version = version, .name = ""};
    return tn__tflm_cmsis_window(&build, target, depthwise, false, false, true, &w);
}

/* The first operators of okay_nabu v2, whose head of 19,440 bytes a device printed:
 *   CONV_2D 5x1 of 40 channels to 32, stride 3. Until 1.2.0: filter with channels filled to 48,
 *   5 * 48 * 32 = 7,680, sums 4 * 32 = 128, margin 32. Since 1.2.1 also the filter with each row of
 *   40 filled to 48, 5 * 48 * 32 = 7,680, and the input with two rows more, 7 * 40 = 280.
 *   Then 1x1 of 32 channels to 64: 32 * 64 and the margin. */
static void esp_nn_asks_what_a_device_printed(void **state) {
    (void)state;
    tflm_window first = window(5, 1, 40, 5, 1, 1, 1, 32), point = window(1, 1, 32, 1, 1, 1, 1, 64);
    first.sh = 3;
    assert_int_equal(esp(TFLM_VERSION(1, 2, 0), TN_MICRO_ESP32_S3, false, first), 7840);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 1), TN_MICRO_ESP32_S3, false, first), 15800);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 3), TN_MICRO_ESP32_S3, false, first), 15832);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 1), TN_MICRO_ESP32_S3, false, point), 2080);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 1), TN_MICRO_ESP32, false, first), 0);
    assert_int_equal(esp(TFLM_VERSION(1, 0, 0), TN_MICRO_ESP32_P4, false, first), 0);
    assert_int_equal(esp(TFLM_VERSION(1, 1, 0), TN_MICRO_ESP32_P4, false, first), 7840);
}

/* 23x1 of 64 channels: filter and input, 23 * 64 each, of two bytes: 2 * (1,472 + 1,472) + 32. */
static void esp_nn_copies_filter_and_input_since_1_2_1(void **state) {
    (void)state;
    tflm_window w = window(23, 1, 64, 23, 1, 1, 1, 64);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 0), TN_MICRO_ESP32_S3, true, w), 32);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 1), TN_MICRO_ESP32_S3, true, w), 5920);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 3), TN_MICRO_ESP32_P4, true, w), 0);
}

/* 3x3 of 16 channels, 8x8, padding 1: filter 144, padded input 10 * 10 * 16, margin 16. A padded
 * input of 130 * 130 * 16 bytes is above 40 KiB: three of its rows, 130 * 3 * 16. */
static void esp_nn_copies_large_inputs_by_rows(void **state) {
    (void)state;
    tflm_window small = window(8, 8, 16, 3, 3, 8, 8, 16);
    tflm_window large = window(128, 128, 16, 3, 3, 128, 128, 16);
    small.ph = small.pw = large.ph = large.pw = 1;
    assert_int_equal(esp(TFLM_VERSION(1, 2, 0), TN_MICRO_ESP32_S3, true, small), 144 + 1600 + 16);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 1), TN_MICRO_ESP32_S3, true, small), 144 + 1600 + 16);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 0), TN_MICRO_ESP32_S3, true, large),
                     144 + 130 * 130 * 16 + 16);
    assert_int_equal(esp(TFLM_VERSION(1, 2, 1), TN_MICRO_ESP32_S3, true, large),
                     144 + 130 * 3 * 16 + 16);
}

/* 3x3 of 5 channels: 45 columns, filled to 48 in units of 4 and 16; two columns of two bytes, or
 * four of one byte with vectors. */
static void cmsis_nn_fills_columns_by_core(void **state) {
    (void)state;
    tflm_window w = window(8, 8, 5, 3, 3, 6, 6, 8), odd = window(8, 8, 3, 3, 3, 6, 6, 8);
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M, false, w), 4 * 48);
    assert_int_equal(cmsis(TFLM_VERSION(4, 1, 0), TN_MICRO_CORTEX_M, false, w), 4 * 45);
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M_SCALAR, false, odd), 4 * 28);
    assert_int_equal(cmsis(TFLM_VERSION(5, 0, 0), TN_MICRO_CORTEX_M_HELIUM, false, odd), 4 * 32);
    assert_int_equal(cmsis(TFLM_VERSION(6, 0, 0), TN_MICRO_CORTEX_M_HELIUM, false, w), 4 * 48);
}

/* A 1x1 filter needs nothing, with any stride; a dilated one is no such filter. */
static void cmsis_nn_needs_nothing_for_a_pointwise_filter(void **state) {
    (void)state;
    tflm_window w = window(8, 8, 16, 1, 1, 4, 4, 8), dilated = w, grouped = w;
    w.sh = w.sw = 2;
    dilated.dilated = true;
    grouped.filter_channels = 8;
    for (int core = 0; core < 2; core++) {
        tn_micro_target target = core ? TN_MICRO_CORTEX_M : TN_MICRO_CORTEX_M_HELIUM;
        assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), target, false, w), 0);
        assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), target, false, dilated), 64);
        assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), target, false, grouped), 0);
        assert_int_equal(cmsis(TFLM_VERSION(99, 0, 0), target, false, grouped), 64);
    }
    tflm_build arm = {
        .kernels = TN_MICRO_CMSIS_NN, .version = TFLM_VERSION(7, 0, 0), .armclang = true};
    w.sh = w.sw = 1; /* two rows of two bytes */
    assert_int_equal(tn__tflm_cmsis_window(&arm, TN_MICRO_CORTEX_M, false, false, false, true, &w),
                     4 * 16);
}

/* 5x5 of 8 channels: the window of all channels in two bytes with DSP; of 124 channels, four times,
 * with vectors; a 3x3 filter with little padding, a batch or a dilation need none with DSP. */
static void cmsis_nn_copies_the_window_of_a_depthwise_filter(void **state) {
    (void)state;
    tflm_window w = window(9, 9, 8, 5, 5, 5, 5, 8), small = window(9, 9, 8, 3, 3, 9, 9, 8);
    small.ph = small.pw = 1;
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M, true, w), 2 * 25 * 8);
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M_SCALAR, true, w), 0);
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M_HELIUM, true, w), 4 * 124 * 25);
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M, true, small), 0);
    small.ph = 2;
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M, true, small), 2 * 9 * 8);
    w.batch = 2;
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M, true, w), 0);
    w.batch = 1;
    w.dilated = true;
    assert_int_equal(cmsis(TFLM_VERSION(7, 0, 0), TN_MICRO_CORTEX_M_HELIUM, true, w), 0);
}

/* --- tables of the libraries' results --- */

#define COLUMNS 32

/* The numbers of a line after its first field; false: the end of the file. */
static bool table_line(FILE *file, char name[64], long numbers[COLUMNS]) {
    char line[512];
    if (fgets(line, sizeof line, file) == NULL) return false;
    size_t length = strcspn(line, ",");
    assert_true(length < 64);
    memcpy(name, line, length);
    name[length] = '\0';
    char *at = line + length;
    for (int i = 0; i < COLUMNS && *at == ','; i++) numbers[i] = strtol(at + 1, &at, 10);
    return true;
}

static FILE *table_open(const char *name) {
    char path[600], first[64];
    long numbers[COLUMNS];
    snprintf(path, sizeof path, TABLES "%s", name);
    FILE *file = fopen(path, "r");
    if (file == NULL) printf("SKIP: shared/data/tflite-2026/%s is not there\n", name);
    if (file != NULL) (void)!table_line(file, first, numbers); /* the header */
    return file;
}

static tflm_window table_window(const long n[COLUMNS]) {
    return (tflm_window){.ih = (uint64_t)n[0],
                         .iw = (uint64_t)n[1],
                         .ic = (uint64_t)n[2],
                         .fh = (uint64_t)n[3],
                         .fw = (uint64_t)n[4],
                         .oh = (uint64_t)n[5],
                         .ow = (uint64_t)n[6],
                         .oc = (uint64_t)n[7],
                         .ph = (uint64_t)n[8],
                         .pw = (uint64_t)n[9],
                         .sh = (uint64_t)n[10],
                         .sw = (uint64_t)n[11],
                         .multiplier = (uint64_t)n[12],
                         .filter_channels = (uint64_t)n[2],
                         .batch = 1};
}

static void esp_nn_rules_equal_the_library(void **state) {
    (void)state;
    static const struct {
        tn_micro_target target;
        uint32_t version;
    } columns[] = {
        {TN_MICRO_ESP32_S3, TFLM_VERSION(1, 1, 2)}, {TN_MICRO_ESP32_S3, TFLM_VERSION(1, 2, 0) + 1},
        {TN_MICRO_ESP32_S3, TFLM_VERSION(1, 2, 2)}, {TN_MICRO_ESP32_S3, TFLM_VERSION(1, 2, 3)},
        {TN_MICRO_ESP32_P4, TFLM_VERSION(1, 2, 2)}, {TN_MICRO_ESP32_P4, TFLM_VERSION(1, 2, 3)}};
    char name[64];
    long n[COLUMNS];
    uint32_t count = 0;
    FILE *file = table_open("scratch_esp_nn.csv");
    while (file != NULL && table_line(file, name, n)) {
        bool depthwise = strncmp(name, "DEPTHWISE", 9) == 0;
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
            if (esp(columns[c].version, columns[c].target, depthwise, table_window(n)) !=
                (uint64_t)n[13 + c])
                fail_msg("row %u, column %zu: %s", count, c, name);
        count++;
    }
    if (file != NULL) {
        assert_true(count >= 60);
        fclose(file);
    }
}

static void cmsis_nn_rules_equal_the_library(void **state) {
    (void)state;
    static const uint32_t versions[] = {TFLM_VERSION(5, 0, 0), TFLM_VERSION(6, 0, 0),
                                        TFLM_VERSION(7, 0, 0), TFLM_VERSION(99, 0, 0)};
    static const tn_micro_target cores[] = {TN_MICRO_CORTEX_M_SCALAR, TN_MICRO_CORTEX_M,
                                            TN_MICRO_CORTEX_M_HELIUM};
    char name[64];
    long n[COLUMNS];
    uint32_t count = 0;
    FILE *file = table_open("scratch_cmsis_nn.csv");
    while (file != NULL && table_line(file, name, n)) {
        bool depthwise = strncmp(name, "DEPTHWISE", 9) == 0, wide = strstr(name, "int16") != NULL;
        tflm_window w = table_window(n);
        for (size_t c = 0; c < 12; c++) {
            tflm_build build = {.kernels = TN_MICRO_CMSIS_NN, .version = versions[c / 3]};
            uint64_t least =
                tn__tflm_cmsis_window(&build, cores[c % 3], depthwise, wide, false, false, &w);
            uint64_t most =
                tn__tflm_cmsis_window(&build, cores[c % 3], depthwise, wide, false, true, &w);
            if ((uint64_t)n[13 + c] < least || (uint64_t)n[13 + c] > most ||
                (least != most && !(depthwise && w.ic == 1)))
                fail_msg("row %u, column %zu: %s: %ld, not %llu", count, c, name, n[13 + c],
                         (unsigned long long)most);
        }
        count++;
    }
    if (file != NULL) {
        assert_true(count >= 60);
        fclose(file);
    }
}

/* --- whole models --- */

static bool model_arena(const char *folder, const char *name, const tn_micro_options *options,
                        tn_micro_arena *arena) {
    char path[600];
    tn_graph *graph;
    snprintf(path, sizeof path, TENURE_SOURCE_DIR "/../shared/data/%s/%s.tflite", folder, name);
    if (tn_graph_load(path, NULL, &graph, &failure) != TN_OK) return false;
    uint64_t *offsets = calloc(tn_graph_tensor_count(graph) + 1u, sizeof *offsets);
    for (uint32_t id = 0; id < tn_graph_tensor_count(graph); id++) offsets[id] = TN_SIZE_UNKNOWN;
    tn_status status =
        tn_micro_arena_of(path, NULL, graph, offsets, options, arena, NULL, &failure);
    free(offsets);
    tn_graph_destroy(graph);
    if (status != TN_OK) fail_msg("%s: %s", name, failure.message);
    return true;
}

static tn_micro_options options_of(tn_micro_target target, tn_micro_kernels kernels,
                                   const char *version) {
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    options.target = target;
    options.kernels = kernels;
    options.version = version;
    options.runtime = 20250117; /* esp-tflite-micro 1.3.3.1 */
    options.compiler = TN_MICRO_GCC;
    options.most = true;
    return options;
}

/* An emulator that shares no code with this project computed these heads; okay_nabu, hey_jarvis and
 * vad on the S3 with 1.2.1 are also in logs of devices. */
static void heads_equal_those_of_another_emulator(void **state) {
    (void)state;
    static const struct {
        tn_micro_target target;
        tn_micro_kernels kernels;
        const char *version;
    } columns[] = {{TN_MICRO_ESP32, TN_MICRO_REFERENCE, NULL},
                   {TN_MICRO_ESP32, TN_MICRO_ESP_NN, NULL},
                   {TN_MICRO_ESP32_S3, TN_MICRO_ESP_NN, "1.1.2"},
                   {TN_MICRO_ESP32_S3, TN_MICRO_ESP_NN, "1.2.0~1"},
                   {TN_MICRO_ESP32_S3, TN_MICRO_ESP_NN, "1.2.1"},
                   {TN_MICRO_ESP32_S3, TN_MICRO_ESP_NN, "1.2.3"},
                   {TN_MICRO_ESP32_P4, TN_MICRO_ESP_NN, "1.2.2"},
                   {TN_MICRO_ESP32_P4, TN_MICRO_ESP_NN, "1.2.3"},
                   {TN_MICRO_CORTEX_M_SCALAR, TN_MICRO_CMSIS_NN, "7.0.0"},
                   {TN_MICRO_CORTEX_M, TN_MICRO_CMSIS_NN, "7.0.0"},
                   {TN_MICRO_CORTEX_M_HELIUM, TN_MICRO_CMSIS_NN, "5.0.0"},
                   {TN_MICRO_CORTEX_M_HELIUM, TN_MICRO_CMSIS_NN, "6.0.0"},
                   {TN_MICRO_CORTEX_M_HELIUM, TN_MICRO_CMSIS_NN, "7.0.0"}};
    char name[64];
    long n[COLUMNS];
    FILE *file = table_open("heads.csv");
    while (file != NULL && table_line(file, name, n)) {
        bool late = strncmp(name, "mww", 3) == 0;
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            tn_micro_options options =
                options_of(columns[c].target, columns[c].kernels, columns[c].version);
            tn_micro_arena arena;
            if (!model_arena(late ? "tflite-2026" : "tflite", name, &options, &arena)) {
                printf("SKIP: shared/data/tflite/%s is not there\n", name);
                break;
            }
            tn_micro_arena least = arena;
            options.most = false; /* vectors: sums of weights in the head or in the tail */
            if (options.target == TN_MICRO_CORTEX_M_HELIUM)
                assert_true(model_arena(late ? "tflite-2026" : "tflite", name, &options, &least));
            if (least.head > (uint64_t)n[c] || arena.head < (uint64_t)n[c])
                fail_msg("%s, column %zu: %llu, not %ld", name, c, (unsigned long long)arena.head,
                         n[c]);
        }
    }
    if (file != NULL) fclose(file);
}

/* The tails of the same emulator, with inputs and outputs; those of the S3 with 1.2.1 were fitted
 * to two logs of devices. */
static void tails_equal_those_of_another_emulator(void **state) {
    (void)state;
    static const char *const models[] = {"mww_v2_okay_nabu", "mww_v2_hey_jarvis", "mww_v2_vad",
                                         "mww_v2_okay_computer"};
    static const struct {
        tn_micro_target target;
        const char *version;
        uint64_t tails[4], totals[4];
    } rows[] = {
        {TN_MICRO_ESP32, "1.2.1", {14300, 12092, 7484, 15004}, {18672, 15520, 9920, 19808}},
        {TN_MICRO_ESP32_S3, "1.1.2", {14332, 12124, 7500, 15036}, {25808, 22496, 16624, 25552}},
        {TN_MICRO_ESP32_S3, "1.2.1", {14332, 12124, 7500, 15036}, {33776, 29968, 24592, 33520}},
        {TN_MICRO_ESP32_P4, "1.2.3", {14316, 12108, 7500, 15020}, {25792, 22480, 16624, 25536}}};
    for (size_t m = 0; m < 4; m++)
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            tn_micro_options options = options_of(rows[r].target, TN_MICRO_ESP_NN, rows[r].version);
            tn_micro_arena most, least;
            if (!model_arena("tflite-2026", models[m], &options, &most)) {
                printf("SKIP: shared/data/tflite-2026/%s is not there\n", models[m]);
                break;
            }
            options.most = false;
            assert_true(model_arena("tflite-2026", models[m], &options, &least));
            if (most.tail != rows[r].tails[m])
                fail_msg("%s, row %zu: %llu, not %llu", models[m], r, (unsigned long long)most.tail,
                         (unsigned long long)rows[r].tails[m]);
            assert_int_equal(most.total, rows[r].totals[m]);
            assert_true(least.total <= most.total);
        }
}

/* --- resource variables --- */

/* Two variables: the first is assigned twice, the second only once, by another handle tensor. */
static void buffers_of_resource_variables_are_counted_once(void **state) {
    (void)state;
    lite *m = lite_new();
    lite_add(m, (lite_tensor){.name = "h", .shape = "1", .type = T_RESOURCE});
    lite_add(m, (lite_tensor){.name = "x", .shape = "1,50", .type = T_INT8});
    lite_add(m, (lite_tensor){.name = "y", .shape = "1,50", .type = T_INT8});
    lite_op(m, OP_VAR_HANDLE, "", "0");
    lite_op(m, OP_READ_VARIABLE, "0", "2");
    lite_op(m, OP_ASSIGN_VARIABLE, "0,1", "");
    lite_op(m, OP_ASSIGN_VARIABLE, "0,1", "");
    lite_end(m, "main", "1", "2");
    size_t size;
    const uint8_t *bytes = lite_model(m, &size);
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    tn_micro_arena arena;
    tn_graph *graph;
    assert_int_equal(tn_graph_load_memory("s.tflite", bytes, size, NULL, &graph, &failure), TN_OK);
    assert_int_equal(tn__tflm_arena_from("s.tflite", (tn__span){bytes, size}, NULL, graph, NULL,
                                         &options, &arena, NULL, &failure),
                     TN_OK);
    assert_int_equal(arena.part[TN_MICRO_PART_VARIABLES], 50);
    assert_int_equal(arena.head, 128); /* x and y, 64 bytes each; the handle is not in the head */
    assert_int_equal(arena.planned, 2);
    tn_graph_destroy(graph);
    free(m);
}

/* --- HiFi, by hand; 5,000,000 sizes of random shapes equal those of the library's functions, which
 * are not in this project --- */

static void hifi_fills_channels_and_turns_a_row(void **state) {
    (void)state;
    tflm_window w = window(8, 8, 8, 3, 3, 8, 8, 16);
    w.ph = w.pw = 1;
    /* 10 rows of 3 * 8 bytes; state 24, bus 8, and 8 + 7 + 7 for alignment */
    assert_int_equal(tn__tflm_hifi_conv(&w, 1), 10 * 24 + 24 + 8 + 8 + 7 + 7);
    assert_int_equal(tn__tflm_hifi_conv(&w, 2), 10 * 48 + 24 + 8 + 8 + 7 + 7);
    w = window(8, 8, 3, 3, 3, 8, 8, 16);
    w.ph = w.pw = 1;
    /* 3 channels become 4: rows of 12 until a multiple of 16, and a copy of the filter */
    assert_int_equal(tn__tflm_hifi_conv(&w, 1), 12 * 12 + 54 + 3 * 3 * 4 * 16 + 7);
    w = window(1, 20, 4, 1, 5, 1, 16, 8);
    /* one row: 20 columns take the place of rows, of 1 * 4 bytes each */
    assert_int_equal(tn__tflm_hifi_conv(&w, 1), 20 * 4 + 54);
    w = window(8, 8, 8, 3, 3, 8, 8, 8);
    w.ph = w.pw = 1;
    assert_int_equal(tn__tflm_hifi_depthwise(&w), 32 + 10 * 8 * 3 + 40);
    w = window(4, 4, 8, 3, 3, 8, 8, 5);
    w.sh = w.sw = 2;
    /* four filters of 2 x 2; 2 + 4 rows of 2 * 8 bytes; 31 + 8, up to a multiple of 4 */
    assert_int_equal(tn__tflm_hifi_transpose(&w, 1), 640 + 96 + 40);
    w = window(2, 4, 8, 3, 3, 4, 8, 5);
    assert_int_equal(tn__tflm_hifi_transpose(&w, 1), 4 * 8 * 5 * 8);
}

/* --- requests of single kernels --- */

enum { OP_MEAN = 40, OP_DENSE = 9, OP_MIRROR_PAD = 100, OP_BATCH_MATMUL = 126 };

static tn_micro_arena arena_of(lite *m, const tn_micro_options *options) {
    size_t size;
    const uint8_t *bytes = lite_model(m, &size);
    tn_micro_arena arena = {0};
    tn_graph *graph;
    if (tn_graph_load_memory("s.tflite", bytes, size, NULL, &graph, &failure) != TN_OK ||
        tn__tflm_arena_from("s.tflite", (tn__span){bytes, size}, NULL, graph, NULL, options, &arena,
                            NULL, &failure) != TN_OK)
        fail_msg("%s: %s", failure.where, failure.message);
    tn_graph_destroy(graph);
    free(m);
    return arena;
}

/* Two compressed constants and what decodes them; `apart`: the second operand of each pair is not
 * in the FlatBuffer. */
static lite *sample_decode(bool apart) {
    lite *m = lite_new();
    m->custom = "TFLM_DECODE";
    for (uint32_t i = 0; i < 2; i++) {
        lite_add(m, (lite_tensor){.name = "codes", .shape = "8", .type = T_UINT8, .bytes = 8});
        lite_add(m, (lite_tensor){.name = "how",
                                  .shape = "32",
                                  .type = T_UINT8,
                                  .bytes = apart ? 0 : 32,
                                  .buffer = 0});
    }
    lite_add(m, (lite_tensor){.name = "a", .shape = "64", .type = T_INT8});
    lite_add(m, (lite_tensor){.name = "b", .shape = "64", .type = T_INT8});
    lite_op(m, OP_CUSTOM, "0,1,2,3", "4,5");
    lite_end(m, "main", apart ? "1,3" : "", "4,5");
    return m;
}

/* DECODE keeps 4 bytes for each output, and a state: 36 bytes for tables (the first byte of the
 * samples is 0), 28 for Huffman codes, 40 for pruned weights; each up to a multiple of 16. */
static void decode_keeps_a_state_for_each_output(void **state) {
    (void)state;
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    for (int most = 0; most < 2; most++) {
        options.most = most;
        options.target = TN_MICRO_CORTEX_M;
        tn_micro_arena arena = arena_of(sample_decode(false), &options);
        assert_int_equal(arena.part[TN_MICRO_PART_KERNELS], 2 * 4 + 2 * 48);
        assert_int_equal(arena.scratch, 0);
        assert_int_equal(arena.head, 2 * 64); /* what is decoded lies in the head */
        arena = arena_of(sample_decode(true), &options);
        assert_int_equal(arena.part[TN_MICRO_PART_KERNELS], 2 * 4 + 2 * (most ? 48 : 32));
        options.target = TN_MICRO_X86_64;
        arena = arena_of(sample_decode(false), &options);
        assert_int_equal(arena.part[TN_MICRO_PART_KERNELS], 2 * 8 + 2 * 80);
    }
}

/* The mean of rows and columns of 1x4x4x8: 128 bytes of input, 16 of output (8 rounded up). The
 * sums take 4 * 8 bytes; since January 2026 an index per dimension, 4 * 4, and per axis, 4 * 2. */
static lite *sample_mean(int type) {
    lite *m = lite_new();
    lite_add(m, (lite_tensor){.name = "x", .shape = "1,4,4,8", .type = type});
    lite_add(m, (lite_tensor){.name = "axes", .shape = "2", .type = T_INT32, .bytes = 8});
    lite_add(m, (lite_tensor){.name = "y", .shape = "1,1,1,8", .type = type});
    lite_op_with(m, OP_MEAN, "0,1", "2", 27, 1, 0);
    lite_end(m, "main", "0", "2");
    return m;
}

static void reduce_kernels_ask_for_indices_since_january_2026(void **state) {
    (void)state;
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    options.runtime = 20260115;
    tn_micro_arena before = arena_of(sample_mean(T_INT8), &options);
    assert_int_equal(before.scratch, 1);
    assert_int_equal(before.head, 128 + 16 + 32);
    assert_int_equal(arena_of(sample_mean(T_FLOAT32), &options).scratch, 0);
    options.runtime = 20260116;
    tn_micro_arena after = arena_of(sample_mean(T_INT8), &options);
    assert_int_equal(after.scratch, 3);
    assert_int_equal(after.head, 128 + 16 + 32 + 16 + 16);
    assert_int_equal(arena_of(sample_mean(T_FLOAT32), &options).scratch, 2);
    options.runtime = 0;
    options.most = true;
    assert_int_equal(arena_of(sample_mean(T_INT8), &options).head, after.head);
    options.most = false;
    assert_int_equal(arena_of(sample_mean(T_INT8), &options).head, before.head);
}

/* A dense layer of 64 values to 10, `shape` of its output. */
static lite *sample_dense(const char *in, const char *out) {
    lite *m = lite_new();
    lite_add(m, (lite_tensor){.name = "x", .shape = in, .type = T_INT8});
    lite_add(m, (lite_tensor){.name = "w", .shape = "10,64", .type = T_INT8, .bytes = 640});
    lite_add(m, (lite_tensor){.name = "b", .shape = "10", .type = T_INT32, .bytes = 40});
    lite_add(m, (lite_tensor){.name = "y", .shape = out, .type = T_INT8});
    lite_op_with(m, OP_DENSE, "0,1,2", "3", 8, 0, 0);
    lite_end(m, "main", "0", "3");
    return m;
}

/* With vectors CMSIS-NN keeps 4 * 10 bytes of sums, in the tail (speed) or in the head (size); the
 * batch does not count. An output of three dimensions is a 1x1 convolution: 8 * 10 bytes of
 * multipliers and shifts, on every core. */
static void dense_layers_of_cmsis_nn_keep_sums_of_weights(void **state) {
    (void)state;
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    options.kernels = TN_MICRO_CMSIS_NN;
    options.version = "7.0.0";
    options.runtime = 20250131;
    options.compiler = TN_MICRO_GCC;
    for (int most = 0; most < 2; most++) {
        options.most = most;
        options.target = TN_MICRO_CORTEX_M_HELIUM;
        tn_micro_arena vectors = arena_of(sample_dense("4,64", "4,10"), &options);
        assert_int_equal(vectors.head, 256 + 48 + (most ? 48 : 0));
        assert_int_equal(vectors.part[TN_MICRO_PART_KERNELS], 72 + (most ? 40 : 0));
        options.target = TN_MICRO_CORTEX_M;
        assert_int_equal(arena_of(sample_dense("4,64", "4,10"), &options).scratch, 0);
        tn_micro_arena image = arena_of(sample_dense("1,4,64", "1,4,10"), &options);
        assert_int_equal(image.scratch, 1);
        assert_int_equal(image.head, 256 + 48 + 80);
    }
}

/* The kernel of BATCH_MATMUL keeps the transposed right matrix, 8x16, in the tail: its elements, a
 * tensor structure of 12 bytes, four extents with their count, and 28 bytes of quantisation. */
static void transposed_matrices_are_persistent(void **state) {
    (void)state;
    lite *m = lite_new();
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    lite_add(m, (lite_tensor){.name = "x", .shape = "1,1,4,8", .type = T_INT8});
    lite_add(m, (lite_tensor){.name = "w", .shape = "1,1,8,16", .type = T_INT8, .bytes = 128});
    lite_add(m, (lite_tensor){.name = "y", .shape = "1,1,4,16", .type = T_INT8});
    lite_op_with(m, OP_BATCH_MATMUL, "0,1", "2", 101, 0, 0);
    lite_end(m, "main", "0", "2");
    tn_micro_arena arena = arena_of(m, &options);
    assert_int_equal(arena.scratch, 0);
    assert_int_equal(arena.part[TN_MICRO_PART_KERNELS], 16 + 28 + 12 + 20 + 128);
}

/* Every operator of the format without operands, on every target, in every build. */
static void every_operator_has_sizes_in_every_build(void **state) {
    (void)state;
    uint64_t first[] = {0, 0};
    tflite_plan plan = {.first = first};
    uint32_t known = 0, operators = 0;
    for (uint32_t builtin = 0; builtin < 256; builtin++) {
        tflite_code code = {.builtin = builtin, .type = tn__tflite_operator(builtin)};
        tflm_op op = {.code = &code};
        if (code.type == NULL) continue;
        operators++;
        for (tn_micro_target target = TN_MICRO_CORTEX_M; target <= TN_MICRO_HIFI4; target++) {
            tn_micro_options options = TN_MICRO_OPTIONS_INIT;
            tflm_build builds[TFLM_BUILDS_MAX];
            tflm_need need;
            uint32_t count;
            options.target = target;
            options.kernels = TN_MICRO_ANY;
            assert_int_equal(tn__tflm_builds(&options, builds, &count, &failure), TN_OK);
            assert_in_range(count, 1, TFLM_BUILDS_MAX - 1); /* none was left out */
            for (uint32_t b = 0; b < 2 * count; b++) {
                tflm_model model = {.plan = &plan, .options = &options, .build = &builds[b / 2]};
                options.most = b % 2;
                tn__tflm_need(&model, &op, &need);
                assert_true(need.options < 64 && need.buffer_count <= TFLM_BUFFERS_MAX);
            }
            known += need.is_known;
        }
    }
    assert_true(operators > 150 && known > 8 * 90);
}

/* --- versions --- */

static tn_status sampled(const tn_micro_options *options, tn_micro_arena *arena) {
    lite *m = sample_convolution();
    size_t size;
    const uint8_t *bytes = lite_model(m, &size);
    tn_graph *graph;
    assert_int_equal(tn_graph_load_memory("s.tflite", bytes, size, NULL, &graph, &failure), TN_OK);
    tn_status status = tn__tflm_arena_from("s.tflite", (tn__span){bytes, size}, NULL, graph, NULL,
                                           options, arena, NULL, &failure);
    tn_graph_destroy(graph);
    free(m);
    return status;
}

static void any_is_the_largest_of_its_libraries_and_versions(void **state) {
    (void)state;
    static const tn_micro_target targets[] = {
        TN_MICRO_CORTEX_M, TN_MICRO_CORTEX_M_HELIUM, TN_MICRO_X86_64,   TN_MICRO_CORTEX_M_SCALAR,
        TN_MICRO_ESP32,    TN_MICRO_ESP32_S3,        TN_MICRO_ESP32_P4, TN_MICRO_HIFI4};
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        tn_micro_options options = TN_MICRO_OPTIONS_INIT;
        tn_micro_arena any, one;
        uint64_t largest = 0, head = 0;
        options.target = targets[t];
        options.most = true;
        options.kernels = TN_MICRO_ANY;
        assert_int_equal(sampled(&options, &any), TN_OK);
        for (tn_micro_kernels k = TN_MICRO_REFERENCE; k < TN_MICRO_ANY; k++) {
            uint32_t versions = tn_micro_version_count(targets[t], k);
            for (uint32_t v = 0; v < (k == TN_MICRO_REFERENCE ? 1 : versions); v++) {
                options.kernels = k;
                options.version =
                    k == TN_MICRO_REFERENCE ? NULL : tn_micro_version(targets[t], k, v);
                assert_int_equal(sampled(&options, &one), TN_OK);
                if (one.total > largest) largest = one.total;
                if (one.head > head) head = one.head;
            }
        }
        assert_int_equal(any.total, largest);
        assert_int_equal(any.head, head);
    }
}

static void versions_that_are_not_known_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"0.9",  "1.2.4",    "2",         "",
                                        "x",    "1.2.1.1",  "1..2",      "1.2.1~",
                                        "main", "99.99.99", "4294967297"};
    static const char *const right[] = {"1", "v1.0.2", "1.2.0~1", "1.2.2", "1.2.3"};
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    tn_micro_arena arena;
    options.target = TN_MICRO_ESP32_S3;
    options.kernels = TN_MICRO_ESP_NN;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.version = wrong[i];
        assert_int_equal(sampled(&options, &arena), TN_E_UNSUPPORTED);
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        options.version = right[i];
        assert_int_equal(sampled(&options, &arena), TN_OK);
    }
    options.version = NULL;
    options.target = TN_MICRO_CORTEX_M;
    assert_int_equal(sampled(&options, &arena), TN_E_UNSUPPORTED);
    options.kernels = TN_MICRO_CMSIS_NN;
    options.target = TN_MICRO_ESP32;
    assert_int_equal(sampled(&options, &arena), TN_E_UNSUPPORTED);
    options.kernels = TN_MICRO_ANY;
    options.version = "1.2.1";
    assert_int_equal(sampled(&options, &arena), TN_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(esp_nn_asks_what_a_device_printed),
        cmocka_unit_test(esp_nn_copies_filter_and_input_since_1_2_1),
        cmocka_unit_test(esp_nn_copies_large_inputs_by_rows),
        cmocka_unit_test(cmsis_nn_fills_columns_by_core),
        cmocka_unit_test(cmsis_nn_needs_nothing_for_a_pointwise_filter),
        cmocka_unit_test(cmsis_nn_copies_the_window_of_a_depthwise_filter),
        cmocka_unit_test(esp_nn_rules_equal_the_library),
        cmocka_unit_test(hifi_fills_channels_and_turns_a_row),
        cmocka_unit_test(decode_keeps_a_state_for_each_output),
        cmocka_unit_test(cmsis_nn_rules_equal_the_library),
        cmocka_unit_test(heads_equal_those_of_another_emulator),
        cmocka_unit_test(tails_equal_those_of_another_emulator),
        cmocka_unit_test(buffers_of_resource_variables_are_counted_once),
        cmocka_unit_test(reduce_kernels_ask_for_indices_since_january_2026),
        cmocka_unit_test(dense_layers_of_cmsis_nn_keep_sums_of_weights),
        cmocka_unit_test(transposed_matrices_are_persistent),
        cmocka_unit_test(every_operator_has_sizes_in_every_build),
        cmocka_unit_test(any_is_the_largest_of_its_libraries_and_versions),
        cmocka_unit_test(versions_that_are_not_known_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
