/* pickle.c - the machine of Python's pickles: pickle.h says what it knows and what not.
 *
 * Lengths that the file claims are compared with the bytes that are left before anything is done
 * with them, and numbers of the memo with the size of the file, which has a byte and more for each:
 * a short file cannot ask for much memory. Nothing recurs.
 *
 * Source: the comments of pickletools.py of Python 3 (PEP 307, 3154, 574), by observation of what
 * CPython writes; PyTorch's MemoryViz.js, which reads fewer of them.
 */
#include "snapshot/pickle.h"

#include <inttypes.h>

enum { PICKLE_STACK_MAX = 1 << 22, PICKLE_PROTOCOL_MAX = 5 };

typedef struct pickle_machine {
    const tn_context *context;
    const uint8_t *bytes;
    size_t size, at, opcode; /* the next byte; where the opcode began */
    tn__pickle_texts *texts;
    const tn__pickle_maker *maker;
    tn__pickle_value *stack;
    size_t depth, stack_room;
    size_t *marks; /* depths */
    size_t mark_count, mark_room;
    uint8_t *kinds; /* of the memo; PICKLE_UNSET: nothing there */
    uint64_t *words;
    size_t memo_count, kind_room, word_room; /* the highest number + 1 */
    tn_error *error;
} pickle_machine;

#define PICKLE_UNSET UINT8_MAX

#define PICKLE_FAIL(machine, ...) return tn__fail((machine)->error, TN_E_INVALID, __VA_ARGS__)

/* --- bytes --- */

/* The next `count` bytes. */
static tn_status pickle_take(pickle_machine *machine, uint64_t count, const uint8_t **bytes) {
    size_t left = machine->size - machine->at;
    if (count > left)
        PICKLE_FAIL(machine, "the file ends: %" PRIu64 " bytes are wanted and %zu are left", count,
                    left);
    *bytes = machine->bytes + machine->at;
    machine->at += (size_t)count;
    return TN_OK;
}

/* An unsigned integer of 1 to 8 bytes, the low one first. */
static tn_status pickle_unsigned(pickle_machine *machine, uint32_t width, uint64_t *value) {
    const uint8_t *bytes = NULL;
    TN_TRY(pickle_take(machine, width, &bytes));
    *value = 0;
    for (uint32_t i = 0; i < width; i++) *value |= (uint64_t)bytes[i] << 8 * i;
    return TN_OK;
}

/* --- the stack --- */

static inline tn_status pickle_push(pickle_machine *machine, tn__pickle_kind kind, uint64_t word) {
    if (machine->depth == machine->stack_room) {
        if (machine->depth >= PICKLE_STACK_MAX)
            return tn__fail(machine->error, TN_E_EXHAUSTED,
                            "more than %d values wait on the stack: no snapshot does that",
                            PICKLE_STACK_MAX);
        if (!tn__reserve(machine->context, &machine->stack, &machine->stack_room,
                         machine->depth + 1, sizeof *machine->stack))
            return tn__no_memory(machine->error, "the stack of a pickle");
    }
    machine->stack[machine->depth++] = (tn__pickle_value){kind, word};
    return TN_OK;
}

/* Values above the last mark. */
static size_t pickle_above(const pickle_machine *machine) {
    return machine->depth - (machine->mark_count ? machine->marks[machine->mark_count - 1] : 0);
}

static tn_status pickle_need(pickle_machine *machine, size_t count) {
    if (pickle_above(machine) < count)
        PICKLE_FAIL(machine, "%zu values are wanted and %zu are on the stack", count,
                    pickle_above(machine));
    return TN_OK;
}

static tn_status pickle_mark(pickle_machine *machine) {
    if (machine->mark_count >= PICKLE_STACK_MAX)
        return tn__fail(machine->error, TN_E_EXHAUSTED, "more than %d marks are open",
                        PICKLE_STACK_MAX);
    if (!tn__reserve(machine->context, &machine->marks, &machine->mark_room,
                     machine->mark_count + 1, sizeof *machine->marks))
        return tn__no_memory(machine->error, "the marks of a pickle");
    machine->marks[machine->mark_count++] = machine->depth;
    return TN_OK;
}

