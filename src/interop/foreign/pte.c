/* pte.c - reads the memory plan inside an ExecuTorch program, a .pte file.
 *
 * The file is a FlatBuffer, with an optional extended header that says where the segments of
 * weights begin. A tensor with allocation_info has a place: a memory and an offset. The file has no
 * live ranges. They follow from the instructions; the index of an instruction is the time:
 *
 *   - A value is live from the first to the last instruction that names it, both included.
 *   - Inputs are live from the start, outputs to the end.
 *   - State is live in all steps: values with initial data or a name, and those that are numbered
 *     before the last input, because the exporter numbers parameters, state and inputs first.
 *   - A value that is read before it is written is a view or scratch memory (pte_views.c). The last
 *     arguments of a kernel, which are given twice, are its outputs; the arguments of a delegate do
 *     not always show which are outputs.
 *   - A move makes its target refer to the bytes of its source, so they are live as long as the
 *     target.
 *   - A jump back makes the values that are live at its destination live until the jump.
 *
 * ExecuTorch's own live ranges, in numbers of nodes, include these, so a valid plan stays valid.
 *
 * Cost: O(size of the tables + arguments), and O(n log n) for n values.
 * Source: ExecuTorch, schema/program.fbs, exir/memory_planning.py, exir/emit/_emitter.py,
 * runtime/executor/method.cpp.
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
SCHEMA(schema_extra, "ExtraTensorInfo", SCALAR(8), STRING);
SCHEMA(schema_tensor, "Tensor", SCALAR(1), SCALAR(4), SCALARS(4), SCALARS(1), SCALAR(1), SCALAR(4),
       TABLE(schema_place), SCALAR(1), SCALAR(1), TABLE(schema_extra));
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
    uint32_t planned = 0;
    for (uint32_t i = 0; i < plans.count; i++) {
        tn__flat_table plan = tn__flat_item(&plans, i);
        planned += tn__flat_list(&plan, PTE_PLAN_SIZES).count > 1;
    }
    file->is_shared = planned > 1;
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
    pte_fact *facts;  /* [values of the plan] */
    uint32_t steps;
    /* the lowest number of a value that an instruction can have made; all values below are inputs,
     * constants and state */
    uint32_t first_made;
    bool is_complete; /* whether the file has an instruction for each view */
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
    tn__flat_table extra = tn__flat_child(tensor, PTE_TENSOR_EXTRA);
    bool is_named = extra.bytes != NULL && tn__flat_string(&extra, PTE_EXTRA_NAME).size > 0;
    reading->facts[foreign->facts.value_count] =
        (pte_fact){.number = value,
                   .type = (uint8_t)tn__flat_uint(tensor, PTE_TENSOR_TYPE, 1, 0),
                   .rank = (uint8_t)tn__flat_list(tensor, PTE_TENSOR_SIZES).count,
                   .is_static = tn__flat_uint(tensor, PTE_TENSOR_DYNAMISM, 1, 0) == 0,
                   .is_state = is_named || tn__flat_uint(tensor, PTE_TENSOR_DATA, 4, 0) > 0};
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

static void pte_know_one(pte_reading *reading, int64_t value, pte_role role, const char *op) {
    if (value < 0 || value >= reading->file.values.count) return;
    uint32_t number = reading->number[value];
    if (number == UINT32_MAX) return;
    pte_fact *fact = &reading->facts[number];
    fact->is_data = fact->is_data || role == PTE_READ;
    fact->is_written = fact->is_written || role >= PTE_EITHER;
    if (fact->begins != PTE_UNUSED) return;
    fact->begins = (uint8_t)role;
    if (role == PTE_INPUT || role >= PTE_EITHER) reading->foreign->values[number].op = op;
}

/* Records that an instruction uses a value, or each value of a list, in a role. */
static void pte_know(pte_reading *reading, int64_t value, pte_role role, const char *op) {
    tn__flat_vector items = pte_items(reading, value);
    pte_know_one(reading, value, role, op);
    for (uint32_t i = 0; i < items.count; i++) {
        pte_role one = role == PTE_GIVEN ? PTE_READ : role; /* scratch memory is not in lists */
        pte_know_one(reading, tn__flat_int32(&items, i), one, op);
    }
}

