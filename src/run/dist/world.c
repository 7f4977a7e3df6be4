/* world.c - creates a world from its options, makes groups, and checks that all ranks agree. */
#include "run/dist/world.h"

#include <math.h>
#include <stdio.h>

#define WORLD_TELL_S 2 /* time for the rank that reports that the world failed to start */

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

/* --- one rank --- */

/* Like tn_world_group, but the number is not checked. */
static tn_status world_add(tn_world *world, uint32_t group, const uint32_t *ranks, uint32_t count,
                           tn_error *error) {
    tn__group *made = tn__alloc_array(&world->context, 1, sizeof *made);
    uint32_t *members = tn__alloc_array(&world->context, count, sizeof *members);
    if (made == NULL || members == NULL) {
        tn__free(&world->context, made, sizeof *made);
        tn__free(&world->context, members, count * sizeof *members);
        return tn__no_memory(error, "a group of ranks");
    }
    *made = (tn__group){.number = group, .count = count, .mine = TN_NONE, .ranks = members};
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
    for (tn__group *group = world->groups, *next; group != NULL; group = next) {
        next = group->next;
        tn__free(context, group->ranks, group->count * sizeof *group->ranks);
        tn__free(context, group, sizeof *group);
    }
    for (tn__room *room = world->rooms, *next; room != NULL; room = next) {
        next = room->next;
        tn__free(context, room->transfers, 2 * (size_t)world->ranks * sizeof *room->transfers);
        tn__free(context, room->parts, world->ranks * sizeof *room->parts);
        tn__free(context, room->bytes, (size_t)TN__ROOM_BYTES);
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
                            .scratch = world->room_count * TN__ROOM_BYTES};
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

static tn__room *room_make(tn_world *world) {
    const tn_context *context = &world->context;
    tn__room *room = tn__alloc_array(context, 1, sizeof *room);
    if (room == NULL) return NULL;
    room->transfers = tn__alloc_array(context, 2 * (size_t)world->ranks, sizeof *room->transfers);
    room->parts = tn__alloc_array(context, world->ranks, sizeof *room->parts);
    room->bytes = tn__alloc(context, (size_t)TN__ROOM_BYTES);
    if (room->transfers != NULL && room->parts != NULL && room->bytes != NULL) return room;
    tn__free(context, room->transfers, 2 * (size_t)world->ranks * sizeof *room->transfers);
    tn__free(context, room->parts, world->ranks * sizeof *room->parts);
    tn__free(context, room->bytes, (size_t)TN__ROOM_BYTES);
    tn__free(context, room, sizeof *room);
    return NULL;
}

tn__room *tn__room_take(tn_world *world) {
    pthread_mutex_lock(&world->lock);
    tn__room *room = world->rooms;
    if (room != NULL) {
        world->rooms = room->next;
    } else if ((room = room_make(world)) != NULL) {
        world->room_count++;
    }
    pthread_mutex_unlock(&world->lock);
    return room;
}

void tn__room_give(tn_world *world, tn__room *room) {
    pthread_mutex_lock(&world->lock);
    room->next = world->rooms;
    world->rooms = room;
    pthread_mutex_unlock(&world->lock);
}

/* --- groups --- */

const tn__group *tn__world_find(tn_world *world, uint32_t group) {
    pthread_mutex_lock(&world->lock);
    const tn__group *at = world->groups;
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
    tn_error told = *from;
    char number[16];
    snprintf(number, sizeof number, "rank %u", rank);
    error->status = told.status;
    snprintf(error->where, sizeof error->where, "%s%s%.*s", number, told.where[0] ? ", " : "",
             (int)(sizeof error->where - sizeof number - 3), told.where);
    memcpy(error->message, told.message, sizeof error->message);
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

/* The world failed before it had ranks. Of processes that mpirun started, rank 0 reports the error.
 * The others give it time, because mpirun ends all processes when one exits with an error. */
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
