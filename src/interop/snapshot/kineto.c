/* kineto.c - reads the memory events in a trace of PyTorch's profiler as the events of a snapshot.
 *
 *     {"traceEvents": [
 *       {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
 *        "ts": 10.5, "dur": 25},
 *       {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 11, "args": {"Addr": 4096,
 *        "Bytes": 512, "Device Type": 1, "Device Id": 0, "Total Allocated": 512, "Ev Idx": 7}}]}
 *
 * Such a trace often has gigabytes, so the text is scanned event by event and no JSON tree is made.
 * Rows are not in order of time, so they are sorted by time and "Ev Idx". The bytes of a free are
 * negative. The stack of a memory event is the list of operators, annotations and Python functions
 * of its thread that cover its time. A profile begins in the middle of a run. The first "Total
 * Allocated" of a device states the bytes that were allocated before; the part of them that is
 * never freed becomes one block.
 *
 * The devices are numbered by type and ordinal; the CPU comes last.
 *
 * Source: PyTorch, torch/csrc/profiler/kineto_shim.cpp; traces that the profiler wrote.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "interop/snapshot/snapshot.h"

#define KINETO_EVENT_MOST ((size_t)1 << 20)
#define KINETO_EVENTS_MAX 100000000u
#define KINETO_WORD_MOST 4096u
enum { KINETO_DEPTH = 64, KINETO_FRAMES = 64, KINETO_SCANNED = 1024, KINETO_DEVICES = 1024 };

/* --- scanning JSON in place --- */

typedef struct kineto_scan {
    const uint8_t *start, *at, *end;
    tn_error *error;
} kineto_scan;

/* the bytes of a string between its quotes, or of a number or word; they lie in the file */
typedef struct kineto_text {
    const char *bytes;
    size_t size;
    bool quoted;
} kineto_text;

static tn_status kineto_bad(const kineto_scan *scan, const char *what) {
    TN_FAIL(scan->error, TN_E_INVALID, "byte %zu: %s", (size_t)(scan->at - scan->start), what);
}

