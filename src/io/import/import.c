/* import.c - the frame around every model format: recognises the format, reads, applies options,
 * infers shapes.
 *
 * A format is chosen by the suffix of the name, otherwise by content. The parts that all formats
 * share are here: the options, inputs with values that are known before the run, the format of
 * activations, and errors that name the file.
 */
#include "graph/infer/infer.h"
#include "graph/rules/fold.h"
#include "io/import/dims.h"
#include "io/import/importer.h"
#include "io/import/kinds.h"
#include <tenure/llm.h>

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- names from files as text for messages; lists in messages --------------------------------- */

/* Makes text for people from names in files, and lists that fit into a message. */

/* The length of the well-formed UTF-8 character at `bytes` (Unicode 15, table 3-7); 0 if there is
 * none. Control characters count as ill-formed. */
static size_t text_character(const uint8_t *bytes, size_t left) {
    uint8_t first = bytes[0];
    if (first < 0x80) return first >= 0x20 && first != 0x7f;
    size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || left < length) return 0;
    uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (bytes[1] < low || bytes[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    return length;
}

/* Returns the number of bytes at the start of the span that can be copied unchanged: all before the
 * first byte that is replaced, because it is a control character or no valid UTF-8. */
static size_t text_clean(tn__span span) {
    size_t at = 0;
    while (at < span.size) {
        uint8_t first = span.bytes[at];
        if (first >= 0x20 && first < 0x7f) { /* the most frequent case */
            at++;
            continue;
        }
        size_t length = text_character(span.bytes + at, span.size - at);
        if (!length) break;
        at += length;
    }
    return at;
}

void tn__span_text(tn__text *text, tn__span span) {
    while (span.size) {
        size_t clean = text_clean(span);
        tn__text_add(text, (const char *)span.bytes, clean);
        if (clean == span.size) return;
        tn__text_add(text, "\xef\xbf\xbd", 3);
        span.bytes += clean + 1;
        span.size -= clean + 1;
    }
}

char *tn__span_copy(tn__arena *arena, tn__span span) {
    if (text_clean(span) == span.size)
        return tn__arena_string(arena, span.size ? (const char *)span.bytes : "", span.size);
    tn__text text;
    tn__text_init(&text, arena->context);
    tn__span_text(&text, span);
    char *copy = text.failed ? NULL : tn__arena_string(arena, text.data, text.size);
    tn__text_release(&text);
    return copy;
}

void tn__mend(char *text) {
    size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        size_t length = text_character((const uint8_t *)text + at, size - at);
        if (!length) text[at] = '?';
        at += length ? length : 1;
    }
}

/* --- lists --- */

#define TEXT_TAIL 24u /* bytes for the end of a list, ", and 4294967295 more" */

tn__item_list tn__item_list_begin(char *text, size_t room) {
    text[0] = 0;
    return (tn__item_list){.text = text, .room = room};
}

void tn__item_list_add(tn__item_list *list, const char *format, ...) {
    char item[160];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(item, sizeof item, format, arguments);
    va_end(arguments);
    size_t need = length < 0 ? 0 : (size_t)length < sizeof item ? (size_t)length : sizeof item - 1;
    const char *comma = list->count ? ", " : "";
    if (list->left_out || list->size + need + 2 + TEXT_TAIL >= list->room) {
        list->left_out++;
        return;
    }
    list->size +=
        (size_t)snprintf(list->text + list->size, list->room - list->size, "%s%s", comma, item);
    list->count++;
}

const char *tn__item_list_end(tn__item_list *list) {
    if (list->left_out)
        snprintf(list->text + list->size, list->room - list->size, "%s%u more",
                 list->count ? ", and " : "", list->left_out);
    return list->text;
}

/* --- inputs with values that are known before the run ----------------------------------------- */

/* Inputs with values that are known before the run: `values`.
 *
 * If a shape depends on the value of an input, the value must be known before planning. Such an
 * input becomes a parameter with a small value; shape inference and constant folding then handle
 * it, for every model format. It is no longer an input of the program: a run cannot change the
 * value that was planned for.
 */

/* 2^53: every integer up to this number is exact as a double */
#define VALUES_EXACT 9007199254740992.0

