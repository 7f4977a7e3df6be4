/* groups.c - groups the memory in use at a given time by line, module or category, and lists the
 * holes between blocks. */
#include "interop/snapshot/snapshot.h"

const tn_snapshot_life *tn_snapshot_life_at(const tn_snapshot_lives *lives, uint64_t *count) {
    *count = lives->life_count;
    return lives->lives;
}

const tn_snapshot_facts *tn_snapshot_facts_of(const tn_snapshot_lives *lives) {
    return &lives->facts;
}

void tn_snapshot_bytes_at(const tn_snapshot_lives *lives, uint64_t time, uint64_t *requested,
                          uint64_t *reserved) {
    uint64_t count = 0;
    const tn_snapshot_event *events = tn_snapshot_events(lives->snapshot, lives->device, &count);
    int64_t held = (int64_t)lives->reserved_first;
    *requested = 0;
    for (size_t i = 0; i < lives->life_count; i++)
        if (lives->lives[i].first <= time && time < lives->lives[i].last)
            *requested += lives->lives[i].size;
    for (uint64_t i = 0; i < time && i < count; i++) {
        uint8_t action = events[i].action;
        if (action == TN_SNAPSHOT_SEGMENT_ALLOC || action == TN_SNAPSHOT_SEGMENT_MAP)
            held += (int64_t)events[i].size;
        if (action == TN_SNAPSHOT_SEGMENT_FREE || action == TN_SNAPSHOT_SEGMENT_UNMAP)
            held -= (int64_t)events[i].size;
    }
    *reserved = held > 0 ? (uint64_t)held : 0;
}

uint32_t tn_snapshot_ooms(const tn_snapshot_lives *lives, uint64_t *times, uint32_t room) {
    uint64_t count = 0;
    const tn_snapshot_event *events = tn_snapshot_events(lives->snapshot, lives->device, &count);
    uint32_t found = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (events[i].action != TN_SNAPSHOT_OOM) continue;
        if (found < room) times[found] = i + 1;
        found++;
    }
    return found;
}

/* --- groups --- */

/* Whether the program has freed this block before `time`, while a stream still uses it. */
static bool groups_waits(const tn_snapshot_life *life, uint64_t time) {
    return life->asked != 0 ? time >= life->asked : life->waiting && time + 1 >= life->last;
}

/* The number of a block's group. Categories are numbered in this order: those of the file, then
 * guesses; the last one is for blocks that wait for another stream. */
static uint32_t groups_number(const tn_snapshot_lives *lives, const tn_snapshot_life *life,
                              tn_snapshot_by by) {
    if (by == TN_SNAPSHOT_BY_LINE) return lives->stacks[life->stack].line;
    if (by == TN_SNAPSHOT_BY_MODULE) return lives->stacks[life->stack].module;
    return life->category != 0 ? life->category
                               : (uint32_t)lives->snapshot->category_count + life->guess;
}

static size_t groups_count(const tn_snapshot_lives *lives, tn_snapshot_by by) {
    return by == TN_SNAPSHOT_BY_CATEGORY
               ? lives->snapshot->category_count + TN_SNAPSHOT_GUESS_COUNT + 1
               : lives->name_count;
}

static const char *groups_name(const tn_snapshot_lives *lives, uint32_t number, tn_snapshot_by by) {
    size_t stated = lives->snapshot->category_count;
    if (by != TN_SNAPSHOT_BY_CATEGORY) return lives->names[number];
    if (number == stated + TN_SNAPSHOT_GUESS_COUNT) return "freed, waiting for another stream";
    return number < stated ? lives->snapshot->categories[number]
                           : tn_snapshot_guess_name(number - (uint32_t)stated);
}

const char *tn_snapshot_group_of(const tn_snapshot_lives *lives, uint64_t life, tn_snapshot_by by) {
    return groups_name(lives, groups_number(lives, &lives->lives[life], by), by);
}

static uint32_t groups_number_at(const tn_snapshot_lives *lives, const tn_snapshot_life *life,
                                 tn_snapshot_by by, uint64_t time) {
    if (by == TN_SNAPSHOT_BY_CATEGORY && groups_waits(life, time))
        return (uint32_t)lives->snapshot->category_count + TN_SNAPSHOT_GUESS_COUNT;
    return groups_number(lives, life, by);
}

typedef struct groups_sum {
    uint64_t bytes, count, largest;
    uint32_t stack, number;
} groups_sum;

/* Compares sums by bytes, the largest first; ties by count, then by number. */
static int groups_compare(const void *a, const void *b) {
    const groups_sum *left = a, *right = b;
    if (left->bytes != right->bytes) return left->bytes > right->bytes ? -1 : 1;
    if (left->count != right->count) return left->count > right->count ? -1 : 1;
    return left->number < right->number ? -1 : 1;
}

static void groups_add(groups_sum *sum, const tn_snapshot_life *life, uint32_t stack) {
    if (sum->count++ == 0 || life->size > sum->largest) {
        sum->largest = life->size;
        sum->stack = stack;
    }
    sum->bytes += life->size;
}

/* Sorts sums[count] and stores the `room` largest ones in `groups`. Returns the number of groups
 * with blocks, which may exceed `room`. */
