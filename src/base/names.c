/* names.c - maps strings to numbers, with a hash table: open addressing, linear probing, at most
 * 3/4 full.
 *
 * Keys are not copied. The hash multiplies and folds 8 bytes at a time, with a random key of the
 * process, so that names in a hostile file cannot be chosen to collide. The random key does not
 * affect any result, because nothing iterates over the table.
 */
#include "base/base.h"

typedef struct names_slot {
    const char *text; /* the string; NULL: the slot is empty */
    size_t length;
    uint64_t hash;
    uint32_t value;
} names_slot;

void tn__names_init(tn__names *names, const tn_context *context) {
    *names = (tn__names){.context = context, .key = (uint64_t)(uintptr_t)names};
    names->key =
        (names->key ^ (names->key >> 12)) * 0x9e3779b97f4a7c15u + (uint64_t)(uintptr_t)&free;
}

void tn__names_release(tn__names *names) {
    tn__free(names->context, names->slots, names->room * sizeof *names->slots);
    *names = (tn__names){.context = names->context, .key = names->key};
}

static uint64_t names_fold(uint64_t value) {
    value = (value ^ (value >> 32)) * 0xd6e8feb86659fd93u;
    return value ^ (value >> 29);
}

static uint64_t names_hash(const tn__names *names, const char *text, size_t length) {
    uint64_t hash = names->key + length;
    while (length >= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = names_fold(hash ^ word) + names->key;
        text += 8;
        length -= 8;
    }
    uint64_t tail = 0;
    if (length != 0) memcpy(&tail, text, length);
    return names_fold(names_fold(hash ^ tail));
}

/* Returns the slot that contains the text, or the empty slot for it. */
static names_slot *names_probe(const tn__names *names, const char *text, size_t length,
                               uint64_t hash) {
    size_t mask = names->room - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        names_slot *slot = &names->slots[at];
        if (slot->text == NULL) return slot;
        if (slot->hash == hash && slot->length == length &&
            (length == 0 || memcmp(slot->text, text, length) == 0))
            return slot;
    }
}

static bool names_grow(tn__names *names) {
    tn__names wider = *names;
    wider.room = names->room != 0 ? 2 * names->room : 16;
    wider.slots = tn__alloc_array(names->context, wider.room, sizeof *wider.slots);
    if (wider.slots == NULL) return false;
    for (size_t i = 0; i < names->room; i++) {
        const names_slot *slot = &names->slots[i];
        if (slot->text != NULL) *names_probe(&wider, slot->text, slot->length, slot->hash) = *slot;
    }
    tn__free(names->context, names->slots, names->room * sizeof *names->slots);
    *names = wider;
    return true;
}

bool tn__names_add(tn__names *names, const char *text, size_t length, uint32_t value,
                   uint32_t *existing) {
    if (4 * (names->count + 1) > 3 * names->room && !names_grow(names)) return false;
    uint64_t hash = names_hash(names, text, length);
    names_slot *slot = names_probe(names, text, length, hash);
    if (existing != NULL) *existing = slot->text != NULL ? slot->value : TN__NAMES_NONE;
    if (slot->text != NULL) return true;
    *slot = (names_slot){.text = text, .length = length, .hash = hash, .value = value};
    names->count++;
    return true;
}

uint32_t tn__names_find(const tn__names *names, const char *text, size_t length) {
    if (names->room == 0) return TN__NAMES_NONE;
    const names_slot *slot = names_probe(names, text, length, names_hash(names, text, length));
    return slot->text != NULL ? slot->value : TN__NAMES_NONE;
}
