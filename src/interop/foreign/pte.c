/* pte.c - reads the memory plan inside an ExecuTorch program, a .pte file.
 *
 * The file is a FlatBuffer, with an optional extended header that says where the segments of
 * weights begin. A tensor with allocation_info has a place: a memory and an offset. The file has no
 * live ranges. They follow from the instructions; the index of an instruction is the time:
 *
 *   - A value is live from the first to the last instruction that names it, both included.
 *   - Inputs are live from the start, outputs to the end.
 *   - The last arguments of a kernel, which are given twice, are its outputs. A value that is read
 *     before it is written, or that is written last and not read again, or has initial data, is
 *     state: it is live in all steps. (The arguments of a delegate do not show which are outputs.)
 *   - A jump back makes the values that are live at its destination live until the jump.
 *
 * ExecuTorch's own live ranges, in numbers of nodes, include these, so a valid plan stays valid.
 *
 * Cost: O(size of the tables + arguments).
 * Source: ExecuTorch, schema/program.fbs, exir/memory_planning.py, runtime/executor.
 */
#include "interop/foreign/pte.h"

#include <inttypes.h>
#include <stdio.h>

#define PTE_JUMPS_MAX 1024u
#define PTE_DIMS_MAX 64u

/* --- schema --- */

/* clang-format off */
#define SCALAR(bytes) {.kind = TN_FLAT_SCALAR, .width = bytes}
#define SCALARS(bytes) {.kind = TN_FLAT_SCALARS, .width = bytes}
#define STRING {.kind = TN_FLAT_STRING}
#define TABLE(schema) {.kind = TN_FLAT_TABLE, .child = &schema}
#define TABLES(schema) {.kind = TN_FLAT_TABLES, .child = &schema}
#define MEMBER(table) {.kind = TN_FLAT_UNION, .members = table, \
    .member_count = sizeof(table) / sizeof(*table)}
#define NOTHING {.kind = TN_FLAT_UNKNOWN}
#define SCHEMA(name, text, ...) static const tn__flat_schema name = {text, \
    sizeof((tn__flat_field[]){__VA_ARGS__}) / sizeof(tn__flat_field), {__VA_ARGS__}}

SCHEMA(schema_place, "AllocationDetails", SCALAR(4), SCALAR(4), SCALAR(4));
SCHEMA(schema_tensor, "Tensor", SCALAR(1), SCALAR(4), SCALARS(4), SCALARS(1), SCALAR(1), SCALAR(4),
       TABLE(schema_place), SCALAR(1), SCALAR(1));
SCHEMA(schema_list, "TensorList", SCALARS(4));
SCHEMA(schema_kernel, "KernelCall", SCALAR(4), SCALARS(4));
SCHEMA(schema_delegate, "DelegateCall", SCALAR(4), SCALARS(4));
SCHEMA(schema_move, "MoveCall", SCALAR(4), SCALAR(4));
SCHEMA(schema_jump, "JumpFalseCall", SCALAR(4), SCALAR(4));
SCHEMA(schema_free, "FreeCall", SCALAR(4));
static const tn__flat_schema *const pte_values[] = {[PTE_TENSOR] = &schema_tensor,
    [PTE_TENSOR_LIST] = &schema_list, [PTE_OPTIONAL_LIST] = &schema_list};
static const tn__flat_schema *const pte_calls[] = {[PTE_KERNEL] = &schema_kernel,
    [PTE_DELEGATE] = &schema_delegate, [PTE_MOVE] = &schema_move, [PTE_JUMP] = &schema_jump,
    [PTE_FREE] = &schema_free};
SCHEMA(schema_value, "EValue", SCALAR(1), MEMBER(pte_values));
SCHEMA(schema_instruction, "Instruction", SCALAR(1), MEMBER(pte_calls));
SCHEMA(schema_chain, "Chain", SCALARS(4), SCALARS(4), TABLES(schema_instruction));
SCHEMA(schema_operator, "Operator", STRING, STRING);
SCHEMA(schema_plan, "ExecutionPlan", STRING, NOTHING, TABLES(schema_value), SCALARS(4), SCALARS(4),
       TABLES(schema_chain), TABLES(schema_operator), NOTHING, SCALARS(8));
SCHEMA(schema_program, "Program", SCALAR(4), TABLES(schema_plan));
/* clang-format on */

/* --- opening --- */

