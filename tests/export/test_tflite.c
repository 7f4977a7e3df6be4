/* test_tflite.c - .tflite models written in parts: they are read back as models that compute the
 * same (tflite_reference.h), in the arena that was told; what cannot be done is said, and nothing
 * is left behind. */
#include <sys/stat.h>
#include <tenure/rewrite.h>
#include <unistd.h>

#include "export/one_file.h"
#include "tflite_reference.h"

#define MODEL TENURE_SOURCE_DIR "/examples/models/wake_words.tflite"
#define SHARED TENURE_SOURCE_DIR "/../shared/data/tflite/"

static char folder[] = "/tmp/tenure-export-XXXXXX";
static tn_error failure;

static const char *in_folder(const char *name) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static tn_graph *load(const char *path) {
    tn_graph *graph;
    if (tn_graph_load(path, NULL, &graph, &failure) != TN_OK)
        fail_msg("%s: %s", path, failure.message);
    return graph;
}

static uint8_t *bytes_of(const char *path, size_t *size) {
    tn__file file;
    assert_int_equal(tn__file_map(path, &file, &failure), TN_OK);
    uint8_t *bytes = malloc(file.size + 1);
    memcpy(bytes, file.bytes, file.size);
    *size = file.size;
    tn__file_unmap(&file);
    return bytes;
}

/* --- what is written --- */

static void names_are_kept(const tn_graph *one, const tn_graph *two) {
    const tn_block *a = tn_graph_block(one, 0), *b = tn_graph_block(two, 0);
    assert_int_equal(a->input_count, b->input_count);
    assert_int_equal(a->output_count, b->output_count);
    for (uint32_t i = 0; i < a->input_count; i++)
        assert_string_equal(tn_graph_tensor(one, a->inputs[i])->name,
                            tn_graph_tensor(two, b->inputs[i])->name);
    for (uint32_t i = 0; i < a->output_count; i++)
        assert_string_equal(tn_graph_tensor(one, a->outputs[i])->name,
                            tn_graph_tensor(two, b->outputs[i])->name);
}

/* As whoever reads the file finds it: the arena without a word of ours. */
static void arena_is(const char *path, const tn_graph *graph, const tn_export_options *options,
                     const tn_export_report *report) {
    tn_micro_arena arena;
    assert_int_equal(
        tn_micro_arena_of(path, NULL, graph, NULL, &options->micro, &arena, NULL, &failure), TN_OK);
    assert_int_equal(options->head ? arena.head : arena.total, report->parts);
    assert_int_equal(arena.total, report->arena.total);
    assert_int_equal(arena.head, report->arena.head);
    assert_int_equal(arena.tail, report->arena.tail);
}

/* Bytes of constants: parts have their weights in common. */
static uint64_t constants(const tn_graph *graph) {
    uint64_t bytes = 0;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        if (tn_tensor_is_constant(tn_graph_tensor(graph, id)))
            bytes += tn_graph_tensor(graph, id)->bytes;
    return bytes;
}

static void check(const char *path, const char *written, const tn_export_options *options,
                  const tn_export_report *report) {
    tn_graph *whole = load(path), *parts = load(written);
    names_are_kept(whole, parts);
    arena_is(written, parts, options, report);
    assert_true(reference_same(whole, parts, 7));
    /* Beside weights: where slices begin, how much is padded. */
    assert_true(constants(parts) - constants(whole) < UINT64_C(200) * report->ops);
    tn_graph_destroy(whole);
    tn_graph_destroy(parts);
}

static tn_status split(const char *path, const char *output, tn_export_options options,
                       tn_export_report *report) {
    tn_status status = tn_split_file(path, output, &options, report, &failure);
    if (status != TN_OK && status != TN_E_EXHAUSTED) fail_msg("%s: %s", path, failure.message);
    if (status == TN_OK) check(path, output, &options, report);
    return status;
}

static void a_share(const char *path, double share, bool plan, tn_export_report *report) {
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    options.share = share;
    options.plan = plan;
    if (split(path, in_folder("share.tflite"), options, report) == TN_OK)
        assert_true(report->parts < report->whole && report->work <= share);
    else
        assert_true(report->parts <= report->whole);
}

/* What stays lies elsewhere: true where the head is no more than half. */
static bool a_head(const char *path) {
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    options.share = 0.3;
    options.plan = options.head = true;
    if (split(path, in_folder("share.tflite"), options, &report) != TN_OK) return false;
    assert_true(report.parts < report.whole && report.work <= 0.3);
    return 2 * report.parts <= report.whole;
}

static void a_budget(const char *path, uint64_t budget) {
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    options.budget = budget;
    options.plan = true;
    if (split(path, in_folder("budget.tflite"), options, &report) == TN_OK)
        assert_true(report.parts <= budget);
    else
        assert_true(report.parts > budget && report.binding[0][0] != '\0');
}

