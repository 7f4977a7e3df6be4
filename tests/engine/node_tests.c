/* node_tests.c - ONNX's own tests (Debian's libonnx-testdata), run by the engine: 932 of operators,
 * 117 of what PyTorch exported, 23 of small models.
 *
 *     node_tests [--data FOLDER] [--list FILE] [--filter GLOB] [--verbose] [--plain] [--rewrite]
 *                [--again] [--table]
 *
 * Each case is a model, inputs and expected outputs. A case passes when every output has the
 * expected element type and shape, integers are equal, and floats are within 1e-3 relative or
 * 1e-7 absolute, as onnx's own runner compares them; with oneDNN, whose element-wise functions are
 * approximated, within 1e-5 absolute. FILE lists the cases that do not pass, each
 * with its reason: "name: reason". It is kept honest in both directions: a listed case that passes
 * fails the test as much as one that fails and is not listed. --filter is a shell pattern, or part
 * of a name; --plain leaves oneDNN out, --rewrite runs the rewritten graph, --again runs each
 * twice. Every run is poisoned, and must stay below its planned peak. --table prints, for each
 * operator set, how many cases give the expected outputs, are refused, or give other outputs.
 *
 * FOLDER holds node/, pytorch-converted/, pytorch-operator/ and simple/.
 * Exit status: 0 as the list says, 1 not so, 77 the data are absent.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tenure/graph.h>

#include "engine/kernels/kernel.h"
#include "io/import/onnx/wire.h"
#include "node_run.h"

#define CASE_SETS_MAX 10
#define CASE_ARRAYS_MAX NODE_INPUTS_MAX

/* --- comparison --- */

static double element_float(const tn_array *array, uint64_t index) {
    const uint8_t *bytes = array->data;
    uint16_t half;
    float single;
    double number;
    switch (array->dtype) {
    case TN_FLOAT16:
    case TN_BFLOAT16:
        memcpy(&half, bytes + 2 * index, sizeof half);
        return (double)(array->dtype == TN_FLOAT16 ? tn__half_to_float(half)
                                                   : tn__bfloat_to_float(half));
    case TN_FLOAT32:
    case TN_COMPLEX64:
        memcpy(&single, bytes + 4 * index, sizeof single);
        return (double)single;
    default:
        memcpy(&number, bytes + 8 * index, sizeof number);
        return number;
    }
}

static uint64_t element_floats(const tn_array *array) { /* 0: compared by bytes */
    switch (array->dtype) {
    case TN_FLOAT16:
    case TN_BFLOAT16:
        return array->bytes / 2;
    case TN_FLOAT32:
    case TN_COMPLEX64:
        return array->bytes / 4;
    case TN_FLOAT64:
    case TN_COMPLEX128:
        return array->bytes / 8;
    default:
        return 0;
    }
}

static bool is_near(double value, double expected, double absolute) {
    if (isnan(value) || isnan(expected)) return isnan(value) && isnan(expected);
    if (isinf(value) || isinf(expected)) return value == expected;
    return fabs(value - expected) <= absolute + 1e-3 * fabs(expected);
}

static void shape_text(const tn_array *array, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "%s[", tn_dtype_name(array->dtype));
    for (uint32_t d = 0; d < array->rank && used < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d != 0 ? "," : "",
                                 (long long)array->shape[d]);
    if (used < room) snprintf(text + used, room - used, "]");
}

static bool is_equal(uint32_t index, const tn_array *value, const tn_array *expected,
                     double absolute, char *why, size_t room) {
    bool same = value->dtype == expected->dtype && value->rank == expected->rank;
    for (uint32_t d = 0; d < value->rank && same; d++) same = value->shape[d] == expected->shape[d];
    if (!same) {
        char got[120], wanted[120];
        shape_text(value, got, sizeof got);
        shape_text(expected, wanted, sizeof wanted);
        snprintf(why, room, "output %u is %s, expected %s", index, got, wanted);
        return false;
    }
    uint64_t floats = element_floats(expected), count = floats != 0 ? floats : expected->bytes;
    for (uint64_t i = 0; i < count; i++) {
        double x, y;
        if (floats != 0) {
            x = element_float(value, i);
            y = element_float(expected, i);
            if (is_near(x, y, absolute)) continue;
        } else {
            x = ((const uint8_t *)value->data)[i];
            y = ((const uint8_t *)expected->data)[i];
            if (((const uint8_t *)value->data)[i] == ((const uint8_t *)expected->data)[i]) continue;
        }
        snprintf(why, room, "output %u differs at %s %llu of %llu: %.9g, expected %.9g", index,
                 floats != 0 ? "element" : "byte", (unsigned long long)i, (unsigned long long)count,
                 x, y);
        return false;
    }
    return true;
}

