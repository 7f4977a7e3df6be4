/* estimate_cluster.c - training time and parallelism of a transformer on many devices. */
#include "cli/estimate_cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"
#include "report/svg/svg.h"

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
    it->cluster.memory = device->usable - TN_HARDWARE_CONTEXT;
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

/* --- the facts --- */

/* A division: its rows with the labels of lines, or with those of columns. */
#define CLUSTER_DIVISION(tensor, pipeline, data, micro, pieces, again, shard)                      \
    CLI_FACT(COUNT, "tensor", tensor, "tensor-parallel ranks"),                                    \
        CLI_FACT(COUNT, "pipeline", pipeline, "pipeline stages"),                                  \
        CLI_FACT(COUNT, "data", data, "data-parallel ranks"),                                      \
        CLI_FACT(COUNT, "micro_batch", micro, "sequences of a micro-batch"),                       \
        CLI_FACT(COUNT, "interleave", pieces, "pieces of a stage"),                                \
        CLI_FACT(WORD, "recompute", again, "none, selective or full"),                             \
        CLI_FACT(WORD, "shard", shard, "none, optimizer, gradients or parameters"),                \
        CLI_FACT(YES, "sequence_parallel", NULL,                                                   \
                 "whether tensor ranks also divide normalisations, dropout and residuals")
static const cli_facts cluster_division_facts = {
    .rows = (const cli_fact[]){CLUSTER_DIVISION("divided", NULL, NULL, NULL, NULL, "", NULL),
                               CLI_FACTS_END}};
static const cli_facts cluster_time_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(SECONDS, "seconds", "time", "predicted time of an iteration"),
        CLI_FACT(SECONDS, "pass", "  passes", "forward and backward passes of all micro-batches"),
        CLI_FACT(SECONDS, "products", "  busiest", "matrix products of the busiest stage"),
        CLI_FACT(SECONDS, "other", NULL, "other operators of that stage"),
        CLI_FACT(SECONDS, "tensor", NULL, "sums over tensor ranks in that stage"),
        CLI_FACT(SECONDS, "data", "  after them", "sum of the gradients over data-parallel ranks"),
        CLI_FACT(SECONDS, "update", NULL, "update of the parameters"),
        CLI_FACT(SHARE, "bubble", NULL, "fraction of `pass` in which that stage waits"),
        CLI_FACT(SHARE, "share_of_rate", "rate", "used fraction of the rate of the devices"),
        CLI_FACT(BYTES, "bytes_beyond_node", "beyond the node",
                 "bytes that each device sends to other nodes in an iteration"),
        CLI_FACTS_END}};
#define CLUSTER_TIME                                                                               \
    CLI_FACT_OF(OBJECT, "time", "if the speed of the device is known: the time",                   \
                &cluster_time_facts)
const cli_facts cli_cluster_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "division", "the division among the ranks", &cluster_division_facts),
        CLUSTER_TIME, CLI_FACTS_END}};
static const cli_facts cluster_row_facts = {
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "devices", "devices", "number of devices"),
        CLUSTER_DIVISION("tensor", "pipeline", "data", "micro", "pieces", "recompute", "shard"),
        CLI_FACT(BYTES, "total", "most each", "bytes of a rank of the largest stage"),
        CLI_COLUMN(SECONDS, "seconds"), CLI_COLUMN(SHARE, "rate"), CLUSTER_TIME, CLI_FACTS_END}};
const cli_facts cli_scaling_facts = {
    .name = "estimate-scaling",
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the model"),
        CLI_FACT(WORD, "device", NULL, "name of the device"),
        CLI_FACT_OF(LIST, "rows", "the fastest division for each number of devices that suffices",
                    &cluster_row_facts),
        CLI_FACTS_END}};

/* --- the answer --- */

static const char *cluster_recompute(const tn_large *how) {
    static const char *const names[] = {"none", "selective", "full"};
    return names[how->recompute];
}

static uint64_t cluster_one(uint64_t count) { return count > 0 ? count : 1; }

static void cluster_tell_division(cli_answer *answer, const tn_large *how, bool row) {
    uint64_t tensor = cluster_one(how->tensor), pipeline = cluster_one(how->pipeline),
             data = cluster_one(how->data), micro = cluster_one(how->micro),
             pieces = cluster_one(how->interleave);
    cli_tell(answer, "tensor", tensor);
    if (!row)
        cli_tell_as(answer,
                    "tensor=%" PRIu64 ",pipeline=%" PRIu64 ",data=%" PRIu64
                    ", micro-batches of %" PRIu64 ", %" PRIu64 " pieces a stage",
                    tensor, pipeline, data, micro, pieces);
    cli_tell(answer, "pipeline", pipeline);
    cli_tell(answer, "data", data);
    cli_tell(answer, "micro_batch", micro);
    cli_tell(answer, "interleave", pieces);
    cli_tell_word(answer, "recompute", cluster_recompute(how));
    if (!row)
        cli_tell_as(answer, "--recompute %s --shard %s%s", cluster_recompute(how),
                    tn_shard_name(how->shard),
                    how->sequence_parallel ? " --sequence-parallel" : "");
    cli_tell_word(answer, "shard", tn_shard_name(how->shard));
    cli_tell(answer, "sequence_parallel", how->sequence_parallel);
}

