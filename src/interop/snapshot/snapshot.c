/* snapshot.c - loads a snapshot from a file: reads it into tables, then sorts them.
 *
 * Source: PyTorch, torch/cuda/memory.py and torch/csrc/cuda/memory_snapshot.cpp for today's dicts;
 * torch 1.13 and 2.0 for earlier ones.
 */
#include "interop/snapshot/snapshot.h"

#include <inttypes.h>

#include "interop/snapshot/build.h"

/* --- putting blocks and events in order --- */

/* Takes the list with this number, which must hold rows of one kind or be empty. A list can be
 * taken only once: otherwise one list could serve as the blocks of a million segments and cost
 * memory that the file does not have. */
static tn_status snapshot_list(tn__build *build, uint64_t number, tn__row_kind kind,
                               const char *what, tn__snapshot_list *list) {
    *list = build->lists[number];
    if (list->kind == TN__ROW_NEW) return TN_OK;
    if (list->kind != kind)
        TN_FAIL(build->error, TN_E_INVALID,
                "%s: not a list of these, or a list that was used before", what);
    build->lists[number].kind = TN__ROW_OTHER;
    return TN_OK;
}

/* Appends the blocks of a segment to those of the segments before it. */
static tn_status snapshot_blocks(tn_snapshot *snapshot, tn__build *build,
                                 tn_snapshot_segment *segment) {
    tn__snapshot_list list = {0};
    if (segment->first_block == 0) return TN_OK; /* the segment has no blocks */
    TN_TRY(snapshot_list(build, segment->first_block, TN__ROW_BLOCK, "blocks of a segment", &list));
    segment->first_block = snapshot->block_count;
    segment->block_count = list.count;
    uint64_t at = segment->address;
    for (uint32_t i = 0; i < list.count; i++) {
        tn_snapshot_block *block = &snapshot->blocks[snapshot->block_count++];
        *block = build->blocks[build->items[list.start + i]];
        if (block->address == 0) block->address = at; /* old files omit the address */
        at = tn__add_sat(block->address, block->size);
    }
    return TN_OK;
}

static tn_status snapshot_segments(tn_snapshot *snapshot, tn__build *build) {
    tn__snapshot_list list = {0};
    uint64_t blocks = 0;
    if (build->segment_list == UINT64_MAX) return TN_OK;
    TN_TRY(snapshot_list(build, build->segment_list, TN__ROW_SEGMENT, "segments", &list));
    snapshot->segments =
        tn__arena_array(&snapshot->arena, (size_t)list.count + 1, sizeof *snapshot->segments);
    if (snapshot->segments == NULL) return tn__no_memory(build->error, "a snapshot");
    for (uint32_t i = 0; i < list.count; i++) {
        snapshot->segments[i] = build->segments[build->items[list.start + i]];
        blocks += build->lists[snapshot->segments[i].first_block].count;
    }
    snapshot->segment_count = list.count;
    /* the number of blocks is checked before memory is allocated for them */
    if (blocks > build->item_count)
        TN_FAIL(build->error, TN_E_INVALID, "a list of blocks is used twice");
    if (blocks > UINT32_MAX - 1) TN_FAIL(build->error, TN_E_UNSUPPORTED, "more than 2^32 blocks");
    snapshot->blocks =
        tn__arena_array(&snapshot->arena, (size_t)blocks + 1, sizeof *snapshot->blocks);
    if (snapshot->blocks == NULL) return tn__no_memory(build->error, "a snapshot");
    for (uint32_t i = 0; i < list.count; i++)
        TN_TRY(snapshot_blocks(snapshot, build, &snapshot->segments[i]));
    return TN_OK;
}

/* Takes the events of a list: usually they are consecutive rows that are already in place. */
static tn_status snapshot_trace(tn_snapshot *snapshot, const tn__build *build,
                                const tn__snapshot_list *list, tn__trace_range *range) {
    const uint32_t *rows = build->items + list->start;
    bool in_order = true;
    *range = (tn__trace_range){list->count > 0 ? rows[0] : 0, list->count};
    for (uint32_t i = 1; i < list->count && in_order; i++) in_order = rows[i] == rows[i - 1] + 1;
    if (in_order) return TN_OK;
    size_t need = snapshot->event_count + list->count;
    if (!tn__reserve(&snapshot->context, &snapshot->events, &snapshot->event_room, need,
                     sizeof *snapshot->events))
        return tn__no_memory(build->error, "a snapshot");
    range->first = snapshot->event_count;
    for (uint32_t i = 0; i < list->count; i++)
        snapshot->events[snapshot->event_count++] = snapshot->events[rows[i]];
    return TN_OK;
}

