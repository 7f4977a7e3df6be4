/* write.c - writes Tenure's runs as memory snapshots, for PyTorch's viewers.
 *
 * The output is a pickle of protocol 4, without frames, and uses only the few opcodes that
 * PyTorch's viewer in the browser knows. Texts are stored in the memo once. At most 1,000 items are
 * added at a time, as picklers do. The trace comes before the segments, because it determines what
 * is in use at the end.
 *
 * One version of the viewer fails on a file that has categories but no category "unknown", so the
 * first event has that category.
 */
#include "interop/snapshot/snapshot.h"

#include <inttypes.h>

/* first address, where NVIDIA devices start, so that addresses look familiar */
#define WRITE_BASE 0x7f0000000000ull
#define WRITE_STEP 512u /* least distance in bytes between the addresses of single blocks */
enum { WRITE_BATCH = 1000 };

typedef struct write_block { /* a block in use */
    uint64_t address, size, held;
    const tn_snapshot_use *use;
    bool in_use, is_own;
} write_block;

typedef struct write_pen {
    tn__text *text;
    tn__names known; /* finds the memo number of a text */
    uint32_t memo;
    tn__arena *words;
    bool failed;
} write_pen;

typedef struct write_run {
    const tn_snapshot_use *uses;
    uint64_t count, arena;
    write_block *blocks; /* [block_count], by the caller's number */
    size_t block_count;
    uint32_t *order; /* blocks in use in the arena, sorted by address */
    size_t live;
    uint64_t next_own; /* address of the next segment that holds a single block */
    uint32_t batch;    /* number of events since the last mark */
    tn_error *error;
} write_run;

/* --- writing opcodes and texts of the pickle --- */

static void pen_op(write_pen *pen, char opcode) { tn__text_add(pen->text, &opcode, 1); }

static void pen_bytes(write_pen *pen, uint64_t value, uint32_t width) {
    for (uint32_t i = 0; i < width; i++) pen_op(pen, (char)(value >> 8 * i));
}

static void pen_number(write_pen *pen, uint64_t value) {
    uint32_t width = 1;
    if (value < 1 << 8) {
        pen_op(pen, 'K');
        pen_bytes(pen, value, 1);
    } else if (value < 1 << 16) {
        pen_op(pen, 'M');
        pen_bytes(pen, value, 2);
    } else { /* two's complement: the highest bit is the sign */
        while (width < 9 && value >> (8 * width - 1) != 0) width++;
        if (width == 9 || (width == 8 && value >> 63 != 0)) width = 9;
        pen_op(pen, (char)0x8a);
        pen_bytes(pen, width, 1);
        pen_bytes(pen, value, width < 9 ? width : 8);
        if (width == 9) pen_op(pen, 0);
    }
}

/* Writes a new text and stores it in the memo. */
static void pen_new_text(write_pen *pen, const char *words) {
    tn__text clean;
    tn__text_init(&clean, pen->text->context);
    tn__text_utf8(&clean, words);
    pen_op(pen, 'X');
    pen_bytes(pen, clean.size, 4);
    if (clean.size > 0) tn__text_add(pen->text, clean.data, clean.size);
    pen_op(pen, (char)0x94);
    pen->failed |= clean.failed || clean.size > UINT32_MAX;
    tn__text_release(&clean);
    const char *key = tn__arena_string(pen->words, words, strlen(words));
    if (key == NULL || !tn__names_add(&pen->known, key, strlen(key), pen->memo++, NULL))
        pen->failed = true;
}

static void pen_text(write_pen *pen, const char *words) {
    uint32_t known = tn__names_find(&pen->known, words, strlen(words));
    if (known == TN__NAMES_NONE) {
        pen_new_text(pen, words);
        return;
    }
    pen_op(pen, known < 256 ? 'h' : 'j');
    pen_bytes(pen, known, known < 256 ? 1 : 4);
}

static void pen_pair(write_pen *pen, const char *key, uint64_t value) {
    pen_text(pen, key);
    pen_number(pen, value);
}

static void pen_words(write_pen *pen, const char *key, const char *value) {
    pen_text(pen, key);
    pen_text(pen, value);
}

static void pen_open(write_pen *pen) { tn__text_add(pen->text, "}(", 2); }
static void pen_close(write_pen *pen) { pen_op(pen, 'u'); }

/* --- events --- */

static void write_frame(write_pen *pen, const char *name, const char *file, uint64_t line) {
    pen_open(pen);
    pen_words(pen, "name", name);
    pen_words(pen, "filename", file);
    pen_pair(pen, "line", line);
    pen_close(pen);
}

static void write_frames(write_pen *pen, const tn_snapshot_use *use) {
    pen_text(pen, "frames");
    pen_op(pen, ']');
    if (use == NULL || use->name == NULL) return;
    bool has_type = use->type != NULL && use->type[0] != '\0';
    pen_op(pen, '(');
    write_frame(pen, use->name, has_type ? use->type : use->kind != NULL ? use->kind : "", 0);
    if (use->op != NULL && use->op[0] != '\0')
        write_frame(pen, use->op, use->type != NULL ? use->type : "", use->line);
    pen_op(pen, 'e');
}