/* --- one case --- */

typedef struct arrays {
    tn_array items[CASE_ARRAYS_MAX];
    char names[CASE_ARRAYS_MAX][100];
    const char *name_list[CASE_ARRAYS_MAX];
    uint32_t count;
} arrays;

static void arrays_release(arrays *all) {
    for (uint32_t i = 0; i < all->count; i++) tn_array_release(&all->items[i], NULL);
    all->count = 0;
}

/* The name in a TensorProto. */
static tn_status array_name(const char *path, char name[100], tn_error *error) {
    static const tn__message tensor = {"TensorProto", {[8] = TN_WIRE_BYTES}};
    tn__file file;
    tn__field field;
    TN_TRY(tn__file_map(path, &file, error));
    tn__wire wire = tn__wire_open(file.bytes, (tn__span){file.bytes, file.size}, &tensor);
    name[0] = 0;
    while (tn__wire_next(&wire, &field))
        snprintf(name, 100, "%.*s", (int)field.span.size, (const char *)field.span.bytes);
    tn__file_unmap(&file);
    return TN_OK;
}

/* input_0.pb, input_1.pb, ... of a folder. */
static tn_status arrays_load(arrays *all, const char *folder, const char *what, tn_error *error) {
    all->count = 0;
    while (all->count < CASE_ARRAYS_MAX) {
        char path[1500];
        struct stat facts;
        snprintf(path, sizeof path, "%s/%s_%u.pb", folder, what, all->count);
        if (stat(path, &facts) != 0) return TN_OK;
        TN_TRY(array_name(path, all->names[all->count], error));
        TN_TRY(tn_array_load(path, NULL, &all->items[all->count], error));
        all->name_list[all->count] = all->names[all->count];
        all->count++;
    }
    return TN_OK;
}

static void mend(const tn_graph *graph, const tn_tensor_id *ids, uint32_t count, arrays *all) {
    for (uint32_t i = 0; i < all->count && i < count; i++)
        if (all->items[i].dtype == TN_UINT16 &&
            tn_graph_tensor(graph, ids[i])->dtype == TN_BFLOAT16)
            all->items[i].dtype = TN_BFLOAT16;
}

/* bfloat16 data were written when numpy had no such type: as the bits of uint16. */
static void mend_all(const char *model, arrays *inputs, arrays *outputs) {
    tn_graph *graph;
    if (tn_graph_load(model, NULL, &graph, NULL) != TN_OK) return; /* node_run tells why */
    const tn_block *block = tn_graph_block(graph, 0);
    mend(graph, block->inputs, block->input_count, inputs);
    mend(graph, block->outputs, block->output_count, outputs);
    tn_graph_destroy(graph);
}

static bool set_passes(const char *model, const node_options *options, const char *folder,
                       char *why, size_t room) {
    static arrays inputs, expected, outputs;
    tn_error error = {0};
    bool passes = true;
    tn_status status = arrays_load(&inputs, folder, "input", &error);
    if (status == TN_OK) status = arrays_load(&expected, folder, "output", &error);
    if (status == TN_OK) mend_all(model, &inputs, &expected);
    if (status == TN_OK) {
        outputs.count = expected.count;
        status = node_run(model, options, inputs.items, inputs.name_list, inputs.count,
                          outputs.items, outputs.count, &error);
        if (status != TN_OK) outputs.count = 0;
    }
    if (status != TN_OK) {
        const char *slash = strrchr(error.where, '/');
        snprintf(why, room, "%s %s: %s", tn_status_name(status) + 2,
                 slash != NULL ? slash + 1 : error.where, error.message);
        passes = false;
    }
    for (uint32_t i = 0; i < outputs.count && passes; i++)
        passes = is_equal(i, &outputs.items[i], &expected.items[i], options->plain ? 1e-7 : 1e-5,
                          why, room);
    arrays_release(&inputs);
    arrays_release(&expected);
    arrays_release(&outputs);
    return passes;
}