static uint8_t kineto_peek(kineto_scan *scan) {
    while (scan->at < scan->end &&
           (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
    return scan->at < scan->end ? *scan->at : 0;
}

static tn_status kineto_expect(kineto_scan *scan, char letter) {
    char what[32];
    if (kineto_peek(scan) == (uint8_t)letter) return scan->at++, TN_OK;
    snprintf(what, sizeof what, "no '%c' where one must be", letter);
    return kineto_bad(scan, scan->at == scan->end ? "the file ends inside a value" : what);
}

/* Reads a string; the scan stands at its opening quote. */
static tn_status kineto_string(kineto_scan *scan, kineto_text *text) {
    const uint8_t *begin = ++scan->at;
    while (scan->at < scan->end && *scan->at != '"') {
        if (*scan->at < ' ') return kineto_bad(scan, "a control character in a string");
        scan->at += *scan->at == '\\' && scan->at + 1 < scan->end ? 2 : 1;
    }
    if (scan->at >= scan->end) return kineto_bad(scan, "the file ends inside a string");
    *text = (kineto_text){(const char *)begin, (size_t)(scan->at - begin), true};
    scan->at++;
    return TN_OK;
}

/* Reads a number, true, false or null. */
static tn_status kineto_word(kineto_scan *scan, kineto_text *text) {
    const uint8_t *begin = scan->at;
    while (scan->at < scan->end &&
           (strchr("+-.", *scan->at) != NULL || (*scan->at >= '0' && *scan->at <= '9') ||
            (*scan->at >= 'a' && *scan->at <= 'z') || (*scan->at >= 'A' && *scan->at <= 'Z')) &&
           *scan->at != 0)
        scan->at++;
    if (scan->at == begin)
        return kineto_bad(scan, scan->at == scan->end ? "the file ends inside a value"
                                                      : "no value where one must be");
    *text = (kineto_text){(const char *)begin, (size_t)(scan->at - begin), false};
    return TN_OK;
}

/* Skips a value of any kind. Nested values need no recursion. */
static tn_status kineto_skip(kineto_scan *scan) {
    char closes[KINETO_DEPTH];
    uint32_t depth = 0;
    kineto_text text;
    do {
        uint8_t letter = kineto_peek(scan);
        if (letter == '{' || letter == '[') {
            if (depth == KINETO_DEPTH) return kineto_bad(scan, "more than 64 values in each other");
            closes[depth++] = letter == '{' ? '}' : ']';
            scan->at++;
        } else if (letter == '}' || letter == ']') {
            if (depth == 0 || closes[depth - 1] != (char)letter)
                return kineto_bad(scan, "a bracket that closes nothing");
            depth--;
            scan->at++;
        } else if (letter == '"') {
            TN_TRY(kineto_string(scan, &text));
        } else if (depth > 0 && (letter == ',' || letter == ':')) {
            scan->at++;
        } else {
            TN_TRY(kineto_word(scan, &text));
        }
    } while (depth > 0);
    return TN_OK;
}

/* Moves to the next member of an object or item of a list; *more is false after the last one.
 * *first must be true before the first call. */
static tn_status kineto_next(kineto_scan *scan, char close, bool *first, bool *more) {
    uint8_t letter = kineto_peek(scan);
    *more = letter != (uint8_t)close;
    if (!*more) return scan->at++, TN_OK;
    if (!*first) {
        TN_TRY(kineto_expect(scan, ','));
        if (kineto_peek(scan) == (uint8_t)close)
            return *more = false, scan->at++, TN_OK; /* a comma after the last item is accepted */
    }
    *first = false;
    return TN_OK;
}

static tn_status kineto_key(kineto_scan *scan, kineto_text *key) {
    if (kineto_peek(scan) != '"') return kineto_bad(scan, "a member without a name");
    TN_TRY(kineto_string(scan, key));
    return kineto_expect(scan, ':');
}

/* Reads a string, number or word. An object or list is skipped, and text->bytes is NULL. */
static tn_status kineto_simple(kineto_scan *scan, kineto_text *text) {
    uint8_t letter = kineto_peek(scan);
    *text = (kineto_text){0};
    if (letter == '{' || letter == '[') return kineto_skip(scan);
    return letter == '"' ? kineto_string(scan, text) : kineto_word(scan, text);
}

static bool kineto_is(kineto_text text, const char *word) {
    return text.size == strlen(word) && memcmp(text.bytes, word, text.size) == 0;
}

/* --- numbers --- */

static tn_status kineto_integer(const kineto_scan *scan, kineto_text text, const char *what,
                                int64_t *value) {
    const char *at = text.bytes;
    size_t left = text.size;
    if (text.size > 0 && tn__take_integer(&at, &left, value) && left == 0) return TN_OK;
    TN_FAIL(scan->error, TN_E_INVALID, "byte %zu: %s is no whole number of 64 bits: %.*s",
            (size_t)(scan->at - scan->start), what, text.size < 40 ? (int)text.size : 40,
            text.size > 0 ? text.bytes : "");
}

/* Reads an address, with or without quotes. It is not read as an int64_t, because addresses can
 * exceed 2^63. */
static tn_status kineto_address(const kineto_scan *scan, kineto_text text, uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint64_t digit = (uint64_t)(uint8_t)text.bytes[i] - '0';
        if (digit > 9 || *value > (UINT64_MAX - digit) / 10)
            return kineto_bad(scan, "Addr is no whole number of 64 bits");
        *value = 10 * *value + digit;
    }
    return text.size > 0 ? TN_OK : kineto_bad(scan, "Addr is empty");
}

/* Converts microseconds with decimals to nanoseconds. A double would lose the decimals, because
 * times count from 1970. */
static tn_status kineto_time(const kineto_scan *scan, kineto_text text, int64_t *ns) {
    const char *at = text.bytes;
    size_t left = text.size;
    int64_t whole = 0, part = 0, unit = 100;
    char copy[64];
    bool minus = left > 0 && *at == '-';
    if (left > 0 && tn__take_integer(&at, &left, &whole) && whole < INT64_MAX / 2000 &&
        whole > INT64_MIN / 2000 && (left == 0 || *at == '.')) {
        for (size_t i = 1; i < left && at[i] >= '0' && at[i] <= '9'; i++, unit /= 10)
            part += (at[i] - '0') * unit;
        *ns = whole * 1000 + (minus ? -part : part);
        return TN_OK;
    }
    if (text.size >= sizeof copy) return kineto_bad(scan, "a time that is too long");
    memcpy(copy, text.bytes, text.size);
    copy[text.size] = 0;
    char *stop;
    double value = strtod(copy, &stop);
    if (text.size == 0 || *stop != 0 || !isfinite(value) || fabs(value) > 4e15)
        return kineto_bad(scan, "a time is no number, or it is above 4e15 microseconds");
    *ns = (int64_t)(value * 1000);
    return TN_OK;
}

/* --- rows --- */

typedef struct kineto_memory {
    int64_t time, number; /* time in nanoseconds; number: the row's "Ev Idx" */
    int64_t bytes, total; /* total: the row's "Total Allocated", or INT64_MIN if it has none */
    uint64_t address;
    uint32_t row, thread, stack, device;
} kineto_memory;

typedef struct kineto_range { /* an operator, annotation or Python function */
    int64_t start, end;
    uint32_t thread, frame;
} kineto_range;

typedef struct kineto_event {
    kineto_text name, phase, category, pid, tid, time, duration;
    kineto_text bytes, address, type, ordinal, total, number;
} kineto_event;

typedef struct kineto_device {
    int32_t type, ordinal;
    /* `count`: number of rows of the device; `freed`: bytes that were allocated before the profile
     * began and freed during it */
    uint64_t count, freed;
} kineto_device;

typedef struct kineto_reading {
    tn_snapshot *snapshot;
    kineto_scan scan;
    kineto_memory *memory;
    kineto_range *ranges;
    size_t memory_count, memory_room, range_count, range_room;
    uint64_t events;
    tn__names threads, words;
    const char **texts;
    size_t text_count, text_room;
    uint32_t thread_count, device_count;
    bool is_plain; /* written by a PyTorch without Kineto, such as Debian's */
    kineto_device devices[KINETO_DEVICES];
    tn_error *error;
} kineto_reading;

static tn_status kineto_no_memory(const kineto_reading *reading) {
    return tn__no_memory(reading->error, "a profile");
}

static tn_status kineto_arguments(kineto_scan *scan, kineto_event *event) {
    bool first = true, more;
    kineto_text key, value;
    if (kineto_peek(scan) != '{') return kineto_skip(scan);
    scan->at++;
    for (;;) {
        TN_TRY(kineto_next(scan, '}', &first, &more));
        if (!more) return TN_OK;
        TN_TRY(kineto_key(scan, &key));
        TN_TRY(kineto_simple(scan, &value));
        if (kineto_is(key, "Bytes")) event->bytes = value;
        if (kineto_is(key, "Addr")) event->address = value;
        if (kineto_is(key, "Device Type")) event->type = value;
        if (kineto_is(key, "Device Id")) event->ordinal = value;
        if (kineto_is(key, "Total Allocated")) event->total = value;
        if (kineto_is(key, "Ev Idx")) event->number = value;
    }
}

static tn_status kineto_fields(kineto_scan *scan, kineto_event *event) {
    bool first = true, more;
    kineto_text key, value;
    TN_TRY(kineto_expect(scan, '{'));
    for (;;) {
        TN_TRY(kineto_next(scan, '}', &first, &more));
        if (!more) return TN_OK;
        TN_TRY(kineto_key(scan, &key));
        if (kineto_is(key, "args")) {
            TN_TRY(kineto_arguments(scan, event));
            continue;
        }
        TN_TRY(kineto_simple(scan, &value));
        if (kineto_is(key, "name")) event->name = value;
        if (kineto_is(key, "ph")) event->phase = value;
        if (kineto_is(key, "cat")) event->category = value;
        if (kineto_is(key, "pid")) event->pid = value;
        if (kineto_is(key, "tid")) event->tid = value;
        if (kineto_is(key, "ts")) event->time = value;
        if (kineto_is(key, "dur")) event->duration = value;
    }
}

/* Returns the number of a thread, which is identified by its "pid" and "tid". */
static tn_status kineto_thread(kineto_reading *reading, const kineto_event *event,
                               uint32_t *thread) {
    char key[200];
    int size =
        snprintf(key, sizeof key, "%.*s %.*s", event->pid.size < 90 ? (int)event->pid.size : 90,
                 event->pid.size > 0 ? event->pid.bytes : "",
                 event->tid.size < 90 ? (int)event->tid.size : 90,
                 event->tid.size > 0 ? event->tid.bytes : "");
    *thread = tn__names_find(&reading->threads, key, (size_t)size);
    if (*thread != TN__NAMES_NONE) return TN_OK;
    const char *copy = tn__arena_string(&reading->snapshot->arena, key, (size_t)size);
    *thread = reading->thread_count++;
    if (copy == NULL || !tn__names_add(&reading->threads, copy, (size_t)size, *thread, NULL))
        return kineto_no_memory(reading);
    return TN_OK;
}

static tn_status kineto_device_of(kineto_reading *reading, int64_t type, int64_t ordinal,
                                  uint32_t *device) {
    if (type < 0 || type > 255 || ordinal < -1 || ordinal > 65535)
        return kineto_bad(&reading->scan, "a device with a number that no device has");
    if (type == 0) ordinal = 0; /* the CPU is one device, but traces number it -1 or 0 */
    for (uint32_t i = 0; i < reading->device_count; i++)
        if (reading->devices[i].type == type && reading->devices[i].ordinal == ordinal)
            return *device = i, TN_OK;
    if (reading->device_count == KINETO_DEVICES)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "more than 1024 devices");
    *device = reading->device_count++;
    reading->devices[*device] = (kineto_device){.type = (int32_t)type, .ordinal = (int32_t)ordinal};
    return TN_OK;
}