static tn_status values_find(const tn_importer *importer, const tn_input_value *given,
                             tn_tensor_id *id) {
    char text[220];
    tn__item_list list = tn__item_list_begin(text, sizeof text);
    const tn_block *block = tn_graph_block(importer->graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(importer->graph, block->inputs[i]);
        *id = block->inputs[i];
        if (strcmp(tensor->name, given->name) == 0) return TN_OK;
        tn__item_list_add(&list, "'%.80s'", tensor->name);
    }
    TN_FAIL(importer->error, TN_E_INVALID, "`values` %.100s: no input has that name; inputs are %s",
            given->name, list.count ? tn__item_list_end(&list) : "none");
}

static tn_status values_check(const tn_importer *importer, const tn_input_value *given,
                              const tn_tensor *tensor) {
    uint64_t count = tensor->rank == TN_RANK_UNKNOWN ? TN_SIZE_UNKNOWN : 1;
    for (uint32_t d = 0; tensor->rank != TN_RANK_UNKNOWN && d < tensor->rank; d++)
        count = tensor->shape[d] == TN_DIM_UNKNOWN ? TN_SIZE_UNKNOWN
                                                   : tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    if ((tensor->flags & TN_TENSOR_SEQUENCE) != 0 || count == TN_SIZE_UNKNOWN)
        TN_FAIL(importer->error, TN_E_UNSUPPORTED,
                "`values` %.100s: that input is not a tensor of a known shape (`input_shapes` "
                "gives one)",
                given->name);
    if (count != given->count || count > TN_VALUE_MAX || count == 0)
        TN_FAIL(importer->error, TN_E_INVALID,
                "`values` %.100s: %u numbers for an input of %llu elements (at most %u)",
                given->name, given->count, (unsigned long long)count, TN_VALUE_MAX);
    return TN_OK;
}

/* The range of an integer type, as far as a double represents each of its numbers exactly. Returns
 * false for other types. */
static bool values_range(tn_dtype dtype, double *least, double *most) {
    uint32_t bits = tn_dtype_bits(dtype);
    switch (dtype) {
    case TN_BOOL:
        bits = 1; /* fall through */
    case TN_UINT2:
    case TN_UINT4:
    case TN_UINT8:
    case TN_UINT16:
    case TN_UINT32:
    case TN_UINT64:
        *least = 0;
        *most = bits > 53 ? VALUES_EXACT : (double)((UINT64_C(1) << bits) - 1);
        return true;
    case TN_INT2:
    case TN_INT4:
    case TN_INT8:
    case TN_INT16:
    case TN_INT32:
    case TN_INT64:
        *most = bits > 54 ? VALUES_EXACT : (double)((UINT64_C(1) << (bits - 1)) - 1);
        *least = bits > 54 ? -VALUES_EXACT : -*most - 1;
        return true;
    default:
        return false;
    }
}

static tn_status values_ints(const tn_importer *importer, const tn_input_value *given,
                             const tn_tensor *tensor, int64_t *ints) {
    double least = 0, most = 0;
    if (!values_range(tensor->dtype, &least, &most))
        TN_FAIL(importer->error, TN_E_UNSUPPORTED,
                "`values` %.100s: contents of type %s cannot be given", given->name,
                tn_dtype_name(tensor->dtype));
    for (uint32_t i = 0; i < given->count; i++) {
        double number = given->numbers[i];
        bool fits = number >= least && number <= most; /* NaN does not fit */
        ints[i] = fits ? (int64_t)number : 0;
        if (!fits || (double)ints[i] != number)
            TN_FAIL(importer->error, TN_E_INVALID, "`values` %.100s: %.9g is not of type %s",
                    given->name, number, tn_dtype_name(tensor->dtype));
    }
    return TN_OK;
}

/* Rounds values to the element type, so that folding computes with the values of a run. */
static void values_floats(const tn_input_value *given, tn_dtype dtype, double *floats) {
    for (uint32_t i = 0; i < given->count; i++) floats[i] = tn__round(dtype, given->numbers[i]);
}

typedef union values_scratch {
    int64_t ints[TN_VALUE_MAX];
    double floats[TN_VALUE_MAX];
} values_scratch;

