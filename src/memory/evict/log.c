/* log.c - reads recorded runs: the line format that DTR's authors published, with additional
 * fields.
 *
 * Each line is one JSON object. Lines before a line START are skipped.
 *
 *     {"INSTRUCTION":"CONSTANT","NAME":x}, then {"INSTRUCTION":"MEMORY","NAME":x,"MEMORY":"bytes"}
 *     {"INSTRUCTION":"CALL","NAME":op,"ARGS":[..],"RESULT":[..],"TIME":"ns"}, then for each result
 *         MEMORY and {"INSTRUCTION":"ALIAS","NAME":x,"ALIAS":"-1, or the number of an argument"}
 *     {"INSTRUCTION":"MUTATE","NAME":op,"ARGS":[..],"MUTATE":[numbers of arguments],"TIME":"ns"}
 *     COPY {DST,SRC}: DST is another reference to the tensor of SRC; COPY_FROM {DST,SRC}: DST now
 *         refers to the tensor of SRC; RELEASE {NAME}; ANNOTATE {ANNOTATION}
 *
 * The additional fields, which other readers ignore, are: in CALL and MUTATE "SCRATCH":"bytes" and
 * "ONCE":1 (the operator may not run again), in MUTATE "IN_PLACE":1 (no new storage), in ALIAS
 * "SHIFT":"bytes" (distance from the argument's first byte). Any other member is an error.
 *
 * An argument is always a name from an earlier line, so a log has no cycles; an unknown name is an
 * error. An ALIAS has no bytes of its own. A MUTATE makes new storages as large as those that it
 * writes to, and the old ones lose a reference.
 *
 * Cost: O(bytes).
 * Source: uwsampl/dtr-prototype, simrd (the meaning of a line, not its code).
 */
#include "memory/evict/log.h"

#include <inttypes.h>

#ifdef TENURE_MINIMAL
tn_status tn_evict_log_parse(const tn_context *context, const void *bytes, size_t size,
                             const char *file, tn_evict_log **log, tn_error *error) {
    (void)context, (void)bytes, (void)size, (void)log;
    tn_status status = tn__fail(error, TN_E_UNSUPPORTED, "this build reads no JSON");
    return tn__where(error, status, "%s", file);
}
#else
#include "base/json.h"

#define LOG_AMOUNT_MAX ((uint64_t)1 << 61) /* limit of a number of bytes or nanoseconds */
#define LOG_IDS_MAX ((size_t)1 << 28)

typedef struct log_reader {
    tn_evict_log *log;
    const char *at, *end;
    uint64_t line;    /* number of the current line */
    uint64_t command; /* number of the line at which the current command began */
    tn__names names;  /* finds the index in `bindings` of a name */
    struct log_binding {
        uint32_t tensor;
    } * bindings; /* names, in the order in which they appeared in the log */
    size_t binding_count, binding_room;
    json_t *object; /* the JSON object of the current line */
    tn_error *error;
} log_reader;

static tn_status log_fail(log_reader *r, const char *what, const char *name) {
    tn_status status = name == NULL ? tn__fail(r->error, TN_E_INVALID, "%s", what)
                                    : tn__fail(r->error, TN_E_INVALID, "%s '%.64s'", what, name);
    return tn__where(r->error, status, "%s:%" PRIu64, r->log->file, r->line);
}
static tn_status log_no_memory(log_reader *r) { return tn__no_memory(r->error, "a log"); }

/* --- lines of the log and their members --- */

