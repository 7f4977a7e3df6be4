/* shim.h - the calls of MPI that Tenure needs, as a table that does not depend on mpi.h.
 *
 * Constants of MPI are addresses inside one implementation, so code that uses mpi.h is bound to the
 * library that it was built with. That code is tenure-mpi.so (shim.c): it is built where mpi.h is
 * found, and loaded when a world needs it. The library and the command do not need MPI.
 *
 * All functions return 0, or a code for MPI_Error_string. All are called by one thread.
 */
#ifndef TN_DIST_SHIM_H
#define TN_DIST_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#define TN__SHIM_VERSION 2
#define TN__SHIM_SYMBOL "tenure_mpi_shim"

enum { /* a message of one kind only matches receives of the same kind */
       TN__SHIM_TAGGED,
       TN__SHIM_GROUP,
       TN__SHIM_CONTROL, /* from any rank */
       TN__SHIM_KINDS
};

typedef struct tn__shim {
    int version;          /* TN__SHIM_VERSION */
    size_t request_bytes; /* size of the request that post fills in */
    int (*start)(int *rank, int *ranks,
                 bool *serial); /* serial: the calls of this thread are never concurrent */
    int (*post)(bool sends, int kind, int peer, int number, void *data, int bytes, void *request);
    /* A receive. It is started only when its message has arrived and has this size, because Open
     * MPI 4.1 writes past the buffer if the message is longer. *there: it has arrived, with *bytes;
     * it is started if the sizes agree. */
    int (*match)(int kind, int peer, int number, void *data, int most, bool *there, int *bytes,
                 void *request);
    /* Is it complete? count: bytes received. */
    int (*test)(void *request, bool *done, int *count);
    int (*cancel)(void *request); /* and waits until it is cancelled */
    void (*words)(int code, char *text, size_t room);
    int (*finish)(void);
    void (*abort)(int status);
} tn__shim;

#endif
