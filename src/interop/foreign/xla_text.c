/* xla_text.c - reads the text of an HLO module, to find the operator and the source line of each
 * value.
 *
 *   %fusion.3 = f32[8]{0} fusion(%p0, %add.1), kind=kLoop, metadata={op_name="jit(f)/add"
 *               source_file="train.py" source_line=12}          (in one line)
 *
 * The text serves only as an explanation, so lines of other forms are skipped: computations,
 * attributes, and whatever later versions add.
 *
 * Source: XLA, xla/hlo/ir/hlo_instruction.cc (ToString).
 */
#include <inttypes.h>
#include <stdio.h>

#include "interop/foreign/xla_text.h"

/* bytes of an instruction's text within which its operands are searched */
#define TEXT_OPERANDS_MAX 4096u
/* bytes of an instruction's text within which operator and source line are searched */
#define TEXT_METADATA_MAX 8192u
#define TEXT_FRAMES_MAX 1000u /* limit of the frames of one stack that are followed */

static void text_skip(tn__span *text, size_t count) {
    text->bytes += count;
    text->size -= count;
}

size_t tn__xla_find(tn__span text, const char *what) {
    size_t length = strlen(what);
    for (size_t at = 0; at + length <= text.size; at++)
        if (memcmp(text.bytes + at, what, length) == 0) return at;
    return text.size;
}

/* Skips a shape, which is a word, or a tuple of shapes in parentheses. */
static bool text_skip_shape(tn__span *text) {
    size_t at = 0, depth = 0;
    for (; at < text->size; at++) {
        uint8_t letter = text->bytes[at];
        if (letter == '(') depth++;
        if (letter == ')' && depth-- == 0) return false;
        if (letter == ' ' && depth == 0) break;
    }
    if (at == text->size) return false;
    text_skip(text, at + 1);
    return true;
}

/* Returns the position of the parenthesis that closes the list of operands, or the size of the text
 * if there is none. Parentheses inside of the list come in pairs. */
static size_t text_close(tn__span text) {
    size_t depth = 0;
    for (size_t at = 0; at < text.size; at++) {
        if (text.bytes[at] == '(') depth++;
        if (text.bytes[at] == ')' && depth-- == 0) return at;
    }
    return text.size;
}

/* Parses a line "[ROOT ][%]NAME = SHAPE OPCODE(OPERANDS)..."; false if the line has another
 * form. */
static bool text_parse(tn__span line, tn__xla_instruction *made) {
    while (line.size > 0 && line.bytes[0] == ' ') text_skip(&line, 1);
    if (line.size > 5 && memcmp(line.bytes, "ROOT ", 5) == 0) text_skip(&line, 5);
    if (line.size > 0 && line.bytes[0] == '%') text_skip(&line, 1);
    size_t end = 0;
    while (end < line.size && line.bytes[end] != ' ') end++;
    if (end == 0 || end + 3 > line.size || memcmp(line.bytes + end, " = ", 3) != 0) return false;
    made->name = (tn__span){line.bytes, end};
    text_skip(&line, end + 3);
    if (!text_skip_shape(&line)) return false;
    for (end = 0; end < line.size && line.bytes[end] != '('; end++)
        if (line.bytes[end] == ' ') return false;
    if (end == 0 || end == line.size) return false;
    made->op = (tn__span){line.bytes, end};
    text_skip(&line, end + 1);
    end = text_close(line);
    made->operands = (tn__span){line.bytes, end};
    text_skip(&line, end);
    made->rest = line;
    return true;
}

/* Returns the value of NAME="..." or NAME=123 in the metadata. */
static tn__span text_field(tn__span metadata, const char *name) {
    size_t at = tn__xla_find(metadata, name);
    if (at == metadata.size) return (tn__span){0};
    text_skip(&metadata, at + strlen(name));
    bool quoted = metadata.size > 0 && metadata.bytes[0] == '"';
    if (quoted) text_skip(&metadata, 1);
    size_t end = 0;
    while (end < metadata.size &&
           (quoted ? metadata.bytes[end] != '"'
                   : metadata.bytes[end] != ' ' && metadata.bytes[end] != '}'))
        end++;
    return (tn__span){metadata.bytes, end < 1000 ? end : 1000};
}

/* --- operands --- */

static bool text_in_name(uint8_t letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '_' || letter == '.' || letter == '-';
}

bool tn__xla_operand(tn__span *left, tn__span *name) {
    while (left->size > 0) {
        if (left->size > 1 && memcmp(left->bytes, "/*", 2) == 0) {
            size_t end = tn__xla_find(*left, "*/");
            text_skip(left, end < left->size ? end + 2 : end);
            continue;
        }
        size_t end = 0;
        while (end < left->size && text_in_name(left->bytes[end])) end++;
        *name = (tn__span){left->bytes, end};
        bool shape = end < left->size && left->bytes[end] == '[';
        text_skip(left, end > 0 ? end : 1);
        if (end > 0 && !shape) return true;
    }
    return false;
}

