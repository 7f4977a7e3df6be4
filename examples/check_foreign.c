/* check_foreign.c - checks the memory plan of another tool, and names the values that hold its
 * peak.
 *
 *     check_foreign [XLA_DUMP|PROGRAM.pte]
 */
#define TENURE_EXPERIMENTAL
#include <tenure/foreign.h>

#include <inttypes.h>
#include <stdio.h>

/* The values that hold an arena at its peak. */
static void show_arena(const tn_foreign *foreign, uint32_t number) {
    uint32_t count, held[5];
    const tn_foreign_arena *arena = &tn_foreign_arenas(foreign, &count)[number];
    const tn_foreign_value *values = tn_foreign_values(foreign, &count);
    printf("%s: %" PRIu64 " bytes; at least %" PRIu64 " are needed\n", arena->name, arena->size,
           arena->bound);
    uint32_t holders = tn_foreign_holders(foreign, number, arena->step, held, 5);
    printf("  %u buffers at step %" PRId64 " (%s)\n", holders, arena->step,
           tn_foreign_step(foreign, arena->step));
    for (uint32_t i = 0; i < holders && i < 5; i++)
        printf("  %12" PRIu64 " bytes  %s  %s\n", values[held[i]].size, values[held[i]].name,
               values[held[i]].source);
}

int main(int count, char **arguments) {
    const char *path = count > 1 ? arguments[1] : "examples/foreign/xla";
    tn_foreign *foreign;
    tn_error error = {0};
    uint32_t arenas;
    tn_status status = tn_foreign_load(path, NULL, &foreign, &error);
    if (status == TN_OK) {
        status = tn_foreign_verify(foreign, NULL, &error);
        const tn_foreign_arena *all = tn_foreign_arenas(foreign, &arenas);
        for (uint32_t i = 0; i < arenas; i++)
            if (all[i].use == TN_FOREIGN_PLANNED) show_arena(foreign, i);
        tn_foreign_destroy(foreign);
    }
    if (status != TN_OK) fprintf(stderr, "%s: %s\n", error.where, error.message);
    return tn_status_exit_code(status);
}
