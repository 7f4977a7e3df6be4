/* infer.c - infers from stacks the line and the module that allocated a block, and its category.
 *
 * PyTorch's profiler follows data: a tensor that an optimizer changes is a parameter, a tensor that
 * the backward pass makes for a parameter is its gradient. A snapshot contains only stacks. But a
 * stack shows in which part of a training step a block was allocated and freed, and that usually
 * suffices: a block that the forward pass allocates and does not free is an activation. It is a
 * guess, and reports call it that.
 *
 * Python's frames are the most useful. Stacks may have C++ frames in between, or only C++ frames:
 * the threads that run the backward pass have no Python frames. So if other blocks in a file have
 * Python stacks, a block without a Python stack is assumed to come from the backward pass.
 */
#include "interop/snapshot/snapshot.h"

#include <inttypes.h>

enum {             /* parts of a training step, the values of tn__stack_facts.place */
       PLACE_NONE, /* the stack has no frames */
       PLACE_OTHER,
       PLACE_SETUP, /* a module is created, or moved to the device */
       PLACE_INPUT, /* the program itself moves data to the device */
       PLACE_FORWARD,
       PLACE_BACKWARD,
       PLACE_GRADIENT, /* a gradient is stored */
       PLACE_OPTIMIZER,
};

const char *tn_snapshot_guess_name(uint32_t guess) {
    static const char *const names[] = {
#define INFER_NAME(name, text) text,
        TN_SNAPSHOT_GUESS_TABLE(INFER_NAME)
#undef INFER_NAME
    };
    return guess < TN_SNAPSHOT_GUESS_COUNT ? names[guess] : "";
}

/* limit of the characters of a module name, because a file may repeat one frame many times */
#define INFER_MODULE_MOST 8192u
#define INFER_GENERATED "torch::autograd::generated::"

/* --- frames --- */

static bool infer_is_python(const tn_snapshot_frame *frame) {
    return tn__has_suffix(frame->file, ".py") || frame->file[0] == '<';
}

static bool infer_has(const char *text, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strstr(text, words[i]) != NULL) return true;
    return false;
}
#define INFER_HAS(text, ...)                                                                       \
    infer_has(text, (const char *const[]){__VA_ARGS__},                                            \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

/* Whether a file belongs to PyTorch itself, installed or in its sources. */
static bool infer_is_torch(const char *file) {
    return INFER_HAS(file, "-packages/torch/", "/torch/nn/", "/torch/optim/", "/torch/autograd/",
                     "/torch/utils/", "/torch/_", "/torch/cuda/", "/torch/amp/",
                     "/torch/functional.py", "/torch/distributed/") ||
           strncmp(file, "torch/", 6) == 0;
}

/* Returns the part of a training step that one frame implies for all stacks that contain it; OTHER
 * if it implies no part. */
static int infer_place(const tn_snapshot_frame *frame) {
    const char *function = frame->function, *file = frame->file;
    if (!infer_is_python(frame)) {
        if (strstr(function, "AccumulateGrad") != NULL) return PLACE_GRADIENT;
        if (INFER_HAS(function, "autograd::Engine::", "autograd::engine::evaluate_function"))
            return PLACE_BACKWARD;
        if (strncmp(function, "Optimizer.step#", 15) == 0) return PLACE_OPTIMIZER;
        if (INFER_HAS(function, "THPVariable_to", "THPVariable_cuda")) return PLACE_INPUT;
        return PLACE_OTHER;
    }
    bool is_torch = infer_is_torch(file);
    if (is_torch && strstr(file, "/optim/") != NULL) return PLACE_OPTIMIZER;
    if (is_torch && strstr(file, "/autograd/") != NULL && strcmp(function, "backward") == 0)
        return PLACE_BACKWARD;
    if (strcmp(function, "_apply") == 0 || strcmp(function, "reset_parameters") == 0 ||
        (is_torch && strcmp(function, "__init__") == 0))
        return PLACE_SETUP;
    if (strcmp(function, "forward") == 0) return PLACE_FORWARD;
    return PLACE_OTHER;
}

/* --- names --- */

/* Returns the last two parts of a path. */
static const char *infer_short(const char *file) {
    const char *last = strrchr(file, '/');
    if (last == NULL) return file;
    while (last > file && last[-1] != '/') last--;
    return last;
}

/* Sets the number of a name. A new name is copied and gets the next number. Returns false if memory
 * runs out. */
static bool infer_name(tn_snapshot_lives *lives, tn__names *known, const tn__text *text,
                       uint32_t *number) {
    const char *words = text->size > 0 ? text->data : "";
    *number = tn__names_find(known, words, text->size);
    if (text->failed || *number != TN__NAMES_NONE) return !text->failed;
    char *name = tn__arena_string(&lives->arena, words, text->size);
    *number = (uint32_t)lives->name_count;
    if (name == NULL || !tn__names_add(known, name, text->size, *number, NULL) ||
        !tn__reserve(&lives->context, &lives->names, &lives->name_room, lives->name_count + 1,
                     sizeof *lives->names))
        return false;
    lives->names[lives->name_count++] = name;
    return true;
}

/* Chooses the frame for a stack without Python: a frame of autograd or of a kernel, otherwise the
 * innermost frame that is not part of an allocator. */
static const tn_snapshot_frame *infer_native(const tn_snapshot_frame *frames, uint32_t count) {
    const tn_snapshot_frame *kernel = NULL, *any = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const char *function = frames[i].function;
        if (strstr(function, INFER_GENERATED) != NULL) return &frames[i];
        if (INFER_HAS(function, "unwind", "CapturedTraceback", "gather_with_cpp", "Allocator",
                      "empty", "c10::"))
            continue;
        if (any == NULL) any = &frames[i];
        if (kernel == NULL && strncmp(function, "at::native::", 12) == 0) kernel = &frames[i];
    }
    return kernel != NULL ? kernel : any != NULL ? any : count > 0 ? &frames[0] : NULL;
}

