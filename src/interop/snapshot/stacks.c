/* stacks.c - stores frames and stacks by number, in two tables with open addressing. */
#include "interop/snapshot/stacks.h"

static uint64_t stacks_mix(uint64_t hash, uint64_t word) {
    hash ^= word; /* brings high bits down before the multiplication */
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    hash = (hash ^ hash >> 29) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t stacks_frame_hash(const tn__stacks *stacks, const tn__stack_frame *frame) {
    uint64_t names = (uint64_t)frame->function << 32 | frame->file;
    return stacks_mix(stacks_mix(stacks->key, names), (uint64_t)frame->line);
}

static uint64_t stacks_hash(const tn__stacks *stacks, const uint32_t *frames, uint32_t count) {
    uint64_t hash = stacks_mix(stacks->key, count);
    for (uint32_t i = 0; i < count; i++) hash = stacks_mix(hash, frames[i]);
    return hash;
}

/* Doubles the slots; `hash_of` computes the hash of a row. */
static bool stacks_grow(tn__stacks *stacks, tn__number_set *set,
                        uint64_t (*hash_of)(const tn__stacks *stacks, uint32_t number)) {
    size_t room = set->room == 0 ? 1024 : 2 * set->room;
    uint32_t *slots = tn__alloc_array(stacks->context, room, sizeof *slots);
    if (slots == NULL) return false;
    for (size_t i = 0; i < set->room; i++) {
        if (set->slots[i] == 0) continue;
        size_t at = hash_of(stacks, set->slots[i] - 1) & (room - 1);
        while (slots[at] != 0) at = (at + 1) & (room - 1);
        slots[at] = set->slots[i];
    }
    tn__free(stacks->context, set->slots, set->room * sizeof *set->slots);
    set->slots = slots;
    set->room = room;
    return true;
}

static uint64_t stacks_hash_of_frame(const tn__stacks *stacks, uint32_t number) {
    return stacks_frame_hash(stacks, &stacks->frames[number]);
}

static uint64_t stacks_hash_of_stack(const tn__stacks *stacks, uint32_t number) {
    const tn__stack_row *row = &stacks->stacks[number];
    return stacks_hash(stacks, stacks->members + row->first, row->count);
}

bool tn__stacks_frame(tn__stacks *stacks, tn__stack_frame frame, uint32_t *number) {
    tn__number_set *set = &stacks->frame_set;
    if (2 * (set->count + 1) > set->room && !stacks_grow(stacks, set, stacks_hash_of_frame))
        return false;
    size_t at = stacks_frame_hash(stacks, &frame) & (set->room - 1);
    for (; set->slots[at] != 0; at = (at + 1) & (set->room - 1)) {
        const tn__stack_frame *known = &stacks->frames[ *number = set->slots[at] - 1];
        if (known->function == frame.function && known->file == frame.file &&
            known->line == frame.line)
            return true;
    }
    if (stacks->frame_count >= UINT32_MAX - 1 ||
        !tn__reserve(stacks->context, &stacks->frames, &stacks->frame_room, stacks->frame_count + 1,
                     sizeof *stacks->frames))
        return false;
    *number = (uint32_t)stacks->frame_count++;
    stacks->frames[*number] = frame;
    set->slots[at] = *number + 1;
    set->count++;
    return true;
}

bool tn__stacks_stack(tn__stacks *stacks, const uint32_t *frames, uint32_t count,
                      uint32_t *number) {
    tn__number_set *set = &stacks->stack_set;
    if (2 * (set->count + 1) > set->room && !stacks_grow(stacks, set, stacks_hash_of_stack))
        return false;
    size_t at = stacks_hash(stacks, frames, count) & (set->room - 1);
    for (; set->slots[at] != 0; at = (at + 1) & (set->room - 1)) {
        const tn__stack_row *known = &stacks->stacks[ *number = set->slots[at] - 1];
        if (known->count == count && (count == 0 || memcmp(stacks->members + known->first, frames,
                                                           count * sizeof *frames) == 0))
            return true;
    }
    if (stacks->stack_count >= UINT32_MAX - 1 ||
        !tn__reserve(stacks->context, &stacks->stacks, &stacks->stack_room, stacks->stack_count + 1,
                     sizeof *stacks->stacks) ||
        !tn__reserve(stacks->context, &stacks->members, &stacks->member_room,
                     stacks->member_count + count + 1, sizeof *stacks->members))
        return false;
    *number = (uint32_t)stacks->stack_count++;
    stacks->stacks[*number] = (tn__stack_row){stacks->member_count, count};
    if (count > 0) memcpy(stacks->members + stacks->member_count, frames, count * sizeof *frames);
    stacks->member_count += count;
    set->slots[at] = *number + 1;
    set->count++;
    return true;
}

bool tn__stacks_init(tn__stacks *stacks, const tn_context *context) {
    uint32_t none = 0;
    *stacks = (tn__stacks){.context = context};
    stacks->key = stacks_mix(0x5851f42d4c957f2du, (uint64_t)(uintptr_t)stacks);
    return tn__stacks_stack(stacks, NULL, 0, &none);
}

void tn__stacks_close(tn__stacks *stacks) {
    tn__number_set *sets[] = {&stacks->frame_set, &stacks->stack_set};
    for (int i = 0; i < 2; i++) {
        tn__free(stacks->context, sets[i]->slots, sets[i]->room * sizeof *sets[i]->slots);
        *sets[i] = (tn__number_set){0};
    }
}

void tn__stacks_release(tn__stacks *stacks) {
    tn__stacks_close(stacks);
    tn__free(stacks->context, stacks->members, stacks->member_room * sizeof *stacks->members);
    tn__free(stacks->context, stacks->stacks, stacks->stack_room * sizeof *stacks->stacks);
    tn__free(stacks->context, stacks->frames, stacks->frame_room * sizeof *stacks->frames);
    *stacks = (tn__stacks){.context = stacks->context};
}
