/* pprof.c - reads a memory profile in the format of pprof, as JAX writes it with
 * jax.profiler.save_device_memory_profile.
 *
 * A profile is one protobuf message. Samples refer to locations, locations to functions, and all of
 * them to a table of texts. The fields may stand in any order, so a first pass stores where each
 * part lies, and a second one follows the references. A reference goes only to another table, so it
 * cannot form a loop.
 *
 * Source: google/pprof, proto/profile.proto; jaxlib, py_client.cc (HeapProfile).
 */
#include <inttypes.h>
#include <stdio.h>

#include "interop/profile/profile.h"
#include "io/import/onnx/wire.h"

enum { PPROF_TYPE = 1, PPROF_SAMPLE, PPROF_LOCATION = 4, PPROF_FUNCTION, PPROF_TEXT };
enum { PPROF_TYPE_TYPE = 1, PPROF_TYPE_UNIT };
enum { PPROF_SAMPLE_LOCATIONS = 1, PPROF_SAMPLE_VALUES, PPROF_SAMPLE_LABELS };
enum { PPROF_LABEL_KEY = 1, PPROF_LABEL_TEXT };
enum { PPROF_ID = 1 };
enum { PPROF_LOCATION_LINE = 4 };
enum { PPROF_LINE_FUNCTION = 1, PPROF_LINE_LINE };
enum { PPROF_FUNCTION_NAME = 2, PPROF_FUNCTION_FILE = 4 };
enum { PPROF_TYPES_MAX = 16, PPROF_LABELS_MAX = 64 };

/* wire types of a repeated integer, which may be packed */
#define PPROF_LIST (TN_WIRE_VARINT | TN_WIRE_BYTES)

static const tn__message pprof_profile = {"Profile",
                                          {[PPROF_TYPE] = TN_WIRE_BYTES,
                                           [PPROF_SAMPLE] = TN_WIRE_BYTES,
                                           [PPROF_LOCATION] = TN_WIRE_BYTES,
                                           [PPROF_FUNCTION] = TN_WIRE_BYTES,
                                           [PPROF_TEXT] = TN_WIRE_BYTES}};
static const tn__message pprof_type = {
    "ValueType", {[PPROF_TYPE_TYPE] = TN_WIRE_VARINT, [PPROF_TYPE_UNIT] = TN_WIRE_VARINT}};
static const tn__message pprof_sample = {"Sample",
                                         {[PPROF_SAMPLE_LOCATIONS] = PPROF_LIST,
                                          [PPROF_SAMPLE_VALUES] = PPROF_LIST,
                                          [PPROF_SAMPLE_LABELS] = TN_WIRE_BYTES}};
static const tn__message pprof_label = {
    "Label", {[PPROF_LABEL_KEY] = TN_WIRE_VARINT, [PPROF_LABEL_TEXT] = TN_WIRE_VARINT}};
static const tn__message pprof_location = {
    "Location", {[PPROF_ID] = TN_WIRE_VARINT, [PPROF_LOCATION_LINE] = TN_WIRE_BYTES}};
static const tn__message pprof_line = {
    "Line", {[PPROF_LINE_FUNCTION] = TN_WIRE_VARINT, [PPROF_LINE_LINE] = TN_WIRE_VARINT}};
static const tn__message pprof_function = {"Function",
                                           {[PPROF_ID] = TN_WIRE_VARINT,
                                            [PPROF_FUNCTION_NAME] = TN_WIRE_VARINT,
                                            [PPROF_FUNCTION_FILE] = TN_WIRE_VARINT}};

typedef struct pprof_spans {
    tn__span *rows;
    size_t count, room;
} pprof_spans;

typedef struct pprof_reading {
    tn__profile *profile;
    const uint8_t *file;
    pprof_spans types, samples, locations, functions, texts;
    const char **words; /* [texts] string copies of the texts that are used; NULL: none yet */
    /* IDs of all locations, then of all functions: the keys of the two tables below */
    uint64_t *ids;
    tn__names location_ids, function_ids;
    tn__profile_frame *functions_made;
    tn__names words_used; /* finds the index in profile->words of a text */
    uint64_t bytes_at;    /* index of the value in bytes among the values of a sample */
    /* index of the value that is a count among the values of a sample; UINT64_MAX: none */
    uint64_t count_at;
    uint64_t value_count; /* number of values in each sample */
    tn_error *error;
} pprof_reading;

