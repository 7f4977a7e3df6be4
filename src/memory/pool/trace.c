/* trace.c - reads a recorded run from events or from CSV, with the columns of this library or those
 * of RMM's logging adaptor.
 *
 * Columns are found by name, in any case and order. Both formats share one table of columns, in
 * which RMM's `Pointer` is the column `id`. An id names a block from its allocation to its free and
 * may then be reused, like an address. There is no quoting: a comma ends a field. docs/formats.md
 * describes the formats.
 *
 * Cost: O(size of the file).
 */
#include "memory/pool/technique.h"

#include <inttypes.h>
#include <strings.h>

struct tn_pool_trace {
    tn_context context;
    tn_pool_event *events;
    size_t event_count, event_room;
    tn_pool_label *labels;
    size_t label_count, label_room;
    uint32_t block_count;
    uint64_t skipped;
    tn__arena words;
};

/* Columns: X(key, name, name in RMM's log or NULL). */
#define TRACE_COLUMNS(X)                                                                           \
    X(ACTION, "action", "action")                                                                  \
    X(ID, "id", "pointer")                                                                         \
    X(SIZE, "size", "size")                                                                        \
    X(ALIGNMENT, "alignment", NULL)                                                                \
    X(STREAM, "stream", "stream")                                                                  \
    X(LIFETIME, "lifetime", NULL)                                                                  \
    X(NAME, "name", NULL)                                                                          \
    X(KIND, "kind", NULL)                                                                          \
    X(OP, "op", NULL)

enum {
#define TRACE_KEY(key, name, rmm) TRACE_##key,
    TRACE_COLUMNS(TRACE_KEY)
#undef TRACE_KEY
        TRACE_COLUMN_COUNT,
    TRACE_FIELDS_MAX = 64
};

typedef struct trace_field {
    const char *text;
    size_t length;
} trace_field;

typedef struct trace_use { /* the block that an id names at present */
    uint32_t block;        /* number of the block; UINT32_MAX: the id names no block at present */
    uint32_t stream;
} trace_use;

typedef struct trace_reader {
    tn_pool_trace *trace;
    const char *name, *next, *end; /* name of the file, and its bytes that were not read yet */
    uint64_t line;
    bool is_rmm;
    /* index of each column in a row; UINT32_MAX: the column is missing */
    uint32_t column[TRACE_COLUMN_COUNT];
    uint32_t field_count;
    trace_field fields[TRACE_FIELDS_MAX];
    tn__names ids, labels, streams;
    trace_use *in_use; /* [ids] the block that each id names */
    size_t in_use_room;
    tn__text key;
    tn_error *error;
} trace_reader;

/* --- reading rows and their fields --- */

static tn_status trace_fail(trace_reader *reader, const char *what, trace_field field) {
    tn_status status = tn__fail(reader->error, TN_E_INVALID, what,
                                (int)(field.length < 60 ? field.length : 60), field.text);
    return tn__where(reader->error, status, "%s:%" PRIu64, reader->name, reader->line);
}

/* Reads the next row; false at the end of the file. *fits: whether the row has few enough
 * fields. */
static bool trace_row(trace_reader *reader, bool *fits) {
    if (reader->next == reader->end) return false;
    const char *newline = memchr(reader->next, '\n', (size_t)(reader->end - reader->next));
    const char *end = newline != NULL ? newline : reader->end, *at = reader->next;
    reader->next = newline != NULL ? newline + 1 : end;
    reader->line++;
    if (end > at && end[-1] == '\r') end--;
    reader->field_count = 0;
    *fits = true;
    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        *fits = reader->field_count < TRACE_FIELDS_MAX;
        if (!*fits) return true;
        reader->fields[reader->field_count++] = (trace_field){at, (size_t)(stop - at)};
        if (comma == NULL) return true;
        at = comma + 1;
    }
}

static trace_field trace_get(const trace_reader *reader, int column) {
    uint32_t place = reader->column[column];
    return place < reader->field_count ? reader->fields[place] : (trace_field){"", 0};
}

