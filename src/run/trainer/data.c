/* data.c - loads data sets (Fashion-MNIST as Debian ships it, samples and labels in files, a file
 * for each input by its name, text as bytes, arrays), and checks them against a model. */
#include "run/trainer/data.h"
#include "graph/element.h"

#include <stdio.h>
#include <unistd.h>

/* --- checking data against the model ---------------------------------------------------------- */

/* Checks that a data set fits the model: shapes, types, numbers, and every label.
 *
 * Cost: all of the data is read once. */

/* Writes type and shape of one sample to `text`, for example "uint8 [28,28]". The first extent is
 * left out, because it counts samples. */
static void data_describe(tn_dtype dtype, uint32_t rank, const int64_t *shape, char text[160]) {
    size_t used = (size_t)snprintf(text, 160, "%s [", tn_dtype_name(dtype));
    for (uint32_t d = 1; d < rank && used < 130; d++)
        used += (size_t)snprintf(text + used, 160 - used, "%s%lld", d > 1 ? "," : "",
                                 (long long)shape[d]);
    snprintf(text + used, 160 - used, "]");
}

/* Whether the samples of an array have the shape that the model reads. Extents of 1 are ignored,
 * and a model that reads vectors may get samples of any shape with the same number of elements. */
static bool data_same_shape(const tn_array *array, const tn_tensor *tensor) {
    uint32_t a = 1, b = 1;
    uint64_t bits = tn_dtype_bits(array->dtype);
    uint64_t elements = bits > 0 ? array->bytes * 8 / bits / (uint64_t)array->shape[0] : 0;
    if (tensor->rank == 2 && (uint64_t)tensor->shape[1] == elements) return true;
    for (;; a++, b++) {
        while (a < array->rank && array->shape[a] == 1) a++;
        while (b < tensor->rank && tensor->shape[b] == 1) b++;
        if (a == array->rank || b == tensor->rank) return a == array->rank && b == tensor->rank;
        if (array->shape[a] != tensor->shape[b]) return false;
    }
}

static tn_status data_check_numbers(const tn_array *array, const char *path, const char *what,
                                    tn_error *error) {
    uint64_t odd = tn__first_odd(array->data, array->bytes, array->dtype);
    if (odd == TN_SIZE_UNKNOWN) return TN_OK;
    uint64_t elements = array->bytes * 8 / tn_dtype_bits(array->dtype);
    TN_FAIL(error, TN_E_INVALID,
            "%.200s: number %llu of its %s has an element that is infinite or NaN", path,
            (unsigned long long)(odd / (elements / (uint64_t)array->shape[0])), what);
}

static tn_status data_check_array(const tn_array *array, const char *path, const tn_tensor *tensor,
                                  const char *what, tn_error *error) {
    char has[160], wants[160];
    if (data_same_shape(array, tensor) && tn__batch_converts(array->dtype, tensor->dtype))
        return data_check_numbers(array, path, what, error);
    data_describe(array->dtype, array->rank, array->shape, has);
    data_describe(tensor->dtype, tensor->rank, tensor->shape, wants);
    TN_FAIL(error, TN_E_INVALID, "%.200s: each of its %s is %s; the model takes '%.60s' of %s",
            path, what, has, tensor->name, wants);
}

static int64_t data_class(const tn_array *labels, uint64_t i) {
    int64_t wide = 0;
    int32_t narrow;
    if (labels->dtype == TN_UINT8) return ((const uint8_t *)labels->data)[i];
    if (labels->dtype == TN_INT8) return ((const int8_t *)labels->data)[i];
    if (labels->dtype == TN_INT64) memcpy(&wide, (const uint8_t *)labels->data + 8 * i, 8);
    if (labels->dtype != TN_INT32) return wide;
    memcpy(&narrow, (const uint8_t *)labels->data + 4 * i, 4);
    return narrow;
}

static tn_status data_check_classes(const tn__data_set *set, uint32_t at, int64_t classes,
                                    tn_error *error) {
    const tn_array *labels = &set->arrays[at].array;
    uint64_t all = labels->bytes * 8 / tn_dtype_bits(labels->dtype);
    for (uint64_t i = 0; i < all; i++) {
        int64_t label = data_class(labels, i);
        if (label >= 0 && label < classes) continue;
        TN_FAIL(error, TN_E_INVALID,
                "%.200s: sample %llu has label %lld; the model has %lld classes, from 0 to %lld",
                set->paths[at], (unsigned long long)(i / (all / set->count)), (long long)label,
                (long long)classes, (long long)classes - 1);
    }
    return TN_OK;
}