/* Reads the extended header, if the file has one. */
static tn_status pte_header(pte_file *file) {
    const uint8_t *at = file->bytes.bytes + PTE_HEADER_AT;
    file->program = file->bytes;
    if (file->bytes.size < PTE_HEADER_MIN || memcmp(at, "eh", 2) != 0) return TN_OK;
    if (memcmp(at, "eh00", 4) != 0)
        TN_FAIL(file->error, TN_E_UNSUPPORTED,
                "the extended header has version '%.4s'; 'eh00' is known", (const char *)at);
    uint64_t length = tn__little(at + 4, 4), program = tn__little(at + 8, 8);
    uint64_t segments = tn__little(at + 16, 8);
    if (length < 24 || program > file->bytes.size || program < PTE_HEADER_MIN ||
        (segments != 0 && (segments < program || segments > file->bytes.size)))
        TN_FAIL(file->error, TN_E_INVALID,
                "the extended header states a program of %" PRIu64 " bytes and segments from "
                "byte %" PRIu64 ", but the file has %zu bytes (cut off?)",
                program, segments, file->bytes.size);
    file->has_header = true;
    file->program.size = (size_t)program;
    file->segments = segments;
    return TN_OK;
}

static tn_status pte_find(pte_file *file, const char *method) {
    tn__flat_table program = tn__flat_root(file->program);
    tn__flat_vector plans = tn__flat_list(&program, PTE_PROGRAM_PLANS);
    uint64_t version = tn__flat_uint(&program, PTE_PROGRAM_VERSION, 4, 0);
    if (version != 0)
        TN_FAIL(file->error, TN_E_UNSUPPORTED,
                "a program of version %" PRIu64 "; version 0 is known", version);
    file->methods = plans.count;
    for (uint32_t i = 0; i < plans.count; i++) {
        file->plan = tn__flat_item(&plans, i);
        tn__span name = tn__flat_string(&file->plan, PTE_PLAN_NAME);
        if (method != NULL && !tn__span_is(name, method)) continue;
        file->method = name.size > 0 ? (const char *)name.bytes : "";
        file->values = tn__flat_list(&file->plan, PTE_PLAN_VALUES);
        file->sizes = tn__flat_list(&file->plan, PTE_PLAN_SIZES);
        return TN_OK;
    }
    if (method == NULL) TN_FAIL(file->error, TN_E_INVALID, "the program has no method");
    TN_FAIL(file->error, TN_E_UNKNOWN, "none of the %u methods is '%.80s'", plans.count, method);
}

tn_status tn__pte_open(pte_file *file, const char *name, tn__span bytes, const char *method,
                       tn_error *error) {
    size_t end;
    *file = (pte_file){.name = name, .bytes = bytes, .error = error};
    if (bytes.size < 8 || memcmp(bytes.bytes + 4, "ET", 2) != 0)
        TN_FAIL(error, TN_E_INVALID, "not a program of ExecuTorch: bytes 4 to 8 are not 'ET12'");
    if (memcmp(bytes.bytes + 4, "ET12", 4) != 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "a program of format '%.4s'; 'ET12' is known",
                (const char *)bytes.bytes + 4);
    TN_TRY(pte_header(file));
    TN_TRY(tn__flat_verify(file->program, &schema_program, &end, error));
    return pte_find(file, method);
}

tn__flat_table tn__pte_tensor(const pte_file *file, uint32_t value) {
    tn__flat_table entry = tn__flat_item(&file->values, value);
    return tn__flat_member(&entry, PTE_VALUE_VALUE, PTE_TENSOR);
}

/* --- values --- */

/* Returns the bytes of an element of a scalar type; 0: unknown type. */
static uint32_t pte_element(int64_t type) {
    static const uint8_t bytes[] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4,
                                    2, 1, 1, 0, 0, 0, 0, 2, 1, 1, 1,  1, 2, 4, 8};
    return type >= 0 && type < (int64_t)sizeof bytes ? bytes[type] : 0;
}

typedef struct pte_reading {
    pte_file file;
    tn_foreign *foreign;
    uint32_t *number; /* [values of the file] number of each value in the plan, or UINT32_MAX */
    /* [values of the plan] 1: an instruction has named the value, or it is an input */
    uint8_t *is_known;
    uint8_t *is_state; /* [values of the plan] 1: the value is live in all steps */
    /* [values of the plan] 1: the last instruction that names the value writes it */
    uint8_t *is_final;
    uint32_t steps;
    struct pte_back {
        uint32_t to, from;
    } jumps[PTE_JUMPS_MAX]; /* the jumps to an earlier instruction */
    uint32_t jump_count;
    tn_error *error;
} pte_reading;

