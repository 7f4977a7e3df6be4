/* world.c - creates a world of ranks from its options, makes groups, arranges ranks along axes
 * (data, tensor, pipeline), and checks that all ranks run one computation. */
#include "graph/attr.h"
#include "run/dist/world.h"

#include <math.h>
#include <stdio.h>

/* --- the same computation on all ranks -------------------------------------------------------- */

/* Checks that all ranks are about to run the same computation, by comparing hashes of it.
 *
 * From the graph, the hash covers operators, types, extents and attributes, except seeds and
 * attributes that name a rank's part. From the program, it covers the collectives in their order. A
 * group is hashed by its size and by the order of first use, because its number may differ from
 * rank to rank. Memory plans, recomputation and swaps are not compared, because ranks may have
 * different budgets.
 * Cost: O(graph + instructions x groups). Source of the hash: FNV-1a.
 */

static uint64_t alike_bytes(uint64_t hash, const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}
#define ALIKE_BEGIN UINT64_C(14695981039346656037)

static uint64_t alike_text(uint64_t hash, const char *text) {
    return alike_bytes(hash, text, strlen(text) + 1);
}

static uint64_t alike_number(uint64_t hash, uint64_t number) {
    return alike_bytes(hash, &number, sizeof number);
}

static uint64_t alike_tensor(uint64_t hash, const tn_tensor *tensor) {
    hash = alike_number(hash, tensor->dtype);
    hash = alike_number(hash, tensor->rank);
    bool shaped = tensor->rank <= TN_RANK_MAX;
    for (uint32_t d = 0; shaped && d < tensor->rank; d++)
        hash = alike_number(hash, (uint64_t)tensor->shape[d]);
    return hash;
}

static uint64_t alike_attr(uint64_t hash, const tn_op *op, const tn_attr *attr) {
    if (tn__attr_of_ranks(op, attr->name) != TN__ATTR_SAME) return hash;
    hash = alike_text(hash, attr->name);
    if (attr->ints != NULL) hash = alike_bytes(hash, attr->ints, attr->count * sizeof(int64_t));
    if (attr->floats != NULL) hash = alike_bytes(hash, attr->floats, attr->count * sizeof(double));
    for (uint32_t i = 0; attr->strings != NULL && i < attr->count; i++)
        hash = alike_text(hash, attr->strings[i]);
    return hash;
}

static uint64_t alike_graph(const tn_graph *graph) {
    uint64_t hash = ALIKE_BEGIN;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        hash = alike_tensor(hash, tn_graph_tensor(graph, id));
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        hash = alike_text(hash, op->type);
        hash = alike_bytes(hash, op->inputs, op->input_count * sizeof *op->inputs);
        hash = alike_bytes(hash, op->outputs, op->output_count * sizeof *op->outputs);
        for (uint32_t i = 0; i < op->attr_count; i++) hash = alike_attr(hash, op, &op->attrs[i]);
    }
    return hash;
}

#define ALIKE_GROUPS 32u /* number of groups that the hash distinguishes */

/* Hashes a group by its size and its index in the order of first use. */
static uint64_t alike_group(uint64_t hash, tn_world *world, uint32_t group, uint32_t *seen,
                            uint32_t *count) {
    const tn__rank_group *found = tn__world_find(world, group);
    uint32_t at = 0;
    while (at < *count && seen[at] != group) at++;
    if (at == *count && at < ALIKE_GROUPS) seen[(*count)++] = group;
    return alike_number(alike_number(hash, at), found != NULL ? found->count : 0);
}

/* Whether the program is a stage of a pipeline. Stages communicate differently; tn_programs_verify
 * has checked that they fit together. */
static bool alike_is_stage(const tn_program *program) {
    bool stage = false;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        const tn_instruction *it = &tn_program_instructions(program)[s];
        stage = stage || tn_opcode_facts_of(it->opcode)->blocks == TN_BLOCKS_PEER;
    }
    return stage;
}