/* Takes the last mark away: *count values lie above where it was. */
static tn_status pickle_unmark(pickle_machine *machine, size_t *count) {
    if (machine->mark_count == 0) PICKLE_FAIL(machine, "no mark is open");
    *count = pickle_above(machine);
    machine->mark_count--;
    return TN_OK;
}

/* --- the memo --- */

static tn_status pickle_put(pickle_machine *machine, uint64_t number) {
    TN_TRY(pickle_need(machine, 1));
    if (number >= machine->size)
        PICKLE_FAIL(machine, "number %" PRIu64 " of the memo: the file is too short for so many",
                    number);
    if (number >= machine->memo_count) {
        size_t count = (size_t)number + 1;
        if (!tn__reserve(machine->context, &machine->kinds, &machine->kind_room, count, 1) ||
            !tn__reserve(machine->context, &machine->words, &machine->word_room, count,
                         sizeof *machine->words))
            return tn__no_memory(machine->error, "the memo of a pickle");
        memset(machine->kinds + machine->memo_count, PICKLE_UNSET, count - machine->memo_count);
        machine->memo_count = count;
    }
    const tn__pickle_value *top = &machine->stack[machine->depth - 1];
    machine->kinds[number] = (uint8_t)top->kind;
    machine->words[number] = top->word;
    return TN_OK;
}

static inline tn_status pickle_get(pickle_machine *machine, uint64_t number) {
    if (number >= machine->memo_count || machine->kinds[number] == PICKLE_UNSET)
        PICKLE_FAIL(machine, "number %" PRIu64 " of the memo was never stored", number);
    return pickle_push(machine, (tn__pickle_kind)machine->kinds[number], machine->words[number]);
}

/* --- atoms --- */

/* Text or bytes, whose length is the next `width` bytes. */
static tn_status pickle_text(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    uint64_t size = 0;
    uint32_t number = 0;
    const uint8_t *bytes = NULL;
    TN_TRY(pickle_unsigned(machine, width, &size));
    TN_TRY(pickle_take(machine, size, &bytes));
    if (!tn__pickle_texts_add(machine->texts, (const char *)bytes, (size_t)size, &number))
        return tn__no_memory(machine->error, "the texts of a pickle");
    return pickle_push(machine, kind, number);
}

static tn_status pickle_integer(pickle_machine *machine, int64_t value) {
    return pickle_push(machine, TN__PICKLE_INTEGER, (uint64_t)value);
}

/* LONG1, LONG4: two's complement of any length, the low byte first. */
static tn_status pickle_long(pickle_machine *machine, uint32_t width) {
    uint64_t size = 0, word = 0;
    const uint8_t *bytes = NULL;
    TN_TRY(pickle_unsigned(machine, width, &size));
    if (width == 4 && size > INT32_MAX) PICKLE_FAIL(machine, "an integer of a negative length");
    TN_TRY(pickle_take(machine, size, &bytes));
    /* bytes that only repeat the sign say nothing */
    while (size > 1 && (bytes[size - 1] == 0 || bytes[size - 1] == 255) &&
           (bytes[size - 1] ^ bytes[size - 2]) < 128)
        size--;
    bool negative = size > 0 && bytes[size - 1] > 127;
    if (size > 9 || (size == 9 && bytes[8] != 0)) {
        uint32_t number = 0;
        if (!tn__pickle_texts_add(machine->texts, (const char *)bytes, (size_t)size, &number))
            return tn__no_memory(machine->error, "the integers of a pickle");
        return pickle_push(machine, TN__PICKLE_BIG, number);
    }
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t byte = i < size ? bytes[i] : negative ? 255 : 0;
        word |= byte << 8 * i;
    }
    return pickle_push(machine, size == 9 ? TN__PICKLE_UNSIGNED : TN__PICKLE_INTEGER, word);
}