static void the_model_in_parts_computes_the_same_in_the_arena_that_is_told(void **state) {
    tn_export_report report = {0};
    (void)state;
    for (int plan = 0; plan < 2; plan++) a_share(MODEL, 0.25, plan, &report);
    printf("%llu of %llu bytes\n", (unsigned long long)report.parts,
           (unsigned long long)report.whole);
    assert_true(report.parts < report.whole && report.regions > 0);
    for (uint64_t part = 1; part < 8; part++)
        a_budget(MODEL, report.parts + (report.whole - report.parts) * part / 8);
    a_budget(MODEL, report.parts / 2);
}

static void so_do_known_networks(void **state) {
    static const char *const names[] = {"tiny_resnet8_int8", "tiny_resnet8_float",
                                        "tflm_person_detect", "tiny_kws_dscnn_int8"};
    uint32_t lower = 0, halves = 0, count = 0;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[600];
        tn_export_report report = {0};
        snprintf(path, sizeof path, SHARED "%s.tflite", names[i]);
        if (access(path, R_OK) != 0) {
            printf("SKIP: shared/data/tflite/%s.tflite is not there\n", names[i]);
            continue;
        }
        a_share(path, 0.3, true, &report);
        printf("%s: %llu of %llu bytes\n", names[i], (unsigned long long)report.parts,
               (unsigned long long)report.whole);
        lower += report.parts < report.whole;
        halves += a_head(path);
        count++;
    }
    assert_true(2 * lower >= count && 2 * halves >= count);
}

static void what_fits_is_written_as_it_is(void **state) {
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    size_t before, after;
    (void)state;
    options.budget = UINT64_C(1) << 30;
    assert_int_equal(split(MODEL, in_folder("same.tflite"), options, &report), TN_OK);
    assert_int_equal(report.regions, 0);
    uint8_t *was = bytes_of(MODEL, &before), *is = bytes_of(in_folder("same.tflite"), &after);
    assert_int_equal(before, after);
    assert_memory_equal(was, is, before);
    free(was);
    free(is);
}

/* --- what cannot be done --- */

static void refused(const char *path, const char *output, tn_export_options options,
                    tn_status wanted, const char *words) {
    tn_export_report report;
    memset(&report, 0x5a, sizeof report);
    tn_status status = tn_split_file(path, output, &options, &report, &failure);
    if (status != wanted || strstr(failure.message, words) == NULL)
        fail_msg("status %d, not %d: %s", (int)status, (int)wanted, failure.message);
}

static void what_cannot_be_done_is_said_and_nothing_is_written(void **state) {
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    char output[220];
    size_t size;
    (void)state;
    snprintf(output, sizeof output, "%s", in_folder("old.tflite"));
    assert_int_equal(tn__file_write(output, "old", 3, &failure), TN_OK);
    refused(MODEL, output, options, TN_E_INVALID, "needs a budget");
    options.budget = 1;
    refused(MODEL, output, options, TN_E_EXHAUSTED, "the least found is");
    options.share = 1e-9;
    refused(MODEL, output, options, TN_E_EXHAUSTED, "for so little work");
    options.budget = 0;
    refused(MODEL, output, options, TN_E_EXHAUSTED, "no less than as it is");
    options.share = 0.25;
    refused(TENURE_SOURCE_DIR "/README.md", output, options, TN_E_UNSUPPORTED, "are written in");
    refused(in_folder("none.tflite"), output, options, TN_E_IO, "");
    uint8_t *bytes = bytes_of(output, &size); /* what stood there stands there */
    assert_true(size == 3 && memcmp(bytes, "old", 3) == 0);
    free(bytes);
    refused(MODEL, in_folder("no/such/folder.tflite"), options, TN_E_IO, "its folder");
    refused(MODEL, "/dev/full", options, TN_E_IO, "");
    assert_int_equal(unlink(output), 0);
}

/* Who asks for the model's own name gets it replaced, whole: as it is written elsewhere. */
static void a_model_is_replaced_by_what_is_made_of_it(void **state) {
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    char same[220], other[220];
    size_t size, same_size, other_size;
    (void)state;
    snprintf(same, sizeof same, "%s", in_folder("same.tflite"));
    snprintf(other, sizeof other, "%s", in_folder("other.tflite"));
    options.share = 0.25;
    uint8_t *bytes = bytes_of(MODEL, &size);
    assert_int_equal(tn__file_write(same, bytes, size, &failure), TN_OK);
    free(bytes);
    assert_int_equal(tn_split_file(MODEL, other, &options, &report, &failure), TN_OK);
    assert_int_equal(tn_split_file(same, same, &options, &report, &failure), TN_OK);
    uint8_t *replaced = bytes_of(same, &same_size), *made = bytes_of(other, &other_size);
    assert_true(same_size == other_size && memcmp(replaced, made, same_size) == 0);
    free(replaced);
    free(made);
    assert_int_equal(unlink(same), 0);
    assert_int_equal(unlink(other), 0);
}

static bool enough(void *self, const char *stage, uint64_t done, uint64_t of) {
    uint32_t *left = self;
    (void)stage;
    (void)done;
    (void)of;
    return *left > 0 && --*left > 0;
}

