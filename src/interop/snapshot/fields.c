/* fields.c - stores each field of a snapshot's dicts in its row. Unknown fields are ignored. */
#include "interop/snapshot/build.h"

/* limit of streams: PyTorch has 32 for each priority on each device */
enum { FIELDS_STREAMS_MAX = 4096, FIELDS_CATEGORIES_MAX = 255 };

static const char *fields_name(uint32_t key) {
    static const char *const names[] = {
#define FIELDS_NAME(name, text) text,
        TN__SNAPSHOT_WORDS(FIELDS_NAME)
#undef FIELDS_NAME
    };
    return names[key];
}

/* Reads a number that is not negative; None counts as 0. */
static tn_status fields_number(tn__build *build, uint32_t key, const tn__pickle_value *value,
                               uint64_t *number) {
    bool is_signed = value->kind == TN__PICKLE_INTEGER || value->kind == TN__PICKLE_BOOL;
    if (value->kind == TN__PICKLE_NONE) return *number = 0, TN_OK;
    if ((!is_signed && value->kind != TN__PICKLE_UNSIGNED) ||
        (is_signed && (int64_t)value->word < 0))
        TN_FAIL(build->error, TN_E_INVALID, "%s is no whole number from 0 up", fields_name(key));
    *number = value->word;
    return TN_OK;
}

static tn_status fields_stream(tn__build *build, const tn__pickle_value *value, uint16_t *stream) {
    uint64_t number = 0;
    TN_TRY(fields_number(build, TN__WORD_STREAM, value, &number));
    for (size_t i = 0; i < build->stream_count; i++)
        if (build->streams[i] == number) return *stream = (uint16_t)i, TN_OK;
    if (build->stream_count >= FIELDS_STREAMS_MAX)
        TN_FAIL(build->error, TN_E_UNSUPPORTED, "more than %d streams", FIELDS_STREAMS_MAX);
    if (!tn__reserve(build->context, &build->streams, &build->stream_room, build->stream_count + 1,
                     sizeof *build->streams))
        return tn__no_memory(build->error, "a snapshot");
    *stream = (uint16_t)build->stream_count;
    build->streams[build->stream_count++] = number;
    return TN_OK;
}

static tn_status fields_category(tn__build *build, const tn__pickle_value *value,
                                 uint8_t *category) {
    if (value->kind != TN__PICKLE_TEXT) return TN_OK;
    for (size_t i = 0; i < build->category_count; i++)
        if (build->categories[i] == value->word) return *category = (uint8_t)i, TN_OK;
    if (build->category_count >= FIELDS_CATEGORIES_MAX)
        TN_FAIL(build->error, TN_E_UNSUPPORTED, "more than %d categories", FIELDS_CATEGORIES_MAX);
    if (!tn__reserve(build->context, &build->categories, &build->category_room,
                     build->category_count + 1, sizeof *build->categories))
        return tn__no_memory(build->error, "a snapshot");
    *category = (uint8_t)build->category_count;
    build->categories[build->category_count++] = (uint32_t)value->word;
    return TN_OK;
}

static uint8_t fields_action(const tn__pickle_value *value) {
    if (value->kind != TN__PICKLE_TEXT) return TN_SNAPSHOT_OTHER;
    switch (value->word) {
    case TN__WORD_ALLOC:
        return TN_SNAPSHOT_ALLOC;
    case TN__WORD_FREE_REQUESTED:
        return TN_SNAPSHOT_FREE_REQUESTED;
    case TN__WORD_FREE:
    case TN__WORD_FREE_COMPLETED:
        return TN_SNAPSHOT_FREE_COMPLETED;
    case TN__WORD_SEGMENT_ALLOC:
        return TN_SNAPSHOT_SEGMENT_ALLOC;
    case TN__WORD_SEGMENT_FREE:
        return TN_SNAPSHOT_SEGMENT_FREE;
    case TN__WORD_SEGMENT_MAP:
        return TN_SNAPSHOT_SEGMENT_MAP;
    case TN__WORD_SEGMENT_UNMAP:
        return TN_SNAPSHOT_SEGMENT_UNMAP;
    case TN__WORD_OOM:
        return TN_SNAPSHOT_OOM;
    default:
        return TN_SNAPSHOT_OTHER;
    }
}