static tn_status values_set(const tn_importer *importer, const tn_input_value *given,
                            values_scratch *scratch) {
    tn_tensor_id id = TN_NONE;
    if (!given->name || !given->numbers)
        TN_FAIL(importer->error, TN_E_INVALID, "`values` needs a name and numbers: size=3,4");
    TN_TRY(values_find(importer, given, &id));
    const tn_tensor *tensor = tn_graph_tensor(importer->graph, id);
    TN_TRY(values_check(importer, given, tensor));
    bool floating = tn__is_float(tensor->dtype);
    if (floating)
        values_floats(given, tensor->dtype, scratch->floats);
    else
        TN_TRY(values_ints(importer, given, tensor, scratch->ints));
    tn_tensor_spec spec = {.dtype = tensor->dtype,
                           .kind = TN_KIND_PARAMETER,
                           .format = tensor->format,
                           .flags = tensor->flags,
                           .rank = tensor->rank,
                           .shape = tensor->shape,
                           .value = {.count = given->count,
                                     .ints = floating ? NULL : scratch->ints,
                                     .floats = floating ? scratch->floats : NULL}};
    return tn_graph_set_tensor(importer->graph, id, &spec, importer->error);
}

/* Turns inputs with known values into parameters, after the format has read the model. */
static tn_status import_values(const tn_importer *importer) {
    const tn_import_options *options = importer->options;
    if (options->value_count == 0) return TN_OK;
    values_scratch *scratch = tn__alloc(importer->context, sizeof *scratch);
    if (scratch == NULL) return tn__no_memory(importer->error, "the contents of inputs");
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < options->value_count && status == TN_OK; i++)
        status = values_set(importer, &options->values[i], scratch);
    tn__free(importer->context, scratch, sizeof *scratch);
    return status;
}

/* --- the model formats ------------------------------------------------------------------------ */

#define TN_FORMAT(name) extern const tn_import_format tn__import_##name;
#include "io/import/formats.def"
#undef TN_FORMAT

static const tn_import_format *const import_formats[] = {
#define TN_FORMAT(name) &tn__import_##name,
#include "io/import/formats.def"
#undef TN_FORMAT
};
#define IMPORT_FORMAT_COUNT (sizeof import_formats / sizeof *import_formats)

uint32_t tn_import_format_count(void) { return IMPORT_FORMAT_COUNT; }
const char *tn_import_format_name(uint32_t index) { return import_formats[index]->name; }
const char *tn_import_format_summary(uint32_t index) { return import_formats[index]->summary; }

static const tn_import_format *import_by_suffix(const char *name) {
    for (uint32_t i = 0; i < IMPORT_FORMAT_COUNT; i++)
        if (tn__has_suffix(name, import_formats[i]->suffix)) return import_formats[i];
    return NULL;
}

bool tn_import_recognises(const char *path) { return import_by_suffix(path) != NULL; }

/* --- recognising files --- */

/* Returns the suffix of a name if it names a kind of files, of models or of others; NULL: it names
 * none, or the file is standard input. Files of many kinds end in .bin and .pb. */
static const char *import_said(const char *name) {
    const char *suffix = strrchr(name, '.'), *slash = strrchr(name, '/');
    if ((name[0] == '-' && name[1] == '.') || suffix == NULL || (slash != NULL && slash > suffix))
        return NULL;
    if (tn__has_suffix(name, ".bin") || tn__has_suffix(name, ".pb")) return NULL;
    bool known = tn_import_recognises(name) || tn_weights_recognises(name) ||
                 tn_weights_how_to_export(name) != NULL || tn__file_kind_has_suffix(suffix);
    return known ? suffix : NULL;
}

tn_status tn__import_choose(const char *name, tn__span file, const tn_import_format **format,
                            tn_error *error) {
    if (!file.size) TN_FAIL(error, TN_E_INVALID, "the file is empty");
    const tn_import_format *named = import_by_suffix(name);
    *format = named;
    if (named != NULL && named->probe(file.bytes, file.size)) return TN_OK;
    const tn__file_kind *kind = tn__file_kind_of(file);
    const tn_import_format *found =
        kind != NULL && kind->suffix != NULL ? import_by_suffix(kind->suffix) : NULL;
    const char *said = import_said(name);
    if (named == NULL) *format = found;
    /* the contents are of another kind than the name says */
    if (kind != NULL && (*format != found || (found != NULL && said != NULL)))
        return tn__file_kind_refuse(kind, said, error);
    if (*format != NULL) return TN_OK;
    const char *how = tn_weights_how_to_export(name);
    if (how != NULL) TN_FAIL(error, TN_E_UNSUPPORTED, "%s", how);
    if (tn_weights_recognises(name))
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "weights without a network: `tn_weights_total` counts their bytes; to run them, "
                "export the network as .onnx and add them (`tn_weights_bind`)");
    if (kind != NULL && kind->suffix != NULL && tn__has_suffix(name, kind->suffix))
        TN_FAIL(error, TN_E_UNSUPPORTED, "this is %s, not a model", kind->name);
    if (kind != NULL) return tn__file_kind_refuse(kind, NULL, error);
    char text[120];
    tn__item_list list = tn__item_list_begin(text, sizeof text);
    for (uint32_t i = 0; i < IMPORT_FORMAT_COUNT; i++)
        tn__item_list_add(&list, "%s", import_formats[i]->name);
    TN_FAIL(error, TN_E_UNSUPPORTED,
            "neither name nor content say which model format this is; "
            "known: %s",
            tn__item_list_end(&list));
}