/* Reads the next line that is not empty into r->object; sets it to NULL at the end of the log. */
static tn_status log_next(log_reader *r, bool *is_end) {
    json_decref(r->object);
    r->object = NULL;
    for (;;) {
        if (r->at == r->end) {
            *is_end = true;
            return TN_OK;
        }
        const char *line = r->at;
        const char *stop = memchr(line, '\n', (size_t)(r->end - line));
        r->at = stop != NULL ? stop + 1 : r->end;
        if (stop == NULL) stop = r->end;
        r->line++;
        while (stop > line && (stop[-1] == '\r' || stop[-1] == ' ' || stop[-1] == '\t')) stop--;
        if (stop == line) continue;
        json_error_t why;
        tn_status status;
        r->object = tn__json_parse(line, (size_t)(stop - line), &why, &status);
        if (status == TN_E_NO_MEMORY) return tn__no_memory(r->error, "a line of the log");
        if (r->object == NULL) return log_fail(r, "it is no JSON object on a line:", why.text);
        *is_end = false;
        return json_is_object(r->object) ? TN_OK : log_fail(r, "it is no JSON object", NULL);
    }
}

static const char *log_text(const log_reader *r, const char *member) {
    return json_string_value(json_object_get(r->object, member));
}

static tn_status log_need_text(log_reader *r, const char *member, const char **text) {
    *text = log_text(r, member);
    return *text != NULL ? TN_OK : log_fail(r, "it has no text", member);
}

