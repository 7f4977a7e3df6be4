/* build.c - turns the dicts and lists of a snapshot into rows of tables, by recognising their keys.
 *
 * A list of frames is stored as a stack when it is assigned to an event. Its items, which are
 * usually the last of all items, are then discarded. So ten million events need only their own rows
 * and a few thousand stacks.
 */
#include "interop/snapshot/build.h"

enum { BUILD_PAIRS_MAX = 64 };
#define BUILD_END UINT32_MAX

static tn_status build_no_memory(tn__build *build) {
    return tn__no_memory(build->error, "a snapshot");
}

/* --- recognising dicts by their keys --- */

static tn__row_kind build_kind(const tn__build *build, uint64_t dict) {
    return (tn__row_kind)(build->dicts[dict] & 15);
}

/* The kind of row that a set of keys (bits) indicates. If several kinds fit, the first one in this
 * function is taken. */
static tn__row_kind build_judge(uint64_t keys) {
#define BUILD_HAS(name) ((keys >> TN__WORD_##name & 1) != 0)
    if (BUILD_HAS(ACTION)) return TN__ROW_EVENT;
    if (BUILD_HAS(SEGMENTS) || BUILD_HAS(TRACES)) return TN__ROW_WHOLE;
    if (BUILD_HAS(TOTAL)) return TN__ROW_SEGMENT;
    if (BUILD_HAS(STATE) && BUILD_HAS(SIZE)) return TN__ROW_BLOCK;
    if (BUILD_HAS(REAL_SIZE)) return TN__ROW_PAST;
    if (BUILD_HAS(FILENAME) && BUILD_HAS(LINE) && BUILD_HAS(NAME)) return TN__ROW_FRAME;
#undef BUILD_HAS
    return TN__ROW_WAITS;
}

static uint64_t build_keys(const tn__pickle_value *pairs, size_t count) {
    uint64_t keys = 0;
    for (size_t i = 0; i < count; i += 2)
        if (pairs[i].kind == TN__PICKLE_TEXT && pairs[i].word < TN__WORD_KEY_COUNT)
            keys |= 1ull << pairs[i].word;
    return keys;
}

static tn_status build_set_all(tn__build *build, tn__row_kind kind, size_t row,
                               const tn__pickle_value *pairs, size_t count) {
    for (size_t i = 0; i < count; i += 2)
        if (pairs[i].kind == TN__PICKLE_TEXT && pairs[i].word < TN__WORD_KEY_COUNT)
            TN_TRY(tn__build_set(build, kind, row, (uint32_t)pairs[i].word, &pairs[i + 1]));
    return TN_OK;
}

/* Stores a frame. It must have its three fields at once; otherwise the kind of the dict is not
 * known yet. */
static tn_status build_frame(tn__build *build, const tn__pickle_value *pairs, size_t count,
                             size_t *row) {
    tn__stack_frame frame = {0};
    uint32_t number = 0;
    for (size_t i = 0; i < count; i += 2) {
        const tn__pickle_value *key = &pairs[i], *value = &pairs[i + 1];
        if (key->kind != TN__PICKLE_TEXT) continue;
        bool is_line = key->word == TN__WORD_LINE;
        if (!is_line && key->word != TN__WORD_NAME && key->word != TN__WORD_FILENAME) continue;
        if (value->kind != (is_line ? TN__PICKLE_INTEGER : TN__PICKLE_TEXT))
            TN_FAIL(build->error, TN_E_INVALID, "the %s of a frame is no %s",
                    is_line                      ? "line"
                    : key->word == TN__WORD_NAME ? "name"
                                                 : "filename",
                    is_line ? "whole number" : "text");
        if (is_line)
            frame.line = (int64_t)value->word;
        else if (key->word == TN__WORD_NAME)
            frame.function = (uint32_t)value->word;
        else
            frame.file = (uint32_t)value->word;
    }
    if (!tn__stacks_frame(&build->stacks, frame, &number)) return build_no_memory(build);
    *row = number;
    return TN_OK;
}

