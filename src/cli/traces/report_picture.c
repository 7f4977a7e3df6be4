/* report_picture.c - makes a plan of the blocks of a device over time at their addresses, which the
 * formats of src/report draw.
 *
 * Each contiguous address range of segments becomes a bank; if there are too many ranges for that,
 * they lie next to each other in one bank. The gaps between segments, which may be terabytes, are
 * therefore not drawn, but holes within segments are. A browser cannot show millions of bars, so
 * only the largest blocks are drawn, as many as --bars says. The number of the other blocks is
 * printed.
 */
#include "cli/traces/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { PICTURE_BANKS_MAX = 256, PICTURE_FRAMES = 64, PICTURE_OOMS = 256 };

typedef struct picture_range {
    uint64_t first, last, base; /* base: offset of the range in the drawing */
} picture_range;

typedef struct picture {
    const cli_report *report;
    const cli_report_device *device;
    const tn_snapshot_life *lives;
    uint64_t life_count;
    picture_range *ranges; /* address ranges, disjoint and in rising order */
    size_t range_count, range_room;
    uint32_t *drawn; /* [drawn_count] indices of the drawn blocks in `lives` */
    size_t drawn_count;
    tn_problem *problem;
    uint64_t *offsets;
    tn_bank_id *banks;
    tn_report_mark *marks;
    const char **notes; /* [stacks] texts of call stacks, each made when it is first used */
    tn__arena arena;
} picture;

/* --- addresses --- */

static int picture_compare(const void *a, const void *b) {
    const picture_range *left = a, *right = b;
    if (left->first != right->first) return left->first < right->first ? -1 : 1;
    return left->last < right->last ? -1 : left->last > right->last;
}

static tn_status picture_add(picture *drawing, uint64_t first, uint64_t size) {
    if (size == 0) return TN_OK;
    if (!tn__reserve(&drawing->report->context, &drawing->ranges, &drawing->range_room,
                     drawing->range_count + 1, sizeof *drawing->ranges))
        return tn__no_memory(drawing->report->error, "a picture");
    drawing->ranges[drawing->range_count++] =
        (picture_range){.first = first, .last = tn__add_sat(first, size)};
    return TN_OK;
}

/* Sorts the ranges, and merges adjacent and overlapping ones. */
static void picture_join(picture *drawing) {
    size_t kept = 0;
    qsort(drawing->ranges, drawing->range_count, sizeof *drawing->ranges, picture_compare);
    for (size_t i = 0; i < drawing->range_count; i++) {
        const picture_range *range = &drawing->ranges[i];
        picture_range *last = kept > 0 ? &drawing->ranges[kept - 1] : NULL;
        if (last == NULL || range->first > last->last)
            drawing->ranges[kept++] = *range;
        else if (range->last > last->last)
            last->last = range->last;
    }
    drawing->range_count = kept;
}

/* Collects all address ranges of the device: those of its present segments, of segments in events,
 * and of blocks. Blocks are needed because the event history is a ring buffer, which may have lost
 * early events. */
static tn_status picture_ranges(picture *drawing) {
    uint32_t segments = 0;
    uint64_t events = 0, base = 0;
    const tn_snapshot_segment *all = tn_snapshot_segments(drawing->report->snapshot, &segments);
    const tn_snapshot_event *event =
        tn_snapshot_events(drawing->report->snapshot, drawing->device->device, &events);
    for (uint32_t i = 0; i < segments; i++)
        if (all[i].device == drawing->device->device)
            TN_TRY(picture_add(drawing, all[i].address, all[i].total));
    for (uint64_t i = 0; i < events; i++)
        if (event[i].action >= TN_SNAPSHOT_SEGMENT_ALLOC &&
            event[i].action <= TN_SNAPSHOT_SEGMENT_UNMAP)
            TN_TRY(picture_add(drawing, event[i].address, event[i].size));
    for (uint64_t i = 0; i < drawing->life_count; i++)
        TN_TRY(picture_add(drawing, drawing->lives[i].address, drawing->lives[i].size));
    picture_join(drawing);
    for (size_t i = 0; i < drawing->range_count; i++) {
        drawing->ranges[i].base = base;
        base += drawing->ranges[i].last - drawing->ranges[i].first;
    }
    return TN_OK;
}

