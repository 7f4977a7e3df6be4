/* formulas.c - `tenure estimate` by formulas: estimates the training of a transformer on many
 * ranks, from its config.json or from an .onnx file. The answer has the memory, changes that make
 * the training fit, and the time. */
#include "base/base.h"
#include "cli/cli.h"
#include "cli/estimate/estimate.h"
#include "report/svg/svg.h"
#include <tenure/dist.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- training time and parallelism on many devices --- */

#define CLUSTER_DEVICES_MOST (UINT64_C(1) << 20)
#define CLUSTER_SWEEP_MOST 10000u
/* Largest number of rows for --sweep: the powers of two below the device count, and that count. */
#define CLUSTER_ROWS_MOST 22u

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

/* Sets the device's arithmetic rate for the type of the weights, its memory bandwidth and its
 * memory. Returns false if the rate is unknown. */
static bool cluster_rates(cli_cluster *it, const tn_large *how, const tn_hardware *device) {
    if (device == NULL) return false;
    double half = device->bf16 > 0 ? device->bf16 : device->fp16;
    it->cluster.flops = how->weight_bytes == 4 ? device->fp32 : half;
    it->cluster.bytes_per_s = device->bytes_per_s;
    it->cluster.memory = device->usable - TN_HARDWARE_CONTEXT;
    return it->cluster.flops > 0;
}

/* Finds the fastest division among the cluster's devices that fits into their memory. */
static tn_status cluster_divide(const cli_cluster *it, const tn_large *how, tn_cluster_found *found,
                                tn_error *error) {
    tn_cluster_free free = TN_CLUSTER_FREE_INIT;
    free.shard = how->shard == TN_SHARD_NONE;
    free.recompute = how->recompute == TN_RECOMPUTE_NONE;
    return tn_cluster_search(&it->cluster, how, &free, found, error);
}

/* Computes the time of a training step. With it->search it first finds the fastest division of the
 * training among the devices and stores that division in `large`. */
static tn_status cluster_find(cli_cluster *it, cli_large *large, const tn_hardware *device,
                              tn_error *error) {
    it->timed = cluster_rates(it, &large->how, device);
    if (!it->timed && it->search)
        TN_FAIL(
            error, TN_E_INVALID,
            "the data sheet of %s has no rate for this type; choose another --dtype or --device",
            device->name);
    if (!it->timed || it->sweep) return TN_OK;
    if (it->search) {
        TN_TRY(cluster_divide(it, &large->how, &it->found, error));
        large->how = it->found.large;
        large->found = it->found.memory;
        it->time = it->found.time;
        return TN_OK;
    }
    it->cluster.devices = large->found.ranks;
    return tn_cluster_time_make(&it->cluster, &large->how, &it->time, error);
}

/* --- training time: the table of facts --- */