static tn_status data_check_text(const tn__data_set *set, int64_t classes, tn_error *error) {
    const uint8_t *bytes = set->count > 0 ? set->arrays[0].array.data : NULL;
    for (uint64_t i = 0; i < set->count && classes > 0 && classes < 256; i++)
        if (bytes[i] >= classes)
            TN_FAIL(error, TN_E_INVALID,
                    "%.200s: byte %llu is %u; the model scores %lld, and text needs 256",
                    set->paths[0], (unsigned long long)i, bytes[i], (long long)classes);
    return TN_OK;
}

static tn_status data_check_text_of(const tn__data_set *set, const tn__batch_of *batch,
                                    int64_t classes, tn_error *error) {
    const tn_tensor *input = &batch->inputs[0], *labels = batch->labels;
    if (batch->count != 1 || labels == NULL || !tn__batch_converts(TN_UINT8, input->dtype) ||
        input->dtype == TN_FLOAT32 || labels->dtype != TN_INT64 || input->rank != 2 ||
        labels->rank != 2 || input->shape[1] != labels->shape[1])
        TN_FAIL(error, TN_E_INVALID,
                "text is for models that take whole numbers [batch, time] and score 256 bytes for "
                "each of them");
    return data_check_text(set, classes, error);
}

tn_status tn__data_check(const tn_data *data, const tn__data_set *set, const tn__batch_of *batch,
                         const uint32_t *from, int64_t classes, tn_error *error) {
    if (data->text) return data_check_text_of(set, batch, classes, error);
    if (set->count == 0) return TN_OK;
    for (uint32_t k = 0; k < batch->count; k++)
        TN_TRY(data_check_array(&set->arrays[from[k]].array, set->paths[from[k]], &batch->inputs[k],
                                "samples", error));
    if (batch->labels == NULL) return TN_OK;
    uint32_t labels = from[batch->count];
    TN_TRY(data_check_array(&set->arrays[labels].array, set->paths[labels], batch->labels, "labels",
                            error));
    return classes > 0 ? data_check_classes(set, labels, classes, error) : TN_OK;
}

/* --- which array is for which input --- */

/* the name by which data refers to the labels of a loss */
#define DATA_LABELS "labels"

/* Lists what a batch has, for messages: "'a', 'b' and labels". */
static void data_list_inputs(const tn__batch_of *batch, char text[240]) {
    size_t used = 0;
    for (uint32_t k = 0; k < batch->count && used < 160; k++)
        used += (size_t)snprintf(text + used, 240 - used, "%s'%.60s'", k > 0 ? ", " : "",
                                 batch->inputs[k].name);
    if (batch->labels != NULL) snprintf(text + used, 240 - used, " and " DATA_LABELS);
}

static bool data_is_named(const tn__data_set *set) {
    return set->array_count > 0 && set->arrays[0].name != NULL;
}

static const char *data_name_of(const tn__batch_of *batch, uint32_t k) {
    return k < batch->count ? batch->inputs[k].name : DATA_LABELS;
}

/* Arrays without names: they are for the inputs in their order, and then for the labels. */
static tn_status data_match_places(const tn_data *data, const tn__data_set *set,
                                   const tn__batch_of *batch, uint32_t *from, tn_error *error) {
    uint32_t wanted = batch->count + (batch->labels != NULL);
    char takes[240];
    for (uint32_t k = 0; k < wanted; k++) from[k] = k;
    if (set->array_count == wanted) return TN_OK;
    if (data->labels_apart && batch->labels == NULL && set->array_count == wanted + 1) return TN_OK;
    data_list_inputs(batch, takes);
    TN_FAIL(
        error, TN_E_INVALID,
        "the data has %u arrays without names, but a step takes %s; give each array the name of "
        "its input",
        set->array_count, takes);
}

