/* report.c - `tenure report`: reports the memory in a snapshot of PyTorch's allocator, the plan of
 * another tool (foreign_report.c), or bytes by allocation site (profile_report.c).
 *
 * src/interop/snapshot reads the file and never executes its contents. For each device that has
 * memory, the command reports the peak, the state at the end, each out-of-memory event,
 * fragmentation, and the bytes that other pools and a plan would have reserved.
 */
#include "cli/model/file_kind.h"
#include "cli/traces/report.h"
#include "cli/command_line/combine.h"
#include "cli/traces/foreign.h"
#include "cli/traces/profile.h"
#include "interop/snapshot/snapshot.h"
#include "io/import/kinds.h"
#include <tenure/llm.h>

#include <inttypes.h>
#include <stdlib.h>

/* --- simulating other pools --- */

/* The functions below compute the bytes that other pools, and a plan of all live ranges, would have
 * reserved for the requests of a snapshot. */

static tn_status pools_plan(const cli_report *report, const cli_report_device *device,
                            cli_report_pool *result) {
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_problem *problem = NULL;
    tn_layout layout = {0};
    options.context = &report->context;
    options.timeout_s = report->timeout_s;
    TN_TRY(tn_snapshot_problem(device->lives, 512, &report->context, &problem, report->error));
    tn_status status = tn_plan(problem, &options, &layout, &result->failure);
    if (status == TN_OK) {
        result->done = true;
        result->reserved = layout.peak;
        result->planner = layout.planner;
        result->verdict = tn_verdict_name(layout.verdict);
    }
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    return TN_OK;
}

static tn_status pools_serve(const cli_report *report, const cli_report_device *device,
                             cli_report_pool *result) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool = NULL;
    tn_pool_usage usage;
    options.context = &report->context;
    options.pool = result->name;
    options.alignment = 512;
    TN_TRY(tn_pool_create(&options, &pool, report->error));
    result->done = tn_snapshot_serve(device->lives, pool, &result->failure) == TN_OK;
    tn_pool_measure(pool, &usage);
    result->reserved = usage.reserved_peak;
    tn_pool_destroy(pool);
    return TN_OK;
}

/* Computes the bytes that each of several pools, and a plan, would have reserved for the device's
 * requests. */
static tn_status report_pools(const cli_report *report, cli_report_device *device) {
    static const char *const names[CLI_REPORT_POOLS] = {"caching", "bfc", "best-fit", "planned"};
    for (uint32_t i = 0; i < CLI_REPORT_POOLS; i++) {
        cli_report_pool *result = &device->pools[device->pool_count++];
        *result = (cli_report_pool){.name = names[i]};
        TN_TRY(i == CLI_REPORT_POOLS - 1 ? pools_plan(report, device, result)
                                         : pools_serve(report, device, result));
    }
    return TN_OK;
}

/* --- options --- */

enum {
    REPORT_TOP = 400,
    REPORT_MODULE,
    REPORT_DEVICE,
    REPORT_NO_POOLS,
    REPORT_BARS,
    REPORT_TIMEOUT,
    REPORT_JSON
};

#define REPORT_OPTIONS(X)                                                                          \
    X(REPORT_TOP, "top", "N",                                                                      \
      "number of source lines, modules, holes and values to print (default: 10)")                  \
    X('o', "output", "FILE",                                                                       \
      "draw the blocks or buffers over time at their addresses: .html, .svg, .csv or .json; may "  \
      "be repeated")                                                                               \
    X(REPORT_DEVICE, "device", "N", "report this device only (default: all devices with memory)")  \
    X(REPORT_MODULE, "module", "NUMBER|NAME",                                                      \
      "the module of an XLA dump, or the method of a .pte program (default: the module with the "  \
      "most planned bytes, the first method)")                                                     \
    X(REPORT_JSON, "json", NULL, "print one JSON object instead of the tables")                    \
    X(REPORT_NO_POOLS, "no-pools", NULL, "do not simulate other pools and a plan")                 \
    X(REPORT_BARS, "bars", "N",                                                                    \
      "largest number of blocks in a picture; smaller blocks are left out (default: 100000)")      \
    X(REPORT_TIMEOUT, "timeout", "TIME",                                                           \
      "stop planning after this time, such as 500ms or 10s (default: 2s)")

static const struct argp_option report_options[] = {REPORT_OPTIONS(CLI_OPTION){0}};