static uint64_t alike_talks(tn_world *world, const tn_program *program) {
    uint32_t seen[ALIKE_GROUPS], groups = 0;
    uint64_t hash = ALIKE_BEGIN;
    if (alike_is_stage(program)) return hash;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        const tn_instruction *it = &tn_program_instructions(program)[s];
        if (tn_opcode_facts_of(it->opcode)->blocks != TN_BLOCKS_GROUP) continue;
        hash = alike_number(hash, it->opcode);
        hash = alike_group(hash, world, it->group, seen, &groups);
        hash = alike_number(hash, it->reduction);
        hash = alike_tensor(hash, tn_graph_tensor(tn_program_graph(program), it->tensor));
    }
    return hash;
}

tn_status tn_world_alike(tn_world *world, const tn_program *program, uint64_t seed,
                         tn_error *error) {
    const tn_world_same same[] = {
        {"version of tenure", alike_text(ALIKE_BEGIN, tn_version())},
        {"model", alike_graph(tn_program_graph(program))},
        {"sequence of messages", alike_talks(world, program)},
        {"seed", seed},
    };
    return tn_world_compare(world, same, sizeof same / sizeof *same, error);
}

/* --- axes of ranks ---------------------------------------------------------------------------- */

/* Arranges ranks along the axes data, tensor and pipeline, and makes the groups along each axis.
 *
 * Ranks are numbered as in Megatron-LM: along `tensor` first, then `data`, then `pipeline`.
 */

/* --- parsing a grid of ranks from text --- */

typedef struct grid_word {
    const char *name;
    size_t offset;
} grid_word;
static const grid_word grid_words[] = {{"data=", offsetof(tn_grid, data)},
                                       {"tensor=", offsetof(tn_grid, tensor)},
                                       {"pipeline=", offsetof(tn_grid, pipeline)},
                                       {"interleave=", offsetof(tn_grid, interleave)}};
#define GRID_WORDS (sizeof grid_words / sizeof *grid_words)

/* Parses a number and advances `text`. Returns 0 if there is no valid number. */
static uint32_t grid_number(const char **text) {
    uint64_t number = 0;
    const char *at = *text;
    while (*at >= '0' && *at <= '9' && number <= TN_GRID_MOST)
        number = 10 * number + (uint64_t)(*at++ - '0');
    bool ends = at > *text && (*at == ',' || *at == '\0');
    *text = at;
    return ends && number <= TN_GRID_MOST ? (uint32_t)number : 0;
}

static tn_status grid_one(const char **text, tn_grid *grid, bool *seen, tn_error *error) {
    size_t i = 0;
    while (i < GRID_WORDS && strncmp(*text, grid_words[i].name, strlen(grid_words[i].name)) != 0)
        i++;
    const char *word = *text;
    if (i < GRID_WORDS && seen[i])
        TN_FAIL(error, TN_E_INVALID, "%s is there twice", grid_words[i].name);
    if (i < GRID_WORDS) *text += strlen(grid_words[i].name);
    uint32_t number = i < GRID_WORDS ? grid_number(text) : 0;
    if (number == 0)
        TN_FAIL(error, TN_E_INVALID,
                "'%.40s' should read data=N,tensor=N,pipeline=N, each from 1 to %u", word,
                TN_GRID_MOST);
    seen[i] = true;
    memcpy((char *)grid + grid_words[i].offset, &number, sizeof number);
    return TN_OK;
}

static uint64_t grid_product(const tn_grid *grid) {
    return tn__mul_sat(tn__mul_sat(grid->tensor, grid->data), grid->pipeline);
}

tn_status tn_grid_parse(const char *text, tn_grid *grid, tn_error *error) {
    tn_grid found = TN_GRID_INIT;
    bool seen[GRID_WORDS] = {false};
    for (const char *at = text;; at++) {
        TN_TRY(grid_one(&at, &found, seen, error));
        if (*at == '\0') break;
    }
    if (grid_product(&found) > UINT32_MAX)
        TN_FAIL(error, TN_E_INVALID, "'%.80s' are more ranks than can be numbered", text);
    *grid = found;
    return TN_OK;
}

/* --- positions --- */

uint32_t tn_grid_ranks(const tn_grid *grid) { return (uint32_t)grid_product(grid); }