static void a_search_that_is_stopped_gives_its_best_or_nothing(void **state) {
    tn_context context = TN_CONTEXT_INIT;
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    uint32_t left, found = 0, stopped = 0;
    (void)state;
    context.progress = enough;
    context.self = &left;
    options.context = &context;
    options.share = 0.5;
    for (uint32_t turns = 1; turns < UINT32_MAX / 2 && found == 0; turns *= 2) {
        left = turns;
        tn_status status =
            tn_split_file(MODEL, in_folder("best.tflite"), &options, &report, &failure);
        assert_true(status == TN_OK || status == TN_E_STOPPED);
        if (status == TN_OK) check(MODEL, in_folder("best.tflite"), &options, &report);
        found += status == TN_OK;
        stopped += status != TN_OK;
    }
    assert_true(found > 0 && stopped > 0);
}

/* Wherever it was stopped, it does not say that there is nothing. */
static void a_search_that_is_stopped_does_not_say_that_nothing_fits(void **state) {
    tn_context context = TN_CONTEXT_INIT;
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    uint32_t left = UINT32_MAX;
    (void)state;
    context.progress = enough;
    context.self = &left;
    options.context = &context;
    options.budget = 1000;
    assert_int_equal(tn_split_file(MODEL, NULL, &options, &report, &failure), TN_E_EXHAUSTED);
    const uint32_t all = UINT32_MAX - left, turns[] = {1, all / 4, all / 2, all - 1, all, all + 1};
    assert_true(all > 20);
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        left = turns[i];
        tn_status status = tn_split_file(MODEL, NULL, &options, &report, &failure);
        assert_int_equal(status, left == 0 ? TN_E_STOPPED : TN_E_EXHAUSTED);
    }
}

static void no_allocation_of_one_file_that_fails_does_harm(void **state) {
    (void)state;
    one_file_without_memory(MODEL, 0.5);
}

static void no_allocation_that_fails_does_harm(void **state) {
    tn_status status = TN_E_NO_MEMORY;
    uint32_t failed = 0;
    (void)state;
    for (uint64_t at_request = 1; status == TN_E_NO_MEMORY;
         at_request += 1 + at_request / 12, failed++) {
        faulty memory = {.fail_at = at_request};
        tn_context context = faulty_context(&memory);
        tn_export_options options = TN_EXPORT_OPTIONS_INIT;
        tn_export_report report;
        options.context = &context;
        options.share = 0.25;
        options.plan = at_request % 2 == 0;
        status = tn_split_file(MODEL, in_folder("memory.tflite"), &options, &report, &failure);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        assert_int_equal(memory.held, 0);
        assert_int_equal(access(in_folder("memory.tflite"), F_OK), status == TN_OK ? 0 : -1);
    }
    assert_true(failed > 20);
    assert_int_equal(unlink(in_folder("memory.tflite")), 0);
}

/* Whatever the file says, the answer is a status, and a model that is written can be read. */
static void damaged_models_do_no_harm(void **state) {
    tn__random random = {11};
    size_t size;
    uint32_t written = 0;
    uint8_t *bytes = bytes_of(MODEL, &size);
    char path[220], output[220];
    (void)state;
    snprintf(path, sizeof path, "%s", in_folder("damaged.tflite"));
    snprintf(output, sizeof output, "%s", in_folder("out.tflite"));
    for (uint32_t turn = 0; turn < 150; turn++) {
        tn_export_options options = TN_EXPORT_OPTIONS_INIT;
        tn_export_report report;
        size_t at = (size_t)tn__random_below(&random, size);
        uint8_t bit = (uint8_t)(1u << tn__random_below(&random, 8));
        options.share = 0.25;
        bytes[at] ^= bit;
        assert_int_equal(tn__file_write(path, bytes, size, &failure), TN_OK);
        bytes[at] ^= bit;
        if (tn_split_file(path, output, &options, &report, &failure) != TN_OK) continue;
        tn_graph_destroy(load(output));
        written++;
    }
    printf("%u of 150 damaged models were written\n", written);
    free(bytes);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int end_folder(void **state) {
    static const char *const names[] = {"share.tflite", "budget.tflite",  "same.tflite",
                                        "best.tflite",  "damaged.tflite", "out.tflite"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
    return rmdir(folder); /* nothing else is left behind */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_in_parts_computes_the_same_in_the_arena_that_is_told),
        cmocka_unit_test(so_do_known_networks),
        cmocka_unit_test(what_fits_is_written_as_it_is),
        cmocka_unit_test(what_cannot_be_done_is_said_and_nothing_is_written),
        cmocka_unit_test(a_model_is_replaced_by_what_is_made_of_it),
        cmocka_unit_test(a_search_that_is_stopped_gives_its_best_or_nothing),
        cmocka_unit_test(a_search_that_is_stopped_does_not_say_that_nothing_fits),
        cmocka_unit_test(no_allocation_that_fails_does_harm),
        cmocka_unit_test(no_allocation_of_one_file_that_fails_does_harm),
        cmocka_unit_test(damaged_models_do_no_harm),
    };
    return cmocka_run_group_tests(tests, make_folder, end_folder);
}
