/* version.c - prints version and revision, the libraries of this build, and the kernel library
 * found on this machine.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"

#include "tenure_revision.h" /* TENURE_REVISION, made by tools/revision.cmake */

int cli_version(void) {
    char library[TN_LIBRARY_TEXT_MAX];
    tn_error missing;
    printf("tenure %s", tn_version());
    if (*TENURE_REVISION != '\0') printf(" (revision %s)", TENURE_REVISION);
    if (tn_kernels_library(library, &missing))
        printf("\nkernels   %s; plain loops\n", library);
    else
        printf("\nkernels   plain loops; %s\n", missing.message);
#ifdef TENURE_MINIMAL
    puts("built     with the C library only: no JSON, no packed data sets");
#else
    puts("built     with JSON (jansson) and packed data sets (zlib)");
#endif
    puts("licence   Apache-2.0");
    return cli_finish(0);
}