/* --- options --- */

const tn_input_shape *tn__import_shape(tn_importer *importer, tn__span name) {
    const tn_import_options *options = importer->options;
    for (uint32_t i = 0; i < options->input_shape_count; i++) {
        if (!tn__span_is(name, options->input_shapes[i].name)) continue;
        importer->shape_used[i] = true;
        return &options->input_shapes[i];
    }
    return NULL;
}

bool tn__import_is_parameter(tn_importer *importer, const char *name) {
    const tn_import_options *options = importer->options;
    bool found = false;
    for (uint32_t i = 0; i < options->parameter_count; i++) {
        if (!tn__glob(options->parameters[i], name)) continue;
        importer->parameter_used[i] = true;
        found = true;
    }
    return found;
}

static tn_status import_check_shape(const tn_input_shape *given, tn_error *error) {
    if (!given->name || !*given->name || (given->rank && !given->shape))
        TN_FAIL(error, TN_E_INVALID, "`input_shapes` needs a name and a shape: x=1,3,224,224");
    if (given->rank > TN_RANK_MAX)
        TN_FAIL(error, TN_E_INVALID, "`input_shapes` %.100s: more than %u dimensions", given->name,
                TN_RANK_MAX);
    for (uint32_t i = 0; i < given->rank; i++)
        if (given->shape[i] < 0)
            TN_FAIL(error, TN_E_INVALID, "`input_shapes` %.100s: dimension %u is negative (%lld)",
                    given->name, i, (long long)given->shape[i]);
    return TN_OK;
}

static tn_status import_check_options(const tn_import_options *options, tn_error *error) {
    for (uint32_t i = 0; i < options->input_shape_count; i++) {
        TN_TRY(import_check_shape(&options->input_shapes[i], error));
        for (uint32_t j = 0; j < i; j++)
            if (!strcmp(options->input_shapes[i].name, options->input_shapes[j].name))
                TN_FAIL(error, TN_E_INVALID, "`input_shapes` %.100s is given twice",
                        options->input_shapes[i].name);
    }
    for (uint32_t i = 0; i < options->parameter_count; i++)
        if (!options->parameters[i] || !*options->parameters[i])
            TN_FAIL(error, TN_E_INVALID, "an empty name pattern for parameters");
    return TN_OK;
}

/* Checks that each option has matched an input. An option that matches none is probably a typing
 * error, which would otherwise go unnoticed. */
static tn_status import_check_used(const tn_importer *importer) {
    const tn_import_options *options = importer->options;
    const char *stray = NULL, *what = "`input_shapes`";
    for (uint32_t i = 0; i < options->input_shape_count && !stray; i++)
        if (!importer->shape_used[i]) stray = options->input_shapes[i].name;
    for (uint32_t i = 0; i < options->parameter_count && !stray; i++) {
        if (importer->parameter_used[i]) continue;
        stray = options->parameters[i];
        what = "parameter pattern";
    }
    if (!stray) return TN_OK;
    char text[220];
    tn__item_list list = tn__item_list_begin(text, sizeof text);
    const tn_block *block = tn_graph_block(importer->graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++)
        tn__item_list_add(&list, "'%.80s'",
                          tn_graph_tensor(importer->graph, block->inputs[i])->name);
    TN_FAIL(importer->error, TN_E_INVALID, "%s %.100s: no input has that name; inputs are %s", what,
            stray, list.count ? tn__item_list_end(&list) : "none");
}

/* Sets the format of activations of rank 4 and 5; a blocked format pads them. Inputs and outputs
 * keep the layout of the file, because the caller uses it. */