static bool trace_is(trace_field field, const char *word) {
    return word != NULL && strlen(word) == field.length &&
           strncasecmp(field.text, word, field.length) == 0;
}

/* Reads a whole number without sign, below 2^64; an empty field is 0. */
static bool trace_number(trace_field field, uint64_t *number) {
    uint64_t value = 0;
    for (size_t i = 0; i < field.length; i++) {
        unsigned digit = (unsigned char)field.text[i] - (unsigned)'0';
        if (digit > 9 || !tn__mul(value, 10, &value) || !tn__add(value, digit, &value))
            return false;
    }
    *number = value;
    return true;
}

static tn_status trace_header(trace_reader *reader) {
    static const char *const names[][2] = {
#define TRACE_NAMES(key, name, rmm) {name, rmm},
        TRACE_COLUMNS(TRACE_NAMES)
#undef TRACE_NAMES
    };
    bool fits = true, is_there = trace_row(reader, &fits);
    for (uint32_t i = 0; is_there && i < reader->field_count; i++)
        reader->is_rmm |= trace_is(reader->fields[i], "pointer");
    for (int c = 0; c < TRACE_COLUMN_COUNT; c++) {
        reader->column[c] = UINT32_MAX;
        for (uint32_t i = 0; is_there && fits && i < reader->field_count; i++)
            if (trace_is(reader->fields[i], names[c][reader->is_rmm])) reader->column[c] = i;
        if (c <= TRACE_SIZE && reader->column[c] == UINT32_MAX) {
            const char *name = names[c][reader->is_rmm];
            return trace_fail(reader,
                              "the trace has no column '%.*s'; the first line names the columns",
                              (trace_field){name, strlen(name)});
        }
    }
    return TN_OK;
}

/* --- blocks --- */

/* Finds the index of an id in in_use, and adds the id if it is new. */
static tn_status trace_id(trace_reader *reader, trace_field id, uint32_t *place) {
    uint32_t count = (uint32_t)reader->ids.count, existing;
    if (!tn__names_add(&reader->ids, id.text, id.length, count, &existing))
        return tn__no_memory(reader->error, "the ids of a trace");
    *place = existing != TN__NAMES_NONE ? existing : count;
    if (existing != TN__NAMES_NONE) return TN_OK;
    if (!tn__reserve(&reader->trace->context, &reader->in_use, &reader->in_use_room,
                     (size_t)count + 1, sizeof *reader->in_use))
        return tn__no_memory(reader->error, "the ids of a trace");
    reader->in_use[count] = (trace_use){.block = UINT32_MAX};
    return TN_OK;
}

/* Finds the number of the row's label; rows with equal names share one label. */
static tn_status trace_label(trace_reader *reader, uint32_t *label) {
    tn_pool_trace *trace = reader->trace;
    trace_field parts[] = {trace_get(reader, TRACE_NAME), trace_get(reader, TRACE_KIND),
                           trace_get(reader, TRACE_OP)};
    const char *words[3];
    *label = 0;
    if (parts[0].length + parts[1].length + parts[2].length == 0) return TN_OK;
    reader->key.size = 0;
    for (int i = 0; i < 3; i++) {
        tn__text_add(&reader->key, parts[i].text, parts[i].length);
        tn__text_add(&reader->key, ",", 1);
    }
    if (reader->key.failed) return tn__no_memory(reader->error, "the names of a trace");
    *label = tn__names_find(&reader->labels, reader->key.data, reader->key.size);
    if (*label != TN__NAMES_NONE) return TN_OK;
    char *key = tn__arena_string(&trace->words, reader->key.data, reader->key.size);
    for (int i = 0; i < 3; i++)
        words[i] = tn__arena_string(&trace->words, parts[i].text, parts[i].length);
    *label = (uint32_t)trace->label_count;
    if (key == NULL || words[0] == NULL || words[1] == NULL || words[2] == NULL ||
        !tn__reserve(&trace->context, &trace->labels, &trace->label_room, trace->label_count + 1,
                     sizeof *trace->labels) ||
        !tn__names_add(&reader->labels, key, reader->key.size, *label, NULL))
        return tn__no_memory(reader->error, "the names of a trace");
    trace->labels[trace->label_count++] = (tn_pool_label){words[0], words[1], words[2]};
    return TN_OK;
}

