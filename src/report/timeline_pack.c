/* timeline_pack.c - packs the spans of a rank as bytes, for the process that draws all ranks.
 *
 * Numbers are in the byte order of this machine. Received bytes are checked before they are used:
 * sizes add up, offsets lie within the strings, times are finite.
 */
#include <math.h>

#include "report/timeline.h"

#define PACK_MAGIC UINT64_C(0x32656e696c6e7401) /* "\1tnline2" */

typedef struct pack_head {
    uint64_t magic, planned;
    /* number of spans; bytes of strings */
    uint64_t spans[TN_TIMELINE_KINDS], strings[TN_TIMELINE_KINDS];
    uint64_t steps[TN_TIMELINE_KINDS], number[TN_TIMELINE_KINDS];
    char label[64];
} pack_head;

static uint8_t *pack_put(uint8_t *at, const void *bytes, size_t size) {
    if (size > 0) memcpy(at, bytes, size);
    return at + size;
}

tn_status tn_timeline_pack(const tn_timeline *line, uint32_t rank, void **bytes, uint64_t *size,
                           tn_error *error) {
    TN_TRY(tn__line_find(line, rank, error));
    const tn__line_rank *from = &line->ranks[rank];
    pack_head head = {.magic = PACK_MAGIC, .planned = from->planned};
    size_t all = sizeof head;
    memcpy(head.label, from->label, sizeof head.label);
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
        head.spans[kind] = from->runs[kind].count;
        head.strings[kind] = from->runs[kind].strings.size;
        head.steps[kind] = from->runs[kind].step_count;
        head.number[kind] = from->runs[kind].number;
        all += from->runs[kind].count * sizeof(tn__span) + from->runs[kind].strings.size +
               from->runs[kind].step_count * sizeof(tn__line_step);
    }
    uint8_t *to = tn__alloc(&line->context, all), *at = to;
    if (to == NULL) return tn__no_memory(error, "a time line");
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
        const tn__line_run *run = &from->runs[kind];
        at = pack_put(at, run->spans, run->count * sizeof *run->spans);
        at = pack_put(at, run->steps, run->step_count * sizeof *run->steps);
        at = pack_put(at, run->strings.data, run->strings.size);
    }
    *bytes = to;
    *size = all;
    return TN_OK;
}

void tn_timeline_release(const tn_timeline *line, void *bytes, uint64_t size) {
    tn__free(&line->context, bytes, size);
}

#define PACK_LONGEST 1e12 /* seconds: allows clocks that count from 1970 */

static bool pack_is_span(const tn__span *span, uint64_t strings) {
    return fabs(span->start_s) <= PACK_LONGEST && span->duration_s <= PACK_LONGEST &&
           span->duration_s >= 0 && span->name < strings && span->type < strings &&
           span->lane < TN__TRACK_COUNT && span->phase < TN__SPAN_PHASES &&
           span->stream < TN_STREAM_MAX;
}

static bool pack_is_step(const tn__line_step *step) {
    return step->duration_s <= PACK_LONGEST && step->duration_s >= 0 &&
           step->stream < TN_STREAM_MAX && step->talk < TN__STEP_TALKS &&
           step->link <= TN_LINK_FROM_STORAGE;
}

/* Reads one run from the remaining bytes and steps over it. */
static tn_status pack_run(const tn_context *context, uint64_t count, uint64_t steps,
                          uint64_t strings, const uint8_t **at, tn__line_run *run,
                          tn_error *error) {
    run->spans = tn__alloc_array(context, count + 1, sizeof *run->spans);
    if (run->spans == NULL) return tn__no_memory(error, "a time line");
    run->room = count + 1;
    run->count = count;
    if (count > 0) memcpy(run->spans, *at, count * sizeof *run->spans);
    *at += count * sizeof *run->spans;
    if (steps > 0) {
        run->steps = tn__alloc_array(context, steps, sizeof *run->steps);
        if (run->steps == NULL) return tn__no_memory(error, "a time line");
        run->step_count = steps;
        memcpy(run->steps, *at, steps * sizeof *run->steps);
        *at += steps * sizeof *run->steps;
    }
    tn__text_add(&run->strings, (const char *)*at, strings);
    *at += strings;
    if (run->strings.failed) return tn__no_memory(error, "a time line");
    bool whole = strings == 0 || run->strings.data[strings - 1] == '\0';
    for (uint64_t i = 0; i < count && whole; i++) whole = pack_is_span(&run->spans[i], strings);
    for (uint64_t i = 0; i < steps && whole; i++) whole = pack_is_step(&run->steps[i]);
    whole = whole && steps < TN_NONE;
    if (!whole) TN_FAIL(error, TN_E_INVALID, "these bytes are no rank of a time line");
    return tn__line_run_sort(context, run, error);
}

/* Do the sizes in the head add up to the number of bytes? */
static bool pack_fits(const pack_head *head, uint64_t size) {
    uint64_t all = sizeof *head;
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
        all = tn__add_sat(
            tn__add_sat(all, tn__mul_sat(head->steps[kind], sizeof(tn__line_step))),
            tn__add_sat(tn__mul_sat(head->spans[kind], sizeof(tn__span)), head->strings[kind]));
    return head->magic == PACK_MAGIC && all == size &&
           memchr(head->label, '\0', sizeof head->label) != NULL;
}

tn_status tn_timeline_unpack(tn_timeline *line, uint32_t rank, const void *bytes, uint64_t size,
                             tn_error *error) {
    pack_head head = {0};
    tn__line_rank made = {0};
    tn_status status = TN_OK;
    TN_TRY(tn__line_find(line, rank, error));
    if (size >= sizeof head) memcpy(&head, bytes, sizeof head);
    if (!pack_fits(&head, size))
        TN_FAIL(error, TN_E_INVALID, "these bytes are no rank of a time line");
    const uint8_t *at = (const uint8_t *)bytes + sizeof head;
    memcpy(made.label, head.label, sizeof made.label);
    made.planned = head.planned;
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
        tn__text_init(&made.runs[kind].strings, &line->context);
        made.runs[kind].number = (uint32_t)head.number[kind];
        if (status == TN_OK)
            status = pack_run(&line->context, head.spans[kind], head.steps[kind],
                              head.strings[kind], &at, &made.runs[kind], error);
    }
    tn__line_rank *to = &line->ranks[rank];
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
        tn__line_run_release(&line->context, status == TN_OK ? &to->runs[kind] : &made.runs[kind]);
    if (status == TN_OK) *to = made;
    return status;
}
