/* report.c - `tenure report`: who holds the memory in a snapshot of PyTorch's allocator?
 *
 * The file is read by src/snapshot, which runs nothing that is in it. For each device that has
 * anything: the peak, now, each time that memory ran out; holes; other pools and a plan.
 */
#include "cli/report.h"

#include <inttypes.h>
#include <stdlib.h>

enum { REPORT_TOP = 400, REPORT_DEVICE, REPORT_NO_POOLS, REPORT_BARS, REPORT_TIMEOUT, REPORT_JSON };

#define REPORT_OPTIONS(X)                                                                          \
    X(REPORT_TOP, "top", "N", "lines, modules and holes that are shown (10)")                      \
    X('o', "output", "FILE",                                                                       \
      "lives over time at their addresses, with stacks: .html, or .svg .csv .json; may be "        \
      "repeated")                                                                                  \
    X(REPORT_DEVICE, "device", "N", "one device alone (all that have memory)")                     \
    X(REPORT_JSON, "json", NULL, "print one JSON object instead of the tables")                    \
    X(REPORT_NO_POOLS, "no-pools", NULL, "do not ask what other pools and a plan would reserve")   \
    X(REPORT_BARS, "bars", "N", "most lives in a picture, the largest ones (100000)")              \
    X(REPORT_TIMEOUT, "timeout", "TIME", "for planning: 10s, 500ms, 2m (2s)")

static const struct argp_option report_options[] = {REPORT_OPTIONS(CLI_OPTION){0}};

