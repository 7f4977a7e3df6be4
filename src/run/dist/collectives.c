/* collectives.c - implements collective operations with messages: reduce, scatter, gather,
 * broadcast.
 *
 * In a reduction, each member of a group is responsible for one slice of the tensor. It receives
 * the slices of all other members, adds them in a fixed order (below), and sends the sum to all. So
 * every byte is sent over a link at most twice, and all members do an equal amount of work.
 * Received data needs a buffer for only a part of the tensor: a long tensor is processed in parts
 * of the size of the buffer.
 *
 *     member 0   [a0|b0|c0]  ─┐   [A |  |  ]  ─┐   [A|B|C]
 *     member 1   [a1|b1|c1]   ├▶  [  |B |  ]   ├▶  [A|B|C]
 *     member 2   [a2|b2|c2]  ─┘   [  |  |C ]  ─┘   [A|B|C]
 *
 * Cost: 2 (n - 1) messages per buffer; each member sends 2 (n - 1) / n of its bytes.
 * Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
 * MPICH" (2005): reduce-scatter and all-gather. Here all pairs of members send to each other
 * directly.
 */
#include "run/dist/world.h"

/* --- sums ------------------------------------------------------------------------------------- */

/* Reduces the elements of several ranks to one.
 *
 * The additions form a tree over the ranks: first neighbours, then pairs of neighbours, and so on.
 * The tree is the same for each element, wherever it is in a message. Sums therefore depend neither
 * on how tensors are divided into messages nor on which rank is fastest.
 *
 *     0   1   2   3   4
 *     └─+─┘   └─+─┘   │
 *       └───+───┘     │
 *           └────+────┘
 */

#define REDUCE_SUM(name, type)                                                                     \
    static void name##_sum(void *to, const void *from, uint64_t count) {                           \
        type *a = to;                                                                              \
        const type *b = from;                                                                      \
        for (uint64_t i = 0; i < count; i++) a[i] = (type)(a[i] + b[i]);                           \
    }
#define REDUCE_MAX(name, type)                                                                     \
    static void name##_max(void *to, const void *from, uint64_t count) {                           \
        type *a = to;                                                                              \
        const type *b = from;                                                                      \
        for (uint64_t i = 0; i < count; i++)                                                       \
            if (!(b[i] <= a[i]) && a[i] == a[i]) a[i] = b[i]; /* NaN if an operand is */           \
    }
REDUCE_SUM(reduce_float, float)
REDUCE_SUM(reduce_double, double)
REDUCE_SUM(reduce_int, uint32_t) /* sums of integers wrap around */
REDUCE_SUM(reduce_long, uint64_t)
REDUCE_MAX(reduce_float, float)
REDUCE_MAX(reduce_double, double)
REDUCE_MAX(reduce_int, int32_t)
REDUCE_MAX(reduce_long, int64_t)

typedef void (*reduce_loop)(void *to, const void *from, uint64_t count);

static reduce_loop reduce_find(tn_dtype dtype, tn_reduction reduction) {
    bool most = reduction == TN_REDUCTION_MAX;
    switch (dtype) {
    case TN_FLOAT32:
        return most ? reduce_float_max : reduce_float_sum;
    case TN_FLOAT64:
        return most ? reduce_double_max : reduce_double_sum;
    case TN_INT32:
        return most ? reduce_int_max : reduce_int_sum;
    case TN_INT64:
        return most ? reduce_long_max : reduce_long_sum;
    default:
        return NULL;
    }
}

static bool reduce_supports(tn_dtype dtype, tn_reduction reduction) {
    bool real = dtype == TN_FLOAT32 || dtype == TN_FLOAT64;
    return (size_t)reduction < TN_REDUCTION_COUNT && reduce_find(dtype, reduction) != NULL &&
           (reduction != TN_REDUCTION_MEAN || real);
}

static void reduce_divide(void *data, uint64_t count, tn_dtype dtype, uint32_t ranks) {
    float *floats = data;
    double *doubles = data;
    for (uint64_t i = 0; i < count && dtype == TN_FLOAT32; i++) floats[i] /= (float)ranks;
    for (uint64_t i = 0; i < count && dtype == TN_FLOAT64; i++) doubles[i] /= ranks;
}

