/* words.c - settings and messages shared by the preloaded library and the PyTorch allocator. */
#include "interop/preload/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void tn__say(const char *what, const char *detail) {
    fprintf(stderr, "tenure: %s%s%s\n", what, detail[0] != '\0' ? ": " : "", detail);
}

bool tn__say_setting(const char *name, uint64_t *bytes) {
    const char *text = getenv(name);
    tn_error error = {0};
    if (text == NULL || text[0] == '\0') return true;
    if (tn_size_parse(text, bytes, &error) == TN_OK) return true;
    tn__say(name, error.message);
    return false;
}

void tn__say_numbers(tn_pool *pool, const char *what) {
    char reserved[TN_SIZE_TEXT_MAX], requested[TN_SIZE_TEXT_MAX], height[TN_SIZE_TEXT_MAX];
    tn_pool_usage usage;
    tn_pool_lesson lesson;
    tn_pool_measure(pool, &usage);
    tn_pool_learned(pool, &lesson);
    fprintf(stderr,
            "tenure: %" PRIu64 " %s; at most %s in use, %s reserved; %" PRIu64 " did not fit\n",
            usage.alloc_count - usage.failed_count, what,
            tn_size_format(usage.requested_peak, requested),
            tn_size_format(usage.reserved_peak, reserved), usage.failed_count);
    if (lesson.plans > 0)
        fprintf(stderr,
                "tenure: %" PRIu64 " plans served %" PRIu64 " of them, %" PRIu64
                " were surprises; plan in force: %s\n",
                lesson.plans, lesson.served, lesson.surprises,
                lesson.period != 0 ? tn_size_format(lesson.height, height) : "none");
}