static tn_status import_set_format(const tn_importer *importer) {
    tn_format format = importer->options->format;
    if (format.order == TN_ORDER_PLAIN && !format.block) return TN_OK;
    uint32_t count = tn_graph_tensor_count(importer->graph);
    for (tn_tensor_id id = 0; id < count; id++) {
        const tn_tensor *tensor = tn_graph_tensor(importer->graph, id);
        if (tensor->kind != TN_KIND_ACTIVATION || (tensor->rank != 4 && tensor->rank != 5))
            continue;
        tn_tensor_spec spec = {.dtype = tensor->dtype,
                               .kind = tensor->kind,
                               .format = format,
                               .flags = tensor->flags,
                               .rank = tensor->rank,
                               .shape = tensor->shape};
        if (tensor->value) spec.value = *tensor->value;
        TN_TRY(tn_graph_set_tensor(importer->graph, id, &spec, importer->error));
    }
    return tn_graph_infer(importer->graph, importer->error);
}

/* --- reading a model, in any format --- */

/* Shortens the name for messages to the last part of a long path. */
static const char *import_short_name(const char *name) {
    const char *slash = strrchr(name, '/');
    return strlen(name) > 100 && slash && slash[1] ? slash + 1 : name;
}

void tn__import_log(const tn_importer *importer, const char *format, ...) {
    if (!importer->context->log) return;
    char line[300];
    int length = snprintf(line, sizeof line, "%.120s: ", importer->name);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + length, sizeof line - (size_t)length, format, arguments);
    va_end(arguments);
    importer->context->log(importer->context->self, line);
}

/* Puts the file's name before the place in the error. */
static void import_name_file(const tn_importer *importer) {
    tn_error *error = importer->error;
    if (!error) return;
    char where[sizeof error->where];
    memcpy(where, error->where, sizeof where);
    where[160] = 0; /* shortens the place so that the name fits */
    size_t room = sizeof where - strlen(where) - 3;
    snprintf(error->where, sizeof error->where, "%.*s%s%.160s", (int)room, importer->name,
             where[0] ? ": " : "", where);
    tn__mend(error->where);
    tn__mend(error->message);
}

/* Reports that a batch was requested for a model that takes one sample, before other errors follow
 * from that. */
static tn_status import_check_batch(const tn_importer *importer) {
    tn_tensor_id input;
    bool single;
    if (importer->options->batch <= 0) return TN_OK;
    TN_TRY(tn__graph_batch_input(importer->graph, &input, &single, importer->error));
    if (!single) return TN_OK;
    TN_FAIL(importer->error, TN_E_INVALID,
            "input '%.80s' is one sample, of which the model makes a batch of one itself: it takes "
            "no other",
            tn_graph_tensor(importer->graph, input)->name);
}

/* Reads the model again with its original batch, if that differs from the requested one; otherwise
 * returns NULL. */
static tn_graph *import_reference(const tn_importer *importer, int64_t *from) {
    tn_import_options own = *importer->options;
    tn_graph *reference = NULL;
    tn_tensor_id input;
    bool single;
    own.batch = 0;
    tn__span file = {importer->bytes, importer->size};
    if (importer->options->batch <= 0 || importer->batch_applied ||
        tn__import(importer->name, file, &own, NULL, NULL, &reference, NULL) != TN_OK)
        return NULL;
    bool found = tn__graph_batch_input(reference, &input, &single, NULL) == TN_OK && !single &&
                 input != TN_NONE;
    *from = found ? tn_graph_tensor(reference, input)->shape[0] : 0;
    bool other = *from > 0 && *from != importer->options->batch;
    if (other && tn_graph_tensor_count(reference) == tn_graph_tensor_count(importer->graph))
        return reference;
    tn_graph_destroy(reference);
    return NULL;
}

/* Explains an error that follows from a fixed batch, and what to do about it. */
static void import_explain_batch(const tn_importer *importer) {
    tn_error *error = importer->error;
    char was[sizeof error->message];
    if (error == NULL) return;
    memcpy(was, error->message, sizeof was);
    snprintf(error->message, sizeof error->message,
             "its shapes are written for one batch, not for %lld: %.240s; export it with an open "
             "batch: torch.onnx.export(..., dynamic_axes={\"input\": {0: \"batch\"}})",
             (long long)importer->options->batch, was);
}

/* Infers shapes. Constants that contain the file's batch are changed to the requested one. */
static tn_status import_infer(const tn_importer *importer) {
    tn__rebatch rebatch = {.to = importer->options->batch};
    tn_graph *reference = import_reference(importer, &rebatch.from);
    if (reference == NULL) return tn_graph_infer(importer->graph, importer->error);
    rebatch.reference = reference;
    tn_status status = tn__graph_infer_rebatched(importer->graph, &rebatch, importer->error);
    if (status == TN_E_INVALID) import_explain_batch(importer);
    if (status == TN_OK && rebatch.changed > 0)
        tn__import_log(importer,
                       "a batch of %lld is hard-coded in %u shape%s (%s%s); it was replaced by the "
                       "requested batch",
                       (long long)rebatch.from, rebatch.changed, rebatch.changed == 1 ? "" : "s",
                       rebatch.changed == 1 ? "" : "the first is ", rebatch.first);
    tn_graph_destroy(reference);
    return status;
}

