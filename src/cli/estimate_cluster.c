/* estimate_cluster.c - training time and parallelism of a transformer on many devices. */
#include "cli/estimate_cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "report/scaling.h"

#define CLUSTER_DEVICES_MOST (UINT64_C(1) << 20)
#define CLUSTER_SWEEP_MOST 10000u
#define CLUSTER_ROWS_MOST                                                                          \
    22u /* rows for --sweep: powers of two up to the largest device count, and
                               * that count */

enum { CLUSTER_DEVICES = 0x500, CLUSTER_NODE, CLUSTER_FAST, CLUSTER_SLOW, CLUSTER_SWEEP };

#define CLUSTER_OPTIONS(X)                                                                         \
    X(CLUSTER_DEVICES, "devices", "N", "number of devices, for --parallel auto and --sweep")       \
    X(CLUSTER_NODE, "per-node", "N",                                                               \
      "devices in one machine, joined by the fast link (default: 8)")                              \
    X(CLUSTER_FAST, "link-fast", "SPEED",                                                          \
      "send rate of each device within its machine, such as 300GB/s (default: 300GB/s)")           \
    X(CLUSTER_SLOW, "link-slow", "SPEED",                                                          \
      "send rate of each device to other machines (default: 25GB/s)")                              \
    X(CLUSTER_SWEEP, "sweep", NULL,                                                                \
      "print a table of the fastest division for 1, 2, 4, ... devices up to --devices (default: "  \
      "10000); -o FILE.svg draws it")

static const struct argp_option cluster_options[] = {CLUSTER_OPTIONS(CLI_OPTION){0}};

