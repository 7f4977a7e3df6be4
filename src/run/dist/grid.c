/* grid.c - arranges ranks along the axes data, tensor and pipeline, and makes the groups along each
 * axis.
 *
 * Ranks are numbered as in Megatron-LM: along `tensor` first, then `data`, then `pipeline`.
 */
#include <stdio.h>

#include "run/dist/world.h"

/* --- from words --- */

typedef struct grid_word {
    const char *name;
    size_t offset;
} grid_word;
static const grid_word grid_words[] = {{"data=", offsetof(tn_grid, data)},
                                       {"tensor=", offsetof(tn_grid, tensor)},
                                       {"pipeline=", offsetof(tn_grid, pipeline)},
                                       {"interleave=", offsetof(tn_grid, interleave)}};
#define GRID_WORDS (sizeof grid_words / sizeof *grid_words)

/* Parses a number and advances `text`; 0: not a valid number. */
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

/* The rank at position `number` along the axis, in the group of `rank`. */
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

/* --- their groups --- */

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