static error_t report_parse(int key, char *value, struct argp_state *state) {
    cli_report *report = state->input;
    switch (key) {
    case REPORT_TOP:
        report->top = (uint32_t)cli_count(state, "top", value, 1000000);
        return 0;
    case REPORT_DEVICE:
        report->device = (uint32_t)cli_range(state, "device", value, 0, 1023);
        return 0;
    case REPORT_NO_POOLS:
        report->no_pools = true;
        return 0;
    case REPORT_BARS:
        report->bars = cli_count(state, "bars", value, UINT32_MAX);
        return 0;
    case REPORT_TIMEOUT:
        report->timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case REPORT_JSON:
        report->json = true;
        return 0;
    case 'o':
        cli_add_output(state, report->outputs, &report->output_count, CLI_REPORT_OUTPUTS, value);
        return 0;
    case ARGP_KEY_ARG:
        if (report->path != NULL) cli_misuse(state, "one snapshot, not '%s' too", value);
        report->path = cli_standard_input(state, value);
        return 0;
    case ARGP_KEY_END:
        if (report->path == NULL) cli_misuse(state, "which snapshot? give a .pickle");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- what is looked at --- */

static void report_moment(cli_report_device *device, uint64_t time, const char *name) {
    cli_report_moment *moment = &device->moments[device->moment_count++];
    *moment = (cli_report_moment){.time = time};
    snprintf(moment->name, sizeof moment->name, "%s", name);
}

static void report_moments(const cli_report *report, cli_report_device *device) {
    enum { OOMS_MAX = CLI_REPORT_MOMENTS - 2 };
    uint64_t times[OOMS_MAX], count;
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(device->lives);
    const tn_snapshot_event *events = tn_snapshot_events(report->snapshot, device->device, &count);
    uint32_t ooms = tn_snapshot_ooms(device->lives, times, OOMS_MAX);
    if (facts->event_count > 0) report_moment(device, facts->peak_time, "at the peak");
    for (uint32_t i = 0; i < ooms && i < OOMS_MAX; i++) {
        char name[48];
        snprintf(name, sizeof name, "out of memory %u of %u", i + 1, ooms);
        report_moment(device, times[i], name);
        device->moments[device->moment_count - 1].oom = &events[times[i] - 1];
    }
    report_moment(device, facts->event_count, "now");
}

static bool report_has_memory(const tn_snapshot *snapshot, uint32_t device) {
    uint32_t segments;
    uint64_t events;
    const tn_snapshot_segment *all = tn_snapshot_segments(snapshot, &segments);
    (void)tn_snapshot_events(snapshot, device, &events);
    for (uint32_t i = 0; i < segments; i++)
        if (all[i].device == device) return true;
    return events > 0;
}

static tn_status report_device(cli_report *report, uint32_t number) {
    cli_report_device *device = &report->devices[report->device_count++];
    *device = (cli_report_device){.device = number};
    TN_TRY(tn_snapshot_live(report->snapshot, number, &device->lives, report->error));
    report_moments(report, device);
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(device->lives);
    /* Without a history nothing is known of the order of requests: no pool can be asked. */
    if (!report->no_pools && facts->life_count > 0 && facts->event_count > 0)
        TN_TRY(cli_report_serve(report, device));
    return TN_OK;
}

static tn_status report_work(cli_report *report) {
    TN_TRY(tn_snapshot_load(report->path, &report->context, &report->snapshot, report->error));
    uint32_t count = tn_snapshot_device_count(report->snapshot);
    if (report->device != UINT32_MAX && report->device >= count)
        return tn__where(report->error,
                         tn__fail(report->error, TN_E_INVALID,
                                  "--device: there is no device %u, of %u", report->device, count),
                         "%s", report->path);
    report->devices = calloc((size_t)count + 1, sizeof *report->devices);
    if (report->devices == NULL) return tn__no_memory(report->error, "a report");
    for (uint32_t i = 0; i < count; i++) {
        bool is_asked = report->device == UINT32_MAX ? report_has_memory(report->snapshot, i)
                                                     : report->device == i;
        if (is_asked)
            TN_TRY(tn__where(report->error, report_device(report, i), "%s", report->path));
    }
    return TN_OK;
}

/* --- files --- */

/* Of several devices the one with the highest peak is drawn; --device asks for another. */
static tn_status report_draw(const cli_report *report) {
    const cli_report_device *drawn = NULL;
    uint64_t most = 0, left_out = 0;
    for (uint32_t i = 0; i < report->device_count; i++) {
        uint64_t peak = tn_snapshot_facts_of(report->devices[i].lives)->peak_requested;
        if (drawn != NULL && peak <= most) continue;
        drawn = &report->devices[i];
        most = peak;
    }
    if (drawn == NULL || report->output_count == 0) return TN_OK;
    TN_TRY(cli_report_draw(report, drawn, &left_out));
    if (report->json) return TN_OK;
    printf("\n");
    for (uint32_t i = 0; i < report->output_count; i++) printf("  wrote %s\n", report->outputs[i]);
    if (report->device_count > 1)
        printf("  of device %u alone; --device N draws another\n", drawn->device);
    if (left_out > 0)
        printf("  the %" PRIu64 " smallest lives are not drawn; --bars N draws more\n", left_out);
    return TN_OK;
}

static tn_status report_tell(const cli_report *report) {
    cli_progress_end();
    if (report->json) TN_TRY(cli_report_json(report));
    if (!report->json) cli_report_print(report);
    return report_draw(report);
}

static void report_release(cli_report *report) {
    for (uint32_t i = 0; i < report->device_count; i++)
        tn_snapshot_lives_destroy(report->devices[i].lives);
    free(report->devices);
    tn_snapshot_destroy(report->snapshot);
}

static const char report_doc[] =
    "Reads SNAPSHOT, what torch.cuda.memory._dump_snapshot() wrote, and tells who held the memory "
    "at "
    "the peak, whenever it ran out, and at the end: by line, by module, by category (guessed from "
    "the stacks); what was reserved and not in use; what other pools and a plan would have "
    "reserved. "
    "Nothing in the file is run.\v"
    "Examples:\n"
    "  tenure report snapshot.pickle -o oom.html\n"
    "  tenure report snapshot.pickle --top 30 --device 1\n\n"
    "Exit status: 0 told, 2 bad usage or input, 4 internal error.";

static const struct argp report_parser = {
    report_options, report_parse, "SNAPSHOT", report_doc, NULL, 0, 0};

static int report_run(int count, char **words) {
    tn_error error = {0};
    cli_report report = {
        .top = 10, .device = UINT32_MAX, .bars = 100000, .timeout_s = 2, .error = &error};
    report.context = cli_context();
    cli_parse(&cli_command_report, count, words, &report);
    report.context.follow_links = cli_follows_links();
    tn_status status = report_work(&report);
    if (status == TN_OK) status = report_tell(&report);
    int code = status == TN_OK ? 0 : cli_fail(&error);
    report_release(&report);
    return cli_finish(code);
}

const cli_command cli_command_report = {
    .name = "report",
    .summary = "read a memory snapshot of PyTorch: who held the memory, and what was lost",
    .first = "top output device json",
    .parser = &report_parser,
    .run = report_run,
};