static tn_status pickle_real(pickle_machine *machine) {
    const uint8_t *bytes = NULL;
    uint64_t word = 0;
    TN_TRY(pickle_take(machine, 8, &bytes));
    for (int i = 0; i < 8; i++) word = word << 8 | bytes[i]; /* the only thing that is high first */
    return pickle_push(machine, TN__PICKLE_REAL, word);
}

/* --- containers --- */

/* In place of the `count` values on top: one container, of them if it is a tuple. */
static tn_status pickle_make(pickle_machine *machine, tn__pickle_kind kind, size_t count) {
    uint64_t word = 0;
    const tn__pickle_maker *maker = machine->maker;
    TN_TRY(pickle_need(machine, count));
    const tn__pickle_value *items = machine->stack + (machine->depth - count);
    TN_TRY(maker->make(maker->self, kind, items, count, &word, machine->error));
    machine->depth -= count;
    return pickle_push(machine, kind, word);
}

/* The `count` values on top go into the container below them. */
static tn_status pickle_add(pickle_machine *machine, tn__pickle_kind kind, size_t count) {
    const tn__pickle_maker *maker = machine->maker;
    TN_TRY(pickle_need(machine, count + 1));
    const tn__pickle_value *container = &machine->stack[machine->depth - count - 1];
    if (container->kind != kind)
        PICKLE_FAIL(machine, "items are given to what is no %s",
                    kind == TN__PICKLE_LIST ? "list" : "dict");
    if (kind == TN__PICKLE_DICT && count % 2 != 0)
        PICKLE_FAIL(machine, "a key of a dict has no value");
    if (count > 0) TN_TRY(maker->add(maker->self, container, container + 1, count, machine->error));
    machine->depth -= count;
    return TN_OK;
}

static tn_status pickle_add_marked(pickle_machine *machine, tn__pickle_kind kind) {
    size_t count = 0;
    TN_TRY(pickle_unmark(machine, &count));
    return pickle_add(machine, kind, count);
}

/* LIST and DICT: made of what lies above the mark. */
static tn_status pickle_make_marked(pickle_machine *machine, tn__pickle_kind kind) {
    size_t count = 0;
    uint64_t word = 0;
    const tn__pickle_maker *maker = machine->maker;
    TN_TRY(pickle_unmark(machine, &count));
    if (kind == TN__PICKLE_TUPLE) return pickle_make(machine, kind, count);
    if (kind == TN__PICKLE_DICT && count % 2 != 0)
        PICKLE_FAIL(machine, "a key of a dict has no value");
    TN_TRY(maker->make(maker->self, kind, NULL, 0, &word, machine->error));
    tn__pickle_value made = {kind, word};
    if (count > 0)
        TN_TRY(maker->add(maker->self, &made, machine->stack + (machine->depth - count), count,
                          machine->error));
    machine->depth -= count;
    return pickle_push(machine, kind, word);
}

static tn_status pickle_drop_marked(pickle_machine *machine) {
    size_t count = 0;
    TN_TRY(pickle_unmark(machine, &count));
    machine->depth -= count;
    return TN_OK;
}

/* --- the loop --- */

/* What is refused, by name: people who see it should know what they were given. */
static const char *pickle_runs_code(uint8_t opcode) {
    switch (opcode) {
    case 'c':
        return "GLOBAL";
    case 'R':
        return "REDUCE";
    case 'b':
        return "BUILD";
    case 'i':
        return "INST";
    case 'o':
        return "OBJ";
    case 'P':
        return "PERSID";
    case 'Q':
        return "BINPERSID";
    case 0x81:
        return "NEWOBJ";
    case 0x82:
        return "EXT1";
    case 0x83:
        return "EXT2";
    case 0x84:
        return "EXT4";
    case 0x92:
        return "NEWOBJ_EX";
    case 0x93:
        return "STACK_GLOBAL";
    default:
        return NULL;
    }
}

