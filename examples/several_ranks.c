/* several_ranks.c - a mean over ranks: threads of this process, or processes under mpirun.
 *
 *     several_ranks [RANKS]            threads (4)
 *     mpirun -n 4 several_ranks 4      processes
 */
#define TENURE_EXPERIMENTAL
#include <stdio.h>
#include <stdlib.h>

#include <tenure/tenure.h>

/* On every rank: all have the mean behind the call, and the same bits of it. */
static tn_status one_rank(void *self, tn_world *world, tn_error *error) {
    const tn_exchange *to = tn_world_exchange(world);
    float mean = (float)(to->rank + 1);
    (void)self;
    tn_status status = to->reduce(to->self, 0, &mean, 1, TN_FLOAT32, TN_REDUCTION_MEAN, error);
    if (status == TN_OK && to->rank == 0)
        printf("%u ranks, mean %g, %llu bytes sent by rank 0\n", to->ranks, (double)mean,
               (unsigned long long)tn_world_measure(world).bytes);
    return status;
}

/* On one rank alone, when a rank has failed. */
static int tell(void *self, tn_status status, const tn_error *error) {
    (void)self;
    fprintf(stderr, "%s: %s\n", error->where, error->message);
    return tn_status_exit_code(status);
}

int main(int count, char **words) {
    tn_world_options options = TN_WORLD_OPTIONS_INIT;
    tn_error error;
    options.ranks = count > 1 ? (uint32_t)atoi(words[1]) : 4;
    options.tell = tell;
    return tn_status_exit_code(tn_world_run(&options, one_rank, NULL, &error));
}