static tn_status pte_bytes(const pte_reading *reading, uint32_t value, const tn__flat_table *tensor,
                           uint64_t *bytes) {
    tn__flat_vector sizes = tn__flat_list(tensor, PTE_TENSOR_SIZES);
    int64_t type = tn__flat_int(tensor, PTE_TENSOR_TYPE, 1, 0);
    *bytes = pte_element(type);
    if (*bytes == 0)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "value %u has scalar type %" PRId64, value, type);
    if (tn__flat_int(tensor, PTE_TENSOR_STORAGE_OFFSET, 4, 0) != 0)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "value %u has a storage offset", value);
    if (sizes.count > PTE_DIMS_MAX)
        TN_FAIL(reading->error, TN_E_INVALID, "value %u has %u dimensions", value, sizes.count);
    for (uint32_t i = 0; i < sizes.count; i++) {
        int32_t size = tn__flat_int32(&sizes, i);
        if (size < 0 || !tn__mul(*bytes, (uint64_t)size, bytes))
            TN_FAIL(reading->error, TN_E_INVALID, "value %u has dimension %d, or too many bytes",
                    value, size);
    }
    return TN_OK;
}

/* Adds a value that has a place in memory to the plan. */
static tn_status pte_place_value(pte_reading *reading, uint32_t value, const tn__flat_table *tensor,
                                 const tn__flat_table *place) {
    tn_foreign *foreign = reading->foreign;
    tn_foreign_value made = {.op = "", .source = "", .first = INT64_MAX, .last = INT64_MIN};
    uint64_t memory = tn__flat_uint(place, PTE_PLACE_MEMORY, 4, 0), end;
    char name[24];
    if (memory == 0 || memory >= reading->file.sizes.count)
        TN_FAIL(reading->error, TN_E_INVALID,
                "value %u is in memory %" PRIu64 "; the method has memories 1 to %u", value, memory,
                reading->file.sizes.count > 0 ? reading->file.sizes.count - 1 : 0);
    TN_TRY(pte_bytes(reading, value, tensor, &made.size));
    made.offset = tn__flat_uint(place, PTE_PLACE_HIGH, 4, 0) << 32 |
                  tn__flat_uint(place, PTE_PLACE_LOW, 4, 0);
    made.arena = (uint32_t)memory - 1;
    if (!tn__add(made.offset, made.size, &end) || end > foreign->arenas[made.arena].size)
        TN_FAIL(reading->error, TN_E_INVALID,
                "value %u has %" PRIu64 " bytes at %" PRIu64 ", but memory %" PRIu64
                " has %" PRIu64,
                value, made.size, made.offset, memory, foreign->arenas[made.arena].size);
    int length = snprintf(name, sizeof name, "value %u", value);
    made.name = tn__foreign_text(foreign, (tn__span){(const uint8_t *)name, (size_t)length});
    reading->number[value] = foreign->facts.value_count;
    if (made.name == NULL || !tn__foreign_add_value(foreign, &made))
        return tn__no_memory(reading->error, "a value");
    return TN_OK;
}

static tn_status pte_read_values(pte_reading *reading) {
    for (uint32_t i = 0; i < reading->file.values.count; i++) {
        tn__flat_table tensor = tn__pte_tensor(&reading->file, i);
        reading->number[i] = UINT32_MAX;
        if (tensor.bytes == NULL) continue;
        tn__flat_table place = tn__flat_child(&tensor, PTE_TENSOR_PLACE);
        if (place.bytes == NULL) continue;
        TN_TRY(pte_place_value(reading, i, &tensor, &place));
    }
    return TN_OK;
}

static tn_status pte_read_memories(pte_reading *reading) {
    const tn__flat_vector *sizes = &reading->file.sizes;
    for (uint32_t i = 1; i < sizes->count; i++) { /* entry 0 of the list is reserved */
        tn_foreign_arena arena = {.use = TN_FOREIGN_PLANNED};
        char name[24];
        arena.size = tn__little(sizes->items + (size_t)8 * i, 8);
        if (arena.size > INT64_MAX)
            TN_FAIL(reading->error, TN_E_INVALID, "memory %u has a negative size", i);
        if (i > TN__FOREIGN_ARENAS_MAX)
            TN_FAIL(reading->error, TN_E_UNSUPPORTED, "more than 10^6 memories");
        int length = snprintf(name, sizeof name, "memory %u", i);
        arena.name =
            tn__foreign_text(reading->foreign, (tn__span){(const uint8_t *)name, (size_t)length});
        if (arena.name == NULL || !tn__foreign_add_arena(reading->foreign, &arena))
            return tn__no_memory(reading->error, "a memory");
    }
    return TN_OK;
}

