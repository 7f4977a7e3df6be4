/* fuzz_xla.c - any text as an XLA dump of one module. Form feeds divide the input into assignment,
 * live ranges and text of the module. Seeds: tests/foreign/xla.py --corpus
 * FOLDER, and order*.txt by xla_order.py --corpus FOLDER. */
#include "fuzz_foreign.h"
#include "report/foreign_order.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
/* No order that is found needs more than the given one, or less than its bound. */
static void fuzz_order(const tn_foreign *foreign) {
    tn__foreign_order order;
    fuzz_must(tn__foreign_reorder(foreign, &order, NULL) == TN_OK);
    if (order.missing != NULL || order.found == 0) return;
    fuzz_must(order.found <= order.given && order.bound <= order.found);
    fuzz_must(order.given >= tn_foreign_facts_of(foreign)->live);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    tn__xla_file files[3] = {{.name = "a"}, {.name = "r"}, {.name = "t"}};
    tn_foreign *foreign;
    tn__span rest = {bytes, size};
    for (int i = 0; i < 3 && rest.size > 0; i++) {
        const uint8_t *feed = i < 2 ? memchr(rest.bytes, '\f', rest.size) : NULL;
        size_t part = feed != NULL ? (size_t)(feed - rest.bytes) : rest.size;
        files[i].span = (tn__span){rest.bytes, part};
        rest.bytes += part + (feed != NULL);
        rest.size -= part + (feed != NULL);
    }
    const tn__xla_files all = {files[0], files[1], files[2]};
    (void)tn__xla_planned(files[0].span);
    tn_status status = tn__xla_read(&all, NULL, &foreign, NULL);
    fuzz_must(status != TN_E_INTERNAL);
    if (status != TN_OK) return 0;
    fuzz_holders(foreign);
    fuzz_order(foreign);
    fuzz_plan(foreign, (tn__span){0});
    tn_foreign_destroy(foreign);
    return 0;
}