/* Chooses the frame from which the line is taken: the innermost Python frame outside PyTorch, else
 * any Python frame, else a function of C++. */
static const tn_snapshot_frame *infer_frame(const tn_snapshot_frame *frames, uint32_t count) {
    const tn_snapshot_frame *python = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!infer_is_python(&frames[i])) continue;
        if (!infer_is_torch(frames[i].file)) return &frames[i];
        if (python == NULL) python = &frames[i];
    }
    return python != NULL ? python : infer_native(frames, count);
}

/* Shortens the name of a C++ function with its types, for example to
 * "ConvolutionBackward0::apply". */
static void infer_function(const char *function, tn__text *text) {
    const char *generated = strstr(function, INFER_GENERATED);
    if (generated != NULL) function = generated + sizeof INFER_GENERATED - 1;
    const char *end = strchr(function, '(');
    if (end == NULL || end == function) end = function + strlen(function);
    tn__text_add(text, function, (size_t)(end - function));
}

static void infer_line(const tn_snapshot_frame *frame, tn__text *text) {
    text->size = 0;
    if (frame == NULL)
        tn__text_put(text, "(no stack)");
    else if (infer_is_python(frame))
        tn__text_printf(text, "%s:%" PRId64 " %s", infer_short(frame->file), frame->line,
                        frame->function);
    else
        infer_function(frame->function, text);
}

/* Builds the module name: the forward functions on the stack, from the outermost; without any, the
 * file of the line. */
static void infer_module(const tn_snapshot_frame *frames, uint32_t count,
                         const tn_snapshot_frame *line, tn__text *text) {
    text->size = 0;
    for (uint32_t i = count; i-- > 0 && text->size < INFER_MODULE_MOST;) {
        if (!infer_is_python(&frames[i]) || strcmp(frames[i].function, "forward") != 0) continue;
        if (text->size > 0) tn__text_put(text, " > ");
        tn__text_printf(text, "%s:%" PRId64, infer_short(frames[i].file), frames[i].line);
    }
    if (text->size > 0) return;
    tn__text_put(text, line == NULL            ? "(no stack)"
                       : infer_is_python(line) ? infer_short(line->file)
                       : strcmp(line->file, "??") == 0 || line->file[0] == '\0' ? "(C++)"
                                                                                : line->file);
}

