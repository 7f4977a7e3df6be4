/* shim.c - the library tenure-mpi.so: the few calls of MPI that carry messages (shim.h). */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "run/dist/mpi/shim.h"

/* Global variables, because MPI itself exists once per process. */
static MPI_Comm shim_comms[TN__SHIM_KINDS];

static int shim_start(int *rank, int *ranks, bool *serial) {
    int given, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given);
    if (code != MPI_SUCCESS) return code;
    *serial = given >= MPI_THREAD_SERIALIZED;
    for (int k = 0; k < TN__SHIM_KINDS; k++) {
        code = MPI_Comm_dup(MPI_COMM_WORLD, &shim_comms[k]);
        if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(shim_comms[k], MPI_ERRORS_RETURN);
        if (code != MPI_SUCCESS) return code;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Comm_rank(MPI_COMM_WORLD, rank);
    return code != MPI_SUCCESS ? code : MPI_Comm_size(MPI_COMM_WORLD, ranks);
}

static int shim_post(bool sends, int kind, int peer, int number, void *data, int bytes,
                     void *request) {
    if (sends) return MPI_Isend(data, bytes, MPI_BYTE, peer, number, shim_comms[kind], request);
    return MPI_Irecv(data, bytes, MPI_BYTE, peer < 0 ? MPI_ANY_SOURCE : peer, number,
                     shim_comms[kind], request);
}

static int shim_match(int kind, int peer, int number, void *data, int most, bool *there, int *bytes,
                      void *request) {
    MPI_Message message;
    MPI_Status status;
    int flag = 0, code = MPI_Improbe(peer, number, shim_comms[kind], &flag, &message, &status);
    *there = flag != 0;
    if (code != MPI_SUCCESS || !flag) return code;
    code = MPI_Get_count(&status, MPI_BYTE, bytes);
    if (code != MPI_SUCCESS || *bytes != most) return code;
    return MPI_Imrecv(data, most, MPI_BYTE, &message, request);
}

static int shim_test(void *request, bool *done, int *count) {
    MPI_Status status;
    int flag = 0, code = MPI_Test(request, &flag, &status);
    *done = flag != 0;
    if (code != MPI_SUCCESS || !flag) return code;
    return MPI_Get_count(&status, MPI_BYTE, count);
}

static int shim_cancel(void *request) {
    int code = MPI_Cancel(request);
    return code != MPI_SUCCESS ? code : MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void shim_words(int code, char *text, size_t room) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, words, &length);
    snprintf(text, room, "%s", words);
}

static int shim_finish(void) {
    for (int k = 0; k < TN__SHIM_KINDS; k++) MPI_Comm_free(&shim_comms[k]);
    return MPI_Finalize();
}

static void shim_abort(int status) { MPI_Abort(MPI_COMM_WORLD, status); }

__attribute__((visibility("default"))) extern const tn__shim tenure_mpi_shim;
const tn__shim tenure_mpi_shim = {.version = TN__SHIM_VERSION,
                                  .request_bytes = sizeof(MPI_Request),
                                  .start = shim_start,
                                  .post = shim_post,
                                  .match = shim_match,
                                  .test = shim_test,
                                  .cancel = shim_cancel,
                                  .words = shim_words,
                                  .finish = shim_finish,
                                  .abort = shim_abort};
