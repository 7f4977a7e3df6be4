/* fuzz_checkpoint.c - any bytes as a checkpoint of training, as they are and with a hash that is
 * right, so that what stands behind it is read, too.
 *
 * What must hold: tensors with terminated names whose contents lie inside the bytes, or an error
 * with a message. A small model and a run are compared with what was read.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "graph/element.h"
#include "run/trainer/checkpoint.h"

#define FUZZ_HASH_AT 72u /* behind magic, version, count and tn_checkpoint_run */

static void checkpoint_look(const tn_checkpoint *checkpoint) {
    uint64_t sum = 0;
    fuzz_accept();
    for (uint32_t i = 0; i < tn_checkpoint_count(checkpoint); i++) {
        const tn_kept *kept = tn_checkpoint_tensor(checkpoint, i);
        fuzz_must(kept->role <= TN_ROLE_STATE && kept->rank <= TN_RANK_MAX);
        fuzz_must(tn_checkpoint_find(checkpoint, kept->name) != NULL ||
                  kept->role == TN_ROLE_STATE);
        for (uint64_t k = 0; k < kept->size; k++) sum += kept->bytes[k];
        sum += tn__first_odd(kept->bytes, kept->size, kept->dtype);
    }
    volatile uint64_t sink = sum; /* so that the reading is not left out */
    (void)sink;
}

/* x -> MatMul with the parameter w -> y */
static tn_graph *checkpoint_graph(void) {
    static const int64_t shapes[][2] = {{1, 2}, {2, 3}, {1, 3}};
    static const tn_kind kinds[] = {TN_KIND_INPUT, TN_KIND_PARAMETER, TN_KIND_OUTPUT};
    static const char *const names[] = {"x", "w", "y"};
    tn_graph *graph = NULL;
    tn_tensor_id ids[3];
    fuzz_must(tn_graph_create(NULL, &graph, NULL) == TN_OK);
    for (int i = 0; i < 3; i++) {
        tn_tensor_spec spec = {.name = names[i], .dtype = TN_FLOAT32, .rank = 2};
        spec.shape = shapes[i];
        spec.kind = kinds[i];
        fuzz_must(tn_graph_add_tensor(graph, &spec, &ids[i], NULL) == TN_OK);
    }
    tn_op_spec op = {
        .type = "MatMul", .inputs = ids, .input_count = 2, .outputs = &ids[2], .output_count = 1};
    fuzz_must(tn_graph_add_op(graph, &op, NULL, NULL) == TN_OK);
    return graph;
}

/* A model and a run that the checkpoint may not be of: an answer, or an error with a message. */
static void checkpoint_suits(const tn_checkpoint *checkpoint) {
    static const int64_t shape[] = {2, 3};
    static tn_graph *graph; /* read only */
    tn_graph *model = NULL;
    tn_error error = {0};
    tn__keep keep = {.name = "w", .role = TN_ROLE_PARAMETER, .dtype = TN_FLOAT32, .rank = 2};
    keep.shape = shape;
    keep.bytes = 24;
    tn__keeping keeping = {.list = &keep, .count = 1};
    tn_checkpoint_run run = *tn_checkpoint_of_run(checkpoint);
    if (graph == NULL) graph = checkpoint_graph();
    tn_status status = tn_checkpoint_model(checkpoint, graph, &model, &error);
    fuzz_must(status == TN_OK || (error.status == status && error.message[0]));
    tn_graph_destroy(model);
    for (int same = 1; same >= 0; same--) {
        error = (tn_error){0};
        status = tn__checkpoint_suits(checkpoint, &keeping, &run, &error);
        fuzz_must(status == TN_OK || (error.status == status && error.message[0]));
        run = (tn_checkpoint_run){0};
    }
}

static void checkpoint_try(const uint8_t *data, size_t size) {
    tn_checkpoint *checkpoint = NULL;
    tn_error error = {0};
    tn_status status = tn_checkpoint_read("f.ck", data, size, NULL, &checkpoint, &error);
    fuzz_must(status == TN_OK || (error.status == status && error.message[0]));
    fuzz_must((status == TN_OK) == (checkpoint != NULL));
    if (status == TN_OK) {
        checkpoint_look(checkpoint);
        checkpoint_suits(checkpoint);
    }
    tn_checkpoint_close(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    checkpoint_try(data, size);
    if (size < FUZZ_HASH_AT + 8) return 0;
    uint8_t *mended = malloc(size);
    fuzz_must(mended != NULL);
    memcpy(mended, data, size);
    uint64_t hash = tn__checkpoint_hash(data, size);
    memcpy(mended + FUZZ_HASH_AT, &hash, 8);
    checkpoint_try(mended, size);
    free(mended);
    return 0;
}
