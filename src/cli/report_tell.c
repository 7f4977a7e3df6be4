/* report_tell.c - prints the results of `tenure report` as tables and as one JSON object. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/report.h"
#include "report/format.h"

static const char *const tell_by[] = {"line", "module", "category"};

/* The largest groups; *count is the number of all groups. NULL: out of memory. */
static tn_snapshot_group *tell_groups(const cli_report *report, const cli_report_device *device,
                                      uint64_t time, tn_snapshot_by by, uint32_t *count) {
    tn_snapshot_group *groups = calloc((size_t)report->top + 1, sizeof *groups);
    *count = 0;
    if (groups != NULL) *count = tn_snapshot_groups(device->lives, time, by, groups, report->top);
    return groups;
}

/* "70.1 MiB" */
static const char *tell_size(uint64_t bytes, char text[TN__WORDS_MAX]) {
    return tn__words_iec(bytes, text);
}

/* --- tables --- */

static void tell_table(const cli_report *report, const cli_report_device *device,
                       const cli_report_moment *moment, tn_snapshot_by by, uint64_t whole) {
    uint32_t count;
    char size[TN__WORDS_MAX];
    tn_snapshot_group *groups = tell_groups(report, device, moment->time, by, &count);
    if (groups == NULL || count == 0) {
        free(groups);
        return;
    }
    printf("\n  %14s  share  blocks  %s\n", "bytes",
           by == TN_SNAPSHOT_BY_CATEGORY ? "category (from the file, else guessed from stacks)"
                                         : tell_by[by]);
    for (uint32_t i = 0; i < count && i < report->top; i++) {
        double share = whole == 0 ? 0 : 100 * (double)groups[i].bytes / (double)whole;
        printf("  %14s  %4.1f %%  %6" PRIu64 "  ", tell_size(groups[i].bytes, size), share,
               groups[i].count);
        cli_put_text(stdout, groups[i].name);
        printf("\n");
    }
    if (count > report->top) printf("  and %u more\n", count - report->top);
    free(groups);
}

static void tell_moment(const cli_report *report, const cli_report_device *device,
                        const cli_report_moment *moment) {
    uint64_t requested, reserved;
    char wanted[TN__WORDS_MAX], left[TN__WORDS_MAX], own[TN_SIZE_TEXT_MAX], held[TN__WORDS_MAX];
    tn_snapshot_bytes_at(device->lives, moment->time, &requested, &reserved);
    printf("\n  %s%s (event %" PRIu64 " of %" PRIu64 "): %s requested, %s reserved\n",
           strcmp(moment->name, "now") == 0 ? "memory " : "", moment->name, moment->time,
           tn_snapshot_facts_of(device->lives)->event_count, tn_size_format(requested, own),
           tell_size(reserved, held));
    if (moment->oom != NULL)
        printf("  %s was requested; the device had %s free, %s were reserved and not in use\n",
               tell_size(moment->oom->size, wanted), tell_size(moment->oom->address, left),
               tell_size(reserved > requested ? reserved - requested : 0, held));
    tell_table(report, device, moment, TN_SNAPSHOT_BY_LINE, requested);
    tell_table(report, device, moment, TN_SNAPSHOT_BY_MODULE, requested);
    tell_table(report, device, moment, TN_SNAPSHOT_BY_CATEGORY, requested);
}

/* The sums over this device's segments. */
typedef struct tell_sums {
    uint32_t segments;
    uint64_t reserved, allocated, active;
} tell_sums;

static tell_sums tell_sum(const cli_report *report, const cli_report_device *device) {
    tell_sums sums = {0};
    uint32_t count;
    const tn_snapshot_segment *all = tn_snapshot_segments(report->snapshot, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].device != device->device) continue;
        sums.segments++;
        sums.reserved = tn__add_sat(sums.reserved, all[i].total);
        sums.allocated = tn__add_sat(sums.allocated, all[i].allocated);
        sums.active = tn__add_sat(sums.active, all[i].active);
    }
    return sums;
}

static void tell_causes(const cli_report *report, const cli_report_device *device) {
    tn_snapshot_causes causes = tn_snapshot_hole_causes(report->snapshot, device->device);
    char hard[TN__WORDS_MAX], soft[TN__WORDS_MAX], stream[TN__WORDS_MAX];
    if (causes.hard + causes.soft + causes.stream == 0) return;
    printf("  causes: hard %s (between live blocks), soft %s (whole free segments, which cannot be "
           "merged), stream %s (segments of a stream without live blocks)\n",
           tell_size(causes.hard, hard), tell_size(causes.soft, soft),
           tell_size(causes.stream, stream));
}