static bool case_passes(const char *data, const char *name, const node_options *options, char *why,
                        size_t room) {
    char model[1400], folder[1400];
    struct stat facts;
    uint32_t sets = 0;
    snprintf(model, sizeof model, "%s/%s/model.onnx", data, name);
    for (; sets < CASE_SETS_MAX; sets++) {
        snprintf(folder, sizeof folder, "%s/%s/test_data_set_%u", data, name, sets);
        if (stat(folder, &facts) != 0) break;
        if (!set_passes(model, options, folder, why, room)) return false;
    }
    if (sets == 0) snprintf(why, room, "it has no data");
    return sets != 0;
}

/* --- a table by operator set --- */

#define TABLE_SETS 64u

typedef struct table {
    uint32_t equal[TABLE_SETS], refused[TABLE_SETS], different[TABLE_SETS];
} table;

/* The operator set of ONNX's domain that a model states; 0: none. A model that cannot be loaded has
 * one, too. */
static uint32_t table_set(const char *data, const char *name) {
    static const tn__message model = {"ModelProto", {[8] = TN_WIRE_BYTES}};
    static const tn__message set = {"OperatorSetIdProto",
                                    {[1] = TN_WIRE_BYTES, [2] = TN_WIRE_VARINT}};
    char path[1400];
    tn__file file;
    tn__field field;
    uint32_t version = 0;
    snprintf(path, sizeof path, "%s/%s/model.onnx", data, name);
    if (tn__file_map(path, &file, NULL) != TN_OK) return 0;
    tn__wire wire = tn__wire_open(file.bytes, (tn__span){file.bytes, file.size}, &model);
    while (tn__wire_next(&wire, &field)) {
        tn__wire inner = tn__wire_open(file.bytes, field.span, &set);
        tn__field part;
        bool own = true;
        uint64_t stated = 0;
        while (tn__wire_next(&inner, &part)) {
            if (part.number == 1) own = part.span.size == 0;
            if (part.number == 2) stated = part.value;
        }
        if (own && stated < TABLE_SETS) version = (uint32_t)stated;
    }
    tn__file_unmap(&file);
    return version;
}

static void table_print(const table *all) {
    uint32_t sums[3] = {0};
    printf("| operator set | cases | equal | refused | different |\n|---|---:|---:|---:|---:|\n");
    for (uint32_t k = 0; k < TABLE_SETS; k++) {
        uint32_t cases = all->equal[k] + all->refused[k] + all->different[k];
        sums[0] += all->equal[k], sums[1] += all->refused[k], sums[2] += all->different[k];
        if (cases == 0) continue;
        if (k == 0)
            printf("| of other domains only");
        else
            printf("| %u", k);
        printf(" | %u | %u | %u | %u |\n", cases, all->equal[k], all->refused[k],
               all->different[k]);
    }
    printf("| all | %u | %u | %u | %u |\n", sums[0] + sums[1] + sums[2], sums[0], sums[1], sums[2]);
}

/* --- the list --- */

typedef struct listed {
    char *name, *reason;
    bool met;
} listed;

typedef struct list {
    listed *items;
    size_t count;
} list;

static char *copy_text(const char *text) {
    char *copy = strdup(text);
    if (copy == NULL) abort();
    return copy;
}

static bool list_read(const char *path, list *all) {
    char line[600];
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = 0;
        char *colon = strstr(line, ": ");
        if (line[0] == '#' || colon == NULL) continue;
        *colon = 0;
        all->items = realloc(all->items, (all->count + 1) * sizeof *all->items);
        if (all->items == NULL) abort();
        all->items[all->count++] = (listed){copy_text(line), copy_text(colon + 2), false};
    }
    fclose(file);
    return true;
}

static listed *list_find(list *all, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].name, name) == 0) return &all->items[i];
    return NULL;
}

static void list_release(list *all) {
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].name);
        free(all->items[i].reason);
    }
    free(all->items);
}