/* Writes one event of the trace; a mark is open before the first one and after each batch. */
static void write_event(write_run *run, write_pen *pen, const char *action, uint64_t address,
                        uint64_t size, const tn_snapshot_use *use) {
    if (run->batch == WRITE_BATCH) {
        tn__text_add(pen->text, "e(", 2);
        run->batch = 0;
    }
    run->batch++;
    double at_us = use->at_s > 0 && use->at_s < 9e12 ? use->at_s * 1e6 : 0;
    bool is_segment = action[0] == 's';
    pen_open(pen);
    pen_words(pen, "action", action);
    pen_pair(pen, "addr", address);
    pen_pair(pen, "size", size);
    pen_pair(pen, "stream", use->stream);
    pen_pair(pen, "time_us", (uint64_t)at_us);
    pen_words(pen, "category",
              is_segment || use->kind == NULL || use->kind[0] == '\0' ? "unknown" : use->kind);
    write_frames(pen, is_segment ? NULL : use);
    pen_close(pen);
}

/* --- writing the events of the run --- */

static tn_status write_refuse(const write_run *run, uint64_t number, const char *why) {
    return tn__where(run->error, tn__fail(run->error, TN_E_INVALID, "%s", why), "use %" PRIu64,
                     number);
}

static tn_status write_alloc(write_run *run, write_pen *pen, uint64_t number) {
    const tn_snapshot_use *use = &run->uses[number];
    write_block *block = &run->blocks[use->block];
    uint64_t held = use->held != 0 ? use->held : use->size, end, step;
    if (block->in_use) return write_refuse(run, number, "the block is in use already");
    if (held < use->size || held >= 1ull << 60)
        return write_refuse(run, number, "a block is smaller than its request, or too large");
    bool is_own = use->address == TN_SIZE_UNKNOWN;
    if (!is_own && (!tn__add(use->address, held, &end) || end > run->arena))
        return write_refuse(run, number, "the block lies beyond the arena");
    *block = (write_block){.address = is_own ? run->next_own : WRITE_BASE + use->address,
                           .size = use->size,
                           .held = held,
                           .use = use,
                           .in_use = true,
                           .is_own = is_own};
    if (is_own) {
        if (!tn__align_up(held + 1, WRITE_STEP, &step) ||
            !tn__add(run->next_own, step, &run->next_own))
            return write_refuse(run, number, "there are no more addresses");
        write_event(run, pen, "segment_alloc", block->address, held, use);
    }
    write_event(run, pen, "alloc", block->address, use->size, use);
    return TN_OK;
}

static tn_status write_free(write_run *run, write_pen *pen, uint64_t number) {
    const tn_snapshot_use *use = &run->uses[number];
    write_block *block = &run->blocks[use->block];
    if (!block->in_use) return write_refuse(run, number, "the block is not in use");
    tn_snapshot_use freed = *block->use;
    freed.at_s = use->at_s;
    write_event(run, pen, "free_requested", block->address, block->size, &freed);
    write_event(run, pen, "free_completed", block->address, block->size, &freed);
    if (block->is_own) write_event(run, pen, "segment_free", block->address, block->held, &freed);
    block->in_use = false;
    return TN_OK;
}

static tn_status write_trace(write_run *run, write_pen *pen) {
    tn__text_add(pen->text, "](](", 4);
    if (run->arena > 0) {
        tn_snapshot_use first = run->count > 0 ? run->uses[0] : (tn_snapshot_use){0};
        write_event(run, pen, "segment_alloc", WRITE_BASE, run->arena, &first);
    }
    for (uint64_t i = 0; i < run->count; i++)
        TN_TRY(run->uses[i].frees ? write_free(run, pen, i) : write_alloc(run, pen, i));
    tn__text_add(pen->text, "ee", 2);
    return TN_OK;
}

/* --- writing the segments at the end of the run --- */

static void write_state(write_pen *pen, uint64_t address, uint64_t size, const write_block *block) {
    if (size == 0) return;
    pen_open(pen);
    pen_pair(pen, "address", address);
    pen_pair(pen, "size", size);
    pen_pair(pen, "requested_size", block != NULL ? block->size : 0);
    pen_words(pen, "state", block != NULL ? "active_allocated" : "inactive");
    write_frames(pen, block != NULL ? block->use : NULL);
    pen_close(pen);
}

/* Writes a segment without its blocks; the list of blocks is left open. */
static void write_segment(write_pen *pen, uint64_t address, uint64_t total, uint64_t active,
                          uint64_t requested) {
    pen_open(pen);
    pen_pair(pen, "device", 0);
    pen_pair(pen, "address", address);
    pen_pair(pen, "total_size", total);
    pen_pair(pen, "allocated_size", active);
    pen_pair(pen, "active_size", active);
    pen_pair(pen, "requested_size", requested);
    pen_pair(pen, "stream", 0);
    pen_words(pen, "segment_type", "large");
    pen_text(pen, "segment_pool_id");
    tn__text_add(pen->text, "K\0K\0\x86", 5);
    pen_text(pen, "is_expandable");
    pen_op(pen, (char)0x89);
    write_frames(pen, NULL);
    pen_text(pen, "blocks");
    pen_op(pen, ']');
}