/* The facts of a division among devices. The arguments are labels of lines or headings of
 * columns. */
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
/* The facts of the division and its time, which cluster_add adds to the answer. */
static const cli_facts cluster_facts = {
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

/* --- training time: adding the facts to the answer --- */

static const char *cluster_recompute(const tn_large *how) {
    static const char *const names[] = {"none", "selective", "full"};
    return names[how->recompute];
}

static uint64_t cluster_one(uint64_t count) { return count > 0 ? count : 1; }

static void cluster_add_division(cli_answer *answer, const tn_large *how, bool row) {
    uint64_t tensor = cluster_one(how->tensor), pipeline = cluster_one(how->pipeline),
             data = cluster_one(how->data), micro = cluster_one(how->micro),
             pieces = cluster_one(how->interleave);
    cli_add(answer, "tensor", tensor);
    if (!row)
        cli_add_as(answer,
                   "tensor=%" PRIu64 ",pipeline=%" PRIu64 ",data=%" PRIu64
                   ", micro-batches of %" PRIu64 ", %" PRIu64 " pieces a stage",
                   tensor, pipeline, data, micro, pieces);
    cli_add(answer, "pipeline", pipeline);
    cli_add(answer, "data", data);
    cli_add(answer, "micro_batch", micro);
    cli_add(answer, "interleave", pieces);
    cli_add_word(answer, "recompute", cluster_recompute(how));
    if (!row)
        cli_add_as(answer, "--recompute %s --shard %s%s", cluster_recompute(how),
                   tn_shard_name(how->shard), how->sequence_parallel ? " --sequence-parallel" : "");
    cli_add_word(answer, "shard", tn_shard_name(how->shard));
    cli_add(answer, "sequence_parallel", how->sequence_parallel);
}

static void cluster_add_time(cli_answer *answer, const tn_cluster_time *time) {
    cli_answer_open(answer, "time");
    cli_add_real(answer, "seconds", time->seconds);
    cli_add_more(answer, " an iteration, predicted");
    cli_add_real(answer, "pass", time->pass);
    cli_add_more(answer, ", bubbles and sends %.1f %% of it", 100 * time->bubble);
    cli_add_real(answer, "products", time->products);
    cli_add_more(answer, " products, %.4g s the rest, %.4g s sums of tensor ranks", time->other,
                 time->tensor);
    cli_add_real(answer, "other", time->other);
    cli_add_real(answer, "tensor", time->tensor);
    cli_add_real(answer, "data", time->data);
    cli_add_more(answer, " gradients summed, %.4g s update", time->update);
    cli_add_real(answer, "update", time->update);
    cli_add_real(answer, "bubble", time->bubble);
    cli_add_real(answer, "share_of_rate", time->share);
    cli_add_more(answer, " of the device's, predicted");
    cli_add(answer, "bytes_beyond_node", time->slow_bytes);
    cli_add_more(answer, " from each device in an iteration");
    cli_answer_close(answer);
}

/* Adds the division and the time to the answer. If the user gave the division, only the JSON has
 * it. */
static void cluster_add(cli_answer *answer, const cli_cluster *it, const cli_large *large,
                        bool json) {
    if (it->search || json) {
        cli_answer_open(answer, "division");
        cluster_add_division(answer, &large->how, false);
        cli_answer_close(answer);
    }
    if (it->search)
        cli_add_line(answer, "out of", "%" PRIu64 " divisions, of which %" PRIu64 " fit",
                     it->found.tried, it->found.fitting);
    if (!it->timed) return;
    cluster_add_time(answer, &it->time);
    cli_add_brief(answer, ", %.4g s an iteration", it->time.seconds);
}

/* --- training time: --sweep --- */

typedef struct cluster_scaling {
    tn__scaling_row rows[CLUSTER_ROWS_MOST]; /* rows of the picture that --sweep draws */
    uint32_t count;
} cluster_scaling;

/* Returns the number of devices of the next row of --sweep: the next power of two, or `most` in the
 * last row. Returns 0 after the last row. */
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

/* Adds a row for this number of devices to the answer and to the picture. */
static void cluster_add_row(cli_answer *answer, const tn_cluster_found *found, uint64_t devices,
                            cluster_scaling *to) {
    char size[TN_SIZE_TEXT_MAX];
    tn_size_format(found->memory.largest.total, size);
    cli_answer_open(answer, NULL);
    cli_add(answer, "devices", devices);
    cluster_add_division(answer, &found->large, true);
    cli_add(answer, "total", found->memory.largest.total);
    cli_add_as(answer, "%.*s", (int)strcspn(size, "(") - 1, size);
    cli_add_cell(answer, "seconds", "%.4g", found->time.seconds);
    cli_add_cell(answer, "rate", "%.1f %%", 100 * found->time.share);
    cluster_add_time(answer, &found->time);
    cli_answer_close(answer);
    tn_assert(to->count < CLUSTER_ROWS_MOST);
    cluster_drawn(found, devices, &to->rows[to->count++]);
}

static tn_status cluster_draw(const cluster_scaling *rows, const cli_estimate_request *request,
                              uint64_t memory, bool json, tn_error *error) {
    const tn__scaling scaling = {.input = request->input.path,
                                 .device = request->device->name,
                                 .memory = memory,
                                 .rows = rows->rows,
                                 .count = rows->count};
    if (rows->count == 0 || request->output_count == 0) return TN_OK;
    TN_TRY(tn__scaling_write(&scaling, request->outputs[0], error));
    if (!json) printf("wrote %s\n", request->outputs[0]);
    return TN_OK;
}

/* Adds a row for each number of devices. For a number without a division that fits, the table gets
 * a line with the reason instead. */
static tn_status cluster_add_rows(cli_answer *answer, cli_cluster *it, const tn_large *how,
                                  cluster_scaling *to, tn_error *error) {
    uint64_t most = it->cluster.devices > 0 ? it->cluster.devices : CLUSTER_SWEEP_MOST;
    tn__text *table = cli_answer_table(answer);
    cli_answer_open(answer, "rows");
    for (uint64_t devices = 1; devices > 0; devices = cluster_after(devices, most)) {
        it->cluster.devices = devices;
        tn_status status = cluster_divide(it, how, &it->found, error);
        if (status == TN_OK)
            cluster_add_row(answer, &it->found, devices, to);
        else if (status != TN_E_INFEASIBLE)
            return status;
        else if (table != NULL)
            tn__text_printf(table, "%s\n", error->message);
    }
    cli_answer_close(answer);
    return TN_OK;
}

static int cluster_scale(cli_cluster *it, const cli_large *large,
                         const cli_estimate_request *request, bool json) {
    cluster_scaling to = {.count = 0};
    tn_error error;
    cli_answer answer;
    cli_answer_begin(&answer, &cli_scaling_facts, json);
    cli_add_word(&answer, "input", cli_shown_path(request->input.path));
    cli_add_word(&answer, "device", request->device->name);
    tn_status status = cluster_add_rows(&answer, it, &large->how, &to, &error);
    if (to.count > 0)
        cli_add_brief(&answer, "%" PRIu64 " to %" PRIu64 " devices, %.4g s to %.4g s an iteration",
                      to.rows[0].devices, to.rows[to.count - 1].devices, to.rows[0].seconds,
                      to.rows[to.count - 1].seconds);
    else
        cli_add_brief(&answer, "no division fits");
    if (status == TN_OK)
        status = cli_answer_end(&answer, &error);
    else
        cli_answer_release(&answer);
    if (status == TN_OK) status = cluster_draw(&to, request, it->cluster.memory, json, &error);
    if (status != TN_OK) return cli_fail(&error);
    return to.count > 0 ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
}

/* --- changes that make it fit --- */

/* Changes are tried in this order: those that cost nothing, those that cost time, shorter
 * sequences, and last more devices. */

#define CHANGES_DEVICES_MOST 65536u

typedef struct large_state {
    cli_large *large;
    const cli_cluster *cluster;
    uint64_t limit;
} large_state;

static bool large_keep(const large_state *it, const char *text, uint64_t total,
                       const tn_cluster_time *time) {
    cli_large *large = it->large;
    if (large->change_count == CLI_LARGE_CHANGES_MAX) return true;
    cli_change *change = &large->changes[large->change_count++];
    *change = (cli_change){.total = total};
    snprintf(change->text, sizeof change->text, "%s", text);
    change->priced = time != NULL && it->cluster->timed && it->cluster->time.seconds > 0;
    if (change->priced) change->more_time = time->seconds / it->cluster->time.seconds - 1;
    return true;
}

/* Estimates the training with the options `how`. If it fits, adds the change `text` and returns
 * true. */
static bool large_try(const large_state *it, const tn_large *how, const char *text) {
    tn_large_estimate made;
    tn_cluster_time time;
    if (tn_large_estimate_make(how, &made, NULL) != TN_OK || made.largest.total > it->limit)
        return false;
    bool timed = it->cluster->timed &&
                 tn_cluster_time_make(&it->cluster->cluster, how, &time, NULL) == TN_OK;
    return large_keep(it, text, made.largest.total, timed ? &time : NULL);
}

/* Finds the longest sequence that fits, by bisection: the memory per rank grows with the
 * sequence. */
static bool large_try_sequence(const large_state *it, const tn_large *how, const char *before) {
    tn_large less = *how;
    tn_large_estimate made;
    char text[96];
    uint64_t low = 0, high = how->sequence;
    while (high - low > 1) {
        less.sequence = low + (high - low) / 2;
        bool fits =
            tn_large_estimate_make(&less, &made, NULL) == TN_OK && made.largest.total <= it->limit;
        *(fits ? &low : &high) = less.sequence;
    }
    if (low == 0) return false;
    less.sequence = low;
    snprintf(text, sizeof text, "%s--sequence %" PRIu64, before, low);
    return large_try(it, &less, text);
}

/* Tries changes of single options. `before` is the text of an option that `how` already has, or "".
 * Returns whether any change fits. */
static bool large_try_options(const large_state *it, const tn_large *how, const char *before) {
    static const char *const recomputes[] = {"", "selective", "full"};
    bool any = false;
    char text[96];
    if (how->tensor > 1 && !how->sequence_parallel) {
        tn_large divided = *how;
        divided.sequence_parallel = true;
        snprintf(text, sizeof text, "%s--sequence-parallel", before);
        any |= large_try(it, &divided, text);
    }
    for (tn_shard shard = how->shard + 1; how->data > 1 && shard <= TN_SHARD_PARAMETERS; shard++) {
        tn_large divided = *how;
        divided.shard = shard;
        snprintf(text, sizeof text, "%s--shard %s", before, tn_shard_name(shard));
        if (large_try(it, &divided, text)) {
            any = true;
            /* higher levels of sharding send more data, so the first that fits is the cheapest */
            break;
        }
    }
    for (tn_recompute again = how->recompute + 1; again <= TN_RECOMPUTE_FULL; again++) {
        tn_large less = *how;
        less.recompute = again;
        snprintf(text, sizeof text, "%s--recompute %s", before, recomputes[again]);
        any |= large_try(it, &less, text);
    }
    return large_try_sequence(it, how, before) || any;
}

/* Finds the smallest power of two, above the present number of ranks, such that the training
 * divided among so many devices fits. */
static void large_try_devices(const large_state *it) {
    cli_cluster many = *it->cluster;
    tn_cluster_found found;
    char text[96];
    uint64_t devices = 2;
    while (devices <= it->large->found.ranks) devices *= 2;
    for (; it->cluster->timed && devices <= CHANGES_DEVICES_MOST; devices *= 2) {
        tn_large free = it->large->how;
        many.cluster.devices = devices;
        free.tensor = free.pipeline = free.data = free.micro = free.interleave = 0;
        if (cluster_divide(&many, &free, &found, NULL) != TN_OK) continue;
        snprintf(text, sizeof text, "--parallel auto --devices %" PRIu64, devices);
        large_keep(it, text, found.memory.largest.total, NULL);
        return;
    }
}

/* Finds the changes that make the training fit into `limit` bytes, with their times if the speed of
 * the device is known. The caller has called cluster_find. */
static void large_change(cli_large *large, const cli_cluster *cluster, uint64_t limit) {
    large_state it = {.large = large, .cluster = cluster, .limit = limit};
    bool found = limit == 0 || large->found.largest.total <= limit;
    if (found) return;
    if (!large_try_options(&it, &large->how, "") && large->how.recompute != TN_RECOMPUTE_FULL) {
        tn_large again = large->how;
        again.recompute = TN_RECOMPUTE_FULL;
        large_try_options(&it, &again, "--recompute full ");
    }
    large_try_devices(&it);
}

/* --- memory --- */

void cli_large_split(struct argp_state *state, cli_large *large, tn_grid *grid, const char *value) {
    tn_error error = {0};
    if (tn_grid_parse(value, grid, &error) != TN_OK)
        cli_misuse(state, "--parallel: %s (or auto, serial, safe)", error.message);
    large->how.tensor = grid->tensor;
    large->how.pipeline = grid->pipeline;
    large->how.data = grid->data;
    large->how.interleave = grid->interleave;
    large->split = true;
}

static tn_status large_find(cli_large *large, const cli_estimate_request *request,
                            tn_error *error) {
    const char *path = request->input.path;
    tn_large *how = &large->how;
    how->batch = request->batch;
    if (tn__has_suffix(path, ".json")) {
        tn__file file;
        TN_TRY(tn__file_map(path, &file, error));
        tn_status status =
            tn_large_config(path, file.bytes, file.size, request->input.import.context, how, error);
        tn__file_unmap(&file);
        TN_TRY(status);
    } else {
        tn_graph *graph;
        TN_TRY(tn_graph_load(path, &request->input.import, &graph, error));
        tn_status status = tn_large_from_graph(graph, how, error);
        tn_graph_destroy(graph);
        if (status != TN_OK) return tn__where(error, status, "%s", path);
    }
    /* Bytes per weight that the optimizer keeps, in the order of tn_optimizer. Each has 4 bytes for
     * a float32 copy of the weight. Momentum has 4 more bytes, and Adam and AdamW have 8 more for
     * their two moments. */
    static const uint32_t state[] = {4, 8, 12, 12, 4};
    how->state_bytes = state[request->training.options.optimizer];
    /* The optimizer keeps no float32 copy of weights that are float32. */
    if (request->training.options.dtype == TN_FLOAT32) {
        how->weight_bytes = how->gradient_bytes = 4;
        how->state_bytes -= 4;
    }
    tn_status status = tn_large_estimate_make(how, &large->found, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", path);
}

/* --- memory: the table of facts --- */

static const cli_facts large_stage_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "layers", "stage", "layers of the stage"),
        CLI_FACT(COUNT, "parameters", NULL, "parameters on each of its ranks"),
        CLI_FACT(BYTES, "weights", "  weights", "bytes of the weights"),
        CLI_FACT(BYTES, "gradients", "  gradients", "bytes of the gradients"),
        CLI_FACT(BYTES, "optimizer_state", "  optimizer_state", "bytes of the optimizer state"),
        CLI_FACT(BYTES, "activations", "  activations", "bytes of the activations"),
        CLI_FACT(BYTES, "kept", "    kept", "part of them: kept from forward to backward"),
        CLI_FACT(BYTES, "loss", "    loss", "part of them: logits and loss"),
        CLI_FACT(BYTES, "total", "  total", "bytes of a rank of this stage"), CLI_FACTS_END}};
