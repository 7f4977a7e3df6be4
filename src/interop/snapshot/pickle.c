/* pickle.c - an interpreter for Python's pickles that only accepts data; pickle.h lists its limits.
 *
 * A length in the file is compared with the bytes left before it is used. A memo number is compared
 * with the size of the file, because each entry takes at least one byte. So a short file cannot
 * cause a large allocation. Nothing is recursive.
 *
 * Source: the comments of pickletools.py of Python 3 (PEP 307, 3154, 574), and output of CPython;
 * PyTorch's MemoryViz.js, which reads fewer opcodes.
 */
#include "interop/snapshot/pickle.h"

#include <inttypes.h>

/* --- numbering texts -------------------------------------------------------------------------- */

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

enum { PICKLE_STACK_MAX = 1 << 22, PICKLE_PROTOCOL_MAX = 5 };

typedef struct pickle_machine {
    const tn_context *context;
    const uint8_t *bytes;
    size_t size, at, opcode; /* at: index of the next byte; opcode: index of the current opcode */
    tn__pickle_texts *texts;
    const tn__pickle_maker *maker;
    tn__pickle_value *stack;
    size_t depth, stack_room;
    size_t *marks; /* [mark_count] depth of the stack at each mark */
    size_t mark_count, mark_room;
    uint8_t *kinds; /* [memo_count] kind of each memo entry; PICKLE_UNSET: the entry has no value */
    uint64_t *words;
    size_t memo_count, kind_room, word_room; /* memo_count: the highest memo number plus 1 */
    tn_error *error;
} pickle_machine;

#define PICKLE_UNSET UINT8_MAX
#define PICKLE_PROTO 0x80

#define PICKLE_FAIL(machine, ...) return tn__fail((machine)->error, TN_E_INVALID, __VA_ARGS__)

/* --- bytes --- */

/* Takes the next `count` bytes of the file; fails if fewer are left. */
static tn_status pickle_take(pickle_machine *machine, uint64_t count, const uint8_t **bytes) {
    size_t left = machine->size - machine->at;
    if (count > left)
        PICKLE_FAIL(machine, "the file ends: %" PRIu64 " bytes are wanted and %zu are left", count,
                    left);
    *bytes = machine->bytes + machine->at;
    machine->at += (size_t)count;
    return TN_OK;
}

/* Reads an unsigned integer of 1 to 8 bytes, low byte first. */
static tn_status pickle_unsigned(pickle_machine *machine, uint32_t width, uint64_t *value) {
    const uint8_t *bytes = NULL;
    TN_TRY(pickle_take(machine, width, &bytes));
    *value = 0;
    for (uint32_t i = 0; i < width; i++) *value |= (uint64_t)bytes[i] << 8 * i;
    return TN_OK;
}

/* --- the stack of the pickle machine --- */

static inline tn_status pickle_push(pickle_machine *machine, tn__pickle_kind kind, uint64_t word) {
    if (machine->depth == machine->stack_room) {
        if (machine->depth >= PICKLE_STACK_MAX)
            return tn__fail(machine->error, TN_E_UNSUPPORTED,
                            "more than %d values wait on the stack: no snapshot does that",
                            PICKLE_STACK_MAX);
        if (!tn__reserve(machine->context, &machine->stack, &machine->stack_room,
                         machine->depth + 1, sizeof *machine->stack))
            return tn__no_memory(machine->error, "the stack of a pickle");
    }
    machine->stack[machine->depth++] = (tn__pickle_value){kind, word};
    return TN_OK;
}

/* Returns the number of values above the last mark. */
static size_t pickle_above(const pickle_machine *machine) {
    return machine->depth - (machine->mark_count ? machine->marks[machine->mark_count - 1] : 0);
}

static tn_status pickle_need(pickle_machine *machine, size_t count) {
    if (pickle_above(machine) < count)
        PICKLE_FAIL(machine, "%zu values are wanted and %zu are on the stack", count,
                    pickle_above(machine));
    return TN_OK;
}