static bool infer_stack(tn_snapshot_lives *lives, tn__names *known, tn__text *text,
                        const tn_snapshot_frame *frames, uint32_t count, tn__stack_facts *facts) {
    const tn_snapshot_frame *line = infer_frame(frames, count);
    facts->place = count == 0 ? PLACE_NONE : PLACE_OTHER;
    for (uint32_t i = 0; i < count && facts->place == PLACE_OTHER; i++)
        facts->place = (uint8_t)infer_place(&frames[i]);
    infer_line(line, text);
    if (!infer_name(lives, known, text, &facts->line)) return false;
    infer_module(frames, count, line, text);
    return infer_name(lives, known, text, &facts->module);
}

tn_status tn__snapshot_infer_stacks(tn_snapshot_lives *lives, tn_error *error) {
    const tn_snapshot *snapshot = lives->snapshot;
    uint32_t stacks = tn_snapshot_stack_count(snapshot), most = 1;
    for (uint32_t i = 0; i < stacks; i++) {
        uint32_t count = tn_snapshot_stack(snapshot, i, NULL, 0);
        if (count > most) most = count;
    }
    tn_snapshot_frame *frames = tn__alloc_array(&lives->context, most, sizeof *frames);
    tn__names known;
    tn__text text;
    tn__names_init(&known, &lives->context);
    tn__text_init(&text, &lives->context);
    lives->stacks = tn__arena_array(&lives->arena, stacks, sizeof *lives->stacks);
    bool done = frames != NULL && lives->stacks != NULL;
    for (uint32_t i = 0; i < stacks && done; i++) {
        uint32_t count = tn_snapshot_stack(snapshot, i, frames, most);
        done = infer_stack(lives, &known, &text, frames, count, &lives->stacks[i]);
    }
    tn__text_release(&text);
    tn__names_release(&known);
    tn__free(&lives->context, frames, most * sizeof *frames);
    return done ? TN_OK : tn__no_memory(error, "the stacks of a snapshot");
}

/* --- lives --- */

tn_snapshot_guess tn__snapshot_infer_category(const tn_snapshot_lives *lives,
                                              const tn_snapshot_life *life) {
    int made = lives->stacks[life->stack].place, freed = lives->stacks[life->freed].place;
    bool has_stacks = tn_snapshot_stack_count(lives->snapshot) > 1;
    if (made == PLACE_NONE && (life->before || !has_stacks)) return TN_SNAPSHOT_UNKNOWN;
    bool in_backward = freed == PLACE_NONE || freed == PLACE_BACKWARD || freed == PLACE_GRADIENT;
    switch (made) {
    case PLACE_SETUP:
        return TN_SNAPSHOT_PARAMETER;
    case PLACE_INPUT:
        return TN_SNAPSHOT_INPUT;
    case PLACE_GRADIENT:
        return TN_SNAPSHOT_GRADIENT;
    case PLACE_FORWARD:
        return !life->after && freed == PLACE_FORWARD ? TN_SNAPSHOT_TEMPORARY
                                                      : TN_SNAPSHOT_ACTIVATION;
    case PLACE_OPTIMIZER:
        return !life->after && freed == PLACE_OPTIMIZER ? TN_SNAPSHOT_TEMPORARY
                                                        : TN_SNAPSHOT_OPTIMIZER_STATE;
    case PLACE_NONE:
    case PLACE_BACKWARD:
        return !life->after && in_backward ? TN_SNAPSHOT_TEMPORARY : TN_SNAPSHOT_GRADIENT;
    default:
        return !life->after && has_stacks && in_backward ? TN_SNAPSHOT_ACTIVATION
                                                         : TN_SNAPSHOT_UNKNOWN;
    }
}