/* Whether `items` are the arguments [from, from + items.count). */
static bool pte_repeats(const tn__flat_vector *arguments, uint32_t from,
                        const tn__flat_vector *items) {
    return items->count > 0 && items->count <= arguments->count - from &&
           memcmp(arguments->items + (size_t)4 * from, items->items, (size_t)4 * items->count) == 0;
}

/* Returns the number of arguments at the end that the kernel writes; 0: unknown. The outputs come
 * last and are given twice: one output as o, o; several as o, p and a list of both; a list of
 * outputs as two lists. */
static uint32_t pte_written(const pte_reading *reading, const tn__flat_vector *arguments) {
    uint32_t count = arguments->count;
    if (count < 2) return 0;
    int32_t last = tn__flat_int32(arguments, count - 1);
    int32_t before = tn__flat_int32(arguments, count - 2);
    if (last == before) return 2;
    tn__flat_vector items = pte_items(reading, last), same = pte_items(reading, before);
    if (items.count < count && pte_repeats(arguments, count - 1 - items.count, &items))
        return items.count + 1;
    bool is_twice = items.count > 0 && items.count == same.count &&
                    memcmp(items.items, same.items, (size_t)4 * items.count) == 0;
    return is_twice ? 2 : 0;
}

/* Whether the name of an operator, without its overload, ends with `end`. */
static bool pte_ends_with(const char *op, const char *end) {
    size_t length = strcspn(op, "."), size = strlen(end);
    return length >= size && memcmp(op + length - size, end, size) == 0;
}

/* Whether an operator is one of PyTorch or of ExecuTorch itself. None of these has an argument for
 * scratch memory before its outputs. */
static bool pte_is_known(const char *op) {
    static const char *const spaces[] = {
        "aten::", "executorch_prim::", "dim_order_ops::", "quantized_decomposed::", "prims::"};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (strncmp(op, spaces[i], strlen(spaces[i])) == 0) return true;
    return false;
}

/* Returns the role of an argument of a kernel. */
static pte_role pte_role_of(const char *op, uint32_t argument, uint32_t count, uint32_t written) {
    bool is_first = argument == 0, is_last = argument + 1 == count;
    if (strcmp(op, "executorch_prim::et_copy_index.tensor") == 0)
        return is_first ? PTE_FILLED : PTE_READ;
    if (pte_ends_with(op, "_")) { /* in place: the last argument is the result */
        bool is_whole = is_first && pte_ends_with(op, "::copy_");
        return is_last || is_whole ? PTE_WRITTEN : PTE_READ;
    }
    if (argument + (written > 0 ? written : 1) >= count) return PTE_WRITTEN;
    if (strncmp(op, "executorch_prim::", 17) == 0) return PTE_READ;
    if (written == 0) return PTE_EITHER; /* there can be several results, each given once */
    return is_first || pte_is_known(op) ? PTE_READ : PTE_GIVEN;
}

/* Returns the number of arguments at the end of a delegate's that can be its outputs. The arguments
 * are the inputs, then the outputs. The exporter numbers the outputs consecutively, directly before
 * the call. */