/* Moves the stored pairs of a dict into a row, because its kind is known now. */
static tn_status build_settle(tn__build *build, uint64_t dict, tn__row_kind kind,
                              const tn__pickle_value *pairs, size_t count) {
    size_t row = 0;
    if (kind == TN__ROW_FRAME) {
        TN_TRY(build_frame(build, pairs, count, &row));
    } else {
        TN_TRY(tn__build_row(build, kind, &row));
        TN_TRY(build_set_all(build, kind, row, pairs, count));
    }
    build->dicts[dict] = (uint64_t)row << 4 | kind;
    return TN_OK;
}

/* --- dicts of unknown kind; few exist at a time, because picklers write small dicts at once --- */

static tn_status build_keep(tn__build *build, uint64_t dict, const tn__pickle_value *pairs,
                            size_t count) {
    uint32_t first =
        build_kind(build, dict) == TN__ROW_WAITS ? (uint32_t)(build->dicts[dict] >> 4) : BUILD_END;
    for (size_t i = 0; i < count; i += 2) {
        if (pairs[i].kind != TN__PICKLE_TEXT || pairs[i].word >= TN__WORD_KEY_COUNT) continue;
        uint32_t pair = build->pair_vacant;
        if (pair != BUILD_END) {
            build->pair_vacant = build->pairs[pair].next;
        } else {
            if (build->pair_count >= BUILD_END ||
                !tn__reserve(build->context, &build->pairs, &build->pair_room,
                             build->pair_count + 1, sizeof *build->pairs))
                return build_no_memory(build);
            pair = (uint32_t)build->pair_count++;
        }
        build->pairs[pair] = (tn__pair){(uint32_t)pairs[i].word, first, pairs[i + 1]};
        first = pair;
    }
    build->dicts[dict] = (uint64_t)first << 4 | TN__ROW_WAITS;
    return TN_OK;
}

/* Returns the stored pairs of a dict in the order in which they came, and frees them. If there are
 * more pairs than any known dict has fields, the dict is not part of a snapshot and *count is 0. */
static void build_recall(tn__build *build, uint64_t dict,
                         tn__pickle_value pairs[2 * BUILD_PAIRS_MAX], size_t *count) {
    uint32_t first = (uint32_t)(build->dicts[dict] >> 4), waiting = 0;
    for (uint32_t pair = first; pair != BUILD_END; pair = build->pairs[pair].next) waiting++;
    *count = waiting <= BUILD_PAIRS_MAX ? 2 * (size_t)waiting : 0;
    size_t at = *count;
    for (uint32_t pair = first, next; pair != BUILD_END; pair = next) {
        const tn__pair *held = &build->pairs[pair];
        next = held->next;
        if (at > 0) {
            pairs[--at] = held->value;
            pairs[--at] = (tn__pickle_value){TN__PICKLE_TEXT, held->key};
        }
        build->pairs[pair].next = build->pair_vacant;
        build->pair_vacant = pair;
    }
}

static tn_status build_wait(tn__build *build, uint64_t dict, const tn__pickle_value *pairs,
                            size_t count) {
    tn__pickle_value all[2 * BUILD_PAIRS_MAX];
    if (count > 2 * BUILD_PAIRS_MAX) return build->dicts[dict] = TN__ROW_OTHER, TN_OK;
    TN_TRY(build_keep(build, dict, pairs, count));
    build_recall(build, dict, all, &count);
    tn__row_kind kind = build_judge(build_keys(all, count));
    build->dicts[dict] = count == 0 ? TN__ROW_OTHER : (uint64_t)BUILD_END << 4 | TN__ROW_WAITS;
    if (count == 0) return TN_OK;
    return kind == TN__ROW_WAITS ? build_keep(build, dict, all, count)
                                 : build_settle(build, dict, kind, all, count);
}

static tn_status build_add_pairs(tn__build *build, uint64_t dict, const tn__pickle_value *pairs,
                                 size_t count) {
    tn__row_kind kind = build_kind(build, dict);
    if (kind == TN__ROW_OTHER || kind == TN__ROW_FRAME) return TN_OK;
    if (kind == TN__ROW_WAITS) return build_wait(build, dict, pairs, count);
    if (kind != TN__ROW_NEW)
        return build_set_all(build, kind, (size_t)(build->dicts[dict] >> 4), pairs, count);
    tn__row_kind judged = build_judge(build_keys(pairs, count));
    return judged == TN__ROW_WAITS ? build_wait(build, dict, pairs, count)
                                   : build_settle(build, dict, judged, pairs, count);
}

