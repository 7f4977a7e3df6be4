/* pte_views.c - finds the views in an ExecuTorch program for which the file has no instruction.
 *
 * ExecuTorch plans a view of fixed shape at the place of the tensor that it views, and then writes
 * no instruction for it. In the file it is a value that is used although nothing has written it.
 * Memory that a kernel gets as scratch space looks the same. The places tell them apart:
 *
 * - A view has the memory, offset, type and bytes of a value with a lower number, and no other
 *   value has used these bytes since. So for each value that is read first, this file asks which
 *   value used its bytes last. If that value fits, both are one storage, and the live range of the
 *   view begins at the last use of the other value.
 * - Otherwise a value that may be scratch memory is scratch memory, live only from its first use to
 *   its last. If a value that would fit was there earlier, it may also be a view that was
 *   overwritten too early; this is a doubt. Scratch memory of bytes is certain: kernels of
 *   ExecuTorch declare theirs as a list of bytes.
 * - A value that must be data but does not fit is not valid: its live range is extended to the
 *   value that used its bytes last, so that the verifier reports both. If nothing has used its
 *   bytes, it counts as state.
 *
 * The values are visited by first use. A segment tree over the bytes of a memory keeps the number
 * of the last visit: a visit sets it in a range, and a question reads the lowest and the highest
 * number in a range. Numbers only grow, so the highest one is the last visit.
 *
 * A plan of Tenure passes, too: a view and its base stay at one offset, and nothing else uses their
 * bytes from the first use of the base to the last use of the view.
 *
 * Cost: O(n log n) for n values.
 */
#include "base/sorted.h"
#include "interop/foreign/pte.h"

#include <inttypes.h>
#include <stdio.h>

enum { PTE_TYPE_BYTE = 0 }; /* ExecuTorch's scalar type of unsigned bytes */

typedef struct views_node {
    uint32_t least, most; /* lowest and highest number of a visit in the node's range */
} views_node;

typedef struct views_tree {
    uint64_t *edges; /* [edge_count] offsets at which a value begins or ends, ascending, unique */
    views_node *nodes;
    size_t edge_count;
} views_tree;

typedef struct views_finder {
    tn_foreign *foreign;
    pte_fact *facts;
    bool is_complete;
    views_tree tree;
} views_finder;

/* --- the tree --- */

/* Returns the number of the interval that begins at an edge. */
static size_t views_edge(const views_tree *tree, uint64_t offset) {
    return tn__sorted_interval(tree->edges, tree->edge_count, offset);
}

/* A node of the tree and the intervals [lo, hi) below it */
typedef struct views_at {
    size_t node, lo, hi;
} views_at;

static views_at views_child(views_at at, bool right) {
    size_t middle = at.lo + (at.hi - at.lo) / 2;
    return right ? (views_at){2 * at.node + 1, middle, at.hi}
                 : (views_at){2 * at.node, at.lo, middle};
}

/* Sets the number of the last visit in the intervals [from, to). The depth is the logarithm of the
 * number of intervals. */
static void views_visit(views_tree *tree, views_at at, size_t from, size_t to, uint32_t number) {
    views_node *node = &tree->nodes[at.node];
    if (to <= at.lo || at.hi <= from) return;
    if (from <= at.lo && at.hi <= to) {
        *node = (views_node){number, number};
        return;
    }
    if (node->least == node->most) {
        tree->nodes[2 * at.node] = *node;
        tree->nodes[2 * at.node + 1] = *node;
    }
    views_visit(tree, views_child(at, false), from, to, number);
    views_visit(tree, views_child(at, true), from, to, number);
    const views_node *left = &tree->nodes[2 * at.node], *right = left + 1;
    node->least = left->least < right->least ? left->least : right->least;
    node->most = left->most > right->most ? left->most : right->most;
}

/* Reads the lowest and the highest number in the intervals [from, to) into `found`. */
static void views_ask(const views_tree *tree, views_at at, size_t from, size_t to,
                      views_node *found) {
    const views_node *node = &tree->nodes[at.node];
    if (to <= at.lo || at.hi <= from) return;
    if (node->least == node->most || (from <= at.lo && at.hi <= to)) {
        if (node->least < found->least) found->least = node->least;
        if (node->most > found->most) found->most = node->most;
        return;
    }
    views_ask(tree, views_child(at, false), from, to, found);
    views_ask(tree, views_child(at, true), from, to, found);
}