static tn_status snapshot_devices(tn_snapshot *snapshot, tn__build *build) {
    tn__snapshot_list list = {0}, trace = {0};
    uint32_t traces = 0;
    if (build->trace_list != UINT64_MAX) {
        TN_TRY(snapshot_list(build, build->trace_list, TN__ROW_LIST, "device_traces", &list));
        traces = list.count;
    }
    if (traces > 1024) TN_FAIL(build->error, TN_E_UNSUPPORTED, "more than 1024 devices");
    snapshot->device_count = traces;
    for (uint32_t i = 0; i < snapshot->segment_count; i++)
        if (snapshot->segments[i].device >= snapshot->device_count)
            snapshot->device_count = snapshot->segments[i].device + 1;
    snapshot->devices = tn__arena_array(&snapshot->arena, (size_t)snapshot->device_count + 1,
                                        sizeof *snapshot->devices);
    if (snapshot->devices == NULL) return tn__no_memory(build->error, "a snapshot");
    for (uint32_t i = 0; i < traces; i++) {
        uint32_t number = build->items[list.start + i];
        TN_TRY(snapshot_list(build, number, TN__ROW_EVENT, "the trace of a device", &trace));
        TN_TRY(snapshot_trace(snapshot, build, &trace, &snapshot->devices[i]));
    }
    return TN_OK;
}

/* --- texts, which are copied because the file will be closed --- */

#define SNAPSHOT_WORD_MOST 4096u

static const char *snapshot_word(tn_snapshot *snapshot, const tn__build *build, uint32_t number) {
    if (snapshot->words[number] == NULL) {
        const tn__pickle_text *text = &build->texts.texts[number];
        /* a long path is cut to its end, the most useful part, because long names cost time at each
         * use */
        size_t cut = text->size > SNAPSHOT_WORD_MOST ? text->size - SNAPSHOT_WORD_MOST : 0;
        snapshot->words[number] =
            tn__arena_string(&snapshot->arena, text->bytes + cut, text->size - cut);
    }
    return snapshot->words[number];
}

static bool snapshot_words(tn_snapshot *snapshot, const tn__build *build) {
    snapshot->word_count = build->texts.count;
    snapshot->words =
        tn__alloc_array(&snapshot->context, snapshot->word_count, sizeof *snapshot->words);
    snapshot->category_count = build->category_count;
    snapshot->categories =
        tn__arena_array(&snapshot->arena, snapshot->category_count, sizeof *snapshot->categories);
    if (snapshot->words == NULL || snapshot->categories == NULL) return false;
    for (size_t i = 0; i < build->stacks.frame_count; i++)
        if (!snapshot_word(snapshot, build, build->stacks.frames[i].function) ||
            !snapshot_word(snapshot, build, build->stacks.frames[i].file))
            return false;
    for (size_t i = 0; i < build->category_count; i++) {
        snapshot->categories[i] = snapshot_word(snapshot, build, build->categories[i]);
        if (snapshot->categories[i] == NULL) return false;
    }
    return true;
}

/* --- loading a snapshot --- */

/* Reads the outermost value: the dict of today's versions, or the list of segments of early
 * ones. */
static tn_status snapshot_whole(tn__build *build, const tn__pickle_value *value) {
    bool is_known = build->segment_list != UINT64_MAX || build->trace_list != UINT64_MAX;
    if (value->kind == TN__PICKLE_DICT && is_known &&
        (build->dicts[value->word] & 15) == TN__ROW_WHOLE)
        return TN_OK;
    bool is_list = value->kind == TN__PICKLE_LIST;
    if (is_list && !is_known && build->lists[value->word].kind == TN__ROW_SEGMENT)
        return build->segment_list = value->word, TN_OK;
    TN_FAIL(build->error, TN_E_INVALID,
            "this pickle is no memory snapshot: it holds neither `segments` nor `device_traces`; "
            "torch.cuda.memory._dump_snapshot() writes one");
}

