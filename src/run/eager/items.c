/* items.c - manages the tensors of handles (interpreter.h).
 *
 * A handle has 28 bits for the item's number and 36 bits for the count of uses of that number.
 * Every interpreter starts counting at another value, so a handle of another interpreter is
 * refused. Numbers are reused, so a loop that deletes its tensors needs no more of them however
 * long it runs.
 * Cost: O(1).
 */
#include "run/eager/interpreter.h"

#define ITEM_BITS 28u
#define ITEM_MOST ((uint32_t)1 << ITEM_BITS)
#define ITEM_USES ((UINT64_C(1) << 36) - 1)

tn_status tn__items_reserve(tn_eager *eager, uint32_t count, tn_error *error) {
    size_t need = (size_t)eager->item_count + count;
    if (need >= ITEM_MOST ||
        !tn__reserve(&eager->context, &eager->items, &eager->item_room, need, sizeof *eager->items))
        return tn__no_memory(error, "handles");
    return TN_OK;
}

tn_status tn__item_make(tn_eager *eager, uint32_t tensor, uint32_t type, tn__item_id *id,
                        tn_error *error) {
    tn__item_id at = eager->free_item;
    if (at == TN_NONE) {
        TN_TRY(tn__items_reserve(eager, 1, error));
        at = eager->item_count++;
        eager->items[at] = (tn__item){.uses = eager->first_use};
    }
    tn__item *item = &eager->items[at];
    if (eager->free_item == at) eager->free_item = item->next;
    *item = (tn__item){.uses = (item->uses + 1) & ITEM_USES,
                       .tensor = tensor,
                       .type = type,
                       .variable = TN_NONE,
                       .refs = 1,
                       .recorded = TN_NONE,
                       .name = ""};
    *id = at;
    return TN_OK;
}

void tn__item_hold(tn_eager *eager, tn__item_id id) { eager->items[id].refs++; }

void tn__item_drop(tn_eager *eager, tn__item_id id) {
    if (id == TN_NONE) return;
    tn__item *item = &eager->items[id];
    if (--item->refs > 0) return;
    tn__record_release(eager, id);
    if (item->tensor != TN_NONE) tn__evict_release(eager->memory.core, item->tensor);
    item->next = eager->free_item;
    eager->free_item = id;
}

tn_handle tn__item_open(tn_eager *eager, tn__item_id id) {
    tn__item *item = &eager->items[id];
    item->open = true;
    eager->open_count++;
    return item->uses << ITEM_BITS | id;
}

tn_status tn__item_of(const tn_eager *eager, tn_handle handle, const char *what, tn__item_id *id,
                      tn_error *error) {
    uint32_t at = (uint32_t)(handle & (ITEM_MOST - 1));
    uint64_t uses = handle >> ITEM_BITS;
    bool known = at < eager->item_count && handle != TN_HANDLE_NONE;
    const tn__item *item = known ? &eager->items[at] : NULL;
    if (known && item->refs > 0 && item->open && item->uses == uses) {
        *id = at;
        return TN_OK;
    }
    if (handle == TN_HANDLE_NONE)
        tn__fail(error, TN_E_INVALID, "there is no handle");
    else if (known && ((uses - eager->first_use) & ITEM_USES) != 0 &&
             ((item->uses - uses) & ITEM_USES) <= ((item->uses - eager->first_use) & ITEM_USES))
        tn__fail(error, TN_E_INVALID, "the handle was deleted before");
    else
        tn__fail(error, TN_E_INVALID, "the handle is of another interpreter");
    return tn__where(error, TN_E_INVALID, "%.100s", what);
}

const char *tn__eager_name(tn_eager *eager, const char *name) {
    if (name == NULL || name[0] == '\0') return "";
    size_t length = strlen(name);
    uint32_t at = tn__names_find(&eager->names, name, length);
    if (at == TN__NAMES_NONE) {
        size_t count = eager->names.count;
        char *kept = tn__arena_string(&eager->arena, name, length);
        if (kept == NULL ||
            !tn__reserve(&eager->context, &eager->kept, &eager->kept_room, count + 1,
                         sizeof kept) ||
            !tn__names_add(&eager->names, kept, length, (uint32_t)count, NULL))
            return NULL;
        eager->kept[at = (uint32_t)count] = kept;
    }
    return eager->kept[at];
}