/* --- lists --- */

/* Returns the kind of a list's item and stores the item's number; OTHER means that the item is not
 * stored. */
static tn__row_kind build_item(const tn__build *build, const tn__pickle_value *value,
                               uint32_t *number) {
    *number = (uint32_t)value->word;
    if (value->kind == TN__PICKLE_LIST || value->kind == TN__PICKLE_TUPLE)
        return value->word == 0 ? TN__ROW_OTHER : TN__ROW_LIST;
    if (value->kind != TN__PICKLE_DICT) return TN__ROW_OTHER;
    tn__row_kind kind = build_kind(build, value->word);
    *number = (uint32_t)(build->dicts[value->word] >> 4);
    return kind == TN__ROW_NEW || kind == TN__ROW_WAITS ? TN__ROW_OTHER : kind;
}

/* Makes a list large enough for `more` items at its end: in place if the list is the last one;
 * otherwise it is moved. */
static tn_status build_room(tn__build *build, tn__snapshot_list *list, size_t more) {
    uint64_t need = (uint64_t)list->count + more;
    bool has_room = list->count > 0;
    if (has_room && need <= 1ull << list->room_log) return TN_OK;
    if (need > UINT32_MAX - 1) TN_FAIL(build->error, TN_E_UNSUPPORTED, "a list of 2^32 items");
    uint8_t log = 0;
    while (1ull << log < need) log++;
    bool is_last = has_room && list->start + (1ull << list->room_log) == build->item_count;
    uint64_t start = is_last ? list->start : build->item_count;
    if (!tn__reserve(build->context, &build->items, &build->item_room,
                     (size_t)(start + (1ull << log)), sizeof *build->items))
        return build_no_memory(build);
    if (has_room && !is_last)
        memcpy(build->items + start, build->items + list->start,
               list->count * sizeof *build->items);
    list->start = start;
    list->room_log = log;
    build->item_count = (size_t)(start + (1ull << log));
    return TN_OK;
}

static tn_status build_add_items(tn__build *build, uint64_t number, const tn__pickle_value *items,
                                 size_t count) {
    tn__snapshot_list *list = &build->lists[number];
    uint32_t item = 0;
    if (list->kind == TN__ROW_OTHER || count == 0) return TN_OK;
    if (list->kind == TN__ROW_STACK)
        TN_FAIL(build->error, TN_E_INVALID, "a list of frames grows after it was used");
    tn__row_kind kind = build_item(build, &items[0], &item);
    if (list->kind == TN__ROW_NEW) list->kind = (uint8_t)kind;
    if (kind == TN__ROW_OTHER) return list->kind = TN__ROW_OTHER, TN_OK;
    TN_TRY(build_room(build, list, count));
    for (size_t i = 0; i < count; i++) {
        if (build_item(build, &items[i], &item) != list->kind)
            /* a list with items of several kinds is not part of a snapshot */
            return list->kind = TN__ROW_OTHER, TN_OK;
        build->items[list->start + list->count++] = item;
    }
    return TN_OK;
}

tn_status tn__build_stack(tn__build *build, const tn__pickle_value *value, uint32_t *stack) {
    *stack = 0;
    if (value->kind == TN__PICKLE_NONE) return TN_OK;
    if (value->kind != TN__PICKLE_LIST && value->kind != TN__PICKLE_TUPLE)
        TN_FAIL(build->error, TN_E_INVALID, "frames are no list");
    tn__snapshot_list *list = &build->lists[value->word];
    if (list->kind == TN__ROW_STACK) return *stack = (uint32_t)list->start, TN_OK;
    if (list->kind == TN__ROW_NEW || value->word == 0) return TN_OK;
    if (list->kind != TN__ROW_FRAME)
        TN_FAIL(build->error, TN_E_INVALID, "a list of frames has an item that is not a frame");
    if (!tn__stacks_stack(&build->stacks, build->items + list->start, list->count, stack))
        return build_no_memory(build);
    if (list->start + (1ull << list->room_log) == build->item_count)
        build->item_count = (size_t)list->start;
    *list = (tn__snapshot_list){.start = *stack, .kind = TN__ROW_STACK};
    return TN_OK;
}