tn_place tn_grid_place(const tn_grid *grid, uint32_t rank) {
    return (tn_place){.tensor = rank % grid->tensor,
                      .data = rank / grid->tensor % grid->data,
                      .pipeline = rank / grid->tensor / grid->data};
}

uint32_t tn_grid_rank(const tn_grid *grid, tn_place place) {
    return (place.pipeline * grid->data + place.data) * grid->tensor + place.tensor;
}

static uint32_t grid_count(const tn_grid *grid, tn_grid_axis axis) {
    return axis == TN_GRID_TENSOR ? grid->tensor
           : axis == TN_GRID_DATA ? grid->data
                                  : grid->pipeline;
}

/* Returns the rank at position `number` along an axis, in the group of `rank`. */
static uint32_t grid_member(const tn_grid *grid, tn_grid_axis axis, uint32_t rank,
                            uint32_t number) {
    tn_place place = tn_grid_place(grid, rank);
    uint32_t *along = axis == TN_GRID_TENSOR ? &place.tensor
                      : axis == TN_GRID_DATA ? &place.data
                                             : &place.pipeline;
    *along = number;
    return tn_grid_rank(grid, place);
}

uint32_t tn_grid_group(const tn_grid *grid, tn_grid_axis axis, uint32_t rank) {
    if (axis == TN_GRID_AXES) return 1 + TN_GRID_AXES * tn_grid_ranks(grid);
    if (grid_count(grid, axis) == tn_grid_ranks(grid)) return 0;
    return 1 + TN_GRID_AXES * grid_member(grid, axis, rank, 0) + (uint32_t)axis;
}

/* --- the groups of ranks along each axis --- */

static tn_status grid_along(tn_world *world, const tn_grid *grid, tn_grid_axis axis,
                            tn_error *error) {
    uint32_t count = grid_count(grid, axis), group = tn_grid_group(grid, axis, world->rank);
    if (group == 0) return TN_OK;
    uint32_t *members = tn__alloc_array(&world->context, count, sizeof *members);
    if (members == NULL) return tn__no_memory(error, "a group of ranks");
    for (uint32_t m = 0; m < count; m++) members[m] = grid_member(grid, axis, world->rank, m);
    tn_status status = tn_world_group(world, group, members, count, error);
    tn__free(&world->context, members, count * sizeof *members);
    return status;
}

tn_status tn_world_grid(tn_world *world, const tn_grid *grid, tn_error *error) {
    if (grid_product(grid) != world->ranks)
        TN_FAIL(error, TN_E_INVALID,
                "data=%u, tensor=%u and pipeline=%u are %llu ranks, and there are %u", grid->data,
                grid->tensor, grid->pipeline, (unsigned long long)grid_product(grid), world->ranks);
    for (uint32_t axis = 0; axis < TN_GRID_AXES; axis++)
        TN_TRY(grid_along(world, grid, (tn_grid_axis)axis, error));
    return TN_OK;
}

/* --- drivers: the transports of a world ------------------------------------------------------- */

#define WORLD_TELL_S 2 /* seconds for rank 0 to report that the world failed to start */

#define TN_LINK(name) extern const tn__link_driver tn__link_##name;
#include "run/dist/drivers.def"
#undef TN_LINK

static const tn__link_driver *const world_drivers[] = {
#define TN_LINK(name) &tn__link_##name,
#include "run/dist/drivers.def"
#undef TN_LINK
};
#define WORLD_DRIVERS (sizeof world_drivers / sizeof *world_drivers)

uint32_t tn_world_driver_count(void) { return WORLD_DRIVERS; }
const char *tn_world_driver_name(uint32_t index) {
    return index < WORLD_DRIVERS ? world_drivers[index]->name : "";
}
const char *tn_world_driver_summary(uint32_t index) {
    return index < WORLD_DRIVERS ? world_drivers[index]->summary : "";
}

struct timespec tn__link_until(double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double whole = seconds < 1e9 ? seconds : 1e9;
    until.tv_sec += (time_t)whole;
    until.tv_nsec += (long)((whole - (double)(time_t)whole) * 1e9);
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    return until;
}