static void tell_holes(const cli_report *report, const cli_report_device *device) {
    uint64_t whole, bytes;
    uint32_t segments;
    char size[TN__WORDS_MAX], empty[TN__WORDS_MAX];
    const tn_snapshot_segment *all = tn_snapshot_segments(report->snapshot, &segments);
    tn_snapshot_hole *holes = calloc((size_t)report->top + 1, sizeof *holes);
    if (holes == NULL) return;
    uint32_t count =
        tn_snapshot_holes(report->snapshot, device->device, holes, report->top, &whole, &bytes);
    if (count > 0)
        printf(
            "\n  reserved and not in use, now: %s in %u holes; %s of it in whole segments, which "
            "empty_cache() gives back\n",
            tell_size(bytes, size), count, tell_size(whole, empty));
    if (count > 0) printf("\n  %14s  in a segment of\n", "hole");
    for (uint32_t i = 0; i < count && i < report->top; i++) {
        const tn_snapshot_segment *segment = &all[holes[i].segment];
        printf("  %14s  %s at %#" PRIx64 " + %" PRIu64 " (%s%s, stream %" PRIu64 ")\n",
               tell_size(holes[i].size, size), tell_size(segment->total, empty), segment->address,
               holes[i].offset, segment->large ? "large" : "small",
               segment->expandable ? ", expandable" : "",
               tn_snapshot_stream(report->snapshot, segment->stream));
    }
    if (count > report->top) printf("  and %u smaller ones\n", count - report->top);
    if (count > 0) tell_causes(report, device);
    free(holes);
}

static void tell_waiting(const cli_report *report, const cli_report_device *device) {
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(device->lives);
    tn_snapshot_group *groups = calloc((size_t)report->top + 1, sizeof *groups);
    char size[TN__WORDS_MAX];
    uint32_t count = 0;
    if (groups != NULL && facts->waiting_count > 0)
        count = tn_snapshot_waiting(device->lives, groups, report->top);
    if (count > 0)
        printf("\n  freed by the program and waiting for another stream, now: %s in %" PRIu64
               " blocks\n\n  %14s  blocks  freed by\n",
               tell_size(facts->waiting_bytes, size), facts->waiting_count, "bytes");
    for (uint32_t i = 0; i < count && i < report->top; i++) {
        printf("  %14s  %6" PRIu64 "  ", tell_size(groups[i].bytes, size), groups[i].count);
        cli_put_text(stdout, groups[i].name);
        printf("\n");
    }
    if (count > report->top) printf("  and %u more\n", count - report->top);
    free(groups);
}

static void tell_pools(const cli_report_device *device) {
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(device->lives);
    char bytes[TN__WORDS_MAX];
    if (device->pool_count == 0) return;
    printf("\n  same requests in other pools   reserved bytes  of the file's\n");
    printf("  %-20s %24s  %8.3f x\n", "in the file", tn__grouped(facts->reserved_peak, bytes), 1.0);
    for (uint32_t i = 0; i < device->pool_count; i++) {
        const cli_report_pool *pool = &device->pools[i];
        if (!pool->done) {
            printf("  %-20s  %s\n", pool->name, pool->failure.message);
            continue;
        }
        printf("  %-20s %24s", pool->name, tn__grouped(pool->reserved, bytes));
        if (facts->reserved_peak > 0)
            printf("  %8.3f x", (double)pool->reserved / (double)facts->reserved_peak);
        if (pool->planner != NULL) printf("  (%s, %s)", pool->planner, pool->verdict);
        printf("\n");
    }
}

static void tell_agreement(const cli_report_device *device) {
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(device->lives);
    uint64_t wrong =
        facts->wrong_requests + facts->wrong_blocks + facts->wrong_segments + facts->wrong_device;
    if (wrong == 0 && facts->event_count == 0)
        printf("\n  the segments agree with their blocks\n");
    else if (wrong == 0)
        printf("\n  the events and the segments agree: events explain every block and every "
               "segment\n");
    else
        printf("\n  the events and the segments disagree in %" PRIu64 " places; the first: %s\n",
               wrong, facts->first_wrong);
}

static void tell_device(const cli_report *report, const cli_report_device *device) {
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(device->lives);
    tell_sums sums = tell_sum(report, device);
    char one[TN__WORDS_MAX], two[TN__WORDS_MAX], three[TN__WORDS_MAX];
    printf("  device %u: %" PRIu64 " events, %" PRIu64 " blocks over time, %u segments\n",
           device->device, facts->event_count, facts->life_count, sums.segments);
    if (facts->before_count > 0 && facts->event_count > 0)
        printf("  the history begins late: %" PRIu64 " blocks, %s, were allocated before it\n",
               facts->before_count, tell_size(facts->before_bytes, one));
    printf("  now: %s requested, %s allocated (rounded up), %s reserved\n",
           tell_size(facts->requested - facts->waiting_bytes, one), tell_size(sums.active, two),
           tell_size(facts->reserved, three));
    if (facts->waiting_count > 0)
        printf("  now: %s more were freed and wait for another stream\n",
               tell_size(facts->waiting_bytes, one));
    if (facts->event_count == 0)
        printf("  no history: the file has no requests, so no peak and no comparison of pools can "
               "be shown; call torch.cuda.memory._record_memory_history() before the run\n");
    for (uint32_t i = 0; i < device->moment_count; i++)
        tell_moment(report, device, &device->moments[i]);
    tell_waiting(report, device);
    tell_holes(report, device);
    tell_pools(device);
    tell_agreement(device);
}