tn_status tn__data_match(const tn_data *data, const tn__data_set *set, const tn__batch_of *batch,
                         uint32_t *from, tn_error *error) {
    uint32_t wanted = batch->count + (batch->labels != NULL);
    char takes[240];
    if (set->count == 0) return TN_OK;
    if (!data_is_named(set)) return data_match_places(data, set, batch, from, error);
    data_list_inputs(batch, takes);
    for (uint32_t k = 0; k < wanted; k++) from[k] = TN_NONE;
    for (uint32_t a = 0; a < set->array_count; a++) {
        uint32_t k = wanted;
        /* the labels first: an input of the model may have the same name */
        while (k > 0 && strcmp(set->arrays[a].name, data_name_of(batch, k - 1)) != 0) k--;
        if (k == 0)
            TN_FAIL(error, TN_E_INVALID, "%.200s: '%.60s' is no input; a step takes %s",
                    set->paths[a], set->arrays[a].name, takes);
        from[k - 1] = a;
    }
    for (uint32_t k = 0; k < wanted; k++)
        if (from[k] == TN_NONE)
            TN_FAIL(error, TN_E_INVALID, "the data has nothing for '%.60s'; a step takes %s",
                    data_name_of(batch, k), takes);
    return TN_OK;
}

/* --- loading ---------------------------------------------------------------------------------- */

#define DATA_FASHION "/usr/share/datasets/fashion-mnist"

static tn_status data_path(tn_data *data, const char *text, size_t length, const char **path,
                           tn_error *error) {
    *path = tn__arena_string(&data->arena, text, length);
    return *path != NULL ? TN_OK : tn__no_memory(error, "the data");
}

static tn_status data_count(tn__data_set *set, tn_error *error) {
    for (uint32_t a = 0; a < set->array_count; a++) {
        const tn_array *array = &set->arrays[a].array;
        int64_t count = array->rank > 0 ? array->shape[0] : 0;
        if (a > 0 && (uint64_t)count != set->count)
            TN_FAIL(error, TN_E_INVALID, "%.200s has %llu samples, but %.200s has %lld",
                    set->paths[0], (unsigned long long)set->count, set->paths[a], (long long)count);
        if (count <= 0) TN_FAIL(error, TN_E_INVALID, "%.200s holds no samples", set->paths[a]);
        if ((uint64_t)count >= UINT32_MAX)
            TN_FAIL(error, TN_E_INVALID, "%.200s holds more than 2^32 samples", set->paths[a]);
        set->count = (uint64_t)count;
    }
    return TN_OK;
}

/* Makes room for `count` arrays of a set. */
static tn_status data_room(tn_data *data, tn__data_set *set, uint32_t count, tn_error *error) {
    set->arrays = tn__arena_array(&data->arena, count, sizeof *set->arrays);
    set->paths = tn__arena_array(&data->arena, count, sizeof *set->paths);
    return set->arrays != NULL && set->paths != NULL ? TN_OK : tn__no_memory(error, "the data");
}

/* --- files --- */

/* Adds the contents of a file to a set, which has room for it. named: the user names the file, so
 * links are followed. */
static tn_status data_add(tn_data *data, const char *path, size_t length, bool idx, bool named,
                          tn__data_set *set, tn_error *error) {
    uint32_t a = set->array_count;
    tn_array *array = &set->arrays[a].array;
    tn_context context = data->context;
    context.follow_links = context.follow_links || named;
    TN_TRY(data_path(data, path, length, &set->paths[a], error));
    TN_TRY(idx ? tn__idx_load(set->paths[a], &context, array, error)
               : tn_array_load(set->paths[a], &data->context, array, error));
    set->array_count++;
    return TN_OK;
}

static tn_status data_load_idx(tn_data *data, const char *folder, const char *images,
                               const char *labels, tn__data_set *set, tn_error *error) {
    const char *const names[] = {images, labels};
    char path[4096];
    TN_TRY(data_room(data, set, 2, error));
    for (uint32_t i = 0; i < 2; i++) {
        int length = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (length >= (int)sizeof path)
            TN_FAIL(error, TN_E_INVALID, "the path of the data is too long");
        TN_TRY(data_add(data, path, (size_t)length, true, false, set, error));
    }
    return data_count(set, error);
}

static tn_status data_load_fashion(tn_data *data, const char *folder, tn_error *error) {
    data->labels_apart = true;
    TN_TRY(data_load_idx(data, folder, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                         &data->train, error));
    return data_load_idx(data, folder, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
                         &data->test, error);
}

/* Whether a file has idx format, by the end of its name: "train-images-idx3-ubyte.gz". */
static bool data_is_idx(const char *path, size_t length) {
    static const char *const ends[] = {".gz", ".idx", "-ubyte"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t size = strlen(ends[i]);
        if (length >= size && strncmp(path + length - size, ends[i], size) == 0) return true;
    }
    return false;
}