static tn_status snapshot_finish(tn_snapshot *snapshot, tn__build *build,
                                 const tn__pickle_value *value) {
    TN_TRY(snapshot_whole(build, value));
    snapshot->events = build->events;
    snapshot->event_count = build->event_count;
    snapshot->event_room = build->event_room;
    build->events = NULL;
    build->event_room = 0;
    TN_TRY(snapshot_segments(snapshot, build));
    TN_TRY(snapshot_devices(snapshot, build));
    if (!snapshot_words(snapshot, build)) return tn__no_memory(build->error, "a snapshot");
    tn__stacks_close(&build->stacks);
    snapshot->stacks = build->stacks;
    snapshot->stacks.context = &snapshot->context;
    build->stacks = (tn__stacks){.context = build->context};
    snapshot->streams = build->streams;
    snapshot->stream_count = build->stream_count;
    snapshot->stream_room = build->stream_room;
    build->streams = NULL;
    build->stream_room = 0;
    return TN_OK;
}

/* Recognises files that are not pickles, and reports what to do with them. */
static tn_status snapshot_sort(const void *bytes, size_t size, tn_error *error) {
    static const struct {
        const char *begins;
        size_t size;
        const char *text;
    } sorts[] = {
        {"\x28\xb5\x2f\xfd", 4, "it is compressed by zstd; unpack it with `zstd -d` first"},
        {"\xfd"
         "7zXZ",
         5, "it is compressed by xz; unpack it with `xz -d` first"},
        {"SQLite format 3", 16,
         "it is an SQLite database, as Nsight Systems exports; a memory snapshot of PyTorch is "
         "needed: "
         "torch.cuda.memory._dump_snapshot() writes one"},
    };
    if (size == 0) TN_FAIL(error, TN_E_INVALID, "the file is empty");
    for (size_t i = 0; i < sizeof sorts / sizeof *sorts; i++)
        if (size >= sorts[i].size && memcmp(bytes, sorts[i].begins, sorts[i].size) == 0)
            TN_FAIL(error, TN_E_UNSUPPORTED, "%s", sorts[i].text);
    return TN_OK;
}

static tn_snapshot *snapshot_create(const tn_context *given) {
    tn_context context = tn__context(given);
    tn_snapshot *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return NULL;
    made->context = context;
    tn__arena_init(&made->arena, &made->context);
    made->stacks.context = &made->context;
    return made;
}

static tn_status snapshot_load_pickle(const char *name, const void *bytes, size_t size,
                                      const tn_context *given, tn_snapshot **snapshot,
                                      tn_error *error) {
    tn_snapshot *made = snapshot_create(given);
    if (made == NULL) return tn__no_memory(error, "a snapshot");
    tn__build build;
    tn__pickle_value value = {0};
    tn_status status =
        tn__build_init(&build, &made->context) ? TN_OK : tn__no_memory(error, "a snapshot");
    build.error = error;
    tn__pickle_maker maker = tn__build_maker(&build);
    if (status == TN_OK)
        status = tn__pickle_read(name, size > 0 ? bytes : (const void *)"", size, &build.texts,
                                 &maker, &value, error);
    if (status == TN_OK)
        status = tn__where(error, snapshot_finish(made, &build, &value), "%s", name);
    tn__build_release(&build);
    if (status == TN_OK)
        *snapshot = made;
    else
        tn_snapshot_destroy(made);
    return status;
}

/* Loads an unpacked file: a profiler's trace with memory events, or a snapshot, which is a
 * pickle. */
static tn_status snapshot_load_plain(const char *name, const void *bytes, size_t size,
                                     const tn_context *given, tn_snapshot **snapshot,
                                     tn_error *error) {
    if (!tn__kineto_is(bytes, size))
        return snapshot_load_pickle(name, bytes, size, given, snapshot, error);
    tn_snapshot *made = snapshot_create(given);
    if (made == NULL) return tn__no_memory(error, "a profile");
    tn_status status = tn__where(error, tn__kineto_read(bytes, size, made, error), "%s", name);
    if (status == TN_OK)
        *snapshot = made;
    else
        tn_snapshot_destroy(made);
    return status;
}