/* --- stack frames --- */

/* The tables stand between the first line and the computations:
 *
 *     FileLocations
 *     1 {file_name_id=1 function_name_id=1 line=153 end_line=153 column=2 end_column=31}
 *
 *     StackFrames
 *     1 {file_location_id=1 parent_frame_id=1}
 */
static const char *const text_tables[] = {"FileNames", "FunctionNames", "FileLocations",
                                          "StackFrames"};

static uint32_t text_number(tn__span text, const char *field) {
    size_t at = tn__xla_find(text, field), length = strlen(field), left = text.size - at;
    int64_t value;
    if (at == text.size || left <= length) return 0;
    const char *digits = (const char *)text.bytes + at + length;
    left -= length;
    return tn__take_integer(&digits, &left, &value) && value > 0 && value < UINT32_MAX
               ? (uint32_t)value
               : 0;
}

/* Reads a row of the current table. Rows are numbered 1, 2, 3; a row with any other number is
 * skipped. */
static bool text_row(tn_foreign *foreign, tn__xla_table *table, tn__span line) {
    const char *at = (const char *)line.bytes;
    size_t left = line.size;
    int64_t number;
    if (left == 0 || !tn__take_integer(&at, &left, &number) ||
        number != (int64_t)table->count + 1 || table->count == TN__FOREIGN_VALUES_MAX)
        return true;
    tn__span rest = {(const uint8_t *)at, left};
    tn__xla_row row = {.file = text_number(rest, "file_name_id="),
                       .function = text_number(rest, "function_name_id="),
                       .line = text_number(rest, " line="),
                       .location = text_number(rest, "file_location_id="),
                       .parent = text_number(rest, "parent_frame_id=")};
    if (left > 3 && memcmp(at, " \"", 2) == 0 && at[left - 1] == '"')
        row.text = (tn__span){rest.bytes + 2, left - 3};
    if (!tn__reserve(&foreign->context, &table->rows, &table->room, table->count + 1, sizeof row))
        return false;
    table->rows[table->count++] = row;
    return true;
}

static const tn__xla_row *text_at(const tn__xla_text *text, int table, uint32_t number) {
    static const tn__xla_row none;
    const tn__xla_table *it = &text->tables[table];
    return number > 0 && number <= it->count ? &it->rows[number - 1] : &none;
}

/* Whether a file belongs to JAX or to one of its installed packages. The user's own line is then in
 * an outer frame. */
static bool text_is_jax(tn__span file) {
    return tn__xla_find(file, "/jax/_src/") < file.size ||
           tn__xla_find(file, "-packages/jax/") < file.size ||
           tn__xla_find(file, "-packages/flax/") < file.size;
}

/* Returns the innermost frame outside of JAX, or the innermost frame if all are in JAX. A frame
 * that is its own parent, or whose parent has a higher number, counts as the outermost, so the
 * search ends. */
static const tn__xla_row *text_frame(const tn__xla_text *text, uint32_t number, tn__span *file) {
    const tn__xla_row *inner = NULL;
    for (uint32_t i = 0; i < TEXT_FRAMES_MAX && number > 0; i++) {
        const tn__xla_row *frame = text_at(text, TN__XLA_FRAMES, number);
        const tn__xla_row *location = text_at(text, TN__XLA_LOCATIONS, frame->location);
        tn__span name = text_at(text, TN__XLA_FILES, location->file)->text;
        if (name.size > 0 && inner == NULL) {
            inner = location;
            *file = name;
        }
        if (name.size > 0 && !text_is_jax(name)) {
            *file = name;
            return location;
        }
        number = frame->parent < number ? frame->parent : 0;
    }
    return inner;
}

/* --- sources --- */

/* Returns the operator and source line of an instruction as text, for example "jit(f)/add,
 * train.py:12". */
static const char *text_source(tn_foreign *foreign, const tn__xla_text *module, tn__span metadata) {
    char text[2100], number[16];
    tn__span op = text_field(metadata, "op_name="), file = text_field(metadata, "source_file=");
    tn__span line = text_field(metadata, "source_line=");
    uint32_t frame = text_number(metadata, "stack_frame_id=");
    int size = 0;
    if (file.size == 0 && frame > 0) {
        const tn__xla_row *location = text_frame(module, frame, &file);
        if (location != NULL && location->line > 0) {
            size = snprintf(number, sizeof number, "%" PRIu32, location->line);
            line = (tn__span){(const uint8_t *)number, (size_t)size};
            size = 0;
        }
        if (file.size > 1000) file.size = 1000;
    }
    if (op.size > 0)
        size = snprintf(text, sizeof text, "%.*s", (int)op.size, (const char *)op.bytes);
    if (file.size > 0)
        size += snprintf(text + size, sizeof text - (size_t)size, "%s%.*s%s%.*s",
                         size > 0 ? ", " : "", (int)file.size, (const char *)file.bytes,
                         line.size > 0 ? ":" : "", line.size < 20 ? (int)line.size : 20,
                         line.size > 0 ? (const char *)line.bytes : "");
    if (size <= 0) return "";
    return tn__foreign_text(foreign, (tn__span){(const uint8_t *)text, (size_t)size});
}