static tn_status pickle_refuse(pickle_machine *machine, uint8_t opcode) {
    const char *name = pickle_runs_code(opcode);
    if (name != NULL)
        PICKLE_FAIL(machine,
                    "%s: this pickle asks for code to be run; snapshots hold data alone, and this "
                    "reader runs nothing",
                    name);
    if (machine->opcode == 0 || (machine->at > 1 && machine->bytes[0] != 0x80))
        PICKLE_FAIL(machine, "this is no pickle of protocol 2 to 5: its first byte is 0x%02x",
                    machine->bytes[0]);
    PICKLE_FAIL(machine, "opcode 0x%02x is none that snapshots are made of", opcode);
}

static tn_status pickle_protocol(pickle_machine *machine) {
    uint64_t protocol = 0;
    TN_TRY(pickle_unsigned(machine, 1, &protocol));
    if (protocol < 2 || protocol > PICKLE_PROTOCOL_MAX)
        PICKLE_FAIL(machine, "protocol %u; 2 to %d are known", (unsigned)protocol,
                    PICKLE_PROTOCOL_MAX);
    return TN_OK;
}

/* A frame says how many bytes follow that may be read at once: all of them must be there. */
static tn_status pickle_frame(pickle_machine *machine) {
    uint64_t size = 0;
    TN_TRY(pickle_unsigned(machine, 8, &size));
    if (size > machine->size - machine->at)
        PICKLE_FAIL(machine, "the file ends: a frame of %" PRIu64 " bytes, and %zu are left", size,
                    machine->size - machine->at);
    return TN_OK;
}

/* An opcode with a number behind it. */
static tn_status pickle_numbered(pickle_machine *machine, uint8_t opcode) {
    uint64_t value = 0;
    TN_TRY(pickle_unsigned(machine,
                           opcode == 'J' || opcode == 'r' || opcode == 'j' ? 4
                           : opcode == 'M'                                 ? 2
                                                                           : 1,
                           &value));
    if (opcode == 'J') return pickle_integer(machine, (int32_t)(uint32_t)value);
    if (opcode == 'K' || opcode == 'M') return pickle_integer(machine, (int64_t)value);
    if (opcode == 'q' || opcode == 'r') return pickle_put(machine, value);
    return pickle_get(machine, value);
}

static tn_status pickle_step(pickle_machine *machine, uint8_t opcode) {
    switch (opcode) {
    case 'h':
    case 'j':
    case 'q':
    case 'r':
    case 'J':
    case 'K':
    case 'M':
        return pickle_numbered(machine, opcode);
    case 0x94:
        return pickle_put(machine, machine->memo_count);
    case 'N':
        return pickle_push(machine, TN__PICKLE_NONE, 0);
    case 0x88:
        return pickle_push(machine, TN__PICKLE_BOOL, 1);
    case 0x89:
        return pickle_push(machine, TN__PICKLE_BOOL, 0);
    case 0x8a:
        return pickle_long(machine, 1);
    case 0x8b:
        return pickle_long(machine, 4);
    case 'G':
        return pickle_real(machine);
    case 0x8c:
        return pickle_text(machine, 1, TN__PICKLE_TEXT);
    case 'X':
        return pickle_text(machine, 4, TN__PICKLE_TEXT);
    case 0x8d:
        return pickle_text(machine, 8, TN__PICKLE_TEXT);
    case 'U':
        return pickle_text(machine, 1, TN__PICKLE_TEXT); /* of Python 2 */
    case 'T':
        return pickle_text(machine, 4, TN__PICKLE_TEXT);
    case 'C':
        return pickle_text(machine, 1, TN__PICKLE_BYTES);
    case 'B':
        return pickle_text(machine, 4, TN__PICKLE_BYTES);
    case 0x8e:
    case 0x96:
        return pickle_text(machine, 8, TN__PICKLE_BYTES);
    case '(':
        return pickle_mark(machine);
    case '}':
        return pickle_make(machine, TN__PICKLE_DICT, 0);
    case ']':
        return pickle_make(machine, TN__PICKLE_LIST, 0);
    case ')':
        return pickle_make(machine, TN__PICKLE_TUPLE, 0);
    case 0x85:
        return pickle_make(machine, TN__PICKLE_TUPLE, 1);
    case 0x86:
        return pickle_make(machine, TN__PICKLE_TUPLE, 2);
    case 0x87:
        return pickle_make(machine, TN__PICKLE_TUPLE, 3);
    case 't':
        return pickle_make_marked(machine, TN__PICKLE_TUPLE);
    case 'l':
        return pickle_make_marked(machine, TN__PICKLE_LIST);
    case 'd':
        return pickle_make_marked(machine, TN__PICKLE_DICT);
    case 'a':
        return pickle_add(machine, TN__PICKLE_LIST, 1);
    case 'e':
        return pickle_add_marked(machine, TN__PICKLE_LIST);
    case 's':
        return pickle_add(machine, TN__PICKLE_DICT, 2);
    case 'u':
        return pickle_add_marked(machine, TN__PICKLE_DICT);
    case '0':
        TN_TRY(pickle_need(machine, 1));
        machine->depth--;
        return TN_OK;
    case '1':
        return pickle_drop_marked(machine);
    case 0x80:
        return pickle_protocol(machine);
    case 0x95:
        return pickle_frame(machine);
    default:
        return pickle_refuse(machine, opcode);
    }
}