static tn_status pprof_close(const pprof_reading *reading, const tn__wire *wire) {
    if (wire->fault == NULL) return TN_OK;
    TN_FAIL(reading->error, TN_E_INVALID, "byte %zu: %s (in a %s); the file is damaged or cut off",
            (size_t)(wire->next - reading->file), wire->fault, wire->message->name);
}

static tn_status pprof_add(pprof_reading *reading, pprof_spans *spans, const tn__field *field) {
    if (spans->count == TN__PROFILE_SAMPLES_MAX)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED,
                "more than 10^7 samples, locations, functions or texts");
    if (!tn__reserve(&reading->profile->context, &spans->rows, &spans->room, spans->count + 1,
                     sizeof *spans->rows))
        return tn__no_memory(reading->error, "a profile");
    spans->rows[spans->count++] = field->span;
    return TN_OK;
}

static tn_status pprof_divide(pprof_reading *reading, tn__span all) {
    tn__wire wire = tn__wire_open(reading->file, all, &pprof_profile);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        pprof_spans *spans = field.number == PPROF_TYPE       ? &reading->types
                             : field.number == PPROF_SAMPLE   ? &reading->samples
                             : field.number == PPROF_LOCATION ? &reading->locations
                             : field.number == PPROF_FUNCTION ? &reading->functions
                                                              : &reading->texts;
        TN_TRY(pprof_add(reading, spans, &field));
    }
    return pprof_close(reading, &wire);
}

/* --- texts --- */

static tn_status pprof_bad(const pprof_reading *reading, tn__span at, const char *what,
                           uint64_t number) {
    TN_FAIL(reading->error, TN_E_INVALID, "byte %zu: %s %" PRIu64 " does not exist",
            at.bytes != NULL ? (size_t)(at.bytes - reading->file) : 0, what, number);
}

/* Sets *text to the bytes of text `number` in the file. `at` is where the file refers to it, for
 * messages. */
static tn_status pprof_text(const pprof_reading *reading, tn__span at, uint64_t number,
                            tn__span *text) {
    if (number >= reading->texts.count) return pprof_bad(reading, at, "text", number);
    *text = reading->texts.rows[number];
    return TN_OK;
}

/* Sets *word to text `number` as a string. Of a text above 4096 bytes only the end is kept. */
static tn_status pprof_word(const pprof_reading *reading, tn__span at, uint64_t number,
                            const char **word) {
    tn__span text = {0};
    TN_TRY(pprof_text(reading, at, number, &text));
    if (reading->words[number] == NULL) {
        size_t cut = text.size > 4096 ? text.size - 4096 : 0;
        reading->words[number] = tn__arena_string(&reading->profile->texts,
                                                  (const char *)text.bytes + cut, text.size - cut);
    }
    *word = reading->words[number];
    return *word != NULL ? TN_OK : tn__no_memory(reading->error, "a profile");
}

/* --- finding the types of the values in a sample --- */

/* Finds which value of a sample is "space" in bytes and which is "allocations" as a count. Fails if
 * no value is "space" in bytes. */
static tn_status pprof_types(pprof_reading *reading) {
    char found[160] = "";
    reading->bytes_at = reading->count_at = UINT64_MAX;
    reading->value_count = reading->types.count;
    if (reading->types.count > PPROF_TYPES_MAX)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "samples with more than 16 values");
    for (size_t i = 0; i < reading->types.count; i++) {
        tn__span row = reading->types.rows[i], name = {0}, unit = {0};
        tn__wire wire = tn__wire_open(reading->file, row, &pprof_type);
        tn__field field;
        while (tn__wire_next(&wire, &field))
            TN_TRY(pprof_text(reading, row, field.value,
                              field.number == PPROF_TYPE_TYPE ? &name : &unit));
        TN_TRY(pprof_close(reading, &wire));
        if (tn__span_is(name, "space") && tn__span_is(unit, "bytes")) reading->bytes_at = i;
        if (tn__span_is(name, "allocations") && tn__span_is(unit, "count")) reading->count_at = i;
        size_t used = strlen(found);
        snprintf(
            found + used, sizeof found - used, "%s%.*s in %.*s", used > 0 ? ", " : "",
            name.size < 30 ? (int)name.size : 30, name.size > 0 ? (const char *)name.bytes : "",
            unit.size < 20 ? (int)unit.size : 20, unit.size > 0 ? (const char *)unit.bytes : "");
    }
    if (reading->bytes_at != UINT64_MAX) return TN_OK;
    TN_FAIL(reading->error, TN_E_UNSUPPORTED,
            "this profile does not count device memory (space in bytes) but %s; "
            "jax.profiler.save_device_memory_profile() writes a memory profile",
            found[0] != 0 ? found : "nothing");
}

