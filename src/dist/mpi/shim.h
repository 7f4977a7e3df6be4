/* shim.h - what is asked of MPI, as a table with no word of mpi.h in it.
 *
 * Constants of MPI are addresses inside one implementation, so code that uses mpi.h is bound to the
 * library that it was built with. That code is tenure-mpi.so (shim.c), built where mpi.h is found
 * and loaded when a world asks for it; the library and the command need no MPI.
 *
 * All functions return 0, or what MPI_Error_string is asked about. All are called by one thread.
 */
#ifndef TN_DIST_SHIM_H
#define TN_DIST_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#define TN__SHIM_VERSION 2
#define TN__SHIM_SYMBOL "tenure_mpi_shim"

enum { /* messages of each kind meet those of the same kind alone */
       TN__SHIM_TAGGED,
       TN__SHIM_GROUP,
       TN__SHIM_CONTROL, /* from anybody */
       TN__SHIM_KINDS
};

typedef struct tn__shim {
    int version;          /* TN__SHIM_VERSION */
    size_t request_bytes; /* of what post fills in */
    int (*start)(int *rank, int *ranks,
                 bool *serial); /* serial: calls of this thread are in order */
    int (*post)(bool sends, int kind, int peer, int number, void *data, int bytes, void *request);
    /* A receive, begun when its message is there and has this size: Open MPI 4.1 writes behind the
     * buffer where a long message is longer. *there: it is, with *bytes; begun where both agree. */
    int (*match)(int kind, int peer, int number, void *data, int most, bool *there, int *bytes,
                 void *request);
    /* Whether it is over; count: bytes that came. */
    int (*test)(void *request, bool *done, int *count);
    int (*cancel)(void *request); /* and waits for that */
    void (*words)(int code, char *text, size_t room);
    int (*finish)(void);
    void (*abort)(int status);
} tn__shim;

#endif