/* Reduces `ranks` arrays of `count` elements each. The arrays are overwritten; parts[0] receives
 * the result. */
static void reduce_parts(void *const *parts, uint32_t ranks, uint64_t count, tn_dtype dtype,
                         tn_reduction reduction) {
    reduce_loop loop = reduce_find(dtype, reduction);
    for (uint32_t apart = 1; apart < ranks; apart *= 2)
        for (uint32_t i = 0; i + apart < ranks; i += 2 * apart)
            loop(parts[i], parts[i + apart], count);
    if (reduction == TN_REDUCTION_MEAN) reduce_divide(parts[0], count, dtype, ranks);
}

/* --- collectives as messages ------------------------------------------------------------------ */

typedef struct collective {
    tn_world *world;
    const tn__rank_group *group;
    tn__message_buffer *room;
    uint32_t posted;
} collective;

static tn_status collective_begin(tn_world *world, uint32_t number, collective *it,
                                  tn_error *error) {
    *it = (collective){.world = world, .group = tn__world_find(world, number)};
    if (it->group == NULL || it->group->mine == TN_NONE)
        TN_FAIL(error, TN_E_INVALID, "rank %u has no part in group %u", world->rank, number);
    it->room = tn__message_buffer_take(world);
    return it->room != NULL ? TN_OK : tn__no_memory(error, "what arrives from other ranks");
}

static void collective_add(collective *it, bool sends, uint32_t member, void *data,
                           uint64_t bytes) {
    if (bytes == 0) return;
    it->room->transfers[it->posted++] = (tn__transfer){.sends = sends,
                                                       .kind = TN__MESSAGE_GROUP,
                                                       .number = it->group->number,
                                                       .peer = it->group->ranks[member],
                                                       .data = data,
                                                       .bytes = bytes};
}

static tn_status collective_move(collective *it, tn_error *error) {
    uint32_t count = it->posted;
    it->posted = 0;
    return tn__world_move(it->world, it->room->transfers, count, error);
}

static tn_status collective_end(collective *it, tn_status status) {
    tn__message_buffer_give(it->world, it->room);
    return status;
}

/* --- reduce --- */

/* Returns the index of the first element of the slice for which `member` is responsible, if `count`
 * elements are divided among all members. */
static uint64_t collective_slice(const collective *it, uint64_t count, uint32_t member) {
    uint64_t each = count / it->group->count, more = count % it->group->count;
    return each * member + (member < more ? member : more);
}

/* Returns the largest number of elements of `width` bytes in a slice. The slices of all other
 * members must fit into one buffer together. */
static uint64_t collective_most(const collective *it, uint64_t width) {
    uint64_t slices = it->group->count > 1 ? it->group->count - 1 : 1;
    return TN__MESSAGE_BUFFER_BYTES / slices / width;
}

/* Adds the contributions of all other members, which are in the buffer, to this member's
 * contribution in `mine`. */
static void collective_sum(collective *it, void *mine, uint64_t count, tn_dtype dtype,
                           tn_reduction reduction) {
    uint64_t bytes = count * (tn_dtype_bits(dtype) / 8);
    uint8_t *arrived = it->room->bytes;
    for (uint32_t m = 0; m < it->group->count; m++) {
        it->room->parts[m] = m == it->group->mine ? mine : arrived;
        if (m != it->group->mine) arrived += bytes;
    }
    reduce_parts(it->room->parts, it->group->count, count, dtype, reduction);
    if (it->group->mine != 0 && bytes > 0) memcpy(mine, it->room->parts[0], (size_t)bytes);
}

static tn_status collective_reduce_some(collective *it, uint8_t *data, uint64_t count,
                                        tn_dtype dtype, tn_reduction reduction, tn_error *error) {
    uint64_t width = tn_dtype_bits(dtype) / 8;
    uint32_t mine = it->group->mine;
    uint64_t from = collective_slice(it, count, mine);
    uint64_t length = collective_slice(it, count, mine + 1) - from;
    uint8_t *arrives = it->room->bytes, *own = data + from * width;
    for (uint32_t m = 0; m < it->group->count; m++) {
        if (m == mine) continue;
        uint64_t first = collective_slice(it, count, m), last = collective_slice(it, count, m + 1);
        collective_add(it, false, m, arrives, length * width);
        collective_add(it, true, m, data + first * width, (last - first) * width);
        arrives += length * width;
    }
    TN_TRY(collective_move(it, error));
    collective_sum(it, own, length, dtype, reduction);
    for (uint32_t m = 0; m < it->group->count; m++) {
        if (m == mine) continue;
        uint64_t first = collective_slice(it, count, m), last = collective_slice(it, count, m + 1);
        collective_add(it, false, m, data + first * width, (last - first) * width);
        collective_add(it, true, m, own, length * width);
    }
    return collective_move(it, error);
}