static uint32_t groups_take(const tn_snapshot_lives *lives, groups_sum *sums, size_t count,
                            tn_snapshot_by by, tn_snapshot_group *groups, uint32_t room) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) sums[i].number = (uint32_t)i;
    qsort(sums, count, sizeof *sums, groups_compare);
    for (; found < count && sums[found].count > 0; found++)
        if (found < room)
            groups[found] =
                (tn_snapshot_group){groups_name(lives, sums[found].number, by), sums[found].bytes,
                                    sums[found].count, sums[found].stack};
    return found;
}

uint32_t tn_snapshot_waiting(const tn_snapshot_lives *lives, tn_snapshot_group *groups,
                             uint32_t room) {
    size_t count = groups_count(lives, TN_SNAPSHOT_BY_LINE);
    groups_sum *sums = tn__alloc_array(&lives->context, count, sizeof *sums);
    if (sums == NULL) return 0;
    for (size_t i = 0; i < lives->life_count; i++) {
        const tn_snapshot_life *life = &lives->lives[i];
        if (life->waiting) groups_add(&sums[lives->stacks[life->freed].line], life, life->freed);
    }
    uint32_t found = groups_take(lives, sums, count, TN_SNAPSHOT_BY_LINE, groups, room);
    tn__free(&lives->context, sums, count * sizeof *sums);
    return found;
}

uint32_t tn_snapshot_groups(const tn_snapshot_lives *lives, uint64_t time, tn_snapshot_by by,
                            tn_snapshot_group *groups, uint32_t room) {
    size_t count = groups_count(lives, by);
    groups_sum *sums = tn__alloc_array(&lives->context, count, sizeof *sums);
    if (sums == NULL) return 0;
    for (size_t i = 0; i < lives->life_count; i++) {
        const tn_snapshot_life *life = &lives->lives[i];
        if (life->first > time || time >= life->last) continue;
        groups_add(&sums[groups_number_at(lives, life, by, time)], life, life->stack);
    }
    uint32_t found = groups_take(lives, sums, count, by, groups, room);
    tn__free(&lives->context, sums, count * sizeof *sums);
    return found;
}

/* --- holes --- */

/* Inserts a hole if it is one of the largest: holes[0, kept) are in order of decreasing size. */
static void groups_keep(tn_snapshot_hole *holes, uint32_t room, uint32_t found,
                        const tn_snapshot_hole *hole) {
    uint32_t at = found < room ? found : room;
    if (at == room && (room == 0 || holes[room - 1].size >= hole->size)) return;
    if (at == room) at--;
    for (; at > 0 && holes[at - 1].size < hole->size; at--) holes[at] = holes[at - 1];
    holes[at] = *hole;
}

uint32_t tn_snapshot_holes(const tn_snapshot *snapshot, uint32_t device, tn_snapshot_hole *holes,
                           uint32_t room, uint64_t *whole, uint64_t *bytes) {
    uint64_t sum = 0, empty = 0;
    uint32_t found = 0;
    for (uint32_t s = 0; s < snapshot->segment_count; s++) {
        const tn_snapshot_segment *segment = &snapshot->segments[s];
        for (uint32_t b = 0; b < segment->block_count && segment->device == device; b++) {
            const tn_snapshot_block *block = &snapshot->blocks[segment->first_block + b];
            if (block->state != TN_SNAPSHOT_INACTIVE || block->size == 0) continue;
            tn_snapshot_hole hole = {s, block->address - segment->address, block->size};
            groups_keep(holes, room, found++, &hole);
            sum = tn__add_sat(sum, block->size);
            if (block->size == segment->total) empty = tn__add_sat(empty, block->size);
        }
    }
    if (whole != NULL) *whole = empty;
    if (bytes != NULL) *bytes = sum;
    return found;
}

/* Whether any block of this stream on this device is in use. */
static bool groups_stream_lives(const tn_snapshot *snapshot, uint32_t device, uint16_t stream) {
    for (uint32_t s = 0; s < snapshot->segment_count; s++) {
        const tn_snapshot_segment *segment = &snapshot->segments[s];
        if (segment->device != device || segment->stream != stream) continue;
        for (uint32_t b = 0; b < segment->block_count; b++)
            if (snapshot->blocks[segment->first_block + b].state != TN_SNAPSHOT_INACTIVE)
                return true;
    }
    return false;
}

tn_snapshot_causes tn_snapshot_hole_causes(const tn_snapshot *snapshot, uint32_t device) {
    tn_snapshot_causes causes = {0};
    uint16_t stream = 0; /* stream of the last unused segment, for which `lives` is known */
    bool known = false, lives = false;
    for (uint32_t s = 0; s < snapshot->segment_count; s++) {
        const tn_snapshot_segment *segment = &snapshot->segments[s];
        uint64_t free_bytes = 0;
        bool used = false;
        if (segment->device != device) continue;
        for (uint32_t b = 0; b < segment->block_count; b++) {
            const tn_snapshot_block *block = &snapshot->blocks[segment->first_block + b];
            if (block->state == TN_SNAPSHOT_INACTIVE)
                free_bytes = tn__add_sat(free_bytes, block->size);
            else
                used = true;
        }
        if (used) {
            causes.hard = tn__add_sat(causes.hard, free_bytes);
            continue;
        }
        if (!known || stream != segment->stream) {
            stream = segment->stream;
            known = true;
            lives = groups_stream_lives(snapshot, device, stream);
        }
        uint64_t *cause = lives ? &causes.soft : &causes.stream;
        *cause = tn__add_sat(*cause, free_bytes);
    }
    return causes;
}