static void tell_brief(const cli_report *report) {
    for (uint32_t i = 0; i < report->device_count; i++) {
        const cli_report_device *device = &report->devices[i];
        const tn_snapshot_facts *facts = tn_snapshot_facts_of(device->lives);
        tn_snapshot_group most = {0};
        char peak[TN__WORDS_MAX], reserved[TN__WORDS_MAX], size[TN__WORDS_MAX];
        uint32_t count =
            tn_snapshot_groups(device->lives, facts->peak_time, TN_SNAPSHOT_BY_LINE, &most, 1);
        printf("device %u: %s %s requested, %s reserved", device->device,
               facts->event_count > 0 ? "peak" : "no history; now",
               tell_size(facts->peak_requested, peak), tell_size(facts->reserved_peak, reserved));
        if (count > 0) printf("; %s of it by ", tell_size(most.bytes, size));
        if (count > 0) cli_put_text(stdout, most.name);
        printf("%s\n", facts->oom_count > 0 ? "; it ran out of memory" : "");
    }
}

void cli_report_print(const cli_report *report) {
    if (cli_tone_asked().brief) {
        tell_brief(report);
        return;
    }
    for (uint32_t i = 0; i < report->device_count; i++) {
        if (i > 0) printf("\n");
        tell_device(report, &report->devices[i]);
    }
    if (report->device_count == 0) printf("  no device has any memory in this snapshot\n");
}

/* --- JSON --- */

static void json_number(tn__text *text, const char *name, uint64_t value) {
    tn__text_printf(text, ", \"%s\": %" PRIu64, name, value);
}

