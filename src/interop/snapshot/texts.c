/* texts.c - the texts of a pickle by number; equal texts have the same number. */
#include "interop/snapshot/pickle.h"

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