const cli_facts cli_large_facts = {
    .name = "estimate-large",
    .width = 18,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the model"),
        CLI_FACT(COUNT, "parameters", "parameters", "number of parameters"),
        CLI_FACT(REAL, "parameters_by_formula", NULL, "the same by the published formula"),
        CLI_FACT(REAL, "flops", "FLOPs", "floating-point operations of an iteration"),
        CLI_FACT(COUNT, "ranks", "ranks", "number of ranks"),
        CLI_FACT(COUNT, "largest_stage", NULL, "the stage that needs most memory, from 0"),
        CLI_FACT_OF(LIST, "stages", "the pipeline stages; sizes are for one rank",
                    &large_stage_facts),
        CLI_FACT_BRIEF(BYTES, "total", "most on a rank", "@ on a rank",
                       "bytes of a rank of the largest stage"),
        CLI_FACTS_ALSO(&cluster_facts),
        CLI_FACT(BYTES, "device_memory", "device", "bytes of the device of --device"),
        CLI_FACT(WORD, "device", NULL, "name of the device in `tenure list hardware`"),
        CLI_FACT(YES, "fits", "fits", "whether it fits the device"),
        CLI_FACTS_ALSO(&cli_changes_facts), CLI_FACTS_END}};

/* --- memory: printing the answer --- */