/* --- the world of one rank --- */

/* Adds a group as tn_world_group does, but allows any number. */
static tn_status world_add(tn_world *world, uint32_t group, const uint32_t *ranks, uint32_t count,
                           tn_error *error) {
    tn__rank_group *made = tn__alloc_array(&world->context, 1, sizeof *made);
    uint32_t *members = tn__alloc_array(&world->context, count, sizeof *members);
    if (made == NULL || members == NULL) {
        tn__free(&world->context, made, sizeof *made);
        tn__free(&world->context, members, count * sizeof *members);
        return tn__no_memory(error, "a group of ranks");
    }
    *made = (tn__rank_group){.number = group, .count = count, .mine = TN_NONE, .ranks = members};
    for (uint32_t m = 0; m < count; m++) {
        members[m] = ranks != NULL ? ranks[m] : m;
        if (members[m] == world->rank) made->mine = m;
    }
    pthread_mutex_lock(&world->lock);
    made->next = world->groups;
    world->groups = made;
    pthread_mutex_unlock(&world->lock);
    return TN_OK;
}

static tn_status world_make(tn_world *world, tn_error *error) {
    if (pthread_mutex_init(&world->lock, NULL) != 0) return tn__no_memory(error, "a world");
    tn__collectives(world);
    return world_add(world, 0, NULL, world->ranks, error);
}

static void world_release(tn_world *world) {
    const tn_context *context = &world->context;
    for (tn__rank_group *group = world->groups, *next; group != NULL; group = next) {
        next = group->next;
        tn__free(context, group->ranks, group->count * sizeof *group->ranks);
        tn__free(context, group, sizeof *group);
    }
    for (tn__message_buffer *room = world->rooms, *next; room != NULL; room = next) {
        next = room->next;
        tn__free(context, room->transfers, 2 * (size_t)world->ranks * sizeof *room->transfers);
        tn__free(context, room->parts, world->ranks * sizeof *room->parts);
        tn__free(context, room->bytes, (size_t)TN__MESSAGE_BUFFER_BYTES);
        tn__free(context, room, sizeof *room);
    }
    pthread_mutex_destroy(&world->lock);
}

tn_status tn__world_rank(const tn__world_job *job, void *link, uint32_t rank, uint32_t ranks,
                         tn_error *error) {
    tn_world world = {.context = *job->context,
                      .driver = job->driver,
                      .link = link,
                      .rank = rank,
                      .ranks = ranks};
    tn_status status = world_make(&world, error);
    if (status == TN_OK) status = job->rank(job->self, &world, error);
    world_release(&world);
    return status;
}

uint32_t tn_world_rank(const tn_world *world) { return world->rank; }
uint32_t tn_world_ranks(const tn_world *world) { return world->ranks; }
const tn_exchange *tn_world_exchange(tn_world *world) { return &world->exchange; }

tn_world_usage tn_world_measure(tn_world *world) {
    pthread_mutex_lock(&world->lock);
    tn_world_usage usage = {.messages = world->messages,
                            .bytes = world->bytes,
                            .direct_bytes = world->direct_bytes,
                            .scratch = world->room_count * TN__MESSAGE_BUFFER_BYTES};
    pthread_mutex_unlock(&world->lock);
    return usage;
}

tn_status tn__world_move(tn_world *world, tn__transfer *transfers, uint32_t count,
                         tn_error *error) {
    if (count == 0) return TN_OK;
    pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < count; i++) {
        if (!transfers[i].sends) continue;
        world->messages++;
        world->bytes += transfers[i].bytes;
        if (transfers[i].kind == TN__MESSAGE_TAGGED) world->direct_bytes += transfers[i].bytes;
    }
    pthread_mutex_unlock(&world->lock);
    TN_TRY(world->driver->post(world->link, transfers, count, error));
    return world->driver->wait(world->link, transfers, count, error);
}

/* --- rooms --- */