static tn_status pickle_run(pickle_machine *machine, tn__pickle_value *value) {
    for (;;) {
        const uint8_t *opcode = NULL;
        machine->opcode = machine->at;
        TN_TRY(pickle_take(machine, 1, &opcode));
        if (*opcode == '.') break;
        TN_TRY(pickle_step(machine, *opcode));
    }
    if (machine->mark_count != 0 || machine->depth != 1)
        PICKLE_FAIL(machine, "STOP with %zu values and %zu marks on the stack, not one value",
                    machine->depth, machine->mark_count);
    *value = machine->stack[0];
    return TN_OK;
}

tn_status tn__pickle_read(const char *name, const uint8_t *bytes, size_t size,
                          tn__pickle_texts *texts, const tn__pickle_maker *maker,
                          tn__pickle_value *value, tn_error *error) {
    const tn_context *context = texts->context;
    pickle_machine machine = {.context = context,
                              .bytes = bytes,
                              .size = size,
                              .texts = texts,
                              .maker = maker,
                              .error = error};
    tn_status status = pickle_run(&machine, value);
    if (status != TN_OK) status = tn__where(error, status, "%s, byte %zu", name, machine.opcode);
    tn__free(context, machine.words, machine.word_room * sizeof *machine.words);
    tn__free(context, machine.kinds, machine.kind_room);
    tn__free(context, machine.marks, machine.mark_room * sizeof *machine.marks);
    tn__free(context, machine.stack, machine.stack_room * sizeof *machine.stack);
    return status;
}

/* --- texts --- */

void tn__pickle_texts_init(tn__pickle_texts *texts, const tn_context *context) {
    *texts = (tn__pickle_texts){.context = context};
    tn__names_init(&texts->names, context);
}

void tn__pickle_texts_release(tn__pickle_texts *texts) {
    tn__names_release(&texts->names);
    tn__free(texts->context, texts->texts, texts->room * sizeof *texts->texts);
    *texts = (tn__pickle_texts){.context = texts->context};
}

bool tn__pickle_texts_add(tn__pickle_texts *texts, const char *bytes, size_t size,
                          uint32_t *number) {
    uint32_t fresh = (uint32_t)texts->count, existing = TN__NAMES_NONE;
    if (texts->count >= UINT32_MAX - 1 ||
        !tn__reserve(texts->context, &texts->texts, &texts->room, texts->count + 1,
                     sizeof *texts->texts) ||
        !tn__names_add(&texts->names, bytes, size, fresh, &existing))
        return false;
    *number = existing == TN__NAMES_NONE ? fresh : existing;
    if (existing == TN__NAMES_NONE) texts->texts[texts->count++] = (tn__pickle_text){bytes, size};
    return true;
}