/* Adds the sizes of the model that were read, and the defaults that were used. */
static void large_add_model(cli_answer *answer, const tn_large *how) {
    uint64_t kv = how->model.kv_heads > 0 ? how->model.kv_heads : how->model.heads;
    char digits[TN__GROUPED_MAX];
    cli_add_line(answer, "model",
                 "%" PRIu64 " layers of %" PRIu64 ", %" PRIu64 " heads, %" PRIu64
                 " KV heads, inner %" PRIu64 "%s",
                 how->model.layers, how->model.hidden, how->model.heads, kv,
                 how->model.inner > 0 ? how->model.inner : 4 * how->model.hidden,
                 how->model.gated ? ", gated" : "");
    cli_add_line(answer, "", "%" PRIu64 " tokens a sequence, vocabulary of %s%s%s", how->sequence,
                 tn__grouped(how->model.vocabulary, digits),
                 how->model.untied ? " with an output matrix" : "",
                 how->model.no_dropout ? ", no dropout" : "");
    cli_add_line(answer, "", "attention is %s",
                 how->attention == TN_ATTENTION_UNFUSED ? "unfused: scores are kept" : "fused");
}

static void large_add_stage(cli_answer *answer, const tn_large_stage *stage, uint32_t index) {
    char digits[TN__GROUPED_MAX];
    cli_answer_open(answer, NULL);
    cli_add(answer, "layers", stage->layers);
    cli_add_as(answer, "%u: %" PRIu64 " layers, %s parameters on each of its ranks", index,
               stage->layers, tn__grouped(stage->parameters, digits));
    cli_add(answer, "parameters", stage->parameters);
    cli_add(answer, "weights", stage->weights);
    cli_add(answer, "gradients", stage->gradients);
    cli_add(answer, "optimizer_state", stage->state);
    cli_add(answer, "activations", stage->activations);
    cli_add(answer, "kept", stage->kept);
    cli_add_more(answer, " from forward to backward");
    cli_add_if(answer, "loss", stage->loss);
    cli_add_more(answer, " for logits and loss");
    cli_add(answer, "total", stage->total);
    cli_answer_close(answer);
}

