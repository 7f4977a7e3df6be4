/* pickle_dump.c - prints what the machine of pickles read, for tests that ask CPython the same.
 *
 *     pickle_dump FILE    pickles one after the other, each behind its length (4 bytes, low first)
 *
 * A line for each: N, T, F; i and a decimal; b and bytes of a big integer, low first; r and the
 * bits of a real; s or y and bytes of a text or of bytes; ( ) of a tuple; [k: ] and {k: } of the
 * k-th list or dict, #k where it comes again. A pickle that is refused is "! byte N: why".
 */
#include <inttypes.h>
#include <stdio.h>

#include "interop/snapshot/pickle.h"

typedef struct dump_node {
    tn__pickle_kind kind;
    tn__pickle_value *items;
    size_t count, room;
    uint32_t number; /* when it was printed first, from 1 */
} dump_node;

typedef struct dump_tree {
    dump_node *nodes;
    size_t count, room;
    uint32_t printed;
    tn__pickle_texts texts;
} dump_tree;

static tn_status dump_add(void *self, const tn__pickle_value *container,
                          const tn__pickle_value *items, size_t count, tn_error *error) {
    dump_tree *tree = self;
    dump_node *node = &tree->nodes[container->word];
    if (!tn__reserve(NULL, &node->items, &node->room, node->count + count + 1, sizeof *items))
        return tn__no_memory(error, "a node");
    if (count > 0) memcpy(node->items + node->count, items, count * sizeof *items);
    node->count += count;
    return TN_OK;
}

static tn_status dump_make(void *self, tn__pickle_kind kind, const tn__pickle_value *items,
                           size_t count, uint64_t *word, tn_error *error) {
    dump_tree *tree = self;
    if (!tn__reserve(NULL, &tree->nodes, &tree->room, tree->count + 1, sizeof *tree->nodes))
        return tn__no_memory(error, "a tree");
    *word = tree->count++;
    tree->nodes[*word] = (dump_node){.kind = kind};
    tn__pickle_value made = {kind, *word};
    return dump_add(self, &made, items, count, error);
}

static void dump_bytes(const dump_tree *tree, char kind, uint64_t text) {
    const tn__pickle_text *bytes = &tree->texts.texts[text];
    putchar(kind);
    for (size_t i = 0; i < bytes->size; i++) printf("%02x", (unsigned char)bytes->bytes[i]);
}

static void dump_value(dump_tree *tree, tn__pickle_value value);

static void dump_container(dump_tree *tree, dump_node *node) {
    bool is_tuple = node->kind == TN__PICKLE_TUPLE;
    if (node->number != 0) {
        printf("#%u", node->number);
        return;
    }
    if (!is_tuple) node->number = ++tree->printed;
    if (is_tuple)
        putchar('(');
    else
        printf("%c%u:", node->kind == TN__PICKLE_LIST ? '[' : '{', node->number);
    for (size_t i = 0; i < node->count; i++) {
        if (i > 0) putchar(' ');
        dump_value(tree, node->items[i]);
    }
    putchar(is_tuple ? ')' : node->kind == TN__PICKLE_LIST ? ']' : '}');
}

static void dump_value(dump_tree *tree, tn__pickle_value value) {
    switch (value.kind) {
    case TN__PICKLE_NONE:
        putchar('N');
        return;
    case TN__PICKLE_BOOL:
        putchar(value.word ? 'T' : 'F');
        return;
    case TN__PICKLE_INTEGER:
        printf("i%" PRId64, (int64_t)value.word);
        return;
    case TN__PICKLE_UNSIGNED:
        printf("i%" PRIu64, value.word);
        return;
    case TN__PICKLE_BIG:
        dump_bytes(tree, 'b', value.word);
        return;
    case TN__PICKLE_REAL:
        printf("r%016" PRIx64, value.word);
        return;
    case TN__PICKLE_TEXT:
        dump_bytes(tree, 's', value.word);
        return;
    case TN__PICKLE_BYTES:
        dump_bytes(tree, 'y', value.word);
        return;
    default:
        dump_container(tree, &tree->nodes[value.word]);
    }
}

static void dump_one(const uint8_t *bytes, size_t size) {
    dump_tree tree = {0};
    tn__pickle_maker maker = {.self = &tree, .make = dump_make, .add = dump_add};
    tn__pickle_value value;
    tn_error error = {0};
    tn__pickle_texts_init(&tree.texts, NULL);
    if (tn__pickle_read("pickle", bytes, size, &tree.texts, &maker, &value, &error) == TN_OK)
        dump_value(&tree, value);
    else
        printf("! %s: %s", error.where, error.message);
    putchar('\n');
    for (size_t i = 0; i < tree.count; i++) free(tree.nodes[i].items);
    free(tree.nodes);
    tn__pickle_texts_release(&tree.texts);
}

int main(int count, char **arguments) {
    tn__file file;
    tn_error error = {0};
    if (count != 2) return fprintf(stderr, "pickle_dump FILE\n"), 2;
    if (tn__file_map(arguments[1], &file, &error) != TN_OK)
        return fprintf(stderr, "%s\n", error.message), 2;
    for (size_t at = 0; at + 4 <= file.size;) {
        const uint8_t *length = file.bytes + at;
        size_t size =
            length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
        at += 4;
        if (size > file.size - at) return fprintf(stderr, "the file ends\n"), 2;
        dump_one(file.bytes + at, size);
        at += size;
    }
    tn__file_unmap(&file);
    return 0;
}