/* --- live ranges --- */

/* Records that a value, or each value of a list, is used at a step. */
static tn_status pte_use_one(pte_reading *reading, int64_t value, int64_t step) {
    if (value < 0 || value >= reading->file.values.count)
        TN_FAIL(reading->error, TN_E_INVALID, "value %" PRId64 " does not exist; there are %u",
                value, reading->file.values.count);
    uint32_t number = reading->number[value];
    if (number == UINT32_MAX) return TN_OK;
    tn_foreign_value *it = &reading->foreign->values[number];
    if (step < it->first) it->first = step;
    if (step + 1 > it->last) it->last = step + 1;
    return TN_OK;
}

/* Returns the items of a value that is a list of tensors. */
static tn__flat_vector pte_items(const pte_reading *reading, int64_t value) {
    if (value < 0 || value >= reading->file.values.count) return (tn__flat_vector){0};
    tn__flat_table entry = tn__flat_item(&reading->file.values, (uint32_t)value);
    uint64_t type = tn__flat_uint(&entry, PTE_VALUE_TYPE, 1, 0);
    if (type != PTE_TENSOR_LIST && type != PTE_OPTIONAL_LIST) return (tn__flat_vector){0};
    tn__flat_table list = tn__flat_child(&entry, PTE_VALUE_VALUE);
    return tn__flat_list(&list, 0);
}

static tn_status pte_use(pte_reading *reading, int64_t value, int64_t step) {
    tn__flat_vector items = pte_items(reading, value);
    TN_TRY(pte_use_one(reading, value, step));
    for (uint32_t i = 0; i < items.count; i++) {
        int32_t item = tn__flat_int32(&items, i);
        if (item >= 0) TN_TRY(pte_use_one(reading, item, step)); /* -1 stands for an absent item */
    }
    return TN_OK;
}

typedef enum pte_role { PTE_READ, PTE_WRITTEN, PTE_EITHER } pte_role;

static void pte_know_one(pte_reading *reading, int64_t value, pte_role role, int64_t step,
                         const char *op) {
    if (value < 0 || value >= reading->file.values.count) return;
    uint32_t number = reading->number[value];
    if (number == UINT32_MAX) return;
    tn_foreign_value *it = &reading->foreign->values[number];
    reading->is_final[number] = role == PTE_WRITTEN && it->first < step;
    if (reading->is_known[number]) return;
    reading->is_known[number] = 1;
    reading->is_state[number] = role == PTE_READ;
    if (role != PTE_READ) it->op = op;
}

/* Records the first instruction that names a value; a value that this instruction reads is
 * state. */
static void pte_know(pte_reading *reading, int64_t value, pte_role role, int64_t step,
                     const char *op) {
    tn__flat_vector items = pte_items(reading, value);
    pte_know_one(reading, value, role, step, op);
    for (uint32_t i = 0; i < items.count; i++)
        pte_know_one(reading, tn__flat_int32(&items, i), role, step, op);
}

/* Returns the number of arguments at the end that the kernel writes. The outputs are given twice at
 * the end of the arguments; the longest such repetition counts. Operators of the runtime itself,
 * such as executorch_prim::et_view, have one output, which is given once. */
static uint32_t pte_written(const tn__flat_vector *arguments) {
    for (uint32_t count = arguments->count / 2 < 64 ? arguments->count / 2 : 64; count > 0;
         count--) {
        const uint8_t *end = arguments->items + (size_t)4 * arguments->count;
        size_t size = (size_t)4 * count;
        if (memcmp(end - 2 * size, end - size, size) == 0) return 2 * count;
    }
    return 1;
}

/* Returns the name of a kernel's operator, such as "aten::add.out"; "": unknown, NULL: memory is
 * out. */