/* Adds the memory of each pipeline stage. The table has only the first stage, the last one and the
 * one that needs most memory. */
static void large_add_stages(cli_answer *answer, const cli_large *large, bool json) {
    uint64_t stages = large->how.pipeline > 0 ? large->how.pipeline : 1;
    cli_answer_open(answer, "stages");
    for (uint32_t i = 0; i < stages; i++) {
        tn_large_stage stage = {0};
        if (!json && i > 0 && i + 1 < stages && i != large->found.largest_stage) continue;
        if (tn_large_stage_make(&large->how, i, &stage, NULL) != TN_OK) break;
        large_add_stage(answer, &stage, i);
    }
    cli_answer_close(answer);
}

static bool large_fits(const cli_large *large, uint64_t limit) {
    return limit == 0 || large->found.largest.total <= limit;
}

static void large_add_fit(cli_answer *answer, const cli_large *large,
                          const cli_estimate_request *request) {
    bool fits = large_fits(large, request->limit);
    if (request->limit == 0) return;
    cli_add(answer, "device_memory", request->limit);
    if (request->device != NULL) {
        cli_add_more(answer, ", %s", request->device->title);
        cli_add_word(answer, "device", request->device->name);
    }
    cli_add(answer, "fits", fits);
    cli_add_brief(answer, fits ? ", fits" : ", does not fit");
    if (!fits) cli_changes_add(answer, large->changes, large->change_count);
}

