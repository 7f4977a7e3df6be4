/* who.c - asks Python for the line of code that allocates. The functions of Python's stable
 * interface are looked up by name in the running process. So building needs no Python, and in other
 * programs the lookup just fails.
 *
 * PyTorch releases Python's lock while an operator runs, so it is taken here; PyTorch does the same
 * when it records stacks.
 * Cost: a wait for the lock, and a few calls per frame: about a microsecond if no other thread
 * holds it.
 * Source: Python/C API, frame objects (3.9 and later).
 */
#include "interop/torch/who.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WHO_FRAMES = 100 }; /* frames that are examined at most */

/* Every function of Python that is called: result, name, arguments. Objects are pointers. */
#define WHO_SYMBOLS(X)                                                                             \
    X(int, Py_IsInitialized, (void))                                                               \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int state))                                                       \
    X(void *, PyEval_GetFrame, (void))                                                             \
    X(void *, PyFrame_GetBack, (void *frame))                                                      \
    X(void *, PyFrame_GetCode, (void *frame))                                                      \
    X(int, PyFrame_GetLineNumber, (void *frame))                                                   \
    X(void *, PyObject_GetAttrString, (void *object, const char *name))                            \
    X(const char *, PyUnicode_AsUTF8, (void *object))                                              \
    X(void *, PyErr_Occurred, (void))                                                              \
    X(void, PyErr_Clear, (void))                                                                   \
    X(void, Py_IncRef, (void *object))                                                             \
    X(void, Py_DecRef, (void *object))

static struct who {
#define WHO_MEMBER(result, name, arguments) result(*name) arguments;
    WHO_SYMBOLS(WHO_MEMBER)
#undef WHO_MEMBER
} who;

bool tn__who_open(void) {
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
#define WHO_ROW(result, name, arguments) {#name, offsetof(struct who, name)},
        WHO_SYMBOLS(WHO_ROW)
#undef WHO_ROW
    };
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(RTLD_DEFAULT, symbols[i].name);
        if (found == NULL) return false;
        memcpy((char *)&who + symbols[i].offset, &found, sizeof found);
    }
    return true;
}

/* The file's name, and whether it belongs to torch itself, as installed (site-packages,
 * dist-packages): a user's program may lie in a folder named torch. Characters that would end a
 * field or a row of a trace are omitted. */
static bool who_name_file(const char *path, char *name, size_t room) {
    const char *slash = strrchr(path, '/'), *from = slash != NULL ? slash + 1 : path;
    size_t used = 0;
    for (; *from != '\0' && used + 1 < room; from++)
        if (*from != ',' && (unsigned char)*from >= ' ') name[used++] = *from;
    name[used] = '\0';
    return strstr(path, "-packages/torch/") == NULL;
}

/* "train.py:31"; false: a line of torch, or no line. */
static bool who_name(void *frame, char *name, size_t room) {
    void *code = who.PyFrame_GetCode(frame);
    void *file = who.PyObject_GetAttrString(code, "co_filename");
    const char *path = file != NULL ? who.PyUnicode_AsUTF8(file) : NULL;
    bool is_users = path != NULL && who_name_file(path, name, room - 16);
    size_t used = is_users ? strlen(name) : 0;
    if (is_users) snprintf(name + used, room - used, ":%d", who.PyFrame_GetLineNumber(frame));
    if (path == NULL) who.PyErr_Clear();
    if (file != NULL) who.Py_DecRef(file);
    who.Py_DecRef(code);
    return is_users;
}

/* With Python's lock. */
static bool who_search(char *name, size_t room) {
    void *frame = who.PyErr_Occurred() == NULL ? who.PyEval_GetFrame() : NULL;
    bool found = false;
    if (frame != NULL) who.Py_IncRef(frame); /* it was lent */
    for (int i = 0; i < WHO_FRAMES && frame != NULL && !found; i++) {
        found = who_name(frame, name, room);
        void *back = who.PyFrame_GetBack(frame);
        who.Py_DecRef(frame);
        frame = back;
    }
    if (frame != NULL) who.Py_DecRef(frame);
    return found;
}

bool tn__who_asks(char name[TN__WHO_MAX]) {
    name[0] = '\0';
    if (!who.Py_IsInitialized()) return false;
    int state = who.PyGILState_Ensure();
    bool found = who_search(name, TN__WHO_MAX);
    who.PyGILState_Release(state);
    if (!found) name[0] = '\0';
    return found;
}
