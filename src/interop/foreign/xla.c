/* xla.c - reads the texts that XLA dumps about the memory of one module: allocations with their
 * values, and live ranges.
 *
 *     BufferAssignment:
 *     allocation 73: size 5443584, preallocated-temp:
 *      value: <319 loop_add_fusion @0> (size=1048576,offset=0): f64[8,4096]{1,0}
 *
 *     HloLiveRange (max 337):
 *       InstructionSequence:
 *         0:Arg_0
 *       BufferLiveRange:
 *         loop_add_fusion{}:41-57
 *
 * Since 2021 the live ranges are appended to the same file after two empty lines; since April 2026
 * they are in a file of their own. The texts have no version number. An unknown line or flag is
 * therefore refused with its text, because a later version may give it a meaning.
 *
 * A live range START-END includes both steps, so it becomes [START, END + 1).
 *
 * Source: XLA, xla/service/buffer_assignment.cc (ToShortString, ToString), hlo_value.cc,
 * xla/hlo/utils/hlo_live_range.cc (ToString).
 */
#include <inttypes.h>
#include <stdio.h>

#include "interop/foreign/foreign.h"

#define XLA_LINE_MAX ((size_t)64 << 20)

typedef struct xla_reading {
    tn_foreign *foreign;
    const tn__xla_file *file;
    const uint8_t *next, *end;
    uint64_t line;      /* number of the current line */
    tn__names values;   /* finds the number of a value by its name */
    tn__names ranges;   /* the names of live ranges that were read */
    tn__names arenas;   /* finds the number of an allocation by its name */
    int64_t end_step;   /* the number M of "(max M)" */
    uint8_t *has_range; /* [values] */
    tn_error *error;
} xla_reading;

/* --- lines --- */

static tn_status xla_fail(const xla_reading *reading, tn_status status, const char *what) {
    status = tn__fail(reading->error, status, "%.300s", what);
    return tn__where(reading->error, status, "%.150s:%" PRIu64, reading->file->name, reading->line);
}

static tn_status xla_fail_text(const xla_reading *reading, tn_status status, const char *what,
                               tn__span text) {
    int shown = text.size < 60 ? (int)text.size : 60;
    status = tn__fail(reading->error, status, "%.200s '%.*s'", what, shown,
                      shown > 0 ? (const char *)text.bytes : "");
    return tn__where(reading->error, status, "%.150s:%" PRIu64, reading->file->name, reading->line);
}

static void xla_open(xla_reading *reading, const tn__xla_file *file) {
    reading->file = file;
    reading->next = reading->end = file->span.bytes;
    if (file->span.size > 0) reading->end += file->span.size; /* an empty file has no bytes */
    reading->line = 0;
}

/* Reads the next line without its line end; false at the end of the file. */
static bool xla_line(xla_reading *reading, tn__span *line) {
    if (reading->next == reading->end) return false;
    const uint8_t *start = reading->next;
    const uint8_t *stop = memchr(start, '\n', (size_t)(reading->end - start));
    if (stop == NULL) stop = reading->end;
    *line = (tn__span){start, (size_t)(stop - start)};
    reading->next = stop + (stop < reading->end);
    reading->line++;
    return true;
}

static tn_status xla_check_line(const xla_reading *reading, tn__span line) {
    if (line.size > XLA_LINE_MAX)
        return xla_fail(reading, TN_E_UNSUPPORTED, "a line of more than 64 MiB");
    if (line.size > 0 && memchr(line.bytes, 0, line.size) != NULL)
        return xla_fail(reading, TN_E_INVALID, "a zero byte, so it is no text");
    return TN_OK;
}

static bool xla_begins(tn__span text, const char *with) {
    size_t length = strlen(with);
    return text.size >= length && memcmp(text.bytes, with, length) == 0;
}

/* Skips `what` if the text begins with it; returns whether it does. */
static bool xla_take(tn__span *text, const char *what) {
    if (!xla_begins(*text, what)) return false;
    text->bytes += strlen(what);
    text->size -= strlen(what);
    return true;
}

/* Reads a whole number that is not negative, and skips it. */
static bool xla_take_number(tn__span *text, uint64_t *number) {
    const char *at = (const char *)text->bytes;
    int64_t value;
    if (text->size == 0 || *at == '-' || !tn__take_integer(&at, &text->size, &value)) return false;
    text->bytes = (const uint8_t *)at;
    *number = (uint64_t)value;
    return true;
}