static tn_status kineto_add_memory(kineto_reading *reading, const kineto_event *event) {
    const kineto_scan *scan = &reading->scan;
    kineto_memory row = {.total = INT64_MIN};
    int64_t type = 0, ordinal = 0;
    if (event->bytes.bytes == NULL || event->address.bytes == NULL || event->time.bytes == NULL)
        return kineto_bad(scan, "a memory event without ts, Bytes or Addr");
    TN_TRY(kineto_integer(scan, event->bytes, "Bytes", &row.bytes));
    TN_TRY(kineto_address(scan, event->address, &row.address));
    TN_TRY(kineto_time(scan, event->time, &row.time));
    if (event->type.bytes != NULL) TN_TRY(kineto_integer(scan, event->type, "Device Type", &type));
    if (event->ordinal.bytes != NULL)
        TN_TRY(kineto_integer(scan, event->ordinal, "Device Id", &ordinal));
    if (event->total.bytes != NULL)
        TN_TRY(kineto_integer(scan, event->total, "Total Allocated", &row.total));
    if (event->number.bytes != NULL)
        TN_TRY(kineto_integer(scan, event->number, "Ev Idx", &row.number));
    if (row.bytes == INT64_MIN) return kineto_bad(scan, "Bytes is out of range");
    if (row.bytes == 0) return TN_OK;
    TN_TRY(kineto_device_of(reading, type, ordinal, &row.device));
    TN_TRY(kineto_thread(reading, event, &row.thread));
    row.row = (uint32_t)reading->memory_count;
    if (!tn__reserve(&reading->snapshot->context, &reading->memory, &reading->memory_room,
                     reading->memory_count + 1, sizeof row))
        return kineto_no_memory(reading);
    reading->memory[reading->memory_count++] = row;
    reading->devices[row.device].count++;
    return TN_OK;
}