static tn_status pickle_mark(pickle_machine *machine, uint32_t number, tn__pickle_kind kind) {
    (void)number, (void)kind;
    if (machine->mark_count >= PICKLE_STACK_MAX)
        return tn__fail(machine->error, TN_E_UNSUPPORTED, "more than %d marks are open",
                        PICKLE_STACK_MAX);
    if (!tn__reserve(machine->context, &machine->marks, &machine->mark_room,
                     machine->mark_count + 1, sizeof *machine->marks))
        return tn__no_memory(machine->error, "the marks of a pickle");
    machine->marks[machine->mark_count++] = machine->depth;
    return TN_OK;
}

/* Removes the last mark; *count is the number of values above it. */
static tn_status pickle_unmark(pickle_machine *machine, uint32_t *count) {
    if (machine->mark_count == 0) PICKLE_FAIL(machine, "no mark is open");
    *count = (uint32_t)pickle_above(machine); /* fits, because the size of the stack is limited */
    machine->mark_count--;
    return TN_OK;
}

/* --- the memo of the pickle machine --- */

static tn_status pickle_store(pickle_machine *machine, uint64_t number) {
    TN_TRY(pickle_need(machine, 1));
    if (number >= machine->size)
        PICKLE_FAIL(machine,
                    "number %" PRIu64 " of the memo: the file is too short to have that many",
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

static tn_status pickle_put(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    uint64_t number = 0;
    (void)kind;
    TN_TRY(pickle_unsigned(machine, width, &number));
    return pickle_store(machine, number);
}

static tn_status pickle_memoize(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    (void)width, (void)kind;
    return pickle_store(machine, machine->memo_count);
}

static tn_status pickle_get(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    uint64_t number = 0;
    (void)kind;
    TN_TRY(pickle_unsigned(machine, width, &number));
    if (number >= machine->memo_count || machine->kinds[number] == PICKLE_UNSET)
        PICKLE_FAIL(machine, "number %" PRIu64 " of the memo was never stored", number);
    return pickle_push(machine, (tn__pickle_kind)machine->kinds[number], machine->words[number]);
}

/* --- atoms --- */

/* Pushes a text or bytes; the next `width` bytes of the file are the length. */
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

static tn_status pickle_integer(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    uint64_t value = 0;
    TN_TRY(pickle_unsigned(machine, width, &value));
    /* BININT, with 4 bytes, is signed */
    int64_t number = width == 4 ? (int32_t)(uint32_t)value : (int64_t)value;
    return pickle_push(machine, kind, (uint64_t)number);
}

static tn_status pickle_constant(pickle_machine *machine, uint32_t number, tn__pickle_kind kind) {
    return pickle_push(machine, kind, number);
}

/* Pushes the integer of LONG1 or LONG4: two's complement of any length, low byte first. */
static tn_status pickle_long(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    (void)kind;
    uint64_t size = 0, word = 0;
    const uint8_t *bytes = NULL;
    TN_TRY(pickle_unsigned(machine, width, &size));
    if (width == 4 && size > INT32_MAX) PICKLE_FAIL(machine, "an integer of a negative length");
    TN_TRY(pickle_take(machine, size, &bytes));
    /* drops leading bytes that only repeat the sign */
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

static tn_status pickle_real(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    const uint8_t *bytes = NULL;
    uint64_t word = 0;
    TN_TRY(pickle_take(machine, width, &bytes));
    for (uint32_t i = 0; i < width; i++)
        word = word << 8 | bytes[i]; /* this is the only big-endian number in the format */
    return pickle_push(machine, kind, word);
}

/* --- containers --- */

/* Replaces the `count` values on top of the stack by one container of the kind, which the maker
 * makes of them. */
static tn_status pickle_make(pickle_machine *machine, uint32_t count, tn__pickle_kind kind) {
    uint64_t word = 0;
    const tn__pickle_maker *maker = machine->maker;
    TN_TRY(pickle_need(machine, count));
    const tn__pickle_value *items = machine->stack + (machine->depth - count);
    TN_TRY(maker->make(maker->self, kind, items, count, &word, machine->error));
    machine->depth -= count;
    return pickle_push(machine, kind, word);
}

/* Adds the `count` values on top of the stack to the container below them. */
static tn_status pickle_add(pickle_machine *machine, uint32_t count, tn__pickle_kind kind) {
    const tn__pickle_maker *maker = machine->maker;
    TN_TRY(pickle_need(machine, count + 1));
    const tn__pickle_value *container = &machine->stack[machine->depth - count - 1];
    if (container->kind != kind)
        PICKLE_FAIL(machine, "items are added to a value that is no %s",
                    kind == TN__PICKLE_LIST ? "list" : "dict");
    if (kind == TN__PICKLE_DICT && count % 2 != 0)
        PICKLE_FAIL(machine, "a key of a dict has no value");
    if (count > 0) TN_TRY(maker->add(maker->self, container, container + 1, count, machine->error));
    machine->depth -= count;
    return TN_OK;
}

static tn_status pickle_add_marked(pickle_machine *machine, uint32_t number, tn__pickle_kind kind) {
    uint32_t count = number;
    TN_TRY(pickle_unmark(machine, &count));
    return pickle_add(machine, count, kind);
}

/* LIST, DICT and TUPLE: makes a container of the values above the last mark. */
static tn_status pickle_make_marked(pickle_machine *machine, uint32_t number,
                                    tn__pickle_kind kind) {
    uint32_t count = number;
    uint64_t word = 0;
    const tn__pickle_maker *maker = machine->maker;
    TN_TRY(pickle_unmark(machine, &count));
    if (kind == TN__PICKLE_TUPLE) return pickle_make(machine, count, kind);
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

/* POP and POP_MARK: drops values. Picklers use them if a tuple turns out to contain itself. */
static tn_status pickle_drop(pickle_machine *machine, uint32_t count, tn__pickle_kind kind) {
    (void)kind;
    TN_TRY(pickle_need(machine, count));
    machine->depth -= count;
    return TN_OK;
}

static tn_status pickle_drop_marked(pickle_machine *machine, uint32_t number,
                                    tn__pickle_kind kind) {
    uint32_t count = number;
    TN_TRY(pickle_unmark(machine, &count));
    return pickle_drop(machine, count, kind);
}

/* --- the loop over the opcodes --- */

/* Names of refused opcodes, so that users learn what the file contains. */
static const char *const pickle_code[256] = {
    ['c'] = "GLOBAL",        ['R'] = "REDUCE", ['b'] = "BUILD",     ['i'] = "INST",
    ['o'] = "OBJ",           ['P'] = "PERSID", ['Q'] = "BINPERSID", [0x81] = "NEWOBJ",
    [0x82] = "EXT1",         [0x83] = "EXT2",  [0x84] = "EXT4",     [0x92] = "NEWOBJ_EX",
    [0x93] = "STACK_GLOBAL",
};

static tn_status pickle_refuse(pickle_machine *machine, uint8_t opcode) {
    const char *name = pickle_code[opcode];
    if (machine->opcode == 0 || machine->bytes[0] != PICKLE_PROTO)
        PICKLE_FAIL(machine, "this is no pickle of protocol 2 to 5: its first byte is 0x%02x",
                    machine->bytes[0]);
    if (name != NULL)
        PICKLE_FAIL(machine,
                    "%s: this pickle asks for code to be run; snapshots hold data alone, and this "
                    "reader runs nothing",
                    name);
    PICKLE_FAIL(machine, "opcode 0x%02x does not occur in snapshots", opcode);
}

static tn_status pickle_protocol(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    uint64_t protocol = 0;
    (void)kind;
    TN_TRY(pickle_unsigned(machine, width, &protocol));
    if (protocol < 2 || protocol > PICKLE_PROTOCOL_MAX)
        PICKLE_FAIL(machine, "protocol %u; 2 to %d are known", (unsigned)protocol,
                    PICKLE_PROTOCOL_MAX);
    return TN_OK;
}

/* Reads the header of a frame, which states the number of bytes in it; all of them must exist. */
static tn_status pickle_frame(pickle_machine *machine, uint32_t width, tn__pickle_kind kind) {
    uint64_t size = 0;
    (void)kind;
    TN_TRY(pickle_unsigned(machine, width, &size));
    if (size > machine->size - machine->at)
        PICKLE_FAIL(machine, "the file ends: a frame of %" PRIu64 " bytes, and %zu are left", size,
                    machine->size - machine->at);
    return TN_OK;
}

typedef struct pickle_row {
    tn_status (*act)(pickle_machine *machine, uint32_t number, tn__pickle_kind kind);
    uint32_t number; /* number of bytes after the opcode, or of values that it uses */
    tn__pickle_kind kind;
} pickle_row;

/* The functions of all known opcodes; the loop in pickle_run handles STOP. */
/* clang-format off */
static const pickle_row pickle_rows[256] = {
    [PICKLE_PROTO] = {pickle_protocol, 1, 0},           [0x95] = {pickle_frame, 8, 0},
    ['N'] = {pickle_constant, 0, TN__PICKLE_NONE},      [0x88] = {pickle_constant, 1, TN__PICKLE_BOOL},
    [0x89] = {pickle_constant, 0, TN__PICKLE_BOOL},     ['G'] = {pickle_real, 8, TN__PICKLE_REAL},
    ['K'] = {pickle_integer, 1, TN__PICKLE_INTEGER},    ['M'] = {pickle_integer, 2, TN__PICKLE_INTEGER},
    ['J'] = {pickle_integer, 4, TN__PICKLE_INTEGER},    [0x8a] = {pickle_long, 1, TN__PICKLE_INTEGER},
    [0x8b] = {pickle_long, 4, TN__PICKLE_INTEGER},
    [0x8c] = {pickle_text, 1, TN__PICKLE_TEXT},         ['X'] = {pickle_text, 4, TN__PICKLE_TEXT},
    [0x8d] = {pickle_text, 8, TN__PICKLE_TEXT},         ['C'] = {pickle_text, 1, TN__PICKLE_BYTES},
    ['B'] = {pickle_text, 4, TN__PICKLE_BYTES},         [0x8e] = {pickle_text, 8, TN__PICKLE_BYTES},
    [0x96] = {pickle_text, 8, TN__PICKLE_BYTES}, /* BYTEARRAY8, a bytearray */
    /* SHORT_BINSTRING and BINSTRING, which Python 2 writes */
    ['U'] = {pickle_text, 1, TN__PICKLE_TEXT},          ['T'] = {pickle_text, 4, TN__PICKLE_TEXT},
    ['q'] = {pickle_put, 1, 0},                         ['r'] = {pickle_put, 4, 0},
    [0x94] = {pickle_memoize, 0, 0},
    ['h'] = {pickle_get, 1, 0},                         ['j'] = {pickle_get, 4, 0},
    ['('] = {pickle_mark, 0, 0},
    ['0'] = {pickle_drop, 1, 0},                        ['1'] = {pickle_drop_marked, 0, 0},
    ['}'] = {pickle_make, 0, TN__PICKLE_DICT},          ['d'] = {pickle_make_marked, 0, TN__PICKLE_DICT},
    [']'] = {pickle_make, 0, TN__PICKLE_LIST},          ['l'] = {pickle_make_marked, 0, TN__PICKLE_LIST},
    [')'] = {pickle_make, 0, TN__PICKLE_TUPLE},         ['t'] = {pickle_make_marked, 0, TN__PICKLE_TUPLE},
    [0x85] = {pickle_make, 1, TN__PICKLE_TUPLE},        [0x86] = {pickle_make, 2, TN__PICKLE_TUPLE},
    [0x87] = {pickle_make, 3, TN__PICKLE_TUPLE},
    ['a'] = {pickle_add, 1, TN__PICKLE_LIST},           ['e'] = {pickle_add_marked, 0, TN__PICKLE_LIST},
    ['s'] = {pickle_add, 2, TN__PICKLE_DICT},           ['u'] = {pickle_add_marked, 0, TN__PICKLE_DICT},
};
/* clang-format on */

static tn_status pickle_run(pickle_machine *machine, tn__pickle_value *value) {
    if (!tn__reserve(machine->context, &machine->stack, &machine->stack_room, 1,
                     /* allocates at least one item, so that no pointer is NULL */
                     sizeof *machine->stack))
        return tn__no_memory(machine->error, "the stack of a pickle");
    for (;;) {
        const uint8_t *opcode = NULL;
        machine->opcode = machine->at;
        TN_TRY(pickle_take(machine, 1, &opcode));
        if (*opcode == '.') break;
        const pickle_row *row = &pickle_rows[*opcode];
        TN_TRY(row->act != NULL ? row->act(machine, row->number, row->kind)
                                : pickle_refuse(machine, *opcode));
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