/* Skips the text up to and including `end`, and returns the part before it. */
static bool xla_take_until(tn__span *text, const char *end, tn__span *part) {
    size_t length = strlen(end);
    for (size_t at = 0; at + length <= text->size; at++) {
        if (memcmp(text->bytes + at, end, length) != 0) continue;
        *part = (tn__span){text->bytes, at};
        text->bytes += at + length;
        text->size -= at + length;
        return true;
    }
    return false;
}

/* --- allocations --- */

typedef struct xla_flags {
    bool parameter, constant, thread_local_, live_out, temp;
} xla_flags;

static uint32_t xla_use(const xla_flags *flags) {
    if (flags->thread_local_) return TN_FOREIGN_THREAD_LOCAL;
    if (flags->constant) return TN_FOREIGN_CONSTANT;
    if (flags->parameter) return flags->live_out ? TN_FOREIGN_DONATED : TN_FOREIGN_PARAMETER;
    if (flags->live_out) return TN_FOREIGN_OUTPUT;
    return flags->temp ? TN_FOREIGN_PLANNED : TN_FOREIGN_OTHER;
}

/* Skips a flag for a parameter. Shapes contain commas and blanks, and are enclosed in bars. */
static bool xla_take_parameter(tn__span *text) {
    uint64_t number;
    tn__span shape;
    return xla_take_number(text, &number) && xla_take(text, ", shape |") &&
           xla_take_until(text, "| at ShapeIndex {", &shape) && xla_take_until(text, "}", &shape);
}

/* Skips one flag of an allocation, and stores its meaning. */
static bool xla_take_flag(tn__span *text, xla_flags *flags) {
    uint64_t number;
    tn__span shape;
    if (xla_take(text, "color ") || xla_take(text, "page ")) return xla_take_number(text, &number);
    if (xla_take(text, "parameter ")) {
        flags->parameter = true;
        return xla_take_parameter(text);
    }
    if (xla_take(text, "output shape is |")) return xla_take_until(text, "|", &shape);
    if (xla_take(text, "constant")) return flags->constant = true;
    if (xla_take(text, "thread-local")) return flags->thread_local_ = true;
    if (xla_take(text, "maybe-live-out")) return flags->live_out = true;
    if (xla_take(text, "preallocated-temp")) return flags->temp = true;
    return false;
}

/* Reads the text after "allocation ". */
static tn_status xla_allocation(xla_reading *reading, tn__span text) {
    tn_foreign *foreign = reading->foreign;
    tn_foreign_arena arena = {0};
    xla_flags flags = {0};
    uint64_t number;
    char name[40];
    if (!xla_take_number(&text, &number) || !xla_take(&text, ": size ") ||
        !xla_take_number(&text, &arena.size))
        return xla_fail(reading, TN_E_INVALID, "an allocation without number or size");
    while (xla_take(&text, ", "))
        if (!xla_take_flag(&text, &flags))
            return xla_fail_text(reading, TN_E_UNSUPPORTED,
                                 "an allocation with a flag of an unknown version of XLA:", text);
    if (text.size != 1 || text.bytes[0] != ':')
        return xla_fail_text(reading, TN_E_INVALID, "an allocation does not end with ':' but with",
                             text);
    if (foreign->facts.arena_count == TN__FOREIGN_ARENAS_MAX)
        return xla_fail(reading, TN_E_UNSUPPORTED, "more than 10^6 allocations");
    int length = snprintf(name, sizeof name, "allocation %" PRIu64, number);
    arena.use = xla_use(&flags);
    char *copy = tn__foreign_text(foreign, (tn__span){(const uint8_t *)name, (size_t)length});
    uint32_t twice;
    arena.name = copy;
    if (copy == NULL || !tn__foreign_add_arena(foreign, &arena) ||
        !tn__names_add(&reading->arenas, copy, (size_t)length, foreign->facts.arena_count - 1,
                       &twice))
        return tn__no_memory(reading->error, "an allocation");
    if (twice != TN__NAMES_NONE)
        return xla_fail_text(reading, TN_E_INVALID, "an allocation that is given twice:",
                             (tn__span){(const uint8_t *)name, (size_t)length});
    return TN_OK;
}

/* --- values --- */