static tn_status fields_event(tn__build *build, size_t row, uint32_t key,
                              const tn__pickle_value *value) {
    tn_snapshot_event *event = &build->events[row];
    uint64_t time = 0;
    switch (key) {
    case TN__WORD_ACTION:
        event->action = fields_action(value);
        return TN_OK;
    case TN__WORD_ADDR:
    case TN__WORD_DEVICE_FREE:
        return fields_number(build, key, value, &event->address);
    case TN__WORD_SIZE:
        return fields_number(build, key, value, &event->size);
    case TN__WORD_STREAM:
        return fields_stream(build, value, &event->stream);
    case TN__WORD_CATEGORY:
        return fields_category(build, value, &event->category);
    case TN__WORD_FRAMES:
        return tn__build_stack(build, value, &event->stack);
    case TN__WORD_TIME:
        TN_TRY(fields_number(build, key, value, &time));
        event->time_us = time > INT64_MAX ? INT64_MAX : (int64_t)time;
        return TN_OK;
    default:
        return TN_OK;
    }
}

static tn_status fields_state(tn__build *build, const tn__pickle_value *value, uint32_t *state) {
    uint64_t word = value->kind == TN__PICKLE_TEXT ? value->word : UINT64_MAX;
    if (word == TN__WORD_ACTIVE_ALLOCATED)
        *state = TN_SNAPSHOT_ALLOCATED;
    else if (word == TN__WORD_AWAITING_FREE || word == TN__WORD_PENDING_FREE)
        *state = TN_SNAPSHOT_PENDING_FREE;
    else if (word != TN__WORD_INACTIVE)
        TN_FAIL(build->error, TN_E_INVALID, "the state of a block is unknown");
    return TN_OK;
}

/* Reads the history of a block in old files, which lists the requests that the block served, the
 * latest first; only the latest is stored. */
static tn_status fields_history(tn__build *build, tn_snapshot_block *block,
                                const tn__pickle_value *value) {
    if (value->kind != TN__PICKLE_LIST) return TN_OK;
    const tn__snapshot_list *list = &build->lists[value->word];
    if (list->kind != TN__ROW_PAST || list->count == 0) return TN_OK;
    const tn__past *past = &build->pasts[build->items[list->start]];
    block->requested = past->requested;
    block->stack = past->stack;
    return TN_OK;
}

static tn_status fields_block(tn__build *build, size_t row, uint32_t key,
                              const tn__pickle_value *value) {
    tn_snapshot_block *block = &build->blocks[row];
    switch (key) {
    case TN__WORD_ADDRESS:
        return fields_number(build, key, value, &block->address);
    case TN__WORD_SIZE:
        return fields_number(build, key, value, &block->size);
    case TN__WORD_REQUESTED:
        return fields_number(build, key, value, &block->requested);
    case TN__WORD_STATE:
        return fields_state(build, value, &block->state);
    case TN__WORD_FRAMES:
        return tn__build_stack(build, value, &block->stack);
    case TN__WORD_HISTORY:
        return fields_history(build, block, value);
    default:
        return TN_OK;
    }
}

static tn_status fields_device(tn__build *build, const tn__pickle_value *value, uint32_t *device) {
    uint64_t number = 0;
    TN_TRY(fields_number(build, TN__WORD_DEVICE, value, &number));
    if (number >= 1024) TN_FAIL(build->error, TN_E_UNSUPPORTED, "more than 1024 devices");
    *device = (uint32_t)number;
    return TN_OK;
}