/* --- frames --- */

static tn_status kineto_intern(kineto_reading *reading, const char *bytes, size_t size,
                               uint32_t *number) {
    size_t cut = size > KINETO_WORD_MOST ? size - KINETO_WORD_MOST : 0;
    bytes += cut;
    size -= cut;
    *number = tn__names_find(&reading->words, bytes, size);
    if (*number != TN__NAMES_NONE) return TN_OK;
    const char *copy = tn__arena_string(&reading->snapshot->arena, bytes, size);
    *number = (uint32_t)reading->text_count;
    if (copy == NULL ||
        !tn__reserve(&reading->snapshot->context, &reading->texts, &reading->text_room,
                     reading->text_count + 1, sizeof *reading->texts) ||
        !tn__names_add(&reading->words, copy, size, *number, NULL))
        return kineto_no_memory(reading);
    reading->texts[reading->text_count++] = copy;
    return TN_OK;
}

/* Splits the name of a Python function, such as "train.py(12): forward", into file, line and
 * function. False: the name has another form. */
static bool kineto_python(kineto_text name, kineto_text *file, int64_t *line,
                          kineto_text *function) {
    for (size_t at = name.size; at > 4; at--) {
        const char *end = name.bytes + at - 3;
        if (memcmp(end, "): ", 3) != 0) continue;
        size_t open = at - 3;
        while (open > 0 && name.bytes[open - 1] >= '0' && name.bytes[open - 1] <= '9') open--;
        const char *digits = name.bytes + open;
        size_t left = (size_t)(end - digits);
        if (open < 2 || name.bytes[open - 1] != '(' || left == 0 || left > 9) continue;
        if (!tn__take_integer(&digits, &left, line)) continue;
        *file = (kineto_text){name.bytes, open - 1, true};
        *function = (kineto_text){name.bytes + at, name.size - at, true};
        return true;
    }
    return false;
}