static tn_status import_run(tn_importer *importer, const char *name) {
    const tn_import_format *format;
    TN_TRY(import_check_options(importer->options, importer->error));
    tn__span file = {importer->bytes, importer->size};
    TN_TRY(tn__import_choose(name, file, &format, importer->error));
    if (importer->options->keep_aten && strcmp(format->name, "pt2") != 0)
        TN_FAIL(importer->error, TN_E_INVALID, "`keep_aten` is for .pt2 programs");
    TN_TRY(tn_graph_create(importer->options->context, &importer->graph, importer->error));
    TN_TRY(tn__dims_init(&importer->dims, importer->context, importer->options, importer->error));
    TN_TRY(format->read(importer));
    TN_TRY(import_check_used(importer));
    TN_TRY(import_values(importer));
    tn_status status = import_infer(importer);
    TN_TRY(import_check_batch(importer));
    if (status != TN_OK) return status;
    return import_set_format(importer);
}

/* Copies the fields that the caller's version of the options has. */
void tn__import_options(const tn_import_options *from, tn_import_options *options) {
    *options = (tn_import_options)TN_IMPORT_OPTIONS_INIT;
    tn__options(options, sizeof *options, from);
    options->struct_size = sizeof *options;
}

tn_status tn__import(const char *name, tn__span file, const tn_import_options *given,
                     tn__import_met *met, void *self, tn_graph **graph, tn_error *error) {
    tn_import_options options;
    tn__import_options(given, &options);
    tn_context context = tn__context(options.context);
    const char *short_name = import_short_name(name ? name : "model");
    tn_importer importer = {.options = &options,
                            .context = &context,
                            .name = short_name,
                            .bytes = file.bytes,
                            .size = file.size,
                            .met = met,
                            .met_self = self,
                            .dims = {.context = &context},
                            .error = error};
    importer.shape_used = tn__alloc_array(&context, options.input_shape_count + 1u, sizeof(bool));
    importer.parameter_used = tn__alloc_array(&context, options.parameter_count + 1u, sizeof(bool));
    tn_status status = importer.shape_used && importer.parameter_used
                           ? import_run(&importer, short_name)
                           : tn__no_memory(error, "the options");
    if (status == TN_OK) {
        *graph = importer.graph;
    } else {
        tn_graph_destroy(importer.graph);
        import_name_file(&importer);
    }
    tn__dims_release(&importer.dims);
    tn__free(&context, importer.shape_used, (options.input_shape_count + 1u) * sizeof(bool));
    tn__free(&context, importer.parameter_used, (options.parameter_count + 1u) * sizeof(bool));
    return status;
}

tn_status tn_graph_load_memory(const char *name, const void *bytes, size_t size,
                               const tn_import_options *options, tn_graph **graph,
                               tn_error *error) {
    return tn__import(name, (tn__span){bytes, size}, options, NULL, NULL, graph, error);
}

#define IMPORT_LARGE ((size_t)4 << 20)

/* Advises the system that the file is read at random. A large file consists of weights, and only
 * the pages with their headers are read. Without this hint the system would read ahead at each of
 * them, and so the whole file. If the system refuses the hint, only speed is lost. */
static void import_advise(const tn__file *file) {
    if (file->size < IMPORT_LARGE) return;
    uintptr_t mask = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    /* only a mapped file begins at a page; for other memory there is nothing to advise */
    if (((uintptr_t)file->bytes & mask) == 0)
        (void)madvise((void *)(uintptr_t)file->bytes, file->size, MADV_RANDOM);
}

tn_status tn_graph_load(const char *path, const tn_import_options *options, tn_graph **graph,
                        tn_error *error) {
    tn__file file;
    tn_import_options made;
    tn__import_options(options, &made);
    TN_TRY(tn__file_map_most(path, tn__context(made.context).read_limit, &file, error));
    import_advise(&file);
    tn_status status = tn_graph_load_memory(path, file.bytes, file.size, options, graph, error);
    tn__file_unmap(&file);
    return status;
}
