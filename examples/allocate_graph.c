/* allocate_graph.c - addresses for the tensors of a graph: sizes and uses go in, offsets come out.
 *
 *     cc allocate_graph.c $(pkg-config --cflags --libs tenure) && ./a.out
 */
#include <stdio.h>
#include <tenure/plan.h>

int main(void) {
    const uint64_t sizes[] = {602112, 1605632, 1605632, 401408, 4000}; /* bytes */
    const tn_use uses[] = {{0, 0}, {0, 1},                             /* step 0: conv    0 -> 1 */
                           {1, 1}, {1, 2},                             /* step 1: relu    1 -> 2 */
                           {2, 2}, {2, 3},                             /* step 2: pool    2 -> 3 */
                           {3, 3}, {3, 4}};                            /* step 3: product 3 -> 4 */
    uint64_t offsets[5], arena;
    tn_error error;
    if (tn_plan_uses(sizes, 5, uses, 8, NULL, offsets, &arena, &error) != TN_OK)
        return fprintf(stderr, "%s\n", error.message), 1;
    for (int i = 0; i < 5; i++) printf("%d at %llu\n", i, (unsigned long long)offsets[i]);
    printf("arena: %llu bytes\n", (unsigned long long)arena);
    return 0;
}