static const char *pte_operator(pte_reading *reading, const tn__flat_table *call) {
    tn__flat_vector operators = tn__flat_list(&reading->file.plan, PTE_PLAN_OPERATORS);
    uint64_t index = tn__flat_uint(call, PTE_CALL_OPERATOR, 4, 0);
    if (index >= operators.count) return "";
    tn__flat_table entry = tn__flat_item(&operators, (uint32_t)index);
    tn__span name = tn__flat_string(&entry, 0), overload = tn__flat_string(&entry, 1);
    char text[200];
    int size = snprintf(text, sizeof text, "%.*s%s%.*s", name.size < 99 ? (int)name.size : 99,
                        name.size > 0 ? (const char *)name.bytes : "", overload.size > 0 ? "." : "",
                        overload.size < 99 ? (int)overload.size : 99,
                        overload.size > 0 ? (const char *)overload.bytes : "");
    return tn__foreign_text(reading->foreign, (tn__span){(const uint8_t *)text, (size_t)size});
}

static tn_status pte_call(pte_reading *reading, const tn__flat_table *call, int64_t step,
                          bool is_kernel, const char *op) {
    tn__flat_vector arguments = tn__flat_list(call, PTE_CALL_ARGUMENTS);
    uint32_t written = is_kernel ? pte_written(&arguments) : 0;
    for (uint32_t i = 0; i < arguments.count; i++) {
        int32_t value = tn__flat_int32(&arguments, i);
        TN_TRY(pte_use(reading, value, step));
        pte_role role = i + written < arguments.count ? PTE_READ : PTE_WRITTEN;
        pte_know(reading, value, is_kernel ? role : PTE_EITHER, step, op);
    }
    return TN_OK;
}

static tn_status pte_move_or_jump(pte_reading *reading, const tn__flat_table *call, uint64_t type,
                                  uint32_t step) {
    int64_t first = tn__flat_int(call, 0, 4, 0), second = tn__flat_int(call, 1, 4, 0);
    TN_TRY(pte_use(reading, first, step));
    if (type == PTE_MOVE) {
        pte_know(reading, first, PTE_READ, step, "move");
        pte_know(reading, second, PTE_WRITTEN, step, "move");
        return pte_use(reading, second, step);
    }
    if (type != PTE_JUMP || second > (int64_t)step) return TN_OK;
    if (second < 0) TN_FAIL(reading->error, TN_E_INVALID, "a jump to instruction %" PRId64, second);
    if (reading->jump_count == PTE_JUMPS_MAX)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "more than %u jumps back", PTE_JUMPS_MAX);
    reading->jumps[reading->jump_count++] = (struct pte_back){(uint32_t)second, step};
    return TN_OK;
}

static tn_status pte_instruction(pte_reading *reading, const tn__flat_table *it, uint32_t step) {
    static const char *const names[] = {"", "", "delegate", "move", "jump", "free"};
    uint64_t type = tn__flat_uint(it, PTE_INSTRUCTION_TYPE, 1, 0);
    if (type < PTE_KERNEL || type > PTE_FREE)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "instruction %u is of unknown type %" PRIu64,
                step, type);
    tn__flat_table call = tn__flat_child(it, PTE_INSTRUCTION_ARGUMENTS);
    if (call.bytes == NULL)
        TN_FAIL(reading->error, TN_E_INVALID, "instruction %u has no arguments", step);
    const char *name = type == PTE_KERNEL ? pte_operator(reading, &call) : names[type];
    if (name == NULL || !tn__foreign_add_step(reading->foreign, name))
        return tn__no_memory(reading->error, "an instruction");
    return type <= PTE_DELEGATE ? pte_call(reading, &call, step, type == PTE_KERNEL, name)
                                : pte_move_or_jump(reading, &call, type, step);
}

static tn_status pte_ends(pte_reading *reading, uint32_t field, int64_t step) {
    tn__flat_vector list = tn__flat_list(&reading->file.plan, field);
    for (uint32_t i = 0; i < list.count; i++) {
        int32_t value = tn__flat_int32(&list, i);
        TN_TRY(pte_use(reading, value, step));
        pte_know(reading, value, PTE_EITHER, step, field == PTE_PLAN_INPUTS ? "input" : "");
    }
    return TN_OK;
}

static int pte_by_destination(const void *a, const void *b) {
    const struct pte_back *x = a, *y = b;
    return (x->to > y->to) - (x->to < y->to);
}

/* Extends a live range over jumps back: a value that is live at the destination of such a jump is
 * live until the jump, because its bytes are needed in the next round. Jumps are sorted by
 * destination, so one pass also finds what a longer range adds. */