/* Reads an integer, which may be written as a string; false if it is something else. */
static bool log_integer(const json_t *value, int64_t *number) {
    if (json_is_integer(value)) {
        *number = json_integer_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    size_t size = text != NULL ? json_string_length(value) : 0;
    return text != NULL && tn__take_integer(&text, &size, number) && size == 0;
}

static tn_status log_amount(log_reader *r, const char *member, bool needed, uint64_t *amount) {
    const json_t *value = json_object_get(r->object, member);
    int64_t number;
    if (value == NULL && !needed) return TN_OK;
    if (value == NULL) return log_fail(r, "it has no", member);
    if (!log_integer(value, &number)) return log_fail(r, "it is no integer:", member);
    if (number < 0) return log_fail(r, "it is negative:", member);
    if ((uint64_t)number > LOG_AMOUNT_MAX) return log_fail(r, "it is beyond 2^61:", member);
    *amount = (uint64_t)number;
    return TN_OK;
}

static bool log_is(const log_reader *r, const char *instruction) {
    const char *what = log_text(r, "INSTRUCTION");
    return what != NULL && strcmp(what, instruction) == 0;
}

static bool log_has_word(const char *words, const char *word) {
    size_t size = strlen(word);
    for (const char *at = words; size > 0 && (at = strstr(at, word)) != NULL; at += size)
        if ((at == words || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0')) return true;
    return false;
}

/* Refuses a member that this kind of line does not have. It may be a misspelt optional field, and
 * ignoring it would change the result without notice. */
static tn_status log_check_members(log_reader *r, const char *members) {
    const char *name;
    json_t *value;
    json_object_foreach(r->object, name, value) {
        if (strcmp(name, "INSTRUCTION") == 0 || log_has_word(members, name)) continue;
        return log_fail(r, "this line has no member", name);
    }
    return TN_OK;
}

/* --- building the log --- */

#define LOG_PUSH(r, list, count, room, item)                                                       \
    ((count) < LOG_IDS_MAX &&                                                                      \
     tn__reserve(&(r)->log->context, &(list), &(room), (count) + 1, sizeof *(list)) &&             \
     ((list)[(count)++] = (item), true))

static tn_status log_command(log_reader *r, tn__log_what what, size_t id) {
    tn_evict_log *log = r->log;
    tn__log_command command = {what, (uint32_t)id, (uint32_t)r->command};
    return LOG_PUSH(r, log->commands, log->command_count, log->command_room, command)
               ? TN_OK
               : log_no_memory(r);
}

static const char *log_copy(log_reader *r, const char *name) {
    return tn__arena_string(&r->log->arena, name, strlen(name));
}

/* Binds a new name to a tensor. */
static tn_status log_bind(log_reader *r, const char *name, size_t tensor) {
    uint32_t known;
    const char *copy = log_copy(r, name);
    struct log_binding binding = {(uint32_t)tensor};
    if (copy == NULL ||
        !tn__names_add(&r->names, copy, strlen(copy), (uint32_t)r->binding_count, &known))
        return log_no_memory(r);
    if (known != TN__NAMES_NONE) return log_fail(r, "a second value is called", name);
    return LOG_PUSH(r, r->bindings, r->binding_count, r->binding_room, binding) ? TN_OK
                                                                                : log_no_memory(r);
}

static tn_status log_find(log_reader *r, const char *name, struct log_binding **binding) {
    uint32_t known = tn__names_find(&r->names, name, strlen(name));
    if (known == TN__NAMES_NONE) return log_fail(r, "no value above is called", name);
    *binding = &r->bindings[known];
    return TN_OK;
}

static tn_status log_new_tensor(log_reader *r, tn__log_tensor tensor, const char *name) {
    tn_evict_log *log = r->log;
    tensor.refs = 1;
    tensor.name = log_copy(r, name);
    if (tensor.name == NULL) return log_no_memory(r);
    return LOG_PUSH(r, log->tensors, log->tensor_count, log->tensor_room, tensor)
               ? TN_OK
               : log_no_memory(r);
}

static tn_status log_release(log_reader *r, uint32_t tensor) {
    if (--r->log->tensors[tensor].refs < 0)
        return log_fail(r, "nobody refers any more to", r->log->tensors[tensor].name);
    return log_command(r, TN__LOG_RELEASE, tensor);
}

/* Reads the MEMORY line that must follow the line that introduced `name`. */
static tn_status log_memory(log_reader *r, const char *name, uint64_t *bytes) {
    bool is_end;
    TN_TRY(log_next(r, &is_end));
    if (is_end || !log_is(r, "MEMORY")) return log_fail(r, "no MEMORY follows, of", name);
    const char *of = log_text(r, "NAME");
    if (of == NULL || strcmp(of, name) != 0) return log_fail(r, "this MEMORY is not of", name);
    TN_TRY(log_check_members(r, "NAME MEMORY"));
    return log_amount(r, "MEMORY", true, bytes);
}

/* Reads the ALIAS line that must follow the MEMORY line of a result. */
static tn_status log_alias(log_reader *r, const char *name, const tn__log_op *op,
                           tn__log_tensor *tensor) {
    bool is_end;
    int64_t alias;
    TN_TRY(log_next(r, &is_end));
    if (is_end || !log_is(r, "ALIAS")) return log_fail(r, "no ALIAS follows, of", name);
    const char *of = log_text(r, "NAME");
    if (of == NULL || strcmp(of, name) != 0) return log_fail(r, "this ALIAS is not of", name);
    TN_TRY(log_check_members(r, "NAME ALIAS SHIFT"));
    if (!log_integer(json_object_get(r->object, "ALIAS"), &alias) || alias < -1 ||
        alias >= (int64_t)op->input_count)
        return log_fail(r, "it is neither -1 nor the number of an argument: ALIAS of", name);
    tensor->alias = TN__EVICT_NONE;
    tensor->storage_bytes = tensor->bytes;
    if (alias == -1) return TN_OK;
    TN_TRY(log_amount(r, "SHIFT", false, &tensor->shift));
    uint32_t input = r->log->inputs[op->first_input + (uint32_t)alias];
    tensor->alias = (uint32_t)alias;
    tensor->bytes = 0;
    tensor->storage_bytes = r->log->tensors[input].storage_bytes;
    return TN_OK;
}

static tn_status log_constant(log_reader *r) {
    tn_evict_log *log = r->log;
    const char *name;
    tn__log_tensor tensor = {.alias = TN__EVICT_NONE};
    TN_TRY(log_need_text(r, "NAME", &name));
    char *copy = tn__arena_string(&log->arena, name, strlen(name));
    if (copy == NULL) return log_no_memory(r);
    TN_TRY(log_memory(r, copy, &tensor.bytes));
    tensor.storage_bytes = tensor.bytes;
    tn__log_op op = {.first_input = (uint32_t)log->input_count,
                     .first_output = (uint32_t)log->tensor_count,
                     .output_count = 1,
                     .once = true,
                     .name = copy};
    TN_TRY(log_new_tensor(r, tensor, copy));
    TN_TRY(log_bind(r, copy, log->tensor_count - 1));
    if (!LOG_PUSH(r, log->ops, log->op_count, log->op_room, op)) return log_no_memory(r);
    log->facts.constant_count++;
    log->facts.constant_bytes = tn__add_sat(log->facts.constant_bytes, tensor.bytes);
    return log_command(r, TN__LOG_CONSTANT, log->op_count - 1);
}

/* Reads the fields that CALL and MUTATE have in common. */
static tn_status log_begin_op(log_reader *r, tn__log_op *op) {
    tn_evict_log *log = r->log;
    const char *name;
    const json_t *arguments = json_object_get(r->object, "ARGS"), *argument;
    size_t i;
    uint64_t once = 0;
    *op = (tn__log_op){.first_input = (uint32_t)log->input_count,
                       .first_output = (uint32_t)log->tensor_count};
    TN_TRY(log_need_text(r, "NAME", &name));
    TN_TRY(log_amount(r, "TIME", true, &op->cost));
    TN_TRY(log_amount(r, "SCRATCH", false, &op->scratch));
    TN_TRY(log_amount(r, "ONCE", false, &once));
    op->once = once != 0;
    log->is_ours = log->is_ours || op->once || op->scratch > 0;
    op->name = log_copy(r, name);
    if (op->name == NULL) return log_no_memory(r);
    if (!json_is_array(arguments)) return log_fail(r, "it has no list", "ARGS");
    json_array_foreach(arguments, i, argument) {
        struct log_binding *binding = NULL;
        if (!json_is_string(argument)) return log_fail(r, "it is no list of names:", "ARGS");
        TN_TRY(log_find(r, json_string_value(argument), &binding));
        if (log->tensors[binding->tensor].refs <= 0)
            return log_fail(r, "nobody refers any more to", json_string_value(argument));
        if (!LOG_PUSH(r, log->inputs, log->input_count, log->input_room, binding->tensor))
            return log_no_memory(r);
        op->input_count++;
    }
    return TN_OK;
}

static tn_status log_end_op(log_reader *r, tn__log_op *op) {
    tn_evict_log *log = r->log;
    op->output_count = (uint32_t)(log->tensor_count - op->first_output);
    if (!LOG_PUSH(r, log->ops, log->op_count, log->op_room, *op)) return log_no_memory(r);
    log->facts.op_count++;
    log->facts.plain_cost = tn__add_sat(log->facts.plain_cost, op->cost);
    return log_command(r, TN__LOG_APPLY, log->op_count - 1);
}

static tn_status log_call(log_reader *r) {
    tn__log_op op;
    TN_TRY(log_begin_op(r, &op));
    json_t *results = json_incref(json_object_get(r->object, "RESULT")), *result;
    tn_status status = TN_OK;
    size_t i;
    if (!json_is_array(results) || json_array_size(results) == 0)
        status = log_fail(r, "it has no list", "RESULT");
    json_array_foreach(results, i, result) {
        const char *name = json_string_value(result);
        tn__log_tensor tensor = {.alias = TN__EVICT_NONE};
        if (name == NULL) TN_TRY_DONE(log_fail(r, "it is no list of names:", "RESULT"));
        TN_TRY_DONE(log_memory(r, name, &tensor.bytes));
        TN_TRY_DONE(log_alias(r, name, &op, &tensor));
        TN_TRY_DONE(log_new_tensor(r, tensor, name));
        TN_TRY_DONE(log_bind(r, name, r->log->tensor_count - 1));
    }
done:
    json_decref(results);
    return status != TN_OK ? status : log_end_op(r, &op);
}

/* Reads entry `i` of the list MUTATE: the number of an argument that the operator writes. */
static tn_status log_mutated(log_reader *r, const json_t *list, size_t i, const tn__log_op *op,
                             uint32_t *argument) {
    int64_t number;
    if (!log_integer(json_array_get(list, i), &number) || number < 0 ||
        number >= (int64_t)op->input_count)
        return log_fail(r, "it is no list of numbers of arguments:", "MUTATE");
    *argument = (uint32_t)number;
    return TN_OK;
}

static tn_status log_mutate(log_reader *r) {
    tn_evict_log *log = r->log;
    tn__log_op op;
    uint64_t in_place = 0;
    uint32_t argument = 0;
    TN_TRY(log_begin_op(r, &op));
    TN_TRY(log_amount(r, "IN_PLACE", false, &in_place));
    log->is_ours = log->is_ours || in_place != 0;
    const json_t *list = json_object_get(r->object, "MUTATE");
    const json_t *arguments = json_object_get(r->object, "ARGS");
    if (!json_is_array(list) || json_array_size(list) == 0)
        return log_fail(r, "it has no list", "MUTATE");
    for (size_t i = 0; i < json_array_size(list); i++) {
        TN_TRY(log_mutated(r, list, i, &op, &argument));
        const tn__log_tensor *old = &log->tensors[log->inputs[op.first_input + argument]];
        tn__log_tensor tensor = {.bytes = in_place ? 0 : old->storage_bytes,
                                 .storage_bytes = old->storage_bytes,
                                 .alias = in_place ? argument : TN__EVICT_NONE,
                                 .overwrites = in_place != 0};
        TN_TRY(log_new_tensor(r, tensor, old->name));
    }
    TN_TRY(log_end_op(r, &op));
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct log_binding *binding = NULL;
        TN_TRY(log_mutated(r, list, i, &op, &argument));
        TN_TRY(log_find(r, json_string_value(json_array_get(arguments, argument)), &binding));
        uint32_t old = binding->tensor;
        binding->tensor = op.first_output + (uint32_t)i;
        TN_TRY(log_release(r, old));
    }
    return TN_OK;
}

static tn_status log_copy_line(log_reader *r, bool is_new) {
    const char *to, *from;
    struct log_binding *source = NULL, *target = NULL;
    TN_TRY(log_need_text(r, "DST", &to));
    TN_TRY(log_need_text(r, "SRC", &from));
    TN_TRY(log_find(r, from, &source));
    uint32_t tensor = source->tensor;
    if (r->log->tensors[tensor].refs <= 0) return log_fail(r, "nobody refers any more to", from);
    if (is_new) {
        TN_TRY(log_bind(r, to, tensor));
    } else {
        TN_TRY(log_find(r, to, &target));
        uint32_t old = target->tensor;
        target->tensor = tensor;
        if (old == tensor) return TN_OK;
        TN_TRY(log_release(r, old));
    }
    r->log->tensors[tensor].refs++;
    return log_command(r, TN__LOG_RETAIN, tensor);
}

static const char *log_members(const log_reader *r) {
    if (log_is(r, "CALL")) return "NAME ARGS RESULT TIME SCRATCH ONCE";
    if (log_is(r, "MUTATE")) return "NAME ARGS MUTATE TIME SCRATCH ONCE IN_PLACE";
    if (log_is(r, "CONSTANT") || log_is(r, "RELEASE")) return "NAME";
    return log_is(r, "COPY") || log_is(r, "COPY_FROM") ? "DST SRC" : NULL;
}

static tn_status log_line(log_reader *r) {
    const char *name;
    if (log_members(r) != NULL) TN_TRY(log_check_members(r, log_members(r)));
    if (log_is(r, "CALL")) return log_call(r);
    if (log_is(r, "MUTATE")) return log_mutate(r);
    if (log_is(r, "CONSTANT")) return log_constant(r);
    if (log_is(r, "COPY")) return log_copy_line(r, true);
    if (log_is(r, "COPY_FROM")) return log_copy_line(r, false);
    if (log_is(r, "ANNOTATE")) return TN_OK;
    if (log_is(r, "MEMORY") || log_is(r, "ALIAS"))
        return log_fail(
            r, "it follows no CONSTANT or CALL that it belongs to:", log_text(r, "INSTRUCTION"));
    if (!log_is(r, "RELEASE"))
        return log_fail(r, "no such INSTRUCTION:",
                        log_text(r, "INSTRUCTION") != NULL ? log_text(r, "INSTRUCTION") : "");
    TN_TRY(log_need_text(r, "NAME", &name));
    uint32_t known = tn__names_find(&r->names, name, strlen(name));
    /* the name was bound before START, so it is not known */
    if (known == TN__NAMES_NONE) return TN_OK;
    return log_release(r, r->bindings[known].tensor);
}

/* Skips to the line after START, if the log contains one. */
static tn_status log_skip_start(log_reader *r) {
    bool is_end = false;
    log_reader begin = *r;
    while (!is_end) {
        TN_TRY(log_next(r, &is_end));
        const char *word = is_end ? NULL : log_text(r, "ANNOTATION");
        if (word != NULL && strcmp(word, "START") == 0) return TN_OK;
    }
    r->at = begin.at;
    r->line = 0;
    return TN_OK;
}

static tn_status log_all(log_reader *r) {
    bool is_end = false;
    TN_TRY(log_skip_start(r));
    for (;;) {
        TN_TRY(log_next(r, &is_end));
        if (is_end) break;
        r->command = r->line;
        TN_TRY(log_line(r));
    }
    /* tensors that still have references at the end of the log are kept */
    for (size_t i = 0; i < r->binding_count; i++) {
        uint32_t tensor = r->bindings[i].tensor;
        if (r->log->tensors[tensor].refs > 0) TN_TRY(log_command(r, TN__LOG_KEEP, tensor));
    }
    r->log->facts.tensor_count = (uint32_t)r->log->tensor_count;
    if (r->log->facts.op_count == 0) return log_fail(r, "the log has no CALL", NULL);
    return TN_OK;
}

tn_status tn_evict_log_parse(const tn_context *context, const void *bytes, size_t size,
                             const char *file, tn_evict_log **log, tn_error *error) {
    tn_context own = tn__context(context);
    tn_evict_log *made = tn__alloc_array(&own, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a log");
    made->context = own;
    tn__arena_init(&made->arena, &made->context);
    log_reader reader = {
        .log = made, .at = bytes, .end = (const char *)bytes + size, .error = error};
    tn__names_init(&reader.names, &made->context);
    made->file = tn__arena_string(&made->arena, file, strlen(file));
    tn_status status = made->file != NULL ? log_all(&reader) : tn__no_memory(error, "a log");
    json_decref(reader.object);
    tn__names_release(&reader.names);
    tn__free(&own, reader.bindings, reader.binding_room * sizeof *reader.bindings);
    if (status == TN_OK)
        *log = made;
    else
        tn_evict_log_destroy(made);
    return status;
}
#endif

tn_status tn_evict_log_load(const tn_context *context, const char *path, tn_evict_log **log,
                            tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_text(path, tn__context(context).read_limit, &file, error));
    tn_status status =
        tn_evict_log_parse(context, file.bytes, file.size,
                           strcmp(path, "-") == 0 ? "standard input" : path, log, error);
    tn__file_unmap(&file);
    return status;
}

void tn_evict_log_destroy(tn_evict_log *log) {
    if (log == NULL) return;
    tn_context context = log->context;
    tn__arena_release(&log->arena);
    tn__free(&context, log->commands, log->command_room * sizeof *log->commands);
    tn__free(&context, log->ops, log->op_room * sizeof *log->ops);
    tn__free(&context, log->tensors, log->tensor_room * sizeof *log->tensors);
    tn__free(&context, log->inputs, log->input_room * sizeof *log->inputs);
    tn__free(&context, log, sizeof *log);
}

const tn_evict_log_facts *tn_evict_log_about(const tn_evict_log *log) { return &log->facts; }