/* Finds the number of the row's stream. RMM writes streams as words or addresses, so they are
 * numbered as they appear. */
static tn_status trace_stream(trace_reader *reader, uint32_t *stream) {
    trace_field field = trace_get(reader, TRACE_STREAM);
    uint64_t number;
    if (reader->is_rmm) {
        uint32_t count = (uint32_t)reader->streams.count, existing;
        if (!tn__names_add(&reader->streams, field.text, field.length, count, &existing))
            return tn__no_memory(reader->error, "the streams of a trace");
        *stream = existing != TN__NAMES_NONE ? existing : count;
        return TN_OK;
    }
    if (!trace_number(field, &number) || number > UINT32_MAX)
        return trace_fail(reader, "'%.*s' is not a stream: write a whole number", field);
    *stream = (uint32_t)number;
    return TN_OK;
}

static tn_status trace_add(trace_reader *reader, const tn_pool_event *event) {
    tn_pool_trace *trace = reader->trace;
    if (!tn__reserve(&trace->context, &trace->events, &trace->event_room, trace->event_count + 1,
                     sizeof *trace->events))
        return tn__no_memory(reader->error, "the events of a trace");
    trace->events[trace->event_count++] = *event;
    return TN_OK;
}

static tn_status trace_alloc(trace_reader *reader) {
    tn_pool_trace *trace = reader->trace;
    tn_pool_event event = {.block = trace->block_count};
    trace_field id = trace_get(reader, TRACE_ID), size = trace_get(reader, TRACE_SIZE),
                alignment = trace_get(reader, TRACE_ALIGNMENT),
                lifetime = trace_get(reader, TRACE_LIFETIME);
    uint32_t place = 0;
    if (size.length == 0 || !trace_number(size, &event.size))
        return trace_fail(reader, "'%.*s' is not a size: write a whole number of bytes", size);
    if (reader->is_rmm && event.size == 0) return trace->skipped++, TN_OK;
    if (!trace_number(alignment, &event.alignment) ||
        (event.alignment & (event.alignment - 1)) != 0 || event.alignment > 1ull << 30)
        return trace_fail(reader, "'%.*s' is not an alignment: a power of two up to 2^30",
                          alignment);
    if (trace_is(lifetime, "long"))
        event.flags = TN_POOL_LONG_LIVED;
    else if (lifetime.length != 0 && !trace_is(lifetime, "short"))
        return trace_fail(reader, "'%.*s' is not a lifetime: long or short", lifetime);
    TN_TRY(trace_stream(reader, &event.stream));
    TN_TRY(trace_label(reader, &event.label));
    TN_TRY(trace_id(reader, id, &place));
    if (reader->in_use[place].block != UINT32_MAX)
        return trace_fail(reader, "'%.*s' is allocated twice without a free between", id);
    if (trace->block_count == UINT32_MAX - 1)
        return trace_fail(reader, "the trace has more than 2^32 blocks, from '%.*s' on", id);
    reader->in_use[place] = (trace_use){trace->block_count++, event.stream};
    return trace_add(reader, &event);
}

static tn_status trace_free(trace_reader *reader) {
    trace_field id = trace_get(reader, TRACE_ID);
    uint32_t place = tn__names_find(&reader->ids, id.text, id.length);
    if (place == TN__NAMES_NONE || reader->in_use[place].block == UINT32_MAX) {
        if (!reader->is_rmm) return trace_fail(reader, "'%.*s' is freed and is not in use", id);
        reader->trace->skipped++;
        return TN_OK;
    }
    tn_pool_event event = {.block = reader->in_use[place].block,
                           .stream = reader->in_use[place].stream,
                           .frees = true};
    if (trace_get(reader, TRACE_STREAM).length > 0) TN_TRY(trace_stream(reader, &event.stream));
    reader->in_use[place].block = UINT32_MAX;
    return trace_add(reader, &event);
}