/* --- all cases --- */

typedef struct totals {
    uint32_t passed, listed, unlisted, wrongly_listed;
} totals;

static bool is_wanted(const char *name, const char *filter) {
    return filter == NULL || strstr(name, filter) != NULL || tn__glob(filter, name);
}

typedef struct run_set {
    node_options options;
    list known;
    bool verbose, in_table;
    totals sum; /* of all folders: what was wrong */
    table table;
} run_set;

static void run_case(const char *data, const char *name, run_set *set, totals *sum) {
    char why[700] = "";
    listed *entry = list_find(&set->known, name);
    bool passes = case_passes(data, name, &set->options, why, sizeof why);
    if (set->in_table) {
        uint32_t version = table_set(data, name);
        bool differs = strncmp(why, "output ", 7) == 0;
        (passes    ? set->table.equal
         : differs ? set->table.different
                   : set->table.refused)[version]++;
    }
    if (entry != NULL) entry->met = true;
    if (passes && entry == NULL) sum->passed++;
    if (!passes && entry != NULL) sum->listed++;
    if (passes && entry != NULL) {
        sum->wrongly_listed++;
        printf("PASSES, BUT IS LISTED  %s (%s)\n", name, entry->reason);
    } else if (!passes && entry == NULL) {
        sum->unlisted++;
        printf("FAILS  %s: %s\n", name, why);
    } else if (set->verbose) {
        printf("%s  %s%s%s\n", passes ? "passes" : "listed", name, passes ? "" : ": ", why);
    }
    fflush(stdout);
}

static void totals_print(const char *what, const totals *sum) {
    printf("%-18s %u pass, %u are listed as not passing, %u fail without being listed, %u are "
           "listed wrongly\n",
           what, sum->passed, sum->listed, sum->unlisted, sum->wrongly_listed);
}

/* All cases of one folder; false: there is none. */
static bool run_folder(const char *root, const char *name, const char *filter, run_set *set) {
    char data[900];
    struct dirent **entries;
    totals sum = {0};
    snprintf(data, sizeof data, "%s/%s", root, name);
    int count = scandir(data, &entries, NULL, alphasort);
    if (count < 0) return false;
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.' && is_wanted(entries[i]->d_name, filter))
            run_case(data, entries[i]->d_name, set, &sum);
        free(entries[i]);
    }
    free(entries);
    totals_print(name, &sum);
    set->sum.unlisted += sum.unlisted;
    set->sum.wrongly_listed += sum.wrongly_listed;
    return true;
}

int main(int argc, char **argv) {
    static const char *const folders[] = {"node", "pytorch-converted", "pytorch-operator",
                                          "simple"};
    const char *data = "/usr/share/libonnx-testdata/data", *path = NULL, *filter = NULL;
    run_set set = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0)
            set.verbose = true;
        else if (strcmp(argv[i], "--plain") == 0)
            set.options.plain = true;
        else if (strcmp(argv[i], "--rewrite") == 0)
            set.options.rewrite = true;
        else if (strcmp(argv[i], "--table") == 0)
            set.in_table = true;
        else if (strcmp(argv[i], "--again") == 0)
            set.options.again = true;
        else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc)
            data = argv[++i];
        else if (strcmp(argv[i], "--list") == 0 && i + 1 < argc)
            path = argv[++i];
        else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
            filter = argv[++i];
        else
            return fprintf(stderr, "%s is not an option; see the head of node_tests.c\n", argv[i]),
                   2;
    }
    if (path != NULL && !list_read(path, &set.known))
        return fprintf(stderr, "%s cannot be read\n", path), 2;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (!run_folder(data, folders[i], filter, &set)) {
            printf("SKIP: %s/%s is absent; apt-get install libonnx-testdata\n", data, folders[i]);
            return 77;
        }
    for (size_t i = 0; i < set.known.count && filter == NULL; i++)
        if (!set.known.items[i].met) {
            set.sum.wrongly_listed++;
            printf("LISTED, BUT ABSENT  %s\n", set.known.items[i].name);
        }
    list_release(&set.known);
    if (set.in_table) table_print(&set.table);
    return set.sum.unlisted + set.sum.wrongly_listed != 0;
}
