/* train_picture.c - `tenure train -o FILE`: draws a step of all ranks, the prediction above the
 * measurement.
 *
 * It is the third step, when caches and threads are warm, or the last one of a shorter run. All
 * ranks measure their operators at the same time, as in the run. Each rank simulates its own
 * program, and the first rank combines them, including the waits between ranks.
 */
#include "cli/train.h"

#include "base/base.h"

#define PICTURE_RUN 2u      /* the third */
#define PICTURE_SECONDS 0.5 /* time limit of measuring, after the first round */
#define PICTURE_TAG 0x706963u

uint64_t cli_train_picture_runs(const cli_train *train) {
    return train->pictures.count > 0 ? PICTURE_RUN + 1 : 1;
}

static void picture_label(const cli_train *train, char *text, size_t size) {
    const tn_grid *grid = &train->at.grid;
    tn_place at = tn_grid_place(grid, train->at.rank);
    const struct {
        const char *name;
        uint32_t count, mine;
    } axes[] = {{"data", grid->data, at.data},
                {"tensor", grid->tensor, at.tensor},
                {"pipeline", grid->pipeline, at.pipeline}};
    int used = 0;
    text[0] = '\0';
    for (int i = 0; i < 3; i++)
        if (axes[i].count > 1 && used >= 0 && (size_t)used < size)
            used += snprintf(text + used, size - (size_t)used, "%s%s %u", used > 0 ? ", " : "",
                             axes[i].name, axes[i].mine);
}

/* The last complete run up to the shown one: if the trace overflowed, the last run in it may be cut
 * off. */
static uint32_t picture_run(const tn_trace *trace, uint64_t runs) {
    uint64_t count;
    const tn_event *events = tn_trace_events(trace, &count);
    uint32_t run = runs > PICTURE_RUN ? PICTURE_RUN : runs > 0 ? (uint32_t)runs - 1 : 0;
    if (tn_trace_dropped(trace) == 0 || count == 0 || events[count - 1].run > run) return run;
    return events[count - 1].run > 0 ? events[count - 1].run - 1 : 0;
}

/* The earliest choice of all ranks, so that all draw the same step. */
static tn_status picture_same(const cli_train *train, uint32_t *run, tn_error *error) {
    const tn_exchange *to = tn_world_exchange(train->world);
    double before = PICTURE_RUN - *run;
    TN_TRY(to->reduce(to->self, 0, &before, 1, TN_FLOAT64, TN_REDUCTION_MAX, error));
    *run = PICTURE_RUN - (uint32_t)before;
    return TN_OK;
}

/* --- prediction --- */

static tn_status picture_costs(const cli_train *train, tn_costs **costs, tn_error *error) {
    const cli_session *session = &train->session;
    tn_measure_options options = TN_MEASURE_OPTIONS_INIT;
    options.context = train->input.import.context;
    if (cli_costs_given(&session->from))
        return cli_costs_make(&session->from, session->setup, session->choices.threads,
                              options.context, costs, error);
    options.seconds = PICTURE_SECONDS;
    options.occupancy = tn_setup_occupancy(session->setup);
    options.setup = session->setup;
    return tn_costs_measure(tn_setup_kernels(session->setup), &options, costs, NULL, error);
}

static tn_status picture_simulate(const cli_train *train, const tn_world_rates *rates,
                                  tn_timeline *line, tn_error *error) {
    const cli_session *session = &train->session;
    const tn_program *program = tn_setup_program(session->setup);
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    tn_simulation simulation;
    tn_costs *costs = NULL;
    tn_trace *trace = NULL;
    uint64_t room = 4 * (uint64_t)tn_program_count(program) + 64;
    options.context = train->input.import.context;
    options.peer_bytes_per_s = rates->bytes_per_s;
    options.peer_latency_s = rates->latency_s;
    options.to_host_bytes_per_s = options.from_host_bytes_per_s = session->link;
    tn_status status = picture_costs(train, &costs, error);
    if (status == TN_OK) status = tn_trace_create(options.context, room, &trace, error);
    options.trace = trace;
    if (status == TN_OK)
        status = tn_setup_predict(session->setup, costs, &options, &simulation, error);
    if (status == TN_OK) {
        tn_simulation_release(&simulation);
        status = tn_timeline_add(line, train->at.rank, TN_TIMELINE_PREDICTED,
                                 tn_setup_occupancy(session->setup), trace, 0, 0, error);
    }
    tn_trace_destroy(trace);
    tn_costs_destroy(costs);
    return status;
}

/* --- from all ranks to the first --- */

