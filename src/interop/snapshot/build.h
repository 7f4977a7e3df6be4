/* build.h - builds the tables of a snapshot while its pickle is read.
 *
 * A pickle makes an empty dict, numbers it, and adds pairs to it later, up to a thousand at once.
 * The keys of the first pairs identify the dict as a frame, an event, a block, a segment, or the
 * whole snapshot. From then on it is a row in the table of that kind, and only the row is stored. A
 * list is identified by its first item. Other dicts and lists have the kind "other" and use no
 * memory.
 */
#ifndef TN_SNAPSHOT_BUILD_H
#define TN_SNAPSHOT_BUILD_H

#include <tenure/snapshot.h>

#include "interop/snapshot/pickle.h"
#include "interop/snapshot/stacks.h"

/* Keys of dicts, and words that are values. The number of each text equals its position in this
 * list. */
#define TN__SNAPSHOT_WORDS(X)                                                                      \
    X(ACTION, "action")                                                                            \
    X(ADDR, "addr")                                                                                \
    X(SIZE, "size")                                                                                \
    X(STREAM, "stream")                                                                            \
    X(FRAMES, "frames")                                                                            \
    X(TIME, "time_us")                                                                             \
    X(DEVICE_FREE, "device_free")                                                                  \
    X(CATEGORY, "category")                                                                        \
    X(NAME, "name")                                                                                \
    X(FILENAME, "filename")                                                                        \
    X(LINE, "line")                                                                                \
    X(DEVICE, "device")                                                                            \
    X(ADDRESS, "address")                                                                          \
    X(TOTAL, "total_size")                                                                         \
    X(ALLOCATED, "allocated_size")                                                                 \
    X(ACTIVE, "active_size")                                                                       \
    X(REQUESTED, "requested_size")                                                                 \
    X(SEGMENT_TYPE, "segment_type")                                                                \
    X(EXPANDABLE, "is_expandable")                                                                 \
    X(BLOCKS, "blocks")                                                                            \
    X(STATE, "state")                                                                              \
    X(HISTORY, "history")                                                                          \
    X(REAL_SIZE, "real_size")                                                                      \
    X(SEGMENTS, "segments")                                                                        \
    X(TRACES, "device_traces")                                                                     \
    X(KEY_COUNT, "") /* all words above are keys */                                                \
    X(ALLOC, "alloc")                                                                              \
    /* in the earliest versions: the free was requested and completed in one event */              \
    X(FREE, "free")                                                                                \
    X(FREE_REQUESTED, "free_requested")                                                            \
    X(FREE_COMPLETED, "free_completed")                                                            \
    X(SEGMENT_ALLOC, "segment_alloc")                                                              \
    X(SEGMENT_FREE, "segment_free")                                                                \
    X(SEGMENT_MAP, "segment_map")                                                                  \
    X(SEGMENT_UNMAP, "segment_unmap")                                                              \
    X(OOM, "oom")                                                                                  \
    X(LARGE, "large")                                                                              \
    X(INACTIVE, "inactive")                                                                        \
    X(ACTIVE_ALLOCATED, "active_allocated")                                                        \
    X(AWAITING_FREE, "active_awaiting_free")                                                       \
    X(PENDING_FREE, "active_pending_free")
enum {
#define TN__SNAPSHOT_WORD(name, text) TN__WORD_##name,
    TN__SNAPSHOT_WORDS(TN__SNAPSHOT_WORD)
#undef TN__SNAPSHOT_WORD
};

typedef enum tn__row_kind {
    TN__ROW_NEW,   /* an empty dict or list; its kind is not known yet */
    TN__ROW_WAITS, /* a dict of unknown kind; its pairs are stored until the kind is known */
    TN__ROW_OTHER,
    TN__ROW_FRAME,
    TN__ROW_EVENT,
    TN__ROW_BLOCK,
    TN__ROW_SEGMENT,
    TN__ROW_PAST, /* an item of a block's history */
    TN__ROW_WHOLE,
    TN__ROW_LIST,  /* only for lists: a list of lists */
    TN__ROW_STACK, /* only for lists: frames stored as a stack; `start` is its number */
} tn__row_kind;

typedef struct tn__pair {
    /* next: index of the next pair of the same dict; UINT32_MAX: it is the last one */
    uint32_t key, next;
    tn__pickle_value value;
} tn__pair;

typedef struct tn__snapshot_list {
    uint64_t start; /* the items are build.items[start, start + count) */
    uint32_t count;
    /* kind: tn__row_kind of the items; room_log: the list can hold 2^room_log items */
    uint8_t kind, room_log;
} tn__snapshot_list;

/* An item of a block's history in old files: a request that the block served. */
typedef struct tn__past {
    uint64_t requested;
    uint32_t stack;
} tn__past;

typedef struct tn__build {
    const tn_context *context;
    tn__pickle_texts texts;
    tn__stacks stacks;
    uint64_t *dicts; /* row << 4 | kind of each dict */
    size_t dict_count, dict_room;
    /* lists by number; 0 stands for any list or tuple that is not stored */
    tn__snapshot_list *lists;
    size_t list_count, list_room;
    uint32_t *items; /* items of the lists: numbers of rows or of lists */
    size_t item_count, item_room;
    tn__pair *pairs;
    size_t pair_count, pair_room;
    uint32_t pair_vacant;
    tn_snapshot_event *events;
    size_t event_count, event_room;
    tn_snapshot_block *blocks;
    size_t block_count, block_room;
    /* segments; while the pickle is read, first_block is the number of the segment's list of
     * blocks */
    tn_snapshot_segment *segments;
    size_t segment_count, segment_room;
    tn__past *pasts;
    size_t past_count, past_room;
    uint64_t *streams;
    size_t stream_count, stream_room;
    /* names of the categories, as numbers of texts; category 0 has an empty name and stands for
     * none */
    uint32_t *categories;
    size_t category_count, category_room;
    /* numbers of the list of segments and of the list of traces; UINT64_MAX: not found */
    uint64_t segment_list, trace_list;
    tn_error *error;
} tn__build;

bool tn__build_init(tn__build *build, const tn_context *context);
void tn__build_release(tn__build *build);
tn__pickle_maker tn__build_maker(tn__build *build);

/* Stores one pair in a row (fields.c). */
tn_status tn__build_set(tn__build *build, tn__row_kind kind, size_t row, uint32_t key,
                        const tn__pickle_value *value);
/* Makes a new row of a kind, with default values; *row is its number. */
tn_status tn__build_row(tn__build *build, tn__row_kind kind, size_t *row);
/* Stores a list of frames as a stack; the list refers to the stack from then on. */
tn_status tn__build_stack(tn__build *build, const tn__pickle_value *value, uint32_t *stack);

#endif