static tn_status kineto_frame(kineto_reading *reading, const kineto_event *event, uint32_t *frame) {
    tn__stack_frame made = {0};
    kineto_text file = {"", 0, true}, function = event->name;
    if (!kineto_python(event->name, &file, &made.line, &function))
        file = kineto_is(event->category, "user_annotation") ? (kineto_text){"annotation", 10, true}
                                                             : (kineto_text){"operator", 8, true};
    TN_TRY(kineto_intern(reading, file.bytes, file.size, &made.file));
    TN_TRY(kineto_intern(reading, function.bytes, function.size, &made.function));
    if (!tn__stacks_frame(&reading->snapshot->stacks, made, frame))
        return kineto_no_memory(reading);
    return TN_OK;
}

static bool kineto_covers(kineto_text category) {
    static const char *const known[] = {"cpu_op", "Operator", "operator", "user_annotation",
                                        "python_function"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (kineto_is(category, known[i])) return true;
    return category.bytes == NULL; /* the oldest traces have no categories */
}

static tn_status kineto_add_range(kineto_reading *reading, const kineto_event *event) {
    kineto_range row = {0};
    int64_t duration = 0;
    if (event->name.bytes == NULL || event->time.bytes == NULL) return TN_OK;
    TN_TRY(kineto_time(&reading->scan, event->time, &row.start));
    if (event->duration.bytes != NULL)
        TN_TRY(kineto_time(&reading->scan, event->duration, &duration));
    if (duration < 0) return kineto_bad(&reading->scan, "an event with a negative duration");
    row.end = row.start + duration; /* cannot overflow, because start and duration are below 2^62 */
    TN_TRY(kineto_thread(reading, event, &row.thread));
    TN_TRY(kineto_frame(reading, event, &row.frame));
    if (!tn__reserve(&reading->snapshot->context, &reading->ranges, &reading->range_room,
                     reading->range_count + 1, sizeof row))
        return kineto_no_memory(reading);
    reading->ranges[reading->range_count++] = row;
    return TN_OK;
}

static tn_status kineto_add(kineto_reading *reading) {
    kineto_scan *scan = &reading->scan;
    const uint8_t *begin = scan->at;
    kineto_event event = {0};
    if (kineto_peek(scan) != '{') return kineto_skip(scan);
    if (reading->events++ == KINETO_EVENTS_MAX)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "more than 10^8 events");
    TN_TRY(kineto_fields(scan, &event));
    if ((size_t)(scan->at - begin) > KINETO_EVENT_MOST)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "byte %zu: an event of more than 1 MiB",
                (size_t)(begin - scan->start));
    if (kineto_is(event.name, "[memory]")) return kineto_add_memory(reading, &event);
    if (kineto_is(event.pid, "CPU functions")) reading->is_plain = true;
    if (kineto_is(event.phase, "X") && kineto_covers(event.category))
        return kineto_add_range(reading, &event);
    return TN_OK;
}

static tn_status kineto_list(kineto_reading *reading) {
    bool first = true, more;
    TN_TRY(kineto_expect(&reading->scan, '['));
    for (;;) {
        TN_TRY(kineto_next(&reading->scan, ']', &first, &more));
        if (!more) return TN_OK;
        TN_TRY(kineto_add(reading));
    }
}

static tn_status kineto_whole(kineto_reading *reading) {
    bool first = true, more, found = false;
    kineto_scan *scan = &reading->scan;
    kineto_text key;
    if (kineto_peek(scan) == '[') return kineto_list(reading);
    TN_TRY(kineto_expect(scan, '{'));
    for (;;) {
        TN_TRY(kineto_next(scan, '}', &first, &more));
        if (!more) break;
        TN_TRY(kineto_key(scan, &key));
        if (kineto_is(key, "traceEvents") && found)
            return kineto_bad(scan, "traceEvents is given twice");
        bool events = kineto_is(key, "traceEvents");
        found = found || events;
        TN_TRY(events ? kineto_list(reading) : kineto_skip(scan));
    }
    if (found) return TN_OK;
    TN_FAIL(reading->error, TN_E_INVALID,
            "this JSON has no traceEvents, so it is no trace of PyTorch's profiler");
}

/* --- stacks of memory events --- */