static uint32_t pte_outputs(const tn__flat_vector *arguments) {
    uint32_t count = arguments->count, found = count > 0;
    while (found > 0 && found < count &&
           (int64_t)tn__flat_int32(arguments, count - found) - 1 ==
               tn__flat_int32(arguments, count - found - 1))
        found++;
    return found;
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

/* Marks the result of a view as a view if it lies at the place of its base. An exporter that writes
 * an instruction for a view of fixed shape writes one for each view. */
static void pte_mark_view(pte_reading *reading, int64_t base, int64_t view) {
    uint32_t from = reading->number[base], to = reading->number[view];
    if (to != UINT32_MAX && reading->facts[to].is_static) reading->is_complete = true;
    if (from == UINT32_MAX || to == UINT32_MAX) return;
    const tn_foreign_value *x = &reading->foreign->values[from], *y = &reading->foreign->values[to];
    if (x->arena == y->arena && x->offset == y->offset)
        reading->foreign->marks[to] |= TN__FOREIGN_VIEW;
}

static tn_status pte_call(pte_reading *reading, const tn__flat_table *call, int64_t step,
                          bool is_kernel, const char *op) {
    tn__flat_vector arguments = tn__flat_list(call, PTE_CALL_ARGUMENTS);
    uint32_t written = is_kernel ? pte_written(reading, &arguments) : pte_outputs(&arguments);
    if (is_kernel && pte_ends_with(op, "_nop"))
        TN_FAIL(reading->error, TN_E_UNSUPPORTED,
                "instruction %" PRId64 " is %.100s, for which values lie inside of others; such "
                "plans are not known",
                step, op);
    for (uint32_t i = 0; i < arguments.count; i++) {
        int32_t value = tn__flat_int32(&arguments, i);
        TN_TRY(pte_use(reading, value, step));
        pte_role role = i + 1 == arguments.count         ? PTE_WRITTEN
                        : i + written >= arguments.count ? PTE_EITHER
                                                         : PTE_READ;
        if (is_kernel) role = pte_role_of(op, i, arguments.count, written);
        pte_know(reading, value, role, op);
    }
    if (strncmp(op, "executorch_prim::et_view", 24) == 0 && arguments.count > 1)
        pte_mark_view(reading, tn__flat_int32(&arguments, 0),
                      tn__flat_int32(&arguments, arguments.count - 1));
    return TN_OK;
}

static tn_status pte_move_or_jump(pte_reading *reading, const tn__flat_table *call, uint64_t type,
                                  uint32_t step) {
    int64_t first = tn__flat_int(call, 0, 4, 0), second = tn__flat_int(call, 1, 4, 0);
    TN_TRY(pte_use(reading, first, step));
    if (type == PTE_MOVE) {
        pte_know(reading, first, PTE_READ, "move");
        pte_know(reading, second, PTE_WRITTEN, "move");
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
        bool is_input = field == PTE_PLAN_INPUTS;
        pte_know(reading, value, is_input ? PTE_INPUT : PTE_READ, is_input ? "input" : "");
        if (is_input && value >= 0 && (uint32_t)value >= reading->first_made)
            reading->first_made = (uint32_t)value + 1;
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

/* Extends the live range of a value that a loop fills in parts to the start of the loop. */
static void pte_extend_filled(pte_reading *reading, tn_foreign_value *value) {
    for (uint32_t i = reading->jump_count; i-- > 0;) {
        const struct pte_back *jump = &reading->jumps[i];
        if (jump->to < value->first && value->first <= jump->from) value->first = jump->to;
    }
}

/* A move makes its target refer to the bytes of its source, which are live as long as the target.
 */
static void pte_extend_moved(pte_reading *reading, const tn__flat_vector *instructions) {
    for (uint32_t i = instructions->count; i-- > 0;) {
        tn__flat_table it = tn__flat_item(instructions, i);
        if (tn__flat_uint(&it, PTE_INSTRUCTION_TYPE, 1, 0) != PTE_MOVE) continue;
        tn__flat_table call = tn__flat_child(&it, PTE_INSTRUCTION_ARGUMENTS);
        uint32_t from = reading->number[tn__flat_int(&call, 0, 4, 0)];
        uint32_t to = reading->number[tn__flat_int(&call, 1, 4, 0)];
        if (from == UINT32_MAX || to == UINT32_MAX) continue;
        tn_foreign_value *source = &reading->foreign->values[from];
        const tn_foreign_value *target = &reading->foreign->values[to];
        if (target->last > source->last) source->last = target->last;
    }
}

/* Finds the values that are state because of their number, data or name. The exporter numbers
 * state, constants and inputs before all values that instructions make. */
static void pte_find_state(pte_reading *reading) {
    uint32_t count = reading->foreign->facts.value_count;
    if (reading->first_made == 0) {
        reading->first_made = UINT32_MAX; /* no inputs */
        for (uint32_t i = 0; i < count; i++)
            if (reading->facts[i].begins == PTE_WRITTEN &&
                reading->facts[i].number < reading->first_made)
                reading->first_made = reading->facts[i].number;
    }
    for (uint32_t i = 0; i < count; i++) {
        pte_fact *fact = &reading->facts[i];
        bool is_early = fact->begins != PTE_INPUT && fact->number < reading->first_made;
        fact->is_state = fact->is_state || is_early;
    }
}

static void pte_finish_life(pte_reading *reading, uint32_t number) {
    tn_foreign *foreign = reading->foreign;
    tn_foreign_value *value = &foreign->values[number];
    const pte_fact *fact = &reading->facts[number];
    if (fact->is_state) {
        value->op = "state";
        value->first = 0;
        value->last = (int64_t)reading->steps + 1;
        foreign->marks[number] |= TN__FOREIGN_APART;
        if (reading->file.is_shared) foreign->marks[number] |= TN__FOREIGN_FIXED;
    } else if (fact->begins == PTE_READ || fact->begins == PTE_GIVEN) {
        bool is_view = (foreign->marks[number] & TN__FOREIGN_VIEW) != 0;
        bool is_scratch = !is_view && !fact->is_data && !fact->is_written;
        value->op = is_view ? "view" : is_scratch ? "scratch" : "";
        if (is_scratch) foreign->marks[number] |= TN__FOREIGN_ALONE;
    }
    if (fact->begins == PTE_INPUT) foreign->marks[number] |= TN__FOREIGN_APART;
    if (fact->begins == PTE_FILLED) pte_extend_filled(reading, value);
    pte_extend(reading, value);
}

static tn_status pte_finish_lives(pte_reading *reading, const tn__flat_vector *instructions) {
    tn_foreign *foreign = reading->foreign;
    uint32_t count = foreign->facts.value_count;
    qsort(reading->jumps, reading->jump_count, sizeof *reading->jumps, pte_by_destination);
    for (uint32_t i = 0; i < count; i++) {
        tn_foreign_value *value = &foreign->values[i];
        value->has_no_life = value->first > value->last;
        if (!value->has_no_life) continue;
        value->first = 0;
        value->last = (int64_t)reading->steps + 1;
    }
    pte_extend_moved(reading, instructions);
    pte_find_state(reading);
    TN_TRY(tn__pte_views(foreign, reading->facts, reading->is_complete, reading->error));
    for (uint32_t i = 0; i < count; i++) pte_finish_life(reading, i);
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
    return pte_finish_lives(reading, &instructions);
}

/* --- reading one method --- */

static tn_status pte_read_all(pte_reading *reading) {
    tn_foreign *foreign = reading->foreign;
    foreign->facts.modules = reading->file.methods;
    foreign->facts.module = tn__foreign_text(
        foreign, (tn__span){(const uint8_t *)reading->file.method, strlen(reading->file.method)});
    if (foreign->facts.module == NULL) return tn__no_memory(reading->error, "a name");
    TN_TRY(pte_read_memories(reading));
    TN_TRY(pte_read_values(reading));
    foreign->mark_room = (size_t)foreign->facts.value_count + 1;
    foreign->marks = tn__alloc_array(&foreign->context, foreign->mark_room, 1);
    if (foreign->marks == NULL) return tn__no_memory(reading->error, "marks");
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
        reading->facts = tn__alloc_array(&whole, room, sizeof *reading->facts);
        bool fits = reading->number != NULL && reading->facts != NULL;
        status = fits ? pte_read_all(reading) : tn__no_memory(error, "a program");
    }
    tn__free(&whole, reading->number, room * sizeof *reading->number);
    tn__free(&whole, reading->facts, room * sizeof *reading->facts);
    tn__free(&whole, reading, sizeof *reading);
    if (status == TN_OK)
        *foreign = made;
    else
        tn_foreign_destroy(made);
    return tn__where_in(error, status, name);
}