static tn__message_buffer *room_make(tn_world *world) {
    const tn_context *context = &world->context;
    tn__message_buffer *room = tn__alloc_array(context, 1, sizeof *room);
    if (room == NULL) return NULL;
    room->transfers = tn__alloc_array(context, 2 * (size_t)world->ranks, sizeof *room->transfers);
    room->parts = tn__alloc_array(context, world->ranks, sizeof *room->parts);
    room->bytes = tn__alloc(context, (size_t)TN__MESSAGE_BUFFER_BYTES);
    if (room->transfers != NULL && room->parts != NULL && room->bytes != NULL) return room;
    tn__free(context, room->transfers, 2 * (size_t)world->ranks * sizeof *room->transfers);
    tn__free(context, room->parts, world->ranks * sizeof *room->parts);
    tn__free(context, room->bytes, (size_t)TN__MESSAGE_BUFFER_BYTES);
    tn__free(context, room, sizeof *room);
    return NULL;
}

tn__message_buffer *tn__message_buffer_take(tn_world *world) {
    pthread_mutex_lock(&world->lock);
    tn__message_buffer *room = world->rooms;
    if (room != NULL) {
        world->rooms = room->next;
    } else if ((room = room_make(world)) != NULL) {
        world->room_count++;
    }
    pthread_mutex_unlock(&world->lock);
    return room;
}

void tn__message_buffer_give(tn_world *world, tn__message_buffer *room) {
    pthread_mutex_lock(&world->lock);
    room->next = world->rooms;
    world->rooms = room;
    pthread_mutex_unlock(&world->lock);
}

/* --- groups --- */

const tn__rank_group *tn__world_find(tn_world *world, uint32_t group) {
    pthread_mutex_lock(&world->lock);
    const tn__rank_group *at = world->groups;
    while (at != NULL && at->number != group) at = at->next;
    pthread_mutex_unlock(&world->lock);
    return at;
}

tn_status tn_world_group(tn_world *world, uint32_t group, const uint32_t *ranks, uint32_t count,
                         tn_error *error) {
    bool mine = false;
    if (count == 0 || tn__world_find(world, group) != NULL)
        TN_FAIL(error, TN_E_INVALID, "group %u is empty, or there is one already", group);
    for (uint32_t m = 0; m < count; m++) {
        if (ranks[m] >= world->ranks)
            TN_FAIL(error, TN_E_INVALID, "there is no rank %u: there are %u", ranks[m],
                    world->ranks);
        if (ranks[m] == world->rank && mine)
            TN_FAIL(error, TN_E_INVALID, "rank %u is in group %u twice", ranks[m], group);
        mine = mine || ranks[m] == world->rank;
    }
    return world_add(world, group, ranks, count, error);
}

/* --- agreement --- */

void tn__world_words(uint32_t rank, const tn_error *from, tn_error *error) {
    if (error == NULL) return;
    tn_error given = *from;
    char number[16];
    snprintf(number, sizeof number, "rank %u", rank);
    error->status = given.status;
    snprintf(error->where, sizeof error->where, "%s%s%.*s", number, given.where[0] ? ", " : "",
             (int)(sizeof error->where - sizeof number - 3), given.where);
    memcpy(error->message, given.message, sizeof error->message);
}

#define TN_X(name, exit_status, sentence) +1
#define WORLD_STATUSES (0u TN_STATUS_TABLE(TN_X))

void tn__world_received(tn_error *error) {
    error->where[sizeof error->where - 1] = error->message[sizeof error->message - 1] = '\0';
    if ((uint32_t)error->status >= WORLD_STATUSES) error->status = TN_E_INTERNAL;
}
#undef TN_X

tn_status tn_world_agree(tn_world *world, tn_status mine, tn_error *error) {
    const tn_exchange *to = &world->exchange;
    tn_status status = TN_OK;
    tn_error *all = tn__alloc_array(&world->context, world->ranks, sizeof *all);
    if (all == NULL) return tn__no_memory(error, "what ranks have to say");
    if (mine != TN_OK && error != NULL) all[world->rank] = *error;
    all[world->rank].status = mine;
    tn_status came = to->gather(to->self, 0, &all[world->rank], all, sizeof *all, error);
    for (uint32_t r = 0; r < world->ranks && came == TN_OK && status == TN_OK; r++) {
        tn__world_received(&all[r]);
        status = all[r].status;
        if (status != TN_OK) tn__world_words(r, &all[r], error);
    }
    tn__free(&world->context, all, world->ranks * sizeof *all);
    return came != TN_OK ? came : status;
}