/* Reads one set of a list [NAME=]FILE,... that ends at a colon. *at: moved after the set. */
static tn_status data_load_list(tn_data *data, const char **at, bool named, tn__data_set *set,
                                tn_error *error) {
    uint32_t room = 1;
    for (const char *c = *at; *c != '\0'; c++) room += *c == ',';
    TN_TRY(data_room(data, set, room, error));
    for (char end = ','; end == ',';) {
        tn_named_array *array = &set->arrays[set->array_count];
        if (named) {
            size_t name = strcspn(*at, "=");
            if ((*at)[name] == '\0' || name == 0)
                TN_FAIL(error, TN_E_INVALID,
                        "'%.100s' is not NAME=FILE, as the first of the list is", *at);
            TN_TRY(data_path(data, *at, name, &array->name, error));
            for (uint32_t a = 0; a < set->array_count; a++)
                if (strcmp(set->arrays[a].name, array->name) == 0)
                    TN_FAIL(error, TN_E_INVALID, "there are two files for '%.100s'", array->name);
            *at += name + 1;
        }
        size_t length = strcspn(*at, ",:");
        TN_TRY(data_add(data, *at, length, data_is_idx(*at, length), true, set, error));
        end = (*at)[length];
        *at += length + (end != '\0');
    }
    return data_count(set, error);
}

/* Reads SAMPLES,LABELS or NAME=FILE,..., and after a colon another list, which is held out. A list
 * has names if its first item does, and is not itself a file with this character in its name. */
static tn_status data_load_files(tn_data *data, const char *what, tn_error *error) {
    char first[4096];
    size_t length = strcspn(what, ",:");
    const char *at = what;
    snprintf(first, sizeof first, "%.*s", length < sizeof first ? (int)length : 0, what);
    bool exists = access(first, F_OK) == 0, named = !exists && strchr(what, '=') != NULL;
    if (!named && !exists && what[length] != ',')
        TN_FAIL(error, TN_E_INVALID,
                "'%.100s' is neither fashion-mnist, text:FILE, SAMPLES.npy,LABELS.npy nor "
                "INPUT=FILE.npy,...",
                what);
    TN_TRY(data_load_list(data, &at, named, &data->train, error));
    if (at[0] == '\0' && at[-1] != ':') return TN_OK;
    TN_TRY(data_load_list(data, &at, named, &data->test, error));
    if (at[0] == '\0' && at[-1] != ':') return TN_OK;
    TN_FAIL(error, TN_E_INVALID,
            "'%.100s': there are samples to train on and samples to test on, "
            "and no third list",
            what);
}

static tn_status data_take_text(tn_data *data, const char *path, const uint8_t *bytes,
                                uint64_t size, tn__data_set *set, tn_error *error) {
    TN_TRY(data_room(data, set, 1, error));
    TN_TRY(data_path(data, path, strlen(path), &set->paths[0], error));
    tn_array *samples = &set->arrays[0].array;
    *samples = (tn_array){.dtype = TN_UINT8,
                          .rank = 1,
                          .shape = {(int64_t)size},
                          .bytes = size,
                          .data = tn__alloc(&data->context, size)};
    if (samples->data == NULL) return tn__no_memory(error, "the text");
    if (size > 0) memcpy(samples->data, bytes, size);
    set->array_count = 1;
    set->count = size;
    return TN_OK;
}

/* Loads a text file. The last tenth of the text is for testing, the rest for training. */
static tn_status data_load_text(tn_data *data, const char *path, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_most(path, data->context.read_limit, &file, error));
    uint64_t held_out = file.size / 10, size = file.size - held_out;
    const uint8_t *bytes = file.bytes;
    data->text = true;
    tn_status status = data_take_text(data, path, bytes, size, &data->train, error);
    if (status == TN_OK && held_out > 0)
        status = data_take_text(data, path, bytes + size, held_out, &data->test, error);
    tn__file_unmap(&file);
    return status;
}

static tn_status data_load(tn_data *data, const char *what, tn_error *error) {
    static const char fashion[] = "fashion-mnist";
    const char *behind = what + sizeof fashion - 1;
    if (strncmp(what, fashion, sizeof fashion - 1) == 0 && (*behind == '\0' || *behind == ':'))
        return data_load_fashion(data, *behind == ':' ? behind + 1 : DATA_FASHION, error);
    if (strncmp(what, "text:", 5) == 0) return data_load_text(data, what + 5, error);
    return data_load_files(data, what, error);
}

