/* library.c - dlopen and dlsym with errors that say what to do. */
#include "memory/device/library.h"

#include <dlfcn.h>
#include <stdlib.h>

static void *library_try(const tn__library *wanted, int flags) {
    void *handle = NULL;
    for (const char *const *file = wanted->files; *file != NULL && handle == NULL; file++)
        handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | flags);
    return handle;
}

static tn_status library_open(const tn__library *wanted, void **handle, const char **file,
                              tn_error *error) {
    *file = getenv(wanted->variable);
    if (*file != NULL && (*file)[0] != '\0') {
        *handle = dlopen(*file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (*handle != NULL) return TN_OK;
        TN_FAIL(error, TN_E_UNSUPPORTED, "%s of %s cannot be loaded: %.200s", wanted->what,
                wanted->variable, dlerror());
    }
    *file = wanted->files[0];
    *handle = library_try(wanted, RTLD_NOLOAD);
    if (*handle == NULL) *handle = library_try(wanted, 0);
    if (*handle != NULL) return TN_OK;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s (%s) cannot be loaded; %s, or name its file in %s",
            wanted->what, *file, wanted->remedy, wanted->variable);
}

tn_status tn__library_load(const tn__library *wanted, void *table, tn_error *error) {
    void *handle;
    const char *file;
    TN_TRY(library_open(wanted, &handle, &file, error));
    for (size_t i = 0; i < wanted->symbol_count; i++) {
        const tn__library_symbol *symbol = &wanted->symbols[i];
        void *found = dlsym(handle, symbol->name);
        if (found == NULL)
            TN_FAIL(error, TN_E_UNSUPPORTED, "%s (%.150s) has no %s; %s", wanted->what, file,
                    symbol->name, wanted->remedy);
        memcpy((char *)table + symbol->offset, &found, sizeof found);
    }
    return TN_OK;
}