static tn_status collective_reduce(void *self, uint32_t group, void *data, uint64_t count,
                                   tn_dtype dtype, tn_reduction reduction, tn_error *error) {
    collective it;
    uint64_t width = tn_dtype_bits(dtype) / 8;
    tn_status status = TN_OK;
    if (!reduce_supports(dtype, reduction))
        TN_FAIL(error, TN_E_UNSUPPORTED, "%s of %s", tn_reduction_name(reduction),
                tn_dtype_name(dtype));
    TN_TRY(collective_begin(self, group, &it, error));
    uint64_t most = collective_most(&it, width) * it.group->count;
    for (uint64_t at = 0; at < count && status == TN_OK; at += most) {
        uint64_t some = count - at < most ? count - at : most;
        status = collective_reduce_some(&it, (uint8_t *)data + at * width, some, dtype, reduction,
                                        error);
    }
    return collective_end(&it, status);
}

/* --- reduce-scatter, the first half of an all-reduce --- */

/* Reduces elements [at, at + some) of this rank's part. `part` has this rank's contribution and
 * receives the result; `all` is not changed. */
static tn_status collective_scatter_some(collective *it, uint8_t *all, uint8_t *part, uint64_t at,
                                         uint64_t some, uint64_t count, tn_dtype dtype,
                                         tn_reduction reduction, tn_error *error) {
    uint64_t width = tn_dtype_bits(dtype) / 8;
    uint8_t *arrives = it->room->bytes;
    for (uint32_t m = 0; m < it->group->count; m++) {
        if (m == it->group->mine) continue;
        collective_add(it, false, m, arrives, some * width);
        collective_add(it, true, m, all + (m * count + at) * width, some * width);
        arrives += some * width;
    }
    TN_TRY(collective_move(it, error));
    collective_sum(it, part + at * width, some, dtype, reduction);
    return TN_OK;
}

static tn_status collective_scatter(void *self, uint32_t group, void *all, void *part,
                                    uint64_t count, tn_dtype dtype, tn_reduction reduction,
                                    tn_error *error) {
    collective it;
    uint64_t width = tn_dtype_bits(dtype) / 8;
    tn_status status = TN_OK;
    if (!reduce_supports(dtype, reduction))
        TN_FAIL(error, TN_E_UNSUPPORTED, "%s of %s", tn_reduction_name(reduction),
                tn_dtype_name(dtype));
    TN_TRY(collective_begin(self, group, &it, error));
    uint64_t most = collective_most(&it, width);
    const uint8_t *own = (const uint8_t *)all + it.group->mine * count * width;
    if (part != own && count > 0) memcpy(part, own, (size_t)(count * width));
    for (uint64_t at = 0; at < count && status == TN_OK; at += most) {
        uint64_t some = count - at < most ? count - at : most;
        status = collective_scatter_some(&it, all, part, at, some, count, dtype, reduction, error);
    }
    return collective_end(&it, status);
}

/* --- gather --- */

static tn_status collective_gather(void *self, uint32_t group, const void *part, void *all,
                                   uint64_t bytes, tn_error *error) {
    collective it;
    tn_status status = TN_OK;
    TN_TRY(collective_begin(self, group, &it, error));
    uint8_t *own = (uint8_t *)all + it.group->mine * bytes;
    if (part != own && bytes > 0) memcpy(own, part, (size_t)bytes);
    for (uint64_t at = 0; at < bytes && status == TN_OK; at += TN__TRANSFER_MOST) {
        uint64_t some = bytes - at < TN__TRANSFER_MOST ? bytes - at : TN__TRANSFER_MOST;
        for (uint32_t m = 0; m < it.group->count; m++) {
            if (m == it.group->mine) continue;
            collective_add(&it, false, m, (uint8_t *)all + m * bytes + at, some);
            collective_add(&it, true, m, own + at, some);
        }
        status = collective_move(&it, error);
    }
    return collective_end(&it, status);
}