/* --- functions and locations --- */

/* Adds the 8 bytes of an ID as a key to a table; fails if the table has it already. */
static tn_status pprof_name(const pprof_reading *reading, tn__names *names, const uint64_t *id,
                            size_t number, const char *what) {
    uint32_t twice;
    if (!tn__names_add(names, (const char *)id, sizeof *id, (uint32_t)number, &twice))
        return tn__no_memory(reading->error, "a profile");
    if (twice != TN__NAMES_NONE)
        TN_FAIL(reading->error, TN_E_INVALID, "%s %" PRIu64 " is given twice", what, *id);
    return TN_OK;
}

static tn_status pprof_functions(pprof_reading *reading) {
    size_t count = reading->functions.count;
    uint64_t *ids = reading->ids + reading->locations.count;
    for (size_t i = 0; i < count; i++) {
        tn__span row = reading->functions.rows[i];
        tn__profile_frame *made = &reading->functions_made[i];
        tn__wire wire = tn__wire_open(reading->file, row, &pprof_function);
        tn__field field;
        *made = (tn__profile_frame){.function = "", .file = ""};
        while (tn__wire_next(&wire, &field)) {
            if (field.number == PPROF_ID)
                ids[i] = field.value;
            else
                TN_TRY(pprof_word(reading, row, field.value,
                                  field.number == PPROF_FUNCTION_NAME ? &made->function
                                                                      : &made->file));
        }
        TN_TRY(pprof_close(reading, &wire));
        TN_TRY(pprof_name(reading, &reading->function_ids, &ids[i], i, "function"));
    }
    return TN_OK;
}

/* Reads the first line entry of a location. pprof lists the lines of a call with inlined functions
 * from the innermost function on. */
static tn_status pprof_line_of(const pprof_reading *reading, tn__span row,
                               tn__profile_frame *frame) {
    uint64_t function = 0, line = 0;
    tn__wire wire = tn__wire_open(reading->file, row, &pprof_line);
    tn__field field;
    while (tn__wire_next(&wire, &field))
        *(field.number == PPROF_LINE_FUNCTION ? &function : &line) = field.value;
    TN_TRY(pprof_close(reading, &wire));
    uint32_t found =
        tn__names_find(&reading->function_ids, (const char *)&function, sizeof function);
    if (found == TN__NAMES_NONE) return pprof_bad(reading, row, "function", function);
    *frame = reading->functions_made[found];
    frame->line = (int64_t)line;
    return TN_OK;
}

static tn_status pprof_locations(pprof_reading *reading) {
    tn__profile *profile = reading->profile;
    for (size_t i = 0; i < reading->locations.count; i++) {
        tn__span row = reading->locations.rows[i];
        tn__profile_frame frame = {.function = "", .file = ""};
        tn__wire wire = tn__wire_open(reading->file, row, &pprof_location);
        tn__field field;
        bool has_line = false;
        while (tn__wire_next(&wire, &field)) {
            if (field.number == PPROF_ID) reading->ids[i] = field.value;
            if (field.number != PPROF_LOCATION_LINE || has_line) continue;
            TN_TRY(pprof_line_of(reading, field.span, &frame));
            has_line = true;
        }
        TN_TRY(pprof_close(reading, &wire));
        TN_TRY(pprof_name(reading, &reading->location_ids, &reading->ids[i], i, "location"));
        profile->places[profile->place_count++] = frame;
    }
    return TN_OK;
}

/* --- samples --- */

static tn_status pprof_frame(const pprof_reading *reading, tn__span at, uint64_t id,
                             tn__profile_sample *sample) {
    tn__profile *profile = reading->profile;
    uint32_t place = tn__names_find(&reading->location_ids, (const char *)&id, sizeof id);
    if (place == TN__NAMES_NONE) return pprof_bad(reading, at, "location", id);
    if (sample->frame_count == TN__PROFILE_FRAMES_MAX)
        TN_FAIL(reading->error, TN_E_UNSUPPORTED, "a stack of more than 1024 frames");
    if (profile->frame_count == UINT32_MAX ||
        !tn__reserve(&profile->context, &profile->frames, &profile->frame_room,
                     (size_t)profile->frame_count + 1, sizeof *profile->frames))
        return tn__no_memory(reading->error, "a profile");
    profile->frames[profile->frame_count++] = place;
    sample->frame_count++;
    return TN_OK;
}