static tn_status large_print(const cli_large *large, const cli_cluster *cluster,
                             const cli_estimate_request *request, bool json, tn_error *error) {
    const tn_large_estimate *found = &large->found;
    cli_answer answer;
    cli_answer_begin(&answer, &cli_large_facts, json);
    cli_add_word(&answer, "input", cli_shown_path(request->input.path));
    large_add_model(&answer, &large->how);
    cli_add(&answer, "parameters", found->exact_parameters);
    cli_add_more(&answer, " (by the formula %.4g)", found->parameters);
    cli_add_real(&answer, "parameters_by_formula", found->parameters);
    cli_add_real(&answer, "flops", found->flops);
    cli_add_more(&answer, " in an iteration");
    cli_add(&answer, "ranks", found->ranks);
    cli_add(&answer, "largest_stage", found->largest_stage);
    large_add_stages(&answer, large, json);
    cli_add(&answer, "total", found->largest.total);
    cli_add_more(&answer, ", stage %u", found->largest_stage);
    cluster_add(&answer, cluster, large, json);
    large_add_fit(&answer, large, request);
    return cli_answer_end(&answer, error);
}

/* --- the estimate from the file to the answer --- */

int cli_estimate_large(cli_large *large, cli_cluster *cluster, const cli_estimate_request *request,
                       bool json, tn_error *error) {
    tn_status status = large_find(large, request, error);
    if (status == TN_OK) status = cluster_find(cluster, large, request->device, error);
    if (status == TN_OK && cluster->sweep) return cluster_scale(cluster, large, request, json);
    if (status == TN_OK) {
        large_change(large, cluster, request->limit);
        status = large_print(large, cluster, request, json, error);
    }
    if (status != TN_OK) return cli_fail(error);
    return large_fits(large, request->limit) ? 0 : tn_status_exit_code(TN_E_INFEASIBLE);
}