static tn_status trace_read(trace_reader *reader) {
    bool fits;
    TN_TRY(trace_header(reader));
    while (trace_row(reader, &fits)) {
        trace_field action = trace_get(reader, TRACE_ACTION);
        if (!fits) return trace_fail(reader, "the row from '%.*s' on has too many fields", action);
        if (reader->field_count == 1 && reader->fields[0].length == 0) continue;
        if (trace_is(action, "alloc") || trace_is(action, "allocate"))
            TN_TRY(trace_alloc(reader));
        else if (trace_is(action, "free") || trace_is(action, "deallocate"))
            TN_TRY(trace_free(reader));
        else if (reader->is_rmm && trace_is(action, "allocate failure"))
            reader->trace->skipped++;
        else
            return trace_fail(reader, "'%.*s' is not an action: alloc or free", action);
    }
    return TN_OK;
}

/* --- loading and creating a trace --- */

tn_status tn_pool_trace_load_memory(const char *name, const void *bytes, size_t size,
                                    const tn_context *given, tn_pool_trace **trace,
                                    tn_error *error) {
    tn_context context = tn__context(given);
    tn_pool_trace *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a trace");
    made->context = context;
    tn__arena_init(&made->words, &made->context);
    trace_reader reader = {
        .trace = made, .name = name, .next = size > 0 ? bytes : "", .error = error};
    reader.end = reader.next + size;
    tn__names_init(&reader.ids, &made->context);
    tn__names_init(&reader.labels, &made->context);
    tn__names_init(&reader.streams, &made->context);
    tn__text_init(&reader.key, &made->context);
    tn_status status = TN_OK;
    if (tn__reserve(&made->context, &made->labels, &made->label_room, 1, sizeof *made->labels)) {
        made->labels[made->label_count++] = (tn_pool_label){"", "", ""};
        status = trace_read(&reader);
    } else {
        status = tn__no_memory(error, "a trace");
    }
    tn__text_release(&reader.key);
    tn__names_release(&reader.streams);
    tn__names_release(&reader.labels);
    tn__names_release(&reader.ids);
    tn__free(&made->context, reader.in_use, reader.in_use_room * sizeof *reader.in_use);
    if (status == TN_OK)
        *trace = made;
    else
        tn_pool_trace_destroy(made);
    return status;
}

tn_status tn_pool_trace_load(const char *path, const tn_context *context, tn_pool_trace **trace,
                             tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_most(path, tn__context(context).read_limit, &file, error));
    tn_status status =
        tn_pool_trace_load_memory(path, file.bytes, file.size, context, trace, error);
    tn__file_unmap(&file);
    return status;
}

/* Checks events from a caller as strictly as those from a file. in_use: one bit per block. */
static tn_status trace_check(const tn_pool_event *events, uint64_t count, uint32_t label_count,
                             uint8_t *in_use, uint32_t *blocks, tn_error *error) {
    for (uint64_t i = 0; i < count; i++) {
        const tn_pool_event *event = &events[i];
        uint8_t bit = (uint8_t)(1u << event->block % 8);
        bool is_known = event->block < *blocks,
             fits =
                 event->alignment <= 1ull << 30 && (event->alignment & (event->alignment - 1)) == 0;
        if (event->frees ? !is_known || !(in_use[event->block / 8] & bit)
                         : event->block != *blocks || event->label >= label_count || !fits)
            return tn__where(error,
                             tn__fail(error, TN_E_INVALID, "block %u cannot be %s here",
                                      event->block, event->frees ? "freed" : "allocated"),
                             "event %" PRIu64, i);
        in_use[event->block / 8] ^= bit;
        if (!event->frees) (*blocks)++;
    }
    return TN_OK;
}