/* Cuts " @COLOR" and " (phi)" from the end of a name. */
static tn__span xla_cut_name(tn__span name) {
    size_t end = name.size;
    while (end > 0 && name.bytes[end - 1] >= '0' && name.bytes[end - 1] <= '9') end--;
    if (end >= 2 && end < name.size && memcmp(name.bytes + end - 2, " @", 2) == 0)
        name.size = end - 2;
    if (name.size >= 6 && memcmp(name.bytes + name.size - 6, " (phi)", 6) == 0) name.size -= 6;
    return name;
}

/* Makes the name of a value as in the list of live ranges, which always has an index:
 * "fusion{1}". */
static tn_status xla_key(xla_reading *reading, tn__span name, char **key, size_t *length) {
    name = xla_cut_name(name);
    if (name.size == 0 || name.size > TN__FOREIGN_NAME_MAX)
        return xla_fail(reading, TN_E_INVALID, "a value without a name, or with one above 64 KiB");
    bool bare = name.bytes[name.size - 1] != '}';
    char *copy = tn__arena_alloc(&reading->foreign->texts, name.size + 3);
    if (copy == NULL) return tn__no_memory(reading->error, "a value");
    memcpy(copy, name.bytes, name.size);
    if (bare) memcpy(copy + name.size, "{}", 2);
    *key = copy;
    *length = name.size + (bare ? 2 : 0);
    return TN_OK;
}

/* Reads the text after " value: ". */
static tn_status xla_value(xla_reading *reading, tn__span text) {
    tn_foreign *foreign = reading->foreign;
    tn_foreign_value value = {.op = "", .source = "", .arena = foreign->facts.arena_count - 1};
    tn__span name;
    uint64_t id, end;
    char *key = NULL;
    size_t length = 0;
    uint32_t twice;
    if (foreign->facts.arena_count == 0)
        return xla_fail(reading, TN_E_INVALID, "a value before the first allocation");
    if (!xla_take(&text, "<") || !xla_take_number(&text, &id) || !xla_take(&text, " ") ||
        !xla_take_until(&text, "> (size=", &name) || !xla_take_number(&text, &value.size) ||
        !xla_take(&text, ",offset=") || !xla_take_number(&text, &value.offset) ||
        !xla_take(&text, "):"))
        return xla_fail(reading, TN_E_INVALID,
                        "a value is not of the form <ID NAME> (size=S,offset=O): SHAPE");
    const tn_foreign_arena *arena = &foreign->arenas[value.arena];
    if (!tn__add(value.offset, value.size, &end) || end > arena->size)
        return xla_fail_text(reading, TN_E_INVALID, "a value ends outside its allocation:", name);
    if (foreign->facts.value_count == TN__FOREIGN_VALUES_MAX)
        return xla_fail(reading, TN_E_UNSUPPORTED, "more than 10^7 values");
    TN_TRY(xla_key(reading, name, &key, &length));
    value.name = key;
    if (!tn__foreign_add_value(foreign, &value) ||
        !tn__names_add(&reading->values, key, length, foreign->facts.value_count - 1, &twice))
        return tn__no_memory(reading->error, "a value");
    if (twice != TN__NAMES_NONE)
        return xla_fail_text(reading, TN_E_INVALID, "a value that is given twice:", name);
    return TN_OK;
}

/* Reads the allocations, up to the first empty line. */
static tn_status xla_assignment(xla_reading *reading) {
    tn__span line;
    bool again = false; /* within a block of values that are also listed elsewhere */
    if (!xla_line(reading, &line) || !tn__span_is(line, "BufferAssignment:")) {
        reading->line = 1;
        return xla_fail(reading, TN_E_INVALID, "the first line is not 'BufferAssignment:'");
    }
    while (xla_line(reading, &line) && line.size > 0) {
        TN_TRY(xla_check_line(reading, line));
        if (xla_take(&line, "allocation ")) {
            again = false;
            TN_TRY(xla_allocation(reading, line));
        } else if (xla_take(&line, " value: ")) {
            TN_TRY(xla_value(reading, line));
        } else if (xla_begins(line, " reused by buffers of a different color:")) {
            again = true;
        } else if (!again || !xla_begins(line, "  value: ")) {
            return xla_fail_text(reading, TN_E_UNSUPPORTED,
                                 "neither an allocation nor a value, as known versions of XLA "
                                 "write them:",
                                 line);
        }
    }
    return TN_OK;
}

/* --- live ranges --- */