static int kineto_by_thread(const void *a, const void *b) {
    const kineto_memory *x = a, *y = b;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Orders ranges by their begin. Of two that begin at one time, the longer one contains the other
 * and comes first. */
static int kineto_range_order(const void *a, const void *b) {
    const kineto_range *x = a, *y = b;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    if (x->end != y->end) return x->end > y->end ? -1 : 1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Makes the stack of a time: those of the ranges open[count] that cover it, innermost first. */
static tn_status kineto_stack(kineto_reading *reading, const uint32_t *open, size_t count,
                              kineto_memory *row) {
    uint32_t frames[KINETO_FRAMES], found = 0;
    for (size_t i = 0; i < count && i < KINETO_SCANNED && found < KINETO_FRAMES; i++) {
        const kineto_range *range = &reading->ranges[open[count - 1 - i]];
        if (range->end >= row->time) frames[found++] = range->frame;
    }
    if (!tn__stacks_stack(&reading->snapshot->stacks, frames, found, &row->stack))
        return kineto_no_memory(reading);
    return TN_OK;
}

static tn_status kineto_stacks(kineto_reading *reading) {
    const tn_context *context = &reading->snapshot->context;
    size_t room = reading->range_count + 1, count = 0, next = 0;
    uint32_t *open = tn__alloc_array(context, room, sizeof *open);
    tn_status status = open != NULL ? TN_OK : kineto_no_memory(reading);
    qsort(reading->memory, reading->memory_count, sizeof *reading->memory, kineto_by_thread);
    if (reading->range_count > 0)
        qsort(reading->ranges, reading->range_count, sizeof *reading->ranges, kineto_range_order);
    for (size_t i = 0; i < reading->memory_count && status == TN_OK; i++) {
        kineto_memory *row = &reading->memory[i];
        for (; next < reading->range_count; next++) {
            const kineto_range *range = &reading->ranges[next];
            if (range->thread > row->thread ||
                (range->thread == row->thread && range->start > row->time))
                break;
            if (range->thread < row->thread) continue;
            if (count > 0 && reading->ranges[open[0]].thread != row->thread) count = 0;
            while (count > 0 && reading->ranges[open[count - 1]].end < range->start) count--;
            open[count++] = (uint32_t)next;
        }
        if (count > 0 && reading->ranges[open[0]].thread != row->thread) count = 0;
        while (count > 0 && reading->ranges[open[count - 1]].end < row->time) count--;
        status = kineto_stack(reading, open, count, row);
    }
    tn__free(context, open, open != NULL ? room * sizeof *open : 0);
    return status;
}

/* --- making the snapshot of the rows --- */

static int kineto_device_order(const void *a, const void *b) {
    const kineto_device *x = a, *y = b;
    bool cpu = x->type == 0, other = y->type == 0;
    if (cpu != other) return cpu ? 1 : -1;
    if (x->type != y->type) return x->type < y->type ? -1 : 1;
    return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

static int kineto_by_time(const void *a, const void *b) {
    const kineto_memory *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int kineto_by_address(const void *a, const void *b) {
    const kineto_memory *x = a, *y = b;
    if (x->device == y->device && x->address != y->address) return x->address < y->address ? -1 : 1;
    return kineto_by_time(a, b);
}

/* Adds up the bytes of blocks that were allocated before the profile began: those of frees without
 * an earlier allocation at their address. */
static void kineto_find_older(kineto_reading *reading) {
    bool held = false;
    qsort(reading->memory, reading->memory_count, sizeof *reading->memory, kineto_by_address);
    for (size_t i = 0; i < reading->memory_count; i++) {
        const kineto_memory *row = &reading->memory[i];
        bool same = i > 0 && row[-1].device == row->device && row[-1].address == row->address;
        uint64_t *freed = &reading->devices[row->device].freed;
        if (row->bytes < 0 && !(same && held)) *freed = tn__add_sat(*freed, (uint64_t)-row->bytes);
        held = row->bytes > 0;
    }
}

static const char *kineto_type(int32_t type) {
    switch (type) { /* c10::DeviceType */
    case 1:
        return "cuda";
    case 6:
        return "hip";
    case 9:
        return "xla";
    case 12:
        return "xpu";
    case 13:
        return "mps";
    case 15:
        return "hpu";
    case 19:
        return "mtia";
    default:
        return NULL;
    }
}

static const char *kineto_name(tn_snapshot *snapshot, const kineto_device *device) {
    char name[40];
    const char *type = kineto_type(device->type);
    int size = device->type == 0 ? snprintf(name, sizeof name, "cpu")
               : type != NULL    ? snprintf(name, sizeof name, "%s:%d", type, device->ordinal)
                                 : snprintf(name, sizeof name, "device type %d:%d", device->type,
                                            device->ordinal);
    return tn__arena_string(&snapshot->arena, name, (size_t)size);
}

/* Numbers the devices by type and ordinal, and sorts the rows by device and time. */
static void kineto_sort(kineto_reading *reading) {
    kineto_device sorted[KINETO_DEVICES];
    uint32_t numbers[KINETO_DEVICES];
    uint32_t count = reading->device_count;
    memcpy(sorted, reading->devices, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, kineto_device_order);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (kineto_device_order(&reading->devices[i], &sorted[k]) == 0) numbers[i] = k;
    for (size_t i = 0; i < reading->memory_count; i++)
        reading->memory[i].device = numbers[reading->memory[i].device];
    memcpy(reading->devices, sorted, count * sizeof *sorted);
    kineto_find_older(reading);
    qsort(reading->memory, reading->memory_count, sizeof *reading->memory, kineto_by_time);
}

/* Copies the rows to the snapshot as events. One event before those of each device stays free, for
 * the block that kineto_older adds. */
static tn_status kineto_events(kineto_reading *reading) {
    tn_snapshot *snapshot = reading->snapshot;
    uint32_t count = reading->device_count;
    size_t room = reading->memory_count + count + 1;
    snapshot->devices =
        tn__arena_array(&snapshot->arena, (size_t)count + 1, sizeof *snapshot->devices);
    snapshot->device_names =
        tn__arena_array(&snapshot->arena, (size_t)count + 1, sizeof *snapshot->device_names);
    if (snapshot->devices == NULL || snapshot->device_names == NULL ||
        !tn__reserve(&snapshot->context, &snapshot->events, &snapshot->event_room, room,
                     sizeof *snapshot->events))
        return kineto_no_memory(reading);
    snapshot->device_count = count;
    size_t row = 0;
    for (uint32_t d = 0; d < count; d++) {
        snapshot->device_names[d] = kineto_name(snapshot, &reading->devices[d]);
        if (snapshot->device_names[d] == NULL) return kineto_no_memory(reading);
        snapshot->events[snapshot->event_count++] = (tn_snapshot_event){0};
        snapshot->devices[d] = (tn__trace_range){snapshot->event_count, reading->devices[d].count};
        for (uint64_t i = 0; i < reading->devices[d].count; i++, row++) {
            const kineto_memory *from = &reading->memory[row];
            snapshot->events[snapshot->event_count++] = (tn_snapshot_event){
                .address = from->address,
                .size = (uint64_t)(from->bytes < 0 ? -from->bytes : from->bytes),
                .time_us = from->time > 0 ? from->time / 1000 : 0,
                .stack = from->stack,
                .action = from->bytes < 0 ? TN_SNAPSHOT_FREE_COMPLETED : TN_SNAPSHOT_ALLOC};
        }
    }
    return TN_OK;
}

/* Makes the stack of the block that stands for all memory that was allocated before the profile
 * began. */
static tn_status kineto_older_stack(kineto_reading *reading, uint32_t *stack) {
    static const char words[] = "(allocated before the profile began)";
    tn__stack_frame made = {0};
    uint32_t frame;
    TN_TRY(kineto_intern(reading, "operator", 8, &made.file));
    TN_TRY(kineto_intern(reading, words, sizeof words - 1, &made.function));
    if (!tn__stacks_frame(&reading->snapshot->stacks, made, &frame) ||
        !tn__stacks_stack(&reading->snapshot->stacks, &frame, 1, stack))
        return kineto_no_memory(reading);
    return TN_OK;
}

/* Returns the bytes of a device that were allocated before the profile began: the first "Total
 * Allocated", less the sum of all rows up to and including it. */
static uint64_t kineto_base(const kineto_reading *reading, uint32_t device) {
    int64_t before = 0; /* sum of the rows so far */
    size_t first = 0;
    for (uint32_t d = 0; d < device; d++) first += (size_t)reading->devices[d].count;
    for (uint64_t i = 0; i < reading->devices[device].count; i++) {
        const kineto_memory *row = &reading->memory[first + (size_t)i];
        if (!__builtin_add_overflow(before, row->bytes, &before) && row->total != INT64_MIN) {
            int64_t base;
            bool fits = !__builtin_sub_overflow(row->total, before, &base);
            return fits && base > 0 && base < INT64_C(1) << 61 ? (uint64_t)base : 0;
        }
    }
    return 0;
}

/* Adds one allocation before all other events of a device. Its size is that of the memory that was
 * allocated before the profile began and is never freed. */
static tn_status kineto_older(kineto_reading *reading, uint32_t device) {
    tn_snapshot *snapshot = reading->snapshot;
    uint64_t base = kineto_base(reading, device), freed = reading->devices[device].freed;
    if (reading->devices[device].type == 0 || freed >= base) return TN_OK;
    tn__trace_range *range = &snapshot->devices[device];
    tn_snapshot_event *event = &snapshot->events[--range->first];
    range->count++;
    *event = (tn_snapshot_event){.address = UINT64_MAX - 1,
                                 .size = base - freed,
                                 .time_us = event[1].time_us,
                                 .action = TN_SNAPSHOT_ALLOC};
    return kineto_older_stack(reading, &event->stack);
}

/* Copies the texts of the frames to an array of the exact size, which the snapshot owns. */
static tn_status kineto_words(kineto_reading *reading) {
    tn_snapshot *snapshot = reading->snapshot;
    const tn_context *context = &snapshot->context;
    snapshot->words = tn__alloc_array(context, reading->text_count, sizeof *snapshot->words);
    if (snapshot->words == NULL) return kineto_no_memory(reading);
    snapshot->word_count = reading->text_count;
    memcpy(snapshot->words, reading->texts, reading->text_count * sizeof *reading->texts);
    return TN_OK;
}

static tn_status kineto_finish(kineto_reading *reading) {
    tn_snapshot *snapshot = reading->snapshot;
    if (reading->memory_count == 0 && reading->is_plain)
        TN_FAIL(reading->error, TN_E_INVALID,
                "this trace has no memory events, because the PyTorch that wrote it was built "
                "without Kineto; record it with another build of PyTorch");
    if (reading->memory_count == 0)
        TN_FAIL(reading->error, TN_E_INVALID,
                "this trace has no memory events of PyTorch; record it with "
                "torch.profiler.profile(profile_memory=True), and write a trace of Tenure as "
                ".pickle instead");
    TN_TRY(kineto_stacks(reading));
    kineto_sort(reading);
    TN_TRY(kineto_events(reading));
    for (uint32_t d = 0; d < reading->device_count; d++) TN_TRY(kineto_older(reading, d));
    TN_TRY(kineto_words(reading));
    tn__stacks_close(&snapshot->stacks);
    return TN_OK;
}

static tn_status kineto_begin(kineto_reading *reading) {
    tn_snapshot *snapshot = reading->snapshot;
    uint32_t none;
    snapshot->categories = tn__arena_array(&snapshot->arena, 1, sizeof *snapshot->categories);
    if (snapshot->categories == NULL || !tn__stacks_init(&snapshot->stacks, &snapshot->context) ||
        !tn__reserve(&snapshot->context, &snapshot->streams, &snapshot->stream_room, 1,
                     sizeof *snapshot->streams))
        return kineto_no_memory(reading);
    snapshot->categories[snapshot->category_count++] = "";
    snapshot->streams[snapshot->stream_count++] = 0;
    return kineto_intern(reading, "", 0, &none);
}

bool tn__kineto_is(const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    while (size > 0 && strchr(" \t\r\n", *at) != NULL && *at != 0) at++, size--;
    return size > 0 && (*at == '{' || *at == '[');
}

tn_status tn__kineto_read(const void *bytes, size_t size, tn_snapshot *snapshot, tn_error *error) {
    const tn_context *context = &snapshot->context;
    kineto_reading *reading = tn__alloc_array(context, 1, sizeof *reading);
    if (reading == NULL) return tn__no_memory(error, "a profile");
    reading->snapshot = snapshot;
    reading->error = error;
    reading->scan = (kineto_scan){bytes, bytes, (const uint8_t *)bytes + size, error};
    tn__names_init(&reading->threads, context);
    tn__names_init(&reading->words, context);
    tn_status status = kineto_begin(reading);
    if (status == TN_OK) status = kineto_whole(reading);
    if (status == TN_OK) status = kineto_finish(reading);
    tn__names_release(&reading->threads);
    tn__names_release(&reading->words);
    tn__free(context, reading->memory, reading->memory_room * sizeof *reading->memory);
    tn__free(context, reading->ranges, reading->range_room * sizeof *reading->ranges);
    tn__free(context, (void *)(uintptr_t)reading->texts,
             reading->text_room * sizeof *reading->texts);
    tn__free(context, reading, sizeof *reading);
    return status;
}
