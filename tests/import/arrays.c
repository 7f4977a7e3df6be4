/* arrays.c - loads each array named and saves it beside as NAME.out; for arrays.py.
 *
 *     import_arrays FILE...
 *
 * Prints one line for each: "OK" or the status and the error.
 */
#include <stdio.h>

#include <tenure/graph.h>

int main(int count, char **paths) {
    for (int i = 1; i < count; i++) {
        char out[600];
        tn_array array = {0};
        tn_error error = {0};
        snprintf(out, sizeof out, "%s.out", paths[i]);
        tn_status status = tn_array_load(paths[i], NULL, &array, &error);
        if (status == TN_OK) status = tn_array_save(out, &array, NULL, &error);
        if (status == TN_OK)
            printf("OK\n");
        else
            printf("%s %s: %s\n", tn_status_name(status), error.where, error.message);
        tn_array_release(&array, NULL);
    }
    return 0;
}