static int views_by_offset(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Makes an empty tree for `count` values of one memory. */
static void views_clear(views_finder *finder, const uint32_t *values, size_t count) {
    views_tree *tree = &finder->tree;
    size_t edges = 0;
    for (size_t i = 0; i < count; i++) {
        const tn_foreign_value *value = &finder->foreign->values[values[i]];
        tree->edges[2 * i] = value->offset;
        tree->edges[2 * i + 1] = value->offset + value->size;
    }
    qsort(tree->edges, 2 * count, sizeof *tree->edges, views_by_offset);
    for (size_t i = 0; i < 2 * count; i++)
        if (i == 0 || tree->edges[i] != tree->edges[edges - 1])
            tree->edges[edges++] = tree->edges[i];
    tree->edge_count = edges;
    memset(tree->nodes, 0, 4 * edges * sizeof *tree->nodes);
}

/* --- one value --- */

/* Returns the step in which a value begins to hold its bytes; -1: before the first instruction. */
static int64_t views_begin(const views_finder *finder, uint32_t value) {
    const pte_fact *fact = &finder->facts[value];
    bool is_early = fact->is_state || fact->begins == PTE_INPUT || fact->begins == PTE_UNUSED;
    return is_early ? -1 : finder->foreign->values[value].first;
}

/* Whether a value is used before an instruction writes it for certain. */
static bool views_is_read_first(const pte_fact *fact) {
    return !fact->is_state && fact->begins >= PTE_READ && fact->begins <= PTE_EITHER;
}

/* Whether a value counts as scratch memory. */
static bool views_is_scratch(const views_finder *finder, uint32_t value) {
    const pte_fact *fact = &finder->facts[value];
    return fact->begins == PTE_GIVEN && !fact->is_state && !fact->is_data && !fact->is_written &&
           (finder->foreign->marks[value] & TN__FOREIGN_VIEW) == 0;
}

/* Whether `view` can be a view of `base`. */
static bool views_fit(const views_finder *finder, uint32_t view, uint32_t base) {
    const tn_foreign_value *x = &finder->foreign->values[view], *y = &finder->foreign->values[base];
    const pte_fact *a = &finder->facts[view], *b = &finder->facts[base];
    return !finder->is_complete && a->is_static && x->offset == y->offset && x->size == y->size &&
           a->type == b->type && b->number < a->number && !views_is_scratch(finder, base);
}

/* Decides what a value is that is read first, from the values that used its bytes before. `values`
 * are the values of its memory, sorted by first use; visit k was that of values[k - 1]. */
static void views_decide(views_finder *finder, const uint32_t *values, uint32_t value) {
    tn_foreign_value *it = &finder->foreign->values[value];
    pte_fact *fact = &finder->facts[value];
    const views_tree *tree = &finder->tree;
    views_node found = {UINT32_MAX, 0};
    views_ask(tree, (views_at){1, 0, tree->edge_count}, views_edge(tree, it->offset),
              views_edge(tree, it->offset + it->size), &found);
    const bool is_data = fact->is_data && fact->begins != PTE_EITHER;
    if (found.most == 0) {
        fact->is_state = is_data;
        return;
    }
    const tn_foreign_value *last = &finder->foreign->values[values[found.most - 1]];
    if (found.least == found.most && views_fit(finder, value, values[found.most - 1])) {
        finder->foreign->marks[value] |= TN__FOREIGN_VIEW;
        if (last->last - 1 < it->first) it->first = last->last - 1;
    } else if (is_data) {
        finder->foreign->marks[value] |= TN__FOREIGN_APART;
        if (last->first < it->first) it->first = last->first;
    }
}

static void views_touch(views_finder *finder, uint32_t value, uint32_t number) {
    const tn_foreign_value *it = &finder->foreign->values[value];
    views_tree *tree = &finder->tree;
    views_visit(tree, (views_at){1, 0, tree->edge_count}, views_edge(tree, it->offset),
                views_edge(tree, it->offset + it->size), number);
}

/* Visits the values of one memory, sorted by first use. Values that begin in the same step are
 * asked for before any of them is visited, because an instruction reads before it writes. */
static void views_memory(views_finder *finder, const uint32_t *values, size_t count) {
    views_clear(finder, values, count);
    for (size_t at = 0, end; at < count; at = end) {
        int64_t step = views_begin(finder, values[at]);
        for (end = at; end < count && views_begin(finder, values[end]) == step;) end++;
        for (size_t i = at; i < end; i++)
            if (views_is_read_first(&finder->facts[values[i]]))
                views_decide(finder, values, values[i]);
        for (size_t i = at; i < end; i++) views_touch(finder, values[i], (uint32_t)i + 1);
    }
}

/* --- doubts --- */

typedef struct views_place { /* the sort key of a value */
    uint64_t offset, size;
    int64_t begin;
    uint32_t arena, number, value;
    uint8_t type;
} views_place;

static int views_by_time(const void *a, const void *b) {
    const views_place *x = a, *y = b;
    if (x->arena != y->arena) return x->arena < y->arena ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

static int views_by_place(const void *a, const void *b) {
    const views_place *x = a, *y = b;
    if (x->arena != y->arena) return x->arena < y->arena ? -1 : 1;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    if (x->type != y->type) return x->type < y->type ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static bool views_is_alike(const views_place *a, const views_place *b) {
    return a->arena == b->arena && a->offset == b->offset && a->size == b->size &&
           a->type == b->type;
}

/* Whether a value counts as scratch memory but can be a view. */
static bool views_is_unclear(const views_finder *finder, uint32_t value) {
    const pte_fact *fact = &finder->facts[value];
    bool is_bytes = fact->type == PTE_TYPE_BYTE && fact->rank == 1;
    return views_is_scratch(finder, value) && !is_bytes && !finder->is_complete && fact->is_static;
}

static tn_status views_doubt(views_finder *finder, uint32_t view, uint32_t base, tn_error *error) {
    tn_foreign *foreign = finder->foreign;
    const tn_foreign_value *it = &foreign->values[view];
    char text[400];
    int length =
        snprintf(text, sizeof text,
                 "'%.60s' is scratch memory of %.120s at step %" PRId64 ", or a view of '%.60s', "
                 "whose bytes are overwritten before",
                 it->name, foreign->steps[it->first], it->first, foreign->values[base].name);
    foreign->facts.doubt =
        tn__foreign_text(foreign, (tn__span){(const uint8_t *)text, (size_t)length});
    return foreign->facts.doubt != NULL ? TN_OK : tn__no_memory(error, "a text");
}

/* Looks for a value that can be scratch memory, or a view of an earlier value at the same place.
 * `places` are sorted by place, type and number. */
static tn_status views_doubts(views_finder *finder, const views_place *places, size_t count,
                              tn_error *error) {
    const views_place *base = NULL; /* the earliest value of this place and type so far */
    for (size_t i = 0; i < count; i++) {
        const views_place *it = &places[i];
        const pte_fact *fact = &finder->facts[it->value];
        if (base != NULL && !views_is_alike(base, it)) base = NULL;
        if (base != NULL && base->begin < it->begin && views_is_unclear(finder, it->value))
            return views_doubt(finder, it->value, base->value, error);
        bool is_data = fact->is_state || fact->is_written || fact->begins == PTE_INPUT;
        if (is_data && (base == NULL || it->begin < base->begin)) base = it;
    }
    return TN_OK;
}

/* --- all values --- */

static tn_status views_find(views_finder *finder, views_place *places, uint32_t *values,
                            tn_error *error) {
    size_t count = 0;
    for (uint32_t i = 0; i < finder->foreign->facts.value_count; i++) {
        const tn_foreign_value *it = &finder->foreign->values[i];
        const pte_fact *fact = &finder->facts[i];
        if (it->size > 0)
            places[count++] = (views_place){it->offset, it->size,     views_begin(finder, i),
                                            it->arena,  fact->number, i,
                                            fact->type};
    }
    qsort(places, count, sizeof *places, views_by_time);
    for (size_t i = 0; i < count; i++) values[i] = places[i].value;
    for (size_t at = 0, end; at < count; at = end) {
        for (end = at; end < count && places[end].arena == places[at].arena;) end++;
        views_memory(finder, values + at, end - at);
    }
    qsort(places, count, sizeof *places, views_by_place);
    return views_doubts(finder, places, count, error);
}

tn_status tn__pte_views(tn_foreign *foreign, pte_fact *facts, bool is_complete, tn_error *error) {
    const tn_context *context = &foreign->context;
    size_t room = (size_t)foreign->facts.value_count + 1;
    views_finder finder = {.foreign = foreign, .facts = facts, .is_complete = is_complete};
    views_place *places = tn__alloc_array(context, room, sizeof *places);
    uint32_t *values = tn__alloc_array(context, room, sizeof *values);
    finder.tree.edges = tn__alloc_array(context, 2 * room, sizeof *finder.tree.edges);
    finder.tree.nodes = tn__alloc_array(context, 8 * room, sizeof *finder.tree.nodes);
    bool fits =
        places != NULL && values != NULL && finder.tree.edges != NULL && finder.tree.nodes != NULL;
    tn_status status =
        fits ? views_find(&finder, places, values, error) : tn__no_memory(error, "views");
    tn__free(context, finder.tree.nodes, 8 * room * sizeof *finder.tree.nodes);
    tn__free(context, finder.tree.edges, 2 * room * sizeof *finder.tree.edges);
    tn__free(context, values, room * sizeof *values);
    tn__free(context, places, room * sizeof *places);
    return status;
}