static error_t cluster_parse(int key, char *value, struct argp_state *state) {
    cli_cluster *it = state->input;
    tn_cluster *cluster = &it->cluster;
    switch (key) {
    case CLUSTER_DEVICES:
        cluster->devices = cli_count(state, "devices", value, CLUSTER_DEVICES_MOST);
        break;
    case CLUSTER_NODE:
        cluster->per_node = cli_count(state, "per-node", value, CLUSTER_DEVICES_MOST);
        break;
    case CLUSTER_FAST:
        cluster->fast = cli_speed(state, "link-fast", value);
        break;
    case CLUSTER_SLOW:
        cluster->slow = cli_speed(state, "link-slow", value);
        break;
    case CLUSTER_SWEEP:
        it->sweep = it->search = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    it->asked = true;
    return 0;
}

const struct argp cli_cluster_argp = {cluster_options, cluster_parse, 0, 0, 0, 0, 0};

void cli_cluster_search(cli_cluster *cluster) { cluster->asked = cluster->search = true; }

/* The device's rates for the type of the weights; false if unknown. */
static bool cluster_rates(cli_cluster *it, const tn_large *how, const tn_hardware *device) {
    if (device == NULL) return false;
    double half = device->bf16 > 0 ? device->bf16 : device->fp16;
    it->cluster.flops = how->weight_bytes == 4 ? device->fp32 : half;
    it->cluster.bytes_per_s = device->bytes_per_s;
    it->cluster.memory = device->memory;
    return it->cluster.flops > 0;
}

tn_status cli_cluster_divide(const cli_cluster *it, const tn_large *how, tn_cluster_found *found,
                             tn_error *error) {
    tn_cluster_free free = TN_CLUSTER_FREE_INIT;
    free.shard = how->shard == TN_SHARD_NONE;
    free.recompute = how->recompute == TN_RECOMPUTE_NONE;
    return tn_cluster_search(&it->cluster, how, &free, found, error);
}

tn_status cli_cluster_find(cli_cluster *it, cli_large *large, const tn_hardware *device,
                           tn_error *error) {
    it->timed = cluster_rates(it, &large->how, device);
    if (!it->timed && it->search)
        TN_FAIL(
            error, TN_E_INVALID,
            "the data sheet of %s has no rate for this type; choose another --dtype or --device",
            device->name);
    if (!it->timed || it->sweep) return TN_OK;
    if (it->search) {
        TN_TRY(cli_cluster_divide(it, &large->how, &it->found, error));
        large->how = it->found.large;
        large->found = it->found.memory;
        it->time = it->found.time;
        return TN_OK;
    }
    it->cluster.devices = large->found.ranks;
    return tn_cluster_time_make(&it->cluster, &large->how, &it->time, error);
}

static const char *cluster_recompute(const tn_large *how) {
    static const char *const names[] = {"none", "selective", "full"};
    return names[how->recompute];
}

static uint64_t cluster_one(uint64_t count) { return count > 0 ? count : 1; }

void cli_cluster_tell(const cli_cluster *it, const cli_large *large) {
    const tn_cluster_time *time = &it->time;
    const tn_large *how = &large->how;
    char size[TN_SIZE_TEXT_MAX];
    if (!it->timed) return;
    if (it->search) {
        printf("%-18s tensor=%" PRIu64 ",pipeline=%" PRIu64 ",data=%" PRIu64
               ", micro-batches of %" PRIu64 ", %" PRIu64 " pieces a stage\n",
               "divided", how->tensor, how->pipeline, how->data, how->micro,
               cluster_one(how->interleave));
        printf("%-18s --recompute %s --shard %s%s\n", "", cluster_recompute(how),
               tn_shard_name(how->shard), how->sequence_parallel ? " --sequence-parallel" : "");
        printf("%-18s %" PRIu64 " divisions, of which %" PRIu64 " fit\n", "out of", it->found.tried,
               it->found.fitting);
    }
    printf("%-18s %.4g s an iteration, predicted\n", "time", time->seconds);
    printf("  %-16s %.4g s, bubbles and sends %.1f %% of it\n", "passes", time->pass,
           100 * time->bubble);
    printf("  %-16s %.4g s products, %.4g s the rest, %.4g s sums of tensor ranks\n", "busiest",
           time->products, time->other, time->tensor);
    printf("  %-16s %.4g s gradients summed, %.4g s update\n", "after them", time->data,
           time->update);
    printf("%-18s %.1f %% of the device's, predicted\n", "rate", 100 * time->share);
    printf("%-18s %s from each device in an iteration\n", "beyond the node",
           tn_size_format(time->slow_bytes, size));
}

static void cluster_json_division(const tn_large *how, tn__text *text) {
    tn__text_printf(text,
                    "\"tensor\":%" PRIu64 ",\"pipeline\":%" PRIu64 ",\"data\":%" PRIu64
                    ",\"micro_batch\":%" PRIu64 ",\"interleave\":%" PRIu64
                    ",\"recompute\":\"%s\",\"shard\":\"%s\",\"sequence_parallel\":%s",
                    cluster_one(how->tensor), cluster_one(how->pipeline), cluster_one(how->data),
                    cluster_one(how->micro), cluster_one(how->interleave), cluster_recompute(how),
                    tn_shard_name(how->shard), how->sequence_parallel ? "true" : "false");
}

static void cluster_json_time(const tn_cluster_time *time, tn__text *text) {
    tn__text_printf(text,
                    "{\"seconds\":%.9g,\"pass\":%.9g,\"products\":%.9g,\"other\":%.9g"
                    ",\"tensor\":%.9g,\"data\":%.9g,\"update\":%.9g,\"bubble\":%.6f"
                    ",\"share_of_rate\":%.6f,\"bytes_beyond_node\":%" PRIu64 "}",
                    time->seconds, time->pass, time->products, time->other, time->tensor,
                    time->data, time->update, time->bubble, time->share, time->slow_bytes);
}

void cli_cluster_json(const cli_cluster *it, const cli_large *large, tn__text *text) {
    tn__text_put(text, ",\"division\":{");
    cluster_json_division(&large->how, text);
    tn__text_put(text, "}");
    if (!it->timed) return;
    tn__text_put(text, ",\"time\":");
    cluster_json_time(&it->time, text);
}

static void cluster_row(const tn_cluster_found *found, uint64_t devices) {
    const tn_large *how = &found->large;
    char size[TN_SIZE_TEXT_MAX];
    tn_size_format(found->memory.largest.total, size);
    size[strcspn(size, "(")] = '\0';
    printf("%7" PRIu64 " %6" PRIu64 " %8" PRIu64 " %5" PRIu64 " %5" PRIu64 " %6" PRIu64
           " %-9s %-10s %11s %9.4g %6.1f\n",
           devices, how->tensor, how->pipeline, how->data, how->micro, cluster_one(how->interleave),
           cluster_recompute(how), tn_shard_name(how->shard), size, found->time.seconds,
           100 * found->time.share);
}

static void cluster_row_json(const tn_cluster_found *found, uint64_t devices, bool first,
                             tn__text *text) {
    tn__text_printf(text, "%s{\"devices\":%" PRIu64 ",", first ? "" : ",", devices);
    cluster_json_division(&found->large, text);
    tn__text_printf(text, ",\"total\":%" PRIu64 ",\"time\":", found->memory.largest.total);
    cluster_json_time(&found->time, text);
    tn__text_put(text, "}");
}

typedef struct cluster_scaling { /* for --sweep */
    tn__text text;               /* print JSON */
    tn__scaling_row rows[CLUSTER_ROWS_MOST];
    uint32_t count;
} cluster_scaling;

/* Powers of two, then the last count itself. */
static uint64_t cluster_after(uint64_t devices, uint64_t most) {
    if (devices >= most) return 0;
    return devices * 2 < most ? devices * 2 : most;
}

static void cluster_drawn(const tn_cluster_found *found, uint64_t devices, tn__scaling_row *row) {
    const tn_large *how = &found->large;
    *row = (tn__scaling_row){.devices = devices,
                             .tensor = cluster_one(how->tensor),
                             .pipeline = cluster_one(how->pipeline),
                             .data = cluster_one(how->data),
                             .interleave = cluster_one(how->interleave),
                             .seconds = found->time.seconds,
                             .share = found->time.share,
                             .bytes = found->memory.largest.total};
}

/* Prints one row and adds it to the picture. */
static void cluster_tell_row(const cli_cluster *it, uint64_t devices, bool json,
                             cluster_scaling *to) {
    if (json)
        cluster_row_json(&it->found, devices, to->count == 0, &to->text);
    else
        cluster_row(&it->found, devices);
    tn_assert(to->count < CLUSTER_ROWS_MOST);
    cluster_drawn(&it->found, devices, &to->rows[to->count++]);
}

static tn_status cluster_draw(const cluster_scaling *rows, const cli_cluster_sweep *sweep,
                              uint64_t memory, bool json, tn_error *error) {
    const tn__scaling scaling = {.input = sweep->path,
                                 .device = sweep->device->name,
                                 .memory = memory,
                                 .rows = rows->rows,
                                 .count = rows->count};
    if (rows->count == 0 || sweep->picture == NULL) return TN_OK;
    TN_TRY(tn__scaling_write(&scaling, sweep->picture, error));
    if (!json) printf("wrote %s\n", sweep->picture);
    return TN_OK;
}

int cli_cluster_scale(cli_cluster *it, const cli_large *large, const cli_cluster_sweep *sweep,
                      bool json) {
    uint64_t most = it->cluster.devices > 0 ? it->cluster.devices : CLUSTER_SWEEP_MOST;
    cluster_scaling to = {.count = 0};
    tn_error error;
    tn__text *text = &to.text;
    tn__text_init(text, NULL);
    tn__text_put(text, "{\"format\":\"tenure-estimate-scaling\",\"version\":1,\"input\":");
    tn__text_json(text, sweep->path);
    tn__text_put(text, ",\"device\":");
    tn__text_json(text, sweep->device->name);
    tn__text_put(text, ",\"rows\":[");
    if (!json)
        printf("devices tensor pipeline  data micro pieces recompute shard           most each"
               "   seconds rate %%\n");
    tn_status status = TN_OK;
    for (uint64_t devices = 1; devices > 0; devices = cluster_after(devices, most)) {
        it->cluster.devices = devices;
        status = cli_cluster_divide(it, &large->how, &it->found, &error);
        if (status != TN_OK && status != TN_E_INFEASIBLE) break;
        if (status == TN_OK)
            cluster_tell_row(it, devices, json, &to);
        else if (!json)
            printf("%7" PRIu64 " %s\n", devices, error.message);
        status = TN_OK;
    }
    tn__text_put(text, "]}\n");
    if (status == TN_OK && json && !text->failed) fwrite(text->data, 1, text->size, stdout);
    if (status == TN_OK) status = cluster_draw(&to, sweep, it->cluster.memory, json, &error);
    tn__text_release(text);
    if (status != TN_OK) return cli_fail(&error);
    return to.count > 0 ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
}