/* Writes the blocks that are in use in the arena, and the holes between them. */
static tn_status write_arena(write_run *run, write_pen *pen) {
    uint64_t active = 0, requested = 0, at = WRITE_BASE;
    for (size_t i = 0; i < run->live; i++) {
        active += run->blocks[run->order[i]].held;
        requested += run->blocks[run->order[i]].size;
    }
    write_segment(pen, WRITE_BASE, run->arena, active, requested);
    for (size_t i = 0; i < run->live; i++) {
        const write_block *block = &run->blocks[run->order[i]];
        if (block->address < at)
            return write_refuse(run, (uint64_t)(block->use - run->uses),
                                "its bytes belong to another block that is in use");
        pen_op(pen, '(');
        write_state(pen, at, block->address - at, NULL);
        write_state(pen, block->address, block->held, block);
        pen_op(pen, 'e');
        at = block->address + block->held;
    }
    pen_op(pen, '(');
    write_state(pen, at, WRITE_BASE + run->arena - at, NULL);
    tn__text_add(pen->text, "eu", 2);
    return TN_OK;
}

static tn_status write_segments(write_run *run, write_pen *pen) {
    pen_op(pen, ']');
    if (run->arena > 0) {
        pen_op(pen, '(');
        TN_TRY(write_arena(run, pen));
        pen_op(pen, 'e');
    }
    for (size_t i = 0; i < run->block_count; i++) {
        const write_block *block = &run->blocks[i];
        if (!block->in_use || !block->is_own || block->held == 0) continue;
        pen_op(pen, '(');
        write_segment(pen, block->address, block->held, block->held, block->size);
        pen_op(pen, '(');
        write_state(pen, block->address, block->held, block);
        tn__text_add(pen->text, "eue", 3);
    }
    return TN_OK;
}

/* Sorts the blocks that are in use in the arena at the end by address. */
static tn_status write_order(write_run *run, tn__arena *words) {
    tn__sort_item *items = tn__arena_array(words, run->block_count + 1, sizeof *items);
    run->order = tn__arena_array(words, run->block_count + 1, sizeof *run->order);
    if (items == NULL || run->order == NULL) return tn__no_memory(run->error, "a snapshot");
    for (size_t i = 0; i < run->block_count; i++)
        if (run->blocks[i].in_use && !run->blocks[i].is_own && run->blocks[i].held > 0)
            items[run->live++] = (tn__sort_item){run->blocks[i].address, (uint32_t)i};
    if (!tn__sort_items(words->context, items, run->live))
        return tn__no_memory(run->error, "a snapshot");
    for (size_t i = 0; i < run->live; i++) run->order[i] = items[i].id;
    return TN_OK;
}

/* --- the pickle as a whole --- */

static tn_status write_whole(write_run *run, write_pen *pen) {
    tn__text_add(pen->text, "\x80\x04}(", 4);
    pen_text(pen, "device_traces");
    TN_TRY(write_trace(run, pen));
    TN_TRY(write_order(run, pen->words));
    pen_text(pen, "segments");
    TN_TRY(write_segments(run, pen));
    tn__text_add(pen->text, "u.", 2);
    return pen->failed || pen->text->failed ? tn__no_memory(run->error, "a snapshot") : TN_OK;
}

tn_status tn__snapshot_render(const tn_snapshot_use *uses, uint64_t count, uint64_t arena,
                              tn__text *text, tn_error *error) {
    write_run run = {.uses = uses, .count = count, .arena = arena, .error = error};
    tn__arena words;
    if (arena >= 1ull << 60) TN_FAIL(error, TN_E_INVALID, "an arena of more than 2^60 bytes");
    tn__arena_init(&words, text->context);
    write_pen pen = {.text = text, .words = &words};
    tn__names_init(&pen.known, text->context);
    for (uint64_t i = 0; i < count; i++)
        if (uses[i].block >= run.block_count) run.block_count = (size_t)uses[i].block + 1;
    run.next_own = WRITE_BASE + (arena + (2u << 20)) / WRITE_STEP * WRITE_STEP;
    run.blocks = tn__alloc_array(text->context, run.block_count + 1, sizeof *run.blocks);
    tn_status status =
        run.blocks != NULL ? write_whole(&run, &pen) : tn__no_memory(error, "a snapshot");
    tn__free(text->context, run.blocks, (run.block_count + 1) * sizeof *run.blocks);
    tn__names_release(&pen.known);
    tn__arena_release(&words);
    return status;
}

tn_status tn_snapshot_write(const tn_snapshot_use *uses, uint64_t count, uint64_t arena,
                            const tn_context *context, const char *path, tn_error *error) {
    tn__text text;
    tn__text_init(&text, context);
    tn_status status = tn__snapshot_render(uses, count, arena, &text, error);
    if (status == TN_OK) status = tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}