static tn_status world_differs(const tn_world *world, const tn_world_same *same, uint32_t count,
                               const uint64_t *all, tn_error *error) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t r = 1; r < world->ranks; r++)
            if (all[(size_t)r * count + i] != all[i])
                TN_FAIL(error, TN_E_CONFLICT, "rank %u has another %s than rank 0", r,
                        same[i].what);
    return TN_OK;
}

tn_status tn_world_compare(tn_world *world, const tn_world_same *same, uint32_t count,
                           tn_error *error) {
    const tn_exchange *to = &world->exchange;
    uint64_t *all = tn__alloc_array(&world->context, (size_t)world->ranks * count, sizeof *all);
    if (all == NULL) return tn__no_memory(error, "what ranks have in common");
    uint64_t *mine = all + (size_t)world->rank * count;
    for (uint32_t i = 0; i < count; i++) mine[i] = same[i].hash;
    tn_status status = to->gather(to->self, 0, mine, all, count * sizeof *all, error);
    if (status == TN_OK) status = world_differs(world, same, count, all, error);
    tn__free(&world->context, all, (size_t)world->ranks * count * sizeof *all);
    return status;
}

/* --- starting a world --- */

static const tn__link_driver *world_driver(const char *name) {
    for (size_t i = 0; i < WORLD_DRIVERS; i++)
        if (strcmp(world_drivers[i]->name, name) == 0) return world_drivers[i];
    return NULL;
}

static tn_status world_options(const tn_world_options *given, tn_world_options *options,
                               tn_error *error) {
    *options = (tn_world_options)TN_WORLD_OPTIONS_INIT;
    tn__options(options, sizeof *options, given);
    options->struct_size = sizeof *options;
    if (options->driver == NULL)
        options->driver = getenv("OMPI_COMM_WORLD_SIZE") != NULL ? "mpi" : "threads";
    if (options->silence_s == 0) options->silence_s = 10;
    if (options->patience_s == 0) options->patience_s = 600;
    if (!(options->silence_s > 0) || !(options->patience_s > 0) || !isfinite(options->silence_s) ||
        !isfinite(options->patience_s))
        TN_FAIL(error, TN_E_INVALID, "ranks are waited for a number of seconds above 0");
    return TN_OK;
}

/* Reports that the world failed before it had ranks. Only rank 0 of the processes that mpirun
 * started reports the error; the others wait, because mpirun ends all processes when one exits with
 * an error. */
static tn_status world_tell(const tn_world_options *options, tn_status status, tn_error *error) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    struct timespec grace = {.tv_sec = WORLD_TELL_S};
    if (rank != NULL && strcmp(rank, "0") != 0)
        nanosleep(&grace, NULL);
    else if (options->tell != NULL)
        (void)options->tell(options->self, status, error);
    return status;
}

tn_status tn_world_run(const tn_world_options *given,
                       tn_status (*rank)(void *self, tn_world *world, tn_error *error), void *self,
                       tn_error *error) {
    tn_world_options options;
    tn_error unwanted = {0}, *to = error != NULL ? error : &unwanted;
    bool began = false;
    tn_status status = world_options(given, &options, to);
    if (status != TN_OK) return world_tell(&options, status, to);
    tn_context context = tn__context(options.context);
    const tn__link_driver *driver = world_driver(options.driver);
    const tn__world_job job = {.rank = rank, .self = self, .context = &context, .driver = driver};
    if (driver == NULL)
        status = tn__fail(to, TN_E_UNKNOWN, "nothing named '%.40s' carries messages between ranks",
                          options.driver);
    else
        status = driver->run(&options, &job, &began, to);
    return status == TN_OK || began ? status : world_tell(&options, status, to);
}
