/* shim.h - the calls of MPI that Tenure needs, as a table that does not depend on mpi.h.
 *
 * The constants of MPI are addresses inside one implementation, so code that includes mpi.h works
 * only with the library for which it was built. Tenure has such code only in tenure-mpi.so
 * (shim.c), which is built if mpi.h is found and loaded when a world of ranks needs it. The library
 * and the command themselves do not need MPI.
 *
 * Functions that return int return 0, or a code for MPI_Error_string. Only one thread may call
 * them.
 */
#ifndef TN_DIST_SHIM_H
#define TN_DIST_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#define TN__SHIM_VERSION 2
#define TN__SHIM_SYMBOL "tenure_mpi_shim"

enum { /* Kinds of messages. A receive gets only messages of the kind that it asks for. */
       TN__SHIM_TAGGED,
       TN__SHIM_GROUP,
       TN__SHIM_CONTROL, /* a notice; received from any rank */
       TN__SHIM_KINDS
};

typedef struct tn__shim {
    int version;          /* version of this table: TN__SHIM_VERSION */
    size_t request_bytes; /* bytes of the request that `post` fills in */
    int (*start)(int *rank, int *ranks,
                 bool *serial); /* *serial: whether MPI allows this thread to make the calls */
    int (*post)(bool sends, int kind, int peer, int number, void *data, int bytes, void *request);
    /* Starts a receive if its message has arrived. *there: whether it has; *bytes: its size. The
     * receive is started only if the message has exactly the expected size, because Open MPI 4.1
     * writes past the buffer if a message is longer. */
    int (*match)(int kind, int peer, int number, void *data, int most, bool *there, int *bytes,
                 void *request);
    /* Sets *done to whether a request is complete, and *count to the bytes received. */
    int (*test)(void *request, bool *done, int *count);
    int (*cancel)(void *request); /* Cancels a request and waits until it is cancelled. */
    void (*words)(int code, char *text, size_t room);
    int (*finish)(void);
    void (*abort)(int status);
} tn__shim;

#endif