/* --- broadcast --- */

/* Sends data along a tree. With members numbered from the root, member r receives from a member
 * with a lower number: r without its lowest set bit. */
static tn_status collective_spread(collective *it, uint32_t root, uint8_t *data, uint64_t bytes,
                                   tn_error *error) {
    uint32_t count = it->group->count, turned = (it->group->mine + count - root) % count;
    uint32_t low = turned & (~turned + 1);
    if (turned != 0) {
        collective_add(it, false, (turned - low + root) % count, data, bytes);
        TN_TRY(collective_move(it, error));
    }
    for (uint32_t far = 1; far < count && (turned == 0 || far < low); far *= 2)
        if (turned + far < count)
            collective_add(it, true, (turned + far + root) % count, data, bytes);
    return collective_move(it, error);
}

static tn_status collective_broadcast(void *self, uint32_t group, uint32_t root, void *data,
                                      uint64_t bytes, tn_error *error) {
    collective it;
    tn_status status = TN_OK;
    TN_TRY(collective_begin(self, group, &it, error));
    if (root >= it.group->count)
        status = tn__fail(error, TN_E_INVALID, "group %u has no member %u", group, root);
    for (uint64_t at = 0; at < bytes && status == TN_OK; at += TN__TRANSFER_MOST) {
        uint64_t some = bytes - at < TN__TRANSFER_MOST ? bytes - at : TN__TRANSFER_MOST;
        status = collective_spread(&it, root, (uint8_t *)data + at, some, error);
    }
    return collective_end(&it, status);
}

/* --- messages --- */

static tn_status collective_message(tn_world *world, bool sends, uint32_t peer, uint32_t tag,
                                    uint8_t *data, uint64_t bytes, tn_error *error) {
    if (peer >= world->ranks)
        TN_FAIL(error, TN_E_INVALID, "there is no rank %u: there are %u", peer, world->ranks);
    for (uint64_t at = 0; at < bytes; at += TN__TRANSFER_MOST) {
        uint64_t some = bytes - at < TN__TRANSFER_MOST ? bytes - at : TN__TRANSFER_MOST;
        tn__transfer one = {.sends = sends,
                            .kind = TN__MESSAGE_TAGGED,
                            .number = tag,
                            .peer = peer,
                            .data = data + at,
                            .bytes = some};
        TN_TRY(tn__world_move(world, &one, 1, error));
    }
    return TN_OK;
}

static tn_status collective_send(void *self, uint32_t peer, uint32_t tag, const void *data,
                                 uint64_t bytes, tn_error *error) {
    return collective_message(self, true, peer, tag, (uint8_t *)(uintptr_t)data, bytes, error);
}

static tn_status collective_recv(void *self, uint32_t peer, uint32_t tag, void *data,
                                 uint64_t bytes, tn_error *error) {
    return collective_message(self, false, peer, tag, data, bytes, error);
}

/* --- the table of functions (tn_exchange) --- */

static uint32_t collective_members(void *self, uint32_t group, uint32_t *mine) {
    const tn__rank_group *found = tn__world_find(self, group);
    if (found == NULL || found->mine == TN_NONE) return 0;
    *mine = found->mine;
    return found->count;
}

static bool collective_reduces(void *self, tn_dtype dtype, tn_reduction reduction) {
    (void)self;
    return reduce_supports(dtype, reduction);
}

void tn__collectives(tn_world *world) {
    world->exchange = (tn_exchange){.struct_size = sizeof(tn_exchange),
                                    .self = world,
                                    .rank = world->rank,
                                    .ranks = world->ranks,
                                    .members = collective_members,
                                    .reduces = collective_reduces,
                                    .send = collective_send,
                                    .recv = collective_recv,
                                    .reduce = collective_reduce,
                                    .gather = collective_gather,
                                    .scatter = collective_scatter,
                                    .broadcast = collective_broadcast};
}
