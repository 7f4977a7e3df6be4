/* fuzz_messages.c - any bytes as the messages of other ranks.
 *
 * The first byte is this rank, the second the number of ranks; every message that is received is
 * filled with the bytes that follow, and with zeros after them. What must hold: an agreement, a
 * comparison and a clock end with a status of the table, with texts that end, and with a time that
 * is a number.
 */
#include <math.h>
#include <stdlib.h>

#include "fuzz.h"
#include "run/dist/world.h"

#define MESSAGES_RANKS 4u
#define MESSAGES_ONE(name, exit_status, sentence) +1
#define MESSAGES_STATUSES (0u TN_STATUS_TABLE(MESSAGES_ONE))

typedef struct messages_left {
    const uint8_t *data;
    size_t size;
} messages_left;

static void messages_take(messages_left *left, void *to, uint64_t bytes) {
    uint64_t there = bytes < left->size ? bytes : left->size;
    memset(to, 0, bytes);
    if (there > 0) memcpy(to, left->data, there);
    left->data += there;
    left->size -= there;
}

static tn_status messages_send(void *self, uint32_t peer, uint32_t tag, const void *data,
                               uint64_t bytes, tn_error *error) {
    (void)self, (void)peer, (void)tag, (void)data, (void)bytes, (void)error;
    return TN_OK;
}

static tn_status messages_recv(void *self, uint32_t peer, uint32_t tag, void *data, uint64_t bytes,
                               tn_error *error) {
    (void)peer, (void)tag, (void)error;
    messages_take(((tn_world *)self)->link, data, bytes);
    return TN_OK;
}

static tn_status messages_gather(void *self, uint32_t group, const void *part, void *all,
                                 uint64_t bytes, tn_error *error) {
    const tn_world *world = self;
    (void)group, (void)part, (void)error;
    for (uint32_t r = 0; r < world->ranks; r++)
        if (r != world->rank) messages_take(world->link, (uint8_t *)all + r * bytes, bytes);
    return TN_OK;
}

static double messages_clock(void *self) { return *(double *)self += 0.5; }

static void messages_judge(tn_status status, const tn_error *error) {
    fuzz_must((uint32_t)status < MESSAGES_STATUSES);
    if (status == TN_OK) return;
    fuzz_must(error->status == status);
    fuzz_must(memchr(error->message, 0, sizeof error->message) != NULL);
    fuzz_must(memchr(error->where, 0, sizeof error->where) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const tn_world_same same[] = {{"model", 7}, {"plan", 9}};
    if (size < 2) return 0;
    messages_left left = {data + 2, size - 2};
    uint32_t ranks = 1 + data[1] % MESSAGES_RANKS;
    tn_world world = {.context = TN_CONTEXT_INIT, .link = &left, .rank = data[0] % ranks};
    tn_error error = {0};
    double now = 0, shift_s = 0;
    world.ranks = ranks;
    world.exchange = (tn_exchange){.struct_size = sizeof world.exchange,
                                   .self = &world,
                                   .rank = world.rank,
                                   .ranks = ranks,
                                   .send = messages_send,
                                   .recv = messages_recv,
                                   .gather = messages_gather};
    messages_judge(tn_world_agree(&world, TN_OK, &error), &error);
    messages_judge(tn_world_compare(&world, same, 2, &error), &error);
    tn_status status = tn__world_clock(&world, messages_clock, &now, &shift_s, &error);
    messages_judge(status, &error);
    fuzz_must(status != TN_OK || isfinite(shift_s));
    if (status == TN_OK) fuzz_accept();
    return 0;
}
