/* stacks.c - stores frames and stacks by number, found by their contents in two hash tables. */
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

bool tn__stacks_frame(tn__stacks *stacks, tn__stack_frame frame, uint32_t *number) {
    uint64_t hash = stacks_frame_hash(stacks, &frame);
    tn__probe probe = tn__table_probe(&stacks->frame_table, hash);
    while ((*number = tn__table_next(&stacks->frame_table, &probe)) != TN__TABLE_NONE) {
        const tn__stack_frame *known = &stacks->frames[*number];
        if (known->function == frame.function && known->file == frame.file &&
            known->line == frame.line)
            return true;
    }
    if (stacks->frame_count >= UINT32_MAX - 1 ||
        !tn__reserve(stacks->context, &stacks->frames, &stacks->frame_room, stacks->frame_count + 1,
                     sizeof *stacks->frames) ||
        !tn__table_add(&stacks->frame_table, hash, (uint32_t)stacks->frame_count))
        return false;
    *number = (uint32_t)stacks->frame_count++;
    stacks->frames[*number] = frame;
    return true;
}

bool tn__stacks_stack(tn__stacks *stacks, const uint32_t *frames, uint32_t count,
                      uint32_t *number) {
    uint64_t hash = stacks_hash(stacks, frames, count);
    tn__probe probe = tn__table_probe(&stacks->stack_table, hash);
    while ((*number = tn__table_next(&stacks->stack_table, &probe)) != TN__TABLE_NONE) {
        const tn__stack_row *known = &stacks->stacks[*number];
        if (known->count == count && (count == 0 || memcmp(stacks->members + known->first, frames,
                                                           count * sizeof *frames) == 0))
            return true;
    }
    if (stacks->stack_count >= UINT32_MAX - 1 ||
        !tn__reserve(stacks->context, &stacks->stacks, &stacks->stack_room, stacks->stack_count + 1,
                     sizeof *stacks->stacks) ||
        !tn__reserve(stacks->context, &stacks->members, &stacks->member_room,
                     stacks->member_count + count + 1, sizeof *stacks->members) ||
        !tn__table_add(&stacks->stack_table, hash, (uint32_t)stacks->stack_count))
        return false;
    *number = (uint32_t)stacks->stack_count++;
    stacks->stacks[*number] = (tn__stack_row){stacks->member_count, count};
    if (count > 0) memcpy(stacks->members + stacks->member_count, frames, count * sizeof *frames);
    stacks->member_count += count;
    return true;
}

bool tn__stacks_init(tn__stacks *stacks, const tn_context *context) {
    uint32_t none = 0;
    *stacks = (tn__stacks){.context = context};
    tn__table_init(&stacks->frame_table, context);
    tn__table_init(&stacks->stack_table, context);
    stacks->key = stacks_mix(0x5851f42d4c957f2du, (uint64_t)(uintptr_t)stacks);
    return tn__stacks_stack(stacks, NULL, 0, &none);
}

void tn__stacks_close(tn__stacks *stacks) {
    tn__table_release(&stacks->frame_table);
    tn__table_release(&stacks->stack_table);
}

void tn__stacks_release(tn__stacks *stacks) {
    tn__stacks_close(stacks);
    tn__free(stacks->context, stacks->members, stacks->member_room * sizeof *stacks->members);
    tn__free(stacks->context, stacks->stacks, stacks->stack_room * sizeof *stacks->stacks);
    tn__free(stacks->context, stacks->frames, stacks->frame_room * sizeof *stacks->frames);
    *stacks = (tn__stacks){.context = stacks->context};
}