static tn_status fields_segment(tn__build *build, size_t row, uint32_t key,
                                const tn__pickle_value *value) {
    tn_snapshot_segment *segment = &build->segments[row];
    switch (key) {
    case TN__WORD_DEVICE:
        return fields_device(build, value, &segment->device);
    case TN__WORD_ADDRESS:
        return fields_number(build, key, value, &segment->address);
    case TN__WORD_TOTAL:
        return fields_number(build, key, value, &segment->total);
    case TN__WORD_ALLOCATED:
        return fields_number(build, key, value, &segment->allocated);
    case TN__WORD_ACTIVE:
        return fields_number(build, key, value, &segment->active);
    case TN__WORD_REQUESTED:
        segment->requested_told = true;
        return fields_number(build, key, value, &segment->requested);
    case TN__WORD_STREAM:
        return fields_stream(build, value, &segment->stream);
    case TN__WORD_FRAMES:
        return tn__build_stack(build, value, &segment->stack);
    case TN__WORD_SEGMENT_TYPE:
        segment->large = value->kind == TN__PICKLE_TEXT && value->word == TN__WORD_LARGE;
        return TN_OK;
    case TN__WORD_EXPANDABLE:
        segment->expandable = value->kind == TN__PICKLE_BOOL && value->word != 0;
        return TN_OK;
    case TN__WORD_BLOCKS:
        if (value->kind != TN__PICKLE_LIST || value->word > UINT32_MAX)
            TN_FAIL(build->error, TN_E_INVALID, "the blocks of a segment are no list");
        segment->first_block = (uint32_t)value->word;
        return TN_OK;
    default:
        return TN_OK;
    }
}

static tn_status fields_past(tn__build *build, size_t row, uint32_t key,
                             const tn__pickle_value *value) {
    if (key == TN__WORD_REAL_SIZE)
        return fields_number(build, key, value, &build->pasts[row].requested);
    if (key == TN__WORD_FRAMES) return tn__build_stack(build, value, &build->pasts[row].stack);
    return TN_OK;
}

static tn_status fields_whole(tn__build *build, uint32_t key, const tn__pickle_value *value) {
    if (key != TN__WORD_SEGMENTS && key != TN__WORD_TRACES) return TN_OK;
    if (value->kind != TN__PICKLE_LIST && value->kind != TN__PICKLE_TUPLE)
        TN_FAIL(build->error, TN_E_INVALID, "%s is no list", fields_name(key));
    *(key == TN__WORD_SEGMENTS ? &build->segment_list : &build->trace_list) = value->word;
    return TN_OK;
}

tn_status tn__build_set(tn__build *build, tn__row_kind kind, size_t row, uint32_t key,
                        const tn__pickle_value *value) {
    switch (kind) {
    case TN__ROW_EVENT:
        return fields_event(build, row, key, value);
    case TN__ROW_BLOCK:
        return fields_block(build, row, key, value);
    case TN__ROW_SEGMENT:
        return fields_segment(build, row, key, value);
    case TN__ROW_PAST:
        return fields_past(build, row, key, value);
    case TN__ROW_WHOLE:
        return fields_whole(build, key, value);
    default:
        return TN_OK;
    }
}

/* Adds one more row to a table; every field is zero. */
#define FIELDS_GROW(build, what, row)                                                              \
    (*(row) = (build)->what##_count,                                                               \
     (build)->what##_count < UINT32_MAX - 1 &&                                                     \
         tn__reserve((build)->context, &(build)->what##s, &(build)->what##_room,                   \
                     (build)->what##_count + 1, sizeof *(build)->what##s) &&                       \
         (memset(&(build)->what##s[(build)->what##_count++], 0, sizeof *(build)->what##s), true))

tn_status tn__build_row(tn__build *build, tn__row_kind kind, size_t *row) {
    bool has_room = true;
    *row = 0;
    if (kind == TN__ROW_EVENT) has_room = FIELDS_GROW(build, event, row);
    if (kind == TN__ROW_BLOCK) has_room = FIELDS_GROW(build, block, row);
    if (kind == TN__ROW_SEGMENT) has_room = FIELDS_GROW(build, segment, row);
    if (kind == TN__ROW_PAST) has_room = FIELDS_GROW(build, past, row);
    return has_room ? TN_OK : tn__no_memory(build->error, "a snapshot");
}