static tn_status pprof_frames(const pprof_reading *reading, tn__wire *wire, tn__field field,
                              tn__profile_sample *sample) {
    tn__span at = field.type == TN_WIRE_BYTES ? field.span : (tn__span){wire->next, 0};
    do {
        int64_t ids[64];
        uint32_t count = tn__field_take(wire, &field, ids, 64);
        for (uint32_t i = 0; i < count; i++)
            TN_TRY(pprof_frame(reading, at, (uint64_t)ids[i], sample));
        if (wire->fault != NULL) return pprof_close(reading, wire);
    } while (field.type == TN_WIRE_BYTES && field.span.size > 0);
    return TN_OK;
}

/* Sets *number to the index in profile->words of a text that names a kind of memory or a device. */
static tn_status pprof_used_word(pprof_reading *reading, tn__span at, uint64_t number,
                                 uint32_t *word) {
    tn__profile *profile = reading->profile;
    const char *text = NULL;
    uint32_t known = TN__NAMES_NONE;
    TN_TRY(pprof_word(reading, at, number, &text));
    if (!tn__names_add(&reading->words_used, text, strlen(text), profile->word_count, &known) ||
        (known == TN__NAMES_NONE &&
         !tn__reserve(&profile->context, &profile->words, &profile->word_room,
                      (size_t)profile->word_count + 1, sizeof *profile->words)))
        return tn__no_memory(reading->error, "a profile");
    if (known == TN__NAMES_NONE) profile->words[profile->word_count] = text;
    *word = known == TN__NAMES_NONE ? profile->word_count++ : known;
    return TN_OK;
}

static tn_status pprof_label_of(pprof_reading *reading, tn__span row, tn__profile_sample *sample) {
    tn__span key = {0};
    uint64_t text = 0;
    tn__wire wire = tn__wire_open(reading->file, row, &pprof_label);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number == PPROF_LABEL_KEY)
            TN_TRY(pprof_text(reading, row, field.value, &key));
        else
            text = field.value;
    }
    TN_TRY(pprof_close(reading, &wire));
    if (tn__span_is(key, "kind")) return pprof_used_word(reading, row, text, &sample->kind);
    if (tn__span_is(key, "device")) return pprof_used_word(reading, row, text, &sample->device);
    return TN_OK;
}

static tn_status pprof_values(const pprof_reading *reading, tn__wire *wire, tn__field field,
                              int64_t *values, uint32_t *count) {
    int64_t more[PPROF_TYPES_MAX + 1];
    uint32_t found = tn__field_take(wire, &field, more, PPROF_TYPES_MAX + 1);
    for (uint32_t i = 0; i < found; i++) {
        if (*count == reading->value_count)
            TN_FAIL(reading->error, TN_E_INVALID, "a sample with more values than types");
        values[(*count)++] = more[i];
    }
    return wire->fault == NULL ? TN_OK : pprof_close(reading, wire);
}

static tn_status pprof_sample_of(pprof_reading *reading, tn__span row) {
    tn__profile *profile = reading->profile;
    tn__profile_sample sample = {.first = profile->frame_count, .count = 1};
    int64_t values[PPROF_TYPES_MAX + 1] = {0};
    uint32_t count = 0, labels = 0;
    tn__wire wire = tn__wire_open(reading->file, row, &pprof_sample);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number == PPROF_SAMPLE_LOCATIONS)
            TN_TRY(pprof_frames(reading, &wire, field, &sample));
        if (field.number == PPROF_SAMPLE_VALUES)
            TN_TRY(pprof_values(reading, &wire, field, values, &count));
        if (field.number == PPROF_SAMPLE_LABELS && ++labels <= PPROF_LABELS_MAX)
            TN_TRY(pprof_label_of(reading, field.span, &sample));
    }
    TN_TRY(pprof_close(reading, &wire));
    int64_t bytes = values[reading->bytes_at];
    int64_t blocks = reading->count_at != UINT64_MAX ? values[reading->count_at] : 1;
    if (count != reading->value_count || bytes < 0 || blocks < 0)
        TN_FAIL(reading->error, TN_E_INVALID, "byte %zu: a sample without its values, or with %s",
                (size_t)(row.bytes - reading->file), "negative ones");
    sample.bytes = (uint64_t)bytes;
    sample.count = (uint64_t)blocks;
    if (!tn__add(profile->bytes, sample.bytes, &profile->bytes))
        TN_FAIL(reading->error, TN_E_INVALID, "the samples have more than 2^64 bytes in all");
    profile->blocks = tn__add_sat(profile->blocks, sample.count);
    profile->samples[profile->sample_count++] = sample;
    return TN_OK;
}