/* Reads a line of the sequence, such as "7:fusion.3": the number and the name of an instruction. */
static tn_status xla_instruction(xla_reading *reading, tn__span text) {
    uint64_t number;
    tn_foreign *foreign = reading->foreign;
    if (!xla_take_number(&text, &number) || !xla_take(&text, ":"))
        return xla_fail(reading, TN_E_INVALID, "an instruction is not of the form NUMBER:NAME");
    if (number != foreign->facts.step_count || number >= TN__FOREIGN_STEPS_MAX)
        return xla_fail(reading, TN_E_INVALID, "the instructions are not numbered 0, 1, 2, ...");
    if (text.size > TN__FOREIGN_NAME_MAX)
        return xla_fail(reading, TN_E_INVALID, "a name of more than 64 KiB");
    const char *name = tn__foreign_text(foreign, text);
    if (name == NULL || !tn__foreign_add_step(foreign, name))
        return tn__no_memory(reading->error, "an instruction");
    return TN_OK;
}

/* Splits "fusion{1}:3-87" at its last colon. */
static bool xla_split_range(tn__span text, tn__span *name, uint64_t *first, uint64_t *last) {
    size_t at = text.size;
    while (at > 0 && text.bytes[at - 1] != ':') at--;
    if (at < 2) return false;
    tn__span numbers = {text.bytes + at, text.size - at};
    *name = (tn__span){text.bytes, at - 1};
    return xla_take_number(&numbers, first) && xla_take(&numbers, "-") &&
           xla_take_number(&numbers, last) && numbers.size == 0;
}

static tn_status xla_range(xla_reading *reading, tn__span text) {
    tn_foreign *foreign = reading->foreign;
    tn__span name;
    uint64_t first, last;
    uint32_t twice;
    if (!xla_split_range(text, &name, &first, &last))
        return xla_fail(reading, TN_E_INVALID, "a live range is not of the form NAME:START-END");
    if (first > last)
        return xla_fail_text(reading, TN_E_INVALID, "a live range ends before it starts:", text);
    if (last > (uint64_t)reading->end_step)
        return xla_fail_text(reading, TN_E_INVALID, "a live range ends after the program:", text);
    if (!tn__names_add(&reading->ranges, (const char *)name.bytes, name.size, 0, &twice))
        return tn__no_memory(reading->error, "a live range");
    if (twice != TN__NAMES_NONE)
        return xla_fail_text(reading, TN_E_INVALID, "a live range that is given twice:", name);
    uint32_t value = tn__names_find(&reading->values, (const char *)name.bytes, name.size);
    if (value == TN__NAMES_NONE) {
        foreign->facts.lives_alone++;
        return TN_OK;
    }
    foreign->values[value].first = (int64_t)first;
    foreign->values[value].last = (int64_t)last + 1;
    reading->has_range[value] = 1;
    return TN_OK;
}

/* Reads the lines after "HloLiveRange (max M):". A section ends with a line that is indented
 * less. */
static tn_status xla_range_lines(xla_reading *reading) {
    enum { NONE, SEQUENCE, RANGES, REST } section = NONE;
    tn__span line;
    while (section != REST && xla_line(reading, &line)) {
        TN_TRY(xla_check_line(reading, line));
        if (xla_take(&line, "    ")) {
            if (section == SEQUENCE) TN_TRY(xla_instruction(reading, line));
            if (section == RANGES) TN_TRY(xla_range(reading, line));
            if (section == NONE)
                return xla_fail(reading, TN_E_INVALID, "a line before the first section");
        } else if (tn__span_is(line, "  InstructionSequence:") && section == NONE) {
            section = SEQUENCE;
        } else if (tn__span_is(line, "  BufferLiveRange:") && section == SEQUENCE) {
            section = RANGES;
        } else if (section == RANGES && (line.size == 0 || xla_begins(line, "  "))) {
            /* skip the section about the peak, because the peak is computed from the sizes in the
             * assignment */
            section = REST;
        } else {
            return xla_fail_text(reading, TN_E_UNSUPPORTED,
                                 "no section of a list of live ranges that is known:", line);
        }
    }
    if (section == NONE || section == SEQUENCE)
        return xla_fail(reading, TN_E_INVALID, "the list of live ranges is cut off");
    return TN_OK;
}

