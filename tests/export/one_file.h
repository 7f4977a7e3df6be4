/* one_file.h - one model in parts is written with every request for memory failing once. */
#ifndef TN_TESTS_ONE_FILE_H
#define TN_TESTS_ONE_FILE_H

#include "report/export/export.h"
#include "support.h"

static inline tn_status one_file_write(const export_source *source, const export_split *split,
                                       tn__text *image, tn_error *error) {
    return source->is_tflite ? tn__export_tflite(&source->plan, split, image, error)
                             : tn__export_onnx(source->file, split, image, error);
}

/* In parts as far as so much more work lets. */
static inline void one_file_split(const export_source *source, double share, export_split *split,
                                  tn_error *error) {
    tn_split_options options = TN_SPLIT_OPTIONS_INIT;
    tn_split_search *search;
    tn_split_choice choice;
    options.context = &source->context;
    options.copies = true;
    *split = (export_split){.whole = source->graph};
    assert_int_equal(tn_split_search_create(source->graph, &options, &search, error), TN_OK);
    assert_int_equal(tn_split_least(search, share, &choice, error), TN_OK);
    assert_true(choice.count > 0);
    assert_int_equal(tn__graph_split(source->graph, choice.regions, choice.count, &source->context,
                                     &split->graph, &split->trace, error),
                     TN_OK);
    tn_split_choice_release(search, &choice);
    tn_split_search_destroy(search);
}

static inline void one_file_without_memory(const char *path, double share) {
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_export_options asked = TN_EXPORT_OPTIONS_INIT;
    tn_error error;
    export_source source;
    export_split split;
    tn_status status = TN_E_NO_MEMORY;
    assert_int_equal(tn__export_open(&source, path, &context, &asked, &error), TN_OK);
    one_file_split(&source, share, &split, &error);
    size_t held = memory.held;
    uint64_t turn = 0;
    while (status == TN_E_NO_MEMORY) {
        tn__text image;
        tn__text_init(&image, &context);
        memory.fail_at = memory.requests + ++turn;
        status = one_file_write(&source, &split, &image, &error);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        tn__text_release(&image);
        assert_int_equal(memory.held, held);
    }
    assert_true(turn > 5);
    memory.fail_at = 0;
    tn__split_trace_release(&split.trace);
    tn_graph_destroy(split.graph);
    tn__export_close(&source);
    assert_int_equal(memory.held, 0);
}

#endif