static tn_status picture_send(const cli_train *train, const tn_timeline *line, tn_error *error) {
    const tn_exchange *to = tn_world_exchange(train->world);
    void *bytes;
    uint64_t size;
    TN_TRY(tn_timeline_pack(line, train->at.rank, &bytes, &size, error));
    tn_status status = to->send(to->self, 0, PICTURE_TAG, &size, sizeof size, error);
    if (status == TN_OK) status = to->send(to->self, 0, PICTURE_TAG, bytes, size, error);
    tn_timeline_release(line, bytes, size);
    return status;
}

static tn_status picture_take(const cli_train *train, tn_timeline *line, uint32_t rank,
                              tn_error *error) {
    const tn_exchange *to = tn_world_exchange(train->world);
    const tn_context *context = train->input.import.context;
    uint64_t size = 0;
    TN_TRY(to->recv(to->self, rank, PICTURE_TAG, &size, sizeof size, error));
    void *bytes = tn__alloc(context, size);
    if (bytes == NULL) return tn__no_memory(error, "the events of a rank");
    tn_status status = to->recv(to->self, rank, PICTURE_TAG, bytes, size, error);
    if (status == TN_OK) status = tn_timeline_unpack(line, rank, bytes, size, error);
    tn__free(context, bytes, size);
    return status;
}

static tn_status picture_gather(const cli_train *train, tn_timeline *line, tn_error *error) {
    if (!cli_train_speaks(train)) return picture_send(train, line, error);
    for (uint32_t rank = 1; rank < cli_train_ranks(train); rank++)
        TN_TRY(picture_take(train, line, rank, error));
    return TN_OK;
}

/* --- the whole --- */

static tn_status picture_own(const cli_train *train, double shift_s, uint32_t run,
                             tn_timeline *line, tn_error *error) {
    char label[64];
    tn_engine_usage usage;
    tn_engine_measure(train->session.engine, &usage);
    picture_label(train, label, sizeof label);
    TN_TRY(tn_timeline_rank(line, train->at.rank, label, usage.planned_peak, error));
    return tn_timeline_add(line, train->at.rank, TN_TIMELINE_MEASURED,
                           tn_setup_occupancy(train->session.setup), train->session.trace, run,
                           shift_s, error);
}

static void picture_idle(cli_train *train, const tn_timeline *line) {
    for (uint32_t r = 0; r < cli_train_ranks(train) && train->ranks != NULL; r++)
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
            tn_timeline_sums sums = tn_timeline_measure(line, r, (tn_timeline_kind)kind);
            double step_s = sums.idle_s + sums.compute_s;
            if (step_s > 0) train->ranks[r].idle[kind] = sums.idle_s / step_s;
        }
}

static tn_status picture_write_file(const void *self, const char *path, tn_error *error) {
    return tn_timeline_write(self, path, error);
}

static tn_status picture_write(cli_train *train, tn_timeline *line, tn_error *error) {
    TN_TRY(tn_timeline_meet(line, error));
    picture_idle(train, line);
    return cli_paths_write(&train->pictures, picture_write_file, line, error);
}

static tn_status picture_make(cli_train *train, uint32_t run, tn_timeline *line, tn_error *error) {
    double shift_s = 0;
    tn_world_rates rates = {0};
    if (train->world != NULL) {
        TN_TRY(picture_same(train, &run, error));
        TN_TRY(tn_world_clock(train->world, &shift_s, error));
        TN_TRY(tn_world_measure_link(train->world, &rates, error));
    }
    tn_status status = picture_own(train, shift_s, run, line, error);
    if (status == TN_OK) status = picture_simulate(train, &rates, line, error);
    TN_TRY(cli_train_agree(train, status, error));
    if (train->world != NULL) TN_TRY(picture_gather(train, line, error));
    status = cli_train_speaks(train) ? picture_write(train, line, error) : TN_OK;
    return cli_train_agree(train, status, error);
}

tn_status cli_train_picture(cli_train *train, tn_error *error) {
    tn_engine_usage usage;
    tn_timeline *line;
    if (train->pictures.count == 0) return TN_OK;
    tn_engine_measure(train->session.engine, &usage);
    if (usage.run_count == 0)
        TN_FAIL(error, TN_E_INVALID, "%s: the run had no steps to draw; raise --steps or --epochs",
                train->pictures.at[0]);
    TN_TRY(tn_timeline_create(train->input.import.context, train->input.path,
                              cli_train_ranks(train), &line, error));
    tn_status status =
        picture_make(train, picture_run(train->session.trace, usage.run_count), line, error);
    tn_timeline_destroy(line);
    return status;
}
