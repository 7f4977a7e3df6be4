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

#include "interop/foreign/foreign.h"

/* limit of the bytes in which the operands of an instruction are searched */
#define TEXT_OPERANDS_MAX 4096u
/* limit of the bytes in which the operator and the source line are searched */
#define TEXT_METADATA_MAX 8192u

typedef struct text_instruction {
    tn__span name, op, operands, metadata;
} text_instruction;

static void text_skip(tn__span *text, size_t count) {
    text->bytes += count;
    text->size -= count;
}

static size_t text_find(tn__span text, const char *what) {
    size_t length = strlen(what);
    for (size_t at = 0; at + length <= text.size; at++)
        if (memcmp(text.bytes + at, what, length) == 0) return at;
    return text.size;
}

/* Skips a shape: a word, or a tuple in parentheses. */
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

/* Parses an instruction, "[ROOT ][%]NAME = SHAPE OPCODE(OPERANDS)..."; false if the line is
 * something else. */
static bool text_parse(tn__span line, text_instruction *made) {
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
    size_t metadata = text_find(line, "metadata={");
    size_t rest = line.size - metadata;
    made->metadata =
        (tn__span){line.bytes + metadata, rest < TEXT_METADATA_MAX ? rest : TEXT_METADATA_MAX};
    made->operands =
        (tn__span){line.bytes, metadata < TEXT_OPERANDS_MAX ? metadata : TEXT_OPERANDS_MAX};
    return true;
}

/* Returns the value of NAME="..." or NAME=123 in the metadata. */
static tn__span text_field(tn__span metadata, const char *name) {
    size_t at = text_find(metadata, name);
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

/* Makes the description of a value, such as "jit(f)/add, train.py:12". */
static const char *text_source(tn_foreign *foreign, tn__span metadata) {
    char text[2100];
    tn__span op = text_field(metadata, "op_name="), file = text_field(metadata, "source_file=");
    tn__span line = text_field(metadata, "source_line=");
    int size = 0;
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

typedef struct text_reading {
    tn__names names; /* finds the number of an instruction by its name */
    text_instruction *instructions;
    size_t count, room;
} text_reading;

static bool text_read(tn_foreign *foreign, text_reading *reading, tn__span text) {
    while (text.size > 0) {
        const uint8_t *stop = memchr(text.bytes, '\n', text.size);
        tn__span line = {text.bytes, stop != NULL ? (size_t)(stop - text.bytes) : text.size};
        text_skip(&text, line.size + (stop != NULL));
        text_instruction made;
        uint32_t twice;
        if (!text_parse(line, &made)) continue;
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

static bool text_explain(tn_foreign *foreign, const text_reading *reading) {
    size_t room = (size_t)foreign->facts.value_count + 1;
    foreign->operands = tn__alloc_array(&foreign->context, room, sizeof *foreign->operands);
    foreign->operand_room = room;
    if (foreign->operands == NULL) return false;
    for (uint32_t i = 0; i < foreign->facts.value_count; i++) {
        tn_foreign_value *value = &foreign->values[i];
        uint32_t found = tn__names_find(&reading->names, value->name, strcspn(value->name, "{"));
        if (found == TN__NAMES_NONE) continue;
        const text_instruction *instruction = &reading->instructions[found];
        value->op = tn__foreign_text(foreign, instruction->op);
        value->source = text_source(foreign, instruction->metadata);
        foreign->operands[i] = instruction->operands;
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
    text_reading reading = {0};
    if (memchr(text->span.bytes, 0, text->span.size) != NULL)
        return tn__where(error, tn__fail(error, TN_E_INVALID, "a zero byte, so it is no text"),
                         "%.150s", text->name);
    tn__names_init(&reading.names, &foreign->context);
    bool fits = text_module(foreign, text->span) && text_read(foreign, &reading, text->span) &&
                text_explain(foreign, &reading);
    tn__free(&foreign->context, reading.instructions, reading.room * sizeof *reading.instructions);
    tn__names_release(&reading.names);
    return fits ? TN_OK : tn__no_memory(error, "the text of the module");
}