static void cluster_tell_time(cli_answer *answer, const tn_cluster_time *time) {
    cli_answer_open(answer, "time");
    cli_tell_real(answer, "seconds", time->seconds);
    cli_tell_more(answer, " an iteration, predicted");
    cli_tell_real(answer, "pass", time->pass);
    cli_tell_more(answer, ", bubbles and sends %.1f %% of it", 100 * time->bubble);
    cli_tell_real(answer, "products", time->products);
    cli_tell_more(answer, " products, %.4g s the rest, %.4g s sums of tensor ranks", time->other,
                  time->tensor);
    cli_tell_real(answer, "other", time->other);
    cli_tell_real(answer, "tensor", time->tensor);
    cli_tell_real(answer, "data", time->data);
    cli_tell_more(answer, " gradients summed, %.4g s update", time->update);
    cli_tell_real(answer, "update", time->update);
    cli_tell_real(answer, "bubble", time->bubble);
    cli_tell_real(answer, "share_of_rate", time->share);
    cli_tell_more(answer, " of the device's, predicted");
    cli_tell(answer, "bytes_beyond_node", time->slow_bytes);
    cli_tell_more(answer, " from each device in an iteration");
    cli_answer_close(answer);
}

/* A division that the user gave is not in the table. */
void cli_cluster_tell(cli_answer *answer, const cli_cluster *it, const cli_large *large,
                      bool json) {
    if (it->search || json) {
        cli_answer_open(answer, "division");
        cluster_tell_division(answer, &large->how, false);
        cli_answer_close(answer);
    }
    if (it->search)
        cli_tell_line(answer, "out of", "%" PRIu64 " divisions, of which %" PRIu64 " fit",
                      it->found.tried, it->found.fitting);
    if (!it->timed) return;
    cluster_tell_time(answer, &it->time);
    cli_tell_brief(answer, ", %.4g s an iteration", it->time.seconds);
}

/* --- --sweep --- */

typedef struct cluster_scaling {
    tn__scaling_row rows[CLUSTER_ROWS_MOST]; /* of the picture */
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

/* Adds one row to the answer and to the picture. */
static void cluster_tell_row(cli_answer *answer, const tn_cluster_found *found, uint64_t devices,
                             cluster_scaling *to) {
    char size[TN_SIZE_TEXT_MAX];
    tn_size_format(found->memory.largest.total, size);
    cli_answer_open(answer, NULL);
    cli_tell(answer, "devices", devices);
    cluster_tell_division(answer, &found->large, true);
    cli_tell(answer, "total", found->memory.largest.total);
    cli_tell_as(answer, "%.*s", (int)strcspn(size, "(") - 1, size);
    cli_tell_cell(answer, "seconds", "%.4g", found->time.seconds);
    cli_tell_cell(answer, "rate", "%.1f %%", 100 * found->time.share);
    cluster_tell_time(answer, &found->time);
    cli_answer_close(answer);
    tn_assert(to->count < CLUSTER_ROWS_MOST);
    cluster_drawn(found, devices, &to->rows[to->count++]);
}

static tn_status cluster_draw(const cluster_scaling *rows, const cli_way *way, uint64_t memory,
                              bool json, tn_error *error) {
    const tn__scaling scaling = {.input = way->input.path,
                                 .device = way->device->name,
                                 .memory = memory,
                                 .rows = rows->rows,
                                 .count = rows->count};
    if (rows->count == 0 || way->output_count == 0) return TN_OK;
    TN_TRY(tn__scaling_write(&scaling, way->outputs[0], error));
    if (!json) printf("wrote %s\n", way->outputs[0]);
    return TN_OK;
}

/* Numbers of devices without a division that fits are lines before the rows. */
static tn_status cluster_tell_rows(cli_answer *answer, cli_cluster *it, const tn_large *how,
                                   cluster_scaling *to, tn_error *error) {
    uint64_t most = it->cluster.devices > 0 ? it->cluster.devices : CLUSTER_SWEEP_MOST;
    tn__text *table = cli_answer_table(answer);
    cli_answer_open(answer, "rows");
    for (uint64_t devices = 1; devices > 0; devices = cluster_after(devices, most)) {
        it->cluster.devices = devices;
        tn_status status = cli_cluster_divide(it, how, &it->found, error);
        if (status == TN_OK)
            cluster_tell_row(answer, &it->found, devices, to);
        else if (status != TN_E_INFEASIBLE)
            return status;
        else if (table != NULL)
            tn__text_printf(table, "%s\n", error->message);
    }
    cli_answer_close(answer);
    return TN_OK;
}

int cli_cluster_scale(cli_cluster *it, const cli_large *large, const cli_way *way, bool json) {
    cluster_scaling to = {.count = 0};
    tn_error error;
    cli_answer answer;
    cli_answer_begin(&answer, &cli_scaling_facts, json);
    cli_tell_word(&answer, "input", cli_shown_path(way->input.path));
    cli_tell_word(&answer, "device", way->device->name);
    tn_status status = cluster_tell_rows(&answer, it, &large->how, &to, &error);
    if (to.count > 0)
        cli_tell_brief(&answer, "%" PRIu64 " to %" PRIu64 " devices, %.4g s to %.4g s an iteration",
                       to.rows[0].devices, to.rows[to.count - 1].devices, to.rows[0].seconds,
                       to.rows[to.count - 1].seconds);
    else
        cli_tell_brief(&answer, "no division fits");
    if (status == TN_OK)
        status = cli_answer_end(&answer, &error);
    else
        cli_answer_release(&answer);
    if (status == TN_OK) status = cluster_draw(&to, way, it->cluster.memory, json, &error);
    if (status != TN_OK) return cli_fail(&error);
    return to.count > 0 ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
}