static void pte_extend(pte_reading *reading, tn_foreign_value *value) {
    for (uint32_t i = 0; i < reading->jump_count; i++) {
        const struct pte_back *jump = &reading->jumps[i];
        if (value->first <= jump->to && jump->to < value->last && value->last <= jump->from)
            value->last = (int64_t)jump->from + 1;
    }
}

static tn_status pte_finish_lives(pte_reading *reading) {
    tn_foreign *foreign = reading->foreign;
    qsort(reading->jumps, reading->jump_count, sizeof *reading->jumps, pte_by_destination);
    for (uint32_t i = 0; i < reading->file.values.count; i++) {
        uint32_t number = reading->number[i];
        if (number == UINT32_MAX) continue;
        tn_foreign_value *value = &foreign->values[number];
        tn__flat_table tensor = tn__pte_tensor(&reading->file, i);
        bool is_initial = tn__flat_uint(&tensor, PTE_TENSOR_DATA, 4, 0) > 0;
        value->has_no_life = value->first > value->last;
        bool is_state = reading->is_state[number] || reading->is_final[number] || is_initial;
        if (is_state) value->op = "state";
        if (value->has_no_life || is_state) {
            value->first = 0;
            value->last = (int64_t)reading->steps + 1;
        }
        pte_extend(reading, value);
    }
    foreign->facts.has_lives = true;
    return TN_OK;
}

static tn_status pte_read_lives(pte_reading *reading) {
    tn__flat_vector chains = tn__flat_list(&reading->file.plan, PTE_PLAN_CHAINS);
    tn__flat_vector instructions = {0};
    if (chains.count > 1)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED,
                "a method of %u chains of instructions; one chain is known", chains.count);
    if (chains.count == 1) {
        tn__flat_table chain = tn__flat_item(&chains, 0);
        instructions = tn__flat_list(&chain, PTE_CHAIN_INSTRUCTIONS);
    }
    reading->steps = instructions.count;
    TN_TRY(pte_ends(reading, PTE_PLAN_INPUTS, 0));
    for (uint32_t i = 0; i < instructions.count; i++) {
        tn__flat_table it = tn__flat_item(&instructions, i);
        TN_TRY(pte_instruction(reading, &it, i));
    }
    TN_TRY(pte_ends(reading, PTE_PLAN_OUTPUTS, instructions.count));
    return pte_finish_lives(reading);
}

/* --- reading one method --- */

static tn_status pte_read_all(pte_reading *reading) {
    tn_foreign *foreign = reading->foreign;
    foreign->views = true;
    foreign->facts.modules = reading->file.methods;
    foreign->facts.module = tn__foreign_text(
        foreign, (tn__span){(const uint8_t *)reading->file.method, strlen(reading->file.method)});
    if (foreign->facts.module == NULL) return tn__no_memory(reading->error, "a name");
    TN_TRY(pte_read_memories(reading));
    TN_TRY(pte_read_values(reading));
    TN_TRY(pte_read_lives(reading));
    return tn__foreign_finish(foreign, reading->error);
}

tn_status tn__pte_read(const char *name, tn__span file, const char *method,
                       const tn_context *context, tn_foreign **foreign, tn_error *error) {
    tn_foreign *made = NULL;
    tn_context whole = tn__context(context);
    pte_reading *reading = tn__alloc(&whole, sizeof *reading);
    if (reading == NULL) return tn__no_memory(error, "a program");
    *reading = (pte_reading){.error = error};
    tn_status status = tn__pte_open(&reading->file, name, file, method, error);
    size_t room = (size_t)reading->file.values.count + 1;
    if (status == TN_OK)
        status = tn__foreign_create(&whole, "ExecuTorch", "ET12, version 0", &made, error);
    if (status == TN_OK) {
        reading->foreign = made;
        reading->number = tn__alloc_array(&whole, room, sizeof *reading->number);
        reading->is_known = tn__alloc_array(&whole, room, 3);
        bool fits = reading->number != NULL && reading->is_known != NULL;
        if (fits) reading->is_state = reading->is_known + room;
        if (fits) reading->is_final = reading->is_known + 2 * room;
        status = fits ? pte_read_all(reading) : tn__no_memory(error, "a program");
    }
    tn__free(&whole, reading->number, room * sizeof *reading->number);
    tn__free(&whole, reading->is_known, room * 3);
    tn__free(&whole, reading, sizeof *reading);
    if (status == TN_OK)
        *foreign = made;
    else
        tn_foreign_destroy(made);
    return tn__where_in(error, status, name);
}
