/* report_tools.h - what the tests of reports share: problems, layouts, a counting allocator. */
#ifndef TN_TEST_REPORT_TOOLS_H
#define TN_TEST_REPORT_TOOLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "report/format.h"

static tn_error failure;

static inline void assert_ok_at(tn_status status, const char *file, int line) {
    if (status == TN_OK) return;
    print_error("%s:%d: %s: %s\n", file, line, tn_status_name(status), failure.message);
    fail();
}
#define assert_ok(call) assert_ok_at(call, __FILE__, __LINE__)

/* --- an allocator that counts, and fails when told --- */

typedef struct counting {
    size_t calls, fail_at, blocks, bytes; /* fail_at: the call that fails; 0: none */
} counting;

static inline void *counting_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                                    size_t alignment) {
    counting *count = self;
    assert_true(alignment <= 64);
    if (new_size == 0) {
        count->blocks -= pointer != NULL;
        count->bytes -= pointer ? old_size : 0;
        free(pointer);
        return NULL;
    }
    if (++count->calls == count->fail_at) return NULL;
    void *block = aligned_alloc(64, (new_size + 63) / 64 * 64);
    assert_non_null(block);
    if (pointer) memcpy(block, pointer, old_size < new_size ? old_size : new_size);
    count->blocks += pointer == NULL;
    count->bytes += new_size - (pointer ? old_size : 0);
    free(pointer);
    return block;
}

static inline tn_context counting_context(counting *count) {
    tn_context context = TN_CONTEXT_INIT;
    context.allocator = (tn_allocator){counting_resize, count};
    return context;
}

/* --- problems and layouts --- */

/* Bodies of one to three pieces in up to three banks, some without size, some without name. */
static inline tn_problem *random_problem(uint64_t seed, uint32_t count) {
    tn__random random = {seed};
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    uint32_t banks = 1 + (uint32_t)tn__random_below(&random, 3);
    for (uint32_t b = 1; b < banks; b++)
        assert_ok(tn_problem_set_bank(problem, b, &(tn_bank){.name = "fast", .capacity = 1 << 30},
                                      &failure));
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        tn_piece pieces[3];
        snprintf(name, sizeof name, "buffer %u", i);
        tn_body body = {.size =
                            tn__random_below(&random, 8) ? 1 + tn__random_below(&random, 5000) : 0,
                        .first = (int64_t)tn__random_below(&random, 200) - 100,
                        .alignment = (uint64_t)1 << tn__random_below(&random, 7),
                        .bank = (tn_bank_id)tn__random_below(&random, banks),
                        .name = tn__random_below(&random, 4) ? name : NULL};
        body.last = body.first + 1 + (int64_t)tn__random_below(&random, 40);
        if (body.size > 0 && tn__random_below(&random, 3) == 0) {
            body.piece_count = 1 + (uint32_t)tn__random_below(&random, 3);
            body.pieces = pieces;
            for (uint32_t p = 0; p < body.piece_count; p++) {
                pieces[p].lo = tn__random_below(&random, body.size);
                pieces[p].hi =
                    pieces[p].lo + 1 + tn__random_below(&random, body.size - pieces[p].lo);
                pieces[p].first = (int64_t)tn__random_below(&random, 200) - 100;
                pieces[p].last = pieces[p].first + 1 + (int64_t)tn__random_below(&random, 40);
            }
        }
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    return problem;
}

/* What CSV can hold as well: one bank, one piece each. */
static inline tn_problem *plain_problem(uint64_t seed, uint32_t count) {
    tn__random random = {seed};
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint32_t i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "b%u", i);
        tn_body body = {.size = tn__random_below(&random, 5000),
                        .first = (int64_t)tn__random_below(&random, 200),
                        .alignment = (uint64_t)1 << tn__random_below(&random, 7),
                        .name = name};
        body.last = body.first + 1 + (int64_t)tn__random_below(&random, 40);
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    return problem;
}

/* Every body above all others of its bank: valid whatever the lives. */
static inline tn_layout stacked_layout(const tn_problem *problem) {
    uint32_t count = tn_problem_count(problem);
    uint64_t *offsets = calloc((size_t)count + 1, sizeof *offsets), top[8] = {0};
    tn_layout layout;
    for (uint32_t i = 0; i < count; i++) {
        const tn_body *body = tn_problem_body(problem, i);
        offsets[i] = (top[body->bank] + body->alignment - 1) / body->alignment * body->alignment;
        top[body->bank] = offsets[i] + body->size;
    }
    assert_ok(tn_layout_from_offsets(problem, offsets, &layout, &failure));
    free(offsets);
    return layout;
}

static inline tn_report report_of(const tn_problem *problem, const tn_layout *layout) {
    return (tn_report){.struct_size = sizeof(tn_report),
                       .input = "input.csv",
                       .problem = problem,
                       .layout = layout};
}

__attribute__((noinline, unused)) static char *rendered(const tn_report *report,
                                                        const char *format) {
    char *text = NULL;
    size_t size = 0;
    assert_ok(tn_report_render(report, format, &text, &size, &failure));
    assert_non_null(text);
    assert_int_equal(strlen(text), size);
    return text;
}

#endif