/* --- the profile as a whole --- */

static tn_status pprof_room(pprof_reading *reading) {
    tn__profile *profile = reading->profile;
    const tn_context *context = &profile->context;
    size_t places = reading->locations.count, functions = reading->functions.count;
    reading->words = tn__alloc_array(context, reading->texts.count + 1, sizeof *reading->words);
    reading->ids = tn__alloc_array(context, places + functions + 1, sizeof *reading->ids);
    reading->functions_made =
        tn__alloc_array(context, functions + 1, sizeof *reading->functions_made);
    profile->place_room = places + 1;
    profile->places = tn__alloc_array(context, places + 1, sizeof *profile->places);
    profile->sample_room = reading->samples.count + 1;
    profile->samples =
        tn__alloc_array(context, reading->samples.count + 1, sizeof *profile->samples);
    bool fits =
        reading->words != NULL && reading->ids != NULL && reading->functions_made != NULL &&
        profile->places != NULL && profile->samples != NULL &&
        tn__reserve(context, &profile->words, &profile->word_room, 1, sizeof *profile->words) &&
        tn__names_add(&reading->words_used, "", 0, 0, NULL);
    if (!fits) return tn__no_memory(reading->error, "a profile");
    profile->words[profile->word_count++] = "";
    return TN_OK;
}

static tn_status pprof_read(pprof_reading *reading, tn__span all) {
    TN_TRY(pprof_divide(reading, all));
    TN_TRY(pprof_types(reading));
    TN_TRY(pprof_room(reading));
    TN_TRY(pprof_functions(reading));
    TN_TRY(pprof_locations(reading));
    for (size_t i = 0; i < reading->samples.count; i++)
        TN_TRY(pprof_sample_of(reading, reading->samples.rows[i]));
    return TN_OK;
}

static void pprof_release(pprof_reading *reading) {
    const tn_context *context = &reading->profile->context;
    pprof_spans *all[] = {&reading->types, &reading->samples, &reading->locations,
                          &reading->functions, &reading->texts};
    size_t ids = reading->locations.count + reading->functions.count + 1;
    if (reading->words != NULL)
        tn__free(context, (void *)(uintptr_t)reading->words,
                 (reading->texts.count + 1) * sizeof *reading->words);
    if (reading->ids != NULL) tn__free(context, reading->ids, ids * sizeof *reading->ids);
    if (reading->functions_made != NULL)
        tn__free(context, reading->functions_made,
                 (reading->functions.count + 1) * sizeof *reading->functions_made);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tn__free(context, all[i]->rows, all[i]->room * sizeof *all[i]->rows);
    tn__names_release(&reading->location_ids);
    tn__names_release(&reading->function_ids);
    tn__names_release(&reading->words_used);
}

/* Whether the first field is a ValueType: at most two fields, each a tag and a varint. The tag of
 * the Profile's field is the byte of a line feed, with which traces of PyTorch's profiler begin. */
static bool pprof_begins(const uint8_t *bytes, size_t size) {
    enum { TYPE_MOST = 2 * (1 + 10), TAG_TYPE = 1 << 3, TAG_UNIT = 2 << 3 };
    if (size < 2 || bytes[0] != (PPROF_TYPE << 3 | 2) || bytes[1] > TYPE_MOST) return false;
    return bytes[1] == 0 || (size > 2 && (bytes[2] == TAG_TYPE || bytes[2] == TAG_UNIT));
}

bool tn__pprof_recognises(const char *name, const void *bytes, size_t size) {
    return tn__has_suffix(name, ".prof") || tn__has_suffix(name, ".pb.gz") ||
           pprof_begins(bytes, size);
}

tn_status tn__pprof_read(const char *name, const void *bytes, size_t size, const tn_context *given,
                         tn__profile **profile, tn_error *error) {
    tn_context context = tn__context(given);
    tn__profile *made = tn__alloc(&context, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a profile");
    *made = (tn__profile){.context = context, .tool = "JAX device memory profile"};
    tn__arena_init(&made->texts, &made->context);
    pprof_reading reading = {.profile = made, .file = bytes, .error = error};
    tn__names_init(&reading.location_ids, &made->context);
    tn__names_init(&reading.function_ids, &made->context);
    tn__names_init(&reading.words_used, &made->context);
    tn_status status =
        tn__where(error, pprof_read(&reading, (tn__span){bytes, size}), "%.150s", name);
    pprof_release(&reading);
    if (status == TN_OK)
        *profile = made;
    else
        tn__profile_destroy(made);
    return status;
}
