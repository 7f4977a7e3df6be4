/* fuzz_watch.c - any bytes as a published table of holders, read as a consistent copy and as a torn
 * one. In an accepted table the rows add up, and every text ends. Seeds: make_watch_corpus.py. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "interop/watch/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void watch_check(const tn_watch_table *table, bool is_whole) {
    uint64_t held = 0, peak = 0, letters = strlen(table->source);
    for (uint32_t i = 0; i < table->row_count; i++) {
        const tn_watch_row *row = &table->rows[i];
        held += row->bytes;
        peak += row->peak_bytes;
        letters += strlen(row->line) + strlen(row->module) + strlen(row->category);
    }
    for (uint32_t i = 0; i < table->past_count; i++)
        letters += strlen(table->past[i].line) + strlen(table->past[i].module);
    if (is_whole && (held != table->bytes || peak != table->peak)) abort();
    if (letters > 300 * ((uint64_t)table->row_count + table->past_count + 1)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn_context context = tn__context(NULL);
    tn__watch_header *copy = malloc(size > 0 ? size : 1); /* aligned, as the reader has it */
    if (copy == NULL) return 0;
    if (size > 0) memcpy(copy, bytes, size);
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        tn_watch_table table;
        tn__arena arena;
        tn__arena_init(&arena, &context);
        uint64_t pid = size >= sizeof *copy ? copy->pid : 0;
        tn_status status = tn__watch_parse(copy, size, pid, is_whole != 0, &arena, &table, NULL);
        if (status == TN_E_INTERNAL) abort();
        if (status == TN_OK) watch_check(&table, is_whole != 0);
        if (status == TN_OK && is_whole) fuzz_accept();
        tn__arena_release(&arena);
    }
    free(copy);
    return 0;
}