tn_status tn_pool_trace_create(const tn_pool_event *events, uint64_t count,
                               const tn_pool_label *labels, uint32_t label_count,
                               const tn_context *given, tn_pool_trace **trace, tn_error *error) {
    tn_context context = tn__context(given);
    size_t bits = (size_t)(count / 8) + 1;
    tn_pool_trace *made = tn__alloc_array(&context, 1, sizeof *made);
    uint8_t *in_use = tn__alloc_array(&context, bits, 1);
    tn_status status = TN_OK;
    if (made != NULL) {
        made->context = context;
        tn__arena_init(&made->words, &made->context);
    }
    if (made == NULL || in_use == NULL) {
        status = tn__no_memory(error, "a trace");
        goto done;
    }
    TN_TRY_DONE(trace_check(events, count, label_count, in_use, &made->block_count, error));
    if (!tn__reserve(&context, &made->events, &made->event_room, (size_t)count + 1,
                     sizeof *made->events) ||
        !tn__reserve(&context, &made->labels, &made->label_room, (size_t)label_count + 1,
                     sizeof *made->labels)) {
        status = tn__no_memory(error, "a trace");
        goto done;
    }
    if (count > 0) memcpy(made->events, events, (size_t)count * sizeof *events);
    if (label_count > 0) memcpy(made->labels, labels, label_count * sizeof *labels);
    made->event_count = (size_t)count;
    made->label_count = label_count;
done:
    tn__free(&context, in_use, bits);
    if (status == TN_OK)
        *trace = made;
    else
        tn_pool_trace_destroy(made);
    return status;
}

void tn_pool_trace_destroy(tn_pool_trace *trace) {
    if (trace == NULL) return;
    tn_context context = trace->context;
    tn__arena_release(&trace->words);
    tn__free(&context, trace->labels, trace->label_room * sizeof *trace->labels);
    tn__free(&context, trace->events, trace->event_room * sizeof *trace->events);
    tn__free(&context, trace, sizeof *trace);
}

const tn_pool_event *tn_pool_trace_events(const tn_pool_trace *trace, uint64_t *count) {
    *count = trace->event_count;
    return trace->events;
}

uint32_t tn_pool_trace_block_count(const tn_pool_trace *trace) { return trace->block_count; }

const tn_pool_label *tn_pool_trace_label(const tn_pool_trace *trace, uint32_t label) {
    return &trace->labels[label];
}

uint64_t tn_pool_trace_skipped(const tn_pool_trace *trace) { return trace->skipped; }

/* --- replaying --- */

static tn_status trace_tags(tn_pool *pool, const tn_pool_trace *trace, uint32_t *tags,
                            tn_error *error) {
    for (size_t i = 1; i < trace->label_count; i++)
        TN_TRY(tn_pool_tag(pool, &trace->labels[i], &tags[i], error));
    return TN_OK;
}

static tn_status trace_replay(tn_pool *pool, const tn_pool_trace *trace, const uint32_t *tags,
                              uint64_t *ids, uint64_t *reserved, tn_error *error) {
    for (size_t i = 0; i < trace->event_count; i++) {
        const tn_pool_event *event = &trace->events[i];
        tn_pool_request request = {.size = event->size,
                                   .alignment = event->alignment,
                                   .stream = event->stream,
                                   .flags = event->flags,
                                   .tag = tags[event->label]};
        tn_allocation block;
        tn_status status = event->frees ? tn_pool_free(pool, ids[event->block], error)
                                        : tn_pool_alloc(pool, &request, &block, error);
        if (status != TN_OK) return tn__where(error, status, "event %zu", i);
        if (!event->frees) ids[event->block] = block.id;
        if (reserved != NULL) reserved[i] = tn__pool_reserved(pool);
    }
    return TN_OK;
}

tn_status tn_pool_replay(tn_pool *pool, const tn_pool_trace *trace, uint64_t *reserved,
                         tn_error *error) {
    const tn_context *context = &pool->context;
    uint64_t *ids = tn__alloc_array(context, trace->block_count, sizeof *ids);
    uint32_t *tags = tn__alloc_array(context, trace->label_count, sizeof *tags);
    tn_status status = ids == NULL || tags == NULL ? tn__no_memory(error, "a replay") : TN_OK;
    if (status == TN_OK) status = trace_tags(pool, trace, tags, error);
    if (status == TN_OK) status = trace_replay(pool, trace, tags, ids, reserved, error);
    tn__free(context, tags, trace->label_count * sizeof *tags);
    tn__free(context, ids, trace->block_count * sizeof *ids);
    return status;
}