/* Makes values without a live range live in all steps. */
static void xla_fill_ranges(xla_reading *reading) {
    tn_foreign *foreign = reading->foreign;
    for (uint32_t i = 0; i < foreign->facts.value_count; i++) {
        if (reading->has_range[i]) continue;
        foreign->values[i].first = 0;
        foreign->values[i].last = reading->end_step + 1;
        foreign->values[i].has_no_life = true;
    }
}

/* Tells the caller about live ranges without a value, as of an assignment that was cut off: a plan
 * can be valid only for the values that the assignment has. */
static void xla_note_ranges(const xla_reading *reading) {
    const tn_context *context = &reading->foreign->context;
    char line[200];
    if (reading->foreign->facts.lives_alone == 0 || context->log == NULL) return;
    snprintf(line, sizeof line,
             "%u live ranges name no value of the assignment; if the file was cut off, nothing is "
             "known about the rest",
             reading->foreign->facts.lives_alone);
    context->log(context->self, line);
}

/* Searches the list of live ranges, from the current line on, and reads it. */
static tn_status xla_ranges(xla_reading *reading) {
    tn__span line;
    uint64_t last = 0;
    bool found = false;
    tn_foreign *foreign = reading->foreign;
    while (!found && xla_line(reading, &line)) {
        if (xla_begins(line, "HloLiveRange not available")) return TN_OK;
        found = xla_take(&line, "HloLiveRange");
    }
    if (!found) return TN_OK;
    if (!xla_take(&line, " (max ") || !xla_take_number(&line, &last) || !tn__span_is(line, "):"))
        return xla_fail(reading, TN_E_INVALID, "the list does not begin 'HloLiveRange (max N):'");
    if (last > TN__FOREIGN_STEPS_MAX)
        return xla_fail(reading, TN_E_UNSUPPORTED, "more than 10^8 instructions");
    size_t room = (size_t)foreign->facts.value_count + 1;
    reading->end_step = (int64_t)last;
    reading->has_range = tn__alloc_array(&foreign->context, room, 1);
    if (reading->has_range == NULL) return tn__no_memory(reading->error, "live ranges");
    tn_status status = xla_range_lines(reading);
    if (status == TN_OK) xla_fill_ranges(reading);
    if (status == TN_OK) xla_note_ranges(reading);
    foreign->facts.has_lives = status == TN_OK;
    tn__free(&foreign->context, reading->has_range, room);
    return status;
}

/* --- reading one module --- */

static tn_status xla_read(xla_reading *reading, const tn__xla_files *files) {
    xla_open(reading, &files->assignment);
    TN_TRY(xla_assignment(reading));
    if (files->ranges.span.bytes != NULL) {
        xla_open(reading, &files->ranges);
        reading->foreign->facts.form = "files of April 2026 and later";
    }
    TN_TRY(xla_ranges(reading));
    if (files->text.span.bytes != NULL)
        TN_TRY(tn__xla_read_text(reading->foreign, &files->text, reading->error));
    return tn__where(reading->error, tn__foreign_finish(reading->foreign, reading->error), "%.150s",
                     files->assignment.name);
}

tn_status tn__xla_read(const tn__xla_files *files, const tn_context *context, tn_foreign **foreign,
                       tn_error *error) {
    tn_foreign *made;
    TN_TRY(tn__foreign_create(context, "XLA", "one file, 2021 to March 2026", &made, error));
    xla_reading reading = {.foreign = made, .error = error};
    tn__names_init(&reading.values, &made->context);
    tn__names_init(&reading.ranges, &made->context);
    tn__names_init(&reading.arenas, &made->context);
    tn_status status = xla_read(&reading, files);
    tn__names_release(&reading.values);
    tn__names_release(&reading.ranges);
    tn__names_release(&reading.arenas);
    if (status == TN_OK)
        *foreign = made;
    else
        tn_foreign_destroy(made);
    return status;
}

uint64_t tn__xla_planned(tn__span assignment) {
    const tn__xla_file file = {"", assignment};
    xla_reading reading = {0};
    uint64_t sum = 0;
    tn__span line;
    xla_open(&reading, &file);
    while (xla_line(&reading, &line)) {
        uint64_t number, size;
        if (xla_take(&line, "allocation ") && xla_take_number(&line, &number) &&
            xla_take(&line, ": size ") && xla_take_number(&line, &size) && line.size >= 19 &&
            memcmp(line.bytes + line.size - 18, "preallocated-temp:", 18) == 0)
            sum = tn__add_sat(sum, size);
    }
    return sum;
}