static void json_groups(const cli_report *report, const cli_report_device *device,
                        const cli_report_moment *moment, tn_snapshot_by by, tn__text *text) {
    uint32_t count;
    tn_snapshot_group *groups = tell_groups(report, device, moment->time, by, &count);
    if (groups == NULL) text->failed = true;
    tn__text_printf(text, ", \"%s_count\": %u, \"%s\": [", tell_by[by], count, tell_by[by]);
    for (uint32_t i = 0; i < count && i < report->top; i++) {
        tn__text_put(text, i == 0 ? "{\"name\": " : ", {\"name\": ");
        tn__text_json(text, groups[i].name);
        json_number(text, "bytes", groups[i].bytes);
        json_number(text, "blocks", groups[i].count);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
    free(groups);
}

static void json_moment(const cli_report *report, const cli_report_device *device,
                        const cli_report_moment *moment, tn__text *text) {
    uint64_t requested, reserved;
    tn_snapshot_bytes_at(device->lives, moment->time, &requested, &reserved);
    tn__text_put(text, "{\"name\": ");
    tn__text_json(text, moment->name);
    json_number(text, "event", moment->time);
    json_number(text, "requested", requested);
    json_number(text, "reserved", reserved);
    if (moment->oom != NULL) {
        json_number(text, "wanted", moment->oom->size);
        json_number(text, "device_free", moment->oom->address);
    }
    for (int by = 0; by < 3; by++) json_groups(report, device, moment, (tn_snapshot_by)by, text);
    tn__text_put(text, "}");
}

static void json_holes(const cli_report *report, const cli_report_device *device, tn__text *text) {
    uint64_t whole = 0, bytes = 0;
    uint32_t segments, count = 0;
    const tn_snapshot_segment *all = tn_snapshot_segments(report->snapshot, &segments);
    tn_snapshot_hole *holes = calloc((size_t)report->top + 1, sizeof *holes);
    if (holes == NULL) text->failed = true;
    if (holes != NULL)
        count =
            tn_snapshot_holes(report->snapshot, device->device, holes, report->top, &whole, &bytes);
    json_number(text, "hole_count", count);
    json_number(text, "hole_bytes", bytes);
    json_number(text, "whole_segment_bytes", whole);
    tn_snapshot_causes causes = tn_snapshot_hole_causes(report->snapshot, device->device);
    tn__text_printf(text, ", \"hole_causes\": {\"hard\": %" PRIu64, causes.hard);
    json_number(text, "soft", causes.soft);
    json_number(text, "stream", causes.stream);
    tn__text_put(text, "}");
    tn__text_put(text, ", \"holes\": [");
    for (uint32_t i = 0; i < count && i < report->top; i++) {
        const tn_snapshot_segment *segment = &all[holes[i].segment];
        tn__text_printf(text, "%s{\"size\": %" PRIu64, i == 0 ? "" : ", ", holes[i].size);
        json_number(text, "segment", segment->address);
        json_number(text, "segment_size", segment->total);
        json_number(text, "offset", holes[i].offset);
        json_number(text, "stream", tn_snapshot_stream(report->snapshot, segment->stream));
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
    free(holes);
}

static void json_waiting(const cli_report *report, const cli_report_device *device,
                         tn__text *text) {
    tn_snapshot_group *groups = calloc((size_t)report->top + 1, sizeof *groups);
    uint32_t count = 0;
    if (groups == NULL) text->failed = true;
    if (groups != NULL) count = tn_snapshot_waiting(device->lives, groups, report->top);
    tn__text_put(text, ", \"waiting\": [");
    for (uint32_t i = 0; i < count && i < report->top; i++) {
        tn__text_put(text, i == 0 ? "{\"freed_by\": " : ", {\"freed_by\": ");
        tn__text_json(text, groups[i].name);
        json_number(text, "bytes", groups[i].bytes);
        json_number(text, "blocks", groups[i].count);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
    free(groups);
}

static void json_pools(const cli_report_device *device, tn__text *text) {
    tn__text_put(text, ", \"pools\": [");
    for (uint32_t i = 0; i < device->pool_count; i++) {
        const cli_report_pool *pool = &device->pools[i];
        tn__text_printf(text, "%s{\"name\": \"%s\", \"done\": %s", i == 0 ? "" : ", ", pool->name,
                        pool->done ? "true" : "false");
        if (pool->done) json_number(text, "reserved_peak", pool->reserved);
        if (pool->planner != NULL)
            tn__text_printf(text, ", \"planner\": \"%s\", \"status\": \"%s\"", pool->planner,
                            pool->verdict);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]");
}

static void json_device(const cli_report *report, const cli_report_device *device, tn__text *text) {
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(device->lives);
    tell_sums sums = tell_sum(report, device);
    tn__text_printf(text, "{\"device\": %u", device->device);
    json_number(text, "events", facts->event_count);
    json_number(text, "blocks", facts->life_count);
    json_number(text, "segments", sums.segments);
    json_number(text, "before_blocks", facts->before_count);
    json_number(text, "before_bytes", facts->before_bytes);
    json_number(text, "requested", facts->requested - facts->waiting_bytes);
    json_number(text, "waiting_bytes", facts->waiting_bytes);
    json_number(text, "waiting_blocks", facts->waiting_count);
    json_number(text, "allocated", sums.active);
    json_number(text, "reserved", facts->reserved);
    tn__text_printf(text, ", \"history\": %s", facts->event_count > 0 ? "true" : "false");
    if (facts->event_count > 0) {
        json_number(text, "requested_peak", facts->peak_requested);
        json_number(text, "reserved_peak", facts->reserved_peak);
    } else {
        tn__text_put(text, ", \"requested_peak\": null, \"reserved_peak\": null");
    }
    json_number(text, "out_of_memory", facts->oom_count);
    json_number(text, "wrong_requests", facts->wrong_requests);
    json_number(text, "wrong_blocks", facts->wrong_blocks);
    json_number(text, "wrong_segments", facts->wrong_segments);
    json_number(text, "wrong_device", facts->wrong_device);
    tn__text_put(text, ", \"first_wrong\": ");
    tn__text_json(text, facts->first_wrong);
    tn__text_put(text, ", \"moments\": [");
    for (uint32_t i = 0; i < device->moment_count; i++) {
        tn__text_put(text, i == 0 ? "\n  " : ",\n  ");
        json_moment(report, device, &device->moments[i], text);
    }
    tn__text_put(text, "]");
    json_waiting(report, device, text);
    json_holes(report, device, text);
    json_pools(device, text);
    tn__text_put(text, "}");
}

tn_status cli_report_json(const cli_report *report) {
    tn__text text;
    tn__text_init(&text, &report->context);
    tn__text_put(&text, "{\"format\": \"tenure-report\", \"version\": 1, \"input\": ");
    tn__text_json(&text, report->path);
    tn__text_put(&text, ", \"devices\": [");
    for (uint32_t i = 0; i < report->device_count; i++) {
        tn__text_put(&text, i == 0 ? "\n " : ",\n ");
        json_device(report, &report->devices[i], &text);
    }
    tn__text_put(&text, "]}\n");
    bool failed = text.failed;
    if (!failed) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
    return failed ? tn__no_memory(report->error, "the answer") : TN_OK;
}