/* --- arrays --- */

static tn_status data_lend_array(const tn_array *array, tn_array *mine, tn_error *error) {
    uint64_t bytes;
    if (array->rank > TN_RANK_MAX) TN_FAIL(error, TN_E_INVALID, "an array of rank %u", array->rank);
    TN_TRY(tn_tensor_size(array->dtype, (tn_format){0}, array->rank, array->shape, &bytes, error));
    if (bytes != array->bytes)
        TN_FAIL(error, TN_E_INVALID, "an array has %llu bytes; its type and shape need %llu",
                (unsigned long long)array->bytes, (unsigned long long)bytes);
    *mine = *array;
    return TN_OK;
}

static tn_status data_lend(tn_data *data, const tn_samples *given, tn__data_set *set,
                           tn_error *error) {
    const tn_named_array pair[] = {{.array = given->samples}, {.array = given->labels}};
    bool named = given->input_count > 0;
    const tn_named_array *from = named ? given->inputs : pair;
    uint32_t count = named ? given->input_count : 2;
    TN_TRY(data_room(data, set, count, error));
    for (uint32_t a = 0; a < count; a++) {
        const char *name = from[a].name;
        if (named && (name == NULL || name[0] == '\0'))
            TN_FAIL(error, TN_E_INVALID, "array %u of the data has no name of an input", a);
        for (uint32_t b = 0; b < a && named; b++)
            if (strcmp(set->arrays[b].name, name) == 0)
                TN_FAIL(error, TN_E_INVALID, "there are two arrays for '%.100s'", name);
        if (named) TN_TRY(data_path(data, name, strlen(name), &set->arrays[a].name, error));
        TN_TRY(data_lend_array(&from[a].array, &set->arrays[a].array, error));
        set->paths[a] = named ? set->arrays[a].name : "the data";
        set->array_count++;
    }
    return data_count(set, error);
}

/* --- creating and destroying a data set --- */

static tn_data *data_make(const tn_context *given) {
    tn_context context = tn__context(given);
    tn_data *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return NULL;
    made->context = context;
    tn__arena_init(&made->arena, &made->context);
    return made;
}

static tn_status data_finish(tn_data *made, tn_status status, tn_data **data) {
    if (status == TN_OK)
        *data = made;
    else
        tn_data_destroy(made);
    return status;
}

tn_status tn_data_load(const char *what, const tn_context *context, tn_data **data,
                       tn_error *error) {
    tn_data *made = data_make(context);
    if (made == NULL) return tn__no_memory(error, "the data");
    return data_finish(made, data_load(made, what, error), data);
}

tn_status tn_data_create(const tn_samples *train, const tn_samples *test, const tn_context *context,
                         tn_data **data, tn_error *error) {
    tn_data *made = data_make(context);
    if (made == NULL) return tn__no_memory(error, "the data");
    made->lent = true;
    tn_status status = data_lend(made, train, &made->train, error);
    if (status == TN_OK && test != NULL) status = data_lend(made, test, &made->test, error);
    return data_finish(made, status, data);
}

static void data_release_set(tn_data *data, tn__data_set *set) {
    for (uint32_t a = 0; a < set->array_count; a++)
        tn_array_release(&set->arrays[a].array, &data->context);
}

void tn_data_destroy(tn_data *data) {
    if (data == NULL) return;
    tn_context context = data->context;
    if (!data->lent) data_release_set(data, &data->train);
    if (!data->lent) data_release_set(data, &data->test);
    tn__arena_release(&data->arena);
    tn__free(&context, data, sizeof *data);
}

uint64_t tn_data_count(const tn_data *data) { return data->train.count; }
uint64_t tn_data_test_count(const tn_data *data) { return data->test.count; }
bool tn_data_is_text(const tn_data *data) { return data->text; }

tn_samples tn_data_samples(const tn_data *data, bool held_out) {
    const tn__data_set *set = held_out ? &data->test : &data->train;
    if (data_is_named(set))
        return (tn_samples){.inputs = set->arrays, .input_count = set->array_count};
    tn_samples samples = {0};
    if (set->array_count > 0) samples.samples = set->arrays[0].array;
    if (set->array_count > 1) samples.labels = set->arrays[1].array;
    return samples;
}