tn_status tn_snapshot_load_memory(const char *name, const void *bytes, size_t size,
                                  const tn_context *given, tn_snapshot **snapshot,
                                  tn_error *error) {
    tn_context context = tn__context(given);
    uint8_t *unpacked = NULL;
    size_t unpacked_size = 0, room = 0;
    if (bytes == NULL) size = 0;
    TN_TRY(tn__where(error, snapshot_sort(bytes, size, error), "%s", name));
    if (!tn__gzip_is(bytes, size))
        return snapshot_load_plain(name, bytes, size, given, snapshot, error);
    TN_TRY(tn__where(error,
                     tn__gzip_read(&context, bytes, size, &unpacked, &unpacked_size, &room, error),
                     "%s", name));
    tn_status status = snapshot_sort(unpacked, unpacked_size, error);
    if (status == TN_OK)
        status = snapshot_load_plain(name, unpacked, unpacked_size, given, snapshot, error);
    tn__free(&context, unpacked, room);
    return status;
}

tn_status tn_snapshot_load(const char *path, const tn_context *context, tn_snapshot **snapshot,
                           tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_most(path, tn__context(context).read_limit, &file, error));
    tn_status status =
        tn_snapshot_load_memory(path, file.bytes, file.size, context, snapshot, error);
    tn__file_unmap(&file);
    return status;
}

void tn_snapshot_destroy(tn_snapshot *snapshot) {
    if (snapshot == NULL) return;
    tn_context context = snapshot->context;
    tn__stacks_release(&snapshot->stacks);
    tn__free(&context, snapshot->streams, snapshot->stream_room * sizeof *snapshot->streams);
    tn__free(&context, snapshot->words, snapshot->word_count * sizeof *snapshot->words);
    tn__free(&context, snapshot->events, snapshot->event_room * sizeof *snapshot->events);
    tn__arena_release(&snapshot->arena);
    tn__free(&context, snapshot, sizeof *snapshot);
}

/* --- asking --- */

uint32_t tn_snapshot_device_count(const tn_snapshot *snapshot) { return snapshot->device_count; }

const char *tn__snapshot_device_name(const tn_snapshot *snapshot, uint32_t device) {
    bool named = snapshot->device_names != NULL && device < snapshot->device_count;
    return named ? snapshot->device_names[device] : NULL;
}

const tn_snapshot_event *tn_snapshot_events(const tn_snapshot *snapshot, uint32_t device,
                                            uint64_t *count) {
    *count = 0;
    if (device >= snapshot->device_count) return NULL;
    *count = snapshot->devices[device].count;
    return *count > 0 ? snapshot->events + snapshot->devices[device].first : NULL;
}

const tn_snapshot_segment *tn_snapshot_segments(const tn_snapshot *snapshot, uint32_t *count) {
    *count = snapshot->segment_count;
    return snapshot->segments;
}

const tn_snapshot_block *tn_snapshot_blocks(const tn_snapshot *snapshot, uint32_t *count) {
    *count = snapshot->block_count;
    return snapshot->blocks;
}

uint32_t tn_snapshot_stack(const tn_snapshot *snapshot, uint32_t stack, tn_snapshot_frame *frames,
                           uint32_t room) {
    if (stack >= snapshot->stacks.stack_count) return 0;
    const tn__stack_row *row = &snapshot->stacks.stacks[stack];
    for (uint32_t i = 0; i < row->count && i < room; i++) {
        const tn__stack_frame *frame =
            &snapshot->stacks.frames[snapshot->stacks.members[row->first + i]];
        frames[i] = (tn_snapshot_frame){snapshot->words[frame->function],
                                        snapshot->words[frame->file], frame->line};
    }
    return row->count;
}

uint32_t tn_snapshot_stack_count(const tn_snapshot *snapshot) {
    return (uint32_t)snapshot->stacks.stack_count;
}

uint64_t tn_snapshot_stream(const tn_snapshot *snapshot, uint16_t stream) {
    return stream < snapshot->stream_count ? snapshot->streams[stream] : 0;
}

const char *tn_snapshot_category(const tn_snapshot *snapshot, uint8_t category) {
    return category < snapshot->category_count ? snapshot->categories[category] : "";
}