/* Returns the index in text_tables of the table whose heading this line is; -1: it is no
 * heading. */
static int text_opens(tn__span line) {
    for (int i = 0; i < TN__XLA_TABLES; i++)
        if (tn__span_is(line, text_tables[i])) return i;
    return -1;
}

static bool text_read(tn_foreign *foreign, tn__xla_text *reading, tn__span text) {
    int table = -1;
    bool entry = false;
    while (text.size > 0) {
        const uint8_t *stop = memchr(text.bytes, '\n', text.size);
        tn__span line = {text.bytes, stop != NULL ? (size_t)(stop - text.bytes) : text.size};
        text_skip(&text, line.size + (stop != NULL));
        tn__xla_instruction made;
        uint32_t twice;
        if (line.size > 0 && line.bytes[0] != ' ' && tn__span_is(line, "}") == false) {
            if (table >= 0 && !text_row(foreign, &reading->tables[table], line)) return false;
            if (text_opens(line) >= 0) table = text_opens(line);
            entry = line.size > 6 && memcmp(line.bytes, "ENTRY ", 6) == 0;
        }
        if (line.size == 0) table = -1;
        if (!text_parse(line, &made)) continue;
        made.inner = !entry;
        if (reading->count == TN__FOREIGN_VALUES_MAX) return true;
        if (!tn__reserve(&foreign->context, &reading->instructions, &reading->room,
                         reading->count + 1, sizeof made) ||
            !tn__names_add(&reading->names, (const char *)made.name.bytes, made.name.size,
                           (uint32_t)reading->count, &twice))
            return false;
        if (twice == TN__NAMES_NONE) reading->instructions[reading->count++] = made;
    }
    return true;
}

static bool text_explain(tn_foreign *foreign, const tn__xla_text *reading) {
    size_t room = (size_t)foreign->facts.value_count + 1;
    foreign->operands = tn__alloc_array(&foreign->context, room, sizeof *foreign->operands);
    foreign->operand_room = room;
    if (foreign->operands == NULL) return false;
    for (uint32_t i = 0; i < foreign->facts.value_count; i++) {
        tn_foreign_value *value = &foreign->values[i];
        uint32_t found = tn__names_find(&reading->names, value->name, strcspn(value->name, "{"));
        if (found == TN__NAMES_NONE) continue;
        const tn__xla_instruction *instruction = &reading->instructions[found];
        tn__span metadata = instruction->rest;
        text_skip(&metadata, tn__xla_find(metadata, "metadata={"));
        if (metadata.size > TEXT_METADATA_MAX) metadata.size = TEXT_METADATA_MAX;
        value->op = tn__foreign_text(foreign, instruction->op);
        value->source = text_source(foreign, reading, metadata);
        foreign->operands[i] = instruction->operands;
        if (foreign->operands[i].size > TEXT_OPERANDS_MAX)
            foreign->operands[i].size = TEXT_OPERANDS_MAX;
        if (value->op == NULL || value->source == NULL) return false;
    }
    return true;
}

/* Reads the name of the module from "HloModule jit_train_step, is_scheduled=true, ...". */
static bool text_module(tn_foreign *foreign, tn__span text) {
    static const char head[] = "HloModule ";
    if (text.size < sizeof head || memcmp(text.bytes, head, sizeof head - 1) != 0) return true;
    text_skip(&text, sizeof head - 1);
    size_t end = 0;
    while (end < text.size && end < 200 && strchr(", \n", text.bytes[end]) == NULL) end++;
    const char *name = tn__foreign_text(foreign, (tn__span){text.bytes, end});
    if (name != NULL) foreign->facts.module = name;
    return name != NULL;
}

tn_status tn__xla_read_text(tn_foreign *foreign, const tn__xla_file *text, tn_error *error) {
    tn__xla_text reading = {0};
    if (memchr(text->span.bytes, 0, text->span.size) != NULL)
        return tn__where(error, tn__fail(error, TN_E_INVALID, "a zero byte, so it is no text"),
                         "%.150s", text->name);
    tn__names_init(&reading.names, &foreign->context);
    bool fits = text_module(foreign, text->span) && text_read(foreign, &reading, text->span) &&
                text_explain(foreign, &reading) && tn__xla_needs(foreign, &reading);
    for (int i = 0; i < TN__XLA_TABLES; i++)
        tn__free(&foreign->context, reading.tables[i].rows,
                 reading.tables[i].room * sizeof *reading.tables[i].rows);
    tn__free(&foreign->context, reading.instructions, reading.room * sizeof *reading.instructions);
    tn__names_release(&reading.names);
    return fits ? TN_OK : tn__no_memory(error, "the text of the module");
}