/* --- callbacks of the pickle reader --- */

static tn_status build_make_list(tn__build *build, const tn__pickle_value *items, size_t count,
                                 uint64_t *number) {
    uint32_t item = 0;
    bool is_kept = count == 0 || build_item(build, &items[0], &item) != TN__ROW_OTHER;
    *number = 0;
    if (!is_kept) return TN_OK;
    if (!tn__reserve(build->context, &build->lists, &build->list_room, build->list_count + 1,
                     sizeof *build->lists))
        return build_no_memory(build);
    *number = build->list_count++;
    build->lists[*number] = (tn__snapshot_list){.kind = TN__ROW_NEW};
    return build_add_items(build, *number, items, count);
}

static tn_status build_make(void *self, tn__pickle_kind kind, const tn__pickle_value *items,
                            size_t count, uint64_t *word, tn_error *error) {
    tn__build *build = self;
    build->error = error;
    if (kind == TN__PICKLE_TUPLE && count == 0) return *word = 0, TN_OK;
    if (kind != TN__PICKLE_DICT) return build_make_list(build, items, count, word);
    if (!tn__reserve(build->context, &build->dicts, &build->dict_room, build->dict_count + 1,
                     sizeof *build->dicts))
        return build_no_memory(build);
    *word = build->dict_count++;
    build->dicts[*word] = TN__ROW_NEW;
    return TN_OK;
}

static tn_status build_add(void *self, const tn__pickle_value *container,
                           const tn__pickle_value *items, size_t count, tn_error *error) {
    tn__build *build = self;
    build->error = error;
    return container->kind == TN__PICKLE_DICT
               ? build_add_pairs(build, container->word, items, count)
               : build_add_items(build, container->word, items, count);
}

tn__pickle_maker tn__build_maker(tn__build *build) {
    return (tn__pickle_maker){.self = build, .make = build_make, .add = build_add};
}

bool tn__build_init(tn__build *build, const tn_context *context) {
    static const char *const words[] = {
#define BUILD_WORD(name, text) text,
        TN__SNAPSHOT_WORDS(BUILD_WORD)
#undef BUILD_WORD
    };
    *build = (tn__build){.context = context,
                         .pair_vacant = BUILD_END,
                         .segment_list = UINT64_MAX,
                         .trace_list = UINT64_MAX};
    tn__pickle_texts_init(&build->texts, context);
    if (!tn__stacks_init(&build->stacks, context)) return false;
    for (uint32_t i = 0, number; i < sizeof words / sizeof *words; i++)
        if (!tn__pickle_texts_add(&build->texts, words[i], strlen(words[i]), &number)) return false;
    if (!tn__reserve(context, &build->lists, &build->list_room, 1, sizeof *build->lists) ||
        !tn__reserve(context, &build->streams, &build->stream_room, 1, sizeof *build->streams) ||
        !tn__reserve(context, &build->categories, &build->category_room, 1,
                     sizeof *build->categories))
        return false;
    build->lists[build->list_count++] = (tn__snapshot_list){.kind = TN__ROW_OTHER};
    build->streams[build->stream_count++] = 0;
    /* category 0 is the empty text */
    build->categories[build->category_count++] = TN__WORD_KEY_COUNT;
    return true;
}

void tn__build_release(tn__build *build) {
    const tn_context *context = build->context;
    tn__free(context, build->categories, build->category_room * sizeof *build->categories);
    tn__free(context, build->streams, build->stream_room * sizeof *build->streams);
    tn__free(context, build->pasts, build->past_room * sizeof *build->pasts);
    tn__free(context, build->segments, build->segment_room * sizeof *build->segments);
    tn__free(context, build->blocks, build->block_room * sizeof *build->blocks);
    tn__free(context, build->events, build->event_room * sizeof *build->events);
    tn__free(context, build->pairs, build->pair_room * sizeof *build->pairs);
    tn__free(context, build->items, build->item_room * sizeof *build->items);
    tn__free(context, build->lists, build->list_room * sizeof *build->lists);
    tn__free(context, build->dicts, build->dict_room * sizeof *build->dicts);
    tn__stacks_release(&build->stacks);
    tn__pickle_texts_release(&build->texts);
}
