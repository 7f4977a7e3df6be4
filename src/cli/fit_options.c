/* fit_options.c - the techniques for a budget, and the source of costs. */
#include "cli/fit_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/combine.h"
#include "memory/device/driver.h"

uint32_t cli_allow(struct argp_state *state, const char *value) {
    static const struct {
        const char *word;
        uint32_t allows;
    } words[] = {{"order", TN_FIT_ORDER}, {"recompute", TN_FIT_RECOMPUTE},
                 {"swap", TN_FIT_SWAP},   {"compress", TN_FIT_COMPRESS},
                 {"split", TN_FIT_SPLIT}, {"stream", TN_FIT_STREAM}};
    const size_t count = sizeof words / sizeof *words;
    uint32_t allow = 0;
    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < count &&
               (strlen(words[i].word) != length || strncmp(at, words[i].word, length) != 0))
            i++;
        if (i == count)
            cli_misuse(
                state,
                "--allow: '%.*s' is not one of order, recompute, swap, compress, split, stream",
                (int)length, at);
        allow |= words[i].allows;
        at += length + (at[length] == ',');
    }
    if (allow == 0)
        cli_misuse(state,
                   "--allow: the list is empty; name at least one technique, such as recompute");
    return allow;
}

#define FIT_LINK_BYTES (UINT64_C(16) << 20)

static tn_status swap_measure(const char *name, tn_device_link *link, tn_error *error) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    tn_device *device;
    options.device = name;
    TN_TRY(tn_device_create(&options, &device, error));
    tn_status status = tn_device_measure_link(device, FIT_LINK_BYTES, NULL, link, error);
    tn_device_destroy(device);
    return status;
}

void cli_swap_link(const char *name, double *to_bytes_per_s, double *from_bytes_per_s) {
    tn_device_link link = {*to_bytes_per_s, *from_bytes_per_s, 0};
    tn_error error = {0};
    if (name == NULL) return;
    bool is_given = link.put_bytes_per_s > 0;
    tn_status status =
        is_given ? tn__device_known(name, &error) : swap_measure(name, &link, &error);
    if (status != TN_OK) cli_end(&error);
    *to_bytes_per_s = link.put_bytes_per_s;
    *from_bytes_per_s = link.get_bytes_per_s;
}

uint32_t cli_allow_complete(uint32_t allow, double link, const char *pass) {
    const uint32_t graph = TN_FIT_SPLIT | TN_FIT_STREAM;
    bool said = (allow & ~(uint32_t)TN_FIT_LOSSY) != 0;
    if ((allow & ~(TN_FIT_LOSSY | graph)) == 0) {
        allow |= said || pass != NULL ? TN_FIT_USUAL & ~graph : TN_FIT_USUAL;
        if (link > 0) allow |= TN_FIT_SWAP;
    }
    if (allow & TN_FIT_LOSSY) allow |= TN_FIT_COMPRESS;
    cli_condition_set(CLI_IF_SWAPS, (allow & TN_FIT_SWAP) != 0);
    return allow;
}

void cli_costs_parse(struct argp_state *state, cli_costs *costs, const char *value) {
    *costs = (cli_costs){0}; /* the last one counts */
    if (strncmp(value, "model:", 6) != 0) {
        costs->path = value;
        return;
    }
    costs->device = cli_hardware(state, "costs", value + 6);
}

bool cli_costs_given(const cli_costs *costs) {
    return costs->path != NULL || costs->device != NULL;
}

/* The plan stays valid with such costs, but its predicted seconds are for another number of
 * threads. */
static void costs_compare(const cli_costs *costs, uint32_t measured, uint32_t threads) {
    char text[512];
    if (measured == 0 || measured == (threads > 0 ? threads : 1)) return;
    snprintf(
        text, sizeof text,
        "%.300s: these costs were measured with %u thread%s; predicted seconds are for that number",
        costs->path, measured, measured == 1 ? "" : "s");
    cli_note(text);
}

tn_status cli_costs_make(const cli_costs *costs, const tn_setup *setup, uint32_t threads,
                         const tn_context *context, tn_costs **made, tn_error *error) {
    const tn_graph *graph = tn_setup_graph(setup);
    if (costs->path != NULL && tn_setup_splits(setup) != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "%s: these costs are for operators without tiles; measure them again, or remove "
                "split from --allow",
                costs->path);
    if (costs->path != NULL) {
        TN_TRY(tn_costs_read(costs->path, context, graph, made, error));
        costs_compare(costs, tn_costs_threads(*made), threads);
        return TN_OK;
    }
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    model.context = context;
    model.flops_per_s = costs->device->fp32;
    model.bytes_per_s = costs->device->bytes_per_s;
    return tn_costs_create_model(graph, &model, made, error);
}