static uint32_t picture_range_of(const picture *drawing, uint64_t address) {
    size_t low = 0, high = drawing->range_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (drawing->ranges[middle].first <= address)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* --- blocks --- */

/* Selects the largest blocks, as many as may be drawn, and sorts them by their numbers. */
static tn_status picture_choose(picture *drawing) {
    const tn_context *context = &drawing->report->context;
    size_t count = (size_t)drawing->life_count;
    tn__sort_item *items = tn__alloc_array(context, count + 1, sizeof *items);
    drawing->drawn_count = count < drawing->report->bars ? count : (size_t)drawing->report->bars;
    drawing->drawn =
        tn__arena_array(&drawing->arena, drawing->drawn_count + 1, sizeof *drawing->drawn);
    bool done = items != NULL && drawing->drawn != NULL;
    for (size_t i = 0; done && i < count; i++)
        items[i] = (tn__sort_item){UINT64_MAX - drawing->lives[i].size, (uint32_t)i};
    done = done && tn__sort_items(context, items, count);
    for (size_t i = 0; done && i < drawing->drawn_count; i++) items[i].key = items[i].id;
    done = done && tn__sort_items(context, items, drawing->drawn_count);
    for (size_t i = 0; done && i < drawing->drawn_count; i++) drawing->drawn[i] = items[i].id;
    tn__free(context, items, (count + 1) * sizeof *items);
    return done ? TN_OK : tn__no_memory(drawing->report->error, "a picture");
}

/* Returns a call stack as text, one line per frame, the innermost frame first. Returns NULL without
 * frames or without memory. */
static const char *picture_note(picture *drawing, uint32_t stack) {
    tn_snapshot_frame frames[PICTURE_FRAMES];
    uint32_t count = tn_snapshot_stack(drawing->report->snapshot, stack, frames, PICTURE_FRAMES);
    tn__text text;
    if (count == 0) return NULL;
    if (drawing->notes[stack] != NULL) return drawing->notes[stack];
    tn__text_init(&text, &drawing->report->context);
    for (uint32_t i = 0; i < count && i < PICTURE_FRAMES; i++)
        tn__text_printf(&text, "%s%s:%" PRId64 " %s", i > 0 ? "\n" : "", frames[i].file,
                        frames[i].line, frames[i].function);
    if (count > PICTURE_FRAMES) tn__text_printf(&text, "\nand %u more", count - PICTURE_FRAMES);
    if (!text.failed)
        drawing->notes[stack] = tn__arena_string(&drawing->arena, text.data, text.size);
    tn__text_release(&text);
    return drawing->notes[stack];
}

/* Returns the kind of a block: the category in the file, which runs of Tenure and PyTorch's
 * profiler record, or else the category that the reader inferred. */
static uint32_t picture_kind(const picture *drawing, const tn_snapshot_life *life) {
    const char *name = tn_snapshot_category(drawing->report->snapshot, life->category);
    uint32_t guess = life->guess;
    for (uint32_t kind = 0; life->category != 0 && kind < TN_KIND_COUNT; kind++)
        if (strcasecmp(name, tn_kind_name((tn_kind)kind)) == 0) return kind;
    for (uint32_t i = 0; life->category != 0 && i < TN_SNAPSHOT_GUESS_COUNT; i++)
        if (strcasecmp(name, tn_snapshot_guess_name(i)) == 0) guess = i;
    switch (guess) {
    case TN_SNAPSHOT_PARAMETER:
        return TN_KIND_PARAMETER;
    case TN_SNAPSHOT_OPTIMIZER_STATE:
        return TN_KIND_OPTIMIZER_STATE;
    case TN_SNAPSHOT_INPUT:
        return TN_KIND_INPUT;
    case TN_SNAPSHOT_TEMPORARY:
        return TN_KIND_WORKSPACE;
    case TN_SNAPSHOT_ACTIVATION:
        return TN_KIND_ACTIVATION;
    case TN_SNAPSHOT_GRADIENT:
        return TN_KIND_GRADIENT;
    default:
        return TN_KIND_COUNT;
    }
}

static tn_status picture_banks(picture *drawing, bool by_bank) {
    for (size_t i = 0; i < drawing->range_count && by_bank; i++) {
        char name[40];
        const picture_range *range = &drawing->ranges[i];
        snprintf(name, sizeof name, "%#" PRIx64, range->first);
        TN_TRY(tn_problem_set_bank(drawing->problem, (tn_bank_id)i,
                                   &(tn_bank){.name = name, .capacity = range->last - range->first},
                                   drawing->report->error));
    }
    return TN_OK;
}

static tn_status picture_body(picture *drawing, size_t row, bool by_bank) {
    const tn_snapshot_life *life = &drawing->lives[drawing->drawn[row]];
    uint32_t number = picture_range_of(drawing, life->address);
    const picture_range *range = &drawing->ranges[number];
    uint64_t offset = life->size > 0 ? life->address - range->first : 0;
    tn_body body = {.size = life->size,
                    .first = life->first,
                    .last = life->last,
                    .alignment = 1,
                    .bank = by_bank ? number : 0,
                    .name = tn_snapshot_group_of(drawing->device->lives, drawing->drawn[row],
                                                 TN_SNAPSHOT_BY_LINE)};
    drawing->offsets[row] = by_bank ? offset : range->base + offset;
    drawing->marks[row] =
        (tn_report_mark){picture_kind(drawing, life), picture_note(drawing, life->stack)};
    return tn_problem_add(drawing->problem, &body, NULL, drawing->report->error);
}

static tn_status picture_problem(picture *drawing) {
    const cli_report *report = drawing->report;
    size_t count = drawing->drawn_count;
    bool by_bank = drawing->range_count > 0 && drawing->range_count <= PICTURE_BANKS_MAX;
    drawing->offsets = tn__arena_array(&drawing->arena, count + 1, sizeof *drawing->offsets);
    drawing->marks = tn__arena_array(&drawing->arena, count + 1, sizeof *drawing->marks);
    drawing->notes = tn__arena_array(&drawing->arena, tn_snapshot_stack_count(report->snapshot),
                                     sizeof *drawing->notes);
    if (drawing->offsets == NULL || drawing->marks == NULL || drawing->notes == NULL)
        return tn__no_memory(report->error, "a picture");
    TN_TRY(tn_problem_create(&report->context, &drawing->problem, report->error));
    TN_TRY(picture_banks(drawing, by_bank));
    for (size_t row = 0; row < count; row++) TN_TRY(picture_body(drawing, row, by_bank));
    return TN_OK;
}

/* Collects the first failed requests, with the bytes in use at each. Returns their number. */
static uint32_t picture_ooms(const picture *drawing, tn_report_oom ooms[PICTURE_OOMS]) {
    const tn_snapshot_lives *lives = drawing->device->lives;
    uint64_t times[PICTURE_OOMS], events = 0;
    const tn_snapshot_event *event =
        tn_snapshot_events(drawing->report->snapshot, drawing->device->device, &events);
    uint32_t count = tn_snapshot_ooms(lives, times, PICTURE_OOMS);
    if (count > PICTURE_OOMS) {
        char note[96];
        snprintf(note, sizeof note, "the picture marks the first %u of %u failed requests",
                 (unsigned)PICTURE_OOMS, count);
        cli_note(note);
        count = PICTURE_OOMS;
    }
    for (uint32_t i = 0; i < count; i++) {
        const tn_snapshot_event *oom = &event[times[i] - 1];
        ooms[i] = (tn_report_oom){
            .time = (int64_t)times[i], .wanted = oom->size, .device_free = oom->address};
        tn_snapshot_bytes_at(lives, times[i], &ooms[i].requested, &ooms[i].reserved);
    }
    return count;
}

static tn_status picture_write(picture *drawing) {
    const cli_report *report = drawing->report;
    tn_report_oom ooms[PICTURE_OOMS];
    char input[600];
    tn_layout layout = {0};
    snprintf(input, sizeof input, report->device_count > 1 ? "%.500s, device %u" : "%.500s",
             report->path, drawing->device->device);
    TN_TRY(tn_layout_from_offsets(drawing->problem, drawing->offsets, &layout, report->error));
    layout.planner = "as in the snapshot";
    tn_report page = {.struct_size = sizeof page,
                      .input = input,
                      .problem = drawing->problem,
                      .layout = &layout,
                      .context = &report->context,
                      .marks = drawing->marks,
                      .ooms = ooms,
                      .oom_count = picture_ooms(drawing, ooms),
                      .reserved_peak = tn_snapshot_facts_of(drawing->device->lives)->reserved_peak};
    cli_answer tables; /* the page also has the tables that are printed on standard output */
    cli_report_add_table(report, &tables);
    page.text = cli_answer_text(&tables);
    tn_status status = page.text != NULL ? TN_OK : tn__no_memory(report->error, "a page");
    for (uint32_t i = 0; i < report->output_count && status == TN_OK; i++)
        status = tn_report_write(&page, report->outputs[i], report->error);
    cli_answer_release(&tables);
    tn_layout_release(&layout);
    return status;
}

tn_status cli_report_draw(const cli_report *report, const cli_report_device *device,
                          uint64_t *left_out) {
    picture drawing = {.report = report, .device = device};
    drawing.lives = tn_snapshot_life_at(device->lives, &drawing.life_count);
    tn__arena_init(&drawing.arena, &report->context);
    tn_status status = picture_ranges(&drawing);
    if (status == TN_OK) status = picture_choose(&drawing);
    if (status == TN_OK) status = picture_problem(&drawing);
    if (status == TN_OK) status = picture_write(&drawing);
    *left_out = drawing.life_count - drawing.drawn_count;
    tn_problem_destroy(drawing.problem);
    tn__free(&report->context, drawing.ranges, drawing.range_room * sizeof *drawing.ranges);
    tn__arena_release(&drawing.arena);
    return status;
}