static error_t report_parse(int key, char *value, struct argp_state *state) {
    cli_report *report = state->input;
    switch (key) {
    case REPORT_TOP:
        report->top = (uint32_t)cli_count(state, "top", value, 1000000);
        return 0;
    case REPORT_MODULE:
        report->module = value;
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
        if (report->path != NULL)
            cli_misuse(state, "give only one snapshot; '%s' is a second one", value);
        report->path = cli_standard_input(state, value);
        cli_refuse_kind(state, report->path);
        return 0;
    case ARGP_KEY_END:
        if (report->path == NULL) cli_misuse(state, "no snapshot given; pass a .pickle file");
        cli_condition_set(CLI_IF_FOREIGN, tn_foreign_recognises(report->path));
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- moments --- */

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
    /* Pools can be simulated only if the snapshot has a history, because only a history has the
     * order of the requests. */
    if (!report->no_pools && facts->life_count > 0 && facts->event_count > 0)
        TN_TRY(report_pools(report, device));
    return TN_OK;
}

/* Refuses models and weights, which are no record of a run. */
static tn_status report_refuse_model(const cli_report *report, tn__span bytes) {
    const tn__file_kind *kind = tn__file_kind_of(bytes);
    const char *suffix = kind != NULL && kind->suffix != NULL ? kind->suffix : "";
    bool model = tn_import_recognises(suffix);
    if (!model && !tn_weights_recognises(suffix)) return TN_OK;
    if (kind->remedy != NULL) {
        tn_status damaged =
            tn__fail(report->error, TN_E_INVALID, "this is %s; %s", kind->name, kind->remedy);
        return tn__where(report->error, damaged, "%s", report->path);
    }
    tn_status status = tn__fail(report->error, TN_E_UNSUPPORTED,
                                "this is %s, which has no record of memory; `tenure %s` reads it",
                                kind->name, model ? "plan" : "estimate");
    return tn__where(report->error, status, "%s", report->path);
}

static tn_status report_work(cli_report *report, const uint8_t *bytes, size_t size) {
    TN_TRY(report_refuse_model(report, (tn__span){bytes, size}));
    TN_TRY(tn_snapshot_load_memory(report->path, bytes, size, &report->context, &report->snapshot,
                                   report->error));
    uint32_t count = tn_snapshot_device_count(report->snapshot);
    if (report->device != UINT32_MAX && report->device >= count)
        return tn__where(report->error,
                         tn__fail(report->error, TN_E_INVALID,
                                  "--device: there is no device %u; the snapshot has %u",
                                  report->device, count),
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

/* Draws the device that --device selects, or the device with the highest peak. */
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
        printf("  shows device %u only; --device N draws another\n", drawn->device);
    if (left_out > 0)
        printf("  the %" PRIu64 " smallest blocks are not drawn; --bars N draws more\n", left_out);
    return TN_OK;
}

static tn_status report_print(const cli_report *report) {
    cli_progress_end();
    TN_TRY(cli_report_print(report));
    return report_draw(report);
}

static void report_release(cli_report *report) {
    for (uint32_t i = 0; i < report->device_count; i++)
        tn_snapshot_lives_destroy(report->devices[i].lives);
    free(report->devices);
    tn_snapshot_destroy(report->snapshot);
}

static const char report_doc[] =
    "Reads INPUT: a memory snapshot of PyTorch, a folder of XLA dumps, a .pte program of "
    "ExecuTorch, a trace of PyTorch's profiler, a device memory profile of JAX, or node memory "
    "statistics of ONNX Runtime. For a "
    "snapshot (a file of torch.cuda.memory._dump_snapshot(), whose contents are "
    "never executed), reports memory by source line, module and category (guessed from the stacks) "
    "at the peak, at each out-of-memory event, and at the end, fragmentation, and the bytes that "
    "other pools and a plan would have reserved. For a dump or program, checks the plan inside, "
    "and "
    "reports its bytes, its lower bound, the bytes of a plan of Tenure, and the values that hold "
    "the peak, with operator and source line. A profile and statistics have no live ranges, so "
    "their bytes are listed by source line, kind and device, or by node.\v"
    "Examples:\n"
    "  tenure report snapshot.pickle -o oom.html\n"
    "  tenure report snapshot.pickle --top 30 --device 1\n"
    "  tenure report xla_dump/ --module jit_train_step -o plan.html\n"
    "  tenure report memory.prof\n\n"
    "Exit status: 0 done, 2 bad usage or input, 4 internal error.";

static const struct argp report_parser = {
    report_options, report_parse, "INPUT", report_doc, NULL, 0, 0};

/* Reports a file whose bytes are unpacked already: a snapshot, or a profile with bytes by
 * allocation site. */
static int report_bytes(cli_report *report, const uint8_t *bytes, size_t size) {
    if (cli_profile_recognises(report->path, bytes, size))
        return cli_profile_report(report, bytes, size);
    tn_status status = report_work(report, bytes, size);
    if (status == TN_OK) status = report_print(report);
    int code = status == TN_OK ? 0 : cli_fail(report->error);
    report_release(report);
    return code;
}

static int report_file(cli_report *report) {
    const tn_context context = tn__context(&report->context);
    tn__file file;
    uint8_t *unpacked = NULL;
    size_t size = 0, room = 0;
    tn_status status = tn__file_map_most(report->path, context.read_limit, &file, report->error);
    if (status != TN_OK) return cli_fail(report->error);
    bool is_packed = tn__gzip_is(file.bytes, file.size);
    if (is_packed)
        status = tn__where(
            report->error,
            tn__gzip_read(&context, file.bytes, file.size, &unpacked, &size, &room, report->error),
            "%s", report->path);
    int code = status != TN_OK ? cli_fail(report->error)
               : is_packed     ? report_bytes(report, unpacked, size)
                               : report_bytes(report, file.bytes, file.size);
    tn__free(&context, unpacked, room);
    tn__file_unmap(&file);
    return code;
}

static int report_run(int count, char **words) {
    tn_error error = {0};
    cli_report report = {
        .top = 10, .device = UINT32_MAX, .bars = 100000, .timeout_s = 2, .error = &error};
    report.context = cli_context();
    cli_parse(&cli_command_report, count, words, &report);
    cli_context_read(&report.context);
    if (tn_foreign_recognises(report.path)) return cli_finish(cli_foreign_report(&report));
    return cli_finish(report_file(&report));
}

const cli_command cli_command_report = {
    .name = "report",
    .summary =
        "report the memory in a PyTorch snapshot, a JAX profile, an XLA dump or a .pte program",
    .first = "top output device json",
    .answers = (const cli_facts *const[]){&cli_report_facts, &cli_foreign_facts, &cli_profile_facts,
                                          &cli_node_stats_facts, NULL},
    .parser = &report_parser,
    .run = report_run,
};
