/* fuzz_pickle.c - any bytes as a pickle: the reader alone, whose maker looks at all it is given.
 *
 * fuzz_snapshot, which goes on to ask what a snapshot says, takes far longer for each try.
 */
#include <stdlib.h>

#include "fuzz.h"
#include "interop/snapshot/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Containers are numbers; of each its kind. */
typedef struct fuzz_made {
    uint8_t *kinds;
    size_t count, room;
    const tn__pickle_texts *texts;
} fuzz_made;

/* The reader gives nobody a number that it was not given. */
static void fuzz_look(const fuzz_made *made, const tn__pickle_value *value) {
    bool is_text = value->kind == TN__PICKLE_TEXT || value->kind == TN__PICKLE_BYTES ||
                   value->kind == TN__PICKLE_BIG;
    if (value->kind > TN__PICKLE_TUPLE) abort();
    if (is_text && value->word >= made->texts->count) abort();
    if (value->kind == TN__PICKLE_BOOL && value->word > 1) abort();
    if (value->kind == TN__PICKLE_UNSIGNED && value->word <= INT64_MAX) abort();
    if (value->kind < TN__PICKLE_LIST) return;
    if (value->word >= made->count || made->kinds[value->word] != value->kind) abort();
}

static tn_status fuzz_add(void *self, const tn__pickle_value *container,
                          const tn__pickle_value *items, size_t count, tn_error *error) {
    (void)error;
    fuzz_look(self, container);
    if (container->kind == TN__PICKLE_TUPLE) abort();
    if (container->kind == TN__PICKLE_DICT && count % 2 != 0) abort();
    for (size_t i = 0; i < count; i++) fuzz_look(self, &items[i]);
    return TN_OK;
}

static tn_status fuzz_make(void *self, tn__pickle_kind kind, const tn__pickle_value *items,
                           size_t count, uint64_t *word, tn_error *error) {
    fuzz_made *made = self;
    if (kind < TN__PICKLE_LIST || (kind != TN__PICKLE_TUPLE && count > 0)) abort();
    for (size_t i = 0; i < count; i++) fuzz_look(made, &items[i]);
    if (!tn__reserve(NULL, &made->kinds, &made->room, made->count + 1, 1))
        return tn__no_memory(error, "containers");
    made->kinds[made->count] = (uint8_t)kind;
    *word = made->count++;
    return TN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn__pickle_texts texts;
    fuzz_made made = {.texts = &texts};
    tn__pickle_maker maker = {.self = &made, .make = fuzz_make, .add = fuzz_add};
    tn__pickle_value value;
    tn_error error = {0};
    tn__pickle_texts_init(&texts, NULL);
    tn_status status = tn__pickle_read("input", bytes, size, &texts, &maker, &value, &error);
    if (status == TN_OK) {
        fuzz_accept();
        fuzz_look(&made, &value);
    } else {
        fuzz_must(error.message[0] != '\0');
    }
    for (size_t i = 0; i < texts.count; i++) /* texts lie in the file */
        if (texts.texts[i].size > size) abort();
    tn__free(NULL, made.kinds, made.room);
    tn__pickle_texts_release(&texts);
    return 0;
}
